"""What `asktell gate` found, in words: for a terminal, for a pull request, and as a test report."""

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple, final
from urllib.parse import quote
from xml.etree import ElementTree

from asktell import BestFeasible, ChangedExample, Comparison, PromptResult, Result
from asktell.extend import UNSEEN_FAILURES, Evaluation, Goal, describe_spending, one_line, safe, with_error
from asktell_adapters.estimate import amount
from asktell_adapters.llms.base import Example

FAILURE_RATE = "failure_rate"
PASSED, FAILED, UNDECIDED = "passed", "failed", "undecided"
_SIGN = {PASSED: "✅", FAILED: "❌", UNDECIDED: "❔"}
_OF_CHECK = {True: "✅", False: "❌", None: "❔"}
_OF_INTERVALS = (
    "The intervals hold on both sides and for all metrics at once; a verdict asks for one side, and may come sooner."
)
_MOST_BYTES = 60_000  # GitHub refuses comments of more than 65,536 characters; a link and a marker are added
_MOST_EXAMPLES = 20  # of those that broke, and of those that were mended
_MOST_WANTED = 3  # of several references
_MOST_TEXT = 600  # characters of one answer
_WIDTH = 80  # of its lines; GitHub wraps none in a table
_MOST_NAME = 60
_MOST_REASONS = 5
_FDR = 0.1  # of the examples that are said to have really broken, or been mended
_MARKDOWN = re.compile(r"[\\|<>`*\[\]&]")


class Change(NamedTuple):
    """An example on which the scores of the two prompts differ."""

    example: int
    before: float
    after: float


