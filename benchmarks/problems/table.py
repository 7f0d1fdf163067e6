"""A table of scores, prompt x example x metric, and its file format.

The format is a `.npz` (numpy, compressed, no pickle) with these arrays; K prompts, N
examples, m metrics:

| array         | shape      | type      |                                                                     |
|---------------|------------|-----------|---------------------------------------------------------------------|
| `format`      | ()         | text      | "asktell-scores"                                                    |
| `version`     | ()         | integer   | 1                                                                   |
| `metrics`     | (m,)       | text      | names, no two alike; larger is better in every one (but with R)     |
| `scores`      | (K, N, m)  | float     | finite; or (K, N, m, R): R evaluations of each prompt and example   |
| `prompts`     | (K,)       | text      | no two alike                                                        |
| `examples`    | (N,)       | text      | optional: ids, no two alike                                         |
| `segments`    | (N,)       | text      | optional: the group that each example is in, such as its subject    |
| `embeddings`  | (K, p)     | float     | optional: of the prompts; finite                                    |
| `outputs`     | (K, N)     | text      | optional: what the LLM wrote                                        |
| `provenance`  | ()         | text      | optional: a JSON object: model, data, command, versions ...         |

`python -m benchmarks.selection.validate FILE ...` validates files and describes them.
"""

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FORMAT, VERSION = "asktell-scores", 1
_REQUIRED = ("format", "version", "metrics", "scores", "prompts")
_OPTIONAL = ("examples", "segments", "embeddings", "outputs", "provenance")

Array = npt.NDArray[np.float64]


class InvalidTableError(ValueError):
    """A file that is not a table of scores; the message says why."""


@dataclass(frozen=True, eq=False)
class Table:
    """Every score there is: `scores` (K, N, m) or (K, N, m, R). `features` (K, d) describe the prompts, or None."""

    name: str
    metrics: tuple[str, ...]
    scores: Array
    prompts: tuple[str, ...]
    features: Array | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a table that no method could be run on."""
        k, n, m = _shape(self.scores)
        _expect(
            len(self.metrics) == m,
            f"{self.name}: {len(self.metrics)} names for {m} metrics",
        )
        _expect(
            len(set(self.metrics)) == m,
            f"{self.name}: a metric's name occurs twice in {list(self.metrics)}",
        )
        _expect(
            len(self.prompts) == k,
            f"{self.name}: {len(self.prompts)} prompts for {k} rows of scores",
        )
        _expect(len(set(self.prompts)) == k, f"{self.name}: a prompt occurs twice")
        _expect(
            k > 0 and n > 0 and m > 0, f"{self.name}: the scores have shape {(k, n, m)}"
        )
        _expect(
            bool(np.isfinite(self.scores).all()), f"{self.name}: scores must be finite"
        )
        if self.features is not None:
            shape = self.features.shape
            _expect(
                len(shape) == 2 and shape[0] == k,
                f"{self.name}: features {shape} for {k} prompts",
            )
            _expect(
                bool(np.isfinite(self.features).all()),
                f"{self.name}: features must be finite",
            )

    @cached_property
    def cells(self) -> Array:
        """(K, N, m) the scores, of several evaluations of a prompt on an example their mean."""
        return (
            self.scores
            if self.scores.ndim == 3
            else np.asarray(self.scores.mean(axis=3))
        )

    @cached_property
    def means(self) -> Array:
        """(K, m) the truth: means over all examples."""
        return np.asarray(self.cells.mean(axis=1))

    def rows(self, keep: npt.NDArray[np.int64]) -> "Table":
        """The table of some of the prompts."""
        features = None if self.features is None else self.features[keep]
        prompts = tuple(self.prompts[i] for i in keep)
        return Table(
            self.name,
            self.metrics,
            self.scores[keep],
            prompts,
            features,
            self.provenance,
        )

    def variance_shares(self) -> Array:
        """(m, 3) shares of prompt, example and residual in each metric's variance, by two-way analysis."""
        k, n, m = self.cells.shape
        grand = self.cells.mean(axis=(0, 1))
        prompt, example = self.means - grand, self.cells.mean(axis=0) - grand
        residual = self.cells - grand - prompt[:, None] - example[None]
        s = (residual**2).sum(axis=(0, 1)) / max(1, (k - 1) * (n - 1))
        a = np.maximum(0.0, (prompt**2).sum(axis=0) / max(1, k - 1) - s / n)
        b = np.maximum(0.0, (example**2).sum(axis=0) / max(1, n - 1) - s / k)
        parts = np.stack((a, b, s), axis=1)
        total = parts.sum(axis=1, keepdims=True)
        return np.asarray(
            np.divide(parts, total, out=np.zeros((m, 3)), where=total > 0)
        )


