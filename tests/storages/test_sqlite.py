"""Studies in a SQLite file, and what can go wrong with one."""

from pathlib import Path

import pytest

from asktell.storages.sqlite import SQLiteStorage
from asktell.testing.storage_contract import Connect, StorageContract


class TestSQLiteStorage(StorageContract):
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Connect:
        return lambda: SQLiteStorage(tmp_path / "studies.db")
