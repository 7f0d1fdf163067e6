"""llama.cpp in process: a GGUF file, greedy, one request at a time, the prefix of the last one kept."""

import threading
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, final

from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell.extras import check_extra
from asktell_adapters.llms._llama import import_llama
from asktell_adapters.llms._machine import fingerprint, physical_cores
from asktell_adapters.llms.base import Completion, CompletionError, Request, without_system


@final
class LlamaCppPython:
    """An LLM in a GGUF file, by llama-cpp-python, with the file's own chat template.

    The model is loaded at the first request. Requests are served one after another, whatever the number of threads
    that call; a request that begins like the one before it skips the common part (several times faster for a long
    prompt on many examples). An object made from a path can be pickled: the copy loads the model anew.

    Args:
        model: path of a GGUF file, or a ready `llama_cpp.Llama`.
        n_ctx: tokens of context, answer included; 0 for what the model was trained with.
        n_threads: by default the physical cores that this process may use. With several such processes at once, or on
            a busy machine, give each 1: threads that wait for each other gain nothing there.
        n_gpu_layers: layers put on a GPU, where llama.cpp was built for one; -1 for all.
        reuse_prefix: False evaluates each request from scratch. A reused prefix is cut into other batches, whose sums
            round differently, so an answer, greedy or sampled with a seed, can depend on the request before it; False
            makes it a function of the request alone.

    Raises:
        InvalidArgumentError: there is no such file.
        MissingExtraError: llama-cpp-python is not installed.
    """

    def __init__(
        self,
        model: str | Path | object,
        *,
        n_ctx: int = 4096,
        n_threads: int | None = None,
        n_gpu_layers: int = 0,
        reuse_prefix: bool = True,
    ) -> None:
        self._path: Path | None = None
        self._llama: Any = None
        if isinstance(model, str | Path):
            self._path = Path(model).expanduser()
            if not self._path.is_file():
                raise InvalidArgumentError(f"There is no GGUF file {str(self._path)!r}.")
        else:
            self._llama = model
        if self._llama is None:
            check_extra("llama-cpp-python", "llama_cpp")
        self.n_ctx = n_ctx
        self.n_threads = physical_cores() if n_threads is None else n_threads
        self.n_gpu_layers = n_gpu_layers
        self.reuse_prefix = reuse_prefix
        self._lock = threading.Lock()

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        """Answers in the order of the requests; one that fails yields its exception in its place.

        Raises:
            EvaluatorError: the model cannot be loaded.
        """
        with self._lock:
            self._load()
            return [self._answer(self._llama, request) for request in requests]

    def identity(self) -> dict[str, Any]:
        """What determines its answers, beside the request and rounding, as JSON data.

        Raises:
            InvalidArgumentError: it was made from a Llama object, of which that is not known.
        """
        if self._path is None:
            raise InvalidArgumentError("A LlamaCppPython made from a Llama object has no identity; give it the path.")
        return {
            "llm": "llama-cpp-python",
            "version": version("llama-cpp-python"),
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
        """Free the model's memory, if this object loaded it; the next request loads it again."""
        with self._lock:
            if self._path is not None and self._llama is not None:
                self._llama.close()
                self._llama = None

    def _load(self) -> None:
        if self._llama is None:
            llama_cpp = import_llama("llama_cpp", "llama-cpp-python")
            try:
                self._llama = llama_cpp.Llama(
                    model_path=str(self._path),
                    n_ctx=self.n_ctx,
                    n_threads=self.n_threads,
                    n_threads_batch=self.n_threads,
                    n_gpu_layers=self.n_gpu_layers,
                    verbose=False,
                )
            except (ValueError, RuntimeError, AssertionError) as error:
                raise EvaluatorError(f"llama.cpp could not load {str(self._path)!r}: {error}") from error

    def _answer(self, llama: Any, request: Request) -> Completion | Exception:
        if not self.reuse_prefix:
            llama.reset()
        before = list(llama.eval_tokens)
        start = time.perf_counter()
        try:
            reply = _chat(llama, request)
        except Exception as error:
            llama.reset()  # A half-evaluated request is no prefix to build on.
            failure = CompletionError(f"llama.cpp failed: {type(error).__name__}: {error}")
            failure.__cause__ = error
            return failure
        seconds = time.perf_counter() - start
        choice, usage = reply["choices"][0], reply["usage"]
        return Completion(
            text=(choice["message"]["content"] or "").strip(),
            prompt_tokens=usage["prompt_tokens"],
            completion_tokens=usage["completion_tokens"],
            cached_tokens=min(_common_prefix(before, llama.eval_tokens), usage["prompt_tokens"] - 1),
            latency=seconds,
            finish_reason=choice["finish_reason"],
        )

    def __getstate__(self) -> dict[str, Any]:
        if self._path is None:
            raise TypeError("a LlamaCppPython made from a Llama object cannot be pickled; make it from the file's path")
        return {**self.__dict__, "_llama": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def __repr__(self) -> str:
        return f"LlamaCppPython({str(self._path or self._llama)!r}, n_ctx={self.n_ctx}, n_threads={self.n_threads})"


def _chat(llama: Any, request: Request) -> Any:
    settings: dict[str, Any] = {
        "max_tokens": request.max_new_tokens,
        "temperature": request.temperature,
        "seed": request.seed,
        **({"tools": [dict(tool) for tool in request.tools]} if request.tools else {}),
    }
    try:
        return llama.create_chat_completion(messages=[dict(message) for message in request.messages], **settings)
    except Exception as error:  # Gemma's template, for one, refuses a system turn.
        if "system" not in str(error).lower():
            raise
    return llama.create_chat_completion(messages=without_system(request.messages), **settings)


def _common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return length
