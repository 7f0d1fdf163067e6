"""From lines to the pages of benchmarks: `python -m benchmarks.selection.report benchmark-output/small.jsonl`.

Replaces the parts of docs/benchmarks.md and docs/reference/benchmark-tables.md between `<!-- begin NAME -->` and
`<!-- end NAME -->`, and draws docs/images/*.png. The prose between them is written by hand. Means are over tables and
seeds; intervals (95 %) are Student's over seeds, a seed's value being its mean over the tables, so they say how much
of a difference is luck on these very tables. A mean of fewer than 4 seeds, or with an interval wider than its scale,
is no result: a dash stands in its place.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asktell.goals import BestFeasible, ParetoSet
from benchmarks import problems
from benchmarks.docs.page import IMAGES, PAGE, TABLES, table, update
from benchmarks.selection import methods
from benchmarks.selection.compare import LEVEL, compare
from benchmarks.selection.plots import draw_all, half_width
from benchmarks.selection.run import base, key, read_lines

COLUMNS = {
    "best": ("quality", "hard", "soft", "infeasible", "violation", "identified", "regret"),
    "pareto": ("quality", "hypervolume", "f1", "precision", "recall", "size"),
}
HEADINGS = {"infeasible": "infeasible answers", "identified": "best identified", "hard": "hard reward"} | {
    "soft": "soft reward"
}

OPEN_SCALE = ("violation", "regret", "size")  # in the metrics' units, or prompts; the others are from 0 to 1
FEWEST_SEEDS = 4

MIDDLE = "best@.5"
MANY = 1000  # prompts, from where on problems have a table of their own

Line = dict[str, Any]


class Mean(NamedTuple):
    """A mean over tables and seeds, half the width of its interval, and whether that is a result."""

    value: float
    error: float
    told: bool

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.error:.3f}" if self.told else "–"

    @property
    def rank(self) -> tuple[bool, float]:
        """To sort by: what is no result comes last."""
        return self.told, self.value


def mean(lines: Iterable[Line], column: str) -> Mean:
    """Over the lines: a seed's value is its mean over problems and thresholds."""
    by_seed: dict[int, list[float]] = defaultdict(list)
    for line in lines:
        by_seed[line["seed"]].append(line.get(column, np.nan))
    values = np.array([np.nanmean(row) for row in by_seed.values()])
    error, widest = half_width(values), np.inf if column in OPEN_SCALE else 0.5
    return Mean(float(values.mean()), error, len(values) >= FEWEST_SEEDS and error <= widest)


def load(paths: Iterable[Path]) -> list[Line]:
    """The lines of all files; of several with the same key (other commits) the last."""
    found: dict[Any, Line] = {}
    for path in paths:
        for line in read_lines(path):
            found[key(line)] = line
    return list(found.values())


def select(lines: Iterable[Line], **wanted: Any) -> list[Line]:
    """The lines that ran, of one goal, budget or method; a goal's beginning is enough."""
    return [
        line
        for line in lines
        if "refused" not in line
        and all(
            line[name].startswith(value) if isinstance(value, str) and name == "goal" else line[name] == value
            for name, value in wanted.items()
        )
    ]


def families(lines: Iterable[Line]) -> dict[str, list[Line]]:
    """Synthetic problems apart from recorded tables, and those apart by half."""
    groups: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        recorded = not line["problem"].startswith("synthetic/")
        groups[f"recorded tables, {problems.half(line['problem'])} half" if recorded else "synthetic"].append(line)
    return dict(sorted(groups.items()))


def rankable(lines: Iterable[Line]) -> list[Line]:
    """The lines of the middle threshold and of Pareto sets, at budgets where three methods ran or more.

    Methods that ran at different thresholds cannot be ranked, and the headline's grid has one method only.
    """
    middle = [line for line in lines if line["goal"] in (MIDDLE, problems.PARETO)]
    ran: dict[float, set[str]] = defaultdict(set)
    for line in middle:
        ran[line["per_prompt"]].add(line["method"])
    return [line for line in middle if len(ran[line["per_prompt"]]) >= 3]


def ranking_table(lines: list[Line], goal: str) -> str:
    """Every method and budget, best first, all metrics of the goal."""
    columns = COLUMNS[goal]
    titles = [HEADINGS.get(column, column) for column in columns]
    rows = []
    for b in sorted({line["per_prompt"] for line in lines}):
        part = select(lines, goal=goal, per_prompt=b)
        everywhere = {line["problem"] for line in part}
        ranked = []
        for method in methods.names():
            mine = select(part, method=method)
            if not mine:
                continue
            missing = len(everywhere - {line["problem"] for line in mine})
            n_seeds = len({line["seed"] for line in mine})
            name = f"`{method}`" + (f" (not on {missing} tables)" if missing else "")
            means = [mean(mine, column) for column in columns]
            spent = float(np.mean([line["spent"] / line["k"] for line in mine]))
            ranked.append((means[0].rank, [f"{b:g}", name, *map(str, means), f"{spent:.2f}", str(n_seeds)]))
        rows += [row for _, row in sorted(ranked, key=lambda item: item[0], reverse=True)]
    header = ["b", "method", *titles, "spent / K", "seeds"]
    return table(header, rows)


