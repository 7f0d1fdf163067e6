"""Reconstructs the improvement loop's generations from the study's log.

The name of each request to add prompts says everything that the loop has decided by then: so it needs no file of its
own, and goes on after a kill as if nothing had happened.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from asktell import BestFeasible, PromptResult, Result
from asktell.extend import Evaluation, State, events
from asktell_adapters.optimizers.briefs import FailedExample

_KEY = re.compile(r"improve (\d{1,9}) of ((?:\d{1,9}(?:,\d{1,9})*)?); (better|no better): (.*)")
_LONGEST = 200  # characters of a request's name
MOST_PARENTS = 20
"""So that a request's name has room for them."""


class Verdict(NamedTuple):
    """Says if a generation was an improvement, and why."""

    better: bool
    why: str


class Begun(NamedTuple):
    """A generation that was begun.

    `first` is its first arm, `parents` are the arms of its parents, best first, `before` the verdict on the generation
    before it; `spent` and `cost` are those at its beginning; `paid` says whether its budget was added.
    """

    number: int
    first: int
    parents: tuple[int, ...] = ()
    before: Verdict | None = None
    spent: int = 0
    cost: float = 0.0
    paid: bool = True


def key_of(number: int, parents: Sequence[int], before: Verdict) -> str:
    """The name of the request that adds a generation's prompts."""
    word = "better" if before.better else "no better"
    key = f"improve {number} of {','.join(map(str, parents))}; {word}: {before.why}"
    return "".join(char if char.isprintable() else "?" for char in key)[:_LONGEST]  # ids may have anything


def key_of_budget(number: int) -> str:
    """The name of the request that adds its budget."""
    return f"improve {number}: budget"


def read(state: State) -> list[Begun]:
    """The generations so far; prompts that joined otherwise count to the one in which they did."""
    found, n_arms = [Begun(0, 0)], state.origin.n_arms
    for grown in state.growth:
        event = grown.event
        if isinstance(event, events.Added):
            match = _KEY.fullmatch(event.key or "")
            parents = tuple(int(arm) for arm in match[2].split(",") if arm) if match else ()
            # Somebody else's request may have such a name; its parents were not there.
            if match and int(match[1]) == len(found) and all(arm < n_arms for arm in parents):
                before = Verdict(match[3] == "better", match[4])
                found.append(Begun(len(found), n_arms, parents, before, grown.spent, grown.cost, False))
            n_arms += len(event.texts)
        elif isinstance(event, events.Extended) and event.key == key_of_budget(found[-1].number):
            found[-1] = found[-1]._replace(paid=True)
    return found


def ranked(result: Result, entries: Iterable[PromptResult]) -> list[PromptResult]:
    """Those that are in the race and of which something is known, best first.

    The answer comes first, then feasible ones, those that may be the answer, and those with the better estimates.
    """
    place = {entry.id: i for i, entry in enumerate(result.selected)}
    open_ = {entry.id for entry in result.unresolved}

    def order(entry: PromptResult) -> tuple[float, ...]:
        means = np.array([[entry.estimate[name] for name in result.goal.columns]], dtype=float)
        values = result.goal.values(means)[0]
        n = len(result.goal.objectives)
        misses = entry.feasible is False
        level, violation = values[:n].mean(), -np.minimum(values[n:], 0).sum() if misses else 0.0
        first = place.get(entry.id, len(place))
        return (first, misses, violation, entry.id not in open_, -(entry.p_best or 0.0), -level)

    known = [
        entry
        for entry in entries
        if entry.status not in ("failed", "retired") and entry.pulls and None not in entry.estimate.values()
    ]
    return sorted(known, key=order)


def judge(result: Result, newest: Begun, certainty: float) -> Verdict:
    """Decide if the newest generation, which has ended, was an improvement."""
    if not newest.number:
        return Verdict(True, "the first generation")
    if not result.selected:
        return Verdict(False, "there is no answer")
    young = {entry.id for entry in result.prompts[newest.first :]}
    new = [entry for entry in result.selected if entry.id in young]
    if not isinstance(result.goal, BestFeasible):
        names = ", ".join(str(entry.id) for entry in new[:5]) + (", ..." if len(new) > 5 else "")
        return Verdict(bool(new), f"new in the Pareto set: {names}" if new else "none of it is in the Pareto set")
    answer = result.selected[0]
    earlier = ranked(result, result.prompts[: newest.first])
    if answer.id not in young:
        rivals = ranked(result, result.prompts[newest.first :])
        if not rivals:
            return Verdict(False, f"{answer.id} is still the answer, and nothing is known of its rivals")
        return Verdict(False, f"{answer.id} is still the answer: {_sentence(result, rivals[0], answer)}")
    if not earlier:
        return Verdict(True, f"{answer.id} is the first prompt of which anything is known")
    rival = earlier[0]
    if rival.feasible is False and answer.feasible is not False:
        return Verdict(True, f"{answer.id} keeps every constraint, {rival.id} does not")
    p_better = result.compare(answer, rival).differences[result.goal.objective.metric].p_better
    return Verdict(p_better >= certainty, _sentence(result, answer, rival))


def _sentence(result: Result, a: PromptResult, b: PromptResult) -> str:
    metric = result.goal.objectives[0].metric
    return result.compare(a, b).sentence(metric)


def failures_of(
    result: Result, best: PromptResult, evaluations: Iterable[Evaluation], examples: Sequence[Any] | None, most: int
) -> tuple[FailedExample, ...]:
    """The examples on which a prompt scores worst, worst first; none on which it scores as well as it ever does."""
    goal, n = result.goal, len(result.goal.objectives)
    known = {e.example: e for e in evaluations if e.prompt == best.id and e.scores and e.example is not None}
    if not known:
        return ()
    found = list(known.values())
    values = goal.values(goal.complete(np.array([[(e.scores or {})[name] for name in goal.metrics] for e in found])))
    if best.feasible is not False:
        values = values[:, :n]
    values[:, n:] = np.minimum(values[:, n:], 0.0)
    width = np.ptp(values, axis=0)
    level = ((values - values.max(axis=0)) / np.where(width > 0, width, 1.0)).mean(axis=1)
    worst = [int(i) for i in np.argsort(level, kind="stable") if level[i] < 0 or not width.any()]
    return tuple(
        FailedExample(
            e.example or 0,
            e.example_id,
            {name: (e.scores or {})[name] for name in goal.metrics},
            e.answer,
            None if examples is None else examples[e.example or 0],
        )
        for e in (found[i] for i in worst[:most])
    )
