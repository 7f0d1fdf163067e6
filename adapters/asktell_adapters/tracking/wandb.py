"""A selection as a run of Weights & Biases."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

from asktell.extend import import_extra
from asktell_adapters.tracking.core import Extent, Moment, SelectionKey, Tracker


@final
class WandbTracker(Tracker):
    """Track a selection in a W&B run: the active run, or else a run that the tracker creates.

    ```python
    with WandbTracker("my-project", name="summaries") as tracker:
        result = asktell.run(selector, evaluator, on_tell=tracker)
    ```

    The run gets:

    - Each evaluation: `evaluation/METRIC`, `evaluation/prompt` and
      `evaluation/example`.
    - Each update: `best/METRIC` and `progress/...`.
    - Each decision that eliminated prompts: `decision/...`.
    - At the end: the tables `prompts` and `decisions`, the selected prompts in the
      summary, and the whole result in `result.json`.

    The X axis of all charts is `progress/evaluations`. A small file in W&B's folder
    stores how many evaluations and decisions are in the run. So a later process can
    continue the run, even offline.

    Args:
        project: project in which the tracker creates a run. By default, W&B chooses it.
        run: an existing run to use instead.
        mode: "online", "offline" or "disabled". By default, W&B chooses it.
        settings: further arguments of `wandb.init`.
        name: name of the run. If the same selection is continued later, it finds its
            run by this name. By default, the name of the study. A selector has no
            name. So if you track a selector and pass no name, each process starts a new
            run.
        interval: the least number of seconds between two updates. After a slow update,
            the pause is longer.
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
        # The file with the extent of the run.
        self._progress: Path | None = None

    def _open(self, selection: SelectionKey) -> Extent:
        """Find or start the run. The larger of two extents counts.

        The summary of a run is not available offline. The file next to the runs is.
        """
        if self.run is None:
            self.run = self._wandb.run
        if self.run is None:
            self.run, self._owned = self._own_run(selection), True
        self.run.define_metric("progress/evaluations")
        for group in ("evaluation", "best", "progress", "decision"):
            self.run.define_metric(f"{group}/*", step_metric="progress/evaluations")
        self.run.config.update({"asktell": selection.settings}, allow_val_change=True)
        if not self.run.disabled:
            # Next to the folders of the runs, because a resumed run gets a new folder.
            self._progress = (
                Path(self.run.dir).parents[1] / f"asktell-{self.run.id}.json"
            )
        extents = [
            Extent(),
            Extent(
                *(
                    int(self.run.summary.get(f"progress/{name}") or 0)
                    for name in Extent._fields
                )
            ),
        ]
        if self._progress is not None and self._progress.exists():
            extents.append(Extent(*json.loads(self._progress.read_text())))
        return max(extents)

    def _own_run(self, selection: SelectionKey) -> Any:
        """Resume the selection's earlier run, or else start a new run."""
        options = {
            "project": self.project,
            "mode": self.mode,
            "name": selection.name,
            **self.settings,
        }
        if selection.name is not None:
            id_ = hashlib.sha256(
                f"{selection.name}\n{selection.key}".encode()
            ).hexdigest()[:16]
            # The id follows from name and content, so a later process finds the run
            # without asking a server.
            options = {"id": id_, "resume": "allow", **options}
        return self._wandb.init(**options)

    def _write(self, moment: Moment, since: Extent) -> Iterator[Extent]:
        """Log evaluations, decisions and the progress, and store the extent."""
        for number, prompt, example, scores in moment.evaluations(since.evaluations):
            row: dict[str, Any] = {
                f"evaluation/{name}": score for name, score in scores.items()
            }
            row |= {"evaluation/prompt": str(prompt), "progress/evaluations": number}
            self.run.log(
                row if example is None else {**row, "evaluation/example": example}
            )
        for decision in moment.decisions(since.decisions):
            self.run.log(
                {**decision.numbers(), "progress/evaluations": decision.evaluations}
            )
        self.run.log(moment.progress())
        if self._progress is not None:
            self._progress.write_text(json.dumps(moment.extent))
        yield moment.extent

    def _finish(self, moment: Moment) -> None:
        """Log the tables, and save the result as a file."""
        columns, rows = moment.prompts()
        eliminated = [
            [d.evaluations, d.round, *map(str, entry)]
            for d in moment.decisions()
            for entry in d.departures
        ]
        header = ["evaluations", "round", "prompt", "status", "reason"]
        prompts = self._wandb.Table(columns=columns, data=rows)
        decisions = self._wandb.Table(columns=header, data=eliminated)
        self.run.log({"prompts": prompts, "decisions": decisions, **moment.progress()})
        selected = [
            {"id": str(e.id), "prompt": e.prompt, **e.estimate}
            for e in moment.result.selected
        ]
        self.run.summary.update({"selected": selected, "done": moment.result.done})
        path = Path(self.run.dir) / "result.json"
        path.write_text(json.dumps(moment.result.to_dict()))
        self.run.save(str(path), base_path=self.run.dir, policy="end")

    def _close(self, error: BaseException | None) -> None:
        """Finish the run, unless the user owns it."""
        if self._owned:
            self.run.finish(exit_code=0 if error is None else 1)
            self.run = None
