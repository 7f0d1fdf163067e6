"""vLLM's offline engine. It gets whole batches, ordered so that its prefix cache can reuse prompts."""

import json
import multiprocessing
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, final

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import check_extra, import_extra
from asktell_adapters._util.loop import Lock
from asktell_adapters._util.scores import grouped
from asktell_adapters.llms._machine import which_model
from asktell_adapters.llms.base import (
    SAMPLING,
    Completion,
    CompletionError,
    Request,
    failure_of,
    said,
    without_system,
)

_Row = tuple[int, Request]  # position among the requests, request
_SECONDS_BETWEEN_LOOKS = 0.5  # whether the engine's processes are alive


@final
class VLLM:
    """An LLM run by vLLM on this machine, with its own chat template.

    vLLM's engine (a `vllm.LLM`) is started at the first request.

    ```python
    llm = VLLM("Qwen/Qwen2.5-0.5B-Instruct", engine_options={"max_model_len": 4096})
    ```

    **Batches.** A call sends all its requests to the engine, sorted by their beginnings.
    So the engine's prefix cache, which is on by default, reads a prompt only once for
    all examples. If the engine refuses a request, for example because it is longer than
    the context, only this request fails.

    **Settings.** The largest number of tokens, the temperature and the seed are those of
    each request. From the model's `generation_config`, only the end tokens are used. A
    response that reaches the end of the context is cut, with the finish reason
    "length".

    **Processes.** The engine runs in processes of its own, so a script that starts it
    must do so under `if __name__ == "__main__":`. If the object is pickled, the copy
    starts another engine. An object made from a ready `vllm.LLM` cannot be pickled.

    Args:
        model: an id on the Hugging Face hub, a local folder, or a ready `vllm.LLM`.
        engine_options: arguments of `vllm.LLM`, such as `tensor_parallel_size` and
            `max_model_len`.
        chat_template: a Jinja template that replaces the model's own.
        template_options: variables for the chat template, such as `enable_thinking`.

    Raises:
        InvalidArgumentError: `engine_options` were passed with a ready `vllm.LLM`.
    """

    request_options = SAMPLING | {"repetition_penalty"}

    def __init__(
        self,
        model: str | Path | object,
        *,
        engine_options: Mapping[str, object] | None = None,
        chat_template: str | None = None,
        template_options: Mapping[str, object] | None = None,
    ) -> None:
        self._name = str(Path(model).expanduser()) if isinstance(model, Path) else model
        self._engine: Any = None
        self._processes: list[BaseProcess] = []
        self._running: Future[Any] | None = None
        if isinstance(self._name, str):
            check_extra("vllm", "vllm")
        else:
            self._engine = model
            self._processes = _processes()
            if engine_options:
                raise InvalidArgumentError(
                    "engine_options apply only to a model that is passed by its name, but this vllm.LLM has already "
                    "started. Pass them to vllm.LLM itself."
                )
        self.engine_options = {"enable_prefix_caching": True, **(engine_options or {})}
        self.chat_template = chat_template
        self.template_options = dict(template_options or {})
        # False once the template has refused a system turn.
        self._system_turn = True
        self._lock = Lock()

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        """Complete the requests. All are sent to the engine at once.

        Returns:
            For each request, in order, its response, or the exception if it failed.

        Raises:
            EvaluatorError: the engine cannot start, or one of its processes has died.
        """
        # Sorted by their texts from the first turn on, so that requests with the same
        # beginning follow each other.
        rows = sorted(
            enumerate(requests),
            key=lambda row: [said(turn) for turn in row[1].messages],
        )
        with self._lock:
            if rows:
                self._start()
            try:
                answers = {}
                # A call has one list of tools
                for alike in grouped(rows, lambda row: json.dumps(row[1].tools)):
                    answers.update(self._answer(alike))
            except Exception as error:
                if not _died(error):
                    raise
                if isinstance(self._name, str):
                    self._engine = None
                raise EvaluatorError(
                    f"vLLM's engine died during a call ({error}). The first error in vLLM's log has more details. "
                    "The most common cause is too little memory. In this case, set a lower gpu_memory_utilization, "
                    "max_model_len or max_num_seqs in engine_options"
                ) from error
        return [answers[position] for position in range(len(requests))]

    def identity(self) -> dict[str, Any]:
        """Everything that determines a response apart from the request, for a cache: model and settings.

        Raises:
            InvalidArgumentError: a ready `vllm.LLM` was passed, which has no name.
        """
        if not isinstance(self._name, str):
            raise InvalidArgumentError(
                "The responses of a VLLM made from a vllm.LLM cannot be cached, because the vllm.LLM has no name. Make "
                "it from the model's name."
            )
        return {
            "llm": "vllm",
            "version": str(import_extra("vllm", "vllm").__version__),
            "model": which_model(self._name),
            "engine_options": self.engine_options,
            "chat_template": self.chat_template,
            "template_options": self.template_options,
        }

    def load(self) -> None:
        """Start the engine now, not at the first request.

        Raises:
            EvaluatorError: the engine cannot start.
        """
        with self._lock:
            self._start()

    def close(self) -> None:
        """End the engine and its processes, which frees the GPU's memory. The next request starts it again.

        A ready `vllm.LLM` that was passed is not ended.
        """
        with self._lock:
            if isinstance(self._name, str):
                self._engine = None

    def _start(self) -> None:
        """Start the engine, unless it is running, and find its processes.

        Raises:
            EvaluatorError: the engine cannot start.
        """
        if self._engine is None:
            vllm = import_extra("vllm", "vllm")
            # Other engines of this program have processes, too.
            before = {process.pid for process in _processes()}
            self._running = None
            try:
                self._engine = vllm.LLM(self._name, **self.engine_options)
                self._processes = [
                    process for process in _processes() if process.pid not in before
                ]
            except Exception as error:
                # The engine's processes may raise anything.
                raise EvaluatorError(
                    f"vLLM could not start with {self._name!r} ({error}). vLLM's log has more details"
                ) from error

    def _answer(self, rows: list[_Row]) -> dict[int, Completion | Exception]:
        """Complete requests with the same tools. A refused batch is halved until the refused request is alone."""
        if not rows:
            return {}
        failure: Exception | None = None
        for system_turn in (True, False) if self._system_turn else (False,):
            try:
                answers = self._chat(rows, system_turn)
            except Exception as error:
                if _died(error):
                    raise
                failure = failure or error
                # Some templates, such as Gemma's, refuse a system turn
                if "system" not in str(error).lower():
                    break
            else:
                self._system_turn = system_turn
                return answers
        if len(rows) == 1 and failure is not None:
            return {rows[0][0]: failure_of("vLLM", failure)}
        # One refused request makes the whole batch fail before anything is computed.
        # Find it by halving the batch.
        middle = len(rows) // 2
        return {**self._answer(rows[:middle]), **self._answer(rows[middle:])}

    def _chat(
        self, rows: list[_Row], system_turn: bool
    ) -> dict[int, Completion | Exception]:
        """Send a batch to the engine.

        Args:
            rows: the requests with their positions.
            system_turn: False to put the system turn into the first user turn.
        """
        sampling_params = import_extra("vllm", "vllm").SamplingParams
        chats = [list(map(dict, request.messages)) for _, request in rows]
        params = [
            sampling_params(
                # vLLM's default is 16.
                max_tokens=request.max_new_tokens,
                temperature=request.temperature,
                # Greedy requests are faster without a seed
                seed=request.seed if request.temperature > 0 else None,
                **request.options,
            )
            for _, request in rows
        ]
        options: dict[str, Any] = {"use_tqdm": False}
        if self.chat_template is not None:
            options["chat_template"] = self.chat_template
        if tools := rows[0][1].tools:
            options["tools"] = [dict(tool) for tool in tools]
        if self.template_options:
            options["chat_template_kwargs"] = self.template_options
        if not system_turn:
            chats = list(map(without_system, chats))
        engine, start = self._engine, time.perf_counter()
        outputs = self._watched(lambda: engine.chat(chats, params, **options))
        seconds = (time.perf_counter() - start) / len(rows)
        # The engine sorts outputs by the numbers of its requests. After an interrupted
        # call, some versions still return the rest of its responses, which come first.
        outputs = outputs[-len(rows) :]
        if len(outputs) < len(rows):
            raise CompletionError(
                f"vLLM lost responses: the number of requests was {len(rows):,}, and the number of responses was "
                f"{len(outputs):,}"
            )
        return {
            position: _completion(output, seconds)
            for (position, _), output in zip(rows, outputs, strict=True)
        }

    def _watched(self, call: Callable[[], Any]) -> Any:
        """Return the result of the call, and watch the engine's processes while it runs.

        If a process is killed, for example by a system short of memory, vLLM waits for
        it forever.

        Raises:
            EngineDeadError: a process ended.
        """
        if not self._processes:
            return call()
        before, outcome = self._running, Future[Any]()

        def work() -> None:
            if before is not None:
                # A call that Ctrl-C interrupted still runs.
                wait([before])
            try:
                outcome.set_result(call())
            except BaseException as error:
                outcome.set_exception(error)

        threading.Thread(target=work, name="asktell-vllm", daemon=True).start()
        self._running = outcome
        alive = True
        while not wait([outcome], timeout=_SECONDS_BETWEEN_LOOKS).done:
            if not alive:
                raise EngineDeadError("its process ended without a message")
            # If a process is dead, vLLM has until the next check to raise its own
            # error.
            alive = all(process.is_alive() for process in self._processes)
        return outcome.result()

    def __getstate__(self) -> dict[str, Any]:
        if not isinstance(self._name, str):
            raise TypeError(
                "a VLLM made from a vllm.LLM cannot be pickled. Make it from the model's name"
            )
        return {**self.__dict__, "_engine": None, "_processes": [], "_running": None}

    def __repr__(self) -> str:
        return f"VLLM({self._name if isinstance(self._name, str) else type(self._name).__name__!r})"


