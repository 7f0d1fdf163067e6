"""A result in a notebook: a compact table and the plane, as HTML in which everybody's text is text; and as a frame."""

import html
from typing import TYPE_CHECKING

from asktell._util.extras import needs_extra
from asktell._util.terminal import one_line, safe, with_error
from asktell.results.evaluations import column_names
from asktell.results.result import Shown

if TYPE_CHECKING:
    import pandas

_ROWS = 10
_WIDTH, _HEIGHT, _MARGIN = 420, 260, 42
_MOST_POINTS = 1000


def as_html(result: Shown, heading: list[str], above: str = "") -> str:
    """The table of the answer and those not told apart, and the plane of the first two metrics.

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
            "selected" if entry.id in chosen else "not told apart", str(entry.id),
            *(with_error(entry.estimate[m], entry.standard_error[m]).replace("+-", "±") for m in metrics),
            str(entry.pulls), one_line(entry.prompt, 60),
        ]  # fmt: skip
        rows.append("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in cells) + "</tr>")
    left = len(found) - len(shown)
    more = [f"... and {left} more."] if left > 0 else []
    lines = [f"<p>{_text(line)}</p>" for line in heading]
    said = [*more, *result.notes, *(result.sentence or "").splitlines()]
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>" if rows else ""
    return "".join([
        "<div>", above, *lines, table, *(f"<p>{_text(line)}</p>" for line in said),
        _plane(result), "</div>",
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
    fixed = ("pulls", "status", "round", "reason", "feasible", "failures", "p_feasible", "p_optimal")
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
    kinds = {"round": "Int64", "feasible": "boolean", "p_feasible": "float64", "p_optimal": "float64"}
    for field in fixed:
        values = [getattr(entry, field) for entry in result.prompts]
        columns[field] = pandas.array(values, dtype=kinds[field]) if field in kinds else values
    return pandas.DataFrame(columns)


def _plane(result: Shown) -> str:
    """Points as SVG, the answer as diamonds; names on pointing."""
    metrics = result.goal.metrics
    if len(metrics) < 2:
        return ""
    x, y = metrics[:2]
    known = [e for e in result.prompts if e.estimate[x] is not None and e.estimate[y] is not None]
    chosen = {entry.id for entry in result.selected}
    if not known:
        return ""
    known = [e for e in known if e.id not in chosen][:_MOST_POINTS] + [e for e in known if e.id in chosen]
    at = {m: _scale([e.estimate[m] or 0.0 for e in known]) for m in (x, y)}
    marks = []
    for entry in known:
        left = _MARGIN + at[x](entry.estimate[x]) * (_WIDTH - 2 * _MARGIN)
        top = _HEIGHT - _MARGIN - at[y](entry.estimate[y]) * (_HEIGHT - 2 * _MARGIN)
        kind = "chosen" if entry.id in chosen else "baseline" if entry.id == result.baseline else "other"
        form = {
            "chosen": f'<path d="M{left:.1f} {top - 6:.1f}l6 6l-6 6l-6-6Z" fill="#0067b0">',
            "baseline": f'<circle cx="{left:.1f}" cy="{top:.1f}" r="5" fill="none" stroke="#b33a00" stroke-width="2">',
            "other": f'<circle cx="{left:.1f}" cy="{top:.1f}" r="3" fill="#767e8c" fill-opacity="0.7">',
        }[kind]
        words = ", ".join(f"{m} {with_error(entry.estimate[m], entry.standard_error[m])}" for m in (x, y))
        tag = "path" if kind == "chosen" else "circle"
        marks.append(f"{form}<title>{_text(f'{entry.id}: {words}')}</title></{tag}>")
    bottom, numbers = _HEIGHT - _MARGIN, []
    for text, left, top, anchor in (
        (at[x].low, _MARGIN, bottom + 14, "start"),
        (at[x].high, _WIDTH - _MARGIN, bottom + 14, "end"),
        (at[y].low, _MARGIN - 3, bottom, "end"),
        (at[y].high, _MARGIN - 3, _MARGIN + 8, "end"),
    ):
        numbers.append(f'<text x="{left}" y="{top}" text-anchor="{anchor}" font-size="10">{text:.3g}</text>')
    frame = f"M{_MARGIN} {_MARGIN / 2}V{_HEIGHT - _MARGIN}H{_WIDTH - _MARGIN / 2}"
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="the prompts by two metrics" '
        f'fill="currentColor" font-size="12"><path d="{frame}" fill="none" stroke="#767e8c"/>{"".join(numbers + marks)}'
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 6}" text-anchor="middle">{_text(one_line(x, 50))}</text>'
        f'<text x="4" y="14">{_text(one_line(y, 50))}</text></svg>'
    )


class _scale:  # noqa: N801 - used as a function
    """From numbers to their place in the range, away from its edges."""

    def __init__(self, values: list[float]) -> None:
        self.low, self.high = min(values), max(values)

    def __call__(self, value: float | None) -> float:
        size = self.high - self.low
        return 0.5 if not size else 0.03 + 0.94 * ((value or 0.0) - self.low) / size


def _text(text: str) -> str:
    return html.escape(safe(text), quote=True)
