"""Programs as evaluators, hostile ones too: nothing is lost, nothing hangs, and no process stays behind."""

import asyncio
import contextlib
import json
import math
import os
import shutil
import signal
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell import (
    BestFeasible,
    EvaluatorError,
    InvalidArgumentError,
    Selector,
    Study,
    Trial,
)
from asktell.running.evaluator import attempt_async
from asktell.studies.storages.memory import MemoryStorage
from asktell.testing.evaluator_contract import PROMPTS, EvaluatorContract, Make, Script
from asktell_adapters._util.session import Session, _Process
from asktell_adapters.evaluators import CommandEvaluator, Example, command
from asktell_adapters.llms.metering import Reading

TRIAL = Trial(7, "brief", "Be brief.", 1)
ROWS = [{"task": "a", "n": 1}, {"task": "b", "n": 2}]


def evaluator(
    code: str, timeout: float = 30.0, grace: float = 0.3, **options: Any
) -> CommandEvaluator:
    """One whose program is Python code."""
    return CommandEvaluator(
        [sys.executable, "-c", code], ROWS, timeout=timeout, grace=grace, **options
    )


def evaluated(code: str, trial: Trial = TRIAL, **options: Any) -> dict[str, float]:
    return asyncio.run(evaluator(code, **options)(trial))


def failed(code: str, **options: Any) -> EvaluatorError:
    with pytest.raises(EvaluatorError) as caught:
        evaluated(code, **options)
    return caught.value


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and waits for its parent to notice does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with contextlib.suppress(OSError):
        return (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            not in "ZX"
        )
    return True


def ends(pid: int) -> bool:
    """Whether the process is gone, or will be in a moment."""
    until = time.monotonic() + 5.0
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not is_alive(pid)


def children() -> set[int]:
    """The child processes of this process, zombies included. Empty where there is no /proc."""
    found: set[int] = set()
    for thread in Path("/proc/self/task").glob("*"):
        with contextlib.suppress(OSError):
            found |= set(map(int, (thread / "children").read_text().split()))
    return found


@pytest.fixture(autouse=True)
def before() -> Iterator[set[int]]:
    """The children before a test, such as those of other tests in this process. Afterwards there are no others.

    Every program has ended, and has been waited for: none is a zombie.
    """
    others = children()
    yield others
    assert children() <= others


class TestCommands(EvaluatorContract):
    batches = (1, 4)

    @pytest.fixture
    def make(self, tmp_path: Path) -> Make:
        def make(script: Script) -> CommandEvaluator:
            outcomes = {
                p: [script(p, example) for example in range(self.n_examples)]
                for p in PROMPTS
            }
            (tmp_path / "script.json").write_text(json.dumps(outcomes))
            (tmp_path / "agent.py").write_text(
                "import json, sys, time\n"
                "asked = json.load(sys.stdin)\n"
                "outcome = json.load(open('script.json'))[asked['prompt']][asked['example']['number']]\n"
                "if outcome == 'raises': raise RuntimeError('broken')\n"
                "if outcome == 'times out': time.sleep(60)\n"
                "said = {'no score': {}, 'nan': {'score': float('nan')}}.get(outcome, {'score': outcome})\n"
                "print(json.dumps(said))\n"
            )
            rows = [{"number": number} for number in range(self.n_examples)]
            return CommandEvaluator(
                [sys.executable, "-S", "agent.py"],
                rows,
                timeout=2.0,
                folder=tmp_path,
                grace=0.3,
                repeatable=True,
            )

        return make


ECHO = "import json, sys; asked = json.load(sys.stdin); print(json.dumps({'output': json.dumps(asked), 'score': 1}))"


def test_a_program_gets_its_trial_on_standard_input() -> None:
    found = evaluated(ECHO)
    said = json.loads(found.details["output"])  # type: ignore[attr-defined]
    assert said == {
        "prompt": "Be brief.",
        "prompt_id": "brief",
        "candidate": {"prompt": "Be brief."},
        "example": {"task": "b", "n": 2},
        "trial": 7,
    }
    of_two = Trial(
        0, "full/x", "full/x", 0, {"skill": "Read\n\ud800 first.", "model": None}
    )
    said = json.loads(evaluated(ECHO, of_two).details["output"])  # type: ignore[attr-defined]
    assert said["candidate"] == of_two.candidate


