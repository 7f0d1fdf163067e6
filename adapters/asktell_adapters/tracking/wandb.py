"""A selection as a run of Weights & Biases."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

from asktell.extend import import_extra
from asktell_adapters.tracking.core import Extent, Selection, Tracker, View


@final
class WandbTracker(Tracker):
    """Tracks into a W&B run: the active one if there is one, or one of its own.

    Each evaluation is logged with `evaluation/METRIC`, `evaluation/prompt` and `evaluation/example`; `best/METRIC` and
    `progress/...` now and then; `decision/...` when prompts leave. Their x-axis is `progress/evaluations`. In the end
    come the tables `prompts` and `decisions`, and the answer in the summary and, whole, in `result.json`.

    How far a run of its own has come is kept in a small file in W&B's folder, so that a later process goes on with it,
    offline too.

    Args:
        project: of a run of its own; by default W&B's.
        run: a run to track into.
        mode: "online", "offline" or "disabled"; by default W&B's.
        settings: further arguments of `wandb.init`.
        name: see `Tracker`.
        interval: see `Tracker`.
    """

    def __init__(
        self,
        project: str | None = None,
        *,
        run: Any = None,
        mode: str | None = None,
        settings: dict[str, Any] | None = None,
        name: str | None = None,
        interval: float = 5.0,
    ) -> None:
        super().__init__(name=name, interval=interval)
        self._wandb = import_extra("wandb", "wandb")
        self.project = project
        self.run = run
        self.mode = mode
        self.settings = dict(settings or {})
        self._owned = False
        self._progress: Path | None = None  # the file

    def _open(self, selection: Selection) -> Extent:
        if self.run is None:
            self.run = self._wandb.run
        if self.run is None:
            self.run, self._owned = self._own_run(selection), True
        self.run.define_metric("progress/evaluations")
        for group in ("evaluation", "best", "progress", "decision"):
            self.run.define_metric(f"{group}/*", step_metric="progress/evaluations")
        self.run.config.update({"asktell": selection.settings}, allow_val_change=True)
        if not self.run.disabled:
            self._progress = Path(self.run.dir).parents[1] / f"asktell-{self.run.id}.json"  # beside the runs' folders
        known = [Extent(), Extent(*(int(self.run.summary.get(f"progress/{name}") or 0) for name in Extent._fields))]
        if self._progress is not None and self._progress.exists():
            known.append(Extent(*json.loads(self._progress.read_text())))
        return max(known)

    def _own_run(self, selection: Selection) -> Any:
        options = {"project": self.project, "mode": self.mode, "name": selection.name, **self.settings}
        if selection.name is not None:
            id_ = hashlib.sha256(f"{selection.name}\n{selection.key}".encode()).hexdigest()[:16]
            options = {"id": id_, "resume": "allow", **options}
        return self._wandb.init(**options)

    def _write(self, view: View, since: Extent) -> Iterator[Extent]:
        for number, prompt, example, scores in view.evaluations(since.evaluations):
            row: dict[str, Any] = {f"evaluation/{name}": score for name, score in scores.items()}
            row |= {"evaluation/prompt": str(prompt), "progress/evaluations": number}
            self.run.log(row if example is None else {**row, "evaluation/example": example})
        for decision in view.decisions(since.decisions):
            self.run.log({**decision.numbers(), "progress/evaluations": decision.evaluations})
        self.run.log(view.progress())
        if self._progress is not None:
            self._progress.write_text(json.dumps(view.extent))
        yield view.extent

    def _finish(self, view: View) -> None:
        columns, rows = view.prompts()
        left = [[d.evaluations, d.round, *map(str, entry)] for d in view.decisions() for entry in d.departures]
        self.run.log(
            {
                "prompts": self._wandb.Table(columns=columns, data=rows),
                "decisions": self._wandb.Table(
                    columns=["evaluations", "round", "prompt", "status", "reason"], data=left
                ),
                **view.progress(),
            }
        )
        answer = [{"id": str(e.id), "prompt": e.prompt, **e.estimate} for e in view.result.selected]
        self.run.summary.update({"selected": answer, "done": view.result.done})
        path = Path(self.run.dir) / "result.json"
        path.write_text(json.dumps(view.result.to_dict()))
        self.run.save(str(path), base_path=self.run.dir, policy="end")

    def _close(self, error: BaseException | None) -> None:
        if self._owned:
            self.run.finish(exit_code=0 if error is None else 1)
            self.run = None
