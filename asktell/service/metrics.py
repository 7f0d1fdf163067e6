"""What the service counts, for Prometheus, and how far its studies are.

Of studies, whose number is open, only so many have gauges: the newest that were read.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily

from asktell.service.overview import Row

_MOST_STUDIES = 1000
_OF_STUDIES = {
    "spent": "Evaluations told.",
    "budget": "Evaluations allowed; 100000000: any number.",
    "spent_cost": "Sum of the costs told.",
    "max_cost": "Maximum cost; +Inf if unlimited.",
    "active": "Prompts still in the race.",
    "pending": "Trials that are out.",
    "failures": "Evaluations that failed.",
    "workers": "Workers that hold trials.",
    "paused": "1 while nothing is handed out until somebody resumes it.",
}
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Requests, their times and what is open.

    Args:
        n_open: says how many studies are open.
    """

    def __init__(self, n_open: Callable[[], int]) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "asktell_requests", "Requests answered.", ["operation", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "asktell_request_seconds", "Time to answer, in seconds.", ["operation"], registry=self._registry
        )
        self.running = Gauge("asktell_requests_running", "Requests not answered yet.", registry=self._registry)
        Gauge("asktell_open_studies", "Studies kept open.", registry=self._registry).set_function(n_open)

    def show(self, rows: Callable[[], Sequence[Row]]) -> None:
        """Show how far studies are, too; `rows` is asked at every look, and must not take long."""
        self._registry.register(_OfStudies(rows))

    def count(self, operation: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self._requests.labels(operation, str(status)).inc()
        self._seconds.labels(operation).observe(seconds)

    def text(self) -> bytes:
        """All metrics in Prometheus' format."""
        return generate_latest(self._registry)


class _OfStudies:
    """Gauges with a study's name."""

    def __init__(self, rows: Callable[[], Sequence[Row]]) -> None:
        self._rows = rows

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Nothing: or it would be asked for its gauges before there are any."""
        return ()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The gauges."""
        rows = [(row.name, row.standing) for row in self._rows()[-_MOST_STUDIES:] if row.standing is not None]
        for name, words in _OF_STUDIES.items():
            gauge = GaugeMetricFamily(f"asktell_study_{name}", words, labels=["study"])
            get = attrgetter(name)
            for study, standing in rows:
                value = get(standing)
                gauge.add_metric([study], math.inf if value is None else value)
            yield gauge
