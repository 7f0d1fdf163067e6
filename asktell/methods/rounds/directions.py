"""The directions in which the features of prompts differ: their span, its rank, and what least squares leaves out."""

from typing import Any

import numpy as np
import numpy.typing as npt

from asktell.numerics.arrays import Floats
from asktell.numerics.shapes import Float

# Smallest singular value of columns of length 1 that can be computed with
_SMALLEST_DIRECTION = 1e-9


def rank(features: Float[Floats, "arms features"]) -> int:
    """Dimension of the span of the rows. Columns are scaled first, so units do not matter."""
    return int(span(features).shape[1])


def span(features: Float[Floats, "arms features"]) -> Float[Floats, "arms rank"]:
    """Coordinates of the rows in their span, such that sum x x^T is the identity. Columns get unit length first.

    Tolerance of singular values: max(s_max * max(shape) * eps * 100, 1e-9), the value
    of GEGE's authors.
    """
    x = _unit_columns(features)
    u, s, _ = np.linalg.svd(x, full_matrices=False)
    tolerance = max(_rounding_of(s, x), _SMALLEST_DIRECTION)
    return np.asarray(u[:, : int((s > tolerance).sum())])


def lost_directions(features: Float[Floats, "arms features"], intercept: bool) -> int:
    """The number of directions that least squares leaves out, although the rows differ there by more than rounding.

    Columns that are exact combinations of other columns lose nothing and do not count.
    """
    centred = with_intercept(features)[:, :-1] if intercept else features
    size, spread = (
        np.abs(columns).max(axis=0, initial=0.0) for columns in (features, centred)
    )
    # The rounding of a column that is far from zero is large, relative to the centred
    # column.
    cancelled = float((size / np.where(spread > 0, spread, np.inf)).max(initial=1.0))
    x = _unit_columns(centred)
    s = np.linalg.svd(x, compute_uv=False)
    return int(
        ((s > _rounding_of(s, x) * cancelled) & (s <= _SMALLEST_DIRECTION)).sum()
    )


def _unit_columns(
    columns: Float[Floats, "arms features"],
) -> Float[Floats, "arms features"]:
    """The columns scaled to length 1. Zero columns stay zero."""
    # Scaling by the largest entry first keeps the squares of tiny and of huge entries
    # finite.
    top = np.abs(columns).max(axis=0, initial=0.0)
    scaled = columns / np.where(top > 0, top, 1.0)
    norms = np.linalg.norm(scaled, axis=0)
    return np.asarray(scaled / np.where(norms > 0, norms, 1.0))


def _rounding_of(
    singular: npt.NDArray[Any], x: Float[Floats, "arms features"]
) -> float:
    """An upper bound of singular values that would be zero without rounding."""
    eps, size = float(np.finfo(float).eps), int(max(x.shape))
    return float(singular.max(initial=0.0)) * size * eps * 100


def with_intercept(
    features: Float[Floats, "arms features"],
) -> Float[Floats, "arms features+1"]:
    """Centred columns, followed by a constant column. They have the span of (features, 1), and are better scaled.

    A column that is constant up to rounding becomes exactly zero.
    """
    centre = features.mean(axis=0)
    centred = features - centre
    rounding = 100 * np.finfo(float).eps * np.abs(features).max(axis=0, initial=0.0)
    centred[:, np.abs(centred).max(axis=0, initial=0.0) <= rounding] = 0.0
    return np.column_stack((centred, np.ones(len(features))))
