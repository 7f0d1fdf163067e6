"""Joint draws of every prompt's mean of every metric, and of the goal's values.

Each metric has a posterior of its own (`asktell.posterior.two_way`); draws of several metrics correlate as the scores
do. Two kinds of metric are no Gaussian's business, bounds that scores meet and never pass: a fixed cost, a format that
every output has kept.

How likely is it that the M scores of a prompt that are unknown all equal the known ones? Call 1 / m the chance of
another score (`chance_of_another`), as after m - 1 equal ones. If nothing speaks for a metric that cannot vary, the
rule of succession says m / (m + M). If it is as likely as not beforehand (Jeffreys, Theory of Probability, 3.2), this
is m (m + M + 1) / ((m + 1) (m + M)). The first holds for an end of the metric's range, and for 0 and 1, which scores
that vary often are; the second for all else. It matters where a mean is held against a bound that it equals: the bound
is kept unless another score comes. Where examples have no end, or are asked again, one would come some day; then it
counts whether one comes in as many scores as there were.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from asktell.numerics import counters
from asktell.numerics.arrays import Draws, Indices, Masks, Matrix, Means, Vector
from asktell.posterior.basis import Basis
from asktell.posterior.mixture import student_ratio, student_scale
from asktell.posterior.segments import Segments, pairs
from asktell.posterior.shape import Shape
from asktell.posterior.two_way import Cells, Posterior, chance_of_another, posterior
from asktell.problem.goals import Goal

_FEWEST_DRAWS = 64  # a probability of a half is then known to .06
_MOST_NUMBERS = 1 << 20  # in one array of draws, 8 MB: large pools take fewer draws
_SLIGHTLY = 1e-9  # a violation, in units of the constraint's scale: above rounding, below what anybody could see
_BLOCK = 1 << 14  # numbers at a time, that stay in the processor's cache
ENDLESS = 1 << 40  # so many examples that those seen are none of them: for means over new examples like those given
_ENDS = (0.0, 1.0)  # of many a range that nobody has named
_INDEPENDENCE = 10.0  # scores that independence is worth: correlations of a few scores are shrunk to none


class Joint(NamedTuple):
    """The posteriors of all metrics, and draws from them."""

    fits: list[Posterior]  # by metric
    means: Means  # (K, m)
    errors: Means  # (K, m) posterior standard deviations; NaN after a single example
    values: Draws  # (S, K, q) draws of the goal's values
    columns: Draws  # (c, S, K) draws of the columns' means
    kept: Masks  # (K, c) who has always kept a bound at an end of the scale
    in_segments: Draws | None = None  # (columns by segment x G, S, K) draws of the means in every segment


class Model(NamedTuple):
    """What was told, and of what."""

    cells: Cells
    goal: Goal  # its columns are drawn, its values returned
    shapes: Sequence[Shape | None]  # by column, as far as earlier studies know in what the examples differ
    basis: Basis | None  # columns of the candidates' factors
    n_arms: int
    n_examples: int | None  # None or `ENDLESS`: draws are of means over new examples
    n_rows: int  # of all scores, by which draws differ from decision to decision
    seed: int
    segments: Segments | None
    rivals: Indices | None = None  # the prompts of which one is the best that bounds are relative to; None: all

    def n_draws(self, most: int) -> int:
        """The number of joint draws: at most so many, and fewer for large pools."""
        return max(_FEWEST_DRAWS, min(most, _MOST_NUMBERS // self.n_arms))


Instead: TypeAlias = Mapping[int, tuple[Indices, Draws]]
"""By column, the numbers of the draws that are of another model, and these draws (S, K)."""


def joint(model: Model, most_draws: int, averaged: bool, instead: Instead | None = None) -> Joint:
    """Draw from the posteriors of all metrics.

    `averaged`: over the uncertainty of the variances, or given the most likely ones. `instead`: draws of columns that
    have another model, too.
    """
    cells, goal, shapes, basis, n_arms, n_examples, n_rows, seed, segments, rivals = model
    n_draws = model.n_draws(most_draws)
    instead = instead or {}
    fits = []
    for j, name in enumerate(goal.columns):
        known = cells.of_column(j)
        fits.append(posterior(known, j, n_arms, n_examples, goal.limits(name), averaged, basis, shapes[j]))
    means, errors = np.stack([fit.mean for fit in fits], axis=1), np.stack([fit.sd for fit in fits], axis=1)
    told = cells.of_column(0)
    if told.n_examples_seen < 2:
        errors[errors > 0] = np.nan  # of one example nothing tells how far another is from it
    independent = [normals(seed, "posterior", (n_draws, fit.n_normals), n_rows, j) for j, fit in enumerate(fits)]
    mixed = correlated(independent, of_metrics(told, n_arms))
    # A metric's draws lie side by side, and so do those of a column of values: they are gone through one by one.
    draws = np.array([fit.draws(own) for fit, own in zip(fits, mixed, strict=True)])
    if averaged:
        is_new = n_examples is None or n_examples >= ENDLESS
        errors = _widen_levels(draws, errors, told.n_examples_seen - 1, is_new, seed, n_rows)
    for j, (numbers, others) in instead.items():
        draws[j, numbers] = others
    in_segments: Draws | None = None
    if segments is not None and n_examples is not None and goal.by_segment and (cells.examples >= 0).any():
        found, n = [], len(segments.names)
        for number, j in enumerate(goal.by_segment):
            fit = pairs(cells, j, n_arms, segments, n_examples, averaged)
            own = normals(seed, "segments", (n_draws, fit.n_normals), n_rows, number)
            found.append(np.moveaxis(fit.draws(own).reshape(n_draws, n_arms, n), 2, 0))
        in_segments = np.concatenate(found)
        draws = np.concatenate((draws, in_segments))
    values = _values(goal, draws, rivals)
    if n_examples is not None and n_examples >= ENDLESS:
        n_examples = None
    _hold_unvarying(goal, cells, n_examples, draws, values, instead)
    _hold_fixed(goal, cells, draws, values, rivals)
    kept = _hold_at_ends(goal, cells, n_examples, values)
    return Joint(fits, means, errors, values, draws[: len(goal.columns)], kept, in_segments)


def _widen_levels(draws: Draws, errors: Means, freedom: int, is_new: bool, seed: int, n_rows: int) -> Means:
    """Give the level that all prompts share Student's distribution, in draws (c, S, K) of the columns' means.

    The level's variance comes from how far the seen examples are apart, so it has as many degrees of freedom as there
    are examples, less one. Differences between prompts have more, since every cell informs their variance. Returns
    errors (K, c) that are wider by as much, so that 1.96 of them hold 95%.

    On new inputs every prompt has the whole error of the level. On the given examples it has the less of it the more
    of them it has seen, and none if it has seen all of them.
    """
    n_draws, freedom = draws.shape[1], max(1, freedom)
    added = np.empty_like(errors)
    for j, of_column in enumerate(draws):
        level = of_column.mean(axis=1)
        off = level - level.mean()
        variance = float((off**2).mean())
        part = np.ones(len(errors))
        if not is_new and variance > 0.0:
            part = np.clip(off @ (of_column - of_column.mean(axis=0)) / (n_draws * variance), 0.0, 1.0)
            part[errors[:, j] == 0.0] = 0.0
        scale = student_scale(normals(seed, "level", (n_draws, 1), n_rows, j), freedom)[:, 0]
        of_column += ((scale - 1.0) * off)[:, None] * part
        added[:, j] = part**2 * (student_ratio(freedom) ** 2 - 1.0) * variance
    return np.asarray(np.where(errors > 0.0, np.sqrt(errors**2 + added), errors))


def normals(seed: int, purpose: str, shape: tuple[int, int], *counts: int) -> Draws:
    """Standard normals from counter bits (Box & Muller 1958)."""
    n = shape[0] * shape[1]
    half = (n + 1) // 2
    result = np.empty(2 * half)
    for start in range(0, half, _BLOCK):
        stop = min(half, start + _BLOCK)
        bits = counters.bits(seed, purpose, *counts, np.arange(start, stop))
        # 32 bits each are enough for what is compared with a posterior's width.
        radius = (bits >> np.uint64(32)).view(np.int64).astype(np.float64)
        radius += 0.5
        radius /= 2.0**32
        np.sqrt(np.multiply(np.log(radius, out=radius), -2.0, out=radius), out=radius)
        tangent = (bits & np.uint64(0xFFFFFFFF)).view(np.int64).astype(np.float64)
        tangent *= np.pi / 2.0**32
        # Cosine and sine of the angle by the tangent of its half, which takes a fraction of their time.
        np.tan(tangent, out=tangent)
        square = tangent**2
        radius /= 1.0 + square
        np.multiply(radius, np.subtract(1.0, square, out=square), out=result[start:stop])
        tangent *= 2.0
        np.multiply(radius, tangent, out=result[half + start : half + stop])
    return result[:n].reshape(shape)


def of_metrics(cells: Cells, n_arms: int) -> Matrix:
    """(m, m) correlations of a prompt's scores over its examples, pooled over prompts and shrunk to independence.

    A metric that does not vary within prompts is independent of the others.
    """
    m = cells.scores.shape[1]
    if m == 1:
        return np.eye(1)
    counts = np.bincount(cells.arms, minlength=n_arms)
    sums = np.stack([np.bincount(cells.arms, column, n_arms) for column in cells.scores.T], axis=1)
    deviations = cells.scores - (sums / np.maximum(counts, 1)[:, None])[cells.arms]
    size = np.sqrt((deviations**2).sum(axis=0))
    varies = size > 1e-9 * np.abs(cells.scores).max(axis=0) * np.sqrt(len(deviations))
    deviations = np.where(varies, deviations / np.where(varies, size, 1.0), 0.0)
    freedom = float(np.maximum(counts - 1, 0).sum())
    found = freedom / (freedom + _INDEPENDENCE) * (deviations.T @ deviations)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def correlated(normals: Sequence[Draws], correlation: Matrix) -> list[Draws]:
    """Independent standard normals (S, n) of every metric, mixed so that they correlate; those of the first stay.

    Arrays of another width belong to another kind of posterior, and are not mixed with.
    """
    root = np.linalg.cholesky(correlation)
    mixed = []
    for j, own in enumerate(normals):
        alike = [k for k in range(j) if normals[k].shape == own.shape and root[j, k] != 0.0]
        rest = np.sqrt(1.0 - sum(root[j, k] ** 2 for k in alike))
        if alike:
            own = rest * own
            for k in alike:
                own += root[j, k] * normals[k]
        mixed.append(own)
    return mixed


def at_an_end(goal: Goal, arms: Indices, scores: Means, n_arms: int) -> tuple[Masks, Masks]:
    """(K, c) who has kept a constraint whose bound is an end of the scale with every score, and who has broken it.

    The bound is an end if the metric's range says so, or if no score of any prompt is better. A model that shrinks
    a prompt's scores to those of others puts every mean on the far side of such a bound, however often the prompt has
    kept it. Broken is a bound only at an end that is known: of the range, or 0 and 1 of scores that are one of these.
    """
    kept, broken = (np.zeros((n_arms, len(goal.constraints)), dtype=bool) for _ in range(2))
    slacks = goal.values(scores, goal.offsets)[:, len(goal.objectives) :]
    for k, bound in enumerate(goal.bounds):
        if bound.of is not None:
            continue  # it moves with another prompt's mean, and is no end of the scale
        known = ~np.isnan(slacks[:, k])
        column, slack, who = scores[known, bound.column], slacks[known, k], arms[known]
        span = goal.ranges.get(goal.columns[bound.column])
        ends = span or (_ENDS if np.isin(column, _ENDS).all() else None)
        is_known = ends is not None and bound.bound == ends[not bound.at_most]
        if is_known or (span is None and (slack <= 0.0).all()):
            misses = who[slack < 0.0]
            kept[who, k] = True
            kept[misses, k] = False
            broken[misses, k] = is_known
    return kept, broken


def is_unvarying(cells: Cells, metric: int) -> bool:
    """True if every score of a metric is the same."""
    scores = cells.scores[:, metric]
    varies = cells.noisy is not None and cells.noisy.squares[:, metric].any()
    return not varies and bool((scores == scores[0]).all())


def held(
    draws: Vector,
    cells: Cells,
    metric: int,
    n_examples: int | None,
    limits: tuple[float, float] | None,
    at_most: bool,
    is_met: bool = True,
) -> Vector:
    """(S, K) draws of the prompts' means of a metric that never varied, to be held against a bound.

    `is_met`: whether the one score equals the bound, so that a single other one would break it.

    Those nearest to the one score become it, as many as it is likely that no other comes. Beyond an end of the range
    there are none; where no range is known, the others of a score of 0 or 1 are on the side that breaks the bound.
    """
    score = float(cells.scores[0, metric])
    known = np.bincount(cells.arms, minlength=draws.shape[1])
    m = 1.0 / chance_of_another(score, len(cells.arms), known, limits)
    left = np.full(len(known), np.inf)  # of noisy cells there is no last score
    is_end = score in (limits or _ENDS)
    if n_examples is not None and cells.noisy is None:
        left = n_examples - np.bincount(cells.arms[cells.examples >= 0], minlength=len(known)).astype(np.float64)
    elif is_end and is_met:
        left = known.astype(np.float64)
    same, away = 1.0 / (1.0 + left / m), draws - score
    if is_end:
        is_above = score == limits[0] if limits else at_most
        away = np.abs(away) if is_above else -np.abs(away)
    else:
        same = (m + same) / (m + 1.0)
    n_same = np.round(same * len(draws)).astype(np.int64)
    order = np.argsort(np.argsort(np.abs(away), axis=0, kind="stable"), axis=0)
    return np.asarray(score + np.where(order < n_same, 0.0, away))


def _hold_unvarying(
    goal: Goal, cells: Cells, n_examples: int | None, draws: Draws, values: Draws, instead: Collection[int]
) -> None:
    """Held against its bound, a metric whose scores all agree so far is drawn as one that may differ, in `values`.

    Draws `instead` of the Gaussian ones know that.
    """
    for k, bound in enumerate(goal.bounds, len(goal.objectives)):
        j, own = bound.column, cells.of_column(bound.column)
        if bound.of is None and is_unvarying(own, j) and j not in instead:
            against, limits = draws[: len(goal.columns)].copy(), goal.ranges.get(goal.columns[j])
            is_met = float(own.scores[0, j]) == bound.bound
            against[j] = held(draws[j], own, j, n_examples, limits, bound.at_most, is_met)
            values[:, :, k] = _values(goal, against, None)[:, :, k]


def _hold_fixed(goal: Goal, cells: Cells, draws: Draws, values: Draws, rivals: Indices | None) -> None:
    """Held against another prompt, a prompt whose scores of a metric all agree keeps that score, in `values`.

    So two prompts of the same fixed cost are equal, and neither costs more than the other. It does in as many of the
    draws as it is likely that no other score comes in as many more evaluations: those where the level that all prompts
    share is off least, so that equals are equal in the same draws. Of scores of 0 and 1 the draws allow for others.
    """
    for k, bound in enumerate(goal.bounds, len(goal.objectives)):
        j, own = bound.column, cells.of_column(bound.column)
        scores, n_arms = own.scores[:, j], values.shape[1]
        if bound.of is None or np.isin(scores, _ENDS).all():
            continue
        counts = np.bincount(own.arms, minlength=n_arms)
        low, high = np.full(n_arms, np.inf), np.full(n_arms, -np.inf)
        np.minimum.at(low, own.arms, scores)
        np.maximum.at(high, own.arms, scores)
        fixed = np.flatnonzero((counts > 1) & (low == high))
        if not len(fixed) or (own.noisy is not None and own.noisy.squares[:, j].any()):
            continue
        m = counts[fixed] + 1.0  # the chance of another score is 1 / m
        same = np.round((m + 0.5) / (m + 1.0) * len(values)).astype(np.int64)
        level = draws[j].mean(axis=1)
        rank = np.argsort(np.argsort(np.abs(level - level.mean()), kind="stable"))
        against = draws[: len(goal.columns)].copy()
        against[j][:, fixed] = np.where(rank[:, None] < same, low[fixed], against[j][:, fixed])
        values[:, :, k] = _values(goal, against, rivals)[:, :, k]


def _hold_at_ends(goal: Goal, cells: Cells, n_examples: int | None, values: Draws) -> Masks:
    """(K, c) who has always kept a bound at an end of the scale; in `values`, who has broken it misses it for good."""
    own, n_arms = cells.examples >= 0 if n_examples is not None else np.ones(len(cells.arms), bool), values.shape[1]
    kept, _ = at_an_end(goal, cells.arms, cells.scores, n_arms)
    _, broken = at_an_end(goal, cells.arms[own], cells.scores[own], n_arms)
    for k, missed in enumerate(broken.T, len(goal.objectives)):
        if missed.any():
            values[:, missed, k] = np.minimum(-np.abs(values[:, missed, k]), -_SLIGHTLY)
    return kept


def _values(goal: Goal, draws: Matrix, rivals: Indices | None) -> Draws:
    """(S, K, q) the goal's values of draws of the metrics' means (m, S, K); each draw has its own best prompt."""
    bounds = goal.resolved(np.moveaxis(draws, 0, 2), rivals)
    if bounds.ndim == 2:
        bounds = np.repeat(bounds, draws.shape[2], axis=0)
    values = goal.values(draws.reshape(len(draws), -1).T, bounds)
    return np.moveaxis(values.T.reshape(-1, *draws.shape[1:]), 0, 2)
