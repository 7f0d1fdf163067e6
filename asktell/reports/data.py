"""The data of a report as one JSON-ready document, which the page draws.

The document refers to prompts by their positions, and to metrics by their positions in
the goal. Columns of numbers have the order of the prompts.
"""

import hashlib
import json
import math
import platform
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import numpy as np

from asktell._util.chats import readable
from asktell._util.threads import undisturbed
from asktell.methods import AbstractMethod
from asktell.problem.budget import describe_spending, money_per
from asktell.problem.candidates import Candidates
from asktell.problem.checks import check_texts, own_version
from asktell.problem.goals import ParetoSet
from asktell.problem.prompts import Prompts
from asktell.record import State
from asktell.reports import words
from asktell.reports.heat_map import (
    Duel,
    Grid,
    compared_metric,
    discriminating_examples,
    heat_map,
    spending,
)
from asktell.results.comparison import Comparison
from asktell.results.evaluations import Evaluation, evaluations_of
from asktell.results.labels import agreements
from asktell.results.result import Result, ranking
from asktell.results.summary import limits_of, summarize
from asktell.results.table import columns_of

FORMAT = "asktell.report"
VERSION = 1

# Limits that keep the page at about a megabyte, for any number of prompts and examples
_MOST_TEXT = 700_000  # bytes of all prompts together
_MOST_ANSWERS = 300_000  # bytes of all responses together
_ONE_ANSWER = 4_000  # characters of one response
_MOST_REASON = 300  # characters
_ONE_REASON, _MOST_REASONS = 2_000, 5  # characters of a judge's reason, and reasons
_MOST_INPUTS = 300_000  # bytes of the inputs of all examples together
_ONE_INPUT = 20_000  # characters of one input
_IN_SEGMENTS = 6  # prompts in the small pictures, besides the baseline
_MOST_PAIRS = 600  # examples in a comparison of two prompts
_MOST_FAILED = 100  # examples in a comparison on which an evaluation failed
_MOST_QUANTITIES = 8
_MOST_GROUPS = 50  # of failures
_MOST_GROUP_REASON = 600  # characters of the reason of a group
# Sums of smaller numbers stay finite. A larger number is not a measurement.
_LARGEST = 1e100
# Numbers in the reason of a failure. Reasons that differ only in numbers are one group.
_COMPARISON = re.compile(" [<>]= ")
# The digest at the end of an id that was made of a row's first words
_DIGEST_IN_ID = re.compile(r" \([0-9a-f]{12}\)(-\d+)?$")
_NUMBERS = re.compile(r"\d+(\.\d+)?")


