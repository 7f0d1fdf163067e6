"""Ray: one evaluator, with its loaded model, per actor, on any number of machines that may join and leave.

Only the driver asks and tells: actors need neither the storage nor its password, and end with the driver.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from asktell import InvalidArgumentError, Result, Trial
from asktell.extend import Board, Evaluator, MaxFailures, OnTell, import_extra, open_board, whole
from asktell_adapters._scores import positive
from asktell_adapters.executors._ray_crew import Crew, Lost

if TYPE_CHECKING:
    from asktell import Selector
    from asktell.extend import AbstractStudy, Worker


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
        InvalidArgumentError: an argument cannot be used, or the factory cannot be sent to the actors.
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
            crew: Crew[_Batch] = Crew(ray, evaluator_factory, num_workers, settings, max_restarts, timeout)
            with crew:
                _drive(board, crew, batch_size, max_attempts)
        return board.selector.result()


class _Batch(NamedTuple):
    trials: list[Trial]
    lost: int  # how often before


def _drive(board: Board, crew: Crew[_Batch], size: int, max_attempts: int) -> None:
    again: deque[_Batch] = deque()
    while True:
        nothing = False
        for worker in crew.idle():
            batch = again.popleft() if again else _Batch(board.ask(size), 0)
            nothing = not batch.trials
            if nothing:
                break
            crew.give(worker, batch, batch.trials)
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
            smaller = _size(size, lost, max_attempts)
            for start in range(0, len(batch.trials), smaller):
                again.append(_Batch(batch.trials[start : start + smaller], lost))


def _size(size: int, lost: int, max_attempts: int) -> int:
    """The size of a batch that was lost so often: smaller each time by equal ratios, and 1 at the last attempt."""
    return round(math.pow(size, (max_attempts - 1 - lost) / (max_attempts - 1)))
