"""What a study needs of a storage. A storage knows names, bytes and positions, and nothing of selections."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from asktell.errors import StorageError, StudyExistsError, StudyNotFoundError

MOST = 2**62
"""As good as no limit."""


class Line(NamedTuple):
    """A line of a study's log. Positions count from 1, without gaps."""

    position: int
    text: str


class Snapshot(NamedTuple):
    """What saves reading a log from its start: a head, and parts that were added one by one, up to a position."""

    position: int
    head: bytes
    parts: Sequence[bytes] = ()


class Transaction(Protocol):
    """All or nothing, and alone: no other transaction of the same study runs at the same time."""

    def read(self, after: int) -> Sequence[Line]:
        """The lines after a position, in their order; what other processes committed last included."""

    def append(self, line: Line) -> None:
        """Add the next line, in ASCII; a StorageError if there is one at its position."""

    def attach(self, trial: int, details: str) -> None:
        """Keep details of a trial, in ASCII; a StorageError if it has some."""

    def now(self) -> float:
        """The time by the storage's clock, at about the transaction's start or later."""

    def head(self) -> Snapshot | None:
        """The snapshot, without its parts."""

    def save(self, position: int, head: bytes, part: bytes, replace: bool = False) -> None:
        """Replace the snapshot's position and head, and add a part; or `replace` the parts before it, too."""


class AbstractStorage(ABC):
    """Studies by name, each a document (what is fixed), a log (what happened), and details of some trials.

    May be used from several threads. Every method raises StorageError if the storage is damaged, full, read-only or
    out of reach, and StorageBusyError if another process holds it for too long; then nothing has changed. They
    raise StudyNotFoundError if the study is not there, or was deleted, and `names` if there is nothing at this place.
    """

    @abstractmethod
    def create(
        self, name: str, document: bytes, lines: Iterable[str] = (), details: Iterable[tuple[int, str]] = ()
    ) -> int:
        """Make a study with the first lines of its log, durably and at once; its key, which is never used again.

        `details` are those of trials, and are read after the lines.

        Raises:
            StudyExistsError: there is one of this name.
        """

    @abstractmethod
    def find(self, name: str) -> int:
        """The key of a study."""

    @abstractmethod
    def names(self) -> list[str]:
        """The names of all studies, in the order in which they were made."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a study with its log."""

    @abstractmethod
    def document(self, key: int) -> bytes:
        """What the study was created with."""

    @abstractmethod
    def read(self, key: int, after: int, most: int = MOST) -> Sequence[Line]:
        """At `most` so many lines of a log after a position, in their order. Waits for nobody."""

    @abstractmethod
    def details(self, key: int, trials: Sequence[int]) -> dict[int, str]:
        """The details of those of these trials that have some. Waits for nobody."""

    @abstractmethod
    def snapshot(self, key: int) -> Snapshot | None:
        """The snapshot with as many parts as there were when its head was saved, None if none was."""

    @abstractmethod
    def transaction(self, key: int, durable: bool) -> AbstractContextManager[Transaction]:
        """What is appended in the `with` block is committed at its end, or, after an exception, not at all.

        If `durable`, the end waits until everything is on the disk. What is not durable survives the death of every
        process; a crash of the machine may take the last of it, but never what came before something that it leaves.
        """

    @abstractmethod
    def now(self) -> float:
        """Seconds since 1970, by the one clock that all processes share that use this storage."""

    @abstractmethod
    def check(self, patience: float = 1.0) -> None:
        """Raise StorageError if no study could be written to now, without writing: for a service that says if it works.

        A place where nothing has been made yet is in order if something could be. `patience` is the number of
        seconds to wait for other threads and processes.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections; the next call opens them again."""


def no_study(name: object, names: Sequence[str], where: str) -> StudyNotFoundError:
    """The error for a study that is not there."""
    known = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
    there = f"There are: {known}." if names else "There is none."
    return StudyNotFoundError(f"There is no study {name!r} in {where}. {there} Study.create() makes one.")


def study_exists(name: str, where: str) -> StudyExistsError:
    """The error for a name that is taken."""
    return StudyExistsError(
        f"There is a study {name!r} in {where} already. Study.open() continues it; Study.delete() removes it."
    )


def study_gone(where: str) -> StudyNotFoundError:
    """The error for a study that was deleted while it was in use."""
    return StudyNotFoundError(f"The study was deleted from {where}.")


def taken(what: str, where: str) -> StorageError:
    """The error for a line or details that are there: somebody writes to the storage outside its transactions."""
    return StorageError(f"{what} already, in {where}. Does something else write to it?")
