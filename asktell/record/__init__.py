"""The events of a selection, and the state that follows from its problem and them.

Everything in this package is an immutable value, and every function is pure: no clock,
no I/O, no random state. Only an `Engine` changes.
"""

from asktell.record.engine import Engine
from asktell.record.events import (
    Added,
    Asked,
    Decided,
    Departure,
    Event,
    Extended,
    Failed,
    Growth,
    Observed,
    Pull,
    Released,
    Remarked,
    Retired,
    Told,
)
from asktell.record.failures import Failures
from asktell.record.fold import apply, check, check_decision, decision_of
from asktell.record.growth import problem_after
from asktell.record.history import History
from asktell.record.state import GrowthStep, State, initial

__all__ = [
    "Added", "Asked", "Decided",
    "Departure", "Engine", "Event", "Extended", "Failed", "Failures", "Growth", "GrowthStep", "History", "Observed",
    "Pull", "Released", "Remarked", "Retired", "State", "Told", "apply", "check", "check_decision", "decision_of",
    "initial", "problem_after",
]  # fmt: skip
