"""Work spread evenly over the minutes: for limits on requests and tokens per minute."""

import time
from collections.abc import Callable
from typing import Any, final

from asktell import InvalidArgumentError


@final
class Pace:
    """Says how long to wait so that no more than `per_minute` units begin in any minute, evenly spread.

    Evenly, since servers count a limit per minute in shorter slices too, and refuse bursts. Not thread-safe; of one
    process: several that share a server's limit get a part of it each.

    Args:
        name: of the limit, for messages.
        per_minute: units allowed; None for any number.
        clock: seconds, as of `time.monotonic`.

    Raises:
        InvalidArgumentError: per_minute is not a positive number.
    """

    def __init__(self, name: str, per_minute: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        if per_minute is not None and not 0 < per_minute < float("inf"):
            raise InvalidArgumentError(f"{name} must be a positive number, or None for no limit; got {per_minute!r}.")
        self._seconds_per_unit = 0.0 if per_minute is None else 60 / per_minute
        self._clock = clock
        self._free = float("-inf")

    def reserve(self, units: float = 1.0) -> float:
        """Take the next place in the row for so many units; the seconds until it."""
        now = self._clock()
        start = max(now, self._free)
        self._free = start + units * self._seconds_per_unit
        return start - now

    def correct(self, units: float) -> None:
        """Take so many units more (or less, if negative) than were reserved: the estimate was wrong."""
        self._free += units * self._seconds_per_unit

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_free": float("-inf")}  # another process has another clock
