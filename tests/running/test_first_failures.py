"""A run whose first evaluations all fail in the same way ends with that reason; others go on."""

import itertools
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import asktell
from asktell import BestFeasible, Budget, EvaluatorError, InvalidArgumentError, Selector
from asktell.results.entries import FailureGroup, grouped, in_words, kind_of
from asktell.studies.storages.memory import MemoryStorage
from tests.running import test_guards as guards


def new(budget: Any = 24, n_prompts: int = 4, **options: Any) -> Selector:
    options = {"method": "uniform", "examples": 12, **options}
    return guards.new(n_prompts, budget, **options)


def no_key(prompt: str, example: int) -> float:
    raise RuntimeError(f"no API key for {prompt!r}, request {example}")


def test_a_failure_is_logged_with_the_id_of_its_example(caplog: Any) -> None:
    def evaluate(prompt: str, example: int) -> float:
        if prompt == "x1" and example == 1:
            raise RuntimeError("too long")
        return 1.0

    selector = new(n_prompts=2, examples=["easy", "hard"])
    with caplog.at_level(logging.WARNING):
        asktell.run(selector, evaluate, progress=False)
    (message,) = caplog.messages
    assert "(prompt 'p1', example 'hard') failed: RuntimeError('too long')" in message


@pytest.mark.parametrize("where", ["selector", "study"])
@pytest.mark.parametrize("n_prompts", [1, 2, 4])
def test_a_run_that_cannot_succeed_ends_with_the_reason(
    where: str, n_prompts: int, caplog: Any
) -> None:
    selector: Any = new(n_prompts=n_prompts)
    if where == "study":
        selector = asktell.Study.create(MemoryStorage(), "s", selector)
    calls = []

    def evaluate(prompt: str, example: int) -> float:
        calls.append(prompt)
        return no_key(prompt, example)

    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(EvaluatorError, match=r"first 5 .*RuntimeError: no API key"),
    ):
        asktell.run(selector, evaluate, progress=False)
    assert len(calls) == len(caplog.records) == 5
    assert selector.pending == []
    assert not any(entry.failures for entry in selector.result().prompts)
    again = []
    result = asktell.run(
        selector,
        lambda prompt, example: float(not again.append((prompt, example))),  # type: ignore[func-returns-value]
        progress=False,
    )
    # The failures count against no prompt, and their trials come first
    assert {entry.status for entry in result.prompts} <= {"accepted", "rejected"}
    assert not any(entry.failures for entry in result.prompts)
    assert {prompt for prompt, _ in again[:5]} == set(calls)


def test_what_fails_while_a_run_stops_is_handed_back() -> None:
    selector = new(48, n_prompts=6)
    together, calls = threading.Barrier(8), itertools.count()

    def evaluate(prompt: str, example: int) -> float:
        if next(calls) < 8:
            together.wait(30)
        return no_key(prompt, example)

    with (
        ThreadPoolExecutor(8) as threads,
        pytest.raises(EvaluatorError, match=r"first \d+ evaluations all failed"),
    ):
        asktell.run(selector, evaluate, threads, 8, progress=False)
    assert selector.pending == []
    assert not selector.state.failures
    result = asktell.run(selector, lambda prompt, example: 1.0, progress=False)
    assert result.spent == 48


def test_a_row_that_crashes_every_version_ends_no_run_while_another_evaluation_is_under_way() -> (
    None
):
    selector = new(60, n_prompts=3, examples=20)
    bad = set(selector.state.problem.examples.order[:2])
    slow, crashed = threading.Event(), list[int]()

    def evaluate(prompt: str, example: int) -> float:
        if example in bad:
            crashed.append(example)
            if len(crashed) == 6:
                slow.set()
            raise ValueError("this row crashes every version")
        assert slow.wait(30)
        return float(prompt[1:])

    with ThreadPoolExecutor(7) as threads:
        result = asktell.run(selector, evaluate, threads, 7, progress=False)
    assert 6 <= len(crashed) <= 7  # one may have been handed back, and asked again
    assert [entry.failures for entry in result.prompts] == [2, 2, 2]
    assert [entry.id for entry in result.selected] == ["p2"]
    assert result.done


def test_nothing_is_asked_while_it_is_open_whether_the_run_stops() -> None:
    selector = new(n_prompts=2)
    failing, over, calls = threading.Event(), threading.Event(), list[str]()

    def evaluate(prompt: str, example: int) -> float:
        calls.append(prompt)
        if len(calls) == 1:
            failing.set()
            assert over.wait(30)
        else:
            assert failing.wait(30)
        return no_key(prompt, example)

    def let_go() -> None:
        while len(calls) < 6:
            time.sleep(0.001)
        time.sleep(0.05)
        assert len(calls) == 6
        over.set()

    with ThreadPoolExecutor(3) as threads:
        watching = threads.submit(let_go)
        with pytest.raises(EvaluatorError, match="first 6 evaluations"):
            asktell.run(selector, evaluate, threads, 2, progress=False)
        watching.result()
    assert not selector.state.failures


