"""`asktell analyze`: the verdict on finished results. Also reads such files for `asktell gate`."""

import argparse
import contextlib
import csv
import math
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from asktell import ExampleResult, InvalidArgumentError, Result
from asktell.extend import (
    Goal,
    less_may_be_better,
    nearest,
    parse_goal,
    reports,
    some,
    write_atomically,
)
from asktell_adapters.cli.arguments import make_parser
from asktell_adapters.cli.output import note, show, show_json
from asktell_adapters.finished import (
    ONE_FILE,
    Scores,
    UnclearResultsError,
    Wanted,
    read_results,
)
from asktell_adapters.tables.spreadsheets import csv_text

if TYPE_CHECKING:
    from asktell_adapters.metrics.licence import Licensing


def analyze(arguments: argparse.Namespace) -> int:
    """`asktell analyze`: print which candidate in finished results is best. Nothing is evaluated."""
    for path in (arguments.output, arguments.examples):
        if path is not None:
            check_written(path)
    licensing = licensing_for(arguments)
    scores = read(arguments.files, arguments)
    _check_segments(scores, arguments)
    goal, why = goal_for(scores, arguments)
    scores.check_common(goal.metrics)
    baseline = (
        None
        if arguments.baseline is None
        else _candidate(scores, arguments.baseline, "--baseline")
    )
    table = scores.table(goal).in_order_of_names()
    selector = table.selector(goal, baseline, arguments.inputs)
    if licensing is not None:
        text, is_doubtful = licensing.remark(goal.metrics[0])
        selector.remark(text, topic=goal.metrics[0], doubtful=is_doubtful)
    result = selector.result()
    assignment = result.assignment() if arguments.assign else None
    if arguments.output is not None:
        reports.write(arguments.output, scores.document(selector, arguments.files))
    examples = (
        None
        if arguments.examples is None
        else _write_examples(result, arguments.examples)
    )
    remarks = [scores.overview(), *scores.remarks(), *([why] if why else [])]
    if arguments.json:
        for line in remarks:
            note(line)
        more = {} if assignment is None else {"assignment": assignment.to_dict()}
        show_json({**result.to_dict(), **more})
        return 0
    for line in remarks:
        show(line)
    show("")
    show(result.table(shutil.get_terminal_size((97, 24)).columns))
    if assignment is not None:
        show(f"\n{assignment}")
    if arguments.output is not None:
        show(f"Report: {arguments.output}")
    if examples is not None:
        show(examples)
    return 0


# The column that all readers take for the segments
_SEGMENT = "segment"


def _as_segments(column: str | None) -> dict[str, str]:
    """New names by the old ones, so that a column is the only one of segments. None: readers find it."""
    if column is None:
        return {}
    others = ("segment", "Segment", "segments", "Segments")
    return {name: f"other {name}" for name in others} | {column: _SEGMENT}


def _check_segments(scores: Scores, arguments: argparse.Namespace) -> None:
    """Check that the flags --segment-column and --assign have the segment of each example.

    Raises:
        InvalidArgumentError: an example has no segment.
    """
    column = arguments.segment_column
    if not arguments.assign and column is None:
        return
    lacking = [name for name in scores.examples if name not in scores.segments]
    if not lacking:
        return
    flag = f"--segment-column {column!r}" if column is not None else "--assign"
    if len(lacking) < len(scores.examples):
        raise InvalidArgumentError(
            f"{flag} needs the segment of each example, but {len(lacking):,} of {len(scores.examples):,} have none, "
            f"such as {lacking[0]!r}. Fill in their segments, or leave these examples out."
        )
    columns = (
        f" Columns of texts are {some(list(scores.fields))}." if scores.fields else ""
    )
    raise InvalidArgumentError(
        f"{flag} needs the segment of each example, but no column {_SEGMENT if column is None else column!r} was "
        f"read. Name a column that has one value for each example: --segment-column COLUMN.{columns}"
    )


def _write_examples(result: Result, path: Path) -> str:
    """Write what scores say of each example, as CSV with a row for each, and return a sentence on its content."""
    examples = result.examples()
    columns = [field.name for field in fields(ExampleResult)]
    rows = (
        [_cell(example.to_dict()[name]) for name in columns] for example in examples
    )
    write_atomically(path, csv_text(columns, rows))
    counts = (
        (
            sum(example.separates_nobody for example in examples),
            "without a difference between prompts",
        ),
        (sum(example.likely_mislabeled for example in examples), "probably mislabeled"),
        (sum(bool(example.near_duplicates) for example in examples), "near duplicates"),
    )
    summary = ", ".join(f"{count:,} {what}" for count, what in counts)
    return f"Examples: {path} ({result.goal.objectives[0].metric} on {len(examples):,} examples: {summary})"


def _cell(value: object) -> object:
    """A number in six digits, a flag as 0 or 1, ids in a line."""
    if isinstance(value, list):
        return "; ".join(map(str, value))
    if isinstance(value, bool):
        return int(value)
    return f"{value:.6g}" if isinstance(value, float) else value


