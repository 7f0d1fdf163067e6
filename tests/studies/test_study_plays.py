"""Whatever is played on a study: its log, replayed from scratch, is the study; and what raised has left no trace."""

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from immutables import Map

import asktell
from asktell import BestFeasible, Budget, ParetoSet, Selector, Study
from asktell.methods import METHODS
from asktell.storages import Line
from asktell.storages.memory import MemoryStorage
from asktell.studies import log, snapshots
from asktell.studies.leases import Lease, Leases
from asktell.testing.fakes import Table

FEATURES = ("mlp-csr", "mlp-ege", "lcsh", "gege")
LIGHT = [method for method in METHODS if method not in (*FEATURES, "blup-csr", "blup-ege")]
BUDGETS: dict[str, int | Budget] = {
    "evaluations": 40,
    "cost": Budget(cost=30.0),
    "cost, and the most of one": Budget(cost=30.0, max_cost_per_evaluation=5.0),
    "both": Budget(cost=30.0, evaluations=40),
}


class Clock:
    time = 1.8e9

    def __call__(self) -> float:
        return self.time


def selector(table: Table, method: str, budget: str) -> Selector:
    """For the goal that the method is for."""
    for goal in (BestFeasible("a", {"b": 0.3}), ParetoSet("a", "b")):
        try:
            return Selector(table.prompts, goal, BUDGETS[budget], method, examples=30, features="text")
        except asktell.IncompatibleMethodError as error:
            refused = error
    raise refused


def cases() -> list[tuple[str, str]]:
    # Only methods without rounds spend money.
    return [(m, b) for m in METHODS for b in BUDGETS if m == "auto" or b == "evaluations"]


def step(study: Study, table: Table, rng: random.Random, clock: Clock) -> None:
    """One thing that somebody may do, as often as not with an argument that is refused."""
    worker = rng.choice([None, "w1", "w2"])
    clock.time += rng.choice([0, 0, 0, 0, 5, 40])
    pending = study.pending
    trial: Any = rng.choice(pending) if pending and rng.random() < 0.9 else rng.randrange(20)
    good = table(trial.prompt, trial.example or 0) if isinstance(trial, asktell.Trial) else [0.0, 0.0]
    scores = rng.choice([good] * 9 + [[0.0], {"a": 1.0}, [float("nan"), 0.0], {"a": 0.1, "b": 0.2, "c": 1}, "ab", None])
    cost = rng.choice([rng.lognormvariate(-1.5, 1.0)] * 9 + [float("nan"), -1.0, None, "1", True])
    name: Any = rng.choice([worker] * 9 + ["", 7, "\n"])
    roll = rng.random()
    if roll < 0.4:
        n = rng.choice([None, 1, 3] * 3 + [-1, 1.5])
        study.ask(n, worker=name, lease=None if worker is None else rng.choice([30, 30, 30, -1]))
    elif roll < 0.75:
        study.tell(trial, scores, cost, worker=name)
    elif roll < 0.8:
        study.release(trial, worker=name)
    elif roll < 0.87:
        study.fail(trial, rng.choice(["down", "down", ValueError("x"), 3]), cost, worker=name)
    elif roll < 0.92:
        study.heartbeat(name, rng.choice([None, trial]), lease=30)
    else:
        example: Any = rng.choice([0, 3, 29, 30, None, "x"])
        study.observe(rng.choice([*table.prompts, "nobody"]), scores, example, rng.choice([None, cost]))


def facts(study: Study) -> Any:
    """All that a study knows."""
    logged = study._replica.logged
    return logged.selector.to_json(), logged.state.returned, logged.leases


def length(storage: MemoryStorage) -> int:
    return len(storage.read(1, 0))


def play(method: str, budget: str, table: Table, seed: int, n_steps: int) -> None:
    rng, clock = random.Random(seed), Clock()
    storage = MemoryStorage(clock=clock)
    study = Study.create(storage, "s", selector(table, method, budget))
    other = Study.open(storage, "s")
    for _ in range(n_steps):
        actor = rng.choice([study, other])
        study.pending, other.pending  # noqa: B018  (both read what is new)
        before, lines = facts(actor), length(storage)
        try:
            step(actor, table, rng, clock)
        except asktell.AsktellError:
            # Leases that ran out are ended by whoever comes, by an ask that is refused afterwards too.
            assert length(storage) == lines
            assert facts(actor) == before
        if rng.random() < 0.1:
            study.pending  # noqa: B018
            assert facts(Study.open(storage, "s")) == facts(study)
        study.result()


