"""How few evaluations find the best model of a public table: `python -m benchmarks.selection.best_arm --tables FOLDER`.

On every table of the folder's `sysrs` (models x questions, one metric, no constraint),
each method gets a part of all cells as its budget. Two tables:

- by budget: regret, in standard deviations of the models' means; *best*, the share of
  runs that find the model of the highest mean; and *near*, the share of runs that find
  a model whose mean is at most .01 lower. The scores are between 0 and 1;
- the confidence budget of SySRs (arXiv 2606.07726): the least part of the cells from
  which on the share of such runs stays at a level, among the parts that were tried.

`--each` gives budgets as evaluations per model instead of parts, and a row for each
table.
"""

import argparse
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from benchmarks.problems import UNCONSTRAINED, BenchmarkProblem, replay
from benchmarks.problems.table import Array
from benchmarks.results import table
from benchmarks.selection import methods
from benchmarks.selection.run import one_thread

METHODS = ("auto", "csr", "csr-sh", "sysrs", "uniform")
PARTS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
LEVELS = (0.7, 0.8, 0.9, 0.95)
NEAR = 0.01
MEASURES = {"best": 1, "near": 2}
_MOST_ARMS = 1000  # no table is cut


class Task(NamedTuple):
    """A run: a table, a method, the number of evaluations and a seed."""

    table: str
    method: str
    budget: int
    seed: int


@lru_cache(maxsize=2)
def problem(name: str, folder: Path) -> BenchmarkProblem:
    """The best of all models of a table."""
    return BenchmarkProblem(
        replay.replay_table(name, folder, _MOST_ARMS), UNCONSTRAINED
    )


def run(task: Task, folder: Path) -> tuple[float, bool, bool]:
    """The regret of the answer, in standard deviations of the models' means, and whether it is the best and near it."""
    source = problem(task.table, folder)
    answer = methods.run(task.method, source, task.budget, task.seed).answer[0]
    means = source.means[:, 0]
    lost = float(means.max() - means[answer])
    return lost / float(means.std()), lost == 0.0, lost <= NEAR


def confidence_budget(accuracies: Mapping[float, float], level: float) -> float | None:
    """The least part from which on the accuracy is at least `level`. None if it is lower at the largest part."""
    least = None
    for part in sorted(accuracies, reverse=True):
        if accuracies[part] < level:
            break
        least = part
    return least


def by_budget(outcomes: Mapping[tuple[str, float], Array]) -> str:
    """A row for each budget and method. `outcomes` (tables, seeds, 3) by method and budget.

    ± is half of the width of a 95% interval over seeds.
    """
    rows = []
    for method, budget in sorted(outcomes, key=lambda key: key[1]):
        seeds = outcomes[method, budget].mean(axis=0)
        means = seeds.mean(axis=0)
        errors = 1.96 * seeds.std(axis=0, ddof=1) / np.sqrt(len(seeds))
        pairs = zip(means, errors, strict=True)
        rows.append(
            [f"{budget:g}", method, *(f"{x:.3f}" for pair in pairs for x in pair)]
        )
    header = ["budget", "method", "regret", "regret ±", "best", "best ±"]
    return table([*header, "near", "near ±"], rows)


def confidence_budgets(outcomes: Mapping[tuple[str, float], Array]) -> str:
    """A row for each measure and method: the confidence budget of each level, in percent of the cells."""
    largest = f"{max(part for _, part in outcomes):.0%}"
    rows = []
    for measure, column in MEASURES.items():
        for method in dict.fromkeys(method for method, _ in outcomes):
            shares = {
                part: float(values[..., column].mean())
                for (name, part), values in outcomes.items()
                if name == method
            }
            parts = [confidence_budget(shares, level) for level in LEVELS]
            cells = ["never" if part is None else f"{part:.0%}" for part in parts]
            rows.append([measure, method, largest, *cells])
    header = ["finds", "method", "largest"]
    return table([*header, *(f"{level:.0%}" for level in LEVELS)], rows)


def by_table(outcomes: Mapping[tuple[str, float], Array], names: Sequence[str]) -> str:
    """How far `auto` is ahead of the best other method, in regret, with the standard error of the paired difference."""
    others = list(dict.fromkeys(method for method, _ in outcomes if method != "auto"))
    rows = []
    for place, name in enumerate(names):
        for budget in dict.fromkeys(budget for _, budget in outcomes):
            regrets = {
                method: outcomes[method, budget][place, :, 0]
                for method in ("auto", *others)
            }
            best = min(others, key=lambda method: regrets[method].mean())
            lead = regrets[best] - regrets["auto"]
            error = lead.std(ddof=1) / np.sqrt(len(lead))
            means = [regrets["auto"].mean(), regrets[best].mean(), lead.mean()]
            rows.append(
                [
                    name,
                    f"{budget:g}",
                    best,
                    *(f"{x:.3f}" for x in means),
                    f"{error:.3f}",
                ]
            )
    header = ["table", "budget", "best other", "auto", "other", "lead", "error"]
    return table(header, rows)


def main() -> None:
    """Parse the command line, run, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tables",
        type=Path,
        default=replay.default_folder(),
        help="folder of recorded tables",
    )
    parser.add_argument(
        "--problems", nargs="+", default=["sysrs/"], help="beginnings of names"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=methods.names(),
        default=METHODS,
        metavar="METHOD",
    )
    parser.add_argument("--parts", type=float, nargs="+", default=PARTS)
    parser.add_argument("--each", type=float, nargs="+", help="evaluations per model")
    parser.add_argument("--seeds", type=int, default=20)
    args = parser.parse_args()
    if args.tables is None:
        parser.error(
            "--tables FOLDER is needed: recorded tables are not part of asktell"
        )
    names = [
        name
        for name in replay.replay_names(args.tables)
        if name.startswith(tuple(args.problems))
    ]
    if not names:
        parser.error(
            f"no table in {args.tables} begins with {' or '.join(args.problems)}"
        )
    budgets = args.each or args.parts
    tasks = []
    for name in names:
        n_arms, n_examples, _ = problem(name, args.tables).scores.shape
        for budget in budgets:
            cells = round(budget * n_arms * (1 if args.each else n_examples))
            for method in args.methods:
                tasks += [Task(name, method, cells, seed) for seed in range(args.seeds)]
    one_thread()
    with ProcessPoolExecutor(args.jobs, get_context("spawn")) as pool:
        work = pool.map(partial(run, folder=args.tables), tasks, chunksize=4)
        values = np.array(list(tqdm(work, total=len(tasks))), dtype=float)
    shape = (len(names), len(budgets), len(args.methods), args.seeds, 3)
    cells_of = values.reshape(shape)
    outcomes = {
        (method, budget): cells_of[:, place, column]
        for column, method in enumerate(args.methods)
        for place, budget in enumerate(budgets)
    }
    print(f"{len(names)} tables, {args.seeds} seeds\n\n{by_budget(outcomes)}")
    if args.each:
        print(f"\n{by_table(outcomes, names)}")
    else:
        print(f"\n{confidence_budgets(outcomes)}")


if __name__ == "__main__":
    main()
