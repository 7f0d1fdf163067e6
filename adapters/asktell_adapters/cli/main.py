"""`asktell`: a selection described in a file and run from the command line, and what there is to see of it.

The engine knows no adapter; what a configuration names is loaded here, by name and late.
"""

import argparse
import contextlib
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from asktell.errors import (
    AsktellError,
    FolderBusyError,
    InvalidArgumentError,
    InvalidStateError,
    MissingExtraError,
    StorageError,
)
from asktell.running.run import run
from asktell.selector import Selector
from asktell.terminal import safe
from asktell_adapters.cli.arguments import PICTURES, Command, make_parser
from asktell_adapters.cli.output import overview, report, save_plot, show
from asktell_adapters.cli.recorder import AsyncRecorder, BatchRecorder, Recorder, StopRun
from asktell_adapters.cli.run_folder import RunFolder

if TYPE_CHECKING:
    from asktell_adapters.config import Config

_OK, _FAILED, _MISTAKE, _INTERRUPTED, _TERMINATED = 0, 1, 2, 130, 143


class _Terminated(BaseException):
    """SIGTERM came."""


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
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader has left, as `head` does. What Python flushes at its end goes nowhere.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED
    except _Terminated:
        return _TERMINATED
    except (Exception, StopRun) as error:
        if arguments.debug:
            raise
        return _complain(error.error if isinstance(error, StopRun) else error, running=isinstance(error, StopRun))


def _complain(error: BaseException, running: bool) -> int:
    """One line on stderr, and the exit code."""
    mistake = isinstance(error, AsktellError) and not isinstance(error, FolderBusyError | StorageError)
    if isinstance(error, AsktellError):
        text = str(error)
    elif isinstance(error, OSError):
        text = f"{error.strerror or error}: {str(error.filename)!r}" if error.filename else str(error)
    else:
        text = f"{type(error).__name__}: {error} (--debug shows where)"
    print(f"asktell: {safe(' '.join(text.split()))}", file=sys.stderr)
    return _FAILED if (running and not isinstance(error, MissingExtraError)) or not mistake else _MISTAKE


# run


def _run(arguments: argparse.Namespace) -> int:
    from asktell_adapters.config import load_config

    config = load_config(arguments.config)
    if arguments.study is not None:
        return _run_study(config, arguments)
    folder = RunFolder(config.output)
    evaluator = None
    if arguments.fresh or not folder.used:
        evaluator = config.evaluator()  # before a folder is made or set aside: the last place for a mistake
    if arguments.fresh and folder.used:
        with folder.locked():
            print(f"The old run is now in {safe(str(folder.set_aside()))}", file=sys.stderr)
    with folder.locked():
        saved = folder.read_setup()
        if saved is None and folder.used:
            raise InvalidStateError(
                f"{str(folder.path)!r} holds a run without {folder.setup_file.name}, so that it cannot be told whether "
                "it is this one. Choose another `output`, or start anew with --fresh."
            )
        if saved is not None:
            _same(config, saved, folder)
        selector, known = folder.load(config.selector)
        if selector.done:
            with folder.appending():  # it may have been killed between the last evaluation and its end
                folder.save(selector)
        else:
            evaluator = evaluator or config.evaluator()
            if saved is None:
                folder.write_setup(config.setup)
            elif selector.spent:
                print(f"Going on after {selector.spent} of {selector.budget} evaluations.", file=sys.stderr)
            _drive(arguments, config, folder, selector, evaluator, known)
        result = selector.result()
        folder.write_result(result)
    show(str(result))
    show(f"Files: {folder.path}")
    return _OK


def _run_study(config: "Config", arguments: argparse.Namespace) -> int:
    from asktell_adapters.cli.studies import run_study

    if arguments.fresh:
        raise InvalidArgumentError("--fresh goes with an output folder. A study has a name: give another --name.")
    with _signals(), _logging():
        show(str(run_study(config, arguments)))
    return _OK


def _same(config: "Config", saved: dict[str, Any], folder: RunFolder) -> None:
    from asktell_adapters.config import differences

    if found := differences(saved, config.setup):
        if saved.get("prompts") != config.setup["prompts"] and folder.state_file.exists():
            found = [item for item in found if not item.startswith("prompts ")]
            found.append(_changed_prompts(folder.load()[0], config.selector))
        raise InvalidArgumentError(
            f"{config.path.name}: the run in {str(folder.path)!r} was started with another set-up: {'; '.join(found)}. "
            "Undo the change to go on with it, give another `output`, or start anew with --fresh (the old folder is "
            "kept)."
        )


def _changed_prompts(saved: Selector, now: Selector) -> str:
    """Which prompts are not the same, in words."""
    before, after = ({entry.id: entry.prompt for entry in s.result().prompts} for s in (saved, now))
    changed = [id_ for id_ in {**before, **after} if before.get(id_) != after.get(id_)]
    shown = ", ".join(repr(id_) for id_ in changed[:5]) + (", ..." if len(changed) > 5 else "")
    return f"prompts ({len(changed)} changed, added or dropped: {shown})"


