"""Tables of scores: CSV, TSV, JSON, JSON lines, Parquet and Excel."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np

from asktell import InvalidArgumentError
from asktell.extend import short, some
from asktell_adapters.finished import column_names
from asktell_adapters.finished.column_names import is_failure
from asktell_adapters.finished.evidence import Evidence
from asktell_adapters.finished.frame import Frame, as_id
from asktell_adapters.finished.number_column import (
    PERCENT,
    PLAIN,
    Floats,
    NumberColumn,
    is_unknown,
)
from asktell_adapters.finished.pivot import pivoted
from asktell_adapters.finished.roles import (
    Roles,
    in_command,
    quoted,
    roles_of,
    shared_metric,
)
from asktell_adapters.finished.score_columns import ScoreColumns
from asktell_adapters.finished.scored_candidate import ScoredCandidate
from asktell_adapters.finished.scores import BY_POSITION, ONE_FILE, Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.unclear_results_error import Reading
from asktell_adapters.finished.wanted import Wanted

SCORE = "score"
"""The metric of a table that has a column per candidate, if the name of these columns has none."""

_OF_ASKTELL = {"trial", "prompt", "example", "example_id"}
_METRIC = "metric "  # before the name of a metric that is also the name of a column
_LONGEST_NAME = 80  # characters of a candidate's name. A longer text is an input
# An average with its error or interval: 0.85 ± 0.02, 85.1 (1.2) or 0.85 [0.82, 0.88]
_NUMBER = r"[-+]?[\d.,]+ ?%?"
_AVERAGE = re.compile(
    rf"{_NUMBER} ?(?:±|\+/-|\+-|[(\[]±?) ?{_NUMBER}(?: ?(?:,|;|-|–|to) ?{_NUMBER})?[)\]]?"
)
_LAST = 5  # rows at the end that may summarize the others
# Words of a status or an error
_NO_ERRORS_WORDS = """
false 0 0.0 none null no ok okay success succeeded passed completed complete done finished [] {} ()
'' ""
"""
_NO_ERRORS = frozenset(_NO_ERRORS_WORDS.split())
_NOT_DONE_WORDS = """
failed fail failure incomplete skipped missing invalid
"""
_NOT_DONE = frozenset(_NOT_DONE_WORDS.split())


@final
class TableReader:
    """A table has a row for each evaluation (long), or a row for each example with a column for each candidate (wide).

    The roles of columns follow from the cells. See `roles`.
    """

    name = "tables (.csv, .tsv, .json, .jsonl, .parquet, .xlsx)"

    def recognizes(self, source: Source) -> bool:
        """Any file is read as a table, and the error says why it is none."""
        return not source.is_folder

    def read(self, source: Source, wanted: Wanted) -> Scores:
        """Read the scores.

        Raises:
            InvalidArgumentError: the file is no table, is damaged, or has no scores.
            UnclearResultsError: several readings are plausible.
        """
        frame = _without_summaries(Frame.read(source, wanted).changed(wanted))
        frame = pivoted(_of_asktell(frame))
        evidence = Evidence(frame)
        roles = roles_of(evidence, wanted)
        frame = _with_ids(_without_totals(evidence, roles), roles)
        if frame is not evidence.frame:
            evidence = Evidence(frame)
            roles = roles_of(evidence, wanted)
        return _scores(evidence, roles, wanted)


def _of_asktell(frame: Frame) -> Frame:
    """Give metrics their names in a table of asktell's own evaluations.

    There, a metric "cost" is in the column "metric cost", because the column "cost" has
    the money that was spent.
    """
    if not frame.columns.keys() >= _OF_ASKTELL:
        return frame
    names = {
        name: name.removeprefix(_METRIC)
        for name in frame.columns
        if name.startswith(_METRIC)
    }
    columns = {
        names.get(name, name): cells
        for name, cells in frame.columns.items()
        if name not in names.values()
    }
    return replace(frame, columns=columns)


def _without_summaries(frame: Frame) -> Frame:
    """Leave out rows at the end that begin with a word such as "Average"."""
    n = len(frame.numbers)
    rows = set()
    for at in range(max(0, n - _LAST), n):
        cells = (cells[at] for cells in frame.columns.values())
        first = next((str(cell) for cell in cells if not is_unknown(cell)), "")
        if column_names.is_summary(first):
            rows.add(at)
    return _without_rows(frame, rows)


def _without_rows(frame: Frame, rows: set[int]) -> Frame:
    """Leave out rows that summarize others."""
    if not rows or len(rows) == len(frame.numbers):
        return frame
    words = ", ".join(f"{frame.place} {frame.numbers[at]}" for at in sorted(rows))
    return frame.without(
        rows, f"{frame.path.name}: rows that summarize others are left out: {words}."
    )


def _without_totals(evidence: Evidence, roles: Roles) -> Frame:
    """Leave out totals of candidates: the id is a word such as "Total", and the scores follow from the other rows.

    An example may be called "sum", so the word is not enough. The place of the row does
    not matter.
    """
    frame = evidence.frame
    totals = {
        at: str(cell).strip(" :").lower()
        for name in roles.examples
        for at, cell in enumerate(frame.columns[name])
        if column_names.is_summary(cell)
    }
    if not totals:
        return frame
    others: dict[tuple[str | None, ...], list[int]] = {}
    of = [
        tuple(as_id(frame.columns[name][at]) for name in roles.candidates)
        for at in range(len(frame.numbers))
    ]
    for at, candidate in enumerate(of):
        if at not in totals:
            others.setdefault(candidate, []).append(at)
    columns = [evidence.numbers(name).numbers for name in (*roles.wide, *roles.metrics)]
    examples = {
        word
        for at, word in totals.items()
        if not any(
            _summarizes(numbers, at, others.get(of[at], [])) for numbers in columns
        )
    }
    return _without_rows(
        frame, {at for at, word in totals.items() if word not in examples}
    )


def _summarizes(numbers: Floats, at: int, others: Sequence[int]) -> bool:
    """Whether a number is the mean, the sum or the median of others, which may have been rounded."""
    finite = numbers[list(others)]
    finite = finite[np.isfinite(finite)]
    if len(finite) < 2:
        return False
    of_all = np.array([finite.mean(), finite.sum(), np.median(finite)])
    return bool(np.isclose(numbers[at], of_all, rtol=0.01, atol=1e-9).any())


def _with_ids(frame: Frame, roles: Roles) -> Frame:
    """Leave out rows without an id: an empty id is nobody's."""
    if not roles.examples:
        return frame
    rows = {
        at
        for name in roles.examples
        for at, cell in enumerate(frame.columns[name])
        if as_id(cell) is None
    }
    if not rows:
        return frame
    if len(rows) == len(frame.numbers):
        raise InvalidArgumentError(
            f"{frame.path}: The column {roles.examples[0]!r} of the examples' ids is empty. Write the ids, or pass "
            "--example-column COLUMN."
        )
    return frame.without(
        rows,
        f"{frame.path.name}: {len(rows):,} of {len(frame.numbers):,} rows have no id ({_column(roles.examples)}), and "
        "are left out.",
    )