def test_an_example_is_a_row_with_its_reference() -> None:
    example = Example("2 + 2", "4", "sum", {"level": 1}, "question")
    command = CommandEvaluator(["true"], [example])
    said = json.loads(command.request(Trial(0, 0, "p", 0)))
    assert said["example"] == {"question": "2 + 2", "reference": "4", "level": 1}


def test_numbers_are_metrics_and_the_rest_is_left_out() -> None:
    said = "{'a': 0.5, 'b': True, 'c': 'x', 'd': None, 'e': [1], 'cost': 0.25, 'f': 10**400}"
    found = evaluated(f"import json; print(json.dumps({said}))")
    assert {name: score for name, score in found.items() if name != "seconds"} == {
        "a": 0.5,
        "b": 1.0,
        "cost": 0.25,
    }


def test_seconds_are_measured_where_they_are_not_printed() -> None:
    assert 0.2 < evaluated("import time; time.sleep(0.2); print('{}')")["seconds"] < 20
    assert evaluated("print('{\"seconds\": 3}')")["seconds"] == 3.0


def test_the_cost_is_the_trials_and_seconds_may_be_a_metric() -> None:
    goal = BestFeasible("score", subject_to={"seconds": asktell.at_most(100)})
    selector = Selector(["p", "q"], goal, asktell.Budget(4, 10.0), examples=2)
    command = evaluator('print(\'{"score": 1, "cost": 0.25}\')', repeatable=True)
    result = asktell.run(selector, command, concurrency=2, progress=False)
    assert selector.spent_cost == 1.0
    assert all(0 < entry.estimate["seconds"] < 30 for entry in result.prompts)


def test_a_failure_has_the_end_of_standard_error_and_what_was_paid() -> None:
    code = "import sys; print('{\"cost\": 0.5}'); sys.stderr.write('x' * 50000 + '\\x1b[31mno \\x00key'); sys.exit(3)"
    error = failed(code)
    assert str(error).startswith("the program ended with exit code 3: ...xxx")
    assert str(error).endswith("xno key")
    assert len(str(error)) < 600
    assert error.cost == 0.5  # type: ignore[attr-defined]
    selector = Selector(["p", "q"], BestFeasible("score"), 4, "uniform", examples=2)
    with pytest.raises(asktell.EvaluatorError, match="all failed in the same way"):
        asktell.run(selector, evaluator(code), progress=False)
    assert selector.spent_cost == 2.0


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "pass",
            "must be a JSON object with the metrics, but it printed nothing. Its standard error was empty",
        ),
        ("print('\\n \\n')", "but it printed nothing"),
        ("print('{\"score\": 1}'); print('done')", "got 'done'"),
        ("print([1])", r"got '\[1\]'"),
        ("print('{\"score\": 1')", "must be a JSON object"),
        ("print('[' * 100000)", "must be a JSON object"),
        ("import os; os.write(1, bytes(range(256)) * 9)", "must be a JSON object"),
        ("print('x' * 3_000_000)", "got a line of more than 1,048,576 bytes"),
        ("import sys; sys.exit('no key')", "ended with exit code 1: no key"),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
            "ended with the signal SIGKILL",
        ),
    ],
)
def test_what_is_no_answer_is_a_failure(code: str, words: str) -> None:
    error = failed(code)
    assert str(error).startswith("the ")
    with pytest.raises(EvaluatorError, match=words):
        raise error


@pytest.mark.parametrize(
    "code",
    [
        'print(\'{"score": 0, "cost": 9}\'); print(\'{"score": 1}\')',
        "import os; os.write(1, b'\\xff\\x00\\n{\"score\": 1}')",
        "import sys; sys.stdout.write('noise\\r\\n{\"score\": 1}\\r\\n\\n')",
        "print('x' * 5_000_000); print('{\"score\": 1}')",
        "import sys; sys.stderr.write('e' * 5_000_000); print('{\"score\": 1}')",
        "import os, sys; os.close(0); print('{\"score\": 1}')",
    ],
)
def test_the_last_line_counts_whatever_comes_before(code: str) -> None:
    found = evaluated(code)
    assert found["score"] == 1.0
    assert "cost" not in found


