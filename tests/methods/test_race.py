"""Race: fixed confidence, every prompt on the same examples."""

import itertools
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import (
    Adaptive,
    BestFeasible,
    Budget,
    InvalidArgumentError,
    ParetoSet,
    Race,
    Selector,
    Study,
    at_most,
    maximize,
    minimize,
)
from asktell.proofs.intervals.betting import Betting
from asktell.proofs.intervals.racing import certainly_worse
from benchmarks.selection import race as simulated
from tests.plays import ended, play
from tests.seeds import Seeds

UNIT = (0.0, 1.0)
BEST = BestFeasible(maximize("a", range=UNIT))


def within(tolerance: float) -> BestFeasible:
    return BestFeasible(maximize("a", range=UNIT, tolerance=tolerance))


PAIR = {"x": "be brief", "y": "be exact"}


def zero_one(k: int, n: int, step: float = 0.1, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    easy = rng.random(n)
    return (
        0.8 * easy + 0.2 * rng.random((k, n)) < 0.5 + step * np.arange(k)[:, None]
    ).astype(float)[:, :, None]


# Exactly the given examples, without noise
SUITE: dict[str, Any] = {"inputs": "given", "repeats": 1}


@pytest.mark.parametrize(("world", "population"), [({}, None), (SUITE, 300)])
def test_two_prompts_are_told_apart_exactly_when_the_bet_is_won(
    world: Any, population: int | None
) -> None:
    scores = zero_one(2, 300)
    selector = ended(
        Selector(PAIR, BEST, 600, Race(block=1), examples=300, **world), scores
    )
    result = selector.result()
    order = selector.state.problem.examples.order
    ahead = (scores[1] - scores[0])[order, 0]
    capital = Betting(-1, 1, population).log_capital(ahead[None], [0.0])[0]
    needed = 1 + int(np.argmax(capital >= np.log(1 / 0.05)))
    assert result.spent == 2 * needed
    assert (result.stopped_early, result.done) == (True, True)
    assert [entry.id for entry in result.selected] == ["y"]
    assert (result.prompts[0].status, result.prompts[0].reason) == (
        "rejected",
        "established to be worse than another prompt",
    )
    assert "With 95% confidence, the selection is correct." in result.notes
    assert result.compare("x").guaranteed
    # A difference of .1 on 300 examples takes well under half of the cells.
    assert result.spent < 300


@pytest.mark.parametrize(("world", "population"), [({}, None), (SUITE, 300)])
def test_of_many_each_leaves_when_it_has_lost_its_own_bet(
    world: Any, population: int | None
) -> None:
    scores = zero_one(8, 300, 0.05)
    selector = ended(
        Selector(
            [f"p{i}" for i in range(8)],
            BEST,
            2400,
            Race(block=1),
            examples=300,
            **world,
        ),
        scores,
    )
    ordered = scores[:, selector.state.problem.examples.order, 0]
    zero = np.zeros(8, dtype=np.int64)
    left = certainly_worse(
        Betting(-1, 1, population), ordered, zero + 300, zero, zero == 0, 0.05
    )
    left[7] = left[:7].max()
    assert [entry.evaluations for entry in selector.result().prompts] == left.tolist()
    assert len(set(left.tolist())) > 4
    assert selector.result().spent < 0.4 * 2400


def test_within_a_tolerance_many_end_with_a_claim_of_their_own() -> None:
    scores = zero_one(9, 200, 0.0)
    scores[8] = zero_one(1, 200, 0.0) + (
        np.random.default_rng(1).random((1, 200, 1)) < 0.2
    )
    np.clip(scores, 0, 1, out=scores)
    selector = Selector(
        [f"p{i}" for i in range(9)], within(0.3), 1800, "race", examples=200
    )
    result = ended(selector, scores).result()
    assert result.stopped_early
    assert len(result.unresolved) > 0
    assert result.spent < 900


def test_who_is_retired_is_nobodys_rival_any_more() -> None:
    scores = np.stack([np.ones((60, 1)), *[zero_one(1, 60)[0]] * 2])
    selector = ended(
        Selector(["p", "q", "r"], BEST, 180, Race(block=4), examples=60), scores, n=12
    )
    assert selector.n_active == 3
    selector.retire("p", "too expensive")
    result = ended(selector, scores).result()
    assert result.prompts[0].status == "retired"
    # They are equal
    assert [entry.evaluations for entry in result.prompts[1:]] == [60, 60]


def test_who_joins_takes_what_the_others_have_seen_and_changes_nothing_of_that() -> (
    None
):
    scores = zero_one(5, 200, 0.08)
    prompts = [f"p{i}" for i in range(4)]
    selector = ended(
        Selector(prompts, BEST, 1000, Race(block=5), examples=200, **SUITE),
        scores,
        n=160,
    )
    left = set(range(4)) - set(selector.state.active.tolist())
    assert 0 < len(left) < 3
    selector.add(["new"])
    play(selector, scores)
    result = selector.result()
    assert (result.stopped_early, result.selected[0].prompt) == (True, "new")
    assert left <= {arm for arm in range(4) if result.prompts[arm].status == "rejected"}
    assert result.spent < 500


def test_everybody_takes_the_same_next_examples() -> None:
    selector = Selector(
        [f"p{i}" for i in range(4)], BEST, 400, Race(block=3), examples=100
    )
    order = selector.state.problem.examples.order
    trials = selector.ask(12)
    assert selector.ask() is not None  # another block: nobody waits for stragglers
    expected = [(i, int(example)) for i in range(4) for example in sorted(order[:3])]
    assert sorted((t.prompt_id, t.example) for t in trials) == expected


def test_equal_prompts_go_on_to_the_last_example_and_within_a_tolerance_they_end() -> (
    None
):
    scores = np.ones((2, 60, 1))
    full = ended(
        Selector(PAIR, BEST, 120, "race", examples=60, **SUITE), scores
    ).result()
    assert (full.spent, full.stopped_early) == (120, True)
    # On new inputs they may differ all the same.
    assert (
        not ended(Selector(PAIR, BEST, 120, "race", examples=60), scores)
        .result()
        .stopped_early
    )
    early = ended(
        Selector(PAIR, within(0.1), 120, "race", examples=60), scores
    ).result()
    suite = ended(
        Selector(PAIR, within(0.1), 120, "race", examples=60, **SUITE), scores
    ).result()
    assert suite.spent <= 60 < early.spent < 120
    assert (early.stopped_early, len(early.unresolved)) == (True, 1)


def test_a_budget_that_ends_first_says_so() -> None:
    result = ended(
        Selector(PAIR, BEST, 21, Race(), examples=300), zero_one(2, 300, 0.01)
    ).result()
    assert (result.spent, result.done, result.stopped_early) == (21, True, False)
    assert len(result.selected) == len(result.unresolved) == 1
    assert (
        "The budget was spent before the requested confidence was reached."
        in result.notes
    )
    poor = ended(
        Selector([f"p{i}" for i in range(5)], BEST, 3, Race(), examples=9),
        zero_one(5, 9),
    ).result()
    assert (poor.spent, poor.stopped_early, len(poor.selected)) == (3, False, 1)


def test_constraints() -> None:
    goal = BestFeasible(
        maximize("a", range=UNIT), {maximize("b", range=UNIT): at_most(0.5)}
    )
    scores = np.zeros((3, 200, 2))
    scores[:, :, 0] = zero_one(3, 200, 0.2)[:, :, 0]
    scores[2, :, 1] = 1.0  # the best misses the constraint
    result = ended(
        Selector(["p", "q", "r"], goal, 600, Race(), examples=200), scores
    ).result()
    assert [entry.id for entry in result.selected] == [1]
    assert result.stopped_early
    assert result.prompts[2].reason == "established to violate b <= 0.5"
    assert result.spent < 300
    scores[:, :, 1] = 1.0
    nobody = ended(
        Selector(["p", "q", "r"], goal, 600, Race(), examples=200), scores
    ).result()
    assert (nobody.stopped_early, nobody.feasible, len(nobody.selected)) == (
        True,
        False,
        1,
    )
    assert nobody.spent < 150


def test_a_pareto_set() -> None:
    goal = ParetoSet(maximize("a", range=UNIT), asktell.minimize("c", range=(0, 10)))
    scores = np.empty((4, 300, 2))
    scores[:, :, 0] = zero_one(4, 300, 0.15)[:, :, 0]
    scores[:, :, 1] = np.array([5.0, 1.0, 9.0, 9.5])[:, None]
    result = ended(
        Selector(["p", "q", "r", "s"], goal, 1200, Race(), examples=300), scores
    ).result()
    assert sorted(int(entry.id) for entry in result.selected) == [1, 2, 3]
    assert result.stopped_early
    assert result.prompts[0].reason == "established to be dominated by another prompt"
    equal = ended(
        Selector(PAIR, goal, 80, Race(), examples=40, **SUITE),
        np.full((2, 40, 2), 0.25),
    ).result()
    assert (len(equal.selected), equal.stopped_early, equal.spent) == (2, True, 80)


def test_equals_stay_in_a_front_and_what_they_dominate_does_not() -> None:
    goal = ParetoSet(maximize("a", range=UNIT), maximize("b", range=UNIT))
    levels = np.array(
        [[0.7, 0.3], [0.7, 0.3], [0.7, 0.1], [0.1, 0.3], [0.2, 0.9], [0.1, 0.9]]
    )
    scores = np.repeat(levels[:, None], 30, axis=1)
    result = ended(
        Selector([f"p{i}" for i in range(6)], goal, 180, Race(), examples=30, **SUITE),
        scores,
    ).result()
    assert sorted(int(entry.id) for entry in result.selected) == [0, 1, 4]
    assert result.stopped_early


def test_without_a_range_it_is_not_guaranteed_and_says_so() -> None:
    goal = BestFeasible("a")
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 1, (2, 300, 1)) + np.array([0.0, 1.0])[:, None, None]
    result = ended(Selector(PAIR, goal, 600, Race(), examples=300), scores).result()
    assert (result.stopped_early, result.selected[0].id) == (True, "y")
    sure = 'With 95% confidence, the selection is correct. This is not guaranteed. See the check "range".'
    assert sure in result.notes
    assert not result.compare("x").guaranteed
    recognized = ended(
        Selector(PAIR, goal, 600, Race(), examples=300), zero_one(2, 300)
    ).result()
    assert sure in recognized.notes  # another score than 0 and 1 may come
    assert not recognized.compare("x").guaranteed


