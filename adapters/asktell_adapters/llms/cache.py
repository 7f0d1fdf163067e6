"""A cache of LLM responses on disk, shared by processes, so that no request is paid twice.

Responses are stored as JSON in a SQLite file. A request is stored only as a digest (see
`answer_key`), so the file contains neither prompts nor addresses of servers. Every
operation opens and closes the file, so nothing stays open across a fork. Every change
is a transaction, so a killed process leaves nothing half written.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, final

from asktell import EvaluatorError, InvalidArgumentError, StorageError
from asktell.extend import attempt, check_path, log
from asktell_adapters._util.scores import positive
from asktell_adapters.llms._machine import cache_dir
from asktell_adapters.llms.base import Completion, Request
from asktell_adapters.llms.models import Models, llm_of

_APPLICATION, _SCHEMA = 0x61736B63, 1  # "askc"
_TABLES = (
    "CREATE TABLE answers (key TEXT PRIMARY KEY, made REAL NOT NULL, used REAL NOT NULL, bytes INTEGER NOT NULL, "
    "answer TEXT NOT NULL, checksum TEXT NOT NULL) WITHOUT ROWID",
    "CREATE INDEX by_use ON answers (used)",
    "CREATE TABLE total (bytes INTEGER NOT NULL, answers INTEGER NOT NULL)",
    "INSERT INTO total VALUES (0, 0)",
    "CREATE TRIGGER added AFTER INSERT ON answers "
    "BEGIN UPDATE total SET bytes = bytes + NEW.bytes, answers = answers + 1; END",
    "CREATE TRIGGER removed AFTER DELETE ON answers "
    "BEGIN UPDATE total SET bytes = bytes - OLD.bytes, answers = answers - 1; END",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_SCHEMA}",
)  # one by one: `executescript` would commit what came before
_ROW_BYTES = 220  # in addition to the response: key, times, checksum, index
# Share of `max_bytes`, so that responses are not evicted at every write
_KEPT_WHEN_FULL = 0.9
# Seconds between two updates of the time of use, so that reading rarely writes
_STALE = 60.0

_lock = threading.Lock()  # no fork while a file is open
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire,
        after_in_parent=_lock.release,
        after_in_child=_lock.release,
    )


def answer_key(identity: Mapping[str, Any], request: Request) -> str:
    """The key under which a response is stored: a SHA-256 digest of everything that determines the response.

    The digest covers the LLM's identity, all messages, the settings of the request, and
    the number of the repeat. It covers the seed only if the temperature is above 0. At
    temperature 0, the seed has no effect.

    Args:
        identity: JSON data from the LLM's `identity()`.
        request: the request.
    """
    asked = {
        "llm": dict(identity),
        "messages": [dict(message) for message in request.messages],
        "max_new_tokens": request.max_new_tokens,
        "temperature": request.temperature,
        "seed": request.seed if request.temperature > 0 else 0,
        "repeat": request.repeat or 0,
        **({} if request.schema is None else {"schema": dict(request.schema)}),
        **({"tools": [dict(tool) for tool in request.tools]} if request.tools else {}),
        **({"options": dict(request.options)} if request.options else {}),
    }
    return hashlib.sha256(
        json.dumps(asked, sort_keys=True, default=str).encode()
    ).hexdigest()


@final
@dataclass(frozen=True)
class CacheInfo:
    """The contents of a cache file.

    Attributes:
        path: the file.
        answers: number of responses.
        bytes: approximate size of all responses, in bytes.
        max_bytes: the size, in bytes, above which responses are evicted.
        oldest: the time when the oldest response was stored, in seconds since 1970.
            None if there are no responses.
    """

    path: Path
    answers: int
    bytes: int
    max_bytes: int
    oldest: float | None


@final
class AnswerCache:
    """A file of LLM responses, for any number of threads and processes of one machine.

    The cache can be pickled. A new file can be read only by the user who created it,
    because it contains the responses.

    ```python
    cache = AnswerCache()
    evaluator = LLMEvaluator(OpenAIChat("gpt-4o-mini"), examples, [token_f1], cache=cache)
    print(cache.info())
    ```

    Args:
        path: the file, which must not be on a network file system (default: `answers.db` in
            the user's cache folder, or in the folder of the environment variable
            ASKTELL_CACHE).
        max_bytes: once the responses take more bytes, those that were not used for the
            longest time are evicted.
        max_age: seconds after which a response is no longer used, or None to use it
            forever.
        patience: how many seconds an operation waits while another process uses the
            file.
        clock: returns the time in seconds since 1970.

    Raises:
        InvalidArgumentError: a number is out of range.
        StorageError: raised by every method if the file cannot be used or is not a
            cache. For a damaged file, see `clear`.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        max_bytes: int = 2**30,
        max_age: float | None = None,
        patience: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        for name, number in [
            ("max_bytes", max_bytes),
            ("max_age", max_age),
            ("patience", patience),
        ]:
            if number is not None:
                positive(name, number)
        if path is not None:
            check_path(path)
        self.path = Path(
            os.path.abspath(
                cache_dir() / "answers.db" if path is None else Path(path).expanduser()
            )
        )
        self.max_bytes = max_bytes
        self.max_age = max_age
        self.patience = patience
        self._clock = clock
        self._warned = False

    def get(self, keys: Sequence[str]) -> list[Completion | None]:
        """Look up responses.

        Args:
            keys: the keys, from `answer_key`.

        Returns:
            The response of each key, in the order of the keys. None if the response is
            missing, too old or damaged.
        """
        # Looking up must not create the file.
        if not self.path.exists():
            return [None] * len(keys)
        now = self._clock()
        completions: list[Completion | None] = []
        with self._open() as connection:
            for key in keys:
                # Read as bytes, because a damaged response may not be valid UTF-8.
                row = connection.execute(
                    "SELECT made, used, CAST(answer AS BLOB), CAST(checksum AS BLOB) FROM answers WHERE key = ?",
                    (key,),
                ).fetchone()
                completions.append(
                    None if row is None else self._undamaged(key, now, *row)
                )
                if completions[-1] is not None and row[1] < now - _STALE:
                    connection.execute(
                        "UPDATE answers SET used = ? WHERE key = ?", (now, key)
                    )
        return completions

    def _undamaged(
        self, key: str, now: float, created: Any, used: Any, answer: Any, checksum: Any
    ) -> Completion | None:
        """A stored response, or None if it is damaged, too old, or from an incompatible version.

        The checksum covers the key and the time, so that a response never appears under another
        request. Damage is logged once.
        """
        if (
            not isinstance(used, float)
            or checksum != _checksum(key, created, answer).encode()
        ):
            if not self._warned:
                log.warning(
                    "The response cache %s has damaged responses, which will be requested again.",
                    self.path,
                )
            self._warned = True
            return None
        return (
            None
            if self.max_age is not None and created < now - self.max_age
            else _completion(answer)
        )

    def put(self, answers: Iterable[tuple[str, Completion]]) -> None:
        """Store responses. If all responses then take more than `max_bytes`, evict the least recently used.

        Args:
            answers: (key, response) pairs. A later response replaces an earlier response of the same
                key.
        """
        now = self._clock()
        texts = []
        for key, completion in answers:
            record = {**vars(completion), "from_cache": False}
            # Most responses have no tool calls. Leaving them out keeps the file small.
            record["tool_calls"] = [dict(call) for call in completion.tool_calls]
            if not completion.tool_calls:
                del record["tool_calls"]
            texts.append((key, json.dumps(record)))
        with self._open(create=True) as connection:
            for key, text in texts:
                connection.execute("DELETE FROM answers WHERE key = ?", (key,))
                checksum = _checksum(key, float(now), text.encode())
                row = (key, now, now, len(text) + _ROW_BYTES, text, checksum)
                connection.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?)", row)
            if self.max_age is not None:
                connection.execute(
                    "DELETE FROM answers WHERE made < ?", (now - self.max_age,)
                )
            self._shrink(connection)

    def info(self) -> CacheInfo:
        """The number of responses, their size, and the time of the oldest response."""
        size, count, oldest = 0, 0, None
        if self.path.exists():
            with self._open() as connection:
                size, count = connection.execute(
                    "SELECT bytes, answers FROM total"
                ).fetchone()
                (oldest,) = connection.execute(
                    "SELECT MIN(made) FROM answers"
                ).fetchone()
        return CacheInfo(self.path, count, size, self.max_bytes, oldest)

    def clear(self) -> int:
        """Remove all responses, and return their number.

        If the file is so damaged that SQLite cannot read it, the file is deleted, and 0
        is returned.

        Raises:
            StorageError: the file cannot be used, or is another SQLite database.
        """
        if not self.path.exists():
            return 0
        try:
            with self._open(create=True) as connection:
                (count,) = connection.execute("SELECT answers FROM total").fetchone()
                connection.execute("DELETE FROM answers")
        except _DamagedError:
            for ending in ("", "-wal", "-shm"):
                Path(f"{self.path}{ending}").unlink(missing_ok=True)
            return 0
        with self._open() as connection:
            # SQLite keeps the space of deleted rows until this.
            connection.execute("VACUUM")
        return int(count)

    def _shrink(self, connection: sqlite3.Connection) -> None:
        """Evict responses if they take more than `max_bytes`."""
        (size,) = connection.execute("SELECT bytes FROM total").fetchone()
        if size <= self.max_bytes:
            return
        # Add up sizes from the most recently used response on, and evict the responses
        # beyond the limit.
        connection.execute(
            "DELETE FROM answers WHERE key IN (SELECT key FROM (SELECT key, SUM(bytes) OVER (ORDER BY used DESC, "
            "key DESC) AS so_far FROM answers) WHERE so_far > ?)",
            (_KEPT_WHEN_FULL * self.max_bytes,),
        )

    @contextlib.contextmanager
    def _open(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        """Open a connection. With `create`, everything is one transaction, which is committed at the end."""
        with _lock:
            try:
                if create and not self.path.exists():
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                    os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600))
                where = f"{self.path.as_uri()}?mode=rw"
                # isolation_level=None leaves transactions to us. Otherwise Python would
                # begin them itself, and PRAGMA statements would fail inside.
                opened = sqlite3.connect(
                    where, timeout=self.patience, uri=True, isolation_level=None
                )
                with contextlib.closing(opened) as connection:
                    self._check(connection)
                    with connection:
                        if create:
                            connection.execute("BEGIN IMMEDIATE")
                        # An exception in the `with` block of the caller rolls the
                        # transaction back.
                        yield connection
            except (sqlite3.DatabaseError, UnicodeDecodeError, TypeError) as error:
                raise self._explained(error) from error
            except OSError as error:
                raise StorageError(
                    f"The response cache {str(self.path)!r} cannot be used ({error.strerror}). Check its "
                    "permissions, or give the cache another path."
                ) from error

    def _check(self, connection: sqlite3.Connection) -> None:
        """Check that the file is a cache of this version. Turn an empty file into a cache.

        Raises:
            StorageError: the file is another SQLite file, or a cache of another
                version.
        """
        if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
            with connection:
                # Only one of several processes creates the tables
                connection.execute("BEGIN EXCLUSIVE")
                empty = connection.execute(
                    "SELECT COUNT(*) FROM sqlite_master"
                ).fetchone() == (0,)
                if empty:
                    for statement in _TABLES:
                        connection.execute(statement)
                elif (
                    connection.execute("PRAGMA application_id").fetchone()[0]
                    != _APPLICATION
                ):
                    raise StorageError(
                        f"{str(self.path)!r} is a SQLite file, but not a response cache. Give the cache another path."
                    )
            # Another process has the file open and sets the mode
            with contextlib.suppress(sqlite3.OperationalError):
                connection.execute("PRAGMA journal_mode = WAL")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != _SCHEMA:
            raise StorageError(
                f"The response cache {str(self.path)!r} has version {version}, but this asktell reads version "
                f"{_SCHEMA}. Give the cache another path, or remove that file."
            )
        # With a write-ahead log, NORMAL can lose the last responses at a power cut, but
        # never damages the file. A lost response is only requested again.
        connection.execute("PRAGMA synchronous = NORMAL")

    def _explained(self, error: Exception) -> StorageError:
        """Convert an error of SQLite. The message about a damaged file has the command that removes it."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if isinstance(error, sqlite3.DatabaseError) and code not in (
            sqlite3.SQLITE_NOTADB,
            sqlite3.SQLITE_CORRUPT,
        ):
            return StorageError(
                f"The response cache {str(self.path)!r} cannot be used ({error}). Check that you may write to it and "
                "that the disk has room, or give the cache another path."
            )
        # A damaged name or number inside SQLite's own tables raises an error of Python,
        # not of SQLite.
        return _DamagedError(
            f"The response cache {str(self.path)!r} is damaged ({error}). `asktell cache clear` removes it. Only "
            "cached responses are lost, and they can be requested again."
        )

    def __repr__(self) -> str:
        return f"AnswerCache({str(self.path)!r})"


class _DamagedError(StorageError):
    """The contents of the file cannot be read. `clear` deletes such a file."""


@final
class CachedLLM:
    """An LLM that looks into a cache first, and sends only requests without a cached response.

    Failures are not cached. A sampled response (above temperature 0) is cached only if
    the request has a `repeat`. Otherwise several samples for the same request would all
    be the same response. If the cache cannot be used, a warning is logged once, and the
    LLM is called.

    Args:
        llm: a synchronous or async LLM, or both. Its method `identity()` returns, as
            JSON data, everything else besides the request that a response depends on,
            such as the model and its version.
        cache: the cache.
        is_kept: whether a response may be stored. By default, every response may.

    Attributes:
        hits: number of responses from the cache.
        misses: number of responses from the LLM.

    Raises:
        InvalidArgumentError: the LLM has no `identity()`.
    """

    def __init__(
        self,
        llm: Any,
        cache: AnswerCache,
        is_kept: Callable[[Completion], bool] | None = None,
    ) -> None:
        if not isinstance(llm, Models):
            _check_identity(llm)
        self.llm = llm
        self.cache = cache
        self.is_kept = is_kept
        self.hits = 0
        self.misses = 0
        self._warned = False
        self._identities: dict[int, Mapping[str, Any]] = {}

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        """Return the response to each request. All requests without a cached response go to the LLM in one call."""
        keys = [self.key(request) for request in requests]
        answers: list[Any] = self.look_up(keys)
        missing = [
            position for position, answer in enumerate(answers) if answer is None
        ]
        fresh = (
            self.llm.complete([requests[position] for position in missing])
            if missing
            else []
        )
        self.keep([keys[position] for position in missing], fresh)
        for position, answer in zip(missing, fresh, strict=True):
            answers[position] = answer
        return answers

    async def acomplete(self, request: Request, /) -> Completion:
        """Return the cached response. If there is none, return the LLM's response, which is then cached."""
        key = self.key(request)
        (answer,) = self.look_up([key])
        if answer is None:
            answer = await self.llm.acomplete(request)
            self.keep([key], [answer])
        return answer

    def key(self, request: Request) -> str | None:
        """The key of the response to a request. None if the response must not be cached."""
        llm = llm_of(self.llm, request)
        sampled = getattr(llm, "sampled", lambda request: request.temperature > 0)
        # Without the number of the repeat, several samples of one request would all be
        # the same cached response.
        if request.repeat is None and sampled(request):
            return None
        if id(llm) not in self._identities:
            _check_identity(llm)
            self._identities[id(llm)] = llm.identity()
        return answer_key(self._identities[id(llm)], request)

    def look_up(self, keys: Sequence[str | None]) -> list[Completion | None]:
        """Return the cached response of each key. None if there is none.

        Args:
            keys: from `key`. A key of None stands for a response that must not be
                cached, so nothing is found for it.
        """
        wanted = [key for key in keys if key is not None]
        cached: dict[str | None, Completion | None] = {}
        if wanted:
            with self._spared():
                cached.update(zip(wanted, self.cache.get(wanted), strict=True))
        answers = [cached.get(key) for key in keys]
        self.hits += sum(answer is not None for answer in answers)
        self.misses += sum(answer is None for answer in answers)
        return answers

    def keep(
        self, keys: Sequence[str | None], answers: Sequence[Completion | Exception]
    ) -> None:
        """Put responses into the cache. Leave out failures, and responses whose key is None or that `is_kept` refuses.

        Args:
            keys: from `key`, one for each response.
            answers: responses, or the exceptions of requests that failed.
        """
        stored = []
        for key, answer in zip(keys, answers, strict=True):
            if key is None or not isinstance(answer, Completion):
                continue
            if self.is_kept is None or self.is_kept(answer):
                stored.append((key, answer))
        if stored:
            with self._spared():
                self.cache.put(stored)

    @contextlib.contextmanager
    def _spared(self) -> Iterator[None]:
        """Log a failure of the cache instead of raising it, since the LLM can be called without a cache."""
        try:
            yield
        except StorageError as error:
            if not self._warned:
                log.warning("Continuing without the response cache. %s", error)
            self._warned = True

    def __repr__(self) -> str:
        return f"CachedLLM({self.llm!r}, {self.cache!r})"


