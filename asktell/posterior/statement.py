"""The posterior of every prompt's means, on which results base estimates, selections and comparisons.

The mean is the expected score on a new input that is evaluated once, or the mean over
the given examples (`Problem.inputs`). Each metric has the two-way model, score = level
+ prompt + example + residual (`asktell.posterior.two_way`), averaged over the
uncertainty of its variances.

Scores of 0 and 1 leave the link open. The effects may add up in the probability itself,
as in the two-way model, or in its log odds, as in the model of right and wrong answers
(`asktell.posterior.rasch`). On simulated and recorded tables each model errs where the
other does not. So half of the draws come from each (`python -m
benchmarks.selection.worlds`). As long as all scores are 0, or all are 1, they carry no
information on a spread of probabilities, and all draws come from the model of log odds.
Where candidates have factors, or there are more than 300 of them, all draws come from
the two-way model. It has effects of factors, and its equations stay small.

The prior of a constrained metric's level is concentrated near the bound, since people
set a bound near the values that they expect. The prior's width was chosen for the least
Brier score of P(feasible) on recorded tables.
"""

from typing import NamedTuple, TypeAlias

import numpy as np

from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.shapes import Bool, Float, Int
from asktell.posterior.draws import Joint, Model, joint
from asktell.posterior.equations import ENDLESS
from asktell.posterior.rasch import Rasch
from asktell.posterior.segments import SegmentMeans, segment_means
from asktell.posterior.two_way import Cells, Posterior
from asktell.problem.goals import Goal

Rng: TypeAlias = np.random.Generator

_DRAWS = 512  # a probability then has a standard error of 0.02
# Most arms in the model of log odds: their abilities take a tenth of a second
_MOST_ARMS = 300
# Share of the draws from the model of log odds, where scores are 0 and 1
_LOG_ODDS = 0.5
# The examples' share of a score's variance: 0.4 to 0.75 on recorded tables
_OF_EXAMPLES = 0.5
# The prior of a level: normal around the bound with this deviation, in units of the
# scores' range, and with this probability. Otherwise the level may be anywhere.
_NEAR, _NEAR_WEIGHT = 0.03, 0.8
_LEAST_NEAR = 0.1  # least part of that deviation, for bounds within 0.25% of an end


class Statement(NamedTuple):
    """Joint draws of all prompts' means and of the goal's values, and estimates."""

    values: Float[Floats, "draws arms values"]  # the goal's values, larger is better
    # The columns' means in metric units, then those of the goal's subsets
    columns: Float[Floats, "columns draws arms"]
    means: Float[Floats, "arms columns"]
    # Standard deviations, NaN where the scores do not support one
    errors: Float[Floats, "arms columns"]
    # True for arms that satisfied a bound at an end of the scale with every score
    kept: Bool[Bools, "arms constraints"]
    example: Float[Floats, " columns"]  # variances of the example effect
    residual: Float[Floats, " columns"]  # variances of the residual
    n_seen: int  # number of distinct examples
    # True after a single evaluation, which supports no error and no probability
    is_guess: bool
    fits: list[Posterior]  # (c,) posteriors of the two-way model
    in_segments: SegmentMeans | None = None  # for every column


def statement(model: Model) -> Statement:
    """Draw from the posterior of the recorded cells, and estimate every prompt's means."""
    cells, goal = model.cells, model.goal
    # The same scores give the same draws, whatever was drawn before.
    rng = np.random.default_rng([model.seed & 0xFFFFFFFFFFFFFFFF, model.n_rows])
    in_log_odds = {
        j: _log_odds(model, j, rng)
        for j in range(len(goal.columns))
        if _suits_log_odds(model, j)
    }
    found = joint(model, _DRAWS, True, in_log_odds)
    means, errors = found.means.copy(), found.errors.copy()
    for j in in_log_odds:
        # Where one example supports no error, the model of log odds adds none.
        known = np.isfinite(errors[:, j])
        # Draws of the two-way model may leave the range
        shares = np.clip(found.columns[j], 0.0, 1.0)
        means[:, j] = shares.mean(axis=0)
        low, high = np.quantile(shares, (0.025, 0.975), axis=0)
        # With few unseen cells, nearly all draws may agree, and the quantiles with
        # them.
        widths = np.where(high > low, (high - low) / (2 * 1.96), shares.std(axis=0))
        errors[known, j] = widths[known]
    # Over the given examples, draws include the scores that are not known yet.
    if model.n_examples is None or model.n_examples >= ENDLESS:
        _hold_kept(found, model, list(in_log_odds), rng)
    variances = np.array([fit.variances for fit in found.fits])
    for j, (_, p) in in_log_odds.items():
        # Averaged over the two models, as the draws are. Scores that agree so far need
        # not agree on the next example.
        part = len(p) / len(found.columns[j])
        own = (p * (1.0 - p)).mean() * np.array([_OF_EXAMPLES, 1.0 - _OF_EXAMPLES])
        variances[j, 1:] = part * own + (1.0 - part) * variances[j, 1:]
    # The prior of the levels comes last: it weighs the draws, and changes none.
    chosen = _resampled(found.values, cells, goal)
    # A relative bound has no level of its own, so it moves no mean.
    bounded = sorted({bound.column for bound in goal.bounds if bound.of is None})
    means[:, bounded] += _moved(found.columns[bounded], chosen)
    return Statement(
        values=found.values[chosen],
        columns=found.columns[:, chosen],
        means=means,
        errors=errors,
        kept=found.kept,
        example=variances[:, 1],
        residual=variances[:, 2],
        n_seen=cells.n_examples_seen,
        is_guess=len(cells.of_column(0).arms) < 2,
        fits=found.fits,
        in_segments=segment_means(
            cells, model.n_arms, model.segments, model.n_examples
        ),
    )


