"""An estimator turns recorded scores into means and their uncertainty."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from jaxtyping import Bool, Float, Int

from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.tally import Tally


class Estimates(NamedTuple):
    """The means of the active arms and their standard errors, in metric units."""

    means: Float[Floats, "active metrics"]
    standard_errors: Float[Floats, "active metrics"]


@dataclass(frozen=True)
class Sample:
    """The scores for an estimator, and their context.

    Attributes:
        tally: The scores of all K arms, of all rounds or of the current round.
        active: The arms to estimate.
        features: The features of all arms. None if the problem has none.
        population: The number of examples. None if they are drawn with replacement.
        seed: The seed of this decision.
    """

    tally: Tally
    active: Int[Ints, " active"]
    features: Float[Floats, "arms features"] | None = None
    population: int | None = None
    seed: int = 0


class AbstractEstimator(ABC):
    """The part of an elimination method that turns scores into estimates."""

    needs_features: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ()
    """Packages of the extra `structured` that the estimator imports once it is used."""
    needs_every_arm: ClassVar[bool] = True
    """True if every arm must be pulled at least once. The budget must then be at least K."""
    is_model: ClassVar[bool] = True
    """False if estimates are the means of the arms' own scores."""

    @abstractmethod
    def estimate(self, sample: Sample) -> Estimates:
        """Estimate the active arms. The means are finite for every sample with at least one pull."""

    def remarks(
        self, features: Float[Floats, "arms features"], pulled: Bool[Bools, " arms"]
    ) -> Iterator[str]:
        """Notes for a result about estimates from these features, where the `pulled` arms have scores."""
        yield from ()
