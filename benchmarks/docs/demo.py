"""The main job on a real LLM: `python -m benchmarks.docs.demo` (or `make demo`).

12 ways to ask SmolLM2-135M-Instruct, on the CPU, what the authors of a paper propose,
from the beginning of its abstract; ROUGE-Lsum against the experts' sentence (ACLSum),
and brevity. Interrupted and repeated, it goes on where it was. `--exhaustive` evaluates
everything instead, for comparison, and prints the tables of docs/explanation/demo.md.
"""

import argparse
import json
import math
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from queue import SimpleQueue

import numpy as np
from tqdm import tqdm

import asktell
from asktell.numerics.pareto import pareto_mask
from asktell_adapters.evaluators import LlamaCpp, LLMEvaluator
from asktell_adapters.llms._machine import physical_cores
from asktell_adapters.llms.gguf import smollm2
from asktell_adapters.metrics import Brevity, Rouge
from asktell_adapters.tables.datasets import load_aclsum
from benchmarks.results import table
from benchmarks.selection.recorded import Recorded

N_EXAMPLES = 100
THRESHOLD = 0.4  # 40 tokens on average
SEEDS = 20  # of the check
SLOTS = 8
METRICS = ("rouge", "brevity")
CONSTRAINED = asktell.BestFeasible("rouge", subject_to={"brevity": THRESHOLD})
PARETO = asktell.ParetoSet("rouge", "brevity")
PER_PROMPT = {PARETO: 8, CONSTRAINED: 15}


def prompts() -> dict[str, str]:
    """The candidates, by name."""
    return dict(
        json.loads(files("benchmarks.docs").joinpath("demo_prompts.json").read_text())
    )


@lru_cache(maxsize=1)
def evaluators() -> SimpleQueue[LLMEvaluator]:
    """SmolLM2 on ACLSum, as often as requests are answered at the same time.

    It runs in a process of its own on each core. The threads of one process would wait
    for each other: on two cores, this takes 1.5 times as long.
    """
    examples = load_aclsum(aspect="approach", max_words=80)[:N_EXAMPLES]
    metrics = {"rouge": Rouge(), "brevity": Brevity(tau_low=10, tau_high=60)}
    n_processes = min(physical_cores(), SLOTS)
    slots = math.ceil(SLOTS / n_processes)
    processes = [
        LlamaCpp(smollm2(), n_ctx=1024, n_slots=slots, n_threads=1)
        for _ in range(n_processes)
    ]
    free = SimpleQueue[LLMEvaluator]()
    for llm in processes * slots:
        free.put(LLMEvaluator(llm, examples, metrics, max_new_tokens=48))
    return free


def evaluate_one(prompt: str, example: int) -> dict[str, float]:
    """Scores of one prompt on one example."""
    free = evaluators()
    evaluator = free.get()
    try:
        return evaluator(prompt, example)
    finally:
        free.put(evaluator)


def select(
    goal: asktell.BestFeasible | asktell.ParetoSet, evaluate: Recorded, seed: int = 0
) -> asktell.Selector:
    """One selection with its progress bar, done."""
    candidates = prompts()
    selector = asktell.Selector(
        candidates,
        goal,
        budget=PER_PROMPT[goal] * len(candidates),
        examples=N_EXAMPLES,
        seed=seed,
    )
    asktell.run(selector, evaluate)
    return selector


def demo(output: Path, evaluate: Recorded) -> None:
    """Both goals, and at the end the best prompt, how sure that is and what it cost."""
    started = time.monotonic()
    for goal, name in ((PARETO, "pareto-set"), (CONSTRAINED, "best-feasible")):
        print(f"\n{goal}", flush=True)
        selector = select(goal, evaluate)
        result = selector.result()
        (output / f"{name}.json").write_text(json.dumps(result.to_dict(), indent=1))
        picture = output / f"{name}.png"
        result.plot().figure.savefig(picture, dpi=150)  # type: ignore[union-attr]
        page = output / f"{name}.html"
        selector.report(page)
        print(f"Picture: {picture}\nReport, to open in a browser: {page}\n\n{result}")
    print(closing(result))
    print(
        f"Both goals together made {evaluate.fresh} evaluations now, in {time.monotonic() - started:.0f} s."
    )


def closing(result: asktell.Result) -> str:
    """The best prompt's text, and what it cost to find it."""
    everything = len(prompts()) * N_EXAMPLES
    return (
        f"The prompt in full: {result.selected[0].prompt}\n"
        f"Cost: {result.spent} evaluations; evaluating everything takes {everything:,}: "
        f"{100 * (1 - result.spent / everything):.0f}% saved."
    )


def exhaustive(evaluate: Recorded) -> str:
    """Evaluate every prompt on every example; where the selected ones stand, and what other seeds answer, as tables."""
    candidates = prompts()
    names = list(candidates)
    means = np.zeros((len(names), len(METRICS)))
    for i, name in enumerate(tqdm(names, unit="prompt")):
        cells = evaluate.evaluate(
            [(candidates[name], example) for example in range(N_EXAMPLES)]
        )
        means[i] = [np.mean([cell[metric] for cell in cells]) for metric in METRICS]  # type: ignore[index]
    front = pareto_mask(means)
    results = [select(CONSTRAINED, evaluate, seed).result() for seed in range(SEEDS)]
    selected = {entry.id for entry in select(PARETO, evaluate).result().selected}
    feasible = means[:, 1] >= THRESHOLD
    order = np.lexsort((-means[:, 0], ~feasible))
    rows = []
    for rank, i in enumerate(order, start=1):
        chosen = ["best feasible"] * (names[i] == results[0].selected[0].id) + [
            "Pareto set"
        ] * (names[i] in selected)
        scores = [f"{mean:.3f}" for mean in means[i]]
        kinds = ["yes" if feasible[i] else "no", "yes" if front[i] else ""]
        rows.append([str(rank), names[i], *scores, *kinds, ", ".join(chosen)])
    header = [
        "rank",
        "prompt",
        "ROUGE-Lsum",
        "brevity",
        "feasible",
        "Pareto-optimal",
        "selected",
    ]
    seeds = [
        [
            str(seed),
            str(result.selected[0].id),
            f"{result.verdict.p_best:.2f}",
            f"{result.verdict.p_feasible:.2f}",
        ]
        for seed, result in enumerate(results)
    ]
    engine = f"xllamacpp {version('xllamacpp')}, {smollm2().name.rpartition('-')[2].removesuffix('.gguf')}"
    return (
        f"With {engine}:\n\n{table(header, rows)}\n\n"
        f"The best feasible prompt, by seed:\n\n{table(['seed', 'prompt', 'P(best)', 'P(feasible)'], seeds)}"
    )


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("demo-output"),
        help="folder (default: %(default)s)",
    )
    parser.add_argument(
        "--exhaustive",
        action="store_true",
        help="evaluate everything (about ten minutes)",
    )
    args = parser.parse_args()
    evaluators()  # once, before several threads ask for it
    try:
        with ThreadPoolExecutor(SLOTS) as pool:  # as many as the LLM answers at once
            evaluate = Recorded(evaluate_one, args.output / "evaluations.jsonl", pool)
            if not args.exhaustive:
                demo(args.output, evaluate)
                return
            print(exhaustive(evaluate))
    except KeyboardInterrupt:
        sys.exit("\nInterrupted. The same command goes on where this one stopped.")


if __name__ == "__main__":
    main()
