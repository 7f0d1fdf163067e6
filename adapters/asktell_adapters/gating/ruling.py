"""The verdict of a gate in words: for a terminal, for a pull request, as a JUnit test report, and as a page."""

import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple, final
from urllib.parse import quote
from xml.etree import ElementTree

import numpy as np

from asktell import (
    BestFeasible,
    ChangedExample,
    Comparison,
    InvalidArgumentError,
    PromptResult,
    Result,
)
from asktell.extend import (
    UNSEEN_FAILURES,
    Evaluation,
    Goal,
    describe_spending,
    in_markdown,
    in_percent,
    is_expense,
    one_line,
    reports,
    safe,
    wins_and_losses,
    with_error,
)
from asktell_adapters.estimate import amount
from asktell_adapters.llms.base import Example

FAILURE_RATE = "failure_rate"
PASSED = "passed"
"""The candidate is established to satisfy every requirement."""
FAILED = "failed"
"""The candidate is established to violate a requirement."""
UNDECIDED = "undecided"
"""The evaluations establish neither."""
_CODES = {PASSED: 0, FAILED: 1, UNDECIDED: 3}
_SIGN = {PASSED: "✅", FAILED: "❌", UNDECIDED: "❔"}
_OF_CHECK = {True: "✅", False: "❌", None: "❔"}
_OF_INTERVALS = (
    "The intervals hold on both sides and for all metrics at once. "
    "The verdict needs only one side, so it can be established before the intervals show it."
)
# GitHub refuses comments of more than 65,536 characters; a link and a marker are added
_MOST_BYTES = 60_000
_MOST_EXAMPLES = 20  # in each list of examples
_MOST_REFERENCES = 3  # of an example
_MOST_TEXT = 600  # characters of a response
# Characters per line of a response, since GitHub does not wrap lines in a table
_WIDTH = 80
_MOST_NAME = 60
_MOST_REASONS = 5
_MOST_LIKELY = 5  # examples named where none is established to have regressed
_FDR = 0.1  # false discovery rate of the lists of regressed and fixed examples


class ExampleChange(NamedTuple):
    """An example on which the scores of the two prompts differ."""

    example: int
    before: float
    after: float


