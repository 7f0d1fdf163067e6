"""A scheduler turns a number of arms and a budget into rounds, before the first evaluation."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple


class Round(NamedTuple):
    """One round: `pulls` evaluations are shared among the active arms, then the best `keep` arms stay."""

    pulls: int
    keep: int


class AbstractScheduler(ABC):
    """Rounds of an elimination method."""

    needs_features: ClassVar[bool] = False

    @abstractmethod
    def rounds(
        self, n_arms: int, budget: int, rank: int | None = None
    ) -> tuple[Round, ...]:
        """The rounds for K = `n_arms` arms and `budget` evaluations, which the rounds never exceed.

        `rank` is the rank of the arms' features, for schedulers that count directions
        instead of arms.
        """
