"""A selection as an MLflow run."""

import re
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar, final

from asktell.extend import import_extra
from asktell_adapters.tables.spreadsheets import csv_text
from asktell_adapters.tracking.core import Extent, Moment, SelectionKey, Tracker

_NAME, _KEY, _REGISTERED = "asktell.name", "asktell.key", "asktell.registered"
_T = TypeVar("_T")
_BATCH = 1000  # The number of metrics that MLflow allows in a request.
# Characters that some version of MLflow does not allow in a metric's name.
_OTHER = re.compile(r"[^\w\-. /]")


@final
class MLflowTracker(Tracker):
    """Track a selection in an MLflow run: the active run, or else a run that the tracker creates.

    ```python
    with MLflowTracker(name="summaries") as tracker:
        result = asktell.run(selector, evaluator, on_tell=tracker)
    ```

    The run gets:

    - Metrics for each evaluation: `evaluation/METRIC`.
    - Metrics at each update: `best/METRIC` and `progress/...`.
    - Metrics at each decision that eliminated prompts: `decision/...`.
    - Artifacts at the end: `prompts.csv`, `evaluations.csv`, `decisions.csv` and
      `result.json`.

    The step of all metrics is the number of evaluations.

    If every evaluation failed, a run that the tracker created ends as FAILED, and no
    prompt is registered.

    Args:
        experiment: name of the experiment in which the tracker creates a run.
        run_id: id of an existing run to use instead.
        register: name in MLflow's prompt registry, under which the selected prompt is
            registered at the end. With a Pareto set, each of its prompts becomes a
            version. The latest version is the first prompt of the result. None:
            register nothing.
        name: name of the run. If the same selection is continued later, it finds its
            run by this name. By default, the name of the study. A selector has no
            name. So if you track a selector and pass no name, each process starts a new
            run.
        interval: the least number of seconds between two updates. After a slow update,
            the pause is longer.
    """

    def __init__(
        self,
        experiment: str = "asktell",
        *,
        run_id: str | None = None,
        register: str | None = None,
        name: str | None = None,
        interval: float = 5.0,
    ) -> None:
        super().__init__(name=name, interval=interval)
        self._mlflow = import_extra("mlflow", "mlflow")
        self.experiment = experiment
        self.run_id = run_id
        self.register = register
        self._client: Any = None
        # Whether the tracker created the run, and has to end it.
        self._owned = False

    def _open(self, selection: SelectionKey) -> Extent:
        """Find or create the run, and store the selection's identity in it."""
        self._client = self._mlflow.MlflowClient()
        active = self._mlflow.active_run()
        if self.run_id is None and active is not None:
            self.run_id = active.info.run_id
        elif self.run_id is None:
            self.run_id, self._owned = self._own_run(selection), True
        run = self._client.get_run(self.run_id)
        tracked = Extent(
            *(
                int(run.data.metrics.get(f"progress/{name}", 0))
                for name in Extent._fields
            )
        )
        if _KEY not in run.data.tags:
            entities = self._mlflow.entities
            params = [
                entities.Param(f"asktell.{name}", str(value))
                for name, value in selection.settings.items()
            ]
            tags = [
                entities.RunTag(_KEY, selection.key),
                entities.RunTag(_NAME, selection.name or ""),
            ]
            self._client.log_batch(self.run_id, params=params, tags=tags)
        return tracked

    def _own_run(self, selection: SelectionKey) -> str:
        """Return the id of the selection's earlier run, or else of a new run."""
        experiment = self._client.get_experiment_by_name(self.experiment)
        experiment_id = (
            experiment.experiment_id
            if experiment
            else self._client.create_experiment(self.experiment)
        )
        if selection.name is not None:
            for run in self._client.search_runs(
                [experiment_id], f"tags.`{_KEY}` = '{selection.key}'"
            ):
                if run.data.tags.get(_NAME) == selection.name:
                    self._client.update_run(run.info.run_id, status="RUNNING")
                    return str(run.info.run_id)
        created = self._client.create_run(experiment_id, run_name=selection.name)
        return str(created.info.run_id)

    def _write(self, moment: Moment, since: Extent) -> Iterator[Extent]:
        """Write batches that end with their extent.

        MLflow stores a batch as a whole or not at all, so a later process can resume at
        the extent of the last batch.
        """
        metric, now = self._mlflow.entities.Metric, int(1000 * time.time())

        def log(numbers: Iterable[tuple[str, float, int]]) -> None:
            batch = [
                metric(_OTHER.sub("_", name), value, now, step)
                for name, value, step in numbers
            ]
            self._client.log_batch(self.run_id, metrics=batch)

        tracked = since
        per_batch = _BATCH // (1 + len(moment.result.goal.metrics))
        for evaluations in _parts(moment.evaluations(since.evaluations), per_batch):
            tracked = tracked._replace(evaluations=evaluations[-1].number)
            rows = [
                (f"evaluation/{name}", x, n)
                for n, _, _, scores in evaluations
                for name, x in scores.items()
            ]
            log(
                [
                    *rows,
                    ("progress/evaluations", tracked.evaluations, tracked.evaluations),
                ]
            )
            yield tracked
        for decisions in _parts(moment.decisions(since.decisions), _BATCH // 5):
            tracked = tracked._replace(decisions=decisions[-1].number)
            rows = [
                (name, x, decision.evaluations)
                for decision in decisions
                for name, x in decision.numbers().items()
            ]
            log(
                [
                    *rows,
                    (
                        "progress/decisions",
                        tracked.decisions,
                        decisions[-1].evaluations,
                    ),
                ]
            )
            yield tracked
        log(
            (name, value, moment.extent.evaluations)
            for name, value in moment.progress().items()
        )
        yield moment.extent

    def _finish(self, moment: Moment) -> None:
        """Write the tables as artifacts. Register the selected prompts if the selection is done."""
        columns, rows = moment.prompts()
        self._client.log_text(self.run_id, csv_text(columns, rows), "prompts.csv")
        scored = (
            (n, prompt, example, *scores.values())
            for n, prompt, example, scores in moment.evaluations()
        )
        header = ["evaluation", "prompt", "example", *moment.result.goal.metrics]
        self._client.log_text(self.run_id, csv_text(header, scored), "evaluations.csv")
        eliminated = (
            (d.evaluations, d.round, *departure)
            for d in moment.decisions()
            for departure in d.departures
        )
        header = ["evaluations", "round", "prompt", "status", "reason"]
        self._client.log_text(
            self.run_id, csv_text(header, eliminated), "decisions.csv"
        )
        self._client.log_dict(self.run_id, moment.result.to_dict(), "result.json")
        self._client.set_tag(
            self.run_id,
            "asktell.selected",
            ", ".join(str(e.id) for e in moment.result.selected)[:5000],
        )
        if (
            self.register is not None
            and moment.result.done
            and moment.result.selected
            and not moment.all_failed
        ):
            self._register(self.register, moment)

    def _register(self, name: str, moment: Moment) -> None:
        """Register each selected prompt as a version, unless an earlier process has done so for this run."""
        if _REGISTERED in self._client.get_run(self.run_id).data.tags:
            return
        versions = []
        # The best prompt is registered last, so that it is the latest version.
        for entry in reversed(moment.result.selected):
            tags = {"asktell.run": str(self.run_id), "asktell.prompt": str(entry.id)}
            tags |= {
                f"asktell.{metric}": f"{mean:.6g}"
                for metric, mean in entry.estimate.items()
                if mean is not None
            }
            message = f"Selected by asktell: {moment.result.goal}"
            version = self._mlflow.genai.register_prompt(
                name, entry.prompt, commit_message=message, tags=tags
            )
            versions.append(str(version.version))
        self._client.set_tag(self.run_id, _REGISTERED, f"{name} {', '.join(versions)}")

    def _close(self, error: BaseException | None) -> None:
        """End the run with a status, unless the user owns the run."""
        if self._owned:
            status = "FINISHED"
            if error is not None:
                status = "FAILED" if isinstance(error, Exception) else "KILLED"
            self._client.set_terminated(self.run_id, status)


def _parts(items: Iterator[_T], size: int) -> Iterator[list[_T]]:
    """Yield the items in lists of `size`. The last list may be shorter."""
    while part := list(islice(items, max(1, size))):
        yield part
