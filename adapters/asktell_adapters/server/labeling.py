"""People as evaluators: the next item of each rater, and labels that survive a killed server.

A label is saved when its line is in the journal, a file beside the study that is synced to
the disk before the page gets a response. The study records the score later: when the rater
gives the next label, after a pause, or at the end. Until then the label can be undone,
because a study cannot undo a score. A server that starts again reads the journal, keeps the
last label of each rater as it was, and records all other labels that the study may lack.
Recording the same score again has no effect.

Each rater is a worker of the study, whose name is the rater's with a prefix. So no two
raters hold the same trial, a rater who comes back gets the same trials, and no rater gets
those of another worker. All leases of raters are renewed before any rater asks. So none
expires while this process sleeps, and none of the trials that were held before a restart
goes to another rater before this process has handed it back.

The responses that a label is about are in the journal before anybody sees them. So they
are never made twice, and a label is recorded with the responses that were labeled.
"""

import hashlib
import hmac
import json
import logging
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Event, RLock, Semaphore, Thread
from typing import Any, NamedTuple, TypeAlias, final

from asktell import (
    AsktellError,
    InvalidArgumentError,
    InvalidStateError,
    StorageError,
    Study,
    StudyNotFoundError,
    Trial,
)
from asktell.extend import in_words, safe, some
from asktell_adapters.server.journal import Journal

TIE = 2
"""Position of the tie among the options of a comparison. 0 and 1 are the two responses."""

_AHEAD = 4  # items that a rater holds, so that the next one is ready at once
# Seconds for which the last label can be undone: with a next item on the page, and
# without, when others may wait for the score
_HOLD, _HOLD_AT_END = 300.0, 15.0
_IDLE = 900.0  # seconds without a request, after which a rater's items are handed back
# Longer than any sleep of a machine, which may come between a renewal and a request.
# The label page hands items back itself, also those from before a restart. So leases
# only end if it is never started again.
_LEASE = 30 * 86400.0
_SECONDS_BETWEEN_BEATS = 60.0
_AS_WORKER = "rater "  # start of the name under which a rater is a worker
# Seconds without a look at a storage that could not be reached
_SECONDS_BETWEEN_LOOKS = 30.0
_TICK = 0.5
_PATIENCE = 2.0  # seconds that a request waits for an item
_MOST_RATERS = 200
_MOST_FAILURES = 10  # responses in a row that cannot be had, after which none is asked
_THREADS = 4
_LONGEST_NAME = 60

log = logging.getLogger("asktell_adapters.server")

_Cell: TypeAlias = tuple[
    str | int, int
]  # the id of a prompt, the position of an example


class Option(NamedTuple):
    """A label that raters choose from, and its score."""

    label: str
    score: float


class Responses(NamedTuple):
    """The responses to show to a rater for a trial.

    Attributes:
        texts: the response of the trial's prompt and, in a comparison, of the baseline.
        scores: metrics and proxies that are known without people. They are told
            together with the label.
        cost: the cost of making the response.
    """

    texts: tuple[str, ...]
    scores: Mapping[str, float] = {}
    cost: float | None = None


class GoldRow(NamedTuple):
    """An item whose right label is known. It measures the rater, and its label is no score of the study.

    Attributes:
        input: the input.
        texts: the responses, as in `Responses`.
        label: position of the right label among the options.
    """

    input: str
    texts: tuple[str, ...]
    label: int

    @property
    def id(self) -> str:
        """The row as an item: "g" and a digest of what raters see."""
        return f"g{_digest_of([self.input, *self.texts])}"


@final
@dataclass(frozen=True)
class Task:
    """The question about each response, and the possible labels.

    Attributes:
        question: the question.
        metric: the metric of the goal that labels are scores of.
        options: the labels. In a comparison, these are the first response, the second
            response, and a tie.
        is_comparison: whether the response is compared with the baseline's.
        inputs: the text of each example.
        respond: returns the responses of a trial.
        gold: items with known labels.
        gold_every: with 10, one of every ten labels of a rater is about a gold row.
    """

    question: str
    metric: str
    options: tuple[Option, ...]
    is_comparison: bool
    inputs: Sequence[str]
    respond: Callable[[Trial], Responses]
    gold: tuple[GoldRow, ...] = ()
    gold_every: int = 10

    @property
    def choices(self) -> tuple[str, ...]:
        """The labels as the page shows them. The first response on the page is A."""
        if self.is_comparison:
            return "A is better", "B is better", "Equally good"
        return tuple(option.label for option in self.options)


