"""A table of scores."""

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Float

from asktell import InvalidArgumentError
from asktell.extend import nearest, short, some
from asktell_adapters.finished.score_columns import Floats, ScoreColumns
from asktell_adapters.finished.scored_candidate import ScoredCandidate
from asktell_adapters.finished.scores import Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.wanted import Wanted
from asktell_adapters.rows import Table

SCORE = "score"
FORMATS = ""
# Columns with the candidate's name. The first that a table has is used.
_PROMPTS = ("prompt", "candidate", "variant", "model", "agent")
_EXAMPLES = (
    "example_id",
    "example",
    "id",
    "item",
    "case",
    "test",
    "question_id",
    "task_id",
    "doc_id",
)
_NO_SCORES = (
    "trial",
    "example",
    "row",
    "index",
    "epoch",
    "repeat",
    "run",
    "seed",
    "unnamed: 0",
    "",
)
_OF_TEXT = (".csv", ".tsv", ".json", ".jsonl")
_SEGMENT, _ERROR = "segment", "error"
_UNKNOWN = {"", "nan", "na", "n/a", "null", "none", "-"}
_TRUTHS = {
    "true": 1.0,
    "false": 0.0,
    "yes": 1.0,
    "no": 0.0,
    "pass": 1.0,
    "fail": 0.0,
    "passed": 1.0,
    "failed": 0.0,
}
# A column is a score if at least this share of its cells are numbers.
_MOSTLY = 0.5


@final
class TableReader:
    name = "a table"

    def recognizes(self, source: Source) -> bool:
        return not source.is_folder

    def read(self, source: Source, wanted: Wanted) -> Scores:
        return _table(source.path, wanted)


def _table(path: Path, columns: Wanted) -> Scores:
    """Read a table of scores, long (a row per evaluation) or wide (a row per example).

    Raises:
        InvalidArgumentError: a named column is missing, no column holds numbers, or
            candidates are named and examples are not.
    """
    encoding = columns.encoding if path.suffix.lower() in _OF_TEXT else None
    table = Table(path, [*_PROMPTS, *_EXAMPLES], encoding=encoding)

    # Find the columns that have a role. Each of the others is a metric or is left out.
    names = table.names
    prompt = _column(
        (columns.candidate_columns or (None,))[0],
        _PROMPTS,
        names,
        path,
        "--prompt-column",
    )
    example = _column(
        (columns.example_columns or (None,))[0],
        _EXAMPLES,
        names,
        path,
        "--example-column",
    )
    segment, error = _named_like(_SEGMENT, names), _named_like(_ERROR, names)
    scores, left_out = {}, []
    for name in names:
        if name in (prompt, example, segment, error):
            continue
        is_score = name.strip().lower() not in _NO_SCORES
        column = _numbers(table, name) if is_score else None
        if column is None:
            left_out.append(name)
        else:
            scores[name] = column

    notes, segments = list[str](), dict[str, str]()
    if left_out:
        notes.append(
            f"{path.name}: columns that hold no scores are left out: {some(left_out)}."
        )
    if not scores:
        raise InvalidArgumentError(
            f"{path} has no column of numbers. Its columns are {some(names)}. {FORMATS}"
        )
    if prompt is not None and example is None:
        raise InvalidArgumentError(
            f"{path} has the candidates in the column {prompt!r}, but no known column "
            "for the examples. Candidates are compared on the same examples. Pass "
            f"--example-column COLUMN. The columns are {some(names)}."
        )
    if example is None and not columns.is_alone:
        notes.append(
            f"{path.name}: no column names the examples, so rows are matched by their position."
        )

    # A row without an example's name gets its position as name.
    named = _texts_in(table, example)
    ids = [named.get(at, str(at + 1)) for at in range(len(table.rows))]
    made = ScoreColumns(ids, scores, _texts_in(table, error))
    candidates = list(_candidates(table, prompt, made, columns))
    for at, label in _texts_in(table, segment).items():
        segments[ids[at]] = label
    return Scores("a table", candidates, notes=notes, segments=segments)


