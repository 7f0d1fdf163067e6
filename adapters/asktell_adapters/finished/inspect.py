"""Inspect logs: `.eval`, and `.json` with the samples."""

import math
from collections.abc import Sequence
from typing import Any, final

from asktell.extend import some
from asktell_adapters.finished.graded import Graded
from asktell_adapters.finished.inspect_files import HEADERS, LogFile, read_log
from asktell_adapters.finished.score_columns import ScoreColumns
from asktell_adapters.finished.scored_candidate import ScoredCandidate
from asktell_adapters.finished.scores import Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.wanted import Wanted
from asktell_adapters.harnesses.inspect.samples import (
    KEY,
    Scoring,
    numbers,
    value_to_float,
)
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
        words = _words_without_number(log.samples)
        scoring = Scoring(
            lambda value: (
                0.0
                if isinstance(value, str) and value in words
                else value_to_float(value)
            )
        )
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
            if sample.scores:
                # Inspect counts the scores of such samples, too
                sample.error = None
                if not wanted.drop_limited:
                    sample.limit = None
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
            notes=_notes(source, log, words, wanted),
        )


def _words_without_number(samples: Sequence[Any]) -> set[str]:
    """The values of scores that Inspect counts as 0, because they stand for no number: the grades A, B, D and F.

    The values of a scorer that never gives a number are left out, since they are no scores.
    """
    numbered: set[str] = set()
    words: dict[str, set[str]] = {}
    for sample in samples:
        for scorer, value in numbers(sample.scores or {}, lambda value: value).items():
            if not math.isnan(value_to_float(value)):
                numbered.add(scorer)
            elif isinstance(value, str):
                words.setdefault(scorer, set()).add(value)
    return {word for scorer in numbered for word in words.get(scorer, ())}


def _notes(source: Source, log: LogFile, words: set[str], wanted: Wanted) -> list[str]:
    """Sentences about limits, words and reducers."""
    name = source.path.name
    notes = []
    limited = sum(sample.limited and bool(sample.scores) for sample in log.samples)
    if limited:
        counted = (
            "They count as failures, because of --limited drop."
            if wanted.drop_limited
            else "Their scores count, as in Inspect. To count failures instead, pass --limited drop."
        )
        notes.append(
            f"{name}: {limited:,} of {len(log.samples):,} samples reached a limit. {counted}"
        )
    if words:
        notes.append(
            f"{name}: Inspect has no number for the values {some(sorted(words))}, and counts them as 0. It counts "
            "'C' as 1, which means correct."
        )
    reducers = (log.eval.get("config") or {}).get("epochs_reducer") or ["mean"]
    if reducers != ["mean"]:
        notes.append(
            f"{name}: The log reduces epochs by {' and '.join(map(str, reducers))}, but asktell averages them."
        )
    return notes
