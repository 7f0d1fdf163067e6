"""Metrics of the service and of its studies, for Prometheus."""

import math
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from asktell_adapters.server.pages import StudyRow

# Each study is a label, and Prometheus must not get labels without limit. So only the
# newest studies have metrics.
_MOST_STUDIES = 1000
_OF_STUDIES = {
    "spent": "Evaluations recorded.",
    "budget": "Maximum evaluations; 100000000 if unlimited.",
    "spent_cost": "Sum of the costs recorded.",
    "max_cost": "Maximum cost; +Inf if unlimited.",
    "active": "Prompts that are not eliminated.",
    "pending": "Trials whose scores are not recorded yet.",
    "failures": "Evaluations that failed.",
    "workers": "Workers that hold trials.",
    "paused": "1 while the study is paused.",
}
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics(Collector):
    """Metrics of requests (number, time) and of the progress of studies.

    Args:
        n_open: returns the number of studies that are open.
        rows: returns the studies as last read. Prometheus asks often, so collecting metrics
            must not read the storage.
    """

    def __init__(
        self, n_open: Callable[[], int], rows: "Callable[[], Sequence[StudyRow]]"
    ) -> None:
        self._registry, self._rows = CollectorRegistry(), rows
        # A registry of its own, so that two services in one process do not share
        # counts.
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "asktell_requests",
            "Requests answered.",
            ["operation", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "asktell_request_seconds",
            "Time to answer, in seconds.",
            ["operation"],
            registry=self._registry,
        )
        self.running = Gauge(
            "asktell_requests_running",
            "Requests not answered yet.",
            registry=self._registry,
        )
        Gauge(
            "asktell_open_studies", "Studies kept open.", registry=self._registry
        ).set_function(n_open)
        self._registry.register(self)

    def count(self, operation: str, status: int, seconds: float) -> None:
        """Count a response.

        Args:
            operation: name of the operation.
            status: HTTP status of the response.
            seconds: time that the response took.
        """
        self._requests.labels(operation, str(status)).inc()
        self._seconds.labels(operation).observe(seconds)

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The gauges of the studies, with the name of the study as label."""
        rows = [
            (row.name, row.standing)
            for row in self._rows()[-_MOST_STUDIES:]
            if row.standing is not None
        ]
        for name, words in _OF_STUDIES.items():
            gauge = GaugeMetricFamily(f"asktell_study_{name}", words, labels=["study"])
            get = attrgetter(name)
            for study, standing in rows:
                value = get(standing)
                gauge.add_metric([study], math.inf if value is None else value)
            yield gauge
