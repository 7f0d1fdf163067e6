"""Failed evaluations: missing values or scores, a rate that takes a prompt out, and an end to all of it."""

import json
import math
import random
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

import asktell
from asktell import (
    Adaptive,
    BestFeasible,
    Budget,
    InvalidStateError,
    ParetoSet,
    Selector,
    Study,
    maximize,
)
from asktell.errors import UnknownTrialError
from asktell.proofs.ordered import in_turns, turns
from asktell.record.failures import SURE, is_above
from asktell.selector import at_state
from asktell.studies import replica
from asktell.studies.storages.memory import MemoryStorage
from benchmarks.selection.failures import METHODS, play, regret, scores_of
from tests.seeds import Seeds

ZERO_ONE = BestFeasible(maximize("a", range=(0, 1)))
PROMPTS = [f"p{i}" for i in range(4)]
FRONT = ParetoSet(maximize("a", range=(0, 1)), subject_to={"b": 0.5})


def ended(
    selector: Any, fails: Any, score: Any = lambda trial: 0.5, most: int = 100_000
) -> Any:
    """Played to its end; at every step no more is told and out than the budget."""
    for _ in range(most):
        assert selector.spent + len(selector.pending) <= selector.budget
        trial = selector.ask()
        if trial is None:
            assert selector.done
            return selector.result()
        if fails(trial):
            selector.fail(trial, f"down, {trial.id}")
        else:
            selector.tell(trial, [score(trial)] * len(selector.metrics))
    raise AssertionError("it does not end")


# The rate


@pytest.mark.parametrize("rate", [1e-6, 0.01, 0.2, 0.5, 0.9, 0.999])
def test_a_rate_is_above_when_the_posterior_says_so(rate: float) -> None:
    counts = [*range(1, 130), 1000, 20_000]
    for n in counts:
        near = {
            round(n * rate + z * math.sqrt(n * rate * (1 - rate))) + d
            for z in (0, 2, 2.3, 4)
            for d in (-1, 0, 1)
        }
        for failures in sorted((near | {1, n}) & set(range(1, n + 1))):
            assert is_above(rate, failures, n) == (
                beta.sf(rate, 1 + failures, 1 + n - failures) >= SURE
            )


def test_by_default_it_takes_six_of_six() -> None:
    assert next(n for n in range(1, 20) if is_above(0.5, n, n)) == 6
    assert not is_above(0.5, 6, 7)
    assert not any(is_above(1.0, n, n) for n in (1, 100, 10**6))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("examples", [40, None])
def test_a_prompt_that_always_fails_leaves_after_six(
    method: str, examples: int | None
) -> None:
    selector = Selector(PROMPTS, ZERO_ONE, 60, method, examples=examples)
    result = ended(
        selector, lambda trial: trial.prompt_id == 2, lambda trial: float(trial.id % 2)
    )
    assert [entry.failures for entry in result.prompts] == [0, 0, 6, 0]
    assert result.prompts[2].status == "failed"
    assert result.prompts[2].reason.startswith(
        "6 of 6 evaluations failed, last: down, "
    )
    assert 2 not in {entry.id for entry in (*result.selected, *result.unresolved)}
    # Whose plan of a round is made beforehand
    assert result.spent == 60 or method in ("csr", "uniform")


def test_failures_count_against_those_that_were_told_and_not_those_observed_or_released() -> (
    None
):
    def failed(n_told: int, n_observed: int, n_released: int) -> int:
        selector = Selector(
            ["p", "q"], ZERO_ONE, 60, "uniform", examples=30, baseline=1
        )
        trials = [trial for trial in sorted(selector.ask(60)) if trial.prompt_id == 0]
        for trial in trials[:n_told]:
            selector.tell(trial, [1.0])
        for _ in range(n_observed):
            selector.observe(0, [1.0])
        for trial in trials[20 : 20 + n_released]:
            selector.release(trial)
        for n, trial in enumerate(trials[n_told:20]):
            selector.fail(trial, "down")
            if selector.result().prompts[0].status == "failed":
                return n + 1
        return 0

    assert failed(0, 0, 0) == failed(0, 9, 3) == 6
    assert failed(1, 0, 0) == 9
    assert failed(4, 0, 0) == next(f for f in range(99) if is_above(0.5, f, f + 4))


