"""`asktell run | status | result`: a selection described in a file, run from the command line.

The engine knows no adapter; what a configuration names is loaded here, by name and late.
"""

import argparse
import contextlib
import json
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from asktell.errors import AsktellError, FolderBusyError, InvalidArgumentError, InvalidStateError, MissingExtraError
from asktell.goals import BestFeasible
from asktell.recorder import AsyncRecorder, BatchRecorder, Recorder, StopRun
from asktell.result import PromptResult, Result
from asktell.run import run
from asktell.run_folder import RunFolder
from asktell.selector import Selector

if TYPE_CHECKING:
    from asktell_adapters.config import Config

_OK, _FAILED, _MISTAKE, _INTERRUPTED, _TERMINATED = 0, 1, 2, 130, 143
_PICTURES = (".png", ".svg", ".pdf")

_EXAMPLE = """\
example: a file summarize.toml

  output = "runs/summarize"
  budget = 60

  [prompts]
  file = "prompts.txt"              # a prompt a line

  [data]
  file = "papers.jsonl"             # {"text": ..., "summary": ...} a line
  input = "text"
  reference = "summary"

  [model]
  type = "llama-cpp"                # or huggingface, or openai
  model = "smollm2"                 # or the path of a GGUF file
  max_new_tokens = 60

  [metrics]
  rouge = true
  brevity = { low = 20, high = 60 }

  [goal]
  maximize = "rouge"
  at_least = { brevity = 0.5 }

and then

  asktell run summarize.toml        # Ctrl-C stops it; the same command goes on
  asktell status summarize.toml
  asktell result summarize.toml --plot result.png
"""


class _Terminated(BaseException):
    """SIGTERM came."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done; 1: it could not be finished; 2: a mistake in the command or in a file; 130 and 143: Ctrl-C and SIGTERM.
    """
    arguments = _parser().parse_args(argv)
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
    mistake = isinstance(error, AsktellError) and not isinstance(error, FolderBusyError)
    if isinstance(error, AsktellError):
        text = str(error)
    elif isinstance(error, OSError):
        text = f"{error.strerror or error}: {str(error.filename)!r}" if error.filename else str(error)
    else:
        text = f"{type(error).__name__}: {error} (--debug shows where)"
    print(f"asktell: {_safe(' '.join(text.split()))}", file=sys.stderr)
    return _FAILED if (running and not isinstance(error, MissingExtraError)) or not mistake else _MISTAKE


def _parser() -> argparse.ArgumentParser:
    def formatter(prog: str) -> argparse.HelpFormatter:
        return argparse.RawDescriptionHelpFormatter(prog, max_help_position=28)

    parser = argparse.ArgumentParser(
        prog="asktell",
        description="Picks the best prompts for an LLM with the fewest evaluations.",
        epilog=_EXAMPLE,
        formatter_class=formatter,
    )
    parser.add_argument("--version", action="version", version=f"asktell {version('asktell')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")

    def add(name: str, command: Any, help_: str, description: str, epilog: str) -> argparse.ArgumentParser:
        made = commands.add_parser(
            name, help=help_, description=description, epilog=epilog, parents=[common], formatter_class=formatter
        )
        made.set_defaults(command=command)
        return made

    add_run = add(
        "run",
        _run,
        "run a selection, or go on with it",
        "Evaluate prompts as CONFIG says until the budget is spent, and print the best.\n"
        "Everything is kept in the output folder. After Ctrl-C or a crash the same command goes on:\n"
        "no evaluation that was finished is made again. A finished run prints its result at once.",
        _EXAMPLE,
    )
    add_run.add_argument("config", metavar="CONFIG.toml", type=Path, help="the run's description")
    add_run.add_argument(
        "--fresh", action="store_true", help="start anew; the old output folder is kept under another name"
    )
    add_run.add_argument(
        "--keep-going", action="store_true", help="do not stop when many evaluations in a row fail: count them"
    )
    add_run.add_argument("--no-progress", action="store_true", help="no progress bar (none is shown in a file anyway)")

    add_status = add(
        "status",
        _status,
        "how far a run is",
        "Evaluations done, prompts still active, failures, and the best so far. Works while the run goes on.",
        "example: asktell status summarize.toml",
    )
    add_result = add(
        "result",
        _result,
        "all prompts, ranked",
        "Every prompt with its estimates (mean +- standard error), the selected ones first. Works while the run goes\n"
        "on, too.",
        "example: asktell result runs/summarize --plot result.png",
    )
    add_result.add_argument("--json", action="store_true", help="print JSON instead of the table")
    add_result.add_argument(
        "--plot", metavar="FILE", type=Path, help=f"draw the result into a file: {', '.join(_PICTURES)}"
    )
    for made in (add_status, add_result):
        made.add_argument("run", metavar="CONFIG_OR_FOLDER", type=Path, help="the run's TOML file or output folder")
    return parser


# run


def _run(arguments: argparse.Namespace) -> int:
    from asktell_adapters.config import load_config

    config = load_config(arguments.config)
    folder = RunFolder(config.output)
    evaluator = None
    if arguments.fresh or not folder.used:
        evaluator = config.evaluator()  # before a folder is made or set aside: the last place for a mistake
    if arguments.fresh and folder.used:
        with folder.locked():
            print(f"The old run is now in {_safe(str(folder.set_aside()))}", file=sys.stderr)
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
    _print(str(result))
    _print(f"Files: {folder.path}")
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

            tqdm.write(_safe(record.getMessage()), file=sys.stderr)

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


