"""A study opened from a snapshot is the study; and what earlier versions left is still a study."""

import json
import random
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asktell
from asktell import BestFeasible, ParetoSet, Selector, Study
from asktell.storages._sqlite_schema import STEPS
from asktell.storages.memory import MemoryStorage
from asktell.storages.sqlite import SQLiteStorage
from asktell.studies import replica, snapshots
from asktell.testing.fakes import Table

ASSETS = Path(__file__).parents[1] / "assets"


class Clock:
    time = 1.8e9

    def __call__(self) -> float:
        return self.time


def everything(study: Study) -> Any:
    """All that a study knows."""
    with study._replica.reading() as logged:
        pass
    return study.selector.to_json(), logged.leases.tightened(), study.workers()


def step(study: Study, table: Table, rng: random.Random, clock: Clock) -> None:
    """One thing that somebody may do."""
    worker = rng.choice([None, "w1", "w2", "w3"])
    clock.time += rng.choice([0, 0, 0, 5, 40])
    roll = rng.random()
    pending = study.pending
    if roll < 0.45 or not pending:
        study.ask(rng.choice([None, 1, 3]), worker=worker, lease=None if worker is None else 30)
        return
    trial = rng.choice(pending)
    if roll < 0.8:
        study.tell(trial, table(trial.prompt, trial.example or 0), cost=rng.choice([None, 0.1]), worker=worker)
    elif roll < 0.85:
        study.release(trial, worker=worker)
    elif roll < 0.9:
        study.fail(trial, f"reason {rng.randrange(9)}", worker=worker)
    elif roll < 0.95:
        study.heartbeat("w1", lease=30)
    else:
        study.observe(rng.choice(table.prompts), [0.1, 0.2], rng.randrange(8))


@pytest.mark.parametrize("method", ["auto", "csr-sh", "ege-sr", "uniform"])
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_a_snapshot_is_as_good_as_the_whole_log(method: str, random_table: Any, seed: int) -> None:
    rng, clock = random.Random(seed), Clock()
    table = random_table(5, 8, seed=seed % 97)
    goal: Any = ParetoSet("a", "b") if method.startswith("ege") else BestFeasible("a", {"b": 0.3})
    if method == "uniform":
        goal = ParetoSet("a", "b", subject_to={"b": 0.3})
    storage = MemoryStorage(clock=clock)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replica, "ENTRIES_PER_SNAPSHOT", 5)
        patch.setattr(replica, "HEAD_BYTES_PER_ENTRY", 10**9)
        study = Study.create(storage, "s", Selector(table.prompts, goal, 40, method, examples=8))
        other = Study.open(storage, "s")
        for _ in range(60):
            step(rng.choice([study, other]), table, rng, clock)
            if rng.random() < 0.1:
                opened = Study.open(storage, "s")
                assert everything(opened) == everything(study)
        found = storage.snapshot(1)
        assert found is not None
        assert len(found.parts) > 1
        patch.setattr(MemoryStorage, "snapshot", lambda self, key: None)
        assert everything(Study.open(storage, "s")) == everything(study)


def with_snapshots(monkeypatch: pytest.MonkeyPatch) -> tuple[MemoryStorage, Study]:
    monkeypatch.setattr(replica, "ENTRIES_PER_SNAPSHOT", 4)
    monkeypatch.setattr(replica, "HEAD_BYTES_PER_ENTRY", 10**9)
    storage = MemoryStorage(clock=Clock())
    study = Study.create(storage, "s", Selector(["x", "y"], BestFeasible("a"), 20, "uniform"))
    while trial := study.ask(worker="w"):
        if study.spent == 9:
            break
        study.tell(trial, [trial.id])
    return storage, study


def test_a_newer_snapshot_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, study = with_snapshots(monkeypatch)
    with storage.transaction(1, durable=True) as transaction:
        transaction.save(10**6, zlib.compress(b'{"version":4}'), b"?")
    assert everything(Study.open(storage, "s")) == everything(study)
    for _ in range(9):
        study.heartbeat("w")
    assert storage.snapshot(1).position == 10**6  # type: ignore[union-attr]


