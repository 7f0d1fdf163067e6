"""Joint draws of every prompt's mean of every metric, and of the goal's values.

Each metric has a posterior of its own (`asktell.posterior.two_way`), and the metrics
are correlated (`asktell.posterior.correlation`). A Gaussian suits two kinds of metric badly, where
scores meet a bound and never pass it: a fixed cost, and a format that every output has
satisfied so far.

How likely is it that the M unknown scores of a prompt all equal the known scores? Let 1
/ m be the chance of another score (`chance_of_another`), as after m - 1 equal scores.
If there is no reason to expect a metric that cannot vary, the rule of succession gives
m / (m + M). If such a metric is as likely as not beforehand (Jeffreys, Theory of
Probability, 3.2), the probability is m (m + M + 1) / ((m + 1) (m + M)). The first holds
for an end of the metric's range, and for 0 and 1, which are common scores of metrics
that vary. The second holds for all other scores.

It matters where a mean is compared with a bound that it equals: the bound is satisfied
unless another score comes. Where examples have no end, or are evaluated again, another
score would come some day. The question is then whether one comes in as many scores as
there were.

A price is the same number on every example, but differs between prompts. See
`_hold_prices`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from asktell.numerics import counters
from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.cells import Cells
from asktell.numerics.shapes import Bool, Float, Int
from asktell.posterior import correlation
from asktell.posterior.equations import ENDLESS
from asktell.posterior.mixture import student_ratio, student_scale
from asktell.posterior.proxies import ProxyParts
from asktell.posterior.regressors import Regressors
from asktell.posterior.segments import pairs
from asktell.posterior.two_way import Posterior, chance_of_another, posterior
from asktell.problem.examples.segments import Segments
from asktell.problem.examples.shape import Shape
from asktell.problem.goals import Goal

_FEWEST_DRAWS = 64  # a probability of a half then has a standard error of 0.06
# Most numbers in one array of draws, 8 MB: large pools take fewer draws
_MOST_NUMBERS = 1 << 20
# A violation in units of the constraint's scale: above rounding, below any visible
# difference
_SLIGHTLY = 1e-9
_BLOCK = 1 << 14  # numbers at a time, so that they stay in the processor's cache
_ENDS = (0.0, 1.0)  # the ends of many ranges that were not given
# Repetitions below which scores of a metric that varies often agree by chance. A
# judgement: grades that agree half of the time do so 8 times in 1 of 256 cases.
_FEWEST_REPETITIONS = 8


class Joint(NamedTuple):
    """The posteriors of all metrics, and draws from them."""

    fits: list[Posterior]  # by metric
    means: Float[Floats, "arms metrics"]
    # Posterior standard deviations, NaN after a single example
    errors: Float[Floats, "arms metrics"]
    values: Float[Floats, "draws arms values"]  # draws of the goal's values
    # Draws of the columns' means, then of the goal's subsets
    columns: Float[Floats, "columns draws arms"]
    # True for arms that satisfied a bound at an end of the scale with every score
    kept: Bool[Bools, "arms constraints"]


class Model(NamedTuple):
    """The recorded scores, and the settings of their posterior."""

    cells: Cells
    goal: Goal  # draws are of its columns, and of its values
    # By column, how the examples differ according to earlier studies
    shapes: Sequence[Shape | None]
    regressors: Regressors | None  # columns of the candidates' factors
    n_arms: int
    # N, or None or `ENDLESS` for means over new examples
    n_examples: int | None
    n_rows: int  # number of all scores, so that draws differ from decision to decision
    seed: int
    segments: Segments | None
    proxies: ProxyParts | None = None  # parts of cheap metrics that inform the goal's
    # The prompts that a relative bound's best prompt is chosen from, None for all
    rivals: Int[Ints, " rivals"] | None = None

    def n_draws(self, most: int) -> int:
        """The number of joint draws: at most `most`, and fewer for large pools."""
        return max(_FEWEST_DRAWS, min(most, _MOST_NUMBERS // self.n_arms))


Instead: TypeAlias = Mapping[int, tuple[Ints, Floats]]
"""By column, the numbers of the draws that come from another model, and these draws (S, K)."""


def joint(
    model: Model, most_draws: int, averaged: bool, instead: Instead | None = None
) -> Joint:
    """Draw from the posteriors of all metrics.

    Args:
        model: The recorded scores and the settings.
        most_draws: The largest number of draws.
        averaged: Average over the uncertainty of the variances. Otherwise the most
            likely variances are used.
        instead: Draws of columns that have another model, too.
    """
    instead = instead or {}
    goal, cells = model.goal, model.cells
    n_draws = model.n_draws(most_draws)
    is_new = model.n_examples is None or model.n_examples >= ENDLESS
    fits = _fits(model, averaged)
    means = np.stack([fit.mean for fit in fits], axis=1)
    errors = np.stack([fit.sd for fit in fits], axis=1)
    n_seen = cells.of_column(0).n_examples_seen
    if n_seen < 2:
        # One example gives no information on how far another is from it
        errors[errors > 0] = np.nan
    # Draws of the columns' means.
    draws = _gaussian_draws(model, fits, n_draws)
    if averaged:
        errors = _widen_levels(
            draws, errors, n_seen - 1, is_new, model.seed, model.n_rows
        )
    for j, (numbers, replaced) in instead.items():
        draws[j, numbers] = replaced
    # Where a bound is relative, people look for a plateau: the cheapest prompt that is
    # not worse. A correlation would take the dearest prompts for the best.
    if len(goal.columns) > 1 and not goal.is_relative:
        _join(model, draws, errors)
    columns = _with_prices(goal, cells, _Columns(draws, means, errors))
    of_subsets = list(_draws_of_subsets(model, n_draws, averaged))
    draws, means, errors = _with_shares(model, of_subsets, columns)
    draws = np.concatenate((draws, *of_subsets))
    # Draws of the goal's values, corrected where a Gaussian suits a metric badly.
    n_given = None if is_new else model.n_examples
    values = _values(goal, draws, model.rivals)
    values = _with_unvarying(goal, cells, n_given, draws, values, instead)
    values = _with_fixed(goal, cells, draws, values, model.rivals)
    values, has_kept = _with_ends(goal, cells, n_given, values)
    return Joint(fits, means, errors, values, draws, has_kept)


class _Columns(NamedTuple):
    """Draws of the columns' means, and their means and errors."""

    draws: Float[Floats, "columns draws arms"]
    means: Float[Floats, "arms columns"]
    errors: Float[Floats, "arms columns"]

    def copied(self) -> "_Columns":
        """The same numbers, to change."""
        return _Columns(*(numbers.copy() for numbers in self))


