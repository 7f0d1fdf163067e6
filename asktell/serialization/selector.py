"""A whole selector as data: prompts, method, problem and state."""

from collections.abc import Mapping
from typing import Any

from asktell._util.extras import own_version
from asktell.errors import InvalidStateError
from asktell.methods import Elimination, Method, check_method
from asktell.problem.candidates import Prompts
from asktell.problem.checks import check_prompts, short
from asktell.serialization import fields
from asktell.serialization.methods import dump_part, load_part
from asktell.serialization.problem import dump_problem, load_problem
from asktell.serialization.state import dump_state, load_state
from asktell.state import State
from asktell.state.growth import prompts_after

FORMAT = "asktell.selector"
VERSION = 1


def dump_selector(prompts: Prompts, method: Method, state: State) -> dict[str, Any]:
    """A selector as data; `prompts` and everything beside the state as they were before the first pull."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "asktell": own_version(),
        "prompts": {"ids": None if isinstance(prompts.ids, range) else list(prompts.ids), "texts": list(prompts.texts)},
        "method": dump_part(method),
        **dump_problem(state.origin),
        "state": dump_state(state),
    }


def load_selector(data: Mapping[str, Any], method: Method | None = None) -> tuple[Prompts, Method, State]:
    """What `dump_selector` made `data` of, the prompts as before the first pull.

    `method` stands in for one that a file cannot hold.

    Raises:
        InvalidStateError: the data are malformed, foreign, or of an unknown version.
    """
    fields.mapping("The saved selector", data)
    if data.get("format") != FORMAT:
        raise InvalidStateError(f"This is not a saved asktell selector: its format is {short(data.get('format'))}.")
    if data.get("version") != VERSION:
        raise InvalidStateError(
            f"The saved selector has version {short(data.get('version'))}, this asktell reads {VERSION}. "
            f"It was written by asktell {short(data.get('asktell'))}: use that version or a newer one."
        )
    return fields.checked("The saved selector", lambda: _load(data, method))


def _load(data: Mapping[str, Any], method: Method | None) -> tuple[Prompts, Method, State]:
    prompts = data.get("prompts")
    if not isinstance(prompts, dict):
        raise InvalidStateError("The saved selector has no prompts.")
    ids, texts = prompts.get("ids"), prompts.get("texts")
    if not isinstance(texts, list) or not (ids is None or (isinstance(ids, list) and len(ids) == len(texts))):
        raise InvalidStateError("The saved prompts must be a list of texts, and of as many ids or none.")
    ids, texts = check_prompts(texts if ids is None else dict(zip(ids, texts, strict=True)))
    problem = load_problem(data, len(texts))
    if method is None:
        method = load_part(data.get("method"))
    if not isinstance(method, Method):
        raise InvalidStateError(f"The saved method must be an Elimination, Adaptive or Race, got {short(method)}.")
    method.check(problem)
    state = load_state(data.get("state"), problem)
    rounds = method.rounds(problem) if isinstance(method, Elimination) else None
    if rounds is not None and not (state.finished or state.reopened) and len(state.decisions) > len(rounds):
        raise InvalidStateError(f"{len(state.decisions)} rounds were decided, but the method has {len(rounds)}.")
    named = Prompts(ids, texts)
    all_named = named
    for each in state.growth:
        check_method(method, each.event)
        all_named = prompts_after(all_named, each.event)
    return named, method, state
