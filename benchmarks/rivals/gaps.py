"""The leader by the means, and how far every prompt is from the lead: what rules for one metric need with constraints.

Rules such as LUCB and track-and-stop are published for the best mean of one metric.
With constraints, a feasible prompt has to gain its distance in the objective before it
is the answer; an infeasible one what it misses, too, so that the larger of the two
counts. If nobody is feasible, the lead is the largest slack.
"""

import numpy as np

from asktell.problem.goals import Goal
from benchmarks.rivals.pool import Array, Pool


def leads(pool: Pool, goal: Goal) -> tuple[int, Array]:
    """The leader, and (K,) the gap of every prompt to it, in pooled standard deviations of a score; its own is 0.

    A prompt that was never pulled is endlessly far behind.
    """
    zero = np.zeros((1, len(pool.deviation)))
    # Of objective and slacks
    deviations = np.abs(goal.values(zero + pool.deviation) - goal.values(zero))
    units = np.nan_to_num(goal.values(pool.means) / deviations, nan=-np.inf)
    objective, slack = units[:, 0], units[:, 1:].min(axis=1, initial=np.inf)
    if not (slack >= 0).any():
        leader = int(slack.argmax())
        return leader, slack[leader] - slack
    leader = int(np.where(slack >= 0, objective, -np.inf).argmax())
    gap = np.maximum(objective[leader] - objective, -slack).clip(min=0.0)
    gap[leader] = 0.0
    return leader, gap
