"""The command `asktell`: parses its arguments, and imports what a command needs when it is run."""

import argparse
import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

from asktell import AsktellError, EvaluatorError, FolderBusyError, StorageError
from asktell.extend import safe
from asktell_adapters.cli.arguments import make_parser
from asktell_adapters.cli.process import Terminated, confirmed

_FAILED, _MISTAKE, _INTERRUPTED, _TERMINATED = 1, 2, 130, 143


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done; 1: it could not be finished; 2: a mistake in the command or in a file; 130 and 143: Ctrl-C and SIGTERM.
    """
    arguments = make_parser().parse_args(argv)
    if argv is None and arguments.command == "gate:gate":  # the exit code is all that many scripts look at
        return confirmed(sys.argv[1:], lambda: _run(arguments))
    return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that knows few characters is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    module, _, name = arguments.command.partition(":")
    is_gate = name == "gate"  # of which an exit code of 1 would say that the candidate is worse
    code = _MISTAKE if is_gate else _FAILED
    try:
        code = int(getattr(import_module(f"asktell_adapters.cli.{module}"), name)(arguments))
        if sys.stdout is not None:  # it is, where it was closed beforehand
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader has left, as `head` does: what Python flushes at its end goes nowhere.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code if is_gate else _FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Terminated:
        return _TERMINATED
    except BaseException as error:
        if not is_gate and (arguments.debug or not isinstance(error, Exception)):
            raise
        with contextlib.suppress(OSError, ValueError):
            if arguments.debug:
                traceback.print_exc()
            else:
                found = _complain(error)
        return _MISTAKE if is_gate else found


def _complain(error: BaseException) -> int:
    mistake = isinstance(error, AsktellError) and not isinstance(error, FolderBusyError | StorageError | EvaluatorError)
    if isinstance(error, AsktellError):
        text = str(error)
    elif isinstance(error, OSError):
        text = f"{error.strerror or error}: {str(error.filename)!r}" if error.filename else str(error)
    else:
        text = f"{type(error).__name__}: {error} (--debug shows where)"
    print(f"asktell: {safe(' '.join(text.split()))}", file=sys.stderr)
    return _MISTAKE if mistake else _FAILED


if __name__ == "__main__":
    sys.exit(main())
