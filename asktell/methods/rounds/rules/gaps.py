"""The Pareto gaps of EGE. Larger is better in every column.

With m(i, j) = min_k (v_jk - v_ik) and M(i, j) = -m(i, j), the gap of a dominated row is
D_i = max_{j != i} m(i, j), and that of a non-dominated one min_{j != i} min(M(i, j),
M(j, i)+ + (D_j)+) (Kone, Kaufmann & Richert 2024, Lemma 1). Only front points matter
for D_i and for M(i, j): a row that i alone dominates has D_j <= M(i, j), and any other
dominated row has a front point in its place that is at least as close. Non-dominated j
have (D_j)+ = 0.
"""

import numpy as np

from asktell.numerics.arrays import Bools, Floats
from asktell.numerics.pareto import pareto_mask
from asktell.numerics.shapes import Bool, Float

# Elements of one block of pairwise differences: half a MiB, so that it stays in the
# cache
_BLOCK = 1 << 16


def pareto_gaps(
    values: Float[Floats, "rows values"],
) -> tuple[Float[Floats, " rows"], Bool[Bools, " rows"]]:
    """EGE's gap of every row, and the mask of non-dominated rows, see above. A single row has an infinite gap.

    Values must be finite. Two columns take O(n log n) time and O(n) memory. More take O(n * size of the front)
    at worst, in blocks.
    """
    if values.shape[1] == 2 and len(values) > 1:
        return _gaps_2d(values)
    optimal = pareto_mask(values)
    gaps = np.empty(len(values))
    front, below = values[optimal], values[~optimal]
    depth = _depths(below, front)
    gaps[~optimal] = depth
    gaps[optimal] = _reached(front, below, depth, _nearest(front))
    return gaps, optimal


def _gaps_2d(
    values: Float[Floats, "rows values"],
) -> tuple[Float[Floats, " rows"], Bool[Bools, " rows"]]:
    optimal = pareto_mask(values)
    front = np.flatnonzero(optimal)
    front = front[values[front, 0].argsort()]
    x, y = values[front].T
    # Ascending and descending, strictly: on a front rows of the same first column are
    # duplicates.
    new = np.concatenate(([True], x[1:] != x[:-1]))
    x, y, group = x[new], y[new], np.cumsum(new) - 1

    # Between front points the neighbours are the nearest.
    nearest = np.full(len(x), np.inf)
    step = np.minimum(x[1:] - x[:-1], y[:-1] - y[1:])
    nearest[1:] = step
    np.minimum(nearest[:-1], step, out=nearest[:-1])
    nearest[np.bincount(group) > 1] = 0.0  # a duplicate is at distance 0

    gaps, below = np.empty(len(values)), np.flatnonzero(~optimal)
    if len(below):
        gaps[below], nearest = _gaps_below(values[below], x, y, nearest)
    gaps[front] = nearest[group]
    return gaps, optimal


def _gaps_below(
    points: Float[Floats, "below values"],
    x: Float[Floats, " front"],
    y: Float[Floats, " front"],
    nearest: Float[Floats, " front"],
) -> tuple[Float[Floats, " below"], Float[Floats, " front"]]:
    """Gaps D of dominated points, and the front's gaps lowered by min_j M(j, i)+ + D_j.

    M(j, i) is the largest lead of point j over point i in any column. The front has
    ascending `x` and descending `y`, and `nearest` has its gaps without the dominated
    points. The front points from low_j to high_j dominate point j. Point j exceeds the
    front points before low_j in x only, and the points behind high_j in y only.
    """
    a, b = points[:, 0], points[:, 1]
    size = len(x)
    low = np.searchsorted(x, a, side="left")
    high = np.searchsorted(-y, -b, side="right") - 1
    # x - a rises and y - b falls along the front: the least of the two is largest where
    # they cross.
    cross = np.minimum(np.maximum(np.searchsorted(x - y, a - b), low), high)
    before = np.maximum(cross - 1, low)
    gap = np.maximum(
        np.minimum(x[cross] - a, y[cross] - b), np.minimum(x[before] - a, y[before] - b)
    )

    # For the dominating front points: the least D over intervals, each covered by two
    # blocks of a power of two.
    level = np.frexp(high - low + 1)[1] - 1
    table = np.full((int(level.max()) + 1, size), np.inf)
    np.minimum.at(table, (level, low), gap)
    np.minimum.at(table, (level, high + 1 - (1 << level)), gap)
    for h in range(len(table) - 1, 0, -1):
        half = 1 << (h - 1)
        np.minimum(table[h - 1], table[h], out=table[h - 1])
        np.minimum(table[h - 1, half:], table[h, :-half], out=table[h - 1, half:])
    nearest = np.minimum(nearest, table[0])

    # For those before and behind: the least of a + D over later points, of b + D over
    # earlier ones.
    later = np.full(size + 1, np.inf)
    np.minimum.at(later, low, a + gap)
    later = np.minimum.accumulate(later[::-1])[::-1]
    earlier = np.full(size + 1, np.inf)
    np.minimum.at(earlier, high + 1, b + gap)
    earlier = np.minimum.accumulate(earlier)
    return gap, np.minimum(nearest, np.minimum(later[1:] - x, earlier[:-1] - y))


