"""Storages of studies: SQLite files, PostgreSQL databases and memory, behind one small interface.

A storage holds a log for each study. Lines are only added to a log, and never changed.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from asktell.errors import InvalidArgumentError
from asktell.studies.storages.base import (
    MOST,
    AbstractStorage,
    Line,
    Snapshot,
    Transaction,
)

__all__ = [
    "MOST",
    "AbstractStorage",
    "Line",
    "Location",
    "Snapshot",
    "Transaction",
    "open_storage",
]

Location: TypeAlias = str | Path | AbstractStorage
"""The place of a storage: a URL, the path of a SQLite file, or a storage object. See `open_storage`."""


def open_storage(location: Location) -> AbstractStorage:
    """Return the storage at a location. A storage object is returned as it is.

    | location                           | storage                                                      |
    |------------------------------------|--------------------------------------------------------------|
    | `path/to/file.db`, a `Path`        | a SQLite file                                                |
    | `sqlite:///path`, `sqlite:////abs` | the same, written as a URL                                   |
    | `postgresql://user@host/database`  | a PostgreSQL database. It needs `asktell[postgresql]`        |
    | `memory://name`                    | the memory of this process, until the process ends           |

    Args:
        location: one of the locations in the table, or a storage object.

    Raises:
        InvalidArgumentError: the location is not one of these, such as a URL without
            its slashes, or with options.
        MissingExtraError: the package psycopg is not installed.
    """
    if isinstance(location, AbstractStorage):
        return location
    if isinstance(location, Path):
        location = f"sqlite:///{location}"
    if not isinstance(location, str) or not location or "\0" in location:
        kind = "a text with a null character" if location else "an empty text"
        raise InvalidArgumentError(
            "The location of a study must be a URL or a path, got "
            f"{kind if isinstance(location, str) else type(location).__name__}."
        )
    scheme, is_url, rest = location.partition("://")
    if not is_url:
        _check_path(location)
        scheme, rest = "sqlite", f"/{location}"
    if scheme == "sqlite":
        if not rest.startswith("/") or rest in ("/", "/:memory:"):
            raise InvalidArgumentError(
                "A SQLite URL has three slashes and a path, such as sqlite:///study.db. For studies in memory, use "
                "memory://NAME."
            )
        if options := re.search(r"\?[a-z_]+=", rest):
            raise InvalidArgumentError(
                f"The path of a SQLite file has no options, got {options[0]!r}. Leave them out."
            )
        from asktell.studies.storages.sqlite import SQLiteStorage

        return SQLiteStorage(rest[1:])
    if scheme in ("postgresql", "postgres", "postgresql+psycopg"):
        from asktell.studies.storages.postgresql import PostgreSQLStorage

        return PostgreSQLStorage(f"postgresql://{rest}")
    if scheme == "memory":
        from asktell.studies.storages.memory import shared

        return shared(rest)
    raise InvalidArgumentError(
        f"The location of a study must be sqlite:///PATH, postgresql://HOST/DATABASE, memory://NAME or a path, "
        f"got {scheme}://."
    )


def _check_path(path: str) -> None:
    """Raise an InvalidArgumentError if a path is meant as a URL. The message has no part of a password."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", path)
    if scheme:
        raise InvalidArgumentError(
            f"The location of a study begins with {scheme[0]!r}, but without two slashes it is no URL. Write "
            "sqlite:///PATH, postgresql://HOST/DATABASE, memory://NAME or a plain path. If the name of the file "
            f"begins with {scheme[0]!r}, write ./ before it."
        )


@contextmanager
def opened(location: Location, keep: bool = False) -> Iterator[AbstractStorage]:
    """Give the storage for a `with` block, and close it afterwards if it was opened here.

    With `keep`, it is closed only after an exception.
    """
    storage = open_storage(location)
    try:
        yield storage
    except BaseException:
        keep = False
        raise
    finally:
        if storage is not location and not keep:
            storage.close()
