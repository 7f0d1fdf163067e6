"""How a study in a service goes on, or is paused."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from asktell.problem.candidates import AnyPrompt
from asktell.problem.checks import check_features, check_prompts, check_reason
from asktell.service.sent import named_prompt


class Growable:
    """The part of a study in a service by which it goes on.

    Every request has a key, which is kept with the study: sent again, even after the service was restarted, it is done
    once.
    """

    def _post(self, what: str, **data: object) -> Any:
        raise NotImplementedError

    def add(
        self,
        prompts: Sequence[str] | Mapping[str, str],
        features: npt.ArrayLike | Literal["text"] | None = None,
        *,
        key: str | None = None,
    ) -> list[str | int]:
        """Let prompts join; their ids, in the order given. See `Study.add`."""
        ids, texts = check_prompts(prompts)
        rows: object = features
        if features is not None and not isinstance(features, str):
            rows = check_features(features, len(texts)).tolist()
        named: object = texts if ids is None else dict(zip(ids, texts, strict=True))
        found: list[str | int] = self._post("add", prompts=named, features=rows, key=key or uuid.uuid4().hex)["ids"]
        return found

    def retire(self, prompt: AnyPrompt, reason: str | BaseException, *, key: str | None = None) -> None:
        """Take a prompt out; see `Study.retire`."""
        self._post("retire", prompt=named_prompt(prompt), reason=check_reason(reason), key=key or uuid.uuid4().hex)

    def extend(
        self,
        evaluations: int | None = None,
        cost: float | None = None,
        examples: int | Sequence[str] | None = None,
        *,
        key: str | None = None,
    ) -> None:
        """More budget, or more examples; see `Study.extend`."""
        more = examples if examples is None or isinstance(examples, int | np.integer) else list(examples)
        given = {"evaluations": evaluations, "cost": cost, "examples": more}
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}
        self._post("extend", **plain, key=key or uuid.uuid4().hex)

    def pause(self) -> None:
        """Hand nothing out until `resume`; see `Study.pause`."""
        self._post("pause")

    def resume(self) -> None:
        """Hand trials out again; see `Study.resume`."""
        self._post("resume")
