"""Evaluation tables of MLflow: the artifact `eval_results_table.json`, and the result of `mlflow.genai.evaluate`.

Checked against the source of mlflow/mlflow (`models/evaluation`), its documentation, code in public repositories that
reads these tables, and the table of Wongyenchik/finetune-mlx-math-model.
"""

import re
from typing import final

from asktell_adapters.finished.evidence import Evidence
from asktell_adapters.finished.known_table import header_of, known_table
from asktell_adapters.finished.scores import Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.wanted import Wanted

_SCORE = re.compile(r".+/score|.+/value")
_VERSIONED = re.compile(r".+/v\d+/(score|justification)")
# Metrics whose columns have no ending
_OTHERS = ("latency", "token_count", "execution_duration")
# The usual columns of inputs
_EXAMPLES = ("inputs", "input", "question", "query", "request", "prompt", "text")
_NO_EXAMPLES = re.compile(
    r"outputs?|predictions?|targets?|ground_truth|labels?|responses?|context|run_id|trace.*|state|.*/.*"
)


@final
class MlflowReader:
    """A table is one candidate. The table of several runs has a column `run_id`, and each run is a candidate."""

    name = "evaluation tables of MLflow"

    def recognizes(self, source: Source) -> bool:
        """Whether a column is a metric with its version, or there are values of scorers beside ids of traces."""
        names = header_of(source)
        if any(map(_VERSIONED.fullmatch, names)):
            return True
        # A metric of one's own has no version
        is_artifact = isinstance(source.json, dict) and "data" in source.json
        return (is_artifact and any(name.endswith("/score") for name in names)) or (
            "trace_id" in names and any(name.endswith("/value") for name in names)
        )

    def read(self, source: Source, wanted: Wanted) -> Scores:
        """Read the scores of all metrics.

        Raises:
            InvalidArgumentError: the table is damaged, or has no scores.
            UnclearResultsError: inputs repeat, and nothing says why.
        """
        inputs = [
            name for name in header_of(source) if not _NO_EXAMPLES.fullmatch(name)
        ]
        return known_table(
            source, wanted, self.name, _is_metric, (*_EXAMPLES, *inputs), "run_id"
        )


def _is_metric(evidence: Evidence, name: str) -> bool:
    return name in _OTHERS or _SCORE.fullmatch(name) is not None
