"""A selection's state, folded of the trials of an Optuna study.

What the study's trials have evaluated are facts, whoever chose it and in whatever order. So each of them enters the
state as a plan of one pull, which is asked, and told or failed. Decisions are facts too: a trial whose sampler had to
decide carries the plan, which the trials after it follow, in any process.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from asktell import InvalidArgumentError
from asktell.extend import Method, State, apply, decide, events, needs_extra
from asktell_adapters.optimizers._optuna_trials import Reader

with needs_extra("optuna"):
    from optuna.trial import FrozenTrial, TrialState

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
        """What is left of the plan, or else a new one by this trial; None if nothing is to be asked."""
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
        """Those of our parameters that somebody else has chosen."""
        given = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
        # Optuna itself fills in a parameter that has one value.
        only = [name for name, distribution in trial.distributions.items() if distribution.single()]
        return {name: given[name] for name in self.reader.parameters if name in given and name not in only}

    def _best(self, number: int) -> int:
        """One of the prompts that are the answer so far, in turn."""
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
