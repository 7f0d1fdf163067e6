"""Track-and-stop (Garivier & Kaufmann 2016): pull whoever lags most behind the best shares of pulls for these means.

The shares w maximize the least evidence min_i gap_i^2 / (v_L / w_L + v_i / w_i) that
the leader L is ahead. Each arm's variance v is its own, as in TensorZero (2026,
`track_and_stop`), of which is the rule to stop, too: once the least likelihood ratio
gap_i^2 / (2 (v_L / n_L + v_i / n_i)) is above log((1 + log t) / delta). Differences:
run to a fixed budget unless `delta` is given; a variance is shrunk to the pooled one by
a score's worth, as that of one score is 0; pulls are forced where n_i < sqrt(t) - K /
2, and tracking is direct, both as published; the shares are found by bisection;
constraints as in `benchmarks.rivals.gaps`.
"""

import numpy as np

from asktell.problem.goals import Goal
from benchmarks.rivals.gaps import leads
from benchmarks.rivals.pool import Array, Pool

_LEAST_GAP = 1e-3  # of a standard deviation: of equals, none has an endless share
_STEPS = 60


def shares(gaps: Array, variances: Array, leader: int) -> Array:
    """(K,) the best shares of pulls; they add up to 1."""
    is_rival = np.arange(len(gaps)) != leader
    square, v = np.maximum(gaps[is_rival], _LEAST_GAP) ** 2, variances[is_rival]
    lead = variances[leader]
    low, high = 0.0, float(square.min() / lead)
    x = np.ones(len(v))
    # y: the evidence per pull of the leader; x: pulls of the others per pull of the
    # leader
    for _ in range(_STEPS):
        y = 0.5 * (low + high)
        x = v / (square / y - lead)
        low, high = (y, high) if (lead / v) @ x**2 < 1.0 else (low, y)
    pulls = np.ones(len(gaps))
    pulls[is_rival] = x
    return np.asarray(pulls / pulls.sum())


def track_and_stop(
    pool: Pool,
    goal: Goal,
    seed: int,
    delta: float | None = None,
    fewest: int = 1,
    tolerance: float = 0.0,
) -> list[int]:
    """One pull of every prompt, then by the shares.

    With `delta` until it is sure that nobody is better by more than the `tolerance`, in
    the objective's units, and every prompt has `fewest` pulls.
    """
    for arm in range(min(pool.n_arms, pool.left)):
        pool.pull(arm)
    while pool.left:
        leader, gaps = leads(pool, goal)
        if not np.isfinite(gaps).all():
            break
        sample = pool.squares[:, 0] / pool.counts - (pool.sums[:, 0] / pool.counts) ** 2
        pooled = pool.deviation[0] ** 2
        variances = (pool.counts * sample + pooled) / (pool.counts + 1.0) / pooled
        if delta is not None and pool.counts.min() >= fewest:
            evidence = (gaps + tolerance / pool.deviation[0]) ** 2 / (
                2.0
                * (variances[leader] / pool.counts[leader] + variances / pool.counts)
            )
            if np.delete(evidence, leader).min() > np.log(
                (1.0 + np.log(pool.spent)) / delta
            ):
                break
        least = int(pool.counts.argmin())
        forced = pool.counts[least] < np.sqrt(pool.spent) - pool.n_arms / 2
        wanted = pool.spent * shares(gaps, variances, leader) - pool.counts
        pool.pull(least if forced else int(wanted.argmax()))
    return pool.best(goal)
