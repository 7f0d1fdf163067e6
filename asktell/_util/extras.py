"""Optional packages. The error for a missing package contains the command that installs it."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from asktell.errors import InvalidStateError, MissingExtraError


def how_to_install(extra: str) -> str:
    """The end of a message with the command that installs an extra, from an index and in a checkout."""
    return f"Run: pip install 'asktell[{extra}]' (in a checkout: pip install --editable '.[{extra}]')"


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Turn an ImportError in the block into a MissingExtraError with the command that installs the extra."""
    try:
        yield
    except ImportError as error:
        # torch and llama.cpp also raise ImportError for a broken shared library, so
        # their message is kept.
        raise MissingExtraError(
            f"{error}. {how_to_install(extra)}", name=error.name, path=error.path
        ) from error


def check_extra(extra: str, *modules: str) -> None:
    """Check that optional modules are installed, without importing them, so that constructors fail early.

    Raises:
        MissingExtraError: a module is not installed.
    """
    for module in modules:
        if sys.modules.get(module) is None and importlib.util.find_spec(module) is None:
            raise MissingExtraError(
                f"No module named {module!r}. {how_to_install(extra)}", name=module
            )


def import_extra(module: str, extra: str) -> Any:
    """Import and return an optional module.

    The result is typed Any, so that type checking does not depend on the installed
    extras.

    Raises:
        MissingExtraError: the module is not installed.
    """
    with needs_extra(extra):
        return importlib.import_module(module)


def own_version() -> str:
    """The version of asktell, or "unknown" in a checkout that is not installed."""
    # Imported here, to keep the import of asktell light.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("asktell")
    except PackageNotFoundError:
        return "unknown"


def short(item: object) -> str:
    """A value's repr, cut to 60 characters, for a message. Never fails, however deep or long the value is."""
    try:
        text = repr(item)
    except (RecursionError, ValueError):
        # Python writes no more than sys.get_int_max_str_digits() digits
        text = f"<{type(item).__name__}>"
    return text if len(text) <= 60 else text[:57] + "..."


def check_format(
    what: str, data: Mapping[str, Any], name: str, version: int, writer: object = None
) -> None:
    """Check that data have a format, in the version that this asktell reads.

    `writer` is the version of asktell that wrote the data. None: the value of "asktell"
    in the data.

    Raises:
        InvalidStateError: the format or its version is different. The message asks for
            an upgrade if it is newer.
    """
    if data.get("format") != name:
        raise InvalidStateError(
            f"{what} must have the format {name!r}, but its format is {short(data.get('format'))}."
        )
    came, writer = (
        data.get("version"),
        data.get("asktell") if writer is None else writer,
    )
    if type(came) is int and came > version:
        by = f"asktell {str(writer)[:40]}" if writer else "a newer asktell"
        raise InvalidStateError(
            f"{what} was written by {by}, in version {short(came)} of the format. This is asktell {own_version()}, "
            f"which reads version {version}. Upgrade asktell."
        )
    if type(came) is not int or came != version:
        raise InvalidStateError(
            f"{what} has version {short(came)}, but this asktell reads version {version}."
        )
