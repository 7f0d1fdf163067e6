"""A run on disk: its folder, its lock, and a recorder that puts every evaluation there before the selector sees it.

| file                | what it holds                                                                      |
|---------------------|------------------------------------------------------------------------------------|
| `run.json`          | what the run was started with; another set-up is not mixed into it                 |
| `evaluations.jsonl` | one line per evaluation, as soon as it is made: nothing on disk is evaluated again |
| `state.json`        | `Selector.to_json()`, saved now and then; what it lacks is replayed from the lines |
| `result.json`       | `Result.to_dict()`, once the run has finished                                      |
| `lock`              | held by the process that runs                                                      |
"""

import contextlib
import json
import math
import os
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from asktell.errors import (
    AsktellError,
    EvaluatorError,
    InvalidScoresError,
    InvalidStateError,
    MissingExtraError,
)
from asktell.result import Result
from asktell.selector import Selector
from asktell.trial import Trial

FORMAT, VERSION = "asktell.run", 1
_SAVING_SHARE = 0.03  # of the time, at most
_SECONDS_BETWEEN_SAVES = 1.0
_SECONDS_FOR_LOCK = 0.5  # `asktell status` holds it for a moment
_TRIALS_HELD = 1000  # passed over while replaying; more were never out at once


class FolderBusyError(AsktellError):
    """Another process is running in the same output folder."""


