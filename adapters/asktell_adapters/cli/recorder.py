"""A recorder puts every evaluation on disk before the selector sees it, and answers from there what was made before."""

import json
import math
import os
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from asktell.errors import AsktellError, EvaluatorError, InvalidScoresError, MissingExtraError
from asktell.running.run import attempt, attempt_async, cost_of, goal_scores
from asktell.selector import Selector
from asktell.trial import Trial
from asktell_adapters.cli.evaluations import Evaluation
from asktell_adapters.cli.run_folder import RunFolder

_SAVING_SHARE = 0.03  # of the time, at most
_SECONDS_BETWEEN_SAVES = 1.0


class StopRun(BaseException):
    """Ends a run from inside an evaluator: no evaluation can succeed. `error` says why.

    No Exception, since those count as failures of single evaluations.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


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
        if evaluation.scores is not None:
            return evaluation.scores
        error = EvaluatorError(evaluation.error)
        error.cost = evaluation.cost  # type: ignore[attr-defined]
        return error

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
            if (cost := cost_of(outcome)) is not None:
                line["cost"] = cost
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
            self._selector.goal.vector(goal_scores(self._selector, scores)[0])
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
            StopRun: see `record`.
        """
        outcomes = {trial.id: found for trial in trials if (found := self.recall(trial)) is not None}
        new = [trial for trial in trials if trial.id not in outcomes]
        for chunk in (new[i : i + self.size] for i in range(0, len(new), self.size)):
            start = time.perf_counter()
            found = attempt(self.evaluator.evaluate_batch, chunk)
            if isinstance(found, BaseException):
                found = [found] * len(chunk)
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
            found = await attempt_async(self.evaluator, prompt, example)
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
