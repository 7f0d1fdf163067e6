"""What SQLite and PostgreSQL have in common: the tables, and the statements that both understand.

A value's place is marked by ?, as SQLite has it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, LiteralString

from asktell.errors import StorageError
from asktell.storages.base import (
    MOST,
    AbstractStorage,
    Line,
    Snapshot,
    no_study,
    study_gone,
)

SCHEMA_VERSION = 1
"""Of the tables. `create` makes them; nothing else changes them."""

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
    """The statements that make the tables, given the types of columns and the options of tables kept by their key."""
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
        """The rows that a statement gives."""

    def head(self) -> Snapshot | None:
        rows = self._execute(_HEAD, self._key)
        return Snapshot(rows[0][0], rows[0][2]) if rows else None

    def save(
        self, position: int, head: bytes, part: bytes, replace: bool = False
    ) -> None:
        if replace:
            self._execute("DELETE FROM asktell_parts WHERE study = ?", self._key)
        rows = self._execute(_HEAD, self._key)
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
    """Reads the tables."""

    where: str
    """The place, in messages."""

    @abstractmethod
    def _query(self, sql: LiteralString, *values: object) -> list[Any]:
        """The rows that a statement gives."""

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
        if version != SCHEMA_VERSION:
            raise StorageError(
                f"{self.where} has schema version {version!r}, and this asktell reads version {SCHEMA_VERSION}. "
                "Nothing was changed. Use the asktell that made it, or another file or database."
            )
