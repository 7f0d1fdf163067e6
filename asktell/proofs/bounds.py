"""One bound on a mean: lower bounds that hold at every look, for arms and for leads of one arm over another.

`Bounds` picks the confidence sequence: by betting if the limits of the scores are known
(`asktell.proofs.intervals.betting`, and `asktell.proofs.intervals.noisy` for repeated evaluations of
given examples), otherwise the asymptotic one (`asktell.proofs.intervals.asymptotic`). The
bounds of a finished table are for one look (`asktell.proofs.intervals.one_look`).
`asktell.proofs.claims` and `asktell.results.gate` turn bounds into claims.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias, final

import numpy as np

from asktell.numerics.arrays import Bools, Floats, Ints, decimal
from asktell.numerics.shapes import Bool, Float, Int
from asktell.problem.goals import Goal
from asktell.problem.problem import Problem
from asktell.proofs.intervals.asymptotic import Asymptotic
from asktell.proofs.intervals.noisy import bounded
from asktell.proofs.intervals.one_look import OneLook
from asktell.proofs.ordered import OrderedScores

ROUNDING = 1e-12
"""Relative error of a mean: sums of decimal fractions differ by some units in the last place."""

LARGEST_PART = 0.3
"""The largest part of the sum of squares about a mean that a single score may have.

With a larger part, still larger scores may follow, so nothing is established. Chosen by simulation
(`benchmarks.selection.every_look`), so that early stops are wrong no more often than stated.
"""

# Most different scores of a metric, such as ratings, whose lowest and highest value are
# taken for its range.
_FEW_VALUES = 8
# Numbers in one array, 16 MB.
_MOST_NUMBERS = 1 << 21


Limits: TypeAlias = tuple[float, float] | None
"""The lowest and the highest possible value of a column of the goal's values. None if unknown."""


class Sample(NamedTuple):
    """Observations of a mean, in their order: the values of an arm, or the differences of two arms.

    - `values`: the observations.
    - `limits`: the lowest and the highest possible observation.
    - `column`: the column of the goal's values that they come from.
    """

    values: Float[Floats, " n"]
    limits: Limits
    column: int

    def mirrored(self) -> "Sample":
        """The observations with the opposite sign. A lower bound of these is an upper bound."""
        limits = self.limits and (-self.limits[1], -self.limits[0])
        return Sample(-self.values, limits, self.column)


