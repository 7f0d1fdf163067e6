"""Results that people have already, as evaluations: tables, promptfoo's results, Inspect logs, lm-eval's samples."""

import codecs
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from asktell import InvalidArgumentError
from asktell.extend import FinishedTable, Goal, less_may_be_better, nearest, short, some
from asktell_adapters.harnesses.inspect.files import read_log
from asktell_adapters.harnesses.inspect.samples import KEY, Scoring
from asktell_adapters.harnesses.promptfoo.evaluator import scores_of
from asktell_adapters.llms.base import CompletionError
from asktell_adapters.rows import KINDS, Table, from_json, jsonl, read_text

FORMATS = (
    "Give promptfoo's results (.json, .jsonl), Inspect logs (.eval, .json), lm-eval's samples_*.jsonl, or a table of "
    "scores (.csv, .tsv, .json, .jsonl, .parquet, .xlsx). A table has either the columns 'prompt' and 'example' and a "
    "column for each metric, or a row for each example and a column of scores for each prompt."
)
SCORE = "score"
"""The metric of a table that has a column per prompt, and so no name for it."""

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
_SAMPLES = re.compile(
    r"samples_(?P<task>.+?)(_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+))?\.jsonl"
)
_OF_SAMPLES = {
    "doc_id",
    "doc",
    "target",
    "arguments",
    "resps",
    "filtered_resps",
    "filter",
    "metrics",
}

Floats: TypeAlias = npt.NDArray[np.float64]


class Made(NamedTuple):
    """An evaluation, with its scores by metric, or with the error that made it fail."""

    example: str
    scores: Mapping[str, float]
    error: str | None = None


class Evaluations(NamedTuple):
    """The evaluations of a candidate as columns, because a large table has a million of them.

    Attributes:
        examples: (n,) the example of each evaluation. The candidates of a wide table share
            one list.
        scores: metric -> (n,) scores, NaN if a score is unknown.
        errors: position of a failed evaluation -> the reason.
    """

    examples: Sequence[str]
    scores: Mapping[str, Float[Floats, " n"]]
    errors: Mapping[int, str]

    @classmethod
    def of(cls, made: Sequence[Made]) -> "Evaluations":
        """Convert evaluations to columns."""
        metrics = dict.fromkeys(metric for each in made for metric in each.scores)
        scores = {
            metric: np.array(
                [each.scores.get(metric, math.nan) for each in made], dtype=np.float64
            )
            for metric in metrics
        }
        errors = {
            at: each.error for at, each in enumerate(made) if each.error is not None
        }
        return cls([each.example for each in made], scores, errors)

    def among(self, rows: Sequence[int]) -> "Evaluations":
        """Select evaluations.

        Args:
            rows: positions of the evaluations, in the wanted order.
        """
        at = np.array(rows, dtype=np.int64)
        errors = {
            i: self.errors[row] for i, row in enumerate(rows) if row in self.errors
        }
        return Evaluations(
            [self.examples[row] for row in rows],
            {m: x[at] for m, x in self.scores.items()},
            errors,
        )

    def columns(self, metrics: Sequence[str]) -> Float[Floats, "n metrics"]:
        """(n, m) scores in these metrics. NaN for a metric that the candidate does not have."""
        unknown = np.full(len(self.examples), np.nan)
        return np.column_stack([self.scores.get(metric, unknown) for metric in metrics])

    def complete(self, metrics: Sequence[str]) -> set[str]:
        """The examples with scores in all of these metrics, or with a failure."""
        known = np.atleast_1d(~np.isnan(self.columns(metrics)).any(axis=1))
        # A failure is an outcome, too. The example counts as evaluated.
        known[list(self.errors)] = True
        return {self.examples[row] for row in np.flatnonzero(known).tolist()}


