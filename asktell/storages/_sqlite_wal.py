"""The file of SQLite's write-ahead log, opened beside SQLite: to wait for the disk, and in a queue to be its writer.

SQLite itself waits for the disk while it keeps every other writer out. Here a commit does not wait, and what must be on
the disk is synced afterwards, while the next one writes: the log's frames follow each other, so that a sync takes with
it all that came before.

A process that finds the database locked has only polling to wait by. So whoever wants to write takes a lock of the
kernel's on this file first, which wakes one when its turn has come. It is only politeness: what keeps writers apart is
SQLite's own lock, and who does not get a turn in time goes without.

SQLite takes no lock on this file, of which closing it here would deprive SQLite (the first handle on a file that a
process closes takes all its POSIX locks with it). As long as a connection is open the file stays, so that all processes
have the same.
"""

import contextlib
import os
from threading import Lock, Thread

from asktell._util.files import sync

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

_SECONDS_IN_QUEUE = 2.0
_sync = getattr(os, "fdatasync", sync)  # SQLite uses it too, where it is


class WriteAheadLog:
    """The log's file, for whoever has the database open. One thread at a time, but for `sync`.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
        self._standing: _Standing | None = None
        self._syncing, self._closed = Lock(), False
        with contextlib.suppress(OSError):  # where folders cannot be opened there is nothing to do
            folder = os.open(os.path.dirname(path), os.O_RDONLY)
            try:
                os.fsync(folder)  # the file may be new
            finally:
                os.close(folder)

    def sync(self) -> bool:
        """Wait until everything that was committed by now is on the disk; False if the file was closed meanwhile.

        The one thing that another thread may do at the same time.

        Raises:
            OSError: it is not.
        """
        with self._syncing:
            if not self._closed:
                _sync(self._file)
            return not self._closed

    def enter(self, patience: float) -> bool:
        """Wait for one's turn to write, for so many seconds at most and never long; whether it has come."""
        if fcntl is None:
            return False
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._standing = self._standing or _Standing(self._file)
            return self._standing.wait(min(patience, _SECONDS_IN_QUEUE))
        except OSError:  # a file system that knows no such locks
            return False
        return True

    def leave(self) -> None:
        """Let the next one have a turn. Said aloud: a forked process may have the file open, too."""
        if fcntl is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file, for SQLite to remove it if it wants to."""
        with self._syncing:
            self._closed = True
            if self._standing is None or self._standing.end():
                os.close(self._file)


class _Standing:
    """A thread that stands in the kernel's queue, which knows no time limit, for one that has one."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._lock = Lock()  # of the three
        self._stands = self._wanted = self._ended = False
        self._asked, self._granted = Lock(), Lock()  # as signals
        self._asked.acquire()
        self._granted.acquire()
        Thread(target=self._run, name="asktell queues for a database", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Whether the lock was had in time."""
        with self._lock:
            self._wanted = True
            if not self._stands:
                self._stands = True
                self._asked.release()
        granted = False
        try:
            granted = self._granted.acquire(timeout=seconds)
        finally:
            if not granted:
                with self._lock:
                    self._wanted = False
                    if self._granted.acquire(blocking=False):  # meanwhile
                        fcntl.flock(self._file, fcntl.LOCK_UN)
        return granted

    def end(self) -> bool:
        """End the thread; whether the file can be closed now, or will be by the thread."""
        with self._lock:
            self._ended = True
            if not self._stands:
                self._asked.release()
            return not self._stands

    def _run(self) -> None:
        while True:
            self._asked.acquire()
            if not self._stands:
                return
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_EX)
            with self._lock:
                self._stands = False
                if self._wanted:
                    self._wanted = False
                    self._granted.release()
                else:
                    fcntl.flock(self._file, fcntl.LOCK_UN)
                if self._ended:
                    os.close(self._file)
                    return