def _column(names: tuple[str, ...]) -> str:
    return f"column{'s' * (len(names) > 1)} {', '.join(names)}"


def _scores(evidence: Evidence, roles: Roles, wanted: Wanted) -> Scores:
    """The scores of a table whose columns have roles."""
    frame = evidence.frame
    columns = {
        name: _numbers(evidence, name, roles.status)
        for name in (*roles.wide, *roles.metrics)
    }
    if not any(np.isfinite(column).any() for column in columns.values()):
        _refuse(evidence, roles)
    ids = _ids(frame, roles.examples)
    errors = _errors(frame, roles, columns)
    if roles.wide:
        candidates = list(_of_columns(frame, roles, columns, ids, wanted))
        origin = "columns"
    elif roles.candidates:
        candidates = list(_of_rows(frame, roles, ScoreColumns(ids, columns, errors)))
        origin = f"{_column(roles.candidates)}:"
    else:
        evaluations = ScoreColumns(ids, columns, errors)
        candidates = [
            ScoredCandidate(frame.path, evaluations, names=_constant_name(evidence))
        ]
        origin = ONE_FILE if wanted.is_alone else "files"
    used: set[str | None] = {*roles.wide, *roles.metrics, *roles.candidates}
    used |= {
        *roles.examples,
        roles.repeat,
        roles.segment,
        roles.error,
        roles.status,
        roles.text,
    }
    repeats = f"column {roles.repeat}" if roles.repeat else None
    left_out = [name for name in frame.columns if name not in used]
    return Scores(
        "a table",
        candidates,
        origin,
        _column(roles.examples) if roles.examples else BY_POSITION,
        repeats,
        left_out,
        frame.notes,
        _segments(frame, roles, ids),
        _alternatives(evidence, roles),
        _fields(frame, left_out, ids),
    )