class Rating(NamedTuple):
    """The work of one rater.

    Attributes:
        rater: the rater's name.
        labels: number of labels, without gold rows.
        skipped: number of items that were skipped.
        gold: number of gold rows that were labeled.
        agreed: number of gold rows that got the right label.
        shift: mean difference between the scores of the rater's labels and of the right
            labels. None without gold rows.
        seconds: median seconds per label. None without labels.
    """

    rater: str
    labels: int
    skipped: int
    gold: int
    agreed: int
    shift: float | None
    seconds: float | None


@dataclass(eq=False)
class _Item:
    """A trial or a gold row, as shown to one rater."""

    id: str  # "t" and the trial's id, or the id of the gold row
    token: str  # by which the page names it
    input: str
    responses: Responses
    trial: Trial | None = None  # None for a gold row


@dataclass(eq=False)
class _Label:
    """A label that is in the journal and not yet in the study."""

    item: _Item
    choice: int
    seconds: float
    at: float


@dataclass(eq=False)
class _Rater:
    """One rater, as far as this process remembers."""

    name: str
    study: Study  # bound to the rater's name
    seen: float  # time of the last request
    queue: list[_Item] = field(default_factory=list)
    shown: _Item | None = None
    held: _Label | None = None
    due: list[_Label] = field(default_factory=list)  # to be told
    failed: list[_Label] = field(
        default_factory=list
    )  # only the next start tries again
    returning: list[Trial] = field(default_factory=list)  # to be released
    skipped: set[int] = field(default_factory=set)  # trials
    n_skipped: int = 0
    # What was labeled, by the id of the item: the position of the label, and the seconds
    labels: dict[str, tuple[int, float]] = field(default_factory=dict)
    gold_done: set[str] = field(default_factory=set)  # ids of gold rows
    has_come: bool = False  # with a request to this process
    is_away: bool = False  # without a request for a while
    has_left: bool = False  # all items are to be handed back
    # Why there is no item: "wait", "done", "paused", "skipped" or "failed"
    over: str = "wait"
    is_working: bool = False
    # For a turn or a response, which may take long. `close` need not wait for it.
    is_waiting: bool = False

    @property
    def trials(self) -> set[int]:
        """The ids of the trials that are at the rater, or labeled and not yet recorded."""
        labels = [*self.due, *self.failed]
        labels += [self.held] if self.held is not None else []
        items = [*self.queue, *(label.item for label in labels)]
        items += [self.shown] if self.shown is not None else []
        return {item.trial.id for item in items if item.trial is not None}

    def find(self, token: str) -> _Item | None:
        """The item that this rater holds under a token."""
        held = [*self.queue, self.shown]
        return next((item for item in held if item and item.token == token), None)