def _fits(model: Model, averaged: bool) -> list[Posterior]:
    """The posterior of each of the goal's columns."""
    fits = []
    for j, name in enumerate(model.goal.columns):
        scored, limits = model.cells.of_column(j), model.goal.limits(name)
        fit = posterior(
            scored,
            j,
            model.n_arms,
            model.n_examples,
            limits,
            averaged,
            model.regressors,
            model.shapes[j],
            proxies=model.proxies,
        )
        fits.append(fit)
    return fits


def _gaussian_draws(
    model: Model, fits: list[Posterior], n_draws: int
) -> Float[Floats, "columns draws arms"]:
    """Draws of the columns' means, independent between columns."""
    drawn = []
    for j, fit in enumerate(fits):
        shape = n_draws, fit.n_normals
        drawn.append(
            fit.draws(normals(model.seed, "posterior", shape, model.n_rows, j))
        )
    # Draws of one metric are adjacent in memory, as are those of a column of values:
    # loops go through them one by one.
    return np.array(drawn)


def _join(
    model: Model,
    draws: Float[Floats, "columns draws arms"],
    errors: Float[Floats, "arms columns"],
) -> None:
    """Correlate the metrics in the draws, see `asktell.posterior.correlation`."""
    goal, minimized = model.goal, model.goal.minimized
    signs = np.array(
        [
            0.0
            if is_unvarying(model.cells.of_column(j), j)
            else -1.0
            if name in minimized
            else 1.0
            for j, name in enumerate(goal.columns)
        ]
    )
    is_new = model.n_examples is None or model.n_examples >= ENDLESS
    both = model.cells.of_column(0)
    correlation.join(draws, errors, both, signs, is_new, model.seed)