@pytest.mark.parametrize(("method", "budget"), [case for case in cases() if case[0] in LIGHT])
@settings(max_examples=2)
@given(seed=st.integers(0, 2**32))
def test_the_log_replayed_is_the_study(method: str, budget: str, seed: int, random_table: Any) -> None:
    play(method, budget, random_table(6, 30, seed=seed % 97), seed, 40)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "budget"), [case for case in cases() if case[0] in LIGHT])
@settings(max_examples=50)
@given(seed=st.integers(0, 2**32))
def test_the_log_replayed_is_the_study_for_long(method: str, budget: str, seed: int, random_table: Any) -> None:
    play(method, budget, random_table(6, 30, seed=seed % 97), seed, 40)


@pytest.mark.parametrize("method", [method for method in METHODS if method not in LIGHT])
def test_the_log_replayed_is_the_study_with_features(method: str, random_table: Any) -> None:
    play(method, "evaluations", random_table(6, 30, seed=3), 5, 30)


@pytest.mark.parametrize("seed", range(6))
def test_a_run_on_money_can_be_opened(seed: int) -> None:
    prompts, storage, rng = [f"p{i}" for i in range(10)], MemoryStorage(), random.Random(seed)
    study = Study.create(storage, "s", Selector(prompts, BestFeasible("q"), Budget(cost=30.0), examples=200))

    def evaluate(prompt: str, example: int) -> dict[str, float]:
        return {"q": rng.random(), "cost": rng.lognormvariate(-1.6, 0.8)}

    result = asktell.run(study, evaluate, progress=False)
    again = Study.open(storage, "s")
    assert again.done
    assert again.result().to_dict() == result.to_dict()


def test_a_lease_on_a_trial_that_is_not_out_is_refused(random_table: Any) -> None:
    storage, table = MemoryStorage(), random_table(6, 30, seed=1)
    study = Study.create(storage, "s", selector(table, "auto", "evaluations"))
    trial = study.ask(worker="A")
    assert trial is not None
    study.release(trial, worker="A")
    state = study._replica.logged.state
    with storage.transaction(1, durable=True) as transaction:
        end = transaction.read(0)[-1].position
        leases = Leases(Map({trial.id: Lease("A", 1.8e9)}))
        transaction.save(end, *snapshots.dump(state, leases, snapshots.Covered()))
    with pytest.raises(asktell.InvalidStateError, match="not pending"):
        Study.open(storage, "s")
    with storage.transaction(1, durable=True) as transaction:
        transaction.append(Line(end + 1, f'[["l","A",1800000000.0,[{trial.id}]]]'))
    with pytest.raises(asktell.InvalidStateError, match="not pending"):
        study.ask()


def test_a_refused_tell_takes_nobody_elses_trial(random_table: Any) -> None:
    study = Study.create(MemoryStorage(), "s", selector(random_table(6, 30, seed=1), "auto", "evaluations"))
    trial = study.ask(worker="A")
    assert trial is not None
    study.release(trial, worker="A")
    assert study.ask(worker="B") == trial
    with pytest.raises(asktell.InvalidArgumentError, match="cost"):
        study.tell(trial, [0.1, 0.2], cost=float("nan"), worker="A")
    assert [holding.worker for holding in study.workers()] == ["B"]


def test_any_error_of_one_operation_is_no_concern_of_another(random_table: Any) -> None:
    study = Study.create(MemoryStorage(), "s", selector(random_table(6, 30, seed=1), "auto", "evaluations"))

    class Odd:
        def __len__(self) -> int:
            raise RuntimeError("odd")

        def __iter__(self) -> Any:
            raise RuntimeError("odd")

    trials = study.ask(2)
    outcomes: list[Any] = [None, None]

    def tell(i: int, scores: Any) -> None:
        try:
            outcomes[i] = study.tell(trials[i], scores)
        except Exception as error:
            outcomes[i] = error

    threads = [threading.Thread(target=tell, args=(0, Odd())), threading.Thread(target=tell, args=(1, [0.1, 0.2]))]
    with study._replica.lock:
        for thread in threads:
            thread.start()
        while len(study._replica._waiting) < 2:
            pass
    for thread in threads:
        thread.join()
    assert isinstance(outcomes[0], Exception)
    assert outcomes[1] is True
    assert study.spent == 1


# Threads


