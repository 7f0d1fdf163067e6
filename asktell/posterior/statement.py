"""What a result may state: joint draws of every prompt's means on the examples given, and on new examples like them.

Decisions are many and take the Gaussian model of `asktell.posterior.two_way` for every metric. A statement is a
promise: scores of 0 and 1 have the model that suits them (`asktell.posterior.rasch`), variances are averaged over, and
it counts where a constraint's bound stands. Where candidates have factors, the Gaussian model is stated, which knows
them: on simulated grids 96 % of its 95 % intervals hold, of the other's 80 to 92 %. People set a bound near what they
think prompts reach, so the level that all prompts share is likely to be near it beforehand; how near was chosen for the
least Brier score of P(feasible) on recorded tables (`python -m benchmarks.selection.verdicts`).
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from asktell.numerics.arrays import Draws, Masks, Matrix, Means, Vector, is_binary
from asktell.posterior.draws import ENDLESS, Joint, Model, joint
from asktell.posterior.rasch import Rasch
from asktell.posterior.segments import Segments, pairs
from asktell.posterior.two_way import Cells, Posterior, posterior
from asktell.problem.goals import Goal

Rng: TypeAlias = np.random.Generator

_DRAWS = 512  # a probability is then known to .02
_MOST_ARMS = 300  # whose abilities are cheap to tell; of more, the Gaussian model is stated
_OF_EXAMPLES = 0.5  # of a score's variance: on recorded tables .4 to .75
_NEAR, _NEAR_WEIGHT = 0.03, 0.8  # of the level about the bound, in units of the scores' range; else it may be anywhere


class Statement(NamedTuple):
    """Draws of the goal's values, and estimates."""

    given: Draws  # (S, K, q) of the means over the examples given
    new: Draws  # (S, K, q) of the means over new examples like them
    means: Means  # (K, m) over the examples given
    errors: Means  # (K, m) their standard deviations; NaN where nothing supports one
    new_errors: Means  # (K, m) of the means over new examples
    kept: Masks  # (K, c) who has always kept a bound at an end of the scale
    example: Vector  # (m,) variances of the example effect
    residual: Vector  # (m,) and of the residual
    n_seen: int  # of the examples given
    is_guess: bool  # after a single evaluation, which supports no error and no probability
    fits: list[Posterior]  # (m,) over the examples given, of the Gaussian model
    given_columns: Draws  # (c, S, K) draws of every column's mean over the examples given, in metric units
    new_columns: Draws  # and over new examples
    in_segments: tuple[Matrix, Matrix] | None = None  # (K, c, G) means in segments of the examples given, their errors


def statement(model: Model) -> Statement:
    """Draw what can be stated of the cells told."""
    cells, goal, shapes, basis, n_arms, n_examples, n_rows, seed, segments = model
    of_given, of_new = dict[int, Draws](), dict[int, Draws]()
    rng = np.random.default_rng([seed & 0xFFFFFFFFFFFFFFFF, n_rows])
    has_factors = basis is not None and basis.blocks is not None  # which that model does not know
    suits = n_arms <= _MOST_ARMS and not has_factors
    for j, name in enumerate(goal.columns):
        told = cells.of_column(j)
        if suits and shapes[j] is None and told.noisy is None and _are_shares(told.scores[:, j], goal, j):
            others, minimized = _others(cells, goal, j, n_arms, n_examples), _sign(goal, name) < 0
            abilities = Rasch(told.arms, told.examples, told.scores[:, j], n_arms, n_examples, others, minimized)
            of_given[j], of_new[j] = abilities.draws(_DRAWS, rng)
    given = joint(model, _DRAWS, True, of_given)
    new = given if n_examples is None else joint(model._replace(n_examples=ENDLESS), _DRAWS, True, of_new)
    means, errors, new_errors = given.means.copy(), given.errors.copy(), new.errors.copy()
    for j, own in of_given.items():
        known = np.isfinite(errors[:, j])
        means[:, j] = own.mean(axis=0)
        errors[known, j] = own.std(axis=0)[known]
        new_errors[known, j] = of_new[j].std(axis=0)[known]
    _hold_kept(new, goal, cells, of_new, n_arms, rng)
    variances = np.array([fit.variances for fit in given.fits])
    for j, own in of_new.items():
        if not variances[j].any():  # all alike so far, but it is right or wrong
            variances[j, 1:] = (own * (1.0 - own)).mean() * np.array([_OF_EXAMPLES, 1.0 - _OF_EXAMPLES])
    return Statement(
        _near_bounds(given.values, cells, goal),
        _near_bounds(new.values, cells, goal),
        means,
        errors,
        new_errors,
        given.kept,
        variances[:, 1],
        variances[:, 2],
        len(np.unique(cells.examples[cells.examples >= 0])),
        len(cells.of_column(0).arms) < 2,
        given.fits,
        given.columns,
        new.columns,
        _of_segments(cells, goal, n_arms, segments),
    )


