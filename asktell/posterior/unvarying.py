"""Bounds that scores meet and never pass: a fixed cost, a format that every output has kept.

How likely is it that the M scores of a prompt that are unknown all equal the known ones? Call 1 / m the chance of
another score (`chance_of_another`), as after m - 1 equal ones. If nothing speaks for a metric that cannot vary, the
rule of succession says m / (m + M). If it is as likely as not beforehand (Jeffreys, Theory of Probability, 3.2), this
is m (m + M + 1) / ((m + 1) (m + M)). The first holds for an end of the metric's range, and for 0 and 1, which scores
that vary often are; the second for all else.

It matters where a mean is held against a bound that it equals: the bound is kept unless another score comes. Where
examples have no end, or are asked again, one would come some day; then it counts whether one comes in as many scores as
there were.
"""

import numpy as np

from asktell.numerics.arrays import Indices, Masks, Means, Vector
from asktell.posterior.two_way import Cells, chance_of_another
from asktell.problem.goals import Goal

_ENDS = (0.0, 1.0)  # of many a range that nobody has named


def at_an_end(goal: Goal, arms: Indices, scores: Means, n_arms: int) -> tuple[Masks, Masks]:
    """(K, c) who has kept a constraint whose bound is an end of the scale with every score, and who has broken it.

    The bound is an end if the metric's range says so, or if no score of any prompt is better. A model that shrinks
    a prompt's scores to those of others puts every mean on the far side of such a bound, however often the prompt has
    kept it. Broken is a bound only at an end that is known: of the range, or 0 and 1 of scores that are one of these.
    """
    kept, broken = (np.zeros((n_arms, len(goal.constraints)), dtype=bool) for _ in range(2))
    slacks = goal.values(scores)[:, len(goal.objectives) :]
    for k, constraint in enumerate(goal.constraints):
        column, span = scores[:, goal.metrics.index(constraint.metric)], goal.ranges.get(constraint.metric)
        ends = span or (_ENDS if np.isin(column, _ENDS).all() else None)
        is_known = ends is not None and constraint.bound == ends[not constraint.at_most]
        if is_known or (span is None and (slacks[:, k] <= 0.0).all()):
            misses = arms[slacks[:, k] < 0.0]
            kept[arms, k] = True
            kept[misses, k] = False
            broken[misses, k] = is_known
    return kept, broken


def is_unvarying(cells: Cells, metric: int) -> bool:
    """Whether every score of a metric is the same."""
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
) -> Vector:
    """(S, K) draws of the prompts' means of a metric that never varied, to be held against a bound.

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
    elif is_end:
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
