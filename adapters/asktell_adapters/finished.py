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

from asktell import InvalidArgumentError
from asktell.extend import FinishedTable, Goal, less_may_be_better, nearest, short, some
from asktell_adapters.harnesses.inspect.files import read_log
from asktell_adapters.harnesses.inspect.samples import KEY, Scoring
from asktell_adapters.harnesses.promptfoo.evaluator import scores_of
from asktell_adapters.llms.base import CompletionError
from asktell_adapters.rows import KINDS, Row, Table, from_json, jsonl, read_text

FORMATS = (
    "a table of scores (.csv, .tsv, .json, .jsonl, .parquet, .xlsx: the columns prompt, example and one per metric, or "
    "a column of scores per prompt), promptfoo's results (.json, .jsonl), Inspect logs (.eval, .json), or lm-eval's "
    "samples_*.jsonl"
)
SCORE = "score"
"""The metric of a table that has a column per prompt, and so no name for it."""

# Columns that name the prompt, the first one found
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
# Of the cells of a column that must be numbers for it to be one of scores
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

Vector: TypeAlias = npt.NDArray[np.float64]


class Made(NamedTuple):
    """An evaluation that was made: with scores by metric, or with the error by which it failed."""

    example: str
    scores: Mapping[str, float]
    error: str | None = None


class Evaluations(NamedTuple):
    """The evaluations of a candidate as columns, as a large table has a million of them.

    Attributes:
        examples: (n,) the example of each; a wide table's candidates may share one
            list.
        scores: (n,) by metric, NaN where none is known.
        errors: why evaluations failed, by their position.
    """

    examples: Sequence[str]
    scores: Mapping[str, Vector]
    errors: Mapping[int, str]

    @classmethod
    def of(cls, made: Sequence[Made]) -> "Evaluations":
        """The evaluations one by one, as columns."""
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
        """Some of them, in this order."""
        at = np.array(rows, dtype=np.int64)
        errors = {
            i: self.errors[row] for i, row in enumerate(rows) if row in self.errors
        }
        return Evaluations(
            [self.examples[row] for row in rows],
            {m: x[at] for m, x in self.scores.items()},
            errors,
        )

    def columns(self, metrics: Sequence[str]) -> Vector:
        """(n, m) scores in the metrics named, NaN of a metric that there is not."""
        unknown = np.full(len(self.examples), np.nan)
        return np.column_stack([self.scores.get(metric, unknown) for metric in metrics])

    def complete(self, metrics: Sequence[str]) -> set[str]:
        """The examples on which an evaluation has all of the metrics, or failed."""
        known = np.atleast_1d(~np.isnan(self.columns(metrics)).any(axis=1))
        known[list(self.errors)] = True
        return {self.examples[row] for row in np.flatnonzero(known).tolist()}


def _joined(parts: Sequence[Evaluations]) -> Evaluations:
    """The evaluations of several files, one after another."""
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
    """What a file has of one candidate; without a `name`, the file's own stands for it, or one of `names`."""

    name: str | None
    made: Evaluations
    names: tuple[str, ...] = ()
    text: str | None = None


@dataclass
class _File:
    path: Path
    kind: str
    candidates: list[_Candidate]
    notes: list[str] = field(default_factory=list)
    segments: dict[str, str] = field(default_factory=dict)


