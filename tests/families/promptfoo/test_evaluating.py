"""What promptfoo evaluates, and what becomes of whatever goes wrong there."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

import asktell
from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell.testing.evaluator_contract import (
    PROMPTS,
    EvaluatorContract,
    Make,
    Script,
    good,
)
from asktell_adapters.harnesses.promptfoo import PromptfooEvaluator
from asktell_adapters.harnesses.promptfoo import evaluator as module
from tests.words import lacking

Scripted = Callable[..., PromptfooEvaluator]


def trials(*pairs: tuple[str, int]) -> list[asktell.Trial]:
    return [
        asktell.Trial(id_, prompt, prompt, example)
        for id_, (prompt, example) in enumerate(pairs)
    ]


class TestContract(EvaluatorContract):
    metric: ClassVar[str] = "quality"

    @pytest.fixture
    def make(self, scripted: Scripted) -> Make:
        def from_script(script: Script) -> PromptfooEvaluator:
            table = {
                f"{p}|{i}": script(p, i)
                for p in PROMPTS
                for i in range(self.n_examples)
            }
            return scripted(
                table, timeout=2.0 if "times out" in table.values() else 60.0
            )

        return from_script


def test_a_failure_costs_what_the_provider_says(scripted: Scripted) -> None:
    (outcome,) = scripted({"p|0": "fails"}).evaluate_batch(trials(("p", 0)))
    assert isinstance(outcome, EvaluatorError)
    assert "the provider failed" in str(outcome)
    assert getattr(outcome, "cost", None) in (0.5, 0.0)  # not every version keeps it


def test_usage_is_among_the_scores(scripted: Scripted) -> None:
    scores = scripted({"p|3": 0.75})("p", 3)
    assert scores.pop("latency") >= 0
    assert scores == {
        "quality": 0.75, "score": 1, "success": 1, "cost": 0.25, "tokens": 5, "input_tokens": 3, "output_tokens": 2
    }  # fmt: skip


def test_only_the_pair_that_kills_the_process_fails(
    scripted: Scripted, tmp_path: Path
) -> None:
    evaluator = scripted({"a|0": 0.25, "b|1": "dies", "c|2": 0.5})
    outcomes = evaluator.evaluate_batch(trials(("a", 0), ("b", 1), ("c", 2)))
    assert isinstance(outcomes[1], EvaluatorError)
    assert "ended with code 7" in str(outcomes[1])
    assert [outcomes[0]["quality"], outcomes[2]["quality"]] == [0.25, 0.5]
    assert evaluator("a", 0)["quality"] == 0.25


def test_only_the_pair_that_never_answers_fails(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluator = scripted({"a|0": 0.25, "b|1": "blocks"}, timeout=1.0)
    monkeypatch.setattr(module, "_GRACE", 9.0)
    outcomes = evaluator.evaluate_batch(trials(("a", 0), ("b", 1)))
    assert outcomes[0]["quality"] == 0.25
    assert "did not respond within 10 seconds" in str(outcomes[1])


def test_what_is_printed_is_no_reply(scripted: Scripted) -> None:
    outcomes = scripted({"a|0": "prints", "a|1": 0.5}).evaluate_batch(
        trials(("a", 0), ("a", 1))
    )
    assert outcomes[1]["quality"] == 0.5


def test_a_trial_without_a_test_of_the_config_fails_alone(scripted: Scripted) -> None:
    outcomes = scripted({"a|1": 0.5}).evaluate_batch(trials(("a", 4), ("a", 1)))
    assert isinstance(outcomes[0], InvalidArgumentError)
    assert not lacking(str(outcomes[0]), "example 4", "4 examples")
    assert outcomes[1]["quality"] == 0.5


def test_a_config_that_has_changed_is_noticed_after_a_restart(
    scripted: Scripted, tmp_path: Path
) -> None:
    evaluator = scripted({"a|0": 0.5})
    evaluator.close()
    config = tmp_path / "promptfooconfig.json"
    config.write_text(config.read_text().replace('{"i": 0}', '{"i": 9}'))
    with pytest.raises(EvaluatorError, match="has changed"):
        evaluator("a", 0)


def test_a_study_is_evaluated_by_several_workers(
    scripted: Scripted, tmp_path: Path
) -> None:
    evaluator = scripted({f"{p}|{i}": good(p, i) for p in PROMPTS for i in range(4)})
    selector = asktell.Selector(
        PROMPTS, asktell.BestFeasible("quality"), 16, "uniform", examples=4
    )
    with asktell.Study.create(tmp_path / "study.db", "prompts", selector) as study:
        result = asktell.run(study, evaluator, concurrency=8, progress=False)
    assert result.spent == 16
    assert result.selected[0].id == 3
    assert len((tmp_path / "calls").read_text().splitlines()) == 16


def test_an_interrupt_ends_the_process(scripted: Scripted) -> None:
    evaluator = scripted({"a|0": "times out", "a|1": 0.5})
    alarm = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1.0)
        with pytest.raises(KeyboardInterrupt):
            evaluator("a", 0)
    finally:
        signal.signal(signal.SIGALRM, alarm)
    assert evaluator("a", 1)["quality"] == 0.5


def test_the_process_ends_with_the_one_that_started_it(
    scripted: Scripted, node_modules: Path, node: str, tmp_path: Path
) -> None:
    scripted({}).close()
    code = (
        "import sys, time; from asktell_adapters.harnesses.promptfoo import PromptfooEvaluator; "
        "e = PromptfooEvaluator(sys.argv[1], node_modules=sys.argv[2], node=sys.argv[3]); "
        "print(e._worker._process.pid, flush=True); time.sleep(100)"
    )
    arguments = [
        sys.executable,
        "-c",
        code,
        str(tmp_path / "promptfooconfig.json"),
        str(node_modules),
        node,
    ]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
        process.kill()
    deadline = time.monotonic() + 10
    line = Path(f"/proc/{pid}/cmdline")  # empty for one that nobody has waited for
    while line.exists() and line.read_text():
        assert time.monotonic() < deadline, "the Node process is still there"
        time.sleep(0.05)