def _joined(parts: Sequence[Evaluations]) -> Evaluations:
    """Join the evaluations of several files, one file's after another's."""
    if len(parts) == 1:
        return parts[0]
    metrics = list(dict.fromkeys(metric for part in parts for metric in part.scores))
    starts = np.cumsum([0, *(len(part.examples) for part in parts)]).tolist()
    errors = {
        start + at: why
        for start, part in zip(starts, parts, strict=False)
        for at, why in part.errors.items()
    }
    scores = (
        np.concatenate([part.columns(metrics) for part in parts])
        if metrics
        else np.empty((starts[-1], 0))
    )
    examples = [example for part in parts for example in part.examples]
    return Evaluations(examples, dict(zip(metrics, scores.T, strict=True)), errors)


@dataclass
class _Candidate:
    """The evaluations of one candidate in one file.

    Attributes:
        name: the name in the file. None if the file has no names. The name of the file, or
            one of `names`, then stands for it.
        made: the evaluations.
        names: names to choose from, in the order of preference.
        text: the prompt, if the file has it.
    """

    name: str | None
    made: Evaluations
    names: tuple[str, ...] = ()
    text: str | None = None


@dataclass
class _File:
    """The content of one file.

    Attributes:
        path: the file, or the folder that stands for several files.
        kind: the format, in words.
        candidates: its candidates.
        notes: sentences about columns that were left out, and other assumptions.
        segments: example -> its segment.
    """

    path: Path
    kind: str
    candidates: list[_Candidate]
    notes: list[str] = field(default_factory=list)
    segments: dict[str, str] = field(default_factory=dict)


