"""`asktell simulate`: what would each method have found?"""

import argparse
import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asktell import InvalidArgumentError, Simulation
from asktell import simulate as simulate_methods
from asktell.extend import Goal, parse_goal, short, write_atomically
from asktell_adapters.cli.arguments import PICTURES
from asktell_adapters.cli.output import save_plot, show
from asktell_adapters.cli.places import Place
from asktell_adapters.recorded import RecordedScores
from asktell_adapters.rows import KINDS

_GOAL = re.compile(
    r"(?:(?P<pareto>Pareto set):)?(?P<objectives>.+?)"
    r"(?:\bsubject to\b(?P<bounds>.+?)(?:,\s*kept with probability\s+(?P<sure>\S+))?)?",
    re.DOTALL | re.IGNORECASE,
)
_METRIC = r"(?P<metric>\S.*?)(?:\s+from\s+(?P<low>\S+)\s+to\s+(?P<high>\S+))?"
_OBJECTIVE = re.compile(
    r"(?:(?P<direction>maximize|minimize)\s+)?"
    + _METRIC
    + r"(?P<worst>\s+in its worst segment)?"
)
_BOUND = re.compile(
    _METRIC
    + r"\s*(?P<side><=|>=)\s*(?P<bound>\S+)(?:\s+on\s+(?P<share>\S+?)\s*% of the examples)?"
    r"(?P<every>\s+in every segment)?"
)


def simulate(arguments: argparse.Namespace) -> int:
    if arguments.plot is not None and arguments.plot.suffix.lower() not in PICTURES:
        raise InvalidArgumentError(
            f"--plot needs a file that ends in {', '.join(PICTURES)}; got {arguments.plot}."
        )
    goal = None if arguments.goal is None else goal_of(arguments.goal)
    table = Path(arguments.table)
    if table.suffix.lower() in (".npz", *KINDS):
        if goal is None:
            raise InvalidArgumentError(
                "A table needs --goal, such as 'maximize accuracy subject to latency <= 2'."
            )
        recorded = RecordedScores.read(table, goal)
        if goal.by_segment and recorded.segments is None:
            raise InvalidArgumentError(
                f"The goal speaks of segments: add a column segment to {table} (.npz: segments)."
            )
    else:
        with Place(arguments.table, arguments.name).local("asktell simulate") as study:
            if goal is not None:
                raise InvalidArgumentError(
                    "A run has its own goal; --goal is for tables."
                )
            goal, recorded = study.goal, RecordedScores.of(study)
    found = simulate_methods(
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
        save_plot(found, arguments.plot, arguments.curve)
    if arguments.output is not None:
        _write(found, arguments.output)
    if arguments.json:
        print(json.dumps(found.to_dict(), indent=1))
        return 0
    k, n, _, *repeats = recorded.scores.shape
    times = f", each {repeats[0]} times" if repeats else ""
    show(f"{k} prompts, {n} examples{times}; {goal}\n\n{found.summary()}")
    for what, path in (("Plot", arguments.plot), ("Runs", arguments.output)):
        if path is not None:
            show(f"{what}: {path}")
    return 0


def goal_of(text: str) -> Goal:
    """The goal that a text says, as `str(goal)` writes it or shorter; several objectives are a Pareto set.

    Behind a metric's name, `from 0 to 10` is the range of its scores.
    """
    found = _GOAL.fullmatch(text.strip())
    said = {} if found is None else found.groupdict()
    objectives = [
        _OBJECTIVE.fullmatch(part.strip())
        for part in said.get("objectives", "").split(",")
    ]
    bounds = [
        _BOUND.fullmatch(part.strip())
        for part in (said.get("bounds") or "").split(",")
        if part.strip()
    ]
    parts = [part.groupdict() for part in (*objectives, *bounds) if part is not None]
    if len(parts) < len(objectives) + len(bounds):
        raise InvalidArgumentError(
            "--goal needs 'maximize accuracy subject to latency <= 2', or 'maximize rouge, minimize cost'; a metric "
            "may have 'from 0 to 10', an objective 'in its worst segment', a bound 'on 95% of the examples' and 'in "
            f"every segment', and the last one ', kept with probability 0.9'; got {short(text)}."
        )
    wanted, limits = parts[: len(objectives)], parts[len(objectives) :]
    if twice := {
        one["metric"]
        for one in limits
        if sum(one["metric"] == other["metric"] for other in limits) > 1
    }:
        raise InvalidArgumentError(
            f"--goal bounds {min(twice)!r} twice; give one bound."
        )
    return parse_goal(
        "pareto-set" if len(wanted) > 1 or said["pareto"] else "best-feasible",
        [part["metric"] for part in wanted if part["direction"] != "minimize"],
        [part["metric"] for part in wanted if part["direction"] == "minimize"],
        {part["metric"]: _bound(part) for part in limits if part["side"] == ">="},
        {part["metric"]: _bound(part) for part in limits if part["side"] == "<="},
        {
            part["metric"]: (_number(part["low"]), _number(part["high"]))
            for part in parts
            if part["low"]
        },
        _number(said["sure"]) if said["sure"] else None,
        [part["metric"] for part in wanted if part["worst"]],
    )


def _bound(part: Mapping[str, str | None]) -> dict[str, Any]:
    quantile = None
    if part["share"]:
        share = _number(part["share"]) / 100
        quantile = share if part["side"] == "<=" else round(1 - share, 12)
    return {
        "bound": _number(part["bound"]),
        "quantile": quantile,
        "in_every_segment": bool(part["every"]),
    }


def _number(text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise InvalidArgumentError(
            f"--goal must have a number where it has {short(text)}."
        ) from None


def _write(found: Simulation, path: Path) -> None:
    """A row per run, as `Simulation.to_dataframe` has them."""
    runs: Sequence[dict[str, Any]] = [run for run in found.runs if "refused" not in run]
    columns = [name for name in (runs[0] if runs else {}) if name != "answer"]
    table = io.StringIO()
    writer = csv.DictWriter(table, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(runs)
    write_atomically(path, table.getvalue())
