"""Whether what results state of few prompts is right: `python -m benchmarks.selection.stated`.

Runs every method to the end of b evaluations per prompt on the tables of `benchmarks.selection.simulated`, whose truth
is known, and prints a row per method, kind of metric, number of prompts and b: how often the truth is within 1.96
standard errors of the estimate, of the mean over the examples given (of all prompts, and of the selected one), and of
the mean over new examples; and the mean P(best) and P(feasible) of a prompt where they are stated, against how often
that was so, weighted by how sure they are: the mean distance over five bins.
"""

import argparse
from collections.abc import Mapping
from itertools import product

import numpy as np

import asktell
from benchmarks.selection.simulated import KINDS, table

METHODS = ("auto", "uniform", "csr")


def run(
    method: str, kind: str, n_arms: int, per_prompt: int, seed: int, n_examples: int
) -> dict[str, list[list[float]]]:
    """Pairs of what was stated and what is true; of intervals 1 and whether they hold the truth."""
    drawn, _ = table(kind, n_arms, "constrained", 20 * n_examples, seed)
    cells = drawn[:, :n_examples]  # the rest stands for new examples like them
    # Neither on one side of the prompts nor at any of them, or P(feasible) would be judged by where it lies.
    bound = float(drawn[:, :, 1].mean() + 0.05 * np.random.default_rng(seed).normal())
    goal = asktell.BestFeasible("a", subject_to={"b": bound})
    truth, beyond = cells.mean(axis=1), drawn.mean(axis=1)
    budget = n_arms * per_prompt
    selector = asktell.Selector([f"p{i}" for i in range(n_arms)], goal, budget, method, n_examples, seed=seed)
    while trial := selector.ask():
        selector.tell(trial, cells[int(trial.prompt_id), trial.example or 0].tolist())
    result = selector.result()
    feasible = (goal.values(truth)[:, 1:] >= 0).all(axis=1)
    value = np.where(feasible, truth[:, 0], -np.inf)
    if not feasible.any():
        value = goal.values(truth)[:, 1]
    best = value == value.max()
    found: dict[str, list[list[float]]] = {"given": [], "selected": [], "new": [], "best": [], "feasible": []}
    chosen = {entry.id for entry in result.selected}
    for entry in result.prompts:
        arm = int(entry.id)
        for j, name in enumerate(goal.metrics):
            mean, error, wider = (
                each[name] for each in (entry.estimate, entry.standard_error, entry.standard_error_population)
            )
            if mean is None or error is None or wider is None:
                continue
            held = float(abs(mean - truth[arm, j]) <= 1.96 * error + 1e-9)
            found["given"].append([1.0, held])
            if entry.id in chosen:
                found["selected"].append([1.0, held])
            found["new"].append([1.0, float(abs(mean - beyond[arm, j]) <= 1.96 * wider + 1e-9)])
        if entry.p_optimal is not None:
            found["best"].append([entry.p_optimal, float(best[arm])])
        if entry.p_feasible is not None:
            found["feasible"].append([entry.p_feasible, float(feasible[arm])])
    return found


def _held(pairs: list[list[float]]) -> str:
    return f"{100 * np.mean([held for _, held in pairs]):.0f}" if pairs else ""


def _off(pairs: list[list[float]]) -> str:
    """Mean distance of stated and true over bins, in per cent; the highest bin's stated and true behind it."""
    if not pairs:
        return ""
    stated, true = np.array(pairs).T
    bins = np.minimum((stated * 5).astype(int), 4)
    off = sum(abs((stated - true)[bins == b].sum()) for b in range(5)) / len(stated)
    sure = stated >= 0.9
    if not sure.any():
        return f"{100 * off:.0f}"
    top = f"; {100 * stated[sure].mean():.0f} stated, {100 * true[sure].mean():.0f} true of {sure.sum()}"
    return f"{100 * off:.0f}{top}"


def row(cell: tuple[str, str, int, int], found: Mapping[str, list[list[float]]]) -> str:
    """One line of the table."""
    method, kind, arms, b = cell
    held = " | ".join(_held(found[name]) for name in ("given", "selected", "new"))
    return f"| {method} | {kind} | {arms} | {b} | {held} | {_off(found['best'])} | {_off(found['feasible'])} |"


def main() -> None:
    """Parse the command line and print a row per cell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--prompts", nargs="+", type=int, default=[2, 5, 20])
    parser.add_argument("--per-prompt", nargs="+", type=int, default=[3, 10, 30])
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=100)
    args = parser.parse_args()
    print("| method | metric | prompts | b | within 1.96 | selected | new examples | P(best) off | P(feasible) off |")
    print("|---|---|---|---|---|---|---|---|---|")
    for cell in product(args.methods, args.kinds, args.prompts, args.per_prompt):
        method, kind, arms, b = cell
        runs = [run(method, kind, arms, b, seed, args.examples) for seed in range(args.seeds)]
        print(row(cell, {name: [pair for one in runs for pair in one[name]] for name in runs[0]}), flush=True)


if __name__ == "__main__":
    main()