def _status(arguments: argparse.Namespace) -> int:
    folder = _folder(arguments.run)
    runner = folder.runner
    selector, _ = folder.load()
    result = selector.result()
    failures = sum(entry.failures for entry in result.prompts)
    doing = "finished" if selector.done else f"running (process {runner})" if runner else "stopped"
    rows = [
        ("run", f"{folder.path}: {doing}"),
        ("goal", str(result.goal)),
        ("evaluations", f"{result.spent} of {result.budget} ({result.spent / result.budget:.0%})"),
        ("prompts", f"{len(result.prompts)}, {selector.n_active} active"),
        ("failures", str(failures)),
    ]
    if result.cost:
        rows.append(("cost", f"{result.cost:.4g}"))
    newest = max(file.stat().st_mtime for file in (folder.state_file, folder.log_file) if file.exists())
    if not selector.done:
        rows.append(("last change", f"{max(0.0, time.time() - newest):.0f} s ago"))
    for name, text in rows:
        _print(f"{name:<12} {text}")
    if result.selected:
        label = "result" if selector.done else "best so far"
        for entry in result.selected[:10]:
            cells = ", ".join(f"{name} {_cell(entry, name)}" for name in result.goal.metrics)
            infeasible = ", infeasible" if entry.feasible is False else ""
            _print(f"{label:<12} {entry.id}: {cells}{infeasible}")
            _print(f"{'':<12} {_cut(entry.prompt, 100)}")
            label = ""
        if len(result.selected) > 10:
            _print(f"{'':<12} ... and {len(result.selected) - 10} more")
    return _OK


def _result(arguments: argparse.Namespace) -> int:
    if arguments.plot is not None and arguments.plot.suffix.lower() not in _PICTURES:
        raise InvalidArgumentError(f"--plot needs a file that ends in {', '.join(_PICTURES)}; got {arguments.plot}.")
    selector, _ = _folder(arguments.run).load()
    result = selector.result()
    if arguments.plot is not None:
        _plot(result, arguments.plot)
    if arguments.json:
        print(json.dumps(result.to_dict(), indent=1))
        return _OK
    for line in _report(result):
        _print(line)
    if arguments.plot is not None:
        _print(f"Plot: {arguments.plot}")
    return _OK


def _plot(result: Result, path: Path) -> None:
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError(f"{error}. Run: pip install 'asktell[plot]'") from error
    matplotlib.use("Agg")
    axes = result.plot()
    figure: Any = axes.figure
    figure.savefig(path, dpi=150)


def _report(result: Result) -> Iterator[str]:
    """The table of all prompts, and what is to be said about it."""
    metrics = result.goal.metrics
    state = "final" if result.done else "so far"
    yield f"{result.goal} ({state}, {result.spent} of {result.budget} evaluations)"
    if result.feasible is False:
        yield "No prompt keeps every constraint; the selected one violates them least."
    chosen = {entry.id for entry in result.selected}
    open_ = {entry.id for entry in result.unresolved}
    rows = [["", "id", *metrics, "pulls", "status", "prompt"]]
    for entry in _ranked(result):
        mark = "*" if entry.id in chosen else "?" if entry.id in open_ else ""
        status = entry.status if entry.round is None else f"{entry.status}, round {entry.round}"
        if entry.feasible is False:
            status += ", infeasible"
        cells = [_cell(entry, name) for name in metrics]
        rows.append([mark, _safe(str(entry.id)), *cells, str(entry.pulls), status, entry.prompt])
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]) - 1)]
    room = max(30, shutil.get_terminal_size((140, 24)).columns - sum(widths) - 2 * len(widths))
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield "  ".join([*cells, _cut(row[-1], room)]).rstrip()
    yield "*: selected" + ("; ?: could not be told apart from the selected ones" if open_ - chosen else "")
    for entry in result.prompts:
        if entry.status == "failed":
            yield f"{entry.id} {_cut(entry.reason or '', 200)}"
    if result.cost:
        yield f"Cost: {result.cost:.4g}"


def _ranked(result: Result) -> list[PromptResult]:
    """The selected ones first, then by the goal: feasible ones by the objective, then by how little they violate."""
    import numpy as np

    goal, metrics = result.goal, result.goal.metrics
    place = {entry.id: i for i, entry in enumerate(result.selected)}

    def key(entry: PromptResult) -> tuple[float, ...]:
        first = float(place.get(entry.id, len(place)))
        means = [entry.estimate[name] for name in metrics]
        if any(mean is None for mean in means):
            return (first, 2.0, 0.0)
        values = goal.values(np.array([means], dtype=float))[0]
        if not isinstance(goal, BestFeasible):
            return (first, 0.0, -float(values.mean()))
        violation = -float(np.minimum(values[1:], 0.0).sum())
        return (first, 1.0, violation) if violation > 0 else (first, 0.0, -float(values[0]))

    return sorted(result.prompts, key=key)


def _cell(entry: PromptResult, metric: str) -> str:
    mean, error = entry.estimate[metric], entry.standard_error[metric]
    if mean is None:
        return "-"
    return f"{mean:.4g}" if error is None else f"{mean:.4g} +- {error:.2g}"


def _cut(text: str, width: int) -> str:
    """In one line."""
    flat = _safe(" ".join(text[: 4 * width].split()))
    return flat if len(flat) <= width else flat[: width - 3] + "..."


def _safe(text: str) -> str:
    """With everything escaped that could steer a terminal: a prompt may hold anything."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text)


def _print(text: str) -> None:
    for line in text.split("\n"):
        print(_safe(line))


if __name__ == "__main__":
    sys.exit(main())
