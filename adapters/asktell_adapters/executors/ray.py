"""Ray: one evaluator, with its loaded model, per actor, on any number of machines that may join and leave.

Only the driver asks and tells: actors need neither the storage nor its password, and end with the driver.
"""

import contextlib
import logging
import math
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple, final

from asktell import EvaluatorError, InvalidArgumentError, Result, Trial
from asktell.extend import Board, Evaluator, MaxFailures, OnTell, Outcome, attempt, import_extra, open_board, whole
from asktell_adapters._scores import positive
from asktell_adapters.executors.per_process import BatchEvaluation, plain_error

if TYPE_CHECKING:
    from asktell import Selector
    from asktell.extend import AbstractStudy, Worker

_log = logging.getLogger("asktell")
_LOOK = 1.0  # seconds after which `wait` returns with nothing
_MOST_DOUBLINGS = 6  # of the second between two starts of a worker that fails to start
_PATIENCE = 60.0  # without any worker, before a warning


class _Batch(NamedTuple):
    trials: list[Trial]
    lost: int  # how often before


class Lost(NamedTuple):
    """What became of a batch that has no outcomes: its worker died, or is alive and could not evaluate it."""

    error: EvaluatorError
    worker_lives: bool


@final
class _Actor:
    """What runs in the cluster. Errors are returned, not raised: what Ray raises means that the actor is gone."""

    def where(self) -> str:
        import socket

        return socket.gethostname()

    def load(self, factory: Callable[[], Evaluator]) -> EvaluatorError | None:
        made = attempt(lambda: BatchEvaluation(factory()))
        if isinstance(made, BaseException):
            return plain_error(made)
        self._evaluation: BatchEvaluation = made
        return None

    def evaluate(self, trials: list[Trial]) -> list[Outcome] | EvaluatorError:
        found = attempt(self._evaluation, trials)
        return plain_error(found) if isinstance(found, BaseException) else found


class _Stage(Enum):
    DOWN = auto()  # until its time
    PLACING = auto()  # waiting for a node that has room
    LOADING = auto()  # calling the factory
    IDLE = auto()
    BUSY = auto()


@dataclass(eq=False)
class _Place:
    """A place in the crew, which one actor after another may take."""

    number: int
    stage: _Stage = _Stage.DOWN
    time: float = 0.0  # of the next start, if it is down; to kill it, if it is busy
    actor: Any = None
    awaited: Any = None  # Ray's reference to what it does
    host: str = ""
    batch: _Batch | None = None
    failures: int = 0  # starts in a row


