"""`asktell gate` and `asktell compare`: is this prompt worse than that one?"""

import argparse
import contextlib
import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from asktell import (
    AsktellError,
    Comparison,
    EvaluatorError,
    InvalidArgumentError,
    ParetoSet,
    PromptResult,
    Result,
    Selector,
    run,
)
from asktell.extend import (
    Goal,
    State,
    at_state,
    describe_spending,
    in_words,
    not_worse,
    parse_goal,
    safe,
    write_atomically,
)
from asktell_adapters.cli.output import estimate_of, show
from asktell_adapters.cli.price import confirm
from asktell_adapters.cli.process import logging_to_stderr, signals
from asktell_adapters.metrics import range_of

if TYPE_CHECKING:
    from asktell_adapters.config import Config

PASSED, FAILED, UNDECIDED = "passed", "failed", "undecided"
_CODES = {PASSED: 0, FAILED: 1, UNDECIDED: 3}
_PATIENCE = 10  # failures in a row: then it is not the prompt's fault
_CANDIDATE, _BASELINE = 0, 1
_MOST_ROUNDS = 100

_OF_INTERVALS = (
    "The intervals hold on both sides and for all metrics at once; a verdict asks for one side, and may come sooner."
)


@dataclass
class Judge:
    """Decides if a candidate is worse than a baseline, from the scores of both on the same examples.

    A pass is wrong with probability 1 - confidence at most, and so is a failure, whenever one looks: for a wrong pass
    one thing that is false has to look certain, for a wrong failure any one of them may.
    """

    goal: Goal
    margin: float
    confidence: float
    verdicts: dict[str, str] = field(default_factory=dict)

    def look(self, state: State) -> str:
        """The verdict by now; `verdicts` has one for each thing that is asked of the candidate."""
        found = not_worse(state, _CANDIDATE, _BASELINE, self.margin, self.confidence)
        words = {True: PASSED, False: FAILED, None: UNDECIDED}
        self.verdicts = {self._asked(name): words[certain] for name, certain in found.items()}
        return FAILED if False in found.values() else UNDECIDED if None in found.values() else PASSED

    def _asked(self, name: str) -> str:
        if name not in {objective.metric for objective in self.goal.objectives}:
            return name  # a constraint
        return f"{name} not worse" + (f" by more than {self.margin:g}" if self.margin else "")


def gate(arguments: argparse.Namespace) -> int:
    """`asktell gate`; the exit code is the verdict."""
    with signals(), logging_to_stderr():
        return _gate(arguments)


def _gate(arguments: argparse.Namespace) -> int:
    from asktell_adapters.config import load_config

    if not 0 < arguments.confidence < 1:
        raise InvalidArgumentError(f"--confidence must be above 0 and below 1, got {arguments.confidence}.")
    if not 0 <= arguments.margin < math.inf:
        raise InvalidArgumentError(f"--margin must be a number of at least 0, got {arguments.margin}.")
    for path in (arguments.summary, arguments.junit):
        if path is not None and (path.is_dir() or not path.resolve().parent.is_dir()):
            raise InvalidArgumentError(f"{str(path)!r} cannot be written: give a file in a folder that exists.")
    config = load_config(arguments.config)
    baseline, candidate = _pair(config, arguments)
    judge = Judge(ranged(config.selector.goal, config.metrics), arguments.margin, arguments.confidence)
    try:
        verdict, result, remarks = _judge(config, judge, baseline, candidate, arguments)
    except AsktellError:
        raise
    except Exception as error:  # an exit code of 1 would say that the candidate is worse
        raise EvaluatorError(f"The gate could not be decided: {in_words(error)}") from error
    comparison = result.compare(result.prompts[_CANDIDATE], result.prompts[_BASELINE], arguments.confidence)
    if arguments.summary is not None:
        write_atomically(arguments.summary, _markdown(verdict, judge, comparison, result, remarks))
    if arguments.junit is not None:
        write_atomically(arguments.junit, _junit(verdict, judge, comparison))
    with contextlib.suppress(OSError, ValueError):  # if nobody reads it, the exit code still says what was found
        for name, each in judge.verdicts.items():
            show(f"{each:<9} {name}")
        for entry in result.prompts:
            if entry.status == "failed":
                show(f"{entry.id} {entry.reason}")
        for name in comparison.differences:
            show(f"{name}: {comparison.sentence(name)}")
        for remark in remarks:
            show(remark)
        if verdict != UNDECIDED:
            show(_OF_INTERVALS)
        show(
            f"{verdict.capitalize()} with {_certainty(verdict, judge, comparison)}; {describe_spending(result)} spent."
        )
    return _CODES[verdict]


