"""Whatever becomes of a run, every score that was paid for is known afterwards, once, and all the money is booked."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

import asktell
from asktell import BestFeasible, Budget, Selector, Study, Trial
from asktell.running.failures import FIRST_ALIKE, FailureLimit
from asktell.storages.memory import MemoryStorage

METHODS = ("auto", "race", "csr-sh", "uniform")
WAYS = ("here", "batches", "threads", "batches in threads", "async", "async batches")


class Paid(Exception):
    """A failure that has cost something all the same."""

    cost = 0.0


class Play:
    """A seeded evaluator with a ledger. It fails alone, and in outages; it interrupts; others meddle while it works."""

    def __init__(self, seed: int, meddle: Any) -> None:
        self.rng = random.Random(seed)
        self.meddle = meddle
        self.scores: Counter[tuple[str, int, float]] = Counter()
        self.cost = 0.0
        self.outage = 0
        self.lock = threading.Lock()
        self.paid_failures = self.rng.random() < 0.4
        self.troubles = self.rng.choice([0.03, 0.08, 0.15])
        self.broken = self.rng.choice([None, None, "x1", 2])
        self.outage = self.rng.choice([0, 0, 4, 9])

    def __call__(self, prompt: str, example: int) -> dict[str, float]:
        with self.lock:
            rng = self.rng
            if rng.random() < 0.1:
                self.meddle(rng)
            cost = rng.choice([0.0, 0.1, 0.25, 0.5])
            if rng.random() < self.troubles:
                self.outage = rng.choice([1, 3, 12])
            if self.broken in (prompt, example) or self.outage:
                self.outage = max(0, self.outage - 1)
                if rng.random() < 0.06:
                    raise KeyboardInterrupt
                if not self.paid_failures or rng.random() < 0.5:
                    raise ConnectionError("down")
                error = Paid(f"spoilt {rng.random()}")
                error.cost = cost
                self.cost += cost
                raise error
            score = rng.random()
            self.scores[prompt, example, score] += 1
            self.cost += cost
            return {"a": score, "cost": cost}


def as_way(play: Play, way: str) -> Any:
    def each(trials: Sequence[Trial]) -> list[Any]:
        outcomes: list[Any] = []
        for trial in trials:
            try:
                outcomes.append(play(trial.prompt, trial.example or 0))
            except Exception as error:
                outcomes.append(error)
            except KeyboardInterrupt as error:
                if not outcomes:
                    raise
                outcomes.append(RuntimeError(str(error)))
        return outcomes

    class Batches:
        def evaluate_batch(self, trials: Sequence[Trial]) -> list[Any]:
            return each(trials)

    class AsyncBatches:
        async def evaluate_batch(self, trials: Sequence[Trial]) -> list[Any]:
            for _ in range(play.rng.randrange(4)):
                await asyncio.sleep(0)
            return each(trials)

    async def waits(prompt: str, example: int) -> dict[str, float]:
        for _ in range(play.rng.randrange(6)):
            await asyncio.sleep(0)
        return play(prompt, example)

    if way == "async":
        return waits
    if way == "async batches":
        return AsyncBatches()
    return Batches() if "batches" in way else play


def selector_of(rng: random.Random) -> Selector:
    method = rng.choice(METHODS)
    n = rng.choice([1, 2, 3, 5])
    budget: Any = rng.choice([6, 12, 20])
    if method in ("auto", "race"):
        budget = rng.choice([budget, Budget(cost=2.0), Budget(cost=2.0, max_cost_per_evaluation=0.5)])
    return Selector(
        {f"p{i}": f"x{i}" for i in range(n)}, BestFeasible("a"), max(budget, 2 * n) if type(budget) is int else budget,
        method, examples=12, seed=rng.randrange(99), max_failures=rng.choice([1, 3, 9]),
    )  # fmt: skip


def play(seed: int, where: str) -> tuple[Any, Play, Selector]:
    rng = random.Random(seed)
    selector = selector_of(rng)
    storage = MemoryStorage()
    study = Study.create(storage, "s", selector) if where == "study" else None
    target: Any = study or selector
    left = len(selector.prompts)

    def meddle(rng: random.Random) -> None:
        nonlocal left
        if left > 1:
            left -= 1
            target.retire(f"p{left}", "not wanted")

    ledger = Play(seed, meddle)
    limit = rng.choice([FIRST_ALIKE, 3, 6, 20, FailureLimit(8, 3), FailureLimit(None, first=12), None])
    way = rng.choice(WAYS)

    def on_tell(selector: Any, trial: Trial) -> None:
        if rng.random() < 0.02:
            raise LookupError("of the caller")

    for _ in range(8):
        with ExitStack() as stack:
            executor = stack.enter_context(ThreadPoolExecutor(3)) if "threads" in way else None
            size = rng.choice([1, 2, 5]) if "batches" in way else None
            try:
                asktell.run(
                    target, as_way(ledger, way), executor, rng.choice([1, 2, 4, 8]), False,
                    batch_size=size, on_tell=on_tell, max_failures_in_a_row=limit,
                )  # fmt: skip
            except (asktell.EvaluatorError, LookupError, KeyboardInterrupt):
                pass
        if study is not None:
            target = study = Study.open(storage, "s")
        elif rng.random() < 0.5:
            target = Selector.from_json(target.to_json())
    return target, ledger, (target.selector if where == "study" else target)


def known(selector: Selector) -> Counter[tuple[str, int, float]]:
    history, texts = selector.state.history, selector.prompts.texts
    rows = zip(history.arms().tolist(), history.examples().tolist(), history.scores()[:, 0].tolist(), strict=True)
    return Counter((texts[arm], example, score) for arm, example, score in rows)


@pytest.mark.parametrize("where", ["selector", "study"])
@pytest.mark.parametrize("seed", range(60))
def test_every_score_is_known_once_and_all_money_is_booked(where: str, seed: int) -> None:
    _, ledger, selector = play(seed, where)
    assert known(selector) == ledger.scores
    assert selector.cost == pytest.approx(ledger.cost)
    assert not selector.pending
