"""The reference of the HTTP API, from its OpenAPI document."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from asktell.service.app import make_app
from asktell.service.metrics import Metrics
from asktell.service.studies import Studies
from website.tables import table


@cache
def document() -> dict[str, Any]:
    """The service's OpenAPI document, of one with tokens."""
    return make_app(Studies("memory://docs"), Metrics(lambda: 0), True).openapi()


def operations() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each operation, named as `POST /v1/studies`."""
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def undocumented() -> list[str]:
    """Operations and shapes without a description."""
    found = [f"{name} has no description." for name, operation in operations() if not operation.get("description")]
    shapes = document()["components"]["schemas"]
    return found + [f"{name} has no description." for name, shape in shapes.items() if not shape.get("description")]


def written() -> str:
    """A section for each operation, then the statuses, then the shapes."""
    parts = [_operation(name, operation) for name, operation in operations()]
    parts += ["## Statuses", table(["status", "what it means"], sorted(_statuses().items())), "## Shapes"]
    parts += [f"### {name}\n\n{_shape(shape)}" for name, shape in sorted(document()["components"]["schemas"].items())]
    return "\n\n".join(parts)


def _operation(name: str, operation: Mapping[str, Any]) -> str:
    parts = [f"### {name}", operation["description"]]
    given = [each for each in operation.get("parameters", ()) if each["in"] == "query"]
    if given:
        rows = [[f"`{each['name']}`", _type(each["schema"]), _about(each, each.get("required"))] for each in given]
        parts.append(table(["in the query", "type", ""], rows))
    if "requestBody" in operation:
        parts.append(f"Takes {_content(operation['requestBody'])}.")
    (good,) = (status for status in operation["responses"] if status.startswith("2"))
    answer = operation["responses"][good]
    parts.append(f"Answers {good}" + (f" with {_content(answer)}." if answer.get("content") else "."))
    bad = ", ".join(status for status in sorted(operation["responses"]) if not status.startswith("2"))
    return "\n\n".join([*parts[:-1], f"{parts[-1]} Or a [problem](#problem): {bad}."])


def _statuses() -> dict[str, str]:
    return {
        status: answer["description"]
        for _, operation in operations()
        for status, answer in operation["responses"].items()
        if not status.startswith("2")
    }


def _content(body: Mapping[str, Any]) -> str:
    ((media, content),) = body["content"].items()
    schema = content.get("schema", {})
    return _type(schema) if "$ref" in schema else f"`{media}`"


def _shape(shape: Mapping[str, Any]) -> str:
    needed = shape.get("required", ())
    rows = [
        [f"`{name}`", _type(field), _about(field, name in needed)]
        for name, field in shape.get("properties", {}).items()
    ]
    about = shape.get("description", "")
    return f"{about}\n\n{table(['field', 'type', ''], rows)}" if rows else about


def _about(field: Mapping[str, Any], needed: bool | None) -> str:
    about = field.get("description", "")
    default = {**field, **field.get("schema", {})}.get("default")
    words = "Needed." if needed else f"Default: `{json.dumps(default)}`." if default not in (None, []) else ""
    return f"{words} {about}".strip()


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_type(each) for each in schema[key]))
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {_type(schema['additionalProperties'])}"
    return {"string": "text", "integer": "whole number", "boolean": "true or false"}.get(str(kind), str(kind))