def _certainty(verdict: str, judge: Judge, comparison: Comparison) -> str:
    unless = f" {comparison.unless}" if verdict != UNDECIDED and comparison.unless else ""
    return f"confidence {judge.confidence:g}{unless}"


def ranged(goal: Goal, metrics: Mapping[str, object]) -> Goal:
    """The goal with the ranges that metrics declare, where it names none: intervals need them to be guaranteed."""
    declared = {name: span for name in goal.metrics if (span := range_of(metrics.get(name))) is not None}
    return parse_goal(
        "pareto-set" if isinstance(goal, ParetoSet) else "best-feasible",
        [objective.metric for objective in goal.objectives if not objective.minimize],
        [objective.metric for objective in goal.objectives if objective.minimize],
        {bound.metric: bound.bound for bound in goal.constraints if not bound.at_most},
        {bound.metric: bound.bound for bound in goal.constraints if bound.at_most},
        {**declared, **goal.ranges},
    )


def _judge(
    config: "Config", judge: Judge, baseline: PromptResult, candidate: PromptResult, arguments: argparse.Namespace
) -> tuple[str, Result, list[str]]:
    """What `settle` says of two prompts of a configuration."""
    problem = config.selector.state.problem
    evaluator = config.harness or config.evaluator()
    n, repeats = len(config.examples), problem.repeats
    if not evaluator.repeatable:  # what the budget has beyond the examples goes to further rounds of them
        repeats = max(repeats, min(_MOST_ROUNDS, math.ceil(problem.budget / (2 * n))))
    selector = Selector(
        {str(candidate.id): candidate.prompt, str(baseline.id): baseline.prompt},
        judge.goal,
        max(2, min(2 * n * repeats, problem.budget)),
        "uniform",
        n,
        seed=problem.seed,
        on_failure=problem.on_failure,
        max_failure_rate=problem.max_failure_rate,
        baseline=str(baseline.id),
        repeats=repeats,
    )
    confirm(config, selector, evaluator, arguments.yes)
    progress = not arguments.no_progress and sys.stderr.isatty()
    return settle(judge, selector, evaluator, config.concurrency, progress, problem.max_cost)


def settle(
    judge: Judge,
    selector: Selector,
    evaluator: Any,
    concurrency: int | None = None,
    progress: bool = False,
    max_cost: float | None = None,
) -> tuple[str, Result, list[str]]:
    """Evaluate until the verdict is certain: the verdict, the result and its notes.

    `selector`: of the candidate and the baseline, in that order. Unless the evaluator is `repeatable`, scores count as
    noisy from the start: whatever a few repeats show, other evaluations may differ.
    """
    verdict = UNDECIDED
    if not getattr(evaluator, "repeatable", False) and selector.state.problem.repeats == 1:
        noisy = selector.state.problem.with_noise
        selector = at_state(selector, selector.state._replace(origin=noisy, problem=noisy))

    def is_enough(selector: Selector) -> bool:
        nonlocal verdict
        too_dear = max_cost is not None and selector.state.cost >= max_cost
        verdict = judge.look(selector.state)
        return too_dear or bool(selector.state.left) or verdict != UNDECIDED

    result = run(selector, evaluator, None, concurrency, progress, max_failures_in_a_row=_PATIENCE, until=is_enough)
    failed = [entry.reason for entry in result.prompts if entry.status == "failed"]
    if failed and not selector.spent:
        raise EvaluatorError(f"No evaluation succeeded: {failed[0]}")
    before = judge.verdicts
    judge.look(selector.state)
    if set(judge.verdicts.values()) == {UNDECIDED}:  # the last evaluations, repeats, have shown a drift
        return UNDECIDED, result, list(result.notes)
    judge.verdicts = before
    return verdict, result, list(result.notes)


