"""People as evaluators: the next item of each rater, and labels that survive a killed server.

A label is saved when its line is in the journal, a file beside the study that is synced to
the disk before the page gets a response. The study records the score later: when the rater
gives the next label, after a pause, or at the end. Until then the label can be undone,
because a study cannot undo a score. A server that starts again reads the journal, keeps the
last label of each rater as it was, and records all other labels that the study may lack.
Recording the same score again has no effect.

Each rater is a worker of the study under the rater's own name. So no two raters hold the
same trial, and a rater who comes back gets the same trials.
"""

import hashlib
import hmac
import json
import logging
import os
import secrets
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Event, RLock, Semaphore, Thread
from typing import Any, NamedTuple, final

from asktell import (
    AsktellError,
    InvalidArgumentError,
    InvalidStateError,
    StorageError,
    Study,
    Trial,
)
from asktell.extend import in_words, safe

FORMAT, VERSION = "asktell.labels", 1
TIE = 2
"""Position of the tie among the options of a comparison. 0 and 1 are the two responses."""

_AHEAD = 4  # items that a rater holds, so that the next one is ready at once
# Seconds for which the last label can be undone: with a next item on the page, and
# without, when others may wait for the score
_HOLD, _HOLD_AT_END = 300.0, 15.0
_IDLE = 900.0  # seconds without a request, after which a rater's items are handed back
# After a crash of the server, others get the items of raters who do not come back.
_LEASE = 1800.0
_SECONDS_BETWEEN_BEATS = _LEASE / 4
_TICK = 0.5
_PATIENCE = 2.0  # seconds that a request waits for an item
_MOST_RATERS = 200
_MOST_FAILURES = 10  # responses in a row that cannot be had, after which none is asked
_THREADS = 4
_LONGEST_NAME = 60

log = logging.getLogger("asktell_adapters.server")


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


