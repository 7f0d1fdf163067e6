"""Objects with locks, in a forked process.

Only the thread that forked exists there. A lock that another thread held is never released, and what that thread was
changing stays half changed.
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy.ma  # noqa: F401, np.unique imports it when first called, and a child forked meanwhile would wait for ever

_T = TypeVar("_T")
_renewals: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()


def fresh_after_fork(obj: _T, renew: Callable[[_T], None]) -> None:
    """Call `renew(obj)` first thing in every forked process: it makes new locks and drops what may be half done.

    `obj` is not kept alive by this. `renew`, a function or a method of the class, must neither wait nor raise.
    """
    _renewals[obj] = renew


def _renew_all() -> None:
    for obj, renew in list(_renewals.items()):
        renew(obj)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_all)
