"""Replace files atomically. New files are readable by their owner only, since they hold prompts and responses."""

import contextlib
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TextIO

from asktell.errors import InvalidArgumentError

_WINDOWS = os.name == "nt"
# Time to wait on Windows until other processes have closed a file.
_SECONDS_FOR_READERS = 1.0


# Words with which URLs of databases and files begin. A file may be called "run:1.db".
_SCHEMES = (
    "sqlite sqlite3 file memory postgresql postgres mysql duckdb http https s3 gs az"
)
_URL = re.compile(rf"(?:{'|'.join(_SCHEMES.split())}):/{{0,3}}", re.IGNORECASE)
_OPTIONS = re.compile(r"\?[A-Za-z_]\w*=[^/\\]*$")


def check_path(path: str | Path) -> None:
    """Check that the path of a file is not a URL, which would become the name of a new file.

    Args:
        path: the path.

    Raises:
        InvalidArgumentError: the path begins with a scheme such as "sqlite:", ends with
            options such as "?mode=ro", or is ":memory:".
    """
    text = os.fspath(path)
    url, options = _URL.match(text), _OPTIONS.search(text)
    if text == ":memory:":
        raise InvalidArgumentError(
            "A path must be a file, got ':memory:'. For studies in memory, use memory://NAME as the location."
        )
    if url is not None:
        raise InvalidArgumentError(
            f"A path must be a file, got a URL that begins with {url[0]!r}. Write the path alone. If the name of a "
            "file begins like this, write its absolute path. The location of a study may also be sqlite:///PATH, "
            "postgresql://HOST/DATABASE or memory://NAME."
        )
    if options is not None:
        raise InvalidArgumentError(
            f"A path must be a file, got {text!r:.100}. asktell takes no options in a path. Write it without "
            f"{options[0]!r}."
        )


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """Open a file for writing that replaces the file at `path` once it is on the disk.

    A reader finds either the old or the new content, complete, even after a crash.
    After an exception, the old content stays. An existing file keeps its permissions,
    and a symbolic link stays a link. A device or a pipe is written directly. Half surrogate
    pairs are escaped, as in JSON, so that the file is valid UTF-8.
    """
    check_path(path)
    try:
        with _replacement(path) as file:
            yield file
    except OSError as error:
        if type(error).__module__ != "builtins" or error.errno is None:
            raise
        # Not the temporary file, whose name the caller does not know
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextlib.contextmanager
def _replacement(path: Path) -> Iterator[TextIO]:
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):
            with path.open("w", encoding="utf-8", errors="backslashreplace") as special:
                yield special
            return
    path = Path(os.path.realpath(path))
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(
            handle, "w", encoding="utf-8", errors="backslashreplace"
        ) as file:
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
    """Replace the content of a file at once: other processes read the old or the new content, never a part of it.

    This also holds after a crash. If writing fails, the old content stays.

    Args:
        path: the file. If it does not exist, it is created, and only its owner may read
            it.
        text: the new content, as a text or as several texts that are joined.
    """
    with replacing(path) as file:
        file.writelines([text] if isinstance(text, str) else text)


def sync(handle: int) -> None:
    """Flush written data to the disk. On macOS, `os.fsync` would flush only to the cache of the disk."""
    try:
        fcntl = import_module("fcntl")
        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
    except (ImportError, AttributeError, OSError):
        # Windows, Linux, or a file system without this call.
        os.fsync(handle)


def _replace(new: str, path: Path) -> None:
    """Rename a file. On Windows, wait until other processes have closed the old file."""
    deadline = time.monotonic() + _SECONDS_FOR_READERS
    while True:
        try:
            return os.replace(new, path)
        except PermissionError:
            if not _WINDOWS or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _sync_folder(folder: Path) -> None:
    """Flush a rename in a folder to the disk. Do nothing if the system cannot open folders."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
