"""The same mistake of all evaluations stops a run, early or late, paid or not, and counts against no prompt."""

import asyncio
import gc
import random
import uuid
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell import BestFeasible, Budget, EvaluatorError, Selector, Study
from asktell.results.streak import describe_streak


def new(n_prompts: int = 4, budget: Any = 100, **options: Any) -> Selector:
    prompts = {f"p{i}": f"x{i}" for i in range(n_prompts)}
    return Selector(prompts, BestFeasible("a"), budget, **{"examples": 40, **options})


class Denied(Exception):
    cost: Any = None


class Evaluator:
    """Fails after `n_good` evaluations, until it is `fixed`."""

    def __init__(self, n_good: int = 0, cost: float | None = None) -> None:
        self.n_good, self.cost, self.fixed = n_good, cost, False
        self.calls = self.failures = 0

    def __call__(self, prompt: str, example: int) -> dict[str, float]:
        self.calls += 1
        if self.calls > self.n_good and not self.fixed:
            self.failures += 1
            error = Denied(f"key denied, request {uuid.uuid4()}")
            error.cost = self.cost
            raise error
        return {"a": float(prompt[1:]), "cost": self.cost or 0.0}


def failures_of(selection: Any) -> int:
    return sum(entry.failures for entry in selection.result().prompts)


@pytest.mark.parametrize("n_good", [0, 1, 5, 30])
@pytest.mark.parametrize("n_prompts", [1, 4, 20])
@pytest.mark.parametrize(("where", "cost"), [("selector", None), ("study", 0.25)])
def test_a_key_that_fails_stops_the_run_and_takes_no_prompt_out(
    n_good: int, cost: float | None, n_prompts: int, where: str, tmp_path: Path
) -> None:
    evaluate = Evaluator(n_good, cost)
    selection: Any = new(n_prompts)
    if where == "study":
        selection = Study.create(tmp_path / "s.db", "s", selection)
    which = "last" if n_good else "first"
    with pytest.raises(
        EvaluatorError, match=rf"The {which} \d+ evaluations all failed in the same way"
    ):
        asktell.run(selection, evaluate, progress=False)
    assert 5 <= evaluate.failures <= 2 * n_prompts + 20
    assert failures_of(selection) == 0
    assert selection.n_active == n_prompts
    assert selection.pending == []
    # What was paid for stays booked
    assert selection.spent_cost == pytest.approx(evaluate.calls * (cost or 0.0))
    evaluate.fixed = True
    result = asktell.run(selection, evaluate, progress=False)
    assert result.spent == min(100, 40 * n_prompts)
    assert failures_of(selection) == 0


@pytest.mark.parametrize(
    "evaluate",
    [
        lambda prompt, example: None,
        lambda prompt, example: {"a": None, "cost": 0.25},
        lambda prompt, example: {"a": float("nan"), "cost": 0.25},
        lambda prompt, example: {"b": 1.0, "cost": 0.25},
        lambda prompt, example: len(3),  # type: ignore[arg-type]
        lambda prompt, example: {"a": (lambda x: x)()},  # type: ignore[call-arg, misc]
    ],
)
def test_a_metric_that_never_works_stops_the_run(evaluate: Any) -> None:
    selector, calls = new(20, 200), []
    with pytest.raises(EvaluatorError, match=r"first \d+ evaluations all failed"):
        asktell.run(
            selector,
            lambda prompt, example: calls.append(prompt) or evaluate(prompt, example),
            progress=False,
        )
    assert len(calls) < 25
    assert (failures_of(selector), selector.n_active) == (0, 20)
    asktell.run(selector, lambda prompt, example: 1.0, progress=False)
    assert (failures_of(selector), selector.spent) == (0, 200)


def test_many_runs_with_a_wrong_key_take_no_prompt_out() -> None:
    selector = new(2)
    for _ in range(5):
        with pytest.raises(EvaluatorError, match="first 5 evaluations"):
            asktell.run(selector, Evaluator(), progress=False)
    assert (failures_of(selector), selector.n_active) == (0, 2)


@pytest.mark.parametrize("n_prompts", [2, 6])
def test_workers_with_a_wrong_key_take_no_prompt_out(
    n_prompts: int, tmp_path: Path
) -> None:
    path, evaluate = tmp_path / "s.db", Evaluator()
    Study.create(path, "s", new(n_prompts)).close()

    def work(_: int) -> bool:
        with Study.open(path, "s") as study:
            try:
                asktell.run(study, evaluate, progress=False)
            except EvaluatorError:
                return False
            return True

    with ThreadPoolExecutor(4) as threads:
        assert not any(threads.map(work, range(4)))
        with Study.open(path, "s") as study:
            assert (failures_of(study), study.n_active) == (0, n_prompts)
        evaluate.fixed = True
        assert all(threads.map(work, range(4)))
    with Study.open(path, "s") as study:
        assert (study.spent, failures_of(study)) == (min(100, 40 * n_prompts), 0)


def test_a_failure_waits_for_the_next_success_and_its_cost_does_not(
    tmp_path: Path,
) -> None:
    """A worker that dies in between leaves the cost, and its trial to others."""
    study = Study.create(tmp_path / "s.db", "s", new())
    seen = list[tuple[int, float, int]]()

    def evaluate(prompt: str, example: int) -> dict[str, float]:
        seen.append((failures_of(study), study.spent_cost, len(study.pending)))
        if len(seen) in (1, 2):
            error = Denied("timeout")
            error.cost = 0.5
            raise error
        return {"a": 1.0, "cost": 1.0}

    asktell.run(study, evaluate, progress=False, until=lambda _: len(seen) == 4)
    assert seen == [(0, 0.0, 1), (0, 0.5, 2), (0, 1.0, 3), (2, 2.0, 1)]
    failed = [each for each in study.evaluations() if each.error]
    assert [(each.error, each.cost) for each in failed] == [
        ("Denied: timeout", 0.5)
    ] * 2


