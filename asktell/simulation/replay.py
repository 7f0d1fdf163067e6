"""Recorded scores, handed out as if they were just evaluated."""

import math
from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from asktell.errors import InvalidArgumentError
from asktell.numerics import counters
from asktell.problem.checks import short
from asktell.problem.goals import Goal
from asktell.results import Result
from asktell.selector import Selector

Array = npt.NDArray[np.float64]


def play(selector: Selector, scores: Array, until: int | None = None) -> Result:
    """Run a selector to its end (or to `until` evaluations) on scores (K, N, m); NaN is an evaluation that failed.

    The prompts' ids are their rows, as those of a sequence of texts are.
    """
    while (until is None or selector.spent < until) and (trial := selector.ask()):
        row = scores[int(trial.prompt_id), trial.example or 0].tolist()
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
        goal: what to find. `goal.values(means)` makes objectives, larger is better, and slacks, of means (K, m).
        budget, spent: evaluations allowed, and made so far.
        order: (N,) examples in the order of the seed, in which asktell's methods look at them: comparisons are paired.
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
        self.goal, self.budget, self.spent = goal, budget, 0
        self.n_prompts, self.n_examples, _ = scores.shape
        self.order = counters.permutation(seed, "example order", self.n_examples)
        self.features, self.segments = features, segments

    @property
    def left(self) -> int:
        """Evaluations that the budget still allows."""
        return self.budget - self.spent

    def evaluate(self, prompt: int, example: int) -> list[float] | None:
        """Scores in the goal's order of metrics; None if the evaluation failed, which costs no budget.

        Raises:
            InvalidArgumentError: the budget is spent, or there is no such prompt or example.
        """
        if self.left <= 0:
            raise InvalidArgumentError(f"The budget of {self.budget} evaluations is spent; end when `left` is 0.")
        for name, at, n in (("prompt", prompt, self.n_prompts), ("example", example, self.n_examples)):
            if not 0 <= at < n:
                raise InvalidArgumentError(f"The {name} must be a position from 0 to {n - 1}, got {short(at)}.")
        row: list[float] = self._scores[prompt, example].tolist()
        if any(map(math.isnan, row)):
            return None
        self.spent += 1
        return row
