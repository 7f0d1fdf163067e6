"""An Optuna sampler that selects the prompts and examples of an Optuna study's trials.

A *study* is a study of Optuna here. All state is in the storage of this study: each
process computes the state of the selection from the trials in the storage. So a new
process can continue the study, and several processes can work on it at the same time.
"""

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from threading import RLock
from typing import Any, NamedTuple, final

import numpy as np

import asktell
from asktell import (
    Adaptive,
    AsktellError,
    EvaluatorError,
    IncompatibleMethodError,
    InvalidArgumentError,
    Result,
    Selector,
)
from asktell.extend import (
    AbstractMethod,
    Goal,
    State,
    apply,
    at_state,
    check_cost,
    decision_of,
    describe_streak,
    events,
    log,
    needs_extra,
    short,
)

with needs_extra("optuna"):
    from optuna import Study
    from optuna.distributions import (
        BaseDistribution,
        CategoricalDistribution,
        IntDistribution,
    )
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.study import StudyDirection
    from optuna.trial import FrozenTrial, TrialState


class ReadTrial(NamedTuple):
    """The outcome of a finished trial: scores in the goal's order, or None and the reason why there are none."""

    scores: tuple[float, ...] | None
    reason: str
    cost: float | None


class TrialReader:
    """Read the trials of a study whose directions and metric names match the goal.

    Args:
        study: the Optuna study.
        prompts: texts by id, in the selector's order.
        state: the state of the selection.
        prompt: name of the parameter that chooses the prompt.
        example: name of the parameter that chooses the example.

    Raises:
        IncompatibleMethodError: the study's values do not match the goal.
    """

    def __init__(
        self,
        study: Study,
        prompts: Mapping[str | int, str],
        state: State,
        prompt: str,
        example: str,
    ) -> None:
        problem, goal = state.problem, state.problem.goal
        self.values = value_names(study, goal)
        self.goal = goal
        self.ids = list(prompts)
        self.n_examples = problem.examples.n
        self.prompt = prompt
        self.example = example
        self.parameters = (prompt,) if problem.examples.n is None else (prompt, example)
        self.with_cost = problem.max_cost is not None
        self._arms: dict[object, int] = {
            text: arm for arm, text in enumerate(prompts.values())
        }
        self._arms.update({id_: arm for arm, id_ in enumerate(prompts)})
        self._slacks = {
            c.metric
            for c in goal.constraints
            if c.at_most and c.bound == 0 and c.of is None
        }
        self._besides = [metric for metric in goal.metrics if metric not in self.values]

    # Parameters

    def arm(self, prompt: object) -> int:
        """Return the arm of a prompt, given its id or text."""
        if prompt not in self._arms:
            raise InvalidArgumentError(
                f"A trial has {self.prompt!r} = {short(prompt)}, which is neither the id nor the text of any of the "
                f"selector's {len(self.ids)} prompts."
            )
        return self._arms[prompt]

    def cell(self, trial: FrozenTrial) -> tuple[int, int | None]:
        """Return the arm and the example of a trial, from its parameters."""
        arm = self.arm(trial.params[self.prompt])
        if self.n_examples is None or self.example not in trial.params:
            return arm, None
        choices = self._examples(trial.distributions[self.example])
        return arm, choices.index(trial.params[self.example])

    def choice(
        self,
        parameter: str,
        distribution: BaseDistribution,
        arm: int,
        example: int | None,
    ) -> Any:
        """Return the parameter's value for the arm or the example."""
        if parameter == self.example:
            assert example is not None
            return self._examples(distribution)[example]
        choices = _choices(parameter, distribution)
        value = {self._arms.get(choice): choice for choice in choices}
        missing = [id_ for number, id_ in enumerate(self.ids) if number not in value]
        if None in value or missing:
            unknown = [choice for choice in choices if choice not in self._arms]
            raise InvalidArgumentError(
                f"The choices of the parameter {parameter!r} must be the ids (or the texts) of all the selector's "
                f"prompts. Unknown choices: {short(unknown)}. Missing prompts: {short(missing)}."
            )
        return value[arm]

    def _examples(self, distribution: BaseDistribution) -> Sequence[Any]:
        """The choices of the example's parameter.

        Raises:
            InvalidArgumentError: their number is not the number of examples.
        """
        choices = _choices(self.example, distribution)
        if len(choices) != self.n_examples:
            raise InvalidArgumentError(
                f"The parameter {self.example!r} has {len(choices)} choices, but the selector was created with "
                f"examples={self.n_examples}. Use the same number."
            )
        return choices

    # Scores

    def outcome(self, trial: FrozenTrial) -> ReadTrial:
        """Return the scores of a finished trial, or why there are none. A pruned trial counts with its last value."""
        cost = None
        try:
            cost = self._cost(trial)
            if trial.state == TrialState.FAIL:
                return ReadTrial(None, f"trial {trial.number} failed", cost)
            if trial.values is None:
                return ReadTrial(
                    None, f"trial {trial.number} was pruned before it had a value", cost
                )
            scores = self.goal.vector(self._known(trial))
        except AsktellError as error:
            return ReadTrial(None, f"trial {trial.number}: {error}", cost)
        if self.with_cost and cost is None:
            return ReadTrial(
                None,
                f"trial {trial.number} has no user attribute 'cost', but the budget is a cost",
                None,
            )
        return ReadTrial(scores, "", cost)

    def check(self, trial: FrozenTrial) -> None:
        """Check that the objective and the selector match, given a trial that was just evaluated.

        A trial with neither a prompt nor an example belongs to the other sampler, and
        is not checked.

        Raises:
            InvalidArgumentError: they do not match.
        """
        if trial.values is None or not any(
            parameter in trial.params for parameter in self.parameters
        ):
            return
        if any(parameter not in trial.params for parameter in self.parameters):
            raise InvalidArgumentError(
                f"Trial {trial.number} has the parameters {sorted(trial.params)}, but the selector chooses "
                f"{list(self.parameters)}. If the objective chooses the examples, create the selector with "
                "examples=None."
            )
        self._known(trial)

    def _known(self, trial: FrozenTrial) -> dict[str, Any]:
        """Return the scores of a trial by metric, from its values, constraints and user attributes."""
        recorded: dict[str, Any] = dict(zip(self.values, trial.values, strict=False))
        # Trials of Optuna 4 have none.
        constraints: dict[str, float] = getattr(trial, "constraints", {})
        for metric in self._besides:
            if metric in constraints and metric in self._slacks:
                recorded[metric] = constraints[metric]
            elif metric in trial.user_attrs:
                recorded[metric] = trial.user_attrs[metric]
            elif metric in constraints:
                raise InvalidArgumentError(
                    f"Trial {trial.number} has the constraint {metric!r}. Optuna's constraints are satisfied at or "
                    f"below 0. Use the bound asktell.at_most(0) in the goal, or set a user attribute {metric!r} in the "
                    "units of the goal."
                )
        return {
            metric: recorded[metric]
            for metric in self.goal.metrics
            if metric in recorded
        }

    def _cost(self, trial: FrozenTrial) -> float | None:
        """The cost of a trial, or None if it has none.

        Raises:
            InvalidArgumentError: the cost is not a number of at least 0.
        """
        if "cost" in self.goal.metrics and not self.with_cost:
            return None
        return check_cost(trial.user_attrs.get("cost"))


