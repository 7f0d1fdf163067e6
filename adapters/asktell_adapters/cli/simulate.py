"""`asktell simulate`: the selection that each method would have made from recorded scores."""

import argparse
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asktell import InvalidArgumentError, Simulation
from asktell import simulate as simulate_methods
from asktell.extend import Goal, parse_goal, short, write_atomically
from asktell_adapters.cli.arguments import PICTURES
from asktell_adapters.cli.output import save_plot, show, show_json
from asktell_adapters.cli.places import Place
from asktell_adapters.tables.recorded import RecordedScores
from asktell_adapters.tables.rows import KINDS
from asktell_adapters.tables.spreadsheets import csv_text

_GOAL = re.compile(
    r"(?:(?P<pareto>Pareto set):)?(?P<objectives>.+?)"
    r"(?:\bsubject to\b(?P<bounds>.+?)(?:,\s*kept with probability\s+(?P<sure>\S+))?)?",
    re.DOTALL | re.IGNORECASE,
)
_METRIC = r"(?P<metric>\S.*?)(?:\s+from\s+(?P<low>\S+)\s+to\s+(?P<high>\S+))?"
_TOLERANCE = r"(?:\s*\(tolerance\s+(?P<tolerance>\S+?)\))?"
_OBJECTIVE = re.compile(
    r"(?:(?P<direction>maximize|minimize)\s+)?"
    + _METRIC
    + r"(?P<worst>\s+in its worst segment)?"
    + _TOLERANCE
)
_BOUND = re.compile(
    _METRIC
    + r"\s*(?P<side><=|>=)\s*(?P<bound>\S+)(?:\s+on\s+(?P<share>\S+?)\s*% of the examples)?"
    r"(?P<every>\s+in every segment)?" + _TOLERANCE
)


def simulate(arguments: argparse.Namespace) -> int:
    """`asktell simulate`: replay recorded scores with several methods, and print the selection of each."""
    if arguments.plot is not None and arguments.plot.suffix.lower() not in PICTURES:
        raise InvalidArgumentError(
            f"--plot needs a file that ends in {' or '.join(PICTURES)}, got {str(arguments.plot)!r}."
        )
    goal, recorded = _recorded(arguments.table, arguments.name, arguments.goal)
    simulation = simulate_methods(
        recorded.scores,
        goal,
        arguments.methods,
        arguments.budgets,
        arguments.seeds,
        arguments.jobs,
        (lambda done, total: None) if arguments.no_progress else None,
        features=recorded.features,
        segments=recorded.segments if goal.by_segment else None,
        lines=arguments.lines,
    )
    if arguments.plot is not None:
        save_plot(simulation, arguments.plot, arguments.curve)
    if arguments.output is not None:
        _write(simulation, arguments.output)
    if arguments.json:
        show_json(simulation.to_dict())
        return 0
    k, n, _, *repeats = recorded.scores.shape
    times = f", each {repeats[0]} times" if repeats else ""
    show(f"{k} prompts, {n} examples{times}; {goal}\n\n{simulation.summary()}")
    for what, path in (("Plot", arguments.plot), ("Runs", arguments.output)):
        if path is not None:
            show(f"{what}: {path}")
    return 0


def _recorded(
    where: str, name: str | None, text: str | None
) -> tuple[Goal, RecordedScores]:
    """The goal and the scores of a table, for which `text` gives the goal, or of a run, which has a goal of its own."""
    goal = None if text is None else goal_of(text)
    table = Path(where)
    if table.suffix.lower() not in (".npz", *KINDS):
        if goal is not None:
            raise InvalidArgumentError(
                f"--goal can be used only with a table, but {where!r} is a run, which has a goal already. Remove "
                "--goal."
            )
        with Place(where, name).local("asktell simulate") as study:
            return study.goal, RecordedScores.of(study)
    if goal is None:
        raise InvalidArgumentError(
            "A table has no goal. Add --goal, such as --goal 'maximize accuracy subject to latency <= 2'."
        )
    recorded = RecordedScores.read(table, goal)
    if goal.by_segment and recorded.segments is None:
        raise InvalidArgumentError(
            f"The goal has segments, but {str(table)!r} has none. Add a column `segment` to it, or an array `segments` "
            "if it is an .npz file."
        )
    return goal, recorded


