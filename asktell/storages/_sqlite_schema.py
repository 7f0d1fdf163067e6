"""The tables of a SQLite file, version by version."""

import sqlite3

STEPS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE asktell_studies (key INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, "
        "document BLOB NOT NULL)",
        "CREATE TABLE asktell_log (study INTEGER NOT NULL REFERENCES asktell_studies ON DELETE CASCADE, "
        "position INTEGER NOT NULL, entries TEXT NOT NULL, PRIMARY KEY (study, position)) WITHOUT ROWID",
    ),
    (
        "CREATE TABLE asktell_snapshots (study INTEGER PRIMARY KEY REFERENCES asktell_studies ON DELETE CASCADE, "
        "position INTEGER NOT NULL, parts INTEGER NOT NULL, head BLOB NOT NULL)",
        "CREATE TABLE asktell_parts (study INTEGER NOT NULL REFERENCES asktell_studies ON DELETE CASCADE, "
        "number INTEGER NOT NULL, part BLOB NOT NULL, PRIMARY KEY (study, number)) WITHOUT ROWID",
    ),
    (
        "CREATE TABLE asktell_details (study INTEGER NOT NULL REFERENCES asktell_studies ON DELETE CASCADE, "
        "trial INTEGER NOT NULL, details TEXT NOT NULL, PRIMARY KEY (study, trial))",
    ),
)
"""What makes schema version n + 1 of version n."""


def version_of(connection: sqlite3.Connection) -> int:
    """The version of the tables that are there; 0 if there are none."""
    table = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'asktell_schema'").fetchone()
    if not table:
        return 0
    (version,) = connection.execute("SELECT max(version) FROM asktell_schema").fetchone()
    return version  # type: ignore[no-any-return]
