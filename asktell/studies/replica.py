"""A study's log in a storage, and this process's copy of what follows from it.

Every change is one transaction: read what others appended, fold it, do it, append. What was committed is all there
is; the copy is thrown away and made anew whenever it does not fit.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock, RLock
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeVar

from asktell._util.forks import fresh_after_fork
from asktell.errors import AsktellError, InvalidStateError, StorageError
from asktell.selector import Selector
from asktell.state import State
from asktell.storages import AbstractStorage, Line
from asktell.storages.base import Snapshot
from asktell.studies import log, snapshots
from asktell.studies.log import LoggedSelector
from asktell.studies.snapshots import Covered

_T = TypeVar("_T")
Clock: TypeAlias = Callable[[], float]
Operation: TypeAlias = Callable[[LoggedSelector, Clock], _T]

ENTRIES_PER_SNAPSHOT = 4096
HEAD_BYTES_PER_ENTRY = 64  # a large head is saved less often
_LINES_AT_ONCE = 10_000


class Replica:
    """A logged selector, kept at the log's end."""

    def __init__(self, storage: AbstractStorage, key: int, logged: LoggedSelector) -> None:
        self.storage = storage
        self.key = key
        self.logged = logged
        self._base = logged.mark()
        self._position = 0
        self._last: str | None = None  # the line at this position, None if it was not read
        self._unsaved, self._next_save = 0, ENTRIES_PER_SNAPSHOT  # entries since the last snapshot, and for the next
        self._saved = 0  # the position of the last snapshot that this object knows of
        self._doubted: int | None = None  # the position of one that could not be used
        self._view: tuple[State, Selector] | None = None  # of a state, with what `view` makes of it
        # A thread takes these in this order, and a storage's own lock last; it may hold any of them alone.
        self._deciding = Lock()
        self.lock = RLock()
        self._waiting: deque[Any] = deque()  # what `together` waits for
        self._details: list[tuple[int, str]] = []  # to be committed with the logged's new entries
        self._restore()
        with self.reading():
            pass
        fresh_after_fork(self, Replica._renew)

    def _renew(self) -> None:
        """In a forked process: wait for no thread of the parent, and restore what one may have been changing."""
        self.lock, self._deciding, self._waiting = RLock(), Lock(), deque()
        self.logged.new.clear()
        self._details.clear()
        self._view = None
        self._position, self._last = max(self._position, 1), ""  # no line is empty, so that the log does not fit

    # Reading

    @contextmanager
    def reading(self) -> Iterator[LoggedSelector]:
        """The logged selector, with everything that was committed by now, and nothing that was not."""
        with self.lock:
            self._catch_up(lambda after: self.storage.read(self.key, after))
            yield self.logged

    def lines(self) -> Iterator[str]:
        """The whole log."""
        position = 0
        while lines := self.storage.read(self.key, position, _LINES_AT_ONCE):
            yield from (line.text for line in lines)
            position = lines[-1].position

    def view(self) -> Selector:
        """A selector in the study's present state, to look at, with the decisions that are due if nothing is pending.

        Those are not written: reading never writes. Whoever asks next writes them.
        """
        self.prepare()
        with self.reading() as logged:
            if self._view is None or self._view[0] is not logged.state:
                self._view = logged.state, logged.view()
            return self._view[1]

    # Writing

    def prepare(self) -> None:
        """Compute a decision that is due, before anybody is kept waiting for it."""
        if self.logged.selector._state.may_decide:
            with self._deciding:
                with self.reading() as logged:
                    may_decide = logged.state.may_decide
                if may_decide:
                    logged.prepare()

    @contextmanager
    def writing(self, durable: bool) -> Iterator[tuple[LoggedSelector, Clock]]:
        """The logged selector and a clock; at the end what was done is appended to the log, or undone if it raised."""
        with self.lock:
            logged, mark = self.logged, None
            try:
                with self.storage.transaction(self.key, durable) as transaction:
                    self._catch_up(transaction.read)
                    mark = logged.selector._state, logged.leases
                    yield logged, transaction.now
                    if logged.new:
                        line = Line(self._position + 1, log.encode(logged.new))
                        transaction.append(line)
                    for each in self._details:
                        transaction.attach(*each)
                if logged.new:
                    self._position, self._last = line
                    self._unsaved += len(logged.new)
            except BaseException:
                # If it was committed all the same, it is read back like what others did.
                if mark is not None:
                    logged.go_back(mark)
                raise
            finally:
                logged.new.clear()
                self._details.clear()
            if self._unsaved >= self._next_save:
                self.save()

    def attach(self, trial: int, details: str | None) -> None:
        """Keep details, in the transaction that is being written; the last thing an operation does."""
        if details is not None:
            self._details.append((trial, details))

    def together(self, operations: Sequence[Operation[_T]]) -> list[_T | Exception]:
        """Do them durably, in one transaction with what other threads want to do at the same time.

        What each returned, or the error that it raised: then it left no trace, and was no concern of the others.
        """
        tickets = [SimpleNamespace(operation=each, outcome=None, error=None, done=False) for each in operations]
        self._waiting.extend(tickets)
        with self.lock:
            if not all(ticket.done for ticket in tickets):
                self._commit([self._waiting.popleft() for _ in range(len(self._waiting))])
        for ticket in tickets:
            if ticket.error is not None:
                raise ticket.error
        return [ticket.outcome for ticket in tickets]

    def _commit(self, tickets: list[Any]) -> None:
        try:
            with self.writing(durable=True) as (logged, clock):
                for ticket in tickets:
                    try:
                        with logged.attempt():
                            ticket.outcome = ticket.operation(logged, clock)
                    except StorageError:  # of the clock: nothing can be committed
                        raise
                    except Exception as error:
                        ticket.outcome = error
        except BaseException as error:
            for ticket in tickets:  # each thread raises one of its own: a traceback belongs to one thread
                ticket.error = type(error)(*error.args) if isinstance(error, AsktellError) else error
        finally:
            for ticket in tickets:
                ticket.done = True

    # Following the log

    def _catch_up(self, read: Callable[[int], Any]) -> None:
        """Fold what is new. The last known line is read again: if it is not there, the log is not what it was.

        That is so after a server crashed, or another took its place, and what was not durable is lost.
        """
        lines = read(max(self._position - 1, 0))
        if self._position:
            if not lines or lines[0].position != self._position or self._last not in (None, lines[0].text):
                self._restore()
                lines = read(self._position)
            else:
                self._last = lines[0].text
                lines = lines[1:]
        for i, line in enumerate(lines, start=self._position + 1):
            if line.position != i:
                raise InvalidStateError(f"The study's log lacks line {i}.")
        if lines:
            self._unsaved += self.logged.replay([line.text for line in lines])
            self._position, self._last = lines[-1]

    def _restore(self) -> None:
        """Begin anew, where the last snapshot was made."""
        self.logged.go_back(self._base)
        self._position, self._last, self._doubted = 0, None, None
        found = self.storage.snapshot(self.key)
        if found is None:
            return
        # A snapshot only saves time. In doubt the log is read from its start.
        self._saved = found.position
        try:
            line = self._line(found.position)
            loaded = snapshots.load(found.head, found.parts, self.logged.state.origin, line)
        except InvalidStateError:
            self._doubted = found.position
            return
        self.logged.go_back(loaded)
        self._position = found.position
        self._next_save = _entries_until(found.head)

    def save(self) -> None:
        """Make a snapshot, unless another process has made one meanwhile.

        It only saves time: one that cannot be made is left to whoever comes next.
        """
        self._unsaved = 0
        with self.lock, suppress(StorageError), self.storage.transaction(self.key, durable=False) as transaction:
            self._catch_up(transaction.read)
            last = transaction.head()
            if self._last is None or (last is not None and snapshots.is_newer(last.head)):
                return
            if last is not None and last.position not in (self._saved, self._doubted):  # by another process
                self._saved = last.position
                if 0 <= self._position - last.position < ENTRIES_PER_SNAPSHOT // 4:
                    return
            covered = self._covered(last)
            head, part = snapshots.dump(*self.logged.mark(), covered, self._last)
            transaction.save(self._position, head, part, replace=not covered.parts)
            self._saved, self._doubted = self._position, None
            self._next_save = _entries_until(head)

    def _covered(self, last: Snapshot | None) -> Covered:
        """The number of rows and so on that the parts of the last snapshot hold; none if it is in doubt."""
        if last is None or last.position == self._doubted:
            return Covered()
        try:
            return snapshots.read_covered(last.head, self._line(last.position))
        except InvalidStateError:
            return Covered()

    def _line(self, position: int) -> str:
        """A line of the log."""
        lines = self.storage.read(self.key, position - 1, 1)
        if not lines:
            raise InvalidStateError(f"The study's log ends before line {position}.")
        return lines[0].text


def _entries_until(head: bytes) -> int:
    """How many entries it takes for the next snapshot to be worth its while."""
    return max(ENTRIES_PER_SNAPSHOT, len(head) // HEAD_BYTES_PER_ENTRY)
