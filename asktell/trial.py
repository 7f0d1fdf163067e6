"""Prompts and trials, as users name them: plain data that means the same in another process."""

from collections.abc import Sequence
from typing import NamedTuple

from asktell.arguments import short, some
from asktell.errors import InvalidArgumentError


class Trial(NamedTuple):
    """One pull: evaluate `prompt` on the example at index `example` (None: draw one yourself), then tell the scores."""

    id: int
    prompt_id: str | int
    prompt: str
    example: int | None


class Prompts:
    """The K prompts of a selection, by arm: their ids (None: their positions) and their texts."""

    def __init__(self, ids: Sequence[str] | None, texts: Sequence[str]) -> None:
        self.ids: Sequence[str | int] = range(len(texts)) if ids is None else ids
        self.texts = texts
        self._by_name: tuple[dict[str | int, int], ...] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def trial(self, id_: int, arm: int, example: int | None) -> Trial:
        """A pull of an arm, as it is handed out."""
        return Trial(id_, self.ids[arm], self.texts[arm], example)

    def arm(self, prompt: object, what: str = "") -> int:
        """The arm of a prompt's id or text; `what` it is said to be, for the error's message.

        Raises:
            InvalidArgumentError: there is none, or it is the id of one prompt and the text of another.
        """
        arm = self.find(prompt)
        if arm is None:
            raise InvalidArgumentError(what + self.unknown(prompt))
        return arm

    def find(self, prompt: object) -> int | None:
        """The arm of a prompt's id or text, None if there is none.

        Raises:
            InvalidArgumentError: it is the id of one prompt and the text of another.
        """
        if not isinstance(prompt, (str, int)) or isinstance(prompt, bool):
            return None
        if self._by_name is None:
            names: tuple[Sequence[str | int], Sequence[str | int]] = (self.ids, self.texts)
            self._by_name = tuple({name: arm for arm, name in enumerate(of_all)} for of_all in names)
        by_id, by_text = (index.get(prompt) for index in self._by_name)
        if by_id is not None and by_text is not None and by_id != by_text:
            raise InvalidArgumentError(
                f"{short(prompt)} is the id of the prompt {short(self.texts[by_id])} and the text of the prompt with "
                f"the id {short(self.ids[by_text])}. Say which: name the one by its text, or the other by its id."
            )
        return by_text if by_id is None else by_id

    def unknown(self, prompt: object) -> str:
        """What to say of a prompt that is none of these."""
        return f"There is no prompt {short(prompt)}. Name one by its text, or its id: {some(list(self.ids))}."
