"""An elimination rule orders the active arms for elimination, accepts or rejects them, and selects the final arms."""

from abc import ABC, abstractmethod
from typing import NamedTuple, final

import numpy as np

from asktell.methods.rounds.returned import (
    numbers,
    refuse,
    shown,
    whole_numbers,
)
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

    @final
    def checked_judgement(self, values: Float[Floats, "active columns"]) -> Judgement:
        """Return the result of `judge`, checked. A method of asktell calls this method.

        Args:
            values: as in `judge`.

        Raises:
            IncompatibleMethodError: `judge` returned something else than an order of
                all active arms, and a bool and a number for each of them.
        """
        n_active = len(values)
        expected = (
            f"Judgement(order, accepted, measure): the positions 0 to {n_active - 1}, each once, in the order of "
            f"elimination, then {n_active} of True or False, and {n_active} numbers"
        )
        judgement: object = self.judge(values)
        if not isinstance(judgement, tuple) or len(judgement) != len(Judgement._fields):
            refuse(self, "judge", f"returned {shown(judgement)}", expected)
        order, accepted, measure = judgement
        positions, is_accepted = whole_numbers(order), np.asarray(accepted)
        measures = numbers(measure)
        places = [] if positions is None else sorted(positions.ravel().tolist())
        if positions is None or places != [*range(n_active)]:
            refuse(self, "judge", f"returned {shown(order)} as order", expected)
        if is_accepted.dtype != np.bool_ or is_accepted.shape != (n_active,):
            refuse(self, "judge", f"returned {shown(accepted)} as accepted", expected)
        if measures is None or measures.shape != (n_active,):
            refuse(self, "judge", f"returned {shown(measure)} as measure", expected)
        # A copy, since the method changes it
        return Judgement(positions, is_accepted.copy(), measures)

    @final
    def checked_answer(
        self, values: Float[Floats, "active columns"]
    ) -> Int[Ints, " selected"]:
        """Return the result of `answer`, checked. A method of asktell calls this method.

        Args:
            values: as in `answer`.

        Raises:
            IncompatibleMethodError: `answer` returned something else than at least one
                of the active arms, each at most once.
        """
        n_active = len(values)
        positions = self.answer(values)
        chosen = whole_numbers(positions)
        is_right = (
            chosen is not None
            and chosen.ndim == 1
            and len(set(chosen.tolist())) == len(chosen)
            and ((chosen >= 0) & (chosen < n_active)).all()
            and (len(chosen) > 0 or n_active == 0)
        )
        if chosen is None or not is_right:
            expected = f"at least one position of an active arm, from 0 to {n_active - 1}, each at most once"
            refuse(self, "answer", f"returned {shown(positions)}", expected)
        return chosen
