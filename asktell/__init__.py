"""asktell: picks the best prompts for an LLM with the fewest evaluations, for several objectives at once."""

from typing import TYPE_CHECKING, Any

from asktell.errors import (
    AccessDeniedError,
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
    ServiceError,
    StorageBusyError,
    StorageError,
    StudyExistsError,
    StudyNotFoundError,
    TellManyError,
    UnknownTrialError,
)
from asktell.methods import METHODS, Elimination, Race, preset
from asktell.methods.adaptive import Adaptive
from asktell.posterior.profile import ExampleProfile
from asktell.problem.budget import Budget
from asktell.problem.candidates import Tell, Trial
from asktell.problem.goals import BestFeasible, ParetoSet, at_least, at_most, maximize, minimize
from asktell.results import Comparison, Difference, PromptResult, Result
from asktell.running.run import run
from asktell.selector import Selector

if TYPE_CHECKING:
    from asktell.service.client import RemoteStudy
    from asktell.studies.study import Study

__all__ = [
    "METHODS",
    "AccessDeniedError",
    "Adaptive",
    "AsktellError",
    "BestFeasible",
    "Budget",
    "BudgetTooSmallError",
    "Comparison",
    "ConfigError",
    "ConflictingTellError",
    "Difference",
    "Elimination",
    "EvaluatorError",
    "ExampleProfile",
    "FolderBusyError",
    "IncompatibleMethodError",
    "InvalidArgumentError",
    "InvalidScoresError",
    "InvalidStateError",
    "MissingExtraError",
    "NotPicklableError",
    "ParetoSet",
    "PromptResult",
    "Race",
    "RemoteStudy",
    "Result",
    "Selector",
    "ServiceError",
    "StorageBusyError",
    "StorageError",
    "Study",
    "StudyExistsError",
    "StudyNotFoundError",
    "Tell",
    "TellManyError",
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
    if name == "Study":  # late, to keep the import light
        from asktell.studies.study import Study

        return Study
    if name == "RemoteStudy":
        from asktell.service.client import RemoteStudy

        return RemoteStudy
    if name == "features":
        from asktell.problem import features

        return features
    if name == "jax_cache":
        from asktell._util import jax_cache

        return jax_cache
    if name == "__version__":
        from asktell._util.extras import own_version

        return own_version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__", "features", "jax_cache"]
