"""Tables of a configuration file as pydantic models: types, limits, defaults and descriptions stand in one place.

A table inside a table is a field of its type, so that one call of `Table.read` checks
a whole file. `TABLES` has the class of every table by name. A class is imported when a
file has its table, so that a mistake in a file is found in little time. Every mistake
is named by file, table and key. `reference` lists all keys for
docs/reference/configuration.md.
"""

import difflib
import importlib
import inspect
import json
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    Self,
    TypeVar,
    Union,
    final,
    get_args,
    get_origin,
)

from asktell import AsktellError, ConfigError, MissingExtraError
from asktell.extend import Registry, nearest, needs_extra, short

with needs_extra("config"):
    from pydantic import (
        BaseModel,
        ConfigDict,
        Field,
        PrivateAttr,
        ValidationError,
        create_model,
    )
    from pydantic import (
        BeforeValidator as BeforeValidator,
    )
    from pydantic.fields import FieldInfo
    from pydantic_core import CoreSchema, core_schema

EXAMPLE_OF_A_PRICE = (
    "such as price = { input = 0.15, output = 0.6 } (per million tokens)"
)
_GOT_NOTHING: Any = object()
_T = TypeVar("_T", bound="Table")
_Inner = TypeVar("_Inner")


def key(
    default: Any = ...,
    about: str = "",
    *,
    said: str | Callable[[], str] = "",
    expected: str = "",
    **limits: Any,
) -> Any:
    """A key of a table. It is needed unless it has a default.

    Args:
        default: the value without the key.
        about: the effect of the key, for the reference.
        said: the default in words, for the reference, or a function that returns it.
        expected: the allowed values in words, for the reference and for messages.
        limits: limits as pydantic takes them, and `alias` for a name that Python
            cannot have.
    """
    words: Any = {"said": said, "expected": expected}
    return Field(default, description=about, json_schema_extra=words, **limits)


class Table(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    _path: Path = PrivateAttr(default=Path())
    _name: str = PrivateAttr(default="")

    @classmethod
    def read(cls, path: Path, name: str, data: Mapping[str, Any]) -> Self:
        """Check the table `name` of the file, and all tables inside it.

        Raises:
            ConfigError: a key is unknown or missing, or a value has a wrong type.
        """
        try:
            table = cls.model_validate(data)
        except ValidationError as error:
            raise ConfigError(
                f"{path.name}: {_explained(cls, name, data, error)}"
            ) from None
        table._place(path, name)
        return table

    def _place(self, path: Path, name: str) -> None:
        """Note the file and the name of this table, and of all tables inside it, for messages."""
        self._path, self._name = path, name
        for field in type(self).model_fields:
            within = f"{name}.{field}" if name else field
            value = getattr(self, field)
            if isinstance(value, dict):
                for key, inner in value.items():
                    if isinstance(inner, Table):
                        inner._place(path, f"{within}.{key}")
                continue
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, Table):
                    inner._place(path, within)

    @property
    def config_file(self) -> Path:
        """The file that the table is in."""
        return self._path

    @property
    def title(self) -> str:
        """The table's full name, such as `improve.writer`. It is empty for the top of the file."""
        return self._name

    def mistake(self, words: str) -> ConfigError:
        """An error about the file."""
        return ConfigError(f"{self._path.name}: {words}")

    def has(self, name: str) -> bool:
        """Whether the file gives this key, rather than leaving it to its default."""
        return name in self.model_fields_set

    def given(self, base: type["Table"]) -> dict[str, Any]:
        """The values that the file gives for keys which the table `base` does not have, by their names in the file."""
        return {
            field.alias or name: getattr(self, name)
            for name, field in type(self).model_fields.items()
            if self.has(name) and name not in base.model_fields
        }

    def needed(self, name: str, table: _Inner | None) -> _Inner:
        """The table `name` inside this one.

        Raises:
            ConfigError: the file has no such table.
        """
        if table is None:
            keys = listed(keys_of(TABLES[name]))
            raise self.mistake(f"the table [{name}] is missing. Its keys are {keys}.")
        return table

    def error(self, name: str, problem: str, value: Any = _GOT_NOTHING) -> ConfigError:
        """An error about the key `name` of this table. A value, if passed, ends the first sentence of the problem."""
        first, dot, rest = problem.partition(". ")
        got = "" if value is _GOT_NOTHING else f", got {short(value)}"
        is_table = not self._name and isinstance(getattr(self, name), Table | dict)
        place = f"[{name}]" if is_table else f"{name!r} {_where(self._name)}"
        return self.mistake(f"{place} {first}{got}{dot}{rest}.")

    def beside(self, name: str) -> Path:
        """A path that the file names, relative to the file's folder."""
        return Path(self._path.resolve().parent, Path(name).expanduser())

    @contextmanager
    def named(self) -> Iterator[None]:
        """Put the file's name, and the table's, before an error's message."""
        try:
            yield
        except (MissingExtraError, ConfigError):
            raise
        except AsktellError as error:
            table = f", [{self._name}]" if self._name else ""
            raise ConfigError(f"{self._path.name}{table}: {error}") from error


