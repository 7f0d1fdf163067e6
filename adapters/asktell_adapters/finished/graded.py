"""One evaluation in a file of results."""

from collections.abc import Mapping
from typing import NamedTuple


class Graded(NamedTuple):
    """An evaluation, with its scores by metric, or with the error that made it fail.

    Attributes:
        example: the example's id.
        scores: metric -> score.
        error: why the evaluation failed. None if it did not fail.
    """

    example: str
    scores: Mapping[str, float]
    error: str | None = None