def _pair(config: "Config", arguments: argparse.Namespace) -> tuple[PromptResult, PromptResult]:
    """Baseline and candidate."""
    prompts = {str(entry.id): entry for entry in config.selector.result().prompts}
    named: list[str] = []
    default = config.selector.result().baseline
    for name, given in (("--baseline", arguments.baseline or default), ("--candidate", arguments.candidate)):
        others = [id_ for id_ in prompts if id_ not in named]
        if given is None and name == "--candidate" and len(others) == 1:
            given = others[0]
        if str(given) not in prompts:
            what = f"got {given!r}" if given is not None else "none is given"
            ids = ", ".join(repr(id_) for id_ in list(prompts)[:20])
            raise InvalidArgumentError(f"{name} must be the id of a prompt of {config.path.name}, {what}: {ids}.")
        named.append(str(given))
    if named[0] == named[1]:
        raise InvalidArgumentError(f"The candidate and the baseline are the same prompt, {named[0]!r}. Name two.")
    return prompts[named[0]], prompts[named[1]]


def _markdown(verdict: str, judge: Judge, comparison: Comparison, result: Result, remarks: list[str]) -> str:
    """A summary, fit for a CI job's."""

    def cell(text: object) -> str:
        return safe(str(text)).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "'")

    sign = {PASSED: "✅", FAILED: "❌", UNDECIDED: "❔"}
    a, b = (next(e for e in result.prompts if e.id == id_) for id_ in (comparison.a, comparison.b))
    lines = [f"## {sign[verdict]} {cell(a.id)} against {cell(b.id)}: {verdict}", ""]
    lines += [f"- {sign[each]} {cell(name)}: {each}" for name, each in judge.verdicts.items()]
    lines += [
        "",
        f"| metric | {cell(a.id)} | {cell(b.id)} | difference | interval | examples |",
        "|---|---|---|---|---|---|",
    ]
    for name, d in comparison.differences.items():
        interval = "" if d.low is None or d.high is None else f"{d.low:+.3g} to {d.high:+.3g}"
        cells = [estimate_of(e, name) for e in (a, b)]
        ahead = "" if d.estimate is None else f"{d.estimate:+.3g}"
        lines.append(
            f"| {cell(name)} | {cells[0]} | {cells[1]} | {ahead} | {interval} | {d.pairs} of {comparison.examples} |"
        )
    if verdict != UNDECIDED:
        lines += ["", _OF_INTERVALS]
    lines += [line for remark in remarks for line in ("", cell(remark))]
    certainty = _certainty(verdict, judge, comparison).capitalize()
    lines += ["", f"{certainty}; margin {judge.margin:g}; {describe_spending(result)} spent.", ""]
    return "\n".join(lines)


def _junit(verdict: str, judge: Judge, comparison: Comparison) -> str:
    """A test report: a test case for each thing that is asked of the candidate."""
    counted = {which: str(sum(each == which for each in judge.verdicts.values())) for which in _CODES}
    suite = ElementTree.Element(
        "testsuite",
        name="asktell gate",
        tests=str(len(judge.verdicts)),
        failures=counted[FAILED],
        skipped=counted[UNDECIDED],
        errors="0",
    )
    said = safe(str(comparison).replace("\n", "; "))
    for name, each in judge.verdicts.items():
        case = ElementTree.SubElement(suite, "testcase", classname=safe(str(comparison.a)), name=safe(name))
        if each == FAILED:
            ElementTree.SubElement(case, "failure", message=said)
        elif each == UNDECIDED:
            ElementTree.SubElement(case, "skipped", message=f"undecided: {said}")
    ElementTree.SubElement(suite, "system-out").text = f"{verdict}: {said}"
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode")


def compare(arguments: argparse.Namespace) -> int:
    """`asktell compare`: prompts of a run, or of a study, whose name then comes first."""
    from asktell_adapters.cli.places import needs_name
    from asktell_adapters.cli.studies import result_of

    names = list(arguments.prompts)
    study = names.pop(0) if needs_name(arguments.run) else None
    if not 1 <= len(names) <= 2:
        raise InvalidArgumentError(f"asktell compare needs one prompt or two, got {len(names)}: RUN [NAME] A [B].")
    a, b = names[0], [*names, None][1]
    found = result_of(arguments.run, study).compare(a, b, arguments.confidence, arguments.tolerance)
    show(json.dumps(found.to_dict(), indent=1) if arguments.json else str(found))
    return 0
