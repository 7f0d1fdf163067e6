"""SQLite's errors in asktell's words."""

import sqlite3

from asktell.errors import StorageBusyError, StorageError


def moved(path: str) -> StorageError:
    return StorageError(
        f"{path!r}, or its -wal or -shm file, was removed, renamed or replaced while it was in use. What was just done "
        "is not confirmed. Put the files back where they were, and try again; or close this, and open what is there."
    )


def busy(path: str, patience: float) -> StorageBusyError:
    return StorageBusyError(
        f"{path!r} has been locked by another process for {patience:g} s. Nothing was changed; try again."
    )


def not_synced(path: str, error: OSError) -> StorageError:
    return StorageError(
        f"{path!r} could not be written to the disk: {error}. What was just done is not confirmed. Check the disk, and "
        "try again: what was taken all the same does no harm."
    )


def translation(error: sqlite3.Error, path: str, patience: float) -> StorageError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return busy(path, patience)
    cures = {
        sqlite3.SQLITE_FULL: "The disk is full. Nothing that was confirmed is lost; make room and try again.",
        sqlite3.SQLITE_READONLY: "The file, or its folder, cannot be written to. Check their permissions.",
        sqlite3.SQLITE_CANTOPEN: "It cannot be opened. Check that the folder exists, and its permissions.",
        sqlite3.SQLITE_PERM: "It may not be opened. Check its permissions.",
        sqlite3.SQLITE_IOERR: "The disk could not be read or written. Nothing that was confirmed was changed.",
        sqlite3.SQLITE_CORRUPT: "The file is damaged. Keep a copy of it, with its -wal file, before you try to repair "
        "it (`sqlite3 FILE .recover`), or go back to a backup.",
        sqlite3.SQLITE_NOTADB: "It is not a SQLite file, or its first page is damaged. Go back to a backup.",
    }
    return StorageError(f"{path!r} cannot be used: {error}. {cures.get(code, '')}".rstrip())
