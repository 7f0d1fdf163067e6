"""What `asktell status` and `asktell result` print."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asktell._util.extras import needs_extra
from asktell._util.terminal import filled, in_blocks, one_line, safe, with_error
from asktell.problem.checks import MOST_EVALUATIONS, some
from asktell.results import PromptResult, Result
from asktell.results.entries import in_words
from asktell.results.result import WIDTH, failed, heading, probabilities
from asktell_adapters.prompts import unread_fields

if TYPE_CHECKING:
    from asktell_adapters.config import Config


def show(text: str) -> None:
    """Print lines, safe for a terminal."""
    for line in text.split("\n"):
        print(safe(line))


def say_braces(config: "Config") -> None:
    """Say which prompts have columns of the data in braces that are sent as they are, where nobody said so."""
    if config.fields is not None or config.harness is not None:
        return
    prompts = config.selector.prompts
    if found := unread_fields(prompts.texts, config.examples):
        field, where = next(iter(found.values()))[0], some([prompts.ids[at] for at in found])
        words = (
            f"{config.path.name}: {{{field}}} is sent as it is (prompt {where}). In [prompts], fields = true puts the "
            "column's value there, and fields = false says that it is meant."
        )
        print(safe(words), file=sys.stderr)


def overview(result: Result, doing: str, n_active: int, seconds_since: float | None = None) -> Iterator[str]:
    """How far a run is, in some lines, and the best so far.

    Args:
        result: what it has come to.
        doing: which run, and whether it goes on.
        n_active: how many prompts are still in the race.
        seconds_since: its last change, where that is known.
    """
    early = f"; {result.early}" if result.early else ""
    rows = [
        ("run", doing),
        ("goal", str(result.goal)),
        ("evaluations", f"{_counted(result)}{early}"),
        ("prompts", f"{len(result.prompts)}, {n_active} active"),
        ("failures", str(sum(entry.failures for entry in result.prompts))),
        *(("", one_line(line, 200)) for line in in_words(result.failures)),
    ]
    if result.spent_cost or result.max_cost:
        limit = (
            "" if result.max_cost is None else f" of {result.max_cost:.4g} ({result.spent_cost / result.max_cost:.0%})"
        )
        rows.append(("cost", f"{result.spent_cost:.4g}{limit}"))
    if not result.done and seconds_since is not None:
        rows.append(("last change", f"{max(0.0, seconds_since):.0f} s ago"))
    label = "result" if result.done else "best so far"
    for entry in result.selected[:10]:
        names = result.goal.metrics
        cells = ", ".join(f"{name} {cell}" for name, cell in zip(names, _estimates(entry, names), strict=True))
        infeasible = ", infeasible" if entry.feasible is False else ""
        rows += [(label, f"{entry.id}: {cells}{infeasible}"), ("", one_line(entry.prompt, WIDTH - 13))]
        label = ""
    if len(result.selected) > 10:
        rows.append(("", f"... and {len(result.selected) - 10} more"))
    for name, text in rows:
        for line in filled(text, WIDTH - 13):
            yield f"{name:<12} {line}"
            name = ""


def _counted(result: Result) -> str:
    if result.budget >= MOST_EVALUATIONS:  # any number: money is what is bounded
        return str(result.spent)
    return f"{result.spent} of {result.budget} ({result.spent / result.budget:.0%})"


def report(result: Result) -> Iterator[str]:
    """The table of all prompts, and what is to be said about it."""
    metrics = result.goal.metrics
    width = shutil.get_terminal_size((WIDTH, 24)).columns
    for line in heading(result):
        yield from filled(line, width)
    chosen = {entry.id for entry in result.selected}
    open_ = {entry.id for entry in result.unresolved}
    ranked = _ranked(result)
    chances = list(zip(*probabilities(ranked, result.goal), strict=True)) or [()] * (len(ranked) + 1)
    failures = list(zip(*failed(ranked), strict=True)) or [()] * (len(ranked) + 1)
    rows = [["", "id", *metrics, *chances[0], "pulls", *failures[0], "status", "prompt"]]
    for entry, chance, n_failed in zip(ranked, chances[1:], failures[1:], strict=True):
        mark = "*" if entry.id in chosen else "?" if entry.id in open_ else ""
        status = entry.status if entry.round is None else f"{entry.status}, round {entry.round}"
        if entry.feasible is False:
            status += ", infeasible"
        if entry.id in result.dominated:
            status += f", dominated by {result.dominated[entry.id]}"
        counts = [str(entry.pulls), *n_failed]
        rows.append([mark, str(entry.id), *_estimates(entry, metrics), *chance, *counts, status, entry.prompt])
    columns = list(zip(*rows, strict=True))
    yield from in_blocks(columns[:2], columns[2:-1], columns[-1], width)
    yield "*: selected" + ("; ?: could not be told apart from the selected ones" if open_ - chosen else "")
    yield from (one_line(line, 200) for line in in_words(result.failures, most=10))
    for entry in result.prompts:
        if entry.status == "retired":
            yield f"{entry.id} was retired" + (f": {one_line(entry.reason, 200)}" if entry.reason else ".")
    yield from result.notes
    if result.spent_cost:
        yield f"Cost: {result.spent_cost:.4g}"
    if result.sentence:
        yield result.sentence


def _ranked(result: Result) -> list[PromptResult]:
    """The selected ones first, then by the goal: feasible ones by the objectives, then by how little they violate."""
    import numpy as np

    goal, metrics = result.goal, result.goal.metrics
    place = {entry.id: i for i, entry in enumerate(result.selected)}

    def key(entry: PromptResult) -> tuple[float, ...]:
        first = float(place.get(entry.id, len(place)))
        means = [entry.estimate[name] for name in metrics]
        if any(mean is None for mean in means):
            return (first, 2.0, 0.0)
        values, n_objectives = goal.values(np.array([means], dtype=float))[0], len(goal.objectives)
        violation = -float(np.minimum(values[n_objectives:], 0.0).sum())
        return (first, 1.0, violation) if violation > 0 else (first, 0.0, -float(values[:n_objectives].mean()))

    return sorted(result.prompts, key=key)


def _estimates(entry: PromptResult, metrics: Sequence[str]) -> list[str]:
    return [with_error(entry.estimate[name], entry.standard_error[name]) for name in metrics]


def save_plot(result: Result, path: Path) -> None:
    """Draw the result into a file.

    Raises:
        MissingExtraError: matplotlib is missing.
    """
    with needs_extra("plot"):
        import matplotlib
    matplotlib.use("Agg")
    axes = result.plot()
    figure: Any = axes.figure
    figure.savefig(path, dpi=150)