@undisturbed
def document(
    state: State,
    method: AbstractMethod,
    prompts: Prompts,
    *,
    name: str | None = None,
    evaluations: Iterable[Evaluation] | None = None,
    about: Mapping[str, Any] | None = None,
    paused: bool = False,
    inputs: Sequence[str] | None = None,
    ruling: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The data of a selection's report, JSON-ready.

    Args:
        state: the selection.
        method: its method.
        prompts: its prompts, with their ids and texts.
        name: the name of the study, None for a selector.
        evaluations: every evaluation, with its cost and details. By default the
            evaluations of the state, which have neither.
        about: settings of the run to show, by name, such as the model and the data.
        paused: whether the study is paused.
        inputs: the text of each example, in their order. None if unknown.
        ruling: of a gate, which heads the page instead of the selection's verdict:
            `headline`, `verdict` ("passed", "failed" or "undecided"), `requirements`
            (pairs of a text and its verdict), `reasons` (sentences), the ids of the
            `candidate` and the `baseline`, and the `confidence`.
    """
    result = summarize(state, method, prompts)
    problem, metrics = state.problem, result.goal.columns

    # Prompts by position
    place = {entry.id: arm for arm, entry in enumerate(result.prompts)}
    answer = [place[entry.id] for entry in result.selected]
    baseline = None if result.baseline is None else place[result.baseline]
    rivals = [place[entry.id] for entry in result.unresolved] if answer else []
    order = ranking(result)
    pairs = _pairs(result, answer, baseline, rivals, order.tolist())
    if ruling is not None:
        sides = place[ruling["candidate"]], place[ruling["baseline"]]
        ruling = {**ruling, "candidate": sides[0], "baseline": sides[1]}
        pairs = [(*sides, "baseline")]

    # Quantities besides the scores, and failures
    if evaluations is None:
        evaluations = evaluations_of(state, prompts.ids)
    compared = set(chain.from_iterable((a, b) for a, b, _ in pairs))
    extras = Extras(evaluations, prompts.ids, metrics, compared)
    quantities = extras.quantities(len(result.prompts))

    grid = Grid(state)
    comparison = result.comparison
    data: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "name": name,
        "state": version_of(state, paused),
        "paused": paused,
        "pending": len(state.pending),
        "goal": _goal(result, limits_of(state)),
        "done": result.done,
        # A finished table, for which nothing was spent
        "finished": problem.looks_once,
        "spent": result.spent,
        "budget": result.budget,
        "spent_cost": result.spent_cost,
        "max_cost": result.max_cost,
        "feasible": result.feasible,
        "currency": _currency(about or {}),
        "money_per": _money_per(result, quantities),
        "spending": describe_spending(result),
        "examples": problem.examples.n,
        "whole": _whole(state),
        "notes": list(result.notes),
        "checks": [asdict(check) for check in result.checks],
        "answer": answer,
        "verdict": result.verdict.to_dict(),
        "unresolved": rivals,
        "baseline": baseline,
        "comparison": None if comparison is None else comparison.to_dict(),
        "order": order.tolist(),
        "prompts": _prompts(result, [readable(text) for text in prompts.texts]),
        "spending_by_prompt": spending(state, order),
        "segments": _segments(result, answer, rivals, baseline),
        "heat_map": heat_map(grid, order),
        "telling": discriminating_examples(grid, result),
        "duels": _duels(result, grid, extras, pairs, ruling),
        "quantities": quantities,
        "failures": extras.failures(),
        "made": _made(state, method, prompts, about),
    }
    data |= _judges(state, result)
    if prompts.candidates is not None:
        data["factors"] = _factors(result, prompts.candidates, answer)
    if problem.examples.ids is not None:
        data["example_names"] = _example_names(problem.examples.ids, inputs)
    if ruling is not None:
        data["ruling"] = ruling
    data["words"] = words.conclusions(data, result)
    return with_inputs(data, inputs)


def _example_names(ids: Sequence[str], inputs: Sequence[str] | None) -> list[str]:
    """The ids of the examples. An id that was made of an input and a digest becomes the number of its row."""
    if inputs is None:
        return list(ids)
    names = []
    for row, id_ in enumerate(ids, 1):
        words = _DIGEST_IN_ID.sub("", id_)
        start = words.removesuffix("...").removesuffix("…").strip()
        text = " ".join(inputs[row - 1].split()) if row <= len(inputs) else ""
        is_made = words != id_ and bool(start) and text.startswith(start)
        names.append(f"row {row}: {words}" if is_made else id_)
    return names


def with_inputs(
    data: dict[str, Any], inputs: Sequence[str] | None = None
) -> dict[str, Any]:
    """Add the texts of the examples that a document compares prompts on, as "inputs", by position.

    Args:
        data: the document. It is changed, and returned.
        inputs: the text of each example, in their order. None if unknown.

    Raises:
        InvalidArgumentError: an input is no text, or there are more inputs than examples.
    """
    if inputs is None:
        return data
    texts = check_texts("inputs", inputs, data["examples"])
    room, shown = _MOST_INPUTS, dict[str, str]()
    rows = chain.from_iterable(duel["rows"] for duel in data["duels"])
    for example in dict.fromkeys(row["example"] for row in rows):
        if example < len(texts) and room > 0:
            shown[str(example)] = text = texts[example][:_ONE_INPUT]
            room -= _size(text)
    data["inputs"] = shown
    return data


def _judges(state: State, result: Result) -> dict[str, Any]:
    """How far each proxy agrees with the goal. Empty without scores of proxies.

    The means of the prompts are the result's estimates, so the report has one estimate
    of each prompt.
    """
    judges = [asdict(agreement) for agreement in agreements(state)]
    for judge in judges:
        for row in judge["prompts"]:
            entry = result.prompts[row["arm"]]
            row["mean"] = entry.estimate[judge["metric"]]
            row["error"] = entry.standard_error[judge["metric"]]
    return {"judges": judges} if judges else {}


def _money_per(result: Result, quantities: Sequence[Mapping[str, Any]]) -> int:
    """The number of evaluations whose cost the report shows, so that the numbers are not tiny."""
    recorded = (
        quantity["means"] for quantity in quantities if quantity["name"] == "cost"
    )
    estimated = (entry.estimate.get("cost") for entry in result.prompts)
    return money_per([*chain.from_iterable(recorded), *estimated])


def version_of(state: State, paused: bool = False) -> str:
    """The version of a selection's document, which changes when the document does. Takes little time.

    Decisions are not part of the version, because a document also shows decisions that
    are due and not logged yet.
    """
    counts = [len(state.history), len(state.failures), len(state.pending)]
    counts += (
        [len(state.growth.events), int(paused)] if state.growth.events or paused else []
    )
    # Scores of proxies may come alone
    counts += [len(state.proxies)] if len(state.proxies) else []
    if not state.remarks:
        return ".".join(map(str, counts))
    remarks = state.remarks.in_order()
    return ".".join(map(str, counts)) + f"-{zlib.crc32(repr(remarks).encode()):x}"


def _goal(result: Result, seen: Sequence[tuple[float, float] | None]) -> dict[str, Any]:
    """The goal with its metrics and their bounds. `seen`: the range of each metric, as far as it is known."""
    goal = result.goal
    bounds = list(zip(goal.constraints, goal.bounds, result.bounds, strict=True))
    objectives = {o.metric: "min" if o.minimize else "max" for o in goal.objectives}
    return {
        "text": str(goal),
        "kind": "pareto" if isinstance(goal, ParetoSet) else "best",
        "metrics": [
            {
                "name": metric,
                "direction": objectives.get(metric),
                "range": [*limits]
                if (limits := goal.ranges.get(metric, limits_seen))
                else None,
                "thresholds": [
                    {
                        "bound": bound,
                        "at_most": b.at_most,
                        # Such as "best - 0.02", which moves with an estimate
                        "relative": None
                        if b.of is None
                        else _COMPARISON.split(str(c))[-1],
                        "text": str(c),
                    }
                    for c, b, bound in bounds
                    if goal.columns[b.column] == metric and not math.isnan(bound)
                ],
            }
            for metric, limits_seen in zip(goal.columns, seen, strict=True)
        ],
        "objectives": [goal.columns.index(o.metric) for o in goal.objectives],
    }


def _prompts(result: Result, texts: list[str]) -> dict[str, Any]:
    """The prompts as columns. `texts` are formatted for readers."""
    entries, metrics = result.prompts, result.goal.columns

    def metric_rows(field: str) -> list[list[float | None]]:
        return [
            [getattr(entry, field).get(metric) for metric in metrics]
            for entry in entries
        ]

    columns = [
        column for column in columns_of(result, entries) if column.kind != "mark"
    ]
    arrays: dict[str, list[Any]] = {
        column.name: column.texts for column in columns if not column.values
    }
    for column in columns:
        arrays |= {} if column.kind == "estimate" else column.values
    arrays["reason"] = [
        None if entry.reason is None else entry.reason[:_MOST_REASON]
        for entry in entries
    ]
    return {
        **arrays,
        # The columns of the table. Those that are estimates come first, in the order of
        # the metrics.
        "columns": [
            {
                "name": column.name,
                "kind": column.kind,
                "array": next(iter(column.values), column.name),
            }
            for column in columns
            if column.shown
        ],
        "ids": [str(entry.id) for entry in entries],
        "numbered": isinstance(entries[0].id, int),
        "texts": _fitting(texts),
        "lengths": [len(text) for text in texts],
        "estimates": metric_rows("estimate"),
        "errors": metric_rows("standard_error"),
    }


def _segments(
    result: Result, answer: list[int], rivals: list[int], baseline: int | None
) -> dict[str, Any] | None:
    """Estimates of a few prompts by segment and metric. Metrics that the goal judges by segment come first."""
    goal = result.goal
    arms = [*answer[:_IN_SEGMENTS], *rivals[:_IN_SEGMENTS]][:_IN_SEGMENTS]
    arms += [baseline] if baseline is not None and baseline not in arms else []
    if not arms or not result.prompts[arms[0]].segments:
        return None
    assignment = _assignment(result)
    if assignment is not None:
        arms += [arm for arm in dict.fromkeys(assignment["arms"]) if arm not in arms]
    rows = [result.prompts[arm].segments for arm in arms]
    columns = sorted(range(len(goal.columns)), key=lambda j: j not in goal.by_segment)
    cells = [
        [[row[name][goal.columns[j]] for j in columns] for name in rows[0]]
        for row in rows
    ]
    return {
        "names": list(rows[0]),
        "columns": columns,
        "arms": arms,
        "means": [[[mean for mean, _ in cell] for cell in row] for row in cells],
        "errors": [[[error for _, error in cell] for cell in row] for row in cells],
        "assignment": assignment,
    }


def _assignment(result: Result) -> dict[str, Any] | None:
    """The prompt of each segment, with the gain over the single best prompt. None without an assignment."""
    if result.assigned is None:
        return None
    assignment = result.assignment()
    place = {entry.id: arm for arm, entry in enumerate(result.prompts)}
    return {
        "sentence": assignment.sentence,
        "single": place[assignment.single],
        "arms": [place[choice.candidate] for choice in assignment.segments],
        "gains": [choice.gain for choice in assignment.segments],
        "errors": [choice.standard_error for choice in assignment.segments],
        "p_worse": [choice.p_worse for choice in assignment.segments],
    }


def _factors(
    result: Result, candidates: Candidates, answer: Sequence[int]
) -> list[dict[str, Any]]:
    """The factors of candidates, with estimates and errors of their levels by metric, and the selected levels."""
    metrics = result.goal.columns
    chosen = {
        name: {candidates.levels[arm][i] for arm in answer}
        for i, name in enumerate(candidates.factors)
    }
    return [
        {
            "name": name,
            "levels": list(levels),
            "estimates": [
                [means[metric][0] for metric in metrics] for means in levels.values()
            ],
            "errors": [
                [means[metric][1] for metric in metrics] for means in levels.values()
            ],
            "answer": [i for i, level in enumerate(levels) if level in chosen[name]],
        }
        for name, levels in result.factors().items()
    ]


def _fitting(texts: list[str]) -> list[str]:
    """The texts, with the longest texts cut to equal lengths so that all fit."""
    most = max(map(len, texts))
    while sum(map(_size, texts)) > _MOST_TEXT:
        most = most * 3 // 4
        texts = [text[:most] for text in texts]
    return texts


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _whole(state: State) -> dict[str, Any] | None:
    """The evaluations and the cost of every prompt on every example. None without a fixed set of examples."""
    problem, pool = state.problem, state.costs.pool
    if problem.examples.n is None:
        return None
    cells = problem.n_arms * problem.examples.n
    cost = None
    if pool.n and pool.total:
        cost = float(
            problem.examples.n * state.costs.expected_all(problem.n_arms).sum()
        )
    return {"evaluations": cells, "cost": cost}


def _pairs(
    result: Result,
    answer: list[int],
    baseline: int | None,
    rivals: list[int],
    order: list[int],
) -> list[tuple[int, int, str]]:
    """Pairs of prompts to compare, with the role of the second, which is "baseline" or "runner-up"."""
    if not answer:
        return []
    first = next((arm for arm in answer if arm != baseline), answer[0])
    pairs = [] if baseline in (None, first) else [(first, baseline, "baseline")]
    candidates = [
        arm
        for arm in order
        if arm not in (first, baseline) and result.prompts[arm].evaluations
    ]
    if candidates:  # among equals, the first in the order
        runner_up = min(
            candidates,
            key=lambda arm: (arm not in rivals, -(result.prompts[arm].p_best or 0.0)),
        )
        pairs.append((first, runner_up, "runner-up"))
    return pairs


def _duels(
    result: Result,
    grid: Grid,
    extras: "Extras",
    pairs: list[tuple[int, int, str]],
    ruling: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Comparisons of two prompts by example, the worst for the first prompt first.

    They are ordered by `compared_metric`. An example on which one of the two scored
    worse there has the probability that this is only noise.
    """
    if grid.problem.examples.n is None:
        return []
    duels, room, first = [], _MOST_ANSWERS, compared_metric(grid.problem.goal)
    for a, b, what in pairs:
        duel = Duel.of(grid, a, b)
        half, order = _MOST_PAIRS // 2, duel.order(first)
        shown = (
            order
            if len(order) <= _MOST_PAIRS
            else np.concatenate((order[:half], order[-half:]))
        )
        first_entry, second_entry = result.prompts[a], result.prompts[b]
        stated = result.comparison if what == "baseline" else None
        if ruling is not None:
            stated = result.compare(first_entry, second_entry, ruling["confidence"])
        elif stated is None:
            stated = result.compare(first_entry, second_entry)
        false_rates = _false_rates(stated, first, result)
        rows = []
        for at in shown.tolist():
            example = int(duel.examples[at])
            row: dict[str, Any] = {
                "example": example,
                "a": duel.a[at].tolist(),
                "b": duel.b[at].tolist(),
                "ahead": duel.ahead[at].tolist(),
            }
            if example in false_rates:
                row["false"] = round(false_rates[example], 4)
            responses = extras.said((a, b), example) if room > 0 else {}
            room -= _size(json.dumps(responses)) if responses else 0
            rows.append(row | responses)
        comparison = stated.to_dict()
        ahead = duel.ahead
        duels.append({
            "a": a, "b": b, "what": what, "pairs": len(order), "rows": rows,
            "counts": [[int((column == sign).sum()) for sign in (1, 0, -1)] for column in ahead.T],
            "metric": first, "failed": _failed_rows(extras, a, b, duel),
            "differences": comparison["differences"], "confidence": comparison["confidence"],
            "answers": any("answers" in row for row in rows),
            "answers_cut": room <= 0,
        })  # fmt: skip
    return duels


def _failed_rows(extras: "Extras", a: int, b: int, duel: Duel) -> list[dict[str, Any]]:
    """Examples without a pair of scores, because an evaluation of one of the two failed, with the reasons."""
    paired = set(duel.examples.tolist())
    failed = {example for arm, example in extras.errors if arm in (a, b)}
    return [
        {
            "example": example,
            "errors": [extras.errors.get((arm, example)) for arm in (a, b)],
        }
        for example in sorted(failed - paired)[:_MOST_FAILED]
    ]


def _false_rates(
    comparison: Comparison, column: int, result: Result
) -> dict[int, float]:
    """The probability that a difference on an example is only noise, by the positions of the examples that differ."""
    name = result.goal.columns[column]
    if name not in comparison.differences:
        return {}
    place = {id_: at for at, id_ in enumerate(result.example_ids or ())}
    changed = (*comparison.regressions(1.0, name), *comparison.improvements(1.0, name))
    return {
        change.example if isinstance(change.example, int) else place[change.example]: (
            change.false_rate
        )
        for change in changed
    }


def _made(
    state: State,
    method: AbstractMethod,
    prompts: Prompts,
    about: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The method, settings, versions and digests that are needed to repeat the selection."""
    problem, history = state.problem, state.history
    columns = [
        column.tobytes()
        for column in (history.arms(), history.examples(), history.scores())
    ]
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "asktell": own_version(),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "method": _settings(method),
        "seed": str(problem.seed),
        "sampling": problem.examples.sampling,
        "on_failure": problem.on_failure,
        "max_failure_rate": problem.max_failure_rate,
        "features": None if problem.features is None else list(problem.features.shape),
        "digests": {
            "prompts": _digest(
                json.dumps(
                    [[str(i) for i in prompts.ids], list(prompts.texts)]
                ).encode()
            ),
            "scores": _digest(b"".join(columns)),
        },
        "about": plain(about),
    }


def plain(about: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings of a run as JSON-ready data."""
    settings: dict[str, Any] = json.loads(json.dumps(dict(about or {}), default=str))
    return settings


def _currency(about: Mapping[str, Any]) -> str:
    """The currency of a run's prices. Empty if the settings have no currency, or several."""
    currency = about.get("currency")
    inner = (
        _currency(inner_table)
        for inner_table in about.values()
        if isinstance(inner_table, Mapping)
    )
    currencies = {
        name for name in (currency if isinstance(currency, str) else "", *inner) if name
    }
    return currencies.pop() if len(currencies) == 1 else ""


def _settings(part: Any) -> Any:
    """The hyperparameters of a method and of its parts, JSON-ready."""
    if not is_dataclass(part):
        return (
            part if part is None or isinstance(part, str | int | float) else repr(part)
        )
    return {
        "type": type(part).__name__,
        **{f.name: _settings(getattr(part, f.name)) for f in fields(part)},
    }


def _digest(data: bytes) -> str:
    """A short digest, to see whether two selections had the same data."""
    return hashlib.sha256(data).hexdigest()[:16]


class Extras:
    """Quantities, costs and responses besides the scores, and failures, summed over evaluations in one pass.

    A number among the details of an evaluation, such as seconds or tokens, is a
    quantity.

    Args:
        evaluations: the evaluations.
        ids: the ids of all prompts.
        metrics: the metrics of the goal, which are no quantities.
        answers_of: the arms whose responses are kept.
    """

    def __init__(
        self,
        evaluations: Iterable[Evaluation],
        ids: Sequence[str | int],
        metrics: Collection[str],
        answers_of: Collection[int],
    ) -> None:
        # The response, and the grades and reasons of each judge, by arm and example
        self.answers: dict[tuple[int, int], str] = {}
        self.judged: dict[tuple[int, int], list[dict[str, Any]]] = {}
        # The reasons of failed evaluations, by arm and example
        self.errors: dict[tuple[int, int], str] = {}
        self._sums: dict[str, dict[int, tuple[int, float]]] = defaultdict(dict)
        self._reasons: dict[str, dict[str, Any]] = {}
        arms = {id_: arm for arm, id_ in enumerate(ids)}
        columns = {*metrics, "cost"}
        for evaluation in evaluations:
            arm = arms[evaluation.prompt]
            if evaluation.cost is not None:
                self._count("cost", arm, evaluation.cost)
            for name, value in _quantities_of(evaluation):
                if name not in columns:
                    self._count(name, arm, value)
            if evaluation.error is not None:
                self._fail(arm, evaluation.example, evaluation.error)
                if arm in answers_of and evaluation.example is not None:
                    self.errors[arm, evaluation.example] = evaluation.error[
                        :_MOST_GROUP_REASON
                    ]
            elif arm in answers_of and evaluation.example is not None:
                if evaluation.answer is not None:
                    self.answers[arm, evaluation.example] = evaluation.answer
                if judged := _judged_in(evaluation.details or {}):
                    self.judged[arm, evaluation.example] = judged

    def said(self, arms: Sequence[int], example: int) -> dict[str, Any]:
        """The responses of some arms to an example, and what judges said of them. Empty if nothing was stored."""
        answers = [self.answers.get((arm, example)) for arm in arms]
        judged = [self.judged.get((arm, example)) for arm in arms]
        shown = [None if text is None else text[:_ONE_ANSWER] for text in answers]
        texts: dict[str, Any] = {"answers": shown} if any(answers) else {}
        return texts | ({"judged": judged} if any(judged) else {})

    def _count(self, name: str, arm: int, value: float) -> None:
        if name in self._sums or len(self._sums) < _MOST_QUANTITIES:
            n, total = self._sums[name].get(arm, (0, 0.0))
            self._sums[name][arm] = n + 1, total + value

    def _fail(self, arm: int, example: int | None, reason: str) -> None:
        """Group a failure with those whose reasons differ only in numbers."""
        group = self._reasons.setdefault(
            _NUMBERS.sub("#", " ".join(reason.split()))[:_MOST_GROUP_REASON],
            {
                "reason": reason[:_MOST_GROUP_REASON],
                "count": 0,
                "prompts": Counter(),
                "examples": [],
            },
        )
        group["count"] += 1
        group["prompts"][arm] += 1
        if (
            example is not None
            and len(group["examples"]) < 20
            and example not in group["examples"]
        ):
            group["examples"].append(example)

    def quantities(self, n_arms: int) -> list[dict[str, Any]]:
        """The mean of each quantity per prompt, its total and its number of values. None for prompts without values."""
        rows = []
        for name, of_arm in self._sums.items():
            means = [
                None if arm not in of_arm else of_arm[arm][1] / of_arm[arm][0]
                for arm in range(n_arms)
            ]
            n, total = (sum(column) for column in zip(*of_arm.values(), strict=True))
            rows.append(
                {
                    "name": name,
                    "mean": total / n,
                    "total": total,
                    "of": n,
                    "means": means,
                }
            )
        return rows

    def failures(self) -> list[dict[str, Any]]:
        """The failures by reason, the most frequent reason first."""
        groups = sorted(self._reasons.values(), key=lambda group: -group["count"])[
            :_MOST_GROUPS
        ]
        return [
            {
                **group,
                "prompts": [*map(list, group["prompts"].most_common(20))],
                "n_prompts": len(group["prompts"]),
            }
            for group in groups
        ]


def _judged_in(details: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The grades and the reasons of each judge in the details of an evaluation, as `Judgement.details` has them."""
    judged = details.get("judged")
    judgements = []
    for metric, judgement in judged.items() if isinstance(judged, dict) else ():
        if not isinstance(judgement, dict):
            continue
        grades, reasons = judgement.get("grades"), judgement.get("reasons")
        numbers = {
            str(name): float(grade)
            for name, grade in (grades.items() if isinstance(grades, dict) else ())
            if isinstance(grade, int | float) and abs(grade) <= _LARGEST
        }
        texts = [
            text[:_ONE_REASON]
            for text in (reasons if isinstance(reasons, list) else ())
            if isinstance(text, str) and text
        ]
        if numbers or texts:
            texts = list(dict.fromkeys(texts))[:_MOST_REASONS]
            judgements.append(
                {"metric": str(metric), "grades": numbers, "reasons": texts}
            )
    return judgements


def _quantities_of(evaluation: Evaluation) -> Iterator[tuple[str, float]]:
    """The numbers among the details of an evaluation, and among further scores in these details."""
    details = evaluation.details or {}
    extra = details.get("scores")
    for name, value in chain(
        details.items(), extra.items() if isinstance(extra, dict) else ()
    ):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and abs(value) <= _LARGEST:
            yield str(name), float(value)
