"""A study's log in a storage, and this process's copy of the state that follows from it.

Every change is one transaction: read the entries that others appended, apply them, do
the change, append its entries. Only the committed log counts. If the copy does not fit
to it, it is discarded and computed again.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock, RLock
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeVar

from asktell._util.forks import fresh_after_fork
from asktell.errors import AsktellError, InvalidStateError, StorageError
from asktell.problem.checks import DAMAGED
from asktell.record import Engine, State, events
from asktell.selector import Selector, selector_of
from asktell.studies import log, snapshots
from asktell.studies.leases import Entry, Expired, Leased, Leases, follow
from asktell.studies.snapshots import Covered
from asktell.studies.storages import AbstractStorage, Line
from asktell.studies.storages.base import Snapshot

_I = TypeVar("_I")
_T = TypeVar("_T")
Clock: TypeAlias = Callable[[], float]

ENTRIES_PER_SNAPSHOT = 4096  # new entries until the next snapshot, at least
# A snapshot whose head is larger waits for more entries, so that writing it stays cheap
HEAD_BYTES_PER_ENTRY = 64
_LINES_AT_ONCE = 10_000


class Replica:
    """An engine and leases that follow the log of a study in a storage.

    Attributes:
        storage: the storage.
        key: the key of the study there.
        engine: the engine, whose events are entries of the log.
        selector: a selector around the engine, to be read.
        leases: the leases.
    """

    def __init__(self, storage: AbstractStorage, key: int, engine: Engine) -> None:
        self.storage = storage
        self.key = key
        self.engine = engine
        engine.record = self.note
        self.selector = selector_of(engine)
        self.leases = Leases()
        # Entries that are still to be written
        self._new: list[Entry] = []
        self._base = self.engine.state
        self._position = 0
        # The line at this position, None if it was not read
        self._last: str | None = None
        self._unsaved = 0  # entries since the last snapshot
        # Entries after which the next snapshot is made
        self._next_save = ENTRIES_PER_SNAPSHOT
        # The position of the last snapshot that this object made or read
        self._saved = 0
        # The position of a snapshot that could not be used
        self._doubted: int | None = None
        # A state, and the selector that `view` returns for it
        self._view: tuple[State, Selector] | None = None
        # A thread acquires the two locks in this order, and a storage's own lock last.
        # It may hold any one alone.
        self._deciding = Lock()
        self.lock = RLock()
        # Operations of all threads that wait in `together`
        self._waiting: deque[Any] = deque()
        # To be committed with the new entries
        self._details: list[tuple[int, str]] = []
        self._restore()
        with self.reading():
            pass
        fresh_after_fork(self, Replica._renew)

    def _renew(self) -> None:
        """Begin again in a forked process: a thread of the parent may hold a lock, or have left a change half done."""
        self.lock, self._deciding, self._waiting = RLock(), Lock(), deque()
        self._new.clear()
        self._details.clear()
        self._view = None
        # No line is empty. So the log does not fit to this copy, and `_catch_up`
        # restores it.
        self._position, self._last = max(self._position, 1), ""

    # Reading

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold the engine and the leases in the committed state."""
        with self.lock:
            self._catch_up(lambda after: self.storage.read(self.key, after))
            yield

    def lines(self) -> Iterator[str]:
        """Yield all lines of the log."""
        position = 0
        while lines := self.storage.read(self.key, position, _LINES_AT_ONCE):
            yield from (line.text for line in lines)
            position = lines[-1].position

    def view(self) -> Selector:
        """Return a selector in the study's present state for reading.

        If no trial is pending, it also has the decisions that are due. They are not
        written, because reading never writes. The next `ask` writes them.
        """
        self.prepare()
        with self.reading():
            engine = self.engine
            if self._view is None or self._view[0] is not engine.state:
                self._view = engine.state, selector_of(engine.at(engine.state_ahead))
            return self._view[1]

    # Writing

    def prepare(self) -> None:
        """Compute a decision that is due before the storage is locked, so that other workers need not wait for it."""
        engine = self.engine
        if engine.state.may_decide:
            with self._deciding:
                with self.reading():
                    may_decide = engine.state.may_decide
                if may_decide:
                    engine.next_decision()

    @contextmanager
    def writing(self, durable: bool) -> Iterator[Clock]:
        """Hold the engine and the leases for a transaction, and give a clock.

        At the end of the `with` block the new entries are appended to the log. After an
        exception, the changes are undone.
        """
        with self.lock:
            before, new = None, self._new
            try:
                with self.storage.transaction(self.key, durable) as transaction:
                    self._catch_up(transaction.read)
                    before = self.engine.state, self.leases
                    yield transaction.now
                    if new:
                        line = Line(self._position + 1, log.encode(new))
                        transaction.append(line)
                    for trial, text in self._details:
                        transaction.attach(trial, text)
                if new:
                    self._position, self._last = line
                    self._unsaved += len(new)
            except BaseException:
                # The commit may have succeeded in spite of the error. Then its entries
                # are read like those of others.
                if before is not None:
                    self._go_to(*before)
                raise
            finally:
                new.clear()
                self._details.clear()
            if self._unsaved >= self._next_save:
                self.save()

    def note(self, entry: Entry) -> None:
        """Add an entry: an event that the engine has folded already, or an entry about leases."""
        if not isinstance(entry, events.Asked):
            self.leases = follow(self.leases, entry)
        self._new.append(entry)

    def lease(
        self,
        worker: str,
        trials: Iterable[int],
        now: float,
        seconds: float,
        instance: str = "",
    ) -> None:
        """Give a worker leases of this duration on trials, or extend them.

        `instance` is the worker's instance, if it has one.
        """
        if instance in self.leases.instances.get(worker, ())[-1:]:
            instance = ""
        deadline = round(now + seconds, 3)
        self.note(Leased(worker, deadline, tuple(trials), seconds, instance))

    def extend(self, worker: str, now: float, seconds: float) -> None:
        """Extend the leases of a worker that are in their second half, because the worker is alive."""
        late = []
        for trial in self.leases.held(worker):
            lease = self.leases.by_trial[trial]
            if lease.deadline <= now + lease.seconds / 2:
                late.append(trial)
        if late:
            self.lease(worker, late, now, seconds)

    def expire(self, now: float, max_attempts: int) -> None:
        """End the leases that have expired. Their trials are handed out again, or fail after `max_attempts` leases."""
        for trial, lease in self.leases.by_trial.items():
            if lease.deadline > now:
                continue
            self.note(Expired(trial))
            expired, _ = self.leases.reissued[trial]
            if expired >= max_attempts:
                self.engine.fail(
                    trial,
                    f"{expired} leases of this trial expired, the last of worker {lease.worker}",
                )
            else:
                self.engine.release(trial)
        self.leases = self.leases.tightened()

    def attach(self, trial: int, details: str | None) -> None:
        """Store details of a trial in the current transaction. Call it last in an operation, when nothing can fail."""
        if details is not None:
            self._details.append((trial, details))

    def together(
        self,
        operation: Callable[[_I, Clock], _T],
        items: Sequence[_I],
    ) -> list[_T | Exception]:
        """Do an operation for each item, durably, in one transaction with those of other threads.

        The transaction has all operations that threads wait for at the same time, so
        that they wait for the disk once. Returns the result of each operation, or the
        error that it raised. An operation that raised an error has changed nothing, and
        does not affect the others.

        Raises:
            StorageError: the transaction failed, and with it all operations.
        """
        tickets = []
        for item in items:
            ticket = SimpleNamespace(operation=operation, item=item)
            ticket.outcome = ticket.error = None
            ticket.is_done = False
            tickets.append(ticket)
        self._waiting.extend(tickets)
        with self.lock:
            # Tickets are done in their order, so all are done if the last one is
            if not tickets[-1].is_done:
                waiting = []
                for _ in range(len(self._waiting)):
                    waiting.append(self._waiting.popleft())
                self._commit(waiting)
        outcomes: list[Any] = []
        for ticket in tickets:
            if ticket.error is not None:
                raise ticket.error
            outcomes.append(ticket.outcome)
        return outcomes

    def _commit(self, tickets: list[Any]) -> None:
        """Do the operations of tickets in one transaction. Never raises an error, but leaves it in the tickets."""
        try:
            with self.writing(durable=True) as clock:
                for ticket in tickets:
                    before, n_entries = (self.engine.state, self.leases), len(self._new)
                    try:
                        ticket.outcome = ticket.operation(ticket.item, clock)
                    except StorageError:
                        # The clock failed, so nothing can be committed
                        raise
                    except Exception as error:
                        ticket.outcome = error
                        self._go_to(*before)
                        del self._new[n_entries:]
        except BaseException as error:
            # Each thread raises its own copy, because threads must not share a
            # traceback
            for ticket in tickets:
                ticket.error = (
                    type(error)(*error.args)
                    if isinstance(error, AsktellError)
                    else error
                )
        finally:
            for ticket in tickets:
                ticket.is_done = True

    # Following the log

    def _catch_up(self, read: Callable[[int], Any]) -> None:
        """Apply the new lines of the log.

        The last known line is read again. If it is missing or differs, the log was
        changed under this copy: a server crashed, or another one took its place, and
        lines that were not durable are lost. Then the copy is restored.

        Raises:
            InvalidStateError: the log lacks a line, or has a malformed or impossible
                entry.
        """
        lines = read(max(self._position - 1, 0))
        if self._position:
            if (
                not lines
                or lines[0].position != self._position
                or self._last not in (None, lines[0].text)
            ):
                self._restore()
                lines = read(self._position)
            else:
                self._last = lines[0].text
                lines = lines[1:]
        for i, line in enumerate(lines, start=self._position + 1):
            if line.position != i:
                raise InvalidStateError(f"The study's log lacks line {i}. {DAMAGED}")
        if lines:
            state, leases, n_entries = log.replayed(
                self.engine,
                self.leases,
                [line.text for line in lines],
                self._position + 1,
            )
            self._go_to(state, leases)
            self._unsaved += n_entries
            self._position, self._last = lines[-1]

    def _go_to(self, state: State, leases: Leases) -> None:
        """Go to another state of the study."""
        self.engine.go_to(state)
        self.leases = leases

    def _restore(self) -> None:
        """Go back to the last snapshot or, without a usable one, to the beginning of the log.

        Raises:
            StudyNotFoundError: the study was deleted.
        """
        # The log also lacks its lines if the study was deleted. This raises the error then.
        self.storage.document(self.key)
        told = self.leases.told  # scores from before stay counted
        self._go_to(self._base, Leases(told=told))
        self._position, self._last, self._doubted = 0, None, None
        snapshot = self.storage.snapshot(self.key)
        if snapshot is None:
            return
        # A snapshot only saves time. If it cannot be used, the log is read from its
        # beginning.
        self._saved = snapshot.position
        try:
            line = self._line(snapshot.position)
            state, leases = snapshots.load(
                snapshot.head, snapshot.parts, self._base.growth.origin, line
            )
        except InvalidStateError:
            self._doubted = snapshot.position
            return
        self._go_to(state, leases._replace(told=told))
        self._position = snapshot.position
        self._next_save = _entries_until(snapshot.head)

    def save(self) -> None:
        """Save a snapshot, unless another process has saved one recently.

        A snapshot only saves time. If the storage fails, the next process saves one.
        """
        self._unsaved = 0
        with (
            self.lock,
            suppress(StorageError),
            self.storage.transaction(self.key, durable=False) as transaction,
        ):
            self._catch_up(transaction.read)
            last = transaction.head()
            if self._last is None or (
                last is not None and snapshots.is_newer(last.head)
            ):
                return
            # Saved by another process
            if last is not None and last.position not in (self._saved, self._doubted):
                self._saved = last.position
                if 0 <= self._position - last.position < ENTRIES_PER_SNAPSHOT // 4:
                    return
            covered = self._covered(last)
            head, part = snapshots.dump(
                self.engine.state, self.leases, covered, self._last
            )
            transaction.save(self._position, head, part, replace=not covered.parts)
            self._saved, self._doubted = self._position, None
            self._next_save = _entries_until(head)

    def _covered(self, last: Snapshot | None) -> Covered:
        """Return the numbers of rows, decisions and so on in the last snapshot: 0 if the snapshot cannot be used."""
        if last is None or last.position == self._doubted:
            return Covered()
        try:
            return snapshots.read_covered(last.head, self._line(last.position))
        except InvalidStateError:
            return Covered()

    def _line(self, position: int) -> str:
        """Return one line of the log."""
        lines = self.storage.read(self.key, position - 1, 1)
        if not lines:
            raise InvalidStateError(
                f"The study's log ends before line {position}. {DAMAGED}"
            )
        return lines[0].text


def _entries_until(head: bytes) -> int:
    """Return the number of new entries after which the next snapshot is saved."""
    return max(ENTRIES_PER_SNAPSHOT, len(head) // HEAD_BYTES_PER_ENTRY)
