"""Recorded scores of every prompt on every example, from a file or a study, for `asktell.simulate`."""

import math
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias, final

import numpy as np
import numpy.typing as npt

from asktell import InvalidArgumentError, Study
from asktell.extend import Goal, nearest, some
from asktell_adapters.tables.rows import Table, check_column

_ROLES = "A table of scores has one row per evaluation, and the columns prompt, example and one per metric."
Floats: TypeAlias = npt.NDArray[np.float64]
# Prompt, example, scores (None: the evaluation failed)
_Cell: TypeAlias = tuple[str, str, list[float] | None]


@final
@dataclass(frozen=True, eq=False)
class RecordedScores:
    """The scores of every one of K prompts on every one of N examples, in m metrics, for `asktell.simulate`.

    Attributes:
        scores: the scores, shape (K, N, m), with the metrics in the order of
            `goal.metrics`. NaN is an evaluation that failed. With R evaluations of
            every prompt on every example, the shape is (K, N, m, R).
        prompts: the names of the K prompts.
        segments: the labels of the N examples' segments. None without segments.
        features: the features of the prompts, shape (K, d). None without features.
    """

    scores: Annotated[Floats, "prompts examples metrics *repeats"]
    prompts: tuple[str, ...]
    segments: tuple[str, ...] | None = None
    features: Annotated[Floats, "prompts features"] | None = None

    @classmethod
    def read(cls, path: str | Path, goal: Goal) -> Self:
        """Read the scores from a file.

        A `.npz` file has the arrays `scores`, of shape (K, N, m) or (K, N, m, R), and
        `metrics`, the names of the m metrics. It may also have `prompts` (the K names),
        `segments` (N labels) and `embeddings` (K, d), which become the features.

        Any other table (.csv, .tsv, .jsonl, .parquet, .xlsx, ...) has a row for each
        evaluation, as in `study.evaluations().to_dataframe()`. It has the columns
        `prompt`, `example` and one for each metric, and may have the column `segment`.
        A row without the score of a metric is an evaluation that failed. Repeated
        evaluations are averaged.

        Args:
            path: the file.
            goal: the goal. The scores of its metrics are read.

        Raises:
            InvalidArgumentError: the file cannot be read, a column or array is missing,
                a score is not a number, or a prompt has no evaluation on some example.
        """
        path = Path(path).expanduser()
        if path.suffix == ".npz":
            return cls._read_arrays(path, goal)
        table = Table(path, ("prompt", "example", *goal.metrics))
        columns = table.rows[0].values
        # Columns of to_dataframe()
        names = [f"metric {m}" if f"metric {m}" in columns else m for m in goal.metrics]
        if any(name not in columns for name in names):
            _check_metrics(names, _columns_of_numbers(table), str(path))
        cells, segments = list[_Cell](), dict[str, str]()
        for row in table.rows:
            where, values = table.where(row), row.values
            for column in ("prompt", "example"):
                check_column(values, column, where, _ROLES)
            prompt, example = str(values["prompt"]), str(values["example"])
            numbers = [_number(values.get(name), name, where) for name in names]
            scores = [number for number in numbers if number is not None]
            cells.append(
                (prompt, example, scores if len(scores) == len(names) else None)
            )
            if values.get("segment") not in (None, ""):
                segments[example] = str(values["segment"])
        return cls._averaged(str(path), goal, cells, segments)

    @classmethod
    def of(cls, study: Study) -> Self:
        """Take the scores from a study that has evaluated every prompt on every example.

        Repeated evaluations are averaged.

        Raises:
            InvalidArgumentError: an evaluation is missing.
        """
        labels = study.selector.state.problem.examples.labels
        evaluations = [e for e in study.evaluations() if e.example is not None]
        cells: list[_Cell] = [
            (
                str(e.prompt),
                str(e.example),
                None if e.scores is None else [e.scores[m] for m in study.metrics],
            )
            for e in evaluations
        ]
        segments = (
            {} if labels is None else {str(i): label for i, label in enumerate(labels)}
        )
        return cls._averaged(f"The study {study.name!r}", study.goal, cells, segments)

    @classmethod
    def _averaged(
        cls, where: str, goal: Goal, cells: list[_Cell], segments: Mapping[str, str]
    ) -> Self:
        """Average the repeated evaluations of each cell. `segments` maps an example to its label."""
        rows = {
            name: i
            for i, name in enumerate(dict.fromkeys(prompt for prompt, _, _ in cells))
        }
        columns = {
            name: i
            for i, name in enumerate(dict.fromkeys(example for _, example, _ in cells))
        }
        sums = np.zeros((len(rows), len(columns), len(goal.metrics)))
        counts = np.zeros((len(rows), len(columns), 1))
        # `seen` also marks failed evaluations, which have no scores.
        seen = np.zeros((len(rows), len(columns)), dtype=bool)
        for prompt, example, scores in cells:
            at = rows[prompt], columns[example]
            seen[at] = True
            if scores is not None:
                sums[at] += scores
                counts[at] += 1
        if not seen.all() or not seen.size:
            raise InvalidArgumentError(
                f"{where} lacks {int((~seen).sum()):,} of {seen.size:,} evaluations. A simulation needs each of "
                f"the {len(rows):,} prompts on each of the {len(columns):,} examples. Add the missing evaluations, or "
                f"keep only the examples with all prompts ({int(seen.all(axis=0).sum()):,} of {len(columns):,})."
            )
        if segments and (unknown := [name for name in columns if name not in segments]):
            raise InvalidArgumentError(
                f"{where} has examples without a segment, got {some(unknown)}. Give each example a segment."
            )
        # 0 / 0 gives NaN where all evaluations failed
        with np.errstate(invalid="ignore"):
            means = sums / counts
        return cls(
            means,
            tuple(rows),
            tuple(segments[name] for name in columns) if segments else None,
        )

    @classmethod
    def _read_arrays(cls, path: Path, goal: Goal) -> Self:
        """Read a `.npz` file. See `read`.

        Raises:
            InvalidArgumentError: the file cannot be read, or its arrays do not fit together.
        """
        if not path.is_file():
            raise InvalidArgumentError(f"There is no file {str(path)!r}.")
        try:
            # Without pickle, loading a file cannot run code.
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except (ValueError, AttributeError, zipfile.BadZipFile) as error:
            raise InvalidArgumentError(
                f"{path} is not a .npz file of plain arrays ({error}). Save the arrays with numpy.savez."
            ) from error
        if missing := [name for name in ("scores", "metrics") if name not in arrays]:
            raise InvalidArgumentError(
                f"{path} has no array {missing[0]!r}. Add it. The arrays are {some(sorted(arrays))}."
            )
        scores = arrays["scores"]
        metrics = list(map(str, np.atleast_1d(arrays["metrics"])))
        if (
            scores.ndim not in (3, 4)
            or scores.shape[2] != len(metrics)
            or scores.dtype.kind not in "fiub"
        ):
            raise InvalidArgumentError(
                f"{path} has scores of the type {scores.dtype} and the shape {scores.shape}. They must be "
                "numbers. Their shape must be (prompts, examples, metrics) or (prompts, examples, metrics, repeats), "
                f"and the number of metrics is {len(metrics)}: {metrics}."
            )
        _check_metrics(goal.metrics, metrics, str(path))
        prompts, segments, features = (
            arrays.get(name) for name in ("prompts", "segments", "embeddings")
        )
        return cls(
            scores[:, :, [metrics.index(name) for name in goal.metrics]].astype(
                np.float64
            ),
            tuple(map(str, range(len(scores)) if prompts is None else prompts)),
            None if segments is None else tuple(map(str, segments)),
            None if features is None else features.astype(np.float64),
        )


def _columns_of_numbers(table: Table) -> list[str]:
    """The columns that may be metrics: all their cells are numbers or empty, and at least one is a number."""

    def is_metric(name: str) -> bool:
        try:
            cells = [_number(row.values.get(name), name, "") for row in table.rows]
        except InvalidArgumentError:
            return False
        return any(cell is not None for cell in cells)

    ids = ("prompt", "example", "example_id", "segment", "trial")
    return [
        name for name in table.rows[0].values if name not in ids and is_metric(name)
    ]


def _check_metrics(wanted: Iterable[str], metrics: list[str], where: str) -> None:
    for name in wanted:
        if name not in metrics:
            hint = (
                f"Its metrics are {some(metrics)}."
                if metrics
                else "It has no column of numbers."
            )
            raise InvalidArgumentError(
                f"{where} has no metric {name!r}{nearest(name, metrics)}. {hint}"
            )


def _number(value: Any, column: str, where: str) -> float | None:
    """Convert a cell to a number. None if it is empty or NaN, which marks a failure."""
    if value is None or value == "":
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"{where}: The column {column!r} has {value!r}. Write a number, or nothing if the evaluation failed."
        ) from None
    return None if math.isnan(number) else number
