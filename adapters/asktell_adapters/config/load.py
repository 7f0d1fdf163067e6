"""Read a configuration. A mistake in the file itself is found before the modules that a run needs are imported."""

from pathlib import Path
from typing import TYPE_CHECKING

from asktell_adapters.config.secret_check import refuse_secrets
from asktell_adapters.config.top import TopTable, parse
from asktell_adapters.tables.rows import from_toml

if TYPE_CHECKING:
    from asktell_adapters.config.config import Config

# Tables that change [model], or cannot be combined with it
_ABOUT_MODELS = ("models", "candidates", "evaluator", "label")


def load_config(
    path: Path,
    improve: bool = False,
    *,
    text: str | None = None,
    baseline: str | None = None,
) -> "Config":
    """Read a configuration, its prompts and its dataset, and check everything that needs no model.

    If the file names a function as `loader`, the function is imported and called. Its
    module is searched in the file's folder first.

    Args:
        path: the TOML file.
        improve: True for `asktell improve`, which also writes prompts. False for
            `asktell run`.
        text: the content of the file. By default, it is read from `path`.
        baseline: id of the prompt that you use now. It is used if a constraint is
            relative to the baseline, but the file names no baseline.

    Raises:
        ConfigError: a mistake in the file, or in a file that it refers to.
    """
    # Secrets are refused first, since later errors repeat values
    data = parse(path) if text is None else from_toml(text, path.name)
    refuse_secrets(path.name, data)
    top = TopTable.read(path, "", data)
    top.check_needed()
    if top.model is not None and not any(map(top.has, _ABOUT_MODELS)):
        from asktell_adapters.config.model import read_model

        read_model(path, "model", top.model)

    # Here, since it imports all that a file can name
    from asktell_adapters.config.config import configured

    return configured(top, data, improve=improve, baseline=baseline)
