"""The output of commands. It is imported by every command, so it imports nothing of the engine."""

import contextlib
import json
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from asktell import extend
from asktell.extend import needs_extra, one_line, safe, some, write_atomically

if TYPE_CHECKING:
    from asktell import Result, Simulation
    from asktell_adapters.config import Config

_WIDTH = 97  # characters of a line
_MOST_SELECTED = 10  # prompts of a Pareto set that `asktell status` prints


# What GitHub Actions and Azure Pipelines take as a command, where a line of a log
# begins with it, as ::warning:: does.
_COMMAND = re.compile(r"(\s*)([:#])(?=:|#\[|#vso\[)")


def show(text: str) -> None:
    """Print the output of a command, without anything that could control a terminal or the runner of a build.

    If the reader has closed the pipe, as `head` does, the command goes on without it.

    Raises:
        OSError: the output cannot be written, for example because the disk is full.
    """
    with _to_reader():
        print(harmless(text))


def show_json(data: Mapping[str, Any]) -> None:
    """Print the output of a command as JSON."""
    # Of the characters that `show` escapes, json writes only this one as it is.
    show(json.dumps(data, indent=1).replace("\x7f", "\\u007f"))


def written(path: Path, write: Callable[[], None]) -> bool:
    """Write a file after work that was paid for. A file that cannot be written is noted, and ends nothing.

    Args:
        path: the file.
        write: writes it.

    Returns:
        Whether the file was written.
    """
    try:
        write()
    except OSError as error:
        note(f"asktell: {path} could not be written ({error.strerror}).")
        return False
    return True


def end_output() -> None:
    """Write what is left of the output. Errors are those of `show`."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        _discard(sys.stderr)
    with _to_reader():
        sys.stdout.flush()


@contextlib.contextmanager
def _to_reader() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        _discard(sys.stdout)


def _discard(stream: TextIO) -> None:
    """Discard later output to a stream, and what Python writes at its exit. It would change the exit code."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def note(text: str, end: str = "\n") -> None:
    """Print a remark to stderr, as harmless as the output. A remark that nobody can read does not end the command."""
    with contextlib.suppress(OSError, ValueError):
        print(harmless(text), end=end, file=sys.stderr, flush=True)


def harmless(text: str) -> str:
    """Lines without anything that could control a terminal or the runner of a build."""
    return "\n".join(map(_harmless_line, text.split("\n")))


def _harmless_line(line: str) -> str:
    command = _COMMAND.match(line)
    if command:
        line = f"{command[1]}\\x{ord(command[2]):02x}{line[command.end() :]}"
    return safe(line)


def say_braces(config: "Config") -> None:
    """Warn of prompts with a column's name in braces that is sent as it is, unless the file sets `fields`."""
    from asktell_adapters.llms.prompts import unread_fields

    if config.fields is not None or config.harness is not None:
        return
    prompts = config.selector.prompts
    if unread := unread_fields(prompts.texts, config.examples):
        field = next(iter(unread.values()))[0]
        where = some([prompts.ids[at] for at in unread])
        words = (
            f"{config.path.name}: {{{field}}} is sent as it is (prompt {where}). In [prompts], set fields = true to "
            "insert the column's value, or fields = false to send the braces."
        )
        note(words)


def overview(
    result: "Result", doing: str, n_active: int, seconds_since: float | None = None
) -> Iterator[str]:
    """The progress of a run and the best prompts so far, as lines.

    Args:
        result: the result so far.
        doing: the run and its state, in words.
        n_active: number of prompts that are still active.
        seconds_since: seconds since the last change of the run. None if unknown.
    """
    early = f"; {result.early}" if result.early else ""
    counted = extend.describe_spending(result).partition(" evaluations")[0]
    if " of " in counted:
        counted += f" ({result.spent / result.budget:.0%})"
    rows = [
        ("run", doing),
        ("goal", str(result.goal)),
        ("evaluations", f"{counted}{early}"),
        ("prompts", f"{len(result.prompts)}, {n_active} active"),
        ("failures", str(sum(entry.failures for entry in result.prompts))),
    ]
    for group in result.failures[:3]:
        rows.append(("", one_line(f"{group.count}: {group.reason}", 200)))
    if result.max_cost is not None:
        share = result.spent_cost / result.max_cost
        of = f"{result.spent_cost:.4g} of {result.max_cost:.4g} ({share:.0%})"
        rows.append(("cost", of))
    elif result.spent_cost:
        rows.append(("cost", f"{result.spent_cost:.4g}"))
    if not result.done and seconds_since is not None:
        rows.append(("last change", f"{max(0.0, seconds_since):.0f} s ago"))
    for name, text in [*rows, *_selected(result)]:
        lines = textwrap.wrap(
            text, _WIDTH - 13, break_long_words=False, break_on_hyphens=False
        )
        for line in lines or [""]:
            yield f"{name:<12} {line}"
            name = ""


def _selected(result: "Result") -> Iterator[tuple[str, str]]:
    """The label and the text of each row about a selected prompt."""
    shown = result.selected[:_MOST_SELECTED]
    columns = [extend.shown_estimates(shown, metric) for metric in result.goal.columns]
    label = "result" if result.done else "best so far"
    for i, entry in enumerate(shown):
        cells = ", ".join(f"{name} {estimates[i]}" for name, estimates in columns)
        infeasible = ", infeasible" if entry.feasible is False else ""
        yield label, f"{entry.id}: {cells}{infeasible}"
        yield "", one_line(entry.prompt, _WIDTH - 13)
        label = ""  # the first prompt has it
    if len(result.selected) > _MOST_SELECTED:
        yield "", f"... and {len(result.selected) - _MOST_SELECTED} more"


def save_plot(
    result: "Result | Simulation", path: Path, what: str | None = None
) -> None:
    """Draw the result into a file. `what` is the argument of its `plot`."""
    with needs_extra("plot"):
        import matplotlib
    matplotlib.use("Agg")
    axes = result.plot() if what is None else result.plot(what)
    figure: Any = axes.figure
    # The picture has ids and estimates. A new file is readable by its owner only.
    if not path.exists():
        write_atomically(path, "")
    figure.savefig(path, dpi=150)
