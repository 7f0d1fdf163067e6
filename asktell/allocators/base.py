"""An allocator divides the evaluations of a round among the active arms."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float, Int

from asktell.numerics.arrays import Floats, Ints


@dataclass(frozen=True)
class PullsToShare:
    """The input of an allocator: the evaluations to share among the active arms.

    - `n_pulls`: the number of evaluations to share.
    - `pulled`: the evaluations that each arm has had.
    - `capacity`: the evaluations that each arm can still take before it has seen every
      example.
    - `priority`: a random order of the arms, to break ties.
    - `features`: the features of the arms, None if the problem has none.
    """

    n_pulls: int
    pulled: Int[Ints, " active"]
    capacity: Int[Ints, " active"]
    priority: Int[Ints, " active"]
    features: Float[Floats, "active features"] | None = None


class AbstractAllocator(ABC):
    """Divide the evaluations of a round among the active arms."""

    needs_features: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ()
    """Packages of the extra `structured` that the allocator imports once it is used."""

    @abstractmethod
    def allocate(self, pulls: PullsToShare) -> Int[Ints, " active"]:
        """Return the evaluations of each active arm. They sum to `n_pulls`, or to the total capacity if it is less."""
