"""One BLAS thread while something small is computed: to wake a pool of them costs more than it saves.

Where another program keeps the cores busy, a pool waits for its slowest thread at every product of matrices.
"""

import sys
from contextlib import ContextDecorator
from threading import Lock
from types import TracebackType
from typing import Any, final

import threadpoolctl  # now: a child that is forked while a thread imports it would wait for that thread

from asktell._util.forks import fresh_after_fork


@final
class _OneThread(ContextDecorator):
    """A block, or a function, in which BLAS has one thread.

    When the last one in this process is left it has as many as before the first, whichever thread that was. Where
    another thread holds a limit of its own by `threadpoolctl`, that stands.
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
            has_scipy = "scipy.linalg" in sys.modules  # which brings a BLAS of its own
            if self._pools is None or self._pools[0] != has_scipy:
                self._pools = has_scipy, threadpoolctl.ThreadpoolController().select(user_api="blas")
            self._limits = self._pools[1].limit(limits=1)
            threadpoolctl.OpenBLASController.clear_controlling_thread()  # another thread may be the last to leave

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limits.restore_original_limits()
                threadpoolctl.OpenBLASController.clear_controlling_thread()


one_thread = _OneThread()