def test_what_is_not_finite_is_refused_as_a_metric_of_the_goal_only() -> None:
    found = evaluated('print(\'{"score": 1, "other": NaN}\')')
    assert math.isnan(found["other"])
    selector = Selector(["p", "q"], BestFeasible("score"), 4, "uniform", examples=2)
    command = evaluator("print('{\"score\": NaN}')")
    with pytest.raises(EvaluatorError, match="nan"):
        asktell.run(selector, command, progress=False, max_failures_in_a_row=2)


def test_a_program_that_ignores_its_input_gets_along_with_a_long_one() -> None:
    long = Trial(0, 0, "x" * 3_000_000, 0)
    assert evaluated("print('{\"score\": 1}')", long)["score"] == 1.0


def test_endless_output_ends_with_the_timeout_and_stays_small() -> None:
    evaluated("print('{}')")  # what is imported late
    tracemalloc.start()
    error = failed("while True: print('x' * 10000)", timeout=1.0)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert str(error).startswith("the program was stopped at its timeout of 1 seconds")
    assert most < 20e6


IGNORE = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('{\"cost\": 2}', flush=True); "


def test_a_program_that_ignores_sigterm_is_killed_and_its_cost_is_known() -> None:
    start = time.monotonic()
    error = failed(IGNORE + "time.sleep(60)", timeout=1.0)
    assert time.monotonic() - start < 10
    assert "its timeout" in str(error)
    assert error.cost == 2.0  # type: ignore[attr-defined]


def test_a_program_may_tidy_up_after_sigterm(tmp_path: Path) -> None:
    note = tmp_path / "note"
    code = (
        "import signal, sys, time\n"
        f"def tidy(*_): open({str(note)!r}, 'w').write('tidy'); sys.exit()\n"
        "signal.signal(signal.SIGTERM, tidy); time.sleep(60)"
    )
    failed(code, timeout=1.0, grace=20.0)
    assert note.read_text() == "tidy"


def child(folder: Path, own_output: bool, ignores: bool = False) -> str:
    """Code that starts a child, which would outlive it by a minute, and writes its id into a file."""
    how = "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL" if own_output else ""
    ignore = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        if ignores
        else ""
    )
    code = f"{ignore}import os, time; open({str(folder / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    return (
        "import os, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {code!r}], {how})\n"
        f"while not os.path.exists({str(folder / 'pid')!r}) or not open({str(folder / 'pid')!r}).read():\n"
        "    time.sleep(0.01)\n"
    )


@pytest.mark.parametrize("own_output", [False, True])
@pytest.mark.parametrize("ignores", [False, True])
def test_children_that_outlive_the_program_are_ended(
    tmp_path: Path, own_output: bool, ignores: bool
) -> None:
    start = time.monotonic()
    found = evaluated(child(tmp_path, own_output, ignores) + "print('{\"score\": 1}')")
    assert found["score"] == 1.0
    assert time.monotonic() - start < 20
    assert ends(int((tmp_path / "pid").read_text()))


def test_children_are_ended_at_a_timeout(tmp_path: Path) -> None:
    failed(child(tmp_path, False) + "time.sleep(60)", timeout=2.0)
    assert ends(int((tmp_path / "pid").read_text()))


def test_a_child_in_a_session_of_its_own_hangs_nothing(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    start = time.monotonic()
    found = evaluated(
        "import os, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {code!r}], start_new_session=True)\n"
        f"while not os.path.exists({str(note)!r}) or not open({str(note)!r}).read(): time.sleep(0.01)\n"
        "print('{\"score\": 1}')"
    )
    os.kill(int(note.read_text()), signal.SIGKILL)
    assert found["score"] == 1.0
    assert time.monotonic() - start < 20


# Ways in which a program leaves its process group, its session, or both
LEAVING = {
    "timeout": "os.setpgid(0, 0)",
    "set -m": "os.setpgid(0, 0); os.fork() and time.sleep(60)",
    "setsid": "os.setsid()",
    "setsid of a child of a child": "os.setpgid(0, 0); os.fork() and time.sleep(60); os.setsid()",
}


def leaving(folder: Path, how: str) -> str:
    """Code that starts an agent which leaves the process group, ignores SIGTERM, and writes its id into a folder."""
    agent = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"{how}\n"
        f"open(f'{folder}/{{os.getpid()}}', 'w'); time.sleep(60)"
    )
    return f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-S', '-c', {agent!r}]); time.sleep(60)"


