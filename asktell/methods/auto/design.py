"""The next examples of the chosen prompts: an incomplete-block design.

Prompts are compared best on common examples, since the example's effect cancels. A
prompt's level against a bound is learned best on many different examples. So about
`share` prompts use each example. Examples come into use in the seeded order, one
whenever the evaluations so far fill another block. A prompt takes, among the examples
in use that it has not seen, the example that the prompts in doubt share most. Where no
prompt is in doubt yet, it takes the example that the fewest prompts have seen.

Where scores are 0 or 1, an example that every prompt gets right, or every prompt gets
wrong, carries no information on differences. A prompt then prefers an example that has
divided the others, or an unseen one.

A new example, or a repeat? Where scores are noisy, an example may be evaluated again.
Both cost an evaluation, so the better choice is the one that lowers the posterior
variance of the quantity in doubt by more (`CellNoise`). Let the residual's variance be 1,
of which w is noise and c = 1 - w is the cell's own, and let e be the examples'
variance. The prompt has n examples, each seen r times, so that the mean of a cell has
the variance v = c + w / r. The quantity in doubt is the prompt's mean, less its rivals'
mean, which does not depend on the effects of examples that both have.

- A new example that rivals have seen lowers it by (v / n)² / (1 + v / n). A new example
  that no other prompt will take keeps its own effect in its score, and lowers it only
  by (v / n)² / (1 + e + v / n).
- A repeat lowers it by (w / (r n))² / ((w / r)² / (v n) + c w / (r v) + w).

Both hold for the mean over new inputs and for the mean over N given examples. The
covariances with the mean, v / n and w / (r n), are the same for every N: better
knowledge of the prompt's effect comes with worse knowledge of how the seen examples
differ from the others. With u = w / r, the first is at least the third if u <= c² + c u
+ r (c + u)². That holds since u = u (c + r u) = c u + r u²: the rest, c² + r c² + 2 r c
u, is not negative. So a repeat is never better than a new example that rivals share,
and is as good only if all of the residual is noise. The same reason holds for levels
against bounds: the variance of a mean of n cells is (e + c + w / r) / n. A repeat
lowers the noise of one cell, and a new example lowers all three parts.

So a prompt takes new examples as long as there are any, unless no other prompt can take
the new example, noise is large, and examples differ much more than that. Only repeats
are left once every example is used. Noise does not depend on whether examples are
shared. So repeats come in the seeded order, the examples with the fewest evaluations
first: sum(1 / r_j) is then as small as it can be for so many evaluations.
"""

import math
from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Floats, Ints, counted
from asktell.numerics.shapes import Float, Int

# Most examples in use, unless a prompt has seen them all: equations of that size take
# milliseconds
POOL = 256
# The worth of an example that no prompt in doubt has seen, in units of the largest
# doubt. Of 0.3, 1 and 3, it had the highest quality on CAPO's tables, within noise.
_ALONE = 0.3
# Further examples in the pool for each kind, so that it has some of each. A judgement.
_POOL_OF_KINDS = 4
# Worth of an example of a kind without doubt, in units of the largest. A judgement.
_LEAST_WANTED = 0.05
# Bounds of the correlation of scores on one example: 0 and 1 leave no information
_CORRELATIONS = (0.02, 0.98)
_LEAST_APPEAL = 1e-9  # an appeal above 0, so that prompts without any doubt still count


class CellNoise(NamedTuple):
    """The noise of a metric, and the value of new examples and of repeats under it.

    The methods return by how much another evaluation of a prompt lowers the variance of
    its mean, in units of the residual's variance, if the prompt has `seen` examples,
    each evaluated `asks` times. The head of this module has the derivation.
    """

    share: float  # the part of the residual variance that is noise within a cell
    example: float  # the examples' variance, in units of the residual's

    def by_new_example(self, seen: int, asks: int, is_shared: bool) -> float:
        """The gain by a new example, which rivals have seen as well if `is_shared`."""
        of_mean = (1.0 - self.share + self.share / asks) / seen
        return of_mean**2 / (1.0 + (0.0 if is_shared else self.example) + of_mean)

    def by_repeat(self, seen: int, asks: int) -> float:
        """The gain by one more evaluation of an example that the prompt has seen."""
        cell_share, noise = 1.0 - self.share, self.share / asks
        of_cell = cell_share + noise
        of_score = (
            noise**2 / (of_cell * seen) + cell_share * noise / of_cell + self.share
        )
        return (noise / seen) ** 2 / of_score if self.share else 0.0

    def favours_repeat(self, seen: int, asks: int) -> bool:
        """True if a repeat is worth more than a new example that only this prompt would use."""
        return self.by_repeat(seen, asks) > self.by_new_example(
            seen, asks, is_shared=False
        )


