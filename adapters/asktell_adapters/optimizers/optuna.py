"""An Optuna sampler with which asktell chooses prompts and examples in an Optuna study.

The study's storage is all there is. Every process makes the selection's state anew of the trials that it finds there,
and of nothing else: a trial that this sampler chose was asked, and told or failed once it is finished; any other
finished trial was observed. The sampler marks its own with a system attribute.
"""

import copy
import logging
from collections.abc import Sequence
from contextlib import suppress
from threading import RLock
from typing import Any, final

from asktell import Adaptive, IncompatibleMethodError, InvalidArgumentError, Result, Selector
from asktell.extend import at_state, needs_extra
from asktell_adapters.optimizers._optuna_ledger import MARK, Ledger
from asktell_adapters.optimizers._optuna_trials import Reader, goal_of

with needs_extra("optuna"):
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.trial import FrozenTrial, TrialState

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
        InvalidArgumentError: the selector has been asked before.
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
        """The answer so far, by everything in the study's storage: what `Selector.result()` says.

        Raises:
            IncompatibleMethodError: the study and the selector's goal do not go together.
            InvalidArgumentError: the same, seen by a trial.
        """
        return self.selector(study).result()

    def selector(self, study: Study) -> Selector:
        """A selector that knows everything in the study's storage by now: to export, report or compare.

        The one that the sampler was made with stays as it was.

        Raises:
            IncompatibleMethodError: as for `result`.
            InvalidArgumentError: as for `result`.
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
        """The ledger with everything that is in the storage by now."""
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
