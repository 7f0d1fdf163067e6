"""The tables of SQLite and PostgreSQL, and the statements that both understand.

Statements mark the place of a value by `?`, as SQLite does. `postgresql` translates
them.

| table              | a row is                                                       |
|--------------------|----------------------------------------------------------------|
| asktell_schema     | the version of the tables                                      |
| asktell_studies    | a study: its name and its document                             |
| asktell_log        | a line of a study's log, at its position                       |
| asktell_snapshots  | a study's snapshot: its position, its head, the number of parts |
| asktell_parts      | a part of a snapshot                                           |
| asktell_details    | the details of a trial                                         |
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, LiteralString

from asktell.errors import StorageError
from asktell.studies.storages.base import (
    MOST,
    AbstractStorage,
    Line,
    Snapshot,
    no_study,
    study_gone,
)

SCHEMA_VERSION = 1
"""The version of the tables. `create` makes them, and no other method changes them."""

READ: LiteralString = (
    "SELECT position, entries FROM asktell_log "
    "WHERE study = ? AND position > ? ORDER BY position LIMIT ?"
)
APPEND: LiteralString = "INSERT INTO asktell_log VALUES (?, ?, ?)"
ATTACH: LiteralString = "INSERT INTO asktell_details VALUES (?, ?, ?)"
_HEAD: LiteralString = (
    "SELECT position, parts, head FROM asktell_snapshots WHERE study = ?"
)
_PARTS: LiteralString = (
    "SELECT part FROM asktell_parts WHERE study = ? AND number <= ? ORDER BY number"
)


def tables(
    key: LiteralString,
    integer: LiteralString,
    blob: LiteralString,
    by_key: LiteralString,
) -> LiteralString:
    """Return the statements that make the tables.

    Args:
        key: the type of a column of new keys.
        integer: the type of whole numbers of 64 bits.
        blob: the type of bytes.
        by_key: the option of a table whose rows are stored in the order of their key.
    """
    study: LiteralString = (
        f"study {integer} NOT NULL REFERENCES asktell_studies ON DELETE CASCADE"
    )
    return f"""
        CREATE TABLE asktell_schema (version {integer} NOT NULL);
        INSERT INTO asktell_schema VALUES (1);
        CREATE TABLE asktell_studies (key {key}, name TEXT NOT NULL UNIQUE, document {blob} NOT NULL);
        CREATE TABLE asktell_log ({study}, position {integer} NOT NULL, entries TEXT NOT NULL,
            PRIMARY KEY (study, position)){by_key};
        CREATE TABLE asktell_snapshots (study {integer} PRIMARY KEY REFERENCES asktell_studies ON DELETE CASCADE,
            position {integer} NOT NULL, parts {integer} NOT NULL, head {blob} NOT NULL);
        CREATE TABLE asktell_parts ({study}, number {integer} NOT NULL, part {blob} NOT NULL,
            PRIMARY KEY (study, number)){by_key};
        CREATE TABLE asktell_details ({study}, trial {integer} NOT NULL, details TEXT NOT NULL,
            PRIMARY KEY (study, trial))"""


class SQLTransaction(ABC):
    """The snapshot of a study, in a transaction."""

    _key: int

    @abstractmethod
    def _execute(self, sql: LiteralString, *values: object) -> list[Any]:
        """Execute a statement, and return its rows."""

    def head(self) -> Snapshot | None:
        rows = self._execute(_HEAD, self._key)
        return Snapshot(rows[0][0], rows[0][2]) if rows else None

    def save(
        self, position: int, head: bytes, part: bytes, replace: bool = False
    ) -> None:
        if replace:
            self._execute("DELETE FROM asktell_parts WHERE study = ?", self._key)
        rows = self._execute(_HEAD, self._key)
        # The snapshot has the number of its parts, so that readers ignore a part that
        # was added after they read the head.
        number = 1 + rows[0][1] if rows and not replace else 1
        self._execute(
            "INSERT INTO asktell_parts VALUES (?, ?, ?)", self._key, number, part
        )
        self._execute(
            "INSERT INTO asktell_snapshots VALUES (?, ?, ?, ?) ON CONFLICT (study) DO UPDATE SET "
            "position = excluded.position, parts = excluded.parts, head = excluded.head",
            *(self._key, position, number, head),
        )


class SQLStorage(AbstractStorage):
    """The methods of a storage that only read the tables."""

    where: str
    """The place of the storage, as messages show it."""

    @abstractmethod
    def _query(self, sql: LiteralString, *values: object) -> list[Any]:
        """Execute a statement that reads, and return its rows."""

    def find(self, name: str) -> int:
        rows = self._query("SELECT key FROM asktell_studies WHERE name = ?", name)
        if not rows:
            raise no_study(name, self.names(), self.where)
        return int(rows[0][0])

    def names(self) -> list[str]:
        return [
            str(name)
            for (name,) in self._query("SELECT name FROM asktell_studies ORDER BY key")
        ]

    def document(self, key: int) -> bytes:
        rows = self._query("SELECT document FROM asktell_studies WHERE key = ?", key)
        if not rows:
            raise study_gone(self.where)
        return bytes(rows[0][0])

    def read(self, key: int, after: int, most: int = MOST) -> Sequence[Line]:
        return [Line(*row) for row in self._query(READ, key, after, most)]

    def snapshot(self, key: int) -> Snapshot | None:
        rows = self._query(_HEAD, key)
        if not rows:
            return None
        position, n_parts, head = rows[0]
        parts = self._query(_PARTS, key, n_parts)
        return Snapshot(position, head, [part for (part,) in parts])

    def _check_schema(self, version: object) -> None:
        """Check the version of the tables.

        Raises:
            StorageError: another version of asktell made them.
        """
        if version != SCHEMA_VERSION:
            raise StorageError(
                f"{self.where} has schema version {version!r}, and this asktell reads version {SCHEMA_VERSION}. "
                "Nothing was changed. Use the version of asktell that made it, or another file or database."
            )