class Kinds(NamedTuple):
    """The kinds of the examples, where a prompt may be in doubt on one kind only."""

    # The kind of the example at each place of the order
    of_places: Int[Ints, " examples"]
    # The doubt about the mean of each prompt on each kind, at most 1
    doubt: Float[Floats, "arms kinds"]


class Informative(NamedTuple):
    """The information in another score on some examples, in units of a score on any other example.

    With `kinds`, the information for a prompt is larger on the kinds of examples where
    the prompt is in doubt.
    """

    places: Int[Ints, " informative"]  # positions of the examples in the order
    units: Float[Floats, " informative"]  # the information in a score on each
    kinds: Kinds | None = None

    @property
    def n_ahead(self) -> int:
        """The number of unused examples that should be there to choose from."""
        if self.kinds is None:
            return 1
        return _POOL_OF_KINDS * int(self.kinds.doubt.shape[1])

    def of_first(self, n: int) -> Float[Floats, " first"]:
        """The information in a score on each of the first n examples of the order, for any prompt."""
        result = np.ones(n)
        near = self.places < n
        result[self.places[near]] = self.units[near]
        return result


def information(
    examples: Int[Ints, " cells"],
    scores: Float[Floats, " cells"],
    correlation: float,
    n_examples: int,
) -> Float[Floats, " examples"]:
    """The information in another score on each example, in units of a score on an unseen example.

    That is E p (1 - p), the information of a score of 0 or 1 about a prompt's log odds.
    The share p of an example is assumed to be common to all prompts, with a Beta
    distribution around the mean of the scores.

    Args:
        examples: (n,) the example of each known cell, -1 for an example that is none of
            the N.
        scores: (n,) their scores, 0 or 1.
        correlation: The correlation of two prompts' scores on one example.
        n_examples: N.
    """
    least, most = _CORRELATIONS
    real = examples >= 0
    right = np.bincount(examples[real], scores[real], n_examples)
    wrong = np.bincount(examples[real], minlength=n_examples) - right
    size, mean = 1.0 / min(most, max(least, correlation)) - 1.0, float(scores.mean())
    a, b = size * mean, size * (1.0 - mean)
    total = size + right + wrong
    unseen = a * b / (size * (size + 1.0))
    return np.asarray((a + right) * (b + wrong) / (total * (total + 1.0)) / unseen)


def next_examples(
    arms: Int[Ints, " active"],
    used_arms: Int[Ints, " cells"],
    used: Int[Ints, " cells"],
    n_examples: int,
    share: float,
    doubt: Float[Floats, " arms"] | None = None,
    informative: Informative | None = None,
    repeats: int = 1,
    unshared: CellNoise | None = None,
) -> tuple[Int[Ints, " chosen"], Int[Ints, " chosen"]]:
    """Choose the example of the next evaluation of each arm.

    Examples are numbered by their place in the seeded order.

    Args:
        arms: (A,) distinct arms, in the order in which they choose.
        used_arms: (n,) the arms of the cells that are known, pending, planned or
            failed.
        used: (n,) the examples of these cells. A cell comes as often as it was asked,
            at most `repeats` times.
        n_examples: N.
        share: The number of evaluations that fill a block, after which another example
            comes into use.
        doubt: (K,) how much each prompt is in doubt, None if no scores are known.
        informative: The information in a score on each example, None if it is the same
            for all.
        repeats: The number of evaluations that a cell may have.
        unshared: The noise, if no other arm can take a new example.

    Returns:
        The arms that have an evaluation left, and the example of each.
    """
    return next_turns(
        1,
        arms,
        used_arms,
        used,
        n_examples,
        share,
        doubt,
        informative,
        repeats,
        unshared,
    )


