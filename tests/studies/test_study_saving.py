"""A study opened from a snapshot is the study; tables of other versions are left alone; and files make studies."""

import base64
import json
import random
import sqlite3
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell import BestFeasible, Selector, Study
from asktell.studies import log, replica, snapshots
from asktell.studies.storages import open_storage
from asktell.studies.storages.memory import MemoryStorage
from asktell.studies.storages.sqlite import SQLiteStorage
from asktell.testing.fakes import Table
from tests.studies.test_study_plays import facts
from tests.times import Clock


def everything(study: Study) -> Any:
    """All that a study knows."""
    return study.workers(), facts(study)


def step(study: Study, table: Table, rng: random.Random, clock: Clock) -> None:
    """One thing that somebody may do."""
    worker = rng.choice([None, "w1", "w2", "w3"])
    clock.time += rng.choice([0, 0, 0, 5, 40])
    roll = rng.random()
    pending = study.pending
    mine = study if worker is None else study.worker(worker, lease=30)
    if roll < 0.45 or not pending:
        mine.ask(rng.choice([None, 1, 3]))
        return
    trial = rng.choice(pending)
    if roll < 0.8:
        mine.tell(
            trial, table(trial.prompt, trial.example or 0), cost=rng.choice([None, 0.1])
        )
    elif roll < 0.85:
        mine.release(trial)
    elif roll < 0.9:
        mine.fail(trial, f"reason {rng.randrange(9)}")
    elif roll < 0.95:
        study.worker("w1", lease=30).heartbeat()
    else:
        study.observe(rng.choice(table.prompts), [0.1, 0.2], rng.randrange(8))


def with_snapshots(monkeypatch: pytest.MonkeyPatch) -> tuple[MemoryStorage, Study]:
    monkeypatch.setattr(replica, "ENTRIES_PER_SNAPSHOT", 4)
    monkeypatch.setattr(replica, "HEAD_BYTES_PER_ENTRY", 10**9)
    storage = MemoryStorage(clock=Clock())
    study = Study.create(
        storage, "s", Selector(["x", "y"], BestFeasible("a"), 20, "uniform")
    )
    while trial := study.worker("w").ask():
        if study.spent == 9:
            break
        study.tell(trial, [trial.id])
    return storage, study


