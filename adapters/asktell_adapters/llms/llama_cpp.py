"""llama.cpp in process: a GGUF file, several requests at once in slots, each with the prefix that it has read."""

import ctypes
import http.client
import json
import secrets
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any, final

from asktell.arguments import whole
from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell.extras import check_extra
from asktell.forks import fresh_after_fork
from asktell_adapters.llms._llama import import_llama
from asktell_adapters.llms._machine import fingerprint, physical_cores
from asktell_adapters.llms.base import Completion, CompletionError, Request, without_system
from asktell_adapters.llms.chat_api import calls_of, calls_text, response_format

SLOTS = 4
_ALL_LAYERS = 10_000
_SECONDS_TO_BEGIN = 30.0


@final
class LlamaCpp:
    """An LLM in a GGUF file, by xllamacpp, with the file's own chat template. It comes compiled.

    The model is loaded at the first request. The requests of a call, or of several threads, are answered `n_slots` at a
    time in common batches, which costs much less than one after another. A slot keeps what it has read, and a request
    goes to the slot that has read most of its beginning: a prompt is read once per slot for all its examples. An object
    can be pickled, or forked: the copy loads the model anew.

    While it is loaded, llama.cpp listens on a port of this machine's loopback interface; nobody is served there without
    a key that is random, new each time and never shown.

    Args:
        model: path of a GGUF file.
        n_ctx: tokens of context for each request, answer included; 0 for what the model was trained with, which the
            slots then share. It takes memory for each slot.
        n_slots: requests answered at once. A token's sums round differently with other requests beside it, so a greedy
            answer can, rarely, depend on them. With one slot and `reuse_prefix=False` it depends on the request alone.
        n_threads: by default the physical cores that this process may use. With several such processes at once, or on
            a busy machine, give each 1: threads that wait for each other gain nothing there.
        n_gpu_layers: layers put on a GPU, where xllamacpp was built for one; -1 for all.
        reuse_prefix: False reads each request from its beginning.
        verbose: let llama.cpp write its log to stderr.

    Raises:
        InvalidArgumentError: there is no such file, or a number is out of range.
        MissingExtraError: xllamacpp is not installed.
    """

    _server: Any
    _pool: ThreadPoolExecutor | None
    _lock: threading.Lock
    _key: str

    def __init__(
        self,
        model: str | Path,
        *,
        n_ctx: int = 4096,
        n_slots: int = SLOTS,
        n_threads: int | None = None,
        n_gpu_layers: int = 0,
        reuse_prefix: bool = True,
        verbose: bool = False,
    ) -> None:
        if not isinstance(model, str | Path):
            raise InvalidArgumentError(
                f"LlamaCpp takes the path of a GGUF file, got {type(model).__name__}. A llama_cpp.Llama is for "
                "LlamaCppPython."
            )
        self._path = Path(model).expanduser()
        if not self._path.is_file():
            raise InvalidArgumentError(f"There is no GGUF file {str(self._path)!r}.")
        check_extra("llama-cpp", "xllamacpp")
        self.n_ctx = whole("n_ctx", n_ctx, 0)
        self.n_slots = whole("n_slots", n_slots, 1)
        self.n_threads = physical_cores() if n_threads is None else whole("n_threads", n_threads, 1)
        self.n_gpu_layers = whole("n_gpu_layers", n_gpu_layers, -1)
        self.reuse_prefix = reuse_prefix
        self.verbose = verbose
        self._reset()

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        """Answers in the order of the requests; one that fails yields its exception in its place.

        Raises:
            EvaluatorError: the model cannot be loaded.
        """
        with self._lock:
            pool = self._load()
            answers: list[Future[Completion | Exception]] = [
                pool.submit(self._answer, self._server, request) for request in requests
            ]
        try:
            return [answer.result() for answer in answers]
        finally:
            for answer in answers:
                answer.cancel()  # Ctrl-C also ends those that wait.

    def count_tokens(self, requests: Sequence[Request], /) -> list[int]:
        """The tokens that each request has to read, chat template included.

        Raises:
            EvaluatorError: the model cannot be loaded, or llama.cpp refuses a request.
        """
        self.load()
        counts = []
        for request in requests:
            asked = {"messages": [dict(message) for message in request.messages], **_tools(request)}
            chat = self._post("/apply-template", asked)
            text = {"content": chat["prompt"], "add_special": True, "parse_special": True}
            counts.append(len(self._post("/tokenize", text)["tokens"]))
        return counts

    def identity(self) -> dict[str, Any]:
        """What determines its answers, beside the request and rounding, as JSON data."""
        return {
            "llm": "xllamacpp",
            "version": version("xllamacpp"),
            "model": fingerprint(self._path),
            "n_ctx": self.n_ctx,
        }

    def load(self) -> None:
        """Load the model now, to learn now whether it can be; otherwise the first request does.

        Raises:
            EvaluatorError: the model cannot be loaded.
        """
        with self._lock:
            self._load()

    def close(self) -> None:
        """Free the model's memory, once what is under way is answered; the next request loads it again."""
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown()
            self._server = self._pool = None

    def _reset(self) -> None:
        self._server = None
        self._pool = None
        self._key = ""
        self._lock = threading.Lock()
        fresh_after_fork(self, LlamaCpp._forget)

    def _forget(self) -> None:
        """In a forked process, where llama.cpp's threads do not exist: let go of it without waiting for them."""
        if self._server is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._server))  # its end would wait
        self._reset()

    def _load(self) -> ThreadPoolExecutor:
        if self._pool is None:
            xllamacpp = import_llama("xllamacpp", "llama-cpp")
            self._key = secrets.token_urlsafe(32)
            try:
                self._server = xllamacpp.Server(self._parameters(xllamacpp.CommonParams()))
            except (RuntimeError, ValueError, OSError) as error:
                raise EvaluatorError(f"llama.cpp could not load {str(self._path)!r}: {self._likely(error)}") from error
            until_it_serves(self._server.listening_address)
            self._pool = ThreadPoolExecutor(self.n_slots, thread_name_prefix="llama.cpp")
        return self._pool

    def _parameters(self, parameters: Any) -> Any:
        parameters.model.path = str(self._path)
        parameters.n_ctx = self.n_ctx * self.n_slots
        parameters.kv_unified = self.n_ctx == 0
        parameters.n_parallel = self.n_slots
        for threads in (parameters.cpuparams, parameters.cpuparams_batch):
            threads.n_threads = self.n_threads
        parameters.n_gpu_layers = _ALL_LAYERS if self.n_gpu_layers < 0 else self.n_gpu_layers
        parameters.fit_params = False  # what was asked for, or an error
        parameters.cache_ram_mib = 0  # otherwise up to 8 GiB of prefixes that no slot holds any more
        parameters.warmup = False
        parameters.ui = False
        parameters.endpoint_slots = False
        parameters.api_keys = [self._key]
        parameters.verbosity = 3 if self.verbose else -1
        return parameters

    def _likely(self, error: Exception) -> str:
        with self._path.open("rb") as file:
            begins = file.read(4)
        if begins != b"GGUF":
            return f"it is no GGUF file, since it begins with {begins!r}"
        return (
            f"{error} Most often the file is damaged or not whole, its kind of model is newer than this xllamacpp, or "
            "memory is short (a smaller n_ctx or n_slots needs less). LlamaCpp(..., verbose=True) shows its log"
        )

    def _answer(self, server: Any, request: Request) -> Completion | Exception:
        start = time.perf_counter()
        try:
            reply = self._chat(server, [dict(message) for message in request.messages], request)
            if "system" in _refusal(reply).lower():  # Gemma's template, for one, refuses a system turn.
                reply = self._chat(server, without_system(request.messages), request)
        except Exception as error:
            failure = CompletionError(f"llama.cpp failed: {type(error).__name__}: {error}")
            failure.__cause__ = error
            return failure
        if refusal := _refusal(reply):
            return CompletionError(f"llama.cpp refused: {refusal}")
        choice, usage = reply["choices"][0], reply["usage"]
        calls = calls_of(choice["message"])
        text = (choice["message"]["content"] or "").strip()
        # What ends by itself ends with a token that says so.
        stopped = choice["finish_reason"] == "stop"
        return Completion(
            text=calls_text(calls) if calls and not text else text,
            prompt_tokens=usage["prompt_tokens"],
            completion_tokens=max(0, usage["completion_tokens"] - stopped),
            cached_tokens=usage["prompt_tokens_details"]["cached_tokens"],
            latency=time.perf_counter() - start,
            finish_reason=choice["finish_reason"],
            tool_calls=calls,
        )

    def _chat(self, server: Any, messages: list[dict[str, Any]], request: Request) -> Any:
        wanted = {} if request.schema is None else {"response_format": response_format(request.schema)}
        return server.handle_chat_completions(
            {
                **wanted,
                **_tools(request),
                "messages": messages,
                "max_tokens": request.max_new_tokens,
                "temperature": request.temperature,
                "seed": request.seed,
                "cache_prompt": self.reuse_prefix,
            }
        )

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        request = urllib.request.Request(
            self._server.listening_address + path, json.dumps(body).encode(), headers, method="POST"
        )
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as reply:
                return json.load(reply)
        except (OSError, ValueError) as error:
            raise EvaluatorError(f"llama.cpp could not count tokens: {error}") from error

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_server": None, "_pool": None, "_lock": None, "_key": ""}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    def __repr__(self) -> str:
        settings = f"n_ctx={self.n_ctx}, n_slots={self.n_slots}, n_threads={self.n_threads}"
        return f"LlamaCpp({str(self._path)!r}, {settings})"


def _tools(request: Request) -> dict[str, Any]:
    return {"tools": [dict(tool) for tool in request.tools]} if request.tools else {}


def _refusal(reply: Any) -> str:
    """Why llama.cpp answered nothing; empty if it did."""
    if "error" not in reply:
        return ""
    error = reply["error"]
    advice = ": give a larger n_ctx" if error.get("type") == "exceed_context_size_error" else ""
    return f"{error.get('message', error)}{advice}"


def until_it_serves(address: str) -> None:
    """Wait until a server of xllamacpp answers over HTTP: one that is ended before that never ends.

    Its thread begins to listen some time after it was made, and does not learn that it was told to stop before.
    """
    url = urllib.parse.urlsplit(address)
    deadline = time.monotonic() + _SECONDS_TO_BEGIN
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=1.0)
        try:
            connection.request("GET", "/health")
            connection.getresponse().read()
            return
        except (OSError, http.client.HTTPException):
            time.sleep(0.01)
        finally:
            connection.close()
