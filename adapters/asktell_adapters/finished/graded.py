"""One evaluation in a file of results."""

from collections.abc import Mapping
from typing import NamedTuple

from asktell_adapters.tables.rows import number_in


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

    @classmethod
    def of(
        cls, example: object, values: Mapping[str, object], error: str | None = None
    ) -> "Graded":
        """An evaluation with those values that are numbers. True is 1, and False is 0.

        An unknown or infinite value is left out, as is a text, since it is no score.
        """
        numbers = {
            name: number
            for name, value in values.items()
            if not isinstance(value, str) and (number := number_in(value)) is not None
        }
        return cls(str(example), numbers, error)
