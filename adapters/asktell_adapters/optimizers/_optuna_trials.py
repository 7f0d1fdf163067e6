"""Translates trials of an Optuna study to prompt, example and scores."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from asktell import (
    AsktellError,
    BestFeasible,
    IncompatibleMethodError,
    InvalidArgumentError,
    ParetoSet,
    at_most,
    maximize,
    minimize,
)
from asktell.extend import Goal, State, needs_extra, short

with needs_extra("optuna"):
    from optuna import Study
    from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
    from optuna.study import StudyDirection
    from optuna.trial import FrozenTrial, TrialState


class Outcome(NamedTuple):
    """What became of a finished trial: scores in the goal's order, or the reason why there are none."""

    scores: tuple[float, ...] | None
    reason: str
    cost: float | None


class Reader:
    """Reads trials of a study whose directions and metric names go with the goal.

    `prompts` are in the selector's order; `prompt` and `example` are the names of the parameters that choose them.
    """

    def __init__(self, study: Study, prompts: Mapping[str | int, str], state: State, prompt: str, example: str) -> None:
        problem, goal = state.problem, state.problem.goal
        self.values = value_names(study, goal)
        self.goal = goal
        self.ids = list(prompts)
        self.n_examples = problem.n_examples
        self.prompt = prompt
        self.example = example
        self.parameters = (prompt,) if problem.n_examples is None else (prompt, example)
        self.with_cost = problem.max_cost is not None
        self._arms: dict[object, int] = {text: arm for arm, text in enumerate(prompts.values())}
        self._arms.update({id_: arm for arm, id_ in enumerate(prompts)})
        self._slacks = {c.metric for c in goal.constraints if c.at_most and c.bound == 0}
        self._besides = [metric for metric in goal.metrics if metric not in self.values]

    # Parameters

    def arm(self, prompt: object) -> int:
        if prompt not in self._arms:
            raise InvalidArgumentError(
                f"A trial's {self.prompt!r} is {short(prompt)}, which is neither id nor text of one of the selector's "
                f"{len(self.ids)} prompts."
            )
        return self._arms[prompt]

    def cell(self, trial: FrozenTrial) -> tuple[int, int | None]:
        arm = self.arm(trial.params[self.prompt])
        if self.n_examples is None or self.example not in trial.params:
            return arm, None
        choices = self._examples(trial.distributions[self.example])
        return arm, choices.index(trial.params[self.example])

    def choice(self, parameter: str, distribution: BaseDistribution, arm: int, example: int | None) -> Any:
        """The value of a parameter that stands for the arm, or for the example."""
        if parameter == self.example:
            assert example is not None
            return self._examples(distribution)[example]
        choices = _choices(parameter, distribution)
        value = {self._arms.get(choice): choice for choice in choices}
        missing = [id_ for number, id_ in enumerate(self.ids) if number not in value]
        if None in value or missing:
            unknown = [choice for choice in choices if choice not in self._arms]
            raise InvalidArgumentError(
                f"The parameter {parameter!r} must offer the ids (or the texts) of the selector's prompts, all of "
                f"them; unknown are {short(unknown)}, missing are {short(missing)}."
            )
        return value[arm]

    def _examples(self, distribution: BaseDistribution) -> Sequence[Any]:
        choices = _choices(self.example, distribution)
        if len(choices) != self.n_examples:
            raise InvalidArgumentError(
                f"The parameter {self.example!r} offers {len(choices)} examples, but the selector was made with "
                f"examples={self.n_examples}."
            )
        return choices

    # Scores

    def outcome(self, trial: FrozenTrial) -> Outcome:
        """The scores of a finished trial, or why there are none. A pruned one counts by its last value."""
        try:
            cost = self._cost(trial)
            if trial.state == TrialState.FAIL:
                return Outcome(None, f"trial {trial.number} failed", cost)
            if trial.values is None:
                return Outcome(None, f"trial {trial.number} was pruned before it had a value", cost)
            scores = self.goal.vector(self._known(trial))
        except AsktellError as error:
            return Outcome(None, f"trial {trial.number}: {error}", None)
        if self.with_cost and cost is None:
            return Outcome(None, f"trial {trial.number} has no user attribute 'cost', but the budget is a cost", None)
        return Outcome(scores, "", cost)

    def check(self, trial: FrozenTrial) -> None:
        """See, of a trial that was just evaluated, whether objective and selector go together.

        One with neither prompt nor example is another sampler's.
        """
        if trial.values is None or not any(parameter in trial.params for parameter in self.parameters):
            return
        if any(parameter not in trial.params for parameter in self.parameters):
            raise InvalidArgumentError(
                f"Trial {trial.number} has the parameters {sorted(trial.params)}, but the selector chooses "
                f"{list(self.parameters)}. A selector made with examples=None leaves the examples to the objective."
            )
        self._known(trial)

    def _known(self, trial: FrozenTrial) -> dict[str, Any]:
        """Scores by metric, as far as they are there."""
        known: dict[str, Any] = dict(zip(self.values, trial.values, strict=False))
        constraints: dict[str, float] = getattr(trial, "constraints", {})  # Optuna 4 has none
        for metric in self._besides:
            if metric in constraints and metric in self._slacks:
                known[metric] = constraints[metric]
            elif metric in trial.user_attrs:
                known[metric] = trial.user_attrs[metric]
            elif metric in constraints:
                raise InvalidArgumentError(
                    f"Trial {trial.number} has the constraint {metric!r}, which Optuna keeps at or below 0: bound it "
                    f"by asktell.at_most(0), or set a user attribute {metric!r} in the goal's units."
                )
        return {metric: known[metric] for metric in self.goal.metrics if metric in known}

    def _cost(self, trial: FrozenTrial) -> float | None:
        if "cost" in self.goal.metrics and not self.with_cost:
            return None
        cost = trial.user_attrs.get("cost")
        if cost is not None and (
            isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < math.inf
        ):
            raise InvalidArgumentError(f"cost must be a finite number of at least 0, got {short(cost)}.")
        return None if cost is None else float(cost)