@final
@dataclass(frozen=True)
class Finished:
    """The evaluations of one or several files.

    ```python
    finished = Finished.read(["baseline.csv", "candidate.csv"])
    selector = asktell.extend.finished_selector(finished.table(goal), goal)
    print(selector.result())
    ```

    Attributes:
        kinds: the formats of the files, in words.
        made: name of the candidate -> its evaluations.
        texts: name of the candidate -> the prompt's text, as far as files have it.
        segments: example -> its segment.
        notes: sentences about columns that were left out, and other assumptions.
    """

    kinds: tuple[str, ...]
    made: Mapping[str, Evaluations]
    texts: Mapping[str, str]
    segments: Mapping[str, str]
    notes: tuple[str, ...]

    @classmethod
    def read(
        cls,
        paths: Sequence[str | Path],
        *,
        prompt: str | None = None,
        example: str | None = None,
        encoding: str | None = None,
        score: str = SCORE,
    ) -> "Finished":
        """Read the evaluations in files.

        A file can have several candidates. A file without names of candidates is one candidate,
        which gets the name of the file.

        Args:
            paths: files, or folders of lm-eval's samples or of Inspect logs.
            prompt: the column of a table with the candidate's name (default: `prompt`,
                `candidate`, `model` or the like).
            example: the column with the example's name (default: `example`, `id` or the like).
            encoding: encoding of a table that is text (default: UTF-8).
            score: name of the metric of a table that has a column per prompt.

        Raises:
            InvalidArgumentError: a file is none of these formats, is damaged, or has no scores.
        """
        columns = _Columns(prompt, example, encoding, score, is_alone=len(paths) == 1)
        files = [
            file for path in paths for file in _read(Path(path).expanduser(), columns)
        ]
        made, texts = _named(files)
        if not any(
            np.isfinite(column).any()
            for each in made.values()
            for column in each.scores.values()
        ):
            where = ", ".join(str(path) for path in paths)
            raise InvalidArgumentError(
                f"No evaluation in {where} has a score. Give results in which at least one evaluation has a score."
            )
        segments = {
            name: label for file in files for name, label in file.segments.items()
        }
        notes = tuple(dict.fromkeys(note for file in files for note in file.notes))
        return cls(
            tuple(dict.fromkeys(file.kind for file in files)),
            made,
            texts,
            segments,
            notes,
        )

    @cached_property
    def metrics(self) -> list[str]:
        """The metrics with numbers. Costs, tokens and times come last."""
        found = dict.fromkeys(
            name
            for made in self.made.values()
            for name, column in made.scores.items()
            if np.isfinite(column).any()
        )
        # Quality comes before its price.
        return sorted(found, key=less_may_be_better)

    @cached_property
    def examples(self) -> list[str]:
        """The examples with evaluations, in the order of the files."""
        # Look at a shared list of examples only once.
        lists = {id(made.examples): made.examples for made in self.made.values()}
        return list(
            dict.fromkeys(
                example for examples in lists.values() for example in examples
            )
        )

    def table(
        self, goal: Goal, prompts: Sequence[str] | None = None, common: bool = False
    ) -> FinishedTable:
        """Convert the evaluations to arrays with the scores in the goal's metrics.

        Args:
            goal: the goal. Each of its metrics must be a metric of the files.
            prompts: the candidates in the table (default: all).
            common: keep only the examples on which each of these candidates was
                evaluated.

        Raises:
            InvalidArgumentError: the files do not have a metric of the goal, or the
                candidates have no example in common.
        """
        for metric in goal.metrics:
            # asktell counts failures itself, so no file needs the failure rate.
            if metric not in self.metrics and metric != "failure_rate":
                raise InvalidArgumentError(
                    f"The files have no metric {metric!r}{nearest(metric, self.metrics)}. "
                    f"Their metrics are {some(self.metrics)}."
                )
        names = list(self.made) if prompts is None else list(prompts)
        examples = self._common(names, goal.metrics) if common else self.examples
        place = {name: i for i, name in enumerate(examples)}

        arms, at, scores, failed = [], [], [], []
        # The candidates of a wide table share one list of examples, which can be long.
        # Look up its places once.
        places: dict[int, npt.NDArray[np.int64]] = {}
        for arm, name in enumerate(names):
            made = self.made[name]
            key = id(made.examples)
            if key not in places:
                places[key] = np.array(
                    [place.get(example, -1) for example in made.examples],
                    dtype=np.int64,
                )
            own = places[key]
            for row, why in made.errors.items():
                if own[row] >= 0:
                    failed.append((arm, int(own[row]), why))
            is_scored = own >= 0
            # The scores of a failed evaluation, if a file has any, do not count.
            is_scored[list(made.errors)] = False
            arms.append(np.full(int(is_scored.sum()), arm, dtype=np.int64))
            at.append(own[is_scored])
            scores.append(made.columns(goal.metrics)[is_scored])
        return FinishedTable(
            {name: self.texts.get(name, name) for name in names},
            examples,
            np.concatenate(arms),
            np.concatenate(at),
            np.concatenate(scores),
            failed,
            self._labels(examples),
        )

    def _common(self, names: Sequence[str], metrics: Sequence[str]) -> list[str]:
        """The examples on which all of these candidates were evaluated."""
        seen = [self.made[name].complete(metrics) for name in names]
        examples = [name for name in self.examples if all(name in own for own in seen)]
        if not examples:
            raise InvalidArgumentError(
                f"{some(names)} have no example in common. Examples are matched by "
                "their ids. Give both runs the same ids."
            )
        return examples

    def _labels(self, examples: Sequence[str]) -> list[str] | None:
        """The examples' segments. None unless each example has one."""
        if not self.segments or any(name not in self.segments for name in examples):
            return None
        return [self.segments[name] for name in examples]

    def remarks(self) -> list[str]:
        """Notes to show with a verdict, about columns left out and repeated evaluations."""
        said = list(self.notes)
        n_cells, again = 0, list[int]()
        for made in self.made.values():
            n_distinct = len(set(made.examples))
            n_cells += n_distinct
            if n_distinct < len(made.examples):
                again += [
                    times for times in Counter(made.examples).values() if times > 1
                ]
        if again:
            said.append(
                f"{len(again):,} of {n_cells:,} cells were evaluated several times, up to {max(again)}. Repeated "
                "evaluations of a cell are averaged."
            )
        return said


# Files of every kind


class _Columns(NamedTuple):
    """How the columns of tables are to be read.

    Attributes:
        prompt: the column with the candidate's name, or None to find it.
        example: the column with the example's name, or None to find it.
        encoding: encoding of a table that is text.
        score: name of the metric of a wide table.
        is_alone: whether there is only this file, so that each column of numbers is a
            candidate. Of several files, each is a candidate and its columns are metrics.
    """

    prompt: str | None
    example: str | None
    encoding: str | None
    score: str
    is_alone: bool


