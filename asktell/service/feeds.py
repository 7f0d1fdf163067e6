"""What the pages of studies show, made once for all who look at the same time.

Making it is a thread's work, after which as many as look are answered from memory. Then comes a pause, a multiple of
what the making took and of what sending it to everybody took: whoever looks must not slow down who works.
"""

import asyncio
import gzip
import json
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from threading import Lock, Thread
from typing import Any, Generic, NamedTuple, TypeVar

from asktell import reports
from asktell.service.studies import Studies
from asktell.studies.study import Study
from asktell.studies.watching import Watch, is_same

_T = TypeVar("_T")
_FRESH = 2.0  # seconds; a page looks as often
_PAUSE = 9.0  # in units of what making took: of one core nine tenths are the workers'
_BYTES_PER_SECOND = 8e6  # sent to all who look, over time
_LOOKS_PER_SECOND = 25.0  # of all who look together
_LONGEST = 30.0  # seconds between two looks
_UNKNOWN = -1  # a state is kept longer than who works on it
_PATIENCE = 2.0  # seconds for how the answer settled


class Newer(NamedTuple):
    """What is sent: JSON, by gzip if it is a `whole` state, and the number of the `look` at who works on it."""

    content: bytes
    look: int
    whole: bool


@dataclass
class Shown:
    """A state as it is sent.

    Attributes:
        version: tells it from others.
        packed: its JSON, by gzip.
        live: who works on it, as JSON.
        look: tells that from what it was before.
    """

    version: str
    packed: bytes
    live: bytes = b"{}"
    look: int = 0


class Kept(Generic[_T]):
    """Something that is made in a thread of its own, one at a time, and kept until somebody asks after it is old.

    For one event loop at a time. Whoever asks is answered with what there is; only the first ones wait.

    Args:
        make: gives it, from what there was.
        clock: gives seconds.
    """

    def __init__(self, make: Callable[[_T | None], _T], clock: Callable[[], float] = time.monotonic) -> None:
        self._make, self._clock = make, clock
        self._value: _T | None = None
        self._due = 0.0
        self._making: Future[_T] | None = None
        self._lock = Lock()
        self.sent = 0  # bytes, since it was made

    async def get(self, wait: bool = False) -> _T:
        """The newest there is; with `wait` the one that is being made, if it was time.

        Raises:
            Exception: the first one cannot be made.
        """
        with self._lock:
            value, making = self._value, self._making
            if making is None and (value is None or self._clock() >= self._due):
                making = self._making = Future()
                making.set_running_or_notify_cancel()
                Thread(target=self._run, args=(making,), name="asktell page", daemon=True).start()
        if value is not None and (making is None or not wait):
            return value
        assert making is not None
        return await asyncio.wrap_future(making)

    def _run(self, making: "Future[_T]") -> None:
        began, before, sent = self._clock(), self._value, self.sent
        try:
            made = self._make(before)
        except Exception as error:
            with self._lock:
                self._value = self._making = None
            making.set_exception(error)
            return
        now = self._clock()
        with self._lock:
            if made is not before:
                self.sent = 0
            self._value, self._making = made, None
            owed = sent / _BYTES_PER_SECOND if made is not before else 0.0
            self._due = now + max(_FRESH, (now - began) * _PAUSE, owed)
        making.set_result(made)


class Pace:
    """How often each viewer is to look, so that all together do not look more often than the service can bear.

    Whoever looks once in such a time is counted once in it: so many viewers there are.

    Args:
        clock: gives seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._count, self._since = 0, clock()
        self.seconds = _FRESH

    def count(self) -> None:
        """Somebody looks."""
        self._count += 1
        passed = self._clock() - self._since
        if passed >= self.seconds:
            viewers = self._count * self.seconds / passed
            self.seconds = min(_LONGEST, max(_FRESH, viewers / _LOOKS_PER_SECOND))
            self._count, self._since = 0, self._clock()


class Feeds:
    """What is shown of each study, for the studies looked at last.

    Args:
        studies: that there are.
        most: to keep.
    """

    def __init__(self, studies: Studies, most: int = 32) -> None:
        self._studies, self._most = studies, most
        self.pace = Pace()
        self._feeds: OrderedDict[str, Kept[Shown]] = OrderedDict()
        self._watches: dict[str, Watch] = {}

    async def newer(self, name: str, version: str | None, look: int | None = None) -> Newer | None:
        """The newest state there is; None if it is of this version.

        With `look`, the number of the last one, of the same version only who works on it: None if that is the same.

        Raises:
            StudyNotFoundError: there is no such study.
        """
        self.pace.count()
        feed = self._feeds.get(name)
        if feed is None:
            feed = self._feeds[name] = Kept(lambda before: self._shown(name, before))
            while len(self._feeds) > self._most:
                self._watches.pop(self._feeds.popitem(last=False)[0], None)
        self._feeds.move_to_end(name)
        try:
            shown = await feed.get()
        except BaseException:
            self.forget(name)
            raise
        same = shown.version == version
        if same and look in (None, shown.look):
            return None
        newer = Newer(shown.live, shown.look, False) if same else Newer(shown.packed, _UNKNOWN, True)
        feed.sent += len(newer.content)
        return newer

    def forget(self, name: str) -> None:
        """Let go of what was shown of a study."""
        self._feeds.pop(name, None)
        self._watches.pop(name, None)

    def _shown(self, name: str, before: Shown | None) -> Shown:
        def looked(study: Study) -> tuple[str, dict[str, Any]]:
            watch = self._watches.get(name)
            if watch is None or watch.study is not study:
                watch = self._watches[name] = Watch(study)
            return study.standing.version, watch.look()

        version, live = self._studies.call(name, looked)
        if before is not None and before.version == version:
            if is_same(live, json.loads(before.live)["live"]):
                return before
            return replace(before, live=_json({"live": live}), look=before.look + 1)
        data: dict[str, Any] = self._studies.call(name, lambda study: study.report_data(patience=_PATIENCE))
        packed = gzip.compress(_json({**data, "live": live}), 5, mtime=0)
        return Shown(data["state"], packed, _json({"live": live}), 0 if before is None else before.look + 1)


def _json(data: dict[str, Any]) -> bytes:
    return reports.encode(data).encode()
