"""Intervals that hold at every look, against rivals: `python -m benchmarks.selection.intervals`.

Prints tables. Miscoverage: in how many runs of --runs a 95 % interval excludes the
truth at any look. Examples: how many until a difference is told from zero, looking
after every example, on average over runs (all of them, if that is what it takes); and
until equal prompts are told to be within a margin, on one side. Speed. Bounds for
exactly the N examples given draw them without replacement. Bounds for new inputs take
the same N as independent draws.

Rivals, both without replacement: the published single bet and empirical Bernstein, with
the predictable plug-in (Waudby-Smith & Ramdas 2023, equations 26 and 14), two sides of
half the error each. A pair that "disagrees" is one prompt right and the other wrong;
examples that are mostly easy or mostly hard make few of them.
"""

import argparse
import math
import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from asktell.proofs.intervals.asymptotic import Asymptotic
from asktell.proofs.intervals.betting import Betting

Floats = npt.NDArray[np.float64]
ERROR = 0.05
SIZES = (300, 1000)
DIFFERENCES = (0.02, 0.05, 0.1, 0.2)
DISAGREE, SPREADS = (0.12, 0.2, 0.3, 0.5), (0.05, 0.15, 0.3)
MARGINS = (0.02, 0.05, 0.1)


def signs(n: int, disagree: float, difference: float) -> Floats:
    """Differences of n pairs of 0/1 scores."""
    more = round(n * (disagree + difference) / 2)
    fewer = round(n * (disagree - difference) / 2)
    return np.repeat([1.0, -1.0, 0.0], [more, fewer, n - more - fewer])


def smooth(n: int, spread: float, difference: float) -> Floats:
    """Gaussian differences, clipped at -1 and 1."""
    x = np.random.default_rng(n).normal(0, spread, n)
    return np.clip(x - x.mean() + difference, -1, 1)


def shuffled(population: Floats, runs: int) -> Floats:
    """(runs, n): the population in `runs` random orders."""
    return np.random.default_rng(1).permuted(np.tile(population, (runs, 1)), axis=1)


def hard_cases() -> dict[str, Floats]:
    """Populations on which intervals are known to fail."""
    return {
        "equal prompts, 20 % disagree, N = 300": signs(300, 0.2, 0),
        "equal prompts, 2 % disagree, N = 300": signs(300, 0.02, 0),
        "difference .1, 20 % disagree, N = 300": signs(300, 0.2, 0.1),
        "1 of 300 pairs differs": signs(300, 1 / 300, 1 / 300),
        "3 of 20 pairs differ": signs(20, 0.15, 0.15),
        "difference .02, 6 % disagree, N = 1000": signs(1000, 0.06, 0.02),
        "Gaussian, N = 100": smooth(100, 0.2, 0.05),
        "skewed (beta .05, 1), N = 300": np.random.default_rng(1).beta(0.05, 1, 300),
        "heavy tails (log-normal / 20, clipped), N = 300": np.minimum(
            1.0, np.random.default_rng(2).lognormal(0, 1.2, 300) / 20
        ),
        "0 or 1, half each, N = 1000": signs(1000, 0.5, 0.5),
        "all equal, N = 50": signs(50, 0, 0),
    }


def looks(n: int) -> Sequence[int]:
    """Every one up to 100, then every fifth."""
    return [*range(1, min(n, 100)), *range(100, n, 5)]


def asymptotic_bounds(x: Floats) -> tuple[list[int], Floats, Floats]:
    """Looks, and (runs, looks) bounds; `scale` as compare() gives it to scores of 0 and 1 that mostly agree."""
    n = x.shape[1]
    at = [k for k in looks(n) if k > 2]
    scale = 1.0 if np.mean(x[0] == 0) >= 0.5 else 0.0
    bounds = [Asymptotic(n).interval(x[:, :k], ERROR, scale) for k in at]
    return (
        at,
        np.stack([b.low for b in bounds], axis=1),
        np.stack([b.high for b in bounds], axis=1),
    )


def any_look(x: Floats, n: int | None, truth: float) -> float:
    """In how many of the runs the betting interval excludes the truth at some look."""
    above = Betting(-1, 1, n).log_capital(x, truth).max(axis=1)
    below = Betting(-1, 1, n).log_capital(-x, -truth).max(axis=1)
    return float((np.maximum(above, below) >= math.log(2 / ERROR)).mean())


def miscoverage(runs: int) -> str:
    """Table."""
    rows = [
        "| scores | betting | betting, independent draws | asymptotic |",
        "|---|---|---|---|",
    ]
    for name, population in hard_cases().items():
        x, truth = shuffled(population, runs), float(population.mean())
        draws = np.random.default_rng(2).choice(population, x.shape)
        _, low, high = asymptotic_bounds(x)
        wrong = ((low > truth + 1e-9) | (high < truth - 1e-9)).any(axis=1).mean()
        cells = [
            any_look(x, len(population), truth),
            any_look(draws, None, truth),
            wrong,
        ]
        rows.append(f"| {name} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |")
    return "\n".join(rows)


def until(found: npt.NDArray[np.bool_], at: Sequence[int], n: int) -> float:
    """Mean over runs of the first look that found a difference, n if none did."""
    return float(
        np.where(found.any(axis=1), np.asarray(at)[found.argmax(axis=1)], n).mean()
    )


def by_betting(x: Floats) -> float:
    """Mean number of examples until zero is below the interval."""
    n = x.shape[1]
    return until(
        Betting(-1, 1, n).log_capital(x, 0.0) >= math.log(2 / ERROR), range(1, n + 1), n
    )


