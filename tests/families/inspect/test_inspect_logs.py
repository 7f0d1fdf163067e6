"""Logs that Inspect wrote, of ours and of others."""

import logging
import signal
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import inspect_ai
import pytest
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import list_eval_logs, read_eval_log
from inspect_ai.model import ChatMessageUser
from inspect_ai.scorer import includes, match
from inspect_ai.solver import generate, system_message

import asktell
from asktell.errors import InvalidArgumentError
from asktell_adapters.finished import inspect_files
from asktell_adapters.harnesses.inspect.logs import observe_logs
from asktell_adapters.harnesses.inspect.task import InspectTask

LONG = "yes and so on " * 50
SAMPLES = [
    Sample("yes", target="yes"),
    Sample([ChatMessageUser(content=LONG)], target=["yes", "and"]),
    Sample("fail", target="yes"),
]
GOAL = asktell.BestFeasible("includes", {asktell.minimize("output_tokens"): 10})


def echo(messages: list[Any]) -> str:
    if messages[-1].text == "fail":
        raise ValueError("scripted")
    return str(messages[-1].text)


@pytest.fixture
def model(scripted: Callable[[Callable[[list[Any]], str]], Any]) -> Any:
    return scripted(echo)


def selector(*prompts: str, **options: Any) -> asktell.Selector:
    return asktell.Selector(prompts, GOAL, 6, "uniform", **{"examples": 3, **options})


def observed(selector: asktell.Selector) -> dict[tuple[int, int], tuple[float, ...]]:
    history = selector.state.history
    cells = zip(history.arms(), history.examples(), history.scores(), strict=True)
    return {
        (int(arm), int(example)): tuple(map(float, scores))
        for arm, example, scores in cells
    }


def test_our_own_logs_make_a_warm_start(
    model: Any, logs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = selector("A", "B")
    asktell.run(
        first,
        InspectTask(Task(SAMPLES, scorer=includes()), model),
        concurrency=6,
        progress=False,
    )
    again = selector("B", "C")
    with caplog.at_level(logging.WARNING, "asktell"):
        assert observe_logs(again, logs) == 2
    warning = caplog.messages[-1]
    assert (
        "4 samples of Inspect logs were skipped: 3 x There is no prompt 'A'" in warning
    )
    assert "scripted" in warning
    assert observed(again) == {(0, 0): (1.0, 3.0), (0, 1): (1.0, 3.0)}
    assert again.spent == 0
    asked = {(trial.prompt, trial.example) for trial in again.ask(6)}
    assert not asked & {("B", 0), ("B", 1)}


def test_examples_are_found_by_what_they_are(model: Any, logs: Path) -> None:
    asktell.run(
        selector("A", "B"),
        InspectTask(Task(SAMPLES, scorer=includes()), model),
        concurrency=6,
        progress=False,
    )
    other = selector("A")
    assert observe_logs(other, logs, dataset=[SAMPLES[2], SAMPLES[1]]) == 1
    assert set(observed(other)) == {(0, 1)}


def test_logs_of_others(model: Any, logs: Path) -> None:
    for text in ("A", "B", "unknown"):
        task = Task(
            SAMPLES,
            name=f"with {text}",
            solver=[system_message(text), generate()],
            scorer=[includes(), match()],
        )
        inspect_ai.eval(task, model=model, display="none", fail_on_error=False)
    ours = selector("A", "B")
    assert observe_logs(ours, logs) == 0
    assert observe_logs(ours, logs, prompt="A") == 0
    by_name = lambda log: {"with A": "A", "with B": 1}.get(log.eval.task)  # noqa: E731
    assert observe_logs(ours, logs, prompt=by_name, dataset=Task(SAMPLES).dataset) == 4
    assert set(observed(ours)) == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_every_way_to_name_logs(model: Any, logs: Path) -> None:
    InspectTask(
        Task(SAMPLES, scorer=includes()), model, log_format="json"
    ).evaluate_batch([asktell.Trial(0, 0, "A", 0)])
    (file,) = logs.iterdir()
    assert file.suffix == ".json"
    infos = list_eval_logs(str(logs))
    for given in (
        str(logs),
        logs,
        str(file),
        [file],
        infos,
        infos[0],
        read_eval_log(str(file)),
    ):
        assert observe_logs(selector("A"), given) == 1
    (logs / "broken.eval").write_text("not a log")
    with pytest.raises(
        InvalidArgumentError, match=r"broken.eval.* is not an Inspect log"
    ):
        observe_logs(selector("A"), logs)
    with pytest.raises(InvalidArgumentError, match="files, folders or EvalLogs"):
        observe_logs(selector("A"), 3)


def test_an_interrupted_batch_is_not_lost(
    scripted: Callable[..., Any], logs: Path
) -> None:
    answers = 0

    def interrupted(messages: list[Any]) -> str:
        nonlocal answers
        answers += 1
        if answers == 2:
            signal.raise_signal(signal.SIGINT)  # as Ctrl-C does
        return str(messages[-1].text)

    evaluator = InspectTask(
        Task(SAMPLES[:2], scorer=includes()), scripted(interrupted), max_samples=1
    )
    ours = selector("A", "B", examples=2)
    with pytest.raises(KeyboardInterrupt):
        asktell.run(ours, evaluator, progress=False)
    assert ours.spent == 0
    assert not ours.pending
    assert not ours.state.failures
    assert 1 <= observe_logs(ours, logs) < 4


def test_zstandard_is_unpacked_to_the_size_in_the_archive() -> None:
    import zstandard  # inspect-ai includes it

    data = zstandard.ZstdCompressor().compress(b"x" * 2**26)
    tracemalloc.start()
    assert inspect_files._decompressed(data, 100, Path("t.eval")) == b"x" * 100
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1e7
