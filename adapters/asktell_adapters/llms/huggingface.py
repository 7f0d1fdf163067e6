"""Hugging Face transformers in this process, on GPU or CPU, in left-padded batches of similar length."""

import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, final

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import check_extra, import_extra, whole
from asktell_adapters._util.loop import Lock
from asktell_adapters._util.scores import grouped
from asktell_adapters.llms._machine import which_model
from asktell_adapters.llms.base import (
    Completion,
    CompletionError,
    Request,
    failure_of,
    without_system,
)

# Position among the requests, prompt's token ids, request
_Row = tuple[int, list[int], Request]


@final
class HuggingFace:
    """An LLM run by Hugging Face transformers in this process, with its own chat template.

    The model is loaded at the first request.

    ```python
    llm = HuggingFace("HuggingFaceTB/SmolLM2-135M-Instruct", device="cpu")
    (answer,) = llm.complete([Request.chat("Name a fruit.", max_new_tokens=20)])
    ```

    **Batches.** Requests at temperature 0 are sorted by length and processed in
    batches. Above temperature 0, requests are processed one by one, so that each has
    its own seed. If a batch runs out of memory, the batch size is halved from then on.
    If a request fails, the others do not.

    **Precision.** With the types bfloat16 and float16, a response can depend on the
    other requests in its batch, because of rounding. `batch_size=1` prevents that.

    **Speed.** The prompt is read again for each example. `LlamaCpp` and `VLLM` read it
    only once, so they are faster if prompts are long.

    Args:
        model: an id on the Hugging Face hub, a local folder, the path of a GGUF file, or
            a loaded model (which also needs `tokenizer`).
        tokenizer: a loaded tokenizer (default: the model's).
        device: the device, such as "cuda", "cpu" or "cuda:1" (default: a GPU if there is one).
        device_map: how the library `accelerate` spreads a model that is too large for
            one GPU, such as "auto" or "balanced". Use it instead of `device`.
        dtype: type of the weights: "bfloat16", "float16", "float32", or "auto" for the
            type of the checkpoint (default: float32 on a CPU, bfloat16 on a GPU that
            supports it, and float16 on any other GPU).
        attn_implementation: the implementation of attention, such as "sdpa",
            "flash_attention_2" or "eager" (default: the choice of transformers).
        batch_size: largest number of requests in a batch.
        template_options: variables for the chat template, such as `enable_thinking`.

    Raises:
        InvalidArgumentError: arguments contradict each other, or a loaded model comes
            without its tokenizer.
    """

    request_options = frozenset({"top_p", "top_k", "min_p", "repetition_penalty"})

    def __init__(
        self,
        model: str | Path | object,
        *,
        tokenizer: object | None = None,
        device: str | None = None,
        device_map: str | None = None,
        dtype: str | None = None,
        attn_implementation: str | None = None,
        batch_size: int = 16,
        template_options: Mapping[str, object] | None = None,
    ) -> None:
        if not isinstance(model, str | Path) and tokenizer is None:
            raise InvalidArgumentError(
                "A loaded model also needs its tokenizer: HuggingFace(model, tokenizer=...)."
            )
        if not isinstance(model, str | Path) and (
            device_map or dtype or attn_implementation
        ):
            raise InvalidArgumentError(
                "device_map, dtype and attn_implementation apply only to a model that is passed by its name, but this "
                "model is already loaded. Leave them out."
            )
        if device is not None and device_map is not None:
            raise InvalidArgumentError(
                f"Give either a device or a device_map, got {device!r} and {device_map!r}."
            )
        check_extra("huggingface", "torch", "transformers")
        if device_map is not None:
            check_extra("huggingface", "accelerate")
        self._source: Any = model
        self._model: Any = None
        self._tokenizer: Any = tokenizer
        self._lock = Lock()
        self.device = device
        self.device_map = device_map
        self.dtype = dtype
        self.attn_implementation = attn_implementation
        self.batch_size = whole("batch_size", batch_size, 1)
        self.template_options = dict(template_options or {})

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        """Complete the requests, in batches of similar length.

        Returns:
            For each request, in order, its response, or the exception if it failed.

        Raises:
            EvaluatorError: the model cannot be loaded.
        """
        with self._lock:
            self._load()
            answers: dict[int, Completion | Exception] = {}
            rows: list[_Row] = []
            for position, request in enumerate(requests):
                try:
                    rows.append((position, self._token_ids(request), request))
                except Exception as error:
                    answers[position] = failure_of("transformers", error)
            # Longest first. A batch size that fits the longest requests fits all, so
            # memory runs out early or never.
            rows.sort(key=lambda row: -len(row[1]))
            for batch in grouped(rows, _settings):
                answers.update(self._answer_all(batch))
        return [answers[position] for position in range(len(requests))]

    def identity(self) -> dict[str, Any]:
        """Everything that determines a response apart from the request, for a cache: model and settings.

        This loads the model.

        Raises:
            InvalidArgumentError: a loaded model was passed, which has no name.
        """
        if not isinstance(self._source, str | Path):
            raise InvalidArgumentError(
                "The responses of a HuggingFace made from a loaded model cannot be cached, because the loaded model "
                "has no name. Make it from an id or a path."
            )
        self.load()
        return {
            "llm": "transformers",
            "version": version("transformers"),
            "model": which_model(self._source),
            "dtype": str(self._model.dtype),
            "template_options": self.template_options,
        }

    def count_tokens(self, requests: Sequence[Request], /) -> list[int]:
        """The number of prompt tokens of each request, chat template included.

        Raises:
            EvaluatorError: the model cannot be loaded, or a request does not fit into the
                context.
        """
        with self._lock:
            self._load()
            return [len(self._token_ids(request)) for request in requests]

    def load(self) -> None:
        """Load the model now, not at the first request.

        Raises:
            EvaluatorError: transformers cannot load the model.
            InvalidArgumentError: the `dtype` does not exist.
        """
        with self._lock:
            self._load()

    def _load(self) -> None:
        """Load the model and its tokenizer, unless that has been done.

        Raises:
            EvaluatorError: transformers cannot load the model.
            InvalidArgumentError: torch does not have the dtype.
        """
        if self._model is not None:
            return
        torch = import_extra("torch", "huggingface")
        transformers = import_extra("transformers", "huggingface")
        if self.device is None and self.device_map is None:
            self.device = "cuda" if torch.cuda.is_available() else "cpu"
        if not isinstance(self._source, str | Path):
            model = self._source
        else:
            folder, options = self._location()
            if "gguf_file" in options:
                check_extra("huggingface", "gguf", "accelerate")
            dtype = self.dtype or self._usual_dtype()
            if dtype != "auto" and not isinstance(
                getattr(torch, dtype, None), torch.dtype
            ):
                raise InvalidArgumentError(
                    f"torch has no dtype {self.dtype!r}. Use 'bfloat16', 'float16', 'float32' or 'auto'."
                )
            placing = {
                "device_map": self.device_map,
                "attn_implementation": self.attn_implementation,
            }
            try:
                self._tokenizer = (
                    self._tokenizer
                    or transformers.AutoTokenizer.from_pretrained(folder, **options)
                )
                model = transformers.AutoModelForCausalLM.from_pretrained(
                    folder,
                    dtype=dtype,
                    **options,
                    **{name: value for name, value in placing.items() if value},
                )
                model = model if self.device is None else model.to(self.device)
            except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
                raise EvaluatorError(
                    f"transformers could not load {str(self._source)!r} ({error})"
                ) from error
        # Padding is masked, so any token will do.
        if self._tokenizer.pad_token_id is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        self._model = model
        self._model.eval()

    def _usual_dtype(self) -> str:
        """The default dtype. Half precision is slow on a CPU, and bfloat16 is slow on old GPUs."""
        torch = import_extra("torch", "huggingface")
        if self.device == "cpu" or (
            self.device is None and not torch.cuda.is_available()
        ):
            return "float32"
        slow = torch.cuda.is_available() and not torch.cuda.is_bf16_supported(
            including_emulation=False
        )
        return "float16" if slow else "bfloat16"

    def _location(self) -> tuple[str, dict[str, Any]]:
        """Where transformers finds the model, and the options for a GGUF file."""
        path = Path(self._source).expanduser()
        if path.suffix == ".gguf":
            if not path.is_file():
                raise EvaluatorError(
                    f"there is no GGUF file {str(path)!r}. Correct the path"
                )
            return str(path.parent), {"gguf_file": path.name}
        return str(path if path.is_dir() else self._source), {}

    def _token_ids(self, request: Request) -> list[int]:
        """The tokens of a request, by the chat template.

        Raises:
            CompletionError: the request and its response do not fit into the context.
        """
        messages = [dict(message) for message in request.messages]
        try:
            text = self._render(messages, request.tools)
        except Exception as error:
            # Some templates, such as Gemma's, refuse a system turn
            if "system" not in str(error).lower():
                raise
            text = self._render(without_system(messages), request.tools)
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        room = getattr(self._model.config, "max_position_embeddings", None)
        if room is not None and len(ids) + request.max_new_tokens > room:
            raise CompletionError(
                f"the request has {len(ids)} tokens and asks for {request.max_new_tokens} more, but the context "
                f"has {room}. Shorten the request, or lower max_new_tokens"
            )
        return ids

    def _render(
        self, messages: list[dict[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> str:
        """Fill in the chat template."""
        offered = {"tools": [dict(tool) for tool in tools]} if tools else {}
        # Render to text first. Tokenizing needs add_special_tokens=False, because the
        # template has them already.
        text: str = self._tokenizer.apply_chat_template(
            messages,
            add_generation_prompt=True,
            tokenize=False,
            **offered,
            **self.template_options,
        )
        return text

    def _answer_all(self, rows: list[_Row]) -> dict[int, Completion | Exception]:
        """Generate the responses to requests with the same settings.

        The batch is halved if memory runs out. If a batch fails for another reason, its
        requests are sent one by one.
        """
        torch = import_extra("torch", "huggingface")
        answers: dict[int, Completion | Exception] = {}
        todo, size = list(rows), self.batch_size
        while todo:
            batch, todo = todo[:size], todo[size:]
            try:
                answers.update(self._generate(batch))
                continue
            except Exception as error:
                if len(batch) == 1:
                    answers[batch[0][0]] = failure_of("transformers", error)
                elif _out_of_memory(error):
                    self.batch_size = size = len(batch) // 2
                    todo = batch + todo
                else:
                    # A row breaks the batch, so send the rows one by one.
                    for row in batch:
                        answers.update(self._answer_all([row]))
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        return answers

    def _generate(self, rows: list[_Row]) -> dict[int, Completion | Exception]:
        """Generate the responses to one batch, padded on the left, so that all prompts end at the same position."""
        torch = import_extra("torch", "huggingface")
        request = rows[0][2]
        pad = self._tokenizer.pad_token_id
        width = max(len(ids) for _, ids, _ in rows)
        inputs = torch.tensor(
            [[pad] * (width - len(ids)) + ids for _, ids, _ in rows],
            device=self._model.device,
        )
        mask = torch.tensor(
            [[0] * (width - len(ids)) + [1] * len(ids) for _, ids, _ in rows],
            device=inputs.device,
        )
        # None overrides the sampling settings of the model's own generation_config.
        sampling: dict[str, Any] = {
            "do_sample": False,
            "temperature": None,
            "top_p": None,
            "top_k": None,
        }
        if request.temperature > 0:
            sampling = {"do_sample": True, "temperature": request.temperature}
        sampling |= request.options
        start = time.perf_counter()
        gpus = [inputs.device] if inputs.device.type == "cuda" else []
        # Keeps the caller's random state
        with torch.inference_mode(), torch.random.fork_rng(devices=gpus):
            torch.manual_seed(request.seed)
            output = self._model.generate(
                input_ids=inputs,
                attention_mask=mask,
                max_new_tokens=request.max_new_tokens,
                pad_token_id=pad,
                **sampling,
            )
        written = output[:, width:].tolist()
        # The batch works on all its requests at once, so each gets an equal share.
        seconds = (time.perf_counter() - start) / len(rows)
        return {
            position: self._completion(ids, new, seconds)
            for (position, ids, _), new in zip(rows, written, strict=True)
        }

    def _completion(self, ids: list[int], new: list[int], seconds: float) -> Completion:
        """Cut a sequence at its first end token, and decode it.

        Args:
            ids: the prompt's tokens.
            new: the generated tokens. Shorter responses of a batch are padded.
            seconds: the request's share of the batch's time.
        """
        # A model may have several end tokens, of which the tokenizer has one.
        ends = self._model.generation_config.eos_token_id
        if ends is None:
            ends = self._tokenizer.eos_token_id
        stop = {ends} if isinstance(ends, int) else set(ends or ())
        length = next(
            (index for index, token in enumerate(new) if token in stop), len(new)
        )
        return Completion(
            text=self._tokenizer.decode(new[:length], skip_special_tokens=True).strip(),
            prompt_tokens=len(ids),
            completion_tokens=length,
            latency=seconds,
            finish_reason="stop" if length < len(new) else "length",
        )

    def __getstate__(self) -> dict[str, Any]:
        if not isinstance(self._source, str | Path):
            raise TypeError(
                "a HuggingFace made from a loaded model cannot be pickled. Make it from an id or a path"
            )
        return {**self.__dict__, "_model": None}

    def __repr__(self) -> str:
        name = (
            str(self._source)
            if isinstance(self._source, str | Path)
            else type(self._source).__name__
        )
        where = (
            f"device={self.device!r}"
            if self.device_map is None
            else f"device_map={self.device_map!r}"
        )
        return f"HuggingFace({name!r}, {where}, dtype={self.dtype!r}, batch_size={self.batch_size})"


def _settings(row: _Row) -> tuple[int, int, str]:
    """The key of requests that can share a call of generate(). A sampled request has a key of its own."""
    position, _, request = row
    return (
        request.max_new_tokens,
        position if request.temperature > 0 else -1,
        str(request.options),
    )


def _out_of_memory(error: Exception) -> bool:
    """Whether memory ran out."""
    # On a CPU, and from some CUDA libraries, the error is a plain RuntimeError.
    text = str(error).lower()
    return (
        isinstance(error, MemoryError)
        or "out of memory" in text
        or "can't allocate memory" in text
    )
