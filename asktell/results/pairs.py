"""The scores that a result rests on, and two prompts compared by those of the same examples."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from asktell.arguments import short
from asktell.errors import InvalidArgumentError
from asktell.numerics.arrays import Indices, Means, Vector
from asktell.results.comparison import Comparison, Difference, check_confidence, compare
from asktell.state import History, Problem
from asktell.state.turns import in_turns

_IDS_SHOWN = 20

Place: TypeAlias = tuple[int, str | int]
Comparer: TypeAlias = Callable[[Place, Place, float, float], Comparison]
"""Two prompts, each its position and its id, a confidence and a tolerance -> how they compare."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """What was told, as it was when the result was made.

    `shared_order`: whether the method gives every prompt the examples of one order that does not depend on scores.
    """

    problem: Problem
    history: History
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
                minimize=metric in goal.minimized, random_order=in_order, repeats=self.problem.repeats,
            )  # fmt: skip
        return Comparison(id_a, id_b, confidence, differences, population, tolerance)

    def _weights(self, metric: int, places: Indices) -> Vector | None:
        """By which the differences' mean is one of the means over all examples; None where they count alike.

        On examples that were chosen because they divide prompts, two prompts differ by more than on all: by as often
        as the loadings say. The weights are those of least squares, of differences on loadings.
        """
        problem, shape = self.problem, self.problem.shapes[metric]
        if self.shared_order or shape is None or not 0 < len(places) < len(problem.order) or problem.is_noisy:
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
        _, turns, scores = in_turns(problem, trials, np.zeros(len(trials), dtype=np.int64), examples, scores)
        return turns, scores, True


def compare_two(
    comparer: Comparer | None,
    ids: Sequence[str | int],
    texts: Sequence[str],
    a: object,
    b: object,
    default: str | int | None,
    confidence: float,
    tolerance: float,
) -> Comparison:
    """Two prompts as somebody named them; see `Result.compare`. `default` is the id that stands for b if b is None."""
    check_confidence(confidence, tolerance)
    one = _find(ids, texts, a)
    if b is None and default is None:
        raise InvalidArgumentError("compare() needs b, since there is no baseline and nothing is selected yet.")
    other = _find(ids, texts, default if b is None else b)
    if one[0] == other[0]:
        what = "" if b is not None else " (by default b is the baseline, or else the selected prompt)"
        raise InvalidArgumentError(f"compare() needs two different prompts, got {short(a)} twice{what}.")
    if comparer is None:
        raise InvalidArgumentError(
            "This result holds no scores to compare prompts by: it was not made by a selector or a study here. "
            "RemoteStudy.compare(a, b) asks a service."
        )
    return comparer(one, other, confidence, tolerance)


def _find(ids: Sequence[str | int], texts: Sequence[str], prompt: object) -> Place:
    """A prompt by its id or its text; ids that are numbers may come as text."""
    if isinstance(prompt, str | int) and not isinstance(prompt, bool):
        named = enumerate(zip(ids, texts, strict=True))
        found = [(arm, id_) for arm, (id_, text) in named if prompt in (id_, str(id_), text)]
        if len(found) == 1:
            return found[0]
        if found:
            raise InvalidArgumentError(
                f"{short(prompt)} is the id of one prompt and the text of another. Say which: name the one by its "
                "text, or the other by its id."
            )
    known = ", ".join(short(id_) for id_ in ids[:_IDS_SHOWN])
    more = f", ... ({len(ids)} in all)" if len(ids) > _IDS_SHOWN else ""
    raise InvalidArgumentError(f"There is no prompt {short(prompt)}. Name one by its id or its text: {known}{more}.")
