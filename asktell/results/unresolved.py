"""Which prompts could not be told apart from the answer.

Differences are taken on common examples where examples are shared. A difference counts as resolved when it is more
than `_DEVIATIONS` standard errors from zero: each comparison by itself is wrong in about 5 % of cases.
"""

from typing import NamedTuple

import numpy as np

from asktell.goals import BestFeasible
from asktell.numerics.arrays import Counts, Indices, Means, Values
from asktell.numerics.cells import Scored
from asktell.state import Problem, State, Tally

_DEVIATIONS = 1.96
_MEMBERS = 128  # of a Pareto set, at most, that the others are held against
_ROUNDING = 1e-12
_PRIOR_FREEDOM = 4  # degrees of freedom that the pooled variance is worth against an arm's own


def _levelled(scores: Means, examples: Indices, problem: Problem) -> Means:
    """The scores, less what earlier studies say that their examples are off the mean one: by that they were chosen."""
    real = examples >= 0
    for j, shape in enumerate(problem.shapes):
        if shape is not None:
            scores[real, j] -= shape.shift[examples[real]]
    return scores


class _Differences(NamedTuple):
    """Per arm (K,), and per column (K, q): number of pairs, mean difference, half-width of its interval."""

    counts: Counts
    means: Means
    widths: Means


def unresolved(state: State, answer: list[int]) -> Indices:
    """Arms outside the answer that might belong to it for all that is known, ascending.

    For the best feasible prompt: arms neither clearly infeasible nor clearly worse than the answer. For a Pareto
    set: arms that are not clearly infeasible and that no feasible member of the answer clearly dominates; of a large
    one, 128 are looked at, spread over it. Arms that were never pulled count as unresolved.
    """
    problem = state.problem
    rivals = np.ones(problem.n_arms, dtype=bool)
    rivals[answer] = False
    rivals[state.no_rivals()] = False
    if not answer or not len(state.history):
        return np.flatnonzero(rivals)
    arms, examples = state.history.arms(), state.history.examples()
    values = problem.goal.values(_levelled(state.history.scores(), examples, problem))
    noise, outside = None, None
    if problem.population is not None and (problem.is_noisy or len(arms) > state.spent):
        cells = Scored.of(arms, examples, values, problem.population)
        arms, examples, values = cells.arms, cells.examples, cells.scores
        outside = np.bincount(arms[examples < 0], minlength=problem.n_arms)
        if problem.is_noisy or cells.disagree:
            pooled = np.nan_to_num(Tally.empty(problem.n_arms, values.shape[1]).plus(arms, values).pooled_variance)
            noise = cells.noise_of_means(pooled, problem.n_arms)
    level = _against_zero(problem.n_arms, problem.population, arms, values, noise, outside)
    resolved = np.zeros(problem.n_arms, dtype=bool)
    p = len(problem.goal.objectives)
    slacks = level.means[answer, p:].min(axis=1, initial=0.0)
    slacks[slacks > -_ROUNDING] = 0.0
    slack_to_keep = float(slacks.max())  # 0 if a member of the answer is feasible
    resolved |= (level.means + level.widths < slack_to_keep)[:, p:].any(axis=1)
    if isinstance(problem.goal, BestFeasible):
        if slack_to_keep == 0.0:
            ahead = _against(answer[0], state, arms, examples, values, level, noise)
            resolved |= ahead.means[:, 0] - ahead.widths[:, 0] > 0
    else:
        answer = [arm for arm, slack in zip(answer, slacks.tolist(), strict=True) if slack == 0.0]
        spread = np.linspace(0, len(answer) - 1, min(len(answer), _MEMBERS)).round().astype(np.int64)
        for member in (answer[i] for i in spread):
            if not (rivals & ~resolved).any():
                break
            ahead = _against(member, state, arms, examples, values, level, noise)
            surely = (ahead.means - ahead.widths)[:, :p]
            resolved |= (surely >= 0).all(axis=1) & (surely > 0).any(axis=1)
    return np.flatnonzero(rivals & ~resolved)


def _against(
    member: int,
    state: State,
    arms: Indices,
    examples: Indices,
    values: Values,
    level: _Differences,
    noise: Values | None,
) -> _Differences:
    """How far `member` is ahead of every arm."""
    problem = state.problem
    if problem.population is None:
        counts = level.counts[member] * level.counts // np.maximum(1, level.counts[member] + level.counts)
        widths = np.sqrt(level.widths[member] ** 2 + level.widths**2)
        return _Differences(counts, level.means[member] - level.means, widths)
    own = (arms == member) & (examples >= 0)
    reference = np.full((problem.population, values.shape[1]), np.nan)
    reference[examples[own]] = values[own]
    paired = examples >= 0
    paired[paired] = ~np.isnan(reference[examples[paired], 0])
    ahead = reference[examples[paired]] - values[paired]
    of_both = None if noise is None else noise + noise[member]
    return _against_zero(problem.n_arms, problem.population, arms[paired], ahead, of_both)


def _against_zero(
    n_arms: int,
    population: int | None,
    arms: Indices,
    rows: Values,
    noise: Values | None = None,
    outside: Counts | None = None,
) -> _Differences:
    """`noise` (K, q): the variance of an arm's rows that is noise, which seeing every example does not end.

    `outside` (K,): how many of an arm's rows are of none of the examples; see `asktell.state.Tally`.
    """
    counts = np.bincount(arms, minlength=n_arms)
    n = np.maximum(counts, 1)[:, None]
    means = np.stack([np.bincount(arms, column, minlength=n_arms) for column in rows.T], axis=1) / n
    deviations = (rows - means[arms]) ** 2
    squares = np.stack([np.bincount(arms, column, minlength=n_arms) for column in deviations.T], axis=1)
    freedom = np.maximum(counts - 1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        pooled = squares.sum(axis=0) / freedom.sum()
        variance = (squares + _PRIOR_FREEDOM * pooled) / (freedom + _PRIOR_FREEDOM)[:, None]
        widths = _DEVIATIONS * np.sqrt(variance / n)
    if population is not None:
        apart = np.zeros_like(counts) if outside is None else outside
        left = np.clip(1 - (counts - apart) / (population + apart), 0.0, None)
        widths *= np.sqrt(left)[:, None]
        widths[left == 0.0] = 0.0
        if noise is not None:
            widths = np.hypot(widths, _DEVIATIONS * np.sqrt(noise / population))
    widths[(counts == 0) | np.isnan(widths).any(axis=1)] = np.inf
    return _Differences(counts, means, widths)
