"""A scheduler turns a number of arms and a budget into rounds, before the first evaluation."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple


class Round(NamedTuple):
    """One round. At its end, only the best arms stay.

    Attributes:
        pulls: number of evaluations, which are divided among the active arms.
        keep: number of arms that stay.
    """

    pulls: int
    keep: int


class AbstractScheduler(ABC):
    """Plans the rounds of an elimination method.

    A scheduler of your own derives from this class and implements `rounds`.
    """

    needs_features: ClassVar[bool] = False

    @abstractmethod
    def rounds(
        self, n_arms: int, budget: int, rank: int | None = None
    ) -> tuple[Round, ...]:
        """Return the rounds, in order. Together, they have at most `budget` evaluations.

        Args:
            n_arms: K, the number of arms.
            budget: B, the number of evaluations.
            rank: the rank of the matrix of all arms' features: how many features are
                not combinations of other features. None without features. `GEGEHalving`
                uses it instead of the number of arms.
        """
