"""Inspect (inspect-ai): tasks, sources of samples, early stopping and logs. Names are imported at their first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asktell_adapters.harnesses.inspect.early_stopping import EarlyStopping
    from asktell_adapters.harnesses.inspect.logs import observe_logs
    from asktell_adapters.harnesses.inspect.samples import system_prompt
    from asktell_adapters.harnesses.inspect.source import InspectSource
    from asktell_adapters.harnesses.inspect.task import InspectTask

__all__ = [
    "EarlyStopping",
    "InspectSource",
    "InspectTask",
    "observe_logs",
    "system_prompt",
]

# The modules of the names above, in their order.
_HOMES = ("early_stopping", "source", "task", "logs", "samples")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[__all__.index(name)]}"), name)
