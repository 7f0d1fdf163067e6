"""What the scores by themselves prove of an answer, whatever a model says: bounds that hold at every look.

Prompts are compared on the examples that both have seen. Where every prompt takes its examples in the one seeded
order, the pairs are the first ones of that order, whoever was pulled when and why; so a confidence sequence of their
differences holds at any stop that scores lead to. Metrics of known range, and such of few values as 0 and 1, are bet
on; of others the bounds are asymptotic. Noisy scores are paired round by round, and never prove anything exactly. The
error is divided among all claims that a wrong answer could rest on.
"""

from typing import NamedTuple

import numpy as np

from asktell.goals import BestFeasible, Goal
from asktell.intervals.asymptotic import Asymptotic
from asktell.intervals.noisy import bounded
from asktell.methods.evidence import Column, columns_in
from asktell.numerics.arrays import Indices, Matrix, Means, Vector
from asktell.numerics.rounding import decimal, mostly_equal
from asktell.posterior.two_way import Cells
from asktell.state import State
from asktell.state.turns import in_turns

_FEW_VALUES = 8  # of a metric: what it was so far is taken for its range
_ROUNDING = 1e-12
LARGEST_PART = 0.3
"""Of the squares about a mean: where a single score takes more, larger ones may be to come, and nothing is proven."""

_TRIED = 3  # members of a Pareto set that may dominate a prompt, those that are most ahead


class Proofs:
    """The scores of all prompts as values, larger is better, and the bounds that follow."""

    def __init__(self, state: State) -> None:
        problem, history = state.seen, state.history
        self.goal: Goal = problem.goal
        self.population, self.exhausted_at = problem.population, problem.exhausted_at
        self._rounds = problem.rounds
        rows = history.arms(), history.examples(), history.scores()
        if self.population is None:
            arms, _, scores, _ = Cells.of(*rows, None)
            self._places = np.full(len(arms), -1, dtype=np.int64)
        else:
            arms, self._places, scores = in_turns(problem, state.missing, history.trials(), *rows)
        self._values = self.goal.values(scores)
        self._ends = np.searchsorted(arms, np.arange(problem.n_arms + 1))
        columns = columns_in(self.goal, self.goal.ranges)
        self._ranges = [_range(column, values) for column, values in zip(columns, self._values.T, strict=True)]

    def count(self, arm: int) -> int:
        """How many examples a prompt has seen."""
        return int(self._ends[arm + 1] - self._ends[arm])

    def lead_is_at_most(self, arm: int, over: int, column: int, most: float, error: float) -> bool:
        """Whether it is proven that one prompt is ahead of another by at most so much."""
        range_ = self._ranges[column]
        if self.population is None:
            upper = -self._lower(-self._of(arm)[:, column], range_.mirrored, error / 2)
            return upper - self._lower(self._of(over)[:, column], range_, error / 2) <= most + _ROUNDING
        one, other = (self._places[self._ends[a] : self._ends[a + 1]] for a in (arm, over))
        _, mine, theirs = np.intersect1d(one, other, assume_unique=True, return_indices=True)
        behind = self._of(over)[theirs, column] - self._of(arm)[mine, column]
        return self._lower(behind, range_.of_differences, error) >= -most - _ROUNDING

    def keeps(self, arm: int, column: int, least: float, error: float) -> bool:
        """Whether it is proven that a prompt's value is at least so much."""
        return self._lower(self._of(arm)[:, column], self._ranges[column], error) >= least - _ROUNDING

    def misses(self, arm: int, column: int, error: float) -> bool:
        """Whether it is proven that a prompt's value is below 0."""
        return self._lower(-self._of(arm)[:, column], self._ranges[column].mirrored, error) > _ROUNDING

    def _of(self, arm: int) -> Matrix:
        return self._values[self._ends[arm] : self._ends[arm + 1]]

    def _lower(self, observed: Vector, range_: "Range", error: float) -> float:
        low, high, spread, largest = range_
        if len(observed) < 2 or spread == 0.0:
            # That all scores agree so far tells nothing of how far another may be off.
            return float(observed.mean()) if len(observed) == self.exhausted_at else -np.inf
        if np.isfinite(high):
            return float(bounded(low, high, self.population, self._rounds).lower(np.clip(observed, low, high), error))
        squares = (observed - observed.mean()) ** 2
        if len(observed) != self.exhausted_at and squares.max() > LARGEST_PART * squares.sum():
            return -np.inf
        observed = decimal(observed, largest)
        scale = spread if mostly_equal(observed) else 0.0
        return float(Asymptotic(self.exhausted_at).lower(observed, error, scale))