class StopRun(BaseException):
    """Ends a run from inside an evaluator: no evaluation can succeed. `error` says why.

    No Exception, since those count as failures of single evaluations.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class Evaluation(NamedTuple):
    """One line of `evaluations.jsonl`: `scores`, or the `error` of an evaluation that failed."""

    trial: int
    prompt: str | int
    example: int | None
    scores: Mapping[str, float | None] | None
    error: str | None = None

    @property
    def key(self) -> tuple[str | int, int | None]:
        """What was evaluated."""
        return self.prompt, self.example


def write_atomically(path: Path, text: str) -> None:
    """Replace a file's content: a reader, and a crash at any instant, sees the old or the new text, whole."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a rename in it last; where folders cannot be opened there is nothing to do."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class RunFolder:
    """The output folder of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.setup_file = path / "run.json"
        self.log_file = path / "evaluations.jsonl"
        self.state_file = path / "state.json"
        self.result_file = path / "result.json"
        self.lock_file = path / "lock"

    @property
    def used(self) -> bool:
        """Whether a run has left anything here."""
        return any(file.exists() for file in (self.setup_file, self.log_file, self.state_file))

    # The lock

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder, which is made if missing; the system lets go of it however the process ends.

        Raises:
            FolderBusyError: another process holds it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        handle = _lock(self.lock_file)
        try:
            yield
        finally:
            os.close(handle)

    @property
    def runner(self) -> str | None:
        """The id of the process that runs here, None if none does."""
        try:
            import fcntl

            handle = os.open(self.lock_file, os.O_RDWR)
        except (ImportError, OSError):
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return os.pread(handle, 20, 0).decode("ascii", "replace").strip() or "?"
        finally:
            os.close(handle)
        return None

    def set_aside(self) -> Path:
        """Rename the folder to the first free of `NAME.1`, `NAME.2`, ...; its new path."""
        number = 1
        while (target := self.path.with_name(f"{self.path.name}.{number}")).exists():
            number += 1
        self.path.rename(target)
        return target

    # What the run was started with

    def read_setup(self) -> dict[str, Any] | None:
        """What `write_setup` was given; None if there is nothing.

        Raises:
            InvalidStateError: the file is malformed, or of an unknown version.
        """
        if not self.setup_file.exists():
            return None
        data = _parse(self.setup_file)
        if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("setup"), dict):
            raise InvalidStateError(f"{self.setup_file} is not that of an asktell run.")
        if data.get("version") != VERSION:
            raise InvalidStateError(
                f"{self.setup_file} has version {data.get('version')!r}, this asktell reads {VERSION}; "
                "finish the run with the version that began it."
            )
        return dict(data["setup"])

    def write_setup(self, setup: Mapping[str, Any]) -> None:
        """Keep what the run is started with."""
        data = {"format": FORMAT, "version": VERSION, "setup": setup}
        write_atomically(self.setup_file, json.dumps(data, indent=1) + "\n")

    # The selector

    def load(self, new: Selector | None = None) -> tuple[Selector, list[Evaluation]]:
        """The selector with everything that is on disk, and the evaluations that it had no use for yet.

        `new` stands in where no state was saved yet.

        Raises:
            InvalidStateError: a file is malformed, or nothing was saved and there is no `new`.
        """
        # The lines first: a run that goes on meanwhile adds to both files, and the state must not lag behind.
        evaluations = list(self.evaluations())
        try:
            text = self.state_file.read_text(encoding="utf-8", errors="surrogatepass")
        except FileNotFoundError:
            if new is None:
                raise InvalidStateError(f"There is no run in {str(self.path)!r}: no {self.state_file.name}.") from None
            selector = new
        else:
            try:
                selector = Selector.from_json(text)
            except InvalidStateError as error:
                raise InvalidStateError(
                    f"{self.state_file}: {error} Delete this file to rebuild it from {self.log_file.name}: "
                    "the same `asktell run` does."
                ) from error
        return selector, replay(selector, evaluations)

    def save(self, selector: Selector) -> None:
        """Keep the selector's state."""
        write_atomically(self.state_file, selector.to_json())

    def write_result(self, result: Result) -> None:
        """Keep the result."""
        write_atomically(self.result_file, json.dumps(result.to_dict(), indent=1) + "\n")

    # The evaluations

    def evaluations(self) -> Iterator[Evaluation]:
        """The lines on disk; a last one that was cut off is passed over.

        Raises:
            InvalidStateError: another line is not an evaluation; it is named.
        """
        try:
            data = self.log_file.read_bytes()
        except FileNotFoundError:
            return
        *lines, last = data.split(b"\n")
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    yield _evaluation(line)
                except (ValueError, KeyError, TypeError, RecursionError) as error:
                    raise InvalidStateError(
                        f"{self.log_file}, line {number}: not an evaluation ({type(error).__name__}: {error}). "
                        "Repair or remove the line."
                    ) from error
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
            yield _evaluation(last)

    @contextlib.contextmanager
    def appending(self) -> Iterator[int]:
        """A handle of the evaluations, to append whole lines to; a last line that was cut off is removed first."""
        handle = os.open(self.log_file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            data = self.log_file.read_bytes()
            whole, last = data.rfind(b"\n") + 1, data[data.rfind(b"\n") + 1 :]
            if last:
                try:
                    _evaluation(last)
                    os.write(handle, b"\n")
                except (ValueError, KeyError, TypeError, RecursionError):
                    os.ftruncate(handle, whole)
            yield handle
        finally:
            os.close(handle)


def _lock(path: Path) -> int:
    """A handle that holds the lock."""
    deadline = time.monotonic() + _SECONDS_FOR_LOCK
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                os.ftruncate(handle, 0)
                os.write(handle, f"{os.getpid()}\n".encode())
                return handle
        except ImportError:  # no such locks on Windows
            return handle
        except OSError as error:
            if time.monotonic() > deadline:
                owner = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
                os.close(handle)
                raise FolderBusyError(
                    f"Another run (process {owner or '?'}) is using {str(path.parent)!r}. Wait for it, stop it, or "
                    "give this one another `output`."
                ) from error
        os.close(handle)
        time.sleep(0.02)


def _parse(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InvalidStateError(f"{path} is not whole JSON: {error}") from error


def _evaluation(line: bytes) -> Evaluation:
    data = json.loads(line)
    trial, prompt, example = data["trial"], data["prompt"], data["example"]
    scores, error = data.get("scores"), data.get("error")
    if type(trial) is not int or not isinstance(prompt, str | int) or not isinstance(example, int | None):
        raise ValueError("trial, prompt or example is of the wrong type")
    if (scores is None) == (error is None) or not isinstance(scores, dict | None) or not isinstance(error, str | None):
        raise ValueError("it needs either scores or an error")
    return Evaluation(trial, prompt, example, scores, error)


def replay(selector: Selector, evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    """Tell the selector what it has not been told yet; trials that were out are handed back.

    Returns the evaluations that it has not asked for (yet).
    """
    waiting = _untold(selector, evaluations)
    for out in selector.pending:
        selector.release(out)
    left = sum(map(len, waiting.values()))
    held: list[Trial] = []
    while left and len(held) < _TRIALS_HELD and (trial := selector.ask()) is not None:
        queue = waiting.get((trial.prompt_id, trial.example))
        if queue:
            settle(selector, trial, queue.popleft())
            left -= 1
        else:
            held.append(trial)
    for missing in held:
        selector.release(missing)
    return [evaluation for queue in waiting.values() for evaluation in queue]


def settle(selector: Selector, trial: Trial, evaluation: Evaluation) -> None:
    """Tell what was evaluated, as `asktell.run` would have."""
    if evaluation.scores is None:
        selector.fail(trial, evaluation.error or "failed")
        return
    try:
        selector.tell(trial, *_told(selector, evaluation.scores))
    except AsktellError as error:
        selector.fail(trial, error)


def _told(selector: Selector, scores: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """The goal's scores, and the cost."""
    metrics = selector.metrics
    cost = scores.get("cost") if "cost" not in metrics else None
    return {name: scores[name] for name in metrics if name in scores}, cost


def _untold(
    selector: Selector, evaluations: Iterable[Evaluation]
) -> dict[tuple[str | int, int | None], deque[Evaluation]]:
    """Evaluations beyond those that the selector knows, by what was evaluated.

    Counted and not matched by trial: after a crash the same pull may come under another trial's number.
    """
    state, ids = selector.state, [entry.id for entry in selector.result().prompts]
    known: dict[tuple[str | int, int | None, bool], int] = defaultdict(int)
    history = state.history
    for told, arm, example in zip(history.trials(), history.arms(), history.examples(), strict=True):
        if told >= 0:
            known[ids[arm], None if example < 0 else int(example), True] += 1
    for arm, failures in state.failures.items():
        for failure in failures:
            known[ids[arm], failure.example, False] += 1
    waiting: dict[tuple[str | int, int | None], deque[Evaluation]] = defaultdict(deque)
    for evaluation in evaluations:
        key = (*evaluation.key, evaluation.scores is not None)
        if known[key]:
            known[key] -= 1
        else:
            waiting[evaluation.key].append(evaluation)
    return waiting


class Recorder:
    """Stands between `asktell.run` and an evaluator: each evaluation is on disk before the selector is told.

    Args:
        folder: where, held by this process.
        selector: the selector that will be run.
        evaluator: what evaluates.
        handle: of the evaluations, to append to.
        known: evaluations on disk that the selector has not used; they are answered from there.
        names: the examples' names, for whoever reads the file.
        n_out: evaluations at once.
        keep_going: do not stop when nothing but failures comes.

    Failures are written once a later evaluation succeeds. If none does, the run stops and the failures are forgotten:
    a wrong key or a server that is down costs no prompt its place.
    """

    def __init__(
        self,
        folder: RunFolder,
        selector: Selector,
        evaluator: Any,
        handle: int,
        *,
        known: Iterable[Evaluation] = (),
        names: Sequence[str | None] = (),
        n_out: int = 1,
        keep_going: bool = False,
    ) -> None:
        self.evaluator = evaluator
        self._folder = folder
        self._selector = selector
        self._handle = handle
        self._known: dict[tuple[str | int, int | None], deque[Evaluation]] = defaultdict(deque)
        for evaluation in known:
            self._known[evaluation.key].append(evaluation)
        self._names = names
        self._patience = math.inf if keep_going else 10 + 2 * n_out
        self._failing: list[tuple[str | int, str, bytes]] = []  # since the last success
        self._next_save = time.monotonic()

    def on_tell(self, selector: Selector, trial: Trial) -> None:
        """Save the state if that is due."""
        if not self._failing and time.monotonic() >= self._next_save:
            self._save(selector)

    def finish(self, selector: Selector) -> None:
        """Save everything: the run has come to its end.

        Raises:
            StopRun: it was brought there by failures.
        """
        if self._failing and self._patience < math.inf:
            result = selector.result()
            prompts = {prompt for prompt, _, _ in self._failing}
            gone = prompts <= {entry.id for entry in result.prompts if entry.status == "failed"}
            if gone and (len(prompts) > 1 or not result.selected):
                raise StopRun(self._hopeless())
        self._flush()
        self._save(selector)

    def interrupt(self) -> Selector:
        """Save what is certain, and return it: the run was broken off."""
        self._failing.clear()
        selector, _ = self._folder.load()
        self._save(selector)
        return selector

    def recall(self, trial: Trial) -> Any:
        """The scores or the error that are on disk for a trial, None if there are none."""
        queue = self._known.get((trial.prompt_id, trial.example))
        if not queue:
            return None
        evaluation = queue.popleft()
        return EvaluatorError(evaluation.error) if evaluation.scores is None else evaluation.scores

    def record(self, trial: Trial, outcome: Any, seconds: float) -> Any:
        """Write an outcome; scores that the selector would refuse become the error that it would raise.

        Raises:
            StopRun: it could not be written, a package is missing, or nothing but failures comes.
        """
        if not isinstance(outcome, BaseException):
            outcome = self._checked(outcome)
        line: dict[str, Any] = {"trial": trial.id, "prompt": trial.prompt_id, "example": trial.example}
        if trial.example is not None and trial.example < len(self._names):
            line["example_id"] = self._names[trial.example]
        if isinstance(outcome, BaseException):
            if missing := _missing_extra(outcome):
                raise StopRun(missing)
            line["error"] = error = f"{type(outcome).__name__}: {outcome}"
            self._failing.append((trial.prompt_id, error, _encoded(line)))
            self._stop_if_hopeless()
            return outcome
        output = getattr(outcome, "output", None)
        line["scores"] = {name: _finite(score) for name, score in outcome.items()}
        if isinstance(output, str):
            line["output"] = output
        line["seconds"] = round(seconds, 3)
        self._flush()
        self._append(_encoded(line))
        return outcome

    def _checked(self, scores: Any) -> Any:
        if not isinstance(scores, Mapping):
            return InvalidScoresError(f"An evaluator's scores must be a mapping, got {type(scores).__name__}.")
        try:
            self._selector.goal.vector(_told(self._selector, scores)[0])
        except AsktellError as error:
            return error
        return scores

    def _stop_if_hopeless(self) -> None:
        # A prompt or an example that cannot be evaluated is no reason to stop: failures of many prompts in a row are.
        prompts = {prompt for prompt, _, _ in self._failing}
        if len(self._failing) >= self._patience and len(prompts) >= min(5, self._selector.n_active):
            raise StopRun(self._hopeless())

    def _hopeless(self) -> EvaluatorError:
        return EvaluatorError(
            f"{len(self._failing)} evaluations in a row failed, the last one with {self._failing[-1][1]}. They are not "
            "counted: mend the cause and repeat the command, or go on all the same with --keep-going."
        )

    def _flush(self) -> None:
        for _, _, line in self._failing:
            self._append(line)
        self._failing.clear()

    def _append(self, line: bytes) -> None:
        try:
            if os.write(self._handle, line) != len(line):
                raise OSError(f"the disk is full: {str(self._folder.log_file)!r}")
        except OSError as error:
            raise StopRun(error) from error

    def _save(self, selector: Selector) -> None:
        start = time.monotonic()
        os.fsync(self._handle)  # the state must not outlive the evaluations that it rests on
        self._folder.save(selector)
        end = time.monotonic()
        self._next_save = end + max(_SECONDS_BETWEEN_SAVES, (end - start) / _SAVING_SHARE)


class BatchRecorder(Recorder):
    """For evaluators with `evaluate_batch(trials)`; `size` trials are passed on at a time."""

    size = 1

    def evaluate_batch(self, trials: Sequence[Trial]) -> list[Any]:
        """Scores or an exception for each trial.

        Raises:
            StopRun: see `record`; or the evaluator cannot evaluate anything.
        """
        outcomes = {trial.id: found for trial in trials if (found := self.recall(trial)) is not None}
        new = [trial for trial in trials if trial.id not in outcomes]
        for chunk in (new[i : i + self.size] for i in range(0, len(new), self.size)):
            start = time.perf_counter()
            try:
                found = self.evaluator.evaluate_batch(chunk)
            except Exception as error:
                raise StopRun(error) from error  # one trial's failure would stand in the list
            seconds = (time.perf_counter() - start) / len(chunk)
            for trial, outcome in zip(chunk, found, strict=True):
                outcomes[trial.id] = self.record(trial, outcome, seconds)
        return [outcomes[trial.id] for trial in trials]


class AsyncRecorder(Recorder):
    """For async evaluators `(prompt, example) -> scores`."""

    _taken: frozenset[int] = frozenset()

    async def __call__(self, prompt: str, example: int | None) -> Any:
        """The scores.

        Raises:
            StopRun: see `record`.
        """
        out = self._selector.pending
        trial = next(t for t in out if t.prompt == prompt and t.example == example and t.id not in self._taken)
        self._taken = self._taken.intersection(t.id for t in out) | {trial.id}
        found = self.recall(trial)
        if found is None:
            start = time.perf_counter()
            try:
                found = await self.evaluator(prompt, example)
            except Exception as error:
                found = error
            found = self.record(trial, found, time.perf_counter() - start)
        if isinstance(found, BaseException):
            raise found
        return found


def _missing_extra(error: BaseException | None) -> MissingExtraError | None:
    """The missing package that an error comes from."""
    while error is not None and not isinstance(error, MissingExtraError):
        error = error.__cause__
    return error


def _encoded(line: Mapping[str, Any]) -> bytes:
    # Plain ASCII: a line separator of Unicode, or half a surrogate pair, breaks no reader.
    return json.dumps(line, allow_nan=False).encode("ascii") + b"\n"


def _finite(score: Any) -> float | None:
    """As JSON: null for what is no finite number, in a metric that is not the goal's."""
    try:
        value = float(score)
    except (TypeError, ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None