@pytest.mark.parametrize("how", LEAVING.values(), ids=list(LEAVING))
@pytest.mark.parametrize("has_proc", [True, False])
def test_what_leaves_the_process_group_is_stopped_too(
    tmp_path: Path, how: str, has_proc: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_proc:
        if shutil.which("ps") is None:
            pytest.skip("there is no ps")
        monkeypatch.setattr("asktell_adapters._util.session._ids", lambda: None)

    async def cancelled() -> None:
        running = asyncio.create_task(evaluator(leaving(tmp_path, how))(TRIAL))
        while not list(tmp_path.iterdir()):
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancelled())
    assert all(ends(int(each.name)) for each in tmp_path.iterdir())


@pytest.mark.skipif(shutil.which("timeout") is None, reason="there is no timeout")
@pytest.mark.parametrize("kind", ["timeout", "after its end"])
def test_an_agent_under_timeout_in_a_script_is_stopped(
    tmp_path: Path, kind: str
) -> None:
    agent = f'{sys.executable} -S -c \'import os, time; open(f"{tmp_path}/{{os.getpid()}}", "w"); time.sleep(60)\''
    script = f"timeout 50 {agent} {'&' if kind == 'after its end' else ''}\n"
    if kind == "after its end":
        script += f'while [ -z "$(ls {tmp_path})" ]; do sleep 0.01; done; echo \'{{"score": 1}}\''
    command = CommandEvaluator(["sh", "-c", script], ROWS, timeout=3.0, grace=0.3)
    if kind == "after its end":
        assert asyncio.run(command(TRIAL))["score"] == 1.0
    else:
        with pytest.raises(EvaluatorError, match="stopped at its timeout"):
            asyncio.run(command(TRIAL))
    (agent_file,) = tmp_path.iterdir()
    assert ends(int(agent_file.name))