@final
@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds on the goal's values of each arm at any error, from the scores in the shared order.

    Larger values are better. Each bound is ever wrong with a probability of `error`. For
    new inputs, this error is divided among the numbers of evaluations per example
    (`asktell.proofs.claims`).

    - `scores`: the scores that count.
    - `limits`: the limits of each column of the goal's values.
    - `gone`: the arms that failed or were retired. No relative bound refers to them.
    - `is_cautious`: True for early stops of `Adaptive`, which nobody asked to rest on
      these scores alone. A claim then needs a `lower` bound, and `lower` refuses scores
      that all agree, or of which a single one dominates. False tests the claim itself
      (`certainly_above`), as `Race` and the gate do.
    """

    scores: OrderedScores
    limits: tuple[Limits, ...]
    gone: tuple[int, ...] = ()
    is_cautious: bool = False

    # What is bounded

    @property
    def problem(self) -> Problem:
        """The problem."""
        return self.scores.problem

    def mean(self, arm: int, column: int) -> Sample:
        """The values of an arm."""
        return Sample(self.scores.own(arm, column), self.limits[column], column)

    def lead(self, arm: int, over: int, column: int) -> Sample:
        """The values of `arm` less those of `over`, on their common examples."""
        limits = self.limits[column]
        width = limits and (limits[0] - limits[1], limits[1] - limits[0])
        return Sample(self.scores.leads(arm, over, column), width, column)

    # Claims of one mean

    def is_at_least(self, sample: Sample, least: float, error: float) -> bool:
        """True if the mean of a sample certainly is at least `least`."""
        if self.is_cautious:
            return self.lower(sample, error) >= least - ROUNDING
        return bool(self.certainly_above([sample], least, error, or_equal=True)[0])

    def is_above(self, sample: Sample, least: float, error: float) -> bool:
        """True if the mean of a sample certainly is above `least`."""
        if self.is_cautious:
            return self.lower(sample, error) > least + ROUNDING
        return bool(self.certainly_above([sample], least, error)[0])

    def lead_is_at_most(
        self, arm: int, over: int, column: int, most: float, error: float
    ) -> bool:
        """True if the lead of `arm` over `over` certainly is at most `most`."""
        if self._has_common_examples:
            return self.is_at_least(self.lead(over, arm, column), -most, error)
        lower_of_minus_lead = self._lower_difference(over, arm, column, error)
        return -lower_of_minus_lead <= most + ROUNDING

    def lead_is_above(
        self, arm: int, over: int, column: int, least: float, error: float
    ) -> bool:
        """True if the lead of `arm` over `over` certainly is above `least`."""
        if self._has_common_examples:
            return self.is_above(self.lead(arm, over, column), least, error)
        return self._lower_difference(arm, over, column, error) > least + ROUNDING

    def are_ahead(
        self,
        arms: Int[Ints, " pairs"],
        over: Int[Ints, " pairs"],
        column: int,
        claim: float,
        error: float,
        or_equal: bool = False,
    ) -> Bool[Bools, " pairs"]:
        """True where an arm is certainly ahead of the other arm of its pair by more than `claim`."""
        leads = [
            self.lead(int(i), int(j), column) for i, j in zip(arms, over, strict=True)
        ]
        return self.certainly_above(leads, claim, error, or_equal)

    # The bound, and its test

    def lower(self, sample: Sample, error: float) -> float:
        """A lower bound on the mean of a sample. Minus infinity if the scores support none."""
        observed, limits, column = sample
        exhausted_at = self.problem.examples.exhausted_at
        is_exhausted = len(observed) == exhausted_at
        error /= n_sequences(self.problem)
        if len(observed) < 2 or self._spreads[column] == 0.0:
            # Scores that all agree are no measure of how far another score may be off.
            return float(observed.mean()) if is_exhausted else -np.inf
        if limits is not None:
            sequence = bounded(
                *limits, self.problem.examples.target, self.problem.examples.rounds
            )
            return float(sequence.lower(np.clip(observed, *limits), error))
        squares = (observed - observed.mean()) ** 2
        if not is_exhausted and squares.max() > LARGEST_PART * squares.sum():
            return -np.inf
        observed = decimal(observed, self._largest[column])
        scale = self._spreads[column] if mostly_equal(observed) else 0.0
        return float(Asymptotic(exhausted_at).lower(observed, error, scale))

    def certainly_above(
        self,
        samples: Sequence[Sample],
        claim: float,
        error: float,
        or_equal: bool = False,
    ) -> Bool[Bools, " samples"]:
        """True where the mean of a sample is certainly above the claim. The samples have one column and one kind.

        An error of 0 establishes only what is known exactly.
        """
        is_above = np.zeros(len(samples), dtype=bool)
        rounding = ROUNDING * (1.0 + abs(claim))
        # Samples of the same length are computed together, as many as memory allows.
        by_length: dict[int, list[int]] = {}
        for i, sample in enumerate(samples):
            # A mean below the claim cannot be certainly above it.
            if len(sample.values) and sample.values.mean() >= claim - rounding:
                by_length.setdefault(len(sample.values), []).append(i)
        for n, of_length in by_length.items():
            size = max(1, _MOST_NUMBERS // (8 * n))
            for start in range(0, len(of_length), size):
                chunk = of_length[start : start + size]
                x = np.array([samples[i].values for i in chunk])
                if n == self.problem.examples.exhausted_at:
                    # Every example was seen, so the mean is known exactly.
                    mean = x.mean(axis=1)
                    reaches, exceeds = mean >= claim - rounding, mean > claim + rounding
                    is_above[chunk] = reaches if or_equal else exceeds
                elif error:
                    _, limits, column = samples[chunk[0]]
                    is_above[chunk] = self._refuted(x, limits, column, claim, error)
        return is_above

    def _refuted(
        self,
        x: Float[Floats, "samples n"],
        limits: Limits,
        column: int,
        claim: float,
        error: float,
    ) -> Bool[Bools, " samples"]:
        """True for the samples that refute a mean of `claim` or less."""
        error /= n_sequences(self.problem)
        if self.problem.looks_once:
            # Evaluations of given examples that may be noisy count as independent
            # draws, because a single one of each does not show how noisy they are.
            bounds = OneLook(limits, self.problem.examples.exhausted_at)
            return bounds.refutes(x, claim, error)
        if limits is not None:
            sequence = bounded(
                *limits, self.problem.examples.target, self.problem.examples.rounds
            )
            return sequence.refutes(x, claim, error)
        x = decimal(x, self._largest[column])
        scale = np.where(mostly_equal(x), self._spreads[column], 0.0)
        return (
            Asymptotic(self.problem.examples.exhausted_at).lower(x, error, scale)
            > claim
        )

    @property
    def _has_common_examples(self) -> bool:
        # The test of `Race` pairs the draws of two arms one by one, in their order.
        return self.problem.examples.population is not None or not self.is_cautious

    def _lower_difference(
        self, arm: int, over: int, column: int, error: float
    ) -> float:
        """A lower bound on the lead, from two separate means that have half of the error each."""
        lower = self.lower(self.mean(arm, column), error / 2)
        upper_of_other = -self.lower(self.mean(over, column).mirrored(), error / 2)
        return lower - upper_of_other

    @cached_property
    def _largest(self) -> list[float]:
        """The largest absolute value in each column."""
        values = np.abs(self.scores.first.values)
        largest: list[float] = values.max(axis=0, initial=0.0).tolist()
        return largest

    @cached_property
    def _spreads(self) -> list[float]:
        """The distance of the lowest and the highest value in each column."""
        values = self.scores.first.values
        if not len(values):
            return [0.0] * len(self.limits)
        spreads: list[float] = np.ptp(values, axis=0).tolist()
        return spreads


def interval_of_mean(
    differences: Float[Floats, " n"],
    scores: Float[Floats, " scores"],
    population: int | None,
    limits: Limits,
    error: float,
    rounds: int | None,
    looks_once: bool = False,
) -> tuple[float, float]:
    """Bounds of the mean of differences over the population. Infinite if nothing bounds the mean.

    Args:
        differences: differences of two scores each.
        scores: these scores.
        population: the number of examples. None: independent draws of new inputs.
        limits: the limits of the scores.
        error: the probability that the mean is ever outside the bounds.
        rounds: how often all examples may be evaluated, if scores are noisy.
        looks_once: True for the bounds of a finished table, which are for one look.
    """
    if looks_once:
        # Without a range, the scores show how large a difference can be.
        lowest, highest = limits or (float(scores.min()), float(scores.max()))
        width = highest - lowest
        # Single evaluations of given examples do not show how noisy they are.
        n_given = population if rounds is None else None
        one_look = OneLook((-width, width) if width else None, n_given)
        return one_look.interval(differences, error)
    if limits is not None:
        width = limits[1] - limits[0]
        bounds = bounded(-width, width, population, rounds)
        low, high = bounds.interval(differences, error)
    else:
        scale = np.ptp(scores) if mostly_equal(differences) else 0.0
        draws = Asymptotic(None if rounds is not None else population)
        low, high = draws.interval(differences, error, scale)
    return float(low), float(high)


def n_sequences(problem: Problem) -> int:
    """The number of confidence sequences that share an error. For new inputs, one for each number of evaluations."""
    if (
        problem.examples.population is None
        or problem.examples.target is not None
        or problem.looks_once
    ):
        return 1
    return problem.examples.repeats


# The limits of a column


def limits_by_range(
    goal: Goal, ranges: Mapping[str, tuple[float, float]]
) -> tuple[Limits, ...]:
    """The limits of every column of the goal's values, from the ranges of metrics."""
    unknown = (np.nan, np.nan)
    scores = np.array(
        [[ranges.get(m, unknown)[k] for m in goal.columns] for k in (0, 1)]
    )
    ends = goal.values(scores, goal.offsets)
    return tuple(
        None if np.isnan(a + b) else (float(min(a, b)), float(max(a, b)))
        for a, b in ends.T
    )


