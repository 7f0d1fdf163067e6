"""The estimate before a run, and the confirmation of its price."""

import argparse
import json
import sys
from typing import Any

from asktell import InvalidArgumentError, Study
from asktell_adapters.cli.folder import RunFolder
from asktell_adapters.cli.output import show
from asktell_adapters.config import Config
from asktell_adapters.estimate import Estimate, Selection, estimate


def say_estimate(config: Config, arguments: argparse.Namespace) -> None:
    if config.harness is not None:
        raise InvalidArgumentError(
            "--estimate knows the requests of [model], and not those of [evaluator]: asktell check."
        )
    if arguments.study is not None:
        name = arguments.name or config.path.stem
        with Study.create(arguments.study, name, config.selector, exist_ok=True) as study:
            found = _estimate(config, study, arguments.estimate)
    elif not arguments.fresh and RunFolder(config.output).study_name is not None:
        with RunFolder(config.output).open_study() as study:
            found = _estimate(config, study, arguments.estimate)
    else:
        found = _estimate(config, config.selector, arguments.estimate)
    show(json.dumps(found.to_dict(), indent=1) if arguments.json else str(found))


def confirm(config: Config, selection: Selection, evaluator: Any, yes: bool) -> None:
    if config.confirm_above is None or yes:
        return
    most = estimate(evaluator, selection).most_cost
    if most is not None and config.improving is not None:
        most *= config.improving.parts
    if most is None or most <= config.confirm_above:
        return
    words = f"This run may cost up to {most:.4g}, more than confirm_above = {config.confirm_above:g}"
    if not sys.stdin.isatty():
        raise InvalidArgumentError(f"{words}. Look at it with --estimate, and start it with --yes.")
    print(f"{words}. Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InvalidArgumentError("Not started; nothing was spent.")


def _estimate(config: Config, selection: Selection, real_calls: int) -> Estimate:
    return estimate(config.evaluator(), selection, real_calls=real_calls, concurrency=config.concurrency)
