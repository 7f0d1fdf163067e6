"""An elimination rule says who leaves first, who of those is accepted, and what the answer is."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from asktell.numerics.arrays import Indices, Mask, Values


class Judgement(NamedTuple):
    """A rule's verdict on A active arms.

    `order` (A,): positions, first to leave first. `accepted` (A,): belongs to the answer if it leaves now.
    `measure` (A,): what the order was made by, in value units.
    """

    order: Indices
    accepted: Mask
    measure: Values


class AbstractEliminationRule(ABC):
    """Reads `values` (A, q) of the active arms, larger is better, as the goal prepared them from the means.

    The arms come in the seeded order of chance (`asktell.numerics.counters.chance_order`): a rule leaves equals in the
    order in which they come, and needs no randomness of its own.
    """

    @abstractmethod
    def judge(self, values: Values) -> Judgement:
        """Decide which prompt leaves first, accepted or rejected."""

    @abstractmethod
    def answer(self, values: Values) -> Indices:
        """Positions of the arms that are the answer if nothing more is learned, best first; never empty for A > 0."""

    @abstractmethod
    def reason(self, judgement: Judgement, position: int) -> str:
        """Why the arm at a position leaves, in words."""
