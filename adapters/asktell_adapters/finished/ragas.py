"""Tables of Ragas: `result.to_pandas()`, saved as CSV, JSON, Parquet or a spreadsheet.

Checked against the source of the package ragas, version 0.4.3 (`dataset_schema.py`), code in public repositories for
the old names of columns, and the table of tiagorcfortunato/rag-pdf-chatbot.
"""

from typing import final

from asktell_adapters.finished.evidence import Evidence
from asktell_adapters.finished.known_table import header_of, known_table
from asktell_adapters.finished.scores import Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.wanted import Wanted

_SAMPLE = {"user_input", "response"}
_BESIDE = {"retrieved_contexts", "reference_contexts", "reference", "rubrics"}
_OLD_SAMPLE = {"question", "answer", "contexts"}
_OF_SAMPLES = (
    _SAMPLE
    | _BESIDE
    | _OLD_SAMPLE
    | {"multi_responses", "ground_truth", "ground_truths"}
)


@final
class RagasReader:
    """A table is one candidate, unless a column such as "model" names several. Each other number is a metric."""

    name = "tables of Ragas"

    def recognizes(self, source: Source) -> bool:
        """Whether the columns of a sample are there, and others beside them."""
        names = set(header_of(source))
        is_new = names >= _SAMPLE and not names.isdisjoint(_BESIDE)
        return (is_new or names >= _OLD_SAMPLE) and not names <= _OF_SAMPLES

    def read(self, source: Source, wanted: Wanted) -> Scores:
        """Read the scores of all metrics. A metric that Ragas could not compute is unknown.

        Raises:
            InvalidArgumentError: the table is damaged, or has no scores.
            UnclearResultsError: inputs repeat, and nothing says why.
        """
        return known_table(
            source, wanted, self.name, _is_metric, ("user_input", "question")
        )


def _is_metric(evidence: Evidence, name: str) -> bool:
    return name not in _OF_SAMPLES and evidence.is_score(name)
