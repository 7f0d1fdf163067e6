"""What several metrics of a prompt have in common: who writes more is often right more often, and always costs more.

The metrics' posteriors are fitted one by one; their draws are then correlated as the scores of a prompt are.
"""

from collections.abc import Sequence

import numpy as np

from asktell.numerics.arrays import Draws, Matrix
from asktell.posterior.two_way import Cells

_PRIOR_FREEDOM = 10.0  # scores that independence is worth


def of_metrics(cells: Cells, n_arms: int) -> Matrix:
    """(m, m) correlations of a prompt's scores over its examples, pooled over prompts and shrunk to independence.

    A metric that does not vary within prompts is independent of the others.
    """
    m = cells.scores.shape[1]
    if m == 1:
        return np.eye(1)
    counts = np.bincount(cells.arms, minlength=n_arms)
    sums = np.stack([np.bincount(cells.arms, column, n_arms) for column in cells.scores.T], axis=1)
    deviations = cells.scores - (sums / np.maximum(counts, 1)[:, None])[cells.arms]
    size = np.sqrt((deviations**2).sum(axis=0))
    varies = size > 1e-9 * np.abs(cells.scores).max(axis=0) * np.sqrt(len(deviations))
    deviations = np.where(varies, deviations / np.where(varies, size, 1.0), 0.0)
    freedom = float(np.maximum(counts - 1, 0).sum())
    found = freedom / (freedom + _PRIOR_FREEDOM) * (deviations.T @ deviations)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def correlated(normals: Sequence[Draws], correlation: Matrix) -> list[Draws]:
    """Independent standard normals (S, n) of every metric, mixed so that they correlate; those of the first stay.

    Arrays of another width belong to another kind of posterior, and are not mixed with.
    """
    root = np.linalg.cholesky(correlation)
    mixed = []
    for j, own in enumerate(normals):
        alike = [k for k in range(j) if normals[k].shape == own.shape and root[j, k] != 0.0]
        rest = np.sqrt(1.0 - sum(root[j, k] ** 2 for k in alike))
        if alike:
            own = rest * own
            for k in alike:
                own += root[j, k] * normals[k]
        mixed.append(own)
    return mixed
