"""The next examples of the chosen prompts: an incomplete-block design.

Prompts are compared best on common examples, since the example's effect cancels. A prompt's level against a threshold
is learned best on many different ones. So every example is used by about `share` prompts: examples come into use in
the seeded order, one whenever the pulls so far fill another block, and a prompt takes, of those in use that it has
not seen, the one that the prompts in doubt share most; where none is in doubt yet, the one that the fewest have.

Where scores are 0 or 1, an example that every prompt gets right, or wrong, tells nothing. A prompt then takes rather an
example that has divided the others, or one that nobody has seen.

A new example, or a repeat? Where scores are noisy, an example may be asked again. Both cost an evaluation, so the one
that takes more off the posterior variance of what is in doubt is better (`Noise`). Let the residual's variance be 1, of
which w is noise and c = 1 - w is the cell's own, and e the examples' variance. The prompt has n examples, each seen r
times, so that the mean of a cell has the variance v = c + w / r. What is in doubt is the prompt's mean, less that of
its rivals, which does not depend on the effects of examples that both have.

- A new example that rivals have seen takes (v / n)² / (1 + v / n) off. One that nobody else will take keeps its own
  effect in its score, and takes only (v / n)² / (1 + e + v / n) off.
- A repeat takes (w / (r n))² / ((w / r)² / (v n) + c w / (r v) + w) off.

Both hold for the mean over new inputs and for the mean over N given examples: the covariances with the mean, v / n and
w / (r n), turn out the same for every N, since what is known better of the prompt's effect is known worse of how the
examples seen differ from the others. With u = w / r, the first is at least the third if
u <= c² + c u + r (c + u)², which holds since u = u (c + r u) = c u + r u²: the rest, c² + r c² + 2 r c u, is not
negative. So a repeat is never better than a new example that rivals share, and as good only if all of the residual is
noise. That is also the reason for levels held against bounds: of a mean of n cells, whose variance is
(e + c + w / r) / n, a repeat lowers the noise of one cell, and a new example all three parts.

So a prompt takes new examples as long as there are any, unless nobody else can take the new one, noise is large, and
examples differ much more than that. When every example is used, only repeats are left. Noise is no other for having
been seen on common examples, so they come in the order, those asked least often first: sum(1 / r_j) is then as small as
so many pulls can make it.
"""

from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Indices, Vector, counted

POOL = 256  # examples in use at most, unless a prompt has seen them all: equations of that size take milliseconds
_ALONE = 0.3  # of the largest doubt: worth of an example that no prompt in doubt has seen (see what-was-tried.md)
_POOL_OF_SEGMENTS = 4  # further examples for each segment, so that there are some of each; a judgement
_LEAST_WANTED = 0.05  # of an example in a segment where nothing is in doubt, in units of the most; a judgement
_CORRELATIONS = (0.02, 0.98)  # of scores on one example: at 0 and 1 a threshold model has no information


class Noise(NamedTuple):
    """The part of the residual variance that is noise within a cell, and the examples' variance over the residual.

    The methods say what another evaluation of a prompt takes off the variance of its mean, in units of the residual's
    variance, if it has `seen` examples, each asked `asks` times; see above.
    """

    share: float
    example: float

    def by_new_example(self, seen: int, asks: int, is_shared: bool) -> float:
        """By a new example, which rivals have seen as well if `is_shared`."""
        of_mean = (1.0 - self.share + self.share / asks) / seen
        return of_mean**2 / (1.0 + (0.0 if is_shared else self.example) + of_mean)

    def by_repeat(self, seen: int, asks: int) -> float:
        """By one more evaluation of an example that it has seen."""
        own, noise = 1.0 - self.share, self.share / asks
        of_cell = own + noise
        of_score = noise**2 / (of_cell * seen) + own * noise / of_cell + self.share
        return (noise / seen) ** 2 / of_score if self.share else 0.0

    def favours_repeat(self, seen: int, asks: int) -> bool:
        """True if a repeat is worth more than a new example that only this prompt would use."""
        return self.by_repeat(seen, asks) > self.by_new_example(seen, asks, is_shared=False)


class Informative(NamedTuple):
    """How much another score on the examples at `places` of the order tells, in `units` of one on any other."""

    places: Indices
    units: Vector

    def of_first(self, n: int) -> Vector:
        """(n,) of the first examples in the order."""
        result = np.ones(n)
        near = self.places < n  # of the order that places are in
        result[self.places[near]] = self.units[near]
        return result


class InSegments(NamedTuple):
    """Which segment the example at each place of the order is in, and how much (K, G) each prompt is in doubt there."""

    of_places: Indices
    doubt: Vector


