"""`asktell run` and `improve`: evaluate until a study is done, in a folder or at a URL, alone or with others."""

import argparse
import contextlib
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import asktell
from asktell import (
    EvaluatorError,
    InvalidArgumentError,
    Result,
    Selector,
    StorageError,
    Study,
)
from asktell.extend import besides_definition, changes, describe_spending
from asktell_adapters.cli.folder import RunFolder
from asktell_adapters.cli.output import note, say_braces, show, show_json
from asktell_adapters.cli.places import AnyStudy, create_study, open_study, say_cached
from asktell_adapters.cli.process import logging_to_stderr, signals
from asktell_adapters.config import (
    Config,
    changed_rows,
    differences,
    only_more_rows,
)
from asktell_adapters.estimate import (
    Estimate,
    HarnessEstimate,
    Selection,
    estimate,
    estimate_harness,
)
from asktell_adapters.evaluators.timed import timed
from asktell_adapters.optimizers.improving import Improvement, improve
from asktell_adapters.tracking.core import Tracker

Ending: TypeAlias = Result | Improvement

_MAIN = "main"
"""The worker that holds the folder. It has a fixed name, so that it resumes its own trials after a kill."""


@signals()
def run_config(
    config: Config, arguments: argparse.Namespace, estimate: int | None = None
) -> None:
    """Run a configuration in its folder, at a URL, or beside the process that started it."""
    if arguments.study is not None or not RunFolder(config.output).used:
        say_braces(config)
    if estimate is not None:
        say_estimate(config, arguments)
        return
    if arguments.study is not None:
        if arguments.fresh or arguments.join:
            raise InvalidArgumentError(
                "--fresh and --join cannot be combined with --study. To start over, give another --name. To add "
                "another worker, run the same command in another terminal, without --join."
            )
        with _study_at_url(
            config, arguments.study, arguments.name or config.path.stem
        ) as study:
            outcome = _work(study, config, arguments)
            _show(outcome, config, arguments)
            if config.cache is not None:
                say_cached(study)
        _check_measured(outcome, "with another --name")
        return
    folder = RunFolder(config.output)
    outcome = (_join if arguments.join else _start)(config, arguments, folder)
    _show(outcome, config, arguments)
    if not (config.improving is not None and arguments.json):
        if config.cache is not None:
            with folder.open_study() as study:
                say_cached(study)
        show(f"Files: {folder.path}")
    _check_measured(outcome, "with --fresh")


def _show(outcome: Ending, config: Config, arguments: argparse.Namespace) -> None:
    """Print the outcome of a run."""
    result = outcome.result if isinstance(outcome, Improvement) else outcome
    if isinstance(outcome, Improvement) and arguments.json:
        show_json(outcome.to_dict())
        return
    show(str(outcome))
    if config.is_priced and result.max_cost is None and not result.spent_cost:
        show("Cost: 0, according to the tokens that the model reported.")


def _check_measured(outcome: Ending, again: str) -> None:
    """Refuse a run without a single score, so that a script does not take it for a success.

    `again`: how the command starts over.

    Raises:
        EvaluatorError: evaluations failed, and none gave a score.
    """
    result = outcome.result if isinstance(outcome, Improvement) else outcome
    if result.failures and all(entry.evaluations == 0 for entry in result.prompts):
        raise EvaluatorError(
            "Nothing was measured, because every evaluation failed. Remove the cause of the failures, and repeat the "
            f"command {again}. The most common error was {result.failures[0].reason}"
        )


def _study_at_url(config: Config, url: str, name: str) -> AnyStudy:
    """The study at a URL. It is created if it is missing, or extended by the additions of the configuration."""
    try:
        study = create_study(url, name, config.selector)
    except asktell.StudyExistsError as error:
        with open_study(url, name) as study:
            then = study.example_ids
        if then and (rows := changed_rows(then, config.dataset)):
            raise _other_examples(name, rows) from error
        raise
    # The study has got the additions of this file, but this file may lack those of another
    if (then := study.example_ids) and (rows := changed_rows(then, config.dataset)):
        study.close()
        raise _other_examples(name, rows)
    return study


def _other_examples(name: str, rows: str) -> asktell.StudyExistsError:
    """Return the error that this file has other examples than a study, so that it cannot evaluate all trials."""
    return asktell.StudyExistsError(
        f"The examples have changed since the study {name!r} was created: {rows}. Undo the change, or choose another "
        "--name."
    )


