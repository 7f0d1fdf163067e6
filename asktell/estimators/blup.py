"""Best linear unbiased prediction: what the features say about an arm, plus the arm's own effect.

Means a = g 1 + f(features) + own effect, with f a Gaussian process (RBF plus linear kernel), and sample means
with noise s^2 / n_i about a. Where own effects dominate this shrinks every sample mean to the average (empirical
Bayes); where they vanish it is a feature model; the marginal likelihood decides, per metric.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import numpy.typing as npt

from asktell.estimators.base import AbstractEstimator, Estimates, Sample
from asktell.numerics.arrays import Counts, Features, Matrix, Means, pad_rows, padded_size, spread_evenly, standardized
from asktell.numerics.tally import Tally
from asktell.problem.checks import check_number, whole

_BLOCK = 2048  # rows; memory
_FEWEST_ARMS = 10  # pulled twice, to tell whether arms differ in noise; a judgement
_LEAST_NOISE = 1e-3  # of an arm, over the average one; numerical

# In units of the variance of the sample means: log variances of smooth part, linear part, own effect, noise.
_START = np.log([0.3, 0.3, 0.3])  # of the search, a third each
# Means and precisions: about .2, .2 and .5 of that variance, with deviations of 3, 3 and 1 in the logarithm; a
# judgement.
_PRIOR = np.array([[-1.5, -1.5, -0.7, 0.0], [0.1, 0.1, 1.0, 0.0]])


class Prediction(NamedTuple):
    """For all K arms, in the metrics' units or, of variances, their squares."""

    means: Means
    standard_errors: Means
    variances: Matrix  # (m, 4): smooth in the features, linear in them, own effects, noise of one pull


