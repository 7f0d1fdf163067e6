"""`asktell gate` and `asktell compare`: is this prompt worse than that one?"""

import argparse
import contextlib
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from asktell._util.files import write_atomically
from asktell._util.terminal import safe, with_error
from asktell.errors import AsktellError, EvaluatorError, InvalidArgumentError
from asktell.methods.certainty import Evidence, columns_of
from asktell.problem.budget import describe_spending
from asktell.problem.candidates import ById
from asktell.problem.checks import in_words
from asktell.problem.goals import Goal, ParetoSet
from asktell.results import Comparison, PromptResult, Result
from asktell.results.comparison import of_repeats
from asktell.running.run import run
from asktell.selector import Selector, at_state
from asktell.serialization import dump_goal, load_goal
from asktell.state import State, initial
from asktell.state.history import repeated, turns_out
from asktell_adapters.cli.output import show
from asktell_adapters.cli.price import confirm
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
    """Whether a candidate is worse than a baseline, from the scores of both on the same examples.

    A pass is wrong with probability 1 - confidence at most, and so is a failure, whenever one looks: for a wrong pass
    one thing that is false has to look certain, for a wrong failure any one of them may.
    """

    goal: Goal
    margin: float
    confidence: float
    verdicts: dict[str, str] = field(default_factory=dict)

    def look(self, state: State) -> str:
        """The verdict by now; `verdicts` has one for each thing that is asked of the candidate."""
        error, asked = 1 - self.confidence, self._asked()
        sure, surer = self._evidence(state, error), self._evidence(state, error / len(asked))
        candidate, baseline = np.array([_CANDIDATE]), np.array([_BASELINE])
        self.verdicts = {}
        for name, (column, margin) in asked.items():
            if margin is None:
                good = sure.all_at_least(candidate, [column]) & (sure.counts[_CANDIDATE] > 0)
                bad = surer.below(candidate, column)
            else:
                good = sure.ahead(candidate, baseline, column, -margin, or_equal=True)
                bad = surer.ahead(baseline, candidate, column, margin)
            self.verdicts[name] = FAILED if bad.all() else PASSED if good.all() else UNDECIDED
        found = set(self.verdicts.values())
        return FAILED if FAILED in found else UNDECIDED if UNDECIDED in found else PASSED

    def _asked(self) -> dict[str, tuple[int, float | None]]:
        """Name to column of the goal's values and margin in its units; None for a constraint."""
        scaled = isinstance(self.goal, ParetoSet)  # whose values are in units of the metrics' ranges
        objectives = enumerate(self.goal.objectives)
        asked: dict[str, tuple[int, float | None]] = {
            self._not_worse(o.metric): (q, self.margin / o.scale if scaled else self.margin) for q, o in objectives
        }
        return asked | {str(c): (q, None) for q, c in enumerate(self.goal.constraints, len(self.goal.objectives))}

    def _not_worse(self, metric: str) -> str:
        return f"{metric} not worse" + (f" by more than {self.margin:g}" if self.margin else "")

    @staticmethod
    def _evidence(state: State, error: float) -> Evidence:
        problem, history = state.problem, state.history
        out = turns_out(problem, history, state.missing, (*state.pending.values(), *state.returned))
        goal, scores = problem.goal, history.scores()
        rows = (history.trials(), history.arms(), history.examples(), goal.values(scores), columns_of(goal, scores))
        return Evidence.of(problem, state.missing, *rows, min(out, default=None), error)


def gate(arguments: argparse.Namespace) -> int:
    """`asktell gate`; the exit code says what was found."""
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
    data = dump_goal(goal)
    parts = [data.get("objective", {}), *data.get("objectives", ()), *data.get("subject_to", ())]
    for part in parts:
        span = range_of(metrics.get(part["metric"])) if part and part.get("range") is None else None
        if span is not None and goal.ranges.get(part["metric"], span) == span:
            part["range"] = list(span)
    return load_goal(data)


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
        baseline=ById(str(baseline.id)),
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
    """Evaluate until the verdict is certain: the verdict, the result, and what repeated evaluations have shown.

    `selector`: of the candidate and the baseline, in that order. Unless the evaluator is `repeatable`, scores count as
    noisy from the start: whatever a few repeats show, other evaluations may differ.
    """
    problem, verdict = selector.state.problem, UNDECIDED
    if not getattr(evaluator, "repeatable", False) and problem.repeats == 1:
        selector = at_state(selector, initial(problem.with_noise))

    def is_enough(selector: Selector) -> bool:
        nonlocal verdict
        too_dear = max_cost is not None and selector.state.cost >= max_cost
        verdict = judge.look(selector.state)
        return too_dear or bool(selector.state.left) or verdict != UNDECIDED

    result = run(selector, evaluator, None, concurrency, progress, max_failures_in_a_row=_PATIENCE, until=is_enough)
    failed = [entry.reason for entry in result.prompts if entry.status == "failed"]
    if failed and not selector.spent:
        raise EvaluatorError(f"No evaluation succeeded: {failed[0]}")
    again = repeated(problem, selector.state.history)
    remarks = list(of_repeats(problem, again))
    if again.times and not remarks:
        remarks = [f"{again.times} of {again.times} repeated evaluations agreed."]
    return UNDECIDED if again.has_drifted else verdict, result, remarks


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
        cells = [with_error(e.estimate[name], e.standard_error[name]) for e in (a, b)]
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


def compared(arguments: argparse.Namespace) -> Comparison:
    """For `asktell compare`: prompts of a run, or of a study, whose name then comes first."""
    from asktell_adapters.cli.places import needs_name
    from asktell_adapters.cli.studies import result_of

    names = list(arguments.prompts)
    study = names.pop(0) if needs_name(arguments.run) else None
    if not 1 <= len(names) <= 2:
        raise InvalidArgumentError(f"asktell compare needs one prompt or two, got {len(names)}: RUN [NAME] A [B].")
    a, b, confidence, tolerance = names[0], [*names, None][1], arguments.confidence, arguments.tolerance
    return result_of(arguments.run, study).compare(a, b, confidence, tolerance)