def information(examples: Indices, scores: Vector, correlation: float, n_examples: int) -> Vector:
    """(N,) how much another score on each example tells, in units of one on an example that nobody has seen.

    That is E p (1 - p), the information of a score of 0 or 1 about a prompt's log odds. An example's p is taken as
    common to all prompts, and as Beta with the scores' mean. `examples` (n,) are those of the known cells, -1 for one
    that is none of the N; `correlation` is that of two prompts' scores on one example.
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
    arms: Indices,
    used_arms: Indices,
    used: Indices,
    n_examples: int,
    share: float,
    doubt: Vector | None = None,
    informative: Informative | None = None,
    repeats: int = 1,
    unshared: Noise | None = None,
    in_segments: InSegments | None = None,
) -> tuple[Indices, Indices]:
    """Arms and examples of the next pulls: one for every one of the (distinct) `arms` that has one left.

    Examples are named by their place in the seeded order. `used_arms`, `used`: the cells known, out, planned or failed,
    each as often as it was, at most `repeats` times. `doubt` (K,) is how much each prompt is in question, None if
    nothing is known. `informative` is how much a score on an example tells, None if all tell the same. `unshared`
    is given where nobody else can take a new example. `in_segments`: where means in segments are looked for.
    """
    asks = np.ones(len(used), dtype=np.int64)
    if repeats > 1:
        cells, asks = counted(used_arms * n_examples + used)
        used_arms, used = np.divmod(cells, n_examples)
    row_of = np.full(int(max(arms.max(initial=-1), used_arms.max(initial=-1))) + 1, -1, dtype=np.int64)
    row_of[arms] = np.arange(len(arms))
    rows = row_of[used_arms]
    seen = np.bincount(rows[rows >= 0], minlength=len(arms))
    n_used, in_use = len(used), int(used.max(initial=-1)) + 1
    # No prompt goes further in the order than this: the work is the same however many examples there are.
    reach = min(n_examples, max(POOL, int(seen.max(initial=0)) + 1))
    near = used < reach
    used_arms, rows, used, asks = used_arms[near], rows[near], used[near], asks[near]
    # What an example is chosen for: the doubt about those who have it, or that few have it.
    each = np.ones(len(used_arms)) if doubt is None else doubt[used_arms]
    appeal = np.bincount(used, each, minlength=reach)
    appeal = -appeal if doubt is None else appeal
    tells = None if informative is None or doubt is None else informative.of_first(reach)
    alone = 0.0 if doubt is None else _ALONE * float(doubt.max())
    times = np.zeros((len(arms), reach), dtype=np.int64)
    times[rows[rows >= 0], used[rows >= 0]] = asks[rows >= 0]
    has = times > 0
    users = np.bincount(used, minlength=reach)
    taken = np.full(len(arms), -1, dtype=np.int64)
    for row, total in enumerate(range(n_used + 1, n_used + 1 + len(arms))):
        if seen[row] == n_examples:
            least = int(times[row].argmin())
            taken[row] = least if times[row, least] < repeats else -1
            continue
        pool = min(n_examples, max(int(seen[row]) + 1, min(POOL, int(np.ceil(total / share)))))
        if tells is not None:
            pool = max(pool, min(n_examples, POOL, in_use + 1))
        if has[row, :pool].all():  # it has seen examples beyond the pool
            pool = int(has[row].argmin()) + 1
        worth = appeal[:pool] if tells is None else (appeal[:pool] + alone) * tells[:pool]
        if in_segments is not None and doubt is not None:
            pool = min(reach, max(pool, in_use + _POOL_OF_SEGMENTS * in_segments.doubt.shape[1]))
            wanted = _LEAST_WANTED + in_segments.doubt[arms[row], in_segments.of_places[:pool]]
            worth = (appeal[:pool] + max(alone, 1e-9)) * (1.0 if tells is None else tells[:pool]) * wanted
        at = int(np.where(has[row, :pool], -np.inf, worth).argmax())
        if unshared is not None and seen[row] and not users[:pool][~has[row, :pool]].any():
            often = np.where(has[row], times[row], repeats)
            least = int(often.argmin())
            if often[least] < repeats and unshared.favours_repeat(int(seen[row]), int(often[least])):
                at = least
        taken[row], in_use = at, max(in_use, at + 1)
        appeal[at] += -1.0 if doubt is None else doubt[arms[row]]
    found = taken >= 0
    return arms[found], taken[found]


def joining_examples(
    arms: Indices, used_arms: Indices, used: Indices, n_examples: int, share: float, doubt: Vector
) -> Indices:
    """The first example, by place, of each of the (distinct) `arms`, which join others that have seen some.

    They take those that the prompts in doubt share most, about `share` of them each, so that no single example decides
    who goes on. An arm that has used its example already (where it failed) takes the next one that it has used least.
    """
    appeal = np.bincount(used, doubt[used_arms] + 1e-9, minlength=n_examples)
    by_appeal = np.argsort(-appeal, kind="stable")
    n_seen = max(1, int((appeal > 0).sum()))
    taken = np.empty(len(arms), dtype=np.int64)
    for row, arm in enumerate(arms.tolist()):
        times = np.bincount(used[used_arms == arm], minlength=n_examples)
        start = int(row / share) % n_seen
        turned = np.concatenate((by_appeal[start:n_seen], by_appeal[:start], by_appeal[n_seen:]))
        taken[row] = turned[times[turned].argmin()]
    return taken
