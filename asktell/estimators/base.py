"""An estimator turns recorded scores into means and their uncertainty."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from jaxtyping import Bool, Float, Int

from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.tally import Tally


class Estimates(NamedTuple):
    """Means of the active arms and their standard errors, in metric units."""

    means: Float[Floats, "active metrics"]
    standard_errors: Float[Floats, "active metrics"]


@dataclass(frozen=True)
class Sample:
    """The scores for an estimator, and their context.

    Attributes:
        tally: counts and means of all arms. Depending on the method, they cover all
            rounds or the current round only.
        active: positions of the arms to estimate.
        features: numbers that describe the arms, None without features.
        population: number of examples, None if examples are drawn with replacement.
        seed: the seed of this decision.
    """

    tally: Tally
    active: Int[Ints, " active"]
    features: Float[Floats, "arms features"] | None = None
    population: int | None = None
    seed: int = 0


class AbstractEstimator(ABC):
    """Turns scores into estimates.

    An estimator of your own derives from this class and implements `estimate`. It has
    no state, so that the same scores always lead to the same estimates.
    """

    needs_features: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ()
    """Packages of the extra `structured` that the estimator imports when it is used."""
    needs_every_arm: ClassVar[bool] = True
    """True if every arm needs at least one evaluation, so that the budget must be at least the number of arms."""
    is_model: ClassVar[bool] = True
    """False if the estimate of an arm is the mean of its own scores."""

    @abstractmethod
    def estimate(self, sample: Sample) -> Estimates:
        """Estimate the active arms. Means are finite for any sample with at least one evaluation."""

    def remarks(
        self, features: Float[Floats, "arms features"], pulled: Bool[Bools, " arms"]
    ) -> Iterator[str]:
        """Notes of a result on estimates from these features, if the `pulled` arms have scores."""
        yield from ()
