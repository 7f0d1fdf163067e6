"""The interface of storages. A storage holds names, bytes and positions, and does not interpret them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from asktell.errors import StorageError, StudyExistsError, StudyNotFoundError

MOST = 2**62
"""The default of `most` in `AbstractStorage.read`. No log has so many lines, so it means all lines."""


class Line(NamedTuple):
    """A line of a study's log.

    Attributes:
        position: the number of the line, from 1 and without gaps.
        text: the line, as ASCII text without a line break.
    """

    position: int
    text: str


class Snapshot(NamedTuple):
    """The state of a study after a line of its log, so that opening the study need not read the lines before.

    A storage keeps the latest snapshot of each study. For the storage, the head and the
    parts are bytes without a meaning.

    Attributes:
        position: the position of the last line that the snapshot includes.
        head: the data that each save replaces, as bytes.
        parts: the data that each save adds, as bytes, one item per save, oldest first.
            A part has what was new since the save before.
    """

    position: int
    head: bytes
    parts: Sequence[bytes] = ()


class Transaction(Protocol):
    """A transaction: its changes are committed together, or not at all.

    A study has at most one transaction at a time. Another transaction waits for its
    end.
    """

    def read(self, after: int) -> Sequence[Line]:
        """Return the lines after a position, in order.

        They include every line that other processes have committed. No other
        transaction of the study can append a line until this transaction ends.

        Args:
            after: the position. 0 returns all lines.
        """

    def append(self, line: Line) -> None:
        """Append the next line to the log.

        Args:
            line: the line. Its position is one more than that of the last line.

        Raises:
            StorageError: the log has a line at this position already.
        """

    def attach(self, trial: int, details: str) -> None:
        """Store the details of a trial.

        Args:
            trial: the id of the trial.
            details: the details, as ASCII text.

        Raises:
            StorageError: the trial has details already.
        """

    def now(self) -> float:
        """Return the time by the storage's clock, in seconds since 1970.

        It may be any time between the start of the transaction and this call.
        """

    def head(self) -> Snapshot | None:
        """Return the study's snapshot without its parts. None if the study has no snapshot."""

    def save(
        self, position: int, head: bytes, part: bytes, replace: bool = False
    ) -> None:
        """Save a snapshot.

        The position and the head replace those of the last snapshot. The part is added
        to the parts that were saved before. So a save of a long study writes only the
        head and the data that is new.

        Args:
            position: see `Snapshot`.
            head: see `Snapshot`.
            part: the part to add.
            replace: True removes all earlier parts first.
        """


class AbstractStorage(ABC):
    """The interface of storages. A storage holds studies by name, and may be used from several threads.

    Each study has a document (its fixed settings), a log (its events, as lines), at
    most one snapshot, and the details of some trials.

    Every method raises a StorageError if the storage is damaged, full, read-only or
    unreachable. It raises a StorageBusyError if another process locks the storage for
    too long. After these errors, nothing was changed, unless the connection broke while
    a transaction was committed.

    `find`, `delete`, `document` and `transaction` raise a StudyNotFoundError if the
    study does not exist or was deleted. `names` raises it if the storage does not
    exist.
    """

    @abstractmethod
    def create(
        self,
        name: str,
        document: bytes,
        lines: Iterable[str] = (),
        details: Iterable[tuple[int, str]] = (),
    ) -> int:
        """Create a study. Before `create` returns, the study is on the disk.

        Args:
            name: the study's name.
            document: the fixed settings of the study.
            lines: the first lines of its log.
            details: pairs of a trial's id and its details, as text. `create` iterates
                over them after it has iterated over `lines`.

        Returns:
            The key of the study, a number. The other methods take it as `key`. The key
            of a deleted study is not used again.

        Raises:
            StudyExistsError: a study with this name exists.
        """

    @abstractmethod
    def find(self, name: str) -> int:
        """Return the key of a study.

        Args:
            name: the study's name.
        """

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of all studies, oldest first."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a study and all of its data.

        Args:
            name: the study's name.
        """

    @abstractmethod
    def document(self, key: int) -> bytes:
        """Return the document of a study.

        Args:
            key: the key of the study.
        """

    @abstractmethod
    def read(self, key: int, after: int, most: int = MOST) -> Sequence[Line]:
        """Return the lines of a log after a position, in order.

        This does not wait for an open transaction. It returns only lines that are
        committed now.

        Args:
            key: the key of the study.
            after: the position. 0 begins with the first line.
            most: the largest number of lines to return.
        """

    @abstractmethod
    def details(self, key: int, trials: Sequence[int]) -> dict[int, str]:
        """Return the details by trial, for those of the given trials that have details.

        This does not wait for an open transaction.

        Args:
            key: the key of the study.
            trials: the ids of the trials.
        """

    @abstractmethod
    def snapshot(self, key: int) -> Snapshot | None:
        """Return the latest snapshot of a study: the head of the last save, and the parts of all saves so far.

        If another process saves during the call, the head and the parts must still
        belong together: the new part is returned only with the new head. None if the
        study has no snapshot.

        Args:
            key: the key of the study.
        """

    @abstractmethod
    def transaction(
        self, key: int, durable: bool
    ) -> AbstractContextManager[Transaction]:
        """Open a transaction, to be used in a `with` block.

        The end of the block commits the changes. If the block raises an exception, they
        are discarded.

        Args:
            key: the key of the study.
            durable: with True, the end of the block waits until all changes are on the
                disk. With False, the changes survive if all processes die, but a crash
                of the machine may lose the latest changes. If a change survives, all
                changes before it survive, too.
        """

    @abstractmethod
    def now(self) -> float:
        """Return the time in seconds since 1970, by a clock that all users of this storage share."""

    @abstractmethod
    def check(self, patience: float = 1.0) -> None:
        """Check that studies can be written to at the moment. This itself writes nothing.

        A service calls it in its health checks. A storage that does not exist yet
        passes the check if it can be created.

        Args:
            patience: seconds to wait for other threads and processes that lock the
                storage.

        Raises:
            StorageError: the storage cannot be written to.
        """

    @abstractmethod
    def close(self) -> None:
        """Close all files and connections. The next call of another method opens them again."""


def no_study(name: object, names: Sequence[str], where: str) -> StudyNotFoundError:
    """Return the error for a study that does not exist."""
    shown = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
    hint = f"The existing studies are {shown}." if names else "No studies exist there."
    return StudyNotFoundError(
        f"There is no study {name!r} in {where}. {hint} Use Study.create() to create one."
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