@final
@dataclass(frozen=True)
class Finished:
    """The evaluations of one or several files.

    Attributes:
        kinds: which formats the files have, in words.
        made: name of the candidate -> its evaluations.
        texts: names -> prompts' texts, as far as files have them.
        segments: example -> its segment.
        notes: what was left out or taken for something, a sentence each.
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
        """The evaluations in files; several files are several candidates, unless they name theirs.

        Args:
            paths: files, or folders of lm-eval's samples or of Inspect logs.
            prompt: the column of a table that names the prompt, by default `prompt`,
                `candidate`, `model` or alike.
            example: the column that names the example, by default `example`, `id` or
                alike.
            encoding: of a table that is text; by default UTF-8.
            score: the metric of a table that has a column per prompt.

        Raises:
            InvalidArgumentError: a file is none of these formats, is damaged, or has no
                scores.
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
                f"{where}: no evaluation has a score. Give {FORMATS}."
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
        """Every metric of which there is a number, costs, tokens and times last."""
        found = dict.fromkeys(
            name
            for made in self.made.values()
            for name, column in made.scores.items()
            if np.isfinite(column).any()
        )
        # What was used comes behind what was achieved
        return sorted(found, key=less_may_be_better)

    @cached_property
    def examples(self) -> list[str]:
        """Every example of which there is an evaluation."""
        # Those that are shared once
        lists = {id(made.examples): made.examples for made in self.made.values()}
        return list(
            dict.fromkeys(
                example for examples in lists.values() for example in examples
            )
        )

    def table(
        self, goal: Goal, prompts: Sequence[str] | None = None, common: bool = False
    ) -> FinishedTable:
        """The evaluations as arrays, in the goal's metrics.

        `prompts`: of these candidates only. `common`: on those examples only that all
        of them were evaluated on.
        """
        for metric in goal.metrics:
            if metric not in self.metrics and metric != "failure_rate":
                raise InvalidArgumentError(
                    f"There is no metric {metric!r}{nearest(metric, self.metrics)}; there are {some(self.metrics)}."
                )
        names = list(self.made) if prompts is None else list(prompts)
        examples = self.examples
        if common:
            seen = [self.made[name].complete(goal.metrics) for name in names]
            examples = [name for name in examples if all(name in own for own in seen)]
            if not examples:
                raise InvalidArgumentError(
                    f"{some(names)} have no example in common. Examples are matched by their ids: give both runs the "
                    "same ones."
                )
        place = {name: i for i, name in enumerate(examples)}
        lists = {id(made.examples): made.examples for made in self.made.values()}
        places = {
            key: np.array([place.get(example, -1) for example in own], dtype=np.int64)
            for key, own in lists.items()
        }
        arms, at, scores, failed = [], [], [], []
        for arm, name in enumerate(names):
            made = self.made[name]
            own = places[id(made.examples)]
            failed += [
                (arm, int(own[row]), why)
                for row, why in made.errors.items()
                if own[row] >= 0
            ]
            is_scored = own >= 0
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

    def _labels(self, examples: Sequence[str]) -> list[str] | None:
        if not self.segments or any(name not in self.segments for name in examples):
            return None
        return [self.segments[name] for name in examples]

    def remarks(self) -> list[str]:
        """What there is to say of the files before a verdict: what was left out, and repeats."""
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
    prompt: str | None
    example: str | None
    encoding: str | None
    score: str
    # Whether it is the only file, so that columns of numbers may be candidates
    is_alone: bool


def _read(path: Path, columns: _Columns) -> list[_File]:
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
            f"{path}: {suffix or 'a file without an ending'} is not read. Give {FORMATS}."
        )
    return [_table(path, columns)]


@contextmanager
def _curable() -> Iterator[None]:
    """What is wrong with a file that cannot be read, and then what to do."""
    try:
        yield
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"{error} Correct that, or export the results again."
        ) from error


def _check_text(path: Path) -> None:
    """Refuse a file that is binary, or text in which every second byte is 0, before it is read as a table."""
    data = path.read_bytes()
    if b"\0" in data and not data.startswith(
        (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    ):
        raise InvalidArgumentError(
            f"{path}: not a table in text: it holds null bytes. If it is UTF-16, say so: --encoding utf-16-le."
        )


def _folder(path: Path) -> list[_File]:
    """lm-eval's samples in a folder and those below it, or else Inspect logs."""
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
            f"{path}: the folder has neither lm-eval's samples_*.jsonl (run lm-eval with --log_samples) nor Inspect "
            "logs (.eval, .json). Name a file in it."
        )
    return [_inspect(each) for each in logs]


