"""What failed evaluations do to the choice: `python -m benchmarks.selection.failures`.

Simulated prompts with scores of 0 and 1; every evaluation fails with the same
probability. Failures are skipped, so that each run has as many successful evaluations
as the one without failures on the same table.

A row tells how often the best prompt was selected, how much worse than the best the
selected one is on average, how much of that is due to failures (against the run without
them, ± a standard error), how many runs selected nothing, and in how many any prompt
left for its failures. `--early` plays methods that stop early, as often as they may:
how often they stopped, and how often wrong (more than the tolerance worse than the
best; 5 % of the runs may be). `--missing` lets evaluations fail for their scores: where
the answer is wrong, or for every prompt on the examples that are hard. `--gate` plays
`asktell gate` with candidates that fail on some examples. A pass is false if the
candidate fails more often by more than the margin, or is worse by more than the margin
when each of its failures counts as wrong.
"""

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import asktell
from asktell.simulation import replay
from asktell_adapters.gating.rule import GateRule
from asktell_adapters.gating.ruling import FAILED, PASSED, UNDECIDED

Array = npt.NDArray[np.float64]
METHODS = ("auto", "csr", "csr-sh", "race", "uniform")
RATES = (0.0, 0.01, 0.02, 0.04, 0.1)
TOLERANCE = 0.05


def scores_of(k: int, n: int, seed: int) -> Array:
    """(K, N) scores of 0 and 1: most of their variance is that of the examples."""
    rng = np.random.default_rng([seed, 0])
    odds = (
        0.5
        + rng.normal(0, 0.3, (k, 1))
        + rng.normal(0, 1.5, (1, n))
        + rng.normal(0, 0.5, (k, n))
    )
    return (rng.random((k, n)) < 1 / (1 + np.exp(-odds))).astype(float)


def play(
    scores: Array,
    fails: npt.NDArray[np.bool_],
    method: Any,
    budget: int,
    seed: int,
    tolerance: float | None = None,
    **options: Any,
) -> Any:
    """The selector of one run; `fails` (K, N) says which cells do."""
    k, n = scores.shape
    goal = asktell.BestFeasible(
        asktell.maximize("accuracy", range=(0, 1), tolerance=tolerance)
    )
    selector = asktell.Selector(
        [f"prompt {i}" for i in range(k)], goal, budget, method, n, seed=seed, **options
    )
    replay.play(selector, np.where(fails, np.nan, scores)[:, :, None])
    return selector


def regret(result: asktell.Result, scores: Array) -> float:
    """How much worse than the best prompt the selected one is; all of the best if none is."""
    means = scores.mean(axis=1)
    chosen = [entry.id for entry in result.selected]
    return float(means.max() - (means[int(chosen[0])] if chosen else 0.0))


def row(
    method: str,
    rate: float,
    size: tuple[int, int, int],
    seeds: range,
    without: list[float],
) -> tuple[str, list[float]]:
    """One row of the table, and the regrets that it is about."""
    k, n, budget = size
    regrets, nothing, left = [], 0, 0
    for seed in seeds:
        scores = scores_of(k, n, seed)
        fails = np.random.default_rng([seed, 1]).random((k, n)) < rate
        result = play(scores, fails, method, budget, seed).result()
        regrets.append(regret(result, scores))
        nothing += not result.selected
        left += any(entry.status == "failed" for entry in result.prompts)
    more = np.subtract(regrets, without or regrets)
    error = more.std(ddof=1) / np.sqrt(len(more))
    best = np.mean(np.equal(regrets, 0.0))
    cells = [
        method,
        f"{rate:.0%}",
        f"{best:.0%}",
        f"{np.mean(regrets):.4f}",
        f"{more.mean():+.4f} ± {error:.4f}",
    ]
    return "| " + " | ".join([*cells, str(nothing), str(left)]) + " |", regrets


def early_row(
    method: str, rate: float, size: tuple[int, int, int], seeds: range
) -> str:
    """How often a method stops early, and is wrong."""
    k, n, _ = size
    kind = {"auto": asktell.Adaptive, "race": asktell.Race}[method]
    stopped, wrong, spent = 0, 0, []
    for seed in seeds:
        scores = scores_of(k, n, seed)
        fails = np.random.default_rng([seed, 1]).random((k, n)) < rate
        result = play(
            scores, fails, kind(confidence=0.95), k * n, seed, TOLERANCE
        ).result()
        spent.append(result.spent / result.budget)
        if result.stopped_early:
            stopped += 1
            wrong += regret(result, scores) > TOLERANCE + 1e-12
    return f"| {method} | {rate:.0%} | {stopped} of {len(seeds)} | {wrong} | {np.mean(spent):.0%} |"


