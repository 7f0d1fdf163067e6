"""From recorded runs to tables and charts: `python -m benchmarks.selection.report benchmark-output/small.jsonl`.

Writes benchmarks/results/*.csv and docs/images/benchmark-*.png. Means are over tables
and seeds; errors are half widths of 95 % intervals: Student's over seeds, where a
seed's value is its mean over the tables. So they tell how much of a difference is luck
on these very tables. A mean of fewer than 4 seeds, or with an interval wider than its
scale, is left empty.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asktell.problem.goals import BestFeasible, ParetoSet
from asktell.simulation.lines import read_lines
from asktell.simulation.simulation import half_width
from benchmarks import problems
from benchmarks.results import IMAGES, RESULTS, save, table
from benchmarks.selection import methods
from benchmarks.selection.compare import LEVEL, compare
from benchmarks.selection.plots import draw_all
from benchmarks.selection.run import base, key

COLUMNS = {
    "best": (
        "quality",
        "hard",
        "soft",
        "infeasible",
        "violation",
        "identified",
        "regret",
    ),
    "pareto": ("quality", "hypervolume", "f1", "precision", "recall", "size"),
}
# In the metrics' units, or prompts; the others are from 0 to 1
OPEN_SCALE = ("violation", "regret", "size")
FEWEST_SEEDS = 4
MIDDLE = "best@.5"
MANY = 1000  # prompts, from where on a problem is in the table of pool sizes only

Line = dict[str, Any]


class Mean(NamedTuple):
    """A mean over tables and seeds, half the width of its interval, and whether that is a result."""

    value: float
    error: float
    told: bool

    @property
    def cells(self) -> tuple[str, str]:
        """The mean and its error, or nothing."""
        return (f"{self.value:.3f}", f"{self.error:.3f}") if self.told else ("", "")

    @property
    def rank(self) -> tuple[bool, float]:
        """To sort by: what is no result comes last."""
        return self.told, self.value


def mean(lines: Iterable[Line], column: str = "quality") -> Mean:
    """Over the lines: a seed's value is its mean over problems and thresholds."""
    by_seed: dict[int, list[float]] = defaultdict(list)
    for line in lines:
        by_seed[line["seed"]].append(line.get(column, np.nan))
    values = np.array([np.nanmean(row) for row in by_seed.values()])
    error, widest = half_width(values), np.inf if column in OPEN_SCALE else 0.5
    return Mean(
        float(values.mean()), error, len(values) >= FEWEST_SEEDS and error <= widest
    )


def load(paths: Iterable[Path]) -> list[Line]:
    """The lines of all files that ran; of several with the same key (other commits) the last."""
    line_of: dict[Any, Line] = {}
    for path in paths:
        for line in read_lines(path):
            line_of[key(line)] = line
    return [line for line in line_of.values() if "refused" not in line]


def grouped(lines: Iterable[Line], *names: str) -> dict[tuple[Any, ...], list[Line]]:
    """The lines by the values of some of their keys, in order."""
    groups: dict[tuple[Any, ...], list[Line]] = defaultdict(list)
    for line in lines:
        groups[
            tuple(kind(line) if name == "problems" else line[name] for name in names)
        ].append(line)
    return dict(sorted(groups.items()))


def kind(line: Line) -> str:
    """What the line's problem is counted among."""
    name = line["problem"]
    if base(name) in problems.grown.NAMES:
        return "AlpacaEval, grown"
    half = problems.half(name)
    return (
        "synthetic"
        if name.startswith("synthetic/")
        else half
        if half == "models"
        else f"recorded, {half} half"
    )


def rankable(lines: Iterable[Line], goal: str) -> list[Line]:
    """The lines of Pareto sets, or of the middle threshold, at budgets where three methods ran or more.

    Methods that ran at different thresholds cannot be ranked, and the headline's grid
    has one method only.
    """
    mine = [line for line in lines if line["goal"] == goal]
    ran: dict[float, set[str]] = defaultdict(set)
    for line in mine:
        ran[line["per_prompt"]].add(line["method"])
    return [line for line in mine if len(ran[line["per_prompt"]]) >= 3]


