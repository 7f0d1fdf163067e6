"""A whole selection as JSON-ready data: an engine with its prompts, its method, its problem and its state."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from asktell.errors import InvalidStateError
from asktell.problem.candidates import Candidates
from asktell.problem.checks import DAMAGED, MalformedError, check_format, own_version
from asktell.problem.formats import checked, items, typed
from asktell.problem.problem import Problem
from asktell.problem.prompts import Prompts
from asktell.problem.words import short, some
from asktell.record.engine import Engine
from asktell.record.fold import Decider
from asktell.record.saved import DEFAULTS, SavedState, dump_problem, load_problem
from asktell.record.state import State

_FORMAT, _VERSION = "asktell.selector", 1
_KEYS = {
    "format",
    "version",
    "asktell",
    "prompts",
    "method",
    "goal",
    "budget",
    "state",
    *DEFAULTS,
}


class SavedMethod(Decider, Protocol):
    """The part of a method that a saved selection is checked with."""

    def check(self, problem: Problem) -> None:
        """Refuse a problem that the method does not support."""

    def most_decisions(self, problem: Problem) -> int | None:
        """The largest number of decisions of a selection that is not finished. None: any number."""


def dump_engine(
    prompts: Prompts, method: Mapping[str, Any], state: State
) -> dict[str, Any]:
    """The data of a selection: the prompts before the first evaluation, the data of the method, and the state."""
    ids = None if isinstance(prompts.ids, range) else list(prompts.ids)
    saved = (
        {"ids": ids, "texts": list(prompts.texts)}
        if prompts.candidates is None
        else prompts.candidates.to_data()
    )
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "asktell": own_version(),
        "prompts": saved,
        "method": method,
        **dump_problem(state.growth.origin),
        "state": SavedState.dump(state),
    }


@checked("The saved selector")
def load_engine(
    data: Mapping[str, Any], load_method: Callable[[object], SavedMethod]
) -> Engine:
    """Load the data of a saved selection.

    Args:
        data: what `dump_engine` returned.
        load_method: returns the method for its data.

    Raises:
        InvalidStateError: the data are malformed, foreign, or of an unknown version.
    """
    check_format("The saved selector", data, _FORMAT, _VERSION)
    if unknown := data.keys() - _KEYS:
        raise InvalidStateError(
            f"The saved selector has the unknown key {some(sorted(map(str, unknown)))}. It states that asktell "
            f"{short(data.get('asktell'))} wrote it, and this is asktell {own_version()}. {DAMAGED}"
        )
    saved = typed("prompts", data.get("prompts"), dict)
    if "factors" in saved:
        prompts = Prompts.of(Candidates.from_data(saved))
    else:
        ids, texts = saved.get("ids"), saved["texts"]
        items("prompts", texts, None if ids is None else len(ids))
        prompts = Prompts.of(
            texts if ids is None else dict(zip(ids, texts, strict=True))
        )
    problem = load_problem(data, prompts)
    method = load_method(data.get("method"))
    method.check(problem)
    state = SavedState.convert(data.get("state")).load(problem)
    most = method.most_decisions(problem)
    if (
        most is not None
        and not (state.finished or state.growth.reopened)
        and len(state.decisions) > most
    ):
        raise MalformedError(
            f"{len(state.decisions)} rounds were decided, but the method has {most}."
        )
    for grown in state.growth.events:
        method.check_growth(grown.event)
    # Refuses ids and texts of added prompts that exist already.
    return Engine(prompts, method, state)
