"""The reference of the configuration file, from what reads it."""

import inspect
import re
from collections.abc import Mapping
from typing import Any

from asktell_adapters.config import described, judges, metrics, model
from asktell_adapters.config.described import Key
from asktell_adapters.config.tables import KEYS, KINDS
from asktell_adapters.metrics import Judge, Rouge
from website.tables import table


def written() -> dict[str, str]:
    """The tables of the page, by the names of their places in it."""
    made = {name or "top": _keys(keys) for name, keys in described.TABLES.items()}
    made["improve.writer"] = _keys(described.WRITER)
    made["model types"] = "\n\n".join(_type(name) for name in described.MODEL_TYPES)
    rows = [[f"`{name}`", _options(name), about] for name, about in described.METRICS.items()]
    made["metrics"] = table(["name", "options", ""], rows)
    made["metrics.rouge"] = _arguments(Rouge, {name: kind for name, (_, kind) in metrics._METRICS["rouge"].items()})
    made["metrics.judge"] = _arguments(Judge, {name: judges._SIMPLE.get(name, "") for name in judges.OPTIONS})
    return made


def undocumented() -> list[str]:
    """What a configuration may have and the page does not, or the other way round, in words."""
    found = []
    pairs = {
        **{f"[{name}]": (KEYS[name], described.TABLES.get(name, {})) for name in KEYS},
        "[model] type": (model._OPTIONS, described.MODEL_TYPES),
        "[metrics]": (metrics._METRICS, described.METRICS),
    }
    for where, (known, said) in pairs.items():
        found += [f"{where}: {name!r} is not described." for name in known if name not in said]
        found += [f"{where}: {name!r} is described, and is not there." for name in said if name not in known]
    made = {name: (each, model._OPTIONS.get(name, {})) for name, (each, _) in described.MODEL_TYPES.items()}
    for name, (each, options) in {**made, "judge": (Judge, judges.OPTIONS)}.items():
        about = _about(each)
        found += [f"{name}: {key!r} has no line in the class's docstring." for key in options if key not in about]
    return [f"{each} Say what it is for in asktell_adapters/config/described.py." for each in found]


def _keys(keys: Mapping[str, Key]) -> str:
    rows = [[f"`{name}`", _kind(key.kind), _default(key.default), key.about] for name, key in keys.items()]
    return table(["key", "is", "default", ""], rows)


def _default(text: str) -> str:
    return f"`{text}`" if re.fullmatch(r'".*"|[\d.]+|true|false', text) else text


def _kind(kind: str) -> str:
    return KINDS[kind][0].removeprefix("a ").replace("finite ", "") if kind in KINDS else kind


def _type(name: str) -> str:
    made, about = described.MODEL_TYPES[name]
    return f"**`{name}`**: `model` is {about}.\n\n{_arguments(made, model._OPTIONS.get(name, {}))}"


def _options(name: str) -> str:
    if name in ("rouge", "judge"):
        return f"[below](#{name})"
    return ", ".join(f"`{option}`" for option in metrics._METRICS[name])


def _arguments(made: Any, options: Mapping[str, str]) -> str:
    """Options that reach a class's constructor: described there, with its defaults."""
    about, parameters = _about(made), inspect.signature(made).parameters
    rows = []
    for name, kind in options.items():
        default = parameters[name].default if name in parameters else None
        shown = "" if default in (None, (), inspect.Parameter.empty) else f"`{_toml(default)}`"
        rows.append([f"`{name}`", _kind(kind), shown, about.get(name, "")])
    return table(["option", "is", "default", ""], rows)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(list(value) if isinstance(value, tuple) else value)


def _about(made: Any) -> dict[str, str]:
    """What the docstring of a class says of its arguments."""
    doc = inspect.getdoc(made) or ""
    found = re.search(r"^Args:\n((?:    .*\n?|\n)+)", doc, re.MULTILINE)
    lines = re.findall(r"^    (\w+): ((?:.*\n?)(?:        .*\n?)*)", found[1] if found else "", re.MULTILINE)
    about = {name: " ".join(text.split()) for name, text in lines}
    if made is Judge:  # the table says who judges as [model] does
        about["model"] = "a table as `[model]`, or a list of them: who judges; by default the run's own."
    return about
