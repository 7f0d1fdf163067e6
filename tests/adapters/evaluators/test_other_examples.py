"""An evaluator whose examples are not those of the selection is refused before the first call."""

import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

import asktell
from asktell import Selector, Study
from asktell.errors import InvalidArgumentError
from asktell_adapters.evaluators import (
    AsyncLLMEvaluator,
    CommandEvaluator,
    Completion,
    Example,
    LLMEvaluator,
    ScriptedLLM,
)

GOAL = asktell.BestFeasible("acc")
ROWS = [Example(f"question {i}", id=f"q{i}") for i in range(20)]


def metric(completion: Completion, example: Example) -> float:
    return float(example.input[-1] in "02468")


def evaluator(examples: list[Example], of: Any = metric) -> tuple[Any, ScriptedLLM]:
    llm = ScriptedLLM(lambda request: Completion("yes", cost=1.0))
    return LLMEvaluator(llm, examples, {"acc": of}), llm


def selection(examples: Any, goal: Any = GOAL, kind: str = "selector") -> Any:
    selector = Selector(["a", "b"], goal, 10, examples=examples)
    return (
        selector
        if kind == "selector"
        else Study.create(f"memory://{uuid4()}", "s", selector)
    )


@pytest.mark.parametrize("kind", ["selector", "study"])
@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (ROWS[::-1], "has it at position 19"),
        ([*ROWS[1:], ROWS[0]], "has it at position 19"),
        ([*ROWS[:19], Example("another", id="new")], "no example with this id"),
        ([Example("x", id=f"other {i}") for i in range(20)], "no example with this id"),
        (ROWS[:19], "has 19 examples, but the selection was made with 20"),
        (ROWS[:1], "examples=1"),
    ],
)
def test_other_examples_are_refused_before_anything_is_paid(
    rows: list[Example], words: str, kind: str
) -> None:
    selected = selection([row.id for row in ROWS], kind=kind)
    evaluate, llm = evaluator(rows)
    for each in (evaluate, AsyncLLMEvaluator(llm, rows, {"acc": metric})):
        with pytest.raises(InvalidArgumentError, match=words):
            asktell.run(selected, each, progress=False)
    assert not llm.requests
    assert selected.spent == 0
    asktell.run(selected, evaluator(ROWS)[0], progress=False)
    assert selected.done


@pytest.mark.parametrize(
    ("ids", "rows"),
    [
        (20, ROWS[::-1]),  # the selection has no ids
        ([f"q{i}" for i in range(10)], ROWS),  # the evaluator has more
        ([f"x{i}" for i in range(20)], [Example("text") for _ in range(20)]),
        # Numbers of lines are no names
        ([f"x{i}" for i in range(20)], [Example("t", id=str(i)) for i in range(20)]),
        # A column "id" that the selection's ids are not made of
        (
            [f"x{i}" for i in range(20)],
            [Example("t", id=str(i + 2), fields={"id": f"k{i}"}) for i in range(20)],
        ),
        # The column of ids is not the one that the examples are named by
        (
            [str(i) for i in range(20)],
            [Example("t", id=str(i + 2), fields={"id": i}) for i in range(20)],
        ),
    ],
)
def test_examples_that_may_be_the_same_are_accepted(ids: Any, rows: Any) -> None:
    selected = selection(ids)
    asktell.run(selected, evaluator(rows)[0], progress=False)
    assert selected.done


def test_a_smaller_data_set_without_ids_is_refused() -> None:
    evaluate, llm = evaluator([Example("text") for _ in range(5)])
    with pytest.raises(InvalidArgumentError, match="has 5 examples"):
        asktell.run(selection(20), evaluate, progress=False)
    assert not llm.requests


@pytest.mark.skipif(sys.platform == "win32", reason="it needs process groups")
def test_a_program_with_other_examples_does_not_start(tmp_path: Path) -> None:
    program = [sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')"]
    for rows in (ROWS[::-1], ROWS[:3]):
        with pytest.raises(InvalidArgumentError, match="Nothing was evaluated"):
            asktell.run(
                selection([row.id for row in ROWS]),
                CommandEvaluator(program, rows),
                progress=False,
            )
    assert not (tmp_path / "ran").exists()


# The ranges of metrics


def test_another_range_than_the_metrics_own_is_refused_before_the_first_call() -> None:
    def percent(completion: Completion, example: Example) -> float:
        return 80.0

    percent.range = (0, 100)  # type: ignore[attr-defined]
    evaluate, llm = evaluator(ROWS, percent)
    unit = asktell.BestFeasible(asktell.maximize("acc", range=(0, 1)))
    with pytest.raises(InvalidArgumentError, match=r"range=\(0.0, 100.0\)"):
        asktell.run(selection(20, unit), evaluate, progress=False)
    assert not llm.requests
    for goal in (
        asktell.BestFeasible(asktell.maximize("acc", range=(0, 100))),
        GOAL,
    ):
        result = asktell.run(selection(20, goal), evaluate, progress=False)
        assert result.best.estimate["acc"] == 80.0


@pytest.mark.parametrize("value", [1.5, -0.1, "0.5", None, 1j, np.timedelta64(1, "ns")])
def test_what_is_no_score_of_the_metric_fails_the_evaluation(value: Any) -> None:
    def odd(completion: Completion, example: Example) -> Any:
        return value

    odd.range = (0, 1)  # type: ignore[attr-defined]
    evaluate, _ = evaluator(ROWS, odd)
    with pytest.raises(asktell.EvaluatorError, match="the metric 'acc' failed"):
        evaluate("a", 0)


def test_rounding_outside_of_a_range_is_no_fault() -> None:
    def rounded(completion: Completion, example: Example) -> float:
        return 1.0 + 1e-12

    rounded.range = (0, 1)  # type: ignore[attr-defined]
    assert evaluator(ROWS, rounded)[0]("a", 0) == {"acc": pytest.approx(1.0)}
