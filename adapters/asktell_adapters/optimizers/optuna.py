"""An Optuna sampler with which asktell chooses prompts and examples in an Optuna study.

The study's storage is all there is. Every process makes the selection's state anew of the trials that it finds there,
and of nothing else: a trial that this sampler chose was asked, and told or failed once it is finished; any other
finished trial was observed. The sampler marks its own with a system attribute.
"""

import copy
import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from threading import RLock
from typing import Any, NamedTuple, final

import numpy as np

import asktell
from asktell import Adaptive, AsktellError, IncompatibleMethodError, InvalidArgumentError, Result, Selector
from asktell.extend import Goal, Method, State, apply, at_state, decide, events, needs_extra, short

with needs_extra("optuna"):
    from optuna import Study
    from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
    from optuna.samplers import BaseSampler, RandomSampler
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
        self._slacks = {c.metric for c in goal.constraints if c.at_most and c.bound == 0 and c.of is None}
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
    objectives = [
        (asktell.minimize if down else asktell.maximize)(name) for name, down in zip(names, minimized, strict=True)
    ]
    bounds: Any = {name: asktell.at_most(0) for name in constraints}
    return asktell.BestFeasible(objectives[0], bounds) if n == 1 else asktell.ParetoSet(*objectives, subject_to=bounds)


def _choices(parameter: str, distribution: BaseDistribution) -> Sequence[Any]:
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices
    if isinstance(distribution, IntDistribution):
        return range(distribution.low, distribution.high + 1, distribution.step)
    raise InvalidArgumentError(
        f"The parameter {parameter!r} must be categorical or an int, got {type(distribution).__name__}."
    )


MARK = "asktell"
"""The system attribute of a trial that the sampler chose: prompt, example; if it counts as an evaluation, planner, the
number of the trial whose plan it follows; if that is itself, the plan."""

_LONGEST_PLAN = 1000  # of those that are kept in an attribute

Cell = tuple[int, int | None]  # arm, example


class Plan(NamedTuple):
    """Cells to be evaluated next, in this order, and the number of the trial whose sampler decided so."""

    by: int
    cells: list[Cell]


class Choice(NamedTuple):
    """What a trial is to evaluate; and, if that counts as an evaluation, by whose plan, and the plan if it is new."""

    cell: Cell
    planner: int | None = None
    plan: list[Cell] | None = None