@pytest.mark.parametrize("damage", [b"", b"garbage", zlib.compress(b"[]"), zlib.compress(b'{"version":1}')])
def test_a_damaged_snapshot_is_refused(damage: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, _ = with_snapshots(monkeypatch)
    with storage.transaction(1, durable=True) as transaction:
        transaction.save(3, damage, damage)
    with pytest.raises(asktell.InvalidStateError, match="snapshot"):
        Study.open(storage, "s")


def test_columns_of_every_size() -> None:
    for values in [[], [0], [-1, 127], [-1, 128], [2**31, 5], [-1, 2**62], [0, 255]]:
        assert snapshots._unpack(snapshots._pack(values)).tolist() == values
    assert snapshots._unpack(snapshots._pack([0.1, 1e-300])).tolist() == [0.1, 1e-300]


@pytest.mark.parametrize("path", sorted(ASSETS.glob("studies-schema-*.db")), ids=lambda path: path.stem)
def test_studies_of_every_schema_still_open(path: Path, tmp_path: Path) -> None:
    shutil.copy(path, tmp_path / "x.db")
    storage = SQLiteStorage(tmp_path / "x.db", clock=lambda: 1.8e9)
    expected = json.loads((ASSETS / f"expected-{path.stem}.json").read_text())
    assert Study.names(storage) == list(expected)
    for name, was in expected.items():
        study = Study.open(storage, name)
        assert [[h.worker, h.trial.id, h.attempt] for h in study.workers()] == was["workers"]
        evaluations = [list(evaluation[:7]) for evaluation in study.evaluations()]  # without the examples' ids
        assert evaluations == was.get("evaluations", evaluations)  # there were no details before the third schema
        assert sum(evaluation[3] is not None for evaluation in evaluations) == study.spent
        old = Selector.from_json(json.dumps({**was["selector"], "asktell": "0.1.0"}))
        now, then = json.loads(study.selector.to_json()), json.loads(old.to_json())
        # What each prompt cost was not in the files of that time, but is in the log.
        assert now["state"].pop("costs")
        then["state"].pop("costs", None)
        assert now == then
        trial = study.ask(worker="w2")
        assert study.tell(trial, [0.5, 0.5], worker="w2")
    assert storage._query("SELECT version FROM asktell_schema") == [(len(STEPS),)]


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    storage = SQLiteStorage(tmp_path / "x.db")
    Study.create(storage, "s", Selector(["x", "y"], BestFeasible("a"), 4))
    storage._query("UPDATE asktell_schema SET version = 99")
    storage.close()
    for attempt in (lambda: Study.open(storage, "s"), lambda: Study.names(tmp_path / "x.db")):
        with pytest.raises(asktell.StorageError, match=r"version 99.*newer asktell"):
            attempt()


# Files


def played(steps: int = 60, seed: int = 1) -> Study:
    table, clock, rng = Table([[[i + j, i] for j in range(8)] for i in range(5)]), Clock(), random.Random(seed)
    selector = Selector(table.prompts, BestFeasible("a", {"b": 0.3}), 40, "auto", examples=8)
    study = Study.create(MemoryStorage(clock=clock), "s", selector, max_attempts=2)
    for _ in range(steps):
        step(study, table, rng, clock)
    return study


@pytest.mark.parametrize("backend", ["memory", "sqlite", "postgresql"])
def test_a_study_goes_through_a_file(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    study = played()
    study.export(tmp_path / "s.jsonl")
    if backend == "postgresql":
        location = request.getfixturevalue("postgresql_url")
    else:
        location = tmp_path / "x.db" if backend == "sqlite" else MemoryStorage()
    with Study.import_(location, tmp_path / "s.jsonl") as imported:
        assert imported.name == "s"
        assert everything(imported)[:2] == everything(study)[:2]
        with pytest.raises(asktell.StudyExistsError):
            Study.import_(location, tmp_path / "s.jsonl")
        Study.import_(location, tmp_path / "s.jsonl", "t").close()
        assert Study.names(location) == ["s", "t"]
        imported.export(tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "s.jsonl").read_bytes()


def test_a_file_that_was_cut_off_makes_no_study(tmp_path: Path) -> None:
    played().export(tmp_path / "s.jsonl")
    data = (tmp_path / "s.jsonl").read_bytes()
    lines = data.splitlines(keepends=True)
    cuts = [0, 1, 100, len(lines[0]), len(data) - 2, len(data) - len(lines[-1]), len(lines[0]) + len(lines[1]) + 7]
    storage = MemoryStorage()
    broken = [data[:cut] for cut in cuts]
    broken += [data + b"x", b"".join([lines[0], *lines[2:]]), b"".join([*lines[:-1], b'{"lines": 3}\n'])]
    broken += [b"".join([lines[0], lines[1], lines[1], *lines[2:]])]
    for text in broken:
        (tmp_path / "broken.jsonl").write_bytes(text)
        with pytest.raises(asktell.InvalidStateError):
            Study.import_(storage, tmp_path / "broken.jsonl")
    assert storage.names() == []
