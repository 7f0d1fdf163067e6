"""Parts of HTML for a notebook, such as paragraphs, a compact table and a folded list. All text is escaped."""

import html
from collections.abc import Sequence

from asktell._util.terminal import safe


def block(*parts: str) -> str:
    """One element that contains the parts, which are HTML already."""
    return f"<div>{''.join(parts)}</div>"


def heading(text: str) -> str:
    """A paragraph in bold."""
    return f"<p><strong>{_text(text)}</strong></p>"


def paragraphs(lines: Sequence[str]) -> str:
    """A paragraph per line."""
    return "".join(f"<p>{_text(line)}</p>" for line in lines)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with a header. Empty if it has no rows."""
    if not rows:
        return ""
    names = "".join(f"<th>{_text(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"


def folded(title: str, lines: Sequence[str]) -> str:
    """A list below a title, hidden until the reader opens it. Empty if it has no lines."""
    if not lines:
        return ""
    items = "".join(f"<li>{_text(line)}</li>" for line in lines)
    return f"<details><summary>{_text(title)}</summary><ul>{items}</ul></details>"


def _text(text: str) -> str:
    return html.escape(safe(text), quote=True)
