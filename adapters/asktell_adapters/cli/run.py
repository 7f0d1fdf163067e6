"""`asktell run` and `asktell improve`: a mistake in the configuration ends them before the engine is imported."""

import argparse
import contextlib

from asktell_adapters.config import load_config


def run_selection(arguments: argparse.Namespace) -> int:
    """`asktell run`: run or resume a selection."""
    with contextlib.closing(load_config(arguments.config)) as config:
        from asktell_adapters.cli.work import run_config

        run_config(config, arguments, arguments.estimate)
    return 0


def run_improvement(arguments: argparse.Namespace) -> int:
    """`asktell improve`: write better prompts, and select among them."""
    config = load_config(arguments.config, improve=True)
    from asktell_adapters.cli.work import run_config

    run_config(config, arguments)
    return 0