def _json(path: Path, columns: _Columns) -> _File:
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
                f"{path}: these are lm-eval's averages. A verdict needs the samples: run lm-eval with --log_samples, "
                "and give the samples_*.jsonl beside this file."
            )
    return _table(path, columns)


def _json_lines(path: Path, columns: _Columns) -> _File | None:
    """lm-eval's samples or promptfoo's results; None of a table."""
    with _curable():
        rows = [row for _, row in jsonl(path, columns.encoding)]
    if not rows:
        raise InvalidArgumentError(f"{path}: the file has no rows. Give {FORMATS}.")
    if {"doc_id", "doc"} <= set(rows[0]):
        (file,) = _lm_eval([path])
        return file
    return _promptfoo(path, rows) if _is_of_promptfoo(rows[0]) else None


# Names of candidates


def _named(files: Sequence[_File]) -> tuple[dict[str, Evaluations], dict[str, str]]:
    """Every candidate's evaluations by its name; a name that several files have is one of each file's."""
    own = _names_of([file.path for file in files])
    times = Counter(
        each.name for file in files for each in file.candidates if each.name is not None
    )
    unnamed = [
        (file, each) for file in files for each in file.candidates if each.name is None
    ]
    # Such as all models, all tasks
    suggested = [*zip(*(each.names for _, each in unnamed), strict=False)]
    chosen = (
        next((names for names in suggested if len(set(names)) == len(names)), None)
        if len(unnamed) > 1
        else None
    )
    if chosen is None:
        chosen = tuple(own[file.path] for file, _ in unnamed)
    names = dict(zip((id(each) for _, each in unnamed), chosen, strict=True))
    made: dict[str, list[Evaluations]] = {}
    texts: dict[str, str] = {}
    known = set[str]()
    for file in files:
        for each in file.candidates:
            name = each.name
            if name is None:
                name = names[id(each)]
            elif times[name] > 1:
                name = (
                    own[file.path]
                    if len(file.candidates) == 1
                    else f"{own[file.path]}/{name}"
                )
            made.setdefault(name, []).append(each.made)
            if each.text and each.text not in known:
                texts[name] = each.text
                known = set(texts.values())
    return {name: _joined(parts) for name, parts in made.items()}, texts


def _names_of(paths: Sequence[Path]) -> dict[Path, str]:
    """A name for each file, the shortest way to tell them apart."""
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
    encoding = columns.encoding if path.suffix.lower() in _OF_TEXT else None
    with _curable():
        table = Table(path, [*_PROMPTS, *_EXAMPLES], encoding=encoding)
    # Of most tables the same one in each row
    headers = dict.fromkeys(tuple(row.values) for row in table.rows)
    names = list(dict.fromkeys(str(name) for header in headers for name in header))
    prompt = _column(columns.prompt, _PROMPTS, names, path, "--prompt-column")
    example = _column(columns.example, _EXAMPLES, names, path, "--example-column")
    rest = [
        name
        for name in names
        if name not in (prompt, example) and name.lower() not in (_SEGMENT, _ERROR)
    ]
    left_out = [name for name in rest if name.strip().lower() in _NO_SCORES]
    numbers = {name: _numbers(table, name) for name in rest if name not in left_out}
    scores = {name: column for name, column in numbers.items() if column is not None}
    left_out += [name for name, column in numbers.items() if column is None]
    file = _File(path, "a table", [])
    if left_out:
        file.notes.append(
            f"{path.name}: columns that hold no scores are left out: {some(left_out)}."
        )
    if not scores:
        raise InvalidArgumentError(
            f"{path}: no column holds numbers; there are {some(names)}. Give {FORMATS}."
        )
    if prompt is not None and example is None:
        raise InvalidArgumentError(
            f"{path}: the column {prompt!r} names the candidates, but no column names the examples, by which they are "
            f"compared. Name it: --example-column COLUMN; there are {some(names)}."
        )
    ids = [_id(row, example, at) for at, row in enumerate(table.rows, start=1)]
    made = Evaluations(ids, scores, _errors(table, names))
    if prompt is not None:
        file.candidates.extend(_long(table, prompt, made))
    elif columns.is_alone:
        file.candidates.extend(_wide(made, columns.score))
    else:
        file.candidates.append(_Candidate(None, made))
    if example is None and not columns.is_alone:
        file.notes.append(
            f"{path.name}: no column names the examples, so rows are matched by their position."
        )
    labels = next((name for name in names if name.lower() == _SEGMENT), None)
    if labels is not None:
        file.segments.update(
            (id_, str(row.values[labels]))
            for id_, row in zip(ids, table.rows, strict=True)
            if row.values.get(labels)
        )
    return file