def test_a_process_id_that_is_used_again_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A descendant that had left the session ends, and a stranger gets its id."""
    signals: list[int] = []
    listed = [_Process((10, "1"), 1), _Process((11, "2"), 10)]
    monkeypatch.setattr("asktell_adapters._util.session._ids", lambda: None)
    monkeypatch.setattr(
        "asktell_adapters._util.session._macos_processes", lambda: iter(listed)
    )
    monkeypatch.setattr(os, "getsid", lambda pid: pid)
    monkeypatch.setattr(os, "kill", lambda pid, number: signals.append(pid))
    session = Session(10)
    assert session.signal(signal.SIGTERM)
    assert sorted(signals) == [10, 11]
    # Its parent has ended, so that it is a child of the first process.
    listed[:] = [_Process((11, "2"), 1)]
    assert session.signal(signal.SIGKILL)
    listed[:] = [_Process((11, "3"), 1)]
    assert not session.signal(signal.SIGKILL)
    assert sorted(signals) == [10, 11, 11]


def test_many_short_lines_do_not_hold_up_the_event_loop() -> None:
    """The cost of a failure is looked for in few lines, however many there are."""
    lines = [b'{"cost": 5}', *[b"{}"] * 350_000]
    error = command._with_cost(EvaluatorError("failed"), lines, Reading())
    assert error.cost == 5  # type: ignore[attr-defined]
    n_read = 0

    def counted(line: bytes) -> None:
        nonlocal n_read
        n_read += 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "_metrics", counted)
        lines = [b'{"cost": []}'] * 100_000
        command._with_cost(EvaluatorError("failed"), lines, Reading())
    assert n_read <= 1000


def test_a_cancelled_evaluation_ends_its_program(tmp_path: Path) -> None:
    async def cancelled() -> None:
        task = asyncio.create_task(
            evaluator(child(tmp_path, False, ignores=True) + "time.sleep(60)")(TRIAL)
        )
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert ends(int((tmp_path / "pid").read_text()))


async def cancelled_when(ready: Any, command: CommandEvaluator) -> Any:
    """What becomes of an evaluation that is cancelled once something is ready: its scores, or the error."""
    task = asyncio.create_task(attempt_async(command, TRIAL))  # as in a run
    while not ready():
        await asyncio.sleep(0.005)
    task.cancel()
    return await task


@pytest.mark.parametrize("ignores", [False, True])
def test_a_program_that_is_cancelled_has_the_last_cost_that_it_printed(
    tmp_path: Path, ignores: bool
) -> None:
    ignore = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        if ignores
        else ""
    )
    said = (
        "import json, sys\n"
        'print(json.dumps({"score": 0.5, "cost": 1}))\n'
        'print(json.dumps({"score": 0.75, "cost": 2.5}))\n'
        "print('step 3')\n"
        # A line that is not complete
        "sys.stdout.write('{\"cost\": 9'); sys.stdout.flush()\n"
    )
    code = ignore + said + child(tmp_path, False, ignores) + "time.sleep(60)"

    def ready() -> bool:
        return (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text())

    outcome = asyncio.run(cancelled_when(ready, evaluator(code)))
    assert isinstance(outcome, asyncio.CancelledError)
    assert outcome.cost == 2.5  # type: ignore[attr-defined]
    assert ends(int((tmp_path / "pid").read_text()))


def test_a_program_that_had_ended_when_it_was_cancelled_has_its_scores(
    tmp_path: Path, before: set[int]
) -> None:
    """Its end has not been noticed yet, or its children are being ended."""
    code = child(tmp_path, False, ignores=True) + 'print(\'{"score": 1, "cost": 2}\')'

    def is_over() -> bool:
        with contextlib.suppress(OSError, IndexError):
            own = children() - before
            ended = [
                Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[0]
                for each in own
            ]
            return (tmp_path / "pid").exists() and (not ended or "Z" in ended)
        return False

    for _ in range(3):
        (tmp_path / "pid").unlink(missing_ok=True)
        outcome = asyncio.run(cancelled_when(is_over, evaluator(code)))
        assert {name: outcome[name] for name in ("score", "cost")} == {
            "score": 1.0,
            "cost": 2.0,
        }
        assert ends(int((tmp_path / "pid").read_text()))


def test_a_program_that_scores_as_it_is_stopped_was_not_first(tmp_path: Path) -> None:
    note = tmp_path / "note"
    code = (
        "import pathlib, signal, sys, time\n"
        'def hurry(*_): print(\'{"score": 1, "cost": 3}\', flush=True); sys.exit()\n'
        f"signal.signal(signal.SIGTERM, hurry); pathlib.Path({str(note)!r}).touch(); time.sleep(60)"
    )
    outcome = asyncio.run(cancelled_when(note.exists, evaluator(code, grace=20.0)))
    assert isinstance(outcome, asyncio.CancelledError)
    assert outcome.cost == 3.0  # type: ignore[attr-defined]


@pytest.mark.parametrize("where", ["selector", "study"])
def test_the_programs_of_a_prompt_that_was_retired_are_stopped(
    tmp_path: Path, where: str
) -> None:
    code = (
        "import json, os, pathlib, sys, time\n"
        "asked = json.load(sys.stdin)\n"
        "print('{\"cost\": 0.5}', flush=True)\n"
        "if asked['prompt_id'] == 'p':\n"
        f"    pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch(); time.sleep(60)\n"
        'print(\'{"score": 1, "cost": 1}\')'
    )
    target: Any = Selector(
        {"p": "p", "q": "q"}, BestFeasible("score"), 4, "uniform", examples=2
    )
    if where == "study":
        target = Study.create(MemoryStorage(), "s", target)

    def retire() -> None:
        while not list(tmp_path.iterdir()):
            time.sleep(0.01)
        target.retire("p", "not wanted")

    other = threading.Thread(target=retire)
    other.start()
    start = time.monotonic()
    asked = target if where == "selector" else target.worker("w", lease=0.6)
    result = asktell.run(
        asked, evaluator(code, repeatable=True), concurrency=2, progress=False
    )
    other.join()
    assert time.monotonic() - start < 30
    stopped = [int(each.name) for each in tmp_path.iterdir()]
    assert stopped
    assert all(ends(pid) for pid in stopped)
    assert [(entry.evaluations, entry.failures) for entry in result.prompts] == [
        (0, 0),
        (2, 0),
    ]
    assert result.spent_cost == 2 + 0.5 * len(stopped)
    assert not target.pending


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(),
    reason="signals need the main thread",
)
def test_ctrl_c_ends_the_programs_of_a_run_and_gives_their_trials_back(
    tmp_path: Path,
) -> None:
    selector = Selector(["p", "q"], BestFeasible("score"), 4, "uniform", examples=2)
    code = f"import os, time; open(f'{tmp_path}/{{os.getpid()}}', 'w'); time.sleep(60)"

    def interrupt() -> None:
        while len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    # A shell starts its background jobs with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            asktell.run(selector, evaluator(code), concurrency=2, progress=False)
    finally:
        signal.signal(signal.SIGINT, before)
    assert all(ends(int(each.name)) for each in tmp_path.iterdir())
    assert (selector.spent, selector.pending) == (0, [])


def test_one_that_hangs_holds_up_no_other() -> None:
    code = (
        "import json, sys, time\n"
        "asked = json.load(sys.stdin)\n"
        "if asked['prompt'] == 'p' and asked['example']['n'] == 2: time.sleep(60)\n"
        "print('{\"score\": 1}')"
    )
    rows = [{"n": n} for n in range(6)]
    command = CommandEvaluator(
        [sys.executable, "-c", code], rows, timeout=2.0, grace=0.3, repeatable=True
    )
    selector = Selector(["p", "q"], BestFeasible("score"), 12, "uniform", examples=6)
    start = time.monotonic()
    result = asktell.run(
        selector, command, concurrency=3, progress=False, max_failures_in_a_row=None
    )
    assert time.monotonic() - start < 12
    assert (selector.spent, [entry.failures for entry in result.prompts]) == (
        11,
        [1, 0],
    )


def test_the_environment_is_passed_on_and_no_shell_reads_the_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AGENT_TEST", "passed on")
    code = "import json, os, sys; print(json.dumps({'output': os.environ['AGENT_TEST'] + sys.argv[1]}))"
    command = CommandEvaluator([sys.executable, "-c", code, "; $HOME *"], ROWS)
    assert asyncio.run(command(TRIAL)).details == {"output": "passed on; $HOME *"}


def test_a_program_that_is_gone_by_then_is_a_failure(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text("#!/bin/sh\necho '{\"score\": 1}'\n")
    program.chmod(0o755)
    command = CommandEvaluator(["./agent"], ROWS, folder=tmp_path)
    assert asyncio.run(command(TRIAL))["score"] == 1.0
    program.unlink()
    with pytest.raises(EvaluatorError, match=r"'\./agent' could not be started"):
        asyncio.run(command(TRIAL))


@pytest.mark.parametrize(
    ("command", "options", "words"),
    [
        ("python agent.py", {}, "a list of words"),
        ([], {}, "a list of words"),
        (["python", 3], {}, "a list of words"),
        (["a\0b"], {}, "NUL"),
        (
            ["no-such-program"],
            {},
            "The program 'no-such-program' does not exist on the PATH",
        ),
        (
            ["./no-such-program"],
            {},
            "The program './no-such-program' does not exist in",
        ),
        (
            ["true"],
            {"folder": "no-such-folder"},
            "The program 'true' cannot start in the folder 'no-such-folder'",
        ),
        (
            ["true"],
            {"timeout": 0},
            "timeout must be a positive, finite number of seconds",
        ),
        (
            ["true"],
            {"grace": math.inf},
            "grace must be a positive, finite number of seconds",
        ),
        (["true"], {"examples": []}, "at least one example"),
    ],
)
def test_what_cannot_be_used_is_refused(
    command: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        CommandEvaluator(command, **{"examples": ROWS, **options})


def test_elsewhere_it_says_where_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "killpg")
    with pytest.raises(InvalidArgumentError, match="on Linux and macOS only"):
        CommandEvaluator(["true"], ROWS)
