"""How a selection is copied, saved and loaded."""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, TypeVar

from asktell import serialization
from asktell.errors import NotPicklableError
from asktell.methods import Method
from asktell.problem.candidates import Prompts
from asktell.problem.examples import check_examples
from asktell.state import State

_Self = TypeVar("_Self", bound="Saved")


class Saved:
    """The part of a selector that is JSON text, and comes of it."""

    _lock: AbstractContextManager[Any]
    _method: Method
    _state: State
    _first: Prompts  # those before the first pull

    def _set(self, prompts: Prompts, method: Method, state: State) -> None:
        raise NotImplementedError

    @classmethod
    def from_data(
        cls: type[_Self],
        data: Mapping[str, Any],
        method: Method | None = None,
        examples: int | Sequence[str] | None = None,
    ) -> _Self:
        """The same as `from_json`, from JSON that was parsed already."""
        selector = cls.__new__(cls)
        selector._set(*serialization.load_selector(data, method))
        problem = selector._state.problem
        check_examples("The saved selector", problem.n_examples, problem.examples, examples)
        return selector

    def __copy__(self: _Self) -> _Self:
        with self._lock:
            state = self._state._replace(history=self._state.history.copy())
        copy = type(self).__new__(type(self))
        copy._set(self._first, self._method, state)
        return copy

    def __deepcopy__(self: _Self, memo: dict[int, Any]) -> _Self:
        return self.__copy__()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise NotPicklableError(
            "A selector is not pickled, since loading a pickle runs code. Save selector.to_json(), and load it with "
            "asktell.Selector.from_json(text)."
        )

    def to_json(self) -> str:
        """The whole selector as JSON text; `Selector.from_json` continues it exactly.

        Raises:
            InvalidStateError: the method has parts that are not asktell's own; see `from_json`.
        """
        with self._lock:
            state = self._state
        data = serialization.dump_selector(self._first, self._method, state)
        return json.dumps(data, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(
        cls: type[_Self],
        text: str | bytes,
        method: Method | None = None,
        examples: int | Sequence[str] | None = None,
    ) -> _Self:
        """The selector that `to_json` made `text` of; it goes on as if never interrupted.

        Args:
            text: the saved JSON.
            method: for a method with parts of your own, which a file cannot hold.
            examples: their number or their ids, to be sure that they are the same as then.

        Raises:
            InvalidStateError: the text is malformed, truncated, foreign, or of an unknown version.
            InvalidArgumentError: the examples are others; the message says which.
        """
        return cls.from_data(serialization.parse(text, "The saved selector"), method, examples)
