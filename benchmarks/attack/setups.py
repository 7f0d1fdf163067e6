"""What is played on: every method with every goal and every kind of budget, in every storage."""

import math
import random
from typing import Any, NamedTuple

import numpy as np

from asktell import (
    Adaptive,
    AsktellError,
    BestFeasible,
    Budget,
    ParetoSet,
    Race,
    Selector,
)
from asktell.methods import METHODS, AbstractMethod, preset
from asktell.problem.goals import Goal

MOST_PER_EVALUATION = 2.0
EXAMPLES = 9
PROMPTS = {f"id{i}": f"prompt {i}" for i in range(5)}
GOALS: dict[str, Goal] = {
    "best": BestFeasible("a"),
    "feasible": BestFeasible("a", {"b": 0.4}),
    "pareto": ParetoSet("a", "b"),
    "front": ParetoSet("a", subject_to={"b": 0.4}),
}
BUDGETS: dict[str, int | Budget] = {
    "evaluations": 24,
    "cost": Budget(cost=20.0),
    "bounded cost": Budget(cost=20.0, max_cost_per_evaluation=MOST_PER_EVALUATION),
    "both": Budget(evaluations=20, cost=15.0),
}
TAKE_MORE = ("auto", "early", "race", "short race")
"""Methods that go on with more prompts and more money."""
FEATURES = np.random.default_rng(0).normal(size=(len(PROMPTS), 2))


def _methods(goal: Goal) -> dict[str, AbstractMethod]:
    """Every preset that fits a goal, and some that end early."""
    methods: dict[str, AbstractMethod] = {
        "early": Adaptive(confidence=0.7),
        "short race": Race(confidence=0.6, block=2),
    }
    for name in METHODS:
        if name == "referee" and isinstance(goal, ParetoSet):
            continue
        try:
            methods[name] = preset(name, goal)
        except AsktellError:
            continue
    return methods


KINDS = [
    (method, goal, budget)
    for goal in GOALS
    for method in _methods(GOALS[goal])
    for budget in BUDGETS
    if budget == "evaluations" or method in TAKE_MORE
]
"""Every method with every goal and every kind of budget that it takes."""


class Setup(NamedTuple):
    """What is played on."""

    method: str
    goal: str
    budget: str
    sampling: str
    examples: int | None
    backend: str  # "selector": no study
    handles: int
    seed: int
    repeats: int
    named: bool  # the examples have ids
    baseline: str | None
    on_failure: Any  # of every metric a score, or "skip"
    max_failure_rate: float

    @classmethod
    def of(cls, seed: int, url: str | None) -> "Setup":
        """The setup of a play; over many seeds, all kinds."""
        rng = random.Random(f"setup {seed}")
        sampling = rng.choice(["shared", "shared", "iid"])
        examples = (
            EXAMPLES
            if sampling == "iid"
            else rng.choice([EXAMPLES, EXAMPLES, 2, 1, None])
        )
        backend = url or rng.choice(
            ["memory", "memory", "sqlite", "sqlite", "selector", "selector"]
        )
        kind = KINDS[seed % len(KINDS)]
        repeats = 1 if examples is None else rng.choice([1, 1, 2, 3])
        named = examples is not None and rng.random() < 0.5
        baseline = rng.choice([None, *PROMPTS])
        if kind[0] == "referee":
            baseline = baseline or next(iter(PROMPTS))
        handles = rng.choice([1, 2, 3])
        max_failure_rate = rng.choice([1e-6, 0.5, 0.5, 1.0])
        on_failure = rng.choice(
            ["skip", "skip", "skip", dict.fromkeys(GOALS[kind[1]].metrics, 0.0)]
        )
        failing = on_failure, max_failure_rate
        return cls(
            *kind,
            sampling,
            examples,
            backend,
            handles,
            seed,
            repeats,
            named,
            baseline,
            *failing,
        )

    def selector(self) -> Selector:
        """As it starts."""
        goal = GOALS[self.goal]
        return Selector(
            PROMPTS,
            goal,
            BUDGETS[self.budget],
            _methods(goal)[self.method],
            example_names(0, self.examples)
            if self.named and self.examples
            else self.examples,
            FEATURES,
            self.seed,
            self.sampling,
            self.on_failure,
            self.max_failure_rate,
            self.baseline,
            self.repeats,
        )

    @property
    def takes_more(self) -> bool:
        """Whether prompts, money and examples may join."""
        return self.method in TAKE_MORE


def example_names(start: int, stop: int) -> list[str]:
    """Ids of examples."""
    return [f"example {i}" for i in range(start, stop)]


def good_scores(rng: random.Random, setup: Setup) -> Any:
    """Scores for the goal, now and then alike."""
    metrics = GOALS[setup.goal].metrics
    vector = [rng.choice([rng.random(), rng.random(), 0.0, 1.0]) for _ in metrics]
    return dict(zip(metrics, vector, strict=True)) if rng.random() < 0.2 else vector


def good_cost(rng: random.Random, setup: Setup) -> float | None:
    """What an evaluation costs, with a long tail."""
    if setup.budget == "evaluations":
        return rng.choice([None, 1.0])
    return min(
        math.exp(rng.gauss(0.0, 1.0)),
        MOST_PER_EVALUATION if setup.budget == "bounded cost" else math.inf,
    )
