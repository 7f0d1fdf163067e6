"""An elimination rule says who leaves first, who of those is accepted, and what the answer is."""

from abc import ABC, abstractmethod

from asktell.arrays import Indices, Mask, Values


class AbstractEliminationRule(ABC):
    """Reads `values` (A, q) of the active arms, larger is better, as the goal prepared them from the means."""

    @abstractmethod
    def leaving_order(self, values: Values) -> Indices:
        """Positions 0..A-1 in the order in which arms leave, first to leave first."""

    @abstractmethod
    def accepted(self, values: Values) -> Mask:
        """(A,) true for the arms that belong to the answer if they leave now."""

    @abstractmethod
    def answer(self, values: Values) -> Indices:
        """Positions of the arms that are the answer if nothing more is learned, best first; never empty for A > 0."""

    @abstractmethod
    def reasons(self, values: Values, leaving: Indices, mask: Mask) -> list[str]:
        """Why each of the arms at the positions `leaving` leaves; `mask` is `accepted(values)`."""