def test_many_workers_in_any_order() -> None:
    scores = zero_one(5, 200)
    selector = Selector([f"p{i}" for i in range(5)], BEST, 1000, Race(), examples=200)
    with Study.create("memory://race", "race", selector) as study:
        rng = np.random.default_rng(0)
        while not study.done:
            held = [
                trial
                for worker in range(7)
                for trial in study.worker(f"w{worker}").ask(3)
            ]
            for i in rng.permutation(len(held))[:9]:
                study.tell(
                    held[i], scores[int(held[i].prompt_id), held[i].example].tolist()
                )
        result = study.result()
    assert (result.stopped_early, result.selected[0].id) == (True, 4)
    assert result.spent < 1000


def test_scores_behind_one_that_is_out_do_not_count_yet() -> None:
    scores = np.stack([np.zeros((60, 1)), np.ones((60, 1))])
    selector = Selector(PAIR, BEST, 120, Race(block=5), examples=60)
    slow = selector.ask()
    ended(selector, scores, n=79)
    assert selector.n_active == 2
    selector.tell(slow, scores[list(PAIR).index(str(slow.prompt_id)), slow.example])
    assert selector.done
    assert selector.result().selected[0].id == "y"


def test_a_budget_of_cost_is_kept() -> None:
    scores = zero_one(3, 100, 0.02)
    selector = Selector(
        ["p", "q", "r"],
        BEST,
        Budget(cost=5.0, max_cost_per_evaluation=0.1),
        Race(),
        examples=100,
    )
    result = ended(selector, scores, cost=0.1).result()
    assert result.done
    assert 4.5 < result.spent_cost <= 5.0
    assert not result.stopped_early