def value_names(study: Study, goal: Goal) -> tuple[str, ...]:
    """The metrics that the study's values are: by its `metric_names`, else in the goal's order."""
    names = tuple(study.metric_names or goal.metrics[: len(study.directions)])
    if len(names) != len(study.directions):
        raise IncompatibleMethodError(
            f"The study has {len(study.directions)} values, but the goal only the metrics {list(goal.metrics)}. Name "
            "the values: study.set_metric_names([...])."
        )
    directions = dict(zip(names, study.directions, strict=True))
    for objective in goal.objectives:
        direction = directions.get(objective.metric)
        if direction is None:
            raise IncompatibleMethodError(
                f"The goal's {objective.metric!r} is none of the study's values {list(names)}. A study can name them: "
                "study.set_metric_names([...])."
            )
        if (direction == StudyDirection.MINIMIZE) != objective.minimize:
            raise IncompatibleMethodError(
                f"The study says {direction.name.lower()} {objective.metric!r}, but the goal {str(objective)!r}. Make "
                'the selector with goal_of(study), or the goal with asktell.minimize("...").'
            )
    return names


def goal_of(study: Study, constraints: Sequence[str] = ()) -> Goal:
    """Derive the goal of an Optuna study: BestFeasible for one value, ParetoSet for several.

    Args:
        study: its values are called by its `metric_names`, else "value", or "value_0", "value_1", ...
        constraints: keys of `trial.set_constraint`. As in Optuna, their values are to be at most 0: here, on average.
    """
    minimized = [direction == StudyDirection.MINIMIZE for direction in study.directions]
    n = len(minimized)
    names = study.metric_names or (["value"] if n == 1 else [f"value_{i}" for i in range(n)])
    objectives = [(minimize if down else maximize)(name) for name, down in zip(names, minimized, strict=True)]
    bounds: Any = {name: at_most(0) for name in constraints}
    return BestFeasible(objectives[0], bounds) if n == 1 else ParetoSet(*objectives, subject_to=bounds)


def _choices(parameter: str, distribution: BaseDistribution) -> Sequence[Any]:
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices
    if isinstance(distribution, IntDistribution):
        return range(distribution.low, distribution.high + 1, distribution.step)
    raise InvalidArgumentError(
        f"The parameter {parameter!r} must be categorical or an int, got {type(distribution).__name__}."
    )
