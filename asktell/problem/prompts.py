"""The prompts of a selection, and the ways to name one."""

import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

from asktell.errors import InvalidArgumentError
from asktell.problem.candidates import Candidates
from asktell.problem.checks import check_prompts, plain
from asktell.problem.trials import Trial
from asktell.problem.words import short, some

_POSITION = re.compile("0|[1-9][0-9]{0,15}")


class Identified(Protocol):
    """An object with the id of a prompt, such as an entry of a result."""

    @property
    def id(self) -> str | int:
        """The prompt's id."""


AnyPrompt: TypeAlias = str | int | Trial | Identified
"""A prompt by its id or text, by a trial of the prompt, or by its entry of a result. The last two are unambiguous."""


class ById(NamedTuple):
    """A prompt by its id, for ids that may be the text of another prompt."""

    id: str | int


class Prompts:
    """The K prompts of a selection, by arm.

    Args:
        ids: The ids of the prompts. None: their positions.
        texts: Their texts.
        candidates: The candidates, if the selection is among candidates with factors.
    """

    def __init__(
        self,
        ids: Sequence[str] | None,
        texts: Sequence[str],
        candidates: Candidates | None = None,
    ) -> None:
        self.ids: Sequence[str | int] = range(len(texts)) if ids is None else ids
        self.texts = texts
        self.candidates = candidates
        self._by_id: dict[str | int, int] | None = None
        self._by_text: dict[str, list[int]] | None = None

    @classmethod
    def of(cls, given: object) -> "Prompts":
        """The prompts of an argument: texts, a mapping from id to text, or candidates."""
        if isinstance(given, Candidates):
            return cls(given.ids, given.texts, given)
        return cls(*check_prompts(given))

    def __len__(self) -> int:
        return len(self.texts)

    def part(self, arms: Sequence[int]) -> "Prompts":
        """The prompts of these arms."""
        if self.candidates is not None:
            return Prompts.of(self.candidates.part(arms))
        ids = (
            None
            if isinstance(self.ids, range)
            else [str(self.ids[arm]) for arm in arms]
        )
        return Prompts(ids, [self.texts[arm] for arm in arms])

    def joined(self, more: "Prompts") -> "Prompts":
        """The prompts, followed by more prompts."""
        if self.candidates is not None and more.candidates is not None:
            return Prompts.of(self.candidates.joined(more.candidates))
        if (self.candidates is None) != (more.candidates is None):
            there, came = (
                ("asktell.Candidates", "texts")
                if more.candidates is None
                else ("texts", "asktell.Candidates")
            )
            raise InvalidArgumentError(
                f"add() got {came}, but the existing prompts are {there}. Nothing was added. Pass {there}."
            )
        is_named = not isinstance(more.ids, range)
        if is_named == isinstance(self.ids, range):
            raise InvalidArgumentError(
                "add() got prompts with ids, but the ids of the existing prompts are their positions. Use "
                "add([text, ...])."
                if is_named
                else "add() got texts without ids, but the existing prompts have ids. Use add({id: text, ...})."
            )
        check_prompts(
            dict(zip(more.ids, more.texts, strict=True))
            if is_named
            else list(more.texts)
        )
        if len(set(more.ids)) < len(more):
            raise InvalidArgumentError(
                f"Two of the new prompts have the same id: {some(sorted(map(str, more.ids)))}. Give each prompt "
                "its own id."
            )
        for id_, text in zip(more.ids, more.texts, strict=True):
            if (arm := self.with_text(text)) is not None:
                raise InvalidArgumentError(
                    f"The prompt {short(text)} exists already, with the id {short(self.ids[arm])}. Nothing was added. "
                    "Leave this prompt out."
                )
            if is_named and (arm := self.with_id(id_)) is not None:
                raise InvalidArgumentError(
                    f"The id {short(id_)} belongs to {short(self.texts[arm])} already. Nothing was added. Choose "
                    "another id."
                )
        names = [str(id_) for id_ in (*self.ids, *more.ids)] if is_named else None
        return Prompts(names, [*self.texts, *more.texts])

    def trial(self, id_: int, arm: int, example: int | None) -> Trial:
        """The trial for a pull of an arm."""
        candidate = None if self.candidates is None else self.candidates[arm]
        return Trial(id_, self.ids[arm], self.texts[arm], example, candidate)

    def arm(self, prompt: object, what: str = "") -> int:
        """The arm of a prompt (`AnyPrompt`). `what` begins the error message for an unknown prompt."""
        arm = self.find(prompt)
        if arm is None:
            raise InvalidArgumentError(what + self.unknown(prompt))
        return arm

    def find(self, prompt: object) -> int | None:
        """The arm of a prompt (`AnyPrompt`), None if it is unknown. A position may be text, as on a command line."""
        prompt = id_ = plain(prompt)
        if not isinstance(prompt, str | int):
            id_ = (
                prompt.prompt_id
                if isinstance(prompt, Trial)
                else getattr(prompt, "id", None)
            )
        positional = (
            isinstance(self.ids, range)
            and isinstance(id_, str)
            and _POSITION.fullmatch(id_)
        )
        by_id = self.with_id(int(str(id_)) if positional else id_)
        by_text = self.with_text(prompt) if isinstance(prompt, str) else None
        if by_id is not None and by_text is not None and by_id != by_text:
            raise InvalidArgumentError(
                f"{short(prompt)} is ambiguous. It is the id of one prompt (its text is {short(self.texts[by_id])}), "
                f"and the text of another prompt (its id is {short(self.ids[by_text])}). Pass an entry of "
                "result().prompts, or a trial."
            )
        return by_text if by_id is None else by_id

    def texted(self, text: str) -> ById | None:
        """The prompt with this text, even if the text is the id of another prompt. None if there is none."""
        arm = self.with_text(text)
        return None if arm is None else ById(self.ids[arm])

    def with_id(self, id_: object) -> int | None:
        """The arm of the prompt with this id, None if there is none."""
        id_ = plain(id_)
        if isinstance(id_, bool) or not isinstance(id_, str | int):
            return None
        if self._by_id is None:
            self._by_id = {id_: arm for arm, id_ in enumerate(self.ids)}
        return self._by_id.get(id_)

    def with_text(self, text: str) -> int | None:
        """The arm of the prompt with this text, None if there is none."""
        if self._by_text is None:
            self._by_text = {}
            for arm, prompt in enumerate(self.texts):
                self._by_text.setdefault(prompt, []).append(arm)
        arms = self._by_text.get(text, ())
        if len(arms) > 1:
            raise InvalidArgumentError(
                f"{short(text)} is the text of {len(arms)} candidates. Name one of them by its id: "
                f"{some([self.ids[arm] for arm in arms])}."
            )
        return arms[0] if arms else None

    def unknown(self, prompt: object) -> str:
        """The error message for an unknown prompt."""
        ids = some(list(self.ids))
        return f"There is no prompt {short(prompt)}. Pass the text or the id of one of the prompts. The ids are {ids}."
