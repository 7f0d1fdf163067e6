"""Checks of what the parts of an elimination method return: shapes, whole numbers, finite means.

A wrong row would select a wrong prompt without a word. So every value of a part is
checked before it is used, whether the part is asktell's or a user's. The contracts in
`asktell.testing` make the same checks.
"""

from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from asktell.errors import IncompatibleMethodError
from asktell.methods.rounds.allocators import PullsToShare
from asktell.methods.rounds.estimators import Estimates, Sample
from asktell.methods.rounds.rules import Judgement
from asktell.methods.rounds.schedulers import Round
from asktell.numerics.arrays import Ints
from asktell.numerics.shapes import Int
from asktell.problem.checks import as_integer
from asktell.problem.words import short


def _refuse(part: object, method: str, came: str, expected: str) -> NoReturn:
    """Raise the error for a wrong value that a method of a part returned."""
    raise IncompatibleMethodError(
        f"{type(part).__name__}.{method} {came}. Expected {expected}. Correct the method {method}. The contracts in "
        "asktell.testing test it."
    )


def checked_rounds(
    scheduler: object, rounds: Any, n_arms: int, budget: int
) -> tuple[Round, ...]:
    """Return the rounds of a scheduler: whole numbers, within the budget, each keeping 1 to `n_arms` arms.

    Raises:
        IncompatibleMethodError: they are something else.
    """
    expected = (
        f"a sequence of Round(pulls, keep) in order, with whole numbers. The evaluations of all rounds sum to at most "
        f"the budget of {budget:,}, a round keeps 1 to {n_arms:,} arms, and no more than the round before it"
    )
    if not isinstance(rounds, Iterable):
        _refuse(scheduler, "rounds", f"returned {short(rounds)}", expected)
    planned: list[Round] = []
    n_left = n_arms
    for number, round_ in enumerate(rounds, start=1):
        is_pair = isinstance(round_, tuple) and len(round_) == 2
        pulls, keep = map(as_integer, round_) if is_pair else (None, None)
        if pulls is None or keep is None or pulls < 0 or not 1 <= keep <= n_left:
            _refuse(
                scheduler,
                "rounds",
                f"returned {short(round_)} as round {number}",
                expected,
            )
        planned.append(Round(pulls, keep))
        n_left = keep
    if (total := sum(plan.pulls for plan in planned)) > budget:
        _refuse(
            scheduler, "rounds", f"returned rounds with {total:,} evaluations", expected
        )
    return tuple(planned)


def checked_counts(
    allocator: object, counts: Any, pulls: PullsToShare
) -> Int[Ints, " active"]:
    """Return the evaluations of the active arms: whole numbers within the capacities, with the wanted sum.

    Raises:
        IncompatibleMethodError: they are something else.
    """
    n_active = len(pulls.capacity)
    total = min(pulls.n_pulls, int(pulls.capacity.sum()))
    expected = (
        f"a whole number for each of the {n_active:,} active arms, from 0 to its capacity, with the sum "
        f"{total:,}"
    )
    shares = _whole_numbers(counts)
    if shares is None or shares.shape != (n_active,):
        _refuse(allocator, "allocate", f"returned {_shown(counts)}", expected)
    if (shares < 0).any() or (shares > pulls.capacity).any():
        _refuse(allocator, "allocate", f"returned {_shown(counts)}", expected)
    if int(shares.sum()) != total:
        _refuse(
            allocator,
            "allocate",
            f"returned numbers that sum to {shares.sum()}",
            expected,
        )
    return shares


