"""Results and comparisons in a notebook: compact tables as HTML, in which all text is escaped."""

import html
from typing import TYPE_CHECKING

from asktell._util.terminal import one_line, safe, with_doubt
from asktell.results.comparison import Comparison
from asktell.results.table import shown_columns

if TYPE_CHECKING:
    from asktell.results.result import Result

_ROWS = 10


def as_html(result: "Result", heading: list[str]) -> str:
    """The verdict, the table of the selected prompts and the other contenders, and notes."""
    found = [*result.selected, *result.unresolved]
    shown = found[:_ROWS]
    columns = [["id", *(str(entry.id) for entry in shown)], *shown_columns(result, shown)]
    columns.append(["prompt", *(one_line(entry.prompt, 60) for entry in shown)])
    head, *rows = ([*cells] for cells in zip(*columns, strict=True))
    more = [f"... and {len(found) - len(shown)} more."] if len(found) > len(shown) else []
    legend = ["*: selected; ?: still in contention"] if result.unresolved else []
    verdict = f"<p><strong>{_text(result.verdict.sentence)}</strong></p>"
    below = _lines([*more, *legend, *result.notes, *(result.sentence or "").splitlines()])
    return f"<div>{verdict}{_lines(heading)}{_table(head, rows)}{below}{_checks(result)}</div>"


def _checks(result: "Result") -> str:
    """What statements rest on, folded; without what the notes say above."""
    shown = [check for check in result.checks if check.sentence not in result.notes]
    if not shown:
        return ""
    marks = {True: "✓", False: "✗", None: "?"}
    items = "".join(f"<li>{marks[check.ok]} {_text(check.sentence)}</li>" for check in shown)
    return f"<details><summary>What could go wrong</summary><ul>{items}</ul></details>"


def comparison_as_html(comparison: Comparison) -> str:
    """A sentence of every metric's verdict, and the table of the differences."""
    a, b = str(comparison.a), str(comparison.b)
    verdicts = ", ".join(f"{each.verdict} in {metric}" for metric, each in comparison.differences.items())
    rows = []
    for metric, each in comparison.differences.items():
        bounds = "-" if each.low is None or each.high is None else f"[{each.low:+.3g}, {each.high:+.3g}]"
        lead = "-" if each.estimate is None else f"{each.estimate:+.3g}"
        rows.append([metric, lead, bounds, with_doubt(each.p_better), str(each.pairs), each.verdict])
    interval = f"{100 * comparison.confidence:g}% interval"
    head = ["metric", f"{a} less {b}", interval, "P(better)", "common examples", "verdict"]
    said = f"<p><strong>{_text(f'{a} against {b}: {verdicts}.')}</strong></p>"
    return f"<div>{said}{_table(head, rows)}</div>"


def _table(head: list[str], rows: list[list[str]]) -> str:
    if not rows:
        return ""
    names = "".join(f"<th>{_text(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"


def _lines(lines: list[str]) -> str:
    return "".join(f"<p>{_text(line)}</p>" for line in lines)


def _text(text: str) -> str:
    return html.escape(safe(text), quote=True)
