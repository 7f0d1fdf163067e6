"""The premises of the statements in a result, and whether each premise holds."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

import numpy as np

from asktell._util.terminal import safe
from asktell.posterior.of_state import drift
from asktell.record import State
from asktell.record.repeated import Repeated
from asktell.results.labels import agreements

CheckName: TypeAlias = Literal[
    "range", "noise", "order", "failures", "drift", "labels", "examples"
]

ORDER = "order"
"""The topic of a remark on why scores may be missing because of their values."""

# The rule of three (Hanley & Lippman-Hand 1983): an event that did not occur in n examples
# has a rate of at most 3 / n with 95% confidence, because (1 - 3 / n)^n is about 0.05.
_UNSEEN = 3.0
_FEW = 30  # examples: with fewer, errors and intervals are rough


@final
@dataclass(frozen=True)
class Check:
    """One premise of the probabilities and intervals in a result, and whether it holds.

    A result has one check for each premise.

        >>> import asktell
        >>> scores = [[1, 1, 1, 0] * 5, [1, 0, 0, 0] * 5]
        >>> goal = asktell.BestFeasible(asktell.maximize("accuracy", range=(0, 1)))
        >>> for check in asktell.analyze(scores, goal).checks:
        ...     print(check.name, check.ok)
        range True
        noise True
        order True
        failures True
        drift None
        labels None
        examples False
        >>> print(check.sentence)
        Only 20 examples were evaluated, so estimates and probabilities are rough.

    Attributes:
        name: the premise. "range": the range of every metric is declared. "noise":
            repeated evaluations agree, or probabilities and intervals take the noise of
            scores into account. "order": the choice of examples does not depend on
            scores. "failures": no failed evaluation biases the estimates. "drift": the
            evaluated LLM did not change during the run. "labels": the scores agree with
            human judgments. With proxies, this premise is another one: no proxy changed
            during the run. Its `sentence` then shows how well each proxy agrees with
            the scores of the goal's metrics. "examples": there are enough examples.
        ok: True if the premise holds, False if it does not. None if this is unknown.
            Also None if the premise does not hold, but the intervals are still
            approximately right.
        sentence: what was found, in words.
    """

    name: CheckName
    ok: bool | None
    sentence: str


def checks(state: State, failures: str = "") -> tuple[Check, ...]:
    """All checks of a state. `failures`: the sentence about failed evaluations, empty without failures."""
    again = Repeated.of(state.problem, state.history)
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
    """The sentences of the checks that do not hold."""
    return (check.sentence for check in found if check.ok is False)


def n_seen(state: State) -> int:
    """The number of examples that were evaluated.

    If evaluators draw their own examples, the number of evaluations of the most
    evaluated prompt.
    """
    examples = state.history.examples()
    if state.problem.examples.n is None:
        return int(state.told.max(initial=0))
    return len(np.unique(examples[examples >= 0]))


def unseen_part(n: int, population: int | None) -> float:
    """The share of all examples that may be unlike the n evaluated examples, by the rule of three.

    It is at most the share of the examples that were not evaluated.
    """
    part = min(1.0, _UNSEEN / max(1, n))
    return part if population is None else min(part, 1.0 - n / population)


def _range(state: State) -> Check:
    """Without a range, a rare score could be arbitrarily far from the recorded scores."""
    goal = state.problem.goal
    unknown = [
        metric
        for metric in goal.columns
        if metric not in goal.ranges and goal.limits(metric) is None
    ]
    if not unknown:
        return Check("range", True, "The range of every metric is declared.")
    *others, last = [f'"{safe(metric)}"' for metric in unknown]
    names = f"{', '.join(others)} and {last}" if others else last
    # Two digits, and 100 instead of 1e+02
    part = float(
        f"{100.0 * unseen_part(n_seen(state), state.problem.examples.target):.2g}"
    )
    ranges_are, pronoun = (
        ("range of {} is", "it") if len(unknown) == 1 else ("ranges of {} are", "them")
    )
    return Check(
        "range",
        None,
        f"The {ranges_are.format(names)} not declared, so confidence statements about {pronoun} are approximate. "
        f"Up to about {part:g}% of the examples may have scores unlike the recorded scores.",
    )


def _noise(state: State, again: Repeated) -> Check:
    """Compare evaluations of the same prompt on the same example."""
    problem = state.problem
    soon, changed = again.times - again.late, again.changed - again.late_changed
    counts = [f"{changed} of {soon} soon after the first evaluation"] if soon else []
    counts += [f"{again.late_changed} of {again.late} much later"] if again.late else []
    if again.changed:
        repeats = f"Repeated evaluations differ ({', '.join(counts)})."
    elif again.times:
        repeats = f"{again.times} of {again.times} repeated evaluations agree."
    else:
        repeats = "No evaluation was repeated."
    if problem.examples.target is None:
        counted = "Statements include the noise of every score, so they hold whether or not repeated evaluations agree."
        return Check("noise", True, f"{repeats} {counted}")
    if problem.examples.repeats > 1:
        return Check(
            "noise",
            True,
            f"{repeats} Several evaluations of an example are averaged, and the statements include noise.",
        )
    if again.changed:
        return Check(
            "noise",
            False,
            f"{repeats} The scores count as noisy. Set `repeats` above 1 to average several evaluations.",
        )
    if not state.seen.examples.is_noisy:
        declared = (
            ""
            if again.times
            else " Scores were declared to be free of noise (`repeats=1`)."
        )
        return Check("noise", True, repeats + declared)
    unknown = (
        "It is not known whether scores would differ, so the statements include noise."
    )
    return Check("noise", None, f"{repeats} {unknown}")


def _order(state: State) -> Check:
    """The choice of the examples must not depend on scores."""
    problem = state.problem
    if state.growth.has_widened:
        added = "Prompts or examples were added after the first scores."
        return Check(
            "order",
            None,
            f"{added} If those scores were used to write or choose them, they look better than they are.",
        )
    if (remark := state.remarks.get(ORDER)) is not None:
        return Check("order", None, remark.text)
    if problem.looks_once:
        return Check(
            "order",
            True,
            "Every prompt has a score on every example. Intervals are for one look at this finished table.",
        )
    if problem.examples.population is not None:
        return Check(
            "order",
            True,
            "Confidence statements use the first examples of a random order, which does not depend on scores.",
        )
    if problem.examples.n is None:
        return Check(
            "order", True, "The evaluator drew a new example for every evaluation."
        )
    drawn = f"Every evaluation draws one of the {problem.examples.n} examples, with replacement."
    return Check(
        "order",
        None,
        f"{drawn} Intervals are therefore about these examples and not about new inputs.",
    )


def _failures(state: State, said: str) -> Check:
    """Failed evaluations bias the estimates if they are left out, because they may be the hard examples."""
    if not state.failures:
        return Check("failures", True, "No evaluation failed.")
    if not state.missing:
        return Check("failures", True, said)
    return Check("failures", False, said)


def _drift(state: State, again: Repeated) -> Check:
    """Use the evaluations that were repeated late if there are enough, and otherwise the residuals over time."""
    if not again.tells_drift or state.problem.looks_once:
        return _drift_of_residuals(state)
    if again.has_drifted:
        means = again.moved.mean(axis=0)
        columns = state.problem.goal.columns
        moved = [
            f", {safe(columns[j])} {means[j]:+.2g} on average"
            for j in np.flatnonzero(means)
        ]
        late = f"{again.late_changed} of {again.late} evaluations repeated late differ{''.join(moved)}."
        return Check("drift", False, f"{_CHANGED} {late}")
    if again.late_changed:
        late = f"{again.late_changed} of {again.late} evaluations repeated late differ"
        return Check(
            "drift",
            None,
            f"{late}. Either the scores are noisy, or the model, a judge or a rater has changed.",
        )
    return Check(
        "drift",
        True,
        f"{again.late} evaluations were repeated late and show no sign of a change during the run.",
    )


# An LLM responds, but another LLM or a person may have given the scores.
_CHANGED = "The scores seem to have changed during the run. The cause may be the model, a judge or a rater."


def _drift_of_residuals(state: State) -> Check:
    """Look for a step in the residuals of the model, in the order of the evaluations."""
    residuals = drift(state)
    if not residuals.steps:
        return Check(
            "drift",
            None,
            "It was not possible to check whether the scores changed during the run.",
        )
    if not residuals.is_found:
        sentence = f"The scores of {residuals.n} evaluations show no sign of a change during the run."
        return Check("drift", True, sentence)
    metric, step = max(residuals.steps.items(), key=lambda each: abs(each[1].errors))
    moved = f"{safe(metric)} moved by {step.shift:+.2g} after about {step.after:.0%} of the evaluations"
    return Check(
        "drift", False, f"{_CHANGED} For the same prompts and examples, {moved}."
    )


def _labels(state: State) -> Check:
    """Whether the scores agree with human judgments, by cells that have both, or by a remark of the user."""
    if state.remarks.doubts:
        return Check("labels", False, " ".join(state.remarks.doubts))
    remarks = [
        state.remarks[topic].text
        for topic in sorted(state.remarks)
        if topic in state.problem.goal.metrics
    ]
    compared = [agreement for agreement in agreements(state) if agreement.cells]
    if compared:
        text = " ".join([*(agreement.sentence for agreement in compared), *remarks])
        if any(agreement.change is not None for agreement in compared):
            return Check("labels", False, text)
        is_checked = any(agreement.is_checked for agreement in compared)
        return Check("labels", True if is_checked else None, text)
    if remarks:
        return Check("labels", True, " ".join(remarks))
    return Check("labels", None, "The scores were not compared with human judgments.")


def _examples(state: State) -> Check:
    """Errors and intervals need enough examples, and independent ones."""
    n, problem = n_seen(state), state.problem
    were = "1 example was evaluated" if n == 1 else f"{n} examples were evaluated"
    if problem.examples.target is not None:
        return Check(
            "examples",
            True,
            f"Statements are about exactly the {problem.examples.target} given examples. So far {were}.",
        )
    if n < _FEW:
        few = f"Only {were}, so estimates and probabilities are rough."
        return Check("examples", False if state.finished else None, few)
    alike = "If several come from one document, user or conversation, the errors are larger than stated"
    return Check(
        "examples",
        True,
        f"{were[0].upper()}{were[1:]}. They count as independent. {alike}.",
    )