def read_table(path: Path) -> Table:
    """A table from a file in the format above; its name is the file's stem.

    Raises:
        InvalidTableError: the file does not keep to the format.
    """
    arrays = _arrays(path)
    missing = [name for name in _REQUIRED if name not in arrays]
    _expect(not missing, f"{path}: no {missing}; the arrays are {sorted(arrays)}")
    unknown = sorted(set(arrays) - {*_REQUIRED, *_OPTIONAL})
    _expect(
        not unknown,
        f"{path}: unknown arrays {unknown}; expected {[*_REQUIRED, *_OPTIONAL]}",
    )
    _expect(
        str(arrays["format"]) == FORMAT,
        f"{path}: format {arrays['format']!s}, expected {FORMAT!r}",
    )
    _expect(
        str(arrays["version"]) == str(VERSION),
        f"{path}: version {arrays['version']!s}, expected {VERSION}",
    )
    for name in ("scores", "embeddings"):
        if name in arrays:
            _expect(
                arrays[name].dtype.kind == "f",
                f"{path}: {name} must be of a float type, not {arrays[name].dtype}",
            )
    k, n, _ = _shape(arrays["scores"])
    for name, shape in (("examples", (n,)), ("segments", (n,)), ("outputs", (k, n))):
        if name in arrays:
            _expect(
                arrays[name].shape == shape,
                f"{path}: {name} has shape {arrays[name].shape}, expected {shape}",
            )
    examples = arrays.get("examples", np.arange(n))
    _expect(len(np.unique(examples)) == n, f"{path}: an example's id occurs twice")
    try:
        provenance = json.loads(str(arrays.get("provenance", "{}")))
    except json.JSONDecodeError as error:
        raise InvalidTableError(
            f"{path}: the provenance is not JSON: {error}"
        ) from error
    _expect(
        isinstance(provenance, dict), f"{path}: the provenance is not a JSON object"
    )
    embeddings = arrays.get("embeddings")
    return Table(
        name=path.stem,
        metrics=tuple(arrays["metrics"].tolist()),
        scores=arrays["scores"].astype(np.float64),
        prompts=tuple(arrays["prompts"].tolist()),
        features=None if embeddings is None else embeddings.astype(np.float64),
        provenance=provenance,
    )


def write_table(path: Path, **arrays: npt.ArrayLike) -> None:
    """Write the arrays of the format, and read the file back to validate it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.savez_compressed(
            file, format=np.array(FORMAT), version=np.array(VERSION), **arrays
        )  # type: ignore[arg-type]
    read_table(path)


def _arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, AttributeError, zipfile.BadZipFile) as error:
        # Pickled, cut short, or no .npz at all
        raise InvalidTableError(
            f"{path}: not a .npz of plain arrays: {error}"
        ) from error


def _shape(scores: npt.NDArray[Any]) -> tuple[int, int, int]:
    axes = "the axes prompt, example and metric, and perhaps repeat"
    _expect(scores.ndim in (3, 4), f"scores must have {axes}, got shape {scores.shape}")
    _expect(
        scores.ndim == 3 or scores.shape[3] > 0, f"the scores have shape {scores.shape}"
    )
    k, n, m, *_ = scores.shape
    return k, n, m


def _expect(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidTableError(message)