def test_failures_leave_gaps_and_prompts_that_only_fail_leave() -> None:
    scores = zero_one(3, 200, 0.2)
    selector = Selector(["p", "q", "r"], BEST, 600, Race(), examples=200)
    while trial := selector.ask():
        if trial.prompt_id == 1 or trial.id == 5:
            selector.fail(trial, "no answer")
        else:
            selector.tell(trial, scores[int(trial.prompt_id), trial.example])
    result = selector.result()
    assert (result.stopped_early, result.selected[0].id, result.prompts[1].status) == (
        True,
        2,
        "failed",
    )
    assert (
        'With 95% confidence, the selection is correct. This is not guaranteed. See the check "failures".'
        in result.notes
    )
    assert result.notes[-1].startswith("7 of ")
    assert result.notes[-1].endswith(
        "for the selected prompt. Failures are left out of the estimates."
    )
    nobody = Selector(["p", "q"], BEST, 60, Race(), examples=20, max_failure_rate=0.2)
    while trial := nobody.ask():
        nobody.fail(trial, "no answer")
    assert (nobody.done, nobody.result().selected, nobody.result().stopped_early) == (
        True,
        [],
        False,
    )


def test_scores_from_elsewhere_are_not_asked_again() -> None:
    scores = zero_one(2, 30)
    selector = Selector(PAIR, BEST, 60, Race(), examples=30, **SUITE)
    for example in range(30):
        selector.observe("x", scores[0, example], example)
    result = ended(selector, scores).result()
    assert result.prompts[0].evaluations == 30
    assert result.stopped_early
    assert result.spent <= 30


def test_prompts_that_draw_their_own_examples() -> None:
    rng = np.random.default_rng(0)
    selector = Selector(PAIR, BEST, 2000, Race())
    while trial := selector.ask():
        selector.tell(
            trial, [float(rng.random() < (0.3 if trial.prompt_id == "x" else 0.8))]
        )
    result = selector.result()
    assert (result.stopped_early, result.selected[0].id) == (True, "y")
    assert result.spent < 400


