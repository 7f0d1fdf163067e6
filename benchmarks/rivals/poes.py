"""Examples chosen as POES does (Ma, Li, Liu, Wang, Chen, Guo & Tang 2026, arXiv:2604.11328), in successive halving.

Prompts are examinees and examples are test items. A 1PL item response model gives each
prompt an ability and each example a difficulty; a round's examples are chosen greedily
for (1 - w) x discrimination + w x coverage:

- discrimination: the mean Fisher information p (1 - p) of an example about the
  abilities of the strongest prompts;
- coverage: facility location, the mean over all examples of the largest similarity to
  one that is chosen;
- the controller: w is the share of the budget that is left, from exploration to
  exploitation.

Only the paper's abstract was to be had, neither formulas nor hyperparameters nor code:
how these parts look in detail is ours. What is different by design:

- The paper schedules the examples of a prompt optimizer; here the pool is fixed. The
  simplest frame that gains from chosen examples is successive halving, whose survivors
  are the strongest candidates.
- A cell evaluated once is known, so a round starts warm from what its survivors have
  seen, free of charge, and adds examples; the cost of switching to one is the number of
  survivors that have not seen it, and the gain is per cell.
- Cold start: if all prompts began with the same examples, no other one would have a
  known difficulty, and there would be nothing to choose. So groups of 10 prompts begin
  with examples of their own, which the model makes comparable.
- Similarity: no texts here, so it is that of the difficulties, exp(-difference^2 / 2)
  on average over what is not known of them; unseen examples resemble each other as two
  random ones do.
- Prompts are ranked by the scores seen and the model's predictions for all other
  examples, in the objective; by sample means in other metrics; with the constraint as
  in `triple_sh`. Scores need not be binary, but within [0, 1], else their range is
  mapped to it.
"""

import math

import numpy as np
import numpy.typing as npt

from asktell.methods.rounds.rules import ConstrainedRanking
from asktell.problem.goals import Goal
from benchmarks.rivals.pool import Array, Pool

Indices = npt.NDArray[np.int64]

GROUP = 10
PRIOR = 4.0
"""Variance of difficulties in logits; that of abilities is 1."""


