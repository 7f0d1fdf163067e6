"""Phoenix (Arize): an evaluator for `asktell.run`, with one experiment per prompt."""

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, final

from asktell import EvaluatorError
from asktell.extend import in_words, needs_extra
from asktell_adapters._util.scores import checked_example, number

with needs_extra("phoenix"):
    from phoenix.client.experiments import create_evaluator

_SHOWN = 60  # characters of a prompt in the name of its experiment


@final
class PhoenixExperiments:
    """Evaluate prompts on examples of a Phoenix dataset, for `asktell.run`.

    In Phoenix, each prompt has one experiment. An evaluation of the prompt on an
    example is a *run* of this experiment, and its scores are the *evaluations* of
    the run. A restarted process with the same `name` uses the same experiments. In
    contrast, Phoenix's own `run_experiment` creates a new experiment at each call, and
    runs every example.

    Several threads may use the object at the same time, so you can pass an executor to
    `asktell.run`.

    Args:
        client: a `phoenix.client.Client`.
        dataset: the dataset, as `client.datasets.get_dataset(...)` returns it.
        task: `task(prompt, example)` returns the output as JSON data. The example is
            a mapping with the fields of Phoenix, such as `example["input"]`.
        evaluators: functions that score an output, as for `run_experiment`. Their
            arguments are any of `output`, `expected`, `input` and `metadata`. Pass a
            list, or a mapping from names to functions. Each score that they return is a
            score of the evaluation, under its name. Labels without a score are ignored.
        name: name of the selection. The experiment of a prompt is called "name:
            prompt", with the first 60 characters of the prompt.

    Attributes:
        examples: the examples of the dataset, for `Selector(examples=len(...))`.
    """

    def __init__(
        self,
        client: Any,
        dataset: Any,
        task: Callable[[str, Any], Any],
        evaluators: Mapping[str, Any] | Sequence[Any],
        *,
        name: str = "asktell",
    ) -> None:
        named = (
            evaluators.items()
            if isinstance(evaluators, Mapping)
            else [(None, evaluator) for evaluator in evaluators]
        )
        self._evaluators = [
            create_evaluator(name=name_of)(function) for name_of, function in named
        ]
        self._experiments = client.experiments
        self._dataset = dataset
        self._task = task
        self._name = name
        self.examples = dataset.examples
        self._lock = threading.Lock()
        # Ids of the experiments, by prompt.
        self._ids: dict[str, str] = {}
        for experiment in self._experiments.list(dataset_id=dataset.id):
            about = experiment.get("metadata") or {}
            if (
                about.get("selection") == name
                and experiment["dataset_version_id"] == dataset.version_id
            ):
                self._ids[about["prompt"]] = experiment["id"]

    def __call__(
        self, prompt: str, example: int | None, repeat: int = 0
    ) -> dict[str, float]:
        """Run the task on the example and score its output.

        If the task or an evaluator raises an exception, the run in Phoenix shows it,
        too. `repeat` counts from 0.

        Raises:
            EvaluatorError: the task or an evaluator failed, or a score is not a finite
                number.
        """
        row = self.examples[checked_example(example, len(self.examples))]
        output, failure, start = None, None, datetime.now(UTC)
        try:
            output = self._task(prompt, row)
        except Exception as error:
            failure = error
        run = self._log_run(prompt, row["id"], repeat, output, start, failure)
        if failure is not None:
            raise EvaluatorError(f"the task raised {in_words(failure)}") from failure
        scores: dict[str, float] = {}
        for evaluator in self._evaluators:
            for name, evaluation in self._evaluate(evaluator, output, row, run):
                if evaluation.get("score") is not None:
                    scores[name] = number(name, evaluation["score"])
        return scores

    def _evaluate(
        self, evaluator: Any, output: Any, row: Any, run: str | None
    ) -> list[tuple[str, Mapping[str, Any]]]:
        """Return the evaluations of one evaluator, by name, and log them if there is a run to log them for."""
        about = {
            "input": row["input"],
            "expected": row["output"],
            "reference": row["output"],
        }
        start = datetime.now(UTC)
        about |= {"metadata": row["metadata"], "example": row}
        failure: Exception | None = None
        try:
            returned = evaluator.evaluate(output=output, **about)
            evaluations = returned if isinstance(returned, list) else [returned]
            named = [
                (evaluation.get("name") or evaluator.name, evaluation)
                for evaluation in evaluations
            ]
        except Exception as error:
            failure, named = error, [(evaluator.name, {"error": in_words(error)})]
        for name, evaluation in named if run is not None else ():
            fields = {
                key: evaluation[key]
                for key in ("score", "label", "explanation", "error")
                if evaluation.get(key) is not None
            }
            self._experiments.log_evaluation(
                experiment_run_id=run,
                name=name,
                annotator_kind=evaluator.kind,
                start_time=start,
                **fields,
            )
        if failure is not None:
            raise EvaluatorError(
                f"the evaluator {evaluator.name!r} raised {in_words(failure)}"
            ) from failure
        return named

    def _log_run(
        self,
        prompt: str,
        example: str,
        repeat: int,
        output: Any,
        start: datetime,
        failure: Exception | None,
    ) -> str | None:
        """Log the run and return its id.

        None if Phoenix has the run already, which happens if a crash lost its scores on
        this side.
        """
        try:
            run = self._experiments.log_run(
                experiment_id=self._experiment(prompt),
                dataset_example_id=example,
                output=output,
                start_time=start,
                end_time=datetime.now(UTC),
                repetition_number=repeat + 1,
                error=None if failure is None else in_words(failure),
            )
        except Exception as error:
            # Conflict: it exists.
            if getattr(getattr(error, "response", None), "status_code", None) == 409:
                return None
            raise
        return str(run["id"])

    def _experiment(self, prompt: str) -> str:
        """Return the id of the prompt's experiment, which is created at its first evaluation."""
        with self._lock:
            if prompt not in self._ids:
                created = self._experiments.create(
                    dataset_id=self._dataset.id,
                    dataset_version_id=self._dataset.version_id,
                    experiment_name=f"{self._name}: {prompt[:_SHOWN]}",
                    experiment_metadata={"selection": self._name, "prompt": prompt},
                    # asktell.run repeats a few evaluations once.
                    repetitions=2,
                )
                self._ids[prompt] = created["id"]
            return self._ids[prompt]
