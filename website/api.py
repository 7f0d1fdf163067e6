"""The pages of `docs/reference/api`: which public names stand on which page.

On a page in git a name is a link to its source, so that any host shows something useful. In the site it is followed by
its signature and docstring: `directives` makes of the link what mkdocstrings takes.
"""

import fnmatch
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from website.names import ROOT, declared, file_of, members, modules, origin, public

FOLDER = ROOT / "docs" / "reference" / "api"


@dataclass(frozen=True)
class Page:
    """A page: its file's stem, its title, what it is about, and what stands on it.

    An entry is a module, for all that it offers, or `module:name name ...`; `*` stands for anything, of modules those
    that are not `INTERNAL`. What an entry before it has is not repeated.
    """

    stem: str
    title: str
    about: str
    entries: tuple[str, ...]


PAGES = (
    Page("selector", "Selector and Trial", "What to evaluate next, and what the scores were.",
         ("asktell:Selector Trial Tell ExampleProfile", "asktell.features:text_features pca PCA")),
    Page("goals", "Goals and budgets", "What is looked for, in which metrics, and for how much.",
         ("asktell:BestFeasible ParetoSet maximize minimize at_least at_most Budget", "asktell.goals")),
    Page("results", "Results", "The answer, what is known about every prompt, and how two of them differ.",
         ("asktell:Result PromptResult Comparison Difference",)),
    Page("running", "run", "Drives an evaluator until nothing is left to ask.", ("asktell:run",)),
    Page("studies", "Study and RemoteStudy", "Selections that outlive their processes, and where they are kept.",
         ("asktell:Study RemoteStudy", "asktell.storages", "asktell.storages.base:Line Snapshot Transaction",
          "asktell.storages.sqlite",
          "asktell.storages.postgresql", "asktell.results.evaluations:Evaluation")),
    Page("methods", "Methods", "By name, and as objects. Which one: "
         "[how to choose a method](../../how-to/choose-a-method.md).",
         ("asktell:METHODS preset Adaptive Race Elimination", "asktell.methods", "asktell.jax_cache")),
    Page("parts-of-methods", "Parts of methods", "What `Elimination` is composed of, and what to derive your own from.",
         ("asktell.schedulers", "asktell.allocators", "asktell.estimators", "asktell.elimination")),
    Page("reports", "Reports", "A selection as one HTML page.", ("asktell.reports",)),
    Page("errors", "Errors", "Each is an `asktell.AsktellError`, and says what came, what was expected, what to do.",
         ("asktell:*Error",)),
    Page("llms", "LLMs", "Models behind one interface: hosted APIs, and models on this machine.",
         ("asktell_adapters.llms", "asktell_adapters.llms.*")),
    Page("evaluators", "Evaluators", "A prompt and an example to scores, by an LLM and metrics.",
         ("asktell_adapters.evaluators", "asktell_adapters.evaluators.openai_batch:OpenAIBatch",
          "asktell_adapters.evaluators.batch_answers:BatchStudy Collected", "asktell_adapters.evaluators.*")),
    Page("metrics", "Metrics", "An answer and an example to a number.",
         ("asktell_adapters.metrics", "asktell_adapters.metrics.*")),
    Page("harnesses", "Evaluation harnesses", "Inspect, lm-evaluation-harness, DSPy, GEPA, promptfoo.",
         ("asktell_adapters.harnesses.inspect_task", "asktell_adapters.harnesses.inspect_source",
          "asktell_adapters.harnesses.inspect_logs", "asktell_adapters.harnesses.inspect_samples:system_prompt",
          "asktell_adapters.harnesses.lm_eval", "asktell_adapters.harnesses.dspy", "asktell_adapters.harnesses.gepa",
          "asktell_adapters.harnesses.promptfoo", "asktell_adapters.harnesses.*")),
    Page("optimizers", "Optimizers", "Loops that write prompts, and other packages' optimizers.",
         ("asktell_adapters.optimizers", "asktell_adapters.optimizers.improving:check_method",
          "asktell_adapters.optimizers.*")),
    Page("executors", "Executors", "Evaluations on other machines.",
         ("asktell_adapters.executors", "asktell_adapters.executors.*")),
    Page("tracking", "Tracking", "What a selection does, in MLflow, Weights & Biases or a log.",
         ("asktell_adapters.tracking.mlflow", "asktell_adapters.tracking.wandb", "asktell_adapters.tracking.logging",
          "asktell_adapters.tracking.*")),
    Page("configuration", "Configurations", "A run described in a TOML file, read from Python.",
         ("asktell_adapters.config",)),
    Page("testing", "Testing", "Contracts to derive tests from, fakes and servers, for parts of your own.",
         ("asktell.testing.evaluator_contract", "asktell.testing.storage_contract", "asktell.testing.fakes",
          "asktell.testing.postgresql_server", "asktell_adapters.testing.llm_contract",
          "asktell_adapters.testing.llm_server", "asktell_adapters.testing.batch_server")),
    Page("data", "Data, answers, prices", "Data sets, embeddings, prompts by an LLM, answers kept, the price before.",
         ("asktell_adapters.datasets", "asktell_adapters.embeddings.*", "asktell_adapters.generation",
          "asktell_adapters.cache", "asktell_adapters.estimate", "asktell_adapters.*")),
    Page("inside", "Inside the engine", "Pure values and functions below `Selector`, for whoever writes a method. They "
         "may change from release to release.",
         ("asktell.state", "asktell.posterior.two_way", "asktell.records")),
)  # fmt: skip