def value_names(study: Study, goal: Goal) -> tuple[str, ...]:
    """Return the metrics of the study's values: its `metric_names`, or else the goal's first metrics.

    Raises:
        IncompatibleMethodError: the values and their directions do not match the goal.
    """
    names = tuple(study.metric_names or goal.metrics[: len(study.directions)])
    if len(names) != len(study.directions):
        raise IncompatibleMethodError(
            f"The study has {len(study.directions)} values, but the goal has only the metrics {list(goal.metrics)}. "
            "Pass the names of the values to study.set_metric_names([...])."
        )
    directions = dict(zip(names, study.directions, strict=True))
    for objective in goal.objectives:
        direction = directions.get(objective.metric)
        if direction is None:
            raise IncompatibleMethodError(
                f"The goal has the metric {objective.metric!r}, but the values of the Optuna study are called "
                f"{list(names)}. Pass the right names to study.set_metric_names([...])."
            )
        if (direction == StudyDirection.MINIMIZE) != objective.minimize:
            raise IncompatibleMethodError(
                f"The study has to {direction.name.lower()} {objective.metric!r}, but the goal is {str(objective)!r}. "
                "Create the selector with goal_of(study), or turn the direction in the goal."
            )
    return names


def goal_of(study: Study, constraints: Sequence[str] = ()) -> Goal:
    """Return a goal with the objectives and directions of an Optuna study, to create a selector with.

    It is a `BestFeasible` if the study has one objective, and a `ParetoSet` if it has
    several.

    Args:
        study: an Optuna study. Its `metric_names` become the names of the metrics. If
            it has none, the only metric is called "value", and several metrics are
            called "value_0", "value_1", and so on.
        constraints: keys that the objective function passes to `trial.set_constraint`
            (Optuna 5). As in Optuna, a constraint is satisfied at or below 0. But in
            the goal, the mean over the examples must be at or below 0.
    """
    minimized = [direction == StudyDirection.MINIMIZE for direction in study.directions]
    n = len(minimized)
    names = study.metric_names or (
        ["value"] if n == 1 else [f"value_{i}" for i in range(n)]
    )
    objectives = [
        (asktell.minimize if down else asktell.maximize)(name)
        for name, down in zip(names, minimized, strict=True)
    ]
    bounds: Any = {name: asktell.at_most(0) for name in constraints}
    return (
        asktell.BestFeasible(objectives[0], bounds)
        if n == 1
        else asktell.ParetoSet(*objectives, subject_to=bounds)
    )


