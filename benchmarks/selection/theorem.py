"""Error of linear constrained halving against its bound: `python -m benchmarks.selection.theorem [--plot FILE]`.

A synthetic problem that fulfils the theorem's assumptions: two metrics exactly linear
in the features, Gaussian noise, a unique best feasible arm, the published schedule,
estimates from the current round only. The bound is vacuous (1) at budgets at which the
method already errs rarely; it falls as fast, exponentially, only much later.
"""

import argparse
from pathlib import Path

import numpy as np

from asktell import BestFeasible, Selector
from asktell.methods import Elimination
from asktell.methods.rounds.allocators import GOptimalDesign
from asktell.methods.rounds.estimators import LeastSquares
from asktell.methods.rounds.rules import ConstrainedRanking
from asktell.methods.rounds.schedulers import SequentialHalving
from benchmarks.selection.theory import (
    budget_for_error,
    constrained_gaps,
    error_bound,
    hardness,
)


def problem(n_arms: int, d: int, least_gap: float) -> tuple[np.ndarray, np.ndarray]:
    """Features (K, d) and means (K, 2) linear in them; threshold 0; the first instance whose gaps are large enough."""
    for seed in range(100_000):
        rng = np.random.default_rng(seed)
        features = rng.normal(size=(n_arms, d))
        means = features @ rng.normal(size=(d, 2)) / np.sqrt(d)
        if (means[:, 1] >= 0).any():
            gaps, best = constrained_gaps(means, [0.0])
            if np.delete(gaps, best).min() >= least_gap:
                return features, means
    raise SystemExit("No instance with such large gaps; ask for smaller ones.")


def error_rate(
    features: np.ndarray, means: np.ndarray, noise: float, budget: int, runs: int
) -> float:
    """Share of runs whose answer is not the best feasible arm."""
    method = Elimination(
        SequentialHalving(adaptive=False),
        GOptimalDesign(intercept=False),
        LeastSquares(intercept=False),
        ConstrainedRanking(),
        data="round",
    )
    _, best = constrained_gaps(means, [0.0])
    goal = BestFeasible("objective", subject_to={"constraint": 0.0})
    prompts = [f"arm {i}" for i in range(len(means))]
    errors = 0
    for run in range(runs):
        rng = np.random.default_rng((run, budget))
        selector = Selector(
            prompts, goal, budget, method, features=features, seed=run, sampling="iid"
        )
        while trials := selector.ask(budget):
            arms = np.array([int(trial.prompt_id) for trial in trials])
            scores = means[arms] + noise * rng.normal(size=(len(arms), 2))
            for trial, score in zip(trials, scores.tolist(), strict=True):
                selector.tell(trial, score)
        errors += selector.result().selected[0].prompt != prompts[best]
    return errors / runs


def main() -> None:
    """Parse the command line, print the table, draw the plot."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arms", type=int, default=16)
    parser.add_argument("--features", type=int, default=2)
    parser.add_argument("--noise", type=float, default=1.0)
    parser.add_argument(
        "--gap", type=float, default=0.25, help="least gap (default: %(default)s)"
    )
    parser.add_argument(
        "--budgets", type=int, nargs="+", default=[25, 50, 100, 150, 200, 300, 400, 800]
    )
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--plot", help="file to draw the errors and the bound into")
    args = parser.parse_args()
    features, means = problem(args.arms, args.features, args.gap)
    gaps, best = constrained_gaps(means, [0.0])
    h = hardness(gaps, best)

    def bound(budget: int) -> float:
        return error_bound(budget, args.arms, args.features, args.noise, h)

    print(
        f"K = {args.arms}, d = {args.features}, noise {args.noise}, H = {h:.3g}, {args.runs} runs\n"
    )
    print("| budget | error | standard error | bound |")
    print("|---|---|---|---|")
    rates = []
    for budget in args.budgets:
        rate = error_rate(features, means, args.noise, budget, args.runs)
        rates.append(rate)
        spread = np.sqrt(max(rate * (1 - rate), 1 / args.runs) / args.runs)
        print(
            f"| {budget} | {rate:.3f} | {spread:.3f} | {bound(budget):.3g} |",
            flush=True,
        )
    for target in (0.5, 0.05):
        needed = budget_for_error(target, args.arms, args.features, args.noise, h)
        print(f"\nThe bound reaches {target} at a budget of {needed:,}.")
    if args.plot:
        last = budget_for_error(1e-4, args.arms, args.features, args.noise, h)
        draw(args.plot, args.budgets, rates, args.runs, bound, last)


def draw(
    file: str, budgets: list[int], rates: list[float], runs: int, bound, last: int
) -> None:  # type: ignore[no-untyped-def]
    """Errors and bound over the budget, both axes logarithmic; where no run erred, the upper limit of the error."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    grid = np.unique(np.geomspace(min(budgets), last, 400).astype(int))
    b, r = np.array(budgets), np.array(rates)
    seen = r > 0
    # Wilson's interval at 95 %.
    z = 1.96
    centre = r + z**2 / (2 * runs)
    width = z * np.sqrt(r * (1 - r) / runs + (z / (2 * runs)) ** 2)
    low, high = (
        np.clip(v / (1 + z**2 / runs), 0, 1) for v in (centre - width, centre + width)
    )
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    axes.set(xscale="log", yscale="log", ylim=(1e-4, 1.6))
    axes.plot(
        grid, [bound(int(x)) for x in grid], color="0.45", label="bound of theorem 1"
    )
    spread = (np.maximum(r - low, 0)[seen], np.maximum(high - r, 0)[seen])
    axes.errorbar(
        b[seen],
        r[seen],
        spread,
        fmt="o-",
        color="C0",
        capsize=3,
        label=f"errors seen in {runs} runs",
    )
    if not seen.all():
        # An error bar without bars, because a legend lists these after plain lines.
        axes.errorbar(
            b[~seen],
            high[~seen],
            fmt="v",
            color="C0",
            mfc="white",
            label="no error: 95 % upper limit",
        )
    axes.set(xlabel="budget (evaluations)", ylabel="probability of a wrong answer")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.92", which="major")
    axes.legend(loc="lower left", frameon=False)
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    main()
