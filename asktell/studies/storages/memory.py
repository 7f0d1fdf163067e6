"""Studies in this process's memory: for tests, notebooks, and a service that needs no disk."""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock

from asktell._util.forks import fresh_after_fork
from asktell.studies.storages.base import (
    MOST,
    AbstractStorage,
    Line,
    Snapshot,
    no_study,
    study_exists,
    study_gone,
    taken,
)

_shared: dict[str, "MemoryStorage"] = {}


def shared(name: str) -> "MemoryStorage":
    """Return the storage `memory://name` of this process, which is made when it is first needed."""
    return _shared.setdefault(name, MemoryStorage(f"memory://{name}"))


@dataclass
class _Log:
    """A study. `lock` is held during a transaction."""

    name: str
    document: bytes
    lines: list[str]
    details: dict[int, str]
    snapshot: Snapshot | None = None
    lock: RLock = field(default_factory=RLock)


class _Transaction:
    """Collects changes, which the storage applies at the end of the transaction."""

    def __init__(self, log: _Log, storage: "MemoryStorage") -> None:
        self._log = log
        self._url = storage.url
        self.now = storage.now
        self.new: list[str] = []
        self.details: dict[int, str] = {}
        self.snapshot = log.snapshot

    def read(self, after: int) -> Sequence[Line]:
        return _lines(self._log, after)

    def append(self, line: Line) -> None:
        if line.position != len(self._log.lines) + len(self.new) + 1:
            raise taken(f"Line {line.position} is in the log", self._url)
        self.new.append(line.text)

    def attach(self, trial: int, details: str) -> None:
        if trial in self._log.details or trial in self.details:
            raise taken(f"Trial {trial} has details", self._url)
        self.details[trial] = details

    def head(self) -> Snapshot | None:
        return self.snapshot

    def save(
        self, position: int, head: bytes, part: bytes, replace: bool = False
    ) -> None:
        parts = () if self.snapshot is None or replace else self.snapshot.parts
        self.snapshot = Snapshot(position, head, (*parts, part))


class MemoryStorage(AbstractStorage):
    """Studies in memory, shared by the threads of a process."""

    def __init__(
        self, url: str = "memory://", clock: Callable[[], float] = time.time
    ) -> None:
        self.url = url
        self._clock = clock
        self._logs: dict[int, _Log] = {}
        self._keys = itertools.count(1)
        self._lock = RLock()
        fresh_after_fork(self, MemoryStorage._renew_locks)

    def _renew_locks(self) -> None:
        """Make new locks in a forked process, where a thread of the parent may hold the old ones."""
        self._lock = RLock()
        for log in self._logs.values():
            log.lock = RLock()

    def create(
        self,
        name: str,
        document: bytes,
        lines: Iterable[str] = (),
        details: Iterable[tuple[int, str]] = (),
    ) -> int:
        with self._lock:
            if name in self.names():
                raise study_exists(name, self.url)
            key = next(self._keys)
            self._logs[key] = _Log(name, document, list(lines), dict(details))
            return key

    def find(self, name: str) -> int:
        with self._lock:
            key = next(
                (key for key, log in self._logs.items() if log.name == name), None
            )
            if key is None:
                raise no_study(name, self.names(), self.url)
            return key

    def names(self) -> list[str]:
        with self._lock:
            return [log.name for log in self._logs.values()]

    def delete(self, name: str) -> None:
        with self._lock:
            del self._logs[self.find(name)]

    def document(self, key: int) -> bytes:
        return self._log(key).document

    def read(self, key: int, after: int, most: int = MOST) -> Sequence[Line]:
        return _lines(self._log(key), after, most)

    def details(self, key: int, trials: Sequence[int]) -> dict[int, str]:
        details = self._log(key).details
        return {trial: details[trial] for trial in trials if trial in details}

    def snapshot(self, key: int) -> Snapshot | None:
        return self._log(key).snapshot

    @contextmanager
    def transaction(self, key: int, durable: bool) -> Iterator[_Transaction]:
        log = self._log(key)
        with log.lock:
            transaction = _Transaction(log, self)
            yield transaction
            # Raises an error if the study was deleted meanwhile
            self._log(key).lines.extend(transaction.new)
            log.details.update(transaction.details)
            log.snapshot = transaction.snapshot

    def now(self) -> float:
        return self._clock()

    def check(self, patience: float = 1.0) -> None:
        pass

    def close(self) -> None:
        pass

    def _log(self, key: int) -> _Log:
        """Return a study. Raises a StudyNotFoundError if it was deleted."""
        log = self._logs.get(key)
        if log is None:
            raise study_gone(self.url)
        return log


def _lines(log: _Log, after: int, most: int = MOST) -> list[Line]:
    """Return up to `most` lines after a position."""
    return [
        Line(position, text)
        for position, text in enumerate(
            log.lines[after : after + most], start=after + 1
        )
    ]