def checked_estimates(estimator: object, estimates: Any, sample: Sample) -> Estimates:
    """Return the estimates of the active arms: a row for each of them, with a finite mean of each metric.

    Raises:
        IncompatibleMethodError: they are something else. A row for every arm, also for
            those that were eliminated, is the usual mistake.
    """
    shape = (len(sample.active), sample.tally.sums.shape[1])
    expected = (
        f"Estimates(means, standard_errors), each with the shape {shape}: a row for each arm in sample.active, in this "
        "order, and a column for each metric. Use [sample.active] to take the rows of these arms from an array of "
        "all arms. Means are finite, and a standard error is at least 0, or NaN if it is unknown"
    )
    if not isinstance(estimates, tuple) or len(estimates) != len(Estimates._fields):
        _refuse(estimator, "estimate", f"returned {_shown(estimates)}", expected)
    columns: list[npt.NDArray[np.float64]] = []
    for name, values in zip(Estimates._fields, estimates, strict=True):
        array = _numbers(values)
        if array is None or array.shape != shape:
            _refuse(
                estimator, "estimate", f"returned {_shown(values)} as {name}", expected
            )
        columns.append(array)
    means, errors = columns
    # Without any score of these arms, there is nothing to estimate
    has_scores = bool(sample.tally.counts[sample.active].any())
    if has_scores and not np.isfinite(means).all():
        _refuse(estimator, "estimate", f"returned the means {_shown(means)}", expected)
    if (errors < 0).any() or np.isinf(errors).any():
        _refuse(
            estimator,
            "estimate",
            f"returned the standard errors {_shown(errors)}",
            expected,
        )
    return Estimates(means, errors)


def checked_judgement(rule: object, judgement: Any, n_active: int) -> Judgement:
    """Return the judgement of a rule: an order of all active arms, and a bool and a number for each of them.

    Raises:
        IncompatibleMethodError: it is something else.
    """
    expected = (
        f"Judgement(order, accepted, measure): the positions 0 to {n_active - 1}, each once, in the order of "
        f"elimination, then {n_active} of True or False, and {n_active} numbers"
    )
    if not isinstance(judgement, tuple) or len(judgement) != len(Judgement._fields):
        _refuse(rule, "judge", f"returned {_shown(judgement)}", expected)
    order, accepted, measure = judgement
    positions, is_accepted = _whole_numbers(order), np.asarray(accepted)
    numbers = _numbers(measure)
    if positions is None or sorted(positions.ravel().tolist()) != [*range(n_active)]:
        _refuse(rule, "judge", f"returned {_shown(order)} as order", expected)
    if is_accepted.dtype != np.bool_ or is_accepted.shape != (n_active,):
        _refuse(rule, "judge", f"returned {_shown(accepted)} as accepted", expected)
    if numbers is None or numbers.shape != (n_active,):
        _refuse(rule, "judge", f"returned {_shown(measure)} as measure", expected)
    # A copy, since the method changes it
    return Judgement(positions, is_accepted.copy(), numbers)


def checked_selected(
    rule: object, positions: Any, n_active: int
) -> Int[Ints, " selected"]:
    """Return the positions of the arms that a rule selects: at least one of the active arms, each at most once.

    Raises:
        IncompatibleMethodError: they are something else.
    """
    chosen = _whole_numbers(positions)
    is_right = (
        chosen is not None
        and chosen.ndim == 1
        and len(set(chosen.tolist())) == len(chosen)
        and ((chosen >= 0) & (chosen < n_active)).all()
        and (len(chosen) > 0 or n_active == 0)
    )
    if chosen is None or not is_right:
        _refuse(
            rule,
            "answer",
            f"returned {_shown(positions)}",
            f"at least one position of an active arm, from 0 to {n_active - 1}, each at most once",
        )
    return chosen


def _numbers(values: Any) -> npt.NDArray[np.float64] | None:
    """The values as floats. None if they are no real numbers."""
    try:
        array = np.asarray(values)
        return array.astype(np.float64) if array.dtype.kind in "biuf" else None
    except (TypeError, ValueError):
        return None


def _whole_numbers(values: Any) -> npt.NDArray[np.int64] | None:
    """The values as whole numbers. None if one of them is not whole."""
    array = _numbers(values)
    if array is None or not np.isfinite(array).all() or (array % 1 != 0).any():
        return None
    return array.astype(np.int64)


def _shown(values: Any) -> str:
    """Values for a message: an array by its shape, anything else as text."""
    shape = getattr(values, "shape", None)
    return short(values) if shape is None else f"{short(values)} of the shape {shape}"
