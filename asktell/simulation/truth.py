"""How good an answer is, by the means of all recorded scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from asktell.numerics.arrays import Draws, Mask, Means, Values, Vector
from asktell.numerics.pareto import pareto_mask
from asktell.problem.goals import BestFeasible, Goal
from asktell.results.result import hypervolume


def means_of(
    scores: Draws, goal: Goal, segments: Sequence[str] | None = None
) -> tuple[Goal, Means]:
    """The goal for means in these segments, and the means (K, c) that its `values` takes, of scores (K, N, m).

    A cell with a NaN is a failed evaluation: means are over the others, and it counts
    in the failure rate. A prompt whose evaluations all failed has NaN. Of scores (K, N,
    m, R) all R evaluations of a cell count.
    """
    if scores.ndim == 4:
        k, n, m, r = scores.shape
        scores = np.moveaxis(scores, 3, 2).reshape(k, n * r, m)
        segments = None if segments is None else np.repeat(list(segments), r).tolist()
    k, n, m = scores.shape
    failed = np.asarray(np.isnan(scores).any(axis=2))
    every = goal.complete(scores.reshape(k * n, m)).reshape(k, n, -1)
    every = np.where(failed[:, :, None], np.nan, every)
    means = _mean(every)
    if goal.counts_failures:
        means[:, -1] = failed.mean(axis=1)
        every[:, :, -1] = failed
    if segments is None or not goal.by_segment:
        return goal, means
    labels, names = np.asarray(segments), sorted(set(segments))
    goal = goal.with_segments(len(names))
    parts = [
        _mean(every[:, labels == names[kind]][:, :, [column]])
        for column, kind in goal.subsets
    ]
    return goal, np.concatenate((means, *parts), axis=1)


def _mean(cells: Draws) -> Means:
    known = ~np.isnan(cells)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, cells, 0.0).sum(axis=1) / known.sum(axis=1))


@final
@dataclass(frozen=True, eq=False)
class Truth:
    """What is true of the prompts: `means` (K, c) of the goal's columns; NaN for a prompt of which nothing is known.

    Bounds that are relative to the best prompt are so to the one that is truly the
    best.
    """

    goal: Goal
    means: Means

    @cached_property
    def values(self) -> Values:
        """(K, q) the objectives, larger is better, then a slack per constraint: 0 or more where it is kept."""
        return self.goal.values(self.means)

    @property
    def objectives(self) -> Values:
        """(K, o) the objectives, larger is better."""
        return self.values[:, : len(self.goal.objectives)]

    @property
    def slack(self) -> Vector:
        """(K,) the least slack of the constraints; infinite if there is none."""
        return np.asarray(
            self.values[:, len(self.goal.objectives) :].min(axis=1, initial=np.inf)
        )

    @cached_property
    def feasible(self) -> Mask:
        """(K,) which prompts keep the constraints."""
        return np.asarray(np.isfinite(self.values).all(axis=1) & (self.slack >= 0))

    @cached_property
    def front(self) -> Mask:
        """(K,) which prompts are feasible, and dominated by none that is."""
        front = self.feasible.copy()
        front[front] = pareto_mask(self.objectives[front])
        return front

    def judge(self, answer: Sequence[int]) -> dict[str, float]:
        """How good an answer is, positions of prompts; `quality` is from 0 to 1, and 1 is right.

        Of `BestFeasible` the first prompt counts:

        - `quality`: 0 if infeasible, else 1 - (best - chosen) / (best - median) over
          the feasible prompts, at least 0.
        - `regret`: how far its objective is behind the best feasible one's, in the
          metric's units; 0 if ahead. Of no answer, the worst prompt's.
        - `violation`: how far a constraint is missed, in units of its scale;
          `infeasible`: whether one is.
        - `identified`: whether it is the best.

        Of `ParetoSet` the whole answer counts:

        - `hypervolume`: of the answer's feasible prompts over that of the true Pareto
          set, from the worst value of each objective among all feasible prompts, in
          units of its range. It never falls when more are returned.
        - `precision`, `recall`, `f1` of the set, its `size`, and how many of it are
          `infeasible`.
        - `quality`: the mean of hypervolume and F1; 0 if nothing feasible was returned.
          `regret`: 1 - hypervolume.

        Raises:
            MissingExtraError: pymoo is missing, for a hypervolume.
        """
        return (
            self._of_best(answer)
            if isinstance(self.goal, BestFeasible)
            else self._of_set(answer)
        )

    def _of_best(self, answer: Sequence[int]) -> dict[str, float]:
        objective, feasible = self.values[:, 0], self.feasible
        best, median = (
            float(objective[feasible].max()),
            float(np.median(objective[feasible])),
        )
        if not len(answer):
            return {
                "quality": 0.0,
                "regret": best - float(np.nanmin(objective)),
                "infeasible": 1.0,
                "identified": 0.0,
            }
        arm = answer[0]
        chosen, keeps = float(objective[arm]), bool(feasible[arm])
        quality = (
            max(0.0, 1.0 - (best - chosen) / (best - median))
            if best > median
            else float(chosen >= best)
        )
        return {
            "quality": quality * keeps,
            "regret": max(0.0, best - chosen),
            "violation": max(0.0, -float(self.slack[arm])),
            "infeasible": float(not keeps),
            "identified": float(keeps and chosen >= best),
        }

    def _of_set(self, answer: Sequence[int]) -> dict[str, float]:
        chosen = np.zeros(len(self.front), dtype=bool)
        chosen[list(answer)] = True
        hits = float((chosen & self.front).sum())
        volume = self._hypervolume(chosen & self.feasible)
        f1 = 2 * hits / (chosen.sum() + self.front.sum())
        return {
            "quality": float((volume + f1) / 2),
            "regret": 1.0 - volume,
            "hypervolume": volume,
            "f1": float(f1),
            "precision": float(hits / chosen.sum() if chosen.any() else 0.0),
            "recall": float(hits / self.front.sum()),
            "size": float(chosen.sum()),
            **(
                {"infeasible": float((chosen & ~self.feasible).sum())}
                if self.goal.is_constrained
                else {}
            ),
        }

    def _hypervolume(self, chosen: Mask) -> float:
        """The volume that the chosen prompts dominate, over the one that the true front dominates."""
        among = self.objectives[self.feasible]
        low, high = among.min(axis=0), among.max(axis=0)
        unit = (self.objectives - low) / np.where(high > low, high - low, 1.0)
        unit = unit[:, high > low]  # a constant metric tells nothing
        if not unit.shape[1]:
            return float(chosen.any())
        worst = np.zeros(unit.shape[1])
        whole = hypervolume(unit[self.front], worst)
        if whole == 0.0:
            return float((chosen & self.front).any())
        return hypervolume(unit[chosen], worst) / whole
