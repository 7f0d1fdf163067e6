"""Signals and messages of a process that runs for long."""

import contextlib
import logging
import signal
import sys
from collections.abc import Iterator
from types import FrameType

from asktell.terminal import safe


class Terminated(BaseException):
    """SIGTERM came."""


@contextlib.contextmanager
def signals() -> Iterator[None]:
    """SIGTERM ends the run as Ctrl-C does: with everything saved."""

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, terminate)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
