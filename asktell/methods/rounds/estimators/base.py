"""An estimator turns recorded scores into means and their uncertainty."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, final

import numpy as np

from asktell.methods.rounds.returned import numbers, refuse, shown
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

    @final
    def checked_estimates(self, sample: Sample) -> Estimates:
        """Return the result of `estimate`, checked. A method of asktell calls this method.

        Args:
            sample: as in `estimate`.

        Raises:
            IncompatibleMethodError: `estimate` returned something else than a row for
                each active arm, with a finite mean of each metric. A row for every arm,
                also for those that were eliminated, is the usual mistake.
        """
        shape = (len(sample.active), sample.tally.sums.shape[1])
        expected = (
            f"Estimates(means, standard_errors), each with the shape {shape}: a row for each arm in sample.active, in "
            "this order, and a column for each metric. Use [sample.active] to take the rows of these arms from an "
            "array of all arms. Means are finite, and a standard error is at least 0, or NaN if it is unknown"
        )
        estimates: object = self.estimate(sample)
        if not isinstance(estimates, tuple) or len(estimates) != len(Estimates._fields):
            refuse(self, "estimate", f"returned {shown(estimates)}", expected)
        columns: list[Floats] = []
        for name, values in zip(Estimates._fields, estimates, strict=True):
            array = numbers(values)
            if array is None or array.shape != shape:
                refuse(
                    self, "estimate", f"returned {shown(values)} as {name}", expected
                )
            columns.append(array)
        means, errors = columns
        # Without any score of these arms, there is nothing to estimate
        has_scores = bool(sample.tally.counts[sample.active].any())
        if has_scores and not np.isfinite(means).all():
            refuse(self, "estimate", f"returned the means {shown(means)}", expected)
        if (errors < 0).any() or np.isinf(errors).any():
            came = f"returned the standard errors {shown(errors)}"
            refuse(self, "estimate", came, expected)
        return Estimates(means, errors)

    def remarks(
        self, features: Float[Floats, "arms features"], pulled: Bool[Bools, " arms"]
    ) -> Iterator[str]:
        """Yield sentences about the reliability of the estimates, for `Result.notes`. By default, there are none.

        Args:
            features: the features of all arms, one row per arm.
            pulled: True for each arm that has a score.
        """
        yield from ()