def test_a_newer_snapshot_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, study = with_snapshots(monkeypatch)
    with storage.transaction(1, durable=True) as transaction:
        transaction.save(10**6, zlib.compress(b'{"version":2}'), b"?")
    assert everything(Study.open(storage, "s")) == everything(study)
    for _ in range(9):
        study.worker("w").heartbeat()
    assert storage.snapshot(1).position == 10**6  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "damage", [b"", b"garbage", zlib.compress(b"[]"), zlib.compress(b'{"version":1}')]
)
def test_a_damaged_snapshot_is_ignored_and_replaced(
    damage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, study = with_snapshots(monkeypatch)
    for spoilt in ("head", "part"):
        good = storage.snapshot(1)
        assert good is not None
        with storage.transaction(1, durable=True) as transaction:
            if spoilt == "head":
                transaction.save(good.position, damage, good.parts[0])
            else:
                transaction.save(good.position, good.head, damage, replace=True)
        again = Study.open(storage, "s")
        assert again._replica._doubted == good.position
        assert everything(again) == everything(study)
        again._replica.save()
        reopened = Study.open(storage, "s")
        assert reopened._replica._saved > 0
        assert reopened._replica._doubted is None
        assert everything(reopened) == everything(study)


@pytest.mark.parametrize("position", [3, 10**6])
def test_a_snapshot_of_another_log_is_ignored(
    position: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after the end of a log was lost, and others continued: the snapshot fits no line of it any more."""
    storage, study = with_snapshots(monkeypatch)
    good = storage.snapshot(1)
    assert good is not None
    with storage.transaction(1, durable=True) as transaction:
        transaction.save(position, good.head, good.parts[0], replace=True)
    again = Study.open(storage, "s")
    assert again._replica._doubted == position
    assert everything(again) == everything(study)


def test_a_study_opens_from_its_snapshot_and_not_from_its_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage, study = with_snapshots(monkeypatch)
    study._replica.save()
    read: list[str] = []
    replayed = log.replayed

    def note(*args: Any) -> Any:
        read.extend(args[2])
        return replayed(*args)

    monkeypatch.setattr(log, "replayed", note)
    assert everything(Study.open(storage, "s")) == everything(study)
    assert not read


def test_columns_of_every_size() -> None:
    for values in [[], [0], [-1, 127], [-1, 128], [2**31, 5], [-1, 2**62], [0, 255]]:
        assert (
            snapshots._Columns(b"").unpack(snapshots._pack(values, 1)).tolist()
            == values
        )
    assert snapshots._Columns(b"").unpack(
        snapshots._pack([0.1, 1e-300], 0)
    ).tolist() == [0.1, 1e-300]


def test_few_lines_with_many_entries_are_saved_as_often_as_many_lines() -> None:
    storage = MemoryStorage()
    study = Study.create(
        storage, "s", Selector(["x", "y"], BestFeasible("a"), 10**5, "uniform")
    )
    positions = []
    for _ in range(4):
        study.ask(replica.ENTRIES_PER_SNAPSHOT)
        positions.append(storage.snapshot(1).position)  # type: ignore[union-attr]
    assert positions == [1, 2, 3, 4]


# What would take more memory than any study is refused, and not unpacked


def peak(call: Callable[[], object]) -> int:
    """The most bytes that Python had allocated meanwhile."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def bomb_of_text(_: dict[str, Any]) -> bytes:
    return zlib.compress(b'{"version":1' + b" " * 2**28 + b"}", 9)


def bomb_of_columns(head: dict[str, Any]) -> bytes:
    """Columns that are compressed inside of what is compressed."""
    column = ["<i1", base64.b64encode(zlib.compress(bytes(2**27), 9)).decode()]
    state = head["state"] | {"plan": [column, column], "draws": column}
    return zlib.compress(json.dumps(head | {"state": state}).encode(), 0)


@pytest.mark.parametrize("bomb", [bomb_of_text, bomb_of_columns])
def test_a_snapshot_that_would_fill_the_memory_is_not_read(
    bomb: Callable[[dict[str, Any]], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, study = with_snapshots(monkeypatch)
    good = storage.snapshot(1)
    assert good is not None
    head = bomb(json.loads(zlib.decompress(good.head)))
    assert len(head) < 10**6
    storage._logs[1].snapshot = good._replace(head=head)
    line, origin = (
        storage.read(1, good.position - 1, 1)[0].text,
        study._replica.engine.state.growth.origin,
    )

    def load_it() -> None:
        with pytest.raises(
            asktell.InvalidStateError,
            match=r"decompress to more than [\d,]+\. asktell never writes",
        ):
            snapshots.load(head, good.parts, origin, line)

    assert peak(load_it) < 10**8
    assert peak(lambda: everything(Study.open(storage, "s"))) < 10**8
    assert everything(Study.open(storage, "s")) == everything(study)


def test_a_document_that_would_fill_the_memory_is_refused() -> None:
    storage = MemoryStorage()
    storage.create("s", bomb_of_text({}))

    def open_it() -> None:
        with pytest.raises(asktell.InvalidStateError, match="decompress to more than"):
            Study.open(storage, "s")

    assert peak(open_it) < 10**8


def test_what_compresses_very_well_is_read_again() -> None:
    """Prompts that differ in a word, and tens of thousands of equal scores."""
    prompts = {f"p{i}": f"{i} " + "the same " * 5000 for i in range(20)}
    storage = MemoryStorage()
    study = Study.create(
        storage, "s", Selector(prompts, BestFeasible("a"), 10**6, "uniform")
    )
    document = storage.document(1)
    assert len(document) > 10**5 > 32 * len(zlib.compress(zlib.decompress(document)))
    with study._replica.writing(durable=False):
        for _ in range(30_000):
            study._replica.engine.observe("p0", 1.0)
    study._replica.save()
    found = storage.snapshot(1)
    assert found is not None
    assert found.position == 1
    assert everything(Study.open(storage, "s")) == everything(study)


def execute(location: Any, *statements: str) -> list[Any]:
    """What the last of them finds, past asktell."""
    if isinstance(location, Path):
        with closing(sqlite3.connect(location, isolation_level=None)) as connection:
            return [
                connection.execute(statement).fetchall() for statement in statements
            ][-1]
    import psycopg

    with psycopg.connect(location, autocommit=True) as server:
        cursors = [server.execute(statement) for statement in statements]  # type: ignore[call-overload]
        return cursors[-1].fetchall() if cursors[-1].description else []


@pytest.mark.parametrize("stamp", [0, 2, 99])
@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_nobody_changes_tables_of_another_version(
    backend: str, stamp: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Not by looking, and not by writing: a worker that knows them goes on."""
    location = (
        tmp_path / "x.db"
        if backend == "sqlite"
        else request.getfixturevalue("postgresql_url")
    )
    study = Study.create(location, "s", Selector(["x", "y"], BestFeasible("a"), 4))
    study.export(tmp_path / "s.jsonl")
    execute(
        location,
        "DROP TABLE asktell_details",
        f"UPDATE asktell_schema SET version = {stamp}",
    )
    # A pool remembers that it has looked, and so a storage with connections of its own:
    other = (
        SQLiteStorage(location)
        if backend == "sqlite"
        else open_storage(location + "%20-cjit%3Doff")
    )
    for attempt in (
        lambda: Study.names(other),
        lambda: Study.open(other, "s"),
        lambda: Study.delete(other, "s"),
        lambda: Study.create(other, "t", Selector(["x", "y"], BestFeasible("a"), 4)),
        lambda: Study.import_(other, tmp_path / "s.jsonl", "t"),
    ):
        with pytest.raises(
            asktell.StorageError,
            match=rf"version {stamp},.*version 1\. Nothing was changed",
        ):
            attempt()
    other.close()
    assert study.ask() is not None
    assert execute(location, "SELECT version FROM asktell_schema") == [(stamp,)]
    assert execute(location, "SELECT name FROM asktell_studies") == [("s",)]
    with pytest.raises(Exception, match="asktell_details"):
        execute(location, "SELECT * FROM asktell_details")
    study.close()


# Files


def played(steps: int = 60, seed: int = 1) -> Study:
    table, clock, rng = (
        Table([[[i + j, i] for j in range(8)] for i in range(5)]),
        Clock(),
        random.Random(seed),
    )
    selector = Selector(
        table.prompts, BestFeasible("a", {"b": 0.3}), 40, "auto", examples=8
    )
    study = Study.create(MemoryStorage(clock=clock), "s", selector, max_attempts=2)
    for _ in range(steps):
        step(study, table, rng, clock)
    return study


@pytest.mark.parametrize("backend", ["memory", "sqlite", "postgresql"])
def test_a_study_goes_through_a_file(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    study = played()
    study.export(tmp_path / "s.jsonl")
    if backend == "postgresql":
        location = request.getfixturevalue("postgresql_url")
    else:
        location = tmp_path / "x.db" if backend == "sqlite" else MemoryStorage()
    with Study.import_(location, tmp_path / "s.jsonl") as imported:
        assert imported.name == "s"
        assert everything(imported)[1] == everything(study)[1]
        with pytest.raises(asktell.StudyExistsError):
            Study.import_(location, tmp_path / "s.jsonl")
        Study.import_(location, tmp_path / "s.jsonl", "t").close()
        assert Study.names(location) == ["s", "t"]
        imported.export(tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == (
        tmp_path / "s.jsonl"
    ).read_bytes()


def test_a_file_that_was_cut_off_makes_no_study(tmp_path: Path) -> None:
    played().export(tmp_path / "s.jsonl")
    data = (tmp_path / "s.jsonl").read_bytes()
    lines = data.splitlines(keepends=True)
    cuts = [
        0,
        1,
        100,
        len(lines[0]),
        len(data) - 2,
        len(data) - len(lines[-1]),
        len(lines[0]) + len(lines[1]) + 7,
    ]
    storage = MemoryStorage()
    broken = [data[:cut] for cut in cuts]
    broken += [
        data + b"x",
        b"".join([lines[0], *lines[2:]]),
        b"".join([*lines[:-1], b'{"lines": 3}\n']),
    ]
    broken += [b"".join([lines[0], lines[1], lines[1], *lines[2:]])]
    for text in broken:
        (tmp_path / "broken.jsonl").write_bytes(text)
        cure = r"cut off|damaged or incomplete" if data.startswith(text) else None
        with pytest.raises(asktell.InvalidStateError, match=cure):
            Study.import_(storage, tmp_path / "broken.jsonl")
    assert storage.names() == []