@pytest.mark.parametrize("method", METHODS)
def test_random_failures_take_nobody_out_and_leave_the_choice_what_it_is(
    seeds: Seeds,
    method: str,
) -> None:
    regrets: dict[float, list[float]] = {0.0: [], 0.1: []}
    for seed in seeds(8):
        scores = scores_of(8, 60, seed)
        fails = np.random.default_rng([seed, 1]).random(scores.shape)
        for rate, found in regrets.items():
            result = play(scores, fails < rate, method, 180, seed).result()
            found.append(regret(result, scores))
            assert "failed" not in {entry.status for entry in result.prompts}
    room = 0.32 / len(regrets[0.0])
    assert np.mean(regrets[0.1]) < np.mean(regrets[0.0]) + room


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rate", [0.01, 0.02, 0.04, 0.1])
def test_the_choice_is_as_good_as_without_failures(method: str, rate: float) -> None:
    more = []
    for seed in range(200):
        scores = scores_of(8, 200, seed)
        fails = np.random.default_rng([seed, 1]).random(scores.shape) < rate
        found = [
            play(scores, failing, method, 600, seed).result()
            for failing in (fails & False, fails)
        ]
        assert "failed" not in {entry.status for entry in found[1].prompts}
        more.append(regret(found[1], scores) - regret(found[0], scores))
    assert np.mean(more) < 0.002 + 3 * np.std(more) / math.sqrt(len(more))


# The baseline


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sampling", ["shared", "iid"])
@pytest.mark.parametrize("examples", [12, None])
def test_a_baseline_that_always_fails_stays_and_the_others_are_judged(
    method: str, sampling: str, examples: int | None
) -> None:
    selector = Selector(
        PROMPTS, ZERO_ONE, 24, method, examples=examples, sampling=sampling, baseline=1
    )
    result = ended(
        selector,
        lambda trial: trial.prompt_id == 1,
        lambda trial: float(trial.prompt_id == 3),
    )
    assert (result.prompts[1].status, result.prompts[1].evaluations) == ("active", 0)
    assert result.prompts[1].failures >= 6
    assert [entry.id for entry in result.selected] == [3]
    assert result.spent >= 18
    assert "have no common example yet" in str(result)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("examples", [12, None])
@pytest.mark.parametrize("rate", [0.5, 1.0])
def test_where_all_fail_it_ends_and_only_the_baseline_stays(
    method: str, examples: int | None, rate: float
) -> None:
    selector = Selector(
        PROMPTS,
        ZERO_ONE,
        24,
        method,
        examples=examples,
        baseline=0,
        max_failure_rate=rate,
    )
    result = ended(selector, lambda trial: True)
    assert [entry.status for entry in result.prompts] == [
        "active",
        "failed",
        "failed",
        "failed",
    ]
    assert (result.selected, result.spent) == ([], 0)
    assert "Nothing was measured, because all" in str(result).splitlines()[1]


def test_a_baseline_that_fails_does_not_keep_the_others_waiting() -> None:
    selector = Selector(PROMPTS, ZERO_ONE, 40, "auto", examples=1000, baseline=0)
    asked = []

    def fails(trial: Any) -> bool:
        asked.append(trial.prompt_id)
        return bool(trial.prompt_id == 0)

    result = ended(selector, fails)
    assert set(asked[:20]) == {0, 1, 2, 3}
    assert result.prompts[0].failures < 60


def test_a_run_stops_when_everything_fails_in_different_ways_too() -> None:
    def evaluate(prompt: str, example: int) -> float:
        raise RuntimeError("down" if prompt in ("p0", "p2") else "no key")

    selector = Selector(PROMPTS, ZERO_ONE, 40, "auto", examples=12, baseline=0)
    with pytest.raises(asktell.EvaluatorError, match="9 evaluations in a row failed"):
        asktell.run(selector, evaluate, progress=False, max_failures_in_a_row=9)
    assert len(selector.state.failures) == 9


# As scores


