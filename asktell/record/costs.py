"""The recorded costs of evaluations, and what the next ones are expected to cost."""

import sys
from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
from msgspec import Meta

from asktell.numerics.arrays import Floats
from asktell.numerics.intmap import IntMap
from asktell.numerics.shapes import Float
from asktell.problem.checks import SMALLEST_COST, MalformedError, whole
from asktell.problem.problem import Problem
from asktell.record.events import Index
from asktell.record.facet import Saved

# Weight of the mean cost of all prompts, in evaluations of the prompt. A judgement.
_PRIOR_PULLS = 1.0


Total: TypeAlias = Annotated[float, Meta(ge=0.0, le=sys.float_info.max)]
"""A sum of costs."""


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

    @staticmethod
    def check(cost: float | None) -> None:
        """Check that a cost is not among the costs that count as free, for which tell() records 0."""
        if cost is not None and 0.0 < cost < SMALLEST_COST:
            raise MalformedError(
                f"A cost must be 0 or at least {SMALLEST_COST:g}, got {cost:g}."
            )

    def dump(self) -> "SavedCosts":
        """The costs as JSON."""
        arms = tuple((arm, *spent) for arm, spent in sorted(self.by_arm.items()))
        return SavedCosts(all=self.pool, arms=arms)


class SavedCosts(Saved, frozen=True, kw_only=True):
    """The number of costs, their sum and the highest cost: of all arms, and of each arm with costs."""

    all: tuple[Index, Total, Total] = (0, 0.0, 0.0)
    arms: tuple[tuple[Index, Index, Total, Total], ...] = ()

    def load(self, problem: Problem) -> Costs:
        """The costs, checked."""
        by_arm = {arm: Spent(n, total, highest) for arm, n, total, highest in self.arms}
        for arm in by_arm:
            whole("arm", arm, 0, problem.n_arms - 1)
        pool = Spent(*self.all)
        for spent in (pool, *by_arm.values()):
            if not spent.n and spent.total:
                raise MalformedError(
                    f"The sum of no costs must be 0, got {spent.total:g}."
                )
        return Costs(IntMap(by_arm), pool)
