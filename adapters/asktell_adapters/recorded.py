"""Recorded scores of every prompt on every example, for `asktell.simulate`: from a file, or from a study."""

import math
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias, final

import numpy as np
import numpy.typing as npt

from asktell import InvalidArgumentError, Study
from asktell.extend import Goal, nearest, some
from asktell_adapters.rows import Table, check_column

_ROLES = "A table of scores has the columns prompt and example, and one per metric; a row per evaluation."
_Cell: TypeAlias = tuple[str, str, list[float] | None]


@final
@dataclass(frozen=True, eq=False)
class RecordedScores:
    """Every score there is.

    Attributes:
        scores: (K, N, m), in the goal's order of metrics; NaN where an evaluation failed. Or (K, N, m, R), where a
            file has R evaluations of every prompt on every example.
        prompts: (K,) names of the prompts.
        segments: (N,) the label of each example's segment, or None.
        features: (K, d) of the prompts, or None.
    """

    scores: npt.NDArray[np.float64]
    prompts: tuple[str, ...]
    segments: tuple[str, ...] | None = None
    features: npt.NDArray[np.float64] | None = None

    @classmethod
    def read(cls, path: str | Path, goal: Goal) -> Self:
        """The scores of a file.

        A `.npz` has the arrays `scores` (K, N, m) or (K, N, m, R) and `metrics` (m,), and may have `prompts` (K,),
        `segments` (N,) and `embeddings` (K, d). Other tables (.csv, .tsv, .jsonl, .parquet, .xlsx ...) have a row per
        evaluation, as `study.evaluations().to_dataframe()` makes them: the columns prompt, example and one per metric,
        and perhaps segment. A row without scores is an evaluation that failed. Repeated evaluations are averaged.
        """
        path = Path(path).expanduser()
        if path.suffix == ".npz":
            return cls._of_arrays(path, goal)
        table = Table(path, ("prompt", "example", *goal.metrics))
        columns = table.rows[0].values
        names = [f"metric {m}" if f"metric {m}" in columns else m for m in goal.metrics]  # as a data frame names them
        _check_metrics(names, list(columns), str(path))
        cells, segments = list[_Cell](), dict[str, str]()
        for row in table.rows:
            where, values = table.where(row), row.values
            for column in ("prompt", "example"):
                check_column(values, column, where, _ROLES)
            prompt, example = str(values["prompt"]), str(values["example"])
            found = [number for name in names if (number := _number(values.get(name), name, where)) is not None]
            cells.append((prompt, example, found if len(found) == len(names) else None))
            if values.get("segment") not in (None, ""):
                segments[example] = str(values["segment"])
        return cls._of_cells(str(path), goal, cells, segments)

    @classmethod
    def of(cls, study: Study) -> Self:
        """The scores of a study that has evaluated every prompt on every example."""
        labels = study.selector.state.problem.labels
        evaluations = [e for e in study.evaluations() if e.example is not None]
        cells: list[_Cell] = [
            (str(e.prompt), str(e.example), None if e.scores is None else [e.scores[m] for m in study.metrics])
            for e in evaluations
        ]
        segments = {} if labels is None else {str(i): label for i, label in enumerate(labels)}
        return cls._of_cells(f"The study {study.name!r}", study.goal, cells, segments)

    @classmethod
    def _of_cells(cls, where: str, goal: Goal, cells: list[_Cell], segments: Mapping[str, str]) -> Self:
        rows = {name: i for i, name in enumerate(dict.fromkeys(prompt for prompt, _, _ in cells))}
        columns = {name: i for i, name in enumerate(dict.fromkeys(example for _, example, _ in cells))}
        sums, counts = np.zeros((len(rows), len(columns), len(goal.metrics))), np.zeros((len(rows), len(columns), 1))
        seen = np.zeros((len(rows), len(columns)), dtype=bool)
        for prompt, example, scores in cells:
            at = rows[prompt], columns[example]
            seen[at] = True
            if scores is not None:
                sums[at] += scores
                counts[at] += 1
        if not seen.all() or not seen.size:
            raise InvalidArgumentError(
                f"{where}: {int((~seen).sum()):,} of {seen.size:,} evaluations are missing. A simulation needs each of "
                f"the {len(rows)} prompts on each of the {len(columns)} examples; {int(seen.all(axis=0).sum())} of the "
                "examples have all prompts."
            )
        if segments and (unknown := [name for name in columns if name not in segments]):
            raise InvalidArgumentError(f"{where}: examples without a segment: {some(unknown)}.")
        with np.errstate(invalid="ignore"):
            means = sums / counts
        return cls(means, tuple(rows), tuple(segments[name] for name in columns) if segments else None)

    @classmethod
    def _of_arrays(cls, path: Path, goal: Goal) -> Self:
        if not path.is_file():
            raise InvalidArgumentError(f"There is no file {str(path)!r}.")
        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except (ValueError, AttributeError, zipfile.BadZipFile) as error:
            raise InvalidArgumentError(f"{path}: not a .npz of plain arrays: {error}") from error
        if missing := [name for name in ("scores", "metrics") if name not in arrays]:
            raise InvalidArgumentError(f"{path}: no array {missing[0]!r}; the arrays are {sorted(arrays)}.")
        scores, metrics = arrays["scores"], list(map(str, np.atleast_1d(arrays["metrics"])))
        if scores.ndim not in (3, 4) or scores.shape[2] != len(metrics) or scores.dtype.kind not in "fiub":
            raise InvalidArgumentError(
                f"{path}: scores must be numbers of shape (K, N, {len(metrics)}) or (K, N, {len(metrics)}, R), for the "
                f"metrics {metrics}; got {scores.dtype} of shape {scores.shape}."
            )
        _check_metrics(goal.metrics, metrics, str(path))
        prompts, segments, features = (arrays.get(name) for name in ("prompts", "segments", "embeddings"))
        return cls(
            scores[:, :, [metrics.index(name) for name in goal.metrics]].astype(np.float64),
            tuple(map(str, range(len(scores)) if prompts is None else prompts)),
            None if segments is None else tuple(map(str, segments)),
            None if features is None else features.astype(np.float64),
        )


def _check_metrics(wanted: Iterable[str], known: list[str], where: str) -> None:
    for name in wanted:
        if name not in known:
            raise InvalidArgumentError(f"{where}: there is no {name!r}{nearest(name, known)}; there are {known}.")


def _number(value: Any, column: str, where: str) -> float | None:
    if value is None or value == "":
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        what = f"{column!r} must be a number, or empty where the evaluation failed; got {value!r}"
        raise InvalidArgumentError(f"{where}: {what}.") from None
    return None if math.isnan(number) else number
