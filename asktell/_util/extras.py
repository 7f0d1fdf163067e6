"""Optional packages. The error for a missing package contains the command that installs it."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from asktell.errors import MissingExtraError


def how_to_install(extra: str) -> str:
    """The end of a message with the command that installs an extra, from an index and in a checkout."""
    return f"Run: pip install 'asktell[{extra}]' (in a checkout: pip install --editable '.[{extra}]')"


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Turn an ImportError in a `with` block into a MissingExtraError, which has the command that installs the extra.

    Args:
        extra: the name of an extra of asktell, as in `pip install asktell[EXTRA]`.

    Raises:
        MissingExtraError: an import in the block failed.
    """
    try:
        yield
    except ImportError as error:
        # torch and llama.cpp also raise ImportError for a broken shared library, so
        # their message is kept.
        raise MissingExtraError(
            f"{error}. {how_to_install(extra)}", name=error.name, path=error.path
        ) from error


def check_extra(extra: str, *modules: str) -> None:
    """Check that optional modules are installed, without importing them.

    Call it in a constructor, so that a missing module is noticed early.

    Args:
        extra: the name of the extra of asktell that installs the modules.
        modules: the names of the modules.

    Raises:
        MissingExtraError: a module is not installed. The message has the command that
            installs the extra.
    """
    for module in modules:
        if sys.modules.get(module) is None and importlib.util.find_spec(module) is None:
            raise MissingExtraError(
                f"No module named {module!r}. {how_to_install(extra)}", name=module
            )


def import_extra(module: str, extra: str) -> Any:
    """Import and return an optional module.

    The result has the type Any. So type checking does not depend on the installed
    extras.

    Args:
        module: the name of the module.
        extra: the name of the extra of asktell that installs the module.

    Raises:
        MissingExtraError: the module is not installed. The message has the command that
            installs the extra.
    """
    with needs_extra(extra):
        return importlib.import_module(module)