@final
class _Tables(Mapping[str, type[Table]]):
    """The classes of tables by the names of the tables. A class is imported when it is asked for."""

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = homes

    def __getitem__(self, name: str) -> type[Table]:
        module, _, kind = self._homes[name].partition(":")
        table: type[Table] = getattr(
            importlib.import_module(f"asktell_adapters.config.{module}"), kind
        )
        return table

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)


TABLES = _Tables(
    {
        "": "top:TopTable",
        "budget": "top:BudgetTable",
        "cache": "top:CacheTable",
        "candidates": "candidates:CandidatesTable",
        "data": "data:DataTable",
        "evaluator": "harness:EvaluatorTable",
        "evaluator.meter": "harness:MeterTable",
        "goal": "top:GoalTable",
        "improve": "improve:ImproveTable",
        "improve.writer": "improve:WriterTable",
        "judge": "licence:LicenceTable",
        "label": "label:LabelTable",
        "model": "model:AnyModelTable",
        "profile": "top:ProfileTable",
        "prompts": "data:PromptsTable",
        "proxies": "proxies:ProxiesTable",
        "tracker": "tracker:TrackerTable",
    }
)
"""Every table of the file by its name, the top of the file by an empty name."""


@final
class InTables:
    """The type of a key that holds the table `name` of `TABLES`, as in `Annotated[Any, InTables("data")]`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        # A mistake in the table is an error of pydantic's with its whole place
        return core_schema.no_info_plain_validator_function(
            lambda data: TABLES[self.name].model_validate(data)
        )


def options_table(
    made: Callable[..., Any], *names: str, base: type[_T], **others: Any
) -> type[_T]:
    """A table whose further keys are arguments of a function or class, with their types.

    A key is needed if its argument has no default. An argument without a type takes any
    value.
    """
    parameters = inspect.signature(made, eval_str=True).parameters
    fields: dict[str, Any] = {}
    for name in names:
        kind, default = parameters[name].annotation, None
        if kind is inspect.Parameter.empty:
            kind = Any
        if parameters[name].default is inspect.Parameter.empty:
            default = ...
        else:
            kind = kind | None
        # A field cannot have the name of a method
        field = f"{name}_" if hasattr(base, name) else name
        fields[field] = kind, Field(default, alias=None if field == name else name)
    return create_model(f"{made.__name__}Table", __base__=base, **fields, **others)


def arguments_of(made: Callable[..., Any]) -> list[str]:
    """The arguments of a function or class that a file can set: those by name, except for objects of any type."""
    return [
        name
        for name, argument in inspect.signature(made, eval_str=True).parameters.items()
        if argument.kind not in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD)
        and argument.annotation is not Any
    ]


def row_of(
    registry: Registry[_Inner],
    path: Path,
    name: str,
    given: Mapping[str, Any],
    otherwise: str = "",
) -> _Inner:
    """The entry of a registry that the key `type` of a table names.

    Args:
        registry: the entries by name.
        path: the configuration file.
        name: the table's name, for messages.
        given: the table.
        otherwise: further advice if there is no `type`.

    Raises:
        ConfigError: the type is missing or unknown, or the package that adds it is
            broken.
    """
    kind = given.get("type")
    table = Table.model_construct()
    table._path, table._name = path, name
    if not isinstance(kind, str) or kind not in registry:
        names = registry.names()
        if kind is None:
            raise table.error(
                "type", f"is missing. It must be one of {listed(names)}{otherwise}"
            )
        raise table.error(
            "type", f"must be one of {listed(names)}{nearest(kind, names)}", kind
        )
    with table.named():
        return registry[kind]


def keys_of(table: type[Table]) -> list[str]:
    """The names of the keys, as they stand in a file."""
    return [field.alias or name for name, field in table.model_fields.items()]


def _where(name: str) -> str:
    """The place of a key, in words."""
    return f"in [{name}]" if name else "at the top"


def _explained(
    table: type[Table], name: str, data: Mapping[str, Any], error: ValidationError
) -> str:
    """The first mistake, in words. Unknown keys come before others."""

    # A number or a table that is neither has an error for both. The deeper error
    # belongs to the table that the user wrote.
    def order(mistake: Any) -> tuple[bool, int]:
        return mistake["type"] != "extra_forbidden", -len(mistake["loc"])

    mistake = sorted(error.errors(include_url=False), key=order)[0]
    table, name, at, value = _mistaken(table, name, data, mistake["loc"])
    where = _where(name)
    if mistake["type"] == "extra_forbidden":
        return f"unknown key {at!r} {where}. {_advice(at, name, keys_of(table))}"
    field = _field(table, at)
    assert field is not None, "pydantic finds mistakes in known keys only"
    if mistake["type"] == "missing":
        return f"{at!r} is missing {where}. Add it. It must be {expected(field)}."
    limits = mistake.get("ctx", {})
    wanted = {
        "greater_than": f"above {limits.get('gt', 0):g}",
        "greater_than_equal": f"at least {limits.get('ge', 0):g}",
        "less_than_equal": f"at most {limits.get('le', 0):g}",
    }.get(mistake["type"], expected(field))
    got = mistake["input"] if value is _GOT_NOTHING else value
    return f"{at!r} {where} must be {wanted}, got {short(got)}."


def _mistaken(
    table: type[Table], name: str, data: Mapping[str, Any], location: Sequence[Any]
) -> tuple[type[Table], str, str, Any]:
    """Follow a location of pydantic's to the innermost table: its class and name, its key, and the key's value."""
    key, *rest = location
    field, value = _field(table, str(key)), data.get(key, _GOT_NOTHING)
    inner = None if field is None else _table_in(field.annotation)
    if field is None or inner is None:
        return table, name, str(key), value
    entry, within = value, f"{name}.{key}" if name else str(key)
    if rest and get_origin(field.annotation) is dict:  # tables by names of the user's
        entry, within = entry[rest[0]], f"{within}.{rest[0]}"
        if not isinstance(entry, Mapping):
            entry = {}  # a short form, for which a validator makes the table
        del rest[0]
    if rest and isinstance(rest[0], int):  # tables in a list share its name
        entry = entry[rest.pop(0)]
    if rest and rest[0] == inner.__name__:  # a key may have several types
        del rest[0]
    if not rest or not isinstance(entry, Mapping):
        return table, name, str(key), value
    return _mistaken(inner, within, entry, rest)


def _field(table: type[Table], key: str) -> FieldInfo | None:
    """The field with this name in the file."""
    for name, field in table.model_fields.items():
        if key == (field.alias or name):
            return field
    return None


def _table_in(kind: Any) -> type[Table] | None:
    """The type of table that a key holds, alone or in a list or table."""
    if isinstance(kind, type) and issubclass(kind, Table):
        return kind
    if isinstance(kind, InTables):
        return TABLES[kind.name]
    # The type itself, and what is annotated
    parts = (*get_args(kind), *getattr(kind, "__metadata__", ()))
    return next(filter(None, map(_table_in, parts)), None)


def _advice(name: str, table: str, keys: Sequence[str]) -> str:
    """What to do about an unknown key: a similar key, its table, or the known keys."""
    if close := difflib.get_close_matches(name, keys, 1):
        return f"Did you mean {close[0]!r}?"
    for home, owner in sorted(
        TABLES.items(), key=lambda item: (item[0].count("."), item[0])
    ):
        if name in keys_of(owner) and home != table:
            if not home:
                return f"{name!r} belongs at the top of the file, before the first [table]."
            return f"{name!r} belongs in [{home}]."
    return f"The keys are {listed(keys)}."


_WORDS = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    Any: "any value",
}


def expected(field: FieldInfo) -> str:
    """The allowed values of a key, in words, as in "a whole number"."""
    extra = field.json_schema_extra
    return str(extra.get("expected") if isinstance(extra, dict) else "") or _kind(
        field.annotation
    )


def _kind(kind: Any) -> str:
    """A type, in words."""
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin is Annotated:
        return "a table"
    if origin in (types.UnionType, Union):
        return ", or ".join(
            _kind(alternative)
            for alternative in arguments
            if alternative is not types.NoneType
        )
    if origin is Literal:
        return (
            "false for none"
            if arguments == (False,)
            else " or ".join(map(repr, arguments))
        )
    if origin is list:
        return f"a list of {_kind(arguments[0]).removeprefix('a ')}s"
    return _WORDS.get(origin, "a table")


def reference(table: type[Table]) -> list[tuple[str, str, str, str]]:
    """A row for each key of a table: its name, type, default and description."""
    rows = []
    for name, field in table.model_fields.items():
        extra = field.json_schema_extra
        stated: Any = extra.get("said") if isinstance(extra, dict) else ""
        default = str(stated() if callable(stated) else stated)
        if not default and field.is_required():
            default = "needed"
        elif not default and field.get_default(call_default_factory=True) not in (
            None,
            {},
            [],
        ):
            default = f"`{json.dumps(field.default)}`"
        kind = expected(field).removeprefix("a ").replace("finite ", "")
        rows.append(
            (field.alias or name, kind, default or "none", field.description or "")
        )
    return rows


def listed(names: Sequence[str]) -> str:
    """Up to 20 names in quotes."""
    shown = ", ".join(repr(name) for name in list(names)[:20])
    return shown + (", ..." if len(names) > 20 else "")


# Functions of the user's own


class LoaderTable(Table):
    """The keys of an object that a function of the user's own makes."""

    loader: str = key(about='`"package.module:function"`, whose result is used.')
    arguments: dict[str, Any] = key({}, "Arguments of this function.")


