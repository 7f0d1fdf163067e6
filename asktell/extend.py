"""The documented names for authors of an adapter, a method or a storage.

Errors and the names that users call are in `asktell` itself. The base classes for parts
of a method are in `asktell.methods.rounds`, in the packages `schedulers`, `allocators`,
`estimators` and `rules`, and the one for a storage is in `asktell.studies.storages`. A
name is imported when it is first used.

Packages
    needs_extra(extra): a block in which a missing package is an error with the command that installs the extra
    import_extra(module, extra): one module, with the same error
    Registry, BuiltIn: names that asktell and other packages define, such as those of metrics
    check_extra(extra, *modules): the same error, without importing the modules
Messages
    short(value): the repr of a value in at most 60 characters
    some(values): the first values, and the number of all values
    nearest(name, known): "; did you mean ...?" if a known name is similar, else nothing
    in_words(error): the type and the message of an error
    log: the logger "asktell". A handler that raises does not end the work that a message is about
    real(number): any real number as a float, None for text, a complex number, a date or a duration
    whole(name, number, low): the number, or an error if it is not a whole number of at least `low`
    check_cost(cost): a cost as a float, None if it is unknown, or an error if it is no number of at least 0
    describe_spending(selection): "12 of 500 evaluations"
    describe_streak(state): the sentence about the latest evaluations if they all failed in the same way, else nothing
Terminals and files
    safe(text): the text with control characters escaped
    one_line(text, width): the text cut to a width
    in_markdown(text): the text without markup
    aligned(rows): the lines of a table
    with_error(mean, error): an estimate and its standard error as text
    in_percent(probability): a probability as text, such as "93%" or "over 99%"
    write_atomically(path, text): readers see the old or the new content, never a part
Problems
    Goal: the base class of all goals
    MOST_EVALUATIONS: the largest budget of evaluations
    parse_goal(kind, maximize, ...): a goal from the names of metrics
    changes(before, after): the differences between two lists of example ids
    parts_of(prompt): the messages and tools of a prompt that is a chat
Methods
    AbstractMethod: the base class of all methods, also of your own
    State, events: the state of a selection, and the events that change it
    apply(state, event), decision_of(method, state): the next state, and the next decision
    at_state(selector, state): a selector of the same prompts and method in another state
    check_path(path): an error if the path of a file is a URL, such as "sqlite:study.db"
    check_margin(goal, margin): the margin of a gate, or an error if it is as wide as the range of an objective
    standing(state, confidence): which prompts are established to be out, which are open, and the answer
    PromptStanding: the standing of all prompts at one look
    not_worse(state, candidate, baseline, ...): whether a candidate is established to be not worse
    UNSEEN_FAILURES: the smallest tolerated difference of failure rates while the candidate has no more failures
Finished tables
    FinishedTable: finished evaluations, as columns. Its `selector(goal, ...)` has recorded them, and is done
    less_may_be_better(metric): True if the name of a metric suggests that smaller scores are better
    is_expense(metric): True if the name of a metric suggests an amount that is spent, such as a cost
    wins_and_losses(a, b, minimize): where scores are better, worse or equal, apart from rounding
Evaluation
    Evaluator, Outcome: the argument of `asktell.run`, and the outcome of one evaluation
    Calling: the way in which an evaluator is called, which is async or not, in batches or one by one
    attempt(call): the result of a call, or the exception that makes the evaluation a failure
    outside_of_loops(call): the result of an async call, in a thread of its own if an event loop is running
    goal_scores(study, outcome), details_of(study, outcome): the arguments of `tell` for an outcome
    n_repeats(spent): the number of evaluations that a run with inputs="given" repeats to check for noise
    open_board(...), Board: hands out trials and takes their outcomes, for a loop of your own
    OnTell, MaxFailures: the types of its options
Studies
    AbstractStudy: the common part of `Study` and `RemoteStudy`
    Evaluation: one row of `study.evaluations()`
    shown_estimates(entries, metric): a metric's name and estimates as text
    Standing, Attendance, Holding: the progress of a study, the workers at a moment, and one pending trial
    definition(study): its goal and method as JSON, from which `RemoteStudy` makes them
    besides_definition(state): the prompts that a person or a program added, unlike those of an edited definition
    open_storage(location): the storage at a URL or a path
    reports: a study's page as data and HTML
    fresh_after_fork(obj, renew): renews an object's locks in a forked process
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asktell import reports
    from asktell._util.chats import parts_of
    from asktell._util.extras import check_extra, import_extra, needs_extra
    from asktell._util.files import check_path, write_atomically
    from asktell._util.forks import fresh_after_fork
    from asktell._util.log import log
    from asktell._util.plugins import BuiltIn, Registry
    from asktell._util.terminal import (
        aligned,
        in_markdown,
        in_percent,
        one_line,
        safe,
        with_error,
    )
    from asktell.finished import FinishedTable
    from asktell.methods.base import AbstractMethod
    from asktell.problem.budget import describe_spending
    from asktell.problem.checks import MOST_EVALUATIONS, check_cost, real, whole
    from asktell.problem.examples.ids import changes
    from asktell.problem.goal_text import parse_goal
    from asktell.problem.goals import Goal
    from asktell.problem.metric_names import is_expense, less_may_be_better
    from asktell.problem.words import in_words, nearest, short, some
    from asktell.proofs.against import UNSEEN_FAILURES, check_margin
    from asktell.proofs.standing import PromptStanding, standing
    from asktell.record import State, apply, decision_of, events
    from asktell.results.difference import wins_and_losses
    from asktell.results.entries import shown_estimates
    from asktell.results.evaluations import Evaluation
    from asktell.results.gate import not_worse
    from asktell.results.streak import describe_streak
    from asktell.running.board import Board, MaxFailures, OnTell, open_board
    from asktell.running.evaluator import (
        Calling,
        Evaluator,
        Outcome,
        attempt,
        details_of,
        goal_scores,
    )
    from asktell.running.loop import outside_of_loops
    from asktell.running.repeats import n_repeats
    from asktell.selector import at_state
    from asktell.studies.abstract import AbstractStudy
    from asktell.studies.edits import besides_definition
    from asktell.studies.leases import Holding
    from asktell.studies.remote import definition
    from asktell.studies.storages import open_storage
    from asktell.studies.study import Attendance, Standing

_HOMES = {
    "_util.chats": ("parts_of",),
    "_util.extras": ("check_extra", "import_extra", "needs_extra"),
    "_util.files": ("check_path", "write_atomically"),
    "_util.forks": ("fresh_after_fork",),
    "_util.log": ("log",),
    "_util.plugins": ("BuiltIn", "Registry"),
    "_util.terminal": (
        "aligned",
        "in_markdown",
        "in_percent",
        "one_line",
        "safe",
        "with_error",
    ),
    "results.gate": ("not_worse",),
    "methods.base": ("AbstractMethod",),
    "problem.budget": ("describe_spending",),
    "problem.words": ("in_words", "nearest", "short", "some"),
    "problem.checks": ("MOST_EVALUATIONS", "check_cost", "real", "whole"),
    "problem.examples.ids": ("changes",),
    "problem.goal_text": ("parse_goal",),
    "problem.goals": ("Goal",),
    "problem.metric_names": ("is_expense", "less_may_be_better"),
    "results.difference": ("wins_and_losses",),
    "results.entries": ("shown_estimates",),
    "results.evaluations": ("Evaluation",),
    "results.streak": ("describe_streak",),
    "running.board": ("Board", "MaxFailures", "OnTell", "open_board"),
    "running.evaluator": (
        "Calling",
        "Evaluator",
        "Outcome",
        "attempt",
        "details_of",
        "goal_scores",
    ),
    "running.loop": ("outside_of_loops",),
    "selector": ("at_state",),
    "finished": ("FinishedTable",),
    "proofs.against": ("UNSEEN_FAILURES", "check_margin"),
    "proofs.standing": ("PromptStanding", "standing"),
    "record": ("State", "apply", "decision_of"),
    "running.repeats": ("n_repeats",),
    "studies.storages": ("open_storage",),
    "studies.abstract": ("AbstractStudy",),
    "studies.edits": ("besides_definition",),
    "studies.leases": ("Holding",),
    "studies.remote": ("definition",),
    "studies.study": ("Attendance", "Standing"),
}
_MODULES = {"events": "asktell.record.events", "reports": "asktell.reports"}
_HOME_OF = {name: f"asktell.{home}" for home, names in _HOMES.items() for name in names}

__all__ = [
    "MOST_EVALUATIONS", "UNSEEN_FAILURES", "AbstractMethod", "AbstractStudy", "Attendance", "Board", "BuiltIn",
    "Calling", "Evaluation", "Evaluator", "FinishedTable", "Goal", "Holding", "MaxFailures", "OnTell", "Outcome",
    "PromptStanding", "Registry", "Standing", "State", "aligned", "apply", "at_state", "attempt",
    "besides_definition", "changes", "check_cost", "check_extra", "check_margin", "check_path", "decision_of",
    "definition", "describe_spending", "describe_streak", "details_of", "events",
    "fresh_after_fork", "goal_scores", "import_extra", "in_markdown", "in_percent", "in_words", "is_expense",
    "less_may_be_better", "log", "n_repeats", "nearest", "needs_extra", "not_worse", "one_line", "open_board",
    "open_storage", "outside_of_loops", "parse_goal", "parts_of", "real", "reports", "safe", "short",
    "shown_estimates", "some", "standing", "whole", "wins_and_losses", "with_error", "write_atomically",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