@final
@dataclass(frozen=True)
class Ruling:
    """The verdict on a candidate, with its evidence.

    Attributes:
        verdict: `PASSED`, `FAILED` or `UNDECIDED`.
        requirements: the verdict on each requirement, by the objective's metric, by the
            constraint, and for the rate of failures by "failure_rate".
        goal: the goal, with all ranges that are known.
        margin: the accepted loss, in units of the metric.
        comparison: the candidate (a) compared with the baseline (b).
        result: the result for both.
        remarks: notes on the evaluations, one or two sentences each.
        evaluations: all evaluations for the verdict, with the responses that the
            evaluator returned.
        examples: the examples, by their positions.
        currency: of all costs; empty if unknown.
        is_priced: whether a price is configured.
        report: path of the HTML page relative to the folder of the summary; None if no
            page was written.
        doubts: why the scores are doubtful.
        needed: about how many evaluations of each prompt a pass takes if both are
            equal; None if unknown.
        rechecked: the comparison after the rechecks; None if there were none. Only the
            lists of examples use it, since the rechecked examples were chosen because
            they differ.
        rechecks: number of evaluations in the rechecks.
        recheck_cost: their cost.
        reading: what was read from files of results, as a sentence. Empty without files.
        document: the data of the HTML page, from what heads it. None without a page.
    """

    verdict: str
    requirements: Mapping[str, str]
    goal: Goal
    margin: float
    comparison: Comparison
    result: Result
    remarks: Sequence[str] = ()
    evaluations: Sequence[Evaluation] = ()
    examples: Sequence[Example] = ()
    currency: str = ""
    is_priced: bool = False
    report: Path | None = None
    doubts: Sequence[str] = ()
    needed: int | None = None
    rechecked: Comparison | None = None
    rechecks: int = 0
    recheck_cost: float = 0.0
    reading: str = ""
    document: Callable[[dict[str, Any]], dict[str, Any]] | None = None

    @property
    def passed(self) -> bool:
        """True if the candidate is established to satisfy every requirement."""
        return self.verdict == PASSED

    @property
    def failed(self) -> bool:
        """True if the candidate is established to violate a requirement."""
        return self.verdict == FAILED

    @property
    def undecided(self) -> bool:
        """True if the evaluations establish neither a pass nor a failure."""
        return self.verdict == UNDECIDED

    @property
    def exit_code(self) -> int:
        """The exit code of `asktell gate`: 0 if passed, 1 if failed, 3 if undecided."""
        return _CODES[self.verdict]

    def __str__(self) -> str:
        """The ruling as `asktell gate` prints it, with the verdict in the last line."""
        return "\n".join(map(safe, self.lines()))

    @cached_property
    def candidate(self) -> PromptResult:
        """The result of the candidate."""
        return next(
            entry for entry in self.result.prompts if entry.id == self.comparison.a
        )

    @cached_property
    def baseline(self) -> PromptResult:
        """The result of the baseline."""
        return next(
            entry for entry in self.result.prompts if entry.id == self.comparison.b
        )

    @cached_property
    def _names(self) -> tuple[str, str]:
        """The ids of the candidate and the baseline, as a sentence shows them."""
        return _quoted(self.candidate), _quoted(self.baseline)

    @cached_property
    def _objectives(self) -> dict[str, Any]:
        """The objectives by metric."""
        return {objective.metric: objective for objective in self.goal.objectives}

    @cached_property
    def _answers(self) -> dict[tuple[str | int, int | None], str]:
        """The responses by prompt and example."""
        return {
            (evaluation.prompt, evaluation.example): evaluation.answer
            for evaluation in self.evaluations
            if evaluation.answer is not None
        }

    @property
    def headline(self) -> str:
        """The verdict as a sentence, with every failed requirement."""
        (a, b), objectives = self._names, self._objectives
        if self.verdict == UNDECIDED and self.doubts:
            return f"Undecided: the scores are doubtful, so {a} cannot be compared with {b}"
        if self.verdict == UNDECIDED:
            return f"Undecided: the evaluations do not yet establish how {a} compares with {b}"
        if self.verdict == PASSED:
            loss = self._by_more(objectives)
            passed = (
                f"Passed: {a} is not worse than {b}{loss} in {' or '.join(objectives)}"
            )
            if not self.goal.is_constrained:
                return passed
            return f"{passed}, and satisfies every constraint"
        failing = [
            name for name, verdict in self.requirements.items() if verdict == FAILED
        ]
        worse = [name for name in failing if name in objectives]
        clauses = (
            [f"is worse in {' and '.join(worse)} than {b}{self._by_more(worse)}"]
            if worse
            else []
        )
        clauses += [
            f"violates {name}"
            for name in failing
            if name not in worse and name != FAILURE_RATE
        ]
        if FAILURE_RATE in failing:
            clauses.append(f"fails more often than {b}")
        return f"Failed: {a} " + " and ".join(clauses)

    def heading(self) -> dict[str, Any]:
        """The ruling as `reports.document` takes it, to head the page of the gate."""
        differences = [
            f"{name}: {self.difference(name)}." for name in self.comparison.differences
        ]
        return {
            "headline": f"{self.headline}.",
            "verdict": self.verdict,
            "requirements": [
                [self.required(name), v] for name, v in self.requirements.items()
            ],
            "reasons": [*self.reasons, *differences, f"{self.failure_rates}."],
            "candidate": self.candidate.id,
            "baseline": self.baseline.id,
            "confidence": self.comparison.confidence,
        }

    def to_dict(self) -> dict[str, Any]:
        """The ruling as a mapping that JSON can represent.

        Its keys are those of `heading`, the `exit_code`, the `margin`, the sentences of
        the evaluations (`remarks`), the `comparison` as in `Comparison.to_dict`, and
        by metric the examples that scored `worse` and `better`, as ids or positions.
        """
        ids = self.result.example_ids
        changed = {
            name: [
                [
                    change.example if ids is None else ids[change.example]
                    for change in side
                ]
                for side in self.changes(name)
            ]
            for name in self._objectives
        }
        return {
            **self.heading(),
            "exit_code": self.exit_code,
            "margin": self.margin,
            "remarks": list(self.remarks),
            "comparison": self.comparison.to_dict(),
            "worse": {name: worse for name, (worse, _) in changed.items()},
            "better": {name: better for name, (_, better) in changed.items()},
        }

    def write_page(self, path: str | Path) -> None:
        """Write an HTML page that is headed by the verdict, with the responses of both prompts.

        Raises:
            InvalidArgumentError: the ruling was made without a page.
            OSError: the file cannot be written.
        """
        if self.document is None:
            raise InvalidArgumentError(
                "This ruling was made without a page. A ruling of asktell_adapters.gating.gate has one."
            )
        reports.write(Path(path), self.document(self.heading()))

    @cached_property
    def _failed(self) -> dict[str | int, tuple[int, int]]:
        """The number of failed evaluations and of all evaluations, by prompt."""
        counts = {entry.id: [0, 0] for entry in (self.candidate, self.baseline)}
        for evaluation in self.evaluations:
            if evaluation.prompt in counts:
                counts[evaluation.prompt][0] += evaluation.error is not None
                counts[evaluation.prompt][1] += 1
        return {id_: (failed, all_) for id_, (failed, all_) in counts.items()}

    @property
    def failure_rates(self) -> str:
        """How often evaluations of each prompt failed, as a sentence without a full stop."""
        names = dict(
            zip((self.candidate.id, self.baseline.id), self._names, strict=True)
        )
        return "Failed evaluations: " + ", ".join(
            f"{names[id_]} {failed} of {all_} ({100 * failed / max(all_, 1):.3g}%)"
            for id_, (failed, all_) in self._failed.items()
        )

    @cached_property
    def squared_difference(self) -> float | None:
        """Mean squared difference of the two prompts on an example, in the first objective. None without such pairs."""
        metric = self.goal.objectives[0].metric
        scores: dict[tuple[str | int, int | None], list[float]] = {}
        for evaluation in self.evaluations:
            if evaluation.scores is not None and evaluation.error is None:
                scores.setdefault((evaluation.prompt, evaluation.example), []).append(
                    evaluation.scores[metric]
                )
        pairs = [
            (x - y) ** 2
            for (prompt, example), of_candidate in scores.items()
            if prompt == self.candidate.id
            for x, y in zip(
                of_candidate, scores.get((self.baseline.id, example), ()), strict=False
            )
        ]
        return sum(pairs) / len(pairs) if pairs else None

    @property
    def reasons(self) -> list[str]:
        """Why the gate is undecided, and what to do, in one or two sentences each. Empty if there is a verdict."""
        if self.verdict != UNDECIDED:
            return []
        if self.doubts:
            return [
                "The gate neither passes nor fails on doubtful scores. Remove the cause, and run the gate again."
            ]
        (a, b), sentences = self._names, []
        if any(failed for failed, _ in self._failed.values()):
            sentences.append(
                "A failed evaluation has no score. A pass must hold even if every failed evaluation had the worst "
                f"possible score for {a} and the best possible score for {b}. Remove the cause of the failures, or set "
                "the scores that they count as (`on_failure`)."
            )
        compared = min(all_ for _, all_ in self._failed.values())
        if self.needed is not None and self.needed > compared:
            sentences.append(
                f"If both are equally good, a pass takes about {roughly(self.needed)} evaluations of each. So far, "
                f"there are {compared:,}. {more_or_wider(self.margin)}"
            )
        return sentences

    def required(self, name: str) -> str:
        """A requirement in words: an objective, a constraint, or the rate of failures."""
        if name == FAILURE_RATE:
            a, b = self._names
            allowed = self._more_failures_allowed
            return (
                f"{a} fails on at most {allowed} more of the examples than {b}"
                if allowed
                else (f"{a} fails no more often than {b}")
            )
        # A constraint
        return (
            f"{name} not worse{self._by_more([name])}"
            if name in self._objectives
            else name
        )

    def difference(self, name: str) -> str:
        """The scores of both in a metric, and their difference, without a verdict."""
        d, (a, b) = self.comparison.differences[name], self._names
        if d.estimate is None:
            return f"{a} and {b} have no example in common yet"
        interval = (
            "" if d.low is None or d.high is None else f" [{d.low:+.3g}, {d.high:+.3g}]"
        )
        of = (
            ""
            if self.comparison.examples is None
            else f" of {self.comparison.examples}"
        )
        within = (
            f", within the margin of {self._loss(name)}"
            if self._is_behind_within(name, d.estimate)
            else ""
        )
        means = [_estimate(entry, name) for entry in (self.candidate, self.baseline)]
        pairs = f"{d.pairs}{of} examples"
        difference = f"difference {d.estimate:+.3g}{interval} on {pairs}{within}"
        return f"{a} {means[0]}, {b} {means[1]}, {difference}"

    @property
    def spending(self) -> str:
        """Evaluations, money and failures of the gate, in words."""
        money, failures = "", sum(entry.failures for entry in self.result.prompts)
        if self.is_priced or self.result.spent_cost:
            money = f", cost {amount(self.result.spent_cost + self.recheck_cost, self.currency)}"
        failed = f", {failures} failure{'s' * (failures != 1)}" if failures else ""
        again = (
            f", {self.rechecks} to recheck examples that differ"
            if self.rechecks
            else ""
        )
        return f"{describe_spending(self.result)} spent{again}{money}{failed}"

    @property
    def certainty(self) -> str:
        """The confidence of the verdict."""
        return f"Confidence {self.comparison.confidence:g}"

    @property
    def likely_best(self) -> str:
        """The probability that the candidate is the better one, as a sentence. Empty if the result has none."""
        p_best = self.candidate.p_best
        is_one_of_two = len(self.result.prompts) == 2
        if (
            p_best is None
            or not isinstance(self.goal, BestFeasible)
            or not is_one_of_two
        ):
            return ""
        where = (
            "on the given examples"
            if self.result.inputs == "given"
            else "on unseen inputs"
        )
        return f"{self._names[0]} is the better choice {where} with {in_percent(p_best)} probability."

    def lines(self) -> Iterator[str]:
        """The ruling as printed lines, what was read first and the verdict last."""
        if self.reading:
            yield self.reading
        for name, verdict in self.requirements.items():
            yield f"{verdict:<9} {self.required(name)}"
        for entry in self.result.prompts:
            if entry.status == "failed":
                yield f"{_quoted(entry)} {entry.reason}"
        for name in self.comparison.differences:
            yield f"{name}: {self.difference(name)}"
            # Or a bound on a quantile
            broken, mended = (
                self.changes(name) if name in self.goal.metrics else ([], [])
            )
            if broken or mended:
                yield f"{name}: {_count(len(broken))} scored worse, {len(mended)} better"
            yield from (f"{name}: {sentence}" for sentence in self.held(name))
        yield self.failure_rates
        yield from self.remarks
        yield from self.reasons
        if self.verdict != UNDECIDED:
            yield _OF_INTERVALS
        for check in self.result.checks:
            if check.ok is not True and check.sentence not in self.remarks:
                yield f"What could go wrong: {check.sentence}"
        yield f"{self.certainty}. {self.spending}."
        yield from [self.likely_best] if self.likely_best else []
        yield f"{self.headline}."

    def changes(self, name: str) -> tuple[list[ExampleChange], list[ExampleChange]]:
        """The examples on which the candidate scored worse, and those on which it scored better.

        Scores of several rounds are averaged, and errors of rounding are no difference.
        Differences that hold come first, then the largest. Both lists are empty for an
        amount that is spent, such as a cost: a dearer response is no broken example.
        """
        if is_expense(name):
            return [], []
        before, after = (
            self._means(entry, name) for entry in (self.baseline, self.candidate)
        )
        common = [example for example in before if example in after]
        signs = wins_and_losses(
            np.array([after[example] for example in common]),
            np.array([before[example] for example in common]),
            name in self.goal.minimized,
        )
        broken, mended = (
            [
                ExampleChange(example, before[example], after[example])
                for example, sign in zip(common, signs.tolist(), strict=True)
                if sign == wanted
            ]
            for wanted in (-1, 1)
        )
        held = self._held(name)

        def order(change: ExampleChange) -> tuple[bool, float, int]:
            return (
                change.example not in held,
                -abs(change.after - change.before),
                change.example,
            )

        return sorted(broken, key=order), sorted(mended, key=order)

    def _means(self, entry: PromptResult, name: str) -> dict[int, float]:
        """A prompt's mean score in a metric by example. Evaluations that failed have no score."""
        scores: dict[int, list[float]] = {}
        for evaluation in self.evaluations:
            if evaluation.prompt != entry.id or evaluation.example is None:
                continue
            if evaluation.scores is not None and evaluation.error is None:
                scores.setdefault(evaluation.example, []).append(
                    evaluation.scores[name]
                )
        return {
            example: sum(of_example) / len(of_example)
            for example, of_example in scores.items()
        }

    def _lists(
        self, name: str
    ) -> tuple[Sequence[ChangedExample], Sequence[ChangedExample]]:
        """The examples that regressed and those that were fixed in an objective, beyond noise."""
        compared = self.rechecked or self.comparison
        return compared.regressions(_FDR, name), compared.improvements(_FDR, name)

    def _held(self, name: str) -> dict[int, ChangedExample]:
        """The same examples by their positions. Empty for an expense, or if the metric is no objective."""
        if name not in self._objectives or is_expense(name):
            return {}
        place = {id_: i for i, id_ in enumerate(self.result.example_ids or ())}
        broken, mended = self._lists(name)
        return {
            change.example
            if isinstance(change.example, int)
            else place[change.example]: change
            for change in (*broken, *mended)
        }

    def held(self, name: str) -> list[str]:
        """Sentences on the differences in an objective that are more than noise. Empty if no example differs."""
        compared = self.rechecked or self.comparison
        is_compared = name in self._objectives and not is_expense(name)
        noise = compared.noise(name) if is_compared else None
        if noise is None:
            return []
        broken, mended = self._lists(name)
        if not (noise.differ or broken or mended):
            return []
        regressed = (
            f"{_count(len(broken)) if broken else 'no example'} regressed{_ids(broken)}"
        )
        were_fixed = f"{len(mended) or 'none'} {'were' if len(mended) > 1 else 'was'} fixed{_ids(mended)}"
        false = ""
        if broken or mended:
            false = f" At most {100 * _FDR:g}% of the listed examples are expected to be false alarms."
        sentences = [f"{noise}", f"beyond noise, {regressed}, and {were_fixed}.{false}"]
        likely = compared.regressions(1.0, name)[:_MOST_LIKELY]
        if likely and not broken:
            wrong = sum(change.false_rate for change in likely) / len(likely)
            sentences.append(
                f"most likely broke{_ids(likely)}. About {100 * wrong:.0f}% of these are expected to be false alarms."
            )
        return sentences

    def markdown(self) -> str:
        """A summary in Markdown for a CI job or a comment on GitHub. Names, examples and responses are escaped."""
        head = [f"## {_SIGN[self.verdict]} {_plain(self.headline)}", ""]
        head += [
            f"- {_SIGN[verdict]} {_plain(self.required(name))}: {verdict}"
            for name, verdict in self.requirements.items()
        ]
        head += self._score_table()
        if self.verdict != UNDECIDED:
            head += ["", _OF_INTERVALS]
        for name in self._objectives:
            head += _paragraphs(f"{name}: {sentence}" for sentence in self.held(name))
        head += _paragraphs(
            [
                self.failure_rates,
                *self.reasons,
                self.likely_best,
                self.reading,
                *self.remarks,
            ]
        )
        head += self._failure_list() + self._check_list()
        tail = [
            f"{_plain(self.certainty, _MOST_TEXT)}, margin {self.margin:g}. {self.spending}."
        ]
        if self.report is not None:
            tail.append(f"[Full report]({quote(self.report.as_posix())})")
        room = _MOST_BYTES - _size("\n".join([*head, *tail]))
        return "\n\n".join(["\n".join(head), *self._tables(room), *tail, ""])

    def _score_table(self) -> list[str]:
        """Both scores in each metric, as a table in Markdown."""
        a, b = (_plain(str(entry.id)) for entry in (self.candidate, self.baseline))
        lines = [
            "",
            f"| metric | {a} | {b} | difference | interval | examples |",
            "|---|---|---|---|---|---|",
        ]
        for name, d in self.comparison.differences.items():
            cells = [
                _estimate(entry, name) for entry in (self.candidate, self.baseline)
            ]
            cells += ["" if d.estimate is None else f"{d.estimate:+.3g}"]
            cells += [
                ""
                if d.low is None or d.high is None
                else f"{d.low:+.3g} to {d.high:+.3g}"
            ]
            lines.append(
                f"| {_plain(name)} | {' | '.join(cells)} | {d.pairs} of {self.comparison.examples} |"
            )
        return lines

    def _failure_list(self) -> list[str]:
        """The reasons of failed evaluations, the most frequent ones."""
        lines = ["", "Failures:", ""] if self.result.failures else []
        for group in self.result.failures[:_MOST_REASONS]:
            ids = ", ".join(_plain(str(id_)) for id_ in group.prompts)
            lines.append(f"- {group.count} ({ids}): {_plain(group.reason, _MOST_TEXT)}")
        return lines

    def _check_list(self) -> list[str]:
        """The checks of the assumptions behind the verdict."""
        lines = ["", "What could go wrong:", ""] if self.result.checks else []
        for check in self.result.checks:
            lines.append(
                f"- {_OF_CHECK[check.ok]} {_plain(check.sentence, _MOST_TEXT)}"
            )
        return lines

    def junit(self) -> str:
        """A JUnit test report, with a test case for each requirement."""
        counted = {
            name: str(sum(verdict == name for verdict in self.requirements.values()))
            for name in _SIGN
        }
        counts = {
            "tests": str(len(self.requirements)),
            "failures": counted[FAILED],
            "skipped": counted[UNDECIDED],
        }
        suite = ElementTree.Element(
            "testsuite", {"name": "asktell gate", **counts, "errors": "0"}
        )
        differences = (
            f"{name}: {self.difference(name)}" for name in self.comparison.differences
        )
        texts = [*differences, self.failure_rates, *self.reasons]
        message = safe(" ".join(f"{text.removesuffix('.')}." for text in texts))
        for name, verdict in self.requirements.items():
            about = {
                "classname": safe(str(self.candidate.id)),
                "name": safe(self.required(name)),
            }
            case = ElementTree.SubElement(suite, "testcase", about)
            if verdict == FAILED:
                ElementTree.SubElement(case, "failure", message=message)
            elif verdict == UNDECIDED:
                ElementTree.SubElement(case, "skipped", message=f"Undecided. {message}")
        ElementTree.SubElement(
            suite, "system-out"
        ).text = f"{safe(self.headline)}. {message}"
        return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(
            suite, encoding="unicode"
        )

    @property
    def _more_failures_allowed(self) -> str:
        """The share of examples, in percent, on which the candidate may fail in addition. Empty if there is none."""
        ranges = self.goal.ranges
        parts = [
            self.margin / (ranges[m][1] - ranges[m][0]) if m in ranges else 0.0
            for m in self._objectives
        ]
        allowed = min(parts)
        (failed, _), (failed_before, _) = (
            self._failed[entry.id] for entry in (self.candidate, self.baseline)
        )
        if failed <= failed_before:
            allowed = max(allowed, UNSEEN_FAILURES)
        return f"{100 * allowed:.3g}%" if allowed else ""

    def _by_more(self, metrics: Iterable[str]) -> str:
        """The end of a sentence, with the accepted loss. Empty without a margin."""
        if not self.margin:
            return ""
        losses = {self._loss(metric) for metric in metrics}
        return (
            f" by more than {losses.pop() if len(losses) == 1 else f'{self.margin:g}'}"
        )

    def _loss(self, metric: str) -> str:
        """The accepted loss of a metric, in words."""
        return loss_in_words(self.margin, self.goal.ranges.get(metric))

    def _is_behind_within(self, name: str, estimate: float) -> bool:
        """Whether the candidate passed an objective although its mean is lower, by no more than the margin."""
        objective = self._objectives.get(name)
        return (
            objective is not None
            and self.requirements[name] == PASSED
            and -self.margin <= objective.sign * estimate < 0
        )

    def _tables(self, room: int) -> Iterator[str]:
        """Tables of the examples that changed, as HTML, in at most `room` bytes."""
        failed = {
            c.metric
            for c in self.goal.constraints
            if self.requirements.get(str(c)) == FAILED
        }
        changed = {
            name: self.changes(name)
            for name in self.goal.metrics
            if name in self._objectives or name in failed
        }
        n_tables = sum(bool(changes) for both in changed.values() for changes in both)
        for name, both in changed.items():
            for words, changes in zip(("worse", "better"), both, strict=True):
                if changes:  # the next tables get the room that this one leaves
                    title = f"{name}: {_count(len(changes))} scored {words}"
                    table = self._table(
                        title, changes, room // n_tables, self._held(name)
                    )
                    room, n_tables = room - _size(table), n_tables - 1
                    yield table

    def _table(
        self,
        title: str,
        changes: Sequence[ExampleChange],
        room: int,
        held: Mapping[int, ChangedExample] | None = None,
    ) -> str:
        """A table of examples with both responses, in at most `room` bytes.

        It has no empty line, which would end the HTML and begin Markdown.
        """
        head = f"<details><summary>{_html(title)}</summary>"
        end = "and {} more\n</details>"
        blocks, left = [head], room - _size(head) - _size(end) - 10
        for change in changes[:_MOST_EXAMPLES]:
            block = "\n".join(
                [
                    "<table>",
                    *self._rows(change, (held or {}).get(change.example)),
                    "</table>",
                ]
            )
            if (left := left - _size(block) - 1) < 0:
                break
            blocks.append(block)
        more = len(changes) - len(blocks) + 1
        return "\n".join([*blocks, end.format(more) if more else "</details>"])

    def _rows(
        self, change: ExampleChange, held: ChangedExample | None = None
    ) -> Iterator[str]:
        """The rows of an example. Responses are below each other, since side by side they are wider than a page."""
        rows = [("example", str(change.example + 1))]
        if change.example < len(self.examples):
            example = self.examples[change.example]
            wanted = (
                (example.reference,)
                if isinstance(example.reference, str)
                else example.reference or ()
            )
            rows = [
                ("example", _pre(example.input)),
                *(("reference", _pre(text)) for text in wanted[:_MOST_REFERENCES]),
            ]
        for entry, score in (
            (self.baseline, change.before),
            (self.candidate, change.after),
        ):
            answer = self._answers.get((entry.id, change.example))
            rows.append(
                (
                    f"{_html(str(entry.id), _MOST_NAME)}: {score:.4g}",
                    "" if answer is None else _pre(answer),
                )
            )
        if held is not None:
            before = f"{held.b:.3g} in {held.evaluations_b}"
            after = f"{held.a:.3g} in {held.evaluations_a}"
            rows.append(
                ("this holds", f"mean scores and evaluations: {before}, then {after}")
            )
        for name, text in rows:
            yield f"<tr><th>{name}</th><td>{text}</td></tr>"