def per_table(lines: list[Line], goal: str, b: float) -> str:
    """Quality per problem: ours, the published reference, and the best rival with its name."""
    part = select(lines, goal=goal, per_prompt=b)
    reference = methods.REFERENCE[ParetoSet if goal == problems.PARETO else BestFeasible]
    rows = []
    for problem in sorted({line["problem"] for line in part}):
        mine = {
            m: mean(found, "quality") for m in methods.names() if (found := select(part, method=m, problem=problem))
        }
        rival = max((m for m in mine if m in methods.RIVALS), key=lambda m: mine[m].rank, default=None)
        cells = [str(mine[m]) if m in mine else "" for m in ("auto", "uniform", reference)]
        k, n = next((line["k"], line["n"]) for line in part if line["problem"] == problem)
        best = f"{mine[rival]} `{rival}`" if rival else ""
        rows.append([problem, f"{k} x {n}", problems.half(problem), *cells, best])
    header = ["problem", "K x N", "half", "`auto`", "`uniform`", f"`{reference}`", "best rival"]
    return table(header, rows)


def thresholds(lines: list[Line], b: float) -> str:
    """Quality as the constraint tightens."""
    goals = sorted({line["goal"] for line in lines if line["goal"] != problems.PARETO})
    rows = []
    for method in methods.names():
        parts = [select(lines, method=method, goal=goal, per_prompt=b) for goal in goals]
        if all(parts):
            rows.append([f"`{method}`", *(str(mean(part, "quality")) for part in parts)])
    header = ["method", *(f"feasible: {1 - float(goal.removeprefix('best@')):.0%}" for goal in goals)]
    return table(header, rows)


def pool_sizes(lines: list[Line], goal: str) -> str:
    """Quality by number of prompts, on the problems that ran in several sizes; without `@K` they have their own."""
    lines = [line for line in lines if line["k"] < MANY]
    sized = [line for line in lines if "@" in line["problem"]]
    several, budgets = {base(line["problem"]) for line in sized}, {line["per_prompt"] for line in sized}
    found: dict[tuple[str, float, str], dict[int, list[Line]]] = defaultdict(lambda: defaultdict(list))
    for line in select(lines, goal=goal):
        if base(line["problem"]) in several and line["per_prompt"] in budgets:
            kind = "synthetic" if line["problem"].startswith("synthetic/") else "recorded"
            found[kind, line["per_prompt"], line["method"]][line["k"]].append(line)
    sizes = sorted({k for cells in found.values() for k in cells})
    rows = []
    for kind, b, method in product(("synthetic", "recorded"), sorted(budgets), methods.names()):
        cells = found[kind, b, method]
        if any("@" in line["problem"] for part in cells.values() for line in part):
            qualities = [str(mean(cells[k], "quality")) if k in cells else "" for k in sizes]
            rows.append([kind, f"{b:g}", f"`{method}`", *qualities])
    return table(["problems", "b", "method", *(f"K = {k}" for k in sizes)], rows)


def many_prompts(lines: list[Line], goal: str) -> str:
    """Quality with a thousand prompts and more, best first, and what a run takes."""
    found: dict[tuple[int, str, float], list[Line]] = defaultdict(list)
    for line in select(lines, goal=goal):
        if line["k"] >= MANY:
            grown = base(line["problem"]) in problems.grown.NAMES
            found[line["k"], "AlpacaEval, grown" if grown else "synthetic", line["per_prompt"]].append(line)
    rows = []
    for (k, kind, b), part in sorted(found.items()):
        ranked = []
        for method in methods.names():
            mine = select(part, method=method)
            if mine:
                quality, times = mean(mine, "quality"), [line["seconds"] for line in mine if "seconds" in line]
                shown = f"{quality.value:.3f}" + f" ± {quality.error:.3f}" * quality.told
                seconds = f"{np.median(times):.2g}" if times else "–"
                runs = f"{len(mine)} on {len({line['problem'] for line in mine})}"
                ranked.append((quality.value, [f"{k:,}", kind, f"{b:g}", f"`{method}`", shown, seconds, runs]))
        rows += [row for _, row in sorted(ranked, key=lambda item: item[0], reverse=True)]
    return table(["K", "problems", "b", "method", "quality", "CPU seconds", "runs, problems"], rows)


