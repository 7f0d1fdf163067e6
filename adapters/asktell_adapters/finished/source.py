"""A file or folder of results, read lazily."""

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, final

from asktell import InvalidArgumentError
from asktell_adapters.tables.rows import from_json, read_text

_HEAD = 65_536
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_PARQUET = b"PAR1"


@final
class Source:
    """A file or folder of results. Its parts are read when they are first used, and kept.

    No property of a damaged file raises an error, except `text`: a reader that looks for
    its format gets an empty value instead.

    Args:
        path: the file or folder.
        encoding: encoding of a text file (default: that of its byte order mark, else UTF-8).

    Attributes:
        path: the file or folder.
        encoding: as passed.
    """

    def __init__(self, path: Path, encoding: str | None = None) -> None:
        self.path = path
        self.encoding = encoding

    @property
    def is_folder(self) -> bool:
        """Whether this is a folder."""
        return self.path.is_dir()

    @cached_property
    def files(self) -> tuple["Source", ...]:
        """The files in a folder and its subfolders, in alphabetical order. Empty for a file."""
        if not self.is_folder:
            return ()
        return tuple(
            Source(path, self.encoding)
            for path in sorted(self.path.rglob("*"))
            if path.is_file() and not path.name.startswith(".")
        )

    @cached_property
    def head(self) -> bytes:
        """The first 64 KiB. Empty for a folder."""
        if self.is_folder:
            return b""
        with self.path.open("rb") as file:
            return file.read(_HEAD)

    @cached_property
    def members(self) -> tuple[str, ...]:
        """The names in a zip archive. Empty for another file."""
        if not self.is_zip:
            return ()
        try:
            with zipfile.ZipFile(io.BytesIO(self.path.read_bytes())) as archive:
                return tuple(archive.namelist())
        except (zipfile.BadZipFile, EOFError, OSError, ValueError):
            return ()

    @property
    def is_zip(self) -> bool:
        """Whether this is an archive, even if it is damaged."""
        return self.head.startswith(_ZIP)

    @property
    def is_parquet(self) -> bool:
        """Whether this is a Parquet file, even if it is damaged."""
        return self.head.startswith(_PARQUET)

    @property
    def is_binary(self) -> bool:
        """Whether this is an archive or a Parquet file."""
        return self.is_zip or self.is_parquet

    @cached_property
    def text(self) -> str:
        """The content of a text file. Empty for a folder, an archive or a Parquet file.

        Raises:
            InvalidArgumentError: the content is not text in this encoding.
        """
        return (
            ""
            if self.is_folder or self.is_binary
            else read_text(self.path, self.encoding)
        )

    @cached_property
    def json(self) -> Any:
        """The value of a file that is one JSON document. None for any other file."""
        if not self._begins("{["):
            return None
        try:
            return from_json(self.text, self.path, 1)
        except InvalidArgumentError:
            return None

    @cached_property
    def lines(self) -> tuple[tuple[int, Any], ...]:
        """The number and the value of each line of JSON lines. Empty for any other file."""
        if self.json is not None or not self._begins("{["):
            return ()
        try:
            # Not splitlines(), because a JSON text may contain Unicode line separators.
            return tuple(
                (number, from_json(line, self.path, number))
                for number, line in enumerate(self.text.split("\n"), start=1)
                if line.strip()
            )
        except InvalidArgumentError:
            return ()

    @cached_property
    def records(self) -> Sequence[Mapping[str, Any]]:
        """The objects of JSON lines, or of a JSON document that is a list of objects. Empty for any other file."""
        document = self.json
        # An object in a single line is both a document and JSON lines
        values = (
            document
            if isinstance(document, list)
            else [document]
            if isinstance(document, dict)
            else [value for _, value in self.lines]
        )
        if all(isinstance(value, dict) for value in values):
            return values
        return ()

    @property
    def items(self) -> Sequence[Mapping[str, Any]]:
        """The items of a page that a web API sent, which has them in `data`. Of any other file, its records."""
        document = self.json
        page = document.get("data") if isinstance(document, dict) else None
        if isinstance(page, list) and all(isinstance(item, dict) for item in page):
            return page
        return self.records

    @property
    def is_json(self) -> bool:
        """Whether this is meant to be JSON, even if it is damaged."""
        if self.json is not None or self.lines:
            return True
        start = "".join(self._start.split())[:2]
        return start[:1] == "{" or start[:2] in ("[", "[{", "[[", '["')

    def check_json(self) -> None:
        """Check that a file which is meant to be JSON can be parsed.

        Raises:
            InvalidArgumentError: the text is neither a JSON document nor JSON lines. The
                message has the place.
        """
        if self.json is not None or self.lines:
            return
        lines = [line for line in self.text.split("\n") if line.strip()]
        try:
            # The error is in a later line if the first line is JSON alone.
            is_lines = bool(lines) and json.loads(lines[0]) is not None
        except (ValueError, RecursionError):
            is_lines = False
        if not is_lines:
            from_json(self.text, self.path, 1)
        for number, line in enumerate(self.text.split("\n"), start=1):
            if line.strip():
                from_json(line, self.path, number)

    @cached_property
    def _start(self) -> str:
        try:
            return self.text[:_HEAD].lstrip()
        except InvalidArgumentError:
            return ""

    def _begins(self, characters: str) -> bool:
        return self._start[:1] != "" and self._start[0] in characters
