"""The output of `asktell status` and `asktell result`."""

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asktell import Result, Simulation
from asktell.extend import (
    describe_spending,
    needs_extra,
    one_line,
    safe,
    shown_estimates,
    some,
)
from asktell_adapters.prompts import unread_fields

if TYPE_CHECKING:
    from asktell_adapters.config import Config

_WIDTH = 97  # characters of a line


# What GitHub Actions and Azure Pipelines take as a command, where a line of a log
# begins with it, as ::warning:: does.
_COMMAND = re.compile(r"(\s*)([:#])(?=:|#\[|#vso\[)")


def show(text: str) -> None:
    """Print lines; nothing in them steers a terminal, or is a command to the runner of a build."""
    for line in text.split("\n"):
        command = _COMMAND.match(line)
        if command:
            line = f"{command[1]}\\x{ord(command[2]):02x}{line[command.end() :]}"
        print(safe(line))


def say_braces(config: "Config") -> None:
    """Say which prompts have columns of the data in braces that are sent as they are, where nobody said so."""
    if config.fields is not None or config.harness is not None:
        return
    prompts = config.selector.prompts
    if found := unread_fields(prompts.texts, config.examples):
        field, where = (
            next(iter(found.values()))[0],
            some([prompts.ids[at] for at in found]),
        )
        words = (
            f"{config.path.name}: {{{field}}} is sent as it is (prompt {where}). In [prompts], fields = true puts the "
            "column's value there, and fields = false says that it is meant."
        )
        print(safe(words), file=sys.stderr)


def overview(
    result: Result, doing: str, n_active: int, seconds_since: float | None = None
) -> Iterator[str]:
    """How far a run is, in some lines, and the best so far; `doing` says which run, and whether it goes on."""
    early = f"; {result.early}" if result.early else ""
    counted = describe_spending(result).partition(" evaluations")[0]
    counted += f" ({result.spent / result.budget:.0%})" if " of " in counted else ""
    rows = [
        ("run", doing),
        ("goal", str(result.goal)),
        ("evaluations", f"{counted}{early}"),
        ("prompts", f"{len(result.prompts)}, {n_active} active"),
        ("failures", str(sum(entry.failures for entry in result.prompts))),
        *(
            ("", one_line(f"{group.count}: {group.reason}", 200))
            for group in result.failures[:3]
        ),
    ]
    if result.spent_cost or result.max_cost:
        limit = (
            ""
            if result.max_cost is None
            else f" of {result.max_cost:.4g} ({result.spent_cost / result.max_cost:.0%})"
        )
        rows.append(("cost", f"{result.spent_cost:.4g}{limit}"))
    if not result.done and seconds_since is not None:
        rows.append(("last change", f"{max(0.0, seconds_since):.0f} s ago"))
    label = "result" if result.done else "best so far"
    shown = result.selected[:10]
    columns = [shown_estimates(shown, metric) for metric in result.goal.columns]
    for i, entry in enumerate(shown):
        cells = ", ".join(f"{name} {estimates[i]}" for name, estimates in columns)
        infeasible = ", infeasible" if entry.feasible is False else ""
        rows += [
            (label, f"{entry.id}: {cells}{infeasible}"),
            ("", one_line(entry.prompt, _WIDTH - 13)),
        ]
        label = ""
    if len(result.selected) > 10:
        rows.append(("", f"... and {len(result.selected) - 10} more"))
    for name, text in rows:
        for line in textwrap.wrap(
            text, _WIDTH - 13, break_long_words=False, break_on_hyphens=False
        ) or [""]:
            yield f"{name:<12} {line}"
            name = ""


def save_plot(result: Result | Simulation, path: Path, what: str | None = None) -> None:
    """Draw the result into a file; `what` of it, as its `plot` takes it."""
    with needs_extra("plot"):
        import matplotlib
    matplotlib.use("Agg")
    axes = result.plot() if what is None else result.plot(what)
    figure: Any = axes.figure
    figure.savefig(path, dpi=150)
