"""Renew objects with locks in a forked process.

Only the forking thread exists in the new process. A lock that another thread held is
never released there, and data that the thread was changing remain half changed.
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

# np.unique imports numpy.ma on its first call. A child that is forked during that
# import would wait forever.
import numpy.ma  # noqa: F401

_T = TypeVar("_T")
_renewals: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()


def fresh_after_fork(obj: _T, renew: Callable[[_T], None]) -> None:
    """Call `renew(obj)` at the start of every forked process.

    A forked process has a copy of each object, but only one of the threads. So a lock
    may stay closed forever, and a change may be half done. `renew` makes new locks and
    drops unfinished changes. This function does not keep `obj` alive.

    Args:
        obj: the object.
        renew: a function of the object. It must not be a bound method of `obj`, which
            would keep `obj` alive. It must neither wait nor raise an exception.
    """
    _renewals[obj] = renew


def _renew_all() -> None:
    for obj, renew in list(_renewals.items()):
        renew(obj)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_all)
