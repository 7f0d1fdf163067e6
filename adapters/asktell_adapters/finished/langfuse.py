"""Exports of Langfuse: its tables of scores, traces and observations as CSV, JSON or JSON lines, and pages of its API.

Checked against the source of langfuse/langfuse (`getDatabaseReadStream.ts`, which makes the exports, and
`transformStreamToCsv.ts`), and its documentation of scores. An export of scores has no inputs, so its examples are
traces.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, final

from asktell import InvalidArgumentError
from asktell.extend import nearest, some
from asktell_adapters.finished.frame import Frame
from asktell_adapters.finished.graded import Graded
from asktell_adapters.finished.known_table import header_of
from asktell_adapters.finished.score_columns import ScoreColumns
from asktell_adapters.finished.scored_candidate import ScoredCandidate
from asktell_adapters.finished.scores import Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.unclear_results_error import Reading, UnclearResultsError
from asktell_adapters.finished.wanted import Wanted
from asktell_adapters.tables.rows import number_in

_SCORE = {"traceId", "name", "value", "dataType", "source"}
_RUN = {"id", "input", "output", "latency", "totalCost"}
# Of a trace, or of an observation
_OF_LANGFUSE = {"observationCount", "bookmarked", "htmlPath", "traceId"}
_OF_RUNS = ("latency", "totalCost", "totalTokens")
_NUMERIC = ("NUMERIC", "BOOLEAN")
# Columns that may distinguish candidates
_CANDIDATES = (
    "version",
    "release",
    "model",
    "promptName",
    "promptVersion",
    "environment",
)


@final
class LangfuseReader:
    """A file is one candidate, unless the user names the column that distinguishes several."""

    name = "exports of Langfuse"

    def recognizes(self, source: Source) -> bool:
        """Whether there are scores with a type and a source, or inputs and outputs with Langfuse's costs."""
        names = set(_first(source))
        is_run = names >= _RUN and not names.isdisjoint(_OF_LANGFUSE)
        return names >= _SCORE or is_run

    def read(self, source: Source, wanted: Wanted) -> Scores:
        """Read the numeric scores of all traces or observations.

        Raises:
            InvalidArgumentError: the export is damaged, or lacks the column that names candidates.
            UnclearResultsError: a column such as "version" may distinguish candidates.
        """
        rows = _rows(source, wanted)
        names_of_columns = _first(source)
        for name in wanted.candidate_columns:
            if name not in names_of_columns:
                raise InvalidArgumentError(
                    f"{source.path} has no column {name!r}{nearest(name, names_of_columns)}, which --candidate-column "
                    f"names. Its columns are {some(names_of_columns)}."
                )
        columns = wanted.candidate_columns
        is_of_scores = set(names_of_columns) >= _SCORE
        graded: dict[str | None, list[Graded]] = {}
        for at, graded_row in _scores(rows) if is_of_scores else _runs(rows):
            names = [str(rows[at].get(column)) for column in columns]
            graded.setdefault("/".join(names) or None, []).append(graded_row)
        if not columns:
            metrics = {
                name
                for graded_row in graded.get(None, ())
                for name in graded_row.scores
            }
            _check_candidates(source, rows, sorted(metrics), wanted)
        return Scores(
            self.name,
            [
                ScoredCandidate(source.path, ScoreColumns.of(evaluations), name)
                for name, evaluations in graded.items()
            ],
            f"column {', '.join(columns)}:"
            if columns
            else "file"
            if wanted.is_alone
            else "files",
            "traces" if is_of_scores else "inputs",
            repeats="scores with the same name" if is_of_scores else None,
        )


def _first(source: Source) -> Sequence[str]:
    """The names of the columns."""
    return list(source.items[0]) if source.items else header_of(source)


def _rows(source: Source, wanted: Wanted) -> Sequence[Mapping[str, Any]]:
    if source.items:
        return source.items
    frame = Frame.read(source, wanted)
    return [
        dict(zip(frame.columns, cells, strict=True))
        for cells in zip(*frame.columns.values(), strict=True)
    ]


def _check_candidates(
    source: Source,
    rows: Sequence[Mapping[str, Any]],
    metrics: Sequence[str],
    wanted: Wanted,
) -> None:
    """Check that no column may distinguish candidates, unless the user wants one candidate per file."""
    several = {
        name: values
        for name in _CANDIDATES
        if len(values := {str(row[name]) for row in rows if row.get(name)}) > 1
    }
    if not several or wanted.metrics or not wanted.is_alone:
        return
    readings = [
        Reading(
            f"The candidates are {some(sorted(values))}.", ("--candidate-column", name)
        )
        for name, values in several.items()
    ]
    alone = Reading("One candidate, the file.", ("--metrics", ",".join(metrics)))
    raise UnclearResultsError(
        f"{source.path} has several values in {some(list(several))}, which may distinguish candidates.",
        [*readings, alone],
    )


def _scores(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Graded]]:
    """The numeric scores of each trace, with the position of a row of it. A category has no number."""
    traces: dict[str, list[dict[str, object]]] = {}
    at: dict[str, int] = {}
    for number, row in enumerate(rows):
        if row.get("dataType") not in _NUMERIC:
            continue
        trace = str(row.get("traceId") or row.get("sessionId") or row.get("id"))
        at.setdefault(trace, number)
        attempts = traces.setdefault(trace, [])
        attempt = next(
            (scores for scores in attempts if row["name"] not in scores), None
        )
        if attempt is None:
            attempts.append(attempt := {})
        attempt[str(row["name"])] = number_in(row.get("value"))
    for trace, attempts in traces.items():
        for values in attempts:
            yield at[trace], Graded.of(trace, values)


def _runs(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Graded]]:
    """The scores, seconds and costs of each trace or observation."""
    for number, row in enumerate(rows):
        values: dict[str, object] = {}
        for name, cell in row.items():
            value = _parsed(cell)
            if name == "scores" and isinstance(value, list):
                values |= {
                    str(score["name"]): score.get("value")
                    for score in value
                    if isinstance(score, dict) and score.get("dataType") in _NUMERIC
                }
            elif name in _OF_RUNS:
                values[name] = number_in(value)
            elif isinstance(value, list) and value and all(map(_is_number, value)):
                # All scores with this name
                values[name] = fmean(value)
        example = _parsed(row.get("input"))
        if not isinstance(example, str):
            example = json.dumps(example, sort_keys=True, ensure_ascii=False)
        is_scored = any(name not in _OF_RUNS for name in values)
        error = None
        if not is_scored and row.get("level") == "ERROR":
            error = str(row.get("statusMessage") or "level ERROR")
        yield number, Graded.of(example, {} if error else values, error)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _parsed(cell: Any) -> Any:
    """The value of a cell of CSV, in which Langfuse writes lists and objects as JSON."""
    if isinstance(cell, str) and cell[:1] in tuple('[{"'):
        try:
            return json.loads(cell)
        except ValueError:
            return cell
    return cell