class EngineDeadError(Exception):
    """The error that vLLM raises itself if it notices that a process ended."""


def _processes() -> list[BaseProcess]:
    return [
        child
        for child in multiprocessing.active_children()
        if "EngineCore" in child.name
    ]


def _died(error: Exception) -> bool:
    # By the name of the class, because its module has moved before, and because vLLM
    # may not be importable here.
    return any(kind.__name__ == "EngineDeadError" for kind in type(error).__mro__)


def _completion(output: Any, seconds: float) -> Completion | Exception:
    """Convert an output of vLLM to a response, or to its failure."""
    try:
        (answer,) = output.outputs
        if answer.finish_reason not in ("stop", "length"):
            raise CompletionError(
                f"vLLM stopped before the response was complete (finish reason {answer.finish_reason!r}). Try again. "
                "vLLM's log has more details"
            )
        return Completion(
            text=answer.text.strip(),
            prompt_tokens=len(output.prompt_token_ids or ()),
            # Requests have no stop texts, so "stop" means an end token, which is the
            # last token.
            completion_tokens=max(
                0, len(answer.token_ids) - (answer.finish_reason == "stop")
            ),
            cached_tokens=output.num_cached_tokens or 0,
            latency=seconds,
            finish_reason=answer.finish_reason,
        )
    except Exception as error:
        return failure_of("vLLM", error)
