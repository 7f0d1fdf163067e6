"""Loops that write prompts: `python -m benchmarks.selection.improving --tables FOLDER --seeds 20`.

The prompts that a real optimizer (CAPO) wrote, pool by pool, are a writer's proposals,
in random order: so many to begin with, and as many in every generation. All ways get
the same proposals, and as many evaluations for each generation; their answer is judged
by its true mean over all examples.

- `auto`, `race`: `asktell_adapters.optimizers.improve`, every prompt in one selection.
- `uniform`: every newcomer is evaluated on the same examples, those of the parents too,
  whose scores are kept; the best mean is the answer. As in most loops of prompt
  optimizers: one fixed part of the data.
- `fresh`: in every generation the parents (the best 4 so far) and the newcomers are
  evaluated on new examples, the same for all; the best of these are the next parents.

Prints, by evaluations per proposal, the true means, and the differences to `uniform` of
the same pool and seed, with their standard errors over seeds within pools, and over the
pools.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import asktell
from asktell.numerics import counters
from asktell_adapters.optimizers import improve
from asktell_adapters.optimizers.briefs import Brief
from benchmarks.problems.replay import default_folder, replay_names, replay_table
from benchmarks.problems.table import Array

WAYS = ("auto", "race", "uniform", "fresh")
_CANDIDATES, _PARENTS = 8, 4


def run(
    scores: Array, way: str, n_generations: int, b: int, seed: int
) -> tuple[int, int]:
    """The answer, a row of `scores`, and what was spent, with b evaluations for each proposal.

    Args:
        scores: (K, N) of the prompts of a pool.
        way: one of WAYS.
        n_generations: the first one included.
        b: evaluations per proposal.
        seed: of the order of proposals and of examples.
    """
    order = counters.permutation(seed, "proposals", len(scores))[
        : n_generations * _CANDIDATES
    ]
    generations = [part.tolist() for part in np.split(order, n_generations)]
    examples = counters.permutation(seed, "examples", scores.shape[1])
    per_generation = b * _CANDIDATES
    if way == "uniform":
        means = scores[order][:, examples[:b]].mean(axis=1)
        return int(order[means.argmax()]), b * len(order)
    if way == "fresh":
        return _fresh(scores, generations, examples, per_generation)
    waiting: Iterator[list[int]] = iter(generations[1:])

    def writer(brief: Brief) -> list[str]:
        return [str(arm) for arm in next(waiting, [])]

    selector = asktell.Selector(
        [str(arm) for arm in generations[0]],
        asktell.BestFeasible(asktell.maximize("score", range=(0, 1))),
        per_generation,
        way,
        examples=scores.shape[1],
        seed=seed,
    )
    improvement = improve(
        selector,
        lambda prompt, example: float(scores[int(prompt), example]),
        writer,
        budget=n_generations * per_generation,
        candidates=_CANDIDATES,
        parents=_PARENTS,
        patience=None,
        progress=False,
    )
    return int(improvement.result.selected[0].prompt), improvement.result.spent


def _fresh(
    scores: Array, generations: list[list[int]], examples: Array, each: int
) -> tuple[int, int]:
    parents: list[int] = []
    seen, spent = 0, 0
    for newcomers in generations:
        arms = [*parents, *newcomers]
        now = examples[seen : seen + each // len(arms)]
        means = scores[arms][:, now].mean(axis=1)
        parents = [arms[i] for i in np.argsort(-means, kind="stable")[:_PARENTS]]
        seen, spent = seen + len(now), spent + len(arms) * len(now)
    return parents[0], spent


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
    parser.add_argument("--seeds", type=int, default=20, help="default: %(default)s")
    parser.add_argument(
        "--generations",
        type=int,
        default=5,
        help="the first included (default: %(default)s)",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=10.0,
        help="no seed begins later (default: %(default)s)",
    )
    parser.add_argument("--output", type=Path, help="write a JSON line per run")
    arguments = parser.parse_args(argv)
    pools = {}
    for name in replay_names(arguments.tables):
        if name.startswith("capo/"):
            table = replay_table(name, arguments.tables, n_arms=10**6)
            if len(table.prompts) >= arguments.generations * _CANDIDATES:
                pools[name] = table.scores[:, :, 0]
    lines: list[dict[str, Any]] = []
    end = time.monotonic() + 60 * arguments.minutes
    for seed in tqdm(range(arguments.seeds), unit="seed"):
        if time.monotonic() > end:
            break
        for name, scores in pools.items():
            truth = scores.mean(axis=1)
            for b in (5, 10, 20):
                line: dict[str, Any] = {"pool": name, "b": b, "seed": seed}
                for way in WAYS:
                    answer, spent = run(scores, way, arguments.generations, b, seed)
                    line |= {way: float(truth[answer]), f"{way} spent": spent}
                lines.append(line)
                if arguments.output is not None:
                    with arguments.output.open("a") as file:
                        file.write(json.dumps(line) + "\n")
    seeds = len({line["seed"] for line in lines})
    print(
        f"{len(pools)} pools, {seeds} seeds, {arguments.generations} generations of {_CANDIDATES}"
    )
    for b in (5, 10, 20):
        for way in WAYS:
            print(
                _summary(
                    f"b = {b}, {way}", way, [line for line in lines if line["b"] == b]
                )
            )


def _summary(what: str, way: str, lines: list[dict[str, Any]]) -> str:
    pools = sorted({line["pool"] for line in lines})
    rows = [
        np.array(
            [line[way] - line["uniform"] for line in lines if line["pool"] == pool]
        )
        for pool in pools
    ]
    means = np.array([row.mean() for row in rows])
    within = float(
        np.sqrt(sum(row.var(ddof=1) / len(row) for row in rows if len(row) > 1))
    ) / len(rows)
    over = (
        float(means.std(ddof=1) / np.sqrt(len(means)))
        if len(means) > 1
        else float("nan")
    )
    mean = np.mean([line[way] for line in lines])
    spent = np.mean([line[f"{way} spent"] for line in lines])
    return (
        f"{what}: {mean:.4f}; to uniform {means.mean():+.4f} +- {within:.4f} (seeds), +- {over:.4f} (pools); "
        f"{spent:.0f} evaluations"
    )


if __name__ == "__main__":
    main()
