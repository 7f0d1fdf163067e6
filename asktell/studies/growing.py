"""How a study goes on, or not for now: prompts join or are retired, money and examples are added, it is paused."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy.typing as npt

from asktell.problem.candidates import AnyPrompt
from asktell.studies.leases import Paused, Resumed
from asktell.studies.reading import Readable


class Growable(Readable):
    """The part of a study by which it goes on. Each of these is one transaction, and on the disk when it returns.

    A `key` names the request, so that whoever does not know whether it arrived may send it again.
    """

    def add(
        self,
        prompts: Sequence[str] | Mapping[str, str],
        features: npt.ArrayLike | Literal["text"] | None = None,
        *,
        key: str | None = None,
    ) -> list[str | int]:
        """Let prompts join; their ids, in the order given. See `Selector.add`.

        Of several processes that add the same text one does, and the others are refused, with its id.

        Raises:
            InvalidArgumentError: a text or an id is there already, the features are missing or have another width, or
                an argument cannot be used. Nothing has changed.
            IncompatibleMethodError: the method has planned its rounds; "auto" and `Race` take newcomers.
            StorageError: the storage cannot be used.
        """
        with self._replica.writing(durable=True) as (logged, _):
            return logged.selector.add(prompts, features, key=key)

    def retire(self, prompt: AnyPrompt, reason: str | BaseException, *, key: str | None = None) -> None:
        """Take a prompt out; see `Selector.retire`. Who holds trials of it may tell them.

        Raises:
            InvalidArgumentError: the prompt is unknown or ambiguous, the baseline, or retired already; or the reason
                is neither text nor an exception.
            StorageError: the storage cannot be used.
        """
        with self._replica.writing(durable=True) as (logged, _):
            logged.selector.retire(prompt, reason, key=key)

    def extend(
        self,
        evaluations: int | None = None,
        cost: float | None = None,
        examples: int | Sequence[str] | None = None,
        *,
        key: str | None = None,
    ) -> None:
        """More budget, or more examples; see `Selector.extend`.

        Raises:
            InvalidArgumentError: a number is not above 0, none is given, or what it extends has no limit.
            IncompatibleMethodError: the method has planned its rounds; "auto" and `Race` go on.
            StorageError: the storage cannot be used.
        """
        with self._replica.writing(durable=True) as (logged, _):
            logged.selector.extend(evaluations, cost, examples, key=key)

    def pause(self) -> None:
        """Hand nothing out until `resume`, by whichever process that asks; a study that is paused already stays so.

        Trials that are out stay with who holds them, and their scores are taken. Workers wait, rather than end. What
        a worker held when it was restarted it gets back after the pause, if its lease has not run out by then.

        Raises:
            StorageError: the storage cannot be used.
        """
        with self._replica.writing(durable=True) as (logged, clock):
            if logged.leases.paused is None:
                logged.note(Paused(round(clock(), 3)))

    def resume(self) -> None:
        """Hand trials out again; a study that is not paused goes on as it is.

        Raises:
            StorageError: the storage cannot be used.
        """
        with self._replica.writing(durable=True) as (logged, _):
            if logged.leases.paused is not None:
                logged.note(Resumed())
