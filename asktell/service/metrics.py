"""What the service counts, for Prometheus. Labels are the operations' names: never a study's, whose number is open."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

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

    def count(self, operation: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self._requests.labels(operation, str(status)).inc()
        self._seconds.labels(operation).observe(seconds)

    def text(self) -> bytes:
        """All metrics in Prometheus' format."""
        return generate_latest(self._registry)
