"""How often the comparison of a judge with people is wrong, and how often it notices a judge that was replaced.

python -m benchmarks.selection.judge_labels --runs 1000

A world has K prompts and N examples. People's score of a cell is 0 or 1, or a grade from 0
to 1. The judge sees a noisy version of it, is more generous to some prompts and on some
examples than to others, and has a bias. People score n cells, either at random or most of
them of the better half of the prompts, as a selection does. The judge's scores are
recorded in a random order of the cells, or prompt by prompt as a file has them.

Columns: the share of runs in which an unchanged judge counts as changed; in which the 95%
interval has the true bias; of the prompts whose true mean is within 1.96 errors of the
posterior's estimate; and the share of runs in which a judge is noticed that became more
generous by 0.1 and by 0.2 after 30% to 70% of its scores.
"""

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np

from asktell import BestFeasible, maximize
from asktell.numerics.cells import Cells
from asktell.posterior.draws import Model
from asktell.posterior.proxies import CellScores, ProxyParts
from asktell.posterior.statement import statement
from asktell.results.labels import Agreement, Pairs, agreement

_PROMPTS, _EXAMPLES = 12, 100
_SIZES = (40, 60, 100, 200)


def world(
    rng: np.random.Generator, n: int, is_binary: bool, by_prompt: bool, own: float
) -> tuple[Pairs, dict[str, Any]]:
    """The scores of one run, and the truth. `own`: spread of the judge's bias over prompts and over examples."""
    shape = _PROMPTS, _EXAMPLES
    level = 0.5 + rng.normal(0, 0.1, (_PROMPTS, 1)) + rng.normal(0, 0.2, (1, _EXAMPLES))
    people = np.clip(level + rng.normal(0, 0.15, shape), 0, 1)
    if is_binary:
        people = (rng.random(shape) < people).astype(float)
    bias = 0.06 + rng.normal(0, own, (_PROMPTS, 1)) + rng.normal(0, own, (1, _EXAMPLES))
    judge = 0.6 * people + 0.2 + bias + rng.normal(0, 0.15, shape)
    cells = np.arange(people.size)
    if not by_prompt:
        rng.shuffle(cells)
    arms, examples = np.divmod(cells, _EXAMPLES)
    better = np.argsort(-people.mean(axis=1))[: _PROMPTS // 2]
    weights = np.where(np.isin(arms, better), 4.0, 1.0)
    chosen = rng.choice(len(cells), n, replace=False, p=weights / weights.sum())
    labels = np.full(len(cells), np.nan)
    labels[chosen] = people[arms[chosen], examples[chosen]]
    pairs = Pairs(arms, examples, judge[arms, examples], labels)
    truth = {
        # People label the better half more often, so the bias is that of the labeled cells.
        "bias": float(np.average((judge - people)[arms, examples], weights=weights)),
        "mean": float(people.mean()),
        "means": people.mean(axis=1),
    }
    return pairs, truth


def found(pairs: Pairs, shift: float = 0.0, after: float = 0.5) -> Agreement:
    """The comparison, with a judge that becomes more generous after a part of its scores."""
    later = np.arange(len(pairs.judge)) >= after * len(pairs.judge)
    judge = pairs.judge + shift * later
    moved = Pairs(pairs.arms, pairs.examples, judge, pairs.people)
    return agreement("judge", "human", moved, (-10.0, 10.0), None)


def share_within(pairs: Pairs, means: np.ndarray) -> float:
    """The share of prompts whose mean is within 1.96 errors of the posterior's estimate, with the judge as a proxy."""
    goal = BestFeasible(maximize("human", range=(0, 1)))
    size = _PROMPTS, _EXAMPLES
    some = pairs.of(pairs.both)
    cells = Cells.of(some.arms, some.examples, some.people[:, None], _EXAMPLES)
    judge = CellScores.of(pairs.arms, pairs.examples, pairs.judge, *size)
    known = statement(
        Model(cells, goal, [None], None, *size, 0, 0, None, ProxyParts.of([judge]))
    )
    off = (known.means[:, 0] - means) / known.errors[:, 0]
    return (abs(off) <= 1.96).mean()  # type: ignore[no-any-return]


def row(n: int, is_binary: bool, by_prompt: bool, own: float, runs: int) -> list[float]:
    """The shares of one kind of world."""
    counts = np.zeros(5)
    for run in range(runs):
        rng = np.random.default_rng([run, n, is_binary, by_prompt, int(1000 * own)])
        pairs, truth = world(rng, n, is_binary, by_prompt, own)
        same = found(pairs)
        assert same.interval is not None
        moved = [found(pairs, by, rng.uniform(0.3, 0.7)) for by in (0.1, 0.2)]
        counts += [
            same.change is not None,
            same.interval[0] <= truth["bias"] <= same.interval[1],
            share_within(pairs, truth["means"]),
            *(entry.change is not None for entry in moved),
        ]
    return list(counts / runs)


def rows(runs: int) -> Iterator[tuple[str, list[float]]]:
    """Every kind of world, in words, with its shares."""
    for is_binary in (True, False):
        for by_prompt in (False, True):
            for bias in (0.0, 0.05, 0.15):
                for n in _SIZES:
                    kind = "0 or 1" if is_binary else "grades"
                    order = "by prompt" if by_prompt else "random"
                    name = f"{kind:<7} {order:<10} {bias:<5} {n:>4}"
                    yield name, row(n, is_binary, by_prompt, bias, runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    print(
        "people  recorded   own   labels  false alarm  bias in interval  within 1.96  +0.1  +0.2"
    )
    for name, shares in rows(runs):
        print(name, *(f"{share:9.3f}" for share in shares), flush=True)


if __name__ == "__main__":
    main()
