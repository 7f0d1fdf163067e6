"""The selected prompts, which have the highest expected quality by the posterior's draws."""

import numpy as np

from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.shapes import Bool, Float, Int
from asktell.posterior import membership
from asktell.problem.goals import BestFeasible, Goal

# If some prompt is feasible with at least this probability, infeasible prompts are not
# selected.
_LIKELY = 0.5
# Prompts whose expected qualities differ by fewer Monte Carlo errors are equals
_ERRORS = 2.0


def selected(
    values: Float[Floats, "draws arms values"],
    kept: Bool[Bools, "arms constraints"],
    goal: Goal,
    seed: int,
    arms: Int[Ints, " active"],
    counts: Int[Ints, " arms"],
    estimates: Float[Floats, " arms"],
    alike: Int[Ints, " arms"],
) -> list[int]:
    """The arm, or for a Pareto set the arms, to select if nothing more is evaluated.

    Among equally good arms, the arm with the most evaluations is selected. Among these,
    it is the arm with the best estimate, so that a table with as many scores of each
    arm never shows a better one.

    Args:
        values: (S, K, q) draws of the goal's values.
        kept: (K, constraints) true for arms that satisfied a bound at an end of the
            scale with every score.
        goal: The goal.
        seed: For the random points of the hypervolume.
        arms: The arms that may be selected, in the order that decides among equals.
        counts: (K,) numbers of evaluations.
        estimates: (K,) estimates of the first objective, larger is better.
        alike: (K,) numbers, the same for arms that the model cannot distinguish.
    """
    if not len(arms):
        return []
    if isinstance(goal, BestFeasible):
        quality = membership.quality(values[:, arms])
        return [_best(quality, arms, counts, estimates, alike)]
    values, n_objectives = values[:, arms], len(goal.objectives)
    slack = membership.least_slack(values, n_objectives)
    if (slack >= 0).any(axis=1).mean() < _LIKELY and kept[arms].any():
        # Arms that always satisfied a bound at an end of the scale count as satisfying
        # it.
        values = values.copy()
        slacks = values[:, :, n_objectives:]
        slacks[(slacks < 0) & kept[arms]] = 0.0
        slack = membership.least_slack(values, n_objectives)
    if (slack >= 0).any(axis=1).mean() < _LIKELY:
        quality = membership.quality(np.minimum(slack, 0.0)[:, :, None])
        return [_best(quality, arms, counts, estimates, alike)]
    members = membership.pareto_members(membership.standing(values, n_objectives))
    return [
        int(arm)
        for arm in arms[membership.best_set(values, members, seed, n_objectives)]
    ]


def _best(
    quality: Float[Floats, "draws active"],
    arms: Int[Ints, " active"],
    counts: Int[Ints, " arms"],
    estimates: Float[Floats, " arms"],
    alike: Int[Ints, " arms"],
) -> int:
    """The arm of the highest mean of (S, A) qualities.

    Among arms whose means differ by no more than the draws' noise, it is the arm with
    the most evaluations, and among these the arm with the best estimate. Arms that are
    alike have the same quality. The draws' noise is the same in every selection, so it
    would always prefer the same arm.
    """
    expected = quality.mean(axis=0)
    first = int(expected.argmax())
    behind = quality[:, [first]] - quality
    noise = behind.std(axis=0) / np.sqrt(len(quality))
    are_equal = behind.mean(axis=0) <= _ERRORS * noise
    equals = arms[are_equal | (alike[arms] == alike[arms[first]])]
    equals = equals[counts[equals] == counts[equals].max()]
    return int(equals[estimates[equals].argmax()])