def more_or_wider(margin: float) -> str:
    """Advice if the evaluations are too few."""
    return f"Use more examples and a larger budget, or a margin above {margin:g}."


def roughly(n: int) -> str:
    """A rough number of evaluations, with two digits."""
    return f"{float(f'{n:.2g}'):,.0f}"


def loss_in_words(loss: float, span: tuple[float, float] | None) -> str:
    """A loss in points (hundredths) if scores range from 0 to 1, and otherwise in units of the metric."""
    if span != (0.0, 1.0):
        return f"{loss:.3g}"
    points = f"{100 * loss:.3g}"
    return f"{points} point{'s' * (points != '1')}"


def _estimate(entry: PromptResult, metric: str) -> str:
    """The mean of a metric with its standard error."""
    return with_error(entry.estimate[metric], entry.standard_error[metric])


def _quoted(entry: PromptResult) -> str:
    """The id of a prompt, cut and in quotes, for a sentence."""
    return f'"{one_line(str(entry.id), _MOST_NAME)}"'


def _count(n: int) -> str:
    """A number of examples, in words."""
    return f"{n} example{'s' * (n != 1)}"


def _ids(found: Sequence[ChangedExample]) -> str:
    """The examples of a list, in parentheses after a space. Empty if there are none."""
    if not found:
        return ""
    names = [
        one_line(str(change.example), _MOST_NAME) for change in found[:_MOST_EXAMPLES]
    ]
    return f" ({', '.join(names)}{', ...' if len(found) > len(names) else ''})"


def _paragraphs(texts: Iterable[str]) -> list[str]:
    """Lines of Markdown with an empty line before each text. Empty texts are left out."""
    return [line for text in texts if text for line in ("", _plain(text, _MOST_TEXT))]


def _size(text: str) -> int:
    """The bytes of a text."""
    return len(text.encode())


def _plain(text: str, most: int = _MOST_NAME * 4) -> str:
    """Text in one line, escaped for Markdown. It mentions no user and links no issue."""
    return in_markdown(one_line(text, most))


def _html(text: str, most: int = _MOST_TEXT) -> str:
    """Text in one line, escaped for HTML. It mentions no user and links no issue."""
    escaped = html.escape(one_line(text, most), quote=False)
    return escaped.replace("@", "@\u200b").replace("#", "#\u200b")


def _pre(text: str) -> str:
    """Text in a preformatted block, cut to `_MOST_TEXT` characters. GitHub looks for no markup, user or issue in it."""
    cut = text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
    lines = (
        part
        for line in cut.splitlines()
        for part in wrap(safe(line), _WIDTH, drop_whitespace=False) or [""]
    )
    return f"<pre>{'&#10;'.join(map(html.escape, lines))}</pre>"
