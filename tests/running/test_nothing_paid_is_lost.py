"""Whatever becomes of a run, every score that was paid for is known afterwards, once, and all the money is booked."""

import asyncio
import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import asktell
from asktell import BestFeasible, Budget, Selector, Study, Trial
from asktell.studies.storages.memory import MemoryStorage
from tests.seeds import Seeds

WAYS = ("here", "batches", "threads", "batches in threads", "async", "async batches")
LIMITS = ("first", 5, 8, 20, 20, 50, 50, None)
Scores = Counter[tuple[str, int, float]]


class Paid(Exception):
    """A failure that has cost something all the same."""

    cost = 0.0


class Ledger:
    """A seeded evaluator that knows what it was paid. It fails alone and in outages; others meddle while it works."""

    def __init__(self, rng: random.Random, meddle: Callable[[], None]) -> None:
        self.rng, self.meddle = rng, meddle
        self.scores: Scores = Counter()
        self.cost = 0.0
        self.lock = threading.Lock()
        self.outage = rng.choice([0, 0, 4, 9])
        self.outages = rng.choice([0.03, 0.1, 0.2])
        self.interrupts = rng.choice([0.0, 0.0, 0.02])
        self.paid_failures = rng.choice([0.0, 0.5])
        self.broken = rng.choice([None, None, "x1", 2])

    def __call__(self, prompt: str, example: int) -> dict[str, float]:
        with self.lock:
            self.meddle()
            cost = self.rng.choice([0.0, 0.1, 0.25, 0.5])
            if self.rng.random() < self.interrupts:
                raise KeyboardInterrupt
            if self.rng.random() < self.outages:
                self.outage = self.rng.choice([2, 4, 8, 16])
            if self.broken in (prompt, example) or self.outage:
                self.outage = max(0, self.outage - 1)
                if self.rng.random() >= self.paid_failures:
                    raise ConnectionError("down")
                error = Paid("spoilt")
                error.cost = cost
                self.cost += cost
                raise error
            return self.pay(prompt, example, cost)

    def pay(self, prompt: str, example: int, cost: float) -> dict[str, float]:
        score = self.rng.random()  # which names it
        self.scores[prompt, example, score] += 1
        self.cost += cost
        return {"a": score, "cost": cost}

    def as_way(self, way: str) -> Any:
        def of_all(trials: Sequence[Trial]) -> list[Any]:
            outcomes: list[Any] = []
            for trial in trials:
                try:
                    outcomes.append(self(trial.prompt, trial.example or 0))
                except (Exception, KeyboardInterrupt) as error:
                    if isinstance(error, KeyboardInterrupt) and not outcomes:
                        raise
                    outcomes.append(
                        error
                        if isinstance(error, Exception)
                        else ConnectionError("interrupted")
                    )
            return outcomes

        class Batches:
            def evaluate_batch(self, trials: Sequence[Trial]) -> list[Any]:
                return of_all(trials)

        class AsyncBatches:
            async def evaluate_batch(_, trials: Sequence[Trial]) -> list[Any]:
                await self.sleep()
                return of_all(trials)

        async def evaluate(prompt: str, example: int) -> dict[str, float]:
            await self.sleep()
            return self(prompt, example)

        if way.startswith("async"):
            return AsyncBatches() if "batches" in way else evaluate
        return Batches() if "batches" in way else self

    async def sleep(self) -> None:
        for _ in range(self.rng.randrange(6)):
            await asyncio.sleep(0)


