"""`asktell gate` and `asktell compare`: compare two prompts, such as a new prompt with the prompt in use."""

import argparse
import contextlib
import math
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from asktell import AsktellError, EvaluatorError, InvalidArgumentError, PromptResult
from asktell.extend import besides_definition, in_words, some, write_atomically
from asktell_adapters.cli.analyze import goal_for, licensing_for, read
from asktell_adapters.cli.arguments import OF_RESULTS
from asktell_adapters.cli.folder import RunFolder
from asktell_adapters.cli.output import note, show, show_json, written
from asktell_adapters.cli.process import logging_to_stderr, signals

if TYPE_CHECKING:  # it needs the extra `config`, which files of results do not need
    from asktell_adapters.config import Config
    from asktell_adapters.gating import Ruling


@signals()
@logging_to_stderr()
def gate(arguments: argparse.Namespace) -> int:
    """`asktell gate`: compare a candidate with the baseline, and return the exit code of the verdict."""
    files = _check_flags(arguments)
    is_configured = arguments.config.suffix.lower() == ".toml"
    decide = (_configured if is_configured else _finished)(arguments)
    for path in files:
        # Written by an earlier gate, with a verdict that may differ from this one
        if path.is_file():
            path.unlink()
    try:
        ruling = decide()
    except AsktellError:
        raise
    except Exception as error:  # the exit code 1 would mean that the candidate is worse
        raise EvaluatorError(
            "asktell gate stopped before its verdict. Remove the cause, and repeat the command. The error was "
            + in_words(error).removesuffix(": ")
        ) from error
    if arguments.report is not None and written(
        arguments.report, partial(ruling.write_page, arguments.report)
    ):
        beside = (arguments.summary or arguments.report).parent
        link = Path(os.path.relpath(arguments.report, beside))
        ruling = replace(ruling, report=link)
    # Without a reader, the exit code is enough
    with contextlib.suppress(OSError, ValueError):
        for line in ruling.lines():
            show(line)
    for path, text in (
        (arguments.summary, ruling.markdown),
        (arguments.junit, ruling.junit),
    ):
        if path is not None:
            written(path, partial(write_atomically, path, text()))
    return ruling.exit_code


def _check_flags(arguments: argparse.Namespace) -> list[Path]:
    """Check the numbers and the files to write. Return these files."""
    if not 0 < arguments.confidence < 1:
        raise InvalidArgumentError(
            f"--confidence must be a number above 0 and below 1, got {arguments.confidence}."
        )
    if arguments.margin is not None and not 0 <= arguments.margin < math.inf:
        raise InvalidArgumentError(
            f"--margin must be a number of at least 0, got {arguments.margin}."
        )
    if not 0 <= arguments.differ <= 1:
        raise InvalidArgumentError(
            f"--differ must be a number from 0 to 1, got {arguments.differ}."
        )
    flags = arguments.summary, arguments.junit, arguments.report
    files = [path for path in flags if path is not None]
    for path in files:
        if path.is_dir() or not path.resolve().parent.is_dir():
            raise InvalidArgumentError(
                f"{str(path)!r} cannot be written. Give a file in a folder that exists."
            )
    return files


def _configured(arguments: argparse.Namespace) -> "Callable[[], Ruling]":
    """Read the configuration of a gate, and check its flags. The function that is returned decides."""
    if arguments.more:
        raise InvalidArgumentError(
            f"The configuration {arguments.config.name} cannot be combined with other files, got "
            f"{some(list(map(str, arguments.more)))}. Give either the configuration alone, or only files of results."
        )
    of_results = [
        flag
        for flag, default in OF_RESULTS.items()
        if getattr(arguments, flag) != default
    ]
    if of_results:
        names = ", ".join(f"--{flag.replace('_', '-')}" for flag in of_results)
        raise InvalidArgumentError(
            f"{names} can be used with files of results only, but {arguments.config.name} is a configuration. Remove "
            f"{names}. A configuration has its goal in [goal], and its data in [data]."
        )
    from asktell_adapters.cli.work import confirm
    from asktell_adapters.config import load_config
    from asktell_adapters.gating.configured import ConfiguredGate

    config = load_config(arguments.config, baseline=arguments.baseline)
    gate = ConfiguredGate(
        config, arguments.candidate, arguments.baseline, arguments.margin, arguments.confidence, arguments.recheck,
        _added(config), "--",
    )  # fmt: skip

    def decide() -> "Ruling":
        # The user is asked about the price of the whole budget, including the rechecks.
        confirm(config, gate.whole, gate.evaluator, arguments.yes)
        note(gate.beforehand(arguments.differ))
        return gate.decide(not arguments.no_progress and sys.stderr.isatty())

    return decide


def _finished(arguments: argparse.Namespace) -> "Callable[[], Ruling]":
    """Read files of results, and check the flags. The function that is returned decides."""
    from asktell_adapters.gating.finished import FinishedGate

    files = [arguments.config, *arguments.more]
    licensing = licensing_for(arguments)
    scores = read(files, arguments)
    goal, why = goal_for(scores, arguments)
    gate = FinishedGate(
        scores, goal, arguments.candidate, arguments.baseline, arguments.margin, arguments.confidence,
        arguments.inputs or "given", "--", licensing,
    )  # fmt: skip
    notes = [why] if why else []
    if arguments.recheck:
        notes.append(
            "--recheck has no effect with files of results, since nothing is evaluated."
        )
    return partial(gate.decide, files, notes)


def _added(config: "Config") -> dict[str, PromptResult]:
    """The prompts that `asktell add` added to the run of the configuration, by id."""
    folder = RunFolder(config.output)
    if folder.study_name is None or config.selector.prompts.candidates is not None:
        return {}
    with folder.open_study() as study:
        joined = {
            str(study.selector.prompts.ids[arm])
            for arm in besides_definition(study.selector.state)
        }
        return {
            str(entry.id): entry
            for entry in study.result().prompts
            if str(entry.id) in joined
        }


def compare(arguments: argparse.Namespace) -> int:
    """`asktell compare`: compare prompts of a run, or of a study, whose name then comes first."""
    from asktell_adapters.cli.places import needs_name
    from asktell_adapters.cli.studies import result_of

    names = list(arguments.prompts)
    study = names.pop(0) if needs_name(arguments.run) else None
    if not 1 <= len(names) <= 2:
        raise InvalidArgumentError(
            f"asktell compare needs the ids of one or two prompts, got {len(names)}. Write `asktell compare RUN A "
            "[B]`, or `asktell compare URL NAME A [B]`, where NAME is the name of a study."
        )
    a, b = names[0], [*names, None][1]
    comparison = result_of(arguments.run, study).compare(
        a, b, arguments.confidence, arguments.tolerance
    )
    if arguments.json:
        show_json(comparison.to_dict())
    else:
        show(str(comparison))
    return 0
