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
Brier score of P(feasible) on recorded tables. A limit on a share, such as a failure
rate, may be stricter than the typical rate, so its prior is wider.
"""

from typing import NamedTuple, TypeAlias

import numpy as np

from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.cells import Cells
from asktell.numerics.shapes import Bool, Float, Int
from asktell.posterior.draws import Joint, Model, joint
from asktell.posterior.equations import ENDLESS
from asktell.posterior.rasch import Rasch
from asktell.posterior.segments import SegmentMeans, segment_means
from asktell.posterior.two_way import Posterior
from asktell.problem.goals import Goal

Rng: TypeAlias = np.random.Generator

# Of these, the prior of a level leaves about 60% distinct. With 2,048 draws, other random
# numbers change P(feasible) by 0.02, and with 512 by 0.046. Larger pools take fewer, down
# to 512 for 128 prompts, since a result should take less than a tenth of a second.
_DRAWS, _FEWER_DRAWS, _NUMBERS = 2048, 512, 1 << 16
_BINARY = (0.0, 1.0)
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
# The same for shares, such as a failure rate, in log odds: a limit is often half of the
# typical rate, or twice that
_NEAR_ODDS = 0.7
_LEAST_SHARE = 1e-4
# In standard deviations: beyond, a normal density is 0 in floats.
_FAR = 40.0


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
    # (K,) a number for each arm, the same for arms that the model cannot distinguish
    alike: Int[Ints, " arms"]
    # True after a single evaluation, which supports no error and no probability
    is_guess: bool
    fits: list[Posterior]  # (c,) posteriors of the two-way model
    in_segments: SegmentMeans | None = None  # for every column


def statement(model: Model) -> Statement:
    """Draw from the posterior of the recorded cells, and estimate every prompt's means."""
    # The same random numbers for every selection and every look: a statement depends on
    # the scores alone, and differs between two looks by their scores, not by chance.
    model = model._replace(seed=0, n_rows=0)
    cells, goal = model.cells, model.goal
    rng = np.random.default_rng(model.seed)
    in_log_odds, of_ends = {}, {}
    for j in range(len(goal.columns)):
        ends = _two_ends(model, j)
        if ends is not None:
            of_ends[j] = ends
            in_log_odds[j] = _log_odds(model, j, ends, rng)
    drawn = joint(model, _most_draws(model), True, in_log_odds)
    means, errors = drawn.means.copy(), drawn.errors.copy()
    for j in in_log_odds:
        # Where one example supports no error, the model of log odds adds none.
        is_known = np.isfinite(errors[:, j])
        # Draws of the two-way model may leave the range
        shares = np.clip(drawn.columns[j], *of_ends[j])
        means[:, j] = shares.mean(axis=0)
        low, high = np.quantile(shares, (0.025, 0.975), axis=0)
        # With few unseen cells, nearly all draws may agree, and the quantiles with
        # them.
        widths = np.where(high > low, (high - low) / (2 * 1.96), shares.std(axis=0))
        errors[is_known, j] = widths[is_known]
    values = drawn.values
    # Over the given examples, draws include the scores that are not known yet.
    if model.n_examples is None or model.n_examples >= ENDLESS:
        values = _with_kept(drawn, model, of_ends, rng)
    alike = _alike(model)
    # Equals have the same estimates, without the noise of the draws.
    means, errors = _mean_of_equals(means, alike), _mean_of_equals(errors, alike)
    variances = np.array([fit.variances for fit in drawn.fits])
    for j, (_, columns) in in_log_odds.items():
        # Averaged over the two models, as the draws are. Scores that agree so far need
        # not agree on the next example.
        part = len(columns) / len(drawn.columns[j])
        low_end, high_end = of_ends[j]
        spread = ((columns - low_end) * (high_end - columns)).mean() * np.array(
            [_OF_EXAMPLES, 1.0 - _OF_EXAMPLES]
        )
        variances[j, 1:] = part * spread + (1.0 - part) * variances[j, 1:]
    # The prior of the levels comes last: it weighs the draws, and changes none.
    chosen = _resampled(values, cells, goal)
    # A relative bound has no level of its own, so it moves no mean.
    bounded = sorted({bound.column for bound in goal.bounds if bound.of is None})
    means[:, bounded] += _moved(drawn.columns[bounded], chosen)
    in_segments = segment_means(cells, model.n_arms, model.segments, model.n_examples)
    if in_segments is not None and model.segments is not None:
        in_segments = in_segments.agreeing(means, model.segments.sizes)
    return Statement(
        values=values[chosen],
        columns=drawn.columns[:, chosen],
        means=means,
        errors=errors,
        kept=drawn.kept,
        example=variances[:, 1],
        residual=variances[:, 2],
        n_seen=cells.n_examples_seen,
        alike=alike,
        is_guess=len(cells.of_column(0).arms) < 2,
        fits=drawn.fits,
        in_segments=in_segments,
    )


def _alike(model: Model) -> Int[Ints, " arms"]:
    """Numbers of the arms, equal if their scores are the same, and no factors or proxies distinguish them."""
    if model.regressors is not None or model.proxies is not None:
        return np.arange(model.n_arms)
    return model.cells.alike(model.n_arms)


def _mean_of_equals(
    numbers: Float[Floats, "arms columns"], alike: Int[Ints, " arms"]
) -> Float[Floats, "arms columns"]:
    """Replace the numbers of arms that are alike by their mean."""
    sizes = np.bincount(alike)
    if sizes.max() == 1:
        return numbers
    sums = np.stack([np.bincount(alike, column) for column in numbers.T], axis=1)
    means = sums[alike] / sizes[alike][:, None]
    # A number that has no equal stays as it is, to the last digit.
    return np.where(sizes[alike][:, None] > 1, means, numbers)


