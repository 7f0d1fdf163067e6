"""vLLM's offline engine in process: whole batches at once, ordered so that its prefix cache is hit."""

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
from asktell_adapters._loop import Lock
from asktell_adapters._scores import grouped
from asktell_adapters.llms._machine import which_model
from asktell_adapters.llms.base import SAMPLING, Completion, CompletionError, Request, failure_of, said, without_system

_Row = tuple[int, Request]  # position among the requests, request
_SECONDS_BETWEEN_LOOKS = 0.5  # at the engine's process


@final
class VLLM:
    """An LLM by `vllm.LLM`, with the model's own chat template; the engine starts at the first request.

    A call hands all its requests to the engine, those with the same beginning side by side, so that the prefix cache
    (on by default) reads a prompt once for all its examples. A request that the engine refuses, such as one longer
    than the context, fails alone. Nothing of the model's `generation_config` is used beside its end tokens: the limit,
    the temperature and, for sampling, the seed are each request's own. An answer that reaches the end of the context
    is cut, with the finish reason "length".

    Args:
        model: a hub id, a local folder, or a ready `vllm.LLM`.
        engine_options: arguments of `vllm.LLM`, such as {"tensor_parallel_size": 2, "max_model_len": 4096}.
        chat_template: a template (Jinja) in the place of the model's own.
        template_options: variables for the chat template, such as {"enable_thinking": False}.

    The engine lives in processes of its own. A script that makes one needs `if __name__ == "__main__":`, and an object
    made from a name can be pickled: the copy starts an engine anew.
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
                raise InvalidArgumentError("engine_options are for an engine to be made, and this vllm.LLM is ready.")
        self.engine_options = {"enable_prefix_caching": True, **(engine_options or {})}
        self.chat_template = chat_template
        self.template_options = dict(template_options or {})
        self._system_turn = True  # until the template refuses one
        self._lock = Lock()

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        # Sorted by their texts, the system turn first: what begins alike stands together.
        rows = sorted(enumerate(requests), key=lambda row: [said(turn) for turn in row[1].messages])
        with self._lock:
            if rows:
                self._start()
            try:
                answers = {}
                for alike in grouped(rows, lambda row: json.dumps(row[1].tools)):  # a call offers all the same
                    answers.update(self._answer(alike))
            except Exception as error:
                if not _died(error):
                    raise
                if isinstance(self._name, str):
                    self._engine = None
                raise EvaluatorError(
                    f"vLLM's engine died while it answered {len(rows)} requests ({error}); the first error in its own "
                    "log says why. Often memory ran out: try a lower gpu_memory_utilization, max_model_len or "
                    "max_num_seqs in engine_options"
                ) from error
        return [answers[position] for position in range(len(requests))]

    def identity(self) -> dict[str, Any]:
        if not isinstance(self._name, str):
            raise InvalidArgumentError("A VLLM made from a ready engine has no identity; give the model's name.")
        return {
            "llm": "vllm",
            "version": str(import_extra("vllm", "vllm").__version__),
            "model": which_model(self._name),
            "engine_options": self.engine_options,
            "chat_template": self.chat_template,
            "template_options": self.template_options,
        }

    def load(self) -> None:
        with self._lock:
            self._start()

    def close(self) -> None:
        """Let go of the engine, if this object made it: its processes end and free the GPU's memory."""
        with self._lock:
            if isinstance(self._name, str):
                self._engine = None

    def _start(self) -> None:
        if self._engine is None:
            vllm = import_extra("vllm", "vllm")
            others = {process.pid for process in _processes()}
            self._running = None
            try:
                self._engine = vllm.LLM(self._name, **self.engine_options)
                self._processes = [process for process in _processes() if process.pid not in others]
            except Exception as error:  # of any kind: the engine's processes end with what they met
                raise EvaluatorError(f"vLLM could not start with {self._name!r}: {error}") from error

    def _answer(self, rows: list[_Row]) -> dict[int, Completion | Exception]:
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
                if "system" not in str(error).lower():  # Gemma's template, for one, refuses one
                    break
            else:
                self._system_turn = system_turn
                return answers
        if len(rows) == 1 and failure is not None:
            return {rows[0][0]: failure_of("vLLM", failure)}
        # A request that is refused takes its whole batch with it, before anything was computed: look for it.
        middle = len(rows) // 2
        return {**self._answer(rows[:middle]), **self._answer(rows[middle:])}

    def _chat(self, rows: list[_Row], system_turn: bool) -> dict[int, Completion | Exception]:
        sampling_params = import_extra("vllm", "vllm").SamplingParams
        chats = [list(map(dict, request.messages)) for _, request in rows]
        params = [
            sampling_params(
                max_tokens=request.max_new_tokens,  # 16 otherwise
                temperature=request.temperature,
                seed=request.seed if request.temperature > 0 else None,  # greedy ones are batched better without
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
        # The engine's order is that of its request numbers. After a call that was broken off, some versions still
        # answer what was left of it: those come first.
        outputs = outputs[-len(rows) :]
        if len(outputs) < len(rows):
            raise CompletionError(f"vLLM was sent {len(rows)} requests and returned {len(outputs)} answers")
        return {position: _completion(output, seconds) for (position, _), output in zip(rows, outputs, strict=True)}

    def _watched(self, call: Callable[[], Any]) -> Any:
        """What the call returns, as long as the engine's processes live.

        One that was killed, as by a system short of memory, says no farewell, and vLLM waits for its answer forever.
        """
        if not self._processes:
            return call()
        before, outcome = self._running, Future[Any]()

        def work() -> None:
            if before is not None:
                wait([before])  # a call that Ctrl-C broke off goes on
            try:
                outcome.set_result(call())
            except BaseException as error:
                outcome.set_exception(error)

        threading.Thread(target=work, name="asktell-vllm", daemon=True).start()
        self._running = outcome
        alive = True
        while not wait([outcome], timeout=_SECONDS_BETWEEN_LOOKS).done:
            if not alive:
                raise EngineDeadError("its process ended without a word")
            alive = all(process.is_alive() for process in self._processes)  # dead: vLLM has one more look's time
        return outcome.result()

    def __getstate__(self) -> dict[str, Any]:
        if not isinstance(self._name, str):
            raise TypeError("a VLLM made from a vllm.LLM cannot be pickled; make it from the model's name")
        return {**self.__dict__, "_engine": None, "_processes": [], "_running": None}

    def __repr__(self) -> str:
        return f"VLLM({self._name if isinstance(self._name, str) else type(self._name).__name__!r})"


class EngineDeadError(Exception):
    """What vLLM would have raised, had it noticed."""


def _processes() -> list[BaseProcess]:
    return [child for child in multiprocessing.active_children() if "EngineCore" in child.name]


def _died(error: Exception) -> bool:
    # By name: its module has moved before, and vLLM need not be importable to ask.
    return any(kind.__name__ == "EngineDeadError" for kind in type(error).__mro__)


def _completion(output: Any, seconds: float) -> Completion | Exception:
    try:
        (answer,) = output.outputs
        if answer.finish_reason not in ("stop", "length"):
            raise CompletionError(f"vLLM ended the answer with {answer.finish_reason!r}")
        return Completion(
            text=answer.text.strip(),
            prompt_tokens=len(output.prompt_token_ids or ()),
            # No stop texts are given, so that "stop" means an end token, which is the last one.
            completion_tokens=max(0, len(answer.token_ids) - (answer.finish_reason == "stop")),
            cached_tokens=output.num_cached_tokens or 0,
            latency=seconds,
            finish_reason=answer.finish_reason,
        )
    except Exception as error:
        return failure_of("vLLM", error)
