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
    from asktell_adapters.server.pages import Row

_MOST_STUDIES = 1000  # the newest ones: their number is open, and each is a label
_OF_STUDIES = {
    "spent": "Evaluations told.",
    "budget": "Maximum evaluations; 100000000 if unlimited.",
    "spent_cost": "Sum of the costs told.",
    "max_cost": "Maximum cost; +Inf if unlimited.",
    "active": "Prompts still in the race.",
    "pending": "Trials that were asked and not told.",
    "failures": "Evaluations that failed.",
    "workers": "Workers that hold trials.",
    "paused": "1 while the study is paused.",
}
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics(Collector):
    """Requests, their times, and the progress of studies."""

    def __init__(
        self, n_open: Callable[[], int], rows: "Callable[[], Sequence[Row]]"
    ) -> None:
        self._registry, self._rows = CollectorRegistry(), rows
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
        """Count an answer."""
        self._requests.labels(operation, str(status)).inc()
        self._seconds.labels(operation).observe(seconds)

    def text(self) -> bytes:
        """All metrics in Prometheus' format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The gauges of the studies, labelled with their names."""
        rows = [
            (row.name, row.standing)
            for row in self._rows()[-_MOST_STUDIES:]
            if row.standing is not None
        ]
        for name, words in _OF_STUDIES.items():
            gauge, get = (
                GaugeMetricFamily(f"asktell_study_{name}", words, labels=["study"]),
                attrgetter(name),
            )
            for study, standing in rows:
                value = get(standing)
                gauge.add_metric([study], math.inf if value is None else value)
            yield gauge