def _candidates(
    table: Table, prompt: str | None, made: ScoreColumns, columns: Wanted
) -> Iterator[ScoredCandidate]:
    """Split the evaluations of a table into those of each candidate."""
    if prompt is not None:
        # A long table, with the candidate's name in each row
        by_name: dict[str, list[int]] = {}
        for at, row in enumerate(table.rows):
            name = row.values.get(prompt)
            if name in (None, ""):
                raise InvalidArgumentError(
                    f"{table.where(row)}: The cell in the column {prompt!r} is empty. Write the "
                    "candidate's name in this cell."
                )
            by_name.setdefault(str(name), []).append(at)
        for own, rows in by_name.items():
            yield ScoredCandidate(table.path, made.among(rows), own)
    elif columns.is_alone:
        # A wide table, with a column of scores per candidate
        for name, column in made.scores.items():
            known = np.flatnonzero(~np.isnan(column))
            all_rows = ScoreColumns(made.examples, {SCORE: column}, {})
            is_full = len(known) == len(column)
            yield ScoredCandidate(
                table.path,
                all_rows if is_full else all_rows.among(known.tolist()),
                name,
            )
    else:
        # One of several files, each with the scores of one candidate
        yield ScoredCandidate(table.path, made)


def _named_like(word: str, names: Sequence[str]) -> str | None:
    """The first column with this name in any case."""
    return next((name for name in names if name.lower() == word), None)


def _column(
    given: str | None, usual: Sequence[str], names: Sequence[str], path: Path, flag: str
) -> str | None:
    """Find a column.

    Args:
        given: the name that the user passed, or None.
        usual: usual names in lower case. The first that the table has is used.
        names: the table's columns.
        path: the file, for messages.
        flag: the option with which the user passes the name, for messages.

    Returns:
        The column's name, or None if the user passed none and no usual name is there.

    Raises:
        InvalidArgumentError: the table does not have the column that the user passed.
    """
    if given is not None:
        if given not in names:
            raise InvalidArgumentError(
                f"{path} has no column {given!r}{nearest(given, names)}, which {flag} names. Its columns are "
                f"{some(names)}."
            )
        return given
    by_name = {name.strip().lower(): name for name in reversed(names)}
    return next((by_name[name] for name in usual if name in by_name), None)


def _numbers(table: Table, name: str) -> Float[Floats, " rows"] | None:
    """The column as numbers with NaN for empty cells, or None if it is no score.

    A column is no score if it is empty, or if more than half of its cells are texts.

    Raises:
        InvalidArgumentError: a column of numbers has a text or an infinite number.
    """
    values = [row.values.get(name) for row in table.rows]
    texts: list[int] = []
    try:
        column = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        column = np.empty(0)
    if column.shape != (len(values),):
        # Some cell is a truth value, a word for "unknown" or no number, which NumPy
        # does not convert. Read the cells one by one, which is slower.
        found = [_number(value) for value in values]
        texts = [at for at, number in enumerate(found) if number is None]
        column = np.array(
            [math.nan if number is None else number for number in found],
            dtype=np.float64,
        )

    n_known = len(texts) + int(np.count_nonzero(~np.isnan(column)))
    if n_known == 0 or len(texts) > (1.0 - _MOSTLY) * n_known:
        return None
    wrong = texts or np.flatnonzero(np.isinf(column)).tolist()
    if wrong:
        value = values[wrong[0]]
        cure = "Write a number there, or leave the cell empty if it is unknown."
        if re.fullmatch(r"-?\d+,\d+", str(value).strip()):
            cure = "Write decimals with a point."
        raise InvalidArgumentError(
            f"{table.where(table.rows[wrong[0]])}: The column {name!r} must hold finite "
            f"numbers, got {short(value)}. {cure}"
        )
    return column


def _number(value: object) -> float | None:
    """A cell as a score. NaN if it is empty, None if it is not a number."""
    if value is None:
        return math.nan
    if isinstance(value, str):
        text = value.strip().lower()
        if text in _UNKNOWN:
            return math.nan
        value = _TRUTHS.get(text, text)
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def _texts_in(table: Table, column: str | None) -> dict[int, str]:
    """The cells of a column that are not empty, as texts, by their row's position."""
    if column is None:
        return {}
    cells = ((at, row.values.get(column)) for at, row in enumerate(table.rows))
    return {at: str(cell) for at, cell in cells if cell not in (None, "")}
