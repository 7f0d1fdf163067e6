"""An elimination rule orders the active arms for elimination, accepts or rejects them, and selects the final arms."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from jaxtyping import Bool, Float, Int

from asktell.numerics.arrays import Bools, Floats, Ints


class Judgement(NamedTuple):
    """A rule's verdict on the active arms. Positions are among the active arms.

    - `order`: positions, the first arm to eliminate first.
    - `accepted`: True for arms that belong to the selected set if they are eliminated
      now.
    - `measure`: the quantity that decides the order, in units of the values.
    """

    order: Int[Ints, " active"]
    accepted: Bool[Bools, " active"]
    measure: Float[Floats, " active"]


class AbstractEliminationRule(ABC):
    """A rule for the `values` of the active arms, which the goal computes from the means. Larger is better.

    The arms come in the seeded order of chance
    (`asktell.numerics.counters.chance_order`). A rule keeps equals in that order, and
    needs no randomness of its own.
    """

    @abstractmethod
    def judge(self, values: Float[Floats, "active columns"]) -> Judgement:
        """Order the arms for elimination, and accept or reject each."""

    @abstractmethod
    def answer(self, values: Float[Floats, "active columns"]) -> Int[Ints, " selected"]:
        """Positions of the arms to select if nothing more is evaluated, best first. Never empty."""

    @abstractmethod
    def reason(self, judgement: Judgement, position: int) -> str:
        """State in words why the arm at a position is eliminated."""
