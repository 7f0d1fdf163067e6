"""The table `[tracker]`: writes the progress and the result of a run to another tool."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asktell import InvalidArgumentError
from asktell.extend import BuiltIn, Registry, short
from asktell_adapters.config.tables import (
    Table,
    arguments_of,
    key,
    options_table,
    row_of,
)
from asktell_adapters.tracking.core import Tracker


class TrackerTable(Table):
    """A tracker of a kind in `TRACKERS`. Further keys are options of its class."""

    type: str = key(about='`"mlflow"`, `"wandb"`, or a tracker of another package.')

    def make(self) -> Tracker:
        """Make the tracker.

        Raises:
            ConfigError: an option is wrong, or the package that adds the tracker is
                broken.
            MissingExtraError: the tool is not installed.
        """
        with self.named(), TRACKERS.blamed(self.type):
            return TRACKERS[self.type](**self.given(TrackerTable))


def _made(name: str, kind: Any) -> type[Tracker]:
    if not inspect.isclass(kind) or not issubclass(kind, Tracker):
        raise InvalidArgumentError(
            f"it must be a class derived from asktell_adapters.tracking.core.Tracker, got {short(kind)}"
        )
    return kind


_HERE = "asktell_adapters.tracking"
TRACKERS: Registry[type[Tracker]] = Registry(
    "asktell.trackers",
    {
        "mlflow": BuiltIn(f"{_HERE}.mlflow:MLflowTracker", "mlflow"),
        "wandb": BuiltIn(f"{_HERE}.wandb:WandbTracker", "wandb"),
    },
    _made,
)
"""The trackers by the `type` in `[tracker]`. Packages add trackers to `asktell.trackers`."""


def table_of(kind: type[Tracker]) -> type[TrackerTable]:
    """The keys of a kind of tracker."""
    return options_table(kind, *arguments_of(kind), base=TrackerTable)


def read_tracker(path: Path, given: Mapping[str, Any]) -> TrackerTable:
    """Read and check the table `[tracker]`.

    Raises:
        ConfigError: the type or an option is unknown, or a value has a wrong type.
    """
    kind = row_of(TRACKERS, path, "tracker", given)
    return table_of(kind).read(path, "tracker", given)