def _choices(parameter: str, distribution: BaseDistribution) -> Sequence[Any]:
    """The values of a parameter.

    Raises:
        InvalidArgumentError: the parameter is continuous.
    """
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices
    if isinstance(distribution, IntDistribution):
        return range(distribution.low, distribution.high + 1, distribution.step)
    raise InvalidArgumentError(
        f"The parameter {parameter!r} must be categorical or an int, got {type(distribution).__name__}. Use "
        "trial.suggest_categorical() or trial.suggest_int()."
    )


MARK = "asktell"
"""The system attribute that the sampler sets on its trials: a mapping with "prompt" and "example".

If the trial counts as an evaluation, the mapping also has "planner", the number of the
trial whose plan it follows. If that is the trial itself, the mapping has "plan", too.
"""

_LONGEST_PLAN = 1000  # The number of cells of a plan that an attribute may hold.

Cell = tuple[int, int | None]
"""An arm and an example. None: the objective chooses the example."""


class CellPlan(NamedTuple):
    """Cells to evaluate next, in this order. `by` is the number of the trial whose sampler made the plan."""

    by: int
    cells: list[Cell]


class Choice(NamedTuple):
    """The cell that a trial evaluates.

    If it counts as an evaluation, `planner` is the number of the trial that made the
    plan. `plan` is the plan if this trial made it.
    """

    cell: Cell
    planner: int | None = None
    plan: list[Cell] | None = None


