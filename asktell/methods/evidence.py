"""What is certain about means and differences, from scores in one shared order of the examples."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from asktell.goals import Goal
from asktell.intervals.asymptotic import Asymptotic
from asktell.intervals.betting import Betting
from asktell.intervals.noisy import NoisyBetting
from asktell.numerics.arrays import Counts, Indices, Mask, Means, Values
from asktell.numerics.rounding import decimal, mostly_equal
from asktell.state import Failures, Problem
from asktell.state.turns import in_turns

_ROUNDING = 1e-12
_MOST_NUMBERS = 1 << 21  # in one array


class Column(NamedTuple):
    """A column of the goal's values: the lowest and the highest there can be, None if unknown."""

    limits: tuple[float, float] | None


@final
@dataclass(frozen=True, eq=False)
class Evidence:
    """Values of every arm on the first examples of the shared order, larger is better; round by round if noisy.

    Each statement is ever wrong with probability `error`. Of examples of which some scores are out nothing is used,
    nor of those behind them, so that it does not matter if scores come late because of what they are.
    """

    problem: Problem
    error: float
    columns: tuple[Column, ...]
    counts: Counts  # (K,)
    means: Means  # (K, q), NaN without scores
    _starts: Indices  # (K + 1,) where each arm's rows begin
    _places: Indices  # (n,) by arm, ascending
    _values: Values  # (n, q)

    @classmethod
    def of(
        cls,
        problem: Problem,
        missing: Failures,
        trials: Indices,
        arms: Indices,
        examples: Indices,
        values: Values,
        columns: tuple[Column, ...],
        reach: int | None,
        error: float,
    ) -> "Evidence":
        """The evidence in rows of scores.

        `reach`: the first place in the order of all pulls (without one, the first trial) that is out.
        """
        if problem.population is None:
            order = np.lexsort((trials, arms))
            usable = order if reach is None else order[trials[order] < reach]
            starts = np.searchsorted(arms[usable], np.arange(problem.n_arms + 1))
            places = np.arange(len(usable)) - starts[arms[usable]]
            arms, values = arms[usable], values[usable]
        else:
            arms, places, values = in_turns(problem, missing, trials, arms, examples, values, reach)
            starts = np.searchsorted(arms, np.arange(problem.n_arms + 1))
        counts = np.diff(starts)
        totals = np.stack([np.bincount(arms, column, minlength=problem.n_arms) for column in values.T], axis=1)
        means = np.where(counts[:, None] > 0, totals / np.maximum(counts, 1)[:, None], np.nan)
        return cls(problem, error, columns, counts, means, starts, places, values)

    def ahead(self, arms: Indices, others: Indices, column: int, claim: float, or_equal: bool = False) -> Mask:
        """(P,) whether each arm is certainly ahead of the other of its pair by more than the claim."""
        limits = self.columns[column].limits
        width = None if limits is None else limits[1] - limits[0]
        pairs = [self._pair(int(i), int(j), column) for i, j in zip(arms, others, strict=True)]
        return self._above(pairs, None if width is None else (-width, width), claim, column, or_equal)

    def all_at_least(self, arms: Indices, columns: Iterable[int]) -> Mask:
        """(A,) whether an arm's mean is certainly 0 or more in each of the columns."""
        kept = np.ones(len(arms), dtype=bool)
        for q in columns:
            own = [self._own(int(arm), q) for arm in arms[kept]]
            kept[kept] = self._above(own, self.columns[q].limits, 0.0, q, or_equal=True)
        return kept

    def below(self, arms: Indices, column: int) -> Mask:
        """(A,) whether an arm's mean is certainly below 0."""
        limits = self.columns[column].limits
        mirrored = None if limits is None else (-limits[1], -limits[0])
        return self._above([-self._own(int(arm), column) for arm in arms], mirrored, 0.0, column, or_equal=False)

    def is_exhausted(self, arms: Indices) -> bool:
        """Whether the arms are known exactly: they have seen every example, whose scores are not noisy."""
        return self.problem.exhausted_at is not None and bool((self.counts[arms] == self.problem.exhausted_at).all())

    def _own(self, arm: int, column: int) -> Values:
        return self._values[self._starts[arm] : self._starts[arm + 1], column]

    def _pair(self, a: int, b: int, column: int) -> Values:
        """Differences on common examples, in their order, round by round."""
        of_a, of_b = (slice(self._starts[arm], self._starts[arm + 1]) for arm in (a, b))
        places_a, places_b = self._places[of_a], self._places[of_b]
        n = min(len(places_a), len(places_b))
        x, y = self._values[of_a, column], self._values[of_b, column]
        if np.array_equal(places_a[:n], places_b[:n]):
            return x[:n] - y[:n]
        _, in_a, in_b = np.intersect1d(places_a, places_b, assume_unique=True, return_indices=True)
        return x[in_a] - y[in_b]

    def _above(
        self, rows: list[Values], limits: tuple[float, float] | None, claim: float, column: int, or_equal: bool
    ) -> Mask:
        """(P,) whether the mean of each row is certainly above the claim."""
        found = np.zeros(len(rows), dtype=bool)
        problem = self.problem
        by_length: dict[int, list[int]] = {}
        rounding = _ROUNDING * (1.0 + abs(claim))
        for i, row in enumerate(rows):
            # What does not even look so is not looked at.
            if len(row) and row.mean() >= claim - rounding:
                by_length.setdefault(len(row), []).append(i)
        for n, of_length in by_length.items():
            size = max(1, _MOST_NUMBERS // (8 * n))
            for start in range(0, len(of_length), size):
                chunk = of_length[start : start + size]
                x = np.array([rows[i] for i in chunk])
                if n == problem.exhausted_at:
                    mean = x.mean(axis=1)
                    found[chunk] = mean >= claim - rounding if or_equal else mean > claim + rounding
                elif limits is None:
                    found[chunk] = self._asymptotically_above(x, claim, column)
                elif problem.population is not None and problem.rounds is not None:
                    noisy = NoisyBetting(*limits, problem.population, problem.rounds)
                    found[chunk] = noisy.refutes(x, claim, self.error)
                else:
                    betting = Betting(*limits, problem.population)
                    certain = betting.certain(x)
                    refuted = betting.log_capital(x, np.full(len(x), claim)).max(axis=1) >= -np.log(self.error)
                    found[chunk] = (refuted & (certain.high > claim)) | (certain.low > claim + rounding)
        return found

    def _asymptotically_above(self, x: Values, claim: float, column: int) -> Mask:
        values = self._values[:, column]
        x = decimal(x, float(np.abs(values).max()))
        scale = np.where(mostly_equal(x), np.ptp(values), 0.0)
        return np.asarray(Asymptotic(self.problem.exhausted_at).lower(x, self.error, scale) > claim)


def columns_of(goal: Goal, scores: Values) -> tuple[Column, ...]:
    """The limits of every column of the goal's values, where they are known."""
    limits: dict[str, tuple[float, float]] = dict(goal.ranges)
    for metric, x in zip(goal.metrics, scores.T, strict=True):
        if metric in limits and len(x) and not limits[metric][0] <= x.min() <= x.max() <= limits[metric][1]:
            del limits[metric]  # told before ranges were enforced
        if metric not in limits and len(x) and np.isin(x, (0.0, 1.0)).all():
            limits[metric] = (0.0, 1.0)
    return columns_in(goal, limits)


def columns_in(goal: Goal, ranges: Mapping[str, tuple[float, float]]) -> tuple[Column, ...]:
    """The limits of every column of the goal's values, from the ranges of metrics."""
    ends = goal.values(np.array([[ranges.get(m, (np.nan, np.nan))[k] for m in goal.metrics] for k in (0, 1)]))
    return tuple(Column(None if np.isnan(a + b) else (float(min(a, b)), float(max(a, b)))) for a, b in ends.T)
