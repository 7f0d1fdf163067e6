"""Which evaluations a run on given examples repeats, to see whether scores differ when they are asked again.

Only a mean over exactly these examples depends on that: it is known exactly once all were evaluated, if scores do not
differ. On new inputs noise is part of a score, and nothing is repeated. The repeats come on top of the budget of
evaluations, and are observed: a fortieth of the evaluations soon after they were made, and as many of the first ones
when the run ends. Noise shows in both, a model that has changed in the latter.
"""

import numpy as np

from asktell.numerics import counters
from asktell.numerics.arrays import Indices
from asktell.state.history import repeated
from asktell.state.state import State

_FIRST = 16  # evaluations: fewer support no certainty that repeats could take away
_SHARE, _FEWEST, _MOST = 40, 2, 100
_PART = 5  # of a run, in which its first evaluations are, and its last ones by now


def n_repeats(spent: int) -> int:
    """How many are repeated by the time that so many evaluations of given examples were made, and the run ends."""
    return 2 * _early(spent)


def _early(spent: int) -> int:
    return 0 if spent < _FIRST else min(_MOST, max(_FEWEST, spent // _SHARE))


def to_repeat(state: State, done: int, late: bool) -> list[tuple[int, int]]:
    """The cells (arm, example) to evaluate again now, `late` if the run ends; `done` repeats are out or have failed."""
    problem, history = state.problem, state.history
    if problem.population is None or problem.target is None:
        return []
    if problem.repeats > 1 and not late:  # the examples are gone through again anyway
        return []
    so_far, wanted = repeated(problem, history), _early(state.spent)
    n = wanted - so_far.late if problem.repeats > 1 else (2 if late else 1) * wanted - so_far.times
    n -= done
    if n <= 0:
        return []
    n_examples = problem.population
    of_examples = history.examples() >= 0
    cells = (history.arms() * n_examples + history.examples())[of_examples]
    trials = history.trials()[of_examples]
    told = cells[(trials >= 0) & ~np.isin(trials, state.failures.pulls.trials())]
    few = max(_FIRST, len(told) // _PART)
    once = np.intersect1d(told[:few] if late else told[-few:], _alone(cells))
    once = once[~np.isin(once // n_examples, state.no_rivals())]
    chosen = once[np.argsort(counters.bits(problem.seed, "again", once), kind="stable")][:n]
    return [divmod(cell, n_examples) for cell in chosen.tolist() if state.fits(cell // n_examples)]


def _alone(cells: Indices) -> Indices:
    """The cells that are there once, ascending."""
    found, times = np.unique(cells, return_counts=True)
    return np.asarray(found[times == 1])
