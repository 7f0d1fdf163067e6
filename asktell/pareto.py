"""Dominance, the non-dominated set and the Pareto gaps of EGE. Larger is better in every column.

Dominance is weak: y dominates x if it is at least as good everywhere and better somewhere, so duplicates of a
Pareto-optimal point are all Pareto-optimal.
"""

import numpy as np

from asktell.arrays import Mask, Values

_BLOCK = 1 << 22  # elements of one block of pairwise differences; 32 MiB


def pareto_mask(values: Values) -> Mask:
    """True for the rows that no other row dominates; (n, q) finite values to (n,).

    Two columns take O(n log n); more take O(n * size of the front) after a sort.
    """
    n, q = values.shape
    if n == 0:
        return np.zeros(0, dtype=bool)
    if q == 1:
        best: Mask = values[:, 0] == values[:, 0].max()
        return best
    if q == 2:
        return _pareto_mask_2d(values)
    # A row can only be dominated by one that comes before it in this order, so one sweep finds the front.
    order = np.lexsort(tuple(-values[:, j] for j in reversed(range(q))))
    ranked = values[order]
    alive = np.ones(n, dtype=bool)
    for i in range(n):
        if alive[i]:
            rest = ranked[i + 1 :]
            dominated = (ranked[i] >= rest).all(axis=1) & (ranked[i] > rest).any(axis=1)
            alive[i + 1 :] &= ~dominated
    mask = np.empty(n, dtype=bool)
    mask[order] = alive
    return mask


def _pareto_mask_2d(values: Values) -> Mask:
    order = np.lexsort((-values[:, 1], -values[:, 0]))
    first, second = values[order, 0], values[order, 1]
    # The best second value among rows with a strictly larger first one, and among rows with the same first one.
    new = np.empty(len(order), dtype=bool)
    new[0] = True
    new[1:] = first[1:] < first[:-1]
    group = np.cumsum(new) - 1
    group_best = second[new]
    before = np.concatenate(([-np.inf], np.maximum.accumulate(group_best)))[:-1]
    alive = (second == group_best[group]) & (second > before[group])
    mask = np.empty(len(order), dtype=bool)
    mask[order] = alive
    return mask


def pareto_gaps(values: Values) -> tuple[Values, Mask]:
    """EGE's gap of every row, and the non-dominated mask; (n, q) finite values.

    With m(i, j) = min_k (v_jk - v_ik), M(i, j) = -m(i, j) and D_i = max_{j != i} m(i, j): a dominated row's gap is
    D_i; a non-dominated row's is min_{j != i} min(M(i, j), M(j, i)+ + (D_j)+), infinite for a row alone.
    Source: Kone, Kaufmann & Richert 2024, Lemma 1. Pairs are visited in blocks, never all at once.
    """
    n = len(values)
    optimal = pareto_mask(values)
    best = np.full(n, -np.inf)  # D_i
    rows = max(1, _BLOCK // max(1, n))
    blocks = [np.arange(start, min(start + rows, n)) for start in range(0, n, rows)]
    for block in blocks:
        m = _least_gain(values[block], values)
        m[np.arange(len(block)), block] = -np.inf
        best[block] = m.max(axis=1) if n > 1 else -np.inf
    gaps = best.copy()
    reach = np.maximum(best, 0.0)
    for block in blocks:
        block = block[optimal[block]]
        if not len(block):
            continue
        own = np.arange(len(block))
        to_lose = -_least_gain(values[block], values)
        to_win = np.maximum(-_least_gain_reversed(values[block], values), 0.0) + reach
        to_lose[own, block] = np.inf
        to_win[own, block] = np.inf
        gaps[block] = np.minimum(to_lose, to_win).min(axis=1)
    return gaps, optimal


def _least_gain(points: Values, others: Values) -> Values:
    """m(i, j) = min_k (others_jk - points_ik), (points, others)."""
    gain = others[None, :, 0] - points[:, None, 0]
    for k in range(1, others.shape[1]):
        np.minimum(gain, others[None, :, k] - points[:, None, k], out=gain)
    return gain


def _least_gain_reversed(points: Values, others: Values) -> Values:
    """m(j, i) = min_k (points_ik - others_jk), (points, others)."""
    return _least_gain(-points, -others)
