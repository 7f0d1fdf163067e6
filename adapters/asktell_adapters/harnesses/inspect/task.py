"""Inspect (inspect-ai): an evaluator for `asktell.run`, with one `eval()` and one log file for each batch of samples.

A sample is Inspect's word for an example.
"""

import copy
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from asktell import EvaluatorError, InvalidArgumentError, Trial
from asktell.extend import attempt, import_extra, outside_of_loops
from asktell_adapters._util.scores import failing, if_ready
from asktell_adapters.harnesses.inspect.samples import (
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
# Inspect refuses a second eval in the same process.
_one_eval_at_a_time = threading.Lock()


class InspectTask:
    """Evaluate trials as samples of an Inspect task, for `asktell.run`.

    ```python
    evaluator = InspectTask(my_task, "openai/gpt-4o-mini")
    selector = asktell.Selector(prompts, goal, budget=500, examples=len(evaluator.examples))
    result = asktell.run(selector, evaluator, concurrency=50)
    ```

    `asktell.run` evaluates trials in batches, whose size is its argument `concurrency`.
    Each batch is one `inspect_ai.eval()` with one log file. In the log, a sample has
    the id "prompt id|sample id". Its metadata has an entry "asktell" with the id and
    the text of the prompt (`prompt_id`, `prompt`) and the index of the example
    (`example`).

    A score has the name of its scorer. If a scorer returns a dict, there is one score
    per key, with the name `scorer/key`. If the task has several epochs, a score is the
    mean over them. A sample also has these scores:

    - `input_tokens`, `output_tokens`, `total_tokens`: tokens of the evaluated model,
      without those of graders.
    - `latency`: the wall-clock seconds of the sample.
    - `cost`: the cost of all models and all epochs in US dollars. It is left out unless
      Inspect has a price for each of these models.

    Args:
        task: an Inspect Task, or a function without arguments that creates one, such as
            an `@task`.
        model: a name such as "openai/gpt-4o-mini", or an Inspect Model. By default, the
            model of the task, or else of the environment variable INSPECT_EVAL_MODEL.
        insert: where the prompt goes. With "system" (default), it becomes a system
            message, after the system messages of the sample. With a template, the
            filled-in template replaces the text of the user message. The template must
            have the fields `{prompt}` and `{input}` (the input of the sample). It may
            have fields of the sample's metadata, too. With a function, the task's
            solver is replaced. The function gets the prompt, and returns a solver, an
            agent or a list of solvers.
        metrics: names of the metrics that the goal needs (`goal.metrics`). A name that
            the task does not have raises an error here, before the first evaluation. A
            sample without one of these scores is a failed evaluation. By default,
            nothing is checked.
        log_dir: folder of the logs. By default, Inspect's own log folder.
        score_limited: True: use the scores of samples that reached a limit (time,
            tokens, messages), as Inspect does. False (default): such a sample is a
            failed evaluation.
        value_to_float: a function from a score's value to a number, or to NaN if the
            value has none. By default, numbers are kept. "C", "yes" and "true" become
            1, "P" becomes 0.5, and "I", "N", "no" and "false" become 0. Other texts
            become NaN, which is a missing score.
        options: further arguments of `inspect_ai.eval`, such as max_connections,
            time_limit or temperature.

    Attributes:
        task: the Task.
        examples: the samples of the task, for `Selector(examples=len(...))`.

    Raises:
        InvalidArgumentError: an argument cannot be used, or the task lacks one of
            `metrics`.
        EvaluatorError: Inspect cannot create the model.
    """

    def __init__(
        self,
        task: Any,
        model: Any = None,
        *,
        insert: Insert = "system",
        metrics: Collection[str] | None = None,
        log_dir: str | Path | None = None,
        score_limited: bool = False,
        value_to_float: ValueToFloat | None = None,
        **options: Any,
    ) -> None:
        self._inspect = import_extra("inspect_ai", "inspect")
        self.task = checked_task(task)
        self.examples = tuple(self.task.dataset)
        wrong = sorted(_OURS & set(options))
        if wrong:
            raise InvalidArgumentError(
                f"InspectTask sets {wrong} of inspect_ai.eval itself. Omit these arguments."
            )
        if metrics is not None:
            check_metrics(metrics, self.task)
        self._scoring = Scoring(
            value_to_float, score_limited, None if metrics is None else tuple(metrics)
        )
        self._model = _model(model)
        self._changes = changes(self.task, insert)
        self._options = {
            "display": "none",
            **options,
            "tags": ["asktell", *(options.get("tags") or ())],
        }
        if log_dir is not None:
            self._options["log_dir"] = str(log_dir)

    def evaluate_batch(
        self, trials: Sequence[Trial]
    ) -> list[Mapping[str, float] | Exception]:
        """Evaluate trials. Return, in their order, the scores of each trial, or an exception if it failed.

        Raises:
            EvaluatorError: Inspect raised an error instead of returning a log.
            KeyboardInterrupt: the evaluation was interrupted. The log has the samples
                that were completed before.
        """
        samples: dict[str, Any] = {}

        def sample(trial: Trial) -> Any:
            inspect_sample = sample_of(trial, self.examples, samples)
            samples[inspect_sample.id] = inspect_sample
            return inspect_sample

        def evaluate(chosen: list[Any]) -> list[Mapping[str, float] | Exception]:
            log = self._eval(chosen)
            return [self._outcome(log, inspect_sample.id) for inspect_sample in chosen]

        return if_ready(trials, sample, evaluate)

    def _eval(self, samples: list[Any]) -> Any:
        """Run samples as one eval.

        Raises:
            EvaluatorError: Inspect refused the eval.
            KeyboardInterrupt: the eval was interrupted.
        """
        whole = self.task.dataset
        dataset = import_extra("inspect_ai.dataset", "inspect").MemoryDataset(
            samples, whole.name, whole.location
        )
        # task_with() changes its argument, so that it gets a copy.
        task = self._inspect.task_with(
            copy.copy(self.task), dataset=dataset, **self._changes
        )
        options = (
            self._options
            if self._model is None
            else {**self._options, "model": self._model}
        )
        with _one_eval_at_a_time, failing("Inspect refused the evaluation:"):
            logs = outside_of_loops(
                lambda: self._inspect.eval(task, fail_on_error=False, **options)
            )
        if not logs or logs[0].status == "cancelled":  # Inspect catches Ctrl-C.
            raise KeyboardInterrupt
        return logs[0]

    def _outcome(self, log: Any, id_: str) -> Mapping[str, float] | Exception:
        """The scores of a sample in a log, or the reason why it has none."""
        epochs = [sample for sample in log.samples or () if sample.id == id_]
        if not epochs:
            why = log.error.message if log.error else "it was not run"
            return EvaluatorError(f"Inspect's log has no sample {id_!r}: {why}")
        outcome: Mapping[str, float] | Exception = attempt(
            self._scoring.of_epochs, epochs, log.eval.model
        )
        return outcome


def _model(model: Any) -> Any:
    """Return an Inspect Model, given its name or the Model.

    Raises:
        EvaluatorError: Inspect cannot create the model.
    """
    if not isinstance(model, str):
        return model
    try:
        return import_extra("inspect_ai.model", "inspect").get_model(model)
    except Exception as error:
        raise EvaluatorError(
            f"Inspect cannot create the model {model!r} ({error})"
        ) from error
