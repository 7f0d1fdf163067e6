"""Results and comparisons in a notebook: compact tables, as HTML in which everybody's text is text; and as a frame."""

import html
from typing import TYPE_CHECKING

from asktell._util.extras import needs_extra
from asktell._util.terminal import one_line, safe, with_doubt
from asktell.results.comparison import Comparison
from asktell.results.entries import shown_estimates
from asktell.results.evaluations import column_names

if TYPE_CHECKING:
    import pandas

    from asktell.results.result import Result

_ROWS = 10


def as_html(result: "Result", heading: list[str]) -> str:
    """The verdict, a heading, and the table of the answer and those that may be better."""
    chosen = {entry.id for entry in result.selected}
    found = [*result.selected, *(e for e in result.unresolved if e.id not in chosen)] if chosen else []
    shown = found[:_ROWS]
    columns = [shown_estimates(shown, metric) for metric in result.goal.columns]
    rows = [
        [
            "selected" if entry.id in chosen else "may be better", str(entry.id), *(cells[i] for _, cells in columns),
            str(entry.evaluations), one_line(entry.prompt, 60),
        ]
        for i, entry in enumerate(shown)
    ]  # fmt: skip
    left = len(found) - len(shown)
    more = [f"... and {left} more."] if left > 0 else []
    table = _table(["", "id", *(name for name, _ in columns), "evaluations", "prompt"], rows)
    verdict = f"<p><strong>{_text(result.verdict.sentence)}</strong></p>"
    below = _lines([*more, *result.notes, *(result.sentence or "").splitlines()])
    return f"<div>{verdict}{_lines(heading)}{table}{below}{_checks(result)}</div>"


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
    interval = f"{100 * comparison.confidence:g} % interval"
    head = ["metric", f"{a} less {b}", interval, "P(better)", "common examples", "verdict"]
    said = f"<p><strong>{_text(f'{a} against {b}: {verdicts}.')}</strong></p>"
    return f"<div>{said}{_table(head, rows)}</div>"


def as_frame(result: "Result") -> "pandas.DataFrame":
    """A row per prompt."""
    with needs_extra("analysis"):
        import pandas
    metrics, chosen = result.goal.columns, {entry.id for entry in result.selected}
    open_ = {entry.id for entry in result.unresolved}
    first = ("id", "prompt", "selected", "unresolved")
    last = ("evaluations", "status", "round", "reason", "feasible", "failures", "p_feasible", "p_best")
    names = [each for name in column_names(metrics, (*first, *last)) for each in (name, f"{name} error")]
    rows = [
        (
            e.id, e.prompt, e.id in chosen, e.id in open_,
            *(value for metric in metrics for value in (e.estimate[metric], e.standard_error[metric])),
            *(getattr(e, field) for field in last),
        )
        for e in result.prompts
    ]  # fmt: skip
    kinds = {"round": "Int64", "feasible": "boolean"} | dict.fromkeys([*names, "p_feasible", "p_best"], "float64")
    return pandas.DataFrame(rows, columns=[*first, *names, *last]).astype(kinds)


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
