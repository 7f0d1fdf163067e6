"""How many examples `not_worse` takes until it decides: its own rule, on scores that were made up."""

from typing import NamedTuple

import numpy as np

from asktell.methods.certainty import Evidence
from asktell.numerics.arrays import Counts, Mask, Matrix
from asktell.state import Problem

_STEP = 1.05  # from one look to the next; a real selection looks more often and may decide a little earlier


class Decisions(NamedTuple):
    """When the rule decided, and how, in each of R selections; where neither mask is set it did not.

    `examples`: (R,) the number that both prompts had seen by then, or at the end. `passed`: (R,) the candidate was
    certainly not worse by more than the margin. `failed`: (R,) it certainly was.
    """

    examples: Counts
    passed: Mask
    failed: Mask


def when_decided(
    problem: Problem, differences: Matrix, margin: float, confidence: float, n_claims: int = 1
) -> Decisions:
    """Let the rule of `not_worse` look at selections of a candidate and a baseline as they go on.

    `differences` (R, n) are candidate minus baseline in one objective, larger is better, in units of the metric's
    range, as the margin is, and in the order in which the problem's examples are taken. `n_claims`: how many objectives
    and constraints are looked at, which share the error of a failure.
    """
    n_rows, most = differences.shape
    examples, passed, failed = np.full(n_rows, most), np.zeros(n_rows, dtype=bool), np.zeros(n_rows, dtype=bool)
    error, open_, n = 1 - confidence, np.arange(n_rows), 1
    while len(open_) and n <= most:
        seen = differences[open_, :n]
        # What prompts have in common cancels.
        values = np.stack([np.maximum(seen, 0.0), np.maximum(-seen, 0.0)], axis=1).reshape(-1, 1)
        arms, places = 2 * np.arange(len(open_)), np.tile(np.arange(n), 2 * len(open_))
        starts = n * np.arange(2 * len(open_) + 1)
        counts = np.diff(starts)
        means = values.reshape(-1, n).mean(axis=1)[:, None]
        sure, surer = (
            Evidence(problem, level, ((0.0, 1.0),), counts, counts, means, starts, places, values)
            for level in (error, error / n_claims)
        )
        failed[open_] = surer.ahead(arms + 1, arms, 0, margin)
        passed[open_] = sure.ahead(arms, arms + 1, 0, -margin, or_equal=True) & ~failed[open_]
        decided = passed[open_] | failed[open_]
        examples[open_[decided]] = n
        open_ = open_[~decided]
        n = most if n < most < n * _STEP else max(n + 1, int(n * _STEP))
    return Decisions(examples, passed, failed)
