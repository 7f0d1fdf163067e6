"""The logger of asktell, whose messages never end the work that they are about."""

import contextlib
import logging
from typing import Any


class _Log(logging.LoggerAdapter[logging.Logger]):
    """The logger "asktell". A handler that raises, for example because its file is closed, loses its message only."""

    def log(self, level: int, msg: object, *args: object, **options: Any) -> None:
        """Log a message."""
        # The caller of the method that called this one
        options.setdefault("stacklevel", 2)
        with contextlib.suppress(Exception):
            super().log(level, msg, *args, **options)


log = _Log(logging.getLogger("asktell"), {})
