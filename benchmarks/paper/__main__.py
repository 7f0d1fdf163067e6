"""The paper's tables and figures on the tables that are here: `python -m benchmarks.paper [--full] [--write]`.

Its three methods for each task in its own setting (an example drawn for every
evaluation, published schedules), K = 30, 50 and 100, b = 3, 5, 8 and 10, thresholds .6,
.5 and .4 on brevity, features by PCA of sentence embeddings. Rewards are its soft
constrained reward, the first metric's true mean, or 0 where brevity is below nine
tenths of the threshold; hypervolumes are from the origin. Without `--full`, 5 seeds and
1,000 prompts not at all: minutes. With it, 20 seeds as in the paper, and 1,000
synthetic prompts with 5. Lines go to benchmark-output/paper.jsonl; what is there is
kept.
"""

import argparse
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from asktell.results.result import hypervolume
from asktell.simulation.simulation import half_width
from benchmarks import problems
from benchmarks.paper import figures
from benchmarks.paper.published import (
    NAMES,
    PER_PROMPT,
    REWARD,
    SIZES,
    VOLUME,
    Row,
    count,
    rows,
)
from benchmarks.problems.base import AT_LEAST
from benchmarks.results import IMAGES, table
from benchmarks.selection.metrics import TOLERATED
from benchmarks.selection.run import OUTPUT, Task, run_tasks

TABLES = ("recorded/smollm2_aclsum", "recorded/smollm2_aclsum_short")
MANY = "synthetic/linear-small"  # as many prompts were never recorded
THRESHOLDS = (0.6, 0.5, 0.4)
MIDDLE = 0.5
Line = dict[str, Any]


class Scale(NamedTuple):
    """How much is run: seeds of the paper's numbers of prompts, and how many prompts with how many seeds beside."""

    seeds: int
    many: int = 0
    seeds_of_many: int = 0


SMALL, FULL = Scale(5), Scale(20, 1000, 5)


def goal_of(metric: str, threshold: float = MIDDLE) -> str:
    """As the benchmarks name it."""
    return problems.PARETO if metric == VOLUME else f"{AT_LEAST}{threshold:g}"


def wanted(scale: Scale) -> list[Task]:
    """Every run; a threshold that no prompt of a pool keeps has none."""
    tasks = []
    pools = [
        (f"{name}@{k}", THRESHOLDS if k == SIZES[-1] else (MIDDLE,), scale.seeds)
        for name in TABLES
        for k in SIZES
    ]
    if scale.many:
        pools.append((f"{MANY}@{scale.many}", (MIDDLE,), scale.seeds_of_many))
    for pool, thresholds, n_seeds in pools:
        goals = [
            *((REWARD, goal_of(REWARD, t)) for t in thresholds),
            (VOLUME, goal_of(VOLUME)),
        ]
        for metric, goal in goals:
            seeds = [
                s
                for s in range(n_seeds)
                if problems.load(pool, goal, None, s).truth.feasible.any()
            ]
            tasks += [
                Task(pool, goal, method, float(b), seed)
                for method in NAMES[metric].values()
                for b in PER_PROMPT
                for seed in seeds
            ]
    return tasks


def measure(line: Line) -> Line:
    """A line with the paper's own measures of its answer, and what is best by them."""
    problem = problems.load(line["problem"], line["goal"], None, line["seed"])
    if line["goal"] == problems.PARETO:
        value, best = (
            hypervolume(problem.means[some], np.zeros(2))
            for some in (line["answer"], problem.truth.front)
        )
    else:
        value = soft_reward(problem.means[line["answer"][0]], problem.threshold)
        best = float(problem.means[problem.truth.feasible, 0].max())
    return {**line, "value": value, "best": best}


def soft_reward(
    means: Sequence[float] | np.ndarray[Any, Any], threshold: float
) -> float:
    """The first metric, or 0 where the second is below nine tenths of the threshold."""
    return float(means[0]) if means[1] >= (1.0 - TOLERATED) * threshold else 0.0


def summarize(lines: Iterable[Line], metric: str) -> tuple[Row, ...]:
    """Our lines as the rows of the paper's tables, with 95 % intervals over seeds."""
    scores_of: dict[tuple[str, int, str], dict[float, list[float]]] = {}
    methods = {method: name for name, method in NAMES[metric].items()}
    for line in lines:
        if line["goal"] == goal_of(metric) and line["method"] in methods:
            name, k = line["problem"].split("@")
            cell = scores_of.setdefault(
                (name, int(k), methods[line["method"]]), {b: [] for b in PER_PROMPT}
            )
            cell[line["per_prompt"]].append(line["value"])
    return tuple(
        Row(
            where,
            metric,
            k,
            method,
            tuple(float(np.mean(values)) for values in cells.values()),
            tuple(half_width(np.array(values)) for values in cells.values()),
        )
        for (where, k, method), cells in scores_of.items()
    )


