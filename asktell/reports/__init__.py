"""A selection as one HTML page: `document` gathers its data, `render` makes the page."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asktell.reports.data import FORMAT, VERSION, document, plain, version_of
    from asktell.reports.page import encode, render, render_live, write

_OF_DATA = ("FORMAT", "VERSION", "document", "plain", "version_of")
__all__ = ["FORMAT", "VERSION", "document", "encode", "plain", "render", "render_live", "version_of", "write"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # late: whoever selects need not report
        from asktell.reports import data, page

        return getattr(data if name in _OF_DATA else page, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
