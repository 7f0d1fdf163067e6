"""What a study is made of, as a document; and whole studies as files of JSON lines.

The first line of a file is the document, with the study's name; then come the lines of the log, then the details of
trials, as `{"trial": NUMBER, "details": {...}}`, and last how many lines and details there were, so that a file that
was cut off is noticed.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from asktell import serialization
from asktell._util.extras import check_format
from asktell._util.files import replacing
from asktell.errors import InvalidStateError, StudyExistsError
from asktell.methods import Method
from asktell.problem.examples import changes
from asktell.selector import Selector
from asktell.studies import log
from asktell.studies.details import encode
from asktell.studies.log import LoggedSelector

FORMAT, VERSION = "asktell.study", 1


class Document(NamedTuple):
    """What is fixed about a study: where it starts, and when a trial is given up."""

    max_attempts: int
    selector: dict[str, Any]  # as it is saved

    def to_bytes(self) -> bytes:
        """Compressed JSON."""
        return serialization.compress(self.to_json().encode("ascii"), level=6)

    def to_json(self, **names: str) -> str:
        """The document, behind names; with that of the study the first line of a file."""
        data = {**names, "format": FORMAT, "version": VERSION, **self._asdict()}
        return json.dumps(data, separators=(",", ":"), allow_nan=False)

    def logged(self, method: Method | None = None) -> LoggedSelector:
        """The study as it was at the start; `method` where it has parts of the user's own."""
        return LoggedSelector(Selector.from_json(self.selector, method))

    def refuse_others(self, other: "Document", name: str) -> None:
        """See that another document of the same name is the same, apart from what had been asked and told by then."""
        mine, theirs, apart = self.selector, other.selector, ("asktell", "state", "examples", "example_ids")
        found = [key for key in {**mine, **theirs} if key not in apart and mine.get(key) != theirs.get(key)]
        ids: tuple[Any, Any] = mine.get("example_ids"), theirs.get("example_ids")
        if all(ids):
            found += [f"examples: {changed}"] if (changed := changes(*ids)) else []
        elif ids[0] or mine["examples"] != theirs["examples"]:  # what was made without ids knows no others
            found.append("examples")
        if found := found + ["max_attempts"] * (self.max_attempts != other.max_attempts):
            raise StudyExistsError(
                f"The study {name!r} was made with other values of {', '.join(found)}. Choose another name."
            )


def from_bytes(data: bytes) -> Document:
    """The document that `to_bytes` made `data` of."""
    what = "The study's document"
    return _document(serialization.parse(serialization.decompress(data, what), what))


def write(path: Path, document: Document, name: str, lines: Iterable[str], details: Iterable[tuple[int, str]]) -> None:
    """Write a study to a file, which is replaced once everything is on the disk."""
    with replacing(path) as file:
        file.write(document.to_json(name=name) + "\n")
        n_lines = 0
        for line in lines:
            file.write(line + "\n")
            n_lines += 1
        n_details = 0
        for trial, text in details:
            file.write(f'{{"trial":{trial},"details":{text}}}\n')
            n_details += 1
        file.write(json.dumps({"lines": n_lines, **({"details": n_details} if n_details else {})}) + "\n")


class Content(NamedTuple):
    """A whole study: the lines of its log, and the details of trials as JSON."""

    document: Document
    name: object
    lines: list[str]
    details: list[tuple[int, str]]


def read(file: Iterable[bytes], method: Method | None = None) -> Content:
    """The study that `write` wrote to a file; whatever is in it is checked. `method` as for `Study.import_`."""
    first, *rest = [*file] or [b""]
    data = serialization.parse(first, "Line 1 of the file")
    document = _document(data)
    is_cut = not rest or rest[-1].startswith(b"[")  # what follows the log is missing
    end = serialization.parse(b"{}" if is_cut else rest.pop(), "The last line of the file")
    n_lines, n_details = end.get("lines"), end.get("details", 0)
    if type(n_lines) is not int or type(n_details) is not int or len(rest) != n_lines + n_details:
        raise InvalidStateError(
            f"The file does not end with the number of the {len(rest)} lines before its last one. Was it cut off?"
        )
    logged, lines, details = document.logged(method), list[str](), dict[int, str]()
    for number, line in enumerate(rest):
        try:
            if number < n_lines:
                logged.replay([line])
                lines.append(log.encode(log.decode(line)))  # in ASCII, whatever it was
            else:
                trial, text = _details(serialization.parse(line, "What is kept of a trial"), logged)
                if trial in details:
                    raise InvalidStateError(f"Trial {trial} has details already.")
                details[trial] = text
        except InvalidStateError as error:
            raise InvalidStateError(f"Line {number + 2} of the file: {error}") from error
    return Content(document, data.get("name"), lines, list(details.items()))


def _details(data: Mapping[str, Any], logged: LoggedSelector) -> tuple[int, str]:
    """A trial that was told or failed, and its details."""
    trial, details = data.get("trial"), data.get("details")
    if type(trial) is not int or not isinstance(details, dict):
        raise InvalidStateError("There are neither events nor a trial's details in it.")
    if not 0 <= trial < logged.state.asked or logged.state.open(trial) is not None:
        raise InvalidStateError(f"Trial {trial} has details, but no scores.")
    with serialization.checked("What is kept of a trial"):
        return trial, str(encode(details))


def _document(data: Mapping[str, Any]) -> Document:
    max_attempts, selector = data.get("max_attempts"), data.get("selector")
    writer = selector.get("asktell") if isinstance(selector, dict) else None
    check_format("The study", data, FORMAT, VERSION, writer)
    if type(max_attempts) is not int or not 0 < max_attempts < 2**62 or not isinstance(selector, dict):
        raise InvalidStateError("The study's document is malformed: it needs max_attempts and a selector.")
    return Document(max_attempts, selector)
