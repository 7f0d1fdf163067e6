"""A missing optional package becomes "pip install 'asktell[...]'"."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from asktell.errors import MissingExtraError


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Turn an ImportError in the block into a MissingExtraError that names the extra to install.

    Raises:
        MissingExtraError: an import in the block failed.
    """
    try:
        yield
    except ImportError as error:
        # torch and llama.cpp also raise ImportError when a shared library is broken: keep their words.
        raise MissingExtraError(
            f"{error}. Run: pip install 'asktell[{extra}]'", name=error.name, path=error.path
        ) from error


def check_extra(extra: str, *modules: str) -> None:
    """See that optional modules are installed, without importing them: for constructors, to fail early.

    Raises:
        MissingExtraError: one is missing.
    """
    for module in modules:
        if sys.modules.get(module) is None and importlib.util.find_spec(module) is None:
            raise MissingExtraError(f"No module named {module!r}. Run: pip install 'asktell[{extra}]'", name=module)


def import_extra(module: str, extra: str) -> Any:
    """Import and return an optional module, late.

    The result is typed Any, so that type checking does not depend on which extras are installed.

    Raises:
        MissingExtraError: the module, or one that it needs, is missing.
    """
    with needs_extra(extra):
        return importlib.import_module(module)
