"""What a study in a service tells of its evaluations, one by one and as a page."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from asktell import reports
from asktell.errors import ServiceError
from asktell.results.evaluations import Evaluation, Evaluations
from asktell.service.replies import record

_AT_ONCE = 1000  # answers may be long


class Reported:
    """The part of a study in a service that reports."""

    def _get(self, what: str) -> dict[str, Any]:
        raise NotImplementedError

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics in the order of score vectors."""
        raise NotImplementedError

    def evaluations(self, after: int = 0) -> Evaluations:
        """Every evaluation that was told or failed, asked for as they are gone through; see `Study.evaluations`."""
        return Evaluations(self._evaluations(after), self.metrics)

    def _evaluations(self, after: int) -> Iterator[Evaluation]:
        while True:
            query = urlencode({"after": after, "n": _AT_ONCE})
            found = record(self._get(f"evaluations?{query}"), "evaluations")["evaluations"]
            yield from (Evaluation(**each) for each in found)
            after += len(found)
            if len(found) < _AT_ONCE:
                return

    def report(self, path: str | Path, about: Mapping[str, Any] | None = None) -> None:
        """Write one HTML page about the study, with everything that the service knows; see `Study.report`.

        Raises:
            OSError: the file cannot be written.
        """
        document = record(self._get("report"), "format", "version", "made")
        if (document["format"], document["version"]) != (reports.FORMAT, reports.VERSION):
            raise ServiceError(
                f"The service's report is of version {document['version']!r}, and this asktell writes version "
                f"{reports.VERSION}: use the same asktell here and there, or the page that the service shows."
            )
        document["made"]["about"] = reports.plain(about)
        reports.write(path, document)
