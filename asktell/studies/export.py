"""What a study is made of, as a document; and whole studies as files of JSON lines.

The first line of a file is the document, with the study's name; then come the lines of the log, and last how many
they were, so that a file that was cut off is noticed.
"""

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from asktell import records
from asktell.errors import InvalidStateError
from asktell.files import replacing
from asktell.studies import log
from asktell.studies.logged import Follower

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

    def follower(self) -> Follower:
        """At the start."""
        return _follower(json.loads(self.selector))

    def differences(self, other: "Document") -> list[str]:
        """In what the two differ, apart from what had been asked and told by then."""
        mine, theirs = json.loads(self.selector), json.loads(other.selector)
        keys = {**mine, **theirs}
        found = [key for key in keys if key not in ("asktell", "state") and mine.get(key) != theirs.get(key)]
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
    return _document(records.parse(text, "The study's document"))


def write(path: Path, document: Document, name: str, lines: Iterable[str]) -> None:
    """Write a study to a file, which is replaced once everything is on the disk."""
    with replacing(path) as file:
        file.write(document.header(name) + "\n")
        n_lines = 0
        for line in lines:
            file.write(line + "\n")
            n_lines += 1
        file.write(json.dumps({"lines": n_lines}) + "\n")


def read(file: Iterable[bytes]) -> tuple[Document, object, Follower, Iterator[str]]:
    """The document of a file, the name in it, its follower, and the lines of the log, which the follower folds.

    Raises:
        InvalidStateError: the file is malformed; from the iterator, too, as it goes on.
    """
    iterator = iter(file)
    data = records.parse(next(iterator, b""), "Line 1 of the file")
    document = _document(data)
    follower = document.follower()
    return document, data.get("name"), follower, _lines(iterator, follower)


def _lines(file: Iterator[bytes], follower: Follower) -> Iterator[str]:
    n = 0
    for number, line in enumerate(file, start=2):
        if not line.startswith(b"["):
            if records.parse(line, f"Line {number} of the file") != {"lines": n} or next(file, None) is not None:
                raise InvalidStateError(f"The file does not end after {n} lines of the log as it says.")
            return
        problem = follower.state.problem
        try:
            follower.replay(line)
            yield log.encode(log.decode(line, problem))  # in ASCII, whatever it was
        except InvalidStateError as error:
            raise InvalidStateError(f"Line {number} of the file: {error}") from error
        n += 1
    raise InvalidStateError(f"The file ends after {n} lines of the log, without its last line. Was it cut off?")


def _document(data: Mapping[str, Any]) -> Document:
    if data.get("format") != FORMAT or data.get("version") != VERSION:
        raise InvalidStateError(
            f"This is {str(data.get('format'))[:80]!r}, version {str(data.get('version'))[:80]!r}; this asktell reads "
            f"{FORMAT!r}, version {VERSION}."
        )
    max_attempts, selector = data.get("max_attempts"), data.get("selector")
    if type(max_attempts) is not int or not 0 < max_attempts < 2**62 or not isinstance(selector, dict):
        raise InvalidStateError("The study's document is malformed: it needs max_attempts and a selector.")
    return Document(max_attempts, json.dumps(selector, separators=(",", ":"), allow_nan=False))


def _follower(selector: Mapping[str, Any]) -> Follower:
    return Follower._from_data(selector, None)
