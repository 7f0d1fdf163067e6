"""A cached property that no forked child waits for."""

import functools
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

_T = TypeVar("_T")


class cached_property(functools.cached_property[_T]):  # noqa: N801, as in the standard library
    """A cached property without the lock that those of Python 3.11 have, one for all objects of a class.

    A child that was forked while another thread computed the value would wait for that lock for ever. Two threads may
    compute the value at the same time, as in Python 3.12.
    """

    if sys.version_info < (3, 12):

        def __init__(self, func: Callable[[Any], _T]) -> None:
            super().__init__(func)
            self.lock = nullcontext()
