"""Tables of a TOML file: values by key and kind, with every mistake named by file, table and key."""

import difflib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from asktell import AsktellError, ConfigError, MissingExtraError
from asktell.extend import short

_REQUIRED: Any = object()

KEYS = {
    "": (
        *("output", "budget", "method", "confidence", "tolerance", "features", "seed", "sampling"),
        *("on_failure", "max_failure_rate", "baseline", "repeats", "concurrency", "confirm_above"),
        *("prompts", "data", "model", "metrics", "evaluator", "goal", "cache", "improve", "profile"),
    ),
    "budget": ("evaluations", "cost", "max_cost_per_evaluation"),
    "prompts": ("file", "encoding", "texts", "fields"),
    "data": (
        *("file", "delimiter", "encoding", "sheet", "split", "loader", "arguments"),
        *("input", "reference", "id", "sample", "seed", "limit", "shuffle"),
    ),
    "evaluator": (
        "type",
        "config",
        "provider",
        "rows",
        "task",
        "model",
        "log_dir",
        "loader",
        "arguments",
        "repeatable",
    ),
    "cache": ("file", "max_mb", "max_age_days"),
    "improve": ("generations", "candidates", "parents", "patience", "certainty", "writer"),
    "profile": ("from", "half_life"),
    "goal": ("type", "maximize", "minimize", "at_least", "at_most", "ranges"),
    "model": ("type", "model", "loader", "arguments", "max_new_tokens", "temperature", "system", "template", "price"),
}
"""The keys of each table ("" stands for the top), except those that depend on the model's type or on a metric."""


def is_number(value: Any) -> bool:
    """Whether it is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "text": ("a text", lambda value: isinstance(value, str)),
    "flag": ("true or false", lambda value: isinstance(value, bool)),
    "whole": ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "whole or table": (
        "a whole number, or a table with evaluations, cost or both",
        lambda value: isinstance(value, int | dict) and not isinstance(value, bool),
    ),
    "text or table": ("a text, or a table", lambda value: isinstance(value, str | dict)),
    "text or whole": (
        "a text, or a whole number",
        lambda value: isinstance(value, str | int) and not isinstance(value, bool),
    ),
    "number": ("a finite number", is_number),
    "table": ("a table", lambda value: isinstance(value, dict)),
    "tables": (
        "a list of tables",
        lambda value: isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value),
    ),
    "text or false": ("a text, or false for none", lambda value: isinstance(value, str) or value is False),
    "whole or false": (
        "a whole number, or false for none",
        lambda value: isinstance(value, int) and value is not True,
    ),
    "metrics": (
        "a metric's name, or a list of them",
        lambda value: (
            isinstance(value, str) or (isinstance(value, list) and all(isinstance(name, str) for name in value))
        ),
    ),
    "texts in a list": (
        "a list of texts",
        lambda value: isinstance(value, list) and all(isinstance(text, str) for text in value),
    ),
    "texts": (
        "a list of prompts, or a table id = prompt; a prompt is a text, or a chat: a list of messages",
        lambda value: (
            isinstance(value, list | dict) and all(isinstance(each, str | list | dict) for each in _prompts(value))
        ),
    ),
}
"""What a value may be: in words, and the test."""


def _prompts(given: list[Any] | dict[str, Any]) -> Iterable[Any]:
    return given.values() if isinstance(given, dict) else given


class Table:
    """A table of the file: takes values by key and kind, and names what is wrong with them.

    `known` are its keys, empty if they are not to be checked.
    """

    def __init__(self, path: Path, name: str, data: dict[str, Any], known: Sequence[str]) -> None:
        self.path = path
        self.file = path.name
        self.name = name
        self.data = data
        for key in data if known else ():
            if key not in known:
                raise ConfigError(f"{self.file}: unknown key {key!r} {self._where}. {_advice(key, name, known)}")

    @property
    def _where(self) -> str:
        return f"in [{self.name}]" if self.name else "at the top"

    def __contains__(self, key: str) -> bool:
        return key in self.data

    def error(self, key: str, problem: str, value: Any = _REQUIRED) -> ConfigError:
        """The error about one key."""
        got = "" if value is _REQUIRED else f", got {short(value)}"
        return ConfigError(f"{self.file}: {key!r} {self._where} {problem}{got}.")

    def take(self, key: str, kind: str, default: Any = _REQUIRED) -> Any:
        """The value of a key, checked."""
        if key not in self.data:
            if default is _REQUIRED:
                raise ConfigError(f"{self.file}: {key!r} is missing {self._where}; it is {KINDS[kind][0]}.")
            return default
        expected, fits = KINDS[kind]
        if not fits(self.data[key]):
            raise self.error(key, f"must be {expected}", self.data[key])
        return self.data[key]

    def table(self, key: str, known: Sequence[str]) -> "Table":
        """A table inside, which must be there."""
        if key not in self.data:
            raise ConfigError(f"{self.file}: the table [{key}] is missing. It has {listed(known)}.")
        return self.inner(key, self.take(key, "table"), known)

    def inner(self, name: str, data: dict[str, Any], known: Sequence[str]) -> "Table":
        """Another table of the same file."""
        return Table(self.path, name, data, known)

    def beside(self, name: str) -> Path:
        """A path relative to the file."""
        return Path(self.path.resolve().parent, Path(name).expanduser())

    @contextmanager
    def named(self) -> Iterator[None]:
        """Put the file's name, and the table's, before an error's message."""
        try:
            yield
        except (MissingExtraError, ConfigError):
            raise
        except AsktellError as error:
            where = f"{self.file}: " + (f"[{self.name}]: " if self.name else "")
            raise ConfigError(f"{where}{error}") from error


def _advice(key: str, table: str, known: Sequence[str]) -> str:
    if close := difflib.get_close_matches(key, known, 1):
        return f"Did you mean {close[0]!r}?"
    for home, keys in KEYS.items():
        if key in keys and home != table:
            if not home:
                return f"{key!r} belongs at the top of the file, before the first [table]."
            return f"{key!r} belongs in [{home}]."
    return f"Known are {listed(known)}."


def listed(names: Sequence[str]) -> str:
    """The first names, for a message."""
    shown = ", ".join(repr(name) for name in list(names)[:20])
    return shown + (", ..." if len(names) > 20 else "")
