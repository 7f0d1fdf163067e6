"""Langfuse: an evaluator for `asktell.run`. It evaluates prompts on dataset items, with one experiment per prompt."""

import json
from collections.abc import Callable, Sequence
from typing import Any, final

from asktell import EvaluatorError
from asktell.extend import in_words
from asktell_adapters._util.scores import checked_example, number

_SHOWN = 60  # characters of a prompt in the name of its experiment


@final
class LangfuseExperiments:
    """Evaluate prompts on items with `langfuse.run_experiment`, for `asktell.run`.

    In Langfuse, all evaluations of a prompt belong to one experiment. Other workers and
    restarted processes use the same experiments if they have the same `name`.

    Several threads may use the object at the same time, so you can pass an executor to
    `asktell.run`.

    Args:
        langfuse: a `langfuse.Langfuse` client, version 5.0 or newer.
        data: the items to evaluate prompts on: `langfuse.get_dataset(...).items`, or
            mappings with `input`, `expected_output` and `metadata`.
        task: `task(prompt, item)` returns the output for an item. It may be async. It
            gets the item as it is in `data`: read `item.input` of a dataset item, and
            `item["input"]` of a mapping.
        evaluators: functions that score an output, as for `run_experiment`. Each number
            or boolean that they return is a score, under its name. Texts are ignored.
        name: name of the selection. The experiment of a prompt is called "name:
            prompt", with the first 60 characters of the prompt.
        options: further arguments of `run_experiment`, such as `composite_evaluator` or
            `metadata`.

    Attributes:
        examples: the items, for `Selector(examples=len(...))`.
    """

    def __init__(
        self,
        langfuse: Any,
        data: Sequence[Any],
        task: Callable[[str, Any], Any],
        evaluators: Sequence[Callable[..., Any]],
        *,
        name: str = "asktell",
        **options: Any,
    ) -> None:
        self.examples = list(data)
        self._langfuse, self._task, self._evaluators = langfuse, task, list(evaluators)
        self._name, self._options = name, options

    def __call__(self, prompt: str, example: int | None) -> dict[str, float]:
        """Run the task on the item and score its output.

        If the task raises an exception, the trace in Langfuse shows it, too.

        Raises:
            EvaluatorError: the task failed, or an evaluator returned no finite number.
        """
        row = self.examples[checked_example(example, len(self.examples))]
        failures: list[Exception] = []

        async def task(*, item: Any, **_: Any) -> Any:
            try:
                output = self._task(prompt, item)
                return await output if hasattr(output, "__await__") else output
            except Exception as error:
                failures.append(error)
                raise

        experiment = self._langfuse.run_experiment(
            name=self._name,
            run_name=f"{self._name}: {prompt[:_SHOWN]}",
            experiment_id=self._langfuse.create_trace_id(
                seed=json.dumps([self._name, prompt])
            ),
            data=[row],
            task=task,
            evaluators=self._evaluators,
            **{
                **self._options,
                "metadata": {**(self._options.get("metadata") or {}), "prompt": prompt},
            },
        )
        if not experiment.item_results:
            # Langfuse logs the exception instead of raising it.
            failure = failures[0] if failures else None
            reason = (
                "Langfuse ran no task"
                if failure is None
                else f"the task raised {in_words(failure)}"
            )
            raise EvaluatorError(reason) from failure
        evaluations = [
            evaluation
            for evaluation in experiment.item_results[0].evaluations
            if not isinstance(evaluation.value, str)
        ]
        return {
            evaluation.name: number(evaluation.name, evaluation.value)
            for evaluation in evaluations
        }