def _draws_of_subsets(
    model: Model, n_draws: int, averaged: bool
) -> Iterator[Float[Floats, "segments draws arms"]]:
    """For each column that the goal judges by segment, (G, S, K) draws of its means in each segment.

    Nothing where no score belongs to a segment. The overall means then stand for them.
    """
    segments, n_examples = model.segments, model.n_examples
    if segments is None or n_examples is None or (model.cells.examples < 0).all():
        return
    if not model.goal.subsets:
        return
    for number, j in enumerate(model.goal.by_segment):
        fit = pairs(model.cells, j, model.n_arms, segments, n_examples, averaged)
        of_fit = normals(
            model.seed, "segments", (n_draws, fit.n_normals), model.n_rows, number
        )
        yield np.moveaxis(fit.draws(of_fit).reshape(n_draws, model.n_arms, -1), 2, 0)


def _with_shares(
    model: Model,
    of_subsets: Sequence[Float[Floats, "segments draws arms"]],
    columns: _Columns,
) -> _Columns:
    """Give each segment its share of the examples in the means of columns that are judged by segment.

    If the worst segment counts, most evaluations are there. A mean over the evaluated
    examples would then be close to the mean of this segment.
    """
    if model.segments is None or not of_subsets:
        return columns
    draws, means, errors = columns = columns.copied()
    shares = model.segments.sizes / model.segments.sizes.sum()
    for j, in_segments in zip(model.goal.by_segment, of_subsets, strict=True):
        draws[j] = np.tensordot(shares, in_segments, 1)
        means[:, j] = draws[j].mean(axis=0)
        is_known = np.isfinite(errors[:, j])
        errors[is_known, j] = draws[j].std(axis=0)[is_known]
    return columns


def _widen_levels(
    draws: Float[Floats, "columns draws arms"],
    errors: Float[Floats, "arms columns"],
    freedom: int,
    is_new: bool,
    seed: int,
    n_rows: int,
) -> Float[Floats, "arms columns"]:
    """Give the level that all prompts share Student's distribution, by changing the draws (c, S, K) of columns' means.

    The level's variance is estimated from the differences between the seen examples, so
    it has as many degrees of freedom as there are examples, less one. Differences
    between prompts have more degrees, since every cell informs their variance.

    Over new inputs every prompt has the whole error of the level. Over the given
    examples a prompt has less of it the more examples it has seen, and none if it has
    seen them all.

    Returns:
        Errors (K, c) that are wider accordingly, so that an interval of +- 1.96 errors
        covers 95%.
    """
    n_draws, freedom = draws.shape[1], max(1, freedom)
    added = np.empty_like(errors)
    for j, of_column in enumerate(draws):
        level = of_column.mean(axis=1)
        off = level - level.mean()
        variance = float((off**2).mean())
        part = np.ones(len(errors))
        if not is_new and variance > 0.0:
            part = np.clip(
                off @ (of_column - of_column.mean(axis=0)) / (n_draws * variance),
                0.0,
                1.0,
            )
            part[errors[:, j] == 0.0] = 0.0
        scale = student_scale(normals(seed, "level", (n_draws, 1), n_rows, j), freedom)[
            :, 0
        ]
        of_column += ((scale - 1.0) * off)[:, None] * part
        added[:, j] = part**2 * (student_ratio(freedom) ** 2 - 1.0) * variance
    return np.asarray(np.where(errors > 0.0, np.sqrt(errors**2 + added), errors))


def normals(
    seed: int, purpose: str, shape: tuple[int, int], *counts: int
) -> Float[Floats, "rows normals"]:
    """Standard normals from counter bits (Box & Muller 1958)."""
    n = shape[0] * shape[1]
    half = (n + 1) // 2
    result = np.empty(2 * half)
    for start in range(0, half, _BLOCK):
        stop = min(half, start + _BLOCK)
        bits = counters.bits(seed, purpose, *counts, np.arange(start, stop))
        # 32 bits for each number are precise enough beside a posterior's width.
        radius = (bits >> np.uint64(32)).view(np.int64).astype(np.float64)
        radius += 0.5
        radius /= 2.0**32
        np.sqrt(np.multiply(np.log(radius, out=radius), -2.0, out=radius), out=radius)
        tangent = (bits & np.uint64(0xFFFFFFFF)).view(np.int64).astype(np.float64)
        tangent *= np.pi / 2.0**32
        # Cosine and sine of the angle by the tangent of its half, which takes a
        # fraction of their time.
        np.tan(tangent, out=tangent)
        square = tangent**2
        radius /= 1.0 + square
        np.multiply(
            radius, np.subtract(1.0, square, out=square), out=result[start:stop]
        )
        tangent *= 2.0
        np.multiply(radius, tangent, out=result[half + start : half + stop])
    return result[:n].reshape(shape)


