"""asktell: picks the best prompts for an LLM with the fewest evaluations, for several objectives at once."""

from typing import TYPE_CHECKING, Any

from asktell.errors import (
    AsktellError,
    BudgetTooSmallError,
    ConflictingTellError,
    EvaluatorError,
    IncompatibleMethodError,
    InvalidArgumentError,
    InvalidScoresError,
    InvalidStateError,
    MissingExtraError,
    UnknownTrialError,
)
from asktell.goals import BestFeasible, ParetoSet, at_least, at_most, maximize, minimize
from asktell.methods import METHODS, Elimination, preset
from asktell.result import PromptResult, Result
from asktell.selector import Selector
from asktell.trial import Trial

if TYPE_CHECKING:
    from asktell.run import run

__all__ = [
    "METHODS",
    "AsktellError",
    "BestFeasible",
    "BudgetTooSmallError",
    "ConflictingTellError",
    "Elimination",
    "EvaluatorError",
    "IncompatibleMethodError",
    "InvalidArgumentError",
    "InvalidScoresError",
    "InvalidStateError",
    "MissingExtraError",
    "ParetoSet",
    "PromptResult",
    "Result",
    "Selector",
    "Trial",
    "UnknownTrialError",
    "at_least",
    "at_most",
    "maximize",
    "minimize",
    "preset",
    "run",
]


def __getattr__(name: str) -> Any:
    """Load `run` when it is first used: it brings asyncio and executors along."""
    if name == "run":
        from asktell.run import run

        return run
    raise AttributeError(f"module 'asktell' has no attribute {name!r}")
