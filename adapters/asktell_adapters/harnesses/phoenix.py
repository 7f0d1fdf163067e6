"""Phoenix (Arize): chosen examples of a data set, as runs of one experiment for each prompt."""

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, final

from asktell import EvaluatorError
from asktell.extend import in_words, needs_extra
from asktell_adapters._scores import checked_example, number

with needs_extra("phoenix"):
    from phoenix.client.experiments import create_evaluator

_SHOWN = 60  # characters of a prompt in the name of its experiment


@final
class PhoenixExperiments:
    """Evaluates prompts on examples of a Phoenix data set: for `asktell.run`, over threads if it is given an executor.

    Phoenix's own `run_experiment` runs every example in an experiment that is always new. Here each prompt has one
    experiment, found again after a restart, in which the examples that were chosen are runs, with their evaluations.

    Args:
        client: a `phoenix.client.Client`.
        dataset: `client.datasets.get_dataset(...)`.
        task: `task(prompt, example)` -> the output, JSON data. The example is Phoenix's: `example["input"]`, ...
        evaluators: as for `run_experiment`: functions of `output`, `expected`, `input`, `metadata`, by name or in a
            list. Their scores are the metrics, under their names; labels alone are none.
        name: of the selection; experiments are called "name: prompt".

    Attributes:
        examples: the data set's, for `Selector(examples=len(...))`.
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
        named = evaluators.items() if isinstance(evaluators, Mapping) else [(None, each) for each in evaluators]
        self._evaluators = [create_evaluator(name=each)(function) for each, function in named]
        self._experiments, self._dataset, self._task, self._name = client.experiments, dataset, task, name
        self.examples = dataset.examples
        self._lock = threading.Lock()
        self._ids: dict[str, str] = {}  # of the experiments, by prompt
        for experiment in self._experiments.list(dataset_id=dataset.id):
            about = experiment.get("metadata") or {}
            if about.get("selection") == name and experiment["dataset_version_id"] == dataset.version_id:
                self._ids[about["prompt"]] = experiment["id"]

    def __call__(self, prompt: str, example: int | None, repeat: int = 0) -> dict[str, float]:
        """Run the task on the example, and score its output; if one raises, the run in Phoenix says so, too."""
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
            for name, said in self._evaluate(evaluator, output, row, run):
                if said.get("score") is not None:
                    scores[name] = number(name, said["score"])
        return scores

    def _evaluate(self, evaluator: Any, output: Any, row: Any, run: str | None) -> list[tuple[str, Mapping[str, Any]]]:
        """What an evaluator says, by name; logged, if the run is."""
        about = {"input": row["input"], "expected": row["output"], "reference": row["output"]}
        start = datetime.now(UTC)
        about |= {"metadata": row["metadata"], "example": row}
        failure: Exception | None = None
        try:
            said = evaluator.evaluate(output=output, **about)
            found = [
                (each.get("name") or evaluator.name, each) for each in (said if isinstance(said, list) else [said])
            ]
        except Exception as error:
            failure, found = error, [(evaluator.name, {"error": in_words(error)})]
        for name, each in found if run is not None else ():
            kept = {key: each[key] for key in ("score", "label", "explanation", "error") if each.get(key) is not None}
            self._experiments.log_evaluation(
                experiment_run_id=run, name=name, annotator_kind=evaluator.kind, start_time=start, **kept
            )
        if failure is not None:
            raise EvaluatorError(f"the evaluator {evaluator.name!r} raised {in_words(failure)}") from failure
        return found

    def _log_run(
        self, prompt: str, example: str, repeat: int, output: Any, start: datetime, failure: Exception | None
    ) -> str | None:
        """The id of the run; None if there is one already, of an evaluation that a crash has lost here."""
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
            if getattr(getattr(error, "response", None), "status_code", None) == 409:
                return None
            raise
        return str(run["id"])

    def _experiment(self, prompt: str) -> str:
        with self._lock:
            if prompt not in self._ids:
                made = self._experiments.create(
                    dataset_id=self._dataset.id,
                    dataset_version_id=self._dataset.version_id,
                    experiment_name=f"{self._name}: {prompt[:_SHOWN]}",
                    experiment_metadata={"selection": self._name, "prompt": prompt},
                    repetitions=2,  # a run repeats a few
                )
                self._ids[prompt] = made["id"]
            return self._ids[prompt]