class Journal:
    """A file of labels, one JSON object per line, that is synced before a label counts as saved.

    Args:
        path: the file. It is created if it is missing.

    Attributes:
        key: secret from which the ids on the page are made. They stay the same when the
            server is started again.
        entries: the entries that the file had.

    Raises:
        InvalidStateError: the file is not a journal of labels, or is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = RLock()
        path.parent.mkdir(parents=True, exist_ok=True)
        # What people said is for the owner of the run
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._file = os.fdopen(handle, "r+b", buffering=0)
        try:
            self.entries = self._read()
            head = self.entries.pop(0)
            if head.get("format") != FORMAT or head.get("version") != VERSION:
                raise InvalidStateError(
                    f"{path} is not in the format of a journal of labels, version {VERSION}. Move the file "
                    "away, or start over with --fresh."
                )
            self.key = bytes.fromhex(str(head["key"]))
        except BaseException:
            self._file.close()
            raise

    def _read(self) -> list[dict[str, Any]]:
        """All entries of the file. A new file gets the first one."""
        lines = self._whole_lines()
        if not lines:
            key = secrets.token_hex(32)
            head = {"format": FORMAT, "version": VERSION, "key": key}
            self.append(head)
            return [head]
        return [self._parsed(i, line) for i, line in enumerate(lines, start=1)]

    def _whole_lines(self) -> list[bytes]:
        """The lines that were written whole. An incomplete last line, from a killed server, is cut off."""
        data = self._file.read()
        end = data.rfind(b"\n") + 1
        if end < len(data):
            self._file.truncate(end)
        return data[:end].splitlines()

    def _parsed(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise InvalidStateError(
                f"{self._path}, line {number} is not a JSON object. Restore the file from a backup, or move it away. "
                "The study keeps all recorded scores."
            )
        return found

    def append(self, entry: Mapping[str, Any], durable: bool = True) -> None:
        """Add an entry. `durable`: return only once it is on the disk.

        Raises:
            OSError: the file cannot be written, for example because the disk is full.
                It then has the same entries as before.
        """
        line = json.dumps(entry, separators=(",", ":")).encode("ascii") + b"\n"
        with self._lock:
            before = os.fstat(self._file.fileno()).st_size
            try:
                # A nearly full disk takes a part of the line, and then raises.
                while line:
                    line = line[self._file.write(line) :]
                if durable:
                    os.fsync(self._file.fileno())
            except OSError:
                self._file.truncate(before)
                raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@dataclass(eq=False)
class _Item:
    """A trial or a gold row, as shown to one rater."""

    id: str  # "t" and the trial's id, or "g" and the number of the gold row
    token: str  # by which the page names it
    input: str
    responses: Responses
    is_swapped: bool  # whether the second response is shown first
    trial: Trial | None = None
    gold: int | None = None


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
    returning: list[Trial] = field(default_factory=list)  # to be released
    skipped: set[int] = field(default_factory=set)  # trials
    n_skipped: int = 0
    # What was labeled, by the id of the item: the choice and the seconds
    labels: dict[str, tuple[int, float]] = field(default_factory=dict)
    gold_done: set[int] = field(default_factory=set)
    # Why there is no item: "wait", "done", "paused", "skipped" or "failed"
    over: str = "wait"
    is_working: bool = False
    # Time of the last heartbeat
    beaten: float = field(default_factory=time.monotonic)

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
        self._journal = Journal(journal)
        self._raters: dict[str, _Rater] = {}
        self._changed = Condition(RLock())
        self._left = 0
        self._failures = 0  # in a row
        # Threads in the background that may use the study at once
        self._turns = Semaphore(_THREADS)
        self._stop = Event()
        self._restore()
        self._ticker = Thread(target=self._tick, name="labels", daemon=True)
        self._ticker.start()

    # What the page asks

    def next(self, name: str) -> dict[str, Any]:
        """The present screen of a rater, as JSON data."""
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
        """
        if not 0 <= choice < len(self.task.options):
            raise InvalidArgumentError(
                f"choice must be from 0 to {len(self.task.options) - 1}, got {choice}."
            )
        with self._changed:
            rater = self._rater(name)
            item = self._held(rater, token)
            if item is None:
                return self._screen(rater, self._about_unknown(rater, token))
            chosen = 1 - choice if item.is_swapped and choice != TIE else choice
            self._note("label", rater, item, label=chosen, seconds=seconds)
            self._drop(rater, item)
            if rater.held is not None:
                rater.due.append(rater.held)
            rater.held = _Label(item, chosen, seconds, time.monotonic())
            rater.labels[item.id] = chosen, seconds
            if item.gold is not None:
                rater.gold_done.add(item.gold)
            self._start(rater)
            return self._screen(rater)

    def skip(self, name: str, token: str) -> dict[str, Any]:
        """Hand an item back, and return the rater's next screen."""
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
            if held.item.gold is not None:
                rater.gold_done.discard(held.item.gold)
            return self._screen(rater)

    def again(self, name: str) -> dict[str, Any]:
        """Let a rater see the skipped items once more."""
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
        """Record all labels, hand all other items back, and close the study."""
        self._stop.set()
        self._ticker.join()
        with self._changed:
            for rater in self._raters.values():
                self._leave(rater)
            self._changed.wait_for(
                lambda: not any(each.is_working for each in self._raters.values())
            )
        for rater in self._raters.values():
            # Whatever cannot be told now is in the journal.
            with suppress(AsktellError):
                self._finish(rater)
        self._journal.close()
        self.study.close()

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
                raise InvalidArgumentError(
                    f"There are {_MOST_RATERS} raters already. Use one of their names."
                )
            rater = self._raters[name] = self._new_rater(name)
        rater.seen = time.monotonic()
        return rater

    def _new_rater(self, name: str, besides: Sequence[int] = ()) -> _Rater:
        bound = self.study.worker(name, lease=_LEASE, besides=besides)
        return _Rater(name, bound, time.monotonic())

    def _screen(self, rater: _Rater, said: str = "") -> dict[str, Any]:
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
            "said": said,
        }
        if item is not None:
            texts = list(item.responses.texts)
            screen |= {
                "item": item.token,
                "input": item.input,
                "responses": texts[::-1] if item.is_swapped else texts,
            }
        return screen

    def _n_untold(self) -> int:
        """Number of labels of all raters that are or will be scores of the study."""
        labels = [
            label
            for rater in self._raters.values()
            for label in (*rater.due, rater.held)
        ]
        return sum(label is not None and label.item.gold is None for label in labels)

    def _pick(self, rater: _Rater) -> _Item | None:
        """The next item: sometimes a gold row, otherwise an item at hand, in an order that only the key determines."""
        if not rater.queue:
            return None
        gold = self._gold(rater)
        if gold is not None:
            return gold
        item = min(rater.queue, key=lambda each: self._digest("order", rater, each.id))
        rater.queue.remove(item)
        return item

    def _gold(self, rater: _Rater) -> _Item | None:
        """A gold row, if one is due. One is due at a random place among every `gold_every` labels."""
        task = self.task
        rows = [k for k in range(len(task.gold)) if k not in rater.gold_done]
        if not rows:
            return None
        block, place = divmod(len(rater.labels), task.gold_every)
        due = int(self._digest("gold", rater, str(block)), 16) % task.gold_every
        if place != due:
            return None
        row = min(rows, key=lambda k: self._digest("row", rater, str(k)))
        found = task.gold[row]
        return self._item(
            rater, f"g{row}", found.input, Responses(found.texts), gold=row
        )

    def _item(
        self,
        rater: _Rater,
        id_: str,
        text: str,
        responses: Responses,
        trial: Trial | None = None,
        gold: int | None = None,
    ) -> _Item:
        side = int(self._digest("side", rater, id_), 16) % 2 == 1
        return _Item(
            id_,
            self._digest("item", rater, id_)[:24],
            text,
            responses,
            self.task.is_comparison and side,
            trial,
            gold,
        )

    def _digest(self, purpose: str, rater: _Rater, text: str) -> str:
        """A number that cannot be guessed without the key, in hexadecimal digits."""
        message = json.dumps([purpose, rater.name, text]).encode()
        return hmac.new(self._journal.key, message, hashlib.sha256).hexdigest()

    def _held(self, rater: _Rater, token: str) -> _Item | None:
        """The item that a rater holds under a token. After a restart, the rater first gets the same items back."""
        item = rater.find(token)
        if item is None and (rater.held is None or rater.held.item.token != token):
            self._screen(rater)
            item = rater.find(token)
        return item

    def _about_unknown(self, rater: _Rater, token: str) -> str:
        """The message to a rater who sends an item that is not held. A request that is repeated is no mistake."""
        if rater.held is not None and rater.held.item.token == token:
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
        if item.gold is not None:
            rater.gold_done.add(item.gold)
        elif item.trial is not None:
            rater.skipped.add(item.trial.id)
            rater.returning.append(item.trial)

    def _leave(self, rater: _Rater) -> None:
        """Record the last label, and hand all other items back."""
        if rater.held is not None:
            rater.due.append(rater.held)
            rater.held = None
        items, rater.queue = rater.queue, []
        if rater.shown is not None:
            items.append(rater.shown)
            rater.shown = None
        rater.returning += [item.trial for item in items if item.trial is not None]

    def _note(self, do: str, rater: _Rater, item: _Item, **more: Any) -> None:
        """Add an action of a rater to the journal, durably."""
        entry = {"do": do, "rater": rater.name, "item": item.id, **more}
        self._journal.append({"at": round(time.time(), 3), **entry})

    def _rating(self, rater: _Rater) -> Rating:
        options = self.task.options
        shifts, seconds = list[float](), list[float]()
        agreed = 0
        for id_, (choice, took) in rater.labels.items():
            seconds.append(took)
            row = int(id_[1:])
            if id_[0] == "g" and row < len(self.task.gold):
                right = self.task.gold[row].label
                agreed += choice == right
                shifts.append(options[choice].score - options[right].score)
        return Rating(
            rater.name,
            len(rater.labels) - len(shifts),
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
                with self._turns:
                    self._finish(rater)
                    if self._stop.is_set():
                        return
                    found = self._more(rater)
                with self._changed:
                    self._changed.notify_all()
                    if not found and not rater.due and not rater.returning:
                        return
        except StorageError as error:
            # The next tick tries again. The labels are in the journal.
            log.error("labels of %s: %s", safe(repr(rater.name)), safe(str(error)))
        except Exception:
            log.exception("An error of the label page")
        finally:
            with self._changed:
                rater.is_working = False
                self._changed.notify_all()

    def _finish(self, rater: _Rater) -> None:
        """Record the labels that are due, and release the items that were handed back.

        Raises:
            StorageError: the storage cannot be used.
        """
        for label in list(rater.due):
            taken = self._tell(rater, label)
            with self._changed:
                rater.due.remove(label)
                self._left -= taken
        for trial in list(rater.returning):
            with _but_storage_errors_logged():
                rater.study.release(trial)
            with self._changed:
                rater.returning.remove(trial)
        if time.monotonic() - rater.beaten > _SECONDS_BETWEEN_BEATS:
            rater.study.heartbeat()
            rater.beaten = time.monotonic()

    def _tell(self, rater: _Rater, label: _Label) -> bool:
        """Record one label in the study, unless it is of a gold row. Returns whether a score was recorded."""
        item, taken = label.item, False
        if item.trial is not None:
            option = self.task.options[label.choice]
            with _but_storage_errors_logged():
                taken = rater.study.tell(
                    item.trial,
                    {**item.responses.scores, self.task.metric: option.score},
                    item.responses.cost,
                    details={
                        "rater": rater.name,
                        "label": option.label,
                        "seconds": label.seconds,
                        "output": item.responses.texts[0],
                    },
                )
        entry = {"do": "told", "rater": rater.name, "item": item.id, "taken": taken}
        self._journal.append(entry, durable=False)
        return taken

    def _more(self, rater: _Rater) -> bool:
        """Ask for trials until the rater holds enough. Returns whether a trial was found."""
        with self._changed:
            wanted = _AHEAD - len(rater.queue) - (rater.shown is not None)
            is_idle = time.monotonic() - rater.seen > _IDLE
            skipped = set(rater.skipped)
            if self._failures >= _MOST_FAILURES:
                rater.over, wanted = "failed", 0
        if wanted <= 0 or is_idle:
            return False
        trials, aside = list[Trial](), list[Trial]()
        while len(trials) < wanted and (got := rater.study.ask(wanted - len(trials))):
            for trial in got:
                (aside if trial.id in skipped else trials).append(trial)
        for trial in aside:
            rater.study.release(trial)
        for trial in trials:
            item = self._prepared(rater, trial)
            with self._changed:
                if item is not None:
                    rater.queue.append(item)
                self._changed.notify_all()
        standing = self.study.standing
        over = (
            "wait"
            if trials
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

    def _prepared(self, rater: _Rater, trial: Trial) -> _Item | None:
        """The item of a trial. None if no person is needed for it, or its response cannot be had."""
        assert trial.example is not None, "a run has examples"
        try:
            responses = self.task.respond(trial)
        except Exception as error:
            # An LLM, or code of the user's own, may raise anything.
            log.error("trial %d: %s", trial.id, safe(in_words(error)))
            rater.study.fail(trial, error)
            self._failures += 1
            return None
        self._failures = 0
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

    def _tick(self) -> None:
        """Record labels that were held long enough, and hand back the items of raters who are gone."""
        while not self._stop.wait(_TICK):
            now = time.monotonic()
            with self._changed:
                for rater in self._raters.values():
                    held = rater.held
                    limit = self._hold if rater.shown is not None else self._hold_at_end
                    if held is not None and now - held.at > limit:
                        rater.due.append(held)
                        rater.held = None
                    if now - rater.seen > _IDLE:
                        self._leave(rater)
                    if rater.due or rater.returning:
                        self._start(rater)

    # After a restart

    def _restore(self) -> None:
        """Restore the actions of raters from the journal, and the labels that the study may lack."""
        standing = self.study.standing
        self._left = standing.budget - standing.spent
        pending = {trial.id: trial for trial in self.study.pending}
        for name, entries in _by_rater(self._journal.entries).items():
            untold: dict[str, dict[str, Any]] = {}
            rater = self._new_rater(name)
            for entry in entries:
                self._recall(rater, entry, untold)
            labels = [
                label
                for id_, entry in untold.items()
                if (label := self._recalled(rater, id_, entry, pending)) is not None
            ]
            besides = [each.item.trial.id for each in labels if each.item.trial]
            rater.study = self._new_rater(name, besides).study
            if labels:
                rater.held = labels.pop()
            rater.due = labels
            self._raters[name] = rater
            if rater.due:
                self._start(rater)

    def _recall(
        self, rater: _Rater, entry: dict[str, Any], untold: dict[str, dict[str, Any]]
    ) -> None:
        """Apply an entry of the journal in memory. `untold`: labels without a later end, by item."""
        do, id_ = entry["do"], str(entry.get("item", ""))
        is_gold, number = id_.startswith("g"), int(id_[1:] or 0)
        if do == "label":
            untold[id_] = entry
            rater.labels[id_] = int(entry["label"]), float(entry["seconds"])
        elif do == "told":
            untold.pop(id_, None)
        elif do == "undo":
            untold.pop(id_, None)
            rater.labels.pop(id_, None)
        elif do == "skip":
            rater.n_skipped += 1
            if not is_gold:
                rater.skipped.add(number)
        elif do == "again":
            rater.skipped.clear()
        if is_gold:
            (rater.gold_done.discard if do == "undo" else rater.gold_done.add)(number)

    def _recalled(
        self,
        rater: _Rater,
        id_: str,
        entry: Mapping[str, Any],
        pending: Mapping[int, Trial],
    ) -> _Label | None:
        """A label of the journal. None if the study has the trial's score, or the gold row is gone."""
        number, item = int(id_[1:]), None
        if id_.startswith("g"):
            if number < len(self.task.gold):
                row = self.task.gold[number]
                item = self._item(
                    rater, id_, row.input, Responses(row.texts), gold=number
                )
        elif (trial := pending.get(number)) is not None:
            responses = self.task.respond(trial)
            text = self.task.inputs[trial.example or 0]
            item = self._item(rater, id_, text, responses, trial=trial)
        if item is None:
            return None
        return _Label(
            item, int(entry["label"]), float(entry["seconds"]), time.monotonic()
        )


@contextmanager
def _but_storage_errors_logged() -> Iterator[None]:
    """Log an error, such as a trial that another rater has labeled. Errors of the storage are worth a retry.

    Raises:
        StorageError: the storage cannot be used.
    """
    try:
        yield
    except StorageError:
        raise
    except AsktellError as error:
        log.error("labels: %s", safe(str(error)))


def _by_rater(entries: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The entries of each rater, in order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        found.setdefault(str(entry["rater"]), []).append(entry)
    return found


def rating_rows(ratings: Sequence[Rating]) -> Iterator[list[str]]:
    """A table of ratings: its head, and a row per rater."""
    yield ["rater", "labels", "skipped", "gold rows", "right", "shift", "seconds"]
    for each in ratings:
        yield [
            each.rater,
            str(each.labels),
            str(each.skipped),
            str(each.gold),
            f"{each.agreed / each.gold:.0%}" if each.gold else "-",
            "-" if each.shift is None else f"{each.shift:+.2f}",
            "-" if each.seconds is None else f"{each.seconds:.1f}",
        ]
