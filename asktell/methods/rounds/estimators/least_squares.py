"""Weighted least squares on the arms' features (the linear model of GENSEC and GEGE), with standard errors.

The paper centers the features and fits no constant. The average prompt would then have
a score of 0. Here a constant is appended to the features.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from asktell.methods.rounds.directions import lost_directions, rank, with_intercept
from asktell.methods.rounds.estimators.base import AbstractEstimator, Estimates, Sample
from asktell.methods.rounds.padding import pad_rows, padded_size
from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.shapes import Bool, Float, Int
from asktell.problem.checks import check_flag, check_number


def least_squares(
    features: Float[Floats, "arms features"],
    means: Float[Floats, "arms metrics"],
    counts: Int[Ints, " arms"],
    deviations: Float[Floats, "arms metrics"] | None = None,
    active: Bool[Bools, " arms"] | None = None,
    ridge: float = 0.0,
    intercept: bool = True,
) -> Estimates:
    """Minimize sum_i n_i (mean_i - x_i . theta)^2 + ridge * |theta|^2 on the span of the active arms' features.

    The fit uses the span of the active arms. Other arms take part as far as their
    features lie in this span. The ridge acts on columns of unit variance and never on
    the constant. If the evaluated arms do not span the active arms, a ridge of 1e-6 of
    the mean eigenvalue of the normal matrix is added, which draws estimates towards the
    average.

    Directions with a singular value of at most max(s_max * max(shape) * eps * 100,
    1e-9) are left out, with columns of unit variance. GEGE's authors use the same
    value. `LeastSquares.remarks` reports directions that were left out, and an added
    ridge.

    Args:
        features: numbers that describe the arms.
        means: sample means, ignored where the count is 0.
        counts: number of scores of each arm.
        deviations: sums of squared deviations within each arm, which add to the
            residuals.
        active: the arms whose features span the fit, by default all.
        ridge: the weight of the penalty.
        intercept: whether a constant is appended to the features.
    """
    from asktell.methods.rounds.estimators import _least_squares_jax

    n = len(features)
    size = padded_size(n)
    active = np.ones(n, dtype=bool) if active is None else active
    pulled = counts > 0
    # Padded rows and arms without scores have weight 0, but NaN * 0 is NaN
    finite = np.where(pulled[:, None], means, 0.0)
    with _least_squares_jax.double_precision():
        fit = _least_squares_jax.fit(
            *(
                pad_rows(a, size)
                for a in (features, finite, counts.astype(float), active.astype(float))
            ),
            float(ridge),
            intercept=intercept,
        )
        fit = type(fit)(*(np.asarray(value) for value in fit))
    freedom = int(counts.sum()) - int(fit.pulled_rank)
    squares = fit.sum_of_squares + (
        0.0 if deviations is None else deviations[pulled].sum(axis=0)
    )
    variance = squares / freedom if freedom > 0 else np.full(means.shape[1], np.nan)
    return Estimates(fit.means[:n], np.sqrt(fit.leverage[:n, None] * variance))


@final
@dataclass(frozen=True)
class LeastSquares(AbstractEstimator):
    """A linear model: the mean of an arm is a linear function of its features.

    The model is fitted to the sample means by least squares. Each mean is weighted by
    its number of scores.

    Attributes:
        ridge: the weight of a penalty on the sum of the squared coefficients. 0: no
            penalty. `LeastSquares` itself scales the features to variance 1, so the
            penalty does not depend on their units.
        intercept: True if the linear function has a constant.
    """

    ridge: float = 0.0
    intercept: bool = True

    def __post_init__(self) -> None:
        vars(self).update(
            ridge=check_number("ridge of LeastSquares", self.ridge, 0.0, 1e12),
            intercept=check_flag("intercept of LeastSquares", self.intercept),
        )

    needs_features: ClassVar[bool] = True
    packages: ClassVar[tuple[str, ...]] = ("jax",)
    needs_every_arm: ClassVar[bool] = False

    def estimate(self, sample: Sample) -> Estimates:
        """Return the fitted means of the active arms.

        The standard errors are right only if the true means are a linear function of
        the features.

        Args:
            sample: the scores, and the positions of the active arms.
        """
        assert sample.features is not None, "the method has checked it"
        tally, chosen = sample.tally, sample.active
        active = np.isin(np.arange(len(tally.counts)), chosen)
        fit = least_squares(
            sample.features,
            tally.means,
            tally.counts,
            tally.deviations,
            active,
            self.ridge,
            self.intercept,
        )
        return Estimates(fit.means[chosen], fit.standard_errors[chosen])

    def remarks(
        self, features: Float[Floats, "arms features"], pulled: Bool[Bools, " arms"]
    ) -> Iterator[str]:
        """Yield notes for `Result.notes` if the estimates cannot use some combinations of the features.

        A combination is a weighted sum of features. One note is about combinations that
        are almost equal for all prompts. The estimates do not use these combinations.
        Another note is about combinations that are equal for all prompts with scores,
        but not for the other prompts. The estimates of the other prompts are then
        closer to the average.

        Args:
            features: the features of all arms, one row per arm.
            pulled: True for each arm that has a score.
        """
        if lost := lost_directions(features, self.intercept):
            were = (
                "1 direction of the features was"
                if lost == 1
                else f"{lost} directions of the features were"
            )
            yield (
                f"{were} left out of the estimates, because the prompts hardly differ there (by less than a billionth "
                "of the difference in other directions). Leave out columns that are nearly sums of other columns, or "
                "reduce the features with asktell.features.pca."
            )
        rows = with_intercept(features) if self.intercept else features
        if pulled.any() and rank(rows[pulled]) < rank(rows):
            yield (
                "The evaluated prompts do not cover all directions of the features. The estimates of the other prompts "
                "are drawn towards the average."
            )
