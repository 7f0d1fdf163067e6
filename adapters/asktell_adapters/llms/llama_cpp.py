"""llama.cpp in its own process. It serves a GGUF file, several requests at once, and reuses common prefixes."""

import http.client
import json
import os
import secrets
import subprocess
import sys
import threading
import time
import urllib.parse
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, final

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import check_extra, fresh_after_fork, whole
from asktell_adapters._util.child import end_child, start_child
from asktell_adapters._util.scores import positive
from asktell_adapters.llms._machine import fingerprint, physical_cores
from asktell_adapters.llms.base import (
    SAMPLING,
    Completion,
    CompletionError,
    Request,
    without_system,
)
from asktell_adapters.llms.chat_api import calls_of, calls_text, response_format

SLOTS = 4
_ALL_LAYERS = 10_000
_SECONDS_TO_FINISH = 10.0
_PROCESS = Path(__file__).with_name("_llama_process.py")


@final
class LlamaCpp:
    """An LLM in a GGUF file, run by llama.cpp on this machine, with the chat template in the file.

    llama.cpp comes compiled in the package xllamacpp. The model is loaded at the first
    request.

    ```python
    from asktell_adapters.llms.gguf import smollm2  # a small LLM in a package

    with contextlib.closing(LlamaCpp(smollm2())) as llm:
        (answer,) = llm.complete([Request.chat("Name a fruit.", max_new_tokens=20)])
    ```

    **Slots.** `n_slots` requests are processed at the same time, from one call or from
    several threads. This is much faster than one after another. A *slot* processes one
    request at a time, and keeps the text that it has read. A request goes to the slot
    that has already read most of its beginning. So each slot reads a prompt only once
    for all examples.

    **Processes.** llama.cpp runs in its own process. This process is killed on `close`,
    and ends with your program. It listens on a port of this machine's loopback
    interface, and requires a random key that is new each time and never shown. If the
    object is pickled, or your program forks, the copy loads the model again.

    Args:
        model: path of a GGUF file.
        n_ctx: tokens of context per request, response included. Each slot takes memory
            for them. With 0, the slots share the context length that the model was
            trained with.
        n_slots: number of requests at the same time (*slots*). Requests affect each
            other's rounding, so even at temperature 0, a response can, rarely, depend on the
            other requests. With one slot and without `reuse_prefix`, it depends on its
            request alone.
        n_threads: number of threads (default: the physical cores that this process may
            use). Pass 1 if several such processes run at once or the machine is busy.
            In these cases, more threads often wait for each other and gain nothing.
        n_gpu_layers: number of layers on a GPU. Needs an xllamacpp that was built for
            GPUs. -1 stands for all layers.
        reuse_prefix: whether a request that begins like an earlier request in the same
            slot reuses this beginning. Otherwise, every request is read from its first
            token.
        timeout: largest number of seconds for loading the model, or for one request.
        verbose: True to let llama.cpp write its log to stderr.

    Raises:
        InvalidArgumentError: there is no such file, or a number is out of range.
    """

    _server: "_Server | None"
    _pool: ThreadPoolExecutor
    _pending: set[Future[Completion | Exception]]
    _lock: threading.Lock

    request_options = SAMPLING | {"repeat_penalty"}

    def __init__(
        self,
        model: str | Path,
        *,
        n_ctx: int = 4096,
        n_slots: int = SLOTS,
        n_threads: int | None = None,
        n_gpu_layers: int = 0,
        reuse_prefix: bool = True,
        timeout: float = 600.0,
        verbose: bool = False,
    ) -> None:
        if not isinstance(model, str | Path):
            raise InvalidArgumentError(
                f"LlamaCpp takes the path of a GGUF file, got {type(model).__name__}."
            )
        self._path = Path(model).expanduser()
        if not self._path.is_file():
            raise InvalidArgumentError(
                f"There is no GGUF file {str(self._path)!r}. Correct the path."
            )
        check_extra("llama-cpp", "xllamacpp")
        self.n_ctx = whole("n_ctx", n_ctx, 0)
        self.n_slots = whole("n_slots", n_slots, 1)
        self.n_threads = (
            physical_cores() if n_threads is None else whole("n_threads", n_threads, 1)
        )
        self.n_gpu_layers = whole("n_gpu_layers", n_gpu_layers, -1)
        self.reuse_prefix = reuse_prefix
        self.timeout = positive("timeout", timeout, " of seconds")
        self.verbose = verbose
        self._reset()

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        """Complete the requests, `n_slots` at the same time.

        Returns:
            For each request, in order, its response, or the exception if it failed.

        Raises:
            EvaluatorError: the model cannot be loaded.
        """
        with self._lock:
            server = self._load()
            answers = [
                self._pool.submit(self._answer, server, request) for request in requests
            ]
            self._pending.update(answers)
        try:
            return [answer.result() for answer in answers]
        finally:
            for answer in answers:
                # After Ctrl-C, no further requests are sent.
                answer.cancel()
            self._pending.difference_update(answers)

    def count_tokens(self, requests: Sequence[Request], /) -> list[int]:
        """The number of prompt tokens of each request, chat template included.

        Raises:
            EvaluatorError: the model cannot be loaded, or llama.cpp refuses a request.
        """
        with self._lock:
            server = self._load()
        counts = []
        for request in requests:
            asked = {
                "messages": [dict(message) for message in request.messages],
                **_tools(request),
            }
            chat = server.post("/apply-template", asked)
            if refusal := _refusal(chat):
                raise EvaluatorError(f"llama.cpp could not count tokens: {refusal}")
            text = {
                "content": chat["prompt"],
                "add_special": True,
                "parse_special": True,
            }
            counts.append(len(server.post("/tokenize", text)["tokens"]))
        return counts

    def identity(self) -> dict[str, Any]:
        """Everything that determines a response apart from the request, for a cache.

        It is a digest of the model's file, the version of xllamacpp, and `n_ctx`.
        """
        return {
            "llm": "xllamacpp",
            "version": version("xllamacpp"),
            "model": fingerprint(self._path),
            "n_ctx": self.n_ctx,
        }

    def load(self) -> None:
        """Load the model now, not at the first request.

        Raises:
            EvaluatorError: the model cannot be loaded.
        """
        with self._lock:
            self._load()

    def close(self) -> None:
        """End llama.cpp's process, which frees the model's memory. The next request loads the model again.

        Requests of other threads that are in progress have 10 seconds to finish, and fail
        after that.
        """
        with self._lock:
            # Other threads can start a new server at once, while this one ends.
            server, pool, pending = self._server, self._pool, set(self._pending)
            self._server = None
            self._pool = self._new_pool()
        if server is not None:
            wait(pending, _SECONDS_TO_FINISH)
            server.end()
        pool.shutdown(wait=False)

    def _new_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.n_slots, thread_name_prefix="llama.cpp")

    def _reset(self) -> None:
        """Start without a server, also in a copy and after a fork."""
        self._server = None
        self._pool = self._new_pool()
        self._pending = set()
        self._lock = threading.Lock()
        fresh_after_fork(self, LlamaCpp._forget)

    def _forget(self) -> None:
        """Drop the server in a forked process, without ending it, since it belongs to the parent process."""
        if self._server is not None:
            self._server.end()
        self._reset()

    def _load(self) -> "_Server":
        """Return the server, and start it if it is not running.

        Raises:
            EvaluatorError: the model cannot be loaded.
        """
        if self._server is not None and not self._server.alive:
            self._server.end()
            self._server = None
        if self._server is None:
            try:
                self._server = _Server(
                    self._parameters(), self.timeout, secrets.token_urlsafe(32)
                )
            except EvaluatorError as error:
                raise EvaluatorError(
                    f"llama.cpp could not load {str(self._path)!r}. {self._likely(error)}"
                ) from error
            except TimeoutError as error:
                raise EvaluatorError(
                    f"llama.cpp did not load {str(self._path)!r} within {self.timeout:g} s. Pass a larger timeout if "
                    "it needs longer, or a smaller n_ctx or n_slots if memory is short"
                ) from error
        return self._server

    def _parameters(self) -> dict[str, Any]:
        """Parameters of the server, by their names in xllamacpp.CommonParams."""
        return {
            "model.path": str(self._path),
            # llama.cpp divides the context among its slots.
            "n_ctx": self.n_ctx * self.n_slots,
            "kv_unified": self.n_ctx == 0,
            "n_parallel": self.n_slots,
            "cpuparams.n_threads": self.n_threads,
            "cpuparams_batch.n_threads": self.n_threads,
            "n_gpu_layers": _ALL_LAYERS if self.n_gpu_layers < 0 else self.n_gpu_layers,
            # Raise an error instead of changing the parameters to fit the memory
            "fit_params": False,
            # The default keeps up to 8 GiB of prefixes that no slot uses
            "cache_ram_mib": 0,
            "warmup": False,
            "ui": False,
            "endpoint_slots": False,
            "verbosity": 3 if self.verbose else -1,
        }

    def _likely(self, error: Exception) -> str:
        """The likely reason why a file could not be loaded, because llama.cpp gives none."""
        with self._path.open("rb") as file:
            begins = file.read(4)
        if begins != b"GGUF":
            return f"It is not a GGUF file, because it begins with {begins!r}"
        return (
            f"{error} Most often the file is damaged or incomplete, its kind of model is newer than this xllamacpp, or "
            "memory is short (a smaller n_ctx or n_slots needs less). LlamaCpp(..., verbose=True) shows the log"
        )

    def _answer(self, server: "_Server", request: Request) -> Completion | Exception:
        """Complete one request. A failure is returned, not raised, because the other requests of the call continue."""
        start = time.perf_counter()
        try:
            reply = self._chat(
                server, [dict(message) for message in request.messages], request
            )
            # Some templates, such as Gemma's, refuse a system turn
            if "system" in _refusal(reply).lower():
                reply = self._chat(server, without_system(request.messages), request)
        except EvaluatorError as error:
            failure = CompletionError(str(error))
            failure.__cause__ = error
            return failure
        if refusal := _refusal(reply):
            return CompletionError(f"llama.cpp refused the request: {refusal}")
        choice, usage = reply["choices"][0], reply["usage"]
        calls = calls_of(choice["message"])
        text = (choice["message"]["content"] or "").strip()
        # A response that was not cut ends with an end token, which is not counted.
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

    def _chat(
        self, server: "_Server", messages: list[dict[str, Any]], request: Request
    ) -> Any:
        """Send a chat, and return the server's reply."""
        wanted = (
            {}
            if request.schema is None
            else {"response_format": response_format(request.schema)}
        )
        return server.post(
            "/v1/chat/completions",
            {
                **wanted,
                **_tools(request),
                **request.options,
                "messages": messages,
                "max_tokens": request.max_new_tokens,
                "temperature": request.temperature,
                "seed": request.seed,
                "cache_prompt": self.reuse_prefix,
            },
        )

    def __getstate__(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "_server": None,
            "_pool": None,
            "_pending": None,
            "_lock": None,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    def __repr__(self) -> str:
        settings = (
            f"n_ctx={self.n_ctx}, n_slots={self.n_slots}, n_threads={self.n_threads}"
        )
        return f"LlamaCpp({str(self._path)!r}, {settings})"


def _tools(request: Request) -> dict[str, Any]:
    return {"tools": [dict(tool) for tool in request.tools]} if request.tools else {}


def _refusal(reply: Any) -> str:
    """The error in a reply of llama.cpp, or an empty text if there is none."""
    if "error" not in reply:
        return ""
    error = reply["error"]
    advice = (
        ". Pass a larger n_ctx"
        if error.get("type") == "exceed_context_size_error"
        else ""
    )
    return f"{error.get('message', error)}{advice}"


class _Server:
    """llama.cpp's HTTP server on the loopback interface, in its own process.

    xllamacpp offers only this server, and `~Server` can wait forever, so it must be
    possible to kill it. The process ends at `end`, with this object, or with the
    process that started it. Requests without `key` are refused.

    Raises:
        EvaluatorError: the process did not start, or could not load the model in time.
    """

    def __init__(
        self, parameters: Mapping[str, Any], timeout: float, key: str = ""
    ) -> None:
        self._timeout = timeout
        self._key = key
        # Each token has many barriers, at which OpenMP's threads spin by default. With
        # one more busy process than cores, spinning made two threads 5 to 20 times
        # slower than one. Sleeping threads share the machine fairly.
        environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ}
        self._process = start_child([str(_PROCESS)], environment)
        self._finalizer = weakref.finalize(self, end_child, self._process, os.getpid())
        try:
            keys = {"api_keys": [key]} if key else {}
            order = {
                "path": sys.path,
                "parameters": {**parameters, **keys},
                "timeout": timeout,
            }
            self.address = self._start(json.dumps(order).encode() + b"\n")
        except BaseException:
            self.end()
            raise

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send JSON and return the reply's JSON.

        Raises:
            EvaluatorError: the server failed, or did not respond in time.
        """
        headers = {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {self._key}",
        }
        try:
            return json.loads(
                self._request(
                    "POST", path, self._timeout, json.dumps(body).encode(), headers
                )
            )
        except TimeoutError:
            why = f"did not respond within {self._timeout:g} s. Pass a larger timeout if it needs longer"
        except (OSError, http.client.HTTPException, ValueError) as error:
            with suppress(subprocess.TimeoutExpired):
                # A dying process closes its connections before it ends
                self._process.wait(1.0)
            why = (
                f"failed with {type(error).__name__}: {error}"
                if self.alive
                else self._how_it_ended()
            )
        raise EvaluatorError(f"llama.cpp {why}.")

    def end(self) -> None:
        """Kill the process, or only drop it in a forked process, which has not started it."""
        self._finalizer()

    def _start(self, order: bytes) -> str:
        """Send the parameters to the process, wait until the model is loaded, and return the server's address.

        Raises:
            EvaluatorError: the process ended, could not load the model, or took too
                long.
        """
        pipes = self._process.stdin, self._process.stdout
        assert pipes[0] is not None
        assert pipes[1] is not None
        deadline = time.monotonic() + self._timeout
        # Reading from the pipe has no timeout. Killing the process ends it.
        killer = threading.Timer(self._timeout, self._process.kill)
        killer.daemon = True
        killer.start()
        try:
            with suppress(BrokenPipeError):
                pipes[0].write(order)
            line = pipes[1].readline()
        finally:
            killer.cancel()
        if not line:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(5.0)
            if time.monotonic() >= deadline:
                raise TimeoutError
            raise EvaluatorError(f"Its process {self._how_it_ended()}.")
        reply = json.loads(line)
        if "error" in reply:
            raise EvaluatorError(reply["error"])
        self.address = str(reply["address"])
        # The server begins to listen some time after its address is known.
        while True:
            try:
                self._request("GET", "/health", 1.0)
                return self.address
            except (OSError, http.client.HTTPException) as error:
                if time.monotonic() >= deadline or not self.alive:
                    raise EvaluatorError(
                        f"Its server does not respond ({error})."
                    ) from error
                time.sleep(0.01)

    def _request(
        self,
        method: str,
        path: str,
        timeout: float,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Send an HTTP request, and return the body of the response."""
        url = urllib.parse.urlsplit(self.address)
        connection = http.client.HTTPConnection(
            url.hostname or "", url.port, timeout=timeout
        )
        try:
            connection.request(method, path, body, headers or {})
            return connection.getresponse().read()
        finally:
            connection.close()

    def _how_it_ended(self) -> str:
        """Words for the end of the process, for messages. Code -9 often means that memory ran out."""
        code = self._process.returncode
        if not self._finalizer.alive:
            return "was closed"
        what = f"by signal {-code}" if code < 0 else f"with code {code}"
        return f"ended {what}" + (". Perhaps memory ran out" if code == -9 else "")
