"""Racing: which of several prompts are certainly worse than another, at the price of one test per prompt.

The best prompt is lost only if it is taken for worse itself, so that each prompt has a single claim to refute, "this
one is the best", with the whole error, however many others there are. It says that no rival's mean is above its own. So
a gambler may bet each example on any rival that he chose before it: on the one that is ahead so far, or on the second
for the one that is ahead itself. For a rival's lead x_rival - x over N examples without replacement, t of which have
been seen, the claim's price is m = (sum x - sum x_rival) / (N - t), and 0 for independent draws. With every bet fair or
worse, the capital prod (1 + rate (x_rival - x - m)) is a supermartingale, whichever rivals it went to, and it ever
reaches 1 / error with probability `error` at most (Ville; Waudby-Smith & Ramdas 2020, 2023). The rates are those of
`asktell.intervals.betting`.

What a bet is placed on must follow from the examples before it. So the race is run over the examples in their order,
whenever and for whatever reason their scores came in: it goes on to an example only if all who are still in it have
been there, a prompt that is certainly worse is nobody's rival from then on, and one that joined later is a rival only
on examples that nobody had seen by then. What was found before thus never changes as more scores come in.
"""

import numpy as np
import numpy.typing as npt

from asktell.intervals.base import Floats
from asktell.intervals.betting import Betting

_ROUNDING = 1e-12  # of a mean: sums of decimal fractions differ by some units in the last place
_MOST_NUMBERS = 1 << 18  # of scores whose bets are computed at once; each has up to eight

Numbers = npt.NDArray[np.int64]


def certainly_worse(
    betting: Betting, scores: Floats, known: Numbers, joined: Numbers, since: Numbers, gone: Numbers, error: float
) -> Numbers:
    """(K,) after how many of n examples each of K prompts is certainly worse than a rival; n + 1: it is not.

    If one of the best of all that may be rivals at some time never goes, all of these are lost with probability `error`
    at most. Exact once there is nothing left of a population.

    Args:
        betting: for differences of two scores.
        scores: (K, n) in the examples' order, larger is better; NaN: failed, or not known yet.
        known: (K,) how many of the first examples of each have been evaluated. Nobody gets beyond where one who is
            still in the race has been.
        joined: (K,) how many examples others had seen before each joined; it is waited for only beyond them.
        since: (K,) from how many examples on each may be a rival; n + 1: never.
        gone: (K,) after how many examples each has left for other reasons, n + 1 if it has not.
        error: the probability of a mistake.
    """
    k, n = scores.shape
    if n == 0:
        return np.ones(k, dtype=np.int64)
    arms, turn, never = np.arange(k)[:, None], np.arange(n), n + 1
    seen = ~np.isnan(scores)
    x = np.where(seen, scores, 0.0)
    levels = (np.cumsum(x, axis=1) - x) / np.maximum(np.cumsum(seen, axis=1) - seen, 1)
    since, worse = np.maximum(since, joined), np.full(k, never)
    while True:
        out = np.minimum(worse, gone)
        runs = np.where((since[:, None] <= turn) & (turn < out[:, None]), levels, -np.inf)
        first = runs.argmax(axis=0)
        has_first = runs[first, turn] > -np.inf
        runs[first, turn] = -np.inf
        second = runs.argmax(axis=0)
        has_second = runs[second, turn] > -np.inf
        rival = np.where(arms == first, second, first)
        bets = np.where(arms == first, has_second, has_first) & seen & seen[rival, turn]
        found = _won(betting, x[rival, turn] - x, _prices(betting, x, seen, rival), bets, error)
        waits = known < np.minimum(found, gone)
        end = int(np.maximum(known, joined)[waits].min(initial=n))
        # Whoever was found worse is a rival no more: where a bet went to one all the same, all is done again.
        stale = (has_first & (found[first] <= turn)) | (has_second & (found[second] <= turn))
        again = np.flatnonzero(stale[:end])
        if not len(again):
            break
        worse = np.where(found <= again[0], found, never)
    worse = np.where(found <= end, found, never)
    if end == n == betting.population:  # all that are still in it are known exactly
        means, exact = x.mean(axis=1), (gone > n) & seen.all(axis=1)
        best = means[exact & (since <= n)].max(initial=-np.inf)
        behind = means < best - _ROUNDING * (1.0 + np.abs(means))
        worse = np.where(exact, np.where(behind, np.minimum(worse, n), never), worse)
    return worse


def first_above(betting: Betting, scores: Floats, error: float, or_equal: bool) -> Numbers:
    """(K,) after how many of n examples each mean is certainly above 0; n + 1: it is not.

    `scores` (K, n) as above. `or_equal`: at least 0, which matters once it is known exactly.
    """
    k, n = scores.shape
    if n == 0:
        return np.ones(k, dtype=np.int64)
    seen = ~np.isnan(scores)
    x = np.where(seen, scores, 0.0)
    prices = betting.prices(0.0, np.cumsum(seen, axis=1) - seen, np.cumsum(x, axis=1) - x)
    found = _won(betting, x, prices, seen, error)
    if n == betting.population:
        means = x.mean(axis=1)
        above = means >= -_ROUNDING if or_equal else means > _ROUNDING
        found = np.where(seen.all(axis=1), np.where(above, np.minimum(found, n), n + 1), found)
    return found


def _won(betting: Betting, x: Floats, prices: Floats, bets: npt.NDArray[np.bool_], error: float) -> Numbers:
    """(K,) after how many of n observations the capital of each is first 1 / error; n + 1: never."""
    k, n = x.shape
    found = np.full(k, n + 1)
    size = max(1, _MOST_NUMBERS // n)
    for rows in (slice(start, start + size) for start in range(0, k, size)):
        reached = betting.log_capital_at(x[rows], prices[rows], bets[rows]) >= -np.log(error)
        found[rows] = np.where(reached.any(axis=1), reached.argmax(axis=1) + 1, n + 1)
    return found


def _prices(betting: Betting, x: Floats, seen: npt.NDArray[np.bool_], rival: Numbers) -> Floats:
    """(K, n) what the mean lead of the rival of each over the rest is, if neither is better in all."""
    both, lead = np.zeros(x.shape), np.zeros(x.shape)
    for one in np.unique(rival):
        at = rival == one
        end = int(np.flatnonzero(at.any(axis=0))[-1]) + 1
        common = (seen[:, :end] & seen[one, :end]).astype(np.float64)
        ahead = (x[one, :end] - x[:, :end]) * common
        both[:, :end] = np.where(at[:, :end], np.cumsum(common, axis=1) - common, both[:, :end])
        lead[:, :end] = np.where(at[:, :end], np.cumsum(ahead, axis=1) - ahead, lead[:, :end])
    return betting.prices(0.0, both, lead)
