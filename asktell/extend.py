"""The documented names for whoever writes an adapter, a method or a storage; everything else below `asktell` may move.

| to                        | there is                                                                                  |
|---------------------------|-------------------------------------------------------------------------------------------|
| require a package         | `needs_extra(extra)`, a block in which missing packages name the extra to install;        |
|                           | `import_extra(module, extra)`; `check_extra(extra, *modules)`, without importing them     |
| write messages            | `short(value)`, its repr in 60 characters; `some(values)`, the first ones;                |
|                           | `nearest(name, known)`, "did you mean"; `in_words(error)`; `whole(name, number, low)`,    |
|                           | which checks an argument; `describe_spending(selection)`, "12 of 500 evaluations"         |
| write to a terminal       | `safe(text)`, control characters escaped; `one_line(text, width)`; `aligned(rows)`        |
| write files               | `write_atomically(path, text)`: readers see the old or the new content, whole             |
| describe a problem        | `Goal`; `parse_goal(kind, maximize, ...)`, a goal from names; `changes(before, after)` of |
|                           | example ids; `parts_of(prompt)`, the messages and tools of a prompt that is a chat        |
| write a method            | `Method`; `State` and `events`: facts; `apply(state, event)`; `decide(method, state)`;    |
|                           | `not_worse(state, candidate, baseline, ...)`, what is certain by now                      |
| evaluate                  | `Evaluator` and `Outcome`; `Calling`, how an evaluator is called; `attempt(call)`, its    |
|                           | result or its failure; `outside_of_loops(call)`, in a thread if an event loop runs;       |
|                           | `n_repeats(spent)`, evaluations that a run repeats to see whether they agree              |
| drive evaluators yourself | `open_board(...)` gives a `Board`: ask for trials, take their outcomes; `OnTell`;         |
|                           | `FailureLimit`, when failures end the run, by default as `FIRST_ALIKE` says               |
| work on a study           | `SharedStudy`, what a `Study` and a `RemoteStudy` have in common; `Worker`; `Evaluation`  |
| show a study              | `reports`, its page; `Watch`, who works on it; `serve(arguments)`, the HTTP service       |
| fork                      | `fresh_after_fork(obj, renew)`: new locks in the child                                    |

Errors and everything that users call are in `asktell` itself. Nothing is imported before it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asktell import reports
    from asktell._util.chats import parts_of
    from asktell._util.extras import check_extra, import_extra, needs_extra
    from asktell._util.files import write_atomically
    from asktell._util.forks import fresh_after_fork
    from asktell._util.terminal import aligned, one_line, safe
    from asktell.methods.certainty import not_worse
    from asktell.methods.presets import Method
    from asktell.problem.budget import describe_spending
    from asktell.problem.checks import in_words, nearest, short, some, whole
    from asktell.problem.examples import changes
    from asktell.problem.goals import Goal
    from asktell.results.evaluations import Evaluation
    from asktell.running.again import n_repeats
    from asktell.running.board import Board, OnTell, open_board
    from asktell.running.failures import FIRST_ALIKE, FailureLimit
    from asktell.running.outcomes import Outcome
    from asktell.running.run import Calling, Evaluator, attempt, outside_of_loops
    from asktell.serialization.problem import parse_goal
    from asktell.service.server import serve
    from asktell.state import State, apply, decide, events
    from asktell.studies.watching import Watch
    from asktell.studies.worker import SharedStudy, Worker

_HOMES = {
    "_util.chats": ("parts_of",),
    "_util.extras": ("check_extra", "import_extra", "needs_extra"),
    "_util.files": ("write_atomically",),
    "_util.forks": ("fresh_after_fork",),
    "_util.terminal": ("aligned", "one_line", "safe"),
    "methods.certainty": ("not_worse",),
    "methods.presets": ("Method",),
    "problem.budget": ("describe_spending",),
    "problem.checks": ("in_words", "nearest", "short", "some", "whole"),
    "problem.examples": ("changes",),
    "problem.goals": ("Goal",),
    "results.evaluations": ("Evaluation",),
    "running.again": ("n_repeats",),
    "running.board": ("Board", "OnTell", "open_board"),
    "running.failures": ("FIRST_ALIKE", "FailureLimit"),
    "running.outcomes": ("Outcome",),
    "running.run": ("Calling", "Evaluator", "attempt", "outside_of_loops"),
    "serialization.problem": ("parse_goal",),
    "service.server": ("serve",),
    "state": ("State", "apply", "decide"),
    "studies.watching": ("Watch",),
    "studies.worker": ("SharedStudy", "Worker"),
}
_MODULES = {"events": "asktell.state.events", "reports": "asktell.reports"}
_HOME_OF = {name: f"asktell.{home}" for home, names in _HOMES.items() for name in names}

__all__ = [
    "FIRST_ALIKE",
    "Board",
    "Calling",
    "Evaluation",
    "Evaluator",
    "FailureLimit",
    "Goal",
    "Method",
    "OnTell",
    "Outcome",
    "SharedStudy",
    "State",
    "Watch",
    "Worker",
    "aligned",
    "apply",
    "attempt",
    "changes",
    "check_extra",
    "decide",
    "describe_spending",
    "events",
    "fresh_after_fork",
    "import_extra",
    "in_words",
    "n_repeats",
    "nearest",
    "needs_extra",
    "not_worse",
    "one_line",
    "open_board",
    "outside_of_loops",
    "parse_goal",
    "parts_of",
    "reports",
    "safe",
    "serve",
    "short",
    "some",
    "whole",
    "write_atomically",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
