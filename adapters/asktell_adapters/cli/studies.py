"""What the command line does with studies: `run --study`, `batch`, `studies`, `watch`, `export`, `import`."""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from asktell.errors import EvaluatorError, MissingExtraError
from asktell.results import Result
from asktell.running.run import attempt, attempt_async, run
from asktell.studies.study import Holding, Study
from asktell.terminal import aligned
from asktell.trial import Trial
from asktell_adapters.cli.output import overview, show
from asktell_adapters.cli.recorder import StopRun

if TYPE_CHECKING:
    from asktell_adapters.config import Config

_FAILURES_AT_FIRST = 3
_SHOWN = 20


def run_study(config: "Config", arguments: argparse.Namespace) -> Result:
    """Evaluate as one of a study's workers, until it is done; it is made if it is missing."""
    name = arguments.name or config.path.stem
    with Study.create(arguments.study, name, config.selector, exist_ok=True) as study:
        if study.done:
            return study.result()
        evaluator = config.evaluator()
        patience = 10**9 if arguments.keep_going else 10 + 2 * config.concurrency
        kind = PatientBatches if callable(getattr(evaluator, "evaluate_batch", None)) else PatientCalls
        worker = study.worker(arguments.worker, lease=arguments.lease)
        print(f"Worker {worker.name}, after {study.spent} of {study.budget} evaluations.", file=sys.stderr)
        progress = not arguments.no_progress and sys.stderr.isatty()
        return run(
            worker,
            kind(evaluator, patience, config.batch_size),
            concurrency=config.concurrency,
            progress=progress,
        )


class _Patient:
    """Stands between `run` and an evaluator, and ends the run when nothing but failures comes.

    A worker with a wrong key, or on a machine without network, must not fail the prompts of a whole study. Until its
    first success a worker has little credit.
    """

    def __init__(self, evaluator: Any, patience: int, size: int) -> None:
        self.evaluator = evaluator
        self.size = size
        self._patience = patience
        self._credit = min(_FAILURES_AT_FIRST, patience)
        self._failed = 0

    def note(self, outcome: Any) -> Any:
        """The outcome as it is.

        Raises:
            StopRun: it is one failure too many, or a package is missing.
        """
        if not isinstance(outcome, BaseException):
            self._failed, self._credit = 0, self._patience
            return outcome
        if isinstance(outcome, MissingExtraError):
            raise StopRun(outcome)
        self._failed += 1
        if self._failed >= self._credit:
            last = f"{type(outcome).__name__}: {outcome}"
            raise StopRun(
                EvaluatorError(
                    f"{self._failed} evaluations in a row failed, the last one with {last}. "
                    "Mend the cause and repeat the command, or go on all the same with --keep-going."
                )
            )
        return outcome


class PatientBatches(_Patient):
    """For evaluators with `evaluate_batch(trials)`."""

    def evaluate_batch(self, trials: Sequence[Trial]) -> list[Any]:
        """Scores or an exception for each trial, by chunks of the model's own size."""
        outcomes: list[Any] = []
        for start in range(0, len(trials), self.size):
            found = attempt(self.evaluator.evaluate_batch, trials[start : start + self.size])
            if isinstance(found, BaseException):
                raise StopRun(found) from found  # one trial's failure would stand in the list
            outcomes += found
        return [self.note(outcome) for outcome in outcomes]


class PatientCalls(_Patient):
    """For async evaluators `(prompt, example) -> scores`."""

    async def __call__(self, prompt: str, example: int | None) -> Any:
        """The scores."""
        outcome = self.note(await attempt_async(self.evaluator, prompt, example))
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def list_studies(arguments: argparse.Namespace) -> int:
    """`asktell studies`."""
    rows = [["study", "evaluations", "active", "out", "workers", "state"]]
    for name in Study.names(arguments.url):
        with Study.open(arguments.url, name) as study:
            out = study.workers()
            workers = {holding.worker for holding in out} - {None}
            finished = study.selector.state.finished
            state = "finished" if finished else "running" if out else "waiting" if study.spent else "new"
            counts = [study.n_active, len(out), len(workers)]
            rows.append([name, f"{study.spent} of {study.budget}", *map(str, counts), state])
    for line in aligned(rows):
        show(line.rstrip())
    return 0


