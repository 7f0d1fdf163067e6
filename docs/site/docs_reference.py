"""The generated parts of pages: the command line, configuration file, HTTP API and Python API, and tables of data.

`python docs/site/docs_reference.py` (`make reference`) writes them anew. A part stands
between the lines `<!-- generated: PART -->` and `<!-- end -->`, so that the pages can
be read where the repository is hosted. A line that is only a link to a CSV file is
followed by the rows of the file.
"""

import argparse
import csv
import inspect
import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import docs_api

from asktell_adapters.cli.arguments import make_parser
from asktell_adapters.config.metrics import METRICS, JudgeTable
from asktell_adapters.config.model import MODELS, NamedModel
from asktell_adapters.config.tables import TABLES, Table, keys_of, reference
from asktell_adapters.config.tracker import TRACKERS, TrackerTable, table_of
from asktell_adapters.llms.openai import OpenAIChat
from asktell_adapters.metrics import Judge, Rouge
from asktell_adapters.server.app import make_app
from asktell_adapters.server.auth import Tokens
from asktell_adapters.server.open_studies import OpenStudies

DOCS = Path(__file__).parents[1]

_ERRORS = "errors of asktell"
_DEFAULT = re.compile(r"\s*\(default: ([^()]*)\)")
# Options of mkdocstrings for a part. The values of these classes' properties are code
# that only asktell needs.
_PLAIN = "\n    options:\n      show_attribute_values: false\n      show_labels: false"
_OPTIONS = {
    "asktell": '\n    options:\n      filters: ["Error$"]',
    "asktell.Selector": _PLAIN,
    "asktell.Study": _PLAIN,
    "asktell.RemoteStudy": _PLAIN,
    "asktell.extend.AbstractStudy": _PLAIN,
}
_PART = re.compile(r"<!-- generated: (.+?) -->\n.*?<!-- end -->", re.DOTALL)
# A link to data, and its table
_DATA = re.compile(r"^(\[[^\]\n]+\]\(([^)\n]+\.csv)\))$(\n\n(\|.*\n)+)?", re.MULTILINE)


def renewed(page: Path, text: str) -> str:
    """A page of the reference with its generated parts as the code has them today.

    Raises:
        ValueError: the page lacks a part, or has one that nothing generates.
    """
    makers = {
        "command-line.md": command_line,
        "configuration.md": configuration,
        "http-api.md": http_api,
    }
    marked = _PART.findall(text)
    if page.parent.name == "api":
        parts = {
            name: docs_api.errors() if name == _ERRORS else docs_api.described(name)
            for name in marked
        }
    else:
        parts = makers[page.name]() if page.name in makers else {}
    if set(marked) != set(parts):
        raise ValueError(
            f"{page.name} has the generated parts {sorted(marked)}, but there are {sorted(parts)}."
        )
    text = _PART.sub(
        lambda part: (
            f"<!-- generated: {part[1]} -->\n{parts[part[1]].strip()}\n<!-- end -->"
        ),
        text,
    )
    return _DATA.sub(lambda link: _with_rows(page, link), text)


def _with_rows(page: Path, link: re.Match[str]) -> str:
    """A link to a CSV file, followed by the rows of the file."""
    with (page.parent / link[2]).open(newline="", encoding="utf-8") as file:
        # As the prose writes it
        text = re.sub(r"(?<=\d) %", "%", file.read())
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    return f"{link[1]}\n\n{table(head, rows)}" + ("\n" if link[3] else "")


def for_site(page: Path, text: str) -> str:
    """The text without marks. The site describes the Python API by mkdocstrings, with links from name to name."""
    if page.parent.name == "api":
        text = text.replace(
            f"<!-- generated: {_ERRORS} -->", "<!-- generated: asktell -->"
        )
        return _PART.sub(lambda part: f"::: {part[1]}{_OPTIONS.get(part[1], '')}", text)
    return re.sub(r"<!-- (generated: .+?|end) -->\n?", "", text)


def pages() -> list[Path]:
    """The pages with generated parts."""
    return [
        page
        for page in sorted(DOCS.rglob("*.md"))
        if _PART.search(page.read_text()) or _DATA.search(page.read_text())
    ]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(' '.join(cell.split()).replace('|', '&#124;') for cell in row)} |"
        for row in lines
    )


