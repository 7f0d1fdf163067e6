"""What choosing is worth: `python -m benchmarks.selection.worth`.

A result states how far the best of all prompts is above the median prompt, with a 95%
interval (`result.worth`). Where the end of this interval is below the tolerance, it says
that the prompts hardly differ.

A world has K prompts, whose means are normal, in two groups, or equal but for one. Their
standard deviation is 0 to 0.1, and scores are 0 or 1 (in log odds) or graded, from 0 to
1. A run of `auto`, where means are normal, is looked at after 1, 2, 4, 8 and 20
evaluations per prompt. A finished table has as many examples, or 60 or 200. The
tolerance is 0.05. Prints a row for each number of evaluations:

- the share of all looks at which the interval contains the true value,
- by how much the estimate is above the true value on average,
- the share at which the result says that the prompts hardly differ, and of these the
  share that is wrong: choosing is worth more than the sentence says.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import asktell
from asktell import BestFeasible, maximize, minimize
from benchmarks.results import table

Floats = npt.NDArray[np.float64]
N_EXAMPLES = 200
PER_PROMPT = (1, 2, 4, 8, 20)
MORE = (60, 200)  # examples of larger finished tables
PROMPTS = (3, 12)
KINDS = ("0/1", "graded")
SHAPES = ("normal", "two groups", "one ahead")
SPREADS = (0.0, 0.003, 0.01, 0.03, 0.1)
TOLERANCE = 0.05
SOURCES = ("finished table", "run")


class World(NamedTuple):
    """Scores (K, N), and the true means (K,)."""

    scores: Floats
    means: Floats


class Look(NamedTuple):
    """A result beside the truth. `covers` is None without an interval, and `is_wrong` without the sentence."""

    source: str
    kind: str
    per_prompt: int
    covers: bool | None
    is_wrong: bool | None
    off: float | None = None


def drawn(
    k: int, kind: str, shape: str, spread: float, rng: np.random.Generator
) -> World:
    """A world. Log odds spread as far as probabilities near 1/2 do."""
    off = rng.normal(size=k)
    if shape == "two groups":
        off = rng.choice((-1.0, 1.0), size=k)
    elif shape == "one ahead":
        off = np.zeros(k)
        off[rng.integers(k)] = 3.0
    easy, level = rng.normal(size=N_EXAMPLES), rng.uniform(0.2, 0.8)
    points, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    if kind == "graded":
        cells = level + spread * off[:, None] + 0.1 * easy
        scores = np.clip(cells + 0.1 * rng.normal(size=cells.shape), 0.0, 1.0)
        shares = level + spread * off[:, None] + 0.1 * 2**0.5 * points
        return World(scores, np.clip(shares, 0.0, 1.0) @ weights)
    odds = np.log(level / (1.0 - level)) + 4.0 * spread * off[:, None]
    p = 1.0 / (1.0 + np.exp(-odds - 1.5 * easy))
    scores = (rng.random(p.shape) < p).astype(np.float64)
    return World(scores, 1.0 / (1.0 + np.exp(-odds - 1.5 * points)) @ weights)


def look(
    result: asktell.Result, world: World, source: str, kind: str, per_prompt: int
) -> Look:
    """What a result says, beside the truth."""
    true = float(world.means.max() - np.median(world.means))
    worth = result.worth
    covers = is_wrong = None
    if worth is not None:
        rounding = 1e-9
        covers = worth[1] - rounding <= true <= worth[2] + rounding
    if worth is not None and "hardly differ" in result.verdict.sentence:
        is_wrong = true > max(worth[2], 0.1 * TOLERANCE)
    off = None if worth is None else worth[0] - true
    return Look(source, kind, per_prompt, covers, is_wrong, off)


def looks(
    k: int, kind: str, shape: str, spread: float, seed: int, with_run: bool
) -> Iterator[Look]:
    """The looks at a world. In every second one, less is better."""
    rng = np.random.default_rng([seed, k, *map(ord, kind + shape), round(1e4 * spread)])
    world = drawn(k, kind, shape, spread, rng)
    goal = BestFeasible(maximize("score", range=(0, 1), tolerance=TOLERANCE))
    if seed % 2:
        goal = BestFeasible(minimize("score", range=(0, 1), tolerance=TOLERANCE))
        world = World(1.0 - world.scores, world.means)
    for b in PER_PROMPT + MORE:
        result = asktell.analyze(world.scores[:, :b], goal)
        yield look(result, world, SOURCES[0], kind, b)
    if not with_run:
        return
    ids = [f"p{arm}" for arm in range(k)]
    selector = asktell.Selector(
        ids, goal, k * PER_PROMPT[-1], examples=N_EXAMPLES, seed=seed
    )
    while trial := selector.ask():
        assert trial.example is not None
        score = float(world.scores[int(trial.prompt_id), trial.example])
        selector.tell(trial, {"score": score})
        b, rest = divmod(selector.spent, k)
        if not rest and b in PER_PROMPT:
            yield look(selector.result(), world, SOURCES[1], kind, b)


def row(
    source: str, kind: str, per_prompt: int, all_looks: Sequence[Look]
) -> list[str]:
    """The row of a table for some looks."""
    covers = [one.covers for one in all_looks if one.covers is not None]
    wrong = [one.is_wrong for one in all_looks if one.is_wrong is not None]
    off = [one.off for one in all_looks if one.off is not None]
    n = max(1, len(all_looks))
    return [
        source,
        kind,
        str(per_prompt),
        str(len(all_looks)),
        f"{100 * np.mean(covers):.1f}" if covers else "",
        f"{np.mean(off):+.3f}" if off else "",
        f"{100 * len(wrong) / n:.1f}",
        f"{sum(wrong)} of {len(wrong)}",
    ]


HEAD = (
    "of", "scores", "evaluations per prompt", "looks", "interval right, %", "estimate less true", '"hardly differ", %',
    "of these wrong",
)  # fmt: skip


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10, help="of each kind of world")
    parser.add_argument(
        "--runs", type=int, default=1, help="seeds with runs of normal means"
    )
    args = parser.parse_args()
    every = [
        one
        for seed in range(args.seeds)
        for world in product(PROMPTS, KINDS, SHAPES, SPREADS)
        for one in looks(*world, seed, seed < args.runs and world[2] == SHAPES[0])
    ]
    rows = []
    for source, kind, b in product(SOURCES, KINDS, PER_PROMPT + MORE):
        mine = [one for one in every if one[:3] == (source, kind, b)]
        if mine:
            rows.append(row(source, kind, b, mine))
    sys.stdout.write(table(HEAD, rows) + "\n")


if __name__ == "__main__":
    main()
