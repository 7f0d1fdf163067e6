"""`asktell gate` on files of results: the same verdict and exit codes, without evaluating anything."""

import argparse
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from asktell import InvalidArgumentError, Selector
from asktell.extend import finished_selector, some
from asktell_adapters.cli.analyze import (
    candidate,
    goal_for,
    read,
    write_report,
)
from asktell_adapters.cli.gate_rule import GateRule, margin_for, ranged
from asktell_adapters.cli.ruling import Ruling
from asktell_adapters.finished import Scores
from asktell_adapters.llms.base import Example


def finished_gate(arguments: argparse.Namespace) -> Callable[[], Ruling]:
    """Check the files and the flags, and return the function that reaches the verdict."""
    files = [arguments.config, *arguments.more]
    scores = read(files, arguments)
    goal, why = goal_for(scores, arguments)
    one, other = _pair(scores, arguments)
    binary = {
        name: SimpleNamespace(range=(0.0, 1.0))
        for name in goal.metrics
        if _is_binary(scores, name)
    }
    goal = ranged(goal, binary)
    rule = GateRule(goal, margin_for(goal, arguments.margin), arguments.confidence)
    table = scores.table(rule.goal, [one, other])
    # The gate itself judges the rate of failures, so no candidate is eliminated for it.
    selector = finished_selector(
        table,
        rule.goal,
        other,
        arguments.inputs or "given",
        max_failure_rate=1.0,
        is_noisy=True,
    )
    remarks = [
        *scores.remarks(),
        *_unpaired(scores, one, other),
        *([why] if why else []),
    ]
    if arguments.recheck:
        remarks.append(
            "--recheck has no effect with files of results, since nothing is evaluated."
        )
    return lambda: replace(
        _ruling(rule, selector, scores, one, other, remarks, arguments),
        reading=scores.overview(),
    )


def _pair(scores: Scores, arguments: argparse.Namespace) -> tuple[str, str]:
    """The names of the candidate and the baseline. Of two candidates, one name is enough."""
    names = list(scores.by_name)
    if len(names) == 1:
        raise InvalidArgumentError(
            f"The files have one candidate, {names[0]!r}, but a gate compares two. Give the results of the other one "
            "as another file. If columns of a table are candidates, name them with --candidates A,B, and if a column "
            "has their names, pass --candidate-column COLUMN."
        )
    if arguments.baseline is None or (arguments.candidate is None and len(names) != 2):
        missing = "baseline" if arguments.baseline is None else "candidate"
        raise InvalidArgumentError(
            f"No {missing} is given. Choose it by --{missing} ID. The ids in the files are {some(names)}."
        )
    other = candidate(scores, arguments.baseline, "--baseline")
    others = [name for name in names if name != other]
    one = (
        others[0]
        if arguments.candidate is None
        else candidate(scores, arguments.candidate, "--candidate")
    )
    if one == other:
        raise InvalidArgumentError(
            f"--candidate and --baseline are both {one!r}. Give two different ids of {some(names)}."
        )
    return one, other


def _is_binary(scores: Scores, metric: str) -> bool:
    """Whether all scores of a metric are 0 or 1."""
    columns = (each.columns([metric]) for each in scores.by_name.values())
    return all(
        bool((np.isin(column, (0.0, 1.0)) | np.isnan(column)).all())
        for column in columns
    )


def _unpaired(scores: Scores, one: str, other: str) -> list[str]:
    """A note on examples with evaluations of one candidate only, if there are any."""
    first, second = (set(scores.by_name[name].examples) for name in (one, other))
    if not first & second:
        raise InvalidArgumentError(
            f"{one!r} and {other!r} have no example in common. Examples are matched by their ids. Give both runs the "
            "same ids."
        )
    if first == second:
        return []
    n_all, n_one, n_other = (
        len(first | second),
        len(second - first),
        len(first - second),
    )
    lacks = [(name, n) for name, n in ((one, n_one), (other, n_other)) if n]
    missing = " and ".join(f'"{name}" has no score on {n:,}' for name, n in lacks)
    return [
        f"{missing} of {n_all:,} examples. An example that only one of the two has counts against a verdict, as a "
        "failed evaluation does, because its score is unknown."
    ]


def _ruling(
    rule: GateRule,
    selector: Selector,
    scores: Scores,
    one: str,
    other: str,
    remarks: list[str],
    arguments: argparse.Namespace,
) -> Ruling:
    """The verdict on two candidates. Nothing is evaluated."""
    ids = selector.prompts.ids
    verdict = rule.look(selector.state, pair=(ids.index(one), ids.index(other)))
    result = selector.result()
    comparison = result.compare(one, other, rule.confidence)
    examples = [Example(name) for name in selector.example_ids or ()]
    ruling = Ruling(
        verdict, rule.verdicts, rule.goal, rule.margin, comparison, result, remarks,
        list(selector.evaluations()), examples, doubts=selector.state.remarks.doubts,
    )  # fmt: skip
    ruling = replace(
        ruling, needed=rule.pairs_for_equal(selector, ruling.squared_difference)
    )
    if arguments.report is None:
        return ruling
    files = [arguments.config, *arguments.more]
    write_report(selector, arguments.report, files, scores, ruling.to_dict())
    beside = (arguments.summary or arguments.report).parent
    return replace(ruling, report=Path(os.path.relpath(arguments.report, beside)))
