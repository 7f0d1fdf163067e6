"""Comparisons in finished tables: `python -m benchmarks.selection.finished_tables --tables FOLDER`.

Prints how often the interval of `asktell.analyze` excludes a difference of 0, beside a
paired t-test, an exact permutation test (random signs, of 0/1 scores McNemar's exact
test) and the interval that holds at every look. Two prompts that are equally good should
be told apart in at most 5% of the tables. Where they differ, more is better.

Simulated examples have abilities of a beta distribution. Recorded differences are those
of two prompts of a recorded table on N examples that are drawn from it: with random
signs, the two are equally good.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import stats

from asktell.proofs.intervals.betting import Betting
from asktell.proofs.intervals.one_look import OneLook

Floats = npt.NDArray[np.float64]
ERROR = 0.05
SIZES = (10, 20, 50, 200, 1000)
SIGNS = 999  # random signs of a permutation test


def simulated(kind: str, n: int, better: float, rng: np.random.Generator) -> Floats:
    """Differences of two prompts on n examples, of which the first is better by about `better`."""
    ease = rng.beta(0.6, 0.6, n)
    if kind == "0/1":
        first = rng.random(n) < np.clip(ease + better, 0.0, 1.0)
        return first.astype(np.float64) - (rng.random(n) < ease)
    if kind == "0/1, mostly alike":
        flips = rng.random((2, n)) < 0.05
        scores = (ease > 0.4) ^ flips
        scores[0] |= rng.random(n) < 2 * better
        return scores[0].astype(np.float64) - scores[1]
    spread = 0.2 if kind == "graded" else 0.6
    noise = rng.normal(0.0, spread, (2, n))
    scores = np.clip(ease + noise + np.array([[better], [0.0]]), 0.0, 1.0)
    if kind == "grades 0 to 4, piled at the ends":
        scores = np.round(4 * scores) / 4
    return np.asarray(scores[0] - scores[1])


KINDS = (
    "0/1",
    "0/1, mostly alike",
    "graded",
    "grades 0 to 4, piled at the ends",
)


def permutation(x: Floats, rng: np.random.Generator) -> float:
    """Two-sided p-value by random signs; exact for differences of one size."""
    x = x[x != 0.0]
    if not len(x):
        return 1.0
    if np.ptp(np.abs(x)) == 0.0:
        return float(stats.binomtest(int((x > 0).sum()), len(x)).pvalue)
    signs = rng.choice((-1.0, 1.0), (SIGNS, len(x)))
    as_far = np.abs(signs @ x) >= abs(x.sum()) - 1e-9
    return float((1 + as_far.sum()) / (1 + SIGNS))


def found(x: Floats, rng: np.random.Generator) -> tuple[bool, bool, bool, bool]:
    """Whether 0 is excluded: by one look, by a t-test, by a permutation test, at every look."""
    low, high = OneLook((-1.0, 1.0)).interval(x, ERROR)
    always = Betting(-1.0, 1.0, None).interval(x[None], ERROR)
    t = float(stats.ttest_1samp(x, 0.0).pvalue) if np.ptp(x) else 1.0
    return (
        low > 0.0 or high < 0.0,
        t <= ERROR,
        permutation(x, rng) <= ERROR,
        bool(always.low[0] > 0.0 or always.high[0] < 0.0),
    )


def recorded(folder: Path) -> Iterator[tuple[str, Floats]]:
    """The scores (prompts, examples) of the first metric of each recorded table, from 0 to 1."""
    for path in sorted(folder.glob("**/*.npz")):
        with np.load(path, allow_pickle=False) as data:
            scores = data.get("scores", None)
        if scores is None or scores.shape[0] < 2:
            continue
        first = scores[:, :, 0] if scores.ndim > 2 else scores
        first = first[:, ~np.isnan(first).any(axis=0)].astype(np.float64)
        if first.ndim == 2 and first.shape[1] >= 100 and np.ptp(first):
            yield path.stem, (first - first.min()) / np.ptp(first)


def row(name: str, n: int, draw: Callable[[], Floats], runs: int, seed: int) -> str:
    """A row of a table: shares of the runs, in percent."""
    rng = np.random.default_rng(seed)
    shares = 100 * np.mean([found(draw(), rng) for _ in range(runs)], axis=0)
    return f"| {name} | {n} | " + " | ".join(f"{share:.1f}" for share in shares) + " |"


HEAD = (
    "| scores | N | one look | paired t-test | permutation test | every look |\n"
    "|---|---|---|---|---|---|"
)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--tables", type=Path, help="a folder of recorded tables")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    for title, better in (("equally good", 0.0), ("0.08 better", 0.08)):
        print(
            f"\nSimulated prompts, {title}: tables in which 0 is excluded, %\n\n{HEAD}"
        )
        for kind in KINDS:
            for n in SIZES:

                def draw(
                    kind: str = kind, n: int = n, better: float = better
                ) -> Floats:
                    return simulated(kind, n, better, rng)

                print(row(kind, n, draw, args.runs, 1), flush=True)
    if args.tables is None:
        return
    pools = list(recorded(args.tables))
    for title, is_null in (("random signs", True), ("as recorded", False)):
        print(f"\nRecorded differences, {title}: 0 is excluded, %\n\n{HEAD}")
        for n in SIZES[:4]:

            def pair(n: int = n, is_null: bool = is_null) -> Floats:
                _, scores = pools[int(rng.integers(len(pools)))]
                a, b = rng.choice(len(scores), 2, replace=False)
                x = scores[a] - scores[b]
                x = x[rng.integers(len(x), size=n)]
                return np.asarray(x * rng.choice((-1.0, 1.0), n) if is_null else x)

            name = f"{len(pools)} recorded tables"
            print(row(name, n, pair, args.runs, 2), flush=True)


if __name__ == "__main__":
    main()