@final
@dataclass(frozen=True)
class BLUP(AbstractEstimator):
    """Gaussian process on the features plus an independent effect of every arm.

    `noise_share` applies where examples are drawn without replacement, so that arms share them: the part of the
    variance within arms that remains in differences between arms (0.37 in the median over 45 recorded tables); the
    rest belongs to the examples and moves all arms alike. It enters the standard errors, not the weights.

    Arms may differ in their noise; how far they are believed to follows from the spread of their sample variances.

    The variances are found on the `max_fit` arms with the most pulls; up to `max_exact` arms the prediction given
    them is exact, beyond it the smooth part goes through `max_fit` landmark arms. At most 4096 and 8192: memory grows
    with their squares.
    """

    noise_share: float = 0.4
    max_fit: int = 512
    max_exact: int = 2048

    def __post_init__(self) -> None:
        # Also of a saved method: no file may take all memory.
        check_number("noise_share of BLUP", self.noise_share, 1e-6, 1.0)
        whole("max_fit of BLUP", self.max_fit, 1, 4096)
        whole("max_exact of BLUP", self.max_exact, 1, 8192)

    needs_features: ClassVar[bool] = True
    packages: ClassVar[tuple[str, ...]] = ("jax",)
    needs_every_arm: ClassVar[bool] = False

    def estimate(self, sample: Sample) -> Estimates:
        """Posterior means and standard errors of the active arms.

        Without features every sample mean is shrunk to the average.
        """
        n_arms = len(sample.tally.counts)
        features = np.zeros((n_arms, 1)) if sample.features is None else sample.features
        prediction = self.predict(sample.tally, features, sample.population)
        return Estimates(prediction.means[sample.active], prediction.standard_errors[sample.active])

    def predict(self, tally: Tally, features: Features, population: int | None = None) -> Prediction:
        """Estimates of all K arms, from at least one pull; `features` (K, d)."""
        from asktell.estimators import _blup_jax

        x = standardized(features)
        counts, pulled = tally.counts, tally.counts > 0
        centre, scale = _location_and_scale(tally)
        unit = np.where(scale > 0, scale, 1.0)
        y = np.where(pulled[:, None], (tally.means - centre) / unit, 0.0)
        # The variance of each sample mean over that of one pull; 1 for arms without a pull.
        same = tally.left(population) / np.maximum(counts, 1.0)[:, None]
        left = same * _relative_noise(tally)
        few = _most_pulled(counts, self.max_fit)
        squared_length = _median_squared_distance(x[few])
        share = 1.0 if population is None else self.noise_share
        noise = _noise(tally, unit, share)
        size = padded_size(len(few))
        with _blup_jax.double_precision():
            seen = [pad_rows(a, size) for a in (x[few], y[few], left[few], pulled[few].astype(float))]
            found = _blup_jax.fit(*seen, squared_length, _blup_jax.Noise(*noise), _PRIOR, _START)
            is_exact = len(x) <= self.max_exact
            size = padded_size(len(x)) if is_exact else -(-len(x) // _BLOCK) * _BLOCK
            rows = [pad_rows(a, size) for a in (x, y, left, pulled.astype(float))]
            if is_exact:
                posterior = _blup_jax.predict(*rows, squared_length, found)
            else:
                blocks = [a.reshape(-1, _BLOCK, *a.shape[1:]) for a in rows]
                posterior = _blup_jax.predict_low_rank(*blocks, squared_length, found, x[few])
            m = y.shape[1]
            mean = np.asarray(posterior.mean).reshape(m, -1)[:, : len(x)].T
            error = np.asarray(posterior.standard_error).reshape(m, -1)[:, : len(x)].T
            variances = np.exp(np.asarray(found)) * scale[:, None] ** 2
        common = (1.0 / share - 1.0) * variances[:, 3] * np.where(pulled[:, None], left, same[pulled].min(axis=0))
        errors = np.sqrt((scale * error) ** 2 + common)
        if not counts.max() > 1 and pulled.sum() < 2:
            errors[:] = np.nan  # a single pull says nothing about its error
        return Prediction(centre + scale * mean, errors, variances)


def _location_and_scale(tally: Tally) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """(m,) each: the average of the sample means, and their deviation, else that of single pulls; 0 if constant."""
    means = tally.means[tally.counts > 0]
    centre = means.mean(axis=0)
    spread = means.std(axis=0, ddof=1) if len(means) > 1 else np.zeros_like(centre)
    spread = np.where(spread > 1e-12 * np.abs(means).max(axis=0), spread, np.sqrt(np.nan_to_num(tally.pooled_variance)))
    return centre, spread


def _relative_noise(tally: Tally) -> npt.NDArray[np.float64]:
    """(K, m) variance of a pull of each arm over that of the average arm, by credibility (Buhlmann 1967).

    Arms differ in it: a prompt whose answers are all too long has brevity 0 without any noise. 1 for scores of 0 and
    1, where few pulls that agree are luck, and where an arm was not pulled twice.
    """
    ratio = np.ones_like(tally.sums)
    freedom = tally.counts - 1.0
    seen = freedom > 0
    if seen.sum() < _FEWEST_ARMS:
        return ratio
    weight = (freedom[seen] / freedom[seen].sum())[:, None]
    variance = tally.deviations[seen] / freedom[seen, None]
    pooled = (weight * variance).sum(axis=0)
    constant = pooled <= 0
    variance = variance / np.where(constant, 1.0, pooled)  # relative, so that squares neither over- nor underflow
    # A sample variance of normal scores has the variance 2 sigma^4 / freedom; what is more is between arms.
    chance = 2.0 * seen.sum() / freedom[seen].sum()
    spread = (weight * (variance - 1.0) ** 2).sum(axis=0)
    between = np.maximum(spread - chance, 0.0) / (1.0 + chance)
    trust = between / (between + 2.0 * (between + 1.0) / freedom[seen, None])
    binary = np.all(np.isin(tally.first, (0.0, 1.0)) & (tally.squares == np.abs(tally.sums)), axis=0)
    ratio[seen] = np.where(binary | constant, 1.0, 1.0 + trust * (variance - 1.0))
    return np.maximum(ratio, _LEAST_NOISE)


def _most_pulled(counts: Counts, most: int) -> npt.NDArray[np.int64]:
    """Positions of up to `most` arms with the most pulls, none without; ties spread evenly over the positions."""
    pulled = np.flatnonzero(counts)
    if len(pulled) <= most:
        return pulled
    spread = np.argsort(spread_evenly(len(pulled)), kind="stable")
    order = spread[np.argsort(-counts[pulled[spread]], kind="stable")]
    return np.sort(pulled[order[:most]])


def _median_squared_distance(x: Features) -> float:
    norms = (x**2).sum(axis=1)
    distances = (norms[:, None] + norms - 2 * x @ x.T)[np.triu_indices(len(x), 1)]
    median = float(np.median(distances)) if len(distances) else 0.0
    return median if median > 1e-9 else 1.0


def _noise(tally: Tally, unit: npt.NDArray[np.float64], share: float) -> list[Any]:
    freedom = int(np.maximum(tally.counts - 1, 0).sum())
    ones = np.ones(len(unit))
    if not freedom:
        # No arm was pulled twice: most of the spread of single pulls is noise.
        mean_count = tally.counts[tally.counts > 0].mean()
        return [np.log(mean_count * ones), ones, 0 * ones, 0 * ones]
    within = share * tally.pooled_variance / unit**2
    return [np.log(np.maximum(within, 1e-6)), 0 * ones, within, freedom * ones]
