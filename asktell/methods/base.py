"""The interface of a method, for methods of your own."""

from abc import ABC, abstractmethod

from asktell.state import Decided, Growth, Problem, State


class AbstractMethod(ABC):
    """Decides which evaluations come next, which prompts leave, and what the answer is.

    A method is an immutable value. Every decision is a function of the state alone (no clock, file or random state),
    so that each process of a study comes to the same one. `tolerance`: how much worse than the best counts as right.

    A study or a saved selector keeps the class name and the parameters: the fields of a dataclass, otherwise the
    attributes whose names do not begin with an underscore.
    """

    tolerance: float = 0.0

    def check(self, problem: Problem) -> None:  # noqa: B027 - by default every problem is supported
        """Check that the method supports the problem.

        Raises:
            IncompatibleMethodError: it does not.
        """

    def check_growth(self, event: Growth) -> None:  # noqa: B027 - by default everything may grow
        """Check that prompts, budget or examples may be added, and prompts retired.

        Raises:
            IncompatibleMethodError: they may not.
        """

    @abstractmethod
    def due(self, state: State) -> bool:
        """True if `decide` is to be called; the plan is then empty, or nothing of it can be paid for."""

    @abstractmethod
    def decide(self, state: State) -> Decided:
        """The next decision: a plan of evaluations, or the end with the answer."""

    @abstractmethod
    def answer(self, state: State) -> list[int]:
        """The arms that are selected if nothing more is evaluated, best first."""
