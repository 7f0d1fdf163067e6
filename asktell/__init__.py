"""asktell: picks the best prompts for an LLM with the fewest evaluations, for several objectives at once.

Errors are imported at once, and everything else when it is first used. So `import
asktell` takes little time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from asktell.errors import (
    AccessDeniedError,
    AsktellError,
    BudgetTooSmallError,
    ConfigError,
    ConflictingTellError,
    ConflictingWorkerError,
    EvaluatorError,
    FolderBusyError,
    IncompatibleMethodError,
    InvalidArgumentError,
    InvalidScoresError,
    InvalidStateError,
    MissingExtraError,
    MissingMethodError,
    NotPicklableError,
    ServiceError,
    StorageBusyError,
    StorageError,
    StudyExistsError,
    StudyNotFoundError,
    TellManyError,
    UnknownTrialError,
)

if TYPE_CHECKING:
    from asktell.finished import analyze
    from asktell.methods import METHODS, Adaptive, Elimination, Race, preset
    from asktell.methods.referee import Referee
    from asktell.problem.budget import Budget
    from asktell.problem.candidates import Candidates, grid
    from asktell.problem.examples.profile import ExampleProfile
    from asktell.problem.goals import BestFeasible, ParetoSet
    from asktell.problem.objectives import at_least, at_most, maximize, minimize, within
    from asktell.problem.trials import Tell, Trial
    from asktell.results.assignment import Assignment, SegmentChoice
    from asktell.results.checks import Check
    from asktell.results.comparison import ChangedExample, Comparison, Noise
    from asktell.results.difference import Difference
    from asktell.results.entries import PromptResult
    from asktell.results.examples import ExampleResult
    from asktell.results.outlook import Outlook
    from asktell.results.result import Result
    from asktell.results.verdict import Change, Verdict
    from asktell.running.run import run, run_async
    from asktell.selector import Selector
    from asktell.simulation.simulate import simulate
    from asktell.simulation.simulation import Simulation
    from asktell.studies.remote import RemoteStudy
    from asktell.studies.study import Study

__all__ = [
    "METHODS", "AccessDeniedError", "Adaptive", "AsktellError", "Assignment", "BestFeasible", "Budget",
    "BudgetTooSmallError",
    "Candidates", "Change", "ChangedExample", "Check", "Comparison", "ConfigError", "ConflictingTellError",
    "ConflictingWorkerError", "Difference", "Elimination", "EvaluatorError", "ExampleProfile", "ExampleResult",
    "FolderBusyError", "IncompatibleMethodError", "InvalidArgumentError", "InvalidScoresError", "InvalidStateError",
    "MissingExtraError", "MissingMethodError", "Noise", "NotPicklableError", "Outlook", "ParetoSet", "PromptResult",
    "Race", "Referee", "RemoteStudy", "Result", "SegmentChoice", "Selector", "ServiceError", "Simulation",
    "StorageBusyError", "StorageError",
    "Study", "StudyExistsError", "StudyNotFoundError", "Tell", "TellManyError", "Trial", "UnknownTrialError",
    "Verdict", "analyze", "at_least", "at_most", "grid", "maximize", "minimize", "preset", "run", "run_async",
    "simulate", "within",
]  # fmt: skip

_LATE = {
    "asktell.methods": ("METHODS", "Adaptive", "Elimination", "Race", "preset"),
    "asktell.methods.referee": ("Referee",),
    "asktell.problem.examples.profile": ("ExampleProfile",),
    "asktell.problem.budget": ("Budget",),
    "asktell.problem.candidates": ("Candidates", "grid"),
    "asktell.problem.goals": ("BestFeasible", "ParetoSet"),
    "asktell.problem.objectives": (
        "at_least",
        "at_most",
        "maximize",
        "minimize",
        "within",
    ),
    "asktell.problem.trials": ("Tell", "Trial"),
    "asktell.results.difference": ("Difference",),
    "asktell.results.assignment": ("Assignment", "SegmentChoice"),
    "asktell.results.checks": ("Check",),
    "asktell.results.comparison": ("ChangedExample", "Comparison", "Noise"),
    "asktell.results.entries": ("PromptResult",),
    "asktell.results.examples": ("ExampleResult",),
    "asktell.results.result": ("Result",),
    "asktell.results.outlook": ("Outlook",),
    "asktell.results.verdict": ("Change", "Verdict"),
    "asktell.running.run": ("run", "run_async"),
    "asktell.selector": ("Selector",),
    "asktell.finished": ("analyze",),
    "asktell.simulation.simulate": ("simulate",),
    "asktell.simulation.simulation": ("Simulation",),
    "asktell.studies.remote": ("RemoteStudy",),
    "asktell.studies.study": ("Study",),
}
_HOME = {name: module for module, names in _LATE.items() for name in names}
_MODULES = {
    "features": "asktell.problem.features",
    "jax_cache": "asktell._util.jax_cache",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from asktell.problem.checks import own_version

        return own_version()
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "__version__"])
