"""A lock on an open file, which the system lets go of however its process ends: `fcntl`, or `msvcrt` on Windows."""

import errno
import logging
import os
from importlib import import_module
from typing import Any

_log = logging.getLogger("asktell")
_BEYOND = 2**30  # Windows lets nobody read a locked byte, and the file says who holds it


def try_lock(handle: int) -> bool:
    """Lock the open file for this process alone; False if another has it. It lasts until `handle` is closed.

    Where the system has no such locks, every process gets it, and the log warns.
    """
    if (fcntl := _module("fcntl")) is not None:
        return _done(fcntl.flock, handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if (msvcrt := _module("msvcrt")) is not None:
        os.lseek(handle, _BEYOND, os.SEEK_SET)
        return _done(msvcrt.locking, handle, msvcrt.LK_NBLCK, 1)
    _log.warning("This system has no locks for files: see to it that one run at a time uses an output folder.")
    return True


def is_locked(handle: int) -> bool:
    """True if another process has locked the open file. Checking is invisible to other processes, except on Windows."""
    if (fcntl := _module("fcntl")) is not None:
        return not _done(fcntl.flock, handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    if (msvcrt := _module("msvcrt")) is not None:
        os.lseek(handle, _BEYOND, os.SEEK_SET)
        if not _done(msvcrt.locking, handle, msvcrt.LK_NBLCK, 1):
            return True
        os.lseek(handle, _BEYOND, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
    return False


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


def _done(lock: Any, *arguments: int) -> bool:
    try:
        lock(*arguments)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK):
            raise  # it was not another process that kept us from it
        return False
    return True
