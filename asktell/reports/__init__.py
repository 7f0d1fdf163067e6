"""A selection as an HTML page.

`document` gathers the data. `render` makes a page with the data, and `render_live` a
page that polls for new data.
"""

from asktell.reports.data import (
    FORMAT,
    VERSION,
    document,
    plain,
    version_of,
    with_inputs,
)
from asktell.reports.page import encode, frame, render, render_live, script_of, write

__all__ = [
    "FORMAT", "VERSION", "document", "encode", "frame", "plain", "render", "render_live", "script_of", "version_of",
    "with_inputs", "write",
]  # fmt: skip
