"""A result in a notebook: a compact table, as HTML in which everybody's text is text; and as a frame."""

import html
from typing import TYPE_CHECKING

from asktell._util.extras import needs_extra
from asktell._util.terminal import one_line, safe, with_error
from asktell.results.entries import Shown
from asktell.results.evaluations import column_names

if TYPE_CHECKING:
    import pandas

_ROWS = 10


def as_html(result: Shown, heading: list[str], above: str = "") -> str:
    """The verdict, and the table of the answer and those that may be better.

    Args:
        result: what is shown.
        heading: lines of text before it.
        above: HTML before these.
    """
    chosen = {entry.id for entry in result.selected}
    found = [*result.selected, *(e for e in result.unresolved if e.id not in chosen)] if chosen else []
    shown = found[:_ROWS]
    metrics = result.goal.metrics
    head = "".join(f"<th>{_text(name)}</th>" for name in ("", "id", *metrics, "evaluations", "prompt"))
    rows = []
    for entry in shown:
        cells = [
            "selected" if entry.id in chosen else "may be better", str(entry.id),
            *(with_error(entry.estimate[m], entry.standard_error[m]).replace("+-", "±") for m in metrics),
            str(entry.pulls), one_line(entry.prompt, 60),
        ]  # fmt: skip
        rows.append("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in cells) + "</tr>")
    left = len(found) - len(shown)
    more = [f"... and {left} more."] if left > 0 else []
    lines = [f"<p>{_text(line)}</p>" for line in heading]
    said = [*more, result.verdict.sentence, *result.notes, *(result.sentence or "").splitlines()]
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>" if rows else ""
    return "".join([
        "<div>", above, *lines, table, *(f"<p>{_text(line)}</p>" for line in said),
        "</div>",
    ])  # fmt: skip


def as_frame(result: Shown) -> "pandas.DataFrame":
    """A row per prompt.

    Raises:
        MissingExtraError: pandas is missing.
    """
    with needs_extra("analysis"):
        import pandas
    metrics, chosen = result.goal.metrics, {entry.id for entry in result.selected}
    open_ = {entry.id for entry in result.unresolved}
    fixed = ("pulls", "status", "round", "reason", "feasible", "failures", "p_feasible", "p_best")
    names = column_names(metrics, ("id", "prompt", "selected", "unresolved", *fixed))
    columns: dict[str, object] = {
        "id": [entry.id for entry in result.prompts],
        "prompt": [entry.prompt for entry in result.prompts],
        "selected": [entry.id in chosen for entry in result.prompts],
        "unresolved": [entry.id in open_ for entry in result.prompts],
    }
    for name, metric in zip(names, metrics, strict=True):
        columns[name] = pandas.array([e.estimate[metric] for e in result.prompts], dtype="float64")
        columns[f"{name} error"] = pandas.array([e.standard_error[metric] for e in result.prompts], dtype="float64")
    kinds = {"round": "Int64", "feasible": "boolean", "p_feasible": "float64", "p_best": "float64"}
    for field in fixed:
        values = [getattr(entry, field) for entry in result.prompts]
        columns[field] = pandas.array(values, dtype=kinds[field]) if field in kinds else values
    return pandas.DataFrame(columns)


def _text(text: str) -> str:
    return html.escape(safe(text), quote=True)
