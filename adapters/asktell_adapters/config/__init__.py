"""Read a TOML file that describes a run: its prompts, dataset, model, metrics and goal.

`load_config` reads and checks the file. A mistake in it is an error with a message of one
line. The set-up of a run is the part of a configuration that its outcome depends on.
`differences` compares two set-ups.

What a checked configuration needs is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from asktell_adapters.config.load import load_config
from asktell_adapters.config.secret_check import refuse_secrets
from asktell_adapters.config.top import load_cache, output_folder

if TYPE_CHECKING:
    from asktell_adapters.config.config import Config
    from asktell_adapters.config.setup import (
        changed_responses,
        changed_rows,
        differences,
        only_more_rows,
    )

__all__ = [
    "Config", "changed_responses", "changed_rows", "differences", "load_cache", "load_config", "only_more_rows",
    "output_folder", "refuse_secrets",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "config" if name == "Config" else "setup"
    return getattr(import_module(f"asktell_adapters.config.{home}"), name)