def goal_of(text: str) -> Goal:
    """The goal that a text describes, as `str(goal)` writes it or shorter. Several objectives select a Pareto set.

    After a metric's name, `from 0 to 10` is the range of its scores. At the end of an
    objective or a bound, `(tolerance 0.01)` is its tolerance.

    Raises:
        InvalidArgumentError: the text is not a goal, or it bounds a metric twice.
    """
    match = _GOAL.fullmatch(text.strip())
    whole = {} if match is None else match.groupdict()
    objectives = _parts(_OBJECTIVE, whole.get("objectives") or "")
    bounds = _parts(_BOUND, whole["bounds"]) if whole.get("bounds") else []
    if not objectives or bounds is None:
        raise InvalidArgumentError(
            f"--goal cannot be read, got {short(text)}. Write a goal like 'maximize accuracy subject to latency <= 2' "
            "or 'maximize rouge, minimize cost'. After a metric, you may add its range, such as 'from 0 to 10'. After "
            "an objective, you may add 'in its worst segment'. After a bound, you may add 'on 95% of the examples' or "
            "'in every segment'. After both, you may add '(tolerance 0.01)'. At the end, you may add the probability "
            "with which all bounds must be satisfied, such as ', kept with probability 0.9'."
        )
    times = Counter(part["metric"] for part in bounds)
    if twice := sorted(metric for metric in times if times[metric] > 1):
        raise InvalidArgumentError(
            f"--goal bounds {twice[0]!r} twice. Keep one of the bounds."
        )
    is_pareto = len(objectives) > 1 or whole["pareto"]
    best: dict[bool, list[str]] = {True: [], False: []}
    for part in objectives:
        best[part["direction"] != "minimize"].append(part["metric"])
    limits: dict[str, dict[str, Any]] = {">=": {}, "<=": {}}
    for part in bounds:
        limits[part["side"]][part["metric"]] = _bound(part)
    return parse_goal(
        "pareto-set" if is_pareto else "best-feasible",
        best[True],
        best[False],
        limits[">="],
        limits["<="],
        _ranges([*objectives, *bounds]),
        _number(whole["sure"]) if whole["sure"] else None,
        [part["metric"] for part in objectives if part["worst"]],
        {
            part["metric"]: _number(part["tolerance"])
            for part in objectives
            if part["tolerance"]
        },
    )


def _parts(pattern: re.Pattern[str], text: str) -> list[dict[str, Any]] | None:
    """The parts between commas. None if the pattern does not describe one of them."""
    parts = []
    for part in text.split(","):
        match = pattern.fullmatch(part.strip())
        if match is None:
            return None
        parts.append(match.groupdict())
    return parts


def _ranges(parts: Sequence[Mapping[str, str]]) -> dict[str, tuple[float, float]]:
    """The ranges of scores that are given, by metric."""
    return {
        part["metric"]: (_number(part["low"]), _number(part["high"]))
        for part in parts
        if part["low"]
    }


def _bound(part: Mapping[str, str | None]) -> dict[str, Any]:
    """A bound as `parse_goal` takes it. A share of the examples becomes a quantile of the scores."""
    quantile = None
    if part["share"]:
        share = _number(part["share"]) / 100
        quantile = share if part["side"] == "<=" else round(1 - share, 12)
    return {
        "bound": _number(part["bound"]),
        "quantile": quantile,
        "in_every_segment": bool(part["every"]),
        "tolerance": _number(part["tolerance"]) if part["tolerance"] else None,
    }


def _number(text: str | None) -> float:
    """A number in a goal."""
    try:
        return float(text or "")
    except ValueError:
        raise InvalidArgumentError(
            f"--goal must have a number in the place of {short(text)}."
        ) from None


def _write(simulation: Simulation, path: Path) -> None:
    """Write a row per run, as in `Simulation.to_dataframe`."""
    runs: Sequence[dict[str, Any]] = [
        run for run in simulation.runs if "refused" not in run
    ]
    columns = [name for name in (runs[0] if runs else {}) if name != "answer"]
    rows = ([run.get(name, "") for name in columns] for run in runs)
    write_atomically(path, csv_text(columns, rows))
