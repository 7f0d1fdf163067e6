"""Files that are replaced whole. They hold prompts and answers: a new one is for its owner's eyes only."""

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """A file to write to, that takes the place of the one at `path` once it is on the disk.

    A reader, and a crash at any instant, sees the old or the new content, whole; after an exception it is the old one.
    The permissions of one that was there stay.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogatepass") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            os.chmod(name, stat.S_IMODE(path.stat().st_mode))
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    _sync_folder(path.parent)


def write_atomically(path: Path, text: str) -> None:
    """Replace a file's content."""
    with replacing(path) as file:
        file.write(text)


def _sync_folder(folder: Path) -> None:
    """Make a rename in it last; where folders cannot be opened there is nothing to do."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
