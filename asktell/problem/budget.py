"""Budgets in evaluations and money, and the cost of evaluations."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

from asktell.errors import InvalidArgumentError
from asktell.problem.checks import (
    MOST_EVALUATIONS,
    check_max_cost,
    whole,
)
from asktell.problem.words import exact

FREE = (
    "Return the cost of each evaluation, or set a limit on evaluations, as in "
    "Budget(evaluations=200, cost=5.0)."
)
"""What to do if a budget is a cost and all evaluations are free."""
_LITTLE_MONEY = 0.01


@final
@dataclass(frozen=True)
class Budget:
    """A limit on evaluations, on cost, or both: `Selector(..., budget=asktell.Budget(cost=5.0))`.

    Args:
        evaluations: the largest number of evaluations. A plain number as `budget` means
            the same.
        cost: the largest total cost, in the unit of the recorded costs, such as
            dollars. Every `tell(trial, scores, cost=...)` then needs a cost.
        max_cost_per_evaluation: the largest possible cost of an evaluation. With it,
            the total never exceeds `cost`.

    With a limit on cost, each trial in progress has a reserve: a cost that is set aside
    for it. A new trial is assigned only if three parts together fit into `cost`: the
    recorded costs, the reserves of the trials in progress, and the reserve of the new
    trial.

    The reserve is `max_cost_per_evaluation`, if you pass it. Otherwise it is the larger
    of two costs: the prompt's highest cost so far, and the prompt's expected cost. The
    expected cost is the average of the prompt's costs so far, with the mean cost of all
    prompts as one more cost. For a prompt without a recorded cost, the reserve is the
    highest cost of any prompt. Until the first cost is recorded, only one trial is in
    progress at a time.

    Without `max_cost_per_evaluation`, a trial can cost more than its reserve, and the
    total can then exceed `cost`. The excess is at most the sum, over the trials in
    progress, of how much each of them costs more than its reserve.

    Raises:
        InvalidArgumentError: there is neither a number of evaluations nor a cost, a
            number is not above 0, or `max_cost_per_evaluation` is larger than `cost` or
            given without it.
    """

    evaluations: int | None = None
    cost: float | None = None
    max_cost_per_evaluation: float | None = None

    def __post_init__(self) -> None:
        if self.evaluations is None and self.cost is None:
            raise InvalidArgumentError(
                "Budget needs evaluations=..., cost=..., or both."
            )
        if self.evaluations is not None:
            vars(self)["evaluations"] = whole(
                "evaluations of Budget", self.evaluations, 1, MOST_EVALUATIONS
            )
        for name in ("cost", "max_cost_per_evaluation"):
            if (value := getattr(self, name)) is not None:
                vars(self)[name] = check_max_cost(f"{name} of Budget", value)
        if self.max_cost_per_evaluation is not None and self.cost is None:
            raise InvalidArgumentError(
                "max_cost_per_evaluation requires cost, such as Budget(cost=5, max_cost_per_evaluation=0.01)."
            )
        cost, most = self.cost, self.max_cost_per_evaluation or 0.0
        if cost is not None and most > cost:
            raise InvalidArgumentError(
                f"Budget(cost={exact(cost)}) is below max_cost_per_evaluation={exact(most)}, so no evaluation "
                "fits. Raise cost, or lower max_cost_per_evaluation."
            )


def describe_spending(selection: Any) -> str:
    """The spent part of the budget as text, such as "12 of 500 evaluations".

    If the cost is limited, it follows, as in "12 of 500 evaluations and a cost of 0.31
    of 5".

    Args:
        selection: a Selector, a Study or a Result.
    """
    spent, budget, max_cost = selection.spent, selection.budget, selection.max_cost
    if max_cost is None:
        return f"{spent} of {budget} evaluations"
    counted = (
        f"{spent} evaluations"
        if budget >= MOST_EVALUATIONS
        else f"{spent} of {budget} evaluations"
    )
    return f"{counted} and a cost of {selection.spent_cost:.4g} of {max_cost:.4g}"


def money_per(costs: Iterable[float | None]) -> int:
    """The number of evaluations to which displayed costs refer: 1,000 if one costs less than 0.01."""
    largest = max((abs(cost) for cost in costs if cost is not None), default=0.0)
    return 1000 if 0.0 < largest < _LITTLE_MONEY else 1
