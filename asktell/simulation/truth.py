"""The quality of selected prompts, by the means of all recorded scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from asktell.numerics.arrays import Bools, Floats
from asktell.numerics.pareto import pareto_mask
from asktell.numerics.shapes import Bool, Float
from asktell.problem.goals import BestFeasible, Goal
from asktell.results.result import hypervolume


def means_of(
    scores: Float[Floats, "arms examples metrics *repeats"],
    goal: Goal,
    segments: Sequence[str] | None = None,
) -> tuple[Goal, Float[Floats, "arms columns"]]:
    """The goal for means in these segments, and the means of its columns.

    A cell with a NaN is a failed evaluation. It counts in the failure rate, and the
    means are over the other cells. The mean of a prompt is NaN if all its evaluations
    failed.

    Args:
        scores: scores (K, N, m), or (K, N, m, R) with R evaluations of each cell, which
            all count.
        goal: the goal.
        segments: the label of each example's segment.
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


def _mean(
    cells: Float[Floats, "arms examples metrics"],
) -> Float[Floats, "arms metrics"]:
    """Means over the examples, without NaN. NaN where a prompt has no score."""
    is_scored = ~np.isnan(cells)
    with np.errstate(invalid="ignore"):
        return np.asarray(
            np.where(is_scored, cells, 0.0).sum(axis=1) / is_scored.sum(axis=1)
        )


@final
@dataclass(frozen=True, eq=False)
class Truth:
    """The true values of all prompts, and a judge of selections. The means of all recorded scores count as the truth.

    A bound relative to the best prompt uses the truly best prompt.

    Attributes:
        goal: the goal.
        means: the true means of the K prompts in the c columns `goal.columns`, shape
            (K, c). NaN for a prompt without scores.
    """

    goal: Goal
    means: Float[Floats, "arms columns"]

    @cached_property
    def values(self) -> Float[Floats, "arms values"]:
        """The values of each prompt where larger is better, shape (K, q).

        The objectives come first, then a slack for each constraint. A slack of 0 or
        more satisfies the constraint. See `goal.values`.
        """
        return self.goal.values(self.means)

    @property
    def objectives(self) -> Float[Floats, "arms objectives"]:
        """The values of the objectives of each prompt. Larger is better."""
        return self.values[:, : len(self.goal.objectives)]

    @property
    def slack(self) -> Float[Floats, " arms"]:
        """The smallest slack of each prompt over all constraints. Infinite without constraints."""
        return np.asarray(
            self.values[:, len(self.goal.objectives) :].min(axis=1, initial=np.inf)
        )

    @cached_property
    def feasible(self) -> Bool[Bools, " arms"]:
        """True for each prompt that satisfies every constraint."""
        return np.asarray(np.isfinite(self.values).all(axis=1) & (self.slack >= 0))

    @cached_property
    def front(self) -> Bool[Bools, " arms"]:
        """True for each prompt in the Pareto set: the feasible prompts that no feasible prompt dominates."""
        front = self.feasible.copy()
        front[front] = pareto_mask(self.objectives[front])
        return front

    def judge(self, answer: Sequence[int]) -> dict[str, float]:
        """Judge the selected prompts. The `quality` is from 0 to 1, and 1 is the best possible selection.

        For `BestFeasible`, only the first selected prompt counts:

        - `quality`: 1 - (best - selected) / (best - median), at least 0. Best and
          median are those of the objective over all feasible prompts. 0 if the selected
          prompt is infeasible.
        - `regret`: how much worse the objective of the selected prompt is than that of
          the best feasible prompt, in the metric's units. 0 if it is better, which is
          possible for an infeasible prompt. If no prompt is selected, the regret of the
          worst prompt.
        - `violation`: by how much the selected prompt violates a constraint. The
          largest violation counts, divided by the width of the metric's range, if a
          range is declared.
        - `infeasible`: 1 if the selected prompt violates a constraint, else 0.
        - `identified`: 1 if the selected prompt is the best feasible prompt, else 0.

        For `ParetoSet`, all selected prompts count:

        - `hypervolume`: the hypervolume of the selected feasible prompts, divided by
          the hypervolume of the true Pareto set. The reference point has the worst
          value of each objective among all feasible prompts. Each objective is divided
          by the difference between its best and its worst value among them. The
          hypervolume never falls if more prompts are selected.
        - `precision`: the share of the selected prompts that belong to the true Pareto
          set.
        - `recall`: the share of the true Pareto set that is selected.
        - `f1`: the harmonic mean of precision and recall.
        - `size`: the number of selected prompts.
        - `infeasible`: the number of selected prompts that violate a constraint.
        - `quality`: the mean of hypervolume and F1. 0 if no selected prompt is
          feasible.
        - `regret`: 1 - hypervolume.

        Args:
            answer: the positions of the selected prompts, the best first.

        Raises:
            MissingExtraError: pymoo is missing, which a hypervolume needs.
        """
        return (
            self._measures_of_best(answer)
            if isinstance(self.goal, BestFeasible)
            else self._measures_of_set(answer)
        )

    def _measures_of_best(self, answer: Sequence[int]) -> dict[str, float]:
        objective, feasible = self.values[:, 0], self.feasible
        best = float(objective[feasible].max())
        median = float(np.median(objective[feasible]))
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

    def _measures_of_set(self, answer: Sequence[int]) -> dict[str, float]:
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

    def _hypervolume(self, chosen: Bool[Bools, " arms"]) -> float:
        """The volume that the chosen prompts dominate, divided by the volume of the true Pareto set."""
        among = self.objectives[self.feasible]
        low, high = among.min(axis=0), among.max(axis=0)
        unit = (self.objectives - low) / np.where(high > low, high - low, 1.0)
        unit = unit[:, high > low]  # a constant objective has no range
        if not unit.shape[1]:
            return float(chosen.any())
        worst = np.zeros(unit.shape[1])
        whole = hypervolume(unit[self.front], worst)
        if whole == 0.0:
            return float((chosen & self.front).any())
        return hypervolume(unit[chosen], worst) / whole
