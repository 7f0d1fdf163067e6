"""Functions that a configuration names as `package.module:name`."""

import importlib
import sys
from collections.abc import Mapping
from typing import Any

from asktell import MissingExtraError
from asktell_adapters.config.tables import Table, key


class LoaderTable(Table):
    """What is made by a function of the user's own."""

    loader: str = key(about='`"package.module:function"`, whose result is used.')
    arguments: dict[str, Any] = key({}, "Arguments of that function.")


def import_named(table: Table, dotted: str) -> Any:
    """What `package.module:name` names; modules beside the file are found."""
    module, colon, name = dotted.partition(":")
    if not colon or not module or not name:
        raise table.error("loader", "must look like 'package.module:function'", dotted)
    home = str(table.config_file.resolve().parent)
    if home not in sys.path:
        sys.path.insert(0, home)
    try:
        target = importlib.import_module(module)
        for part in name.split("."):
            target = getattr(target, part)
    except (Exception, SystemExit) as error:  # a module of the user's own may raise anything
        raise table.error("loader", f"cannot be imported: {type(error).__name__}: {error}", dotted) from error
    return target


def call_named(table: Table, dotted: str, arguments: Mapping[str, Any]) -> Any:
    """What the function that `package.module:name` names returns."""
    target = import_named(table, dotted)
    if not callable(target):
        raise table.error("loader", "must name a function", dotted)
    try:
        return target(**arguments)
    except MissingExtraError:
        raise
    except (Exception, SystemExit) as error:  # a function of the user's own may raise anything
        raise table.error("loader", f"failed: {dotted} raised {type(error).__name__}: {error}") from error
