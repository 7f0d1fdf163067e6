"""Referee: candidates arrive one by one, and no more of them are accepted falsely than it promises."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import (
    BestFeasible,
    Budget,
    IncompatibleMethodError,
    InvalidArgumentError,
    ParetoSet,
    Referee,
    Selector,
    Study,
    at_least,
    at_most,
    maximize,
    minimize,
    within,
)
from asktell.methods.referee import chance as chance_left
from asktell.proofs.intervals.betting import Betting
from benchmarks.selection import nights

UNIT = (0.0, 1.0)
BEST = BestFeasible(maximize("a", range=UNIT))
# Exactly the given examples, without noise
SUITE: dict[str, Any] = {"inputs": "given", "repeats": 1}


def new(
    goal: Any = BEST,
    budget: Any = 10_000,
    method: Any = "referee",
    examples: int | None = 300,
    **options: Any,
) -> Selector:
    """A selection whose only prompt is the incumbent "v1"."""
    options = {"baseline": "v1"} | options
    return Selector({"v1": "one"}, goal, budget, method, examples, **options)


def judge(selector: Any, score: Callable[[Any, int], Any], most: int = 10**6) -> Any:
    """Ask and tell until nothing can be asked, or for so many trials. `score`: of the id of a prompt and an example."""
    for _ in range(most):
        trial = selector.ask()
        if trial is None:
            break
        selector.tell(trial, score(trial.prompt_id, trial.example))
    return selector


def chance(p: Mapping[str, float], seed: int = 0) -> Callable[[Any, int], float]:
    """A score of 0 or 1, which is 1 with the probability of the prompt, from common and own luck."""

    def score(prompt: Any, example: int) -> float:
        common = np.random.default_rng([seed, example]).random()
        own = np.random.default_rng([seed, example, *str(prompt).encode()]).random()
        return float(0.7 * common + 0.3 * own < p[prompt])

    return score


def ends(selector: Any) -> dict[Any, str]:
    return {entry.id: entry.status for entry in selector.result().prompts[1:]}


# Decisions


def test_candidates_are_accepted_rejected_or_undecided() -> None:
    selector = new()
    selector.add({"worse": "2", "same": "3", "better": "4", "later": "5"})
    p = {"v1": 0.5, "worse": 0.2, "same": 0.5, "better": 0.8, "later": 0.79}
    judge(selector, chance(p))
    assert ends(selector) == {
        "worse": "rejected",
        "same": "undecided",
        "better": "accepted",
        "later": "undecided",
    }
    result = selector.result()
    assert selector.done
    assert result.best is not None
    assert result.best.id == "better"
    assert result.prompts[1].evaluations < 200
    assert "4 candidates: 1 accepted, 1 rejected, 2 undecided." in result.notes[0]
    assert 'The incumbent was "v1", then "better".' in result.notes[0]
    assert "every accepted candidate is better than the prompt" in result.notes[1]
    reasons = [entry.reason for entry in result.prompts[1:]]
    assert reasons[0] == 'established not to be better (compared with "v1")'
    assert reasons[2] == 'established to be better (compared with "v1")'
    assert str(reasons[3]).endswith('that it is better (compared with "better")')
    frame = result.to_dataframe()
    assert frame["status"].tolist()[1:] == list(ends(selector).values())


def test_a_candidate_and_the_incumbent_are_paired_and_none_is_evaluated_twice() -> None:
    selector = new(method=Referee(each=100))
    selector.add({f"c{i}": f"candidate {i}" for i in range(5)})
    p = {"v1": 0.3} | {f"c{i}": 0.3 + 0.25 * (i == 1) for i in range(5)}
    judge(selector, chance(p))
    cells = [(row.prompt, row.example) for row in selector.evaluations()]
    assert len(cells) == len(set(cells))
    seen = {id_: {e for prompt, e in cells if prompt == id_} for id_ in p}
    incumbent = "v1"
    for id_, status in ends(selector).items():
        assert seen[id_] <= seen[incumbent]
        assert len(seen[id_]) <= 100
        incumbent = id_ if status == "accepted" else incumbent
    # Equal numbers of evaluations are equal sets of examples
    first = selector.state.problem.examples.order.tolist()
    assert all(examples == set(first[: len(examples)]) for examples in seen.values())


@pytest.mark.parametrize("accepted_before", [0, 1])
def test_a_candidate_is_accepted_exactly_when_the_bet_at_its_error_is_won(
    accepted_before: int,
) -> None:
    selector, p = new(), {"v1": 0.1, "b": 0.1 + 0.4 * accepted_before, "c": 0.75}
    selector.add({"b": "b", "c": "c"})
    score = chance(p, seed=3)
    judge(selector, score)
    assert ends(selector)["b"] == ("accepted" if accepted_before else "undecided")
    assert ends(selector)["c"] == "accepted"
    order, method = selector.state.problem.examples.order.tolist(), Referee()
    rival = "b" if accepted_before else "v1"
    leads = np.array([[score("c", e) - score(rival, e) for e in order[:200]]])
    error = method.error(2, accepted_before)
    capital = Betting(-1.0, 1.0).log_capital(leads, np.array([1e-11]))[0]
    won = int(np.argmax(capital >= -math.log(error))) + 1
    n = selector.result().prompts[2].evaluations
    assert n == 10 * math.ceil(won / 10)


def test_the_errors_of_all_comparisons_sum_to_the_promised_error() -> None:
    method, total = Referee(confidence=0.9), 0.0
    for number in range(1, 60):
        of_candidate = sum(
            math.comb(number - 1, k) * method.error(number, k)
            for k in range(number)
            # Smaller ones are rounded up
            if method.error(number, k) > 1e-15
        )
        assert of_candidate <= 0.1 * 6 / (math.pi * number) ** 2
        total += of_candidate
    assert total < 0.1
    assert method.error(1, 0) == pytest.approx(0.1 * 6 / math.pi**2 / 2)
    assert method.error(10**6, 500_000) == 1e-15


@pytest.mark.parametrize("seed", range(3))
def test_equal_candidates_are_not_accepted(seed: int) -> None:
    selector = new(method=Referee(each=60))
    selector.add({f"c{i}": str(i) for i in range(30)})
    p = dict.fromkeys(["v1", *(f"c{i}" for i in range(30))], 0.5)
    judge(selector, chance(p, seed))
    assert "accepted" not in ends(selector).values()
    assert "With 95%" not in str(selector.result())


def test_a_hopeless_candidate_is_given_up_and_a_promising_one_is_not() -> None:
    selector = new(method=Referee(each=300))
    selector.add({"hopeless": "a", "promising": "b"})
    score = chance({"v1": 0.5, "hopeless": 0.48, "promising": 0.6}, seed=1)
    judge(selector, score)
    of = {entry.id: entry for entry in selector.result().prompts}
    assert of["hopeless"].status == "undecided"
    assert of["promising"].status == "accepted"
    assert "hardly" in str(of["hopeless"].reason)
    assert of["hopeless"].evaluations < of["promising"].evaluations
    leads, few = np.tile([0.0, 0.2], 50), np.tile([0.0, -0.2], 50)
    assert chance_left(leads, 1000, 1e-3, 1.0) > 0.9
    assert chance_left(few, 1000, 1e-3, 1.0) < 0.01
    # With as many leads as there will be, only their mean counts
    assert chance_left(leads, 100, 1e-3, 1.0) == 1.0
    # A lead that is the same on all examples may still be different on others
    assert 0.05 < chance_left(np.zeros(20), 200, 1e-3, 1.0) < 0.5
    assert chance_left(np.zeros(20), 200, 1.0, 1.0) == 0.5


# Arrivals


def test_candidates_wait_for_those_before_them() -> None:
    selector = new()
    selector.add({"first": "a"})
    score = chance({"v1": 0.5, "first": 0.5, "second": 0.99})
    judge(selector, score, most=30)
    selector.add({"second": "b"})
    asked = []
    while trial := selector.ask():
        asked.append(trial.prompt_id)
        selector.tell(trial, score(trial.prompt_id, trial.example))
    assert asked.index("second") > max(
        i for i, id_ in enumerate(asked) if id_ == "first"
    )
    assert ends(selector) == {"first": "undecided", "second": "accepted"}


def test_a_selection_ends_without_candidates_and_goes_on_with_one() -> None:
    selector = new()
    assert selector.ask() is None
    assert selector.done
    assert selector.result().best.id == "v1"  # type: ignore[union-attr]
    for i in range(3):
        selector.add({f"c{i}": f"c{i}"})
        assert not selector.done
        judge(selector, chance({"v1": 0.2, "c0": 0.2, "c1": 0.8, "c2": 0.8}))
        assert selector.done
    assert ends(selector) == {"c0": "undecided", "c1": "accepted", "c2": "undecided"}


def test_the_same_candidate_twice_is_judged_once() -> None:
    selector = new()
    assert selector.add({"c": "text"}) == selector.add({"c": "text"}) == ["c"]
    assert len(selector.state.growth.events) == 1
    with pytest.raises(InvalidArgumentError, match="text"):
        selector.add({"d": "text"})
    with pytest.raises(InvalidArgumentError, match="one"):
        selector.add({"again": "one"})


def test_initial_candidates_and_a_baseline_in_the_middle() -> None:
    prompts = {"c1": "a", "v1": "b", "c2": "c"}
    selector = Selector(prompts, BEST, 2000, "referee", 300, baseline="v1")
    judge(selector, chance({"c1": 0.1, "v1": 0.5, "c2": 0.9}))
    statuses = [entry.status for entry in selector.result().prompts]
    assert statuses == ["rejected", "active", "accepted"]


def test_candidates_without_ids() -> None:
    selector = Selector(["one"], BEST, 2000, "referee", 300, baseline=0)
    assert selector.add(["two"]) == [1]
    judge(selector, chance({0: 0.2, 1: 0.9}))
    assert "The incumbent was prompt 0, then prompt 1." in selector.result().notes[0]


# The record


@pytest.mark.parametrize("at", [0, 7, 25, 130, 500])
def test_a_saved_selection_asks_the_same(at: int) -> None:
    selector, score = new(), chance({"v1": 0.4, "c0": 0.4, "c1": 0.8, "c2": 0.1})
    selector.add({f"c{i}": f"c{i}" for i in range(3)})
    judge(selector, score, most=at)
    again = Selector.from_json(selector.to_json())
    logs: list[list[Any]] = [[], []]
    for one, log in zip((selector, again), logs, strict=True):
        while trials := one.ask(3):
            log += trials
            for trial in trials:
                one.tell(trial, score(trial.prompt_id, trial.example))
    assert logs[0] == logs[1]
    assert str(again.result()) == str(selector.result())
    assert asktell.Selector.from_json(again.to_json()).method == Referee()


def test_a_study_with_workers_judges_and_grows() -> None:
    with Study.create("memory://referee", "night", new()) as study:
        study.add({"c1": "a", "c2": "b"})
        score = chance({"v1": 0.4, "c1": 0.9, "c2": 0.4})
        workers = [study.worker("w1"), study.worker("w2")]
        while not study.done:
            for worker in workers:
                judge(worker, score, most=1)
        assert ends(study) == {"c1": "accepted", "c2": "rejected"}
        with pytest.raises(InvalidArgumentError, match="incumbent cannot be retired"):
            study.retire("c1", "no longer wanted")


def test_run_evaluates_until_all_are_judged() -> None:
    selector = new()
    selector.add({"c1": "a"})
    p = chance({"one": 0.3, "a": 0.9})
    result = asktell.run(selector, p, concurrency=4, progress=False)
    assert result.best is not None
    assert result.best.id == "c1"


def test_a_budget_that_ends_in_the_middle_leaves_candidates_open_until_it_is_extended() -> (
    None
):
    selector = new(budget=30)
    selector.add({"c1": "a", "c2": "b"})
    score = chance({"v1": 0.5, "c1": 0.5, "c2": 0.5})
    judge(selector, score)
    assert selector.done
    assert selector.spent == 30
    assert ends(selector) == {"c1": "active", "c2": "active"}
    assert selector.result().best is not None
    assert selector.result().best.id == "v1"  # type: ignore[union-attr]
    selector.extend(evaluations=10_000)
    judge(selector, score)
    assert ends(selector) == {"c1": "undecided", "c2": "undecided"}
    assert len({row.prompt for row in selector.evaluations()}) == 3


def test_no_forecast_promises_what_more_evaluations_would_not_do() -> None:
    selector = new(examples=100)
    selector.add({"c1": "a", "c2": "b"})
    judge(selector, chance({"v1": 0.5, "c1": 0.5, "c2": 0.5}))
    result = selector.result()
    verdict = result.verdict
    assert verdict.action in ("take", "either", "best so far")
    assert verdict.outlook == ()
    assert verdict.sentence.startswith('Keep "v1"')
    assert "more evaluation" not in verdict.sentence
    assert "new examples" not in verdict.sentence
    # Numbers of decisions are no rounds
    assert {entry.round for entry in result.prompts} == {None}
    assert "round" not in str(result)


def test_a_budget_of_cost() -> None:
    selector = new(budget=Budget(cost=50.0))
    selector.add({"c1": "a", "c2": "b"})
    while trial := selector.ask():
        selector.tell(trial, 0.5, cost=1.0)
    assert selector.done
    assert selector.result().spent_cost <= 50
    selector.extend(cost=1000.0)
    while trial := selector.ask():
        selector.tell(trial, 0.5, cost=1.0)
    assert ends(selector) == {"c1": "undecided", "c2": "undecided"}


def test_a_lost_trial_of_a_rejected_candidate_holds_up_nobody() -> None:
    selector = new()
    selector.add({"bad": "a", "good": "b"})
    score, lost = chance({"v1": 0.5, "bad": 0.0, "good": 0.95}), None
    while trials := selector.ask(25):
        for trial in trials:
            if trial.prompt_id == "bad" and lost is None:
                lost = trial
            else:
                selector.tell(trial, score(trial.prompt_id, trial.example))
        if "good" in {trial.prompt_id for trial in trials}:
            break
    # The pending trial of "bad" is on one of the first examples.
    if "bad" not in {e.id for e in selector.result().prompts if e.status == "rejected"}:
        selector.retire("bad", "lost")
    judge(selector, score)
    assert ends(selector)["good"] == "accepted"


def test_the_incumbent_is_not_retired() -> None:
    selector = new()
    selector.add({"c1": "a", "c2": "b"})
    judge(selector, chance({"v1": 0.3, "c1": 0.9, "c2": 0.3}))
    before = selector.to_json()
    with pytest.raises(InvalidArgumentError, match="incumbent cannot be retired"):
        selector.retire("c1", "too long")
    with pytest.raises(InvalidArgumentError, match="baseline cannot be retired"):
        selector.retire("v1", "old")
    assert selector.to_json() == before
    # An earlier incumbent, and a candidate that waits, may be.
    selector.add({"c3": "c", "c4": "d"})
    selector.retire("c3", "a mistake")
    judge(selector, chance({"c1": 0.3, "c4": 0.95}))
    assert selector.result().best.id == "c4"  # type: ignore[union-attr]
    selector.retire("c1", "old")
    assert ends(selector)["c3"] == ends(selector)["c1"] == "retired"


def test_doubtful_scores_establish_nothing() -> None:
    selector = new()
    selector.add({"c": "a"})
    selector.remark("The judge is broken.", doubtful=True)
    judge(selector, chance({"v1": 0.0, "c": 1.0}))
    assert ends(selector) == {"c": "undecided"}


# Goals


def test_less_is_better_and_a_tolerance() -> None:
    goal = BestFeasible(minimize("latency", range=UNIT, tolerance=0.1))
    selector = new(goal)
    selector.add({"near": "a", "far": "b"})
    level = {"v1": 0.6, "near": 0.55, "far": 0.3}

    def score(prompt: Any, example: int) -> float:
        rng = np.random.default_rng([example, len(prompt)])
        return float(level[prompt] + 0.1 * rng.random())

    judge(selector, score)
    assert ends(selector) == {"near": "undecided", "far": "accepted"}
    assert "better by more than 0.1 than" in str(selector.result())


def test_constraints_must_be_established() -> None:
    goal = BestFeasible(
        maximize("a", range=UNIT),
        subject_to={
            "safe": at_least(0.5),
            minimize("cost", range=(0, 10)): at_most(2.0),
        },
    )
    selector = new(goal)
    selector.add({"unsafe": "a", "dear": "b", "close": "c", "good": "d"})
    values = {
        "v1": (0.2, 0.9, 1.0),
        "unsafe": (0.9, 0.1, 1.0),
        "dear": (0.9, 0.9, 5.0),
        "close": (0.9, 0.5, 1.0),
        "good": (0.9, 0.9, 1.0),
    }

    def score(prompt: Any, example: int) -> dict[str, float]:
        a, safe, cost = values[prompt]
        rng = np.random.default_rng([example, *prompt.encode()])
        return {
            "a": float(rng.random() < a),
            "safe": float(rng.random() < safe),
            "cost": cost * (0.9 + 0.2 * rng.random()),
        }

    judge(selector, score)
    assert ends(selector) == {
        "unsafe": "rejected",
        "dear": "rejected",
        "close": "undecided",
        "good": "accepted",
    }
    reasons = {entry.id: entry.reason for entry in selector.result().prompts}
    assert str(reasons["unsafe"]).startswith("established to violate safe >= 0.5")
    assert "and satisfies every constraint" in " ".join(selector.result().notes)


def test_a_constraint_against_the_baseline_compares_with_it_and_not_with_the_incumbent() -> (
    None
):
    goal = BestFeasible(
        minimize("cost", range=(0, 10)),
        subject_to={
            maximize("a", range=UNIT): within(0.2, of="baseline"),
        },
    )
    selector = new(goal)
    selector.add({"cheap": "a", "bad": "b", "cheaper": "c"})
    levels = {
        "v1": (9.0, 0.8),
        "cheap": (6.0, 0.9),
        "bad": (1.0, 0.1),
        # Worse than "cheap" by more than the margin, but not than "v1"
        "cheaper": (2.0, 0.69),
    }

    def score(prompt: Any, example: int) -> dict[str, float]:
        cost, a = levels[prompt]
        rng = np.random.default_rng(example)
        return {
            "cost": cost + rng.random(),
            "a": float(np.clip(a + 0.1 * rng.normal(), 0, 1)),
        }

    judge(selector, score)
    assert ends(selector) == {
        "cheap": "accepted",
        "bad": "rejected",
        "cheaper": "accepted",
    }
    cells = {(row.prompt, row.example) for row in selector.evaluations()}
    of = {id_: {e for prompt, e in cells if prompt == id_} for id_ in levels}
    assert of["cheaper"] <= of["v1"]
    assert of["cheaper"] <= of["cheap"]


@pytest.mark.parametrize("lead", [0.0, 0.01])
def test_given_examples_are_known_exactly_once_all_were_seen(lead: float) -> None:
    selector = new(examples=40, **SUITE)
    selector.add({"c": "a"})
    judge(selector, lambda prompt, example: example / 50 + lead * (prompt == "c"))
    assert ends(selector) == {"c": "accepted" if lead else "rejected"}


def test_repeats_and_evaluators_that_draw_their_own_examples() -> None:
    rng = np.random.default_rng(0)

    def score(prompt: Any, example: Any) -> float:
        return float(rng.random() < {"v1": 0.3, "c": 0.8, "d": 0.8}[prompt])

    for options in ({"examples": 20, "repeats": 10}, {"examples": None},
                    {"examples": 30, "sampling": "iid"}):  # fmt: skip
        selector = new(**options)  # type: ignore[arg-type]
        selector.add({"c": "a", "d": "b"})
        judge(selector, score)
        statuses = ends(selector)
        if "repeats" in options:
            # Twenty inputs are not enough, however often they are evaluated.
            assert statuses["d"] == "undecided"
        else:
            assert statuses == {"c": "accepted", "d": "undecided"}
        assert selector.result().prompts[2].evaluations <= 200


def test_failures_count_against_a_candidate() -> None:
    results = {}
    for rate in (0, 4):
        selector = new(max_failure_rate=1.0)
        selector.add({"c": "a"})
        while trial := selector.ask():
            if trial.prompt_id == "c" and rate and trial.id % rate == 0:
                selector.fail(trial, "timeout")
            else:
                selector.tell(trial, 0.9 if trial.prompt_id == "c" else 0.8)
        results[rate] = ends(selector)["c"]
    assert results == {0: "accepted", 4: "undecided"}
    selector = new()
    selector.add({"broken": "a", "c": "b"})
    score = chance({"v1": 0.3, "c": 0.9})
    while trial := selector.ask():
        if trial.prompt_id == "broken":
            selector.fail(trial, "no such tool")
        else:
            selector.tell(trial, score(trial.prompt_id, trial.example))
    assert ends(selector) == {"broken": "failed", "c": "accepted"}
    assert "2 candidates: 1 accepted, 1 failed." in selector.result().notes[0]


def test_more_examples_are_used_by_later_candidates() -> None:
    selector = new(examples=20, method=Referee(each=100))
    score = chance({"v1": 0.2, "c1": 0.5, "c2": 0.8})
    selector.add({"c1": "a"})
    judge(selector, score)
    assert ends(selector) == {"c1": "undecided"}
    selector.extend(examples=100)
    selector.add({"c2": "b"})
    judge(selector, score)
    assert ends(selector) == {"c1": "undecided", "c2": "accepted"}


# The simulation


def test_a_simulated_night_is_that_of_a_selector() -> None:
    kind, seed, each = "smooth", 5, 500
    scores: list[Any] = []

    def remember(leads: Any, number: int, accepted: int) -> nights.Decision:
        scores.append(leads)
        return nights.referee(leads, number, accepted, each)

    decided = nights.night(kind, 3, remember, seed, candidates=7)
    # The same night, by a selector. Scores follow from the leads over the incumbent.
    selector = new(method=Referee(each=each), examples=nights.INPUTS)
    place = selector.state.problem.examples.place
    of: dict[Any, Any] = {"v1": np.full(nights.INPUTS, 0.5)}
    for number, leads in enumerate(scores, 1):
        best = selector.result().best
        assert best is not None
        of[f"c{number}"] = of[best.id] + leads
        selector.add({f"c{number}": f"c{number}"})
        while trial := selector.ask():
            score = of[trial.prompt_id][place[trial.example]]
            selector.tell(trial, float(np.clip(score, 0, 1)))
    statuses = list(ends(selector).values())
    assert selector.spent == decided.evaluations
    assert statuses.count("accepted") == decided.true + decided.false
    assert decided.true >= 1


# Refusals


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"baseline": None}, "baseline"),
        ({"goal": ParetoSet("a", "b")}, "BestFeasible"),
        ({"goal": BestFeasible("a", {"b": at_least(0.5)}, sure=0.9)}, "sure"),
        (
            {
                "goal": BestFeasible(maximize("a", worst_segment=True)),
                "segments": ["x", "y"] * 150,
            },
            "segments",
        ),
        (
            {"goal": BestFeasible(minimize("cost"), {maximize("a"): within(0.1)})},
            'of="baseline"',
        ),
    ],
)
def test_it_refuses_what_it_does_not_support(options: Any, words: str) -> None:
    with pytest.raises(IncompatibleMethodError, match=words):
        new(**options)


@pytest.mark.parametrize(
    "arguments",
    [
        {"confidence": 0.0},
        {"confidence": 1.0},
        {"confidence": float("nan")},
        {"confidence": "95%"},
        {"each": 0},
        {"each": 2.5},
        {"each": True},
    ],
)
def test_bad_parameters(arguments: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
        Referee(**arguments)
