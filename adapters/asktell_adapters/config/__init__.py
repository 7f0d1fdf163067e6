"""A run described in a TOML file: prompts, data set, model, metrics, goal. Each mistake in it is named in one line.

`load` reads it table by table (`data`, `model`, `metrics`, `goal`, all by way of
`tables`); `setup` compares the runs that two files describe.
"""

from asktell_adapters.config.load import Config, load_cache, load_config, output_folder
from asktell_adapters.config.secret_check import refuse_secrets
from asktell_adapters.config.setup import changed_rows, differences, only_more_rows

__all__ = [
    "Config", "changed_rows", "differences", "load_cache", "load_config", "only_more_rows", "output_folder",
    "refuse_secrets",
]  # fmt: skip
