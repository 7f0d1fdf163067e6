"""The interface of a method. Subclass it to write a method of your own.

A method is asked `due` if `state.may_decide` is True: in `ask`, and for a `Selector` also
after `tell`, `fail` and `retire`. If a decision is due, it is asked to `decide`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from asktell.errors import IncompatibleMethodError
from asktell.numerics.arrays import Bools
from asktell.numerics.shapes import Bool
from asktell.problem.goals import BestFeasible, Goal
from asktell.problem.problem import Problem
from asktell.record import Decided, Departure, Growth, State


class AbstractMethod(ABC):
    """Decide which evaluations come next, which prompts are eliminated, and which prompts are selected.

    Derive your own method from this class, and define `decide` and `answer`.
    Prompts are called *arms* there, and are numbered from 0 (see `State`).

    asktell calls `due` if `state.may_decide` is True, and `decide` if `due` has returned
    True. By default, a decision is due when the plan is used up and no trial is pending.
    Override `due` to plan more evaluations while trials are pending.

    A method is an immutable value. Every decision must follow from the state alone, not
    from a clock, a file or random state. So each process of a study makes the same
    decision.

    A study or a saved selector stores the class name and the parameters. If the class
    is a dataclass, the parameters are its fields. Otherwise, they are the attributes
    whose names do not begin with an underscore.

    A result asks the method for what it says about the method. The attribute
    `confidence` is the probability of its `claim`: by default, that the selection is
    right if `decide` has ended it with `settled=True`. It is None if the method
    promises no such probability. The attribute `confidence_kind` is "proof" if the
    method guarantees it, and "posterior" if it is an estimate. `has_rounds` is False if
    the numbers of its decisions mean nothing to users. `selects_by_estimates` is False
    if more evaluations would not lead to the selection of the prompt with the best
    estimate. The verdict then has no outlook. `claim`, `notes`, `reason`,
    `most_decisions` and `ended_by_scores` have defaults.

    This method gives every prompt the same number of evaluations, but no more than
    there are examples. Then it selects the prompt with the highest mean:

        >>> import asktell
        >>> import numpy as np
        >>> from asktell.extend import AbstractMethod, events
        >>> class Equal(AbstractMethod):
        ...     def decide(self, state):
        ...         number = len(state.decisions)
        ...         evaluations = min(state.room // len(state.active), int(state.capacity().min()))
        ...         if number == 0 and evaluations > 0:
        ...             return events.Decided(number, pulls=evaluations)
        ...         (best,) = self.answer(state)
        ...         departures = [
        ...             events.Departure.of(arm, arm == best, "the budget is spent", None)
        ...             for arm in state.active.tolist()
        ...         ]
        ...         return events.Decided(number, tuple(departures), finished=True, answer=(best,))
        ...     def answer(self, state):
        ...         means = state.current_tally().means[:, 0]
        ...         return [int(np.nan_to_num(means, nan=-np.inf).argmax())]
        >>> prompts = {"short": "Answer in one word.", "long": "Think first."}
        >>> selector = asktell.Selector(prompts, asktell.BestFeasible("accuracy"), 12, Equal(), examples=10)
        >>> result = asktell.run(selector, lambda prompt, example: float("Think" in prompt), progress=False)
        >>> result.best.id
        'long'
    """

    confidence: float | None = None
    confidence_kind: str = "proof"
    has_rounds: bool = True
    selects_by_estimates: bool = True

    def check(self, problem: Problem) -> None:  # noqa: B027 - by default every problem is supported
        """Check that the method supports the problem.

        Args:
            problem: the settings of the selection, such as prompts, goal and budget.

        Raises:
            IncompatibleMethodError: the method does not support the problem.
        """

    def check_growth(self, event: Growth) -> None:  # noqa: B027 - by default everything may grow
        """Check that the method supports a change of the selection.

        `Adaptive` and `Race` support every change. So does every method that does not
        override `check_growth`.

        Args:
            event: prompts, budget or examples that are added, or a prompt that is
                retired.

        Raises:
            IncompatibleMethodError: the method does not support the change.
        """

    def due(self, state: State) -> bool:
        """Return True if a decision is due.

        By default, this is the case if no trial is pending, and the plan is used up or
        its next evaluation would exceed the budget of cost.

        If an override returns False although no trial is pending and nothing of the
        plan can be evaluated, the selection never ends.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
        """
        plan = state.plan
        if plan.pending:
            # A trial may still turn out cheaper than expected
            return False
        pull = plan.next()
        return pull is None or not state.fits(pull.arm)

    @abstractmethod
    def decide(self, state: State) -> Decided:
        """Return the next decision. It plans more evaluations, or ends the selection with the selected prompts.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
        """

    @abstractmethod
    def answer(self, state: State) -> list[int]:
        """Return the positions of the prompts to select if nothing more is evaluated, best first.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
        """

    def most_decisions(self, problem: Problem) -> int | None:
        """Return the largest number of decisions of a selection that is not finished. None, the default: any number.

        A saved selection with more decisions is damaged.

        Args:
            problem: the settings of the selection, such as prompts, goal and budget.
        """
        return None

    def ended_by_scores(self, state: State) -> bool:
        """Return True if a finished selection has ended at a moment that depends on its scores.

        Comparisons of prompts then allow for a look after every score. By default, this
        is the case if the selection ended with `settled=True`.

        Args:
            state: the state of the finished selection.
        """
        return state.decisions[-1][1].settled

    def claim(self, state: State) -> str:
        """Return what holds with a probability of `confidence`, as the end of a sentence. Empty: nothing yet.

        By default, "the selection is correct" if `decide` has ended it with
        `settled=True`. `Result.notes` has the claim, unless the scores are doubtful.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
        """
        if not state.finished or not state.decisions[-1][1].settled:
            return ""
        goal, within = state.problem.goal, ""
        if goal.tolerances and len(goal.columns) > 1:
            within = " within the tolerance" + "s" * (len(goal.tolerances) > 1)
        elif goal.tolerances:
            within = f" within {next(iter(goal.tolerances.values())):g}"
        return f"the selection is correct{within}"

    def reason(
        self, state: State, departure: Departure, name: Callable[[int], str]
    ) -> str:
        """Return why a prompt has left, for `PromptResult.reason`. By default, the reason that was recorded.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
            departure: what was recorded when the prompt left.
            name: returns how sentences name the prompt at a position.
        """
        return departure.reason

    def notes(self, state: State, name: Callable[[int], str]) -> tuple[str, ...]:
        """Return sentences on the method for `Result.notes`. By default, that features of the prompts were not used.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
            name: returns how sentences name the prompt at a position.
        """
        if state.problem.features is None:
            return ()
        return (unused_features(type(self).__name__, "does"),)


def unused_features(who: str, does: str) -> str:
    """The sentence that features of the prompts were not used, because `who` does or do not use any."""
    why = f"{who} {does} not use features. Only lcsh, gege, mlp-csr and mlp-ege do."
    return f"The features were not used, because {why}"


def open_arms(state: State) -> Bool[Bools, " arms"]:
    """For each arm, True if it is active and can be evaluated again.

    While a trial is pending, the budget of cost is ignored, because the trial may
    turn out cheaper than expected. If no trial is pending, the budget of cost must
    allow one more evaluation of the arm.
    """
    mask = np.zeros(state.problem.n_arms, dtype=bool)
    mask[state.active] = True
    mask &= state.have_pulls()
    if state.problem.max_cost is not None and not state.pending:
        mask[mask] = [state.fits(arm) for arm in np.flatnonzero(mask).tolist()]
    return mask


def check_not_sure(goal: Goal, method: str) -> None:
    """Check that a goal has no `sure`, for a method that does not estimate probabilities."""
    if isinstance(goal, BestFeasible) and goal.sure is not None:
        raise IncompatibleMethodError(
            f"sure={goal.sure:g} needs a method that estimates probabilities, and {method} does not. Use method='auto'."
        )
