"""Tasks of lm-evaluation-harness: loading one, which of its metrics a single document has, and prompts as templates."""

import functools
import re
from collections.abc import Collection, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from asktell import InvalidArgumentError
from asktell.extend import import_extra


def load_task(task: Any) -> Any:
    """An lm-eval Task, from its name, the path of its YAML file, its configuration, or itself."""
    api = import_extra("lm_eval.api.task", "lm-eval")
    if isinstance(task, api.Task):
        return task
    try:
        if isinstance(task, Mapping):
            return api.ConfigurableTask(config=deepcopy(dict(task)))
        found = _find(task)
    except Exception as error:
        raise InvalidArgumentError(
            f"lm-eval cannot make the task {task!r:.100}: {type(error).__name__}: {error}"
        ) from error
    made, *others = list(found.values()) or [None]
    if others or not isinstance(made, api.Task):
        names = sorted(map(str, made if isinstance(made, Mapping) else found))
        raise InvalidArgumentError(
            f"{task!r} is a group of {len(names)} tasks; give one of them: {', '.join(names):.300}."
        )
    return made


def _find(task: str) -> dict[Any, Any]:
    name = task
    if task.endswith((".yaml", ".yml")):
        path = Path(task)
        named = re.search(r"^task:\s*[\"']?(.+?)[\"']?\s*$", path.read_text(encoding="utf-8"), re.MULTILINE)
        if named is None:
            raise ValueError("the file has no line 'task: NAME'")
        name = named.group(1)
        manager = _manager(str(path.parent.resolve()))
    else:
        manager = _manager()
    if hasattr(manager, "load"):  # from 0.4.11 on
        tasks: dict[Any, Any] = manager.load(name)["tasks"]
    else:
        tasks = manager.load_task_or_group(name)
    return tasks


@functools.cache
def _manager(folder: str | None = None) -> Any:
    """Once in a process: to read thousands of YAML files takes seconds."""
    manager = import_extra("lm_eval.tasks", "lm-eval").TaskManager
    return manager() if folder is None else manager(include_path=folder, include_defaults=False)


def per_document_metrics(task: Any, wanted: Collection[str] | None, more: Collection[str] = ()) -> set[str]:
    """Check the metrics that are wanted; returns those of the task that a single document does not have.

    A metric is a document's own if lm-eval takes its mean over documents.

    Args:
        task: an lm-eval Task.
        wanted: names as in LMEvalTask's scores; None for all that there are.
        more: names that the evaluator adds, besides latency.
    """
    metrics = import_extra("lm_eval.api.metrics", "lm-eval")
    numpy = import_extra("numpy", "lm-eval")
    means = (metrics.mean, metrics.nanmean, numpy.mean, numpy.nanmean)
    together = {name: function for name, function in task.aggregation().items() if function not in means}
    filters = [ensemble.name for ensemble in task._filters]
    suffixes = [""] if len(filters) == 1 else [f",{name}" for name in filters]
    own = [name + suffix for name in task.aggregation() if name not in together for suffix in suffixes]
    why = ", ".join(
        f"{name!r} (by {getattr(function, '__name__', function)})" for name, function in sorted(together.items())
    )
    if isinstance(wanted, str):
        raise InvalidArgumentError(f"metrics must be names in a list, got {wanted!r}.")
    for name in wanted or ():
        if name.split(",")[0] in together:
            raise InvalidArgumentError(
                f"The metric {name!r} is only defined over all documents, not for one: {why}. Choose among {own}, or "
                "give the task a metric whose aggregation is 'mean'."
            )
        if name not in own and name not in ("latency", *more):
            raise InvalidArgumentError(f"The task has no metric {name!r}; it has {[*own, 'latency', *more]}.")
    if not own:
        raise InvalidArgumentError(
            f"The task has only metrics that are defined over all documents, not for one: {why}. Give it a metric "
            "whose aggregation is 'mean'."
        )
    return set(together)


# Prompts that are Jinja templates: rendered in a sandbox, since lm-eval renders with all of Python in reach

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
