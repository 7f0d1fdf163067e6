"""`asktell judge`: choose a judge by labels that people gave, and write its licence."""

import argparse
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from asktell import EvaluatorError, InvalidArgumentError, Study
from asktell.extend import aligned
from asktell_adapters.cli.analyze import check_written
from asktell_adapters.cli.folder import RunFolder
from asktell_adapters.cli.output import note, show
from asktell_adapters.cli.process import logging_to_stderr, signals
from asktell_adapters.config.judging import (
    COST,
    GRADE,
    Judging,
    load_judging,
)
from asktell_adapters.metrics.licence import FORMAT, Licence


def judge(arguments: argparse.Namespace) -> int:
    """`asktell judge`: run the choice among judges, print the judge to take, and write its licence."""
    judging = load_judging(arguments.config, arguments.labels)
    path = arguments.output or judging.table.beside(judging.table.licence)
    check_written(path)
    _check_replaced(path)
    _confirm(judging, arguments.yes)
    # Before anything is paid: a model that is missing, or that a licence cannot name
    for of_candidate in judging.judges.judges.values():
        assert of_candidate.digests
    from asktell_adapters.cli.work import run_config

    # As one process with a folder of its own
    alone = {"study": None, "join": False, "name": None, "worker": None, "lease": 60.0}
    run_config(judging.config, argparse.Namespace(**{**vars(arguments), **alone}))
    with RunFolder(judging.config.output).open_study() as study:
        licence = _licence(judging, study)
        rows = list(_rows(judging, study))
    licence.write(path)
    show("")
    for line in aligned(rows):
        show(line.rstrip())
    show("")
    show(f'Take the judge "{licence.judge}" ({licence.model}). It {licence.sentence}.')
    show(" ".join(filter(None, [licence.errors, licence.favors, licence.blind])))
    floor = judging.table.floor
    if floor is not None:
        is_below = licence.low < floor
        show(
            f"The lower bound is {'below' if is_below else 'not below'} the floor of {floor:g}, so a gate with this "
            f"judge {'stays undecided' if is_below else 'can pass and fail'}."
        )
    for line in _settings(judging, licence.judge):
        show(line)
    # In the working folder, its name is enough
    here = path.resolve().parent == Path.cwd().resolve()
    show(f"Licence: {path.name if here else path}")
    return 0