def limits_if_binary(
    goal: Goal, scores: Float[Floats, "rows metrics"]
) -> tuple[Limits, ...]:
    """The limits of every column of the goal's values. A metric without a range has one if all scores are 0 or 1."""
    return limits_by_range(goal, {**binary_ranges(goal, scores), **goal.ranges})


def binary_ranges(
    goal: Goal, scores: Float[Floats, "rows metrics"]
) -> dict[str, tuple[float, float]]:
    """The range 0 to 1 for each column of the goal in which all scores are 0 or 1."""
    return {
        metric: (0.0, 1.0)
        for metric, x in zip(goal.columns, scores.T, strict=True)
        if len(x) and np.isin(x, (0.0, 1.0)).all()
    }


def limits_if_few(
    goal: Goal, values: Float[Floats, "rows columns"]
) -> tuple[Limits, ...]:
    """The limits of every column of the goal's values. A metric without a range has one if it has few scores."""
    by_range = limits_by_range(goal, goal.ranges)
    return tuple(
        limits or _few_values(x) for limits, x in zip(by_range, values.T, strict=True)
    )


def _few_values(values: Float[Floats, " rows"]) -> Limits:
    """The lowest and the highest value, if there are few different values that each came repeatedly."""
    seen, counts = np.unique(values, return_counts=True)
    # A small sample has few different values, too. So each value must have come more
    # than once.
    if 1 < len(seen) <= _FEW_VALUES and counts.min() > 1:
        return float(seen[0]), float(seen[-1])
    return None


def mostly_equal(rows: Floats) -> Bools:
    """True for rows of which at least half is one number. Such a row gives little information on the other numbers."""
    n = rows.shape[-1]
    if not n:
        return np.zeros(rows.shape[:-1], dtype=np.bool_)
    half, ordered = (n + 1) // 2, np.sort(rows, axis=-1)
    return np.asarray(
        (ordered[..., half - 1 :] == ordered[..., : n - half + 1]).any(axis=-1)
    )