class Ledger:
    """The state of the selection after the trials that were folded in.

    Args:
        state: the state before all trials.
        method: the selector's method.
        reader: reads the trials.

    Attributes:
        state: the state after the trials.
        reader: as above.
    """

    def __init__(
        self, state: State, method: AbstractMethod, reader: TrialReader
    ) -> None:
        self.state = state
        self.reader = reader
        self._method = method
        self._folded: set[int] = set()
        # The last plan, with all its cells.
        self._plan = CellPlan(-1, [])
        # By the planner: the cell of each trial that followed.
        self._followers: dict[int, dict[int, Cell]] = {}

    def fold(self, trials: Iterable[FrozenTrial]) -> None:
        """Update the state with the trials that are new or have finished since."""
        for trial in trials:
            if trial.number in self._folded:
                continue
            if trial.state.is_finished():
                self.state = self.after(self.state, trial)
                self._folded.add(trial.number)
            elif _counts(trial) and trial.number not in self.state.pending:
                self.state = asked(self.state, trial.number, self._cell(trial))
            if _counts(trial):
                mark = trial.system_attrs[MARK]
                self._followers.setdefault(mark["planner"], {})[trial.number] = (
                    self._cell(trial)
                )
                if mark["planner"] == trial.number > self._plan.by:
                    self._plan = CellPlan(
                        trial.number, [(arm, example) for arm, example in mark["plan"]]
                    )

    def after(self, state: State, trial: FrozenTrial) -> State:
        """Return the state after a finished trial. A trial without a prompt changes nothing."""
        counts = _counts(trial)
        if not counts and self.reader.prompt not in trial.params:
            return state
        arm, example = self._cell(trial)
        outcome = self.reader.outcome(trial)
        if not counts:
            return (
                state
                if outcome.scores is None
                else apply(state, events.Observed(arm, example, outcome.scores))
            )
        if trial.number not in state.pending:
            state = asked(state, trial.number, (arm, example))
        try:
            self.reader.check(trial)
        except InvalidArgumentError as error:
            # The process that ran the trial has raised this error.
            outcome = outcome._replace(scores=None, reason=str(error))
        if outcome.scores is None:
            return apply(
                state, events.Failed(trial.number, outcome.reason, outcome.cost)
            )
        return apply(state, events.Told(trial.number, outcome.scores, outcome.cost))

    def choose(self, trial: FrozenTrial, trials: Sequence[FrozenTrial]) -> Choice:
        """Choose the cell of a trial, given all trials of the study."""
        reader, fixed = self.reader, self._given(trial)
        if reader.prompt in fixed:
            arm = reader.arm(fixed[reader.prompt])
            return Choice((arm, self._unseen(arm)))
        # Trials that began earlier choose first. All processes agree on this order.
        earlier = [peer for peer in trials if peer.number < trial.number]
        rest = self._rest_of_plan()
        plan = self._next(
            *self._foreseen(self.state, rest, earlier), number=trial.number
        )
        plan = plan or self._next(self.state, rest, number=trial.number)
        if plan is None:
            arm = self._best(trial.number)
            return Choice((arm, self._unseen(arm)))
        if fixed:
            return Choice(plan.cells[0])
        return Choice(
            plan.cells[0],
            plan.by,
            plan.cells[:_LONGEST_PLAN] if plan.by == trial.number else None,
        )

    def is_over(self, state: State, trials: Sequence[FrozenTrial]) -> bool:
        """Return True if no further trial can be asked, apart from the choices that these trials will make."""
        state, rest = self._foreseen(state, self._rest_of_plan(), trials)
        plan = self._next(state, rest, number=len(trials))
        return plan is None or not state.fits(plan.cells[0][0])

    def decided(self) -> State:
        """Return the state with the final decision, if the selection is finished."""
        decided = decision_of(self._method, self.state)
        return (
            apply(self.state, decided)
            if decided is not None and decided.finished
            else self.state
        )

    def _rest_of_plan(self) -> CellPlan:
        """The last plan without the cells that trials have taken."""
        n_taken = Counter(self._followers.get(self._plan.by, {}).values())
        rest = []
        for cell in self._plan.cells:
            if n_taken[cell]:
                n_taken[cell] -= 1
            else:
                rest.append(cell)
        return CellPlan(self._plan.by, rest)

    def _foreseen(
        self, state: State, plan: CellPlan, trials: Iterable[FrozenTrial]
    ) -> tuple[State, CellPlan]:
        """Return the state and the plan after the expected choices of running trials that have not chosen yet.

        Such a trial may be choosing in another process at this moment. From the same
        storage, it would choose the same cell as this trial.
        """
        for trial in trials:
            if (
                trial.state == TrialState.RUNNING
                and MARK not in trial.system_attrs
                and not self._given(trial)
            ):
                now = self._next(state, plan, number=trial.number)
                if now is not None:
                    state = asked(state, trial.number, now.cells[0])
                    plan = CellPlan(now.by, now.cells[1:])
        return state, plan

    def _next(self, state: State, plan: CellPlan, number: int) -> CellPlan | None:
        """Return the rest of the plan, or a new plan by trial `number`. None if nothing more is to be evaluated."""
        if state.spent + len(state.pending) >= state.problem.budget:
            return None
        cells = [cell for cell in plan.cells if cell[0] not in state.left]
        if cells:
            return CellPlan(plan.by, cells)
        decided = decision_of(self._method, state)
        if decided is None or not decided.plan:
            return None
        return CellPlan(
            number,
            [(arm, None if example < 0 else example) for arm, example in decided.plan],
        )

    def _cell(self, trial: FrozenTrial) -> Cell:
        """The arm and the example of a trial."""
        # A running trial may not have its parameters yet.
        if _counts(trial):
            mark = trial.system_attrs[MARK]
            return self.reader.arm(mark["prompt"]), mark["example"]
        return self.reader.cell(trial)

    def _given(self, trial: FrozenTrial) -> dict[str, Any]:
        """The prompt and the example that the user has fixed for a trial, by parameter."""
        fixed = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
        # Optuna itself sets a parameter that has only one value.
        only = [
            name
            for name, distribution in trial.distributions.items()
            if distribution.single()
        ]
        return {
            name: fixed[name]
            for name in self.reader.parameters
            if name in fixed and name not in only
        }

    def _best(self, number: int) -> int:
        """One of the selected arms. Trials with successive numbers take turns."""
        arms = (
            self._method.answer(self.state)
            or self.state.active.tolist()
            or range(len(self.reader.ids))
        )
        return int(arms[number % len(arms)])

    def _unseen(self, arm: int) -> int | None:
        """The first example that an arm was not evaluated on, or the first of all examples if there is none."""
        order = self.state.problem.examples.order
        if not len(order):
            return None
        history = self.state.history
        seen = [
            *history.examples()[history.arms() == arm],
            *(p.example for p in self.state.pending.values() if p.arm == arm),
        ]
        unseen = order[
            ~np.isin(order, [example for example in seen if example is not None])
        ]
        return int((unseen if len(unseen) else order)[0])