def _read(path: Path, columns: _Columns) -> list[_File]:
    """Read a file or a folder of any format.

    The content decides the format of a JSON file, because promptfoo, Inspect and lm-eval
    all write .json.
    """
    if path.is_dir():
        return _folder(path)
    if not path.is_file():
        raise InvalidArgumentError(f"There is no file {str(path)!r}.")
    suffix = path.suffix.lower()
    if suffix == ".eval":
        return [_inspect(path)]
    if suffix == ".json":
        return [_json(path, columns)]
    if suffix == ".jsonl" and (found := _json_lines(path, columns)) is not None:
        return [found]
    if suffix in (".csv", ".tsv") and columns.encoding is None:
        _check_text(path)
    if suffix not in KINDS:
        raise InvalidArgumentError(
            f"asktell cannot read results from {path}. {FORMATS}"
        )
    return [_table(path, columns)]


@contextmanager
def _curable() -> Iterator[None]:
    """Add the cure to the error of a file that cannot be read."""
    try:
        yield
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"{error} Export the results again if you cannot correct the file."
        ) from error


def _check_text(path: Path) -> None:
    """Refuse a binary file, or UTF-16 without a byte order mark, before it is read as a table."""
    data = path.read_bytes()
    if b"\0" in data and not data.startswith(
        (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    ):
        raise InvalidArgumentError(
            f"{path} cannot be read as text, because it has null bytes. Pass --encoding "
            "utf-16-le if the file is UTF-16. Otherwise export the results again."
        )


def _folder(path: Path) -> list[_File]:
    """Read lm-eval's samples in a folder and its subfolders, or else Inspect logs."""
    # lm-eval puts its averages next to the samples, as .json files. So look for samples
    # first.
    samples = sorted(each for each in path.rglob("samples_*.jsonl") if each.is_file())
    if samples:
        return _lm_eval(samples)
    logs = sorted(
        each
        for each in path.rglob("*")
        if each.suffix.lower() in (".eval", ".json") and each.is_file()
    )
    if not logs:
        raise InvalidArgumentError(
            f"The folder {str(path)!r} has neither lm-eval's samples_*.jsonl nor Inspect logs (.eval, .json). If "
            "lm-eval wrote the folder, run lm-eval with --log_samples. If the results have another name, give the "
            "path of the file."
        )
    return [_inspect(each) for each in logs]


def _json(path: Path, columns: _Columns) -> _File:
    """Read promptfoo's results, an Inspect log or a table of scores from a JSON file.

    Raises:
        InvalidArgumentError: the file has averages only, or is none of these.
    """
    with _curable():
        found = from_json(read_text(path, columns.encoding), path, 1)
    if isinstance(found, dict):
        results = found.get("results")
        rows = results.get("results") if isinstance(results, dict) else results
        if isinstance(rows, list) and rows and _is_of_promptfoo(rows[0]):
            return _promptfoo(path, rows)
        if isinstance(found.get("eval"), dict):
            return _inspect(path)
        if isinstance(results, dict) and (
            "configs" in found or "lm_eval_version" in found
        ):
            raise InvalidArgumentError(
                f"{path} has lm-eval's averages, but a verdict needs the samples. Run lm-eval with "
                "--log_samples, and give the samples_*.jsonl that it writes next to this file."
            )
    return _table(path, columns)


def _json_lines(path: Path, columns: _Columns) -> _File | None:
    """Read lm-eval's samples or promptfoo's results from a JSONL file. None if the file is a table of scores."""
    with _curable():
        rows = [row for _, row in jsonl(path, columns.encoding)]
    if not rows:
        raise InvalidArgumentError(f"{path} has no rows. {FORMATS}")
    if {"doc_id", "doc"} <= set(rows[0]):
        (file,) = _lm_eval([path])
        return file
    return _promptfoo(path, rows) if _is_of_promptfoo(rows[0]) else None


# Names of candidates


def _named(files: Sequence[_File]) -> tuple[dict[str, Evaluations], dict[str, str]]:
    """Name every candidate, and return its evaluations and its text by this name.

    A candidate that has the same name in several files becomes one candidate per file,
    because two runs of one prompt are what users compare.
    """
    of_file = _names_of([file.path for file in files])
    each_with_file = [(file, each) for file in files for each in file.candidates]
    times = Counter(each.name for _, each in each_with_file)
    unnamed = _names_of_unnamed(each_with_file, of_file)

    made: dict[str, list[Evaluations]] = {}
    texts: dict[str, str] = {}
    for file, each in each_with_file:
        if each.name is None:
            name = unnamed[id(each)]
        elif times[each.name] == 1:
            name = each.name
        elif len(file.candidates) == 1:
            name = of_file[file.path]
        else:
            name = f"{of_file[file.path]}/{each.name}"
        made.setdefault(name, []).append(each.made)
        # A text belongs to one candidate. Later candidates with the same text go without.
        if each.text and each.text not in texts.values():
            texts[name] = each.text
    return {name: _joined(parts) for name, parts in made.items()}, texts


def _names_of_unnamed(
    candidates: Sequence[tuple[_File, _Candidate]], of_file: Mapping[Path, str]
) -> dict[int, str]:
    """Names for the candidates without a name, by the candidate's id().

    Each candidate suggests the same kinds of names, such as its model and its task. The
    first kind that tells all candidates apart is used, and otherwise the file names.
    """
    unnamed = [(file, each) for file, each in candidates if each.name is None]
    chosen = tuple(of_file[file.path] for file, _ in unnamed)
    if len(unnamed) > 1:
        for names in zip(*(each.names for _, each in unnamed), strict=False):
            if len(set(names)) == len(names):
                chosen = names
                break
    return {id(each): name for (_, each), name in zip(unnamed, chosen, strict=True)}


def _names_of(paths: Sequence[Path]) -> dict[Path, str]:
    """Name each file by the shortest part of its path that differs between the files."""
    ways = (
        lambda path: path.stem,
        lambda path: path.parent.name or path.stem,
        lambda path: f"{path.parent.name}/{path.stem}",
        str,
    )
    distinct = list(dict.fromkeys(paths))
    found = ([way(path) for path in distinct] for way in ways)
    names = next(names for names in found if len(set(names)) == len(names))
    return dict(zip(distinct, names, strict=True))


# Tables


def _table(path: Path, columns: _Columns) -> _File:
    """Read a table of scores, long (a row per evaluation) or wide (a row per example).

    Raises:
        InvalidArgumentError: a named column is missing, no column holds numbers, or
            candidates are named and examples are not.
    """
    encoding = columns.encoding if path.suffix.lower() in _OF_TEXT else None
    with _curable():
        table = Table(path, [*_PROMPTS, *_EXAMPLES], encoding=encoding)

    # Find the columns that have a role. Each of the others is a metric or is left out.
    names = table.names
    prompt = _column(columns.prompt, _PROMPTS, names, path, "--prompt-column")
    example = _column(columns.example, _EXAMPLES, names, path, "--example-column")
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

    file = _File(path, "a table", [])
    if left_out:
        file.notes.append(
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
        file.notes.append(
            f"{path.name}: no column names the examples, so rows are matched by their position."
        )

    # A row without an example's name gets its position as name.
    named = _texts_in(table, example)
    ids = [named.get(at, str(at + 1)) for at in range(len(table.rows))]
    made = Evaluations(ids, scores, _texts_in(table, error))
    file.candidates.extend(_candidates(table, prompt, made, columns))
    for at, label in _texts_in(table, segment).items():
        file.segments[ids[at]] = label
    return file


def _candidates(
    table: Table, prompt: str | None, made: Evaluations, columns: _Columns
) -> Iterator[_Candidate]:
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
            yield _Candidate(own, made.among(rows))
    elif columns.is_alone:
        # A wide table, with a column of scores per candidate
        for name, column in made.scores.items():
            known = np.flatnonzero(~np.isnan(column))
            all_rows = Evaluations(made.examples, {columns.score: column}, {})
            is_full = len(known) == len(column)
            yield _Candidate(
                name, all_rows if is_full else all_rows.among(known.tolist())
            )
    else:
        # One of several files, each with the scores of one candidate
        yield _Candidate(None, made)


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


# promptfoo


def _is_of_promptfoo(row: object) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("prompt"), dict)
        and not {"vars", "testCase", "namedScores"}.isdisjoint(row)
    )


