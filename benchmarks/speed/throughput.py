"""Tokens and evaluations per second of an LLM, by the size of the batch, on this machine.

    python -m benchmarks.speed.throughput llama-cpp smollm2 --options '{"n_threads": 1}'
    python -m benchmarks.speed.throughput huggingface FOLDER --threads 1 --sizes 1 4 16
    python -m benchmarks.speed.throughput vllm FOLDER --sizes 1 16 256 --prompts 16 --examples 64
    python -m benchmarks.speed.throughput openai MODEL --options '{"base_url": "http://localhost:8000/v1"}'

The work is that of a selection: some prompts, each with some examples, the prompt
first, asked in batches with equal prompts side by side, through `LLMEvaluator`. Every
size of batch has the same texts, with a mark at their beginning, so that no prefix
cache knows them, after a first batch that is not counted. CPU seconds are those of this
process and its children (on Linux), and hold on a machine that is shared; servers
elsewhere are not counted.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import time
from collections.abc import Sequence
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any, NamedTuple

from asktell.problem.trials import Trial
from asktell_adapters.evaluators import (
    LLM,
    VLLM,
    Completion,
    Example,
    HuggingFace,
    LlamaCpp,
    LLMEvaluator,
    OpenAIChat,
    Request,
)
from asktell_adapters.llms.gguf import smollm2
from asktell_adapters.metrics import output_tokens
from benchmarks.results import table

WORDS = (
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "it",
    "that",
    "was",
    "for",
    "on",
    "are",
    "with",
    "as",
    "his",
    "they",
    "at",
)
MODULES = {
    "llama-cpp": "xllamacpp",
    "huggingface": "transformers",
    "vllm": "vllm",
    "openai": "openai",
}


class Row(NamedTuple):
    """What one size of batch took."""

    size: int
    evaluations: int
    seconds: float
    cpu_seconds: float
    read: int
    cached: int
    written: int
    failed: int


class Counting:
    """An LLM that notes its completions."""

    def __init__(self, llm: LLM) -> None:
        self.llm = llm
        self.answers: list[Completion | Exception] = []

    def complete(self, requests: Sequence[Request], /) -> list[Completion | Exception]:
        """The LLM's answers."""
        answers = self.llm.complete(requests)
        self.answers += answers
        return answers


def text(n_words: int, rng: random.Random) -> str:
    """Words that mean nothing, about a token each."""
    return " ".join(rng.choice(WORDS) for _ in range(n_words))


def make(kind: str, model: str, options: dict[str, Any], size: int) -> LLM:
    """The LLM, for batches of a size."""
    if kind == "llama-cpp":
        return LlamaCpp(
            smollm2() if model == "smollm2" else model, n_slots=size, **options
        )
    if kind == "huggingface":
        return HuggingFace(model, batch_size=size, **options)
    if kind == "vllm":
        return VLLM(model, engine_options=options)
    return OpenAIChat(model, concurrency=size, allow_empty=True, **options)


def cpu_seconds() -> float:
    """CPU seconds so far of this process and, on Linux, of its children that run."""
    ticks = 0
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[1]) == os.getpid():
            ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + (ticks / os.sysconf("SC_CLK_TCK") if ticks else 0.0)


def measure(llm: LLM, size: int, arguments: argparse.Namespace, mark: str) -> Row:
    """Evaluate every prompt, with a mark before it, on every example, in batches."""
    rng = random.Random(0)
    prompts = [
        f"{mark} {text(arguments.prompt_words, rng)}" for _ in range(arguments.prompts)
    ]
    examples = [
        Example(text(arguments.example_words, rng)) for _ in range(arguments.examples)
    ]
    counting = Counting(llm)
    evaluator = LLMEvaluator(
        counting, examples, [output_tokens], max_new_tokens=arguments.limit
    )
    trials = [
        Trial(p * len(examples) + n, p, prompt, n)
        for p, prompt in enumerate(prompts)
        for n in range(len(examples))
    ]
    start, cpu_start = time.perf_counter(), cpu_seconds()
    for first in range(0, len(trials), size):
        evaluator.evaluate_batch(trials[first : first + size])
    seconds, computed = time.perf_counter() - start, cpu_seconds() - cpu_start
    good = [answer for answer in counting.answers if isinstance(answer, Completion)]
    read = sum(a.prompt_tokens for a in good)
    cached = sum(a.cached_tokens for a in good)
    written = sum(a.completion_tokens for a in good)
    return Row(
        size,
        len(good),
        seconds,
        computed,
        read,
        cached,
        written,
        len(trials) - len(good),
    )


