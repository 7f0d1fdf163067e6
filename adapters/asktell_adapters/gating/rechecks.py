"""Rechecks: examples on which two prompts differ are evaluated again, to tell regressions from noise."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import asktell
from asktell import ChangedExample, EvaluatorError, Selector
from asktell.extend import Calling, at_state, attempt, goal_scores, outside_of_loops
from asktell_adapters.gating.rule import BASELINE, CANDIDATE

# Least number of rechecks before the examples in doubt are determined again
_AT_ONCE = 5
# An example whose false discovery rate is below the first or above the second is not
# rechecked. By simulation.
_SURE, _NOISE = 0.02, 0.97
# An improvement is rechecked before a regression only if its false discovery rate is
# lower by this.
_REGRESSIONS_FIRST = 0.15


class Rechecks:
    """Evaluates examples on which the candidate and the baseline differ again, to find the differences that hold.

    The verdict ignores these evaluations. Their examples were chosen because they
    differ, so the two means regress towards each other even if the candidate is worse.
    Only the lists of examples use them.
    """

    def __init__(self, selector: Selector, metric: str, max_cost: float | None) -> None:
        """Start with a selector of the candidate and the baseline, in that order, in its state at the verdict."""
        self._selector = at_state(selector, selector.state)
        self._candidate, self._baseline = selector.prompts.ids
        self._metric, self._max_cost = metric, max_cost
        self._cost_before = selector.spent_cost
        self._example_of = {
            name: i for i, name in enumerate(selector.example_ids or ())
        }
        self._failed: set[tuple[int, int]] = set()
        self.made = 0
        self._compare()

    def _compare(self) -> None:
        """Compare the two prompts by all evaluations so far."""
        self.comparison = self._selector.compare(self._candidate, self._baseline)

    @property
    def cost(self) -> float:
        """Cost of the rechecks."""
        return self._selector.spent_cost - self._cost_before

    @property
    def has_doubts(self) -> bool:
        """Whether it is in doubt on some example if the two prompts differ."""
        return bool(self._cells(1))

    def run(self, evaluator: Any, most: int, concurrency: int | None = None) -> None:
        """Make at most `most` evaluations, and update the comparison."""
        while self.made < most and (
            self._max_cost is None or self._selector.spent_cost < self._max_cost
        ):
            cells = self._cells(min(most - self.made, max(_AT_ONCE, concurrency or 1)))
            if not cells:
                return
            self._evaluate(evaluator, cells)
            self.made += len(cells)
            self._compare()

    def _cells(self, n: int) -> list[tuple[int, int, int]]:
        """At most n cells to evaluate next, as arm, example and number of earlier evaluations, most certain first.

        The prompt with fewer evaluations of an example is next. A difference by noise
        then often takes one evaluation.
        """
        in_doubt: list[tuple[float, int, int, int]] = []
        worse = self.comparison.regressions(1.0, self._metric)
        better = self.comparison.improvements(1.0, self._metric)
        for changed, handicap in ((worse, 0.0), (better, _REGRESSIONS_FIRST)):
            for change in changed:
                example = (
                    change.example
                    if isinstance(change.example, int)
                    else self._example_of[change.example]
                )
                of_candidate = change.evaluations_a <= change.evaluations_b
                arm, times = (
                    (CANDIDATE, change.evaluations_a)
                    if of_candidate
                    else (BASELINE, change.evaluations_b)
                )
                if _is_in_doubt(change) and (arm, example) not in self._failed:
                    in_doubt.append((change.false_rate + handicap, example, arm, times))
        return [
            (arm, example, times) for _, example, arm, times in sorted(in_doubt)[:n]
        ]

    def _evaluate(self, evaluator: Any, cells: Sequence[tuple[int, int, int]]) -> None:
        """Evaluate the cells, and record their scores beyond the budget."""
        prompts, beyond = self._selector.prompts, len(self._selector.state.history)
        trials = [
            prompts.trial(-1 - beyond - i, arm, example)
            for i, (arm, example, _) in enumerate(cells)
        ]
        repeats = {
            trial.id: times for trial, (_, _, times) in zip(trials, cells, strict=True)
        }
        for (arm, example, _), outcome in zip(
            cells, _outcomes(evaluator, trials, repeats), strict=True
        ):
            try:
                if isinstance(outcome, BaseException):
                    raise outcome
                scores, cost = goal_scores(self._selector, outcome)
                self._selector.observe(prompts.ids[arm], scores, example, cost)
            except (Exception, SystemExit):
                # The cell is not tried again: one example matters little in the lists
                self._failed.add((arm, example))


def _is_in_doubt(each: ChangedExample) -> bool:
    """Whether another evaluation may show if the difference is noise."""
    is_fresh = each.evaluations_a + each.evaluations_b <= 2
    return each.false_rate >= _SURE and (is_fresh or each.false_rate <= _NOISE)


def _outcomes(
    evaluator: Any, trials: list[asktell.Trial], repeats: Mapping[int, int]
) -> Sequence[Any]:
    """The outcome of the evaluator for each trial, or the exception that it raises."""
    how = Calling.of(evaluator)

    def repeat_of(trial: asktell.Trial) -> int:
        return repeats[trial.id]

    if how.in_batches:
        outcomes = attempt(how.call, *how.arguments(trials, repeat_of))
        if isinstance(outcomes, Sequence) and len(outcomes) == len(trials):
            return outcomes
        wrong = EvaluatorError(
            "evaluate_batch() did not return an outcome for each trial."
        )
        return [outcomes if isinstance(outcomes, BaseException) else wrong] * len(
            trials
        )
    if not how.is_async:
        return [
            attempt(how.call, *how.arguments([trial], repeat_of)) for trial in trials
        ]

    async def together() -> Sequence[Any]:
        calls = (how.call(*how.arguments([trial], repeat_of)) for trial in trials)
        return await asyncio.gather(*calls, return_exceptions=True)

    return outside_of_loops(together)