def _check_identity(llm: Any) -> None:
    if not callable(getattr(llm, "identity", None)):
        raise InvalidArgumentError(
            f"cache= requires an LLM with a method identity(), but {type(llm).__name__} has none. Add a method "
            "that returns the model, its version, and every setting that changes its responses, as JSON data."
        )


def _checksum(key: str, created: object, answer: bytes) -> str:
    """A digest that covers the key, the time and the text of a response."""
    return hashlib.sha256(f"{key} {created!r} ".encode() + answer).hexdigest()[:32]


def _completion(text: bytes) -> Completion | None:
    """A stored response, or None if it was stored by an incompatible version."""
    try:
        completion = Completion(**json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return None
    return (
        replace(completion, from_cache=True)
        if isinstance(completion.text, str)
        else None
    )


# Responses in memory


class _Claim(NamedTuple):
    """A place in the queue for the response to a request.

    Attributes:
        key: the request's key.
        answer: the future of the response.
        is_mine: whether the caller must send the request, because no other caller did.
    """

    key: str
    answer: "Future[Completion]"
    is_mine: bool


@final
class AnsweredOnce:
    """Sends the requests in `keys` to an LLM only once each, and keeps their responses in memory.

    All other requests are sent every time.

    While a request is in progress, further callers with the same request wait for its
    response. All callers but the first get it with `from_cache=True`, because it was
    paid for already. If the request fails, all waiting callers get the failure, and a
    later caller sends the request again.

    Args:
        llm: a synchronous or async LLM, or both.
        keys: the key of each request to send once: `answer_key(request.client,
            request)`. Here, `request.client` (the parameters that choose one of several
            LLMs) takes the place of the LLM's identity.
    """

    def __init__(self, llm: Any, keys: Collection[str]) -> None:
        self.llm = llm
        self.keys = frozenset(keys)
        self._found: dict[str, Future[Completion]] = {}
        self._lock = threading.Lock()

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        """Return the response, or the exception, of each request, in order.

        A request in `keys` is not sent again if it has a response already, or if
        another caller is waiting for its response.
        """
        # Register all requests before the first is sent. Equal requests of one call are
        # then sent once, too.
        claims = [self._claim(request) for request in requests]
        mine = [i for i, claim in enumerate(claims) if claim.is_mine]
        outcomes: Sequence[Completion | BaseException] = []
        try:
            outcomes = self.llm.complete([requests[i] for i in mine]) if mine else []
        except BaseException as error:
            outcomes = [error] * len(mine)
            raise
        finally:
            for i, answer in zip(mine, outcomes, strict=True):
                self._settle(claims[i], answer)
        answers: list[Completion | Exception] = []
        for claim in claims:
            answer = attempt(claim.answer.result)
            # Another caller paid for this response.
            if not claim.is_mine and isinstance(answer, Completion):
                answer = replace(answer, from_cache=True)
            answers.append(answer)
        return answers

    async def acomplete(self, request: Request, /) -> Completion:
        """Return the response to a request. If another caller has sent the request already, wait for its response."""
        claim = self._claim(request)
        if not claim.is_mine:
            return replace(
                await asyncio.shield(asyncio.wrap_future(claim.answer)), from_cache=True
            )
        try:
            answer: Completion = await self.llm.acomplete(request)
        except BaseException as error:
            self._settle(claim, error)
            raise
        self._settle(claim, answer)
        return answer

    def _claim(self, request: Request) -> _Claim:
        """Find the response in progress, or register this caller as the sender of the request."""
        key = answer_key(request.client, request)
        with self._lock:
            if key in self._found:
                return _Claim(key, self._found[key], False)
            # A request that is not among the keys gets a future, too, so that complete()
            # handles both kinds alike. No other caller waits for it.
            future: Future[Completion] = Future()
            if key in self.keys:
                self._found[key] = future
        return _Claim(key, future, True)

    def _settle(self, claim: _Claim, answer: Completion | BaseException) -> None:
        """Give the response, or the failure, to all callers that wait for it."""
        if isinstance(answer, Completion):
            claim.answer.set_result(answer)
            return
        with self._lock:
            self._found.pop(claim.key, None)
        is_failure = isinstance(answer, Exception)
        # Ctrl-C or a cancellation stops the sender only, so its waiting callers get an
        # ordinary failure.
        claim.answer.set_exception(
            answer
            if is_failure
            else EvaluatorError(
                f"another evaluation had sent this request and was canceled ({answer!r})"
            )
        )

    def __getstate__(self) -> dict[str, Any]:
        done = {
            key: future.result()
            for key, future in self._found.items()
            if future.done() and not future.exception()
        }
        return {"llm": self.llm, "keys": self.keys, "_found": done}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["llm"], state["keys"])
        for key, answer in state["_found"].items():
            self._found[key] = Future()
            self._found[key].set_result(answer)