# The command line


def commands() -> Mapping[str, argparse.ArgumentParser]:
    """The parser of each command."""
    (choices,) = (
        action.choices
        for action in make_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return choices


def command_line() -> dict[str, str]:
    """What `asktell COMMAND --help` prints, for every command."""
    os.environ.update(COLUMNS="100", NO_COLOR="1")
    helps = [
        f"## asktell {name}\n\n```text\n{parser.format_help()}```"
        for name, parser in commands().items()
    ]
    return {"commands": "\n\n".join(helps)}


# The configuration file


def configuration() -> dict[str, str]:
    """A table for each table of the file."""
    made = {name or "top": _keys(keys) for name, keys in TABLES.items()}
    made["model types"] = "\n\n".join(
        f"**`{name}`**: `model` is {kind.about}.\n\n{_arguments(kind.made, kind.table, NamedModel)}"
        for name, kind in ((name, MODELS[name]) for name in MODELS.built_in)
    )
    elsewhere = {name: f"[below](#{name})" for name in ("rouge", "judge", "preference")}
    made["tracker types"] = "\n\n".join(
        f"**`{name}`**\n\n{_arguments(kind, table_of(kind), TrackerTable)}"
        for name, kind in ((name, TRACKERS[name]) for name in TRACKERS.built_in)
    )
    made["metrics"] = table(
        ["name", "options", ""],
        [
            [
                f"`{name}`",
                elsewhere.get(name)
                or ", ".join(f"`{option}`" for option in keys_of(row.table)),
                row.about,
            ]
            for name, row in ((name, METRICS[name]) for name in METRICS.built_in)
        ],
    )
    made["metrics.rouge"] = _arguments(Rouge, METRICS["rouge"].table, Table)
    made["metrics.judge"] = _arguments(Judge, JudgeTable, Table)
    return made


def _keys(keys: type[Table]) -> str:
    return table(
        ["key", "type", "default", ""],
        [[f"`{name}`", *rest] for name, *rest in reference(keys)],
    )


def _arguments(made: Any, options: type[Table], base: type[Table]) -> str:
    """Options that are passed to a class: its docstring describes them, its signature has the defaults."""
    about, parameters = arguments_of(made), inspect.signature(made).parameters
    rows = []
    for name, kind, _, described in reference(options):
        if name in base.model_fields:
            continue
        default = parameters[name].default if name in parameters else None
        text = about.get(name) or described
        if default not in (None, (), inspect.Parameter.empty):
            shown = f"`{json.dumps(default)}`"
        elif found := _DEFAULT.search(text):
            shown, text = found[1], _DEFAULT.sub("", text)
        elif (
            default is inspect.Parameter.empty
            and options.model_fields[name].is_required()
        ):
            shown = "needed"
        else:
            shown = "" if "default" in text.lower() else "none"
        rows.append([f"`{name}`", kind, shown, text[:1].upper() + text[1:]])
    return table(["option", "type", "default", ""], rows)


def arguments_of(made: Any) -> dict[str, str]:
    """The descriptions in the section Args of a class's docstring, and of the class whose arguments it has besides."""
    text = inspect.getdoc(made) or ""
    found = re.search(r"^Args:\n((?:    .*\n?|\n)+)", text, re.MULTILINE)
    besides = (
        arguments_of(OpenAIChat)
        if "not listed here are those of `OpenAIChat`" in text
        else {}
    )
    lines = re.findall(
        r"^    (\w+): ((?:.*\n?)(?:        .*\n?)*)",
        found[1] if found else "",
        re.MULTILINE,
    )
    own = {
        "model": "The judging LLM: a table like `[model]`, or a list of them (default: the LLM of `[model]`).",
        "criteria": "The criteria, as NAME = a description of a good response. With a weight, it is a table: "
        '`{ text = "...", weight = 2 }`.',
        "against": "Column of the data that has another response to each example. The judge compares the two "
        "responses, instead of grading.",
        "shots": "Judged responses, as examples for the judge. Each has `input`, `answer` (the response), `grades` "
        "(criterion = grade), and perhaps `reason`, `reference` and, with `against`, `other` (the other response).",
    }
    return {
        **besides,
        **{name: " ".join(text.split()) for name, text in lines},
        **(own if made is Judge else {}),
    }


# The HTTP API


def openapi() -> dict[str, Any]:
    """The OpenAPI document of a service with tokens."""
    return make_app(
        OpenStudies("memory://docs"), Tokens("some-token-0123456789")
    ).openapi()


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each operation, by a name such as `POST /v1/studies`."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def http_api() -> dict[str, str]:
    """A section for each operation, then the status codes, then the schemas."""
    document = openapi()
    statuses: dict[str, str] = {}
    parts = []
    for name, operation in operations(document):
        parts += [f"### {name}", operation["description"]]
        query = [
            each for each in operation.get("parameters", ()) if each["in"] == "query"
        ]
        if query:
            rows = [
                [
                    f"`{each['name']}`",
                    _type(each["schema"]),
                    _about(each, each.get("required")),
                ]
                for each in query
            ]
            parts.append(table(["query parameter", "type", ""], rows))
        if "requestBody" in operation:
            parts.append(f"The request body is {_content(operation['requestBody'])}.")
        good, *bad = sorted(operation["responses"])
        statuses |= {
            status: operation["responses"][status]["description"] for status in bad
        }
        content = (
            _content(operation["responses"][good])
            if operation["responses"][good].get("content")
            else "no body"
        )
        parts.append(
            f"On success, the status is {good}, with {content}. Errors: {', '.join(bad)}."
        )
    parts += [
        "## Status codes",
        table(["status", "meaning"], sorted(statuses.items())),
        "## Schemas",
    ]
    for name, schema in sorted(document["components"]["schemas"].items()):
        text, attributes = _docstring(schema.get("description", ""))
        parts += [f"### {name}", text]
        needed = schema.get("required", ())
        rows = []
        for key, field in schema.get("properties", {}).items():
            about = f"{_about(field, key in needed)} {attributes.get(key, '')}"
            rows.append([f"`{key}`", _type(field), about.strip()])
        parts += [table(["field", "type", ""], rows)] if rows else []
    return {"operations": "\n\n".join(parts)}


def _docstring(text: str) -> tuple[str, dict[str, str]]:
    """The text without its Python examples, and the attributes that it lists."""
    paragraphs = text.split("\n\n")
    rest = [part for part in paragraphs if not part.lstrip().startswith(">>>")]
    attributes: dict[str, str] = {}
    kept = []
    for part in rest:
        if part.startswith("Attributes:\n"):
            items = re.split(r"^    (?=\w)", part, flags=re.MULTILINE)[1:]
        elif re.match(r"- `\w+`(, `\w+`)*: ", part):
            items = re.split(r"^- ", part, flags=re.MULTILINE)[1:]
        else:
            kept.append(part)
            continue
        for item in items:
            names, _, about = " ".join(item.split()).partition(": ")
            about = about[:1].upper() + about[1:]
            attributes |= dict.fromkeys(re.findall(r"\w+", names), about)
    return "\n\n".join(kept), attributes


def _content(body: Mapping[str, Any]) -> str:
    ((media, content),) = body["content"].items()
    return (
        _type(content["schema"])
        if "$ref" in content.get("schema", {})
        else f"`{media}`"
    )


def _about(field: Mapping[str, Any], required: bool | None) -> str:
    default = {**field, **field.get("schema", {})}.get("default")
    words = (
        "Required."
        if required
        else f"Default `{json.dumps(default)}`."
        if default not in (None, [])
        else ""
    )
    return f"{words} {field.get('description', '')}".strip()


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if options := [
        json.dumps(value)
        for value in schema.get("enum", [schema["const"]] if "const" in schema else [])
    ]:
        return " or ".join(f"`{option}`" for option in options)
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_type(each) for each in schema[key]))
    kind = str(schema.get("type", "any value"))
    if kind == "array":
        return f"list of {_inner(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {_inner(schema['additionalProperties'])}"
    return kind


def _inner(schema: Mapping[str, Any]) -> str:
    """The type of the items of a list or an object, in parentheses if there are several types."""
    kind = _type(schema)
    has_several = len(schema.get("anyOf", schema.get("enum", ()))) > 1
    return f"({kind})" if has_several else kind


if __name__ == "__main__":
    for page in pages():
        page.write_text(renewed(page, page.read_text()))
