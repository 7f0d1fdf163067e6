"""Signals and messages of a long process, and a second process that confirms its exit code."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

from asktell_adapters.cli.output import harmless, note

# SIGBREAK is Ctrl-Break, which only Windows has.
_ENDING = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGBREAK") if hasattr(signal, name)
)


class Terminated(KeyboardInterrupt):
    """SIGTERM was received.

    It is a KeyboardInterrupt, because an event loop would only log most other
    exceptions of its callbacks, and the run would go on. A SystemExit may also be the
    failure of a metric or a loader.
    """


@contextlib.contextmanager
def signals() -> Iterator[None]:
    """Let SIGTERM, or Ctrl-Break, end the run as Ctrl-C does, with everything saved."""

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


# Names the file for the exit code, in the environment of the process that writes it
_CODE_FILE = "ASKTELL_CODE_FILE"
_NO_CODE = 2


def confirmed(words: Sequence[str], run: Callable[[], int]) -> int:
    """Run this command in a process of its own, and return the exit code that its end was reached with.

    Whatever ends that process earlier, such as `os._exit(0)` in a metric or a library
    that calls `exit`, is no verdict but an error, 2. `run` is what that process, which
    comes here too, has to do.
    """
    # It is not for processes that it starts
    if (file_of_code := os.environ.pop(_CODE_FILE, None)) is not None:
        code = run()
        Path(file_of_code).write_text(str(code), encoding="ascii")
        return code
    with tempfile.TemporaryDirectory(prefix="asktell-") as folder:
        file = Path(folder) / "code"
        # Like the command itself, it does not import from the working directory unless
        # this process does.
        is_safe = [] if sys.path[:1] in ([""], [os.getcwd()]) else ["-P"]
        command = [sys.executable, *is_safe, "-m", "asktell_adapters.cli.main", *words]
        with (
            _passing_on() as pass_on_to,
            subprocess.Popen(
                command, env={**os.environ, _CODE_FILE: str(file)}
            ) as process,
        ):
            pass_on_to(process)
            code = process.wait()
        if file.is_file():
            return int(file.read_text(encoding="ascii"))
    note(
        f"asktell: The process ended with exit code {code} before there was a verdict. A metric, a loader or a "
        "library may have ended it, or the system, for example for lack of memory."
    )
    return _NO_CODE


@contextlib.contextmanager
def _passing_on() -> Iterator[Callable[["subprocess.Popen[bytes]"], None]]:
    """Pass signals that would end this process on to another process, which saves everything and ends.

    Yields a function to name that process. Signals that came earlier are passed on then.
    """
    processes: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        # Ctrl-C
        reaches_both = (
            number == signal.SIGINT and sys.stdin is not None and sys.stdin.isatty()
        )
        if not processes:
            early.append(number)
        elif not reaches_both:
            processes[0].send_signal(number)

    def pass_on_to(process: "subprocess.Popen[bytes]") -> None:
        processes.append(process)
        for number in early:
            # Ctrl-C, too: the process may have been started after it
            process.send_signal(number)

    if threading.current_thread() is not threading.main_thread():
        yield pass_on_to
        return
    before = [
        (ending, signal.signal(ending, pass_on)) for ending in (*_ENDING, signal.SIGINT)
    ]
    try:
        yield pass_on_to
    finally:
        for ending, handler in before:
            signal.signal(ending, handler)


@contextlib.contextmanager
def logging_to_stderr() -> Iterator[None]:
    """Print failures of single evaluations to stderr, above the progress bar and safe for a terminal."""

    class StderrHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            from tqdm import tqdm

            with contextlib.suppress(Exception):
                tqdm.write(harmless(record.getMessage()), file=sys.stderr)

    handler, log = StderrHandler(), logging.getLogger("asktell")
    # Some packages set up a handler of their own, that would repeat it
    propagate, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagate
