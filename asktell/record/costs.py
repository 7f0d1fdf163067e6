"""The recorded costs of evaluations, and what the next ones are expected to cost."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from asktell.numerics.arrays import Floats
from asktell.numerics.intmap import IntMap
from asktell.numerics.shapes import Float
from asktell.problem.checks import SMALLEST_COST

# Weight of the mean cost of all prompts, in evaluations of the prompt. A judgement.
_PRIOR_PULLS = 1.0


class Spent(NamedTuple):
    """The recorded costs of a prompt, or of all prompts."""

    n: int = 0
    total: float = 0.0
    highest: float = 0.0

    def plus(self, cost: float) -> "Spent":
        """The sum with one more cost."""
        return Spent(self.n + 1, self.total + cost, max(self.highest, cost))


class Costs(NamedTuple):
    """The recorded costs of evaluations and failures, by arm and of all arms."""

    by_arm: IntMap[Spent] = IntMap()
    pool: Spent = Spent()

    def plus(self, arm: int, cost: float | None) -> "Costs":
        """The costs with one more. None: no cost was recorded."""
        if cost is None:
            return self
        return Costs(
            self.by_arm.set(arm, (self.by_arm.get(arm) or Spent()).plus(cost)),
            self.pool.plus(cost),
        )

    @property
    def total(self) -> float:
        """The sum of all recorded costs."""
        return self.pool.total

    def expected(self, arm: int) -> float:
        """The expected cost of the arm's next pull, its mean cost shrunk to that of all arms. Needs a recorded cost."""
        spent, pool = self.by_arm.get(arm) or Spent(), self.pool
        return (spent.total + _PRIOR_PULLS * pool.total / pool.n) / (
            spent.n + _PRIOR_PULLS
        )

    def expected_all(self, n_arms: int) -> Float[Floats, " arms"]:
        """The expected cost of each arm's next evaluation. All are 1 as long as there is no cost."""
        if self.pool.total < SMALLEST_COST:
            return np.ones(n_arms)
        result = np.full(n_arms, self.pool.total / self.pool.n)
        for arm in self.by_arm:
            result[arm] = self.expected(arm)
        return result

    def reserved(self, out: Iterable[Any]) -> float:
        """The sum of the pulls' reserves. Needs a recorded cost."""
        return sum(self.reserve(pull.arm) for pull in out)

    def reserve(self, arm: int) -> float:
        """A cautious estimate of the cost of the arm's next pull. Needs a recorded cost."""
        spent = self.by_arm.get(arm)
        return (
            self.pool.highest
            if spent is None
            else max(spent.highest, self.expected(arm))
        )
