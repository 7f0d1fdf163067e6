"""The error of results that can be read in several ways."""

from collections.abc import Sequence
from typing import NamedTuple, final

from asktell import InvalidArgumentError


class Reading(NamedTuple):
    """One way to read a file.

    Attributes:
        words: the reading as a sentence, such as "One candidate with the metrics a and b."
        flags: the flags that choose it, such as `("--metrics", "a,b")`.
    """

    words: str
    flags: tuple[str, ...]


@final
class UnclearResultsError(InvalidArgumentError):
    """Results can be read in several ways, and nothing but the user can tell which one is right.

    Attributes:
        question: what is unclear, as a sentence.
        readings: the plausible readings, the more plausible ones first.
    """

    def __init__(self, question: str, readings: Sequence[Reading]) -> None:
        self.question = question
        self.readings = tuple(readings)
        choices = " ".join(
            f"{reading.words} Pass {' '.join(reading.flags)}." for reading in readings
        )
        super().__init__(f"{question} {choices}")