def _constant_name(evidence: Evidence) -> tuple[str, ...]:
    """The name of the only candidate, if a column such as "model" has it in each row."""
    frame = evidence.frame
    names = [
        str(frame.columns[name][0]).strip()
        for name in frame.columns
        if column_names.rank(name, column_names.CANDIDATES) is not None
        and evidence.n_values(name) == 1
        and evidence.n_filled(name) == evidence.n_rows
    ]
    return tuple(name for name in names if len(name) <= _LONGEST_NAME)


def _refuse(evidence: Evidence, roles: Roles) -> None:
    """Refuse a table without scores, and show the reasons of failures that it has."""
    frame = evidence.frame
    names = list(frame.columns)
    reasons = [
        str(cell)
        for name in (roles.error, roles.status)
        if name is not None
        for cell in frame.columns[name]
        if _is_error(cell)
    ]
    why = (
        f" The column {roles.error or roles.status!r} says {some(list(dict.fromkeys(reasons)))} in {len(reasons):,} of "
        f"{len(frame.numbers):,} rows."
        if reasons
        else ""
    )
    for name in names:
        cells = [str(cell) for cell in frame.columns[name] if not is_unknown(cell)]
        if cells and all(map(_AVERAGE.fullmatch, cells)):
            why += (
                f" The column {name!r} has averages with errors, such as {cells[0]!r}. No verdict is possible, "
                "because it needs the scores of each example."
            )
            break
    raise InvalidArgumentError(
        f"{frame.path} has no column of scores.{why} Its columns are {some(names)}. Give a table with a column of "
        "numbers, such as 0.5, 60%, 3/5 or correct. If one of the columns has scores, name it with --metrics COLUMN."
    )


def _numbers(evidence: Evidence, name: str, status: str | None) -> Floats:
    """A column of scores. Of a status, timeouts and the like are no scores.

    Raises:
        InvalidArgumentError: a cell is no number, or some are percentages and others not.
    """
    frame, column = evidence.frame, evidence.numbers(name)
    cells = frame.columns[name]
    if name == status:
        column = NumberColumn.of([None if is_failure(cell) else cell for cell in cells])
    if column.wrong:
        cell = cells[column.wrong[0]]
        raise InvalidArgumentError(
            f"{frame.where(column.wrong[0])}: The column {name!r} must hold finite numbers, got {short(cell)}. Write a "
            f"number there, or leave the cell empty if it is unknown. If the column is no score, pass --ignore "
            f"{in_command(name)}."
        )
    at = column.notations.get(PLAIN)
    if at is not None and PERCENT in column.notations and abs(column.numbers[at]) > 1.0:
        raise InvalidArgumentError(
            f"{frame.where(at)}: The column {name!r} has {short(cells[at])} here and "
            f"{short(cells[column.notations[PERCENT]])} elsewhere. Write all scores with % or all without it."
        )
    return column.numbers


def _ids(frame: Frame, examples: tuple[str, ...]) -> list[str]:
    """The id of the example of each row."""
    if not examples:
        return [str(at + 1) for at in range(len(frame.numbers))]
    parts = [[as_id(cell) or "" for cell in frame.columns[name]] for name in examples]
    return (
        parts[0]
        if len(parts) == 1
        else ["/".join(row) for row in zip(*parts, strict=True)]
    )


def _of_columns(
    frame: Frame,
    roles: Roles,
    columns: Mapping[str, Floats],
    ids: list[str],
    wanted: Wanted,
) -> Iterator[ScoredCandidate]:
    """The candidates of a wide table, which has a column of scores for each."""
    metric = (
        wanted.goal[0] if len(wanted.goal) == 1 else shared_metric(roles.wide) or SCORE
    )
    if roles.groups:
        for candidate in dict.fromkeys(name for name, _ in roles.groups.values()):
            scores = {
                part: columns[name]
                for name, (of, part) in roles.groups.items()
                if of == candidate
            }
            yield ScoredCandidate(frame.path, ScoreColumns(ids, scores, {}), candidate)
        return
    for name in roles.wide:
        scored = np.flatnonzero(~np.isnan(columns[name]))
        every = ScoreColumns(ids, {metric: columns[name]}, {})
        is_full = len(scored) == len(ids)
        yield ScoredCandidate(
            frame.path, every if is_full else every.among(scored.tolist()), name
        )