def _column(
    given: str | None, usual: Sequence[str], names: Sequence[str], path: Path, flag: str
) -> str | None:
    if given is not None:
        if given not in names:
            raise InvalidArgumentError(
                f"{path}: there is no column {given!r} ({flag}){nearest(given, names)}; there are {some(names)}."
            )
        return given
    by_name = {name.strip().lower(): name for name in reversed(names)}
    return next((by_name[name] for name in usual if name in by_name), None)


def _id(row: Row, column: str | None, number: int) -> str:
    value = None if column is None else row.values.get(column)
    return str(number) if value in (None, "") else str(value)


def _numbers(table: Table, name: str) -> Vector | None:
    """The column as numbers, NaN where it is empty; None if most of it is text, or all of it is empty."""
    values = [row.values.get(name) for row in table.rows]
    try:
        column = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        # Some cells are empty, or hold something else: they are read one by one
        column = None
    if (
        column is not None
        and column.shape == (len(values),)
        and not np.isinf(column).any()
    ):
        return None if np.isnan(column).all() else column
    found = [_number(value) for value in values]
    known = [
        (at, number)
        for at, number in enumerate(found)
        if number is None or not math.isnan(number)
    ]
    texts = [at for at, number in known if number is None]
    if not known or len(texts) > (1.0 - _MOSTLY) * len(known):
        return None
    if wrong := texts or [
        at for at, number in known if number is not None and math.isinf(number)
    ]:
        value = values[wrong[0]]
        is_comma = re.fullmatch(r"-?\d+,\d+", str(value).strip())
        cure = (
            "Write decimals with a point."
            if is_comma
            else "Write a number there, or nothing where none is known."
        )
        raise InvalidArgumentError(
            f"{table.where(table.rows[wrong[0]])}: {name!r} must hold finite numbers; got {short(value)}. {cure}"
        )
    return np.array(
        [math.nan if number is None else number for number in found], dtype=np.float64
    )


def _number(value: object) -> float | None:
    """A score; NaN for an empty cell; None for a text, or whatever else is no number."""
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


def _errors(table: Table, names: Sequence[str]) -> dict[int, str]:
    """Why evaluations failed, by the position of their rows."""
    error = next((name for name in names if name.lower() == _ERROR), None)
    if error is None:
        return {}
    reasons = ((at, row.values.get(error)) for at, row in enumerate(table.rows))
    return {at: str(reason) for at, reason in reasons if reason not in (None, "")}


def _long(table: Table, prompt: str, made: Evaluations) -> Iterator[_Candidate]:
    by_name: dict[str, list[int]] = {}
    for at, row in enumerate(table.rows):
        name = row.values.get(prompt)
        if name in (None, ""):
            raise InvalidArgumentError(
                f"{table.where(row)}: {prompt!r} is empty; write the candidate's name there."
            )
        by_name.setdefault(str(name), []).append(at)
    for own, rows in by_name.items():
        yield _Candidate(own, made.among(rows))


