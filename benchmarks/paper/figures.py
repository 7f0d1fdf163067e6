"""The paper's figures: shares of what is best against the budget, and the scatter of the objectives."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asktell.simulation.simulation import half_width
from benchmarks import problems
from benchmarks.paper.published import NAMES, PER_PROMPT, REWARD, VOLUME
from benchmarks.problems.base import AT_LEAST

Line = dict[str, Any]
_LABELS = {REWARD: "soft reward, % of the best", VOLUME: "hypervolume, % of the whole"}


def draw_all(lines: Sequence[Line], folder: Path) -> list[Path]:
    """Every figure that the lines allow."""
    folder.mkdir(parents=True, exist_ok=True)
    mpl.use("Agg")
    pools = sorted({line["problem"] for line in lines})
    largest = [pool for pool in pools if pool.endswith("@100")]
    many = [pool for pool in pools if pool.endswith("@1000")]
    paths = [_save(_budgets(lines, largest), folder / "paper-budget.png")]
    paths.append(_save(_thresholds(lines, largest[0]), folder / "paper-thresholds.png"))
    if many:
        paths.append(_save(_budgets(lines, many), folder / "paper-many-prompts.png"))
    paths.append(_save(_scatter(largest), folder / "paper-scatter.png"))
    return paths


def _budgets(lines: Sequence[Line], pools: Sequence[str]) -> Figure:
    figure = Figure(figsize=(4.6 * 2, 3.4 * len(pools)), layout="constrained")
    axes = figure.subplots(len(pools), 2, squeeze=False)
    for pool, row in zip(pools, axes, strict=True):
        for ax, metric in zip(row, NAMES, strict=True):
            goal = problems.PARETO if metric == VOLUME else f"{AT_LEAST}0.5"
            _curves(
                ax,
                (x for x in lines if (x["problem"], x["goal"]) == (pool, goal)),
                metric,
            )
            ax.set(title=pool, ylabel=_LABELS[metric])
            ax.yaxis.label.set_fontsize(8)
    return figure


def _thresholds(lines: Sequence[Line], pool: str) -> Figure:
    goals = sorted(
        {
            x["goal"]
            for x in lines
            if x["problem"] == pool and x["goal"].startswith(AT_LEAST)
        },
        reverse=True,
    )
    figure = Figure(figsize=(3.6 * len(goals), 3.2), layout="constrained")
    for ax, goal in zip(
        np.atleast_1d(figure.subplots(1, len(goals), sharey=True)), goals, strict=True
    ):
        _curves(
            ax, (x for x in lines if (x["problem"], x["goal"]) == (pool, goal)), REWARD
        )
        ax.set(title=f"brevity at least {goal.removeprefix(AT_LEAST)}")
    return figure


def _curves(ax: Axes, lines: Iterable[Line], metric: str) -> None:
    rows = list(lines)
    for name, method in NAMES[metric].items():
        cells = [
            [
                100 * x["value"] / x["best"]
                for x in rows
                if (x["method"], x["per_prompt"]) == (method, b)
            ]
            for b in PER_PROMPT
        ]
        if all(cells):
            error = [half_width(np.array(cell)) for cell in cells]
            ax.errorbar(
                PER_PROMPT,
                [np.mean(cell) for cell in cells],
                error,
                marker=".",
                capsize=3,
                label=name,
            )
    ax.set(xlabel="evaluations per prompt")
    ax.set_xticks(PER_PROMPT)
    ax.legend(fontsize=8)


def _scatter(pools: Sequence[str]) -> Figure:
    figure = Figure(figsize=(4.2 * len(pools), 3.6), layout="constrained")
    for ax, pool in zip(
        np.atleast_1d(figure.subplots(1, len(pools))), pools, strict=True
    ):
        problem = problems.load(pool, problems.PARETO, None, 0)
        on_front = problem.truth.front
        ax.plot(*problem.means[~on_front].T, ".", color="0.6", label="prompts")
        ax.plot(
            *problem.means[on_front].T,
            "o",
            color="black",
            markerfacecolor="none",
            label="Pareto set",
        )
        ax.set(
            xlabel=problem.goal.metrics[0], ylabel=problem.goal.metrics[1], title=pool
        )
        ax.legend(fontsize=8)
    return figure


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=90, metadata={"Software": None})
    return path