INTERNAL = {
    "asktell_adapters.cli", "asktell_adapters.config", "asktell_adapters.harnesses.dspy_candidates",
    "asktell_adapters.harnesses.dspy_evaluator", "asktell_adapters.harnesses.gepa_policy",
    "asktell_adapters.harnesses.inspect_samples", "asktell_adapters.harnesses.inspect_scores",
    "asktell_adapters.harnesses.lm_eval_tasks", "asktell_adapters.harnesses.lm_eval_templates",
    "asktell_adapters.harnesses.promptfoo", "asktell_adapters.metrics", "asktell_adapters.llms.base",
    "asktell_adapters.llms.chat_api", "asktell_adapters.evaluators.batch_answers",
    "asktell_adapters.evaluators.batch_list", "asktell_adapters.evaluators.openai_batch",
    "asktell_adapters.executors.per_process",
}  # fmt: skip
"""Modules of adapters without an `__all__`, and all below them, whose names are no part of the API, or elsewhere."""

_HEADING = re.compile(r"^## `([\w.]+)`$")
_NAME = re.compile(r"^- \[`(\w+)`\]\(\S+\)$")


def sections(page: Page) -> Iterator[tuple[str, list[str]]]:
    """Each module of a page, with its names that stand there."""
    for module, names in _everywhere()[page.stem]:
        if names:
            yield module, names


def is_public(module: str) -> bool:
    """Whether what the module offers belongs on a page."""
    if declared(module) is not None:
        return True
    inside = any(module == each or module.startswith(f"{each}.") for each in INTERNAL)
    return module.startswith("asktell_adapters.") and not inside


def _modules(entry: str) -> list[str]:
    if "*" in entry:
        return [module for module in fnmatch.filter(modules(), entry) if is_public(module)]
    if file_of(entry) is None:
        raise ValueError(f"website/api.py names {entry!r}, which is no module.")
    return [entry]


def _names(module: str, wanted: str) -> Iterator[str]:
    """The names of an entry: all that the module offers, or those that fit."""
    if not wanted:
        yield from public(module)
    for pattern in wanted.split():
        found = fnmatch.filter(public(module), pattern)
        if not found and origin(module, pattern) is None:
            raise ValueError(f"website/api.py names {pattern!r} of {module}, which has no such name.")
        yield from found or [pattern]


@cache
def _everywhere() -> dict[str, list[tuple[str, list[str]]]]:
    seen: set[tuple[str | None, str]] = set()
    found: dict[str, list[tuple[str, list[str]]]] = {}
    for page in PAGES:
        for entry in page.entries:
            pattern, _, wanted = entry.partition(":")
            for module in _modules(pattern):
                new = [name for name in _names(module, wanted) if (origin(module, name), name) not in seen]
                seen |= {(origin(module, name), name) for name in new}
                found.setdefault(page.stem, []).append((module, new))
    return found


def written() -> dict[Path, str]:
    """The pages, and the page that lists all names."""
    pages = {FOLDER / f"{page.stem}.md": _page(page) for page in PAGES}
    return pages | {FOLDER / "README.md": _index()}


def _page(page: Page) -> str:
    lines = [f"# {page.title}", "", page.about]
    for module, names in sections(page):
        lines += ["", f"## `{module}`", ""]
        for name in names:
            source = file_of(str(origin(module, name)))
            assert source is not None
            lines.append(f"- [`{name}`]({os.path.relpath(source, FOLDER)})")
    return "\n".join(lines) + "\n"


def _index() -> str:
    lines = [
        "# Python API",
        "",
        "Every public name, by subject. The built site has signatures and docstrings; on a git host a name leads to "
        "its source.",
    ]
    for page in PAGES:
        lines += ["", f"## [{page.title}]({page.stem}.md)", "", page.about]
        for module, names in sections(page):
            links = ", ".join(f"[`{name}`]({page.stem}.md#{module}.{name})" for name in names)
            lines += ["", f"`{module}`: {links}"]
    return "\n".join(lines) + "\n"


def directives(text: str) -> str:
    """A page in git as mkdocstrings takes it: a directive for every name."""
    module, lines = "", []
    for line in text.splitlines():
        if heading := _HEADING.match(line):
            module = heading[1]
        lines.append(_directive(module, name[1]) if (name := _NAME.match(line)) else line)
    return "\n".join(lines) + "\n"


def _directive(module: str, name: str) -> str:
    # Left to itself, mkdocstrings puts what is inherited before a class's own.
    ordered = members(module, name)
    options = f"    options:\n      members: [{', '.join(ordered)}]\n" if ordered else ""
    return f"\n::: {module}.{name}\n{options}"
