"""An estimator turns recorded scores into means and their uncertainty."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from jaxtyping import Bool, Float, Int

from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.tally import Tally


class Estimates(NamedTuple):
    """The active arms, in metric units, (A, m) each."""

    means: Float[Floats, "active metrics"]
    standard_errors: Float[Floats, "active metrics"]


@dataclass(frozen=True)
class Sample:
    """The scores for an estimator, and their context.

    `tally` of all K arms (of all rounds, or of the current one, as the method says);
    `active` (A,) positions of the arms to estimate; `features` (K, d) or None;
    `population`: number of examples, None where examples are drawn with replacement;
    `seed` of this decision.
    """

    tally: Tally
    active: Int[Ints, " active"]
    features: Float[Floats, "arms features"] | None = None
    population: int | None = None
    seed: int = 0


class AbstractEstimator(ABC):
    """Scores to estimates."""

    needs_features: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ()
    """Packages of the extra `structured` that it imports once it is used."""
    needs_every_arm: ClassVar[bool] = True
    """True if every arm must be pulled at least once, so that the budget must be at least K."""
    is_model: ClassVar[bool] = True
    """False if estimates are the means of the arms' own scores."""

    @abstractmethod
    def estimate(self, sample: Sample) -> Estimates:
        """Estimates of the active arms; finite means, whatever the sample, for at least one pull."""

    def remarks(
        self, features: Float[Floats, "arms features"], pulled: Bool[Bools, " arms"]
    ) -> Iterator[str]:
        """What a result is to say of estimates from these `features` (K, d), where `pulled` (K,) arms have scores."""
        yield from ()
