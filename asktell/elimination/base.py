"""An elimination rule orders the active arms for elimination, accepts or rejects them, and selects the final arms."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from asktell.numerics.arrays import Indices, Mask, Values


class Judgement(NamedTuple):
    """A rule's verdict on A active arms.

    Positions are among the active arms.
    """

    order: Indices  # (A,) positions, the first arm to eliminate first
    # (A,) true for arms that belong to the selected set if they are eliminated now
    accepted: Mask
    measure: Values  # (A,) the quantity that decides the order, in value units


class AbstractEliminationRule(ABC):
    """A rule for `values` (A, q) of the active arms, which the goal computes from the means. Larger is better.

    The arms come in the seeded order of chance
    (`asktell.numerics.counters.chance_order`). A rule keeps equals in that order, and
    needs no randomness of its own.
    """

    @abstractmethod
    def judge(self, values: Values) -> Judgement:
        """Order the arms for elimination, and accept or reject each."""

    @abstractmethod
    def answer(self, values: Values) -> Indices:
        """Positions of the arms to select if nothing more is evaluated, best first. Never empty for A > 0."""

    @abstractmethod
    def reason(self, judgement: Judgement, position: int) -> str:
        """The reason for which the arm at a position is eliminated, in words."""
