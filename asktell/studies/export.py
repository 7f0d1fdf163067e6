"""What a study is made of, as a document; and whole studies as files of JSON lines.

The first line of a file is the document, with the study's name; then come the lines of the log, then the details of
trials, as `{"trial": NUMBER, "details": {...}}`, and last how many lines and details there were, so that a file that
was cut off is noticed.
"""

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from asktell import serialization
from asktell._util.files import replacing
from asktell.errors import InvalidStateError, StudyExistsError
from asktell.problem.checks import short
from asktell.problem.examples import changes
from asktell.selector import Selector
from asktell.studies import log
from asktell.studies.details import encoded
from asktell.studies.log import LoggedSelector

FORMAT, VERSION = "asktell.study", 1


class Document(NamedTuple):
    """What is fixed about a study: where it starts, and when a trial is given up."""

    max_attempts: int
    selector: str  # as JSON

    def to_bytes(self) -> bytes:
        """Compressed JSON."""
        return zlib.compress(self._text().encode("ascii"))

    def header(self, name: str) -> str:
        """The first line of a file."""
        return f'{{"name":{json.dumps(name)},{self._text()[1:]}'

    def logged(self) -> LoggedSelector:
        """The study as it was at the start."""
        return LoggedSelector(Selector.from_json(json.loads(self.selector)))

    def refuse_others(self, other: "Document", name: str) -> None:
        """See that another document of the same name is the same, apart from what had been asked and told by then.

        Raises:
            StudyExistsError: it is not; the message says what differs.
        """
        if found := self._differences(other):
            raise StudyExistsError(
                f"The study {name!r} was made with other values of {', '.join(found)}. Choose another name."
            )

    def _differences(self, other: "Document") -> list[str]:
        mine, theirs = json.loads(self.selector), json.loads(other.selector)
        keys = {**mine, **theirs}
        apart = ("asktell", "state", "examples", "example_ids")
        found = [key for key in keys if key not in apart and mine.get(key) != theirs.get(key)]
        ids = mine.get("example_ids"), theirs.get("example_ids")
        if all(ids):
            found += [f"examples: {changed}"] if (changed := changes(*ids)) else []
        elif ids[0] or mine["examples"] != theirs["examples"]:  # what was made without ids knows no others
            found.append("examples")
        return found + ["max_attempts"] * (self.max_attempts != other.max_attempts)

    def _text(self) -> str:
        return (
            f'{{"format":"{FORMAT}","version":{VERSION},"max_attempts":{self.max_attempts},"selector":{self.selector}}}'
        )


def from_bytes(data: bytes) -> Document:
    """The document that `to_bytes` made `data` of.

    Raises:
        InvalidStateError: it is damaged, or of an unknown version.
    """
    try:
        text = zlib.decompress(data)
    except zlib.error as error:
        raise InvalidStateError(f"The study's document is damaged: {error}.") from error
    return _document(serialization.parse(text, "The study's document"))


def write(path: Path, document: Document, name: str, lines: Iterable[str], details: Iterable[tuple[int, str]]) -> None:
    """Write a study to a file, which is replaced once everything is on the disk."""
    with replacing(path) as file:
        file.write(document.header(name) + "\n")
        n_lines = 0
        for line in lines:
            file.write(line + "\n")
            n_lines += 1
        n_details = 0
        for trial, text in details:
            file.write(f'{{"trial":{trial},"details":{text}}}\n')
            n_details += 1
        file.write(json.dumps({"lines": n_lines, **({"details": n_details} if n_details else {})}) + "\n")


def read(file: Iterable[bytes]) -> tuple[Document, object, "Content"]:
    """The document of a file, the name in it, and its content.

    Raises:
        InvalidStateError: the file is malformed.
    """
    iterator = iter(file)
    data = serialization.parse(next(iterator, b""), "Line 1 of the file")
    document = _document(data)
    return document, data.get("name"), Content(iterator, document.logged())


class Content:
    """What follows the document: the lines of the log, and after them the details; each to be iterated once."""

    def __init__(self, file: Iterator[bytes], logged: LoggedSelector) -> None:
        self.logged = logged  # folds the lines
        self._numbered = enumerate(file, start=2)
        self._n_lines = 0
        self._rest: tuple[int, bytes] | None = None  # the first line after those of the log

    def lines(self) -> Iterator[str]:
        """The lines of the log.

        Raises:
            InvalidStateError: one is malformed, or cannot have happened.
        """
        for number, line in self._numbered:
            if not line.startswith(b"["):
                self._rest = number, line
                return
            try:
                problem = self.logged.state.problem
                self.logged.replay([line])
                yield log.encode(log.decode(line, problem))  # in ASCII, whatever it was
            except InvalidStateError as error:
                raise InvalidStateError(f"Line {number} of the file: {error}") from error
            self._n_lines += 1

    def details(self) -> Iterator[tuple[int, str]]:
        """The details of trials that were told or failed, as JSON.

        Raises:
            InvalidStateError: one is malformed, or the file does not end as it says.
        """
        seen = set[int]()
        state = self.logged.state
        numbered = self._numbered if self._rest is None else chain([self._rest], self._numbered)
        for number, line in numbered:
            data = serialization.parse(line, f"Line {number} of the file")
            if "lines" in data:
                if data != {"lines": self._n_lines, **({"details": len(seen)} if seen else {})} or any(self._numbered):
                    raise InvalidStateError(
                        f"The file does not end after {self._n_lines} lines of the log and {len(seen)} details as it "
                        "says."
                    )
                return
            trial, details = data.get("trial"), data.get("details")
            if type(trial) is not int or not isinstance(details, dict):
                raise InvalidStateError(f"Line {number} of the file has neither events nor a trial's details.")
            if trial in seen or not 0 <= trial < state.asked or state.open(trial) is not None:
                raise InvalidStateError(f"Line {number} of the file: trial {trial} has details already, or no scores.")
            seen.add(trial)
            yield trial, serialization.checked("A trial's details", partial(encoded, details))
        raise InvalidStateError(
            f"The file ends after {self._n_lines} lines of the log, without its last line. Was it cut off?"
        )


def _document(data: Mapping[str, Any]) -> Document:
    if data.get("format") != FORMAT or data.get("version") != VERSION:
        raise InvalidStateError(
            f"This is {short(data.get('format'))}, version {short(data.get('version'))}; this asktell reads "
            f"{FORMAT!r}, version {VERSION}."
        )
    max_attempts, selector = data.get("max_attempts"), data.get("selector")
    if type(max_attempts) is not int or not 0 < max_attempts < 2**62 or not isinstance(selector, dict):
        raise InvalidStateError("The study's document is malformed: it needs max_attempts and a selector.")
    return Document(max_attempts, json.dumps(selector, separators=(",", ":"), allow_nan=False))
