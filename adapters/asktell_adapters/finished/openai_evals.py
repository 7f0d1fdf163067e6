"""Logs of OpenAI Evals, which `oaieval` writes: a spec, events of samples, and a final report.

Checked against the source of openai/evals (`record.py`, `elsuite`) and a log of "test-match" that is public.
"""

from collections.abc import Mapping
from typing import Any, final

from asktell import InvalidArgumentError
from asktell_adapters.finished.graded import Graded
from asktell_adapters.finished.score_columns import ScoreColumns
from asktell_adapters.finished.scored_candidate import ScoredCandidate
from asktell_adapters.finished.scores import Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.wanted import Wanted

_SCORED = ("match", "metrics")
# Logs of the first versions have the names of models instead of those of functions
_SPEC = {"completion_fns", "model_name", "model_names", "eval_name", "base_eval"}


@final
class OpenAIEvalsReader:
    """A log is one candidate. The report is left out, since it has means only."""

    name = "logs of OpenAI Evals"

    def recognizes(self, source: Source) -> bool:
        """Whether the first line has the spec of a run, and others have events of samples, or the report."""
        rows = source.records
        spec = rows[0].get("spec") if len(rows) > 1 else None
        return (
            isinstance(spec, dict)
            and not _SPEC.isdisjoint(spec)
            and any(_is_event(row) or "final_report" in row for row in rows)
        )

    def read(self, source: Source, wanted: Wanted) -> Scores:
        """Read the matches and the metrics of all samples.

        Raises:
            InvalidArgumentError: an event with scores is damaged.
        """
        spec = source.records[0]["spec"]
        samples: dict[str, list[dict[str, object]]] = {}
        errors: dict[str, str] = {}
        for row in filter(_is_event, source.records):
            sample, kind, data = str(row["sample_id"]), row["type"], row.get("data")
            scores = samples.setdefault(sample, [])
            if kind == "error":
                errors[sample] = _reason(data)
            if kind not in _SCORED:
                continue
            if not isinstance(data, dict):
                raise InvalidArgumentError(
                    f"{source.path}: The event {row.get('event_id')!r} of the sample {sample!r} has the data {data!r}, "
                    "but scores were expected. Run the evaluation again."
                )
            values = {"correct": data.get("correct")} if "correct" in data else data
            # The metrics of a sample may come in several events, but a name that recurs is of another attempt.
            if not scores or not values.keys().isdisjoint(scores[-1]):
                scores.append({})
            scores[-1].update(values)
        graded = [
            Graded.of(sample, values, None if values else errors.get(sample))
            for sample, attempts in samples.items()
            for values in attempts or [{}]
        ]
        models = (
            spec.get("completion_fns")
            or (spec.get("model_names") or {}).get("completions")
            or [spec.get("model_name") or source.path.stem]
        )
        return Scores(
            self.name,
            [
                ScoredCandidate(
                    source.path,
                    ScoreColumns.of(graded),
                    names=("+".join(map(str, models)),),
                )
            ],
            "log" if wanted.is_alone else "logs",
            "samples",
            repeats="several events of a sample",
            left_out=["final_report"]
            * any("final_report" in row for row in source.records),
        )


def _is_event(row: Mapping[str, Any]) -> bool:
    return isinstance(row.get("sample_id"), str | int) and isinstance(
        row.get("type"), str
    )


def _reason(data: object) -> str:
    """The reason of a failure, from the data of an event."""
    if not isinstance(data, dict):
        return str(data)
    parts = [str(data[name]) for name in ("type", "message") if data.get(name)]
    return ": ".join(parts) or "error"
