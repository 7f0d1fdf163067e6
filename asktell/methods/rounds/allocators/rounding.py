"""A fractional design turned into whole pulls that sum to a round's budget.

`x` has one row per arm, in a basis of the span of the features, so d = rank. A design is
either weights that sum to 1 or counts. An arm's leverage under counts is x^T V^-1 x
with V = sum_i n_i x_i x_i^T: the variance of its prediction, in units of the noise of
one pull.
"""

import numpy as np
import numpy.typing as npt

from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.shapes import Float, Int

# A smaller weight counts as 0.
_SMALLEST_WEIGHT = 1e-9
# Multiplications that a search for exchanges may cost: about 0.1 s.
_EXCHANGE_WORK = 2e8


def leverages(
    x: Float[Floats, "active features"], design: npt.NDArray[np.generic]
) -> Float[Floats, " active"]:
    """The leverage x_i^T V^-1 x_i of every arm. Infinite for all arms if the design does not span."""
    used = design.astype(float)
    # V = R^T R, from the QR decomposition of the weighted rows.
    r = np.asarray(np.linalg.qr(np.sqrt(used)[:, None] * x, mode="r"))
    diagonal = np.abs(np.diag(r))
    if len(r) < x.shape[1] or diagonal.min(initial=np.inf) <= 1e-10 * diagonal.max(
        initial=0.0
    ):
        return np.full(len(x), np.inf)
    lever: Floats = (np.linalg.solve(r.T, x.T) ** 2).sum(axis=0)
    return lever


def reduce_support(
    x: Float[Floats, "active features"], weights: Float[Floats, " active"]
) -> Float[Floats, " active"]:
    """Weights with the same V from at most d (d + 1) / 2 + 1 arms (Caratheodory's theorem).

    Weights below 1e-9 are dropped first. The arms are reduced in blocks. Each null
    vector of the moments of a block moves weight until one arm has none left.
    """
    w = np.where(weights >= _SMALLEST_WEIGHT, weights, 0.0)
    w /= w.sum()
    d = x.shape[1]
    row, column = np.triu_indices(d)
    most = len(row) + 1
    support = np.flatnonzero(w)
    while len(support) > most:
        block = support[: 2 * most]
        moments = np.column_stack(
            (x[block][:, row] * x[block][:, column], np.ones(len(block)))
        )
        q, _ = np.linalg.qr(moments, mode="complete")
        null = q[:, most:].copy()
        for c in range(null.shape[1]):
            direction = null[:, c]
            here = w[block]
            falling = direction > 1e-12 * np.abs(direction).max()
            if not falling.any():
                direction = -direction
                falling = direction > 0
            steps = np.where(falling, here / np.where(falling, direction, 1.0), np.inf)
            gone = int(steps.argmin())
            w[block] = np.maximum(here - steps[gone] * direction, 0.0)
            w[block[gone]] = 0.0
            # The null vectors still to come must not bring it back.
            null[:, c + 1 :] -= np.outer(
                direction, null[gone, c + 1 :] / direction[gone]
            )
            null[gone, c + 1 :] = 0.0
        support = np.flatnonzero(w)
    reduced: Floats = w / w.sum()
    return reduced


def efficient_rounding(
    weights: Float[Floats, " active"], n: int
) -> Int[Ints, " active"]:
    """Efficient apportionment (Pukelsheim & Rieder 1992): whole numbers in proportion to the weights that sum to n.

    With s arms in the support and n >= s, every count is at least (1 - s / n) n w_i, so
    for n > s the largest leverage is at most that of the weights, divided by n - s.
    """
    support = np.flatnonzero(weights > 0)
    w = weights[support]
    counts = np.ceil((n - len(support) / 2) * w).astype(np.int64)
    counts = np.maximum(counts, 1) if n >= len(support) else np.maximum(counts, 0)
    total = int(counts.sum())
    while total > n:
        counts[np.where(counts > 0, (counts - 1) / w, -np.inf).argmax()] -= 1
        total -= 1
    while total < n:
        counts[(counts / w).argmin()] += 1
        total += 1
    out = np.zeros(len(weights), dtype=np.int64)
    out[support] = counts
    return out


def within_capacity(
    counts: Int[Ints, " active"],
    capacity: Int[Ints, " active"],
    weights: Float[Floats, " active"],
) -> Int[Ints, " active"]:
    """Cut the counts to the capacity, and give the rest to the other arms by weight, then evenly.

    The sum stays the same, or is the total capacity if that is less.
    """
    n = min(int(counts.sum()), int(capacity.sum()))
    out = np.minimum(counts, capacity)
    while (left := n - int(out.sum())) > 0:
        share = np.where(out < capacity, weights, 0.0)
        if not share.any():
            share = (out < capacity).astype(float)
        # By largest remainders.
        quota = left * (share / share.sum())
        more = np.floor(quota).astype(np.int64)
        remainder = np.where(share > 0, quota - more, -1.0)
        more[np.argsort(-remainder, kind="stable")[: left - int(more.sum())]] += 1
        out = np.minimum(out + more, capacity)
    return out