def _wide(made: Evaluations, metric: str) -> Iterator[_Candidate]:
    for name, column in made.scores.items():
        known = np.flatnonzero(~np.isnan(column))
        own = Evaluations(made.examples, {metric: column}, {})
        yield _Candidate(
            name, own if len(known) == len(column) else own.among(known.tolist())
        )


# promptfoo


def _is_of_promptfoo(row: object) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("prompt"), dict)
        and not {"vars", "testCase", "namedScores"}.isdisjoint(row)
    )


def _promptfoo(path: Path, rows: Sequence[Any]) -> _File:
    """A candidate is a prompt with a provider. Tests are matched by their variables: a filter renumbers them."""
    providers = {_provider(row) for row in rows if isinstance(row, dict)}
    labels = {_label(row) for row in rows if isinstance(row, dict)}
    found: dict[str, list[Made]] = {}
    texts: dict[str, str | None] = {}
    for number, row in enumerate(rows, start=1):
        if not _is_of_promptfoo(row):
            raise InvalidArgumentError(
                f"{path}, result {number}: not a result of promptfoo: {short(row)}. Export the results again."
            )
        parts = [_provider(row)] * (len(providers) > 1) + [_label(row)] * (
            len(labels) > 1 or len(providers) == 1
        )
        name = "/".join(parts)
        try:
            scores, test = scores_of(row), _test(row)
        except (TypeError, ValueError, AttributeError) as error:
            raise InvalidArgumentError(
                f"{path}, result {number}: not a result of promptfoo that can be read ({error}). Export them again."
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
    raw = row["prompt"].get("template") or row["prompt"].get("raw")
    return raw if isinstance(raw, str) and raw.strip() else None


def _label(row: Mapping[str, Any]) -> str:
    prompt = row["prompt"] if isinstance(row.get("prompt"), dict) else {}
    return str(
        prompt.get("label") or prompt.get("id") or f"prompt-{row.get('promptIdx', 0)}"
    )


def _provider(row: Mapping[str, Any]) -> str:
    provider = row.get("provider")
    return (
        str(provider.get("label") or provider.get("id"))
        if isinstance(provider, dict)
        else str(provider or "")
    )


def _test(row: Mapping[str, Any]) -> str:
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
    """A candidate is what a log is of; of a log that `InspectTask` wrote, each of the prompts in it."""
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
    """A candidate is a folder of samples, as lm-eval has one per model; of a task that it has twice, each file is."""
    paths = list(paths)
    parts = {path: _SAMPLES.fullmatch(path.name) for path in paths}
    tasks = {
        path: path.stem if part is None else part["task"]
        for path, part in parts.items()
    }
    times = Counter((path.parent, tasks[path]) for path in paths)
    several = len(set(tasks.values())) > 1
    documents: dict[Path, list[Made]] = {}
    names: dict[Path, tuple[str, ...]] = {}
    for path in paths:
        made = _documents(path, f"{tasks[path]}/" if several else "")
        alone = times[path.parent, tasks[path]] > 1
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
    """Every document with its scores; of several filters, each metric as "metric,filter"."""
    rows = list(jsonl(path))
    filters = {str(row.get("filter")) for _, row in rows}
    found: dict[str, dict[str, float]] = {}
    times: Counter[tuple[str, str]] = Counter()
    for line, row in rows:
        if "doc_id" not in row:
            raise InvalidArgumentError(
                f"{path}, line {line}: not a sample of lm-eval: it has no 'doc_id'. Give the file as lm-eval wrote it."
            )
        # By its content: lm-eval misnumbers documents that were chosen by --samples.
        document = f"{task}{str(row.get('doc_hash') or row['doc_id'])[:12]}"
        which = str(row.get("filter"))
        times[document, which] += 1
        if times[document, which] > 1:  # a document that the task has twice
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
        raise InvalidArgumentError(f"{path}: the file has no samples.")
    return [Made(example, scores) for example, scores in found.items()]
