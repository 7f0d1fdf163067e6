"""Recorded scores, replayed as if they were evaluated now."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import final

import numpy as np

from asktell.errors import InvalidArgumentError
from asktell.numerics import counters
from asktell.numerics.arrays import Floats
from asktell.problem.goals import Goal
from asktell.problem.words import short
from asktell.results.result import Result
from asktell.selector import Selector


def by_chance(scores: Floats, seed: int) -> Floats:
    """Scores (K, N, m, R) with the R evaluations of each cell in a random order. Scores (K, N, m) are unchanged."""
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


def play(selector: Selector, scores: Floats, until: int | None = None) -> Result:
    """Run a selector to its end on recorded scores.

    Args:
        selector: a selector whose prompt ids are rows of the scores, as they are for a
            sequence of texts.
        scores: scores (K, N, m), where NaN is a failed evaluation. With scores (K, N,
            m, R), evaluations of a cell take the R scores in turn, and start again
            after the last.
        until: the number of evaluations after which the run ends, by default none.
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
    """The argument `problem` that `simulate` passes to a function of your own.

    The function evaluates prompts with it until the budget is spent. Prompts are rows
    of the recorded scores, and examples are columns.

    Attributes:
        n_prompts: the number of prompts, K.
        n_examples: the number of examples, N.
        repeats: how often a prompt may be evaluated on the same example. None if any
            number is allowed, because every evaluation gives the same scores.
        goal: the goal. `goal.values(means)` turns means (K, m) into values where larger
            is better: objectives, then slacks of constraints.
        budget: the maximum number of evaluations.
        spent: the number of evaluations so far.
        order: the N examples in a random order, which depends on the seed. asktell's
            methods use the same order. If your function does so, too, the comparison of
            the methods is fairer.
        features: numbers that describe the prompts, as given to `simulate`.
        segments: the labels of the examples, as given to `simulate`.
    """

    def __init__(
        self,
        scores: Floats,
        goal: Goal,
        budget: int,
        seed: int,
        features: Floats | None = None,
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
        """The remaining number of evaluations."""
        return self.budget - self.spent

    def evaluate(self, prompt: int, example: int) -> list[float] | None:
        """The recorded scores of a prompt on an example, in the order of `goal.metrics`.

        None if the evaluation failed. A failed evaluation does not count against the
        budget.

        Args:
            prompt: the row of the prompt, from 0.
            example: the column of the example, from 0.

        Raises:
            InvalidArgumentError: the budget is spent, the prompt or the example does
                not exist, or the prompt was already evaluated `repeats` times on this
                example.
        """
        if self.left <= 0:
            raise InvalidArgumentError(
                f"The budget of {self.budget:,} evaluations is spent. Stop when `left` is 0."
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
                    f"Prompt {prompt} was already evaluated {number} time{'s' * (number > 1)} on example {example}, "
                    "which is the most that this simulation allows. Choose another example."
                )
            self._times[prompt, example] += 1
            scores = scores[:, number]
        row: list[float] = scores.tolist()
        if any(map(math.isnan, row)):
            return None
        self.spent += 1
        return row
