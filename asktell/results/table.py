"""The table of prompts: one list of columns for the text, the notebook, the data frame, the report and tracking.

A new column is added in `columns_of`, and nowhere else.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asktell._util.terminal import with_error
from asktell.problem.goals import BestFeasible, Goal
from asktell.results.entries import PromptResult, Summary, shown_estimates, shown_status
from asktell.results.evaluations import column_names
from asktell.results.frames import frame_of
from asktell.results.printing import with_doubt

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Column:
    """One column of the table of prompts, for readers and for programs.

    Attributes:
        name: the header for readers.
        kind: how the report draws a cell. "estimate", "number", "probability", "count",
            "status", "mark" or "text". The values of "text" are texts.
        texts: one cell per prompt for readers.
        values: name for programs -> one value per prompt, None if unknown. A metric has
            two names, of its estimate and of its standard error. A column without
            values is only for readers.
        dtype: the pandas type of the values.
        shown: whether readers see the column.
    """

    name: str
    kind: str
    texts: list[str]
    values: Mapping[str, list[Any]]
    dtype: str
    shown: bool = True


def columns_of(result: Summary, entries: Sequence[PromptResult]) -> list[Column]:
    """The columns of these prompts between "id" and "prompt", in the order in which they are shown."""
    goal = result.goal
    best = "P(best)" if isinstance(goal, BestFeasible) else "P(in set)"
    return [
        _selection(result, entries),
        *_estimates(goal, entries),
        *_plain_means(goal, entries),
        *_worst_segments(goal, entries),
        *_proxies(entries),
        _probability(best, "p_best", entries),
        _probability("P(feasible)", "p_feasible", entries),
        _count("evaluations", "evaluations", entries, shown=True),
        _count(
            "failed",
            "failures",
            entries,
            shown=any(entry.failures for entry in entries),
        ),
        _dominated(result, entries),
        _status(entries),
        _plain("round", entries, "Int64"),
        _plain("reason", entries, "object"),
        _plain("feasible", entries, "boolean"),
        *_assigned(result, entries),
    ]


def shown_columns(
    result: Summary, entries: Sequence[PromptResult], status: bool = False
) -> list[list[str]]:
    """The shown columns as text, each with its header first. The status is included only on request."""
    columns = [column for column in columns_of(result, entries) if column.shown]
    return [
        [column.name, *column.texts]
        for column in columns
        if status or column.name != "status"
    ]


def values_of(result: Summary, entries: Sequence[PromptResult]) -> dict[str, list[Any]]:
    """Name for programs -> one value per prompt. The names are "id", those of `columns_of`, and "prompt"."""
    values: dict[str, list[Any]] = {"id": [entry.id for entry in entries]}
    for column in columns_of(result, entries):
        values |= column.values
    return {**values, "prompt": [entry.prompt for entry in entries]}


def as_frame(result: Summary) -> "pandas.DataFrame":
    """A data frame with one row per prompt and one column per name for programs."""
    dtypes = {
        name: column.dtype
        for column in columns_of(result, result.prompts)
        for name in column.values
    }
    return frame_of(values_of(result, result.prompts), dtypes)


def _selection(result: Summary, entries: Sequence[PromptResult]) -> Column:
    """Whether a prompt is selected ("*"), or a contender besides the selected prompts ("?")."""
    selected = {entry.id for entry in result.selected}
    unresolved = {entry.id for entry in result.unresolved} - selected
    marks = [
        "*" if entry.id in selected else "?" if entry.id in unresolved else ""
        for entry in entries
    ]
    values = {
        "selected": [entry.id in selected for entry in entries],
        "unresolved": [entry.id in unresolved for entry in entries],
    }
    return Column("", "mark", marks, values, "bool")


def _estimates(goal: Goal, entries: Sequence[PromptResult]) -> Iterator[Column]:
    """Per metric the estimates with their standard errors. A small cost is shown per 1,000 evaluations."""
    for metric, name in zip(
        goal.columns, column_names(goal.columns, _TAKEN), strict=True
    ):
        header, texts = shown_estimates(entries, metric)
        values = {
            name: [entry.estimate[metric] for entry in entries],
            f"{name} error": [entry.standard_error[metric] for entry in entries],
        }
        yield Column(header, "estimate", texts, values, "float64")


def _plain_means(goal: Goal, entries: Sequence[PromptResult]) -> Iterator[Column]:
    """Per metric of a finished table, the plain means of its scores."""
    if not any(entry.plain_mean for entry in entries):
        return
    names = column_names(goal.metrics, _TAKEN)
    for metric, name in zip(goal.metrics, names, strict=True):
        values = [entry.plain_mean.get(metric) for entry in entries]
        texts = ["-" if value is None else f"{value:.4g}" for value in values]
        header = "plain mean" if len(names) == 1 else f"plain mean of {metric}"
        yield Column(header, "number", texts, {f"{name} plain mean": values}, "float64")


def _worst_segments(goal: Goal, entries: Sequence[PromptResult]) -> Iterator[Column]:
    """Per metric that the goal judges by segment: the estimate in the worst segment, and its label."""
    # The texts only: the numbers are in `PromptResult.segments`, for each segment.
    for column in goal.by_segment:
        metric = goal.columns[column]
        worst_of: Callable[..., Any] = max if metric in goal.minimized else min
        texts = []
        for entry in entries:
            by_label = (
                (means[metric], label) for label, means in entry.segments.items()
            )
            worst = worst_of(by_label, default=None)
            texts.append(
                "" if worst is None else f"{with_error(*worst[0])} ({worst[1]})"
            )
        yield Column(f"{metric}, worst", "text", texts, {}, "object")


def _proxies(entries: Sequence[PromptResult]) -> Iterator[Column]:
    """Per proxy, the mean of its scores."""
    names = dict.fromkeys(name for entry in entries for name in entry.proxies)
    for name in names:
        values = [entry.proxies.get(name) for entry in entries]
        texts = ["" if value is None else f"{value:.4g}" for value in values]
        yield Column(
            f"{name} (proxy)", "number", texts, {f"proxy {name}": values}, "float64"
        )


def _probability(name: str, field: str, entries: Sequence[PromptResult]) -> Column:
    """A probability. The column is shown if the probability is known for at least one prompt."""
    values = [getattr(entry, field) for entry in entries]
    shown = any(value is not None for value in values)
    return Column(
        name,
        "probability",
        [with_doubt(value) for value in values],
        {field: values},
        "float64",
        shown,
    )


def _count(
    name: str, field: str, entries: Sequence[PromptResult], shown: bool
) -> Column:
    """A number of evaluations."""
    values = [getattr(entry, field) for entry in entries]
    return Column(
        name, "count", [str(value) for value in values], {field: values}, "int64", shown
    )


def _dominated(result: Summary, entries: Sequence[PromptResult]) -> Column:
    """The selected prompt that dominates a selected prompt, based on the estimates. Shown if one is dominated."""
    dominated = result.dominated
    texts = [str(dominated.get(entry.id, "")) for entry in entries]
    return Column("dominated by", "text", texts, {}, "object", shown=any(texts))


def _status(entries: Sequence[PromptResult]) -> Column:
    """The status. For readers, it includes the round and whether the prompt violates a constraint."""
    texts = []
    for entry in entries:
        parts = [shown_status(entry)]
        if entry.round is not None and parts == [entry.status]:
            parts.append(f"round {entry.round}")
        parts += ["infeasible"] if entry.feasible is False else []
        texts.append(", ".join(parts))
    return Column(
        "status",
        "status",
        texts,
        {"status": [entry.status for entry in entries]},
        "object",
    )


def _plain(field: str, entries: Sequence[PromptResult], dtype: str) -> Column:
    """A column for programs only."""
    return Column(
        field,
        "text",
        [],
        {field: [getattr(entry, field) for entry in entries]},
        dtype,
        shown=False,
    )


def _assigned(result: Summary, entries: Sequence[PromptResult]) -> Iterator[Column]:
    """The segments that a prompt is assigned to, separated by commas. For programs only."""
    if (by_prompt := result.assigned) is not None:
        labels = [", ".join(by_prompt.get(entry.id, ())) for entry in entries]
        yield Column(
            "assigned", "text", [], {"assigned": labels}, "object", shown=False
        )


# Names for programs. The column of a metric with such a name becomes "metric NAME".
_TAKEN = (
    "id", "selected", "unresolved", "p_best", "p_feasible", "evaluations", "failures", "status", "round", "reason",
    "feasible", "assigned", "prompt",
)  # fmt: skip
