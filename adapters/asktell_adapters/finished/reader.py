"""The interface of a format of results."""

from typing import Protocol

from asktell_adapters.finished.scores import Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.wanted import Wanted


class Reader(Protocol):
    """A format of results. A reader has no arguments and no state.

    Attributes:
        name: the format in words, such as "promptfoo's results". It follows "asktell reads"
            in messages.
    """

    name: str

    def recognizes(self, source: Source) -> bool:
        """Whether a file or folder has this format.

        The content decides: the first bytes, the header, or several keys that only this
        format has together. The ending of the file and a single key do not suffice, since
        many tools write .json with `results` in it. Returns False for a file that is
        damaged, and raises nothing.
        """
        ...

    def read(self, source: Source, wanted: Wanted) -> Scores:
        """Read the evaluations.

        Raises:
            InvalidArgumentError: the file is damaged, or has no evaluations. The message
                has the place, the invalid value, and the remedy.
            UnclearResultsError: several readings are plausible.
        """
        ...
