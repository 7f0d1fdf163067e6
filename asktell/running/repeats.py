"""Repeat some evaluations of a run on given examples, to measure whether scores differ when repeated.

A mean over exactly the given examples is known exactly after one evaluation of each,
unless scores are noisy. On new inputs, noise is part of a score, so no evaluation is
repeated. The repeats are not part of the budget, and are recorded as observations. A
fortieth of the evaluations is repeated soon, and as many of the first evaluations when
the run ends. Noise appears in both. A model that has changed appears only in the
latter.
"""

import numpy as np

from asktell.numerics import counters
from asktell.numerics.arrays import Ints
from asktell.numerics.shapes import Int
from asktell.record.repeated import Repeated
from asktell.record.state import State

# Evaluations before the first repeat. Fewer evaluations establish nothing that repeats
# could refute.
_FIRST = 16
# One repeat in so many evaluations, with the fewest and the most repeats of each kind.
_SHARE, _FEWEST, _MOST = 40, 2, 100
# The first and the last fifth of the evaluations so far are candidates for late and for
# early repeats.
_PART = 5


def n_repeats(spent: int) -> int:
    """The number of evaluations that `asktell.run` repeats with `inputs="given"`, if it ends after `spent` evaluations.

    Such a run repeats about one in 20 evaluations, to find out whether repeated scores
    differ. The repeats do not count against the budget. Their number is at least 4 and
    at most 200. It is 0 if `spent` is below 16. With `inputs="new"`, a run repeats no
    evaluation, so do not use this number.
    """
    return 2 * _early(spent)


def _early(spent: int) -> int:
    """The number of early repeats after `spent` evaluations."""
    return 0 if spent < _FIRST else min(_MOST, max(_FEWEST, spent // _SHARE))


def to_repeat(state: State, done: int, late: bool) -> list[tuple[int, int]]:
    """The cells (arm, example) to evaluate again now.

    `done` is the number of repeats in progress or failed. `late` is True when the run
    ends.
    """
    problem, history = state.problem, state.history
    if problem.examples.population is None or problem.examples.target is None:
        return []
    if problem.examples.repeats > 1 and not late:
        # All examples are evaluated again anyway.
        return []
    so_far, wanted = Repeated.of(problem, history), _early(state.spent)
    n = (
        wanted - so_far.late
        if problem.examples.repeats > 1
        else (2 if late else 1) * wanted - so_far.times
    )
    n -= done
    if n <= 0:
        return []
    n_examples = problem.examples.population
    of_examples = history.examples() >= 0
    cells = (history.arms() * n_examples + history.examples())[of_examples]
    trials = history.trials()[of_examples]
    of_trials = cells[(trials >= 0) & ~np.isin(trials, state.failures.pulls.trials())]
    few = max(_FIRST, len(of_trials) // _PART)
    once = np.intersect1d(of_trials[:few] if late else of_trials[-few:], _alone(cells))
    once = once[~np.isin(once // n_examples, state.left.no_rivals())]
    chosen = once[
        np.argsort(counters.bits(problem.seed, "again", once), kind="stable")
    ][:n]
    return [
        divmod(cell, n_examples)
        for cell in chosen.tolist()
        if state.fits(cell // n_examples)
    ]


def _alone(cells: Int[Ints, " rows"]) -> Int[Ints, " cells"]:
    """The cells that occur exactly once, ascending."""
    values, times = np.unique(cells, return_counts=True)
    return np.asarray(values[times == 1])
