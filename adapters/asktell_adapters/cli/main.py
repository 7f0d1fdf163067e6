"""The command `asktell`. The module of a command is imported only when the command is run."""

import argparse
import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

from asktell import (
    AsktellError,
    EvaluatorError,
    FolderBusyError,
    MissingExtraError,
    StorageError,
)
from asktell_adapters.cli.arguments import make_parser
from asktell_adapters.cli.output import end_output, note
from asktell_adapters.cli.process import Terminated, confirmed

_FAILED, _MISTAKE, _INTERRUPTED, _TERMINATED = 1, 2, 130, 143


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Codes: 0 after success, 1 if the command could not be finished, 2 after a mistake in
    the command or in a file, 130 after Ctrl-C, 143 after SIGTERM. `asktell gate` has
    codes of its own.
    """
    try:
        words = sys.argv[1:] if argv is None else list(argv)
        arguments = make_parser().parse_args(words)
        arguments.words = words
    except MissingExtraError as error:
        # `asktell init` reads the kinds of LLM for its help
        return _complain(error)
    # Many scripts look at the exit code alone
    if argv is None and arguments.command == "gate:gate":
        return confirmed(sys.argv[1:], lambda: _run(arguments))
    return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    """Run the command and return its exit code. An error is one line on stderr, unless `--debug` is given."""
    _open_standard_files()
    for stream in (sys.stdout, sys.stderr):
        # A terminal with few characters is no reason to fail
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    module, _, name = arguments.command.partition(":")
    # Its exit code 1 means that the candidate is worse, so errors are 2
    is_gate = name == "gate"
    try:
        code = int(
            getattr(import_module(f"asktell_adapters.cli.{module}"), name)(arguments)
        )
        end_output()
        return code
    except Terminated:
        return _TERMINATED
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BaseException as error:
        if not is_gate and (arguments.debug or not isinstance(error, Exception)):
            raise
        code = _FAILED
        with contextlib.suppress(OSError, ValueError):
            if arguments.debug:
                traceback.print_exc()
            else:
                code = _complain(error)
        return _MISTAKE if is_gate else code


def _open_standard_files() -> None:
    """Open what was closed before the start, as by `2>&-`, so that its text is discarded.

    Otherwise a file of a study would get the number of stderr, and the messages of
    libraries would go into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The smallest free number is used
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def _complain(error: BaseException) -> int:
    """Print an error in one line, and return its exit code: 2 for a mistake of the user, 1 for a failure."""
    mistake = isinstance(error, AsktellError) and not isinstance(
        error, FolderBusyError | StorageError | EvaluatorError
    )
    if isinstance(error, AsktellError):
        text = str(error)
    elif isinstance(error, OSError):
        text = (
            f"{error.strerror or error}: {str(error.filename)!r}"
            if error.filename
            else str(error)
        )
    else:
        text = f"{type(error).__name__}: {error} (--debug shows where)"
    # A question about results has a line for each reading
    lines = [f"asktell: {text}"] if not hasattr(error, "lines") else error.lines()
    for line in lines:
        note(" ".join(line.split()))
    return _MISTAKE if mistake else _FAILED


if __name__ == "__main__":
    sys.exit(main())
