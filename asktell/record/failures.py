"""The failed evaluations, and when a prompt fails too often."""

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asktell.numerics.arrays import Ints
from asktell.numerics.shapes import Int
from asktell.problem.problem import Problem
from asktell.record.events import Departure, Pull
from asktell.record.facet import Pack, Saved, column
from asktell.record.history import History

SURE = 0.99
"""Posterior probability that a failure rate is above the allowed rate, from which the prompt is eliminated.

With a uniform prior and an allowed rate of one half, this takes six failures out of the first six. The probability is
then 1 - 2^-7, and 1 - 2^-6 after five failures. A prompt that always fails costs little with so few evaluations. A
prompt that fails once in ten is rarely eliminated, since six failures in a row have a probability of one in a million.
"""

# Standard deviations below which a rate cannot be above the allowed rate with a
# probability of 0.99, which takes 2.3.
_CLOSE = 2.0
# Evaluations from which the normal approximation behind `_CLOSE` is good enough.
_MANY = 100
# Terms of a sum below this part of its largest term are ignored.
_NOTHING = 1e-20
# Failures per score above which a prompt is no longer worth its price. A judgement.
_FAILURES_PER_SCORE = 100


@dataclass(frozen=True, eq=False)
class Failures:
    """The failed evaluations, oldest first: their evaluations as rows without scores, and their reasons."""

    pulls: History = field(default_factory=lambda: History(0))
    _reasons: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.pulls)

    def __iter__(self) -> Iterator[tuple[int, int, int | None, str]]:
        """Trial, arm, example and reason of each failure."""
        pulls = (
            column.tolist()
            for column in (
                self.pulls.trials(),
                self.pulls.arms(),
                self.pulls.examples(),
            )
        )
        for trial, arm, example, reason in zip(*pulls, self.reasons(), strict=True):
            yield trial, arm, None if example < 0 else example, reason

    def append(self, pull: Pull, reason: str) -> "Failures":
        """The failures with one more."""
        reasons = (
            self._reasons
            if len(self._reasons) == len(self)
            else self._reasons[: len(self)]
        )
        reasons.append(reason)
        return Failures(self.pulls.append(*pull, ()), reasons)

    @property
    def key(self) -> Hashable:
        """A cache key for results computed from the failures: equal for the same failures, and for no failures."""
        return self.pulls if len(self) else None

    def count(self, arm: int) -> int:
        """The number of failures of an arm."""
        return self.pulls.n_asked(arm)

    def per_arm(self, n_arms: int) -> Int[Ints, " arms"]:
        """The number of failures of each arm."""
        return np.bincount(self.pulls.arms(), minlength=n_arms)

    def arms(self) -> list[int]:
        """The arms with failures, ascending."""
        return sorted(set(self.pulls.arms().tolist()))

    def __contains__(self, trial: object) -> bool:
        return isinstance(trial, int) and self.pulls.pull_of(trial) is not None

    def reasons(self, start: int = 0) -> list[str]:
        """The reasons from the `start`-th failure on."""
        return self._reasons[start : len(self)]

    def last(self, arm: int) -> str:
        """The reason of the last failure of an arm, which must have a failure."""
        return self._reasons[int(np.flatnonzero(self.pulls.arms() == arm)[-1])]

    def given_up(
        self, arm: int, history: History, problem: Problem
    ) -> Departure | None:
        """The departure of an arm that fails too often, with the reason. None if it does not.

        Its failure rate is above `max_failure_rate` with a probability of 99%. The
        baseline never departs, and no arm does if failures count as scores.
        """
        if problem.failure_scores is not None or arm == problem.baseline:
            return None
        n_failed = self.count(arm)
        n = n_failed + history.n_asked(arm)
        if not is_above(problem.max_failure_rate, n_failed, n):
            return None
        reason = f"{n_failed} of {n} evaluations failed, last: {self.last(arm)}"
        return Departure(arm, "failed", reason)

    def unscored(self, arm: int) -> Departure:
        """The departure of an arm that has no score when the selection ends. It belongs in the last decision."""
        reason = (
            f"every evaluation failed, last: {self.last(arm)}"
            if self.count(arm)
            else "no scores"
        )
        return Departure(arm, "failed", reason)

    def have_exhausted(self, arm: int, history: History) -> bool:
        """True if an arm has too many failures to be evaluated again.

        This is the case after 100 failures, and 100 more for each score that the arm
        has. Usually, an arm is eliminated long before. But the baseline is never
        eliminated. This rule ends a selection whose baseline always fails.
        """
        most = _FAILURES_PER_SCORE * (1 + history.n_asked(arm))
        return self.count(arm) >= most

    def exhausted(self, history: History) -> Int[Ints, " exhausted"]:
        """The arms, ascending, that have too many failures to be evaluated again."""
        arms = [arm for arm in self.arms() if self.have_exhausted(arm, history)]
        return np.array(arms, dtype=np.int64)

    def dump(self, start: int, pack: Pack) -> "SavedFailures":
        """The failures from the `start`-th on, as JSON."""
        return SavedFailures(
            trials=pack(self.pulls.trials(start)),
            arms=pack(self.pulls.arms(start)),
            examples=pack(self.pulls.examples(start)),
            reasons=tuple(self.reasons(start)),
        )


class SavedFailures(Saved, frozen=True, kw_only=True):
    """The failed evaluations, oldest first."""

    trials: Any = ()
    arms: Any = ()
    examples: Any = ()
    reasons: tuple[str, ...] = ()

    def load(self, problem: Problem, n_asked: int) -> Failures:
        """The failures, checked. `n_asked` is the number of trials that were assigned."""
        n, last_example = len(self.reasons), (problem.examples.n or 0) - 1
        trials = column("failures", self.trials, 0, n_asked - 1, n)
        arms = column("failures", self.arms, 0, problem.n_arms - 1, n)
        examples = column("failures", self.examples, -1, last_example, n)
        rows = History.from_columns(trials, arms, examples, np.empty((n, 0)))
        return Failures(rows, list(self.reasons))


def is_above(rate: float, failures: int, n: int) -> bool:
    """True if a failure rate is above `rate` with the probability `SURE`, after `failures` out of n evaluations.

    With a uniform prior, the posterior of the rate is a beta distribution. The
    probability that the rate is above `rate` equals the binomial probability that at
    most `failures` of n + 1 evaluations fail at the rate `rate`.

    The terms are computed from the largest term outwards, with products and quotients
    only. So all machines agree on every bit, and a log that is read on another machine
    gives the same state.
    """
    if rate >= 1.0 or failures <= n * rate:
        return False
    # Too close to the allowed rate for certainty. Saves the sum below.
    if n > _MANY and failures - n * rate < _CLOSE * math.sqrt(n * rate * (1.0 - rate)):
        return False
    odds, largest = rate / (1.0 - rate), int((n + 2) * rate)
    # Sums of the terms up to `failures` and above. The terms from the largest one up
    # come first, then those below it.
    at_most, more, term = 0.0, 0.0, 1.0
    for k in range(largest, n + 2):
        at_most, more = (
            (at_most + term, more) if k <= failures else (at_most, more + term)
        )
        term *= odds * (n + 1 - k) / (k + 1)
        if term < _NOTHING:
            break
    term = largest / (odds * (n + 2 - largest))
    for k in range(largest - 1, -1, -1):
        at_most += term
        term *= k / (odds * (n + 2 - k))
        if term < _NOTHING:
            break
    return at_most >= SURE * (at_most + more)