def machine() -> str:
    """CPU and GPUs, in words."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(
            line.partition(": ")[2] for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        cpu = platform.processor() or platform.machine()
    try:
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        gpus = subprocess.run(
            query, capture_output=True, text=True, check=True
        ).stdout.split("\n")[:-1]
    except (OSError, subprocess.CalledProcessError):
        gpus = []
    cores = (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count()
    )
    load = f", load {os.getloadavg()[0]:.0f}" if hasattr(os, "getloadavg") else ""
    return f"{cpu}, {cores} cores{load}, " + (", ".join(gpus) if gpus else "no GPU")


def report(rows: Sequence[Row], title: str) -> str:
    """The table, in Markdown."""
    header = [
        "batch",
        "evaluations/s",
        "CPU s/evaluation",
        "tokens read/s",
        "of them cached",
        "tokens written/s",
        "failed",
    ]
    cells = [
        [
            str(row.size),
            f"{row.evaluations / row.seconds:.3g}",
            f"{row.cpu_seconds / max(1, row.evaluations):.2g}",
            f"{row.read / row.seconds:,.0f}",
            f"{row.cached / max(1, row.read):.0%}",
            f"{row.written / row.seconds:,.0f}",
            str(row.failed),
        ]
        for row in rows
    ]
    return f"{title}\n\n{table(header, cells)}\n"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=list(MODULES))
    parser.add_argument("model", help="as for the adapter; smollm2 for llama-cpp")
    parser.add_argument(
        "--options",
        type=json.loads,
        default={},
        help="of the adapter (of vLLM's engine), as JSON",
    )
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[1, 4, 16], help="of the batches"
    )
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--examples", type=int, default=8)
    parser.add_argument("--prompt-words", type=int, default=150)
    parser.add_argument("--example-words", type=int, default=50)
    parser.add_argument("--limit", type=int, default=32, help="tokens of an answer")
    parser.add_argument("--threads", type=int, help="of torch")
    arguments = parser.parse_args()
    if arguments.threads:
        import torch

        torch.set_num_threads(arguments.threads)
    rows: list[Row] = []
    llm: LLM | None = None
    for size in arguments.sizes:
        if llm is None or arguments.kind in ("huggingface", "openai"):
            llm = make(arguments.kind, arguments.model, arguments.options, size)
        few = {"prompts": 1, "examples": min(size, 4)}
        measure(
            llm, size, argparse.Namespace(**{**vars(arguments), **few}), f"warm {size}"
        )
        rows.append(measure(llm, size, arguments, f"run {size}"))
        print(rows[-1], flush=True)
    package = packages_distributions()[MODULES[arguments.kind]][0]
    # A folder's name, and no more of its path.
    options = f", {json.dumps(arguments.options)}" if arguments.options else ""
    threads = f", {arguments.threads} threads" if arguments.threads else ""
    work = f"{arguments.prompts} prompts of {arguments.prompt_words} words on {arguments.examples} examples of "
    work += (
        f"{arguments.example_words} words, answers of at most {arguments.limit} tokens"
    )
    title = f"`{Path(arguments.model).name}` by {package} {version(package)}{options}{threads}; {machine()}; {work}:"
    print(report(rows, title))


if __name__ == "__main__":
    main()