def by_asymptotic(x: Floats) -> float:
    """The same, without a range and without a guarantee."""
    at, low, _ = asymptotic_bounds(x)
    return until(low > 0, at, x.shape[1])


def _plug_in(y: Floats) -> Floats:
    t = np.arange(1, y.shape[1] + 1)
    mean = (0.5 + np.cumsum(y, axis=1)) / (t + 1)
    variance = (0.25 + np.cumsum((y - mean) ** 2, axis=1)) / (t + 1)
    before = np.concatenate([np.full((len(y), 1), 0.25), variance[:, :-1]], axis=1)
    return np.asarray(np.sqrt(2 * math.log(2 / ERROR) / (before * t * np.log1p(t))))


def by_published_bet(x: Floats) -> float:
    """The same, with one predictable bet, on scores scaled to [0, 1]."""
    y, n = (x + 1) / 2, x.shape[1]
    t = np.arange(n)
    prices = (n * 0.5 - (np.cumsum(y, axis=1) - y)) / (n - t)
    stakes = np.minimum(_plug_in(y), 0.5 / np.maximum(prices, 1e-9))
    capital = np.cumsum(np.log1p(stakes * (y - prices)), axis=1)
    return until((capital >= math.log(2 / ERROR)) | (prices < 0), range(1, n + 1), n)


def by_empirical_bernstein(x: Floats) -> float:
    """The same, with empirical Bernstein."""
    y, n = (x + 1) / 2, x.shape[1]
    t = np.arange(n)
    total = np.cumsum(y, axis=1) - y
    stakes = np.minimum(_plug_in(y), 0.5)
    means = np.concatenate(
        [np.full((len(y), 1), 0.5), ((0.5 + np.cumsum(y, axis=1)) / (t + 2))[:, :-1]],
        axis=1,
    )
    cost = np.cumsum((y - means) ** 2 * (-np.log1p(-stakes) - stakes), axis=1)
    weight = np.cumsum(stakes * (1 + t / (n - t)), axis=1)
    low = (
        np.cumsum(stakes * (y + total / (n - t)), axis=1) - math.log(2 / ERROR) - cost
    ) / weight
    return until(low > 0.5, range(1, n + 1), n)


def by_independent_betting(x: Floats) -> float:
    """The same for new inputs; those on which it is not found at all count as all."""
    n = x.shape[1]
    draws = np.random.default_rng(3).choice(x[0], x.shape)
    return until(
        Betting(-1, 1).log_capital(draws, 0.0) >= math.log(2 / ERROR),
        range(1, n + 1),
        n,
    )


METHODS: dict[str, Callable[[Floats], float]] = {
    "betting": by_betting,
    "betting, new inputs": by_independent_betting,
    "published bet": by_published_bet,
    "empirical Bernstein": by_empirical_bernstein,
    "asymptotic": by_asymptotic,
}


def examples_needed(runs: int) -> str:
    """Table."""
    rows = [
        "| N | difference | scores | " + " | ".join(METHODS) + " |",
        "|---|---|---|" + "---|" * len(METHODS),
    ]
    for n in SIZES:
        for difference in DIFFERENCES:
            kinds = {
                f"0/1, {100 * d:.0f} % disagree": signs(n, d, difference)
                for d in DISAGREE
                if d >= difference
            }
            kinds |= {f"smooth, sd {s:g}": smooth(n, s, difference) for s in SPREADS}
            for name, population in kinds.items():
                x = shuffled(population, runs)
                cells = [method(x) for method in METHODS.values()]
                rows.append(
                    f"| {n} | {difference:g} | {name} | "
                    + " | ".join(f"{cell:.0f}" for cell in cells)
                    + " |"
                )
    return "\n".join(rows)


def margins(runs: int) -> str:
    """Table: prompts that are equal on average, one-sided bound of the whole error; for given examples and for new."""
    rows = [
        "| N | scores | " + " | ".join(f"margin {m:g}" for m in MARGINS) + " |",
        "|---|---|" + "---|" * len(MARGINS),
    ]
    for n in SIZES:
        kinds = {
            f"0/1, {100 * d:.0f} % disagree": signs(n, d, 0.0) for d in (0.0, *DISAGREE)
        }
        kinds |= {f"smooth, sd {s:g}": smooth(n, s, 0.0) for s in SPREADS}
        for name, population in kinds.items():
            x, betting = shuffled(population, runs), Betting(-1, 1, n)
            draws = np.random.default_rng(3).choice(population, x.shape)
            cells = []
            for m in MARGINS:
                capitals = (
                    betting.log_capital(x, -m),
                    Betting(-1, 1).log_capital(draws, -m),
                )
                old, new = (
                    until(capital >= math.log(1 / ERROR), range(1, n + 1), n)
                    for capital in capitals
                )
                cells.append(f"{old:.0f}, {new:.0f}")
            rows.append(f"| {n} | {name} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def speed() -> str:
    """Lines."""
    x = shuffled(signs(300, 0.2, 0.1), 1)
    start = time.perf_counter()
    Betting(-1, 1, 300).interval(x[0, :150], ERROR)
    return f"An interval from 150 differences: {1000 * (time.perf_counter() - start):.1f} ms."


def main() -> None:
    """Parse the command line and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=400)
    args = parser.parse_args()
    print(f"Wrong at any look, stated at most {ERROR:g}\n\n{miscoverage(args.runs)}\n")
    print(
        f"Examples until a difference is told from zero, confidence {1 - ERROR:g}\n\n{examples_needed(args.runs)}\n"
    )
    print(
        f"Examples until an equal prompt is not worse by more than a margin\n\n{margins(args.runs)}\n"
    )
    print(speed())


if __name__ == "__main__":
    main()
