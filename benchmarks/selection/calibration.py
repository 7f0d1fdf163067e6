"""Whether what `auto` states is right: `python -m benchmarks.selection.calibration --tables FOLDER`.

Runs `auto` to the end of a budget and holds its statements about every prompt against the truth, the means over all
examples: P(feasible), P(optimal) (in the Pareto set, or the best feasible prompt), and the intervals of 1 and 1.96
standard errors. Appends a JSON line per run to --output and skips runs that are there, prints a table by half, budget
and goal, and draws the reliability diagram with --picture.

`--simulate` prints the coverage at the start instead, on simulated scores, by the model with one guess at the
variances and with the averaged one.
"""

import argparse
import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import asktell
from asktell.methods.adaptive import Adaptive
from asktell.posterior.two_way import Cells, posterior
from benchmarks import problems
from benchmarks.problems.table import Array
from benchmarks.selection.run import OUTPUT, add_arguments, chosen_problems, read_lines

Line = dict[str, Any]

EDGES = np.array([0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0])
GOALS = ("best@.5", "pareto")


def measure(name: str, goal: str, per_prompt: float, seed: int, folder: Path | None) -> Line:
    """What one run stated, against the truth."""
    problem = problems.load(name, goal, folder, seed)
    k, n, _ = problem.scores.shape
    features = problem.table.features
    selector = asktell.Selector(
        problem.table.prompts, problem.goal, round(per_prompt * k), Adaptive(), n, features=features, seed=seed
    )
    while trial := selector.ask():
        selector.tell(trial, problem.rows[int(trial.prompt_id)][trial.example or 0])
    stated = Adaptive().statement(selector.state)
    assert stated is not None
    truth = problem.front if goal == problems.PARETO else _best(problem)
    line: Line = {"problem": name, "goal": goal, "per_prompt": per_prompt, "seed": seed}
    line["optimal"] = binned(stated.p_optimal, truth)
    if stated.p_feasible is not None:
        line["feasible"] = binned(stated.p_feasible, problem.feasible)
    line["all"] = coverage(problem.means, stated.means, stated.errors)
    chosen = [int(entry.id) for entry in selector.result().selected]
    line["chosen"] = coverage(problem.means[chosen], stated.means[chosen], stated.errors[chosen])
    return line


def _best(problem: problems.BenchmarkProblem) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    objective = np.where(problem.feasible, problem.means[:, 0], -np.inf)
    return np.asarray(objective == objective.max())


