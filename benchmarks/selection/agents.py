"""Agents that were run four times on every task: `python -m benchmarks.selection.agents --tables FOLDER`.

Takes `FOLDER/agents/mcpmark.npz` (`python -m benchmarks.tables mcpmark`). Every
evaluation of an agent on a task takes another of the four recorded runs; an answer is
judged by the means of all runs. Prints three tables of quality:

1. The agent of the highest success.
2. The one of the highest success among those whose run costs at most as much as the
   median agent's.
3. The first again, on a few of the tasks, so that budgets exceed what new tasks there
   are: with `repeats`, or without.

`each task twice` spends as `uniform` does, but runs an agent twice on a task before it
takes the next one.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import asktell
from asktell.numerics import counters
from asktell.simulation.replay import Replay
from asktell.simulation.simulation import half_width
from benchmarks.problems import Table, read_table
from benchmarks.problems.replay import REPEATED, default_folder
from benchmarks.results import table as markdown
from benchmarks.selection.methods import RIVALS
from benchmarks.selection.run import OUTPUT

BUDGETS = (1, 2, 3, 5, 10)
FEW_TASKS, BUDGETS_OF_FEW = 20, (5, 10, 20, 40, 60)
TWICE = "each task twice"
_SPENDING = ("auto", "uniform", "csr-sh")


def twice(problem: Replay, budget: int, seed: int) -> list[int]:
    """`uniform`, but for two evaluations of each task in turn: the answer by sample means."""
    sums = np.zeros((problem.n_prompts, len(problem.goal.metrics)))
    counts = np.zeros((problem.n_prompts, 1))
    order = counters.chance_order(seed, np.arange(problem.n_prompts))
    for nth in range(2 * problem.n_examples):
        for arm in order[: problem.left].tolist():
            sums[arm] += problem.evaluate(arm, int(problem.order[nth // 2])) or 0.0
            counts[arm] += 1
    evaluated = order[counts[order, 0] > 0]
    values = problem.goal.values(sums[evaluated] / counts[evaluated])
    keeps = (values[:, 1:] >= 0).all(axis=1)
    if keeps.any():
        return [int(evaluated[np.where(keeps, values[:, 0], -np.inf).argmax()])]
    return [int(evaluated[values[:, 1:].min(axis=1).argmax()])]


def qualities(
    recorded: Table,
    goal: asktell.BestFeasible,
    methods: Mapping[str, object] | Sequence[str],
    budgets: Sequence[float],
    repeats: int,
    args: argparse.Namespace,
    tasks: np.ndarray | None = None,
) -> dict[str, list[str]]:
    """A cell per budget, by method: mean quality and half of its 95 % interval; without methods not for the goal."""
    columns = [recorded.metrics.index(metric) for metric in goal.metrics]
    scores = (
        recorded.scores[:, :, columns]
        if tasks is None
        else recorded.scores[:, tasks][:, :, columns]
    )
    several = "new" if tasks is None else "few"
    lines = args.output / f"agents-{'-'.join(goal.metrics)}-{several}-{repeats}.jsonl"
    lines.parent.mkdir(parents=True, exist_ok=True)
    simulation = asktell.simulate(
        scores,
        goal,
        methods,
        budgets,
        args.seeds,
        args.jobs,
        lambda done, total: None,
        repeats=repeats,
        lines=lines,
    )
    rows: dict[str, list[str]] = {}
    for name in methods:
        cells = []
        for budget in budgets:
            mine = [
                run
                for run in simulation.runs
                if (run["method"], run["budget"]) == (name, budget)
            ]
            values = np.array([run["quality"] for run in mine if "refused" not in run])
            cells.append(
                f"{values.mean():.2f} ± {half_width(values):.2f}" if len(values) else ""
            )
        if any(cells):
            rows[name] = cells
    return rows


def show(budgets: Sequence[float], rows: Sequence[tuple[str, str, list[str]]]) -> None:
    """Print a table, the best method at the largest budget first."""
    header = ["method", "repeats", *(f"b = {budget:g}" for budget in budgets)]
    ordered = sorted(rows, key=lambda row: row[2][-1] or "0", reverse=True)
    print(
        f"\n{markdown(header, [[name, times, *cells] for name, times, cells in ordered])}",
        flush=True,
    )


def main() -> None:
    """Parse the command line, run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tables",
        type=Path,
        default=default_folder(),
        help="folder of recorded tables",
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--output",
        type=Path,
        default=OUTPUT,
        help="folder of JSON lines (default: %(default)s)",
    )
    args = parser.parse_args()
    path = (args.tables or Path("tables")) / REPEATED / "mcpmark.npz"
    if not path.is_file():
        parser.error(
            f"there is no {path}: make it by python -m benchmarks.tables mcpmark, and name its folder"
        )
    recorded = read_table(path)
    dollars = float(np.median(recorded.means[:, recorded.metrics.index("dollars")]))
    print(f"{path}: median {dollars:.3f} dollars per run")
    goals = (
        asktell.BestFeasible("success"),
        asktell.BestFeasible(
            "success", subject_to={"dollars": asktell.at_most(dollars)}
        ),
    )
    n_repeats = recorded.scores.shape[3]
    for goal in goals:
        rows = []
        for repeats in (1, n_repeats):
            by_method = qualities(
                recorded, goal, asktell.METHODS, BUDGETS, repeats, args
            )
            rows += [
                (name, "yes" if repeats > 1 else "no", cells)
                for name, cells in by_method.items()
            ]
        # Agents have no features, without which these are those of the shorter names.
        rivals = {
            name: rival
            for name, rival in RIVALS.items()
            if not name.endswith("-features")
        }
        of_rivals = qualities(
            recorded, goal, {**rivals, TWICE: twice}, BUDGETS, n_repeats, args
        )
        show(
            BUDGETS,
            [
                *rows,
                *(
                    (name, "yes" if name == TWICE else "", cells)
                    for name, cells in of_rivals.items()
                ),
            ],
        )
    tasks = np.sort(
        counters.permutation(0, "tasks of mcpmark", recorded.scores.shape[1])[
            :FEW_TASKS
        ]
    )
    rows = []
    for repeats in (1, n_repeats):
        by_method = qualities(
            recorded, goals[0], _SPENDING, BUDGETS_OF_FEW, repeats, args, tasks
        )
        rows += [
            (name, "yes" if repeats > 1 else "no", cells)
            for name, cells in by_method.items()
        ]
    by_method = qualities(
        recorded, goals[0], {TWICE: twice}, BUDGETS_OF_FEW, n_repeats, args, tasks
    )
    show(
        BUDGETS_OF_FEW,
        [*rows, *((name, "yes", cells) for name, cells in by_method.items())],
    )


if __name__ == "__main__":
    main()
