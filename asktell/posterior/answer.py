"""The selected prompts: those of the highest expected quality by the posterior's draws."""

import numpy as np

from asktell.numerics.arrays import Counts, Draws, Indices, Masks, Matrix
from asktell.posterior import membership
from asktell.problem.goals import BestFeasible, Goal

_LIKELY = 0.5  # probability that some prompt is feasible, from which infeasible prompts are not selected
_ERRORS = 2.0  # Monte Carlo errors of an expected quality: prompts that differ by less are equals


def selected(values: Draws, kept: Masks, goal: Goal, seed: int, arms: Indices, counts: Counts) -> list[int]:
    """The arm, or for a Pareto set the arms, to select if nothing more is evaluated.

    `values` (S, K, q) are draws of the goal's values, `kept` (K, constraints) the arms that kept a bound at an end of
    the scale in every score, `arms` those that may be selected in the order that decides among equals, and `counts`
    (K,) their evaluations. Of equally good arms, the one evaluated most is selected.
    """
    if not len(arms):
        return []
    if isinstance(goal, BestFeasible):
        return [_best(membership.quality(values[:, arms]), arms, counts)]
    values, n_objectives = values[:, arms], len(goal.objectives)
    slack = membership.least_slack(values, n_objectives)
    if (slack >= 0).any(axis=1).mean() < _LIKELY and kept[arms].any():
        # Bounds at an end of the scale count as kept by arms that always kept them.
        values = values.copy()
        slacks = values[:, :, n_objectives:]
        slacks[(slacks < 0) & kept[arms]] = 0.0
        slack = membership.least_slack(values, n_objectives)
    if (slack >= 0).any(axis=1).mean() < _LIKELY:
        return [_best(membership.quality(np.minimum(slack, 0.0)[:, :, None]), arms, counts)]
    members = membership.pareto_members(membership.standing(values, n_objectives))
    return [int(arm) for arm in arms[membership.best_set(values, members, seed, n_objectives)]]


def _best(quality: Matrix, arms: Indices, counts: Counts) -> int:
    """The arm of the highest mean of (S, A) qualities.

    Of arms whose means differ by no more than the draws' noise, it is the one that was evaluated most.
    """
    expected = quality.mean(axis=0)
    first = int(expected.argmax())
    behind = quality[:, [first]] - quality
    noise = behind.std(axis=0) / np.sqrt(len(quality))
    equals = np.flatnonzero(behind.mean(axis=0) <= _ERRORS * noise)
    return int(arms[equals[counts[arms[equals]].argmax()]])
