"""Tests that every storage must pass. Derive a class from `StorageContract`, and define the fixture `connect`.

    class TestMyStorage(StorageContract):
        @pytest.fixture
        def connect(self, tmp_path):
            return lambda: MyStorage(tmp_path / "studies")

It needs pytest.
"""

import threading
from collections.abc import Callable
from typing import TypeAlias

import pytest

from asktell import StorageError, StudyExistsError, StudyNotFoundError
from asktell.studies.storages import AbstractStorage, Line, Snapshot

Connect: TypeAlias = Callable[[], AbstractStorage]
"""A function that opens another connection to the storage to test."""


class _InterruptedError(Exception):
    """Stands for whatever may go wrong in the middle."""


class StorageContract:
    """Tests of a storage."""

    @pytest.fixture
    def connect(self) -> Connect:
        """A function without arguments. Override this fixture.

        Each call opens a new connection, and returns it as a storage. All connections
        of a test lead to the same place. This place has no studies at first.
        """
        raise NotImplementedError

    @pytest.fixture
    def storage(self, connect: Connect) -> AbstractStorage:
        """The first connection of a test. It comes from the fixture `connect`."""
        return connect()

    # Studies

    def test_what_was_created_is_found(
        self, storage: AbstractStorage, connect: Connect
    ) -> None:
        document = bytes(range(256)) * 3
        key = storage.create("a study", document)
        for connected in (storage, connect()):
            assert connected.find("a study") == key
            assert connected.document(key) == document
            assert connected.names() == ["a study"]
            assert list(connected.read(key, 0)) == []

    def test_a_study_may_begin_with_lines(self, storage: AbstractStorage) -> None:
        key = storage.create("imported", b"", ["one", "two"])
        assert list(storage.read(key, 0)) == [Line(1, "one"), Line(2, "two")]
        with storage.transaction(key, durable=True) as transaction:
            transaction.append(Line(3, "three"))
        assert list(storage.read(key, 2)) == [Line(3, "three")]

    @pytest.mark.parametrize(
        "name", ["ü", "'; DROP TABLE studies; --", '"', "%", "x" * 200, "名前"]
    )
    def test_names_are_only_names(
        self, name: str, storage: AbstractStorage, connect: Connect
    ) -> None:
        storage.create("other", b"1")
        key = storage.create(name, b"2")
        assert connect().document(connect().find(name)) == b"2"
        assert storage.names() == ["other", name]
        storage.delete(name)
        assert storage.names() == ["other"]
        assert key != storage.find("other")

    def test_a_name_is_taken_once(
        self, storage: AbstractStorage, connect: Connect
    ) -> None:
        key = storage.create("x", b"first")
        with pytest.raises(StudyExistsError, match="'x'"):
            connect().create("x", b"second", ["line"])
        assert storage.document(key) == b"first"
        assert list(storage.read(key, 0)) == []

    def test_what_is_not_there_is_an_error(self, storage: AbstractStorage) -> None:
        with pytest.raises(StudyNotFoundError):
            storage.find("x")
        storage.create("y", b"")
        with pytest.raises(StudyNotFoundError, match=r"'x'.*'y'"):
            storage.find("x")
        with pytest.raises(StudyNotFoundError):
            storage.delete("x")

    def test_a_deleted_study_is_gone_for_who_has_it_open(
        self, storage: AbstractStorage, connect: Connect
    ) -> None:
        key = storage.create("x", b"old", ["line"])
        second = connect()
        second.delete("x")
        assert storage.names() == []
        new = storage.create("x", b"new")
        assert new != key
        with pytest.raises(StudyNotFoundError):
            storage.document(key)
        with (
            pytest.raises(StudyNotFoundError),
            storage.transaction(key, durable=True) as transaction,
        ):
            transaction.append(Line(2, "late"))
        assert list(storage.read(new, 0)) == []

    # Logs

    @pytest.mark.parametrize("durable", [True, False])
    def test_what_was_appended_is_read_after_a_position(
        self, durable: bool, storage: AbstractStorage, connect: Connect
    ) -> None:
        key, other_key = storage.create("x", b""), storage.create("y", b"")
        for position in range(1, 6):
            with storage.transaction(key, durable) as transaction:
                transaction.append(Line(position, f"line {position}"))
        assert list(connect().read(key, 3)) == [Line(4, "line 4"), Line(5, "line 5")]
        assert list(storage.read(key, 5)) == []
        assert list(storage.read(other_key, 0)) == []
        with connect().transaction(key, durable) as transaction:
            assert list(transaction.read(4)) == [Line(5, "line 5")]

    def test_an_exception_undoes_a_transaction(
        self, storage: AbstractStorage, connect: Connect
    ) -> None:
        key = storage.create("x", b"")

        def fail() -> None:
            with storage.transaction(key, durable=True) as transaction:
                transaction.append(Line(1, "never"))
                transaction.attach(0, "{}")
                raise _InterruptedError

        with pytest.raises(_InterruptedError):
            fail()
        assert list(connect().read(key, 0)) == []
        assert connect().details(key, [0]) == {}
        with storage.transaction(key, durable=True) as transaction:
            transaction.append(Line(1, "first"))
        assert list(connect().read(key, 0)) == [Line(1, "first")]

    def test_details_are_committed_with_the_lines(
        self, storage: AbstractStorage, connect: Connect
    ) -> None:
        key = storage.create("x", b"", ["one"], [(7, '{"a":1}')])
        other_key = storage.create("y", b"")
        text = "\"'\\u0000\\ud800{}%s$1;--" * 10_000
        with storage.transaction(key, durable=True) as transaction:
            transaction.read(0)
            transaction.append(Line(2, "two"))
            transaction.attach(3, text)
        assert connect().details(key, range(1000)) == {3: text, 7: '{"a":1}'}
        assert storage.details(key, [4, 3]) == {3: text}
        assert storage.details(key, []) == {}
        assert storage.details(other_key, [3, 7]) == {}

    def test_a_trial_has_details_once(self, storage: AbstractStorage) -> None:
        key = storage.create("x", b"", (), [(5, "{}")])
        with (
            pytest.raises(StorageError, match="Trial 5"),
            storage.transaction(key, durable=True) as transaction,
        ):
            transaction.attach(5, "{}")
        assert storage.details(key, [5]) == {5: "{}"}

    def test_details_go_with_their_study(
        self, storage: AbstractStorage, connect: Connect
    ) -> None:
        key = storage.create("x", b"", (), [(5, "{}")])
        connect().delete("x")
        storage.create("x", b"")
        with (
            pytest.raises(StudyNotFoundError),
            storage.transaction(key, durable=True) as transaction,
        ):
            transaction.attach(6, "{}")

    def test_long_lines_survive(
        self, storage: AbstractStorage, connect: Connect
    ) -> None:
        key = storage.create("x", b"")
        text = "\"'\\u0000<b>&\x1b\x7f{}%s$1;--" * 100_000
        with storage.transaction(key, durable=True) as transaction:
            transaction.append(Line(1, text))
        assert connect().read(key, 0)[0].text == text

    def test_transactions_of_a_study_exclude_each_other(
        self, storage: AbstractStorage, connect: Connect
    ) -> None:
        key = storage.create("x", b"")
        errors: list[BaseException] = []

        def count(connected: AbstractStorage) -> None:
            try:
                for _ in range(10):
                    with connected.transaction(key, durable=False) as transaction:
                        n = len(transaction.read(0))
                        transaction.append(Line(n + 1, str(n)))
            except BaseException as error:
                errors.append(error)
            finally:
                connected.close()

        # Three connections, one of them used by two threads.
        threads = [
            threading.Thread(target=count, args=(connected,))
            for connected in (storage, storage, connect(), connect())
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        assert [line.text for line in storage.read(key, 0)] == [
            str(n) for n in range(40)
        ]

    def test_a_snapshot_grows_by_parts(
        self, storage: AbstractStorage, connect: Connect
    ) -> None:
        key = storage.create("x", b"")
        assert storage.snapshot(key) is None
        for position, head in ((1, b"one"), (2, b"two")):
            with storage.transaction(key, durable=False) as transaction:
                transaction.read(0)
                transaction.save(position, head, head)
        snapshot = connect().snapshot(key)
        assert snapshot is not None
        assert snapshot._replace(parts=[*snapshot.parts]) == Snapshot(
            2, b"two", [b"one", b"two"]
        )

    def test_a_snapshot_is_replaced(
        self, storage: AbstractStorage, connect: Connect
    ) -> None:
        key = storage.create("x", b"")
        for position, replace in ((1, False), (2, False), (3, True), (4, False)):
            with storage.transaction(key, durable=False) as transaction:
                transaction.read(0)
                transaction.save(position, b"head", b"%d" % position, replace=replace)
        snapshot = connect().snapshot(key)
        assert snapshot is not None
        assert snapshot._replace(parts=[*snapshot.parts]) == Snapshot(
            4, b"head", [b"3", b"4"]
        )

    def test_closed_is_opened_again(self, storage: AbstractStorage) -> None:
        key = storage.create("x", b"document")
        storage.close()
        storage.close()
        assert storage.document(key) == b"document"

    def test_it_can_be_checked(
        self, storage: AbstractStorage, connect: Connect
    ) -> None:
        storage.check()  # before anything was made
        key = storage.create("x", b"document")
        for connected in (storage, connect()):
            connected.check()
        storage.close()
        storage.check(patience=0.5)
        assert list(storage.read(key, 0)) == []

    def test_time_goes_forward(self, storage: AbstractStorage) -> None:
        storage.create("x", b"")
        before = storage.now()
        assert before > 1.7e9
        assert storage.now() >= before

    def test_a_position_is_taken_once(self, storage: AbstractStorage) -> None:
        key = storage.create("x", b"", ["one"])
        with (
            pytest.raises(StorageError),
            storage.transaction(key, durable=True) as transaction,
        ):
            transaction.append(Line(1, "again"))
        assert list(storage.read(key, 0)) == [Line(1, "one")]