@final
class Labeling:
    """The raters of one study. Thread-safe.

    Requests only read and write memory and the journal, so that a page answers at once.
    Threads in the background tell the study, ask it for more, and get the responses.

    Args:
        study: the study. It is closed by `close`.
        task: what people are asked.
        journal: the file of the journal. Only one process may use it at a time.
        hold: seconds for which the last label can be undone while there is a next item.
        hold_at_end: the same without a next item.
    """

    def __init__(
        self,
        study: Study,
        task: Task,
        journal: Path,
        *,
        hold: float = _HOLD,
        hold_at_end: float = _HOLD_AT_END,
    ) -> None:
        self.study, self.task = study, task
        self._hold, self._hold_at_end = hold, hold_at_end
        self._journal = Journal(journal, study.id)
        self._raters: dict[str, _Rater] = {}
        self._gold = {row.id: row for row in task.gold}
        # By trial: its prompt and example, and the responses that were made
        self._responses: dict[int, tuple[_Cell, Responses]] = {}
        self._is_gone = False  # the study was deleted
        self._next_look = 0.0
        self._changed = Condition(RLock())
        self._left = 0
        self._failures = 0  # in a row
        # Threads in the background that may use the study at once
        self._turns = Semaphore(_THREADS)
        self._stop = Event()
        try:
            self._restore()
        except BaseException:
            self._journal.close()
            raise
        self._ticker = Thread(target=self._tick, name="labels", daemon=True)
        self._ticker.start()

    # What the page asks

    def next(self, name: str) -> dict[str, Any]:
        """The present screen of a rater, as JSON data."""
        self._look()
        with self._changed:
            return self._screen(self._rater(name))

    def label(
        self, name: str, token: str, choice: int, seconds: float
    ) -> dict[str, Any]:
        """Save a label, and return the rater's next screen.

        Args:
            name: the rater's name.
            token: the item, as the page names it.
            choice: position of the label among those on the page.
            seconds: the time that the rater took.

        Raises:
            InvalidArgumentError: there is no such label.
            StudyNotFoundError: the study was deleted. The label was not saved.
        """
        if not 0 <= choice < len(self.task.options):
            raise InvalidArgumentError(
                f"choice must be from 0 to {len(self.task.options) - 1}, got {choice}."
            )
        self._look()
        with self._changed:
            rater = self._rater(name)
            item = self._held(rater, token)
            if item is None:
                return self._screen(rater, self._about_unknown(rater, token, choice))
            chosen = self._turned(rater, item.id, choice)
            self._note(
                "label",
                rater,
                item,
                label=self.task.options[chosen].label,
                response=_digest_of(item.responses.texts),
                seconds=seconds,
            )
            self._drop(rater, item)
            if rater.held is not None:
                rater.due.append(rater.held)
            rater.held = _Label(item, chosen, seconds, time.monotonic())
            rater.labels[item.id] = chosen, seconds
            if item.trial is None:
                rater.gold_done.add(item.id)
            self._start(rater)
            return self._screen(rater)

    def skip(self, name: str, token: str) -> dict[str, Any]:
        """Hand an item back, and return the rater's next screen."""
        self._look()
        with self._changed:
            rater = self._rater(name)
            item = self._held(rater, token)
            if item is None:
                return self._screen(rater, self._about_unknown(rater, token))
            self._note("skip", rater, item)
            self._drop(rater, item)
            rater.n_skipped += 1
            self._set_aside(rater, item)
            self._start(rater)
            return self._screen(rater)

    def undo(self, name: str) -> dict[str, Any]:
        """Take the last label back, and return its item, to be labeled again."""
        self._look()
        with self._changed:
            rater = self._rater(name)
            held = rater.held
            if held is None:
                return self._screen(
                    rater, "There is no label that can still be undone."
                )
            self._note("undo", rater, held.item)
            if rater.shown is not None:
                rater.queue.append(rater.shown)
            rater.held, rater.shown = None, held.item
            rater.labels.pop(held.item.id, None)
            rater.gold_done.discard(held.item.id)
            return self._screen(rater)

    def again(self, name: str) -> dict[str, Any]:
        """Let a rater see the skipped items once more."""
        self._look()
        with self._changed:
            rater = self._rater(name)
            self._journal.append({"do": "again", "rater": rater.name})
            rater.skipped.clear()
            rater.over = "wait"
            self._start(rater)
            return self._screen(rater)

    def ratings(self) -> list[Rating]:
        """The work of each rater so far, in the order of their names."""
        with self._changed:
            return [self._rating(self._raters[name]) for name in sorted(self._raters)]

    def close(self) -> None:
        """Record all labels, hand all other items back, and close the study.

        Does not wait for responses that are being made. An LLM's response is in the
        cache when it is complete, so the next start need not pay for it.
        """
        self._stop.set()
        self._ticker.join()
        with self._changed:
            for rater in self._raters.values():
                self._leave(rater)
            self._changed.wait_for(
                lambda: all(
                    rater.is_waiting or not rater.is_working
                    for rater in self._raters.values()
                )
            )
        for rater in self._raters.values():
            # Whatever cannot be recorded now is in the journal.
            with suppress(AsktellError), _errors_logged():
                self._finish(rater)
        if n := self._n_untold():
            log.error(
                "%d labels could not be recorded in the study. They are in %s.",
                n,
                safe(str(self._journal.path)),
            )
        self._journal.close()
        self.study.close()

    def _look(self) -> None:
        """Refuse to go on after the study was deleted.

        Raises:
            StudyNotFoundError: the study was deleted.
        """
        now = time.monotonic()
        if not self._is_gone and now >= self._next_look:
            try:
                self.study.paused  # noqa: B018
            except StudyNotFoundError:
                self._is_gone = True
            except StorageError:
                # Labels are saved in the journal meanwhile, without waiting for it
                self._next_look = now + _SECONDS_BETWEEN_LOOKS
        if self._is_gone:
            raise StudyNotFoundError(
                f"The study {self.study.name!r} was deleted, so nothing more can be labeled, and this label was not "
                "saved. Tell the person who started the label page."
            )

    # In memory, while the lock is held

    def _rater(self, name: str) -> _Rater:
        """The rater of this name, now marked as present."""
        name = " ".join(name.split())
        if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
            raise InvalidArgumentError(
                f"The name of a rater must have 1 to {_LONGEST_NAME} printable characters, got {name[:80]!r}."
            )
        rater = self._raters.get(name)
        if rater is None:
            if len(self._raters) >= _MOST_RATERS:
                self._forget_idle()
            if len(self._raters) >= _MOST_RATERS:
                raise InvalidArgumentError(
                    f"There are {_MOST_RATERS} raters already. Use one of their names, or wait for "
                    f"{_IDLE / 60:.0f} minutes: then names that have given no label are free again."
                )
            rater = self._raters[name] = self._new_rater(name)
        rater.seen = time.monotonic()
        rater.has_come, rater.is_away = True, False
        return rater

    def _forget_idle(self) -> None:
        """Forget raters who gave no label and are gone, so that nobody can use up all names for good."""
        for rater in list(self._raters.values()):
            has_work = rater.labels or rater.n_skipped or rater.due or rater.has_left
            if rater.is_away and not has_work and not rater.is_working:
                del self._raters[rater.name]

    def _new_rater(self, name: str) -> _Rater:
        return _Rater(name, self._bound(name), time.monotonic())

    def _bound(self, name: str, besides: Collection[int] = ()) -> Study:
        """The study, bound to a rater. `besides`: trials that were labeled, and not recorded yet."""
        worker = f"{_AS_WORKER}{name}"
        return self.study.worker(worker, lease=_LEASE, besides=besides)

    def _screen(self, rater: _Rater, message: str = "") -> dict[str, Any]:
        """The data of the page. It has no id of a prompt, an example or a trial."""
        item = rater.shown or self._pick(rater)
        if item is None and not self._stop.is_set():
            self._start(rater)
            self._changed.wait_for(
                lambda: rater.queue or not rater.is_working, _PATIENCE
            )
            item = self._pick(rater)
        elif len(rater.queue) < _AHEAD - 1:
            self._start(rater)
        rater.shown = item
        screen: dict[str, Any] = {
            "state": "item" if item is not None else rater.over,
            "given": len(rater.labels),
            "left": max(0, self._left - self._n_untold()),
            "skipped": len(rater.skipped),
            "undo": rater.held is not None,
            "said": message,
        }
        if item is not None:
            texts = list(item.responses.texts)
            screen |= {
                "item": item.token,
                "input": item.input,
                "responses": texts[::-1] if self._is_swapped(rater, item.id) else texts,
            }
        return screen

    def _n_untold(self) -> int:
        """Number of labels of all raters that are or will be scores of the study."""
        labels = [
            label
            for rater in self._raters.values()
            for label in (*rater.due, *rater.failed, rater.held)
        ]
        return sum(
            label is not None and label.item.trial is not None for label in labels
        )

    def _pick(self, rater: _Rater) -> _Item | None:
        """The next item: sometimes a gold row, otherwise an item at hand, in an order that only the key determines."""
        if not rater.queue:
            return None
        gold = self._due_gold(rater)
        if gold is not None:
            return gold
        item = min(
            rater.queue, key=lambda waiting: self._digest("order", rater, waiting.id)
        )
        rater.queue.remove(item)
        return item

    def _due_gold(self, rater: _Rater) -> _Item | None:
        """A gold row, if one is due. One is due at a random place among every `gold_every` labels."""
        rows = [id_ for id_ in self._gold if id_ not in rater.gold_done]
        if not rows:
            return None
        every = self.task.gold_every
        block, place = divmod(len(rater.labels), every)
        due = int(self._digest("gold", rater, str(block)), 16) % every
        if place != due:
            return None
        return self._gold_item(
            rater, min(rows, key=lambda id_: self._digest("row", rater, id_))
        )

    def _gold_item(self, rater: _Rater, id_: str) -> _Item:
        row = self._gold[id_]
        return self._item(rater, id_, row.input, Responses(row.texts))

    def _item(
        self,
        rater: _Rater,
        id_: str,
        text: str,
        responses: Responses,
        trial: Trial | None = None,
    ) -> _Item:
        return _Item(id_, self._token(rater, id_), text, responses, trial)

    def _token(self, rater: _Rater, id_: str) -> str:
        return self._digest("item", rater, id_)[:24]

    def _is_swapped(self, rater: _Rater, id_: str) -> bool:
        """Whether this rater sees the second response of an item first."""
        side = int(self._digest("side", rater, id_), 16) % 2 == 1
        return self.task.is_comparison and side

    def _turned(self, rater: _Rater, id_: str, choice: int) -> int:
        """The position among the options for one among the page's choices, and the other way round."""
        return 1 - choice if self._is_swapped(rater, id_) and choice != TIE else choice

    def _digest(self, purpose: str, rater: _Rater, text: str) -> str:
        """A number that cannot be guessed without the key, in hexadecimal digits."""
        message = json.dumps([purpose, rater.name, text]).encode()
        return hmac.new(self._journal.key, message, hashlib.sha256).hexdigest()

    def _held(self, rater: _Rater, token: str) -> _Item | None:
        """The item that a rater holds under a token. After a restart, the rater first gets the same items back."""
        item = rater.find(token)
        if item is None and (rater.held is None or rater.held.item.token != token):
            self._screen(rater)
            # The items come back one by one, and this may be the last of them
            self._changed.wait_for(
                lambda: rater.find(token) or not rater.is_working, _PATIENCE
            )
            item = rater.find(token)
        return item

    def _about_unknown(
        self, rater: _Rater, token: str, choice: int | None = None
    ) -> str:
        """The message to a rater who sends an item that is not held. A request that is repeated is no mistake."""
        for id_ in reversed(rater.labels):
            if self._token(rater, id_) == token:
                chosen = self._turned(rater, id_, rater.labels[id_][0])
                if chosen == choice:
                    return ""
                can_undo = rater.held is not None and rater.held.item.id == id_
                return (
                    f'Nothing was changed. You gave this item the label "{self.task.choices[chosen]}" before, perhaps '
                    "in another tab. "
                    + (
                        "To change the label, undo it first."
                        if can_undo
                        else "That label can no longer be undone."
                    )
                )
        if choice is None and any(
            self._token(rater, f"t{trial}") == token for trial in rater.skipped
        ):
            return ""
        return "That item is no longer yours, so nothing was saved for it. Here is the next one."

    def _drop(self, rater: _Rater, item: _Item) -> None:
        """Remove an item from the rater's items."""
        if rater.shown is item:
            rater.shown = None
        else:
            rater.queue.remove(item)

    def _set_aside(self, rater: _Rater, item: _Item) -> None:
        """Hand an item back that this rater skipped."""
        if item.trial is None:
            rater.gold_done.add(item.id)
        else:
            rater.skipped.add(item.trial.id)
            rater.returning.append(item.trial)

    def _leave(self, rater: _Rater) -> None:
        """Record the last label, and hand all other items back, also those that the rater held before a restart."""
        if rater.held is not None:
            rater.due.append(rater.held)
            rater.held = None
        rater.queue, rater.shown = [], None
        rater.is_away = rater.has_left = True

    def _note(self, do: str, rater: _Rater, item: _Item, **more: Any) -> None:
        """Add an action of a rater to the journal, durably."""
        entry = {"do": do, "rater": rater.name, "item": item.id, **more}
        self._journal.append({"at": round(time.time(), 3), **entry})

    def _rating(self, rater: _Rater) -> Rating:
        options = self.task.options
        shifts, seconds = list[float](), list[float]()
        agreed = n_labels = 0
        for id_, (choice, took) in rater.labels.items():
            seconds.append(took)
            row = self._gold.get(id_)
            if row is not None:
                agreed += choice == row.label
                shifts.append(options[choice].score - options[row.label].score)
            n_labels += id_.startswith("t")
        return Rating(
            rater.name,
            n_labels,
            rater.n_skipped,
            len(shifts),
            agreed,
            statistics.fmean(shifts) if shifts else None,
            statistics.median(seconds) if seconds else None,
        )

    # In the background

    def _start(self, rater: _Rater) -> None:
        """Let a thread do the work that is due for a rater, unless a thread already does."""
        if not rater.is_working and not self._stop.is_set():
            rater.is_working = True
            Thread(target=self._work, args=(rater,), name="labels", daemon=True).start()

    def _work(self, rater: _Rater) -> None:
        """Record, release and ask for a rater until nothing is left to do."""
        try:
            while True:
                with self._waiting(rater):
                    self._turns.acquire()
                try:
                    if self._stop.is_set():
                        return
                    self._finish(rater)
                    has_more = self._more(rater)
                finally:
                    self._turns.release()
                with self._changed:
                    self._changed.notify_all()
                    if not (has_more or rater.due or rater.returning or rater.has_left):
                        return
        except StudyNotFoundError:
            self._is_gone = True
        except StorageError as error:
            # The next tick tries again. The labels are in the journal.
            log.error("labels of %s: %s", safe(repr(rater.name)), safe(str(error)))
        except Exception:
            log.exception("An error of the label page")
        finally:
            with self._changed:
                rater.is_working = False
                self._changed.notify_all()

    @contextmanager
    def _waiting(self, rater: _Rater) -> Iterator[None]:
        """A block in which a thread waits, and uses neither the study nor the journal."""
        rater.is_waiting = True
        with self._changed:
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                rater.is_waiting = False

    def _finish(self, rater: _Rater) -> None:
        """Record the labels that are due, and release the items that were handed back.

        Raises:
            StorageError: the storage cannot be used.
            StudyNotFoundError: the study was deleted.
        """
        for label in list(rater.due):
            recorded = self._tell(rater, label)
            with self._changed:
                rater.due.remove(label)
                if recorded is None:
                    rater.failed.append(label)
                else:
                    self._left -= recorded
        for trial in list(rater.returning):
            with _errors_logged():
                rater.study.release(trial)
            with self._changed:
                rater.returning.remove(trial)
        if rater.has_left:
            self._release_all(rater)

    def _release_all(self, rater: _Rater) -> None:
        """Release what a rater holds in the study and not in this process.

        The study may have more than this process remembers, after a restart or when a
        response was not waited for.
        """
        rater.has_left = False
        try:
            for trial in rater.study.heartbeat():
                with self._changed:
                    is_free = trial.id not in rater.trials
                if is_free:
                    rater.study.release(trial)
        except BaseException:
            rater.has_left = True
            raise

    def _tell(self, rater: _Rater, label: _Label) -> bool | None:
        """Record one label in the study, unless it is of a gold row.

        Returns:
            Whether a score was recorded. None after an error that only the next start
            can mend.

        Raises:
            StorageError: the storage cannot be used.
            StudyNotFoundError: the study was deleted.
        """
        item, recorded = label.item, False
        if item.trial is not None:
            option = self.task.options[label.choice]
            try:
                recorded = rater.study.tell(
                    item.trial,
                    self._scores(label),
                    item.responses.cost,
                    details={
                        "rater": rater.name,
                        "label": option.label,
                        "seconds": label.seconds,
                        "output": item.responses.texts[0],
                    },
                )
            except (StorageError, StudyNotFoundError):
                raise
            except Exception as error:
                # Other labels may be fine
                log.error(
                    "The label %s of rater %s stays in the journal, since it could not be recorded. %s",
                    safe(repr(option.label)),
                    safe(repr(rater.name)),
                    safe(in_words(error)),
                )
                return None
            if not recorded:
                _log_taken(rater, label)
            self._responses.pop(item.trial.id, None)
        self._note_told(rater, label, recorded)
        return recorded

    def _scores(self, label: _Label) -> dict[str, float]:
        """The scores of an item that has a label."""
        score = self.task.options[label.choice].score
        return {**label.item.responses.scores, self.task.metric: score}

    def _note_told(self, rater: _Rater, label: _Label, recorded: bool) -> None:
        """Add to the journal that the study has a label, or another score in its place."""
        entry = {"do": "told", "rater": rater.name, "item": label.item.id}
        self._journal.append({**entry, "taken": recorded}, durable=False)

    def _renew(self) -> None:
        """Extend the leases of all raters before any can expire, so that no item goes to another rater unnoticed.

        Raises:
            StorageError: the storage cannot be used.
            StudyNotFoundError: the study was deleted.
        """
        now, out, _ = self.study.attendance()
        late = {
            lease.worker
            for _, _, lease, _ in out
            if lease is not None
            and lease.deadline - now < _LEASE - _SECONDS_BETWEEN_BEATS
        }
        with self._changed:
            raters = list(self._raters.values())
        for rater in raters:
            if rater.study.worker_name in late:
                rater.study.heartbeat()

    def _more(self, rater: _Rater) -> bool:
        """Ask for trials until the rater holds enough. Returns whether there may be more to do."""
        with self._changed:
            wanted = _AHEAD - len(rater.queue) - (rater.shown is not None)
            is_away, skipped = rater.is_away, set(rater.skipped)
            has_failed = self._failures >= _MOST_FAILURES
            if has_failed:
                rater.over = "failed"
        if wanted > 0 and has_failed:
            wanted = min(wanted, self._n_ready(rater))
        if wanted <= 0 or is_away:
            return False
        # `ask` ends the leases of all workers that have expired
        self._renew()
        trials, aside = list[Trial](), list[Trial]()
        while len(trials) < wanted and (got := rater.study.ask(wanted - len(trials))):
            for trial in got:
                (aside if trial.id in skipped else trials).append(trial)
        for trial in aside:
            rater.study.release(trial)
        for trial in trials:
            item = self._prepared(rater, trial)
            if self._stop.is_set():
                return False
            with self._changed:
                if item is not None:
                    rater.queue.append(item)
                self._changed.notify_all()
        standing = self.study.standing
        over = (
            "wait"
            if trials
            else "failed"
            if has_failed
            else "paused"
            if standing.paused
            else "done"
            if self.study.done
            else "skipped"
            if aside
            else "wait"
        )
        with self._changed:
            self._left, rater.over = standing.budget - standing.spent, over
        return bool(trials)

    def _n_ready(self, rater: _Rater) -> int:
        """The number of items that a rater held before a restart, and whose responses were made."""
        held = {trial.id for trial in rater.study.heartbeat()}
        with self._changed:
            return len((held & self._responses.keys()) - rater.trials)

    def _prepared(self, rater: _Rater, trial: Trial) -> _Item | None:
        """The item of a trial. None if no person is needed for it, or its response cannot be had.

        Also None, without any change of the study, if `close` was called meanwhile.
        """
        assert trial.example is not None, "a run has examples"
        cell = trial.prompt_id, trial.example
        prepared = self._responses.get(trial.id)
        if prepared is None or prepared[0] != cell:
            try:
                with self._waiting(rater):
                    responses = self.task.respond(trial)
            except Exception as error:
                if self._stop.is_set():
                    return None
                # An LLM, or code of the user's own, may raise anything.
                log.error("trial %d: %s", trial.id, safe(in_words(error)))
                rater.study.fail(trial, error)
                self._failures += 1
                return None
            if self._stop.is_set():
                return None
            self._failures = 0
            self._keep(rater, trial, responses)
        else:
            responses = prepared[1]
        if self.task.is_comparison and len(set(responses.texts)) == 1:
            option = self.task.options[TIE]
            rater.study.tell(
                trial,
                {**responses.scores, self.task.metric: option.score},
                responses.cost,
                details={"label": "the same text", "output": responses.texts[0]},
            )
            return None
        text = self.task.inputs[trial.example]
        return self._item(rater, f"t{trial.id}", text, responses, trial=trial)

    def _keep(self, rater: _Rater, trial: Trial, responses: Responses) -> None:
        """Save the responses of a trial. The label of them syncs the journal, and with it this entry."""
        entry = {
            "do": "response",
            "item": f"t{trial.id}",
            "prompt": trial.prompt_id,
            "example": trial.example,
            "texts": responses.texts,
            "scores": dict(responses.scores),
            "cost": responses.cost,
        }
        try:
            self._journal.append(entry, durable=False)
        except OSError:
            rater.study.release(trial)
            raise
        assert trial.example is not None, "a run has examples"
        cell = trial.prompt_id, trial.example
        self._responses[trial.id] = cell, responses

    def _tick(self) -> None:
        """Record labels that were held long enough, and hand back the items of raters who are gone."""
        beat = time.monotonic()
        while not self._stop.wait(_TICK):
            now = time.monotonic()
            if self._is_gone:
                continue
            with self._changed:
                for rater in self._raters.values():
                    self._pass_time(rater, now)
            if now - beat > _SECONDS_BETWEEN_BEATS:
                beat = now
                try:
                    self._renew()
                except AsktellError as error:
                    self._is_gone = isinstance(error, StudyNotFoundError)
                    log.error("labels: %s", safe(str(error)))

    def _pass_time(self, rater: _Rater, now: float) -> None:
        """Do what is due for a rater after a while."""
        held = rater.held
        # After a restart, the page still shows an item until its next request.
        has_item = rater.shown is not None or not rater.has_come
        limit = self._hold if has_item else self._hold_at_end
        if held is not None and now - held.at > limit:
            rater.due.append(held)
            rater.held = None
        if not rater.is_away and now - rater.seen > _IDLE:
            self._leave(rater)
        if rater.due or rater.returning or rater.has_left:
            self._start(rater)

    # After a restart

    def _restore(self) -> None:
        """Restore the actions of raters from the journal, and the labels that the study may lack."""
        standing = self.study.standing
        self._left = standing.budget - standing.spent
        untold: dict[str, dict[str, dict[str, Any]]] = {}
        for entry in self._journal.entries:
            if entry["do"] == "response":
                self._recall_responses(entry)
            else:
                rater = self._known_rater(str(entry["rater"]))
                self._recall(rater, entry, untold.setdefault(rater.name, {}))
        workers = {
            lease.worker
            for _, _, lease, _ in self.study.attendance().out
            if lease is not None and lease.worker.startswith(_AS_WORKER)
        }
        for worker in workers:
            self._known_rater(worker.removeprefix(_AS_WORKER))
        pending = {trial.id: trial for trial in self.study.pending}
        lost = list[tuple[_Rater, _Label, int]]()
        for name, entries in untold.items():
            rater = self._raters[name]
            for id_, entry in entries.items():
                self._recall_label(rater, id_, entry, pending, lost)
            last = next(reversed(rater.labels), None)
            if rater.due and rater.due[-1].item.id == last:
                rater.held = rater.due.pop()
            rater.study = self._bound(name, rater.trials)
        if lost:
            self._observe(lost)
        # Before any rater asks, since `ask` ends leases that have expired
        for rater in self._raters.values():
            if rater.study.worker_name in workers:
                rater.study.heartbeat()
            if rater.due:
                self._start(rater)

    def _known_rater(self, name: str) -> _Rater:
        """The rater of this name, whatever the number of raters."""
        if name not in self._raters:
            self._raters[name] = self._new_rater(name)
        return self._raters[name]

    def _recall_responses(self, entry: Mapping[str, Any]) -> None:
        """Restore the responses of a trial."""
        cell = entry["prompt"], int(entry["example"])
        texts = tuple(map(str, entry["texts"]))
        responses = Responses(texts, entry["scores"], entry["cost"])
        self._responses[int(entry["item"][1:])] = cell, responses

    def _recall(
        self, rater: _Rater, entry: dict[str, Any], untold: dict[str, dict[str, Any]]
    ) -> None:
        """Apply an entry of the journal in memory. `untold`: labels without a later end, by item."""
        do, id_ = entry["do"], str(entry.get("item", ""))
        is_gold = id_.startswith("g")
        if do in ("label", "undo"):
            untold.pop(id_, None)
            rater.labels.pop(id_, None)
        if do == "label":
            untold[id_] = entry
            rater.labels[id_] = self._position(entry), float(entry["seconds"])
        elif do == "told":
            untold.pop(id_, None)
            if not is_gold:
                self._responses.pop(int(id_[1:]), None)
        elif do == "skip":
            rater.n_skipped += 1
            if not is_gold:
                rater.skipped.add(int(id_[1:]))
        elif do == "again":
            rater.skipped.clear()
        if is_gold:
            (rater.gold_done.discard if do == "undo" else rater.gold_done.add)(id_)

    def _position(self, entry: Mapping[str, Any]) -> int:
        """The position of a saved label among the options.

        Raises:
            InvalidStateError: the label is not one of the options.
        """
        names = [option.label for option in self.task.options]
        if entry["label"] not in names:
            raise InvalidStateError(
                f"{self._journal.path} has the label {entry['label']!r}, but [label] has only {some(names)}. Undo the "
                "change of `scale`, or move the file to another folder."
            )
        return names.index(entry["label"])

    def _recall_label(
        self,
        rater: _Rater,
        id_: str,
        entry: Mapping[str, Any],
        pending: Mapping[int, Trial],
        lost: list[tuple[_Rater, _Label, int]],
    ) -> None:
        """Restore a label that the study may lack, in `rater.due` or, without a trial for it, in `lost`."""
        choice, seconds = rater.labels[id_]
        now = time.monotonic()
        if id_.startswith("g"):
            if id_ in self._gold:
                item = self._gold_item(rater, id_)
                rater.due.append(_Label(item, choice, seconds, now))
            return
        number = int(id_[1:])
        cell, responses = self._responses.get(number, (("", -1), Responses(())))
        if _digest_of(responses.texts) != entry["response"]:
            raise InvalidStateError(
                f"{self._journal.path} lacks the response that the label of {rater.name!r} on item {id_} is about. "
                "Restore the file from a backup."
            )
        trial = pending.get(number)
        text = self.task.inputs[cell[1]]
        item = self._item(rater, id_, text, responses, trial)
        label = _Label(item, choice, seconds, now)
        if trial is not None and (trial.prompt_id, trial.example) == cell:
            rater.due.append(label)
        else:
            lost.append((rater, label, number))

    def _observe(self, lost: Sequence[tuple[_Rater, _Label, int]]) -> None:
        """Record labels that the study has no open trial for.

        A killed server could not note that a label was recorded. And a crash of the
        machine may undo that a trial was asked for, since only labels are synced. Then
        the label is recorded as the score of its prompt and example, without a trial.
        """
        recorded = {
            (evaluation.trial, evaluation.prompt, evaluation.example): evaluation
            for evaluation in self.study.evaluations()
        }
        for rater, label, number in lost:
            cell, responses = self._responses.pop(number)
            evaluation = recorded.get((number, *cell))
            if evaluation is None:
                scores = self._scores(label)
                self.study.observe(cell[0], scores, cell[1], responses.cost)
            elif (evaluation.details or {}).get("rater") != rater.name:
                _log_taken(rater, label)
            self._note_told(rater, label, recorded=evaluation is None)