def missing_row(
    what: str, method: str, size: tuple[int, int, int], seeds: range
) -> str:
    """How much worse the choice is where failures have to do with scores: skipped, and counted as 0."""
    k, n, budget = size
    regrets_of: dict[str, list[float]] = {"none": [], "skip": [], "as 0": []}
    for seed in seeds:
        scores, rng = scores_of(k, n, seed), np.random.default_rng([seed, 1])
        if what == "hard examples":  # for every prompt
            fails = np.broadcast_to(scores.mean(axis=0) < 0.25, scores.shape)
        else:  # one prompt fails on half of those examples that it would not solve
            fails = (
                (np.arange(k) == seed % k)[:, None]
                & (scores == 0.0)
                & (rng.random((k, n)) < 0.5)
            )
        options: Mapping[str, dict[str, Any]] = {
            "skip": {},
            "as 0": {"on_failure": {"accuracy": 0.0}},
        }
        regrets_of["none"].append(
            regret(
                play(scores, np.zeros_like(fails), method, budget, seed).result(),
                scores,
            )
        )
        for name, option in options.items():
            regrets_of[name].append(
                regret(
                    play(scores, fails, method, budget, seed, **option).result(), scores
                )
            )
    means = [
        f"{np.mean(regrets):.4f} ± {np.std(regrets) / np.sqrt(len(regrets)):.4f}"
        for regrets in regrets_of.values()
    ]
    return f"| {what} | {method} | {' | '.join(means)} |"


GATE = {
    # what the candidate does: on which examples it fails (baseline's scores ->
    # chances), and its lead on the others
    "fails where the baseline is right": (
        lambda y, rate: rate * y / max(y.mean(), 1e-9),
        0.0,
    ),
    "the same, and is ahead elsewhere": (
        lambda y, rate: rate * y / max(y.mean(), 1e-9),
        0.1,
    ),
    "fails where the baseline is wrong": (
        lambda y, rate: rate * (1 - y) / max(1 - y.mean(), 1e-9),
        0.2,
    ),
    "fails at random": (lambda y, rate: np.full(len(y), rate), 0.0),
}
_AT_ONCE = 8  # evaluations, between two looks of the gate


def gate_row(what: str, rate: float, n: int, margin: float, runs: int) -> str:
    """How often the gate passes such a candidate, how many of these passes are false, and how often it fails it."""
    chances, lead = GATE[what]
    goal = asktell.BestFeasible(asktell.maximize("accuracy", range=(0, 1)))
    counts, false_passes, spent = dict.fromkeys((PASSED, FAILED, UNDECIDED), 0), 0, 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, n])
        baseline = (rng.random(n) < 0.6).astype(float)
        failed = rng.random(n) < chances(baseline, rate)
        differs = rng.random(n) < 0.1 + lead
        candidate = np.where(differs, rng.random(n) < 0.6, baseline).astype(float)
        candidate[differs & (rng.random(n) < 2 * lead)] = 1.0
        loss = float((baseline - np.where(failed, 0.0, candidate)).mean())
        is_bad = max(loss, float(failed.mean())) > margin + 1e-9
        selector = asktell.Selector(
            ["new", "old"], goal, 2 * n, "uniform", n,
            seed=seed, max_failure_rate=1.0, inputs="given", repeats=1,
        )  # fmt: skip
        rule, verdict = GateRule(goal, margin, 0.95), UNDECIDED
        while verdict == UNDECIDED and (trials := selector.ask(_AT_ONCE)):
            for trial in trials:
                example = trial.example or 0
                if trial.prompt == "new" and failed[example]:
                    selector.fail(trial, "no answer")
                else:
                    selector.tell(
                        trial,
                        float(
                            (candidate if trial.prompt == "new" else baseline)[example]
                        ),
                    )
            verdict = rule.look(selector.state)
        counts[verdict] += 1
        false_passes += verdict == PASSED and is_bad
        spent += selector.spent
    shares = [
        f"{counts[verdict] / runs:.0%}" for verdict in (PASSED, FAILED, UNDECIDED)
    ]
    return f"| {what} | {rate:.0%} | {' | '.join(shares)} | {false_passes / runs:.1%} | {spent / runs:.0f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--budget", type=int, default=600)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    parser.add_argument("--early", action="store_true")
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--margin", type=float, default=TOLERANCE, help="of the gate")
    args = parser.parse_args()
    size, seeds = (args.prompts, args.examples, args.budget), range(args.runs)
    if args.gate:
        print(
            "| the candidate | failures | passed | failed | undecided | false passes | evaluations |"
        )
        print("|---|---|---|---|---|---|---|")
        for what in GATE:
            for rate in (0.0, 0.02, 0.06, 0.1, 0.2, 0.38):
                print(
                    gate_row(what, rate, args.examples, args.margin, args.runs),
                    flush=True,
                )
        return
    if args.early:
        print(
            "| method | failures | stopped early | wrong | spent |\n|---|---|---|---|---|"
        )
        for method in [name for name in args.methods if name in ("auto", "race")]:
            for rate in args.rates:
                print(early_row(method, rate, size, seeds), flush=True)
        return
    if args.missing:
        print(
            "| what fails | method | no failures | skipped | counted as 0 |\n|---|---|---|---|---|"
        )
        for what in ("hard examples", "one prompt's wrong answers"):
            for method in args.methods:
                print(missing_row(what, method, size, seeds), flush=True)
        return
    print(
        "| method | failures | best found | worse than the best by | due to failures | no answer | a prompt left |"
    )
    print("|---|---|---|---|---|---|---|")
    for method in args.methods:
        without: list[float] = []
        for rate in args.rates:
            line, regrets = row(method, rate, size, seeds, without)
            without = without or regrets
            print(line, flush=True)


if __name__ == "__main__":
    main()