def _are_shares(scores: Vector, goal: Goal, j: int) -> bool:
    """True if a column's means are shares of 1: 0 and 1 occur, or only one of them, but a bound lies between them."""
    between = any(0.0 < bound.bound < 1.0 for bound in goal.bounds if bound.column == j)
    fits = goal.limits(goal.columns[j]) in (None, (0.0, 1.0)) and bool(np.isin(scores, (0.0, 1.0)).all())
    return is_binary(scores) or (between and fits)


def _of_segments(cells: Cells, goal: Goal, n_arms: int, segments: Segments | None) -> tuple[Matrix, Matrix] | None:
    """(K, c, G) means of every column in every segment of the examples given, and their errors."""
    real = cells.examples >= 0
    if segments is None or not real.any():
        return None
    found, n = [], len(segments.of_examples)
    for j in range(len(goal.columns)):
        fit = pairs(cells, j, n_arms, segments, n, True)
        found.append((fit.mean.reshape(n_arms, -1), fit.sd.reshape(n_arms, -1)))
    means, errors = (np.stack(part, axis=1) for part in zip(*found, strict=True))
    return means, errors


def _sign(goal: Goal, metric: str) -> float:
    for objective in goal.objectives:
        if objective.metric == metric:
            return float(objective.sign)
    return -1.0 if any(b.at_most for b in goal.bounds if goal.columns[b.column] == metric) else 1.0


def _others(cells: Cells, goal: Goal, metric: int, n_arms: int, n_examples: int | None) -> Vector:
    """(K,) how good the prompts are in the other metrics, larger is better, with mean 0 and deviation 1; or all 0."""
    total = np.zeros(n_arms)
    for k, name in enumerate(goal.columns):
        if k != metric:
            mean = posterior(cells.of_column(k), k, n_arms, n_examples, averaged=False).mean
            total += _sign(goal, name) * _standardized(mean)
    return _standardized(total)


def _standardized(x: Vector) -> Vector:
    off = x - x.mean()
    spread = float(np.sqrt((off**2).mean()))
    return off / spread if spread > 1e-9 * max(float(np.abs(x).max()), 1e-290) else np.zeros_like(x)


def _hold_kept(new: Joint, goal: Goal, cells: Cells, shares: Mapping[int, Draws], n_arms: int, rng: Rng) -> None:
    """A bound at an end of the scale is kept by who has always kept it, unless one of as many new scores breaks it."""
    for k, bound in enumerate(goal.bounds):
        share, kept = shares.get(bound.column), new.kept[:, k]
        if share is not None and kept.any():
            keeps = (1.0 - share if bound.at_most else share) ** np.bincount(cells.arms, minlength=n_arms)
            column = new.values[:, :, len(goal.objectives) + k]
            column[kept & (rng.random(column.shape) < keeps[: len(column)])] = 0.0


def _near_bounds(values: Draws, cells: Cells, goal: Goal) -> Draws:
    """The draws again, each as often as its levels are likely beforehand.

    A bound at an end of the scale, such as all answers being valid, says nothing of where the level is.
    """
    weights = np.ones(len(values))
    for k, bound in enumerate(goal.bounds, len(goal.objectives)):
        low, high = _ends(goal, goal.columns[bound.column], cells.of_column(bound.column).scores[:, bound.column])
        if low < high and bound.bound not in (low, high):
            off = values[:, :, k].mean(axis=1) / (_NEAR * (high - low))
            weights *= _NEAR_WEIGHT * np.exp(-0.5 * off**2) / (_NEAR * np.sqrt(2.0 * np.pi)) + 1.0 - _NEAR_WEIGHT
    if np.ptp(weights) == 0.0:
        return values
    n, ends = len(values), np.cumsum(weights) / weights.sum()
    return values[np.minimum(np.searchsorted(ends, (np.arange(n) + 0.5) / n), n - 1)]


def _ends(goal: Goal, metric: str, scores: Vector) -> tuple[float, float]:
    """The lowest and the highest score there can be, or else that there was."""
    binary = (0.0, 1.0) if np.isin(scores, (0.0, 1.0)).all() else None
    return goal.limits(metric) or binary or (float(scores.min()), float(scores.max()))