def _of_rows(
    frame: Frame, roles: Roles, evaluations: ScoreColumns
) -> Iterator[ScoredCandidate]:
    """The candidates of a long table, which has a candidate's name in each row."""
    by_name: dict[str, list[int]] = {}
    for at in range(len(frame.numbers)):
        parts = [as_id(frame.columns[name][at]) for name in roles.candidates]
        if None in parts:
            name = roles.candidates[parts.index(None)]
            raise InvalidArgumentError(
                f"{frame.where(at)}: The cell in the column {name!r} is empty. Write the candidate's name in this cell."
            )
        by_name.setdefault("/".join(map(str, parts)), []).append(at)
    for name, rows in by_name.items():
        text = None if roles.text is None else frame.columns[roles.text][rows[0]]
        yield ScoredCandidate(
            frame.path,
            evaluations.among(rows),
            name,
            text=None if text is None or is_unknown(text) else str(text),
        )


def _errors(
    frame: Frame, roles: Roles, columns: Mapping[str, Floats]
) -> dict[int, str]:
    """The reasons of failures, by row."""
    errors: dict[int, str] = {}
    if roles.status is not None:
        scored = np.zeros(len(frame.numbers), dtype=bool)
        for column in columns.values():
            scored |= np.isfinite(column)
        for at, cell in enumerate(frame.columns[roles.status]):
            # A "failed" test has a score. Without a score, the evaluation failed
            is_not_done = column_names.plain(str(cell)) in _NOT_DONE
            if is_failure(cell) or (is_not_done and not scored[at]):
                errors[at] = str(cell).strip()
    if roles.error is not None:
        for at, cell in enumerate(frame.columns[roles.error]):
            if _is_error(cell):
                errors[at] = str(cell).strip()
    return errors


def _is_error(cell: Any) -> bool:
    """Whether a cell of an error column says something. False, 0, None, [], "no" and "-" do not."""
    if is_unknown(cell) or not cell:
        return False
    return str(cell).strip().lower() not in _NO_ERRORS


def _segments(frame: Frame, roles: Roles, ids: list[str]) -> dict[str, str]:
    """The segment of each example.

    Raises:
        InvalidArgumentError: an example has two segments.
    """
    segments: dict[str, str] = {}
    column = roles.segment
    for at, cell in enumerate([] if column is None else frame.columns[column]):
        if is_unknown(cell):
            continue
        label = str(cell).strip()
        if segments.setdefault(ids[at], label) != label:
            raise InvalidArgumentError(
                f"In {frame.path}, example {short(ids[at])} has two segments, {short(segments[ids[at]])} and "
                f"{short(label)}. Give the example one segment, or name another column: --segment-column COLUMN."
            )
    return segments


def _fields(
    frame: Frame, left_out: Sequence[str], ids: list[str]
) -> dict[str, dict[str, str]]:
    """The columns of texts without a role that are the same for all candidates: column -> id of the example -> text."""
    fields = dict[str, dict[str, str]]()
    for name in left_out:
        texts = dict[str, str]()
        cells = zip(ids, frame.columns[name], strict=True)
        filled = [
            (id_, str(cell).strip()) for id_, cell in cells if not is_unknown(cell)
        ]
        if all(_is_number(text) for _, text in filled):
            continue  # scores that are not compared, such as those of other candidates
        if all(texts.setdefault(id_, text) == text for id_, text in filled):
            fields[name] = texts
    return fields


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _alternatives(evidence: Evidence, roles: Roles) -> list[Reading]:
    """Columns that make ids different that repeat: subject and id, instead of id alone."""
    if not roles.examples or evidence.is_distinct(*roles.candidates, *roles.examples):
        return []
    names = [
        name
        for name in evidence.frame.columns
        if name not in (*roles.candidates, *roles.examples, *roles.metrics, *roles.wide)
        and name not in (roles.repeat, roles.error, roles.status)
        and column_names.plain(name) not in column_names.RESPONSES
        and 1 < evidence.n_values(name) <= evidence.n_rows // 4
        and not evidence.is_date(name)
        and evidence.is_distinct(*roles.candidates, name, *roles.examples)
    ]
    return [_together(roles, name) for name in names]


def _together(roles: Roles, name: str) -> Reading:
    """The reading in which a column distinguishes rows with the same candidate and example."""
    settings = (*column_names.CANDIDATES, *column_names.SETTINGS)
    if roles.candidates and column_names.plain(name) in settings:
        both = (*roles.candidates, name)
        return Reading(
            f"Each combination of {' and '.join(both)} is a candidate.",
            ("--candidate-column", ",".join(map(quoted, both))),
        )
    both = (name, *roles.examples)
    return Reading(
        f"The columns {' and '.join(both)} together identify the example.",
        ("--example-column", ",".join(map(quoted, both))),
    )
