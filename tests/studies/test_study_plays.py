"""Whatever is played on a study: its log, replayed from scratch, is the study; and what raised has left no trace."""

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell import BestFeasible, Budget, ParetoSet, Selector, Study
from asktell.studies import log, snapshots
from asktell.studies.leases import Leased, Leases
from asktell.studies.storages import Line
from asktell.studies.storages.memory import MemoryStorage
from asktell.testing.fakes import Table
from tests.plays import random_table
from tests.times import Clock

BUDGETS: dict[str, int | Budget] = {
    "evaluations": 40,
    "cost": Budget(cost=30.0),
    "cost, and the most of one": Budget(cost=30.0, max_cost_per_evaluation=5.0),
    "both": Budget(cost=30.0, evaluations=40),
}


def selector(table: Table, method: str, budget: str) -> Selector:
    """For the goal that the method is for."""
    for goal in (BestFeasible("a", {"b": 0.3}), ParetoSet("a", "b")):
        try:
            return Selector(
                table.prompts,
                goal,
                BUDGETS[budget],
                method,
                examples=30,
                features="text",
            )
        except asktell.IncompatibleMethodError as error:
            refused = error
    raise refused


def facts(study: Study) -> Any:
    """All that a study knows."""
    replica = study._replica
    # A snapshot does not have the numbers of scores by worker
    leases = replica.leases.tightened()._replace(told={})
    return replica.selector.to_json(), replica.engine.state.plan.returned, leases


@pytest.mark.parametrize("seed", range(6))
def test_a_run_on_money_can_be_opened(seed: int) -> None:
    prompts, storage, rng = (
        [f"p{i}" for i in range(10)],
        MemoryStorage(),
        random.Random(seed),
    )
    study = Study.create(
        storage,
        "s",
        Selector(prompts, BestFeasible("q"), Budget(cost=30.0), examples=200),
    )

    def evaluate(prompt: str, example: int) -> dict[str, float]:
        return {"q": rng.random(), "cost": rng.lognormvariate(-1.6, 0.8)}

    result = asktell.run(study, evaluate, progress=False)
    again = Study.open(storage, "s")
    assert again.done
    assert again.result().to_dict() == result.to_dict()


def test_a_lease_on_a_trial_that_is_not_out_is_refused() -> None:
    storage, table = MemoryStorage(), random_table(6, 30, seed=1)
    study = Study.create(storage, "s", selector(table, "auto", "evaluations"))
    trial = study.worker("A").ask()
    study.worker("A").release(trial)
    state = study._replica.engine.state
    with storage.transaction(1, durable=True) as transaction:
        end = transaction.read(0)[-1].position
        leases = Leases().with_lease(Leased("A", 1.8e9, (trial.id,)))
        last = transaction.read(0)[-1].text
        transaction.save(end, *snapshots.dump(state, leases, snapshots.Covered(), last))
    found = storage.snapshot(1)
    assert found is not None
    with pytest.raises(asktell.InvalidStateError, match="not pending"):
        snapshots.load(found.head, found.parts, state.growth.origin, last)
    assert facts(Study.open(storage, "s")) == facts(study)  # from the log
    with storage.transaction(1, durable=True) as transaction:
        transaction.append(Line(end + 1, f'[["l","A",1800000000.0,[{trial.id}]]]'))
    with pytest.raises(asktell.InvalidStateError, match="not pending"):
        study.ask()


def test_a_refused_tell_takes_nobody_elses_trial() -> None:
    study = Study.create(
        MemoryStorage(),
        "s",
        selector(random_table(6, 30, seed=1), "auto", "evaluations"),
    )
    trial = study.worker("A").ask()
    study.worker("A").release(trial)
    assert study.worker("B").ask() == trial
    with pytest.raises(asktell.InvalidArgumentError, match="cost"):
        study.worker("A").tell(trial, [0.1, 0.2], cost=-1.0)
    assert [holding.worker for holding in study.workers()] == ["B"]


def test_any_error_of_one_operation_is_no_concern_of_another() -> None:
    study = Study.create(
        MemoryStorage(),
        "s",
        selector(random_table(6, 30, seed=1), "auto", "evaluations"),
    )

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

    threads = [
        threading.Thread(target=tell, args=(0, Odd())),
        threading.Thread(target=tell, args=(1, [0.1, 0.2])),
    ]
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
    where: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    table = random_table(8, 60, seed=1)
    location: Any = MemoryStorage() if where == "memory" else tmp_path / "x.db"
    if where == "postgresql":
        location = request.getfixturevalue("postgresql_url")
    study = Study.create(
        location,
        "s",
        Selector(table.prompts, BestFeasible("a", {"b": 0.3}), 90, examples=60),
    )
    stop, errors = threading.Event(), []

    def works(name: str) -> None:
        while not stop.is_set() and (trial := study.worker(name).ask()):
            study.worker(name).tell(trial, table(trial.prompt, trial.example or 0))

    def reads(look: Callable[[], object]) -> None:
        while not stop.is_set():
            look()

    looks: list[Callable[[], object]] = [
        study.result,
        lambda: study.selector,
        lambda: study.done,
        lambda: (study.pending, study.spent, study.n_active),
        study.workers,
        lambda: study.worker("w0").heartbeat(),
    ]

    def guarded(call: Callable[..., None], *args: Any) -> None:
        try:
            call(*args)
        except Exception as error:
            errors.append(error)

    workers = [
        threading.Thread(target=guarded, args=(works, f"w{i}"), daemon=True)
        for i in range(3)
    ]
    readers = [
        threading.Thread(target=guarded, args=(reads, look), daemon=True)
        for look in looks
    ]
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


# Many leases


def test_thousands_of_leases_run_out() -> None:
    """Work that grows with the square of their number would be felt here."""
    clock = Clock()
    n = 4_000
    study = Study.create(
        MemoryStorage(clock=clock),
        "s",
        Selector(["x", "y", "z"], BestFeasible("a"), n, "uniform", examples=n),
    )
    first = study.worker("A", lease=10).ask(n)
    assert len(first) == n
    clock.time += 60
    second = study.worker("B", lease=10).ask(n)
    assert {trial.id for trial in second} == {trial.id for trial in first}
    assert len(study.worker("B", besides=range(n - 5)).ask(5)) == 5
    clock.time += 60
    assert len(study.worker("C", lease=10).ask(1)) == 1
    for trial in second[:800]:  # late, while they wait to be handed out again
        study.worker("B").tell(trial, [0.5])
    assert study.spent == 800


@pytest.mark.parametrize("besides", [5, "12", b"12", [[]], [1.5], [True], None])
def test_what_a_worker_is_busy_with_is_ids(besides: Any) -> None:
    study = Study.create(
        MemoryStorage(),
        "s",
        selector(random_table(6, 30, seed=1), "auto", "evaluations"),
    )
    with pytest.raises(asktell.InvalidArgumentError, match="besides"):
        study.worker("A", besides=besides).ask(2)


def test_a_line_of_the_log_is_what_one_operation_did() -> None:
    storage, table = MemoryStorage(), random_table(6, 30, seed=1)
    study = Study.create(storage, "s", selector(table, "auto", "evaluations"))
    trials = study.worker("A").ask(3)
    study.worker("A").tell(trials[0], table(trials[0].prompt, trials[0].example or 0))
    entries = [log.decode(line.text) for line in storage.read(1, 0)]
    assert [[type(entry).__name__ for entry in line] for line in entries] == [
        ["Decided", "Asked", "Asked", "Asked", "Leased"],
        ["Told"],
    ]
