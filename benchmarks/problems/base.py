"""A problem: a table of scores, the truth in it, and what is looked for."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import asktell
from asktell.problem.goals import Goal
from asktell.simulation.truth import Truth
from benchmarks.problems.table import Array, Table

PARETO = "pareto"
BEST = ("best@.25", "best@.5", "best@.75")
GOALS = (*BEST, PARETO)
UNCONSTRAINED = "best"
AT_LEAST = "best>="
FRONTS = ("front@floor.5", "front@ceiling.5")
"""Fronts under a constraint, which have a table of their own."""


@dataclass(frozen=True, eq=False)
class BenchmarkProblem:
    """`goal_name` is "pareto", or "best@q": the best first metric among the prompts whose second is large enough.

    The threshold is the q-quantile of the prompts' true means of the second metric, so
    1 - q of the prompts keep it. With "best>=t" the threshold is the number t, with
    "best" there is none. "front@floor.q" and "front@ceiling.q" are the Pareto set of
    the first two metrics among the prompts whose second is at least, or at most, that
    quantile: a constraint along an objective, or against it.
    """

    table: Table
    goal_name: str

    @cached_property
    def threshold(self) -> float:
        """The least mean of the second metric that is feasible."""
        if self.goal_name == UNCONSTRAINED:
            return -np.inf
        if self.goal_name.startswith(AT_LEAST):
            return float(self.goal_name.removeprefix(AT_LEAST))
        quantile = float("." + self.goal_name.rpartition(".")[2])
        return float(np.quantile(self.table.means[:, 1], quantile))

    @cached_property
    def goal(self) -> Goal:
        """As a selector takes it."""
        if self.goal_name == PARETO:
            return asktell.ParetoSet(*self.table.metrics)
        if self.goal_name == UNCONSTRAINED:
            return asktell.BestFeasible(self.table.metrics[0])
        objective, constrained = self.table.metrics[:2]
        if self.goal_name in FRONTS:
            bound = asktell.at_most if "ceiling" in self.goal_name else asktell.at_least
            return asktell.ParetoSet(
                objective, constrained, subject_to={constrained: bound(self.threshold)}
            )
        return asktell.BestFeasible(
            objective, subject_to={constrained: asktell.at_least(self.threshold)}
        )

    @cached_property
    def scores(self) -> Array:
        """(K, N, q) of the goal's metrics, in its order."""
        return self.table.scores[:, :, : len(self.goal.metrics)]

    @cached_property
    def means(self) -> Array:
        """(K, q) the truth, of the goal's metrics."""
        return self.table.means[:, : len(self.goal.metrics)]

    @cached_property
    def truth(self) -> Truth:
        """What judges answers."""
        return Truth(self.goal, self.means)
