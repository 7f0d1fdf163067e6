"""A Gaussian process with a Matern 5/2 kernel and a length scale per feature, fitted by marginal likelihood."""

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import ndtr

from benchmarks.rivals.pool import Array

_NOISE = (np.log(1e-4), np.log(2.0))  # variances, of targets whose variance is 1
_SIGNAL = (np.log(1e-2), np.log(10.0))
_SCALE = (np.log(1e-2), np.log(1e3))


class GaussianProcess:
    """Zero mean; features and targets are expected with mean 0 and variance 1.

    Log parameters: a length scale per feature, the signal's variance and the noise's.
    Scales have the prior of Hvarfner et al. 2024, lognormal with location sqrt(2) +
    log(d) / 2 and scale sqrt(3). A second fit begins where the first ended.
    """

    def __init__(self, d: int) -> None:
        self._location = np.sqrt(2) + np.log(max(d, 1)) / 2
        self.parameters = np.append(np.full(d, self._location), [0.0, np.log(0.1)])

    def fit(self, x: Array, y: Array, steps: int = 30) -> None:
        """Parameters for features (n, d) and targets (n,), and what prediction needs."""
        from scipy.optimize import (
            minimize,
        )  # here, to keep the import of all rivals light

        squares = (x[:, None] - x[None]).transpose(2, 0, 1) ** 2
        bounds = [_SCALE] * x.shape[1] + [_SIGNAL, _NOISE]
        optimum = minimize(
            self.loss,
            self.parameters,
            (squares, y),
            "L-BFGS-B",
            jac=True,
            bounds=bounds,
            options={"maxiter": steps},
        )
        self.parameters = optimum.x
        self._x = x
        self._factor = cho_factor(
            self._covariance(squares)[0] + np.exp(optimum.x[-1]) * np.eye(len(y)),
            lower=True,
        )
        self._weights = cho_solve(self._factor, y)

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Means and standard deviations (n,), without the noise."""
        cross = self._covariance((x[:, None] - self._x[None]).transpose(2, 0, 1) ** 2)[
            0
        ]
        explained = (cross * cho_solve(self._factor, cross.T).T).sum(axis=1)
        return cross @ self._weights, np.sqrt(
            np.maximum(np.exp(self.parameters[-2]) - explained, 1e-12)
        )

    def loss(self, parameters: Array, squares: Array, y: Array) -> tuple[float, Array]:
        """Negative log posterior of the parameters up to a constant, and its gradient; `squares` (d, n, n)."""
        self.parameters = parameters
        signal, slope = self._covariance(squares)
        noise = np.exp(parameters[-1])
        factor = cho_factor(signal + noise * np.eye(len(y)), lower=True)
        weights = cho_solve(factor, y)
        inner = cho_solve(factor, np.eye(len(y))) - np.outer(weights, weights)
        off = (parameters[:-2] - self._location) / 3
        gradient = np.concatenate(
            (
                np.einsum("ab,jab->j", inner * slope, squares)
                * np.exp(-2 * parameters[:-2])
                / 2
                + off,
                [(inner * signal).sum() / 2, noise * np.trace(inner) / 2],
            )
        )
        loss = y @ weights / 2 + np.log(np.diag(factor[0])).sum() + 1.5 * (off**2).sum()
        return float(loss), gradient

    def _covariance(self, squares: Array) -> tuple[Array, Array]:
        """The kernel, and its derivative to a log length scale but for the factor squares[j] / scale[j]^2."""
        r = np.sqrt(
            5 * np.einsum("j,jab->ab", np.exp(-2 * self.parameters[:-2]), squares)
        )
        decay = np.exp(self.parameters[-2] - r)
        return decay * (1 + r + r**2 / 3), decay * (1 + r) * 5 / 3


def expected_improvement(mean: Array, deviation: Array, best: float) -> Array:
    """E[max(f - best, 0)] for normal f; larger is better."""
    z = (mean - best) / deviation
    return np.asarray(
        deviation * (z * ndtr(z) + np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))
    )


def probability_of_positive(mean: Array, deviation: Array) -> Array:
    """P(f >= 0) for normal f."""
    return np.asarray(ndtr(mean / deviation))