def next_turns(
    n_cells: int,
    arms: Int[Ints, " active"],
    used_arms: Int[Ints, " cells"],
    used: Int[Ints, " cells"],
    n_examples: int,
    share: float,
    doubt: Float[Floats, " arms"] | None = None,
    informative: Informative | None = None,
    repeats: int = 1,
    unshared: CellNoise | None = None,
) -> tuple[Int[Ints, " chosen"], Int[Ints, " chosen"]]:
    """Repeat `next_examples` until there are at least `n_cells` cells, or none is left.

    Each turn counts the cells of the turns before it as used. Without repeats, turns
    share one search, so that a turn does not read the cells before it again.
    """
    turns, n_found, search = [(arms[:0], arms[:0])], 0, None
    while len(arms) and n_found < n_cells:
        if search is None:
            cells = [(used_arms, used), *turns]
            search = _Search(
                arms,
                np.concatenate([arms for arms, _ in cells]),
                np.concatenate([places for _, places in cells]),
                n_examples,
                share,
                doubt,
                informative,
                repeats,
                1 if repeats > 1 else math.ceil((n_cells - n_found) / len(arms)),
            )
        turn = search.take_all(unshared)
        turns.append(turn)
        # Repeats are counted anew. Fewer arms take more turns than the search is for.
        if repeats > 1 or len(turn[0]) < len(arms):
            search = None
        arms, n_found = turn[0], n_found + len(turn[0])
    return (
        np.concatenate([arms for arms, _ in turns]),
        np.concatenate([places for _, places in turns]),
    )