def ranking(lines: Sequence[Line], columns: Sequence[str]) -> str:
    """Every method at every budget, best first, in all metrics of the goal."""
    rows = []
    for (problem, b), part in grouped(lines, "problems", "per_prompt").items():
        everywhere = {line["problem"] for line in part}
        ranked = []
        for (method,), mine in grouped(part, "method").items():
            means = [mean(mine, column) for column in columns]
            spent = float(np.mean([line["spent"] / line["k"] for line in mine]))
            missing = len(everywhere - {line["problem"] for line in mine})
            counts = [
                f"{spent:.2f}",
                str(len({line["seed"] for line in mine})),
                str(missing),
            ]
            texts = [text for metric_mean in means for text in metric_mean.cells]
            ranked.append((means[0].rank, [problem, f"{b:g}", method, *texts, *counts]))
        rows += [
            row for _, row in sorted(ranked, key=lambda item: item[0], reverse=True)
        ]
    titles = [title for column in columns for title in (column, f"{column} ±")]
    return table(
        ["problems", "b", "method", *titles, "spent / K", "seeds", "tables not run"],
        rows,
    )


def by_table(lines: Sequence[Line]) -> str:
    """Quality on every problem."""
    rows = []
    for (goal, problem, b, method), mine in grouped(
        lines, "goal", "problem", "per_prompt", "method"
    ).items():
        size = [str(mine[0]["k"]), str(mine[0]["n"])]
        rows.append(
            [goal, problem, *size, kind(mine[0]), f"{b:g}", method, *mean(mine).cells]
        )
    return table(
        ["goal", "problem", "K", "N", "problems", "b", "method", "quality", "±"], rows
    )


def thresholds(lines: Iterable[Line], b: float) -> str:
    """Quality as the constraint tightens."""
    mine = [
        line
        for line in lines
        if line["goal"].startswith("best@") and line["per_prompt"] == b
    ]
    mine = [line for line in mine if kind(line) != "models"]  # which have one threshold
    rows = [
        [method, f"{1 - float(goal.removeprefix('best@')):.0%}", *mean(cells).cells]
        for (method, goal), cells in grouped(mine, "method", "goal").items()
    ]
    return table(["method", "feasible prompts", "quality", "±"], rows)


def pool_sizes(lines: Iterable[Line]) -> str:
    """Quality by number of prompts, on the problems that ran with several numbers; seconds are a run's, on one core."""
    lines = [
        {**line, "problem": base(line["problem"]), "sized": "@" in line["problem"]}
        for line in lines
    ]
    several = {(line["problem"], line["per_prompt"]) for line in lines if line["sized"]}
    mine = [line for line in lines if (line["problem"], line["per_prompt"]) in several]
    mine = [line for line in mine if line["goal"] in (MIDDLE, problems.PARETO)]
    rows = []
    for (goal, problem, b, method, k), runs in grouped(
        mine, "goal", "problems", "per_prompt", "method", "k"
    ).items():
        quality = mean(runs)
        times = [line["seconds"] for line in runs if "seconds" in line]
        seconds = f"{np.median(times):.2g}" if times else ""
        rows.append(
            [
                goal,
                problem,
                f"{b:g}",
                method,
                str(k),
                *quality.cells,
                seconds,
                str(len(runs)),
            ]
        )
    return table(
        ["goal", "problems", "b", "method", "K", "quality", "±", "CPU seconds", "runs"],
        rows,
    )


