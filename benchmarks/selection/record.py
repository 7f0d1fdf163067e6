"""Record a table: a real LLM on all K x N cells of a pool, `python -m benchmarks.selection.record --name NAME`.

    python -m benchmarks.selection.record --name smollm2_aclsum --prompts benchmarks/pools/summarize.json --examples 60

Interrupted and repeated, it goes on where it was: every cell is kept in
benchmark-output/NAME-*.cells.jsonl. At the end it writes the format of
benchmarks/problems/table.py, with outputs, embeddings and provenance, to
benchmarks/tables/NAME.npz. One process per core with one thread each; cells go document
by document and the document stands before the prompt, so llama.cpp reads it once for
all prompts; what is left is writing, hence 8-bit weights. A reused prefix is cut into
other batches, whose sums round differently, so a few answers depend on which process
had which cells.
"""

import argparse
import hashlib
import json
import os
import shlex
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from asktell_adapters.evaluators import LlamaCpp, LLMEvaluator
from asktell_adapters.llms.base import Example
from asktell_adapters.llms.gguf import smollm2
from asktell_adapters.metrics import Brevity, Rouge
from asktell_adapters.tables.datasets import load_aclsum, load_examples, load_prompts
from benchmarks.paper.data import SOURCES, load_summaries
from benchmarks.problems.minilm import embed
from benchmarks.problems.replay import EMBEDDED
from benchmarks.problems.table import write_table
from benchmarks.selection.recorded import Recorded
from benchmarks.selection.run import OUTPUT

TEMPLATE = "{input}\n\n{prompt}"
#: The system instruction of the paper's appendix, word for word.
SYSTEM_INSTRUCTION = (
    "You are an intelligent assistant. Please finish the given task,\n"
    "answer with the output only and reply nothing else."
)
METRICS = ("rouge", "brevity")


@dataclass(frozen=True)
class Settings:
    """What a cell depends on, besides its prompt and its example."""

    model: str
    dtype: str
    data: str
    section: str
    max_words: int
    n_examples: int
    max_new_tokens: int
    tau_low: float
    tau_high: float


def load_data(settings: Settings) -> list[Example]:
    """The first examples of ACLSum (all splits), of one of the paper's data sets, or of a .jsonl or .csv file."""
    if settings.data == "aclsum":
        examples = load_aclsum(
            "all", section=settings.section, max_words=settings.max_words
        )
    elif settings.data in SOURCES:
        examples = load_summaries(
            settings.data, settings.n_examples, settings.max_words
        )
    else:
        examples = load_examples(settings.data)
    if len(examples) < settings.n_examples:
        raise SystemExit(
            f"{settings.data} has {len(examples)} examples, fewer than --examples {settings.n_examples}."
        )
    return examples[: settings.n_examples]


def model_path(settings: Settings) -> Path:
    """The path of a GGUF file, or of the packaged SmolLM2 in that type."""
    return (
        smollm2(settings.dtype) if settings.model == "smollm2" else Path(settings.model)
    )


@lru_cache(maxsize=1)
def evaluator(settings: Settings) -> LLMEvaluator:
    """One per process, on one thread."""
    return LLMEvaluator(
        LlamaCpp(model_path(settings), n_slots=1, n_threads=1),
        load_data(settings),
        {
            "rouge": Rouge(),
            "brevity": Brevity(tau_low=settings.tau_low, tau_high=settings.tau_high),
        },
        system=SYSTEM_INSTRUCTION,
        template=TEMPLATE,
        max_new_tokens=settings.max_new_tokens,
    )


def evaluate(settings: Settings, prompt: str, example: int) -> dict[str, Any]:
    """Scores of a cell, and what the LLM wrote."""
    scorer = evaluator(settings)
    (completion,) = scorer.llm.complete([scorer.request(prompt, example)])
    if isinstance(completion, Exception):
        raise completion
    return {
        **scorer.scores(completion, example),
        "output": completion.text,
        "seconds": completion.latency,
    }