class Ledger:
    """The state by the trials that were folded; `state` is that before the first one."""

    def __init__(self, state: State, method: Method, reader: Reader) -> None:
        self.state = state
        self.reader = reader
        self._method = method
        self._folded: set[int] = set()
        self._plan = Plan(-1, [])  # the last one, whole
        self._followers: dict[int, dict[int, Cell]] = {}  # of every plan: by trial, what it took

    def fold(self, trials: Iterable[FrozenTrial]) -> None:
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
                self._followers.setdefault(mark["planner"], {})[trial.number] = self._cell(trial)
                if mark["planner"] == trial.number > self._plan.by:
                    self._plan = Plan(trial.number, [(arm, example) for arm, example in mark["plan"]])

    def after(self, state: State, trial: FrozenTrial) -> State:
        """The state after a trial that is finished; one without a prompt changes nothing."""
        counts = _counts(trial)
        if not counts and self.reader.prompt not in trial.params:
            return state
        arm, example = self._cell(trial)
        outcome = self.reader.outcome(trial)
        if not counts:
            return state if outcome.scores is None else apply(state, events.Observed(arm, example, outcome.scores))
        if trial.number not in state.pending:
            state = asked(state, trial.number, (arm, example))
        try:
            self.reader.check(trial)
        except InvalidArgumentError as error:  # who made the trial was told
            outcome = outcome._replace(scores=None, reason=str(error))
        if outcome.scores is None:
            return apply(state, events.Failed(trial.number, outcome.reason, outcome.cost))
        return apply(state, events.Told(trial.number, outcome.scores, outcome.cost))

    def choose(self, trial: FrozenTrial, trials: Sequence[FrozenTrial]) -> Choice:
        reader, given = self.reader, self._given(trial)
        if reader.prompt in given:
            arm = reader.arm(given[reader.prompt])
            return Choice((arm, self._unseen(arm)))
        earlier = [other for other in trials if other.number < trial.number]
        rest = self._rest_of_plan()
        plan = self._next(*self._foreseen(self.state, rest, earlier), number=trial.number)
        plan = plan or self._next(self.state, rest, number=trial.number)
        if plan is None:
            arm = self._best(trial.number)
            return Choice((arm, self._unseen(arm)))
        if given:
            return Choice(plan.cells[0])
        return Choice(plan.cells[0], plan.by, plan.cells[:_LONGEST_PLAN] if plan.by == trial.number else None)

    def is_over(self, state: State, trials: Sequence[FrozenTrial]) -> bool:
        """True if nothing more can be asked, now or ever, besides what these trials will choose."""
        state, rest = self._foreseen(state, self._rest_of_plan(), trials)
        plan = self._next(state, rest, number=len(trials))
        return plan is None or not state.fits(plan.cells[0][0])

    def decided(self) -> State:
        decided = decide(self._method, self.state)
        return apply(self.state, decided) if decided is not None and decided.finished else self.state

    def _rest_of_plan(self) -> Plan:
        """What no trial has taken yet."""
        taken = Counter(self._followers.get(self._plan.by, {}).values())
        rest = []
        for cell in self._plan.cells:
            if taken[cell]:
                taken[cell] -= 1
            else:
                rest.append(cell)
        return Plan(self._plan.by, rest)

    def _foreseen(self, state: State, plan: Plan, trials: Iterable[FrozenTrial]) -> tuple[State, Plan]:
        """State and plan after what trials that run, and have not chosen yet, are about to choose.

        They may do so in another process at this moment, and from the same facts would choose the same as this one.
        """
        for trial in trials:
            if trial.state == TrialState.RUNNING and MARK not in trial.system_attrs and not self._given(trial):
                now = self._next(state, plan, number=trial.number)
                if now is not None:
                    state, plan = asked(state, trial.number, now.cells[0]), Plan(now.by, now.cells[1:])
        return state, plan

    def _next(self, state: State, plan: Plan, number: int) -> Plan | None:
        if state.spent + len(state.pending) >= state.problem.budget:
            return None
        if cells := [cell for cell in plan.cells if cell[0] not in state.left]:
            return Plan(plan.by, cells)
        decided = decide(self._method, state)
        if decided is None or not decided.plan:
            return None
        return Plan(number, [(arm, None if example < 0 else example) for arm, example in decided.plan])

    def _cell(self, trial: FrozenTrial) -> Cell:
        if _counts(trial):  # one that runs may not have its parameters yet
            mark = trial.system_attrs[MARK]
            return self.reader.arm(mark["prompt"]), mark["example"]
        return self.reader.cell(trial)

    def _given(self, trial: FrozenTrial) -> dict[str, Any]:
        given = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
        # Optuna itself fills in a parameter that has one value.
        only = [name for name, distribution in trial.distributions.items() if distribution.single()]
        return {name: given[name] for name in self.reader.parameters if name in given and name not in only}

    def _best(self, number: int) -> int:
        arms = self._method.answer(self.state) or self.state.active.tolist() or range(len(self.reader.ids))
        return int(arms[number % len(arms)])

    def _unseen(self, arm: int) -> int | None:
        """The first example that an arm was not evaluated on; the first of all if there is none."""
        order = self.state.problem.order
        if not len(order):
            return None
        history = self.state.history
        seen = [
            *history.examples()[history.arms() == arm],
            *(p.example for p in self.state.pending.values() if p.arm == arm),
        ]
        unseen = order[~np.isin(order, [example for example in seen if example is not None])]
        return int((unseen if len(unseen) else order)[0])


def asked(state: State, number: int, cell: Cell) -> State:
    arm, example = cell
    plan = ((arm, -1 if example is None else example),)
    return apply(apply(state, events.Decided(len(state.decisions), plan=plan)), events.Asked(number, arm, example))


def _counts(trial: FrozenTrial) -> bool:
    return "planner" in trial.system_attrs.get(MARK, {})


__all__ = ["AsktellSampler", "goal_of"]

_log = logging.getLogger("asktell")


