"""A selection as an MLflow run."""

import csv
import io
import re
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar, final

from asktell.extend import import_extra
from asktell_adapters.tracking.core import Extent, Selection, Tracker, View

_NAME, _KEY, _REGISTERED = "asktell.name", "asktell.key", "asktell.registered"
_T = TypeVar("_T")
_BATCH = 1000  # metrics in a request; MLflow takes no more
_OTHER = re.compile(r"[^\w\-. /]")  # than what a metric's name may have in every version


@final
class MLflowTracker(Tracker):
    """Tracks into an MLflow run: the active one if there is one, or one of its own.

    Metrics are `evaluation/METRIC` at each evaluation, `best/METRIC` and `progress/...` at each look, and
    `decision/...` at each decision in which prompts left; all have the number of evaluations as step. Artifacts are
    `prompts.csv`, `evaluations.csv`, `decisions.csv` and `result.json`. A run of its own in which every evaluation
    failed ends as FAILED, and registers nothing.

    Args:
        experiment: name of the experiment of a run of its own.
        run_id: a run to track into.
        register: name in MLflow's prompt registry, under which the selected prompt is registered in the end; of a
            Pareto set every prompt, the best last.
        name: see `Tracker`.
        interval: see `Tracker`.
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
        self._owned = False  # whether the run is ended with the tracker

    def _open(self, selection: Selection) -> Extent:
        self._client = self._mlflow.MlflowClient()
        active = self._mlflow.active_run()
        if self.run_id is None and active is not None:
            self.run_id = active.info.run_id
        elif self.run_id is None:
            self.run_id, self._owned = self._own_run(selection), True
        run = self._client.get_run(self.run_id)
        tracked = Extent(*(int(run.data.metrics.get(f"progress/{name}", 0)) for name in Extent._fields))
        if _KEY not in run.data.tags:
            entities = self._mlflow.entities
            params = [entities.Param(f"asktell.{name}", str(value)) for name, value in selection.settings.items()]
            tags = [entities.RunTag(_KEY, selection.key), entities.RunTag(_NAME, selection.name or "")]
            self._client.log_batch(self.run_id, params=params, tags=tags)
        return tracked

    def _own_run(self, selection: Selection) -> str:
        found = self._client.get_experiment_by_name(self.experiment)
        experiment_id = found.experiment_id if found else self._client.create_experiment(self.experiment)
        if selection.name is not None:
            for run in self._client.search_runs([experiment_id], f"tags.`{_KEY}` = '{selection.key}'"):
                if run.data.tags.get(_NAME) == selection.name:
                    self._client.update_run(run.info.run_id, status="RUNNING")
                    return str(run.info.run_id)
        made = self._client.create_run(experiment_id, run_name=selection.name)
        return str(made.info.run_id)

    def _write(self, view: View, since: Extent) -> Iterator[Extent]:
        """In batches that end with how far they come: MLflow takes a batch whole, so a later process goes on there."""
        metric, now = self._mlflow.entities.Metric, int(1000 * time.time())

        def log(numbers: Iterable[tuple[str, float, int]]) -> None:
            batch = [metric(_OTHER.sub("_", name), value, now, step) for name, value, step in numbers]
            self._client.log_batch(self.run_id, metrics=batch)

        tracked = since
        for evaluations in _parts(view.evaluations(since.evaluations), _BATCH // (1 + len(view.result.goal.metrics))):
            tracked = tracked._replace(evaluations=evaluations[-1].number)
            rows = [(f"evaluation/{name}", x, n) for n, _, _, scores in evaluations for name, x in scores.items()]
            log([*rows, ("progress/evaluations", tracked.evaluations, tracked.evaluations)])
            yield tracked
        for decisions in _parts(view.decisions(since.decisions), _BATCH // 5):
            tracked = tracked._replace(decisions=decisions[-1].number)
            left = [(name, x, decision.evaluations) for decision in decisions for name, x in decision.numbers().items()]
            log([*left, ("progress/decisions", tracked.decisions, decisions[-1].evaluations)])
            yield tracked
        log((name, value, view.extent.evaluations) for name, value in view.progress().items())
        yield view.extent

    def _finish(self, view: View) -> None:
        columns, rows = view.prompts()
        self._client.log_text(self.run_id, _csv(columns, rows), "prompts.csv")
        scored = ((n, prompt, example, *scores.values()) for n, prompt, example, scores in view.evaluations())
        header = ["evaluation", "prompt", "example", *view.result.goal.metrics]
        self._client.log_text(self.run_id, _csv(header, scored), "evaluations.csv")
        left = ((d.evaluations, d.round, *departure) for d in view.decisions() for departure in d.departures)
        header = ["evaluations", "round", "prompt", "status", "reason"]
        self._client.log_text(self.run_id, _csv(header, left), "decisions.csv")
        self._client.log_dict(self.run_id, view.result.to_dict(), "result.json")
        self._client.set_tag(self.run_id, "asktell.selected", ", ".join(str(e.id) for e in view.result.selected)[:5000])
        if self.register is not None and view.result.done and view.result.selected and not view.all_failed:
            self._register(self.register, view)

    def _register(self, name: str, view: View) -> None:
        """The selected prompts as versions, once."""
        if _REGISTERED in self._client.get_run(self.run_id).data.tags:
            return
        versions = []
        for entry in reversed(view.result.selected):
            tags = {"asktell.run": str(self.run_id), "asktell.prompt": str(entry.id)}
            tags |= {f"asktell.{metric}": f"{mean:.6g}" for metric, mean in entry.estimate.items() if mean is not None}
            message = f"Selected by asktell: {view.result.goal}"
            made = self._mlflow.genai.register_prompt(name, entry.prompt, commit_message=message, tags=tags)
            versions.append(str(made.version))
        self._client.set_tag(self.run_id, _REGISTERED, f"{name} {', '.join(versions)}")

    def _close(self, error: BaseException | None) -> None:
        if self._owned:
            status = "FINISHED" if error is None else "FAILED" if isinstance(error, Exception) else "KILLED"
            self._client.set_terminated(self.run_id, status)


def _parts(items: Iterator[_T], size: int) -> Iterator[list[_T]]:
    while part := list(islice(items, max(1, size))):
        yield part


def _csv(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()