def _start(config: Config, arguments: argparse.Namespace, folder: RunFolder) -> Ending:
    """Start or resume the run, as the one process that holds this folder."""
    evaluator = None
    if arguments.fresh or not folder.used:
        # Before a folder is made or set aside: the last place for a mistake.
        evaluator = config.driven()
    if arguments.fresh and folder.used:
        with folder.locked():
            note(f"The old run is now in {folder.set_aside()}")
    with folder.locked():
        check_same(config, folder.read_setup(), folder)
        if folder.study_name is None:
            folder.write_setup(config.setup, config.dataset)
            folder.make_study(config.path.stem, config.selector)
        with folder.open_study() as study:
            if study.spent and not study.done:
                note(f"Resuming after {describe_spending(study)}.")
            try:
                outcome = _work(study, config, arguments, evaluator, _MAIN)
            except BaseException:
                # Show the first error
                with contextlib.suppress(Exception):
                    folder.write(study, config.dataset)
                raise
            _write(folder, study, config, outcome, arguments)
            return outcome


def _join(config: Config, arguments: argparse.Namespace, folder: RunFolder) -> Ending:
    """Work beside the process that was started in this folder."""
    saved = folder.read_setup()
    if saved is None:
        raise asktell.InvalidStateError(
            f"There is no run in {str(folder.path)!r}, so no worker can be added. Start the run without --join."
        )
    check_same(config, saved, folder)
    with folder.open_study() as study:
        outcome = _work(study, config, arguments)
        if folder.runner is None:  # nobody else will
            _write(folder, study, config, outcome, arguments)
        return outcome


def _write(
    folder: RunFolder,
    study: Study,
    config: Config,
    outcome: Ending,
    arguments: argparse.Namespace,
) -> None:
    """Write the files that people read.

    Raises:
        StorageError: a file cannot be written. The outcome has been printed.
    """
    try:
        folder.write(study, config.dataset)
        if isinstance(outcome, Improvement):
            folder.write_history(outcome.history())
    except OSError as error:
        _show(outcome, config, arguments)
        raise StorageError(
            f"All evaluations are saved in {folder.study_file}, but {error.filename} could not be written "
            f"({error.strerror}). Remove the cause, and repeat the command, which evaluates nothing again."
        ) from error


def _work(
    study: AnyStudy,
    config: Config,
    arguments: argparse.Namespace,
    evaluator: Any = None,
    name: str | None = None,
) -> Ending:
    """Evaluate as one of a study's workers, until it is done."""
    if study.done and config.improving is None:
        return study.result()
    _check_examples(study, config)
    evaluator = evaluator or config.driven()
    if not arguments.join:  # it was asked about when it began
        confirm(config, study, evaluator, arguments.yes)
    worker = study.worker(arguments.worker or name, lease=arguments.lease)
    if worker.worker_name != _MAIN:
        note(f"Worker {worker.worker_name}, after {describe_spending(study)}.")
    tracker: Tracker | None = None
    if config.tracker is not None and worker.worker_name == _MAIN:
        tracker = config.tracker.make()
    elif config.tracker is not None and not arguments.join:
        note(
            "[tracker] is not used, because a study at a URL may have several workers. Call the tracker in Python."
        )
    with logging_to_stderr(), tracker or contextlib.nullcontext():
        try:
            drive: Callable[..., Ending] = asktell.run
            if (how := config.improving) is not None:
                writer = how.writer(evaluator.llm, config.examples, config.concurrency)
                drive = partial(
                    improve,
                    writer=writer,
                    budget=how.total,
                    examples=config.examples,
                    **how.settings,
                )
            return drive(
                worker,
                timed(evaluator),
                concurrency=config.concurrency,
                batch_size=config.batch_size,
                on_tell=tracker,
                progress=not arguments.no_progress and sys.stderr.isatty(),
                max_failures_in_a_row=None
                if arguments.keep_going
                else 10 + 2 * config.concurrency,
            )
        except EvaluatorError as error:
            raise EvaluatorError(
                str(error).replace("max_failures_in_a_row=None", "--keep-going")
            ) from error
        except KeyboardInterrupt:  # or SIGTERM
            paid = (
                f" Cost so far: {study.spent_cost:.4g}."
                if study.spent_cost or config.is_priced
                else ""
            )
            note(
                f"\nStopped after {describe_spending(study)}.{paid} The same command resumes it."
            )
            raise


