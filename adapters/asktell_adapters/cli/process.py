"""Signals and messages of a process that runs for long."""

import contextlib
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from asktell.extend import safe

# SIGBREAK is Ctrl-Break, which only Windows has.
_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGBREAK") if hasattr(signal, name))


class Terminated(BaseException):
    """SIGTERM came."""


@contextlib.contextmanager
def signals() -> Iterator[None]:
    """SIGTERM, or Ctrl-Break, ends the run as Ctrl-C does: with everything saved."""

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():  # only that one may
        yield
        return
    before = [(ending, signal.signal(ending, terminate)) for ending in _ENDING]
    try:
        yield
    finally:
        for ending, handler in before:
            signal.signal(ending, handler)


@contextlib.contextmanager
def logging_to_stderr() -> Iterator[None]:
    """Failures of single evaluations go to stderr, beside the progress bar and safe for a terminal."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            from tqdm import tqdm

            tqdm.write(safe(record.getMessage()), file=sys.stderr)

    handler, log = Handler(), logging.getLogger("asktell")
    propagate, log.propagate = log.propagate, False  # some packages set up a handler of their own, that would repeat it
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagate
