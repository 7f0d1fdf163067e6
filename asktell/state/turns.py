"""Scores in the order of all pulls of an arm: example by example as the shared order says, and round by round."""

from collections.abc import Iterable

import numpy as np

from asktell.numerics.arrays import Indices, Matrix
from asktell.numerics.cells import Scored, nth_asks
from asktell.state.history import Failures, History
from asktell.state.problem import Problem
from asktell.state.queue import Pull

_LATEST = 2**62


def turns(problem: Problem, missing: Failures, trials: Indices, arms: Indices, examples: Indices) -> Indices:
    """(n,) where each row of scores, of which each has an example, stands in the order of all pulls of its arm.

    Of a cell that was asked several times the first score or failure stands in the first round, the second in the
    second, and so on; without rounds they all stand at the example's place.
    """
    place = problem.place[examples]
    if problem.repeats == 1:
        return place
    n_examples = len(problem.order)
    real = missing.examples() >= 0
    failed = missing.arms()[real] * n_examples + missing.examples()[real]
    cells = np.concatenate((arms * n_examples + examples, failed))
    nth = nth_asks(np.concatenate((trials, missing.trials()[real])), cells)[: len(place)]
    return np.asarray(nth * n_examples + place)


def in_turns(
    problem: Problem,
    missing: Failures,
    trials: Indices,
    arms: Indices,
    examples: Indices,
    scores: Matrix,
    before: int | None = None,
) -> tuple[Indices, Indices, Matrix]:
    """Arms, turns and scores by arm and turn, of the rows that have an example and a turn before the one given.

    Several scores of a cell count once, with their mean, unless there are rounds.
    """
    known = np.flatnonzero(examples >= 0)
    at = turns(problem, missing, trials[known], arms[known], examples[known])
    if before is not None:
        known, at = known[at < before], at[at < before]
    arms, scores = arms[known], scores[known]
    if problem.repeats == 1:
        cells = Scored.of(arms, at, scores, len(problem.order))
        return cells.arms, cells.examples, cells.scores
    order = np.lexsort((at, arms))
    return arms[order], at[order], scores[order]


def turns_out(problem: Problem, history: History, missing: Failures, out: Iterable[Pull]) -> list[int]:
    """Where pulls that are out, those of them that have an example, stand in the order of all pulls."""
    numbers = [[_LATEST if p.trial is None else p.trial, p.arm, p.example] for p in out if p.example is not None]
    rows = np.array(numbers, dtype=np.int64).reshape(-1, 3)
    if problem.repeats > 1:
        told = np.column_stack((history.trials(), history.arms(), history.examples()))
        rows = np.concatenate((told[told[:, 2] >= 0], rows))
    trials, arms, examples = rows.T
    return [int(turn) for turn in turns(problem, missing, trials, arms, examples)[len(rows) - len(numbers) :]]
