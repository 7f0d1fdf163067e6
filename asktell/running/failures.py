"""When nothing but failures comes, the cause is not the prompts: a run stops then, and counts them against none."""

from typing import NamedTuple

from asktell.arguments import short, whole
from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell.running.outcomes import Outcome
from asktell.selector import Selector
from asktell.trial import Trial

_FIRST = 3  # failures without any success, after which a worker among others is not believed


class FailureLimit(NamedTuple):
    """How many failures in a row end a run, and of how many prompts.

    A prompt or an example that cannot be evaluated is no reason to stop: failures of many prompts in a row are. Where
    `prompts` is more than 1, a selection that only failures would bring to its end is stopped before, too.
    """

    in_a_row: int
    prompts: int = 1
    cure: str = "mend the cause and call run() again"

    @classmethod
    def of(cls, given: "FailureLimit | int | None") -> "FailureLimit | None":
        """A limit, or the number of failures.

        Raises:
            InvalidArgumentError: it is neither.
        """
        if given is None or isinstance(given, FailureLimit):
            return given
        if isinstance(given, tuple):
            raise InvalidArgumentError(f"max_failures_in_a_row must be a number or a FailureLimit, got {short(given)}.")
        return cls(whole("max_failures_in_a_row", given, 1))


class HeldBack(NamedTuple):
    """A failed evaluation that does not count yet."""

    trial: Trial  # with an id below 0 if it was looked ahead to
    outcome: Outcome
    error: BaseException


class Streak:
    """The failures since the last success, held back from the selection until a success shows that others may come."""

    def __init__(self, limit: FailureLimit) -> None:
        self.limit = limit
        self.failures: list[HeldBack] = []
        self._succeeded = False

    def take(self) -> list[HeldBack]:
        """The failures, which are none of the streak's any more."""
        taken, self.failures = self.failures, []
        return taken

    def succeeded(self) -> None:
        """From now on it is known that evaluations can succeed."""
        self._succeeded = True

    def add(self, failure: HeldBack, n_active: int) -> None:
        """Hold one more failure back.

        Raises:
            EvaluatorError: it is one too many.
        """
        self.failures.append(failure)
        if len(self.failures) >= self.limit.in_a_row and len(self.prompts) >= min(self.limit.prompts, n_active):
            raise self._hopeless()

    def end(self, ahead: Selector) -> None:
        """Nothing can be asked any more, even if the failures count, as they do in the selector `ahead`.

        Raises:
            EvaluatorError: they are not to count.
        """
        if self.limit.prompts == 1:  # a bare number is taken at its word
            return
        if ahead.done:
            result = ahead.result()
            failed = {entry.id for entry in result.prompts if entry.status == "failed"}
            hopeless = self.prompts <= failed and (len(self.prompts) > 1 or not result.selected)
        else:  # others have trials out
            hopeless = not self._succeeded and len(self.failures) >= _FIRST
        if hopeless:
            raise self._hopeless()

    @property
    def prompts(self) -> set[str | int]:
        """The prompts whose evaluations failed."""
        return {failure.trial.prompt_id for failure in self.failures}

    def _hopeless(self) -> EvaluatorError:
        last = self.failures[-1].error
        error = EvaluatorError(
            f"{len(self.failures)} evaluations in a row failed, the last one with {type(last).__name__}: {last}. They "
            f"count against no prompt: {self.limit.cure}."
        )
        error.__cause__ = last
        return error