@pytest.mark.parametrize("method", METHODS)
def test_a_failure_can_count_as_scores(method: str) -> None:
    selector = Selector(
        PROMPTS, ZERO_ONE, 80, method, examples=40, on_failure={"a": 0.25}
    )
    result = ended(
        selector,
        lambda trial: trial.prompt_id == 2,
        lambda trial: float(trial.prompt_id == 1),
    )
    entry = result.prompts[2]
    assert (
        result.spent
        == sum(entry.evaluations for entry in result.prompts)
        == (40 if method == "race" else 80)
    )
    assert entry.failures == entry.evaluations > 0
    assert entry.status == "rejected"
    if method != "auto":
        assert entry.estimate == pytest.approx({"a": 0.25})
    assert [entry.id for entry in result.selected] == [1]
    of_answer = (
        f"including 0 of {result.prompts[1].evaluations} for the selected prompt"
    )
    assert (
        f"{entry.failures} of {result.spent} evaluations failed, {of_answer}. Failures are counted as a 0.25."
        in result.notes
    )
    evaluations = [each for each in selector.evaluations() if each.error is not None]
    assert len(evaluations) == entry.failures
    assert {tuple(each.scores.items()) for each in evaluations} == {(("a", 0.25),)}
    assert Selector.from_json(selector.to_json()).result() == result


def test_a_failure_that_counts_is_told_once() -> None:
    selector = Selector(
        PROMPTS, ZERO_ONE, 8, "uniform", examples=40, on_failure={"a": 0}
    )
    trial = selector.ask()
    selector.fail(trial, "down", cost=0.5)
    assert (selector.spent, selector.spent_cost) == (1, 0.5)
    for scores in ([0.0], [1.0]):
        with pytest.raises(UnknownTrialError, match="Trial 0 has failed already"):
            selector.tell(trial, scores)
    assert not selector.fail(trial, "again")


def test_what_failed_is_not_repeated_to_see_whether_scores_differ() -> None:
    failed, again = set(), set()

    def evaluate(prompt: str, example: int, repeat: int) -> float:
        if repeat:
            again.add((prompt, example))
        elif example % 2:
            failed.add((prompt, example))
            raise TimeoutError("no answer")
        return 1.0

    selector = Selector(
        PROMPTS,
        ZERO_ONE,
        120,
        "uniform",
        examples=40,
        on_failure={"a": 0.0},
        inputs="given",
    )
    result = asktell.run(selector, evaluate, progress=False, max_failures_in_a_row=None)
    assert (len(failed), result.spent) == (
        sum(entry.failures for entry in result.prompts),
        120,
    )
    assert again
    assert not again & failed


def test_what_is_missing_and_what_counts_as_a_score() -> None:
    """A prompt that fails on the examples that it would not solve looks better if they are skipped."""
    scores = np.zeros((2, 400))
    scores[0, :220], scores[1, :160] = 1.0, 1.0
    fails = np.zeros_like(scores, dtype=bool)
    fails[1, 180:] = True  # 160 of 180 are left
    chosen = [
        play(scores, fails, "uniform", 120, 0, **options).result().selected[0].id
        for options in ({"max_failure_rate": 0.9}, {"on_failure": {"accuracy": 0.0}})
    ]
    assert chosen == [1, 0]


def test_a_problem_keeps_what_a_failure_is() -> None:
    goal = ParetoSet("a", "b")
    selector = Selector(
        PROMPTS, goal, 9, on_failure={"b": 1, "a": -2.5}, max_failure_rate=0.25
    )
    data = json.loads(selector.to_json())
    assert (data["on_failure"], data["max_failure_rate"]) == (
        {"a": -2.5, "b": 1.0},
        0.25,
    )
    again = Selector.from_json(json.dumps(data)).state.problem
    assert (again.on_failure, again.max_failure_rate) == ({"a": -2.5, "b": 1.0}, 0.25)
    for wrong in (
        {"max_failure_rate": 0},
        {"max_failure_rate": 2},
        {"on_failure": {"a": 0}},
        {"on_failure": "no"},
    ):
        with pytest.raises(InvalidStateError):
            Selector.from_json(json.dumps(data | wrong))


# What a state knows of them


