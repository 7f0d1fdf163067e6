"""Recorded scores, handed out as if they were just evaluated."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from asktell.errors import InvalidArgumentError
from asktell.numerics import counters
from asktell.problem.checks import short
from asktell.problem.goals import Goal
from asktell.results.result import Result
from asktell.selector import Selector

Array = npt.NDArray[np.float64]


def by_chance(scores: Array, seed: int) -> Array:
    """Scores (K, N, m, R) with the R evaluations of each cell in an order by chance; scores (K, N, m) as they are."""
    if scores.ndim == 3:
        return scores
    k, n, _, r = scores.shape
    arms, examples, numbers = np.ix_(np.arange(k), np.arange(n), np.arange(r))
    order = np.argsort(
        counters.bits(seed, "recorded repeats", arms, examples, numbers),
        axis=2,
        kind="stable",
    )
    return np.take_along_axis(scores, order[:, :, None], axis=3)


def play(selector: Selector, scores: Array, until: int | None = None) -> Result:
    """Run a selector to its end (or to `until` evaluations) on scores (K, N, m); NaN is an evaluation that failed.

    Of scores (K, N, m, R) the first evaluation of a cell takes the first of R, the next
    one the second, and so on, and the one after the last the first again. The prompts'
    ids are their rows, as those of a sequence of texts are.
    """
    numbered = scores if scores.ndim == 4 else scores[..., None]
    times = Counter[tuple[int, int]]()
    while (until is None or selector.spent < until) and (trial := selector.ask()):
        cell = int(trial.prompt_id), trial.example or 0
        row = numbered[*cell, :, times[cell] % numbered.shape[3]].tolist()
        times[cell] += 1
        if any(map(math.isnan, row)):
            selector.fail(trial, "recorded as a failure")
        else:
            selector.tell(trial, row)
    return selector.result()


@final
class Replay:
    """What a rival sees: prompts by row and examples by column, to be evaluated until the budget is spent.

    Attributes:
        n_prompts, n_examples: K and N.
        repeats: how often a prompt may be evaluated on an example; None where each
            evaluation gives the same scores, and so may come again at will.
        goal: what to find. `goal.values(means)` makes objectives, larger is better, and
            slacks, of means (K, m).
        budget, spent: evaluations allowed, and made so far.
        order: (N,) examples in the order of the seed, in which asktell's methods look
            at them: comparisons are paired.
        features, segments: as given to `simulate`.
    """

    def __init__(
        self,
        scores: Array,
        goal: Goal,
        budget: int,
        seed: int,
        features: Array | None = None,
        segments: Sequence[str] | None = None,
    ) -> None:
        self._scores = scores
        self._times = Counter[tuple[int, int]]()
        self.goal, self.budget, self.spent = goal, budget, 0
        self.n_prompts, self.n_examples = scores.shape[:2]
        self.repeats = scores.shape[3] if scores.ndim == 4 else None
        self.order = counters.permutation(seed, "example order", self.n_examples)
        self.features, self.segments = features, segments

    @property
    def left(self) -> int:
        """Evaluations that the budget still allows."""
        return self.budget - self.spent

    def evaluate(self, prompt: int, example: int) -> list[float] | None:
        """Scores in the goal's order of metrics; None if the evaluation failed, which costs no budget.

        Raises:
            InvalidArgumentError: the budget is spent, there is no such prompt or
                example, or the prompt was evaluated on it `repeats` times already.
        """
        if self.left <= 0:
            raise InvalidArgumentError(
                f"The budget of {self.budget} evaluations is spent; end when `left` is 0."
            )
        for name, at, n in (
            ("prompt", prompt, self.n_prompts),
            ("example", example, self.n_examples),
        ):
            if not 0 <= at < n:
                raise InvalidArgumentError(
                    f"The {name} must be a position from 0 to {n - 1}, got {short(at)}."
                )
        scores = self._scores[prompt, example]
        if self.repeats is not None:
            number = self._times[prompt, example]
            if number == self.repeats:
                raise InvalidArgumentError(
                    f"Prompt {prompt} was evaluated on example {example} {number} time{'s' * (number > 1)} already, "
                    "and no further evaluation of it may be taken: evaluate it on another example."
                )
            self._times[prompt, example] += 1
            scores = scores[:, number]
        row: list[float] = scores.tolist()
        if any(map(math.isnan, row)):
            return None
        self.spent += 1
        return row
