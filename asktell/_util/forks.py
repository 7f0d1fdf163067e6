"""Objects with locks, in a forked process; and a cached property that has none.

Only the thread that forked exists there. A lock that another thread held is never released, and what that thread was
changing stays half changed.
"""

import functools
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy.ma  # noqa: F401, np.unique imports it when first called, and a child forked meanwhile would wait for ever

_T = TypeVar("_T")
_renewals: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()


def fresh_after_fork(obj: _T, renew: Callable[[_T], None]) -> None:
    """Call `renew(obj)` first thing in every forked process: it makes new locks and drops what may be half done.

    Args:
        obj: is not kept alive by this.
        renew: a function, or a method of the class, that must neither wait nor raise.
    """
    _renewals[obj] = renew


class cached_property(functools.cached_property[_T]):  # noqa: N801, as in the standard library
    """A cached property without the lock that those of Python 3.11 have, one for all objects of a class.

    A child that was forked while another thread computed the value would wait for that lock for ever. Two threads may
    compute the value at the same time, as in Python 3.12.
    """

    if sys.version_info < (3, 12):

        def __init__(self, func: Callable[[Any], _T]) -> None:
            super().__init__(func)
            self.lock = nullcontext()


def _renew_all() -> None:
    for obj, renew in list(_renewals.items()):
        renew(obj)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_all)
