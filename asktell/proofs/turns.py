"""The order in which the scores of an arm are read by a proof: its turns, and its rounds with repeats."""

from collections.abc import Iterable

import numpy as np

from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.cells import Scored, nth_asks
from asktell.numerics.shapes import Float, Int
from asktell.problem.problem import Problem
from asktell.record import Failures, History, Pull

# A trial id after all others, for evaluations without an id.
_LATEST = 2**62


def turns(
    problem: Problem,
    missing: Failures,
    trials: Int[Ints, " rows"],
    arms: Int[Ints, " rows"],
    examples: Int[Ints, " rows"],
) -> Int[Ints, " rows"]:
    """The turn of each row of scores in the order of all evaluations of its arm. Each row must have an example.

    If a cell was asked for several times, its first score or failure counts in the
    first round, its second in the second round, and so on. Without rounds, all have the
    place of the example.
    """
    place = problem.examples.place[examples]
    if problem.examples.repeats == 1:
        return place
    n_examples = len(problem.examples.order)
    real = missing.pulls.examples() >= 0
    failed = missing.pulls.arms()[real] * n_examples + missing.pulls.examples()[real]
    cells = np.concatenate((arms * n_examples + examples, failed))
    nth = nth_asks(np.concatenate((trials, missing.pulls.trials()[real])), cells)[
        : len(place)
    ]
    return np.asarray(nth * n_examples + place)


def in_turns(
    problem: Problem,
    missing: Failures,
    trials: Int[Ints, " rows"],
    arms: Int[Ints, " rows"],
    examples: Int[Ints, " rows"],
    scores: Float[Floats, "rows columns"],
    before: int | None = None,
) -> tuple[Int[Ints, " chosen"], Int[Ints, " chosen"], Float[Floats, "chosen columns"]]:
    """Arms, turns and scores, sorted by arm and turn, of the rows with an example and a turn before `before`.

    Several scores of a cell count once, with their mean, unless there are rounds.
    """
    known = np.flatnonzero(examples >= 0)
    at = turns(problem, missing, trials[known], arms[known], examples[known])
    if before is not None:
        known, at = known[at < before], at[at < before]
    arms, scores = arms[known], scores[known]
    if problem.examples.repeats == 1:
        cells = Scored.of(arms, at, scores, len(problem.examples.order))
        return cells.arms, cells.examples, cells.scores
    order = np.lexsort((at, arms))
    return arms[order], at[order], scores[order]


def in_rounds(
    problem: Problem,
    trials: Int[Ints, " rows"],
    arms: Int[Ints, " rows"],
    examples: Int[Ints, " rows"],
    scores: Float[Floats, "rows columns"],
) -> list[
    tuple[Int[Ints, " cells"], Int[Ints, " cells"], Float[Floats, "cells columns"]]
]:
    """Arms, places and mean scores of the first evaluation of every cell, of the first two, and so on.

    Sorted by arm and place. The list has at most `repeats` items, since further repeats
    serve another purpose. The rows must be in the order of recording. A row of NaN is
    an evaluation in progress. Later evaluations of its cell do not count until its
    score is recorded, because a score may be late because of its value.
    """
    known = np.flatnonzero(examples >= 0)
    trials, arms, scores = trials[known], arms[known], scores[known]
    places = problem.examples.place[examples[known]]
    # An evaluation from elsewhere has no trial. It follows all trials that were
    # assigned before it.
    when = np.where(trials >= 0, 2 * trials, 2 * np.maximum.accumulate(trials) + 1)
    cells = arms * len(problem.examples.order) + places
    order = np.lexsort((when, cells))
    cells, scores = cells[order], scores[order]
    starts = np.flatnonzero(np.diff(cells, prepend=-1))
    n_scores, sums, found = (
        np.diff(starts, append=len(cells)),
        np.zeros((len(starts), scores.shape[1])),
        [],
    )
    for number in range(min(problem.examples.repeats, int(n_scores.max(initial=0)))):
        long_enough = n_scores > number
        starts, n_scores, sums = (
            starts[long_enough],
            n_scores[long_enough],
            sums[long_enough],
        )
        sums = sums + scores[starts + number]
        whole = ~np.isnan(sums).any(axis=1)
        own_arms, own_places = np.divmod(
            cells[starts[whole]], len(problem.examples.order)
        )
        found.append((own_arms, own_places, sums[whole] / (number + 1)))
    return found


def turns_out(
    problem: Problem, history: History, missing: Failures, out: Iterable[Pull]
) -> list[int]:
    """The turns of the evaluations in progress (`out`) that have an example, in the order of all evaluations."""
    numbers = [
        [_LATEST if p.trial is None else p.trial, p.arm, p.example]
        for p in out
        if p.example is not None
    ]
    rows = np.array(numbers, dtype=np.int64).reshape(-1, 3)
    if problem.examples.repeats > 1:
        told = np.column_stack((history.trials(), history.arms(), history.examples()))
        rows = np.concatenate((told[told[:, 2] >= 0], rows))
    trials, arms, examples = rows.T
    return [
        int(turn)
        for turn in turns(problem, missing, trials, arms, examples)[
            len(rows) - len(numbers) :
        ]
    ]
