"""How few evaluations find the best of many: `python -m benchmarks.selection.best_arm --tables FOLDER`.

On every table of the folder's `sysrs` (models x questions, one metric, no constraint),
each method gets a part of all cells as its budget. Two tables:

- by budget: regret, in standard deviations of the models' means; *best*, the share of
  runs that find the model of the highest mean; and *near*, the share of runs that find
  a model whose mean is at most .01 lower. The scores are between 0 and 1;
- the confidence budget of SySRs (arXiv 2606.07726): the least part of the cells from
  which on the share of such runs stays at a level, among the parts that were tried.

`--each` gives budgets as evaluations per model instead of parts, and a row for each
table.

`--worlds "far ahead:100"` runs on simulated worlds instead
(`benchmarks.problems.worlds`), here with 100 prompts of which one is far ahead. Each
seed draws a world of its own. Budgets are evaluations per prompt. The table has a row
for each world, budget and method, and one more column: *loss_95 holds*, the share of
runs whose loss is at most the bound that `auto` states.

`--json FILE` keeps the runs. `--against FILE` compares with runs that were kept, such
as those of an earlier version: a row for each world or table, budget and method with
the mean difference in each measure. These differences are paired by seed, and have
standard errors.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from benchmarks.problems import UNCONSTRAINED, BenchmarkProblem, replay, worlds
from benchmarks.problems.table import Array, Table
from benchmarks.results import table
from benchmarks.selection import methods
from benchmarks.selection.run import one_thread

METHODS = ("auto", "csr", "csr-sh", "sysrs", "uniform")
PARTS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
LEVELS = (0.7, 0.8, 0.9, 0.95)
NEAR = 0.01
OF_WORLDS = (2.0, 3.0, 5.0)
MEASURES = {"best": 1, "near": 2}
COLUMNS = ("regret", "best", "near", "loss_95 holds")
_MOST_ARMS = 1000  # no table is cut


class Task(NamedTuple):
    """A run: a table or a world such as "far ahead:100", a method, the number of evaluations and a seed."""

    table: str
    method: str
    budget: int
    seed: int

    @property
    def world(self) -> tuple[str, int] | None:
        """The name of the world and its number of prompts. None for a table."""
        name, _, n_arms = self.table.rpartition(":")
        return (name, int(n_arms)) if name else None


@lru_cache(maxsize=2)
def problem(name: str, folder: Path) -> BenchmarkProblem:
    """The best of all models of a table."""
    return BenchmarkProblem(
        replay.replay_table(name, folder, _MOST_ARMS), UNCONSTRAINED
    )


def drawn(name: str, n_arms: int, seed: int) -> tuple[BenchmarkProblem, Array]:
    """A world of this seed, and the expected score of each prompt (K,)."""
    rng = np.random.default_rng([seed, n_arms, sum(map(ord, name))])
    world = worlds.WORLDS[name](rng, n_arms)
    truth = worlds.truth(world)[:, 0]
    scores = worlds.cells(world, rng)[:, :, 0]
    prompts = tuple(f"prompt {arm}" for arm in range(n_arms))
    source = Table(f"{name}:{n_arms}", world.goal.metrics, scores, prompts)
    return BenchmarkProblem(source, UNCONSTRAINED), truth


def run(task: Task, folder: Path | None) -> tuple[float, float, float, float]:
    """The measures of one run, as in `COLUMNS`: the regret in standard deviations of the means, and three yes or no.

    The last one is NaN for a method that states no loss.
    """
    if task.world is None:
        assert folder is not None
        source = problem(task.table, folder)
        means = source.means[:, 0]
    else:
        source, means = drawn(*task.world, task.seed)
    played = methods.run(task.method, source, task.budget, task.seed)
    lost = float(means.max() - means[played.answer[0]])
    verdict = None if played.result is None else played.result.verdict
    holds = np.nan
    if verdict is not None and verdict.loss_95 is not None:
        holds = float(lost <= verdict.loss_95)
    return lost / float(means.std()), float(lost == 0.0), float(lost <= NEAR), holds


def confidence_budget(accuracies: Mapping[float, float], level: float) -> float | None:
    """The least part from which on the accuracy is at least `level`. None if it is lower at the largest part."""
    least = None
    for part in sorted(accuracies, reverse=True):
        if accuracies[part] < level:
            break
        least = part
    return least


def by_budget(outcomes: Mapping[tuple[str, float], Array]) -> str:
    """A row for each budget and method. `outcomes` (tables, seeds, 4) by method and budget.

    ± is half of the width of a 95% interval over seeds.
    """
    rows = []
    for method, budget in sorted(outcomes, key=lambda key: key[1]):
        seeds = outcomes[method, budget][..., :3].mean(axis=0)
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


def by_world(outcomes: Mapping[tuple[str, float], Array], names: Sequence[str]) -> str:
    """A row for each world, budget and method. ± is a standard error over seeds."""
    rows = []
    for place, name in enumerate(names):
        for method, budget in sorted(outcomes, key=lambda key: key[1]):
            values = outcomes[method, budget][place]
            means = values.mean(axis=0)
            errors = values.std(axis=0, ddof=1) / np.sqrt(len(values))
            cells = [
                f"{mean:.3f} ± {error:.3f}" if np.isfinite(mean) else "-"
                for mean, error in zip(means, errors, strict=True)
            ]
            rows.append([name, f"{budget:g}", method, *cells])
    return table(["world", "b", "method", *COLUMNS], rows)


def differences(
    outcomes: Mapping[tuple[str, float], Array],
    earlier: Mapping[tuple[str, float], Array],
    names: Sequence[str],
) -> str:
    """The mean difference to earlier runs of the same methods, budgets and seeds, ± its standard error.

    A row for each world or table, and one for all of them, whose error is over seeds,
    too. A negative difference in regret is a gain.
    """
    rows = []
    for method, budget in sorted(outcomes, key=lambda key: key[1]):
        if (method, budget) not in earlier:
            continue
        gained = outcomes[method, budget] - earlier[method, budget]
        parts = dict(zip(names, gained, strict=True))
        if len(names) > 1:
            parts["all"] = gained.mean(axis=0)
        for name, values in parts.items():
            errors = values.std(axis=0, ddof=1) / np.sqrt(len(values))
            cells = [
                f"{mean:+.3f} ± {error:.3f}" if np.isfinite(mean) else "-"
                for mean, error in zip(values.mean(axis=0), errors, strict=True)
            ]
            rows.append([name, f"{budget:g}", method, *cells])
    return table(["on", "budget", "method", *COLUMNS], rows)


def keep(
    outcomes: Mapping[tuple[str, float], Array], names: Sequence[str], file: Path
) -> None:
    """Write the runs as JSON."""
    runs = [[*key, values.tolist()] for key, values in outcomes.items()]
    file.write_text(json.dumps({"on": list(names), "runs": runs}), encoding="utf-8")


def kept(
    names: Sequence[str], n_seeds: int, file: Path
) -> dict[tuple[str, float], Array]:
    """The runs in a file, if they are on the same tables or worlds and have as many seeds."""
    try:
        saved = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SystemExit(f"--against: cannot read runs from {file}: {error}") from error
    if saved["on"] != list(names):
        raise SystemExit(f"{file} has runs on {saved['on']}, not on {list(names)}")
    runs = {
        (method, budget): np.array(values, dtype=float)
        for method, budget, values in saved["runs"]
    }
    seeds = {values.shape[1] for values in runs.values()}
    if seeds != {n_seeds}:
        raise SystemExit(f"{file} has runs of {seeds} seeds, pass --seeds to match")
    return runs


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
    parser.add_argument(
        "--worlds", nargs="+", metavar="WORLD:K", help="simulated worlds, not tables"
    )
    parser.add_argument("--json", type=Path, help="file to keep the runs in")
    parser.add_argument("--against", type=Path, help="file of earlier runs")
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
    parser.add_argument("--seeds", type=int, default=20, help="at least 2")
    args = parser.parse_args()
    names, sizes = _sizes(parser, args)
    # Before the runs, so that a wrong file does not cost them
    earlier = None if args.against is None else kept(names, args.seeds, args.against)
    if args.json is not None and not args.json.parent.is_dir():
        parser.error(f"--json: there is no folder {args.json.parent}")
    is_each = bool(args.each or args.worlds)
    budgets = args.each or (OF_WORLDS if args.worlds else args.parts)
    tasks = []
    for name, (n_arms, n_examples) in zip(names, sizes, strict=True):
        for budget in budgets:
            cells = round(budget * n_arms * (1 if is_each else n_examples))
            for method in args.methods:
                tasks += [Task(name, method, cells, seed) for seed in range(args.seeds)]
    one_thread()
    with ProcessPoolExecutor(args.jobs, get_context("spawn")) as pool:
        work = pool.map(partial(run, folder=args.tables), tasks, chunksize=4)
        values = np.array(list(tqdm(work, total=len(tasks))), dtype=float)
    shape = (len(names), len(budgets), len(args.methods), args.seeds, len(COLUMNS))
    cells_of = values.reshape(shape)
    outcomes = {
        (method, budget): cells_of[:, place, column]
        for column, method in enumerate(args.methods)
        for place, budget in enumerate(budgets)
    }
    if args.json is not None:
        keep(outcomes, names, args.json)
    if args.worlds:
        print(by_world(outcomes, names))
    else:
        print(f"{len(names)} tables, {args.seeds} seeds\n\n{by_budget(outcomes)}")
        if args.each and set(args.methods) > {"auto"}:
            print(f"\n{by_table(outcomes, names)}")
        if not args.each:
            print(f"\n{confidence_budgets(outcomes)}")
    if earlier is not None:
        print(f"\n{differences(outcomes, earlier, names)}")


def _sizes(
    parser: argparse.ArgumentParser, args: argparse.Namespace
) -> tuple[list[str], list[tuple[int, int]]]:
    """The names of the worlds or tables, and the number of prompts and examples of each."""
    if args.worlds:
        for name in args.worlds:
            world, _, n_arms = name.rpartition(":")
            is_size = n_arms.isascii() and n_arms.isdecimal() and int(n_arms) > 1
            if world not in worlds.WORLDS or not is_size:
                parser.error(
                    f"--worlds takes a world and at least two prompts, such as 'far ahead:100', got {name!r}. "
                    f"Worlds: {', '.join(worlds.WORLDS)}"
                )
            goal = worlds.WORLDS[world](np.random.default_rng(0), 2).goal
            if goal.is_constrained or len(goal.metrics) > 1:
                parser.error(f"{world!r} has more than one metric")
        return args.worlds, [(int(name.rpartition(":")[2]), 0) for name in args.worlds]
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
    shapes = [problem(name, args.tables).scores.shape for name in names]
    return names, [(shape[0], shape[1]) for shape in shapes]


if __name__ == "__main__":
    main()