def _promptfoo(path: Path, rows: Sequence[Any]) -> _File:
    """Read promptfoo's results.

    A candidate is a prompt with a provider. Tests are matched by their variables, because a
    filter renumbers them.
    """
    # A part of the name that is the same for all candidates is left out.
    providers = {_provider(row) for row in rows if isinstance(row, dict)}
    labels = {_label(row) for row in rows if isinstance(row, dict)}
    found: dict[str, list[Made]] = {}
    texts: dict[str, str | None] = {}
    for number, row in enumerate(rows, start=1):
        if not _is_of_promptfoo(row):
            raise InvalidArgumentError(
                f"{path}, result {number}: {short(row)} is not a result of promptfoo. Export the results again."
            )
        parts = [_provider(row)] * (len(providers) > 1) + [_label(row)] * (
            len(labels) > 1 or len(providers) == 1
        )
        name = "/".join(parts)
        try:
            scores, test = scores_of(row), _test(row)
        except (TypeError, ValueError, AttributeError) as error:
            raise InvalidArgumentError(
                f"{path}, result {number}: The result of promptfoo cannot be read ({error}). Export the results again."
            ) from error
        failed = isinstance(scores, Exception)
        made = Made(
            test,
            {} if isinstance(scores, Exception) else scores,
            str(scores) if failed else None,
        )
        found.setdefault(name, []).append(made)
        texts.setdefault(name, _text(row) if len(providers) == 1 else None)
    candidates = [
        _Candidate(name, Evaluations.of(made), text=texts[name])
        for name, made in found.items()
    ]
    return _File(path, "promptfoo's results", candidates)