def read(files: Sequence[Path], arguments: argparse.Namespace) -> Scores:
    """The evaluations in files, as far as flags say how to read them.

    In a terminal, a question about the files is asked, and the answer changes the flags in
    `arguments`.

    Raises:
        InvalidArgumentError: a file cannot be read.
        UnclearResultsError: several readings are plausible. The error has the command for
            each.
    """
    while True:
        try:
            return read_results(files, _wanted(arguments))
        except UnclearResultsError as error:
            flags = _asked(error)
            if flags is None:
                raise UnclearResultsError(
                    error.question, error.readings, arguments.words
                ) from error
        words = [*arguments.words, *flags]
        vars(arguments).update(vars(make_parser().parse_args(words)), words=words)


def _asked(error: UnclearResultsError) -> Sequence[str] | None:
    """The flags of the reading that the user chooses in a terminal. None without a terminal or an answer."""
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    lines = [
        error.question,
        *(
            f"{number}. {reading.words}"
            for number, reading in enumerate(error.readings, 1)
        ),
    ]
    for line in lines:
        note(line)
    choices = {
        str(number): reading.flags for number, reading in enumerate(error.readings, 1)
    }
    while True:
        note(f"Which one? Type a number from 1 to {len(choices)}, and press Enter.")
        line = sys.stdin.readline()
        if line.strip() in choices:
            return choices[line.strip()]
        if not line:
            return None


def _wanted(arguments: argparse.Namespace) -> Wanted:
    """How files are to be read, as the flags say."""
    bounds = (*arguments.at_least, *arguments.at_most, *arguments.within)
    goal = [*arguments.maximize, *arguments.minimize]
    goal += [bound.rpartition("=")[0] for bound in bounds]
    goal += [
        flag.rpartition("=")[0] for flag in (*arguments.range, *arguments.tolerance)
    ]
    segment_column = vars(arguments).get("segment_column")
    compared = (arguments.baseline, vars(arguments).get("candidate"))
    return Wanted(
        candidates=_listed(arguments.candidates),
        metrics=_listed(arguments.metrics),
        candidate_columns=_listed(arguments.candidate_column),
        example_columns=_listed(arguments.example_column),
        ignore=_listed(arguments.ignore),
        repeats=arguments.repeats,
        rename=_renames(arguments.rename) | _as_segments(segment_column),
        sheet=arguments.sheet,
        encoding=arguments.encoding,
        drop_limited=arguments.limited == "drop",
        goal=tuple(dict.fromkeys(goal)),
        compared=tuple(dict.fromkeys(name for name in compared if name)),
    )


def _listed(values: Sequence[str]) -> tuple[str, ...]:
    """The names in the values of a repeatable flag, as CSV: a name with a comma is in double quotes."""
    names = (name for value in values for name in next(csv.reader([value]), []))
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))


def _renames(values: Sequence[str]) -> dict[str, str]:
    """New names by the old ones, given as OLD=NEW."""
    renames: dict[str, str] = {}
    for value in values:
        old, equals, new = value.partition("=")
        if not (old and equals and new):
            raise InvalidArgumentError(
                f"--rename needs two names, such as --rename acc=accuracy, got {value!r}."
            )
        renames[old] = new
    return renames


def goal_for(scores: Scores, arguments: argparse.Namespace) -> tuple[Goal, str]:
    """The goal of the flags. Without flags, the only possible goal, and a sentence about it."""
    maximize, minimize = list(arguments.maximize), list(arguments.minimize)
    at_least = _bounds(arguments.at_least, "--at-least")
    at_most = _bounds(arguments.at_most, "--at-most")
    _add_relative(arguments, at_least, at_most)
    metrics, why = scores.metrics, ""
    if not maximize and not minimize:
        free = [
            name for name in metrics if name not in at_least and name not in at_most
        ]
        if len(free) != 1 or less_may_be_better(free[0]):
            if_columns = (
                " If the columns are candidates, name them with --candidates A,B."
                if scores.of_candidates == ONE_FILE
                else ""
            )
            raise InvalidArgumentError(
                f"{scores.overview()} No metric to optimize is given. Choose one by --maximize METRIC or --minimize "
                f"METRIC, for example {_suggested(metrics)}. The metrics are {some(metrics)}. To bound another metric, "
                f"add --at-least METRIC=X or --at-most METRIC=X.{if_columns}"
            )
        maximize = free
        why = (
            f"Larger values of {free[0]} count as better. If smaller ones are better, pass --minimize "
            f"{shlex.quote(free[0])}."
        )
    ranges = _numbers(
        arguments.range,
        "--range",
        "a metric and its lowest and highest possible score, such as --range accuracy=0:1",
    )
    stated = _numbers(
        arguments.tolerance,
        "--tolerance",
        "a metric and a number, such as --tolerance accuracy=0.01",
    )
    tolerances = {name: tolerance for name, (tolerance,) in stated.items()}
    for name in (*maximize, *minimize, *at_least, *at_most, *ranges, *tolerances):
        if name not in metrics:
            raise InvalidArgumentError(
                f"There is no metric {name!r}{nearest(name, metrics)}. Choose one of {some(metrics)}."
            )
    kind = "pareto-set" if len(maximize) + len(minimize) > 1 else "best-feasible"
    goal = parse_goal(
        kind, maximize, minimize, at_least, at_most, ranges, tolerances=tolerances
    )
    return goal, why