class _Search:
    """The choice of examples, one arm after the other.

    Only the first `reach` examples of the order count, since no arm goes further: the
    work does not grow with N. Rows are the arms that choose.
    """

    def __init__(
        self,
        arms: Int[Ints, " active"],
        used_arms: Int[Ints, " cells"],
        used: Int[Ints, " cells"],
        n_examples: int,
        share: float,
        doubt: Float[Floats, " arms"] | None,
        informative: Informative | None,
        repeats: int,
        n_turns: int,
    ) -> None:
        asks = np.ones(len(used), dtype=np.int64)
        if repeats > 1:
            cells, asks = counted(used_arms * n_examples + used)
            used_arms, used = np.divmod(cells, n_examples)
        self.arms, self.n_examples, self.share, self.repeats = (
            arms,
            n_examples,
            share,
            repeats,
        )
        self.doubt = doubt
        row_of = np.full(
            int(max(arms.max(initial=-1), used_arms.max(initial=-1))) + 1,
            -1,
            dtype=np.int64,
        )
        row_of[arms] = np.arange(len(arms))
        rows = row_of[used_arms]
        # (A,) number of examples of each arm
        self.seen = np.bincount(rows[rows >= 0], minlength=len(arms))
        self.n_used, self.in_use = len(used), int(used.max(initial=-1)) + 1
        # Each turn adds an example to those that an arm has seen.
        farthest = int(self.seen.max(initial=0)) + n_turns
        self.reach = min(n_examples, max(POOL, farthest))
        near = used < self.reach
        used_arms, rows, used, asks = (
            used_arms[near],
            rows[near],
            used[near],
            asks[near],
        )
        # The appeal of an example is the sum of the doubts about the arms that have it,
        # or that few arms have it.
        doubts = np.ones(len(used_arms)) if doubt is None else doubt[used_arms]
        appeal = np.bincount(used, doubts, minlength=self.reach).astype(float)
        self.appeal = -appeal if doubt is None else appeal
        # Without any doubt yet, no example is more informative than another.
        self.informative = None if doubt is None else informative
        if self.informative is not None:
            self.information = self.informative.of_first(self.reach)
        self.alone = 0.0 if doubt is None else _ALONE * float(doubt.max())
        # Evaluations of each cell
        self.times = np.zeros((len(arms), self.reach), dtype=np.int64)
        self.times[rows[rows >= 0], used[rows >= 0]] = asks[rows >= 0]
        self.has = self.times > 0
        # (reach,) number of arms that have each example
        self.users = np.bincount(used, minlength=self.reach)

    def take_all(
        self, unshared: CellNoise | None
    ) -> tuple[Int[Ints, " chosen"], Int[Ints, " chosen"]]:
        """Choose the example of each row's next evaluation, and return those with one.

        The next turn counts these cells as used, if each row has one and none is a repeat.
        """
        places = np.array(
            [self.take(row, unshared) for row in range(len(self.arms))], dtype=np.int64
        )
        with_one = np.flatnonzero(places >= 0)
        places = places[with_one]
        self.n_used += len(with_one)
        self.seen[with_one] += 1
        self.times[with_one, places] = 1
        self.has[with_one, places] = True
        np.add.at(self.users, places, 1)
        return self.arms[with_one], places

    def take(self, row: int, unshared: CellNoise | None) -> int:
        """Choose the example of a row's next evaluation, -1 if none is left. The later rows count it as used."""
        if self.seen[row] == self.n_examples:
            least = int(self.times[row].argmin())
            return least if self.times[row, least] < self.repeats else -1
        pool = self._pool(row)
        worth = self._worth(row, pool)
        at = int(np.where(self.has[row, :pool], -np.inf, worth).argmax())
        if unshared is not None and self._is_repeat_better(row, pool, unshared):
            at = self._least_asked(row)
        self.in_use = max(self.in_use, at + 1)
        self.appeal[at] += -1.0 if self.doubt is None else self.doubt[self.arms[row]]
        return at

    def _pool(self, row: int) -> int:
        """The number of examples in use that the row may take, from the first of the order."""
        total = self.n_used + 1 + row
        pool = min(
            self.n_examples,
            max(int(self.seen[row]) + 1, min(POOL, int(np.ceil(total / self.share)))),
        )
        if self.informative is not None:
            # Unused examples are always there as an alternative to examples without
            # information.
            ahead = self.in_use + self.informative.n_ahead
            pool = max(pool, min(self.n_examples, POOL, ahead))
        if self.has[row, :pool].all():  # the arm has seen examples beyond the pool
            pool = int(self.has[row].argmin()) + 1
        return pool

    def _worth(self, row: int, pool: int) -> Float[Floats, " pool"]:
        """The worth of each example of the pool to the row. The largest is taken."""
        if self.informative is None:
            return self.appeal[:pool]
        worth = (self.appeal[:pool] + self.alone) * self.information[:pool]
        kinds = self.informative.kinds
        if kinds is None:
            return worth
        of_kind = _LEAST_WANTED + kinds.doubt[self.arms[row]]
        return np.asarray(worth * of_kind[kinds.of_places[:pool]])

    def _is_repeat_better(self, row: int, pool: int, noise: CellNoise) -> bool:
        """True if no rival has an example that the row could take, and a repeat is worth more than such an example."""
        seen = int(self.seen[row])
        if not seen or self.users[:pool][~self.has[row, :pool]].any():
            return False
        asks = int(self.times[row, self._least_asked(row)])
        return 0 < asks < self.repeats and noise.favours_repeat(seen, asks)

    def _least_asked(self, row: int) -> int:
        """The first of the row's examples with the fewest evaluations, among the examples that may be repeated."""
        return int(np.where(self.has[row], self.times[row], self.repeats).argmin())


def joining_examples(
    arms: Int[Ints, " active"],
    used_arms: Int[Ints, " cells"],
    used: Int[Ints, " cells"],
    n_examples: int,
    share: float,
    doubt: Float[Floats, " arms"],
) -> Int[Ints, " active"]:
    """Choose the first example, by place, of each of the (distinct) `arms` that were added to others with scores.

    They take the examples that the prompts in doubt share most, about `share` arms
    each, so that no single example decides which arms keep being evaluated. An arm that
    has used its example already (where it failed) takes the next example, among those
    that it has used least.
    """
    appeal = np.bincount(used, doubt[used_arms] + _LEAST_APPEAL, minlength=n_examples)
    by_appeal = np.argsort(-appeal, kind="stable")
    n_seen = max(1, int((appeal > 0).sum()))
    places = np.empty(len(arms), dtype=np.int64)
    for row, arm in enumerate(arms.tolist()):
        times = np.bincount(used[used_arms == arm], minlength=n_examples)
        start = int(row / share) % n_seen
        turned = np.concatenate(
            (by_appeal[start:n_seen], by_appeal[:start], by_appeal[n_seen:])
        )
        places[row] = turned[times[turned].argmin()]
    return places
