"""Ray: one evaluator with its loaded model per actor. Machines may be added to the cluster or removed at any time.

The driver is the process that calls `run`. Only the driver uses the study. So actors
need neither the storage nor its password. They end when the driver ends.
"""

import contextlib
import math
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple, final

from asktell import EvaluatorError, InvalidArgumentError, Result, Trial
from asktell.extend import (
    Board,
    Evaluator,
    MaxFailures,
    OnTell,
    Outcome,
    attempt,
    import_extra,
    log,
    open_board,
    whole,
)
from asktell_adapters._util.scores import positive
from asktell_adapters.executors.per_process import BatchEvaluation, plain_error

if TYPE_CHECKING:
    from asktell import Selector
    from asktell.extend import AbstractStudy

_LOOK = 1.0  # Seconds after which `wait` returns, even without an outcome.
# A worker that fails to start waits 1 s before the next start, then 2 s, ..., up to 64
# s.
_MOST_DOUBLINGS = 6
_PATIENCE = 60.0  # Seconds without any worker before a warning.


class _Batch(NamedTuple):
    """Trials that a worker evaluates together, and how often they were lost before."""

    trials: list[Trial]
    lost: int


class Lost(NamedTuple):
    """A batch that ended without outcomes.

    Attributes:
        error: the reason.
        worker_lives: True if the worker of the batch is still alive.
    """

    error: EvaluatorError
    worker_lives: bool


@final
class _Actor:
    """The actor that runs in the cluster.

    It returns errors instead of raising them. So an exception from Ray means that the
    actor is gone.
    """

    def where(self) -> str:
        """Return the name of the machine."""
        import socket

        return socket.gethostname()

    def load(self, factory: Callable[[], Evaluator]) -> EvaluatorError | None:
        """Create the evaluator. Returns an error if that fails."""
        evaluation = attempt(lambda: BatchEvaluation(factory()))
        if isinstance(evaluation, BaseException):
            return plain_error(evaluation)
        self._evaluation: BatchEvaluation = evaluation
        return None

    def evaluate(self, trials: list[Trial]) -> list[Outcome] | EvaluatorError:
        """Return the outcomes of the trials, or an error if the evaluator failed on all of them."""
        outcomes = attempt(self._evaluation, trials)
        return (
            plain_error(outcomes) if isinstance(outcomes, BaseException) else outcomes
        )


class _Stage(Enum):
    """The stage of a worker."""

    # It has no actor until the time of its next start.
    DOWN = auto()
    # Its actor waits for a node with room.
    PLACING = auto()
    # Its actor calls the factory.
    LOADING = auto()
    IDLE = auto()
    BUSY = auto()


@dataclass(eq=False)
class _Place:
    """A worker: a place in the crew for one actor at a time.

    Attributes:
        number: number of the worker.
        stage: its stage.
        time: time of the next start if it is down, or the time to kill its actor if it
            is busy. On time.monotonic.
        actor: Ray's handle of the actor.
        awaited: Ray's reference to the result of the actor's current call.
        host: machine of the actor.
        batch: the batch that it evaluates.
        failures: number of failed starts in a row.
    """

    number: int
    stage: _Stage = _Stage.DOWN
    time: float = 0.0
    actor: Any = None
    awaited: Any = None
    host: str = ""
    batch: _Batch | None = None
    failures: int = 0