@final
class AsktellSampler(BaseSampler):
    """Chooses a study's prompts, and its examples if it has them; one trial is one evaluation.

    Trials that were there before, were added or enqueued are observed: they inform, and cost no budget. A failed trial
    is a failed evaluation; a pruned one counts by its last intermediate value, or as failed if it has none. Metrics
    of the goal that are not among the study's values are read from the trial's constraints (bounded by `at_most(0)`)
    or user attributes; the user attribute "cost" is what the trial cost. A trial without the prompt's parameter is the
    other sampler's alone.

    Args:
        selector: a new one, of the method "auto" or another `Adaptive`; it is copied and never changed.
        prompt: the name of the parameter, categorical or int, whose choices are the prompts' ids or texts.
        example: the name of the one whose choices are the examples, in their order. A selector made without
            `examples` leaves it to the objective what a trial evaluates the prompt on.
        others: samples all other parameters; by default at random.
        stop: whether `study.optimize` ends when the budget is spent. Otherwise, and for what is asked all the same,
            further trials go to the best prompts and are observed.

    Raises:
        IncompatibleMethodError: the selector's method goes in rounds, which a study's trials cannot wait for.
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
            raise InvalidArgumentError(f"AsktellSampler needs an asktell.Selector, got {type(selector).__name__}.")
        if not isinstance(selector.method, Adaptive):
            raise IncompatibleMethodError(
                f"The method {type(selector.method).__name__} goes in rounds, at whose ends trials would have to wait "
                'for each other. Optuna does not wait: use method="auto".'
            )
        if selector.state.asked:
            raise InvalidArgumentError(
                f"The selector has been asked {selector.state.asked} trials, which the study does not have. Pass a new "
                "one; what is known already can be given by observe(), or by study.add_trial()."
            )
        self._selector = copy.copy(selector)
        self._texts = {entry.id: entry.prompt for entry in selector.result().prompts}
        self._prompt, self._example = prompt, example
        self._ours = (prompt,) if selector.state.problem.n_examples is None else (prompt, example)
        self._others = RandomSampler(selector.state.problem.seed % 2**32) if others is None else others
        self._stop = stop
        self._has_warned = False
        self._forget()

    def _forget(self) -> None:
        self._lock = RLock()
        self._ledger: Ledger | None = None
        self._place: object = None  # the storage, and the study in it, that the ledger is of

    def result(self, study: Study) -> Result:
        """The answer so far, by everything in the study's storage: what `Selector.result()` says."""
        return self.selector(study).result()

    def selector(self, study: Study) -> Selector:
        """A selector that knows everything in the study's storage by now: to export, report or compare.

        The one that the sampler was made with stays as it was.

        Raises:
            IncompatibleMethodError: the study and the selector's goal do not go together.
        """
        with self._lock:
            return at_state(self._selector, self._at(_whole(study)).decided())

    # Optuna's interface

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        space = self._others.infer_relative_search_space(study, trial)
        return {name: distribution for name, distribution in space.items() if name not in self._ours}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        values = self._others.sample_relative(study, trial, search_space)
        return {name: value for name, value in values.items() if name in search_space}  # some take their own space

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """The prompt or the example, both chosen when the first of them is wanted; or another parameter."""
        if param_name not in self._ours:
            return self._others.sample_independent(study, trial, param_name, param_distribution)
        with self._lock:
            study = _whole(study)
            ledger = self._at(study)
            mark = trial.system_attrs.get(MARK)
            if mark is None:
                choice = ledger.choose(trial, study.get_trials(deepcopy=False))
                value = ledger.reader.choice(param_name, param_distribution, *choice.cell)  # refused before it is noted
                arm, example = choice.cell
                mark = {"prompt": ledger.reader.ids[arm], "example": example}
                mark |= {} if choice.planner is None else {"planner": choice.planner}
                mark |= {} if choice.plan is None else {"plan": choice.plan}
                study._storage.set_trial_system_attr(trial._trial_id, MARK, mark)
                return value
            arm = ledger.reader.arm(mark["prompt"])
            return ledger.reader.choice(param_name, param_distribution, arm, mark["example"])

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self._others.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Stop the study if nothing more is to be asked; say why a completed trial counts as failed.

        Raises:
            InvalidArgumentError: what the objective suggests or reports is not what the selector needs.
        """
        self._others.after_trial(study, trial, state, values)
        with self._lock:
            study = _whole(study)
            ledger = self._at(study)
            finished = copy.copy(study._storage.get_trial(trial._trial_id))  # with its constraints
            finished.state, finished.values = state, None if values is None else list(values)
            ledger.reader.check(finished)
            after = ledger.after(ledger.state, finished)
            self._warn(finished)
            told = len(after.history) > len(ledger.state.history)
            if state == TrialState.COMPLETE and self._prompt in finished.params and not told:
                _log.warning("trial %s counts as failed: %s", trial.number, ledger.reader.outcome(finished).reason)
            if self._stop and ledger.is_over(after, study.get_trials(deepcopy=False)):
                with suppress(RuntimeError):  # nothing to stop outside of optimize()
                    study.stop()

    def _warn(self, trial: FrozenTrial) -> None:
        if self._prompt in trial.params or trial.state == TrialState.FAIL or self._has_warned:
            return
        self._has_warned = True
        _log.warning(
            "Trial %d has no parameter %r: it is sampled by %s alone, and tells the selection nothing; so are others "
            "like it.",
            trial.number,
            self._prompt,
            type(self._others).__name__,
        )

    def reseed_rng(self) -> None:
        self._others.reseed_rng()

    # What is in the storage

    def _at(self, study: Study) -> Ledger:
        place = (study._storage, study._study_id)
        if self._ledger is None or self._place != place:
            state = self._selector.state
            reader = Reader(study, self._texts, state, self._prompt, self._example)
            self._ledger, self._place = Ledger(state, self._selector.method, reader), place
        self._ledger.fold(study.get_trials(deepcopy=False))
        return self._ledger

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_selector": self._selector.to_json()}
        return {name: value for name, value in state.items() if name not in ("_lock", "_ledger", "_place")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({**state, "_selector": Selector.from_json(state["_selector"])})
        self._forget()


def _whole(study: Study) -> Study:
    """The study itself: some pruners show a sampler only a part of its trials."""
    return getattr(study, "_study", study)