def test_prompts_that_are_added_and_always_fail_are_taken_out() -> None:
    selector = new(3, 200)

    def evaluate(prompt: str, example: int) -> float:
        if prompt.startswith("new"):
            raise KeyError("question")
        return float(prompt[1:])

    asktell.run(selector, evaluate, progress=False, until=lambda s: s.spent >= 40)
    selector.add({f"n{i}": f"new {i}" for i in range(3)})
    result = asktell.run(selector, evaluate, progress=False)
    assert [entry.status for entry in result.prompts[3:]] == ["failed"] * 3
    assert max(entry.failures for entry in result.prompts) <= 8


def test_prompts_that_often_fail_alike_do_not_stop_the_run() -> None:
    for seed in range(5):
        selector = new(4, 100, examples=200, max_failure_rate=0.95)
        draw = random.Random(seed)
        for trial in selector.ask(8):
            selector.tell(trial, draw.random())

        def evaluate(prompt: str, example: int, draw: random.Random = draw) -> float:
            if draw.random() < 0.6:
                raise ValueError("no number in the response")
            return draw.random()

        result = asktell.run(selector, evaluate, progress=False)
        assert result.spent == 100
        assert failures_of(selector) > 80


def test_a_few_examples_that_all_fail_are_an_error_and_not_a_result() -> None:
    selector, evaluate = new(2, 4, examples=2), Evaluator()
    with pytest.raises(EvaluatorError, match=r"first [2-4] evaluations all failed"):
        asktell.run(selector, evaluate, progress=False)
    evaluate.fixed = True
    assert asktell.run(selector, evaluate, progress=False).spent == 4


# What is no score yet


async def scores(prompt: str, example: int) -> dict[str, float]:
    return {"a": 1.0}


async def async_scores(prompt: str, example: int) -> Any:
    yield {"a": 1.0}


def generated_scores(prompt: str, example: int) -> Any:
    yield {"a": 1.0}


class Batches:
    def evaluate_batch(self, trials: list[asktell.Trial]) -> list[Any]:
        return [scores("", 0) for _ in trials]


class UnfinishedBatch:
    def evaluate_batch(self, trials: list[asktell.Trial]) -> Any:
        return scores("", 0)


async def forgot_await(prompt: str, example: int) -> Any:
    return scores(prompt, example)


async def task(prompt: str, example: int) -> Any:
    return asyncio.ensure_future(scores(prompt, example))


UNFINISHED: list[tuple[Any, str]] = [
    (lambda p, e: scores(p, e), "returned a coroutine.*async def.*await"),
    (lambda p, e: {"a": scores(p, e)}, "returned a coroutine"),
    (lambda p, e: [scores(p, e)], "returned a coroutine"),
    (lambda p, e: async_scores(p, e), "returned a async_generator.*instead of yield"),
    (lambda p, e: generated_scores(p, e), "returned a generator.*instead of yield"),
    (lambda p, e: Future(), "returned a Future"),
    (Batches(), "returned a coroutine"),
    (UnfinishedBatch(), "returned a coroutine"),
    (forgot_await, "returned a coroutine"),
    (task, "returned a Task"),
]


@pytest.mark.parametrize(("evaluator", "message"), UNFINISHED)
@pytest.mark.parametrize("limit", ["first", None])
def test_an_outcome_that_nobody_awaited_ends_the_run_at_once(
    evaluator: Any, message: str, limit: Any
) -> None:
    selector = new()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(EvaluatorError, match=message):
            asktell.run(
                selector, evaluator, progress=False, max_failures_in_a_row=limit
            )
        gc.collect()  # would warn of a coroutine that was never awaited
    assert (failures_of(selector), selector.pending) == (0, [])


# Loops of one's own


def test_a_loop_of_ones_own_gets_a_note() -> None:
    selector = new()
    for _ in range(5):
        assert describe_streak(selector.state) == ""
        assert selector.fail(selector.ask(), f"RuntimeError: denied {uuid.uuid4()}")
    (note,) = [note for note in selector.result().notes if "in the same way" in note]
    assert note.startswith("The last 5 evaluations all failed in the same way, which")
    assert "RuntimeError: denied" in note
    selector.tell(selector.ask(), 1.0)
    assert not any("in the same way" in note for note in selector.result().notes)


@pytest.mark.parametrize(
    "reason",
    [
        lambda i: ["TypeError: x", "ValueError: x"][i % 2],
        lambda i: "RuntimeError: denied",
    ],
)
def test_other_failures_get_no_note(reason: Callable[[int], str]) -> None:
    selector = new(8, method="uniform")
    # The first eight trials are of one example
    for i, trial in enumerate(selector.ask(7)):
        selector.fail(trial, reason(i))
    assert describe_streak(selector.state) == ""


# Budgets of cost


def test_a_budget_of_cost_that_nothing_uses_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    selector = new(4, Budget(cost=5.0))
    result = asktell.run(
        selector, lambda prompt, example: {"a": 1.0, "cost": 0}, progress=False
    )
    (note,) = [note for note in result.notes if "free" in note]
    assert note.startswith(
        f"All {result.spent} evaluations were free, so the budget of"
    )
    logged = [each for each in caplog.messages if "free" in each]
    assert len(logged) == 1
    assert "Budget(evaluations=200, cost=5.0)" in logged[0]