def record(
    settings: Settings, prompts: list[str], cells: Path, jobs: int
) -> list[list[dict[str, Any]]]:
    """Every cell, by example and then by prompt; those on disk are not evaluated again.

    Raises:
        SystemExit: an evaluation failed; the others are kept, so repeating the command
            tries those that failed.
    """
    model_path(settings)  # converted once, before the processes look for it
    rows: list[list[dict[str, Any]]] = []
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        recorded = Recorded(partial(evaluate, settings), cells, pool)
        start = time.monotonic()
        for example in tqdm(range(settings.n_examples), unit="document", mininterval=5):
            outcomes = recorded.evaluate([(prompt, example) for prompt in prompts])
            failed = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
            if failed:
                raise SystemExit(
                    f"{len(failed)} cells of example {example} failed, the first with: {failed[0]!r}"
                )
            rows.append([dict(outcome) for outcome in outcomes])  # type: ignore[arg-type]
        seconds = time.monotonic() - start
    if recorded.fresh:
        print(
            f"{recorded.fresh} cells in {seconds:.0f} s, {seconds / recorded.fresh:.3f} s per cell, {jobs} processes"
        )
    return rows


def write(
    settings: Settings, prompts: list[str], rows: list[list[dict[str, Any]]], path: Path
) -> None:
    """The cells as a table."""
    scores = np.array(
        [[[cell[m] for m in METRICS] for cell in row] for row in rows]
    ).transpose(1, 0, 2)
    model = model_path(settings)
    provenance = {
        **asdict(settings),
        "model": model.name,
        "sha256": hashlib.sha256(model.read_bytes()).hexdigest(),
        "template": TEMPLATE,
        "decoding": "greedy",
        "seconds_per_cell": float(
            np.mean([cell["seconds"] for row in rows for cell in row])
        ),
        "versions": {
            name: version(name)
            for name in ("xllamacpp", "rouge_score", "evaluate", "numpy")
        },
        "command": shlex.join(
            ["python", "-m", "benchmarks.selection.record", *sys.argv[1:]]
        ),
    }
    write_table(
        path,
        metrics=np.array(METRICS),
        scores=scores.astype(np.float32),
        prompts=np.array(prompts),
        examples=np.array(
            [example.id or str(i) for i, example in enumerate(load_data(settings))]
        ),
        embeddings=embed(prompts).astype(np.float32),
        outputs=np.array([[cell["output"] for cell in row] for row in rows]).T,
        provenance=np.array(json.dumps(provenance)),
    )
    print(
        f"{path}: {scores.shape[0]} prompts x {scores.shape[1]} examples, {path.stat().st_size / 1e6:.2f} MB"
    )


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--name", required=True, help="of the table")
    parser.add_argument(
        "--prompts",
        type=Path,
        default=Path(__file__).parents[1] / "pools" / "summarize.json",
    )
    parser.add_argument("--max-prompts", type=int, help="only the first of them")
    parser.add_argument(
        "--model", default="smollm2", help="a GGUF file (default: the packaged SmolLM2)"
    )
    parser.add_argument(
        "--dtype",
        default="q8_0",
        help="of SmolLM2's weights; q8_0 writes fastest on a CPU",
    )
    parser.add_argument(
        "--data",
        default="aclsum",
        help="aclsum; xsum or cnn_dailymail, from the network; or a .jsonl or .csv file",
    )
    parser.add_argument(
        "--section", default="abstract", help="of ACLSum (default: %(default)s)"
    )
    parser.add_argument(
        "--max-words",
        type=int,
        default=120,
        help="of a document (default: %(default)s)",
    )
    parser.add_argument("--examples", type=int, default=60, help="default: %(default)s")
    parser.add_argument(
        "--max-new-tokens", type=int, default=64, help="default: %(default)s"
    )
    parser.add_argument(
        "--tau",
        type=float,
        nargs=2,
        default=(10, 60),
        metavar=("LOW", "HIGH"),
        help="of brevity",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="processes (default: %(default)s)",
    )
    parser.add_argument(
        "--output", type=Path, help="default: benchmarks/tables/NAME.npz"
    )
    args = parser.parse_args()
    loaded = load_prompts(args.prompts)
    prompts = list(loaded.values() if isinstance(loaded, dict) else loaded)[
        : args.max_prompts
    ]
    low, high = args.tau
    settings = Settings(
        args.model,
        args.dtype,
        args.data,
        args.section,
        args.max_words,
        args.examples,
        args.max_new_tokens,
        low,
        high,
    )
    # Cells of other settings are other cells.
    tag = hashlib.sha256(repr(settings).encode()).hexdigest()[:8]
    rows = record(
        settings, prompts, OUTPUT / f"{args.name}-{tag}.cells.jsonl", args.jobs
    )
    write(settings, prompts, rows, args.output or EMBEDDED / f"{args.name}.npz")


if __name__ == "__main__":
    main()