def test_none_counts_them() -> None:
    result = asktell.run(new(), no_key, progress=False, max_failures_in_a_row=None)
    assert {entry.status for entry in result.prompts} == {"failed"}
    assert result.failures[0].count == 24
    lines = str(result).splitlines()
    assert lines[0].endswith(" (ended without a score)")
    assert lines[1] == "Nothing was measured, because all 24 evaluations failed."
    assert lines[2].startswith(
        'All 24 failures, when evaluating "p0", "p1", "p2", "p3" on the examples '
    )


def test_one_success_or_another_reason_shows_that_others_may_come() -> None:
    def evaluate(prompt: str, example: int) -> float:
        if prompt in ("x0", "x1"):
            raise RuntimeError("down")
        return int(prompt[1:])

    with ThreadPoolExecutor(1) as thread:  # the first four are of the four prompts
        result = asktell.run(new(), evaluate, thread, 4, progress=False)
    assert [entry.status for entry in result.prompts[:2]] == ["failed"] * 2
    assert [entry.id for entry in result.selected] == ["p3"]
    result = asktell.run(new(), evaluate, progress=False)
    assert [entry.status for entry in result.prompts[:2]] == ["failed"] * 2

    def differs(prompt: str, example: int) -> float:
        raise (RuntimeError if prompt in ("x0", "x1") else ValueError)("down")

    with ThreadPoolExecutor(1) as thread:
        result = asktell.run(new(), differs, thread, 4, progress=False)
    assert {group.reason for group in result.failures} == {
        "RuntimeError: down",
        "ValueError: down",
    }
    # Six of each prompt, and up to three that were running beside the sixth
    assert 24 <= sum(group.count for group in result.failures) <= 24 + 4 * 3


def test_one_example_that_cannot_be_evaluated_is_no_reason_to_stop() -> None:
    selector = new(80, n_prompts=10)
    bad = selector.state.problem.examples.order[0]

    def evaluate(prompt: str, example: int) -> float:
        if example == bad:
            raise ValueError(f"example {example} has no reference")
        return int(prompt[1:])

    result = asktell.run(selector, evaluate, progress=False)
    assert [entry.id for entry in result.selected] == ["p9"]
    assert [entry.failures for entry in result.prompts] == [1] * 10


def test_a_budget_of_cost_that_failures_spend_ends_the_run() -> None:
    selector = new(Budget(cost=1.0), method="auto")
    result = asktell.run(
        selector,
        lambda prompt, example: {"a": float("nan"), "cost": 0.25},
        progress=False,
    )
    assert result.spent_cost == 1.0
    assert sum(group.count for group in result.failures) == 4


def test_no_cost_is_a_reason() -> None:
    with pytest.raises(
        EvaluatorError, match="have no cost, but the budget is a cost of 1"
    ):
        asktell.run(
            new(Budget(cost=1.0), method="auto"),
            lambda prompt, example: {"a": 1.0},
            progress=False,
        )


def test_a_number_stops_first_failures_too() -> None:
    # Two at least, as one may be its example's fault
    for number, n in ((3, 5), (50, 5), (1, 5)):
        # The first four are of the first example
        with pytest.raises(EvaluatorError, match=f"first {n} evaluations"):
            asktell.run(new(), no_key, progress=False, max_failures_in_a_row=number)
    with pytest.raises(asktell.InvalidArgumentError, match="max_failures_in_a_row"):
        asktell.run(new(), no_key, progress=False, max_failures_in_a_row=0)


@pytest.mark.parametrize("n_prompts", [1, 2, 4])
def test_what_is_asked_one_by_one_stops_too_and_continues_after_the_fix(
    n_prompts: int,
) -> None:
    """A budget of cost allows one trial at a time until a cost is known."""
    selector = new(Budget(cost=4.0), n_prompts, method="auto")
    with pytest.raises(
        EvaluatorError,
        match=r"The first 5 evaluations all failed in the same way\..* RuntimeError",
    ):
        asktell.run(selector, no_key, progress=False)
    assert not selector.pending
    # Each counts before the next trial may start, but for the last one
    assert len(selector.state.failures) == 4
    result = asktell.run(
        selector, lambda prompt, example: {"a": 1.0, "cost": 0.5}, progress=False
    )
    assert result.spent == 8
    assert len(selector.state.failures) == 4


def test_a_last_example_that_cannot_be_evaluated_ends_nothing() -> None:
    """Nothing else can be asked then, and it must not be tried again for ever."""
    for limit in ("first", 30):
        selector = new(12, n_prompts=3, examples=4)
        last = selector.state.problem.examples.order[3]

        def evaluate(prompt: str, example: int, last: int = last) -> float:
            return 1 / 0 if example == last else float(prompt[1:])

        result = asktell.run(
            selector, evaluate, progress=False, max_failures_in_a_row=limit
        )  # type: ignore[arg-type]
        assert [entry.failures for entry in result.prompts] == [1, 1, 1]
        assert result.done


# An evaluator's signature


class Batches:
    def evaluate_batch(self) -> list[float]:
        return []