def _suits_log_odds(model: Model, j: int) -> bool:
    """True if the scores of a column are 0 or 1, and the model of log odds can be used for it."""
    has_factors = model.basis is not None and model.basis.blocks is not None
    own = model.cells.of_column(j)
    if (
        has_factors
        or model.proxies is not None
        or model.n_arms > _MOST_ARMS
        or model.shapes[j] is not None
        or own.noisy is not None
    ):
        return False
    is_in_range = model.goal.limits(model.goal.columns[j]) in (None, (0.0, 1.0))
    return is_in_range and bool(np.isin(own.scores[:, j], (0.0, 1.0)).all())


def _log_odds(
    model: Model, j: int, rng: Rng
) -> tuple[Int[Ints, " chosen"], Float[Floats, "draws arms"]]:
    """The numbers of a column's draws that come from the model of log odds, and these draws (S, K)."""
    own = model.cells.of_column(j)
    scores = own.scores[:, j]
    n_draws = model.n_draws(_DRAWS)
    n_own = n_draws if (scores == scores[0]).all() else round(_LOG_ODDS * n_draws)
    n_examples = (
        None
        if model.n_examples is None or model.n_examples >= ENDLESS
        else model.n_examples
    )
    centre = next(
        (
            b.bound
            for b in model.goal.bounds
            if b.column == j and b.of is None and 0.0 < b.bound < 1.0
        ),
        None,
    )
    abilities = Rasch(own.arms, own.examples, scores, model.n_arms, n_examples, centre)
    return rng.permutation(n_draws)[:n_own], abilities.draws(n_own, rng)


def _hold_kept(found: Joint, model: Model, of_shares: list[int], rng: Rng) -> None:
    """Let arms that always satisfied a bound at an end of the scale satisfy it, in some draws over new inputs.

    `of_shares` are the columns with draws from the model of log odds. `found.values` is
    changed in place.

    These are as many draws as the probability that none of as many new scores violates
    the bound. Over the given examples this is not needed, since draws include the
    scores on the examples not seen yet.
    """
    goal, counts = model.goal, np.bincount(model.cells.arms, minlength=model.n_arms)
    for k, bound in enumerate(goal.bounds):
        kept = found.kept[:, k]
        if bound.column in of_shares and kept.any():
            share = np.clip(found.columns[bound.column], 0.0, 1.0)
            keeps = (1.0 - share if bound.at_most else share) ** counts
            column = found.values[:, :, len(goal.objectives) + k]
            column[kept & (rng.random(column.shape) < keeps)] = 0.0


def _resampled(
    values: Float[Floats, "draws arms values"], cells: Cells, goal: Goal
) -> Int[Ints, " draws"]:
    """Resample the draws by the prior of the levels: (S,) numbers of draws, likely draws repeatedly.

    A bound at an end of the scale, such as all responses being valid, carries no
    information on the level.
    """
    n = len(values)
    weights = np.ones(n)
    for k, bound in enumerate(goal.bounds, len(goal.objectives)):
        low, high = _ends(
            goal,
            goal.columns[bound.column],
            cells.of_column(bound.column).scores[:, bound.column],
        )
        if low < high and bound.of is None and bound.bound not in (low, high):
            # The distance shrinks towards the ends, as the standard deviation of a
            # share does: people require a failure rate of 1% where rates are about 1%.
            part = min(1.0, max(0.0, (bound.bound - low) / (high - low)))
            near = _NEAR * max(2.0 * np.sqrt(part * (1.0 - part)), _LEAST_NEAR)
            off = values[:, :, k].mean(axis=1) / (near * (high - low))
            weights *= (
                _NEAR_WEIGHT * np.exp(-0.5 * off**2) / (near * np.sqrt(2.0 * np.pi))
                + 1.0
                - _NEAR_WEIGHT
            )
    if np.ptp(weights) == 0.0:
        return np.arange(n)
    # Systematic resampling: no random numbers, and each draw comes at least as often as
    # the whole part of its expected number.
    ends = np.cumsum(weights) / weights.sum()
    return np.minimum(np.searchsorted(ends, (np.arange(n) + 0.5) / n), n - 1)


def _moved(
    columns: Float[Floats, "columns draws arms"], likely: Int[Ints, " likely"]
) -> Float[Floats, "arms columns"]:
    """The distance of the mean of the likely draws from the mean of all draws (c, S, K) of bounded columns.

    Only the common level of the prompts decides which draws are likely, so each prompt
    moves as far as it does with the level. Its own draws would add noise.
    """
    levels = columns.mean(axis=2, keepdims=True)
    off = levels - levels.mean(axis=1, keepdims=True)
    variance = (off**2).mean(axis=1)  # (c, 1)
    slopes = (off * (columns - columns.mean(axis=1, keepdims=True))).mean(
        axis=1
    ) / np.maximum(variance, 1e-300)
    return np.asarray((slopes * off[:, likely].mean(axis=1)).T)


def _ends(
    goal: Goal, metric: str, scores: Float[Floats, " cells"]
) -> tuple[float, float]:
    """The lowest and the highest possible score, or the recorded ones if the range is unknown."""
    binary = (0.0, 1.0) if np.isin(scores, (0.0, 1.0)).all() else None
    return goal.limits(metric) or binary or (float(scores.min()), float(scores.max()))
