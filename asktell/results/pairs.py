"""The scores that a result rests on, and two prompts compared by those of the same examples."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from asktell.arguments import short
from asktell.errors import InvalidArgumentError
from asktell.numerics.arrays import Indices, Means, Vector
from asktell.results.comparison import Comparison, Difference, check_confidence, compare
from asktell.results.premises import premises
from asktell.state import Failures, History, Problem
from asktell.state.repeated import repeated
from asktell.state.turns import in_turns
from asktell.trial import AnyPrompt, Prompts

Place: TypeAlias = tuple[int, str | int]
Comparer: TypeAlias = Callable[[Place, Place, float, float], Comparison]
"""Two prompts, each its position and its id, a confidence and a tolerance -> how they compare."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """What was told, as it was when the result was made.

    `seen`: the problem by what was seen, see `State.seen`. `shared_order`: whether the method gives every prompt the
    examples of one order that does not depend on scores.
    """

    problem: Problem
    seen: Problem
    history: History
    missing: Failures
    shared_order: bool

    def __call__(self, a: Place, b: Place, confidence: float, tolerance: float) -> Comparison:
        """Compare two prompts; the error is divided among the metrics."""
        goal, population = self.problem.goal, self.problem.population
        (arm_a, id_a), (arm_b, id_b) = a, b
        of_a, of_b, places, in_order = self._common(arm_a, arm_b)
        n_metrics = len(goal.metrics)
        each = confidence if n_metrics == 1 else 1 - (1 - confidence) / n_metrics
        differences: dict[str, Difference] = {}
        for j, metric in enumerate(goal.metrics):
            x, y, limits = of_a[:, j], of_b[:, j], goal.ranges.get(metric)
            if limits is not None and not all((limits[0] <= z).all() and (z <= limits[1]).all() for z in (x, y)):
                limits = None  # told before ranges were enforced
            if (weights := self._weights(j, places)) is not None:
                x, y, limits = weights * x, weights * y, None
            differences[metric] = compare(
                x, y,
                population=population, limits=limits, confidence=each, tolerance=tolerance,
                minimize=metric in goal.minimized, random_order=in_order, rounds=self.seen.rounds,
            )  # fmt: skip
        rests_on = premises(self.problem, repeated(self.problem, self.history), len(places), in_order=in_order)
        if not rests_on.guaranteed:
            differences = {name: replace(each, guaranteed=False) for name, each in differences.items()}
        return Comparison(id_a, id_b, confidence, differences, population, tolerance, rests_on.unless)

    def _weights(self, metric: int, places: Indices) -> Vector | None:
        """By which the differences' mean is one of the means over all examples; None where they count alike.

        On examples that were chosen because they divide prompts, two prompts differ by more than on all: by as often
        as the loadings say. The weights are those of least squares, of differences on loadings.
        """
        problem, shape = self.problem, self.problem.shapes[metric]
        if self.shared_order or shape is None or not 0 < len(places) < len(problem.order) or self.seen.is_noisy:
            return None
        examples = problem.order[places]
        loading, weights = shape.loading[examples], shape.loading[examples] / shape.residual[examples]
        told = float(weights @ loading)
        return weights * (len(places) / told) if told > 0.0 else None

    def _common(self, a: int, b: int) -> tuple[Means, Means, Indices, bool]:
        """Scores of both on their common examples, their places in the shared order, and whether that has no gap.

        A gap would be an example that was left out for what somebody scored, or failed, on it. Prompts that draw
        examples of their own are paired draw by draw.
        """
        (places_a, of_a, drawn_a), (places_b, of_b, drawn_b) = self._of(a), self._of(b)
        common, in_a, in_b = np.intersect1d(places_a, places_b, assume_unique=True, return_indices=True)
        without_gap = bool((common == np.arange(len(common))).all())
        return of_a[in_a], of_b[in_b], common, self.shared_order and drawn_a and drawn_b and without_gap

    def _of(self, arm: int) -> tuple[Indices, Means, bool]:
        """Places in the order and scores of one arm, and whether they were drawn by the method."""
        history, problem = self.history, self.problem
        mine = history.arms() == arm
        trials, examples, scores = history.trials()[mine], history.examples()[mine], history.scores()[mine]
        if problem.population is None:
            order = np.argsort(trials, kind="stable")
            return np.arange(len(order)), scores[order], bool((trials >= 0).all())
        arms = np.full(len(trials), arm, dtype=np.int64)
        _, turns, scores = in_turns(problem, self.missing, trials, arms, examples, scores)
        return turns, scores, True


def compare_two(
    comparer: Comparer | None,
    prompts: Prompts,
    a: AnyPrompt,
    b: AnyPrompt | None,
    default: int | None,
    confidence: float,
    tolerance: float,
) -> Comparison:
    """Two prompts as somebody named them; see `Result.compare`. `default` is the arm that stands for b if b is None."""
    check_confidence(confidence, tolerance)
    one = prompts.arm(a)
    other = default if b is None else prompts.arm(b)
    if other is None:
        raise InvalidArgumentError("compare() needs b, since there is no baseline and nothing is selected yet.")
    if one == other:
        what = "" if b is not None else " (by default b is the baseline, or else the selected prompt)"
        raise InvalidArgumentError(f"compare() needs two different prompts, got {short(a)} twice{what}.")
    if comparer is None:
        raise InvalidArgumentError(
            "This result holds no scores to compare prompts by: it was not made by a selector or a study here. "
            "RemoteStudy.compare(a, b) asks a service."
        )
    return comparer((one, prompts.ids[one]), (other, prompts.ids[other]), confidence, tolerance)
