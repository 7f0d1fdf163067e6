"""Inspect logs: `.eval`, and `.json` with the samples."""

from typing import final

from asktell_adapters.finished.graded import Graded
from asktell_adapters.finished.score_columns import ScoreColumns
from asktell_adapters.finished.scored_candidate import ScoredCandidate
from asktell_adapters.finished.scores import Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.wanted import Wanted
from asktell_adapters.harnesses.inspect.files import HEADERS, read_log
from asktell_adapters.harnesses.inspect.samples import KEY, Scoring
from asktell_adapters.llms.base import CompletionError


@final
class InspectReader:
    """A log is one candidate. In a log that `InspectTask` wrote, each of its prompts is a candidate."""

    name = "Inspect logs"

    def recognizes(self, source: Source) -> bool:
        """Whether an archive has Inspect's header, or a JSON document has an eval with a task and a model."""
        if source.members:
            return not set(HEADERS).isdisjoint(source.members)
        document = source.json
        about = document.get("eval") if isinstance(document, dict) else None
        return isinstance(about, dict) and "task" in about and "model" in about

    def read(self, source: Source, wanted: Wanted) -> Scores:
        """Read the samples of all epochs.

        Raises:
            InvalidArgumentError: the log is damaged, or has no samples.
        """
        log = read_log(source.path)
        model = str(log.eval.get("model"))
        scoring = Scoring()
        evaluations: dict[str | None, list[Graded]] = {}
        texts: dict[str | None, str | None] = {}
        names = (model, str(log.eval.get("task")), source.path.parent.name)
        for sample in log.samples:
            ours = (
                sample.metadata.get(KEY) if isinstance(sample.metadata, dict) else None
            )
            name, example, text = None, str(sample.id), None
            if isinstance(ours, dict) and "prompt_id" in ours:
                name, example = str(ours["prompt_id"]), str(ours.get("example"))
                text = str(ours["prompt"]) if ours.get("prompt") else None
            try:
                graded = Graded(example, scoring.of_epochs([sample], model))
            except CompletionError as error:
                graded = Graded(example, {}, str(error))
            evaluations.setdefault(name, []).append(graded)
            texts.setdefault(name, text)
        return Scores(
            self.name,
            [
                ScoredCandidate(
                    source.path, ScoreColumns.of(rows), name, names, texts[name]
                )
                for name, rows in evaluations.items()
            ],
            "logs" if None in evaluations else "prompts",
            "samples",
            repeats="epochs",
        )
