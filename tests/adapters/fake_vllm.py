"""A module `vllm` that answers without a model, with the arguments and manners of a real version.

The signatures are those of the real package, read from its source (tests/assets/vllm).
The manners are, too: what is sorted and when, what is left in the engine after an
error, which tokens are counted.
"""

from __future__ import annotations

import inspect
import json
import random
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

VERSIONS = ("0.10.0", "0.33.0")
BLOCK = 4  # tokens of a block of the prefix cache
END = -1
_ASSETS = Path(__file__).parents[1] / "assets" / "vllm"
_KINDS = {
    "positional": inspect.Parameter.POSITIONAL_OR_KEYWORD,
    "keyword": inspect.Parameter.KEYWORD_ONLY,
    "rest": inspect.Parameter.VAR_KEYWORD,
}


class EngineDeadError(Exception):
    def __init__(self) -> None:
        super().__init__(
            "EngineCore encountered an issue. See stack trace (above) for the root cause."
        )


def signature(version: str, name: str) -> inspect.Signature:
    rows = json.loads((_ASSETS / f"{version}.json").read_text())[name]
    parameters, optional = [], False
    for kind, argument, default in rows:
        optional = kind == "positional" and (optional or bool(default))
        value = (
            default
            if kind != "rest" and (default or optional)
            else inspect.Parameter.empty
        )
        parameters.append(inspect.Parameter(argument, _KINDS[kind], default=value))
    return inspect.Signature(parameters)


def fake_vllm(version: str) -> ModuleType:
    """The module. Its `engines` are the LLMs that were made, oldest first; `refuse_start` makes the next one fail."""
    module = ModuleType("vllm")
    module.__dict__.update(__version__=version, engines=[], refuse_start=False)

    class SamplingParams:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            bound = signature(version, "SamplingParams").bind(*args, **kwargs)
            self.max_tokens = bound.arguments.get("max_tokens", 16)
            self.temperature = bound.arguments.get("temperature", 1.0)
            self.seed = bound.arguments.get("seed")

    class LLM:
        """Echoes the last message's words. Its model takes `max_model_len` of them.

        Attributes to script it: `system_role`, `dead`, `breaks` (words that break the
        engine's step), `ends` (a word that ends the answer with a reason of its own).
        """

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            bound = signature(version, "LLM.__init__").bind(self, *args, **kwargs)
            unknown = set(bound.arguments.get("kwargs", ())) - set(
                signature(version, "EngineArgs").parameters
            )
            if unknown:
                raise TypeError(
                    f"EngineArgs.__init__() got an unexpected keyword argument {unknown.pop()!r}"
                )
            if module.__dict__.pop("refuse_start"):
                raise RuntimeError(
                    "Engine core initialization failed. See root cause above."
                )
            module.__dict__["refuse_start"] = False
            self.model, self.options = bound.arguments["model"], kwargs
            self.max_model_len = kwargs.get("max_model_len", 64)
            self.caching = kwargs.get("enable_prefix_caching", False)
            self.system_role, self.dead = True, False
            self.breaks: set[str] = set()
            self.ends: dict[str, str] = {}
            self.calls: list[dict[str, Any]] = []
            self._number = 0
            self._unfinished: list[tuple[int, list[str], SamplingParams]] = []
            self._blocks: set[tuple[str, ...]] = set()
            module.__dict__["engines"].append(self)

        def chat(self, *args: Any, **kwargs: Any) -> list[Any]:
            call = signature(version, "LLM.chat").bind(self, *args, **kwargs).arguments
            self.calls.append(call)
            chats, params = call["messages"], call["sampling_params"]
            assert isinstance(params, Sequence), "one for each request"
            assert len(params) == len(chats), (
                "The lengths of prompts and params must be the same."
            )
            if self.dead:
                raise EngineDeadError
            # It renders all before it adds the first one, and forgets to take them back
            late = version == "0.10.0"
            rendered = [self._render(chat, call) for chat in chats] if late else None
            added = len(self._unfinished)
            try:
                for position, chat in enumerate(chats):
                    self._add(
                        rendered[position] if rendered else self._render(chat, call),
                        params[position],
                    )
            except ValueError:
                if not late:
                    del self._unfinished[added:]
                raise
            return self._run()

        def _render(
            self, chat: list[dict[str, str]], call: dict[str, Any]
        ) -> list[str]:
            if not self.system_role and chat[0]["role"] == "system":
                raise ValueError("System role not supported")
            template = [call["chat_template"]] if call.get("chat_template") else []
            options = [
                f"{name}={value}"
                for name, value in (call.get("chat_template_kwargs") or {}).items()
            ]
            return [
                *template,
                *options,
                *(
                    word
                    for turn in chat
                    for word in (turn["role"], *turn["content"].split())
                ),
            ]

        def _add(self, tokens: list[str], params: SamplingParams) -> None:
            if len(tokens) > self.max_model_len:
                raise ValueError(
                    f"The decoder prompt (length {len(tokens)}) is longer than {self.max_model_len}."
                )
            self._number += 1
            self._unfinished.append((self._number, tokens, params))

        def _run(self) -> list[Any]:
            outputs = []
            while self._unfinished:
                number, tokens, params = self._unfinished.pop(0)
                if self.breaks & set(tokens):
                    raise ValueError("a step broke")
                outputs.append((number, self._output(number, tokens, params)))
            return [output for _, output in sorted(outputs, key=lambda pair: pair[0])]

        def _output(
            self, number: int, tokens: list[str], params: SamplingParams
        ) -> Any:
            full = [tuple(tokens[:end]) for end in range(BLOCK, len(tokens), BLOCK)]
            cached = (
                BLOCK * sum(block in self._blocks for block in full)
                if self.caching
                else 0
            )
            self._blocks.update(full)
            words = tokens[len(tokens) - tokens[::-1].index("user") :]
            if params.temperature > 0:
                random.Random(params.seed).shuffle(words)
            room = min(params.max_tokens, self.max_model_len - len(tokens))
            reason = next(
                (self.ends[word] for word in words if word in self.ends), None
            )
            reason = reason or ("length" if len(words) >= room else "stop")
            written = words[:room]
            ids = [hash(word) for word in written] + ([END] if reason == "stop" else [])
            fields = {
                "index": 0,
                "text": " " + " ".join(written),
                "token_ids": ids,
                "finish_reason": reason,
            }
            answer = signature(version, "CompletionOutput").bind(
                cumulative_logprob=None, logprobs=None, **fields
            )
            output = signature(version, "RequestOutput.__init__").bind(
                None,
                request_id=str(number),
                prompt=None,
                prompt_token_ids=list(range(len(tokens))),
                prompt_logprobs=None,
                outputs=[SimpleNamespace(**answer.arguments)],
                finished=True,
                num_cached_tokens=cached if self.caching else None,
            )
            return SimpleNamespace(**output.arguments)

    module.__dict__.update(LLM=LLM, SamplingParams=SamplingParams)
    return module