class ActorCrew(contextlib.AbstractContextManager["ActorCrew"]):
    """Keeps up to `size` actors running during a `with` block, and kills them at its end.

    A worker is a place for one actor at a time. If its actor dies, the worker starts
    another.

    Args:
        ray: the package ray.
        factory: a function that is called in each actor to create its evaluator.
        size: the largest number of actors.
        options: Ray's options of an actor.
        max_restarts: as for `run`.
        timeout: the most seconds that a batch may take. None: no limit.

    Raises:
        InvalidArgumentError: the factory cannot be pickled, or Ray refuses the options.
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
            raise InvalidArgumentError(
                f"evaluator_factory cannot be sent to the workers ({error}). Create objects that cannot be pickled "
                "inside of evaluator_factory."
            ) from error
        try:
            # Ray must not restart actors, because a new actor would have no evaluator.
            self._class = ray.remote(_Actor).options(**options, max_restarts=0)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"Ray refuses the options of the workers ({error})."
            ) from error
        self._options = options
        self._workers = [_Place(number) for number in range(size)]
        self._max_restarts = max_restarts
        self._timeout = timeout
        # Failed starts in a row, of all workers.
        self._failures = 0
        # The highest number of workers that were placed at once.
        self._room = 1
        # The last time at which a worker was placed.
        self._alone = time.monotonic()

    def __exit__(self, *exc_info: object) -> None:
        for worker in self._workers:
            self._kill(worker)

    def idle(self) -> list[_Place]:
        """Return the workers that are free."""
        return [worker for worker in self._workers if worker.stage is _Stage.IDLE]

    @property
    def busy(self) -> bool:
        """True if a worker is evaluating a batch."""
        return any(worker.stage is _Stage.BUSY for worker in self._workers)

    def give(self, worker: _Place, batch: _Batch) -> None:
        """Let a free worker evaluate a batch.

        Args:
            worker: a worker from `idle()`.
            batch: the trials, and how often they were lost before.
        """
        worker.stage, worker.batch = _Stage.BUSY, batch
        worker.time = time.monotonic() + (self._timeout or float("inf"))
        worker.awaited = worker.actor.evaluate.remote(batch.trials)

    def wait(self) -> list[tuple[_Batch, list[Outcome] | Lost]]:
        """Wait until a worker starts or a batch ends, but at most a second.

        Returns:
            The batches that have ended, each with its outcomes, or with the reason why
            there are none.

        Raises:
            EvaluatorError: no worker could be started, or Ray failed.
        """
        self._start()
        ended: list[tuple[_Batch, list[Outcome] | Lost]] = []
        for worker in self._ready():
            lives = True
            try:
                answer: Any = self._ray.get(worker.awaited)
            except Exception as error:
                lives = False
                # Ray's message is colored and can be a long traceback, whose last lines
                # have the error.
                words = " ".join(re.sub(r"\x1b\[\d*m", "", str(error)).split())
                if len(words) >= 700:
                    words = f"{words[:300]} ... {words[-300:]}"
                kind = type(error).__name__
                answer = EvaluatorError(f"its worker was lost ({kind}: {words})")
            if worker.stage is not _Stage.BUSY:
                self._on_start(worker, answer)
            elif isinstance(answer, EvaluatorError):
                ended.append(self._lose(worker, answer, lives))
            else:
                ended.append((self._free(worker), answer))
        now = time.monotonic()
        for worker in self._workers:
            if worker.stage is _Stage.BUSY and worker.time <= now:
                ended.append(
                    self._lose(
                        worker,
                        EvaluatorError(
                            f"its batch took more than the timeout of {self._timeout:g} s"
                        ),
                        False,
                    )
                )
        return ended

    def _start(self) -> None:
        """Start the actors that are due, and warn if the cluster has had no room for any for a minute."""
        now = time.monotonic()
        for worker in self._workers:
            if worker.stage is _Stage.DOWN and worker.time <= now:
                try:
                    worker.actor = self._class.remote()
                except (TypeError, ValueError) as error:
                    raise InvalidArgumentError(
                        f"Ray refuses the options of the workers ({error})."
                    ) from error
                worker.stage = _Stage.PLACING
                worker.awaited = worker.actor.where.remote()
        if any(
            worker.stage not in (_Stage.DOWN, _Stage.PLACING)
            for worker in self._workers
        ):
            self._alone = now
        elif now - self._alone > _PATIENCE:
            self._alone = now
            log.warning(
                "Ray has had no room for a worker for %.0f s. Each needs %s",
                _PATIENCE,
                self._options,
            )

    def _ready(self) -> list[_Place]:
        """Return the workers whose actors have finished a call, after a wait of at most a second."""
        waiting = {
            worker.awaited: worker
            for worker in self._workers
            if worker.awaited is not None
        }
        timed = [
            worker.time
            for worker in self._workers
            if worker.stage in (_Stage.DOWN, _Stage.BUSY)
        ]
        # Wake up for the next start or timeout, but at least once a second, so that
        # Ctrl-C is noticed.
        patience = min(_LOOK, max(0.0, min(timed, default=_LOOK) - time.monotonic()))
        if not waiting:
            time.sleep(patience)
            return []
        references = list(waiting)
        try:
            self._ray.wait(references, num_returns=1, timeout=patience)
            ready, _ = self._ray.wait(
                references, num_returns=len(references), timeout=0
            )
        except Exception as error:
            raise EvaluatorError(
                f"Ray failed ({error}). The trials were released."
            ) from error
        return [waiting[reference] for reference in ready]

    def _on_start(self, worker: _Place, answer: Any) -> None:
        """Move a starting worker to its next stage."""
        if isinstance(answer, EvaluatorError):
            self._on_failed_start(worker, answer)
        elif worker.stage is _Stage.PLACING:
            worker.stage, worker.host = _Stage.LOADING, answer
            worker.awaited = worker.actor.load.remote(self._factory)
            placed = (_Stage.LOADING, _Stage.IDLE, _Stage.BUSY)
            self._room = max(
                self._room, sum(worker.stage in placed for worker in self._workers)
            )
        else:
            worker.stage, worker.awaited = _Stage.IDLE, None
            worker.failures = self._failures = 0

    def _on_failed_start(self, worker: _Place, error: EvaluatorError) -> None:
        """Schedule the next start of a worker, or give up after too many failed starts.

        Raises:
            EvaluatorError: no worker is up, and the workers that the cluster had room for have
                failed to start more than `max_restarts` times in a row.
        """
        where = f"worker {worker.number}" + (
            f" on {worker.host}" if worker.host else ""
        )
        log.warning("The start of %s failed: %s", where, error)
        self._kill(worker)
        # Wait longer after each failed start, because a machine that is out of memory
        # needs time.
        worker.time = time.monotonic() + 2.0 ** min(worker.failures, _MOST_DOUBLINGS)
        worker.failures += 1
        self._failures += 1
        up = any(worker.stage in (_Stage.IDLE, _Stage.BUSY) for worker in self._workers)
        if not up and self._failures >= (self._max_restarts + 1) * self._room:
            raise EvaluatorError(
                f"No worker could be started. {self._failures} starts in a row failed, the last on "
                f"{where} ({error}). The trials were released."
            ) from error

    def _lose(
        self, worker: _Place, error: EvaluatorError, lives: bool
    ) -> tuple[_Batch, Lost]:
        """Take the batch from a worker that could not evaluate it."""
        log.warning(
            "Worker %d on %s lost a batch: %s", worker.number, worker.host, error
        )
        batch = self._free(worker)
        if not lives:
            self._kill(worker)
        return batch, Lost(error, lives)

    def _free(self, worker: _Place) -> _Batch:
        """Take the batch from a worker, which becomes idle."""
        batch = worker.batch
        assert batch is not None
        worker.stage, worker.batch, worker.awaited = _Stage.IDLE, None, None
        return batch

    def _kill(self, worker: _Place) -> None:
        """End the actor of a worker. The worker may start another actor at once."""
        if worker.actor is not None:
            # The actor or Ray may be dead already.
            with contextlib.suppress(Exception):
                self._ray.kill(worker.actor)
        worker.stage = _Stage.DOWN
        worker.actor = None
        worker.awaited = None
        worker.host = ""
        worker.time = 0.0


def run(
    study: "Selector | AbstractStudy",
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
    """Evaluate on a Ray cluster until the study is done, and return its result. This is `asktell.run` for actors.

    The run starts as soon as Ray can place the first actor. More actors start as nodes
    become available. A trial is chosen only when an actor is free for it. To choose a
    cluster, call `ray.init(...)` beforehand. Otherwise, Ray uses its default.

    After KeyboardInterrupt or an error, the actors are killed and their trials are
    released.

    Args:
        study: a Study, a RemoteStudy, a `study.worker(name, lease=...)` or a Selector.
            If this process crashes, the same call resumes a study.
        evaluator_factory: a function that is called in each actor to create its
            evaluator: plain, async or with `evaluate_batch`.
        num_workers: the largest number of actors.
        batch_size: the number of trials that an actor gets at once. A plain evaluator
            evaluates them one by one, and an async evaluator all at once.
        timeout: the most seconds that a batch may take. After that, its actor is
            killed. None: no limit.
        max_attempts: a trial is lost if its actor or node dies, or if its batch times
            out or fails as a whole. Lost trials are evaluated again in smaller batches,
            and at the last attempt one by one. A trial that is lost this many times is
            recorded as a failure.
        max_restarts: how often a start that failed is repeated. If the cluster has room
            for n workers, the run gives up after (`max_restarts` + 1) × n failed starts
            in a row, and only while no worker is up.
        progress: as for `asktell.run`.
        on_tell: as for `asktell.run`.
        max_failures_in_a_row: as for `asktell.run`.
        options: Ray's options of each actor, such as `num_gpus=1`, `resources={"spot":
            1}`, `memory` (bytes) or `runtime_env`. Without any options, `num_cpus` is
            1. With other options, `num_cpus` is 0 unless you set it.

    Raises:
        InvalidArgumentError: an argument cannot be used.
        EvaluatorError: no actor could be started, or too many evaluations failed in a
            row (see `max_failures_in_a_row`).
        StorageError: the study's storage could not be reached for more than a minute.
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
            f"evaluator_factory must be a function that returns an evaluator, got {evaluator_factory!r}."
        )
    # Ray's default is one CPU to place an actor and none to run it, which could
    # overload the nodes.
    settings = {"num_cpus": 0 if options else 1, **options}
    with open_board(study, progress, on_tell, max_failures_in_a_row) as board:
        if not board.selector.done:
            with ActorCrew(
                ray, evaluator_factory, num_workers, settings, max_restarts, timeout
            ) as crew:
                _drive(board, crew, batch_size, max_attempts)
        return board.selector.result()


def _drive(board: Board, crew: ActorCrew, size: int, max_attempts: int) -> None:
    """Give batches to idle workers and record the outcomes, until there is nothing left to evaluate.

    Args:
        board: asks for trials and records outcomes.
        crew: the workers.
        size: trials per batch.
        max_attempts: a trial fails after it was lost this many times.
    """
    # Lost batches, which come before new trials.
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
            if isinstance(outcome, Lost):
                again.extend(_retried(board, batch, outcome, size, max_attempts))
                continue
            try:
                board.take_batch(batch.trials, outcome)
            except BaseException:
                # The run ends. The scores of the other batches are saved first.
                for unsaved, scores in ended:
                    board.rescue(
                        unsaved.trials, [] if isinstance(scores, Lost) else scores
                    )
                raise


def _retried(
    board: Board, batch: _Batch, outcome: Lost, size: int, max_attempts: int
) -> list[_Batch]:
    """Split a lost batch into batches to evaluate again.

    A single bad trial can kill its worker. Smaller batches let the other trials of the
    batch succeed. After the last attempt, the trials are recorded as failed.
    """
    lost = batch.lost + 1
    # A worker that survived a single trial would fail on it again.
    if lost == max_attempts or (outcome.worker_lives and len(batch.trials) == 1):
        board.take_batch(batch.trials, outcome.error)
        return []
    # The sizes of batches fall by equal ratios, down to 1 at the last attempt.
    smaller = round(math.pow(size, (max_attempts - 1 - lost) / (max_attempts - 1)))
    starts = range(0, len(batch.trials), smaller)
    return [_Batch(batch.trials[start : start + smaller], lost) for start in starts]