def _drive(
    arguments: argparse.Namespace, config: "Config", folder: RunFolder, selector: Selector, evaluator: Any, known: Any
) -> None:
    """Evaluate to the end, keeping everything on disk."""
    batches = callable(getattr(evaluator, "evaluate_batch", None))
    with folder.appending() as handle, _signals(), _logging():
        folder.save(selector)
        recorder: Recorder = (BatchRecorder if batches else AsyncRecorder)(
            folder,
            selector,
            evaluator,
            handle,
            known=known,
            names=config.names,
            n_out=config.concurrency,
            keep_going=arguments.keep_going,
        )
        if isinstance(recorder, BatchRecorder):
            recorder.size = config.batch_size
        progress = not arguments.no_progress and sys.stderr.isatty()
        try:
            run(selector, recorder, concurrency=config.concurrency, progress=progress, on_tell=recorder.on_tell)
            recorder.finish(selector)
        except BaseException as error:
            with contextlib.suppress(Exception):  # the first error is the one to show; the evaluations are on disk
                selector = recorder.interrupt()
            if isinstance(error, KeyboardInterrupt | _Terminated):
                done = f"{selector.spent} of {selector.budget} evaluations"
                print(f"\nStopped after {done}. The same command goes on.", file=sys.stderr)
            raise


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """SIGTERM ends the run as Ctrl-C does: with everything saved."""

    def terminate(number: int, frame: FrameType | None) -> None:
        raise _Terminated

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
def _logging() -> Iterator[None]:
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


# status and result


def _folder(path: Path) -> RunFolder:
    """The folder of a run that is named by itself or by its configuration."""
    if path.is_dir():
        folder = RunFolder(path)
    else:
        from asktell_adapters.config import output_folder

        folder = RunFolder(output_folder(path))
    if not folder.state_file.exists():
        raise InvalidStateError(f"There is no run in {str(folder.path)!r} yet. Start it: asktell run CONFIG.toml")
    return folder


def _is_study(arguments: argparse.Namespace) -> bool:
    """Whether what is to be looked at is a study, and no run of this command line's own."""
    if arguments.name is None and ("://" in arguments.run or _is_database(Path(arguments.run))):
        raise InvalidArgumentError("Which study? Give its name after the URL; `asktell studies URL` lists them.")
    return arguments.name is not None


def _is_database(path: Path) -> bool:
    """Whether it is a file of SQLite's."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


def _status(arguments: argparse.Namespace) -> int:
    if _is_study(arguments):
        from asktell_adapters.cli.studies import status

        return status(arguments.run, arguments.name)
    folder = _folder(Path(arguments.run))
    runner = folder.runner
    selector, _ = folder.load()
    doing = "finished" if selector.done else f"running (process {runner})" if runner else "stopped"
    newest = max(file.stat().st_mtime for file in (folder.state_file, folder.log_file) if file.exists())
    for line in overview(selector.result(), f"{folder.path}: {doing}", selector.n_active, time.time() - newest):
        show(line)
    return _OK


def _result(arguments: argparse.Namespace) -> int:
    if arguments.plot is not None and arguments.plot.suffix.lower() not in PICTURES:
        raise InvalidArgumentError(f"--plot needs a file that ends in {', '.join(PICTURES)}; got {arguments.plot}.")
    if _is_study(arguments):
        from asktell_adapters.cli.studies import result_of

        result = result_of(arguments.run, arguments.name)
    else:
        result = _folder(Path(arguments.run)).load()[0].result()
    if arguments.plot is not None:
        save_plot(result, arguments.plot)
    if arguments.json:
        print(json.dumps(result.to_dict(), indent=1))
        return _OK
    for line in report(result):
        show(line)
    if arguments.plot is not None:
        show(f"Plot: {arguments.plot}")
    return _OK


def _compare(arguments: argparse.Namespace) -> int:
    from asktell_adapters.cli.gate import compared

    names = list(arguments.prompts)
    run = arguments.run
    if "://" in run or _is_database(Path(run)):
        found = compared(arguments, names, study=names.pop(0))
    else:
        found = compared(arguments, names, result=_folder(Path(run)).load()[0].result())
    show(json.dumps(found.to_dict(), indent=1) if arguments.json else str(found))
    return _OK


def _gate(arguments: argparse.Namespace) -> int:
    from asktell_adapters.cli.gate import gate

    with _signals(), _logging():
        return gate(arguments)


# studies and serve


def _of_studies(name: str) -> Command:
    """A command of `asktell_adapters.cli.studies`, imported when it is used."""

    def command(arguments: argparse.Namespace) -> int:
        from asktell_adapters.cli import studies as cli_studies

        return int(getattr(cli_studies, name)(arguments))

    return command


def _serve(arguments: argparse.Namespace) -> int:
    from asktell.service.server import serve

    with _signals():
        return serve(arguments)


_COMMANDS: dict[str, Command] = {
    "run": _run,
    "status": _status,
    "result": _result,
    "compare": _compare,
    "gate": _gate,
    "batch": _of_studies("batch"),
    "studies": _of_studies("list_studies"),
    "watch": _of_studies("watch"),
    "export": _of_studies("export_study"),
    "import": _of_studies("import_study"),
    "serve": _serve,
}


if __name__ == "__main__":
    sys.exit(main())
