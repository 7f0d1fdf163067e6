"""Experiments of LangSmith: `results.to_pandas()`, saved as CSV, JSON, Parquet or a spreadsheet.

Checked against the source of the package langsmith, version 0.15 (`evaluation/_runner.py`). The columns of the download
in LangSmith's interface are not documented. If it has none of these names, it is read as any table.
"""

from typing import final

from asktell_adapters.finished.evidence import Evidence
from asktell_adapters.finished.known_table import header_of, known_table
from asktell_adapters.finished.scores import Scores
from asktell_adapters.finished.source import Source
from asktell_adapters.finished.wanted import Wanted

_FEEDBACK = "feedback."
_SECONDS = "execution_time"
_STARTS = ("inputs.", "outputs.", _FEEDBACK)


@final
class LangSmithReader:
    """An experiment is one candidate. Repetitions of an example are averaged, and runs with an error are failures."""

    name = "experiments of LangSmith"

    def recognizes(self, source: Source) -> bool:
        """Whether there are ids of examples beside inputs, outputs or feedback."""
        names = header_of(source)
        kinds = {start for start in _STARTS for name in names if name.startswith(start)}
        return "example_id" in names and len(kinds) > 1

    def read(self, source: Source, wanted: Wanted) -> Scores:
        """Read the feedback of all runs.

        Raises:
            InvalidArgumentError: the table is damaged, or has no scores.
            UnclearResultsError: examples repeat, and nothing says why.
        """
        return known_table(source, wanted, self.name, _is_metric, ("example_id",))


def _is_metric(evidence: Evidence, name: str) -> bool:
    return name.startswith(_FEEDBACK) or name == _SECONDS
