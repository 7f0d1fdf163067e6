"""Studies in memory."""

import pytest

from asktell.studies.storages import open_storage
from asktell.studies.storages.memory import MemoryStorage
from asktell.testing.storage_contract import Connect, StorageContract


class TestMemoryStorage(StorageContract):
    @pytest.fixture
    def connect(self) -> Connect:
        storage = MemoryStorage()
        return lambda: storage


def test_a_url_names_the_same_memory_each_time() -> None:
    assert open_storage("memory://one") is open_storage("memory://one")
    assert open_storage("memory://one") is not open_storage("memory://two")