class Crew(contextlib.AbstractContextManager["Crew"]):
    """A `with` block in which up to `size` actors are kept up; they are killed at its end.

    `factory` makes an actor's evaluator, in it; `max_restarts` are those of each worker that the cluster has had room
    for, in a row, while none is up; `timeout` is that of a batch, in seconds.
    """

    def __init__(
        self,
        ray: Any,
        factory: Callable[[], Evaluator],
        size: int,
        options: Mapping[str, Any],
        max_restarts: int,
        timeout: float | None,
    ) -> None:
        self._ray = ray
        try:
            self._factory = ray.put(factory)
        except TypeError as error:
            raise InvalidArgumentError(f"evaluator_factory cannot be sent to the workers: {error}") from error
        try:
            self._class = ray.remote(_Actor).options(**options, max_restarts=0)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"Ray refuses the options of the workers: {error}") from error
        self._options = options
        self._workers = [_Place(number) for number in range(size)]
        self._max_restarts = max_restarts
        self._timeout = timeout
        self._failures = 0  # starts in a row, of all workers
        self._room = 1  # the most workers that were placed at once
        self._alone = time.monotonic()  # since when there is none

    def __exit__(self, *exc_info: object) -> None:
        for worker in self._workers:
            self._kill(worker)

    def idle(self) -> list[_Place]:
        return [worker for worker in self._workers if worker.stage is _Stage.IDLE]

    @property
    def busy(self) -> bool:
        return any(worker.stage is _Stage.BUSY for worker in self._workers)

    def give(self, worker: _Place, batch: _Batch) -> None:
        worker.stage, worker.batch = _Stage.BUSY, batch
        worker.time = time.monotonic() + (self._timeout or float("inf"))
        worker.awaited = worker.actor.evaluate.remote(batch.trials)

    def wait(self) -> list[tuple[_Batch, list[Outcome] | Lost]]:
        """Wait for something to happen, a second at most; the batches that have come to an end."""
        self._start()
        ended: list[tuple[_Batch, list[Outcome] | Lost]] = []
        for worker in self._ready():
            lives = True
            try:
                answer: Any = self._ray.get(worker.awaited)
            except Exception as error:
                lives = False
                answer = EvaluatorError(f"its worker was lost ({_words(error)})")
            if worker.stage is not _Stage.BUSY:
                self._on_start(worker, answer)
            elif isinstance(answer, EvaluatorError):
                ended.append(self._lose(worker, answer, lives))
            else:
                ended.append((self._free(worker), answer))
        now = time.monotonic()
        for worker in self._workers:
            if worker.stage is _Stage.BUSY and worker.time <= now:
                ended.append(self._lose(worker, EvaluatorError(f"it took more than {self._timeout:g} s"), False))
        return ended

    def _start(self) -> None:
        now = time.monotonic()
        for worker in self._workers:
            if worker.stage is _Stage.DOWN and worker.time <= now:
                try:
                    worker.actor = self._class.remote()
                except (TypeError, ValueError) as error:
                    raise InvalidArgumentError(f"Ray refuses the options of the workers: {error}") from error
                worker.stage, worker.awaited = _Stage.PLACING, worker.actor.where.remote()
        if any(worker.stage not in (_Stage.DOWN, _Stage.PLACING) for worker in self._workers):
            self._alone = now
        elif now - self._alone > _PATIENCE:
            self._alone = now
            _log.warning("Ray has had no room for a worker for %.0f s; each takes %s", _PATIENCE, self._options)

    def _ready(self) -> list[_Place]:
        waiting = {worker.awaited: worker for worker in self._workers if worker.awaited is not None}
        timed = [worker.time for worker in self._workers if worker.stage in (_Stage.DOWN, _Stage.BUSY)]
        patience = min(_LOOK, max(0.0, min(timed, default=_LOOK) - time.monotonic()))
        if not waiting:
            time.sleep(patience)
            return []
        references = list(waiting)
        try:
            self._ray.wait(references, num_returns=1, timeout=patience)
            ready, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
        except Exception as error:
            raise EvaluatorError(f"Ray broke down: {error}. The trials were released.") from error
        return [waiting[reference] for reference in ready]

    def _on_start(self, worker: _Place, answer: Any) -> None:
        if isinstance(answer, EvaluatorError):
            self._on_failed_start(worker, answer)
        elif worker.stage is _Stage.PLACING:
            worker.stage, worker.host = _Stage.LOADING, answer
            worker.awaited = worker.actor.load.remote(self._factory)
            placed = (_Stage.LOADING, _Stage.IDLE, _Stage.BUSY)
            self._room = max(self._room, sum(worker.stage in placed for worker in self._workers))
        else:
            worker.stage, worker.awaited = _Stage.IDLE, None
            worker.failures = self._failures = 0

    def _on_failed_start(self, worker: _Place, error: EvaluatorError) -> None:
        where = f"worker {worker.number}" + (f" on {worker.host}" if worker.host else "")
        _log.warning("The start of %s failed: %s", where, error)
        self._kill(worker)
        worker.time = time.monotonic() + 2.0 ** min(worker.failures, _MOST_DOUBLINGS)
        worker.failures += 1
        self._failures += 1
        up = any(worker.stage in (_Stage.IDLE, _Stage.BUSY) for worker in self._workers)
        if not up and self._failures >= (self._max_restarts + 1) * self._room:
            raise EvaluatorError(
                f"No worker could be started: {self._failures} starts in a row failed, the last one, of {where}, "
                f"with: {error}. The trials were released."
            ) from error

    def _lose(self, worker: _Place, error: EvaluatorError, lives: bool) -> tuple[_Batch, Lost]:
        _log.warning("Worker %d on %s lost a batch: %s", worker.number, worker.host, error)
        batch = self._free(worker)
        if not lives:
            self._kill(worker)
        return batch, Lost(error, lives)

    def _free(self, worker: _Place) -> _Batch:
        batch = worker.batch
        assert batch is not None
        worker.stage, worker.batch, worker.awaited = _Stage.IDLE, None, None
        return batch

    def _kill(self, worker: _Place) -> None:
        if worker.actor is not None:
            with contextlib.suppress(Exception):  # it is dead, or Ray is
                self._ray.kill(worker.actor)
        worker.stage, worker.actor, worker.awaited, worker.host, worker.time = _Stage.DOWN, None, None, "", 0.0