def test_the_baseline_stays_and_takes_every_example() -> None:
    scores = zero_one(5, 200)
    selector = ended(
        Selector(
            [f"p{i}" for i in range(5)], BEST, 1000, Race(), examples=200, baseline=0
        ),
        scores,
    )
    result = selector.result()
    assert (result.stopped_early, result.selected[0].id, result.prompts[0].status) == (
        True,
        4,
        "active",
    )
    assert (
        result.prompts[0].evaluations
        == result.selected[0].evaluations
        == max(entry.evaluations for entry in result.prompts)
    )
    assert (
        str(result)
        .splitlines()[-1]
        .startswith("Prompt 4 is better than prompt 0: difference +0.")
    )


def test_a_baseline_that_always_fails_holds_nobody_up() -> None:
    rng = np.random.default_rng(0)
    selector = Selector([f"p{i}" for i in range(4)], BEST, 2000, Race(), baseline=0)
    while selector.n_active > 2 and (trial := selector.ask()):
        if trial.prompt_id == 0:
            selector.fail(trial, "no answer")
        else:
            selector.tell(trial, float(rng.random() < 0.3 * trial.prompt_id))
    assert selector.state.active.tolist() == [0, 3]
    assert selector.spent < 500


WRONG = [
    {"confidence": 1.0},
    {"confidence": 0},
    {"block": 0},
    {"confidence": True},
]


@pytest.mark.parametrize("wrong", WRONG)
def test_numbers_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="of Race must be"):
        Race(**wrong)


@pytest.mark.parametrize("inputs", simulated.WORLDS)
@pytest.mark.parametrize("kind", simulated.KINDS)
def test_it_is_wrong_no_more_often_than_stated(
    seeds: Seeds, kind: str, inputs: str
) -> None:
    outcomes = [
        simulated.play(kind, goal, k, 60, 0.05, seed, inputs, confidence=0.8)
        for goal, seed, k in itertools.product(simulated.GOALS, seeds(2), (2, 5))
    ]
    # 12 runs at .2: more than 6 wrong ones would be a chance of one in 250, and more than
    # 4 in 6 runs one of 600.
    most = 6 if len(outcomes) == 12 else 4
    assert sum(outcome.wrong for outcome in outcomes) <= most


@pytest.mark.slow
@pytest.mark.parametrize("goal", simulated.GOALS)
@pytest.mark.parametrize("kind", simulated.KINDS)
@pytest.mark.parametrize("k", [2, 5, 20])
@pytest.mark.parametrize("inputs", simulated.WORLDS)
def test_it_is_wrong_no_more_often_than_stated_in_many_runs(
    inputs: str, kind: str, goal: str, k: int
) -> None:
    outcomes = [
        simulated.play(kind, goal, k, 200, 0.0, seed, inputs) for seed in range(400)
    ]
    assert sum(outcome.wrong for outcome in outcomes) <= 34


def test_when_it_is_done_a_trial_of_the_baseline_that_is_handed_back_is_not_asked_again() -> (
    None
):
    goal = BestFeasible(asktell.maximize("x", range=(0, 1)))
    selector = Selector(
        ["a", "b", "c"],
        goal,
        300,
        Race(confidence=0.5, block=2),
        examples=100,
        baseline="b",
    )
    out: list[asktell.Trial] = []
    while more := selector.ask(6):  # a block ahead of what was told
        for trial in out:
            selector.tell(trial, [float(trial.prompt == "a")])
        out = more
    assert selector.state.finished
    (held, *_) = [trial for trial in selector.pending if trial.prompt == "b"]
    selector.release(held)
    assert selector.done
    assert selector.ask() is None
    assert selector.result().done
    selector.tell(held, [0.0])  # who has evaluated it all the same may say so
    assert selector.state.history.scores_of(held.id) == (0.0,)


@pytest.mark.parametrize("method", [Race(), Adaptive(confidence=0.95)])
@pytest.mark.parametrize("kind", [BestFeasible, ParetoSet])
def test_a_bound_at_the_mean_is_settled_within_its_tolerance_only(
    kind: Any, method: Any
) -> None:
    rng = np.random.default_rng(0)
    chances = np.array([[0.9, 0.5], [0.2, 0.1]])
    scores = (rng.random((2, 120, 2)) < chances[:, None]).astype(float)
    spent = {}
    for tolerance in (None, 0.3):
        limit = {minimize("c", range=UNIT): at_most(0.5, tolerance=tolerance)}
        goal = kind(maximize("a", range=UNIT), subject_to=limit)
        selector = ended(
            Selector(PAIR, goal, 240, method, examples=120), scores, batch=8
        )
        result = selector.result()
        assert result.stopped_early == (tolerance is not None)
        spent[tolerance] = result.spent
    assert [entry.id for entry in result.selected] == ["x"]
    assert "With 95% confidence, the selection is correct within the tolerance." in str(
        result
    )
    assert spent[0.3] < 240 == spent[None]
