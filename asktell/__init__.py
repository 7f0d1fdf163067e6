"""asktell: picks the best prompts for an LLM with the fewest evaluations, for several objectives at once."""

from asktell.adaptive import Adaptive
from asktell.budget import Budget
from asktell.errors import (
    AsktellError,
    BudgetTooSmallError,
    ConfigError,
    ConflictingTellError,
    EvaluatorError,
    FolderBusyError,
    IncompatibleMethodError,
    InvalidArgumentError,
    InvalidScoresError,
    InvalidStateError,
    MissingExtraError,
    NotPicklableError,
    UnknownTrialError,
)
from asktell.goals import BestFeasible, ParetoSet, at_least, at_most, maximize, minimize
from asktell.methods import METHODS, Elimination, preset
from asktell.result import PromptResult, Result
from asktell.run import run
from asktell.selector import Selector
from asktell.trial import Trial

__all__ = [
    "METHODS",
    "Adaptive",
    "AsktellError",
    "BestFeasible",
    "Budget",
    "BudgetTooSmallError",
    "ConfigError",
    "ConflictingTellError",
    "Elimination",
    "EvaluatorError",
    "FolderBusyError",
    "IncompatibleMethodError",
    "InvalidArgumentError",
    "InvalidScoresError",
    "InvalidStateError",
    "MissingExtraError",
    "NotPicklableError",
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
