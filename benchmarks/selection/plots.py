"""The pictures of the benchmarks: quality against budget, a pool's scatter, a tightening constraint."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asktell.simulation.simulation import draw_curve
from benchmarks import problems
from benchmarks.problems.table import Array
from benchmarks.selection import methods

Line = dict[str, Any]

SHOWN = {
    "best": (
        "auto",
        "uniform",
        "csr",
        "csr-sh",
        "csr-published",
        "triple-sh",
        "triple-gse",
        "ucb-e",
    ),
    "pareto": (
        "auto",
        "uniform",
        "ege-sr",
        "ege-sh",
        "ege-sr-published",
        "optuna-tpe",
        "capo-race",
        "ape",
    ),
}
MODELS = {
    "best": (
        "auto",
        "uniform",
        "csr-sh",
        "csr-published",
        "track-and-stop",
        "lucb",
        "ucb-e",
        "agentopt",
    ),
    "pareto": (
        "auto",
        "uniform",
        "ege-sr",
        "ege-sh",
        "ege-sr-published",
        "ape",
        "psips",
    ),
}
TITLES = {"best": "best feasible prompt", "pareto": "Pareto set"}


def draw_all(lines: Sequence[Line], folder: Path) -> list[Path]:
    """Every picture that the lines allow."""
    folder.mkdir(parents=True, exist_ok=True)
    mpl.use("Agg")
    models = [line for line in lines if problems.half(line["problem"]) == "models"]
    lines = [line for line in lines if problems.half(line["problem"]) != "models"]
    pictures = []
    if models:
        pictures.append(
            _save(_against_budget(models, MODELS), folder / "benchmark-models.png")
        )
    if not lines:
        return pictures
    pictures.append(
        _save(_against_budget(lines, SHOWN), folder / "benchmark-budget.png")
    )
    if len({line["goal"] for line in lines}) > 2:
        pictures.append(
            _save(_against_constraint(lines), folder / "benchmark-constraint.png")
        )
    # Of a table that is part of the repository: those from elsewhere are not copied,
    # not even as a picture.
    ours = sorted(
        {
            line["problem"]
            for line in lines
            if line["problem"].startswith(("recorded/", "synthetic/"))
        }
    )
    if ours:
        pictures.append(
            _save(_scatter(lines, ours[0]), folder / "benchmark-scatter.png")
        )
    return pictures


def _against_budget(
    lines: Sequence[Line], shown: Mapping[str, Sequence[str]]
) -> Figure:
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(1, 2)
    # On the same problems at every budget: the headline's grid of budgets is run on
    # recorded tables only.
    lines = [
        line for line in lines if not line["problem"].startswith("synthetic/")
    ] or lines
    for ax, goal in zip(axes, shown, strict=True):
        # The other thresholds have runs of fewer methods and budgets.
        part = [
            line
            for line in lines
            if line["goal"].startswith(goal)
            and line["goal"] not in ("best@.25", "best@.75")
        ]
        _curves(ax, part, shown[goal], "per_prompt")
        ax.set(
            title=TITLES[goal],
            xlabel="evaluations per prompt",
            ylabel="quality",
            xscale="log",
        )
        # No room
        ticks = sorted(
            {line["per_prompt"] for line in part if line["per_prompt"] not in (4, 6, 9)}
        )
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.minorticks_off()
        if part:
            ax.legend(fontsize=7)
    return figure


def _against_constraint(lines: Sequence[Line]) -> Figure:
    figure = Figure(figsize=(4.5, 3.6), layout="constrained")
    ax = figure.subplots()
    budgets = sorted({line["per_prompt"] for line in lines})
    b = 3 if 3 in budgets else budgets[0]
    part = [
        {**line, "tight": float(line["goal"].removeprefix("best@"))}
        for line in lines
        if line["goal"] != problems.PARETO and line["per_prompt"] == b
    ]
    tightness = {line["tight"] for line in part}
    everywhere = [
        m
        for m in SHOWN["best"]
        if {line["tight"] for line in part if line["method"] == m} == tightness
    ]
    _curves(ax, part, everywhere, "tight")
    ax.set(
        title=f"a tightening constraint, b = {b:g}",
        xlabel="share of infeasible prompts",
        ylabel="quality",
    )
    ax.legend(fontsize=7)
    return figure


def _curves(ax: Axes, lines: Sequence[Line], shown: Sequence[str], x: str) -> None:
    for method in shown:
        mine = [line for line in lines if line["method"] == method]
        xs = sorted({line[x] for line in mine})
        values = {
            value: _by_seed([line for line in mine if line[x] == value]) for value in xs
        }
        style = (
            "--"
            if method in methods.RIVALS
            else ":"
            if method.endswith(methods.PUBLISHED)
            else "-"
        )
        draw_curve(ax, values, method, style)


def _by_seed(lines: Sequence[Line]) -> Array:
    seeds = sorted({line["seed"] for line in lines})
    return np.array(
        [
            np.mean([line["quality"] for line in lines if line["seed"] == seed])
            for seed in seeds
        ]
    )


def _scatter(lines: Sequence[Line], name: str) -> Figure:
    problem = problems.load(name, problems.PARETO)
    figure = Figure(figsize=(4.8, 3.8), layout="constrained")
    ax = figure.subplots()
    x, y = problem.means[:, 0], problem.means[:, 1]
    front = np.flatnonzero(problem.truth.front)
    front = front[np.argsort(x[front])]
    ax.plot(x, y, ".", color="0.6", label="prompts, true means")
    ax.step(
        x[front],
        y[front],
        where="pre",
        color="black",
        linewidth=0.8,
        label="true Pareto set",
    )
    for method, marker in (("auto", "o"), ("uniform", "x")):
        mine = [
            line
            for line in lines
            if (line["problem"], line["goal"], line["method"], line["seed"])
            == (name, problems.PARETO, method, 0)
        ]
        if mine:
            line = min(mine, key=lambda line: abs(line["per_prompt"] - 3))
            label = f"{method}, b = {line['per_prompt']:g}"
            face = "none" if marker == "o" else None
            ax.plot(
                x[line["answer"]],
                y[line["answer"]],
                marker,
                linestyle="",
                label=label,
                markerfacecolor=face,
            )
    metrics = problem.goal.metrics
    ax.set(xlabel=metrics[0], ylabel=metrics[1], title=name)
    ax.legend(fontsize=7)
    return figure


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=90, metadata={"Software": None})
    return path