def asked(state: State, number: int, cell: Cell) -> State:
    """Return the state after the decision for a cell, and its trial."""
    arm, example = cell
    plan = ((arm, -1 if example is None else example),)
    return apply(
        apply(state, events.Decided(len(state.decisions), plan=plan)),
        events.Asked(number, arm, example),
    )


def _counts(trial: FrozenTrial) -> bool:
    """Whether a trial counts as an evaluation of the budget."""
    return "planner" in trial.system_attrs.get(MARK, {})


__all__ = ["AsktellSampler", "goal_of"]


@final
class AsktellSampler(BaseSampler):
    """An Optuna sampler that selects the prompt of each trial, and its example if the selector has examples.

    ```python
    study = optuna.create_study(sampler=AsktellSampler(selector))
    study.optimize(objective, n_trials=500)
    ```

    - **Evaluations.** One trial is one evaluation. A failed trial is a failed
      evaluation. A pruned trial has its last intermediate value as its score. If it has
      no such value, it is a failed evaluation, too.
    - **Other trials.** Some trials have a prompt that the sampler did not choose:
      trials of another sampler, or from `study.add_trial` or `study.enqueue_trial`.
      Their scores are used, but they do not count against the budget.
    - **Metrics.** The values that the objective function returns are the objectives of
      the goal. Every other metric of the goal is read from the trial's user attribute
      with its name. In Optuna 5, it can also be a constraint of the trial
      (`trial.set_constraint`). Its bound in the goal must then be `at_most(0)`.
    - **Cost.** The user attribute "cost" is the cost of the trial.
    - **Trials without a prompt.** If the objective function does not use the prompt's
      parameter, the selection ignores the trial. The sampler `others` chooses all of
      its parameters.

    Args:
        selector: a Selector that has not been asked for trials, with the method "auto"
            or another `Adaptive`. It is copied and never changed.
        prompt: name of the parameter for the prompt. Its choices are the ids or the
            texts of all prompts (`suggest_categorical`), or a range of ids
            (`suggest_int`).
        example: name of the parameter for the example. It has as many choices as the
            selector has examples, in the same order. If the selector was created
            without `examples`, the objective function chooses the examples itself.
        others: the sampler of all other parameters. By default, they are drawn at
            random.
        stop: True (default): end `study.optimize` when the budget is spent. False:
            further trials evaluate the selected prompts. Their scores are used, but
            they do not count against the budget.

    Raises:
        InvalidArgumentError: `selector` is not a Selector, or has been asked for
            trials.
        IncompatibleMethodError: the method of the selector has rounds. At the end of a
            round, trials would have to wait for each other.
    """

    def __init__(
        self,
        selector: Selector,
        *,
        prompt: str = "prompt",
        example: str = "example",
        others: BaseSampler | None = None,
        stop: bool = True,
    ) -> None:
        if not isinstance(selector, Selector):
            raise InvalidArgumentError(
                f"AsktellSampler needs an asktell.Selector, got {type(selector).__name__}."
            )
        if not isinstance(selector.method, Adaptive):
            raise IncompatibleMethodError(
                "The selector's method works in rounds, so trials would have to wait for each other. Optuna does not "
                "support that. Create the selector with method='auto'."
            )
        if n_asked := selector.state.plan.asked:
            raise InvalidArgumentError(
                "The selector has already assigned trials, which the study does not have (number of trials: "
                f"{n_asked:,}). Pass a new selector. Existing scores can be added to the new selector "
                "with observe(), or to the study with study.add_trial()."
            )
        self._selector = copy.copy(selector)
        self._texts = {entry.id: entry.prompt for entry in selector.result().prompts}
        self._prompt, self._example = prompt, example
        self._ours = (
            (prompt,)
            if selector.state.problem.examples.n is None
            else (prompt, example)
        )
        self._others = (
            RandomSampler(selector.state.problem.seed % 2**32)
            if others is None
            else others
        )
        self._stop = stop
        self._has_warned = False
        self._forget()

    def _forget(self) -> None:
        self._lock = RLock()
        self._ledger: Ledger | None = None
        # The storage and the id of the ledger's study.
        self._place: object = None

    def result(self, study: Study) -> Result:
        """Return the result of all trials in the study's storage. See `Selector.result`.

        Raises:
            IncompatibleMethodError: the objectives of the study, or their directions,
                do not match the goal of the selector.
        """
        return self.selector(study).result()

    def selector(self, study: Study) -> Selector:
        """Return a new selector with all trials in the study's storage, for an export, a report or a comparison.

        The selector that was passed to the sampler stays unchanged.

        Raises:
            IncompatibleMethodError: the objectives of the study, or their directions,
                do not match the goal of the selector.
        """
        with self._lock:
            return at_state(self._selector, self._ledger_of(_whole(study)).decided())

    # Optuna's interface

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the search space of the sampler `others`, without prompt and example. Optuna calls this method."""
        space = self._others.infer_relative_search_space(study, trial)
        return {
            name: distribution
            for name, distribution in space.items()
            if name not in self._ours
        }

    def sample_relative(
        self,
        study: Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
    ) -> dict[str, Any]:
        """Let the sampler `others` choose the parameters of its search space. Optuna calls this method."""
        values = self._others.sample_relative(study, trial, search_space)
        # Some samplers use a search space of their own, which may have the prompt and
        # the example.
        return {name: value for name, value in values.items() if name in search_space}

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Choose the prompt or the example. Let the sampler `others` choose any other parameter.

        Optuna calls this method for each parameter. Prompt and example are chosen
        together at the first call for one of them.

        Raises:
            InvalidArgumentError: the choices of the parameter are not the selector's
                prompts or examples.
            IncompatibleMethodError: the objectives of the study, or their directions,
                do not match the goal of the selector.
        """
        if param_name not in self._ours:
            return self._others.sample_independent(
                study, trial, param_name, param_distribution
            )
        with self._lock:
            study = _whole(study)
            ledger = self._ledger_of(study)
            mark = trial.system_attrs.get(MARK)
            if mark is None:
                choice = ledger.choose(trial, study.get_trials(deepcopy=False))
                # This may raise an error, so it comes before the trial is marked.
                value = ledger.reader.choice(
                    param_name, param_distribution, *choice.cell
                )
                arm, example = choice.cell
                mark = {"prompt": ledger.reader.ids[arm], "example": example}
                mark |= {} if choice.planner is None else {"planner": choice.planner}
                mark |= {} if choice.plan is None else {"plan": choice.plan}
                study._storage.set_trial_system_attr(trial._trial_id, MARK, mark)
                return value
            arm = ledger.reader.arm(mark["prompt"])
            return ledger.reader.choice(
                param_name, param_distribution, arm, mark["example"]
            )

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Call the same method of the sampler `others`. Optuna calls this method before each trial."""
        self._others.before_trial(study, trial)

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Stop the study if the selection needs no more trials. Warn if a completed trial counts as failed.

        A completed trial counts as failed if its values cannot be recorded as scores.

        Optuna calls this method after each trial.

        Raises:
            InvalidArgumentError: the trial has only one of the parameters for prompt
                and example. Or a metric is a constraint of the trial, but its bound in
                the goal is not `at_most(0)`.
            EvaluatorError: the latest trials all failed in the same way, as with a
                wrong key. See `max_failures_in_a_row` of `asktell.run`.
        """
        self._others.after_trial(study, trial, state, values)
        with self._lock:
            study = _whole(study)
            ledger = self._ledger_of(study)
            # Only this copy has its constraints.
            finished = copy.copy(study._storage.get_trial(trial._trial_id))
            finished.state = state
            finished.values = None if values is None else list(values)
            ledger.reader.check(finished)
            after = ledger.after(ledger.state, finished)
            self._warn(finished)
            recorded = len(after.history) > len(ledger.state.history)
            if (
                state == TrialState.COMPLETE
                and self._prompt in finished.params
                and not recorded
            ):
                log.warning(
                    "A trial counts as failed: %s",
                    ledger.reader.outcome(finished).reason,
                )
            has_failed = len(after.failures) > len(ledger.state.failures)
            if has_failed and (streak := describe_streak(after)):
                raise EvaluatorError(
                    f"{streak}. Optuna has all trials. Fix the cause, and call study.optimize again."
                )
            if self._stop and ledger.is_over(after, study.get_trials(deepcopy=False)):
                # Outside of optimize(), there is nothing to stop.
                with suppress(RuntimeError):
                    study.stop()

    def _warn(self, trial: FrozenTrial) -> None:
        """Warn once about a trial without the prompt's parameter."""
        if (
            self._prompt in trial.params
            or trial.state == TrialState.FAIL
            or self._has_warned
        ):
            return
        self._has_warned = True
        log.warning(
            "Trial %d has no parameter %r, so %s sampled all its parameters, and the selection ignores it. The same "
            "applies to later trials without it.",
            trial.number,
            self._prompt,
            type(self._others).__name__,
        )

    def reseed_rng(self) -> None:
        """Reseed the sampler `others`. The selection has its own seed, which stays the same."""
        self._others.reseed_rng()

    # The state in the storage

    def _ledger_of(self, study: Study) -> Ledger:
        """Return the ledger of a study, after all its trials. It is kept while the study stays the same."""
        place = (study._storage, study._study_id)
        if self._ledger is None or self._place != place:
            state = self._selector.state
            reader = TrialReader(study, self._texts, state, self._prompt, self._example)
            self._ledger = Ledger(state, self._selector.method, reader)
            self._place = place
        # A copy of all trials at each call would take quadratic time in a long study.
        self._ledger.fold(study.get_trials(deepcopy=False))
        return self._ledger

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_selector": self._selector.to_json()}
        return {
            name: value
            for name, value in state.items()
            if name not in ("_lock", "_ledger", "_place")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(
            {**state, "_selector": Selector.from_json(state["_selector"])}
        )
        self._forget()


def _whole(study: Study) -> Study:
    """Return the study itself, because some pruners pass a view of it with only a part of its trials."""
    return getattr(study, "_study", study)