@pytest.mark.parametrize("where", ["memory", "sqlite", "postgresql"])
def test_threads_may_do_anything_at_once(
    where: str, tmp_path: Path, random_table: Any, request: pytest.FixtureRequest
) -> None:
    table = random_table(8, 60, seed=1)
    location: Any = MemoryStorage() if where == "memory" else tmp_path / "x.db"
    if where == "postgresql":
        location = request.getfixturevalue("postgresql_url")
    study = Study.create(location, "s", Selector(table.prompts, BestFeasible("a", {"b": 0.3}), 90, examples=60))
    stop, errors = threading.Event(), []

    def works(name: str) -> None:
        while not stop.is_set() and (trial := study.ask(worker=name)):
            study.tell(trial, table(trial.prompt, trial.example or 0), worker=name)

    def reads(look: Callable[[], object]) -> None:
        while not stop.is_set():
            look()

    looks: list[Callable[[], object]] = [
        study.result,
        lambda: study.selector,
        lambda: study.done,
        lambda: (study.pending, study.spent, study.n_active),
        study.workers,
        lambda: study.heartbeat("w0"),
    ]

    def guarded(call: Callable[..., None], *args: Any) -> None:
        try:
            call(*args)
        except Exception as error:
            errors.append(error)

    workers = [threading.Thread(target=guarded, args=(works, f"w{i}"), daemon=True) for i in range(3)]
    readers = [threading.Thread(target=guarded, args=(reads, look), daemon=True) for look in looks]
    for thread in (*workers, *readers):
        thread.start()
    for thread in workers:
        thread.join(timeout=120)
    stuck = [thread.name for thread in workers if thread.is_alive()]
    stop.set()
    for thread in readers:
        thread.join(timeout=30)
    assert not stuck
    assert not [thread.name for thread in readers if thread.is_alive()]
    assert not errors
    assert study.done
    assert study.spent == 90


def test_reading_does_not_write(tmp_path: Path, random_table: Any) -> None:
    table = random_table(6, 30, seed=1)
    with Study.create(tmp_path / "x.db", "s", selector(table, "csr-sh", "evaluations")) as study:
        while trials := study.ask(40):
            for trial in trials:
                study.tell(trial, table(trial.prompt, trial.example or 0))
            log_ = list(study._replica.lines())
            assert study.done == study.selector.done
            study.result()
            assert list(study._replica.lines()) == log_
            if study.done:
                break
        done = study.result().to_dict()
        assert study.ask() is None  # writes the decision that was due
        assert len(list(study._replica.lines())) > len(log_)
        assert study.result().to_dict() == done


# Many leases


def test_ten_thousand_leases_run_out() -> None:
    """Quadratic work would take half a minute here."""
    clock = Clock()
    n = 10_000
    study = Study.create(
        MemoryStorage(clock=clock), "s", Selector(["x", "y", "z"], BestFeasible("a"), n, "uniform", examples=n)
    )
    first = study.ask(n, worker="A", lease=10)
    assert len(first) == n
    clock.time += 60
    second = study.ask(n, worker="B", lease=10)
    assert {trial.id for trial in second} == {trial.id for trial in first}
    assert len(study.ask(5, worker="B", besides=range(n - 5))) == 5
    clock.time += 60
    assert len(study.ask(1, worker="C", lease=10)) == 1
    for trial in second[:2000]:  # late, while they wait to be handed out again
        study.tell(trial, [0.5], worker="B")
    assert study.spent == 2000


@pytest.mark.parametrize("besides", [5, "12", b"12", [[]], [1.5], [True], None])
def test_what_a_worker_is_busy_with_is_ids(besides: Any, random_table: Any) -> None:
    study = Study.create(MemoryStorage(), "s", selector(random_table(6, 30, seed=1), "auto", "evaluations"))
    with pytest.raises(asktell.InvalidArgumentError, match="besides"):
        study.ask(2, worker="A", besides=besides)


def test_a_line_of_the_log_is_what_one_operation_did(random_table: Any) -> None:
    storage, table = MemoryStorage(), random_table(6, 30, seed=1)
    study = Study.create(storage, "s", selector(table, "auto", "evaluations"))
    trials = study.ask(3, worker="A")
    study.tell(trials[0], table(trials[0].prompt, trials[0].example or 0), worker="A")
    entries = [log.decode(line.text, study._replica.logged.state.problem) for line in storage.read(1, 0)]
    assert [[type(entry).__name__ for entry in line] for line in entries] == [
        ["Decided", "Asked", "Asked", "Asked", "Leased"],
        ["Told"],
    ]
