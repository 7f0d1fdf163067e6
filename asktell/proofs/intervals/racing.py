"""Racing: find the prompts that are worse than another with high confidence, with one test per prompt.

Theorem: the probability that one of the best prompts is ever found worse is at most
`error`.

The best prompt is lost only if it is found worse itself. So each prompt has a single
claim to refute, "this prompt is the best", with the whole error, however many others
there are. Under that claim, no rival's mean is above its own. For each example, a
gambler bets on a rival chosen before that example: the prompt that leads so far, or the
second if the tested prompt leads itself. Let the rival's lead be x_rival - x, over N
examples without replacement of which t were seen. The price under the claim is m = (sum
x - sum x_rival) / (N - t), and 0 for independent draws. Every bet is fair or worse,
whichever rival it is on. So the capital prod (1 + rate (x_rival - x - m)) is a
supermartingale, and it ever reaches 1 / error with a probability of at most `error`
(Ville; Waudby-Smith & Ramdas 2020, 2023). The rates are the same as in
`asktell.proofs.intervals.betting`.

The rival of a bet must follow from earlier examples. So the race runs over the examples
in their order, whenever and for whatever reason their scores arrived:

- It advances to an example only if all prompts that are still in the race have been
  evaluated there.
- A prompt that was eliminated is not a rival from then on.
- A prompt that was added later is a rival only on examples that no prompt had seen by
  then.

Earlier findings therefore never change as more scores arrive.
"""

import numpy as np

from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.shapes import Bool, Float, Int
from asktell.proofs.intervals.betting import Betting

# Relative rounding of a mean: sums of decimal fractions differ by some units in the
# last place
_ROUNDING = 1e-12
# Most scores whose bets are computed at once. Each score has up to eight bets.
_MOST_NUMBERS = 1 << 18


def certainly_worse(
    betting: Betting,
    scores: Float[Floats, "arms n"],
    known: Int[Ints, " arms"],
    joined: Int[Ints, " arms"],
    stays: Bool[Bools, " arms"],
    error: float,
) -> Int[Ints, " arms"]:
    """Run the race.

    Args:
        betting: The confidence sequence for differences of two scores.
        scores: in the order of the examples, larger is better. NaN where an evaluation
            failed or is not recorded yet.
        known: the number of first examples that were evaluated, with a score or
            without. The race does not advance beyond the smallest of these numbers
            among the prompts still in it.
        joined: the number of examples that others had seen before the prompt was
            added. The race waits for the prompt only beyond them.
        stays: True for prompts that keep being evaluated. Others leave the race
            after their last score.
        error: The probability with which one of the best prompts may be found worse.

    Returns:
        The number of examples after which each prompt is established to be worse than
        another, n + 1 if it is not. The comparison is exact once the population is
        exhausted.
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
        # The two prompts that lead before each example, among the prompts still in the race.
        here = (joined[:, None] <= turn) & (turn < np.minimum(worse, gone)[:, None])
        runs = np.where(here, levels, -np.inf)
        first = runs.argmax(axis=0)
        has_first = here[first, turn]
        runs[first, turn] = -np.inf
        second = runs.argmax(axis=0)
        has_second = runs[second, turn] > -np.inf
        # Each prompt meets the leader, and the leader meets the second.
        rival = np.where(arms == first, second, first)
        bets = np.where(arms == first, has_second, has_first) & seen & seen[rival, turn]
        won_at = _won(
            betting, x[rival, turn] - x, _prices(betting, x, seen, rival), bets, error
        )
        # The race advances as far as all prompts that are still in it were evaluated.
        waits = known < np.minimum(won_at, gone)
        end = int(np.maximum(known, joined)[waits].min(initial=n))
        # A prompt that was found worse is not a rival any more. If a bet was on such a
        # prompt, the pass is repeated.
        stale = (has_first & (won_at[first] <= turn)) | (
            has_second & (won_at[second] <= turn)
        )
        again = np.flatnonzero(stale[:end])
        if not len(again):
            break
        worse = np.where(won_at <= again[0], won_at, never)
    worse = np.where(won_at <= end, won_at, never)
    # After the last example, the means of all prompts still in the race are known
    # exactly.
    if end == n == betting.population:
        means, exact = x.mean(axis=1), stays & seen.all(axis=1)
        best = means[exact].max(initial=-np.inf)
        behind = means < best - _ROUNDING * (1.0 + np.abs(means))
        worse = np.where(exact, np.where(behind, np.minimum(worse, n), never), worse)
    return worse


def _won(
    betting: Betting,
    leads: Float[Floats, "arms n"],
    prices: Float[Floats, "arms n"],
    bets: Bool[Bools, "arms n"],
    error: float,
) -> Int[Ints, " arms"]:
    """The number of examples after which the capital first reaches 1 / error, n + 1 if it never does."""
    n = leads.shape[1]
    won_at, last = np.full(len(leads), n + 1), n - bets[:, ::-1].argmax(axis=1)
    # Many prompts left long before the end, so prompts of similar length are computed
    # together.
    length = np.where(bets.any(axis=1), np.ceil(np.log2(last)), -1)
    for at_most in np.unique(length[length >= 0]):
        of_length = np.flatnonzero(length == at_most)
        end = last[of_length].max()
        for rows in np.array_split(
            of_length, 1 + len(of_length) * end // _MOST_NUMBERS
        ):
            reached = betting.log_capital_at(
                leads[rows, :end], prices[rows, :end], bets[rows, :end]
            ) >= -np.log(error)
            won_at[rows] = np.where(
                reached.any(axis=1), reached.argmax(axis=1) + 1, n + 1
            )
    return won_at


def _prices(
    betting: Betting,
    x: Float[Floats, "arms n"],
    seen: Bool[Bools, "arms n"],
    rival: Int[Ints, "arms n"],
) -> Float[Floats, "arms n"]:
    """The mean lead of each prompt's rival over the remaining examples, if the two have equal means."""
    both, lead = np.zeros(x.shape), np.zeros(x.shape)
    for leader in np.unique(rival):
        at = rival == leader
        end = int(np.flatnonzero(at.any(axis=0))[-1]) + 1
        common = (seen[:, :end] & seen[leader, :end]).astype(np.float64)
        ahead = (x[leader, :end] - x[:, :end]) * common
        both[:, :end] = np.where(
            at[:, :end], np.cumsum(common, axis=1) - common, both[:, :end]
        )
        lead[:, :end] = np.where(
            at[:, :end], np.cumsum(ahead, axis=1) - ahead, lead[:, :end]
        )
    return betting.prices(0.0, both, lead)