class Method:
    def evaluate(self, prompt: str) -> float:
        return 1.0


async def waits(prompt: str) -> float:
    return 1.0


@pytest.mark.parametrize(
    ("evaluator", "said"),
    [
        (
            lambda prompt: 1.0,
            r"\(prompt, example\), but yours is .*<lambda>\(prompt\) \(too many positional",
        ),
        (lambda prompt, example, judge: 1.0, "missing a required argument: 'judge'"),
        (lambda *, prompt, example: 1.0, "too many positional arguments"),
        (waits, "too many positional"),
        (Method(), "evaluate"),
        (Batches(), r"evaluate_batch\(trials\), but"),
        (Batches, r"Pass an object of the class: Batches\(\.\.\.\)"),
    ],
)
def test_a_wrong_signature_is_refused_before_the_first_trial(
    evaluator: Any, said: str
) -> None:
    selector = new()
    with pytest.raises(InvalidArgumentError, match=said):
        asktell.run(selector, evaluator, progress=False)
    assert selector.state.plan.asked == 0


def test_any_signature_that_fits_will_do() -> None:
    for evaluator in (lambda *args: 1.0, lambda p, e, k=3, *, x=1: 1.0, max):
        asktell.run(
            new(4), lambda p, e, f=evaluator: float(bool(f("1", "2"))), progress=False
        )  # type: ignore[misc]
    with pytest.raises(EvaluatorError):  # max has no signature: it fails as it runs
        asktell.run(new(4), max, progress=False)


# Groups of failures


def test_reasons_that_differ_in_names_and_numbers_only_are_one() -> None:
    assert kind_of("KeyError: 'x1' of 17") == kind_of("KeyError: 'other' of 3")
    assert kind_of("KeyError: 'x'") != kind_of("TypeError: 'x'")
    failures: list[tuple[str | int, str | int | None, str]] = [
        ("a", "x", "E: 1"),
        ("b", 3, "F"),
        ("b", "x", "E: 2"),
        ("a", "y", "E: 3"),
    ]
    groups = grouped(failures)
    assert groups == [
        FailureGroup("E: 1", 3, ["a", "b"], ["x", "y"]),
        FailureGroup("F", 1, ["b"], [3]),
    ]
    assert list(in_words(groups)) == [
        '3 of the 4 failures, when evaluating "a", "b" on the examples "x", "y": E: 1',
        '1 of the 4 failures, when evaluating "b" on the example 3: F',
    ]


def test_a_success_at_the_end_of_a_batch_that_failed_continues_the_run() -> None:
    class Evaluator:
        def __init__(self) -> None:
            self.calls = 0

        def evaluate_batch(self, trials: list[asktell.Trial]) -> list[Any]:
            self.calls += 1
            last = 0.5 if self.calls == 1 else ValueError("down")
            return [
                last if i == len(trials) - 1 else ValueError("down")
                for i in range(len(trials))
            ]

    selector, evaluator = new(n_prompts=4, max_failure_rate=1), Evaluator()
    with pytest.raises(EvaluatorError, match="last 8 evaluations all failed"):
        asktell.run(
            selector, evaluator, concurrency=8, progress=False, max_failures_in_a_row=3
        )
    assert (evaluator.calls, selector.spent) == (2, 1)
    # Those of the first batch: the others are evaluated again
    assert len(selector.state.failures) == 7
    assert not selector.pending


@pytest.mark.parametrize(
    "scores", [lambda n: n + 1.5, lambda n: -n - 2, lambda n: 10.0 ** (30 + n)]
)
def test_scores_outside_their_range_are_one_kind_of_failure_whatever_they_are(
    scores: Any,
) -> None:
    selector = Selector(
        ["x", "y", "z"],
        BestFeasible(asktell.maximize("a", range=(0, 1))),
        24,
        examples=12,
    )
    calls = []

    def evaluate(prompt: str, example: int) -> float:
        calls.append(prompt)
        return float(scores(len(calls)))

    with pytest.raises(
        EvaluatorError, match=r"all failed in the same way.*within its range"
    ):
        asktell.run(selector, evaluate, progress=False)
    assert len(calls) <= 7


class CostlyError(Exception):
    cost = 0.5


def test_the_reason_is_what_was_tried_again_and_not_that_it_was(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tenacity = pytest.importorskip("tenacity")

    @tenacity.retry(stop=tenacity.stop_after_attempt(2))
    def never(prompt: str, example: int) -> float:
        raise CostlyError("the server is down")

    selector = new(4, n_prompts=2)
    asktell.run(selector, never, progress=False, max_failures_in_a_row=None)
    assert "CostlyError: the server is down" in str(selector.result())
    assert "RetryError" not in str(selector.result()) + caplog.text
    assert (
        selector.spent_cost
        == 0.5 * sum(entry.failures for entry in selector.result().prompts)
        > 0
    )
    with pytest.raises(
        EvaluatorError, match=r"failed.*The run has .* CostlyError: the server is down"
    ):
        asktell.run(new(4), never, progress=False, max_failures_in_a_row=2)