class Played:
    """A seeded selection, with the runs that it took, and what was done to it meanwhile."""

    def __init__(
        self,
        seed: int,
        where: str,
        ways: Sequence[str] = WAYS,
        meddling: float | None = None,
    ) -> None:
        self.rng = rng = random.Random(seed)
        self.storage, self.where = MemoryStorage(), where
        self.way = rng.choice(ways)
        self.concurrency = rng.choice([1, 2, 4, 8])
        self.meddling = rng.choice([0.0, 0.05, 0.1]) if meddling is None else meddling
        self.killed: list[list[str]] = []
        self.ledger = Ledger(rng, self.meddle)
        self.target: Any = selector_of(rng)
        if where == "study":
            self.target = Study.create(self.storage, "s", self.target)

    @property
    def selector(self) -> Selector:
        return self.target if self.where == "selector" else self.target.selector  # type: ignore[no-any-return]

    def run(self, n_runs: int) -> None:
        limit = self.rng.choice(LIMITS)
        for _ in range(n_runs):
            raises = contextlib.suppress(
                asktell.EvaluatorError, LookupError, KeyboardInterrupt
            )
            with ThreadPoolExecutor(3) as threads, raises:
                asktell.run(
                    self.target,
                    self.ledger.as_way(self.way),
                    threads if "threads" in self.way else None,
                    self.concurrency,
                    progress=False,
                    batch_size=self.rng.choice([1, 2, 5])
                    if "batches" in self.way
                    else None,
                    on_tell=self.on_tell,
                    max_failures_in_a_row=limit,
                )
            if self.where == "study":
                self.target = Study.open(self.storage, "s")
            elif self.rng.random() < 0.5:
                self.target = Selector.from_json(self.target.to_json())

    def on_tell(self, selector: Any, trial: Trial) -> None:
        if self.rng.random() < 0.01:
            raise LookupError("of the caller")

    def meddle(self) -> None:
        """What other threads, and a study's other workers, may do while an evaluation is out."""
        if self.rng.random() >= self.meddling * (8 if self.ledger.outage else 1):
            return
        what = self.rng.choice(["retire", "add", "extend", "other worker", "kill"])
        with contextlib.suppress(
            asktell.IncompatibleMethodError, asktell.InvalidArgumentError
        ):
            if what == "retire" and self.target.n_active > 1:
                self.target.retire(f"p{self.rng.randrange(6)}", "not wanted")
            elif what == "add":
                self.target.add(
                    {f"p{len(self.selector.prompts)}": f"x{len(self.selector.prompts)}"}
                )
            elif what == "extend" and self.selector.budget < 60:
                self.target.extend(evaluations=3)
            elif (
                what == "other worker"
                and self.where == "study"
                and (trial := self.target.worker("other").ask())
            ):
                found = self.ledger.pay(trial.prompt, trial.example or 0, cost := 0.25)
                self.target.worker("other").tell(trial, {"a": found["a"]}, cost)
            elif what == "kill" and self.where == "study":
                self.killed.append([line.text for line in self.storage.read(1, 0)])

    def check(self) -> None:
        selector = self.selector
        assert known(selector) == self.ledger.scores
        assert selector.spent_cost == pytest.approx(self.ledger.cost)
        assert not selector.pending
        again = Selector.from_json(selector.to_json())
        assert (known(again), again.spent_cost) == (
            known(selector),
            selector.spent_cost,
        )


def selector_of(rng: random.Random) -> Selector:
    method = rng.choice(["auto", "auto", "race", "csr-sh", "csr-sh", "uniform"])
    n = rng.choice([1, 2, 2, 3, 6])
    budget: Any = rng.choice([12, 24, 40])
    if method in ("auto", "race"):
        budget = rng.choice(
            [budget, Budget(cost=6.0), Budget(cost=6.0, max_cost_per_evaluation=0.5)]
        )
    prompts = {f"p{i}": f"x{i}" for i in range(n)}
    options: dict[str, Any] = {
        "seed": rng.randrange(99),
        "max_failure_rate": rng.choice([1e-6, 0.5, 1]),
    }
    return Selector(
        prompts,
        BestFeasible("a"),
        budget,
        method,
        examples=8,
        repeats=rng.choice([1, 1, 3]),
        **options,
    )


def known(selector: Selector) -> Scores:
    history, texts = selector.state.history, selector.prompts.texts
    rows = zip(
        history.arms().tolist(),
        history.examples().tolist(),
        history.scores()[:, 0].tolist(),
        strict=True,
    )
    return Counter((texts[arm], example, score) for arm, example, score in rows)


def play(seed: int, where: str) -> Played:
    played = Played(seed, where)
    played.run(8)
    played.check()
    return played


@pytest.mark.parametrize("where", ["selector", "study"])
def test_every_score_is_known_once_and_all_money_is_booked(
    seeds: Seeds, where: str
) -> None:
    played = [play(40 + i, where) for i in seeds(12)]
    assert sum(p.ledger.scores.total() for p in played) > 5 * len(played)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["selector", "study"])
@pytest.mark.parametrize("start", range(100, 2100, 100))
def test_and_so_it_is_in_many_more_plays(where: str, start: int) -> None:
    for seed in range(start, start + 100):
        play(seed, where)


