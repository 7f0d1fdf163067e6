"""The engine's words for a missing package, under a short name for adapters."""

from asktell.extras import check_extra, import_extra, needs_extra

__all__ = ["check_extra", "import_extra", "needs_extra"]