def _text(row: Mapping[str, Any]) -> str | None:
    """The prompt's template, or None if the result has no text."""
    raw = row["prompt"].get("template") or row["prompt"].get("raw")
    return raw if isinstance(raw, str) and raw.strip() else None


def _label(row: Mapping[str, Any]) -> str:
    """The label of the prompt of a result, or else its id or number."""
    prompt = row["prompt"] if isinstance(row.get("prompt"), dict) else {}
    return str(
        prompt.get("label") or prompt.get("id") or f"prompt-{row.get('promptIdx', 0)}"
    )


def _provider(row: Mapping[str, Any]) -> str:
    """The label or the id of the provider of a result. Empty if it has none."""
    provider = row.get("provider")
    return (
        str(provider.get("label") or provider.get("id"))
        if isinstance(provider, dict)
        else str(provider or "")
    )


def _test(row: Mapping[str, Any]) -> str:
    """The name of a test, made of its variables, its description and its assertions.

    The number of a test is no name, because a filter changes it. A short test with one
    variable is named by the variable's value, which readers recognize.
    """
    case = row.get("testCase") or {}
    about = {
        "vars": row.get("vars") or case.get("vars"),
        "description": case.get("description"),
    }
    about |= {"assert": case.get("assert")} if case.get("assert") else {}
    only = [value for value in (about["vars"] or {}).values() if isinstance(value, str)]
    if (
        len(about["vars"] or {}) == len(only) == 1
        and not about["description"]
        and len(only[0]) <= 60
    ):
        # Readable, and enough to tell it from others with other variables
        return only[0]
    return json.dumps(
        {name: value for name, value in about.items() if value},
        sort_keys=True,
        default=str,
    )


# Inspect


