"""A posterior of the K prompts' means: a mixture of Gaussians, one for every guess at the variances."""

from typing import Any, NamedTuple

import numpy as np

from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.shapes import Float, Int

_BLOCK = 1 << 9  # rows at a time, so that their products stay in the processor's cache


class Gaussian(NamedTuple):
    """`mean` + `rows` @ (`root` @ independent normals) + `own` * further ones.

    `rows` is dense, or sparse where there are many prompts. The product with `root` is
    never formed.
    """

    mean: Float[Floats, " arms"]
    rows: Any  # (K, q)
    root: Float[Floats, "rows roots"]
    own: Float[Floats, " arms"]

    @property
    def variance(self) -> Float[Floats, " arms"]:
        """Marginal variances."""
        cov = self.root @ self.root.T
        blocks = [
            self.rows[start : start + _BLOCK]
            for start in range(0, self.rows.shape[0], _BLOCK)
        ]
        common = np.concatenate([row_products(block, block @ cov) for block in blocks])
        return np.asarray(np.maximum(0.0, common) + self.own**2)

    def deviations(
        self, normals: Float[Floats, "draws normals"]
    ) -> Float[Floats, "draws arms"]:
        """Standard normals to (S, K) deviations from the mean."""
        p = self.root.shape[1]
        result = normals[:, p : p + len(self.own)] * self.own
        result += (self.rows @ (self.root @ normals[:, :p].T)).T
        return np.asarray(result)