def poes(pool: Pool, goal: Goal, seed: int) -> list[int]:
    """ceil(log2 K) rounds, equal shares of the budget as far as there are cells; after each the worse half leaves."""
    active = np.arange(pool.n_arms)
    n_rounds = max(1, math.ceil(math.log2(pool.n_arms)))
    means = np.zeros_like(pool.sums)
    for r in range(n_rounds):
        cells = max(len(active), pool.left // (n_rounds - r), _surplus(pool, active))
        if r == 0:
            _begin(pool, cells)
        else:
            _evaluate(pool, active, min(cells, pool.left))
        means = _estimates(pool)
        evaluated = active[pool.counts[active] > 0]
        ranking = ConstrainedRanking().ranking(goal.values(means[evaluated]))
        active = np.concatenate((evaluated[ranking], active[pool.counts[active] == 0]))[
            : _half(active)
        ]
    return pool.best(goal, active, means=means)


def _half(active: Indices) -> int:
    return math.ceil(len(active) / 2)


def _surplus(pool: Pool, active: Indices) -> int:
    """Cells that this round must evaluate, since those who stay have too few unseen examples for what would be left."""
    stay = _half(active)
    unseen = stay * (pool.n_examples - pool.counts[active].mean())
    return int((pool.left - unseen) * len(active) / max(1, len(active) - stay))


def _begin(pool: Pool, cells: int) -> None:
    """Cold start: each group of prompts on the next examples of the order."""
    share = min(cells // pool.n_arms, pool.n_examples)
    for nth in range(share):
        for arm in range(min(pool.n_arms, pool.left)):
            pool.pull(
                arm, int(pool.order[(arm // GROUP * share + nth) % pool.n_examples])
            )


def _evaluate(pool: Pool, active: Indices, cells: int) -> None:
    """Warm start: the survivors on further examples, until the cells of the round are spent."""
    model = OnePL(_unit(pool.observed[:, :, 0]))
    order = pool.order  # among equals, the seed's order
    unseen = np.isnan(pool.observed[active, :, 0])[:, order]
    information = model.information(active)[:, order]
    chosen = choose(
        information,
        unseen,
        model.similarity()[np.ix_(order, order)],
        pool.left / pool.budget,
        cells,
    )
    for place in chosen:
        for arm in active[unseen[:, place]][:cells]:
            pool.pull(int(arm), int(order[place]))
            cells -= 1


def choose(
    information: Array,
    unseen: npt.NDArray[np.bool_],
    similarity: Array,
    w: float,
    cells: int,
) -> list[int]:
    """Examples for prompts, greedily by gain per cell, until `cells` are spent; the last may be more than is left.

    `information` (A, N), at most 1/4; `unseen` (A, N); `similarity` (N, N). An example
    that all have seen is chosen already.
    """
    cost = unseen.sum(axis=0)
    open_ = cost > 0
    gain = 4 * (information * unseen).sum(axis=0) / len(unseen)
    covered = similarity[:, ~open_].max(axis=1, initial=0.0)
    n, chosen = len(similarity), list[int]()
    while cells > 0 and open_.any():
        coverage = np.maximum(similarity - covered[:, None], 0.0).sum(axis=0) / n
        worth = ((1 - w) * gain + w * coverage) / np.maximum(cost, 1)
        best = int(np.where(open_, worth, -np.inf).argmax())
        chosen.append(best)
        cells -= int(cost[best])
        open_[best] = False
        covered = np.maximum(covered, similarity[:, best])
    return chosen


def _estimates(pool: Pool) -> Array:
    """(K, m): in the objective, means over all examples of the score, else what the model expects; or sample means."""
    means = pool.means
    scores = pool.observed[:, :, 0]
    low, span = _range(scores)
    expected = low + span * OnePL(_unit(scores)).expected
    means[:, 0] = np.where(np.isnan(scores), expected, scores).mean(axis=1)
    return means


def _range(scores: Array) -> tuple[float, float]:
    low = min(0.0, float(np.nanmin(scores)))
    return low, max(1.0, float(np.nanmax(scores))) - low


def _unit(scores: Array) -> Array:
    low, span = _range(scores)
    return (scores - low) / span


class OnePL:
    """P(prompt i solves example j) = sigmoid(ability_i - difficulty_j), the most probable a posteriori.

    From scores (K, N) within [0, 1], NaN where not seen. Abilities are N(0, 1),
    difficulties N(level, PRIOR), with any level.
    """

    def __init__(self, scores: Array, sweeps: int = 20) -> None:
        seen = ~np.isnan(scores)
        y = np.where(seen, scores, 0.0)
        self.ability, self.difficulty = np.zeros(len(scores)), np.zeros(scores.shape[1])
        level, used = 0.0, seen.any(axis=0)
        for _ in range(sweeps):
            p = np.where(seen, self.expected, 0.0)
            step = ((y - p).sum(axis=1) - self.ability) / (
                (p * (1 - p)).sum(axis=1) + 1
            )
            self.ability += step
            p = np.where(seen, self.expected, 0.0)
            self._precision = (p * (1 - p)).sum(axis=0) + 1 / PRIOR
            self.difficulty += (
                (p - y).sum(axis=0) - (self.difficulty - level) / PRIOR
            ) / self._precision
            level = float(self.difficulty[used].mean())
            self.difficulty[~used] = level

    @property
    def expected(self) -> Array:
        """(K, N) P."""
        return np.asarray(1 / (1 + np.exp(self.difficulty - self.ability[:, None])))

    def information(self, arms: Indices) -> Array:
        """(A, N) Fisher information of the examples about the prompts' abilities."""
        p = self.expected[arms]
        return np.asarray(p * (1 - p))

    def similarity(self) -> Array:
        """(N, N) mean of exp(-difference^2 / 2) of the difficulties, normal about their estimates; 1 with itself."""
        difference = self.difficulty[:, None] - self.difficulty
        spread = 1 + 1 / self._precision[:, None] + 1 / self._precision
        similarity = np.exp(-(difference**2) / (2 * spread)) / np.sqrt(spread)
        np.fill_diagonal(similarity, 1.0)
        return np.asarray(similarity)
