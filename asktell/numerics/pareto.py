"""Dominance and the non-dominated set. Larger is better in every column.

Dominance is weak: y dominates x if it is at least as good everywhere and better
somewhere, so duplicates of a Pareto-optimal point are all Pareto-optimal.
"""

import numpy as np

from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.shapes import Bool, Float, Int

# Rows, from which it pays to drop those that a single one dominates before sorting
_MANY = 2048


def pareto_mask(values: Float[Floats, "rows values"]) -> Bool[Bools, " rows"]:
    """True for the rows that no other row dominates. Values must be finite, and larger is better.

    Two columns take O(n log n). More columns take O(n * size of the front) at worst, and much
    less where most are dominated.
    """
    n, q = values.shape
    if n == 0:
        return np.zeros(0, dtype=bool)
    if q == 1:
        best: Bool[Bools, " rows"] = values[:, 0] == values[:, 0].max()
        return best
    if n <= _MANY:
        return _mask(values)
    mask, rest = np.zeros(n, dtype=bool), _contenders(values)
    mask[rest] = _mask(values[rest])
    return mask


def _contenders(values: Float[Floats, "rows values"]) -> Int[Ints, " contenders"]:
    """Positions of the rows that are not dominated by the one of the highest sum, in units of the columns' ranges."""
    span = np.ptp(values, axis=0)
    best = values[(values @ (1.0 / np.where(span > 0, span, 1.0))).argmax()]
    covered, below = values[:, 0] <= best[0], values[:, 0] < best[0]
    for k in range(1, len(best)):
        covered &= values[:, k] <= best[k]
        below |= values[:, k] < best[k]
    return np.flatnonzero(~(covered & below))


def _mask(values: Float[Floats, "rows values"]) -> Bool[Bools, " rows"]:
    if values.shape[1] == 2:
        return np.asarray(fronts(*values.T[:, None])[0])
    mask, q = np.zeros(len(values), dtype=bool), values.shape[1]
    # Rounded sums are monotone too, so a row is only dominated by one that comes before
    # it.
    order = np.lexsort(
        (*(-values[:, j] for j in reversed(range(q))), -values.sum(axis=1))
    )
    rest = np.ascontiguousarray(values[order].T)
    while len(order):
        beaten, same = rest[0] <= rest[0, 0], rest[0] == rest[0, 0]
        for column in rest[1:]:
            beaten &= column <= column[0]
            same &= column == column[0]
        mask[order[same]] = True
        beaten[0] = True  # also where it is NaN, which equals nothing: the loop ends
        order, rest = order[~beaten], rest[:, ~beaten]
    return mask


def fronts(
    first: Float[Floats, "draws rows"], second: Float[Floats, "draws rows"]
) -> Bool[Bools, "draws rows"]:
    """True for the Pareto-optimal entries of each row of two columns (S, n). Minus infinity never is."""
    rows, order = np.arange(len(first))[:, None], np.lexsort((-second, -first), axis=-1)
    first, second = first[rows, order], second[rows, order]
    before = np.full_like(second, -np.inf)
    before[:, 1:] = np.maximum.accumulate(second, axis=1)[:, :-1]
    alive = second > before
    # A duplicate of a row on the front has the same values as the last row that raised
    # the maximum.
    last = np.maximum.accumulate(np.where(alive, np.arange(alive.shape[1]), 0), axis=1)
    members: Bool[Bools, "draws rows"] = np.empty(alive.shape, dtype=bool)
    members[rows, order] = (second[rows, last] == second) & (first[rows, last] == first)
    return members


def dominators(values: Float[Floats, "rows values"]) -> list[int | None]:
    """For each row (n, q) the row that dominates it by the most, None if none does.

    The lead of a row is its smallest lead over all columns, in units of the columns'
    spreads.
    """
    scale = np.ptp(values, axis=0) if len(values) else np.ones(values.shape[1])
    dominating: list[int | None] = []
    for row in values:
        ahead = (values - row) / np.where(scale > 0, scale, 1.0)
        dominates = (ahead >= 0).all(axis=1) & (ahead > 0).any(axis=1)
        by = np.where(dominates, ahead.min(axis=1), -1.0)
        dominating.append(int(by.argmax()) if dominates.any() else None)
    return dominating