def status(url: str, name: str) -> int:
    """`asktell status`, of a study."""
    with Study.open(url, name) as study:
        for line in _view(study, study.result(), study.workers(), None):
            show(line)
    return 0


def result_of(url: str, name: str) -> Result:
    """For `asktell result`, of a study."""
    with Study.open(url, name) as study:
        return study.result()


def watch(arguments: argparse.Namespace) -> int:
    """`asktell watch`: until the study is done, or once where there is no terminal."""
    once = arguments.once or not sys.stdout.isatty()
    start, spent_at_start = time.monotonic(), None
    with Study.open(arguments.url, arguments.name) as study:
        while True:
            result, holdings = study.result(), study.workers()
            seconds = time.monotonic() - start
            spent_at_start = result.spent if spent_at_start is None else spent_at_start
            rate = (result.spent - spent_at_start) / seconds if seconds > 1 else None
            lines = list(_view(study, result, holdings, rate))
            if not once:
                sys.stdout.write("\x1b[H\x1b[J")
            for line in lines:
                show(line)
            sys.stdout.flush()
            if once or result.done:
                return 0
            time.sleep(arguments.interval)


def _view(study: Study, result: Result, holdings: Sequence[Holding], rate: float | None) -> Iterator[str]:
    doing = "finished" if result.done else f"{len(holdings)} trials out"
    if rate:
        left = (result.budget - result.spent) / rate
        doing += f", {rate:.3g} evaluations per second, about {left / 60:.0f} min to go"
    yield from overview(result, f"{study.name}: {doing}", study.n_active)
    rows = [["worker", "trial", "prompt", "example", "attempt", "lease"]]
    for holding in holdings[:_SHOWN]:
        trial, left_ = holding.trial, holding.seconds_left
        lease = "none" if left_ is None else f"{left_:.0f} s" if left_ > 0 else "ran out"
        cells = [trial.id, trial.prompt_id, "-" if trial.example is None else trial.example, holding.attempt]
        rows.append([holding.worker or "-", *map(str, cells), lease])
    if holdings:
        yield ""
        yield from (line.rstrip() for line in aligned(rows))
    if len(holdings) > _SHOWN:
        yield f"... and {len(holdings) - _SHOWN} more"


def export_study(arguments: argparse.Namespace) -> int:
    """`asktell export`."""
    with Study.open(arguments.url, arguments.name) as study:
        study.export(arguments.file)
    return 0


def import_study(arguments: argparse.Namespace) -> int:
    """`asktell import`."""
    with Study.import_(arguments.url, arguments.file, arguments.name) as study:
        show(f"{study.name}: {study.spent} of {study.budget} evaluations")
    return 0


def batch(arguments: argparse.Namespace) -> int:
    """`asktell batch`."""
    from asktell_adapters.config import load_config
    from asktell_adapters.evaluators.openai_batch import OpenAIBatch

    config = load_config(arguments.config)
    name = arguments.name or config.path.stem
    batches = OpenAIBatch(config.evaluator())
    with Study.create(arguments.study, name, config.selector, exist_ok=True) as study:
        if arguments.action == "submit":
            n = study.budget if arguments.evaluations is None else arguments.evaluations
            ids = batches.submit(study, n)
            for id_ in ids or ["Nothing to submit: the study is done, or waits for scores."]:
                show(id_)
        else:
            for line in str(batches.collect(study)).splitlines():
                show(line)
            show(f"{study.name}: {study.spent} of {study.budget} evaluations, {len(study.pending)} out")
    return 0
