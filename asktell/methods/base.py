"""The interface of a method. Subclass it to write a method of your own.

A selector asks `due` after each event that may end a plan, and `decide` only if a
decision is due.
"""

from abc import ABC, abstractmethod

from asktell.state import Decided, Growth, Problem, State


class AbstractMethod(ABC):
    """Decide which evaluations come next, which prompts are eliminated, and which prompts are selected.

    A method is an immutable value. Every decision must be a function of the state alone
    (no clock, file or random state), so that each process of a study makes the same
    decision.

    A study or a saved selector stores the class name and the parameters. These are the
    fields of a dataclass, or else the attributes whose names do not begin with an
    underscore.

    `tolerance` is how much worse than the best still counts as right, in units of the
    metric.
    """

    tolerance: float = 0.0

    def check(self, problem: Problem) -> None:  # noqa: B027 - by default every problem is supported
        """Check that the method supports the problem.

        Args:
            problem: the settings of the selection, such as prompts, goal and budget.

        Raises:
            IncompatibleMethodError: the method does not support the problem.
        """

    def check_growth(self, event: Growth) -> None:  # noqa: B027 - by default everything may grow
        """Check that the method supports a change of the selection. By default, it supports every change.

        Args:
            event: prompts, budget or examples that are added, or a prompt that is
                retired.

        Raises:
            IncompatibleMethodError: the method does not support the change.
        """

    @abstractmethod
    def due(self, state: State) -> bool:
        """Return True if a decision is due: the plan is used up, or the budget does not allow the rest of the plan.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
        """

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
