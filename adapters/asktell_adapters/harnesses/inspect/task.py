"""Inspect (inspect-ai): a task whose prompts and samples asktell chooses, one `eval()` and one log per batch."""

import copy
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from asktell import EvaluatorError, InvalidArgumentError, Trial
from asktell.extend import attempt, import_extra, outside_of_loops
from asktell_adapters._scores import failing, if_ready
from asktell_adapters.harnesses.inspect.samples import (
    SYSTEM,
    Insert,
    Scoring,
    ValueToFloat,
    changes,
    check_metrics,
    checked_task,
    sample_of,
)

_OURS = {
    "tasks", "model", "limit", "sample_id", "fail_on_error", "log_header_only", "log_samples", "run_samples", "score",
}  # fmt: skip
_one_eval_at_a_time = threading.Lock()  # Inspect refuses a second one in the same process.


class InspectTask:
    """Evaluates trials as samples of an Inspect task, for `asktell.run`.

    A batch is one `inspect_ai.eval()` over the pairs that were asked, and one file in `log_dir`, in which a sample's id
    is "prompt id|sample id" and its metadata has both, the prompt's text and the example's index under "asktell".

    Scores are named after their scorer; of a scorer that returns a dict, `scorer/key`. Besides them there are
    `input_tokens`, `output_tokens`, `total_tokens` (of the evaluated model), `latency` (the sample's wall seconds) and,
    where Inspect knows prices, `cost` (of all its models, in dollars). Over epochs, the mean.

    Args:
        task: an Inspect Task, or a function without arguments that makes one (such as an `@task`).
        model: a name such as "openai/gpt-4o-mini", or an Inspect Model; by default the task's own, or that of
            INSPECT_EVAL_MODEL.
        insert: how a prompt enters: "system", as a system message before the task's solver; a template of the user's
            turn with `{prompt}` and `{input}` (and columns of the sample's metadata); or a function from the prompt to
            a solver, an agent or a list of solvers, which then replaces the task's solver.
        metrics: those that the goal needs, checked now against the task's scorers.
        log_dir: where the logs go; by default where Inspect puts them.
        score_limited: take the scores of samples that ran into a limit (time, tokens, messages), as Inspect does; by
            default these are failures.
        value_to_float: what a score's value is worth; by default numbers, "C" 1, "P" .5, "I" and "N" 0, yes and no.
        options: more arguments of `inspect_ai.eval`: max_connections, time_limit, retry_on_error, temperature, ...

    Raises:
        EvaluatorError: Inspect cannot make the model.
    """

    def __init__(
        self,
        task: Any,
        model: Any = None,
        *,
        insert: Insert = SYSTEM,
        metrics: Collection[str] | None = None,
        log_dir: str | Path | None = None,
        score_limited: bool = False,
        value_to_float: ValueToFloat | None = None,
        **options: Any,
    ) -> None:
        self._inspect = import_extra("inspect_ai", "inspect")
        self.task = checked_task(task)
        self.examples = tuple(self.task.dataset)
        if wrong := sorted(_OURS & set(options)):
            raise InvalidArgumentError(f"InspectTask chooses samples and reads logs itself: leave out {wrong}.")
        if metrics is not None:
            check_metrics(metrics, self.task)
        self._scoring = Scoring(value_to_float, score_limited, None if metrics is None else tuple(metrics))
        self._model = _model(model)
        self._changes = changes(self.task, insert)
        self._options = {"display": "none", **options, "tags": ["asktell", *(options.get("tags") or ())]}
        if log_dir is not None:
            self._options["log_dir"] = str(log_dir)

    def evaluate_batch(self, trials: Sequence[Trial]) -> list[Mapping[str, float] | Exception]:
        """Scores in the order of the trials; a sample that failed yields an exception in its place.

        Raises:
            EvaluatorError: Inspect refused the evaluation as a whole.
            KeyboardInterrupt: it was interrupted; samples that were ready are in its log.
        """
        samples: dict[str, Any] = {}

        def sample(trial: Trial) -> Any:
            made = sample_of(trial, self.examples, samples)
            samples[made.id] = made
            return made

        def evaluate(made: list[Any]) -> list[Mapping[str, float] | Exception]:
            log = self._eval(made)
            return [self._outcome(log, each.id) for each in made]

        return if_ready(trials, sample, evaluate)

    def _eval(self, samples: list[Any]) -> Any:
        whole = self.task.dataset
        dataset = import_extra("inspect_ai.dataset", "inspect").MemoryDataset(samples, whole.name, whole.location)
        # A copy, since task_with() changes what it is given.
        task = self._inspect.task_with(copy.copy(self.task), dataset=dataset, **self._changes)
        options = self._options if self._model is None else {**self._options, "model": self._model}
        with _one_eval_at_a_time, failing("Inspect refused the evaluation:"):
            logs = outside_of_loops(lambda: self._inspect.eval(task, fail_on_error=False, **options))
        if not logs or logs[0].status == "cancelled":  # Inspect swallows Ctrl-C.
            raise KeyboardInterrupt
        return logs[0]

    def _outcome(self, log: Any, id_: str) -> Mapping[str, float] | Exception:
        epochs = [sample for sample in log.samples or () if sample.id == id_]
        if not epochs:
            why = log.error.message if log.error else "it was not run"
            return EvaluatorError(f"Inspect's log has no sample {id_!r}: {why}")
        outcome: Mapping[str, float] | Exception = attempt(self._scoring.of_epochs, epochs, log.eval.model)
        return outcome


def _model(model: Any) -> Any:
    if not isinstance(model, str):
        return model
    try:
        return import_extra("inspect_ai.model", "inspect").get_model(model)
    except Exception as error:
        raise EvaluatorError(f"Inspect cannot make the model {model!r}: {error}") from error