@final
@dataclass(frozen=True)
class Ruling:
    """The verdict on a candidate, and what it rests on.

    `found` has the verdict on each thing asked of the candidate, by the objective's metric or the constraint, and under
    "failure_rate" on how often it fails; `goal` has the ranges that are known; `evaluations` have the model's answers,
    as far as the evaluator gave any; `report` is the HTML page, if one was written, from the folder of the summary.
    `doubts` say why scores are doubtful. `needed`: about how many evaluations of each pass an equal candidate, None if
    that is not known. `rechecked`: the comparison after `rechecks` more evaluations, at a cost of `recheck_cost`, of
    examples that were chosen because they differ; None if there were none. Only the lists of examples rest on it.
    """

    verdict: str
    found: Mapping[str, str]
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

    @cached_property
    def candidate(self) -> PromptResult:
        return next(entry for entry in self.result.prompts if entry.id == self.comparison.a)

    @cached_property
    def baseline(self) -> PromptResult:
        return next(entry for entry in self.result.prompts if entry.id == self.comparison.b)

    @cached_property
    def _names(self) -> tuple[str, str]:
        return one_line(str(self.candidate.id), _MOST_NAME), one_line(str(self.baseline.id), _MOST_NAME)

    @cached_property
    def _objectives(self) -> dict[str, Any]:
        return {objective.metric: objective for objective in self.goal.objectives}

    @cached_property
    def _answers(self) -> dict[tuple[str | int, int | None], str]:
        return {(each.prompt, each.example): each.answer for each in self.evaluations if each.answer is not None}

    @property
    def headline(self) -> str:
        """The verdict as a sentence, which says all that is certain and nothing else."""
        (a, b), objectives = self._names, self._objectives
        if self.verdict == UNDECIDED and self.doubts:
            return f"Undecided: the scores are doubtful, so nothing is certain of {a} and {b}"
        if self.verdict == UNDECIDED:
            return f"Undecided: it is not yet certain how {a} compares with {b}"
        if self.verdict == PASSED:
            kept = ", and keeps every constraint" if self.goal.is_constrained else ""
            return f"Passed: {a} is not worse than {b}{self._by_more(objectives)} in {' or '.join(objectives)}{kept}"
        failing = [name for name, each in self.found.items() if each == FAILED]
        worse = [name for name in failing if name in objectives]
        said = [f"is worse in {' and '.join(worse)} than {b}{self._by_more(worse)}"] if worse else []
        said += [f"violates {name}" for name in failing if name not in worse and name != FAILURE_RATE]
        if FAILURE_RATE in failing:
            said.append(f"fails more often than {b}")
        return f"Failed: {a} " + " and ".join(said)

    @cached_property
    def _failed(self) -> dict[str | int, tuple[int, int]]:
        """How many evaluations of each prompt failed, and how many there were."""
        found = {entry.id: [0, 0] for entry in (self.candidate, self.baseline)}
        for each in self.evaluations:
            if each.prompt in found:
                found[each.prompt][0] += each.error is not None
                found[each.prompt][1] += 1
        return {id_: (failed, all_) for id_, (failed, all_) in found.items()}

    @property
    def failure_rates(self) -> str:
        """How often evaluations of the two failed."""
        names = dict(zip((self.candidate.id, self.baseline.id), self._names, strict=True))
        return "Failed evaluations: " + ", ".join(
            f"{names[id_]} {failed} of {all_} ({100 * failed / max(all_, 1):.3g} %)"
            for id_, (failed, all_) in self._failed.items()
        )

    @cached_property
    def squared_difference(self) -> float | None:
        """The mean square of the differences in the first objective, of evaluations of the same example; or None."""
        metric = self.goal.objectives[0].metric
        scores: dict[tuple[str | int, int | None], list[float]] = {}
        for each in self.evaluations:
            if each.scores is not None and each.error is None:
                scores.setdefault((each.prompt, each.example), []).append(each.scores[metric])
        pairs = [
            (x - y) ** 2
            for (prompt, example), own in scores.items()
            if prompt == self.candidate.id
            for x, y in zip(own, scores.get((self.baseline.id, example), ()), strict=False)
        ]
        return sum(pairs) / len(pairs) if pairs else None

    @property
    def reasons(self) -> list[str]:
        """Why there is no verdict, and what to do; a sentence or two each."""
        if self.verdict != UNDECIDED:
            return []
        if self.doubts:
            return ["Doubtful scores pass nothing and fail nothing. First remove the cause that is named here."]
        (a, b), said = self._names, []
        if any(failed for failed, _ in self._failed.values()):
            said.append(
                "A failed evaluation has no score. A pass has to hold even if each failed one would have had the "
                f"worst score for {a} and the best for {b}. Remove the cause of the failures, or say which scores they "
                "count as (`on_failure`)."
            )
        compared = min(all_ for _, all_ in self._failed.values())
        if self.needed is not None and self.needed > compared:
            said.append(
                f"If the two are equally good, a pass takes about {roughly(self.needed)} evaluations of each, "
                f"{compared:,} were made. {more_or_wider(self.margin)}"
            )
        return said

    def asked(self, name: str) -> str:
        if name == FAILURE_RATE:
            a, b = self._names
            allowed = self._more_failures_allowed
            return (
                f"{a} fails on at most {allowed} more of the examples than {b}"
                if allowed
                else (f"{a} fails no more often than {b}")
            )
        return f"{name} not worse{self._by_more([name])}" if name in self._objectives else name  # a constraint

    def difference(self, name: str) -> str:
        """The scores of both in a metric, without a judgement: that is the headline's."""
        d, (a, b) = self.comparison.differences[name], self._names
        if d.estimate is None:
            return f"{a} and {b} have no example in common yet"
        interval = "" if d.low is None or d.high is None else f" [{d.low:+.3g}, {d.high:+.3g}]"
        of = "" if self.comparison.examples is None else f" of {self.comparison.examples}"
        within = f", within the margin of {self._loss(name)}" if self._is_behind_within(name, d.estimate) else ""
        means = [_estimate(entry, name) for entry in (self.candidate, self.baseline)]
        return (
            f"{a} {means[0]}, {b} {means[1]}; difference {d.estimate:+.3g}{interval} on {d.pairs}{of} examples{within}"
        )

    @property
    def spending(self) -> str:
        money, failures = "", sum(entry.failures for entry in self.result.prompts)
        if self.is_priced or self.result.spent_cost:
            money = f", cost {amount(self.result.spent_cost + self.recheck_cost, self.currency)}"
        failed = f", {failures} failure{'s' * (failures != 1)}" if failures else ""
        again = f", {self.rechecks} to recheck examples that differ" if self.rechecks else ""
        return f"{describe_spending(self.result)} spent{again}{money}{failed}"

    @property
    def certainty(self) -> str:
        """How sure the verdict is."""
        return f"Confidence {self.comparison.confidence:g}"

    @property
    def likely_best(self) -> str:
        """How likely the candidate is the best of the two, as a sentence; empty where the result does not state it."""
        p_best = self.candidate.p_best
        if p_best is None or not isinstance(self.goal, BestFeasible):
            return ""
        stated = "over 99%" if p_best > 0.995 else "under 1%" if p_best < 0.005 else f"{100 * p_best:.0f}%"
        where = "on the given examples" if self.result.inputs == "given" else "on new inputs"
        return f"{self._names[0]} is the best of the two {where} with probability {stated}."

    def lines(self) -> Iterator[str]:
        for name, each in self.found.items():
            yield f"{each:<9} {self.asked(name)}"
        for entry in self.result.prompts:
            if entry.status == "failed":
                yield f"{entry.id} {entry.reason}"
        for name in self.comparison.differences:
            yield f"{name}: {self.difference(name)}"
            broken, mended = self.changes(name) if name in self.goal.metrics else ([], [])  # or a bound on a quantile
            if broken or mended:
                yield f"{name}: {_count(len(broken))} scored worse, {len(mended)} better"
            yield from (f"{name}: {said}" for said in self.held(name))
        yield self.failure_rates
        yield from self.remarks
        yield from self.reasons
        if self.verdict != UNDECIDED:
            yield _OF_INTERVALS
        for check in self.result.checks:
            if check.ok is not True and check.sentence not in self.remarks:
                yield f"What could go wrong: {check.sentence}"
        yield f"{self.certainty}; {self.spending}."
        yield from [self.likely_best] if self.likely_best else []
        yield f"{self.headline}."

    def changes(self, name: str) -> tuple[list[Change], list[Change]]:
        """The examples that scored worse and those that scored better: first what holds, then the largest change.

        In an objective, those on which the candidate scores worse, or better, than the baseline; in another metric,
        those on which only one of the two keeps the constraints. Under a relative constraint, which no single score
        keeps, they are those on which the two differ. Scores of several rounds are averaged.
        """
        objective = self._objectives.get(name)
        bounds = [c for c in self.goal.constraints if c.metric == name]
        relative = [c for c in bounds if c.of is not None]  # one example's score satisfies or violates no such bound
        sums: dict[tuple[str | int, int], list[float]] = {}
        for each in self.evaluations:
            if each.example is not None and each.scores is not None and each.error is None:
                sums.setdefault((each.prompt, each.example), []).append(each.scores[name])
        means = {key: sum(scores) / len(scores) for key, scores in sums.items()}
        broken: list[Change] = []
        mended: list[Change] = []
        for prompt, example in means:
            if prompt != self.baseline.id or (after := means.get((self.candidate.id, example))) is None:
                continue
            change = Change(example, means[prompt, example], after)
            if objective is not None:
                gain = objective.sign * (change.after - change.before)
            elif relative:
                gain = (change.after - change.before) * (-1.0 if relative[0].at_most else 1.0)
            else:
                kept = [all(x <= c.bound if c.at_most else x >= c.bound for c in bounds) for x in change[1:]]
                gain = kept[1] - kept[0]
            if gain:
                (mended if gain > 0 else broken).append(change)
        held = self._held(name)
        for changes in (broken, mended):
            changes.sort(key=lambda c: (c.example not in held, -abs(c.after - c.before), c.example))
        return broken, mended

    def _lists(self, name: str) -> tuple[Sequence[ChangedExample], Sequence[ChangedExample]]:
        """The examples that really broke, and those that were really mended, in an objective."""
        compared = self.rechecked or self.comparison
        return compared.regressions(_FDR, name), compared.improvements(_FDR, name)

    def _held(self, name: str) -> dict[int, ChangedExample]:
        """The same by the examples' positions; empty for a metric that is no objective."""
        if name not in self._objectives:
            return {}
        place = {id_: i for i, id_ in enumerate(self.result.example_ids or ())}
        found = (each for list_ in self._lists(name) for each in list_)
        return {each.example if isinstance(each.example, int) else place[each.example]: each for each in found}

    def held(self, name: str) -> list[str]:
        """Sentences on which differences in an objective hold; none if no example differs."""
        compared = self.rechecked or self.comparison
        noise = compared.noise(name) if name in self._objectives else None
        if noise is None:
            return []
        broken, mended = self._lists(name)
        if not (noise.differ or broken or mended):
            return []
        broke = f"{_count(len(broken)) if broken else 'no example'} broke{_ids(broken)}"
        were = f"{len(mended) or 'none'} {'were' if len(mended) > 1 else 'was'} mended{_ids(mended)}"
        return [f"{noise}", f"at a false discovery rate of {100 * _FDR:g}%, {broke}; {were}"]

    def markdown(self) -> str:
        """A summary, fit for a CI job or a comment on GitHub; no name, example or answer is taken for markup."""
        a, b = (_plain(str(entry.id)) for entry in (self.candidate, self.baseline))
        head = [f"## {_SIGN[self.verdict]} {_plain(self.headline)}", ""]
        head += [f"- {_SIGN[each]} {_plain(self.asked(name))}: {each}" for name, each in self.found.items()]
        head += ["", f"| metric | {a} | {b} | difference | interval | examples |", "|---|---|---|---|---|---|"]
        for name, d in self.comparison.differences.items():
            cells = [_estimate(entry, name) for entry in (self.candidate, self.baseline)]
            cells += ["" if d.estimate is None else f"{d.estimate:+.3g}"]
            cells += ["" if d.low is None or d.high is None else f"{d.low:+.3g} to {d.high:+.3g}"]
            head.append(f"| {_plain(name)} | {' | '.join(cells)} | {d.pairs} of {self.comparison.examples} |")
        if self.verdict != UNDECIDED:
            head += ["", _OF_INTERVALS]
        for name in self._objectives:
            head += [line for said in self.held(name) for line in ("", _plain(f"{name}: {said}", _MOST_TEXT))]
        head += ["", _plain(self.failure_rates, _MOST_TEXT)]
        head += [line for reason in self.reasons for line in ("", _plain(reason, _MOST_TEXT))]
        head += ["", _plain(self.likely_best, _MOST_TEXT)] if self.likely_best else []
        head += [line for remark in self.remarks for line in ("", _plain(remark, _MOST_TEXT))]
        if self.result.failures:
            head += ["", "Failures:", ""]
        for group in self.result.failures[:_MOST_REASONS]:
            ids = ", ".join(_plain(str(id_)) for id_ in group.prompts)
            head.append(f"- {group.count} ({ids}): {_plain(group.reason, _MOST_TEXT)}")
        if self.result.checks:
            head += ["", "What could go wrong:", ""]
        for check in self.result.checks:
            head.append(f"- {_OF_CHECK[check.ok]} {_plain(check.sentence, _MOST_TEXT)}")
        tail = [f"{_plain(self.certainty, _MOST_TEXT)}; margin {self.margin:g}; {self.spending}."]
        if self.report is not None:
            tail.append(f"[Full report]({quote(self.report.as_posix())})")
        room = _MOST_BYTES - _size("\n".join([*head, *tail]))
        return "\n\n".join(["\n".join(head), *self._tables(room), *tail, ""])

    def junit(self) -> str:
        """A test report: a test case for each thing that is asked of the candidate."""
        counted = {which: str(sum(each == which for each in self.found.values())) for which in _SIGN}
        counts = {"tests": str(len(self.found)), "failures": counted[FAILED], "skipped": counted[UNDECIDED]}
        suite = ElementTree.Element("testsuite", {"name": "asktell gate", **counts, "errors": "0"})
        differences = (f"{name}: {self.difference(name)}" for name in self.comparison.differences)
        said = safe("; ".join([*differences, self.failure_rates, *self.reasons]))
        for name, each in self.found.items():
            about = {"classname": safe(str(self.candidate.id)), "name": safe(self.asked(name))}
            case = ElementTree.SubElement(suite, "testcase", about)
            if each == FAILED:
                ElementTree.SubElement(case, "failure", message=said)
            elif each == UNDECIDED:
                ElementTree.SubElement(case, "skipped", message=f"undecided: {said}")
        ElementTree.SubElement(suite, "system-out").text = f"{safe(self.headline)}: {said}"
        return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode")

    @property
    def _more_failures_allowed(self) -> str:
        """On how many more of the examples the candidate may fail, in per cent; empty if on none."""
        ranges = self.goal.ranges
        parts = [self.margin / (ranges[m][1] - ranges[m][0]) if m in ranges else 0.0 for m in self._objectives]
        allowed = min(parts)
        (failed, _), (failed_before, _) = (self._failed[entry.id] for entry in (self.candidate, self.baseline))
        if failed <= failed_before:
            allowed = max(allowed, UNSEEN_FAILURES)
        return f"{100 * allowed:.3g} %" if allowed else ""

    def _by_more(self, metrics: Iterable[str]) -> str:
        if not self.margin:
            return ""
        losses = {self._loss(metric) for metric in metrics}
        return f" by more than {losses.pop() if len(losses) == 1 else f'{self.margin:g}'}"

    def _loss(self, metric: str) -> str:
        return loss_in_words(self.margin, self.goal.ranges.get(metric))

    def _is_behind_within(self, name: str, estimate: float) -> bool:
        objective = self._objectives.get(name)
        return objective is not None and self.found[name] == PASSED and -self.margin <= objective.sign * estimate < 0

    def _tables(self, room: int) -> Iterator[str]:
        """The examples that changed, as HTML, in at most so many bytes."""
        failed = {c.metric for c in self.goal.constraints if self.found.get(str(c)) == FAILED}
        changed = {name: self.changes(name) for name in self.goal.metrics if name in self._objectives or name in failed}
        n_tables = sum(bool(changes) for both in changed.values() for changes in both)
        for name, both in changed.items():
            for words, changes in zip(("worse", "better"), both, strict=True):
                if changes:  # what one table leaves, the next ones have
                    title = f"{name}: {_count(len(changes))} scored {words}"
                    table = self._table(title, changes, room // n_tables, self._held(name))
                    room, n_tables = room - _size(table), n_tables - 1
                    yield table

    def _table(
        self, title: str, changes: Sequence[Change], room: int, held: Mapping[int, ChangedExample] | None = None
    ) -> str:
        """Examples with both answers. Without an empty line, it is HTML to the end and none of it Markdown."""
        head, end = f"<details><summary>{_html(title)}</summary>", "and {} more\n</details>"
        blocks, left = [head], room - _size(head) - _size(end) - 10
        for change in changes[:_MOST_EXAMPLES]:
            block = "\n".join(["<table>", *self._rows(change, (held or {}).get(change.example)), "</table>"])
            if (left := left - _size(block) - 1) < 0:
                break
            blocks.append(block)
        more = len(changes) - len(blocks) + 1
        return "\n".join([*blocks, end.format(more) if more else "</details>"])

    def _rows(self, change: Change, held: ChangedExample | None = None) -> Iterator[str]:
        """One below the other: side by side, answers are wider than a page."""
        said = [("example", str(change.example + 1))]
        if change.example < len(self.examples):
            example = self.examples[change.example]
            wanted = (example.reference,) if isinstance(example.reference, str) else example.reference or ()
            said = [("example", _pre(example.input)), *(("wanted", _pre(text)) for text in wanted[:_MOST_WANTED])]
        for entry, score in ((self.baseline, change.before), (self.candidate, change.after)):
            answer = self._answers.get((entry.id, change.example))
            said.append((f"{_html(str(entry.id), _MOST_NAME)}: {score:.4g}", "" if answer is None else _pre(answer)))
        if held is not None:
            before, after = f"{held.b:.3g} in {held.evaluations_b}", f"{held.a:.3g} in {held.evaluations_a}"
            said.append(("this holds", f"mean scores and evaluations: {before}, then {after}"))
        for name, text in said:
            yield f"<tr><th>{name}</th><td>{text}</td></tr>"


def more_or_wider(margin: float) -> str:
    """What to do if evaluations are too few."""
    return f"Take more examples and evaluations, or a larger --margin than {margin:g}."


def roughly(n: int) -> str:
    """A number of evaluations that is known to two digits at most."""
    return f"{float(f'{n:.2g}'):,.0f}"


def loss_in_words(loss: float, span: tuple[float, float] | None) -> str:
    """A loss in points (hundredths) if scores are from 0 to 1, else as it is."""
    if span != (0.0, 1.0):
        return f"{loss:.3g}"
    points = f"{100 * loss:.3g}"
    return f"{points} point{'s' * (points != '1')}"


def _estimate(entry: PromptResult, metric: str) -> str:
    return with_error(entry.estimate[metric], entry.standard_error[metric])


def _count(n: int) -> str:
    return f"{n} example{'s' * (n != 1)}"


def _ids(found: Sequence[ChangedExample]) -> str:
    """The examples of a list, as the end of a clause; empty if there are none."""
    if not found:
        return ""
    names = [one_line(str(each.example), _MOST_NAME) for each in found[:_MOST_EXAMPLES]]
    return f": {', '.join(names)}{', ...' if len(found) > len(names) else ''}"


def _size(text: str) -> int:
    return len(text.encode())


def _plain(text: str, most: int = _MOST_NAME * 4) -> str:
    """Text that Markdown takes literally, in one line; nobody is mentioned, and no issue is linked."""
    return _unlinked(_MARKDOWN.sub(r"\\\g<0>", one_line(text, most)))


def _unlinked(text: str) -> str:
    """Text in which GitHub finds nobody to notify and no issue."""
    return text.replace("@", "@\u200b").replace("#", "#\u200b")


def _html(text: str, most: int = _MOST_TEXT) -> str:
    return _unlinked(html.escape(one_line(text, most), quote=False))


def _pre(text: str) -> str:
    """Text as it is, cut, in a block in which GitHub looks for no markup, mention or link."""
    cut = text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
    lines = (each for line in cut.splitlines() for each in wrap(safe(line), _WIDTH, drop_whitespace=False) or [""])
    return f"<pre>{'&#10;'.join(map(html.escape, lines))}</pre>"