def check_same(config: Config, saved: dict[str, Any] | None, folder: RunFolder) -> None:
    """Refuse another set-up. Additional prompts, examples and budget are added to the study instead."""
    if saved is None:
        if folder.used:
            raise asktell.InvalidStateError(
                f"{str(folder.path)!r} has a run, but no {folder.setup_file.name}, so asktell cannot check whether the "
                "run was started with this configuration. Set another `output`, or pass --fresh, which first renames "
                "the existing folder."
            )
    elif changes := differences(saved, config.setup):
        same = {key: config.setup[key] for key in ("budget", "prompts", "data")}
        if (
            "models" in config.setup
            and saved.get("models", {}).items() <= config.setup["models"].items()
        ):
            same["models"] = config.setup["models"]  # some may join
        is_changed = differences({**saved, **same}, config.setup) or not only_more_rows(
            saved, config.setup
        )
        if (
            not is_changed
            and folder.study_name is not None
            and not _is_less(saved["budget"], same["budget"])
        ):
            got = None
            with (
                folder.open_study() as study,
                contextlib.suppress(asktell.StudyExistsError),
            ):
                got = study.grow(config.selector)
            if got is not None:
                more = (
                    f"Continuing with more: {', '.join(got)}"
                    if got
                    else "The run already has these additions"
                )
                note(f"{config.path.name}: {'. '.join(changes)}. {more}.")
                folder.write_setup(config.setup, config.dataset)
                return
        if (
            saved.get("prompts") != config.setup["prompts"]
            and folder.study_name is not None
        ):
            changes = [item for item in changes if not item.startswith("The prompts ")]
            with folder.open_study() as study:
                changes.append(_changed_prompts(study.selector, config.selector))
        raise InvalidArgumentError(
            f"{config.path.name}: The run in {str(folder.path)!r} was started with other settings or data. "
            f"{'. '.join(changes)}. To resume it, undo the change. To start another run, "
            "set another `output`, or pass --fresh, which first renames the existing folder."
        )


def _check_examples(study: AnyStudy, config: Config) -> None:
    """Refuse a configuration that lacks examples which the study has."""
    ids = study.example_ids
    if ids is not None and len(ids) != len(config.dataset):
        lacks = changes(ids, config.dataset.ids)
        raise InvalidArgumentError(
            f"{config.path.name}: The examples in [data] differ from the examples of the run: {lacks}. Append the "
            "missing rows to the data."
        )


def _is_less(before: Any, now: Any) -> bool:
    """Whether a budget is smaller than another in evaluations or money, or of another kind."""
    then, limits = (
        budget if isinstance(budget, dict) else {"evaluations": budget}
        for budget in (before, now)
    )
    return set(then) != set(limits) or any(
        limits[name] < limit for name, limit in then.items()
    )


def _changed_prompts(then: Selector, now: Selector) -> str:
    """The ids of prompts that differ between two selectors, in words."""
    before, after = (
        dict(
            zip(
                selector.prompts.ids,
                selector.prompts.candidates or selector.prompts.texts,
                strict=True,
            )
        )
        for selector in (then, now)
    )
    besides = {then.prompts.ids[arm] for arm in besides_definition(then.state)} - set(
        after
    )
    changed = [
        id_
        for id_ in {**before, **after}
        if before.get(id_) != after.get(id_) and id_ not in besides
    ]
    shown = ", ".join(repr(id_) for id_ in changed[:5]) + (
        ", ..." if len(changed) > 5 else ""
    )
    return f"The prompts with these ids were changed, added or dropped: {shown}"


# Its price


def say_estimate(config: Config, arguments: argparse.Namespace) -> None:
    """Print the calls, tokens, cost and time that the run is expected to take."""
    folder = RunFolder(config.output)
    opened: Any = contextlib.nullcontext(config.selector)
    if arguments.study is not None:
        opened = Study.create(
            arguments.study,
            arguments.name or config.path.stem,
            config.selector,
            exist_ok=True,
        )
    elif not arguments.fresh and folder.study_name is not None:
        opened = folder.open_study()
    n, concurrency = arguments.estimate, config.concurrency
    with opened as selection:
        expected: Estimate | HarnessEstimate
        if (harness := config.harness) is None:
            expected = estimate(
                config.evaluator(), selection, real_calls=n, concurrency=concurrency
            )
        else:
            expected = estimate_harness(
                harness.evaluate_batch, selection, len(config.examples), cost=harness.cost, real=n,
                concurrency=concurrency, repeatable=harness.repeatable,
            )  # fmt: skip
    if arguments.json:
        show_json(expected.to_dict())
    else:
        show(str(expected))


def confirm(config: Config, selection: Selection, evaluator: Any, yes: bool) -> None:
    """Ask before a run that may cost more than `confirm_above`.

    Raises:
        InvalidArgumentError: the user declines, or cannot be asked.
    """
    if config.confirm_above is None or yes:
        return
    most = estimate(evaluator, selection).most_cost
    if most is not None and config.improving is not None:
        most *= config.improving.parts
    if most is None or most <= config.confirm_above:
        return
    words = f"This run may cost up to {most:.4g}, more than confirm_above = {config.confirm_above:g}"
    if not sys.stdin.isatty():
        raise InvalidArgumentError(
            f"{words}. For details, add --estimate. To start the run, add --yes."
        )
    note(f"{words}. Continue? [y/N] ", end="")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InvalidArgumentError("The run was not started. Nothing was spent.")
