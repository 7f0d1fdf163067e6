"""Studies that stay open, so that all requests to a study share its state and its decisions."""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import TypeVar

from asktell import Selector, Study, StudyExistsError, StudyNotFoundError
from asktell.extend import open_storage

_T = TypeVar("_T")
_SECONDS_FOR_A_CHECK = 3.0


class _Entry:
    """A study of the cache. `lock` is held while the study is opened, so that several requests open it once."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.study: Study | None = None


class OpenStudies:
    """The studies of one storage by name. The most recently used studies stay open. Thread-safe.

    Args:
        url: the URL of the storage.
        most: the most studies to keep open.
    """

    def __init__(self, url: str, most: int = 256) -> None:
        self._most = most
        self._storage = open_storage(url)
        self._lock = Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def names(self) -> list[str]:
        """The names of all studies. Empty if the storage does not exist yet."""
        with suppress(StudyNotFoundError):
            return self._storage.names()
        return []

    def check(self) -> None:
        """Check that studies can be changed now.

        Raises:
            StorageError: the storage does not respond in time, or cannot be used.
        """
        self._storage.check(_SECONDS_FOR_A_CHECK)

    def create(
        self, name: str, selector: Selector, max_attempts: int, exist_ok: bool
    ) -> None:
        """Create a study as `Study.create` does.

        Raises:
            StudyExistsError: a study of this name exists, and is different or not `exist_ok`.
        """
        try:
            Study.create(
                self._storage,
                name,
                selector,
                max_attempts=max_attempts,
                exist_ok=exist_ok,
            )
        except StudyExistsError:
            if exist_ok:
                raise
            raise StudyExistsError(
                f"The study {name!r} already exists. Open it, or choose another name."
            ) from None

    def delete(self, name: str) -> None:
        """Remove a study.

        Raises:
            StudyNotFoundError: the study does not exist.
        """
        try:
            Study.delete(self._storage, name)
        except StudyNotFoundError:
            raise _unknown(name) from None
        finally:
            self._forget(name)

    def call(
        self, name: str, operation: Callable[[Study], _T], keep: bool = True
    ) -> _T:
        """Call an operation on a study, and return its value.

        Args:
            name: the study's name.
            operation: a function of the study. It may be called twice, if the study was deleted
                in the meantime.
            keep: keep the study open. Loops over all studies pass False, so that they do not
                close the studies in use.

        Raises:
            StudyNotFoundError: the study does not exist.
        """
        try:
            if not keep and name not in self._entries:
                return operation(Study.open(self._storage, name))
            with suppress(StudyNotFoundError):
                return operation(self._opened(name))
            # Another client deleted the study, and may have made a new study of this
            # name since. Open it again.
            self._forget(name)
            return operation(self._opened(name))
        except StudyNotFoundError:
            self._forget(name)
            raise _unknown(name) from None

    def close(self) -> None:
        """Close the storage."""
        with self._lock:
            self._entries.clear()
        self._storage.close()

    def _opened(self, name: str) -> Study:
        with self._lock:
            entry = self._entries.setdefault(name, _Entry())
            self._entries.move_to_end(name)
            # A study that is dropped while it is in use stays valid for its request.
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)
        with entry.lock:
            if entry.study is None:
                entry.study = Study.open(self._storage, name)
            return entry.study

    def _forget(self, name: str) -> None:
        with self._lock:
            self._entries.pop(name, None)


def _unknown(name: str) -> StudyNotFoundError:
    return StudyNotFoundError(f"The study {name!r} does not exist.")