def at_an_end(
    goal: Goal,
    arms: Int[Ints, " cells"],
    scores: Float[Floats, "cells columns"],
    n_arms: int,
) -> tuple[Bool[Bools, "arms constraints"], Bool[Bools, "arms constraints"]]:
    """Find the arms that satisfied a constraint at an end of the scale with every score, and those that violated it.

    The bound is an end if it is an end of the metric's range, or if no score of any
    prompt is better. A model that shrinks a prompt's scores to the others' puts every
    mean on the far side of such a bound, however often the prompt has satisfied it.
    Violations count only at a known end: an end of the range, or 0 and 1 if all scores
    are 0 or 1.

    Returns:
        Masks (K, constraints) of the arms that always satisfied the bound, and of those
        that violated it.
    """
    has_kept, broken = (
        np.zeros((n_arms, len(goal.constraints)), dtype=bool) for _ in range(2)
    )
    slacks = goal.values(scores, goal.offsets)[:, len(goal.objectives) :]
    for k, bound in enumerate(goal.bounds):
        if bound.of is not None:
            # A relative bound moves with another prompt's mean, so it is not an end of
            # the scale
            continue
        is_scored = ~np.isnan(slacks[:, k])
        column, slack, of_scores = (
            scores[is_scored, bound.column],
            slacks[is_scored, k],
            arms[is_scored],
        )
        span = goal.ranges.get(goal.columns[bound.column])
        ends = span or (_ENDS if np.isin(column, _ENDS).all() else None)
        is_known = ends is not None and bound.bound == ends[not bound.at_most]
        if is_known or (span is None and (slack <= 0.0).all()):
            violating = of_scores[slack < 0.0]
            has_kept[of_scores, k] = True
            has_kept[violating, k] = False
            broken[violating, k] = is_known
    return has_kept, broken


def is_unvarying(cells: Cells, metric: int) -> bool:
    """True if every score of a metric is the same."""
    scores = cells.scores[:, metric]
    varies = cells.is_noisy and cells.squares[:, metric].any()
    return not varies and bool((scores == scores[0]).all())


def held(
    draws: Float[Floats, "draws arms"],
    cells: Cells,
    metric: int,
    n_examples: int | None,
    limits: tuple[float, float] | None,
    at_most: bool,
    is_met: bool = True,
) -> Float[Floats, "draws arms"]:
    """Turn draws of a metric that never varied into draws that can be compared with a bound.

    The draws nearest to the one score become that score, as many as the probability
    that no other score comes. Beyond an end of the range there are no draws. Where no
    range is known, draws around a score of 0 or 1 are on the side that violates the
    bound.

    Args:
        draws: (S, K) of the prompts' means.
        cells: The cells with a score of the metric.
        metric: Its column.
        n_examples: N, or None for means over new inputs.
        limits: The metric's range, if it is known.
        at_most: True if the bound is an upper one.
        is_met: True if the score equals the bound, so that a single other score would
            violate it.
    """
    score = float(cells.scores[0, metric])
    counts = np.bincount(cells.arms, minlength=draws.shape[1])
    m = 1.0 / chance_of_another(score, len(cells.arms), counts, limits)
    # Scores still to come: without end where cells are noisy
    left = np.full(len(counts), np.inf)
    is_end = score in (limits or _ENDS)
    if n_examples is not None and not cells.is_noisy:
        left = n_examples - np.bincount(
            cells.arms[cells.examples >= 0], minlength=len(counts)
        ).astype(np.float64)
    elif is_end and is_met:
        left = counts.astype(np.float64)
    same, away = 1.0 / (1.0 + left / m), draws - score
    if is_end:
        is_above = score == limits[0] if limits else at_most
        away = np.abs(away) if is_above else -np.abs(away)
    else:
        same = (m + same) / (m + 1.0)
    n_same = np.round(same * len(draws)).astype(np.int64)
    order = np.argsort(np.argsort(np.abs(away), axis=0, kind="stable"), axis=0)
    return np.asarray(score + np.where(order < n_same, 0.0, away))


