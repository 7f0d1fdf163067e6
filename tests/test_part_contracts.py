"""The contracts of the parts of a method and of metrics: asktell's own pass them, and wrong ones do not."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from msgspec import structs

import asktell
from asktell import BestFeasible
from asktell.errors import IncompatibleMethodError
from asktell.extend import AbstractMethod, State, events
from asktell.methods.rounds.allocators import (
    AbstractAllocator,
    GOptimalDesign,
    PullsToShare,
    Uniform,
)
from asktell.methods.rounds.elimination import Elimination
from asktell.methods.rounds.estimators import (
    MLP,
    AbstractEstimator,
    Estimates,
    LeastSquares,
    Sample,
    SampleMean,
)
from asktell.methods.rounds.rules import (
    AbstractEliminationRule,
    ConstrainedParetoGap,
    ConstrainedRanking,
    Judgement,
    ParetoGap,
)
from asktell.methods.rounds.schedulers import (
    AbstractScheduler,
    GEGEHalving,
    Round,
    SequentialHalving,
    Single,
    SuccessiveRejects,
)
from asktell.testing.allocator_contract import AllocatorContract
from asktell.testing.estimator_contract import EstimatorContract
from asktell.testing.method_contract import MethodContract
from asktell.testing.metric_contract import MetricContract
from asktell.testing.rule_contract import RuleContract
from asktell.testing.scheduler_contract import SchedulerContract
from tests.plays import play


class TestSchedulers(SchedulerContract):
    @pytest.fixture(
        params=[SequentialHalving(), SequentialHalving(adaptive=False), Single(), SuccessiveRejects(), GEGEHalving()],
        ids=str,
    )  # fmt: skip
    def scheduler(self, request: pytest.FixtureRequest) -> Any:
        return request.param


class TestAllocators(AllocatorContract):
    @pytest.fixture(params=[Uniform(), GOptimalDesign()], ids=str)
    def allocator(self, request: pytest.FixtureRequest) -> Any:
        return request.param


class TestEstimators(EstimatorContract):
    @pytest.fixture(
        params=[SampleMean(), LeastSquares(), MLP(steps=100)],
        ids=lambda x: type(x).__name__,
    )
    def estimator(self, request: pytest.FixtureRequest) -> Any:
        return request.param


class TestMethods(MethodContract):
    @pytest.fixture(
        params=[
            asktell.Adaptive(),
            asktell.Race(),
            asktell.preset("uniform", BestFeasible("score")),
        ],
        ids=lambda x: type(x).__name__,
    )
    def method(self, request: pytest.FixtureRequest) -> Any:
        return request.param


class TestReferee(MethodContract):
    options: ClassVar[dict[str, Any]] = {"baseline": 0}

    @pytest.fixture(params=[asktell.Referee(), asktell.Referee(each=3)], ids=str)
    def method(self, request: pytest.FixtureRequest) -> Any:
        return request.param


class Whole(AbstractMethod):
    """Plans one evaluation of each prompt, and selects the prompt that `choose` returns."""

    def __init__(self, choose: Any = None, finished: bool = True) -> None:
        self._choose, self._finished = choose or (lambda: 0), finished

    def due(self, state: State) -> bool:
        return state.plan_is_empty and not (state.decisions and not self._finished)

    def decide(self, state: State) -> events.Decided:
        number = len(state.decisions)
        if number < 2:
            return events.Decided(number, pulls=1)
        best = self.answer(state)[0]
        gone = tuple(
            events.Departure.of(arm, arm == best, "chosen", None)
            for arm in state.active.tolist()
        )
        return events.Decided(number, gone, finished=True, answer=(best,))

    def answer(self, state: State) -> list[int]:
        return [self._choose() % state.problem.n_arms]


def test_a_method_that_never_ends_breaks_its_contract() -> None:
    contract = MethodContract()
    contract.test_a_selection_ends_within_its_budget_and_selects(Whole())
    contract.test_a_saved_selection_continues_as_the_original(Whole())
    with pytest.raises(AssertionError, match="finished=True"):
        contract.test_a_selection_ends_within_its_budget_and_selects(
            Whole(finished=False)
        )


class Sure(Whole):
    """States a confidence, a note and a largest number of decisions."""

    confidence = 0.9
    confidence_kind = "posterior"
    _most = 2

    def decide(self, state: State) -> events.Decided:
        decided = super().decide(state)
        return structs.replace(decided, settled=decided.finished)

    def most_decisions(self, _: Any) -> int:
        return self._most

    def notes(self, state: State, name: Callable[[int], str]) -> Any:
        return ("Prompts were chosen by their number.",)


def test_what_a_method_says_about_itself_counts() -> None:
    contract, method = MethodContract(), Sure()
    contract.test_what_it_says_about_itself_fits_its_selections(method)
    selector = contract.selectors(method)[-1]
    contract.play(selector, 6)
    saved = selector.to_json()
    contract.play(selector)
    assert "an estimated probability of 90%" in selector.result().notes[1]
    method._most = 1
    with pytest.raises(AssertionError, match="most_decisions"):
        contract.test_what_it_says_about_itself_fits_its_selections(method)
    with pytest.raises(asktell.InvalidStateError, match="but the method has 1"):
        asktell.Selector.from_json(saved, method=method)


def test_a_method_that_does_not_follow_from_the_state_breaks_its_contract() -> None:
    with pytest.raises(AssertionError):
        MethodContract().test_a_saved_selection_continues_as_the_original(
            Whole(itertools.count().__next__)
        )


class TestRanking(RuleContract):
    n_constraints: ClassVar[int] = 2

    @pytest.fixture(params=[ConstrainedRanking(), ConstrainedRanking(strict=True)])
    def rule(self, request: pytest.FixtureRequest) -> Any:
        return request.param


class TestGaps(RuleContract):
    n_objectives: ClassVar[int] = 2

    @pytest.fixture(params=[ParetoGap(), ConstrainedParetoGap(2)])
    def rule(self, request: pytest.FixtureRequest) -> Any:
        return request.param


def share_of_letters(completion: str, example: str) -> float:
    return sum(letter in completion for letter in example) / max(len(example), 1)


share_of_letters.range = (0, 1)  # type: ignore[attr-defined]


class TestMetrics(MetricContract):
    @pytest.fixture
    def metric(self) -> Any:
        return share_of_letters

    @pytest.fixture
    def cases(self) -> list[tuple[str, str]]:
        return [("yes", "yes"), ("", "yes"), ("no", "")]


@pytest.mark.parametrize(
    ("metric", "cases"),
    [
        (lambda completion, example: math.nan, [("", "")]),
        (lambda completion, example: "0.5", [("", "")]),
        (lambda completion, example: np.complex128(0.5), [("", "")]),
    ],
)
def test_a_metric_without_a_number_breaks_its_contract(metric: Any, cases: Any) -> None:
    with pytest.raises(AssertionError):
        MetricContract().test_each_score_is_a_finite_number_within_its_range(
            metric, cases
        )


def test_a_metric_outside_its_range_breaks_its_contract() -> None:
    def percent(completion: str, example: str) -> float:
        return 80.0

    percent.range = (0, 1)  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match="within"):
        MetricContract().test_each_score_is_a_finite_number_within_its_range(
            percent, [("", "")]
        )


# Parts that return something else


def run(**parts: Any) -> asktell.Result:
    own: dict[str, Any] = {
        "scheduler": SequentialHalving(),
        "allocator": Uniform(),
        "estimator": SampleMean(),
        "rule": ConstrainedRanking(),
    }
    method = Elimination(**(own | parts))
    selector = asktell.Selector(
        [*"abcdefgh"], asktell.BestFeasible("acc"), 240, method, examples=60
    )
    play(selector, lambda trial: trial.id * 7 % 10 / 10 + 0.01 * int(trial.prompt_id))
    return selector.result()


@dataclass(frozen=True)
class Scheduler(AbstractScheduler):
    wrong: Any

    def rounds(self, n_arms: int, budget: int, rank: int | None = None) -> Any:
        return self.wrong


@dataclass(frozen=True)
class Allocator(AbstractAllocator):
    wrong: str

    def allocate(self, pulls: PullsToShare) -> Any:
        counts = Uniform().allocate(pulls)
        return {
            "short": counts[1:],
            "more": counts + 1,
            "negative": counts - 10**6,
            "half": counts + 0.5,
            "text": "all",
            "other sum": np.zeros_like(counts),
        }[self.wrong]


@dataclass(frozen=True)
class Estimator(AbstractEstimator):
    wrong: str

    def estimate(self, sample: Sample) -> Any:
        right = SampleMean().estimate(sample)
        everyone = SampleMean().estimate(
            Sample(sample.tally, np.arange(len(sample.tally.counts)))
        )
        return {
            "every arm": everyone if len(sample.active) < 8 else right,
            "nan": right._replace(means=right.means * np.nan),
            "one column": right._replace(means=right.means[:, 0]),
            "negative error": right._replace(
                standard_errors=-np.ones_like(right.means)
            ),
            "means alone": right.means,
            "complex": Estimates(right.means * 1j, right.standard_errors),
        }[self.wrong]


@dataclass(frozen=True)
class Rule(AbstractEliminationRule):
    wrong: str

    def judge(self, values: Any) -> Any:
        right = ConstrainedRanking().judge(values)
        return {
            "twice": right._replace(order=np.zeros_like(right.order)),
            "few": right._replace(order=right.order[1:]),
            "numbers": right._replace(accepted=np.zeros(len(values))),
            "no measure": right._replace(measure=np.zeros(1)),
            "order": right.order,
        }.get(self.wrong, right)

    def answer(self, values: Any) -> Any:
        right = ConstrainedRanking().answer(values)
        return {"none": right[:0], "far": right + 1000, "same": [0, 0]}.get(
            self.wrong, right
        )

    def reason(self, judgement: Judgement, position: int) -> str:
        return "a reason"


@pytest.mark.parametrize(
    "part",
    [
        *(
            {"scheduler": Scheduler(wrong)}
            for wrong in (
                None,
                (Round(241, 1),),
                (Round(200, 4), Round(41, 1)),
                (Round(100, 0),),
                (Round(100, 9),),
                (Round(100, 2), Round(100, 3)),
                (Round(-1, 1),),
                (Round(10.5, 1),),  # type: ignore[arg-type]
                (100, 1),
            )
        ),
        *(
            {"allocator": Allocator(wrong)}
            for wrong in ("short", "more", "negative", "half", "text", "other sum")
        ),
        *(
            {"estimator": Estimator(wrong)}
            for wrong in (
                "every arm",
                "nan",
                "one column",
                "negative error",
                "means alone",
                "complex",
            )
        ),
        *(
            {"rule": Rule(wrong)}
            for wrong in (
                "twice",
                "few",
                "numbers",
                "no measure",
                "order",
                "none",
                "far",
                "same",
            )
        ),
    ],
    ids=lambda part: "-".join(f"{name} {value.wrong}" for name, value in part.items()),
)
def test_a_part_that_returns_something_else_is_named(part: dict[str, Any]) -> None:
    (value,) = part.values()
    with pytest.raises(IncompatibleMethodError) as raised:
        run(**part)
    text = str(raised.value)
    assert text.startswith(f"{type(value).__name__}.")
    assert "Expected" in text


def test_an_estimator_with_a_row_for_every_arm_learns_the_cure() -> None:
    with pytest.raises(IncompatibleMethodError, match=r"\[sample.active\]"):
        run(estimator=Estimator("every arm"))


@pytest.mark.parametrize(
    ("contract", "name", "part"),
    [
        (
            SchedulerContract().test_rounds_are_within_the_budget_and_keep_ever_fewer_arms,
            "scheduler",
            Scheduler((Round(10**9, 1),)),
        ),
        (
            EstimatorContract().test_an_arm_without_scores_has_an_estimate,
            "estimator",
            Estimator("nan"),
        ),
    ],
)
def test_a_wrong_part_breaks_its_contract(contract: Any, name: str, part: Any) -> None:
    with pytest.raises(IncompatibleMethodError):
        contract(**{name: part})


def test_whole_numbers_of_numpy_and_lists_are_right() -> None:
    class Lists(AbstractAllocator):
        def allocate(self, pulls: PullsToShare) -> Any:
            return Uniform().allocate(pulls).astype(float).tolist()

    rounds = [Round(np.int64(120), np.int64(4)), Round(np.int64(120), np.int64(1))]
    result = run(scheduler=Scheduler(tuple(rounds)), allocator=Lists())
    assert result.best.id == 7
