"""A selection's state, folded of the trials of an Optuna study.

What the study's trials have evaluated are facts, whoever chose it and in whatever order. So each of them enters the
state as a plan of one pull, which is asked, and told or failed. Only what comes next is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from asktell.errors import InvalidArgumentError
from asktell.methods import Method
from asktell.result import Result
from asktell.state import Asked, Decided, Failed, Observed, State, Told, apply, decide
from asktell.summary import summarize
from asktell_adapters._extras import needs_extra
from asktell_adapters.optimizers._optuna_trials import Reader

with needs_extra("optuna"):
    from optuna.trial import FrozenTrial, TrialState

MARK = "asktell"
"""The system attribute of a trial that the sampler chose: prompt, example, and whether it counts as an evaluation."""

Cell = tuple[int, int | None]  # arm, example


class Ledger:
    """The state by the trials that were folded.

    Args:
        state: before the first trial.
        method: decides what comes next.
        reader: of the study's trials.
    """

    def __init__(self, state: State, method: Method, reader: Reader) -> None:
        self.state = state
        self.reader = reader
        self._method = method
        self._folded: set[int] = set()

    def fold(self, trials: Iterable[FrozenTrial]) -> None:
        """Take in what is new.

        Raises:
            InvalidArgumentError: a trial does not fit the selector.
        """
        for trial in trials:
            if trial.number in self._folded:
                continue
            if trial.state.is_finished():
                self.state = self.after(self.state, trial)
                self._folded.add(trial.number)
            elif _counts(trial) and trial.number not in self.state.pending:
                self.ask(trial.number, self._cell(trial))

    def after(self, state: State, trial: FrozenTrial) -> State:
        """The state after a trial that is finished; one without a prompt changes nothing.

        Raises:
            InvalidArgumentError: the trial does not fit the selector.
        """
        counts = _counts(trial)
        if not counts and self.reader.prompt not in trial.params:
            return state
        arm, example = self._cell(trial)
        outcome = self.reader.outcome(trial)
        if not counts:
            return state if outcome.scores is None else apply(state, Observed(arm, example, outcome.scores))
        if trial.number not in state.pending:
            state = asked(state, trial.number, (arm, example))
        try:
            self.reader.check(trial)
        except InvalidArgumentError as error:  # who made the trial was told
            outcome = outcome._replace(scores=None, reason=str(error))
        if outcome.scores is None:
            return apply(state, Failed(trial.number, outcome.reason, outcome.cost))
        return apply(state, Told(trial.number, outcome.scores, outcome.cost))

    def ask(self, number: int, cell: Cell) -> None:
        """Note that a trial evaluates a cell."""
        self.state = asked(self.state, number, cell)

    def choose(self, trial: FrozenTrial, trials: Sequence[FrozenTrial]) -> tuple[Cell, bool]:
        """What a trial, of these of the study, is to evaluate, and whether it counts as an evaluation."""
        reader, number, given = self.reader, trial.number, self._given(trial)
        if reader.prompt in given:
            arm = reader.arm(given[reader.prompt])
            return (arm, self._unseen(arm)), False
        earlier = [other for other in trials if other.number < number]
        cell = self._next(self._foreseen(self.state, earlier)) or self._next(self.state)
        if cell is None:
            arm = self._best(number)
            return (arm, self._unseen(arm)), False
        return cell, not given

    def is_over(self, state: State, trials: Sequence[FrozenTrial]) -> bool:
        """Whether nothing more is to be asked, for now or for good, beside what these trials will choose."""
        state = self._foreseen(state, trials)
        cell = self._next(state)
        return cell is None or not state.fits(cell[0])

    def result(self, texts: Mapping[str | int, str]) -> Result:
        """The answer so far."""
        decided = decide(self._method, self.state)
        state = apply(self.state, decided) if decided is not None and decided.finished else self.state
        return summarize(state, self._method, list(texts), list(texts.values()))

    def _foreseen(self, state: State, trials: Iterable[FrozenTrial]) -> State:
        """With what trials that run, and have not chosen yet, are about to choose.

        They may do so in another process at this moment, and from the same facts would choose the same as this one.
        """
        for trial in trials:
            if trial.state == TrialState.RUNNING and MARK not in trial.system_attrs and not self._given(trial):
                cell = self._next(state)
                state = state if cell is None else asked(state, trial.number, cell)
        return state

    def _next(self, state: State) -> Cell | None:
        decided = decide(self._method, state)
        if decided is None or not decided.plan:
            return None
        arm, example = decided.plan[0]
        return arm, None if example < 0 else example

    def _cell(self, trial: FrozenTrial) -> Cell:
        if self.reader.prompt in trial.params:
            return self.reader.cell(trial)
        mark = trial.system_attrs[MARK]
        return self.reader.arm(mark["prompt"]), mark["example"]

    def _given(self, trial: FrozenTrial) -> dict[str, Any]:
        """Of our parameters, those that somebody else has chosen."""
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
    """After a trial was planned and asked."""
    arm, example = cell
    plan = ((arm, -1 if example is None else example),)
    return apply(apply(state, Decided(len(state.decisions), plan=plan)), Asked(number, arm, example))


def _counts(trial: FrozenTrial) -> bool:
    return bool(trial.system_attrs.get(MARK, {}).get("counts"))
