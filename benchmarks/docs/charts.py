"""Charts of the measured numbers in benchmarks/results, into docs/images: `python -m benchmarks.docs.charts`."""

import contextlib
import io
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from benchmarks import problems
from benchmarks.docs.readme import METHODS, README
from benchmarks.results import IMAGES, load

Row = dict[str, str]
GOALS = {"best@.5": "best feasible prompt", problems.PARETO: "Pareto set"}


def equivalent_budget(rows: Sequence[Row]) -> Figure:
    """How many times its evaluations `auto` is worth, on every table, with 95% intervals."""
    rows = [row for row in rows if row["method"] == "auto" and row["low"]]
    names = list(dict.fromkeys(row["tables"] for row in rows))
    figure = Figure(figsize=(9, 0.5 + 0.21 * len(names)), layout="constrained")
    for ax, goal in zip(
        figure.subplots(1, 2, sharey=True), ("best feasible", "Pareto set"), strict=True
    ):
        for row in (row for row in rows if row["goal"] == goal):
            of_many = row["tables"].startswith(
                ("all ", "report half", "development half")
            )
            y = len(names) - names.index(row["tables"])
            color = "black" if of_many else "0.55"
            ratio = float(row["equivalent budget"].strip("<> "))
            ax.plot(
                [float(row["low"]), float(row["high"])],
                [y, y],
                color=color,
                linewidth=1,
            )
            ax.plot(ratio, y, "D" if of_many else "o", color=color, markersize=4)
        ax.axvline(1, color="0.8", linewidth=0.8)
        ax.set(title=goal, xscale="log", xlabel="equivalent budget, times ours")
        ax.set_xticks([0.67, 1, 2, 5, 13.33], ["0.67", "1", "2", "5", "13"])
        ax.minorticks_off()
        ax.set_yticks(range(len(names), 0, -1), names, fontsize=7)
    return figure


def pool_sizes(rows: Sequence[Row]) -> Figure:
    """Quality by number of prompts at 3 evaluations per prompt, on synthetic problems."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    methods = {
        "best@.5": ("auto", "csr-sh", "uniform", "triple-gse"),
        problems.PARETO: ("auto", "ege-sh", "uniform"),
    }
    for ax, (goal, title) in zip(figure.subplots(1, 2), GOALS.items(), strict=True):
        for method in methods[goal]:
            mine = [
                r
                for r in rows
                if (r["goal"], r["problems"], r["b"], r["method"])
                == (goal, "synthetic", "3", method)
            ]
            mine = sorted(
                (row for row in mine if row["quality"]), key=lambda row: int(row["K"])
            )
            sizes, quality, error = (
                [float(row[name]) for row in mine] for name in ("K", "quality", "±")
            )
            ax.errorbar(
                sizes, quality, error, fmt=".-", linewidth=1, capsize=2, label=method
            )
        ax.set(
            title=title,
            xscale="log",
            xlabel="prompts",
            ylabel="quality at 3 evaluations per prompt",
        )
        ax.legend(fontsize=7)
    return figure


def overhead(rows: Sequence[Row]) -> Figure:
    """Time of one ask and tell, by the number of evaluations before it."""
    figure = Figure(figsize=(5.5, 3.4), layout="constrained")
    ax = figure.subplots()
    for engine in dict.fromkeys(row["engine"] for row in rows):
        mine = [row for row in rows if row["engine"] == engine and row["worst of 50"]]
        trials = [int(row["trials"].replace(",", "")) for row in mine]
        ax.plot(
            trials,
            [float(row["ask + tell, median ms"]) for row in mine],
            ".-",
            linewidth=1,
            label=engine,
        )
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="evaluations so far",
        ylabel="ask + tell, ms (median)",
    )
    ax.legend(fontsize=7)
    return figure


def how_few(rows: Sequence[Row]) -> Figure:
    """Share of runs that find a good model, by the part of all possible evaluations."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    titles = {"near": "at most 0.01 below the best", "best": "the best model itself"}
    for ax, (measure, title) in zip(
        figure.subplots(1, 2, sharey=True), titles.items(), strict=True
    ):
        for method, label in METHODS.items():
            of_method = [row for row in rows if row["method"] == method]
            parts = [100 * float(row["budget"]) for row in of_method]
            shares = [100 * float(row[measure]) for row in of_method]
            errors = [100 * float(row[f"{measure} ±"]) for row in of_method]
            ax.errorbar(
                parts,
                shares,
                errors,
                fmt=".-" if method == "auto" else ".--",
                linewidth=1,
                capsize=2,
                label=label.strip("`"),
            )
        ax.set(title=title, xscale="log", xlabel="evaluations, % of a full table")
        ticks = sorted({100 * float(row["budget"]) for row in rows})
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.minorticks_off()
    figure.axes[0].set_ylabel("found in % of runs")
    figure.axes[0].legend(fontsize=7)
    return figure


def matrix() -> Figure:
    """The cells that README's example evaluates: prompts by examples."""
    random.seed(0)
    code = re.findall(
        r"^```python\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE
    )[0]
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(code, str(README), "exec"), names)
    selector = names["selector"]
    selected = {entry.id for entry in selector.result().selected}
    figure = Figure(figsize=(9, 2.9), layout="constrained")
    ax = figure.subplots()
    evaluations = list(selector.evaluations())
    for color, label, wanted in (
        ("tab:green", "selected prompt", True),
        ("0.45", "other prompts", False),
    ):
        cells = [
            (e.example, e.prompt)
            for e in evaluations
            if (e.prompt in selected) is wanted
        ]
        ax.scatter(
            *zip(*cells, strict=True), marker="s", s=14, color=color, label=label
        )
    n_prompts, n_examples = len(names["prompts"]), len(names["dataset"])
    ax.set(
        xlim=(-1, n_examples),
        ylim=(n_prompts - 0.5, -0.5),
        xlabel="example",
        ylabel="prompt",
    )
    ax.set_yticks(range(n_prompts))
    ax.tick_params(labelsize=7)
    ax.set_title(
        f"{len(evaluations)} of {n_prompts} x {n_examples} = {n_prompts * n_examples:,} possible evaluations",
        fontsize=9,
    )
    ax.legend(fontsize=7, loc="upper right", framealpha=1)
    return figure


CHARTS: dict[str, Callable[[Sequence[Row]], Figure]] = {
    "equivalent-budget": equivalent_budget,
    "pool-sizes": pool_sizes,
    "overhead": overhead,
    "best-arm": how_few,
}


def main(folder: Path = IMAGES) -> None:
    """Draw every chart."""
    matrix().savefig(folder / "matrix.png", dpi=110, metadata={"Software": None})
    for name, draw in CHARTS.items():
        draw(load(name)).savefig(
            folder / f"benchmark-{name}.png", dpi=90, metadata={"Software": None}
        )


if __name__ == "__main__":
    main()
