"""Proofs for new inputs hold where scores differ each time, at every look: an agent against itself, and close prompts.

The truth is the expected score on a new input: the examples are draws of inputs, and so
is the noise of every score.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

from asktell import Adaptive, BestFeasible, Race, Selector, at_most, maximize
from tests.plays import play

GOAL = BestFeasible(maximize("right", range=(0, 1)))
TOLERANT = BestFeasible(maximize("right", range=(0, 1), tolerance=0.01))
SLOW = pytest.param(200, marks=pytest.mark.slow)


class Agents:
    """Agents with 0/1 scores of which about 23 % flip when a cell is evaluated again; each next one is a bit better.

    The chance of an example is close to 0 or 1 for most of them, as of tasks that are
    easy or hopeless.
    """

    def __init__(self, seed: int, n_agents: int, step: float = 0.0) -> None:
        self.rng = np.random.default_rng(seed)
        self.means = 0.4 + step * np.arange(n_agents)

    def examples(self, n: int) -> np.ndarray:
        """(K, n) chances: the expectation over examples is the agents' mean."""
        chance = 0.02 + 0.76 * self.rng.beta(0.1, 0.1, size=n)
        return np.asarray(chance + (self.means - 0.4)[:, None])

    def score(self, chance: float) -> float:
        return float(self.rng.random() < chance)


class Played(NamedTuple):
    selector: Selector
    found: set[str]  # all verdicts on the last prompt against the first, at any look


def played(
    agents: Agents,
    n: int,
    method: Any,
    looks: int = 0,
    goal: BestFeasible = GOAL,
    **options: Any,
) -> Played:
    """A run to its end; after every so many evaluations the last prompt is compared with the first."""
    chances, k = agents.examples(n), len(agents.means)
    budget = k * n * options.get("repeats", 1)
    selector, found = (
        Selector([f"p{i}" for i in range(k)], goal, budget, method, n, **options),
        set[str](),
    )
    while trials := selector.ask(4):
        for trial in trials:
            selector.tell(
                trial, agents.score(chances[int(trial.prompt_id), trial.example or 0])
            )
        if looks and selector.spent % looks == 0:
            found.add(selector.compare(k - 1, 0).differences["right"].verdict)
    return Played(selector, found)


def few(stated: float, runs: int) -> float:
    """How often something may happen whose probability is at most that: exceeded in at most one of 700 tests."""
    from scipy.stats import binom

    return float(binom.isf(1 / 700, runs, stated))


def test_two_runs_of_one_agent_differ_in_about_a_quarter_of_the_cells() -> None:
    chances = Agents(0, 1).examples(100_000)
    assert np.mean(2 * chances * (1 - chances)) == pytest.approx(0.23, abs=0.02)
    assert chances.mean() == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize(
    ("method", "options"), [("uniform", {"repeats": 3}), ("auto", {})]
)
@pytest.mark.parametrize("runs", [6, SLOW])
def test_an_agent_is_rarely_told_from_itself_at_any_look(
    method: str, options: dict[str, int], runs: int
) -> None:
    wrong = 0
    for seed in range(runs):
        _, found = played(Agents(seed, 2), 40, method, looks=16, seed=seed, **options)
        wrong += bool(found - {"undecided"})
    assert wrong <= few(0.05, runs)


@pytest.mark.parametrize(("method", "n_agents"), [(Race, 2), (Race, 5), (Adaptive, 2)])
@pytest.mark.parametrize("runs", [3, SLOW])
def test_early_stops_are_rarely_wrong_where_nobody_declared_the_noise(
    method: Any, n_agents: int, runs: int
) -> None:
    wrong = stopped = 0
    for seed in range(runs):
        agents = Agents(seed, n_agents, step=0.05)
        selector, _ = played(
            agents, 80, method(confidence=0.95), goal=TOLERANT, seed=seed
        )
        result = selector.result()
        assert not selector.state.problem.examples.is_noisy
        stopped += result.stopped_early
        wrong += (
            result.stopped_early
            and agents.means[int(result.selected[0].id)] < agents.means.max() - 0.01
        )
    assert wrong <= few(0.05, runs)


def test_what_is_clear_is_found_under_noise_and_repeats_bound_it_more_closely() -> None:
    once, again = (
        played(Agents(1, 2, 0.2), 150, "uniform", **options)
        .selector.compare(1, 0)
        .differences["right"]
        for options in ({}, {"repeats": 4})
    )
    assert once.verdict == again.verdict == "better"
    assert (once.pairs, again.pairs) == (150, 150)
    assert again.high - again.low < 0.8 * (once.high - once.low)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("method", "goal"),
    [(Race(), GOAL), (Race(), TOLERANT), (Adaptive(confidence=0.95), GOAL)],
)
def test_doubtful_scores_end_nothing(method: Any, goal: BestFeasible) -> None:
    """Of two prompts, one is always right: a race and a proof were over after 20 and 16 of 600 evaluations."""
    selectors = [Selector(["x", "y"], goal, 120, method, 60) for _ in range(2)]
    selectors[1].remark(
        "The judge disagrees with people in 9 of 20 cases.",
        topic="right",
        doubtful=True,
    )
    for selector in selectors:
        play(selector, lambda trial: float(trial.prompt_id), batch=3)
    sure, doubtful = (selector.result() for selector in selectors)
    assert (sure.stopped_early, sure.spent < 60) == (True, True)
    assert (doubtful.stopped_early, doubtful.spent) == (False, 120)
    assert not any(
        entry.reason == "established to be worse than another prompt"
        for entry in doubtful.prompts
    )
    assert doubtful.compare(1, 0).differences["right"].verdict == "undecided"


def test_doubt_that_comes_on_the_way_ends_nothing_from_then_on() -> None:
    selector = Selector(["x", "y"], GOAL, 120, Race(block=5), 60)
    while trial := selector.ask():
        if selector.spent == 9:
            selector.remark("The labels are wrong.", topic="right", doubtful=True)
        selector.tell(trial, float(trial.prompt_id))
    assert (selector.spent, selector.result().stopped_early) == (120, False)


def test_a_rate_of_failures_counts_each_example_once() -> None:
    """Under a bound on failures, an early stop needs a proof of it too."""
    goal = BestFeasible(maximize("right", range=(0, 1)), {"failure_rate": at_most(0.3)})
    selector = Selector(
        ["x", "y"], goal, 400, Race(), 200, repeats=1, max_failure_rate=1.0
    )
    rng = np.random.default_rng(0)
    fails = partial(lambda rng, arm: rng.random() < (0.7 if arm else 0.05), rng)
    while trial := selector.ask():
        if fails(trial.prompt_id):
            selector.fail(trial, "no answer")
        else:
            selector.tell(trial, [0.9 if trial.prompt_id else 0.4])
    result = selector.result()
    assert (result.stopped_early, result.selected[0].id) == (True, 0)
    assert result.prompts[1].reason == "established to violate failure_rate <= 0.3"
