"""The cheapest model that is not worse: is it found by a constraint relative to the best one?

`python -m benchmarks.selection.cheapest auto,csr 20` counts in how many of the seeds
each method selects the model of cost 1: six models of accuracy .9 .895 .89 .8 .7 .6 and
costs 10 5 1 .5 .2 .1, a margin of .03, 400 evaluations over 200 examples. Examples are
easy or hard for all models alike: of the variance of a latent ability, a part is the
example's, and accuracies are exact on the 200 examples.
"""

import sys
from typing import Any

import numpy as np

from asktell import BestFeasible, minimize, within
from asktell.simulation.simulate import run_once

ACCURACIES, COSTS = (0.9, 0.895, 0.89, 0.8, 0.7, 0.6), (10.0, 5.0, 1.0, 0.5, 0.2, 0.1)
GOAL = BestFeasible(minimize("cost"), {"accuracy": within(0.03)})
N_EXAMPLES, BUDGET, CHEAPEST = 200, 400, 2
# Of the variance; on recorded tables of 0 and 1, .4 to .75 of the scores' variance
OF_EXAMPLES = 0.9


def table(seed: int, part: float = OF_EXAMPLES) -> Any:
    """(6, 200, 2) costs, and scores of 0 and 1."""
    rng = np.random.default_rng(1000 + seed)
    common, residual = (
        rng.normal(size=N_EXAMPLES),
        rng.normal(size=(len(COSTS), N_EXAMPLES)),
    )
    ability = np.sqrt(part) * common + np.sqrt(1.0 - part) * residual
    right_ = np.zeros(ability.shape)
    for row, of_model, accuracy in zip(right_, ability, ACCURACIES, strict=True):
        row[np.argsort(-of_model)[: round(accuracy * N_EXAMPLES)]] = 1.0
    return np.stack(
        [np.repeat(np.array(COSTS)[:, None], N_EXAMPLES, axis=1), right_], axis=2
    )


def right(method: str, seed: int, part: float = OF_EXAMPLES) -> bool:
    """Whether a run selects the cheapest model within the margin."""
    return run_once(method, table(seed, part), GOAL, BUDGET, seed).answer[:1] == [
        CHEAPEST
    ]


if __name__ == "__main__":
    methods, n_seeds = sys.argv[1].split(","), int(sys.argv[2])
    for part in (0.6, 0.75, 0.9, 1.0):
        for method in methods:
            hits = sum(right(method, seed, part) for seed in range(n_seeds))
            print(
                f"{part:.0%} of the variance is the examples'. {method}: {hits} of {n_seeds}",
                flush=True,
            )