def _with_prices(goal: Goal, cells: Cells, columns: _Columns) -> _Columns:
    """Let evaluated prompts keep their score of a metric that is a fixed number for each prompt, as a price is.

    The metric differs between prompts, but no prompt has two different scores. The
    two-way model attributes a part of these differences to the examples and to the
    residual, so its draws spread around a price that every evaluation confirmed.

    A repetition is any score of a prompt but its first. Suppose that the metric varies,
    and that a repetition agrees with probability q, where all q are equally likely.
    Then R repetitions agree with probability 1 / (R + 1). With a fixed metric as likely
    as not beforehand, the metric is fixed with probability m / (m + 1), where m = R +
    1. If the metric varies, the next m scores still agree with probability 1 / 2. So
    prompts keep their scores in (m + 1 / 2) / (m + 1) of the draws. These are the draws
    where the shared level is closest to its mean, so that equals are equal in the same
    draws.

    Metrics with two outcomes are excepted, where all scores are 0 and 1 or the ends of
    the range. They often agree by chance.
    """
    n_draws, n_arms = columns.draws.shape[1:]
    is_copied = False
    for j, name in enumerate(goal.columns):
        scored = cells.of_column(j)
        scores = scored.scores[:, j]
        counts, low, high = _spans(scored, j, n_arms)
        seen = np.flatnonzero(counts)
        m = len(scores) - len(seen) + 1.0
        is_noisy = scored.is_noisy and bool(scored.squares[:, j].any())
        has_two_outcomes = np.isin(scores, (*_ENDS, *(goal.limits(name) or ()))).all()
        if m <= _FEWEST_REPETITIONS or is_noisy or has_two_outcomes:
            continue
        if (low < high).any() or is_unvarying(scored, j):
            continue
        if not is_copied:
            columns, is_copied = columns.copied(), True
        draws, means, errors = columns
        share = (m + 0.5) / (m + 1.0)
        is_same = _level_ranks(draws[j]) < np.round(share * n_draws)
        draws[j][np.ix_(is_same, seen)] = low[seen]
        means[seen, j] = low[seen]
        errors[seen, j] *= np.sqrt(1.0 - share)
    return columns


def _spans(
    cells: Cells, metric: int, n_arms: int
) -> tuple[Int[Ints, " arms"], Float[Floats, " arms"], Float[Floats, " arms"]]:
    """The number of each arm's cells, and its lowest and highest score of a metric."""
    low, high = np.full(n_arms, np.inf), np.full(n_arms, -np.inf)
    np.minimum.at(low, cells.arms, cells.scores[:, metric])
    np.maximum.at(high, cells.arms, cells.scores[:, metric])
    return np.bincount(cells.arms, minlength=n_arms), low, high


def _level_ranks(draws: Float[Floats, "draws arms"]) -> Int[Ints, " draws"]:
    """Rank the draws by the distance of the prompts' shared level from its mean, 0 for the closest."""
    level = draws.mean(axis=1)
    distance = np.abs(level - level.mean())
    return np.argsort(np.argsort(distance, kind="stable"))


def _with_unvarying(
    goal: Goal,
    cells: Cells,
    n_examples: int | None,
    draws: Float[Floats, "columns draws arms"],
    values: Float[Floats, "draws arms values"],
    instead: Collection[int],
) -> Float[Floats, "draws arms values"]:
    """The values, corrected where a metric whose scores all agree so far is compared with a bound, see `held`.

    Columns with draws `instead` of the Gaussian draws need no correction.
    """
    corrected = {}
    for k, bound in enumerate(goal.bounds, len(goal.objectives)):
        j, scored = bound.column, cells.of_column(bound.column)
        if bound.of is None and is_unvarying(scored, j) and j not in instead:
            against, limits = (
                draws[: len(goal.columns)].copy(),
                goal.ranges.get(goal.columns[j]),
            )
            is_met = float(scored.scores[0, j]) == bound.bound
            against[j] = held(
                draws[j], scored, j, n_examples, limits, bound.at_most, is_met
            )
            corrected[k] = _values(goal, against, None)[:, :, k]
    return _replaced(values, corrected) if corrected else values