@pytest.mark.parametrize("scores", [None, {"a": 0.0}])
def test_a_study_goes_on_from_its_log_and_its_snapshots(
    monkeypatch: pytest.MonkeyPatch, scores: Any
) -> None:
    monkeypatch.setattr(replica, "ENTRIES_PER_SNAPSHOT", 16)
    storage, rng = MemoryStorage(), random.Random(1)
    options: dict[str, Any] = {} if scores is None else {"on_failure": scores}
    straight, made = (
        Selector(PROMPTS, ZERO_ONE, 60, "auto", examples=40, **options)
        for _ in range(2)
    )
    study = Study.create(storage, "s", made)
    while (trial := study.ask()) is not None:
        assert straight.ask() == trial
        for each in (straight, study):
            if trial.id % 3 == 1:
                each.fail(trial, f"down\x00 {trial.id}", 0.25)
            else:
                each.tell(trial, [float(trial.id % 2)])
        if rng.random() < 0.2:
            study = Study.open(storage, "s")
    found = storage.snapshot(1)
    assert len(found.parts) > 3
    for opened in (study, Study.open(storage, "s")):
        assert opened.selector.to_json() == straight.to_json()
        assert list(opened.selector.state.failures) == list(straight.state.failures)
        assert opened.result() == straight.result()
    failed = [each for each in study.evaluations() if each.error is not None]
    assert [(each.trial, each.error, each.scores) for each in failed] == [
        (trial, reason, scores) for trial, _, _, reason in straight.state.failures
    ]
    assert [(e.trial, e.scores, e.error) for e in sorted(straight.evaluations())] == [
        (e.trial, e.scores, e.error) for e in sorted(study.evaluations())
    ]


def test_states_that_went_different_ways_keep_their_own_failures() -> None:
    selector = Selector(PROMPTS, ZERO_ONE, 8, "uniform", examples=40)
    first, second, third = selector.ask(3)
    selector.fail(first, "one")
    before = selector.state
    selector.fail(second, "two")
    left = selector.state
    selector = at_state(selector, before)
    selector.fail(third, "three")
    pulls = {
        trial.id: (trial.id, trial.prompt_id, trial.example)
        for trial in (first, second, third)
    }
    assert list(before.failures) == [(*pulls[first.id], "one")]
    assert list(left.failures) == [
        (*pulls[first.id], "one"),
        (*pulls[second.id], "two"),
    ]
    assert list(selector.state.failures) == [
        (*pulls[first.id], "one"),
        (*pulls[third.id], "three"),
    ]
    assert second.id in left.failures
    assert second.id not in selector.state.failures


def test_a_score_behind_a_failure_stands_in_the_next_round() -> None:
    """So an order of scores only ever grows at its end, whatever was looked at meanwhile."""
    selector = Selector(["p"], ZERO_ONE, 5, "uniform", examples=2, repeats=3)
    while (trial := selector.ask()) is not None:
        if trial.id == 0:
            selector.fail(trial, "down")
        else:
            selector.tell(trial, [trial.id / 10])
    state = selector.state
    problem, history = state.problem, state.history
    rows = history.trials(), history.arms(), history.examples()
    told = [
        selector.prompts.trial(*row)
        for row in zip(*(column.tolist() for column in rows), strict=True)
    ]
    at = [
        2 * selector.repeat_of(trial) + int(problem.examples.place[trial.example])
        for trial in told
    ]
    assert turns(problem, state.missing, *rows).tolist() == at
    assert (
        sorted(at)
        == in_turns(problem, state.missing, *rows, history.scores())[1].tolist()
        == [1, 2, 3, 4, 5]
    )


def test_a_failure_copies_nothing_of_those_before() -> None:
    selector = Selector(["p", "q"], ZERO_ONE, 10**6, "uniform", max_failure_rate=1.0)
    columns = set()
    for trial in selector.ask(500):
        selector.fail(trial, "down") if trial.id % 2 else selector.tell(trial, [1.0])
        columns.add(
            (
                id(selector.state.failures.pulls._columns),
                id(selector.state.failures._reasons),
            )
        )
    assert len(columns) == 1
    assert [len(selector.state.failures), selector.state.failures.count(0)] == [250, 0]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["csr-sh", "auto"])
def test_hundred_thousand_failures_do_not_crawl(method: str) -> None:
    selector, rng, began = (
        Selector(PROMPTS, ZERO_ONE, 10**6, method),
        random.Random(0),
        time.process_time(),
    )
    while len(selector.state.failures) < 100_000:
        for trial in selector.ask(100):
            selector.fail(
                trial, f"down, {trial.id}"
            ) if rng.random() < 0.45 else selector.tell(trial, [rng.random()])
    assert Selector.from_json(selector.to_json()).result() == selector.result()
    assert time.process_time() - began < 60