def _depths(
    below: Float[Floats, "below values"], front: Float[Floats, "front values"]
) -> Float[Floats, " below"]:
    """D of dominated points: the largest least gain over the front."""
    q = front.shape[1]
    sums = front.sum(axis=1)
    by_sum = np.argsort(-sums, kind="stable")
    front, sums = front[by_sum], sums[by_sum]
    width = 64
    depth = np.full(len(below), -np.inf)
    # Neighbours in this order have similar sums, so they are done at about the same
    # time.
    for rows in np.array_split(
        np.argsort(below.sum(axis=1), kind="stable"),
        -(-len(below) // (_BLOCK // width)) or 1,
    ):
        points = below[rows]
        for start in range(0, len(front), width):
            if start:
                # The least gain is at most the average one, and later front points have
                # smaller sums.
                open_ = sums[start] - points.sum(axis=1) > q * depth[rows]
                if not open_.all():
                    rows, points = rows[open_], points[open_]
            if not len(rows):
                break
            gain = _extreme_difference(front[start : start + width], points, np.minimum)
            depth[rows] = np.maximum(depth[rows], gain.max(axis=0))
    return depth


def _nearest(front: Float[Floats, "front values"]) -> Float[Floats, " front"]:
    """min_{j != i} min(M(i, j), M(j, i)) of every front point. Infinite for a single point."""
    size = len(front)
    nearest = np.full(size, np.inf)
    width = 256
    for i in range(0, size, width):
        for j in range(i, size, width):
            part, compared = front[i : i + width], front[j : j + width]
            apart = np.minimum(
                _extreme_difference(part, compared, np.maximum),
                -_extreme_difference(part, compared, np.minimum),
            )
            if i == j:
                np.fill_diagonal(apart, np.inf)
            np.minimum(
                nearest[i : i + width], apart.min(axis=1), out=nearest[i : i + width]
            )
            np.minimum(
                nearest[j : j + width], apart.min(axis=0), out=nearest[j : j + width]
            )
    return nearest


def _reached(
    front: Float[Floats, "front values"],
    below: Float[Floats, "below values"],
    depth: Float[Floats, " below"],
    nearest: Float[Floats, " front"],
) -> Float[Floats, " front"]:
    """The front's gaps `nearest`, lowered by min_j M(j, i)+ + D_j over dominated points j."""
    reached = nearest.copy()
    by_depth = np.argsort(depth, kind="stable")
    open_ = np.arange(len(front))
    start = 0
    while start < len(below):
        # Nothing that comes later is nearer than its own D.
        open_ = open_[reached[open_] > depth[by_depth[start]]]
        if not len(open_):
            break
        rows = by_depth[start : start + max(16, _BLOCK // len(open_))]
        start += len(rows)
        away = (
            np.maximum(_extreme_difference(below[rows], front[open_], np.maximum), 0.0)
            + depth[rows][:, None]
        )
        reached[open_] = np.minimum(reached[open_], away.min(axis=0))
    return reached


def _extreme_difference(
    these: Float[Floats, "these values"],
    those: Float[Floats, "those values"],
    extreme: np.ufunc,
) -> Float[Floats, "these those"]:
    """The largest (np.maximum) or smallest (np.minimum) of these_ik - those_jk over k, (these, those)."""
    result: Float[Floats, "these those"] = these[:, None, 0] - those[:, 0]
    difference = np.empty_like(result)
    for k in range(1, these.shape[1]):
        np.subtract(these[:, None, k], those[:, k], out=difference)
        extreme(result, difference, out=result)
    return result