@contextmanager
def _errors_logged() -> Iterator[None]:
    """Log an error, such as that of a trial which has ended. Errors of the storage are worth a retry.

    Raises:
        StorageError: the storage cannot be used.
        StudyNotFoundError: the study was deleted.
    """
    try:
        yield
    except (StorageError, StudyNotFoundError):
        raise
    except Exception as error:
        log.error("labels: %s", safe(in_words(error)))


def _log_taken(rater: _Rater, label: _Label) -> None:
    """Log that a label is not a score of the study. It stays in the journal."""
    log.error(
        "The label %s of rater %s is not in the study, because another score of the same item was recorded before.",
        safe(repr(label.item.responses.texts[0][:60])),
        safe(repr(rater.name)),
    )


def _digest_of(texts: Sequence[str]) -> str:
    """A short digest of texts."""
    return hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()[:16]


def rating_rows(ratings: Sequence[Rating]) -> Iterator[list[str]]:
    """A table of ratings: its head, and a row per rater."""
    yield ["rater", "labels", "skipped", "gold rows", "right", "shift", "seconds"]
    for rating in ratings:
        yield [
            rating.rater,
            str(rating.labels),
            str(rating.skipped),
            str(rating.gold),
            f"{rating.agreed / rating.gold:.0%}" if rating.gold else "-",
            "-" if rating.shift is None else f"{rating.shift:+.2f}",
            "-" if rating.seconds is None else f"{rating.seconds:.1f}",
        ]