def shown(found: Sequence[Row]) -> str:
    """A table in the paper's form."""
    digits = 4 if found and found[0].metric == VOLUME else 3
    cells = [
        [
            row.where,
            str(row.k),
            row.method,
            *(
                f"{v:.{digits}f} ± {e:.{digits}f}"
                for v, e in zip(row.values, row.errors, strict=True)
            ),
        ]
        for row in found
    ]
    return table(["data", "K", "method", *(f"b = {b}" for b in PER_PROMPT)], cells)


CLAIMS = (
    (REWARD, "CSR", "Uniform"),
    (REWARD, "MLP-CSR", "Uniform"),
    (REWARD, "MLP-CSR", "CSR"),
    (VOLUME, "EGE", "Uniform"),
    (VOLUME, "MLP-EGE", "Uniform"),
    (VOLUME, "MLP-EGE", "EGE"),
)


def claims(ours: tuple[Row, ...]) -> str:
    """How often one method is ahead of another, there and here, and by how much."""
    cells = []
    for metric, method, rival in CLAIMS:
        ratios = [
            f"{_ratio(table, metric, method, rival):.2f}" for table in (rows(), ours)
        ]
        counts = [str(count(table, metric, method, rival)) for table in (rows(), ours)]
        cells.append(
            [f"{method} over {rival}", counts[0], ratios[0], counts[1], ratios[1]]
        )
    return table(
        [
            "above / equal / below",
            "the paper",
            "ratio of means",
            "here",
            "ratio of means",
        ],
        cells,
    )


def _ratio(found: tuple[Row, ...], metric: str, method: str, other: str) -> float:
    a, b = (
        np.mean(
            [row.values for row in found if (row.metric, row.method) == (metric, m)]
        )
        for m in (method, other)
    )
    return float(a / b)


def recovered(lines: Iterable[Line]) -> str:
    """Shares of what is best: with other numbers of prompts, and under other thresholds."""
    cells: dict[tuple[str, str, str], dict[float, list[float]]] = {}
    for line in lines:
        key = line["problem"], line["goal"], line["method"]
        cells.setdefault(key, {b: [] for b in PER_PROMPT})[line["per_prompt"]].append(
            line["value"] / line["best"]
        )
    names = {
        method: name
        for of_metric in NAMES.values()
        for name, method in of_metric.items()
    }
    texts = [
        [
            problem,
            goal,
            names[method],
            *(
                f"{np.mean(v):.0%} ± {half_width(np.array(v)):.0%}"
                for v in of_b.values()
            ),
        ]
        for (problem, goal, method), of_b in cells.items()
    ]
    return table(
        ["table and K", "goal", "method", *(f"b = {b}" for b in PER_PROMPT)], texts
    )


def tables(lines: list[Line]) -> dict[str, str]:
    """Every table, by name."""
    ours = {
        metric: summarize(
            (x for x in lines if not x["problem"].startswith(MANY)), metric
        )
        for metric in NAMES
    }
    return {
        "claims": claims((*ours[REWARD], *ours[VOLUME])),
        "reward": shown(ours[REWARD]),
        "volume": shown(ours[VOLUME]),
        "recovered": recovered(lines),
    }


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--full", action="store_true", help="20 seeds, and 1,000 prompts with 5"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="processes (default: %(default)s)",
    )
    parser.add_argument("--output", type=Path, default=OUTPUT / "paper.jsonl")
    parser.add_argument(
        "--any-commit", action="store_true", help="keep the lines of other commits too"
    )
    parser.add_argument(
        "--write", action="store_true", help="renew the pictures in docs"
    )
    args = parser.parse_args()
    answers = run_tasks(
        wanted(FULL if args.full else SMALL),
        args.output,
        None,
        args.jobs,
        args.any_commit,
    )
    lines = [
        measure(line)
        for line in tqdm(answers, unit="answer", mininterval=2)
        if "refused" not in line
    ]
    print("\n\n".join(f"{name}\n\n{text}" for name, text in tables(lines).items()))
    pictures = figures.draw_all(lines, IMAGES if args.write else args.output.parent)
    print(f"\n{', '.join(map(str, pictures))}")


if __name__ == "__main__":
    main()