def _words(error: Exception) -> str:
    """Ray's message without colours; of a long one the beginning, and the end, where a traceback has its error."""
    words = " ".join(re.sub(r"\x1b\[\d*m", "", str(error)).split())
    return f"{type(error).__name__}: " + (words if len(words) < 700 else f"{words[:300]} ... {words[-300:]}")


def run(
    study: "Selector | AbstractStudy | Worker",
    evaluator_factory: Callable[[], Evaluator],
    num_workers: int,
    *,
    batch_size: int = 1,
    timeout: float | None = None,
    max_attempts: int = 3,
    max_restarts: int = 3,
    progress: bool = True,
    on_tell: OnTell | None = None,
    max_failures_in_a_row: MaxFailures = "first",
    **options: Any,
) -> Result:
    """Evaluate on a Ray cluster until the study is done, and return its result; `asktell.run` for actors.

    It starts with the first actor that Ray can place; others join as nodes become available. A
    trial is asked when an actor is free for it. `ray.init(...)` is the caller's; without it Ray does what it does by
    default.

    Args:
        study: a Study, a RemoteStudy, a `study.worker(name, lease=...)` or a Selector. After a crash of this process,
            the same call continues the study.
        evaluator_factory: called in each actor, returns its evaluator: plain, async or with `evaluate_batch`.
        num_workers: maximum number of actors.
        batch_size: trials per call of an actor. A plain evaluator takes them one by one, an async one all at once.
        timeout: seconds for a batch, after which its actor is killed; None: any.
        max_attempts: a trial whose evaluation is lost so often, with its actor or its node or by the timeout, counts
            as a failure. A lost batch is tried again in smaller ones, the last time trial by trial.
        max_restarts: how often a worker may fail to start in a row before the run gives up, if no other is up.
        progress: as for `asktell.run`; so are `on_tell` and `max_failures_in_a_row`.
        on_tell: see there.
        max_failures_in_a_row: see there.
        options: Ray's, for each actor: `num_gpus=1`, `resources={"spot": 1}`, `memory` (bytes), `runtime_env` ...
            `num_cpus` is 1 if there is no other.

    After KeyboardInterrupt, or any error, the actors are killed and their trials released.

    Raises:
        EvaluatorError: no actor could be started, or nothing but failures came.
        StorageError: a study's storage was out of reach for more than a minute.
    """
    ray = import_extra("ray", "ray")
    whole("num_workers", num_workers, 1)
    whole("batch_size", batch_size, 1)
    whole("max_attempts", max_attempts, 1)
    whole("max_restarts", max_restarts, 0)
    if timeout is not None:
        positive("timeout", timeout, " of seconds")
    if not callable(evaluator_factory):
        raise InvalidArgumentError(
            f"evaluator_factory must be a function that makes an evaluator, got {evaluator_factory!r}."
        )
    settings = {"num_cpus": 0 if options else 1, **options}  # Ray places with one, and runs with none
    with open_board(study, progress, on_tell, max_failures_in_a_row) as board:
        if not board.selector.done:
            with Crew(ray, evaluator_factory, num_workers, settings, max_restarts, timeout) as crew:
                _drive(board, crew, batch_size, max_attempts)
        return board.selector.result()


def _drive(board: Board, crew: Crew, size: int, max_attempts: int) -> None:
    again: deque[_Batch] = deque()
    while True:
        nothing = False
        for worker in crew.idle():
            batch = again.popleft() if again else _Batch(board.ask(size), 0)
            nothing = not batch.trials
            if nothing:
                break
            crew.give(worker, batch)
        if not crew.busy and not again and (nothing or board.selector.done):
            return
        ended = deque(crew.wait())
        while ended:
            batch, outcome = ended.popleft()
            if not isinstance(outcome, Lost):
                try:
                    board.take_batch(batch.trials, outcome)
                except BaseException:  # the run ends: what came with these is not lost
                    for other, scores in ended:
                        board.rescue(other.trials, [] if isinstance(scores, Lost) else scores)
                    raise
                continue
            lost = batch.lost + 1
            if lost == max_attempts or (outcome.worker_lives and len(batch.trials) == 1):
                board.take_batch(batch.trials, outcome.error)
                continue
            # Smaller each time by equal ratios, and 1 at the last attempt.
            smaller = round(math.pow(size, (max_attempts - 1 - lost) / (max_attempts - 1)))
            for start in range(0, len(batch.trials), smaller):
                again.append(_Batch(batch.trials[start : start + smaller], lost))
