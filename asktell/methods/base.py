"""The interface of a method. Subclass it to write a method of your own.

A selector asks `due` after each event that may end a plan, and `decide` only if a
decision is due.
"""

from abc import ABC, abstractmethod

from asktell.state import Decided, Growth, Problem, State


class AbstractMethod(ABC):
    """Decide which evaluations come next, which prompts are eliminated, and which prompts are selected.

    Derive your own method from this class, and define `due`, `decide` and `answer`. A
    method calls a prompt an *arm*, and refers to it by its position (see `State`).

    A method is an immutable value. Every decision must follow from the state alone, not
    from a clock, a file or random state. So each process of a study makes the same
    decision.

    A study or a saved selector stores the class name and the parameters. If the class
    is a dataclass, the parameters are its fields. Otherwise, they are the attributes
    whose names do not begin with an underscore.

    This method gives every prompt the same number of evaluations. Then it selects the
    prompt with the highest mean:

        >>> import asktell
        >>> import numpy as np
        >>> from asktell.extend import AbstractMethod, events
        >>> class Equal(AbstractMethod):
        ...     def due(self, state):
        ...         return state.plan_is_empty and not state.pending
        ...     def decide(self, state):
        ...         number = len(state.decisions)
        ...         evaluations = state.room // len(state.active)
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

    Attributes:
        tolerance: a prompt that is at most this much worse than the best prompt also
            counts as the best, in units of the metric. 0 by default.
    """

    tolerance: float = 0.0

    def check(self, problem: Problem) -> None:  # noqa: B027 - by default every problem is supported
        """Check that the method supports the problem.

        Raises:
            IncompatibleMethodError: the method does not support the problem.
        """

    def check_growth(self, event: Growth) -> None:  # noqa: B027 - by default everything may grow
        """Check that the event, which adds prompts, budget or examples or retires a prompt, is supported.

        Raises:
            IncompatibleMethodError: the method does not support the event.
        """

    @abstractmethod
    def due(self, state: State) -> bool:
        """True if the method can make its next decision now.

        This is called when `state.may_decide` is True: all planned evaluations were
        assigned, or the budget of cost may not allow the rest of them. Return False to
        wait for the scores of pending trials.
        """

    @abstractmethod
    def decide(self, state: State) -> Decided:
        """The next decision: the evaluations that come next, or the end of the selection with the selected arms.

        This is called only after `due` has returned True.
        """

    @abstractmethod
    def answer(self, state: State) -> list[int]:
        """The arms to select if nothing more is evaluated, best first. A result before the end shows them."""