def test_a_study_goes_on_after_a_kill_and_books_nothing_twice(seeds: Seeds) -> None:
    n_kills = 0
    for seed in seeds(10):
        played = Played(seed, "study", meddling=0.2)
        played.run(2)
        # What was on the disk while an evaluation was out
        for lines in played.killed[:2]:
            n_kills += 1
            # The leases have run out
            copy = MemoryStorage(clock=lambda: time.time() + 1e6)
            copy.create("s", played.storage.document(1), lines)
            before = Study.open(copy, "s").selector
            assert known(before) <= played.ledger.scores
            after = Played(seed, "study", ["here", "async"], meddling=0.0)
            after.storage, after.target = copy, Study.open(copy, "s")
            after.ledger.scores, after.ledger.cost = known(before), before.spent_cost
            after.run(3)
            after.check()
    assert n_kills > len(seeds(5))


@pytest.mark.parametrize("way", ["here", "batches", "async", "async batches"])
def test_the_same_seed_plays_the_same(seeds: Seeds, way: str) -> None:
    for seed in seeds(6):
        plays = [Played(seed, "selector", [way]) for _ in range(2)]
        for each in plays:
            each.run(3)
        assert plays[0].selector.to_json() == plays[1].selector.to_json()


# One by one


@pytest.mark.parametrize("ends", ["the limit", "on_tell", "an interrupt"])
def test_an_evaluation_that_is_under_way_when_a_run_ends_is_told(ends: str) -> None:
    selector = Selector(["x0", "x1"], BestFeasible("a"), 8, "uniform", examples=8)
    started, over, failed = threading.Event(), threading.Event(), list[str]()

    def evaluate(prompt: str, example: int) -> dict[str, float]:
        if not started.is_set():
            started.set()
            assert over.wait(30)
            return {"a": 0.5, "cost": 1.0}
        if ends == "an interrupt":
            over.set()
            raise KeyboardInterrupt
        if ends == "the limit":
            failed.append(prompt)
            if len(failed) > 1:
                over.set()
            raise ConnectionError("down")
        return {"a": 0.25}

    def on_tell(selector: Any, trial: Trial) -> None:
        over.set()
        raise LookupError("mine")

    with (
        ThreadPoolExecutor(2) as threads,
        pytest.raises((asktell.EvaluatorError, KeyboardInterrupt, LookupError)),
    ):
        asktell.run(
            selector,
            evaluate,
            threads,
            2,
            False,
            on_tell=on_tell,
            max_failures_in_a_row=1,
        )
    assert selector.spent_cost == 1.0
    assert not selector.pending


async def test_async_evaluations_that_are_under_way_are_told_too() -> None:
    selector = Selector(["x0", "x1"], BestFeasible("a"), 8, "uniform", examples=8)
    calls = iter(range(99))

    async def evaluate(prompt: str, example: int) -> float:
        if next(calls) < 5:
            raise ConnectionError("down")
        await asyncio.sleep(0.01)
        return 0.5

    def on_tell(selector: Any, trial: Trial) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError):
        asktell.run(selector, evaluate, concurrency=8, progress=False, on_tell=on_tell)
    assert selector.spent == 3


@pytest.mark.parametrize("method", ["uniform", "race"])
def test_failures_that_cost_are_paid_and_end_a_run_too(method: str) -> None:
    def evaluate(prompt: str, example: int) -> float:
        error = Paid("spoilt")
        error.cost = 0.5
        raise error

    selector = Selector(
        ["x0", "x1"], BestFeasible("a"), 12, method, examples=8, max_failure_rate=1
    )
    with pytest.raises(asktell.EvaluatorError, match="first 5 evaluations all failed"):
        asktell.run(selector, evaluate, progress=False, max_failures_in_a_row=7)
    assert selector.spent_cost == 2.5
    assert not any(entry.failures for entry in selector.result().prompts)
    assert selector.spent == len(selector.state.history) == 0


def test_scores_that_came_as_the_user_interrupted_are_told() -> None:
    class Interrupted(Selector):
        def tell(self, *args: Any) -> None:
            if not self.spent:
                type(self).tell = Selector.tell  # type: ignore[method-assign]
                raise KeyboardInterrupt
            super().tell(*args)

    selector = Interrupted(["x0", "x1"], BestFeasible("a"), 8, "uniform", examples=8)
    with pytest.raises(KeyboardInterrupt):
        asktell.run(selector, lambda prompt, example: 0.5, progress=False)
    assert selector.spent == 1
