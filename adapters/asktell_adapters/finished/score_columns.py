"""The evaluations of one candidate as columns."""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from asktell_adapters.finished.graded import Graded

Floats: TypeAlias = npt.NDArray[np.float64]


class ScoreColumns(NamedTuple):
    """The n evaluations of a candidate as columns, because a large table has a million of them.

    Attributes:
        examples: (n,) the example of each evaluation. The candidates of a wide table share
            one list.
        scores: metric -> (n,) scores, NaN if a score is unknown.
        errors: position of a failed evaluation -> the reason.
    """

    examples: Sequence[str]
    scores: Mapping[str, Annotated[Floats, " n"]]
    errors: Mapping[int, str]

    @classmethod
    def of(cls, evaluations: Sequence[Graded]) -> "ScoreColumns":
        """Convert evaluations to columns."""
        metrics = dict.fromkeys(name for row in evaluations for name in row.scores)
        scores = {
            name: np.array(
                [row.scores.get(name, math.nan) for row in evaluations],
                dtype=np.float64,
            )
            for name in metrics
        }
        errors = {
            at: row.error for at, row in enumerate(evaluations) if row.error is not None
        }
        return cls([row.example for row in evaluations], scores, errors)

    @classmethod
    def joined(cls, parts: Sequence["ScoreColumns"]) -> "ScoreColumns":
        """Join the evaluations of several files, one file's after another's."""
        if len(parts) == 1:
            return parts[0]
        metrics = list(dict.fromkeys(name for part in parts for name in part.scores))
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
        return cls(examples, dict(zip(metrics, scores.T, strict=True)), errors)

    def among(self, rows: Sequence[int]) -> "ScoreColumns":
        """Select evaluations.

        Args:
            rows: positions of the evaluations, in the wanted order.
        """
        at = np.array(rows, dtype=np.int64)
        errors = {
            i: self.errors[row] for i, row in enumerate(rows) if row in self.errors
        }
        return ScoreColumns(
            [self.examples[row] for row in rows],
            {name: column[at] for name, column in self.scores.items()},
            errors,
        )

    def columns(self, metrics: Sequence[str]) -> Annotated[Floats, "n metrics"]:
        """(n, m) scores in these metrics. NaN for a metric that the candidate does not have."""
        unknown = np.full(len(self.examples), np.nan)
        return np.column_stack([self.scores.get(name, unknown) for name in metrics])

    def complete(self, metrics: Sequence[str]) -> set[str]:
        """The examples with scores in all of these metrics, or with a failure."""
        is_complete = np.atleast_1d(~np.isnan(self.columns(metrics)).any(axis=1))
        # A failure is an outcome, too. The example counts as evaluated.
        is_complete[list(self.errors)] = True
        return {self.examples[row] for row in np.flatnonzero(is_complete).tolist()}
