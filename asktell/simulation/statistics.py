"""Intervals of means, paired differences, and Holm's correction."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def half_width(values: Array) -> float:
    """Half the width of the 95 % interval of a mean, by Student's t; NaN for a single value."""
    from scipy.stats import t

    n = len(values)
    return float(t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")


def mean_below(differences: Array) -> tuple[float, float, float]:
    """Mean, its standard error, and the probability of a mean this low or lower if there is no difference.

    Student's t over two differences or more.
    """
    from scipy.stats import t

    n, mean = len(differences), float(differences.mean())
    error = float(differences.std(ddof=1) / np.sqrt(n))
    without_noise = 0.5 if mean == 0 else float(mean > 0)
    return mean, error, float(t.cdf(mean / error, n - 1)) if error > 0 else without_noise


def holm(p: Array) -> Array:
    """Holm's (1979) adjusted p-values, in the order of the given ones."""
    n, order = len(p), np.argsort(p, kind="stable")
    adjusted = np.empty(n)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * (n - np.arange(n))))
    return adjusted
