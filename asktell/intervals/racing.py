"""Racing: which of several prompts are certainly worse than another, at the price of one test per prompt.

The best prompt is lost only if it is taken for worse itself. So each prompt has a single claim to refute, "this one is
the best", with the whole error, however many others there are. By that claim, no rival's mean is above its own. Let a
gambler bet each example on a rival that he chose before it: on the one that is ahead so far, or on the second for the
one that is ahead itself. For a rival's lead x_rival - x over N examples without replacement, t of which were seen, the
claim's price is m = (sum x - sum x_rival) / (N - t), and 0 for independent draws. Every bet is fair or worse, whichever
rival it is on, so the capital prod (1 + rate (x_rival - x - m)) is a supermartingale. It ever reaches 1 / error with a
probability of at most `error` (Ville; Waudby-Smith & Ramdas 2020, 2023). The rates are those of
`asktell.intervals.betting`.

What a bet is placed on must follow from the examples before it. So the race is run over the examples in their order,
whenever and for whatever reason their scores came in: it goes on to an example only if all who are still in it have
been there, a prompt that is out is nobody's rival from then on, and one that joined later is a rival only on examples
that nobody had seen by then. What was found before thus never changes as more scores come in.
"""

import numpy as np
import numpy.typing as npt

from asktell.intervals.base import Bets, Floats
from asktell.intervals.betting import Betting

_ROUNDING = 1e-12  # of a mean: sums of decimal fractions differ by some units in the last place
_MOST_NUMBERS = 1 << 18  # of scores whose bets are computed at once; each has up to eight

Numbers = npt.NDArray[np.int64]


def certainly_worse(
    betting: Betting, scores: Floats, known: Numbers, joined: Numbers, stays: Bets, error: float
) -> Numbers:
    """(K,) after how many of n examples each prompt is certainly worse than another; n + 1: it is not.

    One of the best of all is found worse with a probability of at most `error`. Exact where nothing is left of a
    population. The `betting` is for differences of two scores.

    `scores` (K, n) are in the examples' order, larger is better; NaN: failed, or not known yet. `known` (K,): how many
    of the first examples of each have been evaluated, with a score or without; nobody gets beyond where one who is
    still in the race has been. `joined` (K,): how many examples others had seen before each joined; it is waited for
    only beyond them. `stays` (K,): who is still evaluated; others are out once they have no more scores.
    """
    k, n = scores.shape
    arms, turn, never = np.arange(k)[:, None], np.arange(n), n + 1
    if n == 0:
        return np.full(k, never)
    seen = ~np.isnan(scores)
    x = np.where(seen, scores, 0.0)
    levels = (np.cumsum(x, axis=1) - x) / np.maximum(np.cumsum(seen, axis=1) - seen, 1)
    gone, worse = np.where(stays, never, known), np.full(k, never)
    while True:
        here = (joined[:, None] <= turn) & (turn < np.minimum(worse, gone)[:, None])
        runs = np.where(here, levels, -np.inf)
        first = runs.argmax(axis=0)
        has_first = here[first, turn]
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
        means, exact = x.mean(axis=1), stays & seen.all(axis=1)
        best = means[exact].max(initial=-np.inf)
        behind = means < best - _ROUNDING * (1.0 + np.abs(means))
        worse = np.where(exact, np.where(behind, np.minimum(worse, n), never), worse)
    return worse


def _won(betting: Betting, leads: Floats, prices: Floats, bets: Bets, error: float) -> Numbers:
    """(K,) after how many of n examples the capital is first 1 / error; n + 1: never."""
    n = leads.shape[1]
    found, last = np.full(len(leads), n + 1), n - bets[:, ::-1].argmax(axis=1)
    length = np.where(bets.any(axis=1), np.ceil(np.log2(last)), -1)  # many have left long before
    for at_most in np.unique(length[length >= 0]):
        of_length = np.flatnonzero(length == at_most)
        end = last[of_length].max()
        for rows in np.array_split(of_length, 1 + len(of_length) * end // _MOST_NUMBERS):
            reached = betting.log_capital_at(leads[rows, :end], prices[rows, :end], bets[rows, :end]) >= -np.log(error)
            found[rows] = np.where(reached.any(axis=1), reached.argmax(axis=1) + 1, n + 1)
    return found


def _prices(betting: Betting, x: Floats, seen: Bets, rival: Numbers) -> Floats:
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