# Anything at all


@settings(max_examples=10, deadline=None)
@given(
    method=st.sampled_from(
        ["uniform", "csr", "csr-sh", "ege-sr", "ege-sh", "auto", "race", "settled"]
    ),
    pool=st.sampled_from(
        [
            (None, 1, "shared"),
            (3, 1, "shared"),
            (20, 1, "shared"),
            (3, 3, "shared"),
            (5, 1, "iid"),
        ]
    ),
    on_failure=st.sampled_from(["skip", "skip", 0.0]),
    rate=st.sampled_from([1e-6, 0.3, 0.5, 0.9, 1.0]),
    often=st.sampled_from([0.0, 0.05, 0.5, 0.9, 1.0]),
    bad=st.sampled_from([None, 0, 1]),
    baseline=st.sampled_from([None, 0, 1]),
    budget=st.sampled_from([6, 25, "cost"]),
    seed=st.integers(0, 10**6),
)
def test_random_plays_end_and_saved_and_loaded_anywhere_go_on_as_they_were(
    method: str,
    pool: tuple[int | None, int, str],
    on_failure: Any,
    rate: float,
    often: float,
    bad: int | None,
    baseline: int | None,
    budget: Any,
    seed: int,
) -> None:
    best, fronts = (
        BestFeasible(maximize("a", range=(0, 1), tolerance=0.1), {"b": 0.5}),
        [ParetoSet("a", "b"), FRONT],
    )
    if method.startswith("csr"):
        goal: Any = best
    else:
        goal = (fronts if method.startswith("ege") else [best, *fronts])[
            seed % (2 if method.startswith("ege") else 3)
        ]
    examples, repeats, sampling = pool
    if budget == "cost":
        budget = Budget(cost=3.0) if method in ("auto", "race", "settled") else 12
    chosen: Any = Adaptive(confidence=0.8) if method == "settled" else method
    straight = Selector(
        PROMPTS,
        goal,
        budget,
        chosen,
        examples=examples,
        seed=seed,
        sampling=sampling,
        repeats=repeats,
        baseline=baseline,
        max_failure_rate=rate,
        on_failure=on_failure
        if on_failure == "skip"
        else dict.fromkeys(goal.metrics, on_failure),
    )
    reloaded = Selector.from_json(straight.to_json())
    rng = random.Random(seed)
    for _ in range(20_000):
        if straight.done:
            break
        if rng.random() < 0.1:
            reloaded = Selector.from_json(reloaded.to_json())
        n = rng.choice([1, 1, 3])
        trials = straight.ask(n)
        assert reloaded.ask(n) == trials
        assert straight.spent + len(straight.pending) <= straight.budget
        for trial in rng.sample(
            straight.pending, rng.randint(0 if trials else 1, len(straight.pending))
        ):
            fails, roll = (
                rng.random() < (1.0 if trial.prompt_id == bad else often),
                rng.random(),
            )
            scores, cost = (
                [float(rng.random() < 0.5), rng.random()],
                rng.choice([0.0, 0.05, 0.2]),
            )
            for each in (straight, reloaded):
                if fails:
                    each.fail(trial, f"down, {trial.id}", cost)
                elif roll < 0.1:
                    each.release(trial)
                else:
                    each.tell(trial, scores, cost)
    assert straight.done
    assert reloaded.done
    result = straight.result()
    assert straight.to_json() == reloaded.to_json()
    assert (
        result == reloaded.result() == Selector.from_json(straight.to_json()).result()
    )
    n_failed = len(straight.state.failures)
    assert sum(entry.failures for entry in result.prompts) == n_failed
    if on_failure != "skip":
        assert "failed" not in {entry.status for entry in result.prompts}
    if rate == 1.0 and on_failure == "skip":
        failed = [
            str(entry.reason) for entry in result.prompts if entry.status == "failed"
        ]
        assert all(
            reason.startswith("every evaluation failed, last: down, ")
            for reason in failed
        )
    if baseline is not None:
        assert result.prompts[baseline].status in ("active", "accepted")
    assert any("evaluations failed" in note for note in result.notes) == bool(n_failed)
