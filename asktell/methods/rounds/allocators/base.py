"""An allocator divides the evaluations of a round among the active arms."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

from asktell.methods.rounds.returned import refuse, shown, whole_numbers
from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.shapes import Float, Int


@dataclass(frozen=True)
class PullsToShare:
    """The input of an allocator: the evaluations to divide among the active arms.

    Attributes:
        n_pulls: the number of evaluations to divide.
        pulled: the number of evaluations that each arm has had.
        capacity: the number of evaluations that each arm can still take, before it has
            had every example as often as allowed.
        priority: a random number for each arm. Among equal arms, those with the lowest
            numbers come first.
        features: the features of the arms. None if the problem has no features.
    """

    n_pulls: int
    pulled: Int[Ints, " active"]
    capacity: Int[Ints, " active"]
    priority: Int[Ints, " active"]
    features: Float[Floats, "active features"] | None = None


class AbstractAllocator(ABC):
    """Divides the evaluations of a round among the active arms.

    An allocator of your own derives from this class and implements `allocate`.
    """

    needs_features: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ()
    """Packages that the allocator imports when it is used. They are in the optional extra `structured`."""

    @abstractmethod
    def allocate(self, pulls: PullsToShare) -> Int[Ints, " active"]:
        """Return the number of evaluations of each active arm in this round.

        The numbers sum to `n_pulls`, or to the sum of `capacity` if this is less.

        Args:
            pulls: the number of evaluations to divide, and data about each active arm.
        """

    @final
    def checked_counts(self, pulls: PullsToShare) -> Int[Ints, " active"]:
        """Return the result of `allocate`, checked. A method of asktell calls this method.

        Args:
            pulls: as in `allocate`.

        Raises:
            IncompatibleMethodError: `allocate` returned something else than whole
                numbers within the capacities, with the wanted sum.
        """
        n_active = len(pulls.capacity)
        total = min(pulls.n_pulls, int(pulls.capacity.sum()))
        expected = (
            f"a whole number for each of the {n_active:,} active arms, from 0 to its capacity, with the sum "
            f"{total:,}"
        )
        counts = self.allocate(pulls)
        shares = whole_numbers(counts)
        if shares is None or shares.shape != (n_active,):
            refuse(self, "allocate", f"returned {shown(counts)}", expected)
        if (shares < 0).any() or (shares > pulls.capacity).any():
            refuse(self, "allocate", f"returned {shown(counts)}", expected)
        if int(shares.sum()) != total:
            came = f"returned numbers that sum to {shares.sum()}"
            refuse(self, "allocate", came, expected)
        return shares