def greedy_fill(
    x: Float[Floats, "active features"],
    weights: Float[Floats, " active"],
    n: int,
    capacity: Int[Ints, " active"],
) -> Int[Ints, " active"]:
    """Counts for budgets too small to round: d independent arms, then always the arm with the largest leverage.

    The first d arms come from a pivoted QR of diag(sqrt(weights)) x. Every capacity
    must be positive and n at least d. The counts sum to n, or to the total capacity.
    """
    counts = np.zeros(len(x), dtype=np.int64)
    d = x.shape[1]
    for rows in (np.sqrt(weights)[:, None] * x, x):
        chosen = _pivots(rows)
        if len(chosen) == d:
            break
    counts[chosen] = 1
    inverse = np.linalg.inv(x[chosen].T @ x[chosen])
    lever = ((x @ inverse) * x).sum(axis=1)
    for _ in range(min(n, int(capacity.sum())) - d):
        best = int(np.where(counts < capacity, lever, -np.inf).argmax())
        counts[best] += 1
        # The inverse and all leverages after one more pull (Sherman & Morrison 1950).
        u = inverse @ x[best]
        scale = 1.0 + u @ x[best]
        inverse -= np.outer(u, u) / scale
        lever -= (x @ u) ** 2 / scale
    return counts


def _pivots(rows: Float[Floats, "active features"]) -> Int[Ints, " independent"]:
    """Linearly independent rows, each time the one farthest from the span of those before."""
    from scipy import linalg  # here, to keep the import of asktell light

    r, order = linalg.qr(rows.T, mode="r", pivoting=True)
    length = np.abs(np.diag(r))
    return np.asarray(order[: len(length)][length > 1e-9 * length.max(initial=0.0)])


def exchange(
    x: Float[Floats, "active features"],
    counts: Int[Ints, " active"],
    capacity: Int[Ints, " active"],
) -> Int[Ints, " active"]:
    """Move single pulls from arm to arm while that lowers the largest leverage.

    Each step considers the pulls of every arm, and the few arms whose leverage would
    then be the largest. With many arms the search ends early, since it would take long.
    """
    counts = counts.copy()
    n_candidates = min(5, len(x))
    cost = float(np.count_nonzero(counts)) * x.size * (n_candidates + 1)
    for _ in range(int(min(100.0, _EXCHANGE_WORK / max(cost, 1.0)))):
        inverse = np.linalg.inv((counts[:, None] * x).T @ x)
        lever = ((x @ inverse) * x).sum(axis=1)
        best, move = float(lever.max()) * (1 - 1e-9), None
        for source in np.flatnonzero(counts):
            if lever[source] > 1 - 1e-9:
                continue  # the only arm in its direction
            # Take one pull away from the source, then give it to each target.
            u = inverse @ x[source]
            less = inverse + np.outer(u, u) / (1 - lever[source])
            lever_less = lever + (x @ u) ** 2 / (1 - lever[source])
            open_ = np.where(counts < capacity, lever_less, -np.inf)
            targets = np.argpartition(open_, len(x) - n_candidates)[
                len(x) - n_candidates :
            ]
            targets = np.sort(targets[(counts < capacity)[targets]])
            after = lever_less[:, None] - (x @ (less @ x[targets].T)) ** 2 / (
                1 + lever_less[targets]
            )
            worst = after.max(axis=0)
            if len(targets) and worst.min() < best:
                best, move = float(worst.min()), (source, targets[worst.argmin()])
        if move is None:
            break
        counts[move[0]] -= 1
        counts[move[1]] += 1
    return counts


def round_design(
    x: Float[Floats, "active features"],
    weights: Float[Floats, " active"],
    n: int,
    capacity: Int[Ints, " active"],
    tolerance: float,
) -> Int[Ints, " active"]:
    """Whole pulls that sum to n, for weights whose largest leverage is at most (1 + tolerance) d.

    For n larger than the support s, without full arms, the largest leverage is at most
    (1 + tolerance) d / (n - s), which is checked. Smaller budgets are filled greedily.
    Every capacity must be positive, and d <= n <= total capacity.
    """
    d = x.shape[1]
    size = int(np.count_nonzero(weights))
    if n > size:
        counts = efficient_rounding(weights, n)
        if (counts > capacity).any():
            return within_capacity(counts, capacity, weights)
        is_near_optimal = leverages(x, counts).max() <= (1 + tolerance) * d / (
            n - size
        ) * (1 + 1e-9)
        if is_near_optimal:
            return exchange(x, counts, capacity) if n < 2 * size else counts
    return exchange(x, greedy_fill(x, weights, n, capacity), capacity)
