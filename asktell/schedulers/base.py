"""A scheduler turns a number of arms and a budget into rounds: whole numbers, known before the first pull."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple


class Round(NamedTuple):
    """One round: `pulls` are shared among the active arms, then the best `keep` of them stay."""

    pulls: int
    keep: int


class AbstractScheduler(ABC):
    """Rounds of an elimination method."""

    needs_features: ClassVar[bool] = False

    @abstractmethod
    def rounds(self, n_arms: int, budget: int, rank: int | None = None) -> tuple[Round, ...]:
        """The rounds for K = `n_arms` arms and `budget` pulls; the pulls never sum to more than the budget.

        `rank` is the rank of the arms' features, for schedulers that count directions instead of arms.
        """
