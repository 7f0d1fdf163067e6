"""The document of a study, which holds its fixed settings, and files that hold whole studies.

A file has JSON lines. The first line is the document, with the study's name. Then come
the lines of the log, and the details of trials as `{"trial": NUMBER, "details":
{...}}`. The last line has the numbers of lines and details, so that reading notices a
file that was cut off.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from asktell._util.files import replacing
from asktell.errors import InvalidStateError
from asktell.methods import AbstractMethod
from asktell.methods.rounds.parts import load_method
from asktell.problem import formats
from asktell.problem.checks import MalformedError, check_format
from asktell.record import Engine, State
from asktell.record.saved_engine import load_engine
from asktell.studies import log
from asktell.studies.details import NOT_STORED, encode
from asktell.studies.leases import Leases

FORMAT, VERSION = "asktell.study", 1


class Document(NamedTuple):
    """The fixed settings of a study: the selector at its beginning, and after how many expired leases a trial fails."""

    id: str  # no other study has it
    max_attempts: int
    selector: dict[str, Any]  # as `Selector.to_json` writes it

    def to_bytes(self) -> bytes:
        """Return the document as compressed JSON."""
        return formats.compress(self.to_json().encode("ascii"), level=6)

    def to_json(self, **names: str) -> str:
        """Return the document as JSON, after these names. With the study's name it is the first line of a file."""
        data = {**names, "format": FORMAT, "version": VERSION, **self._asdict()}
        return json.dumps(data, separators=(",", ":"), allow_nan=False)

    def engine(self, method: AbstractMethod | None = None) -> Engine:
        """Return an engine at the study's beginning. `method` is required if it has parts of the user's own."""
        return load_engine(self.selector, lambda saved: load_method(saved, method))


def from_bytes(data: bytes) -> Document:
    """Return the document that `to_bytes` converted to `data`."""
    what = "The study's document"
    with formats.checked(what):
        return _document(formats.parse(formats.decompress(data, what), what))


def write(
    path: Path,
    document: Document,
    name: str,
    lines: Iterable[str],
    details: Iterable[tuple[int, str]],
) -> None:
    """Write a study to a file. An existing file is replaced only when the new one is complete."""
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
        file.write(
            json.dumps(
                {"lines": n_lines, **({"details": n_details} if n_details else {})}
            )
            + "\n"
        )


class Content(NamedTuple):
    """A whole study: its document, its name, the lines of its log, and (trial, details as JSON)."""

    document: Document
    name: object
    lines: list[str]
    details: list[tuple[int, str]]


def read(file: Iterable[bytes], method: AbstractMethod | None = None) -> Content:
    """Read and check a file that `write` wrote. `method` is as for `Study.import_`.

    Raises:
        InvalidStateError: the file is malformed, cut off, or has an unknown version.
    """
    first, *rest = [*file] or [b""]
    with formats.checked("Line 1 of the file"):
        data = formats.parse(first, "Line 1 of the file")
        document = _document(data)
    # The file ends with a line of the log, without the numbers
    is_cut = not rest or rest[-1].startswith(b"[")
    end = formats.parse(b"{}" if is_cut else rest.pop(), "The last line of the file")
    n_lines, n_details = end.get("lines"), end.get("details", 0)
    if (
        type(n_lines) is not int
        or type(n_details) is not int
        or len(rest) != n_lines + n_details
    ):
        raise InvalidStateError(
            f"The last line of the file does not match the {len(rest)} lines before it. The file seems to be "
            "cut off. Export the study again, or use another copy of the file."
        )
    engine, details = document.engine(method), dict[int, str]()
    state, _, _ = log.replayed(engine, Leases(), rest[:n_lines], 2, "the file")
    # Always in ASCII, which the file need not be
    lines = [log.encode(log.decode(line)) for line in rest[:n_lines]]
    for number, line in enumerate(rest[n_lines:], n_lines + 2):
        with formats.checked(f"Line {number} of the file"):
            trial, text = _details(
                formats.parse(line, f"Line {number} of the file"), state
            )
            if trial in details:
                raise MalformedError(f"Trial {trial} has details already.")
            details[trial] = text
    return Content(document, data.get("name"), lines, list(details.items()))


def _details(data: Mapping[str, Any], state: State) -> tuple[int, str]:
    """Return a trial that was told or failed, and its details as JSON."""
    trial, details = data.get("trial"), data.get("details")
    if type(trial) is not int or not isinstance(details, dict):
        raise MalformedError("The line has neither events nor the details of a trial.")
    if not 0 <= trial < state.plan.asked or state.plan.open(trial) is not None:
        raise MalformedError(f"Trial {trial} has details, but no scores.")
    text = str(encode(details))
    # JSON can be nested more deeply than details are
    if NOT_STORED not in details and NOT_STORED in json.loads(text):
        raise MalformedError(f"The details of trial {trial} are nested too deeply.")
    return trial, text


def _document(data: Mapping[str, Any]) -> Document:
    id_, max_attempts, selector = map(data.get, ("id", "max_attempts", "selector"))
    writer = selector.get("asktell") if isinstance(selector, dict) else None
    check_format("The study", data, FORMAT, VERSION, writer)
    if (
        type(max_attempts) is not int
        or not 0 < max_attempts < 2**62
        or not isinstance(selector, dict)
        or not isinstance(id_, str)
    ):
        raise MalformedError(
            "The file needs an id, a selector, and max_attempts above 0."
        )
    return Document(id_, max_attempts, selector)
