"""A missing optional package becomes "pip install 'asktell[...]'", and the same for a checkout."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from asktell.errors import InvalidStateError, MissingExtraError


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


def short(item: object) -> str:
    """A value's repr, cut to 60 characters, for a message; never fails, however deep or long the value is."""
    try:
        text = repr(item)
    except (RecursionError, ValueError):  # Python writes no more than sys.get_int_max_str_digits() digits
        text = f"<{type(item).__name__}>"
    return text if len(text) <= 60 else text[:57] + "..."


def check_format(what: str, data: Mapping[str, Any], name: str, version: int, writer: object = None) -> None:
    """Check that data are of a format and of the one version of it that this asktell reads.

    `writer`: the version of the asktell that wrote them, where they name it; by default their "asktell".

    Raises:
        InvalidStateError: they are not. Of data from a newer asktell it says so.
    """
    if data.get("format") != name:
        raise InvalidStateError(f"{what} must have the format {name!r}, but its format is {short(data.get('format'))}.")
    came, writer = data.get("version"), data.get("asktell") if writer is None else writer
    if type(came) is int and came > version:
        by = f"asktell {str(writer)[:40]}" if writer else "a newer asktell"
        raise InvalidStateError(
            f"{what} was written by {by}, in version {came} of the format; this is asktell {own_version()}, which "
            f"reads version {version}: upgrade asktell."
        )
    if type(came) is not int or came != version:
        raise InvalidStateError(f"{what} has version {short(came)}; this asktell reads version {version}.")