def _replaced(
    values: Float[Floats, "draws arms values"],
    columns: Mapping[int, Float[Floats, "draws arms"]],
) -> Float[Floats, "draws arms values"]:
    """The values with some of them replaced, by number."""
    # In the same order in memory
    values = values.copy(order="K")
    for k, column in columns.items():
        values[:, :, k] = column
    return values


def _with_fixed(
    goal: Goal,
    cells: Cells,
    draws: Float[Floats, "columns draws arms"],
    values: Float[Floats, "draws arms values"],
    rivals: Int[Ints, " rivals"] | None,
) -> Float[Floats, "draws arms values"]:
    """The values, corrected where a prompt whose scores of a metric all agree is compared with another prompt.

    The prompt keeps its score, so that two prompts of the same fixed cost are equal,
    and neither costs more. It does so in a share of the draws: the probability that no
    other score comes in as many more evaluations. These are the draws where the shared
    level is closest to its mean, so that equals are equal in the same draws. Scores of
    0 and 1 are excepted, since their draws allow for the other score.
    """
    corrected = {}
    for k, bound in enumerate(goal.bounds, len(goal.objectives)):
        j, scored = bound.column, cells.of_column(bound.column)
        scores, n_arms = scored.scores[:, j], values.shape[1]
        if bound.of is None or np.isin(scores, _ENDS).all():
            continue
        counts, low, high = _spans(scored, j, n_arms)
        fixed = np.flatnonzero((counts > 1) & (low == high))
        if not len(fixed) or (scored.is_noisy and scored.squares[:, j].any()):
            continue
        m = counts[fixed] + 1.0  # the chance of another score is 1 / m
        same = np.round((m + 0.5) / (m + 1.0) * len(values)).astype(np.int64)
        rank = _level_ranks(draws[j])
        against = draws[: len(goal.columns)].copy()
        against[j][:, fixed] = np.where(
            rank[:, None] < same, low[fixed], against[j][:, fixed]
        )
        corrected[k] = _values(goal, against, rivals)[:, :, k]
    return _replaced(values, corrected) if corrected else values


def _with_ends(
    goal: Goal,
    cells: Cells,
    n_examples: int | None,
    values: Float[Floats, "draws arms values"],
) -> tuple[Float[Floats, "draws arms values"], Bool[Bools, "arms constraints"]]:
    """The values, where arms that violated a bound at an end of the scale violate it in all draws.

    Also returns the mask (K, constraints) of the arms that always satisfied such a
    bound.
    """
    corrected = {}
    n_arms = values.shape[1]
    # Over given examples, a violation on another example does not count.
    is_named = (
        np.ones(len(cells.arms), bool) if n_examples is None else cells.examples >= 0
    )
    has_kept, _ = at_an_end(goal, cells.arms, cells.scores, n_arms)
    _, broken = at_an_end(goal, cells.arms[is_named], cells.scores[is_named], n_arms)
    for k, missed in enumerate(broken.T, len(goal.objectives)):
        if missed.any():
            violated = np.minimum(-np.abs(values[:, :, k]), -_SLIGHTLY)
            corrected[k] = np.where(missed, violated, values[:, :, k])
    return _replaced(values, corrected) if corrected else values, has_kept


def _values(
    goal: Goal,
    draws: Float[Floats, "columns draws arms"],
    rivals: Int[Ints, " rivals"] | None,
) -> Float[Floats, "draws arms values"]:
    """The goal's values for draws (m, S, K) of the metrics' means. Each draw has its own best prompt."""
    bounds = goal.resolved(np.moveaxis(draws, 0, 2), rivals)
    if bounds.ndim == 2:
        bounds = np.repeat(bounds, draws.shape[2], axis=0)
    values = goal.values(draws.reshape(len(draws), -1).T, bounds)
    return np.moveaxis(values.T.reshape(-1, *draws.shape[1:]), 0, 2)
