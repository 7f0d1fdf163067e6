"""Clocks, and waiting for what others do."""

import time
from collections.abc import Callable


class Clock:
    """A clock that a test sets."""

    time = 1.8e9

    def __call__(self) -> float:
        return self.time


def wait_for(condition: Callable[[], object], seconds: float = 120.0) -> None:
    """Until it is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
