"""An allocator divides the evaluations of a round among the active arms."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from asktell.numerics.arrays import Counts, Features


@dataclass(frozen=True)
class PullsToShare:
    """The input of an allocator: `n_pulls` to share among A active arms.

    `pulled` (A,): pulls that each arm has had. `capacity` (A,): pulls that each arm can
    still take before it has seen every example. `priority` (A,): a random order of the
    arms, to break ties. `features` (A, d) or None.
    """

    n_pulls: int
    pulled: Counts
    capacity: Counts
    priority: Counts
    features: Features | None = None


class AbstractAllocator(ABC):
    """A round's pulls to pulls per active arm."""

    needs_features: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ()
    """Packages of the extra `structured` that it imports once it is used."""

    @abstractmethod
    def allocate(self, pulls: PullsToShare) -> Counts:
        """Pulls per active arm, (A,); they sum to `n_pulls`, or to the total capacity where that is less."""
