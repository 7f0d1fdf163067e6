"""What a statement of certainty takes for granted, and the one place that says so."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from asktell.goals import Goal
from asktell.state import Problem
from asktell.state.repeated import Repeated
from asktell.terminal import safe

_UNSEEN = 3.0  # the rule of three: what n examples did not show is at most 3 / n of all, with a probability of 95 %


class Premises(NamedTuple):
    """Whether a statement is guaranteed, and under which conditions: "unless ... or ...", empty without any."""

    guaranteed: bool
    unless: str


def premises(
    problem: Problem,
    repeated: Repeated,
    n_seen: int,
    *,
    in_order: bool = True,
    failures: bool = False,
    widened: bool = False,
) -> Premises:
    """The premises of a statement that rests on the scores of `n_seen` examples.

    Args:
        problem: of the selection.
        repeated: what is known of repeated evaluations.
        n_seen: how many examples the statement rests on.
        in_order: whether the examples were taken in an order that does not depend on scores.
        failures: whether evaluations are missing because they failed.
        widened: whether prompts or examples joined that may have been chosen for what was seen before.
    """
    noisy = problem.is_noisy  # known beforehand, and allowed for
    exact = n_seen == problem.exhausted_at
    broken = list(_broken(problem, n_seen, exact, in_order, failures, widened))
    differs = bool(repeated.changed) and (not noisy or repeated.has_drifted)
    if differs and repeated.late_changed:  # of noise alone the intervals know by now
        clauses = [*broken, "what is evaluated has changed during the run"]
    else:
        clauses = broken if noisy or differs else [*broken, _repeatable(repeated)]
    # Whoever repeats evaluations does not know whether they can be: a few that agree leave room for some that do not.
    guaranteed = not broken and not differs and (noisy or not repeated.times)
    return Premises(guaranteed, f"unless {', or '.join(clauses)}" if clauses else "")


def _broken(problem: Problem, n_seen: int, exact: bool, in_order: bool, failures: bool, widened: bool) -> Iterator[str]:
    if not exact and not in_order:
        yield "the examples that were not evaluated behave unlike those that were"
    elif not exact and not _ranges_are_known(problem.goal):
        yield unlike(n_seen, problem.population)
    if failures:
        yield "evaluations that failed would have scored unlike the others"
    if widened:
        yield "prompts or examples that joined on the way were chosen for the scores seen before"


def _repeatable(repeated: Repeated) -> str:
    agreed = f" ({repeated.times} of {repeated.times} repeated evaluations agreed)" if repeated.times else ""
    return f"evaluations differ when repeated{agreed}"


def differ(problem: Problem, repeated: Repeated) -> bool:
    """Whether evaluations differ when repeated, where they should not, or by more than noise."""
    return bool(repeated.changed) and (problem.repeats == 1 or repeated.has_drifted)


def of_repeats(problem: Problem, repeated: Repeated) -> Iterator[str]:
    """What repeated evaluations have shown, in sentences; nothing where they agree."""
    if not differ(problem, repeated):
        return
    counts = [f"{repeated.late_changed} of {repeated.late} late"] if repeated.late else []
    if soon := repeated.times - repeated.late:
        counts.insert(0, f"{repeated.changed - repeated.late_changed} of {soon} soon")
    means = repeated.moved.mean(axis=0) if repeated.late else np.zeros(0)
    moved = [f"{safe(problem.goal.metrics[j])} moved by {means[j]:+.2g} late" for j in np.flatnonzero(means)]
    found = f"Evaluations differ when repeated: {', '.join(counts + moved)}."
    if repeated.has_drifted:
        yield f"{found} What is evaluated seems to have changed during the run."
        return
    other = "" if repeated.changed > repeated.late_changed else " Or what is evaluated has changed during the run."
    yield f"{found} So scores count as noisy; `repeats` above 1 averages several evaluations of an example.{other}"


def unlike(n_seen: int, population: int | None) -> str:
    """How many examples may still surprise, where nothing bounds what they may score: the rule of three."""
    share = min(1.0, _UNSEEN / max(1, n_seen))
    if population is not None:
        share = min(share, 1.0 - n_seen / population)
    return f"more than about {100 * share:.2g} % of the examples behave unlike those seen"


def _ranges_are_known(goal: Goal) -> bool:
    return all(metric in goal.ranges for metric in goal.metrics)