def licensing_for(arguments: argparse.Namespace) -> "Licensing | None":
    """The licence that the flags demand. None if they demand none.

    Raises:
        InvalidArgumentError: the file is no licence, or the floor is invalid.
    """
    if arguments.licence is None and arguments.floor is None:
        return None
    # Here, since few commands need the metrics
    from asktell_adapters.metrics.licence import Licensing

    return Licensing.of_file(arguments.licence, arguments.floor)


def _suggested(metrics: Sequence[str]) -> str:
    """Example flags for a goal, with one of the metrics."""
    good = [name for name in metrics if not less_may_be_better(name)]
    if good:
        return f"--maximize {shlex.quote(good[0])}"
    return f"--minimize {shlex.quote(metrics[0])}"


def _add_relative(
    arguments: argparse.Namespace,
    at_least: dict[str, float | str],
    at_most: dict[str, float | str],
) -> None:
    """Add the constraints of --within to the bounds, as texts, in the direction of the metric."""
    for flag in arguments.within:
        name, equals, text = flag.partition("=")
        margin = text if " of " in text else f"{text} of best"
        if not equals or not name:
            raise InvalidArgumentError(
                f"--within needs a metric and a margin, such as --within accuracy=0.02 or --within 'accuracy=0.02 of "
                f"baseline', got {flag!r}."
            )
        if name in at_least or name in at_most:
            raise InvalidArgumentError(
                f"The flags bound {name!r} twice. Keep one of the bounds."
            )
        if (
            name not in arguments.maximize
            and name not in arguments.minimize
            and less_may_be_better(name)
        ):
            raise InvalidArgumentError(
                f"--within {flag!r} does not say whether less or more {name!r} is better. If less is better, use "
                f"--at-most '{name}=within {margin}'. If more is better, use --at-least '{name}=within {margin}'."
            )
        (at_most if name in arguments.minimize else at_least)[name] = f"within {margin}"


def _numbers(
    flag_values: Sequence[str], flag: str, example: str
) -> dict[str, tuple[float, ...]]:
    """Numbers given as METRIC=X, or as METRIC=X:Y, by metric. `example`: what the flag needs, and an example of it."""
    by_metric: dict[str, tuple[float, ...]] = {}
    for flag_value in flag_values:
        name, _, text = flag_value.rpartition("=")
        numbers: tuple[float, ...] = ()
        with contextlib.suppress(ValueError):
            numbers = tuple(map(float, text.split(":")))
        if not name or len(numbers) != 1 + example.count(":"):
            raise InvalidArgumentError(f"{flag} needs {example}, got {flag_value!r}.")
        if name in by_metric:
            raise InvalidArgumentError(
                f"{flag} has {name!r} twice. Keep one of the two."
            )
        by_metric[name] = numbers
    return by_metric


def _bounds(flag_values: Sequence[str], flag: str) -> dict[str, float | str]:
    """Bounds given as METRIC=X, by metric. X is a number, or a text such as `within 0.02 of best`."""
    bounds: dict[str, float | str] = {}
    for flag_value in flag_values:
        name, equals, text = flag_value.rpartition("=")
        if name and text.strip().startswith("within") and name not in bounds:
            bounds[name] = text  # which the goal reads
            continue
        try:
            bound = float(text)
        except ValueError:
            bound = math.nan
        if not equals or not name or not math.isfinite(bound):
            raise InvalidArgumentError(
                f"{flag} needs a metric and a number, such as {flag} cost=2, got {flag_value!r}."
            )
        if name in bounds:
            raise InvalidArgumentError(
                f"{flag} bounds {name!r} twice. Keep one of the bounds."
            )
        bounds[name] = bound
    return bounds


def _candidate(scores: Scores, name: str, flag: str) -> str:
    """Check that a candidate exists, and return its name.

    Raises:
        InvalidArgumentError: there is no such candidate.
    """
    names = list(scores.by_name)
    if name not in names:
        raise InvalidArgumentError(
            f"There is no candidate {name!r}{nearest(name, names)}. Give {flag} one of {some(names)}."
        )
    return name


def check_written(path: Path) -> None:
    """Refuse a path at which no file can be written."""
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise InvalidArgumentError(
            f"{str(path)!r} cannot be written. Give a file in a folder that exists."
        )
