"""Computations that neither the settings of the calling program nor its other work disturb.

They use one BLAS thread, since a pool of threads costs more than it saves for small
computations: if another program keeps the cores busy, a pool waits for its slowest thread
at every matrix product. NumPy handles errors as it does by default.
"""

import sys
from collections.abc import Mapping
from contextlib import ContextDecorator
from threading import Lock, local
from types import TracebackType
from typing import Any, Final, final

# Imported early: a child that is forked while a thread imports it would wait for that
# thread.
import numpy as np
import threadpoolctl

from asktell._util.forks import fresh_after_fork

# NumPy's own defaults. After `numpy.seterr(all="raise")` in the calling program, a
# probability that is too small for a float would be an error instead of 0.
_ERRORS: Final[Mapping[str, Any]] = {
    "divide": "warn",
    "over": "warn",
    "under": "ignore",
    "invalid": "warn",
}


class _Before(local):
    """NumPy's error handling before each of this thread's blocks, outermost first."""

    def __init__(self) -> None:
        self.errors: list[Any] = []


@final
class _Undisturbed(ContextDecorator):
    """A block, or a function, in which BLAS uses one thread, and NumPy handles errors as by default.

    When the last of several nested or parallel blocks ends, BLAS uses as many threads
    as before the first block. A limit that another thread has set with `threadpoolctl`
    stays.
    """

    def __init__(self) -> None:
        self._before = _Before()
        self._renew()
        fresh_after_fork(self, _Undisturbed._renew)

    def _renew(self) -> None:
        self._lock, self._inside = Lock(), 0
        self._limits: Any = None
        self._pools: tuple[bool, Any] | None = None

    def __enter__(self) -> None:
        self._before.errors.append(np.seterr(**_ERRORS))
        try:
            self._limit()
        except BaseException:
            # An interrupt: the block is not entered, so nothing else would undo this
            np.seterr(**self._before.errors.pop())
            raise

    def _limit(self) -> None:
        """Let BLAS use one thread, if this is the first of the blocks."""
        with self._lock:
            if self._inside:
                self._inside += 1
                return
            # SciPy brings its own BLAS, so the pools are looked up again after it was
            # imported.
            has_scipy = "scipy.linalg" in sys.modules
            if self._pools is None or self._pools[0] != has_scipy:
                self._pools = (
                    has_scipy,
                    threadpoolctl.ThreadpoolController().select(user_api="blas"),
                )
            self._limits = self._pools[1].limit(limits=1)
            # Another thread may be the last to leave.
            threadpoolctl.OpenBLASController.clear_controlling_thread()
            self._inside = 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        np.seterr(**self._before.errors.pop())
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limits.restore_original_limits()
                threadpoolctl.OpenBLASController.clear_controlling_thread()


undisturbed = _Undisturbed()
