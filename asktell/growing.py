"""How a selection goes on: prompts join or are retired, money and examples are added."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal

import numpy.typing as npt

from asktell.methods import Method, check_method
from asktell.problem.candidates import AnyPrompt, Prompts
from asktell.problem.examples import numbered
from asktell.state import Added, Event, Extended, Grown, Retired, State, growth
from asktell.state.growth import prompts_after


class Growing:
    """The part of a selector by which the selection goes on."""

    _lock: AbstractContextManager[Any]
    _method: Method
    _state: State
    _first: Prompts  # those before the first pull
    _known: tuple[tuple[Grown, ...], Prompts]  # by how it had grown

    def _take(self, event: Event) -> None:
        raise NotImplementedError

    def _advance_when_told(self) -> None:
        raise NotImplementedError

    @property
    def _prompts(self) -> Prompts:
        """Those of the state, whoever let them join; kept until more of them do."""
        growth = self._state.growth
        known, prompts = self._known
        if known is not growth:
            n = len(known)
            if known != growth[:n]:
                n, prompts = 0, self._first
            for each in growth[n:]:
                prompts = prompts_after(prompts, each.event)
            self._known = growth, prompts
        return prompts

    def add(
        self,
        prompts: Sequence[str] | Mapping[str, str],
        features: npt.ArrayLike | Literal["text"] | None = None,
        *,
        key: str | None = None,
    ) -> list[str | int]:
        """Let prompts join; their ids, in the order given. A selection that was `done` goes on with them.

        The scores of those that are there stay. The new ones first take examples that those have seen, so that they
        compare, and the budget stays what it is: see `extend`.

        Args:
            prompts: as for the selector: texts, where prompts are named by their positions, else a mapping from id to
                text. One that is there already, with this very id and text, is no news.
            features: rows of numbers, as for the selector, where the prompts have features. Those made from texts are
                made of these too, in the basis of the first texts.
            key: a name for this request: sent again under the same name, it does nothing and gives the same ids.
                Another request under that name is refused.

        Raises:
            InvalidArgumentError: a text or an id is there already, the features are missing or have another width, or
                an argument cannot be used. Nothing has changed.
            IncompatibleMethodError: the method has planned its rounds; "auto" and `Race` take newcomers.
        """
        with self._lock:
            known = growth.request(self._state, key, Added)
            if known is not None:
                return growth.ids_again(self._prompts, prompts, *known)
            new, ids = growth.addition(self._state, self._prompts, prompts, features, key)
            if new is not None:
                check_method(self._method, new)
                self._take(new)
            return ids

    def retire(self, prompt: AnyPrompt, reason: str | BaseException, *, key: str | None = None) -> None:
        """Take a prompt out: it is asked for no more, and is no answer. What is out of it may still be told.

        What it was told keeps informing the estimates of the others. If it was in the final answer, the selection goes
        on without it. If nobody else is left, the selection is done, and has no answer but one of those rejected
        earlier.

        Args:
            prompt: its id or text, or its entry of a result.
            reason: for the result.
            key: as for `add`.

        Raises:
            InvalidArgumentError: the prompt is unknown or ambiguous, the baseline, or retired already; or the reason
                is neither text nor an exception.
        """
        with self._lock:
            known = growth.request(self._state, key, Retired)
            if known is not None:
                growth.check_again(key, known[1].arm == self._prompts.arm(prompt))
                return
            self._take(growth.retirement(self._state, self._prompts, prompt, reason, key))
            self._advance_when_told()

    def extend(
        self,
        evaluations: int | None = None,
        cost: float | None = None,
        examples: int | Sequence[str] | None = None,
        *,
        key: str | None = None,
    ) -> None:
        """More budget, or more examples; a selection that was `done` goes on.

        Args:
            evaluations: how many more.
            cost: how much more, where the budget is a cost.
            examples: how many more there are in the data set, or their ids, behind those there were. The truth becomes
                the mean over all of them; what is known of a prompt on the others stays. They are looked at last.
            key: as for `add`.

        Raises:
            InvalidArgumentError: a number is not above 0, none is given, or what it extends has no limit.
            IncompatibleMethodError: the method has planned its rounds; "auto" and `Race` go on.
        """
        with self._lock:
            known = growth.request(self._state, key, Extended)
            if known is not None:
                n_examples, ids = numbered(examples)
                given = evaluations or 0, cost or 0.0, n_examples or 0, None if ids is None else ids.ids
                was = known[1].evaluations, known[1].cost, known[1].examples, known[1].ids
                growth.check_again(key, was == given)
                return
            event = growth.extension(self._state, evaluations, cost, examples, key)
            check_method(self._method, event)
            self._take(event)