def _check_replaced(path: Path) -> None:
    """Refuse to replace a file that is no licence, such as the labels. A damaged licence may be replaced.

    Raises:
        InvalidArgumentError: there is such a file.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        start = file.read(1000)
    if start and FORMAT.encode() not in start:
        raise InvalidArgumentError(
            f"The licence would replace {str(path)!r}, which is another file. Give another path by --output, or by "
            "`licence` in [judge]."
        )


def _confirm(judging: Judging, yes: bool) -> None:
    """Ask for --yes if the file asks before dear runs, since the price of judgments is not estimated.

    Raises:
        InvalidArgumentError: --yes is missing.
    """
    if judging.config.confirm_above is None or yes:
        return
    n = judging.config.selector.budget
    raise InvalidArgumentError(
        f"{judging.config.path.name} has confirm_above, but the price of up to {n:,} judgments is not estimated. To "
        "start them, add --yes. To make fewer, set budget in [judge]."
    )


def _licence(judging: Judging, study: Study) -> Licence:
    """The licence of the selected judge, which first grades the labeled responses that it has not graded yet.

    Raises:
        EvaluatorError: no judge keeps the bounds.
    """
    result = study.result()
    selected = result.best
    if selected is None or result.verdict.action == "none":
        raise EvaluatorError(
            f"No judge keeps the bounds of at_most in [judge] ({study.goal}), so there is no licence. Raise the "
            "bounds, or add judges to [judge.candidates]."
        )
    name = str(selected.id)
    details: dict[int, Mapping[str, Any] | None] = {}
    for evaluation in study.evaluations():
        if str(evaluation.prompt) == name and evaluation.example is not None:
            details[evaluation.example] = (
                None if evaluation.error is not None else evaluation.details
            )
    missing = [row for row in range(len(judging.labeled.labels)) if row not in details]
    if missing:
        note(f"{len(missing):,} judgments complete the labels of {name!r}.")
        details |= _completed(judging, study, name, missing)
    grades = {
        row: None if of_row is None else float(of_row[GRADE])
        for row, of_row in details.items()
    }
    if all(grade is None for grade in grades.values()):
        raise EvaluatorError(
            f"The judge {name!r} graded no response, so there is no licence. Remove the cause of the failures."
        )
    costs = [float(of_row[COST]) for of_row in details.values() if of_row is not None]
    is_known = judging.is_priced or any(costs)
    cost = statistics.fmean(costs) if is_known and costs else None
    return judging.licence(name, grades, cost)


@signals()
@logging_to_stderr()
def _completed(
    judging: Judging, study: Study, name: str, rows: Sequence[int]
) -> dict[int, Mapping[str, Any] | None]:
    """The details of further judgments, by the labeled response. None where the judge gave no grade."""
    # They are not in the study, which is done. So an interruption loses no replies but
    # those of the last few requests.
    judging.judges.keep_replies(name, judging.config.output / "replies.db")
    arm = [str(id_) for id_ in study.selector.prompts.ids].index(name)
    details: dict[int, Mapping[str, Any] | None] = {}
    n_at_once = judging.config.concurrency
    for start in range(0, len(rows), n_at_once):
        part = rows[start : start + n_at_once]
        trials = [study.selector.prompts.trial(-1, arm, row) for row in part]
        outcomes = judging.judges.evaluate_batch(trials)
        for row, outcome in zip(part, outcomes, strict=True):
            details[row] = None if isinstance(outcome, Exception) else outcome.details
    return details


def _rows(judging: Judging, study: Study) -> Iterator[list[str]]:
    """A table of all judges: what each got wrong, and what a judgment cost."""
    pass_at = judging.judges.pass_at
    by_judge: dict[str, list[Mapping[str, Any] | None]] = {}
    for evaluation in study.evaluations():
        details = None if evaluation.error is not None else evaluation.details
        by_judge.setdefault(str(evaluation.prompt), []).append(details)
    head = ["judge", "judgments", "false passes", "false fails", "no grade"]
    # An LLM of the user's own may have costs without a price in the file
    has_cost = judging.is_priced or study.spent_cost > 0
    yield [*head, "cost"] if has_cost else head
    for name in judging.changes:
        all_details = by_judge.get(name, [])
        graded = [details for details in all_details if details is not None]
        false = [
            (details[GRADE] >= pass_at) - (details["label"] >= pass_at)
            for details in graded
        ]
        row = [
            name,
            str(len(all_details)),
            str(false.count(1)),
            str(false.count(-1)),
            str(len(all_details) - len(graded)),
        ]
        costs = [float(details[COST]) for details in graded]
        cost = f"{statistics.fmean(costs):.3g}" if costs else "-"
        yield [*row, cost] if has_cost else row


def _settings(judging: Judging, name: str) -> Iterator[str]:
    """Lines for the configuration that make it use the chosen judge. Empty if it does already."""
    keys = judging.changes[name]
    if not keys:
        return
    yield f"Write these keys into [{judging.title}] of {judging.config.path.name}, since the licence is for them:"
    for key, value in keys.items():
        yield f"  {key} = {_toml(value)}"


def _toml(value: Any) -> str:
    """A value in TOML, in one line."""
    if isinstance(value, dict):
        pairs = (f"{_key(name)} = {_toml(item)}" for name, item in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    # Texts, numbers and flags of JSON are those of TOML
    return json.dumps(value, ensure_ascii=False, default=str)


def _key(name: str) -> str:
    is_bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if is_bare else json.dumps(name, ensure_ascii=False)
