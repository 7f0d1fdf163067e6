"""`asktell simulate`: what would each method have found?"""

import argparse
import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from asktell import InvalidArgumentError, Simulation
from asktell import simulate as simulate_methods
from asktell.extend import Goal, parse_goal, short
from asktell_adapters.cli.arguments import PICTURES
from asktell_adapters.cli.output import save_plot, show
from asktell_adapters.cli.places import Place
from asktell_adapters.recorded import RecordedScores
from asktell_adapters.rows import KINDS

_GOAL = re.compile(r"(?:(?P<title>[\w -]+):)?(?P<objectives>.+?)(?:\bsubject to\b(?P<bounds>.+))?", re.DOTALL)
_OBJECTIVE = re.compile(r"(?:(maximize|minimize)\s+)?(\S.*)")
_BOUND = re.compile(r"(\S.*?)\s*(<=|>=)\s*(\S+)")


def simulate(arguments: argparse.Namespace) -> int:
    """`asktell simulate`."""
    if arguments.plot is not None and arguments.plot.suffix.lower() not in PICTURES:
        raise InvalidArgumentError(f"--plot needs a file that ends in {', '.join(PICTURES)}; got {arguments.plot}.")
    goal = None if arguments.goal is None else goal_of(arguments.goal)
    table = Path(arguments.table)
    if table.suffix.lower() in (".npz", *KINDS):
        if goal is None:
            raise InvalidArgumentError("A table needs --goal, such as 'maximize accuracy subject to latency <= 2'.")
        recorded = RecordedScores.read(table, goal)
    else:
        with Place(arguments.table, arguments.name).local("asktell simulate") as study:
            if goal is not None:
                raise InvalidArgumentError("A run has its own goal; --goal is for tables.")
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
    k, n, _ = recorded.scores.shape
    show(f"{k} prompts, {n} examples; {goal}\n\n{found.summary()}")
    for what, path in (("Plot", arguments.plot), ("Runs", arguments.output)):
        if path is not None:
            show(f"{what}: {path}")
    return 0


def goal_of(text: str) -> Goal:
    """The goal that a text says, as `str(goal)` writes it or shorter; several objectives are a Pareto set.

    Raises:
        InvalidArgumentError: it says none.
    """
    found = _GOAL.fullmatch(text.strip())
    parts = [] if found is None else [_OBJECTIVE.fullmatch(part.strip()) for part in found["objectives"].split(",")]
    bounds = [_BOUND.fullmatch(part.strip()) for part in ((found and found["bounds"]) or "").split(",") if part.strip()]
    if found is None or None in parts or None in bounds:
        raise InvalidArgumentError(
            f"--goal needs 'maximize accuracy subject to latency <= 2', or 'maximize rouge, minimize cost'; got "
            f"{short(text)}."
        )
    objectives = [part.groups() for part in parts if part is not None]
    limits: dict[str, dict[str, float]] = {"<=": {}, ">=": {}}
    for bound in bounds:
        if bound is not None:
            limits[bound[2]][bound[1]] = _number(bound[3])
    return parse_goal(
        "pareto-set" if len(objectives) > 1 or (found["title"] or "").lower() == "pareto set" else "best-feasible",
        [name for direction, name in objectives if direction != "minimize"],
        [name for direction, name in objectives if direction == "minimize"],
        limits[">="],
        limits["<="],
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidArgumentError(f"A bound in --goal must be a number, got {short(text)}.") from None


def _write(found: Simulation, path: Path) -> None:
    """A row per run, as `Simulation.to_dataframe` has them."""
    runs: Sequence[dict[str, Any]] = [run for run in found.runs if "refused" not in run]
    columns = [name for name in (runs[0] if runs else {}) if name != "answer"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(runs)
