"""Prompts and trials, as users name them: plain data that means the same in another process."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from asktell.errors import InvalidArgumentError, TellManyError
from asktell.problem.checks import check_prompts, short, some

_POSITION = re.compile("0|[1-9][0-9]{0,15}")


class Trial(NamedTuple):
    """One pull: evaluate `prompt` on the example at index `example` (None: draw one yourself), then tell the scores."""

    id: int
    prompt_id: str | int
    prompt: str
    example: int | None


class Identified(Protocol):
    """Anything with a prompt's id, such as an entry of a result."""

    @property
    def id(self) -> str | int:
        """The prompt's id."""


AnyPrompt: TypeAlias = str | int | Trial | Identified
"""A prompt by its id or text; or by a trial of it or an entry of a result, which mean one prompt whatever its id is."""


class ById(NamedTuple):
    """A prompt by its id, where the bare id may be the text of another prompt."""

    id: str | int


class Tell(NamedTuple):
    """One entry of `tell_many`; a tuple `(trial, scores)` works too."""

    trial: Any
    scores: Any
    cost: float | None = None
    details: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, item: object) -> "Tell":
        """One of the items of `tell_many`.

        Raises:
            InvalidArgumentError: it is none.
        """
        if isinstance(item, Trial) or not isinstance(item, tuple | list) or not 2 <= len(item) <= 4:
            raise InvalidArgumentError(
                f"tell_many() takes tuples (trial, scores), (trial, scores, cost) or (trial, scores, cost, details); "
                f"got {short(item)}."
            )
        return cls(*item)


def all_taken(outcomes: Sequence[bool | Exception]) -> list[bool]:
    """What became of a batch of scores, if none was refused.

    Raises:
        TellManyError: some were.
    """
    refused = [(i, outcome) for i, outcome in enumerate(outcomes) if isinstance(outcome, Exception)]
    if not refused:
        return [bool(outcome) for outcome in outcomes]
    shown = "; ".join(f"number {i}: {type(error).__name__}: {error}" for i, error in refused[:3])
    more = f"; and {len(refused) - 3} more" if len(refused) > 3 else ""
    raise TellManyError(
        f"{len(refused)} of {len(outcomes)} scores were refused, counted from 0: {shown}{more}. The others are settled "
        "and need not be told again; `outcomes` of this error says of each what became of it.",
        outcomes,
    ) from refused[0][1]


class Prompts:
    """The K prompts of a selection, by arm: their ids (None: their positions) and their texts."""

    def __init__(self, ids: Sequence[str] | None, texts: Sequence[str]) -> None:
        self.ids: Sequence[str | int] = range(len(texts)) if ids is None else ids
        self.texts = texts
        self._by_id: dict[str | int, int] | None = None
        self._by_text: dict[str, int] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def joined(self, ids: Sequence[str] | None, texts: Sequence[str]) -> "Prompts":
        """The prompts with more of them behind; `ids` None: their positions.

        Raises:
            InvalidArgumentError: a text or an id is there already, or there are ids where there were none, or none.
        """
        if (ids is None) != isinstance(self.ids, range):
            raise InvalidArgumentError(
                "add() got prompts with ids of their own, but those that are there are named by their positions: "
                "add([text, ...])."
                if ids is not None
                else "add() got texts alone, but the prompts that are there have ids: add({id: text, ...})."
            )
        check_prompts(list(texts) if ids is None else dict(zip(ids, texts, strict=True)))
        if ids is not None and len(set(ids)) < len(ids):
            raise InvalidArgumentError(f"Prompts that join have an id twice: {some(sorted(ids))}.")
        for id_, text in zip(ids or texts, texts, strict=True):
            if (arm := self.with_text(text)) is not None:
                raise InvalidArgumentError(
                    f"The prompt {short(text)} is there already, with the id {short(self.ids[arm])}. Nothing was added."
                )
            if ids is not None and (arm := self.with_id(id_)) is not None:
                raise InvalidArgumentError(
                    f"The id {short(id_)} is that of {short(self.texts[arm])} already. Nothing was added: choose "
                    "another."
                )
        names = None if ids is None else [*(str(id_) for id_ in self.ids), *ids]
        return Prompts(names, [*self.texts, *texts])

    def trial(self, id_: int, arm: int, example: int | None) -> Trial:
        """A pull of an arm, as it is handed out."""
        return Trial(id_, self.ids[arm], self.texts[arm], example)

    def arm(self, prompt: object, what: str = "") -> int:
        """The arm of a prompt as a caller names it; `what` it is said to be, for the error's message.

        Raises:
            InvalidArgumentError: there is none, or it is the id of one prompt and the text of another.
        """
        arm = self.find(prompt)
        if arm is None:
            raise InvalidArgumentError(what + self.unknown(prompt))
        return arm

    def find(self, prompt: object) -> int | None:
        """The arm of a prompt as a caller names it (`AnyPrompt`), None if there is none.

        An id that is a position may be given as text, as a command line and an address have it.

        Raises:
            InvalidArgumentError: it is the id of one prompt and the text of another.
        """
        id_: object = prompt
        if not isinstance(prompt, str | int):
            id_ = prompt.prompt_id if isinstance(prompt, Trial) else getattr(prompt, "id", None)
        positional = isinstance(self.ids, range) and isinstance(id_, str) and _POSITION.fullmatch(id_)
        by_id = self.with_id(int(str(id_)) if positional else id_)
        by_text = self.with_text(prompt) if isinstance(prompt, str) else None
        if by_id is not None and by_text is not None and by_id != by_text:
            raise InvalidArgumentError(
                f"{short(prompt)} is the id of the prompt {short(self.texts[by_id])} and the text of the prompt with "
                f"the id {short(self.ids[by_text])}. Say which: pass its entry of result().prompts, or a trial of it."
            )
        return by_text if by_id is None else by_id

    def texted(self, text: str) -> ById | None:
        """The prompt with this text, whatever the ids are; None if there is none."""
        arm = self.with_text(text)
        return None if arm is None else ById(self.ids[arm])

    def with_id(self, id_: object) -> int | None:
        """The arm of the prompt with this id, None if there is none."""
        if isinstance(id_, bool) or not isinstance(id_, str | int):
            return None
        if self._by_id is None:
            self._by_id = {id_: arm for arm, id_ in enumerate(self.ids)}
        return self._by_id.get(id_)

    def with_text(self, text: str) -> int | None:
        """The arm of the prompt with this text, None if there is none."""
        if self._by_text is None:
            self._by_text = {text: arm for arm, text in enumerate(self.texts)}
        return self._by_text.get(text)

    def unknown(self, prompt: object) -> str:
        """The error message for an unknown prompt."""
        return f"There is no prompt {short(prompt)}. Name one by its text, or its id: {some(list(self.ids))}."