def against_the_best(lines: list[Line], goal: str) -> str:
    """`auto` beside the published method, an even allocation, and the best of all others, half by half.

    The best of others is chosen after the fact, by the same numbers, so luck favours it.
    """
    reference = f"{methods.REFERENCE[ParetoSet if goal == problems.PARETO else BestFeasible]}"
    rows = []
    for family, group in families(lines).items():
        for b in sorted({line["per_prompt"] for line in group}):
            part = select(group, goal=goal, per_prompt=b)
            found = {m: mean(mine, "quality") for m in methods.names() if (mine := select(part, method=m))}
            rivals = [m for m in found if not m.startswith(methods.AUTO) and found[m].told]
            if "auto" not in found or not rivals:
                continue
            best = max(rivals, key=lambda m: found[m].rank)
            known = [str(found[m]) if m in found else "" for m in ("auto", reference, "uniform")]
            rows.append([family, f"{b:g}", *known, f"{found[best]} `{best}`"])
    return table(["problems", "b", "`auto`", f"`{reference}`", "`uniform`", "the best of all others"], rows)


def fair(lines: list[Line]) -> list[Line]:
    """Those of the half that nothing was developed on, all if there are none."""
    return [line for line in lines if problems.half(line["problem"]) == "report"] or lines


CLAIMS = {
    "auto": ("uniform", "csr", "csr-sh", "ege-sr", "ege-sh", "blup-csr", "blup-ege", *methods.RIVALS),
    "auto+features": ("auto",),
    "blup-csr": ("csr-sh", "lcsh"),
    "blup-ege": ("ege-sh", "gege"),
    "uniform+blup": ("uniform", "uniform+least-squares", "uniform+mlp"),
}
"""Methods that are meant to be nowhere worse than these, by more than noise."""


def never_worse(lines: list[Line]) -> str:
    """Paired comparisons on every recorded table, goal and budget; Holm's adjustment over all of a method's."""
    recorded = [line for line in lines if not line["problem"].startswith("synthetic/")]
    rows = []
    for ours, others in CLAIMS.items():
        everything = compare(recorded, [(ours, other) for other in others])
        for other in others:
            found = [c for c in everything if c.other == other]
            if not found:
                continue
            worst = found[0]
            n_losses = sum(c.adjusted < LEVEL for c in found)
            average = np.mean([c.difference for c in found])
            place = f"{worst.problem}, {worst.goal}, b = {worst.per_prompt:g}"
            nearest = (
                f"{place}: {worst.difference:+.3f} ({worst.error:.3f}), p {worst.p:.1g}, adjusted {worst.adjusted:.1g}"
            )
            rows.append([f"`{ours}`", f"`{other}`", str(len(found)), f"{average:+.3f}", str(n_losses), nearest])
    header = ["method", "against", "comparisons", "mean difference", "losses beyond noise", "the likeliest loss"]
    return table(header, rows)


def parts(lines: list[Line]) -> dict[str, str]:
    """The page's generated parts, by name."""
    everything = select(lines)
    ran = [line for line in everything if "@" not in line["problem"]]
    ranked = rankable(ran)
    budgets = sorted({line["per_prompt"] for line in ran})
    b = 3 if 3 in budgets else budgets[0]
    by_family: Callable[[str], str] = lambda goal: "\n\n".join(  # noqa: E731 - one expression, used twice
        f"### {family.capitalize()} ({len({line['problem'] for line in group})})\n\n{ranking_table(group, goal)}"
        for family, group in families(ranked).items()
    )
    commits = ", ".join(f"`{commit}`" for commit in sorted({line["commit"] for line in ran}))
    n_problems = len({line["problem"] for line in ran})
    return {
        "runs": f"{len(everything):,} runs on {n_problems} problems; commits {commits}. A dash stands for a mean of "
        f"fewer than {FEWEST_SEEDS} seeds, or with an interval wider than its scale: that is no result.",
        "quality-best": against_the_best(fair(ranked), "best"),
        "quality-pareto": against_the_best(fair(ranked), "pareto"),
        "quality-best-everywhere": against_the_best(ranked, "best"),
        "quality-pareto-everywhere": against_the_best(ranked, "pareto"),
        "best": by_family("best"),
        "pareto": by_family("pareto"),
        "per-table-best": per_table(ranked, "best", b),
        "per-table-pareto": per_table(ranked, "pareto", b),
        "thresholds": thresholds(ran, b),
        "never-worse": never_worse(ran),
        "pool-sizes-best": pool_sizes(everything, MIDDLE),
        "pool-sizes-pareto": pool_sizes(everything, problems.PARETO),
        "many-best": many_prompts(everything, MIDDLE),
        "many-pareto": many_prompts(everything, problems.PARETO),
    }


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", nargs="+", type=Path, help="files that benchmarks.selection.run has written")
    parser.add_argument("--page", type=Path, help="write everything into this page, which may be a new one, instead")
    parser.add_argument("--images", type=Path, default=IMAGES)
    args = parser.parse_args()
    lines = load(args.lines)
    if not select(lines):
        parser.error(f"no runs in {[str(path) for path in args.lines]}")
    found = parts(lines)
    pages = (args.page,) if args.page else (PAGE, TABLES)
    for page in pages:
        update(page, found)
    pictures = draw_all([line for line in select(lines) if "@" not in line["problem"]], args.images)
    print(f"{', '.join(map(str, pages))}, and {', '.join(path.name for path in pictures)} in {args.images}")


if __name__ == "__main__":
    main()