def _most_draws(model: Model) -> int:
    return max(_FEWER_DRAWS, min(_DRAWS, _NUMBERS // model.n_arms))


def _two_ends(model: Model, j: int) -> tuple[float, float] | None:
    """The two values of a column's scores if the model of log odds can be used for it, else None.

    These are 0 and 1, or both ends of the declared range.
    """
    scored, name = model.cells.of_column(j), model.goal.columns[j]
    if (
        model.regressors is not None
        or model.proxies is not None
        or model.n_arms > _MOST_ARMS
        or model.shapes[j] is not None
        or scored.is_noisy
    ):
        return None
    scores, ends = scored.scores[:, j], model.goal.ranges.get(name)
    if model.goal.limits(name) in (None, _BINARY) and np.isin(scores, _BINARY).all():
        return _BINARY
    # Grades at one end of a range may have other values later.
    if ends is not None and np.isin(scores, ends).all() and np.ptp(scores) > 0.0:
        return ends
    return None


def _log_odds(
    model: Model, j: int, ends: tuple[float, float], rng: Rng
) -> tuple[Int[Ints, " chosen"], Float[Floats, "draws arms"]]:
    """The numbers of a column's draws that come from the model of log odds, and these draws (S, K)."""
    scored, (low, high) = model.cells.of_column(j), ends
    scores = (scored.scores[:, j] - low) / (high - low)
    n_draws = model.n_draws(_most_draws(model))
    n_own = n_draws if (scores == scores[0]).all() else round(_LOG_ODDS * n_draws)
    n_examples = (
        None
        if model.n_examples is None or model.n_examples >= ENDLESS
        else model.n_examples
    )
    centre = next(
        (
            (b.bound - low) / (high - low)
            for b in model.goal.bounds
            if b.column == j and b.of is None and low < b.bound < high
        ),
        None,
    )
    abilities = Rasch(
        scored.arms, scored.examples, scores, model.n_arms, n_examples, centre
    )
    drawn = low + (high - low) * abilities.draws(n_own, rng)
    return rng.permutation(n_draws)[:n_own], drawn


def _with_kept(
    drawn: Joint, model: Model, of_ends: dict[int, tuple[float, float]], rng: Rng
) -> Float[Floats, "draws arms values"]:
    """The values, where arms that always satisfied a bound at an end of the scale satisfy it, in some draws.

    `of_ends`: the two values of the scores of columns with draws from the model of log
    odds.

    These are as many draws as the probability that none of as many new scores violates
    the bound. Over the given examples this is not needed, since draws include the
    scores on the examples not seen yet.
    """
    goal, counts = model.goal, np.bincount(model.cells.arms, minlength=model.n_arms)
    values = drawn.values
    for k, bound in enumerate(goal.bounds):
        has_kept = drawn.kept[:, k]
        if bound.column in of_ends and has_kept.any():
            low, high = of_ends[bound.column]
            scores = np.clip(drawn.columns[bound.column], low, high)
            share = (scores - low) / (high - low)
            keeps = (1.0 - share if bound.at_most else share) ** counts
            is_kept = has_kept & (rng.random(keeps.shape) < keeps)
            if values is drawn.values:
                values = values.copy(order="K")
            values[:, :, len(goal.objectives) + k][is_kept] = 0.0
    return values


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
            slack = bound.scale * values[:, :, k].mean(axis=1)
            if goal.columns[bound.column] in goal.metrics:
                near = _near(bound.bound, low, high, slack)
            else:
                sign = -1.0 if bound.at_most else 1.0
                near = _near_share(bound.bound, bound.bound + sign * slack)
            weights *= _NEAR_WEIGHT * near + 1.0 - _NEAR_WEIGHT
    if np.ptp(weights) == 0.0:
        return np.arange(n)
    # Systematic resampling: no random numbers, and each draw comes at least as often as
    # the whole part of its expected number.
    ends = np.cumsum(weights) / weights.sum()
    return np.minimum(np.searchsorted(ends, (np.arange(n) + 0.5) / n), n - 1)


def _near(
    bound: float, low: float, high: float, slack: Float[Floats, " draws"]
) -> Float[Floats, " draws"]:
    """The density of a level near the bound, in units of the range from `low` to `high`.

    The deviation shrinks towards the ends, as that of a share does: people require a
    share of 99% where shares are about 99%.
    """
    part = min(1.0, max(0.0, (bound - low) / (high - low)))
    deviation = _NEAR * max(2.0 * np.sqrt(part * (1.0 - part)), _LEAST_NEAR)
    unit = deviation * (high - low)
    # Farther away, the density is 0, and a square could be too large for a float.
    off = np.clip(slack, -_FAR * unit, _FAR * unit) / unit
    return np.asarray(np.exp(-0.5 * off**2) / (deviation * np.sqrt(2.0 * np.pi)))


def _near_share(
    bound: float, level: Float[Floats, " draws"]
) -> Float[Floats, " draws"]:
    """The density of a level whose log odds are normal around those of the bound."""
    share = np.clip(level, _LEAST_SHARE, 1.0 - _LEAST_SHARE)
    odds, limit = share / (1.0 - share), bound / (1.0 - bound)
    off = np.log(odds / limit) / _NEAR_ODDS
    scale = _NEAR_ODDS * share * (1.0 - share) * np.sqrt(2.0 * np.pi)
    return np.asarray(np.exp(-0.5 * off**2) / scale)


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
