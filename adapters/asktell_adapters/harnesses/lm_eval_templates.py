"""Prompts that are Jinja templates: rendered in a sandbox, since lm-eval renders with all of Python in reach."""

import functools
import re
from collections.abc import Mapping
from typing import Any

from asktell.extend import import_extra

# Objects of other types, such as images, have methods that reach files.
_HARMLESS = ("builtins", "datetime", "decimal", "jinja2.runtime", "jinja2.utils")


def rendered(template: str, doc: Mapping[str, Any]) -> str:
    """The template with the document's fields, as lm-eval renders it."""
    text: str = _sandbox().from_string(template).render(**doc)
    return text


def literal(text: str) -> str:
    """A template that renders as the text, and is no field's name."""
    return "{{ '' }}" + re.sub(r"\{(?=[{%#])", "{{ '{' }}", text)


@functools.cache
def _sandbox() -> Any:
    jinja2, sandbox = import_extra("jinja2", "lm-eval"), import_extra("jinja2.sandbox", "lm-eval")

    class Sandbox(sandbox.ImmutableSandboxedEnvironment):  # type: ignore[misc,name-defined]
        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            return type(obj).__module__ in _HARMLESS and bool(super().is_safe_attribute(obj, attr, value))

    made = Sandbox(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    made.filters.update(import_extra("lm_eval.utils", "lm-eval").env.filters)
    return made
