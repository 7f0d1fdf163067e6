"""A selection as one HTML page: `document` gathers its data, `render` makes the page."""

from asktell.reports.data import FORMAT, VERSION, document, plain, version_of
from asktell.reports.page import encode, render, render_live, write

__all__ = ["FORMAT", "VERSION", "document", "encode", "plain", "render", "render_live", "version_of", "write"]
