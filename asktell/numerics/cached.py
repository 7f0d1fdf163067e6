"""Caches that belong to the object from which their values were computed. A forked child never waits for them."""

import functools
import sys
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from typing import Any, TypeVar

_T = TypeVar("_T")
# Values of one object: posteriors for decisions and results, with the current and the
# earlier failures
_KEPT = 4


class cached_property(functools.cached_property[_T]):  # noqa: N801, as in the standard library
    """A cached property without the lock of Python 3.11, which all objects of a class share.

    A child that was forked while another thread computed the value would wait for that
    lock for ever. Two threads may compute the value at the same time, as in Python
    3.12.
    """

    if sys.version_info < (3, 12):

        def __init__(self, func: Callable[[Any], _T]) -> None:
            super().__init__(func)
            self.lock = nullcontext()


class Memo:
    """The last few values that were computed from one object.

    The object owns its memo. So the values are freed with the object, and other
    selections of the same process do not displace them. A pickled copy of the object
    starts with an empty memo.
    """

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}

    def get(self, key: Hashable, compute: Callable[[], _T]) -> _T:
        """The value that was computed for `key`, or else a new value."""
        values = self._values
        if key in values:
            value: _T = values[key]
            return value
        value = compute()
        # A new dict each time. Two threads may compute the same value, and neither must
        # iterate over a dict that changes.
        latest = list(self._values.items())[1 - _KEPT :]
        self._values = {**dict(latest), key: value}
        return value

    def __reduce__(self) -> tuple[type["Memo"], tuple[()]]:
        return Memo, ()
