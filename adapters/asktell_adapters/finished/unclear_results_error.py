"""The error of results that can be read in several ways."""

import shlex
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
        words: the words of the command, to which the flags of a reading are added. Empty
            outside of the command line.
    """

    def __init__(
        self, question: str, readings: Sequence[Reading], words: Sequence[str] = ()
    ) -> None:
        self.question = question
        self.readings = tuple(readings)
        self.words = tuple(words)
        super().__init__(" ".join([question, *self._choices()]))

    def lines(self) -> list[str]:
        """The question, and a line with the complete command for each reading."""
        return [f"asktell: {self.question} Choose one:", *self._choices()]

    def _choices(self) -> list[str]:
        start = ("asktell", *self.words) if self.words else ()
        return [
            f"{number}. {reading.words} {'Run' if start else 'Pass'}: {shlex.join([*start, *reading.flags])}"
            for number, reading in enumerate(self.readings, start=1)
        ]
