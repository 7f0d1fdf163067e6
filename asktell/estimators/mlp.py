"""A small neural network on the arms' features (MLP-CSR, MLP-EGE of GENSEC and GENPSI), as an ensemble.

The paper leaves the optimizer, its steps and the scaling open. Here they are full-batch
Adam, standardized inputs and targets, and the average of several networks.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from jaxtyping import Float

from asktell.estimators.base import AbstractEstimator, Estimates, Sample
from asktell.numerics.arrays import Floats, pad_rows, padded_size, standardized
from asktell.problem.checks import check_number, whole

# Least share of the arms that counts as degrees of freedom of the residuals. A
# judgement.
_LEAST_FREEDOM = 0.1


@final
@dataclass(frozen=True)
class MLP(AbstractEstimator):
    """One hidden ReLU layer, refitted from scratch at every decision to the sample means, weighted by pulls.

    Networks are fitted to all pulled arms. An arm without a pull is predicted like the
    others.

    Args:
        hidden: The number of hidden units, up to 512.
        members: The number of networks that are averaged, up to 100. They differ in
            their random start.
        regularization: The factor of the sum of squared parameters, which is added to
            the mean squared error.
        learning_rate: The first learning rate of Adam.
        steps: The number of steps of Adam, up to 100,000.
    """

    hidden: int = 30
    members: int = 5
    regularization: float = 1e-3
    learning_rate: float = 0.01
    steps: int = 400

    def __post_init__(self) -> None:
        # Saved methods are checked, too. No file may need endless memory or time.
        whole("hidden of MLP", self.hidden, 1, 512)
        whole("members of MLP", self.members, 1, 100)
        whole("steps of MLP", self.steps, 1, 100_000)
        check_number("regularization of MLP", self.regularization, 0.0, 1e6)
        check_number("learning_rate of MLP", self.learning_rate, 1e-9, 1e3)

    needs_features: ClassVar[bool] = True
    packages: ClassVar[tuple[str, ...]] = ("jax", "flax", "optax")
    needs_every_arm: ClassVar[bool] = False

    def estimate(self, sample: Sample) -> Estimates:
        """Predictions of the active arms.

        Their squared standard errors are the sum of three parts:

        - the spread between the networks;
        - the effect of noise in the sample means on a network, which is linear in its
          parameters near its optimum (MacKay 1992);
        - the spread of the sample means about the prediction that noise does not
          explain. The features have no information on it.
        """
        assert sample.features is not None, "the method has checked it"
        tally, active = sample.tally, sample.active
        pulled = tally.counts > 0
        weights = tally.counts / tally.counts.sum()
        known = np.where(pulled[:, None], tally.means, 0.0)
        centre = weights @ known
        spread = np.sqrt(weights @ np.where(pulled[:, None], known - centre, 0.0) ** 2)
        # A metric that is constant up to rounding is predicted as that constant.
        varies = spread > 1e-12 * np.abs(centre)
        unit = np.where(varies, spread, 1.0)
        targets = np.where(pulled[:, None] & varies, (known - centre) / unit, 0.0)
        outputs, gain, freedom = self._fit(
            standardized(sample.features), targets, weights, sample.seed
        )
        mean = outputs.mean(axis=0)
        between = (
            outputs.var(axis=0, ddof=1) if self.members > 1 else np.zeros_like(mean)
        )
        # sum_i (n_i / n) / n_i = (number of pulled arms) / n is the weighted average of
        # 1 / n_i.
        n_pulls, n_pulled = tally.counts.sum(), pulled.sum()
        # The residuals lack the part of the spread that the fit explains.
        left = np.maximum(1.0 - freedom / n_pulled, _LEAST_FREEDOM)
        total = weights @ (targets - mean) ** 2 / left
        # Where no arm was pulled twice, all of the spread, which is 1 here, may be
        # noise.
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
        """Outputs, gain and freedom of `_mlp_jax.Fit`. Arrays are padded, so one compilation serves every round."""
        from asktell.estimators import _mlp_jax

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
