"""Studies in a PostgreSQL database."""

from collections.abc import Iterator

import pytest

from asktell.storages import AbstractStorage
from asktell.testing.storage_contract import Connect, StorageContract


class TestPostgreSQLStorage(StorageContract):
    @pytest.fixture
    def connect(self, postgresql_url: str) -> Iterator[Connect]:
        from asktell.storages.postgresql import PostgreSQLStorage

        made: list[AbstractStorage] = []

        def connect() -> AbstractStorage:
            made.append(PostgreSQLStorage(postgresql_url))
            return made[-1]

        yield connect
        for storage in made:
            storage.close()
