"""Use one BLAS thread for small computations, since a pool of threads costs more than it saves.

If another program keeps the cores busy, a pool waits for its slowest thread at every
matrix product.
"""

import sys
from contextlib import ContextDecorator
from threading import Lock
from types import TracebackType
from typing import Any, final

# Imported early: a child that is forked while a thread imports it would wait for that
# thread.
import threadpoolctl

from asktell._util.forks import fresh_after_fork


@final
class _OneThread(ContextDecorator):
    """A block, or a function, in which BLAS uses one thread.

    When the last of several nested or parallel blocks ends, BLAS uses as many threads
    as before the first block. A limit that another thread has set with `threadpoolctl`
    stays.
    """

    def __init__(self) -> None:
        self._renew()
        fresh_after_fork(self, _OneThread._renew)

    def _renew(self) -> None:
        self._lock, self._inside = Lock(), 0
        self._limits: Any = None
        self._pools: tuple[bool, Any] | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside > 1:
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limits.restore_original_limits()
                threadpoolctl.OpenBLASController.clear_controlling_thread()


one_thread = _OneThread()
