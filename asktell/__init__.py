"""asktell: picks the best prompts for an LLM with the fewest evaluations, for several objectives at once."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from asktell._util.extras import own_version
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
from asktell.selector import Selector

if TYPE_CHECKING:
    from asktell.running.run import run
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


_LATE = {  # what not everybody needs, to keep the import light
    "RemoteStudy": "asktell.service.client",
    "Study": "asktell.studies.study",
    "run": "asktell.running.run",
}
_LATE_MODULES = {"features": "asktell.problem.features", "jax_cache": "asktell._util.jax_cache"}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    if name in _LATE_MODULES:
        return import_module(_LATE_MODULES[name])
    if name == "__version__":
        return own_version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_LATE_MODULES, "__version__"])
