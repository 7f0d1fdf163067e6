"""Files that are replaced whole. They hold prompts and answers: a new one is for its owner's eyes only."""

import contextlib
import os
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TextIO

_WINDOWS = os.name == "nt"
_SECONDS_FOR_READERS = 1.0


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """A file to write to, that takes the place of the one at `path` once it is on the disk.

    A reader, and a crash at any instant, sees the old or the new content, whole; after an exception it is the old one.
    The permissions of one that was there stay. What is there and no regular file (a device, a pipe) is written to as it
    is; a symbolic link to a file stays one.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):
            with path.open("w", encoding="utf-8", errors="surrogatepass") as special:
                yield special
            return
    path = Path(os.path.realpath(path))
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogatepass") as file:
            yield file
            file.flush()
            sync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            os.chmod(name, stat.S_IMODE(path.stat().st_mode))
        _replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    _sync_folder(path.parent)


def write_atomically(path: Path, text: str | Iterable[str]) -> None:
    """Replace a file's content, by a text or by its parts."""
    with replacing(path) as file:
        file.writelines([text] if isinstance(text, str) else text)


def make_private(path: Path) -> None:
    """Make an empty file that only its owner may read, unless there is a file already.

    It is made under another name and linked: on POSIX, a process that closes a file loses all of its locks on it, also
    those of another thread that has just begun to use it.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    os.close(handle)
    try:
        os.link(name, path)
    except FileExistsError:
        return
    except OSError:  # not every file system has links
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    finally:
        os.unlink(name)


def sync(handle: int) -> None:
    """Have what was written on the disk, and not, as `os.fsync` has it on macOS, in the disk's own cache."""
    try:
        fcntl = import_module("fcntl")
        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
    except (ImportError, AttributeError, OSError):  # not Windows', not Linux's, not that of every file system
        os.fsync(handle)


def _replace(new: str, path: Path) -> None:
    """On Windows, wait for those who have the old file open: it cannot be replaced under them."""
    deadline = time.monotonic() + _SECONDS_FOR_READERS
    while True:
        try:
            return os.replace(new, path)
        except PermissionError:
            if not _WINDOWS or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _sync_folder(folder: Path) -> None:
    """Make a rename in it last; where folders cannot be opened there is nothing to do."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
