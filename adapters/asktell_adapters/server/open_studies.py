"""Studies kept open, so that all requests to one share what was read and decided."""

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
    def __init__(self) -> None:
        # Held while it is opened: several requests open a study once
        self.lock = Lock()
        self.study: Study | None = None


class OpenStudies:
    """The studies of one storage by name, the latest used ones kept open; for several threads."""

    def __init__(self, url: str, most: int = 256) -> None:
        self._most = most
        self._storage = open_storage(url)
        self._lock = Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def names(self) -> list[str]:
        """The names of all studies; none where there is no storage yet."""
        with suppress(StudyNotFoundError):
            return self._storage.names()
        return []

    def check(self) -> None:
        """Check that studies can be changed now."""
        self._storage.check(_SECONDS_FOR_A_CHECK)

    def create(
        self, name: str, selector: Selector, max_attempts: int, exist_ok: bool
    ) -> None:
        """Make a study, as `Study.create`."""
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
            raise StudyExistsError(f"There is a study {name!r} already.") from None

    def delete(self, name: str) -> None:
        """Remove a study."""
        try:
            Study.delete(self._storage, name)
        except StudyNotFoundError:
            raise _unknown(name) from None
        finally:
            self._forget(name)

    def call(
        self, name: str, operation: Callable[[Study], _T], keep: bool = True
    ) -> _T:
        """Call an operation on a study, which stays open unless it is not to `keep`, as in loops over all studies."""
        try:
            if not keep and name not in self._entries:
                return operation(Study.open(self._storage, name))
            with suppress(StudyNotFoundError):
                return operation(self._opened(name))
            self._forget(name)  # it was deleted; somebody may have made a new one since
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
    return StudyNotFoundError(f"There is no study {name!r}.")
