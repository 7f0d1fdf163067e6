"""Where studies are kept: an append-only log for each, behind one small interface.

The backends are imported when a URL names them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from asktell.errors import InvalidArgumentError
from asktell.storages.base import MOST, AbstractStorage, Line, Snapshot, Transaction

__all__ = ["MOST", "AbstractStorage", "Line", "Location", "Snapshot", "Transaction", "open_storage"]

Location: TypeAlias = str | Path | AbstractStorage
"""A URL, the path of a SQLite file, or a storage."""


def open_storage(location: Location) -> AbstractStorage:
    """The storage at a place.

    | location                           | storage                                                      |
    |------------------------------------|--------------------------------------------------------------|
    | `path/to/file.db`, a `Path`        | a SQLite file                                                |
    | `sqlite:///path`, `sqlite:////abs` | the same, written as a URL                                   |
    | `postgresql://user@host/database`  | a PostgreSQL database, by psycopg (`asktell[postgresql]`)    |
    | `memory://name`                    | this process's memory; gone at its end                       |
    """
    if isinstance(location, AbstractStorage):
        return location
    if isinstance(location, Path):
        location = f"sqlite:///{location}"
    if not isinstance(location, str) or not location or "\0" in location:
        raise InvalidArgumentError(f"A study is kept at a URL or a path, got {location!r:.60}.")
    scheme, found, rest = location.partition("://")
    if not found:
        scheme, rest = "sqlite", f"/{location}"
    if scheme == "sqlite":
        if not rest.startswith("/") or rest in ("/", "/:memory:"):
            raise InvalidArgumentError(
                f"A SQLite URL has three slashes and a path, as sqlite:///study.db; got {location!r:.60}. "
                "Studies in memory are at memory://"
            )
        from asktell.storages.sqlite import SQLiteStorage

        return SQLiteStorage(rest[1:])
    if scheme in ("postgresql", "postgres", "postgresql+psycopg"):
        from asktell.storages.postgresql import PostgreSQLStorage

        return PostgreSQLStorage(f"postgresql://{rest}")
    if scheme == "memory":
        from asktell.storages.memory import shared

        return shared(rest)
    raise InvalidArgumentError(
        f"Studies are kept at sqlite:///PATH, postgresql://HOST/DATABASE or memory://NAME, not at {scheme}://"
    )


@contextmanager
def opened(location: Location, keep: bool = False) -> Iterator[AbstractStorage]:
    """The storage, closed in the end if it was opened here; with `keep` only after an exception."""
    storage = open_storage(location)
    try:
        yield storage
    except BaseException:
        keep = False
        raise
    finally:
        if storage is not location and not keep:
            storage.close()