def against_the_best(lines: Sequence[Line], goal: str) -> str:
    """`auto` beside the published method, an even allocation, and the best of all others.

    The best of others is chosen after the fact, by the same numbers, so luck favours
    it.
    """
    reference = methods.REFERENCE[
        ParetoSet if goal == problems.PARETO else BestFeasible
    ]
    rows = []
    for (problem, b), part in grouped(
        rankable(lines, goal), "problems", "per_prompt"
    ).items():
        means = {
            method: mean(mine) for (method,), mine in grouped(part, "method").items()
        }
        rivals = [m for m in means if not m.startswith(methods.AUTO) and means[m].told]
        if "auto" in means and rivals:
            best = max(rivals, key=lambda m, found=means: found[m].rank)  # type: ignore[misc]
            shown = [
                " ± ".join(means[m].cells) if m in means else ""
                for m in ("auto", reference, "uniform", best)
            ]
            rows.append([problem, f"{b:g}", *shown, best])
    return table(
        ["problems", "b", "auto", reference, "uniform", "best of all others", "which"],
        rows,
    )


CLAIMS = {
    "auto": ("uniform", "csr", "csr-sh", "ege-sr", "ege-sh", *methods.RIVALS),
}
"""Methods that are meant to be nowhere worse than these, by more than noise."""


def never_worse(lines: Iterable[Line]) -> str:
    """Paired comparisons on every recorded table, goal and budget; Holm's adjustment over all of a method's."""
    recorded = [line for line in lines if not line["problem"].startswith("synthetic/")]
    rows = []
    for ours, rivals in CLAIMS.items():
        everything = compare(recorded, [(ours, rival) for rival in rivals])
        for rival in rivals:
            comparisons = [c for c in everything if c.other == rival]
            if comparisons:
                worst = comparisons[0]
                average = np.mean([c.difference for c in comparisons])
                losses = sum(c.adjusted < LEVEL for c in comparisons)
                place = f"{worst.problem}, {worst.goal}, b = {worst.per_prompt:g}"
                numbers = [
                    f"{worst.difference:+.3f}",
                    f"{worst.error:.3f}",
                    f"{worst.p:.1g}",
                    f"{worst.adjusted:.1g}",
                ]
                rows.append(
                    [
                        ours,
                        rival,
                        str(len(comparisons)),
                        f"{average:+.3f}",
                        str(losses),
                        place,
                        *numbers,
                    ]
                )
    return table(
        ["method", "against", "comparisons", "mean difference", "losses beyond noise", "likeliest loss", "difference",
         "standard error", "p", "adjusted p"], rows,
    )  # fmt: skip


def tables(lines: list[Line]) -> dict[str, str]:
    """Every table, by the name of its file."""
    ran = [line for line in lines if "@" not in line["problem"] and line["k"] < MANY]
    budgets = sorted({line["per_prompt"] for line in ran})
    b = 3 if 3 in budgets else budgets[0]
    return {
        "quality-best": ranking(rankable(ran, MIDDLE), COLUMNS["best"]),
        "quality-pareto": ranking(rankable(ran, problems.PARETO), COLUMNS["pareto"]),
        "against-the-best-best": against_the_best(ran, MIDDLE),
        "against-the-best-pareto": against_the_best(ran, problems.PARETO),
        "quality-by-table": by_table(
            [
                x
                for x in ran
                if x["per_prompt"] == b and x["goal"] in (MIDDLE, problems.PARETO)
            ]
        ),
        "thresholds": thresholds(ran, b),
        "never-worse": never_worse([line for line in ran if kind(line) != "models"]),
        "never-worse-models": never_worse(
            [line for line in ran if kind(line) == "models"]
        ),
        "pool-sizes": pool_sizes(lines),
    }


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "lines",
        nargs="+",
        type=Path,
        help="files that benchmarks.selection.run has written",
    )
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="folder of the CSV files"
    )
    parser.add_argument("--images", type=Path, default=IMAGES)
    args = parser.parse_args()
    lines = load(args.lines)
    if not lines:
        parser.error(f"no runs in {[str(path) for path in args.lines]}")
    args.results.mkdir(parents=True, exist_ok=True)
    files = [
        save(name, text, args.results)
        for name, text in tables(lines).items()
        if len(text.splitlines()) > 2
    ]
    pictures = draw_all(
        [line for line in lines if "@" not in line["problem"]], args.images
    )
    print(
        f"{len(lines):,} runs: {', '.join(path.name for path in (*files, *pictures))}"
    )


if __name__ == "__main__":
    main()
