"""How many wrong labels `result.examples()` finds: `python -m benchmarks.selection.examples --tables FOLDER`.

On 5% of a table's examples, drawn at random, scores of 0 and 1 are swapped, as a wrong
label does. A row tells which part of these is called mislabeled at a false discovery
rate of 10%, and which part of those called is not among them. "As recorded" is how many
of the untouched table are called so: of real data, some may well be wrong, and these
count as false. "At best" is the part that any bar on the discrimination finds if at
most 10% of those below it are others, chosen with hindsight.

Simulated tables: a Rasch model with discriminations that differ, with the numbers of
prompts and examples of MMLU-Pro's and MCPMark's leaderboards. An agent's runs differ:
two of them, on the same task, in 23% of the tasks.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import asktell
from asktell.record import History
from asktell.results.examples import example_results
from benchmarks.problems import replay
from benchmarks.problems.table import Array
from benchmarks.results import table

PLANTED = 0.05
FDR = 0.1


class World(NamedTuple):
    """A simulated table; `spreads` are the deviations, in logits, of abilities and of difficulties."""

    name: str
    prompts: int
    examples: int
    spreads: tuple[float, float]
    repeats: int = 1

    def scores(self, seed: int) -> Array:
        """(K, N, 1, R) scores of 0 and 1."""
        rng = np.random.default_rng([seed, 1])
        abilities = rng.normal(0.0, self.spreads[0], (self.prompts, 1))
        difficulties = rng.normal(0.0, self.spreads[1], self.examples)
        slopes = np.exp(rng.normal(0.0, 0.3, self.examples))
        expected = 1.0 / (1.0 + np.exp(-slopes * (abilities - difficulties)))
        shape = self.prompts, self.examples, 1, self.repeats
        return np.asarray(
            rng.random(shape) < expected[:, :, None, None], dtype=np.float64
        )


WORLDS = (
    World("MMLU-like, models", 28, 1400, (1.0, 1.3)),
    World("MMLU-like, more models", 100, 1000, (1.0, 1.3)),
    World("MCPMark-like, one run", 38, 127, (1.3, 2.7)),
    World("MCPMark-like, four runs", 38, 127, (1.3, 2.7), repeats=4),
    World("prompts of a model", 100, 500, (0.3, 1.3)),
    World("many prompts", 500, 500, (0.3, 1.3)),
)


class Found(NamedTuple):
    """Parts of the planted examples that were called, of those called that were not planted, and found at best."""

    called: float
    false: float
    at_best: float


def results_of(scores: Array) -> list[asktell.ExampleResult]:
    """What `asktell.analyze(scores, ...).examples()` is, without the verdict, which takes longer."""
    n_prompts, n_examples, _, n_repeats = scores.shape
    prompts = [f"prompt {arm}" for arm in range(n_prompts)]
    state = asktell.Selector(
        prompts, asktell.BestFeasible("accuracy"), 1, examples=n_examples
    ).state
    arms, examples, _ = np.indices((n_prompts, n_examples, n_repeats)).reshape(3, -1)
    observed = np.full(len(arms), -1)
    history = History.from_columns(observed, arms, examples, scores.reshape(-1, 1))
    return example_results(state._replace(history=history), fdr=FDR)


def plant(scores: Array, seed: int) -> Found:
    """What is found in (K, N, 1, R) scores of which some have the wrong label."""
    n = scores.shape[1]
    wrong = np.zeros(n, dtype=bool)
    wrong[
        np.random.default_rng([seed, 2]).choice(
            n, max(1, round(PLANTED * n)), replace=False
        )
    ] = True
    planted = np.where(wrong[None, :, None, None], 1.0 - scores, scores)
    results = results_of(planted)
    called = np.array([example.likely_mislabeled for example in results])
    discriminations = np.array(
        [
            np.inf if example.discrimination is None else example.discrimination
            for example in results
        ]
    )
    hits = np.cumsum(wrong[np.argsort(discriminations, kind="stable")])
    pure = hits >= (1.0 - FDR) * np.arange(1, n + 1)
    return Found(
        float(called[wrong].mean()),
        float((called & ~wrong).sum() / max(1, called.sum())),
        float(hits[pure].max(initial=0) / wrong.sum()),
    )


def row(name: str, tables: Sequence[Array]) -> list[str]:
    """A row of the result: of one table for each seed."""
    shape = tables[0].shape
    as_recorded = [
        sum(example.likely_mislabeled for example in results_of(scores))
        # A recorded one is the same each time
        for scores in {id(scores): scores for scores in tables}.values()
    ]
    plants = [plant(scores, seed) for seed, scores in enumerate(tables)]
    called, false, at_best = np.mean(plants, axis=0)
    error = np.std([planted.called for planted in plants], ddof=1) / len(plants) ** 0.5
    return [
        name, f"{shape[0]} x {shape[1]}", f"{called:.0%}", f"{error:.0%}", f"{false:.0%}", f"{at_best:.0%}",
        f"{np.mean(as_recorded):.1f}",
    ]  # fmt: skip


def recorded(folder: Path | None, n_prompts: int) -> Iterator[tuple[str, Array]]:
    """The recorded tables whose first metric is right or wrong."""
    for name in replay.replay_names(folder):
        scores = replay.replay_table(name, folder, n_prompts).scores[:, :, :1, None]
        if np.isin(scores, (0.0, 1.0)).all():
            yield name, scores


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, run, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tables",
        type=Path,
        default=replay.default_folder(),
        help="folder of recorded tables",
    )
    parser.add_argument(
        "--prompts", type=int, default=100, help="at most so many of a recorded table"
    )
    parser.add_argument("--seeds", type=int, default=20)
    args = parser.parse_args(arguments)
    rows = [
        row(world.name, [world.scores(seed) for seed in range(args.seeds)])
        for world in WORLDS
    ]
    rows += [
        row(name, [scores] * args.seeds)
        for name, scores in recorded(args.tables, args.prompts)
    ]
    head = [
        "table",
        "prompts x examples",
        "found",
        "standard error",
        "false",
        "at best",
        "as recorded",
    ]
    print(table(head, rows))


if __name__ == "__main__":
    main()
