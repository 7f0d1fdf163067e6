"""What statements of certainty rest on, and whether it holds: the premises of a result, in one list."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

import numpy as np

from asktell._util.terminal import safe
from asktell.methods.belief import drift
from asktell.state import State
from asktell.state.history import Repeated, repeated

CheckName: TypeAlias = Literal["range", "noise", "order", "failures", "drift", "labels", "examples"]

ORDER = "order"
"""The topic of a remark that says why scores may be missing because of what they would have been."""

_UNSEEN = 3.0  # the rule of three: what n examples did not show is at most 3 / n of all, with a probability of 95 %
_FEW = 30  # examples: errors and intervals of fewer are rough


@final
@dataclass(frozen=True)
class Check:
    """One premise of what a result states: its `name`, whether it holds, and a sentence that says what was found.

    `ok` is True if it holds, False if it does not, and None if nobody can tell from what is known.
    """

    name: CheckName
    ok: bool | None
    sentence: str


def checks(state: State, failures: str = "") -> tuple[Check, ...]:
    """All checks of a state; `failures` is the sentence about them, empty where there are none."""
    again = repeated(state.problem, state.history)
    return (
        _range(state),
        _noise(state, again),
        _order(state),
        _failures(state, failures),
        _drift(state, again),
        _labels(state),
        _examples(state),
    )


def warnings(found: tuple[Check, ...]) -> Iterator[str]:
    """The sentences of those that do not hold."""
    return (check.sentence for check in found if check.ok is False)


def n_seen(state: State) -> int:
    """How many examples were evaluated; of prompts that draw their own, how many draws the one with most has."""
    examples = state.history.examples()
    if state.problem.n_examples is None:
        return int(state.told.max(initial=0))
    return len(np.unique(examples[examples >= 0]))


def unseen_part(n: int, population: int | None) -> float:
    """Which part of all examples may be unlike the n that were seen: the rule of three, and no more than are left."""
    part = min(1.0, _UNSEEN / max(1, n))
    return part if population is None else min(part, 1.0 - n / population)


def _range(state: State) -> Check:
    goal = state.problem.goal
    unknown = [metric for metric in goal.columns if metric not in goal.ranges and goal.limits(metric) is None]
    if not unknown:
        return Check("range", True, "The range of every metric is declared.")
    names = ", ".join(f'"{safe(metric)}"' for metric in unknown)
    part = 100.0 * unseen_part(n_seen(state), state.problem.target)
    return Check(
        "range",
        None,
        f"The range of {names} is not declared, so proofs about {'it' if len(unknown) == 1 else 'them'} are "
        f"approximate: about {part:.2g} % of the examples may still score unlike those seen.",
    )


def _noise(state: State, again: Repeated) -> Check:
    problem = state.problem
    soon, changed = again.times - again.late, again.changed - again.late_changed
    counts = [f"{changed} of {soon} soon"] if soon else []
    counts += [f"{again.late_changed} of {again.late} late"] if again.late else []
    if again.changed:
        found = f"Evaluations differ when repeated: {', '.join(counts)}."
    elif again.times:
        found = f"{again.times} of {again.times} repeated evaluations agreed."
    else:
        found = "No evaluation was repeated."
    if problem.target is None:
        counted = "Each example counts once, and noise is part of its score, so statements do not depend on this."
        return Check("noise", True, f"{found} {counted}")
    if problem.repeats > 1:
        return Check(
            "noise", True, f"{found} Several evaluations of an example are averaged, and noise is allowed for."
        )
    if again.changed:
        return Check(
            "noise", False, f"{found} So scores count as noisy; `repeats` above 1 averages several evaluations."
        )
    if not state.seen.is_noisy:
        said = "" if again.times else " They were declared to give the same scores (`repeats=1`)."
        return Check("noise", True, found + said)
    unknown = "Whether scores would differ is not known, and noise is allowed for."
    return Check("noise", None, f"{found} {unknown}")


def _order(state: State) -> Check:
    problem = state.problem
    if state.was_widened:
        joined = "Prompts or examples joined after scores had been seen."
        return Check(
            "order", None, f"{joined} If they were made or chosen by those scores, they look better than they are."
        )
    if (remark := state.remarks.get(ORDER)) is not None:
        return Check("order", None, remark.text)
    if problem.population is not None:
        return Check("order", True, "Proofs rest on the first examples of a random order, which depends on no score.")
    if problem.n_examples is None:
        return Check("order", True, "Every evaluation is on an example that the evaluator drew anew.")
    drawn = f"Every evaluation draws one of the {problem.n_examples} examples, which may come again."
    return Check("order", None, f"{drawn} So intervals are about these examples, and not about new inputs.")


def _failures(state: State, said: str) -> Check:
    if not state.failures:
        return Check("failures", True, "No evaluation failed.")
    if not state.missing:
        return Check("failures", True, said)
    return Check("failures", False, said)


def _drift(state: State, again: Repeated) -> Check:
    """By evaluations that were repeated late where there are enough of them, else by the residuals over time."""
    if not again.tells_drift:
        return _drift_of_residuals(state)
    times = f"{again.late} evaluations were repeated late"
    if again.has_drifted:
        means = again.moved.mean(axis=0)
        columns = state.problem.goal.columns
        moved = [f"; {safe(columns[j])} moved by {means[j]:+.2g}" for j in np.flatnonzero(means)]
        found = f"{again.late_changed} of {again.late} evaluations that were repeated late differ{''.join(moved)}."
        return Check("drift", False, f"{found} {_CHANGED}")
    if again.late_changed:
        found = f"{again.late_changed} of {again.late} evaluations that were repeated late differ"
        return Check("drift", None, f"{found}: by noise, or because what is evaluated has changed.")
    return Check("drift", True, f"{times}, without a sign that anything changed during the run.")


_CHANGED = "What is evaluated seems to have changed during the run."


def _drift_of_residuals(state: State) -> Check:
    found = drift(state)
    if not found.steps:
        return Check("drift", None, "A change of what is evaluated during the run could not be seen.")
    if not found.is_found:
        sentence = f"The scores of {found.n} evaluations, in their order, show no sign of a change during the run."
        return Check("drift", True, sentence)
    metric, step = max(found.steps.items(), key=lambda each: abs(each[1].errors))
    moved = f"{safe(metric)} moved by {step.shift:+.2g} after about {step.after:.0%} of the evaluations"
    return Check("drift", False, f"{moved}, by the same prompts and examples. {_CHANGED}")


def _labels(state: State) -> Check:
    if state.doubts:
        return Check("labels", False, " ".join(state.doubts))
    of_metrics = [state.remarks[topic].text for topic in sorted(state.remarks) if topic in state.problem.goal.metrics]
    if of_metrics:
        return Check("labels", True, " ".join(of_metrics))
    return Check("labels", None, "The scores were not compared with the judgement of people.")


def _examples(state: State) -> Check:
    n, problem = n_seen(state), state.problem
    were = "1 example was evaluated" if n == 1 else f"{n} examples were evaluated"
    if problem.target is not None:
        return Check("examples", True, f"Statements are about exactly the {problem.target} given examples; {were}.")
    if n < _FEW:
        few = f"Only {were}: what is stated of so few is rough."
        return Check("examples", False if state.finished else None, few)
    alike = "if several stem from one document, user or conversation, less is known than it seems"
    return Check("examples", True, f"{were[0].upper()}{were[1:]}. They count as independent: {alike}.")