def binned(probabilities: Array, truth: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[list[float]]:
    """Per bin of EDGES: how many, the sum of their probabilities, how many are true."""
    which = np.clip(np.searchsorted(EDGES, probabilities, side="right") - 1, 0, len(EDGES) - 2)
    size = len(EDGES) - 1
    sums = [np.bincount(which, weights, size) for weights in (None, probabilities, truth.astype(float))]
    return np.stack(sums, axis=1).round(6).tolist()


def coverage(truth: Array, means: Array, errors: Array) -> list[int]:
    """How many numbers were stated with an error, and how many of them are within 1 and 1.96 errors of the truth."""
    open_ = errors > 0
    z = np.abs(truth - means)[open_] / errors[open_]
    return [len(z), int((z <= 1.0).sum()), int((z <= 1.96).sum())]


def table(lines: Sequence[Line]) -> str:
    """Coverage and calibration errors, in per cent, by half of the problems, goal and budget.

    The calibration error is the mean distance of what was stated from what was true, over bins by how many are in
    them; in brackets for those stated between 5 and 95 %.
    """
    rows = [
        "| problems | goal | b | runs | within 1 s.e. | within 1.96 | the answer | P(optimal) off | P(feasible) off |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    halves = ("synthetic", "development tables", "report tables")
    budgets = sorted({line["per_prompt"] for line in lines})
    for half, goal, budget in product(halves, GOALS, budgets):
        mine = [x for x in lines if (_half(x["problem"]), x["goal"], x["per_prompt"]) == (half, goal, budget)]
        if not mine:
            continue
        everyone, chosen = (np.sum([line[name] for line in mine], axis=0) for name in ("all", "chosen"))
        offs = [_off([line[name] for line in mine if name in line]) for name in ("optimal", "feasible")]
        rows.append(
            f"| {half} | {goal} | {budget:g} | {len(mine)} | {100 * everyone[1] / everyone[0]:.0f} | "
            f"{100 * everyone[2] / everyone[0]:.0f} | {100 * chosen[1] / chosen[0]:.0f}, "
            f"{100 * chosen[2] / chosen[0]:.0f} | {offs[0]} | {offs[1]} |"
        )
    return "\n".join(rows)


def _half(name: str) -> str:
    return "synthetic" if name.startswith("synthetic/") else f"{problems.half(name)} tables"


def _off(bins: Sequence[Any]) -> str:
    if not bins:
        return ""
    counts, stated, true = np.sum(bins, axis=0).T
    inner = (EDGES[:-1] >= 0.05) & (EDGES[1:] <= 0.95)
    every, some = (
        100 * np.abs(stated - true)[part].sum() / max(counts[part].sum(), 1.0)
        for part in (np.ones(len(inner), dtype=bool), inner)
    )
    return f"{every:.1f} ({some:.0f})"


def draw(lines: Sequence[Line], path: Path) -> None:
    """The reliability diagram: what was true of what was stated, with its 95 % interval over runs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    asked = (("feasible", "best@.5", "P(feasible)"), ("optimal", "best@.5", "P(best feasible)"))
    for ax, (name, goal, title) in zip(panels, (*asked, ("optimal", "pareto", "P(in the Pareto set)")), strict=True):
        ax.plot([0, 1], [0, 1], color="0.7", linewidth=0.8)
        for half, marker in (("synthetic", "s"), ("development tables", "o"), ("report tables", "^")):
            mine = [x for x in lines if x["goal"] == goal and _half(x["problem"]) == half and name in x]
            if mine:
                _reliability(ax, np.array([line[name] for line in mine]), half, marker)
        ax.set(title=title, xlabel="stated", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    panels[0].set_ylabel("true")
    if panels[0].get_legend_handles_labels()[0]:
        panels[0].legend(fontsize=7, loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90, metadata={"Software": None})


def _reliability(ax: Any, runs: Array, label: str, marker: str) -> None:
    """`runs` (R, bins, 3); bins with fewer than 20 statements are left out."""
    rng = np.random.default_rng(0)
    again = runs[rng.integers(0, len(runs), (400, len(runs)))].sum(axis=1)
    total = runs.sum(axis=0)
    keep = total[:, 0] >= 20
    if not keep.any():
        return
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = again[:, keep, 2] / again[:, keep, 0]
    middle = total[keep, 2] / total[keep, 0]
    low, high = np.nanquantile(shares, [0.025, 0.975], axis=0)
    errors = np.maximum(0.0, [middle - low, high - middle])
    stated = total[keep, 1] / total[keep, 0]
    ax.errorbar(stated, middle, errors, fmt=f"-{marker}", markersize=3, linewidth=1, elinewidth=0.7, label=label)


def simulate(seeds: int) -> str:
    """Coverage at the start, of all prompts' means over 300 examples."""
    rows = [
        "| prompt, example, residual | K | pulls each | prompts per example | one guess | averaged |",
        "|" + 6 * "---|",
    ]
    designs = ((100, 1, 8), (100, 1, 100), (100, 3, 6), (10, 1, 8), (3, 2, 3))
    for shares, (k, pulls, share) in product(((0.05, 0.6, 0.35), (0.35, 0.15, 0.5)), designs):
        counts = np.zeros((2, 3))
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            a, b, e = np.sqrt(shares)
            y = a * rng.normal(size=(k, 1)) + b * rng.normal(size=(1, 300)) + e * rng.normal(size=(k, 300))
            used = max(pulls, -(-k * pulls // share))
            arms = np.tile(np.arange(k), pulls)
            examples = (arms + np.repeat(np.arange(pulls) * (used // pulls), k)) % used
            if used == pulls:
                examples = np.repeat(np.arange(pulls), k)
            cells = Cells.of(arms, examples, y[arms, examples][:, None], 300)
            for row, averaged in enumerate((False, True)):
                fit = posterior(cells, 0, k, 300, averaged=averaged)
                counts[row] += coverage(y.mean(axis=1), fit.mean, fit.sd)
        inside = (100 * counts[:, 1:] / counts[:, :1]).round().astype(int).tolist()
        where = " / ".join(f"{100 * part:g}" for part in shares)
        rows.append(
            f"| {where} % | {k} | {pulls} | {share} | {inside[0]} | {inside[1]} |".replace("[", "").replace("]", "")
        )
    return "\n".join(rows)


def main() -> None:
    """Parse the command line, run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--output", type=Path, default=OUTPUT / "calibration.jsonl")
    parser.add_argument("--per-prompt", nargs="+", type=float, default=[1, 3, 10])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--picture", type=Path, help="file to draw the reliability diagram into")
    parser.add_argument("--simulate", action="store_true", help="coverage at the start, on simulated scores")
    args = parser.parse_args()
    if args.simulate:
        print(simulate(60))
        return
    args.output.parent.mkdir(parents=True, exist_ok=True)
    lines = {_key(line): line for line in read_lines(args.output)}
    wanted = list(product(chosen_problems(args), GOALS, args.per_prompt, range(args.seeds)))
    with args.output.open("a") as file:
        for task in tqdm([task for task in wanted if task not in lines], unit="run", mininterval=5):
            lines[task] = measure(*task, args.tables)
            file.write(json.dumps(lines[task]) + "\n")
            file.flush()
    found = [lines[task] for task in wanted]
    print(table(found))
    if args.picture:
        draw(found, args.picture)


def _key(line: Line) -> tuple[str, str, float, int]:
    return line["problem"], line["goal"], line["per_prompt"], line["seed"]


if __name__ == "__main__":
    main()
