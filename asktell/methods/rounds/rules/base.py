"""An elimination rule orders the active arms for elimination, accepts or rejects them, and selects the final arms."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.shapes import Bool, Float, Int


class Judgement(NamedTuple):
    """A rule's decision about the active arms. A position is the place of an arm among the active arms.

    Attributes:
        order: the positions of all active arms, in the order of elimination. At the end
            of a round, the first arms of this order leave: they get no more
            evaluations.
        accepted: for each active arm, what it becomes if it leaves now. True: accepted,
            so that it is selected at the end. False: rejected.
        measure: for each active arm, a number for `reason` to show, such as its gap. It
            is in units of the values.
    """

    order: Int[Ints, " active"]
    accepted: Bool[Bools, " active"]
    measure: Float[Floats, " active"]


class AbstractEliminationRule(ABC):
    """Decides by the `values` of the active arms, which the goal computes from their means.

    `values` has one row per arm. Its columns are the objectives, followed by the slack
    of each constraint. Larger is better in every column. A slack is negative if the
    constraint is violated, and 0 or more if it is satisfied.

    A rule receives the arms in a random order, which depends only on the seed. It must
    keep equal arms in this order, as a stable sort does. So ties are broken at random,
    and a rule needs no random numbers of its own.

    A rule of your own derives from this class and implements the methods below.
    """

    @abstractmethod
    def judge(self, values: Float[Floats, "active columns"]) -> Judgement:
        """Return the order of elimination, and which arms are accepted.

        Args:
            values: the values of the active arms, one row per arm.
        """

    @abstractmethod
    def answer(self, values: Float[Floats, "active columns"]) -> Int[Ints, " selected"]:
        """Return the positions of the arms to select if nothing more is evaluated, best first: at least one.

        Args:
            values: the values of the active arms, one row per arm.
        """

    @abstractmethod
    def reason(self, judgement: Judgement, position: int) -> str:
        """Return the reason, in words, why an arm is accepted or eliminated now.

        Args:
            judgement: the decision that `judge` returned.
            position: the position of the arm among the active arms.
        """
