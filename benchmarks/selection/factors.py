"""What knowing the factors of candidates is worth to `auto`: `python -m benchmarks.selection.factors --tables FOLDER`.

The same scores are selected twice with the same seed: as candidates of several factors,
and as prompts with the same names. One problem is recorded, 81 pairs of models by
accuracy (`models/agentopt_mathqa`); the others are simulated: grids whose factors
explain a part of the variance between candidates, pairs of levels another part, and the
candidates' own effects the rest. A score's variance belongs to the candidate by a tenth
and to the example by four tenths.

Quality is 1 for the best candidate and 0 for one by chance. Prints, by problem and
budget, the mean of both ways, and the mean difference with its standard error over the
seeds. One process, some minutes.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import asktell
from benchmarks.problems.replay import default_folder
from benchmarks.problems.table import read_table
from benchmarks.results import table

BUDGETS = (0.25, 0.5, 1.0, 2.0, 3.0)
"""Evaluations per candidate."""
_EXAMPLES = 200
_CANDIDATE, _EXAMPLE, _RESIDUAL = 0.1, 0.4, 0.5  # parts of a score's variance


class Grid(NamedTuple):
    """A simulated problem: how many levels each factor has, and what they and pairs of them explain."""

    levels: tuple[int, ...]
    factors: float
    pairs: float

    def draw(self, seed: int) -> tuple[asktell.Candidates, npt.NDArray[np.float64]]:
        """The candidates and their scores (K, N)."""
        rng = np.random.default_rng([seed, *self.levels])
        candidates = asktell.grid(
            **{f"f{i}": list(range(n)) for i, n in enumerate(self.levels)}
        )
        codes = np.array(np.unravel_index(np.arange(len(candidates)), self.levels))
        weights = rng.dirichlet(np.ones(len(self.levels)))
        levels = sum(
            w**0.5 * _unit(rng.normal(size=n))[c]
            for w, n, c in zip(weights, self.levels, codes, strict=True)
        )
        pairs = sum(
            rng.normal(size=(m, n))[a, b]
            for m, n, a, b in zip(
                self.levels, self.levels[1:], codes, codes[1:], strict=False
            )
        )
        residual, rest = (
            rng.normal(size=len(candidates)),
            1.0 - self.factors - self.pairs,
        )
        parts = zip(
            (self.factors, self.pairs, rest), (levels, pairs, residual), strict=True
        )
        mean = _unit(sum(part**0.5 * _unit(effect) for part, effect in parts))
        scores = _CANDIDATE**0.5 * mean[:, None] + _EXAMPLE**0.5 * rng.normal(
            size=_EXAMPLES
        )
        return candidates, scores + _RESIDUAL**0.5 * rng.normal(size=scores.shape)

    def __str__(self) -> str:
        shape = " x ".join(map(str, self.levels))
        return f"{shape}: factors {100 * self.factors:.0f} %, pairs {100 * self.pairs:.0f} %"


def _unit(effects: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray((effects - effects.mean()) / effects.std())


def recorded(folder: Path) -> tuple[asktell.Candidates, npt.NDArray[np.float64]]:
    """The pairs of models, and their accuracy."""
    table = read_table(folder / "models" / "agentopt_mathqa.npz")
    pairs = [
        dict(part.split("=", 1) for part in re.split(r" \+ ", name))
        for name in table.prompts
    ]
    return asktell.Candidates(pairs), table.scores[:, :, 0]


def quality(
    prompts: asktell.Candidates | list[str],
    scores: npt.NDArray[np.float64],
    budget: int,
    seed: int,
) -> float:
    """Of the answer, among all."""
    selector = asktell.Selector(
        prompts,
        asktell.BestFeasible("score"),
        budget,
        examples=scores.shape[1],
        seed=seed,
    )
    arms = {
        id_: arm
        for arm, id_ in enumerate(
            prompts.ids if isinstance(prompts, asktell.Candidates) else prompts
        )
    }
    while trials := selector.ask(max(1, len(arms) // 8)):
        for trial in trials:
            selector.tell(trial, float(scores[arms[trial.prompt], trial.example]))
    answer, means = selector.state.decisions[-1][1].answer[0], scores.mean(axis=1)
    return float((means[answer] - means.mean()) / (means.max() - means.mean()))


def main(argv: Sequence[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tables",
        type=Path,
        default=default_folder(),
        help="folder of recorded tables",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=20,
        help="default: %(default)s; five times as many below 100",
    )
    parser.add_argument(
        "--levels",
        nargs="+",
        default=["4x4x4", "8x4x4x8", "4x4x4x8x8"],
        help="of the simulated grids",
    )
    parser.add_argument(
        "--budgets",
        type=float,
        nargs="+",
        default=BUDGETS,
        help="evaluations per candidate",
    )
    args = parser.parse_args(argv)
    problems: list[Grid | None] = [] if args.tables is None else [None]
    for levels in args.levels:
        shape = tuple(map(int, levels.split("x")))
        problems += [
            Grid(shape, *parts) for parts in ((0.8, 0.0), (0.6, 0.3), (0.0, 0.0))
        ]
    rows = []
    for problem in problems:
        for b in args.budgets:
            with_factors, without = [], []
            for seed in range(
                args.seeds
                if problem is not None and np.prod(problem.levels) > 100
                else 5 * args.seeds
            ):
                candidates, scores = (
                    recorded(args.tables) if problem is None else problem.draw(seed)
                )
                budget = round(b * len(candidates))
                with_factors.append(quality(candidates, scores, budget, seed))
                without.append(quality(list(candidates.ids), scores, budget, seed))
            differences = np.subtract(with_factors, without)
            error = differences.std(ddof=1) / np.sqrt(len(differences))
            name = "81 pairs of models" if problem is None else str(problem)
            numbers = (
                f"{np.mean(with_factors):.3f}",
                f"{np.mean(without):.3f}",
                f"{differences.mean():+.3f} ({error:.3f})",
            )
            rows.append((name, f"{b:g}", str(len(differences)), *numbers))
            print(*rows[-1], flush=True)
    header = ("problem", "b", "seeds", "with factors", "without", "difference (se)")
    print(table(header, rows))


if __name__ == "__main__":
    main()
