"""An estimator turns recorded scores into means and their uncertainty."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.shapes import Bool, Float, Int
from asktell.numerics.tally import Tally


class Estimates(NamedTuple):
    """The estimates of the active arms: one row per arm, one column per metric, in the units of the metrics.

    Attributes:
        means: the estimated means.
        standard_errors: their standard errors. NaN where these are unknown.
    """

    means: Float[Floats, "active metrics"]
    standard_errors: Float[Floats, "active metrics"]


@dataclass(frozen=True)
class Sample:
    """The scores for an estimator, and their context.

    Attributes:
        tally: the scores of all arms, from all rounds or from the current round only
            (see `data` of `Elimination`). `tally.counts` has the number of scores of
            each arm. `tally.means` has the sample means, with one row per arm and one
            column per metric. `tally.standard_errors(population)` returns their
            standard errors.
        active: the positions of the arms to estimate.
        features: the features of all arms, one row per arm. None without features.
        population: the number of examples. None if an example is drawn for every
            evaluation (`sampling="iid"`), or if the number is unknown.
        seed: a random seed for this decision.
    """

    tally: Tally
    active: Int[Ints, " active"]
    features: Float[Floats, "arms features"] | None = None
    population: int | None = None
    seed: int = 0


class AbstractEstimator(ABC):
    """Computes estimates from scores.

    An estimator of your own derives from this class and implements `estimate`. It must
    not have a state, so that the same scores always lead to the same estimates.
    """

    needs_features: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ()
    """Packages that the estimator imports when it is used. They are in the optional extra `structured`."""
    needs_every_arm: ClassVar[bool] = True
    """True if the budget must be at least the number of arms, because each arm is estimated from its own scores."""
    is_model: ClassVar[bool] = True
    """True if estimates come from a model. False if the estimate of an arm is the mean of its own scores."""

    @abstractmethod
    def estimate(self, sample: Sample) -> Estimates:
        """Return the estimates of the active arms. If there is at least one score, all means must be finite.

        Args:
            sample: the scores, and the positions of the active arms.
        """

    def remarks(
        self, features: Float[Floats, "arms features"], pulled: Bool[Bools, " arms"]
    ) -> Iterator[str]:
        """Yield sentences about the reliability of the estimates, for `Result.notes`. By default, there are none.

        Args:
            features: the features of all arms, one row per arm.
            pulled: True for each arm that has a score.
        """
        yield from ()