def import_named(table: Table, dotted: str, key: str = "loader") -> Any:
    """The object that a key names by `package.module:name`. Modules in the file's folder are found."""
    module, colon, name = dotted.partition(":")
    if not colon or not module or not name:
        raise table.error(key, "must look like 'package.module:function'", dotted)
    home = str(table.config_file.resolve().parent)
    if home not in sys.path:
        sys.path.insert(0, home)
    try:
        target = importlib.import_module(module)
        for part in name.split("."):
            target = getattr(target, part)
    except (Exception, SystemExit) as error:
        # A module of the user's own may raise anything
        raise table.error(
            key,
            f"refers to {dotted!r}, which cannot be imported ({type(error).__name__}: {error})",
        ) from error
    return target


def call_named(
    table: Table, dotted: str, arguments: Mapping[str, Any], key: str = "loader"
) -> Any:
    """Call the function `package.module:function` that a key names, and return its result.

    Raises:
        ConfigError: the function cannot be imported, or it raised an error.
    """
    target = import_named(table, dotted, key)
    if not callable(target):
        raise table.error(key, "must name a function", dotted)
    try:
        return target(**arguments)
    except MissingExtraError:
        raise
    except (Exception, SystemExit) as error:
        # A function of the user's own may raise anything
        raise table.error(
            key, f"refers to {dotted!r}, which raised {type(error).__name__}: {error}"
        ) from error
