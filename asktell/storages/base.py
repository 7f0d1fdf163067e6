"""The interface of storages. A storage holds names, bytes and positions, and does not interpret them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from asktell.errors import StorageError, StudyExistsError, StudyNotFoundError

MOST = 2**62
"""A number of lines that stands for "all"."""


class Line(NamedTuple):
    """A line of a study's log. Positions count from 1, without gaps."""

    position: int
    text: str


class Snapshot(NamedTuple):
    """A head and parts, from which a study is restored without reading its log up to `position`."""

    position: int
    head: bytes
    parts: Sequence[bytes] = ()


class Transaction(Protocol):
    """A transaction, which is committed as a whole or not at all. Transactions of the same study exclude each other."""

    def read(self, after: int) -> Sequence[Line]:
        """Return the lines after a position, in order.

        They include all lines that other processes have committed: no other
        transaction of the study can append a line until this one ends.
        """

    def append(self, line: Line) -> None:
        """Append the next line, in ASCII.

        Raises:
            StorageError: the position is taken.
        """

    def attach(self, trial: int, details: str) -> None:
        """Store details of a trial, in ASCII.

        Raises:
            StorageError: the trial has details already.
        """

    def now(self) -> float:
        """Return the time by the storage's clock, in seconds since 1970, at the transaction's start or later."""

    def head(self) -> Snapshot | None:
        """Return the snapshot without its parts, None if there is none."""

    def save(
        self, position: int, head: bytes, part: bytes, replace: bool = False
    ) -> None:
        """Save a snapshot: replace its position and its head, and add a part.

        The parts before stay, so that a snapshot of a long study writes only its new
        rows. With `replace`, they are removed.
        """


class AbstractStorage(ABC):
    """Studies by name. Each has a document (its fixed settings), a log (its events), and details of some trials.

    A storage may be used from several threads.

    Every method raises StorageError if the storage is damaged, full, read-only or
    unreachable, and StorageBusyError if another process locks it for too long. Then
    nothing was changed. Methods raise StudyNotFoundError if the study does not exist or
    was deleted, and `names` if the storage does not exist.
    """

    @abstractmethod
    def create(
        self,
        name: str,
        document: bytes,
        lines: Iterable[str] = (),
        details: Iterable[tuple[int, str]] = (),
    ) -> int:
        """Create a study durably, and return its key. Keys of deleted studies are not used again.

        Args:
            name: the study's name.
            document: the fixed settings of the study.
            lines: the first lines of its log.
            details: (trial, text). They are read after the lines.

        Raises:
            StudyExistsError: a study with this name exists.
        """

    @abstractmethod
    def find(self, name: str) -> int:
        """Return the key of a study."""

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of all studies, oldest first."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a study with its log."""

    @abstractmethod
    def document(self, key: int) -> bytes:
        """Return the document of a study."""

    @abstractmethod
    def read(self, key: int, after: int, most: int = MOST) -> Sequence[Line]:
        """Return up to `most` lines of a log after a position, in order.

        Does not wait for transactions: it returns the lines that are committed now.
        """

    @abstractmethod
    def details(self, key: int, trials: Sequence[int]) -> dict[int, str]:
        """Return the details of these trials, without trials that have none. Does not wait for transactions."""

    @abstractmethod
    def snapshot(self, key: int) -> Snapshot | None:
        """Return the snapshot with the parts that belong to its head, None if there is none."""

    @abstractmethod
    def transaction(
        self, key: int, durable: bool
    ) -> AbstractContextManager[Transaction]:
        """Open a transaction. It is committed at the end of the `with` block or, after an exception, discarded.

        With `durable`, the end waits until everything is on the disk. Other changes
        survive the death of every process. A crash of the machine may lose the last
        ones, but never a change that came before one that it keeps.
        """

    @abstractmethod
    def now(self) -> float:
        """Return seconds since 1970, by the clock that all users of this storage share."""

    @abstractmethod
    def check(self, patience: float = 1.0) -> None:
        """Raise StorageError if no study could be written to now. Writes nothing. Used by health checks of a service.

        A storage that does not exist yet passes if it could be created. `patience` is
        the number of seconds to wait for other threads and processes.
        """

    @abstractmethod
    def close(self) -> None:
        """Close files and connections. The next call opens them again."""


def no_study(name: object, names: Sequence[str], where: str) -> StudyNotFoundError:
    """Return the error for a study that does not exist."""
    known = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
    there = f"The existing studies are {known}." if names else "No studies exist there."
    return StudyNotFoundError(
        f"There is no study {name!r} in {where}. {there} Use Study.create() to create one."
    )


def study_exists(name: str, where: str) -> StudyExistsError:
    """Return the error for a name that is taken."""
    return StudyExistsError(
        f"A study {name!r} already exists in {where}. Open it to continue it, delete it, or choose another name."
    )


def study_gone(where: str) -> StudyNotFoundError:
    """Return the error for a study that was deleted while it was in use."""
    return StudyNotFoundError(
        f"The study and its scores were deleted from {where}. Create a new study to start over."
    )


def taken(what: str, where: str) -> StorageError:
    """Return the error for a line or details that exist already: a program writes outside of transactions."""
    return StorageError(
        f"{what} already, in {where}. Code outside of asktell has written to this storage. Stop that code, and try "
        "again."
    )
