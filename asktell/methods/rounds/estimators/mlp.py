"""A small neural network on the arms' features (MLP-CSR, MLP-EGE of GENSEC and GENPSI), as an ensemble.

The paper leaves the optimizer, its steps and the scaling open. This implementation uses
full-batch Adam, standardized inputs and targets, and the average of several networks.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from asktell.methods.rounds.estimators.base import AbstractEstimator, Estimates, Sample
from asktell.methods.rounds.padding import pad_rows, padded_size
from asktell.numerics.arrays import Floats
from asktell.numerics.shapes import Float
from asktell.problem.checks import check_number, whole

# Least share of the arms that counts as degrees of freedom of the residuals. A judgement.
_LEAST_FREEDOM = 0.1


@final
@dataclass(frozen=True)
class MLP(AbstractEstimator):
    """The average of several small neural networks on the features. They are trained again at every decision.

    The networks learn to predict the sample means of all arms that have scores. Each
    mean is weighted by its number of scores. They also predict arms without scores.
    Each network has one hidden layer of ReLU units, and is trained by Adam.

    Attributes:
        hidden: number of hidden units of each network, at most 512.
        members: number of networks, at most 100. They start with different random
            weights.
        regularization: the weight of the sum of the squared parameters, which the
            training adds to the mean squared error.
        learning_rate: the learning rate of Adam.
        steps: the number of steps of Adam, at most 100,000.
    """

    hidden: int = 30
    members: int = 5
    regularization: float = 1e-3
    learning_rate: float = 0.01
    steps: int = 400

    def __post_init__(self) -> None:
        # These limits also hold for a saved method, so that no file can use up the
        # memory or run for ever
        vars(self).update(
            hidden=whole("hidden of MLP", self.hidden, 1, 512),
            members=whole("members of MLP", self.members, 1, 100),
            steps=whole("steps of MLP", self.steps, 1, 100_000),
            regularization=check_number(
                "regularization of MLP", self.regularization, 0.0, 1e6
            ),
            learning_rate=check_number(
                "learning_rate of MLP", self.learning_rate, 1e-9, 1e3
            ),
        )

    needs_features: ClassVar[bool] = True
    packages: ClassVar[tuple[str, ...]] = ("jax", "flax", "optax")
    needs_every_arm: ClassVar[bool] = False

    def estimate(self, sample: Sample) -> Estimates:
        """Predict the means of the active arms.

        The squared standard error is the sum of three variances:

        1. The variance of the predictions of the different networks.
        2. The variance of a network's prediction that comes from the noise in the
           sample means. It is computed as if the network were a linear function of its
           parameters near the optimum (MacKay 1992).
        3. The variance of the differences between sample means and predictions, as far
           as it is larger than noise alone would make it. It stands for the part of the
           true means that the features do not determine.

        Args:
            sample: the scores, and the positions of the active arms.
        """
        assert sample.features is not None, "the method has checked it"
        tally, active = sample.tally, sample.active
        pulled = tally.counts > 0
        weights = tally.counts / tally.counts.sum()
        finite = np.where(pulled[:, None], tally.means, 0.0)
        centre = weights @ finite
        spread = np.sqrt(weights @ np.where(pulled[:, None], finite - centre, 0.0) ** 2)
        # A metric that is constant up to rounding is predicted as this constant
        varies = spread > 1e-12 * np.abs(centre)
        unit = np.where(varies, spread, 1.0)
        targets = np.where(pulled[:, None] & varies, (finite - centre) / unit, 0.0)
        outputs, gain, freedom = self._fit(
            _standardized(sample.features), targets, weights, sample.seed
        )
        mean = outputs.mean(axis=0)
        between = (
            outputs.var(axis=0, ddof=1) if self.members > 1 else np.zeros_like(mean)
        )
        # sum_i (n_i / n) / n_i = (number of pulled arms) / n is the weighted average of
        # 1 / n_i.
        n_pulls, n_pulled = tally.counts.sum(), pulled.sum()
        # A fit with `freedom` parameters makes the residuals smaller than the spread
        left = np.maximum(1.0 - freedom / n_pulled, _LEAST_FREEDOM)
        total = weights @ (targets - mean) ** 2 / left
        # If no arm has two scores, all of the spread may be noise. It is 1 in these
        # units.
        noise = np.nan_to_num(tally.pooled_variance / unit**2, nan=n_pulls / n_pulled)
        if tally.noise is not None:
            noise = noise * (weights @ tally.left(sample.population))
        elif sample.population is not None:
            noise = noise * max(0.0, 1.0 - weights @ tally.counts / sample.population)
        unexplained = np.maximum(total - noise * n_pulled / n_pulls, 0.0)
        errors = np.sqrt(between + noise / n_pulls * gain + unexplained) * np.where(
            varies, unit, 0.0
        )
        means = centre + np.where(varies, unit, 0.0) * mean
        return Estimates(means[active], errors[active])

    def _fit(
        self,
        x: Float[Floats, "arms features"],
        y: Float[Floats, "arms metrics"],
        weights: Float[Floats, " arms"],
        seed: int,
    ) -> tuple[
        Float[Floats, "members arms metrics"],
        Float[Floats, "arms metrics"],
        Float[Floats, " metrics"],
    ]:
        """Outputs, gain and freedom of `_mlp_jax.Fit`. Padded arrays let one compilation serve every round."""
        from asktell.methods.rounds.estimators import _mlp_jax

        n, size = len(x), padded_size(len(x))
        fit = _mlp_jax.fit_predict(
            *(pad_rows(a.astype(np.float32), size) for a in (x, y, weights)),
            np.uint32(seed & 0xFFFFFFFF),
            self.regularization,
            self.learning_rate,
            self.steps,
            hidden=self.hidden,
            members=self.members,
        )
        outputs, gain, freedom = (np.asarray(field, dtype=np.float64) for field in fit)
        return outputs[:, :n], gain[:n], freedom


def _standardized(
    features: Float[Floats, "arms features"],
) -> Float[Floats, "arms features"]:
    """Every column with mean 0 and deviation 1. A column that is constant up to rounding becomes exactly 0."""
    centred = features - features.mean(axis=0)
    spread = centred.std(axis=0)
    rounding = 100 * np.finfo(float).eps * np.abs(features).max(axis=0, initial=0.0)
    return np.asarray(
        np.where(spread > rounding, centred / np.where(spread > 0, spread, 1.0), 0.0)
    )
