"""Is a method ever worse than another, on any table, by more than noise?

Two methods are compared on a problem and goal by their runs with the same seeds and
budget: Student's t for the mean of the differences in quality. With a hundred
comparisons a few look like losses by luck, so the p-values are adjusted for their
number (Holm 1979): what is called a loss would come up in one of twenty such tables by
luck alone.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from asktell.simulation.simulation import holm, mean_below

LEAST_SEEDS = 5
LEVEL = 0.05


class Comparison(NamedTuple):
    """`ours` minus `other` on one problem, goal and budget: mean and standard error of the difference over seeds.

    `p`: of a difference this low or lower if there is none, one-sided; `adjusted`:
    Holm's, for all comparisons made.
    """

    ours: str
    other: str
    problem: str
    goal: str
    per_prompt: float
    difference: float
    error: float
    p: float
    adjusted: float = 1.0


def compare(
    lines: Iterable[dict[str, Any]], pairs: Sequence[tuple[str, str]]
) -> list[Comparison]:
    """A comparison of every pair wherever both methods ran with five seeds or more; the likeliest losses first."""
    runs: dict[tuple[str, str, float, str], dict[int, float]] = defaultdict(dict)
    for line in lines:
        if "refused" not in line:
            place = (line["problem"], line["goal"], line["per_prompt"], line["method"])
            runs[place][line["seed"]] = line["quality"]
    comparisons = []
    for ours, rival in pairs:
        for (problem, goal, b, method), qualities in runs.items():
            theirs = runs.get((problem, goal, b, rival), {})
            seeds = sorted(set(qualities) & set(theirs))
            if method == ours and len(seeds) >= LEAST_SEEDS:
                differences = np.array(
                    [qualities[seed] - theirs[seed] for seed in seeds]
                )
                comparisons.append(
                    Comparison(ours, rival, problem, goal, b, *mean_below(differences))
                )
    comparisons.sort(key=lambda comparison: comparison.p)
    adjusted = holm(np.array([comparison.p for comparison in comparisons]))
    return [
        comparison._replace(adjusted=float(a))
        for comparison, a in zip(comparisons, adjusted, strict=True)
    ]


def losses(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Those worse by more than noise."""
    return [comparison for comparison in comparisons if comparison.adjusted < LEVEL]
