"""The documented names for whoever writes an adapter, a method or a storage.

Errors and all that users call are in `asktell` itself; every other module may change.
Nothing is imported before use.

Packages
    needs_extra(extra): a block in which a missing package is an error that names the extra to install
    import_extra(module, extra): the same for one module, which is returned
    check_extra(extra, *modules): the same without importing them
Messages
    short(value): its repr in at most 60 characters
    some(values): the first of them, and how many there are
    nearest(name, known): "; did you mean ...?", or nothing
    in_words(error): its type and message
    whole(name, number, low): the number, or an error if it is not a whole number from `low` on
    describe_spending(selection): "12 of 500 evaluations"
Terminals and files
    safe(text): with control characters escaped
    one_line(text, width): cut to a width
    aligned(rows): the lines of a table
    with_error(mean, error): an estimate and its standard error, as readers are shown them
    write_atomically(path, text): readers see the old or the new content, never a part
Problems
    Goal: what is looked for
    MOST_EVALUATIONS: the budget of a selection whose evaluations are not limited
    parse_goal(kind, maximize, ...): a goal from the names of metrics
    changes(before, after): how the ids of examples differ
    parts_of(prompt): the messages and tools of a prompt that is a chat
Methods
    Method, AbstractMethod: how prompts are selected; the base class of a method of your own
    State, events: what is known, and what happened
    apply(state, event), decide(method, state): the next state, and the next decision
    at_state(selector, state): a selector of the same prompts and method in another state
    not_worse(state, candidate, baseline, ...): what is certain by now
    UNSEEN_FAILURES: by how much more often a candidate may fail as long as it has not done so
Finished tables
    FinishedTable: evaluations that were made elsewhere, as columns
    finished_selector(table, goal, ...): a selector that has recorded them and is done
    less_may_be_better(metric): True if the name of a metric suggests that smaller scores are better
Evaluation
    Evaluator, Outcome: what `asktell.run` takes, and what one evaluation returns
    Calling: how an evaluator is called: async or not, in batches or one by one
    attempt(call): its result, or the exception that makes the evaluation a failure
    outside_of_loops(call): in a thread of its own if an event loop is running
    goal_scores(study, outcome), details_of(study, outcome): what to tell of an outcome
    n_repeats(spent): how many evaluations a run on given examples repeats to see whether they agree
    open_board(...), Board: asks for trials and takes their outcomes, for a loop of your own
    OnTell, MaxFailures: types of its options
Studies
    AbstractStudy: what `Study` and `RemoteStudy` have in common
    Evaluation: one row of `study.evaluations()`
    shown_estimates(entries, metric): a metric's name and estimates as readers are shown them
    Standing, Attendance, Holding: how far a study is; who holds its trials, at a moment; one trial that is held
    definition(study): its goal and method as JSON, from which `RemoteStudy` makes them
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
    from asktell._util.files import write_atomically
    from asktell._util.forks import fresh_after_fork
    from asktell._util.terminal import aligned, one_line, safe, with_error
    from asktell.methods.base import AbstractMethod
    from asktell.methods.gate import UNSEEN_FAILURES, not_worse
    from asktell.methods.presets import Method
    from asktell.problem.budget import describe_spending
    from asktell.problem.checks import (
        MOST_EVALUATIONS,
        in_words,
        nearest,
        short,
        some,
        whole,
    )
    from asktell.problem.examples import changes
    from asktell.problem.goals import Goal, less_may_be_better, parse_goal
    from asktell.results.entries import shown_estimates
    from asktell.results.evaluations import Evaluation
    from asktell.running.board import Board, MaxFailures, OnTell, open_board
    from asktell.running.evaluator import (
        Calling,
        Evaluator,
        Outcome,
        attempt,
        details_of,
        goal_scores,
    )
    from asktell.running.run import outside_of_loops
    from asktell.selector import at_state
    from asktell.simulation.analyze import FinishedTable, finished_selector
    from asktell.state import State, apply, decide, events
    from asktell.state.repeats import n_repeats
    from asktell.storages import open_storage
    from asktell.studies.base import AbstractStudy
    from asktell.studies.leases import Holding
    from asktell.studies.remote import definition
    from asktell.studies.study import Attendance, Standing

_HOMES = {
    "_util.chats": ("parts_of",),
    "_util.extras": ("check_extra", "import_extra", "needs_extra"),
    "_util.files": ("write_atomically",),
    "_util.forks": ("fresh_after_fork",),
    "_util.terminal": ("aligned", "one_line", "safe", "with_error"),
    "methods.gate": ("UNSEEN_FAILURES", "not_worse"),
    "methods.base": ("AbstractMethod",),
    "methods.presets": ("Method",),
    "problem.budget": ("describe_spending",),
    "problem.checks": (
        "MOST_EVALUATIONS",
        "in_words",
        "nearest",
        "short",
        "some",
        "whole",
    ),
    "problem.examples": ("changes",),
    "problem.goals": ("Goal", "less_may_be_better", "parse_goal"),
    "results.entries": ("shown_estimates",),
    "results.evaluations": ("Evaluation",),
    "running.board": ("Board", "MaxFailures", "OnTell", "open_board"),
    "running.evaluator": (
        "Calling",
        "Evaluator",
        "Outcome",
        "attempt",
        "details_of",
        "goal_scores",
    ),
    "running.run": ("outside_of_loops",),
    "selector": ("at_state",),
    "simulation.analyze": ("FinishedTable", "finished_selector"),
    "state": ("State", "apply", "decide"),
    "state.repeats": ("n_repeats",),
    "storages": ("open_storage",),
    "studies.base": ("AbstractStudy",),
    "studies.leases": ("Holding",),
    "studies.remote": ("definition",),
    "studies.study": ("Attendance", "Standing"),
}
_MODULES = {"events": "asktell.state.events", "reports": "asktell.reports"}
_HOME_OF = {name: f"asktell.{home}" for home, names in _HOMES.items() for name in names}

__all__ = [
    "MOST_EVALUATIONS", "UNSEEN_FAILURES", "AbstractMethod", "AbstractStudy", "Attendance", "Board", "Calling",
    "Evaluation", "Evaluator", "FinishedTable", "Goal", "Holding", "MaxFailures", "Method", "OnTell", "Outcome",
    "Standing", "State", "aligned", "apply", "at_state", "attempt", "changes", "check_extra", "decide",
    "definition", "describe_spending", "details_of", "events", "finished_selector", "fresh_after_fork",
    "goal_scores", "import_extra", "in_words", "less_may_be_better", "n_repeats", "nearest", "needs_extra",
    "not_worse", "one_line", "open_board", "open_storage", "outside_of_loops", "parse_goal", "parts_of", "reports",
    "safe", "short", "shown_estimates", "some", "whole", "with_error", "write_atomically",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
