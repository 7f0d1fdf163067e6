"""What repeats of a cell buy where scores are noisy: `python -m benchmarks.selection.noisy_cells`.

Simulated prompts whose score on an example is 0 or 1 by chance, or Gaussian about the
cell's expectation; the truth is the mean of the expectations over the examples. A run
has `--rounds` times as many evaluations as there are cells. With repeats=1 it ends when
every cell was asked once; with repeats=R cells are asked again.

A row tells how often the best prompt was selected, how much worse than the best the
selected one is on average, how much of the budget was used, and how often the truth was
within 1.96 stated errors of all prompts' estimates (95 % is wanted; an error of 0
counts as stated). `--early` plays methods that stop early instead: how often they
stopped, how often wrong (more than the tolerance worse than the best), and what they
had spent.
"""

import argparse

import numpy as np
import numpy.typing as npt

import asktell

Array = npt.NDArray[np.float64]
KINDS = ("0/1", "0/1, mostly easy", "Gaussian")
_METHODS = ("auto", "uniform", "race")


def expectations(kind: str, k: int, n: int, rng: np.random.Generator) -> Array:
    """(K, N) what each prompt scores on each example on average."""
    level, spread = (2.0, 2.0) if kind == "0/1, mostly easy" else (0.3, 1.5)
    odds = (
        level
        + rng.normal(0, 0.4, (k, 1))
        + rng.normal(0, spread, (1, n))
        + rng.normal(0, 0.7, (k, n))
    )
    return np.asarray(odds / 4 if kind == "Gaussian" else 1 / (1 + np.exp(-odds)))


def draw(kind: str, expected: float, rng: np.random.Generator) -> float:
    """One noisy score of a cell."""
    return (
        float(rng.normal(expected, 0.4))
        if kind == "Gaussian"
        else float(rng.random() < expected)
    )


def play(
    kind: str,
    method: str | asktell.Adaptive | asktell.Race,
    truth: Array,
    repeats: int,
    budget: int,
    seed: int,
    tolerance: float = 0.0,
) -> asktell.Result:
    """The result of one run."""
    rng = np.random.default_rng([seed, repeats])
    k, n = truth.shape
    span = None if kind == "Gaussian" else (0.0, 1.0)
    metric = asktell.maximize("score", range=span, tolerance=tolerance or None)
    prompts = [f"prompt {i}" for i in range(k)]
    selector = asktell.Selector(
        prompts,
        asktell.BestFeasible(metric),
        budget,
        method,
        examples=n,
        seed=seed,
        repeats=repeats,
    )
    while trial := selector.ask():
        selector.tell(trial, [draw(kind, truth[trial.prompt_id, trial.example], rng)])
    return selector.result()


def row(
    kind: str, method: str, k: int, n: int, rounds: int, repeats: int, runs: int
) -> str:
    """One row of the table."""
    right, regret, used, within = [], [], [], []
    for seed in range(runs):
        truth = expectations(kind, k, n, np.random.default_rng(seed))
        means = truth.mean(axis=1)
        result = play(kind, method, truth, repeats, rounds * k * n, seed)
        chosen = result.selected[0].id
        right.append(chosen == means.argmax())
        regret.append(means.max() - means[chosen])
        used.append(result.spent / result.budget)
        for entry, mean in zip(result.prompts, means, strict=True):
            error = entry.standard_error["score"]
            if error is not None:
                within.append(
                    abs((entry.estimate["score"] or 0.0) - mean) <= 1.96 * error + 1e-12
                )
    worse = f"{np.mean(regret):.4f} ± {np.std(regret) / np.sqrt(runs):.4f}"
    return (
        f"| {kind} | {method} | {rounds} | {repeats} | {np.mean(right):.0%} | {worse} | {np.mean(used):.0%} | "
        f"{np.mean(within):.0%} |"
    )


def early(
    kind: str, name: str, k: int, n: int, repeats: int, runs: int, tolerance: float
) -> str:
    """One row of the table of early stops."""
    kinds = {"auto": asktell.Adaptive, "race": asktell.Race}
    stopped, wrong, spent = 0, 0, []
    for seed in range(runs):
        truth = expectations(kind, k, n, np.random.default_rng(seed))
        means = truth.mean(axis=1)
        result = play(
            kind,
            kinds[name](confidence=0.95),
            truth,
            repeats,
            k * n * repeats,
            seed,
            tolerance,
        )
        if result.stopped_early:
            stopped += 1
            wrong += means.max() - means[result.selected[0].id] > tolerance + 1e-12
        spent.append(result.spent / result.budget)
    return f"| {kind} | {name} | {k} | {tolerance} | {repeats} | {stopped} of {runs} | {wrong} | {np.mean(spent):.0%} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prompts", type=int, default=5)
    parser.add_argument("--examples", type=int, default=20)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--rounds", type=int, nargs="+", default=[2, 4])
    parser.add_argument(
        "--methods", nargs="+", choices=_METHODS, default=["auto", "uniform"]
    )
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--early", action="store_true")
    parser.add_argument("--tolerance", type=float, default=0.0)
    parser.add_argument(
        "--repeats", type=int, default=5, help="of methods that stop early"
    )
    args = parser.parse_args()
    if args.early:
        print(
            "| scores | method | prompts | tolerance | repeats | stopped early | wrong | spent |"
        )
        print("|---|---|---|---|---|---|---|---|")
        for kind in args.kinds:
            for method in [name for name in args.methods if name != "uniform"]:
                sizes = (
                    args.prompts,
                    args.examples,
                    args.repeats,
                    args.runs,
                    args.tolerance,
                )
                print(early(kind, method, *sizes), flush=True)
        return
    print(
        "| scores | method | budget / cells | repeats | best found | worse than the best by | used | within 1.96 |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for kind in args.kinds:
        for method in args.methods:
            for rounds in args.rounds:
                for repeats in (1, rounds):
                    print(
                        row(
                            kind,
                            method,
                            args.prompts,
                            args.examples,
                            rounds,
                            repeats,
                            args.runs,
                        ),
                        flush=True,
                    )


if __name__ == "__main__":
    main()
