"""A missing optional package becomes "pip install 'asktell[...]'", and the same for a checkout."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from asktell.errors import MissingExtraError


def how_to_install(extra: str) -> str:
    """The end of a message: the command that installs an extra, from an index and in a checkout."""
    return f"Run: pip install 'asktell[{extra}]' (in a checkout: pip install --editable '.[{extra}]')"


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Turn an ImportError in the block into a MissingExtraError that names the extra to install."""
    try:
        yield
    except ImportError as error:
        # torch and llama.cpp also raise ImportError when a shared library is broken: keep their words.
        raise MissingExtraError(f"{error}. {how_to_install(extra)}", name=error.name, path=error.path) from error


def check_extra(extra: str, *modules: str) -> None:
    """Check that optional modules are installed, so that constructors fail early, without importing them."""
    for module in modules:
        if sys.modules.get(module) is None and importlib.util.find_spec(module) is None:
            raise MissingExtraError(f"No module named {module!r}. {how_to_install(extra)}", name=module)


def import_extra(module: str, extra: str) -> Any:
    """Import and return an optional module, late.

    The result is typed Any, so that type checking does not depend on which extras are installed.
    """
    with needs_extra(extra):
        return importlib.import_module(module)


def own_version() -> str:
    """The version of asktell; "unknown" in a checkout that is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # here, to keep the import of asktell light

    try:
        return version("asktell")
    except PackageNotFoundError:
        return "unknown"
