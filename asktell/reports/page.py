"""A report's document as a self-contained HTML page.

Texts in a document are untrusted. The page holds them as data, escaped so that they
cannot end its element, and the script shows them as text only. The
Content-Security-Policy allows only the page's own script and style, by their digests,
and no requests.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from asktell._util.files import write_atomically

_FOLDER = Path(__file__).parent / "page"
_SCRIPTS = (
    "text.js", "words.js", "pictures.js", "table.js", "view.js", "verdict.js", "plane.js", "prompts.js",
    "segments.js", "factors.js", "judge.js",
    "spending.js", "examples.js", "duel.js", "workers.js", "costs.js", "made.js",
    "changes.js", "live.js", "main.js",
)  # fmt: skip
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


def write(path: str | Path, document: Mapping[str, Any]) -> None:
    """Write the page of a document, replacing an existing file atomically."""
    write_atomically(Path(path), render(document))


def render(document: Mapping[str, Any]) -> str:
    """The page of what `asktell.reports.document` gathered."""
    summary = "\n".join(
        [
            document["words"]["answer"],
            document["words"]["verdict"],
            document["goal"]["text"],
        ]
    )
    title = str(document["name"] or "Selection")
    return frame(title, assets()[1], encode(document), summary=summary, live=False)


def render_live(title: str, live: str, **attributes: str) -> str:
    """A page that polls for new documents of a study.

    Args:
        title: the title of the page.
        live: the address of the documents, relative to the page. A document also has
            the part `live` (see `watching.LiveReport`).
        attributes: as in `frame`.
    """
    return frame(title, assets()[1], attributes={"live": live, **attributes})


def frame(
    title: str,
    script: str,
    data: str = "null",
    *,
    summary: str = "",
    live: bool = True,
    attributes: Mapping[str, str] | None = None,
) -> str:
    """A page in asktell's style that runs one script.

    Args:
        title: the title of the page.
        script: the script.
        data: JSON for the script, as `encode` writes it.
        summary: the text of the page in browsers that run no scripts.
        live: whether the script sends requests to the server of the page.
        attributes: further data for the script, in `document.documentElement.dataset`.
    """
    data_attributes = "".join(
        f' data-{name}="{html.escape(_clean(value))}"'
        for name, value in (attributes or {}).items()
    )
    return _PAGE.format(
        policy=_policy(script, live), attributes=data_attributes, title=html.escape(_clean(title)), style=assets()[0],
        script=script, data=data, summary=html.escape(_clean(summary)),
    )  # fmt: skip


def _policy(script: str, live: bool) -> str:
    """The Content-Security-Policy of a page with this script."""
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(assets()[0])}'; "
        f"img-src data: blob:; connect-src '{'self' if live else 'none'}'; base-uri 'none'; form-action 'none'"
    )


def encode(document: Mapping[str, Any]) -> str:
    """JSON for a script element of HTML, without markup, line separators and lone surrogates."""
    text = json.dumps(
        document, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


@cache
def assets() -> tuple[str, str]:
    """The page's style and script."""
    return (_FOLDER / "page.css").read_text(encoding="utf-8"), script_of(*_SCRIPTS)


def script_of(*files: str | Path) -> str:
    """Files as one script. Files of this page are given by name, and others by absolute path."""
    return '"use strict";\n' + "\n".join(
        (_FOLDER / file).read_text(encoding="utf-8") for file in files
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode(
        "ascii"
    )


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


_PAGE = """<!DOCTYPE html>
<html lang="en"{attributes}>
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{title} · asktell</title>
<style>{style}</style>
</head>
<body>
<noscript><pre>{summary}</pre></noscript>
<div id="page"></div>
<svg hidden></svg>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""
