"""`asktell`: a selection described in a file and run from the command line, and what there is to see of it.

The engine knows no adapter; what a configuration names is loaded here, by name and late.
"""

import argparse
import contextlib
import json
import os
import shutil
import sys
import traceback
from collections.abc import Sequence

from asktell import AsktellError, EvaluatorError, FolderBusyError, InvalidArgumentError, StorageError
from asktell.extend import safe
from asktell_adapters.cli.arguments import PICTURES, Command, make_parser
from asktell_adapters.cli.output import save_plot, show
from asktell_adapters.cli.process import Terminated, logging_to_stderr, signals

_OK, _FAILED, _MISTAKE, _INTERRUPTED, _TERMINATED = 0, 1, 2, 130, 143


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done; 1: it could not be finished; 2: a mistake in the command or in a file; 130 and 143: Ctrl-C and SIGTERM.
    """
    arguments = make_parser(_COMMANDS).parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that knows few characters is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    try:
        code: int = arguments.command(arguments)
        if sys.stdout is not None:  # it is, where it was closed beforehand
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        _drop_stdout()
        return _FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Terminated:
        return _TERMINATED
    except Exception as error:
        if arguments.debug:
            raise
        return _complain(error)


def _drop_stdout() -> None:
    """The reader has left, as `head` does: what Python flushes at its end goes nowhere."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(error: BaseException) -> int:
    """One line on stderr, and the exit code."""
    mistake = isinstance(error, AsktellError) and not isinstance(error, FolderBusyError | StorageError | EvaluatorError)
    if isinstance(error, AsktellError):
        text = str(error)
    elif isinstance(error, OSError):
        text = f"{error.strerror or error}: {str(error.filename)!r}" if error.filename else str(error)
    else:
        text = f"{type(error).__name__}: {error} (--debug shows where)"
    print(f"asktell: {safe(' '.join(text.split()))}", file=sys.stderr)
    return _MISTAKE if mistake else _FAILED


def _run(arguments: argparse.Namespace) -> int:
    from asktell_adapters.cli.work import run_config
    from asktell_adapters.config import load_config

    with contextlib.closing(load_config(arguments.config)) as config:
        run_config(config, arguments)
    return _OK


def _init(arguments: argparse.Namespace) -> int:
    from asktell_adapters.cli.init import init

    return init(arguments)


def _check(arguments: argparse.Namespace) -> int:
    from asktell_adapters.cli.check import check

    return check(arguments)


def _improve(arguments: argparse.Namespace) -> int:
    from asktell_adapters.cli.work import run_config
    from asktell_adapters.config import load_config

    run_config(load_config(arguments.config, improve=True), arguments)
    return _OK


def _status(arguments: argparse.Namespace) -> int:
    from asktell_adapters.cli.studies import status

    status(arguments.run, arguments.name)
    return _OK


def _result(arguments: argparse.Namespace) -> int:
    if arguments.plot is not None and arguments.plot.suffix.lower() not in PICTURES:
        raise InvalidArgumentError(f"--plot needs a file that ends in {', '.join(PICTURES)}; got {arguments.plot}.")
    from asktell_adapters.cli.studies import result_of

    result = result_of(arguments.run, arguments.name)
    if arguments.plot is not None:
        save_plot(result, arguments.plot)
    if arguments.json:
        print(json.dumps(result.to_dict(), indent=1))
        return _OK
    show(result.table(shutil.get_terminal_size((97, 24)).columns))
    if arguments.plot is not None:
        show(f"Plot: {arguments.plot}")
    return _OK


def _compare(arguments: argparse.Namespace) -> int:
    from asktell_adapters.cli.gate import compared

    found = compared(arguments)
    show(json.dumps(found.to_dict(), indent=1) if arguments.json else str(found))
    return _OK


def _gate(arguments: argparse.Namespace) -> int:
    from asktell_adapters.cli.gate import gate

    try:
        with signals(), logging_to_stderr():
            code = gate(arguments)
    except (KeyboardInterrupt, Terminated):
        raise
    except BaseException as error:  # whatever it is: an exit code of 1 would say that the candidate is worse
        with contextlib.suppress(OSError, ValueError):
            if arguments.debug:
                traceback.print_exc()
            else:
                _complain(error)
        return _MISTAKE
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):  # who reads it has left; the exit code says what was found
        _drop_stdout()
    return code


def _cache(arguments: argparse.Namespace) -> int:
    from asktell_adapters.cli.answers import cache

    return cache(arguments)


def _of_studies(name: str) -> Command:
    """A command of `asktell_adapters.cli.studies`, imported when it is used."""

    def command(arguments: argparse.Namespace) -> int:
        from asktell_adapters.cli import studies as cli_studies

        return int(getattr(cli_studies, name)(arguments))

    return command


def _profile(arguments: argparse.Namespace) -> int:
    from asktell_adapters.cli.profile import profile

    return profile(arguments)


def _view(arguments: argparse.Namespace) -> int:
    from asktell_adapters.cli.view import view

    return view(arguments)


def _of_growth(name: str) -> Command:
    """A command of `asktell_adapters.cli.growth`, imported when it is used."""

    def command(arguments: argparse.Namespace) -> int:
        from asktell_adapters.cli import growth

        return int(getattr(growth, name)(arguments))

    return command


def _serve(arguments: argparse.Namespace) -> int:
    from asktell.extend import serve
    from asktell_adapters.cli.places import location

    arguments.url = str(location(arguments.url))
    with signals():
        return serve(arguments)


_COMMANDS: dict[str, Command] = {
    "init": _init,
    "check": _check,
    "run": _run,
    "improve": _improve,
    "status": _status,
    "result": _result,
    "report": _of_studies("report"),
    "view": _view,
    "compare": _compare,
    "gate": _gate,
    "cache": _cache,
    "add": _of_growth("add"),
    "retire": _of_growth("retire"),
    "extend": _of_growth("extend"),
    "pause": _of_growth("pause"),
    "resume": _of_growth("resume"),
    "batch": _of_studies("batch"),
    "profile": _profile,
    "studies": _of_studies("list_studies"),
    "watch": _of_studies("watch"),
    "export": _of_studies("export_study"),
    "import": _of_studies("import_study"),
    "serve": _serve,
}


if __name__ == "__main__":
    sys.exit(main())