class Posterior(NamedTuple):
    """A mixture of Gaussians with an uncertain scale of all deviations, so that draws are Student's."""

    parts: tuple[Gaussian, ...]
    weights: Float[Floats, " parts"]  # of the parts, with a sum of 1
    freedom: float  # degrees of freedom of the scale, infinite if the scale is known
    # Standard deviations, NaN where the scores do not support one
    sd: Float[Floats, " arms"]
    # Of prompts, examples and residual: the first guess
    variances: tuple[float, float, float]
    # The part of the residual's variance that is noise within a cell
    noise: float = 0.0
    trust: float = 0.0  # mean trust in the shape of the examples from earlier studies
    # Share of the prompts' variance that factors explain, on average
    explained: float = 0.0

    @classmethod
    def of(
        cls,
        parts: list[Gaussian],
        weights: Float[Floats, " parts"],
        freedom: float,
        variances: tuple[float, float, float],
        noise: float = 0.0,
    ) -> "Posterior":
        """The posterior of these parts, with the standard deviations of the mixture."""
        means, spread = (
            np.array([p.mean for p in parts]),
            np.array([p.variance for p in parts]),
        )
        inflation = 1.0 if np.isinf(freedom) else freedom / (freedom - 2.0)
        mean = weights @ means
        sd = np.sqrt(weights @ (inflation * spread + (means - mean) ** 2))
        # Known exactly; the means differ by rounding
        sd[(spread == 0.0).all(axis=0)] = 0.0
        return cls(tuple(parts), weights, freedom, sd, variances, noise)

    @classmethod
    def averaged(
        cls,
        fits: list["Posterior"],
        weights: Float[Floats, " posteriors"],
        trusts: Float[Floats, " posteriors"],
    ) -> "Posterior":
        """Average several posteriors, each with a trust. Variances and noise are those of the likeliest posterior."""
        parts = [part for fit in fits for part in fit.parts]
        within = np.concatenate(
            [weight * fit.weights for weight, fit in zip(weights, fits, strict=True)]
        )
        best = fits[int(weights.argmax())]
        whole = cls.of(parts, within, best.freedom, best.variances, best.noise)
        explained = float(weights @ np.array([fit.explained for fit in fits]))
        return whole._replace(trust=float(weights @ trusts), explained=explained)

    @property
    def mean(self) -> Float[Floats, " arms"]:
        """Posterior means."""
        return np.asarray(self.weights @ np.array([part.mean for part in self.parts]))

    def of_some(self, arms: Int[Ints, " some"]) -> "Posterior":
        """The posterior of some of the means, in the order of `arms`."""
        parts = tuple(
            part._replace(
                mean=part.mean[arms], rows=part.rows[arms], own=part.own[arms]
            )
            for part in self.parts
        )
        return self._replace(parts=parts, sd=self.sd[arms])

    def averages(
        self, weights: Float[Floats, "sums arms"]
    ) -> tuple[Float[Floats, " sums"], Float[Floats, " sums"]]:
        """The (L,) means and standard deviations of sums of the prompts' means with (L, K) weights."""
        means = np.array([weights @ part.mean for part in self.parts])
        spread = [
            ((weights @ part.rows @ part.root) ** 2).sum(axis=1)
            + weights**2 @ part.own**2
            for part in self.parts
        ]
        mean = self.weights @ means
        inflation = (
            1.0 if np.isinf(self.freedom) else self.freedom / (self.freedom - 2.0)
        )
        return mean, np.sqrt(
            self.weights @ (inflation * np.array(spread) + (means - mean) ** 2)
        )

    @property
    def n_normals(self) -> int:
        """The number of independent normals for one joint draw."""
        return (
            max(int(part.root.shape[1]) for part in self.parts)
            + len(self.sd)
            + int(np.isfinite(self.freedom))
        )

    def draws(
        self, normals: Float[Floats, "draws normals"]
    ) -> Float[Floats, "draws arms"]:
        """Standard normals to (S, K) joint draws, from each part by its weight."""
        if len(self.parts) == 1:
            return self._drawn(self.parts[0], normals)
        turns = _spread_evenly(len(normals))
        which = np.minimum(
            np.searchsorted(np.cumsum(self.weights), turns, side="right"),
            len(self.parts) - 1,
        )
        result = np.empty((len(normals), len(self.sd)))
        for number, part in enumerate(self.parts):
            result[which == number] = self._drawn(part, normals[which == number])
        return result

    def _drawn(
        self, part: Gaussian, normals: Float[Floats, "draws normals"]
    ) -> Float[Floats, "draws arms"]:
        result = part.deviations(normals)
        if np.isfinite(self.freedom):
            result *= student_scale(normals[:, -1:], self.freedom)
        result += part.mean
        return result

    def scaled(self, centre: float, spread: float) -> "Posterior":
        """The posterior of centre + spread * means, where this is the posterior of the means."""
        parts = tuple(
            p._replace(
                mean=centre + spread * p.mean, root=spread * p.root, own=spread * p.own
            )
            for p in self.parts
        )
        a, b, e = (v * spread**2 for v in self.variances)
        return self._replace(parts=parts, sd=spread * self.sd, variances=(a, b, e))


def student_scale(
    normals: Float[Floats, "draws normals"], freedom: float
) -> Float[Floats, "draws normals"]:
    """Standard normals to draws of sqrt(freedom / chi²), the scale of Student's distribution.

    chi² is the cube of a normal (Wilson & Hilferty 1931).
    """
    part_of_one = 2.0 / (9.0 * freedom)
    root = np.maximum(1.0 - part_of_one + np.sqrt(part_of_one) * normals, 0.1)
    return np.asarray(root**-1.5)


def student_ratio(freedom: int) -> float:
    """The width of the central 95% of Student's distribution over that of the normal (Fisher & Cornish 1960)."""
    v, z = float(freedom), 1.96
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return 1.0 + (first / v + second / v**2 + third / v**3) / z


def row_products(
    one: Any, other: Float[Floats, "rows columns"]
) -> Float[Floats, " rows"]:
    """Sums over the columns of the products of two matrices' entries."""
    if isinstance(one, np.ndarray):
        return np.asarray((one * other).sum(axis=1))
    return np.asarray(one.multiply(other).sum(axis=1)).ravel()


def _spread_evenly(n: int) -> Float[Floats, " n"]:
    """Multiples of the golden ratio in [0, 1). The first n of them are evenly spread, for every n."""
    return np.asarray(np.arange(n) * 0.6180339887498949 % 1.0)