def _inspect(path: Path) -> _File:
    """Read an Inspect log.

    A log is one candidate. A log that `InspectTask` wrote has several prompts, and each is a
    candidate.
    """
    log = read_log(path)
    model, scoring = str(log.eval.get("model")), Scoring()
    found: dict[str | None, list[Made]] = {}
    texts: dict[str | None, str | None] = {}
    names = (model, str(log.eval.get("task")), path.parent.name)
    for sample in log.samples:
        ours = sample.metadata.get(KEY) if isinstance(sample.metadata, dict) else None
        name, example = None, str(sample.id)
        if isinstance(ours, dict) and "prompt_id" in ours:
            name, example = str(ours["prompt_id"]), str(ours.get("example"))
        try:
            made = Made(example, scoring.of_epochs([sample], model))
        except CompletionError as error:
            made = Made(example, {}, str(error))
        found.setdefault(name, []).append(made)
        texts.setdefault(
            name,
            str(ours["prompt"])
            if isinstance(ours, dict) and ours.get("prompt")
            else None,
        )
    candidates = [
        _Candidate(name, Evaluations.of(made), names, texts[name])
        for name, made in found.items()
    ]
    return _File(path, "Inspect logs", candidates)


# lm-eval


def _lm_eval(paths: Iterable[Path]) -> list[_File]:
    """Read lm-eval's samples.

    A folder is one candidate, because lm-eval writes a folder per model. If a folder has a
    task twice, each of its files is a candidate.
    """
    paths = list(paths)
    parts = {path: _SAMPLES.fullmatch(path.name) for path in paths}
    tasks = {
        path: path.stem if part is None else part["task"]
        for path, part in parts.items()
    }
    times = Counter((path.parent, tasks[path]) for path in paths)
    # Documents of different tasks have the same numbers. The task distinguishes them.
    several = len(set(tasks.values())) > 1
    documents: dict[Path, list[Made]] = {}
    names: dict[Path, tuple[str, ...]] = {}
    for path in paths:
        made = _documents(path, f"{tasks[path]}/" if several else "")
        alone = times[path.parent, tasks[path]] > 1
        # All tasks of a model are one candidate, so their documents come together.
        at = path if alone or len(paths) == 1 else path.parent / "samples"
        documents.setdefault(at, []).extend(made)
        names[at] = () if alone else (path.parent.name,)
    return [
        _File(
            at, "lm-eval's samples", [_Candidate(None, Evaluations.of(made), names[at])]
        )
        for at, made in documents.items()
    ]


def _documents(path: Path, task: str) -> list[Made]:
    """Read the documents of a file with their scores.

    Args:
        path: the file.
        task: prefix of the documents' names, if there are several tasks.

    Returns:
        One evaluation per document. If lm-eval applied several filters, a metric is named
        "metric,filter".
    """
    rows = list(jsonl(path))
    filters = {str(row.get("filter")) for _, row in rows}
    found: dict[str, dict[str, float]] = {}
    times: Counter[tuple[str, str]] = Counter()
    for line, row in rows:
        if "doc_id" not in row:
            raise InvalidArgumentError(
                f"{path}, line {line}: The sample of lm-eval has no 'doc_id'. Give the file as lm-eval wrote it."
            )
        # By its content: lm-eval misnumbers documents that were chosen by --samples.
        document = f"{task}{str(row.get('doc_hash') or row['doc_id'])[:12]}"
        which = str(row.get("filter"))
        times[document, which] += 1
        # Number the copies of a document that the task has twice.
        if times[document, which] > 1:
            document = f"{document}#{times[document, which]}"
        own = row.get("metrics") if isinstance(row.get("metrics"), list) else None
        names = (
            own
            if own is not None
            else [name for name in row if name not in _OF_SAMPLES]
        )
        suffix = f",{which}" if len(filters) > 1 else ""
        numbers = {
            f"{name}{suffix}": row[name]
            for name in names
            if isinstance(row.get(name), int | float)
        }
        found.setdefault(document, {}).update(
            (name, float(value)) for name, value in numbers.items()
        )
    if not rows:
        raise InvalidArgumentError(f"{path} has no samples. Export the results again.")
    return [Made(example, scores) for example, scores in found.items()]