class Range(NamedTuple):
    """Bounds on a metric's values, infinite if unknown, how far apart those seen are, and the largest of them."""

    low: float
    high: float
    spread: float
    largest: float

    @property
    def mirrored(self) -> "Range":
        """That of the values with the other sign."""
        return self._replace(low=-self.high, high=-self.low)

    @property
    def of_differences(self) -> "Range":
        """That of one value minus another."""
        return self._replace(low=self.low - self.high, high=self.high - self.low)


def _range(column: Column, values: Vector) -> Range:
    seen, counts = np.unique(values, return_counts=True)
    spread = float(np.ptp(seen)) if len(seen) else 0.0
    largest = float(np.abs(seen).max(initial=0.0))
    if column.limits is not None and len(seen) and column.limits[0] <= seen[0] and seen[-1] <= column.limits[1]:
        return Range(*column.limits, spread, largest)
    # Few scores are of few values too: each has to have come again.
    if 1 < len(seen) <= _FEW_VALUES and counts.min() > 1:
        return Range(float(seen[0]), float(seen[-1]), spread, largest)
    return Range(-np.inf, np.inf, spread, largest)


def unproven(state: State, answer: list[int], means: Means, error: float, tolerance: float) -> Indices:
    """The prompts whose scores are to prove more, on either side of every open claim; empty: the answer is right.

    It is then wrong in the sense of `asktell.posterior.membership.settled` with a probability of at most `error`, at
    whatever look. `means` (K, m) only decide what is tried.
    """
    evidence, rivals = Proofs(state), np.setdiff1d(state.active, answer)
    if isinstance(state.problem.goal, BestFeasible):
        return _unproven_best(evidence, answer[0], rivals, error, tolerance)
    values = state.problem.goal.values(means)
    return _unproven_front(evidence, np.array(answer, dtype=np.int64), rivals, values, error, tolerance)


def _unproven_best(evidence: Proofs, best: int, rivals: Indices, error: float, tolerance: float) -> Indices:
    """An answer is wrong if it misses a constraint, or one prompt is better: of its claims one must be wrong."""
    n_constraints = len(evidence.goal.constraints)
    part = error / 2 if n_constraints else error
    of_rival = part / max(1, len(rivals) + n_constraints)
    slacks = range(1, n_constraints + 1)
    open_ = [
        int(rival)
        for rival in rivals
        if not evidence.lead_is_at_most(rival, best, 0, tolerance, of_rival)
        and not any(evidence.misses(rival, k, of_rival) for k in slacks)
    ]
    if open_ or not all(
        evidence.keeps(best, k, -tolerance, part / ((len(rivals) + 1) * n_constraints)) for k in slacks
    ):
        open_.append(best)
    return np.array(open_, dtype=np.int64)


def _unproven_front(
    evidence: Proofs, members: Indices, rivals: Indices, values: Matrix, error: float, tolerance: float
) -> Indices:
    """The prompts of unproven place.

    The claims share `error`: of any two prompts, either way and in all objectives, and of any prompt and constraint,
    which it either keeps within the tolerance or misses, so that only one of the two can be wrong.
    """
    goal, everyone = evidence.goal, np.union1d(members, rivals)
    columns, slacks = range(len(goal.objectives)), range(len(goal.objectives), values.shape[1])
    values = values[:, : len(columns)]
    each = error / max(1, len(everyone) * ((len(everyone) - 1) * len(columns) + len(slacks)))

    def misses(arm: int) -> bool:
        return any(evidence.misses(arm, k, each) for k in slacks)

    def at_most(arm: int, over: int, column: int) -> bool:
        return evidence.lead_is_at_most(arm, over, column, tolerance, each)

    def below(arm: int, over: int, column: int) -> bool:
        return at_most(arm, over, column) if tolerance else evidence.lead_is_at_most(arm, over, column, -1e-9, each)

    infeasible = {rival for rival in rivals.tolist() if misses(rival)}
    open_ = {m for m in members.tolist() if not all(evidence.keeps(m, k, -tolerance, each) for k in slacks)}
    for rival in sorted(set(rivals.tolist()) - infeasible):
        behind = (values[rival] - values[members]).max(axis=1)
        likely = members[np.argsort(behind, kind="stable")[:_TRIED]]
        if not any(all(at_most(rival, member, k) for k in columns) for member in likely):
            open_ |= {rival, int(likely[0])}
    for member in members.tolist():
        for other in sorted(set(everyone.tolist()) - infeasible - {member}):
            by_lead = np.argsort(values[other] - values[member], kind="stable")
            if any(below(other, member, int(k)) for k in by_lead) or all(at_most(other, member, k) for k in columns):
                continue
            open_ |= {member, other}
    return np.array(sorted(open_), dtype=np.int64)
