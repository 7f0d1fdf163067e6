"""When nothing but failures comes, the cause is not the prompts: a run stops then, and counts them against none."""

from typing import NamedTuple

from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell.problem.candidates import Trial
from asktell.problem.checks import check_reason, in_words, short, whole
from asktell.results.entries import kind_of
from asktell.running.outcomes import Outcome
from asktell.selector import Selector

_FIRST = 3  # failures without any success, or prompts that failed, after which a worker is not believed
_OF_ONE_EXAMPLE = 20  # failures of one example alone, after which it is believed that others fail, too


class FailureLimit(NamedTuple):
    """How many failures in a row end a run, and of how many prompts.

    A prompt or an example that cannot be evaluated is no reason to stop: failures of many prompts in a row are. Where
    `prompts` is more than 1, a selection that only failures would bring to its end is stopped before, too.

    Attributes:
        in_a_row: so many failures at any time; None: any number.
        prompts: of which they must be, or of all that are active.
        cure: what to do, for the message.
        first: so many failures before the first success, if all failed in the same way (apart from names and numbers in
            what they say), at no cost, and are of several prompts and examples; None: any number.
    """

    in_a_row: int | None
    prompts: int = 1
    cure: str = "mend the cause and call run() again"
    first: int | None = None

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


FIRST_ALIKE = FailureLimit(
    None, _FIRST, "mend the cause and call run() again, or count them with max_failures_in_a_row=None", first=6
)
"""What `run` does by default: a wrong key or a wrong signature ends it at once, and later failures never do."""


class HeldBack(NamedTuple):
    """A failed evaluation that does not count yet."""

    trial: Trial  # with an id below 0 if it was looked ahead to
    outcome: Outcome
    error: BaseException
    cost: float | None
    is_logged: bool


class Streak:
    """The failures since the last success, held back from the selection until a success shows that others may come."""

    def __init__(self, limit: FailureLimit) -> None:
        self.limit = limit
        self.failures: list[HeldBack] = []
        self._succeeded = False
        self._kind: str | None = None  # of all failures so far; empty if there are several

    def settle(self, failure: HeldBack) -> None:
        """A failure has been counted, and is not held back any more."""
        self.failures = [other for other in self.failures if other is not failure]

    def succeeded(self) -> None:
        """From now on it is known that evaluations can succeed."""
        self._succeeded = True

    def add(self, failure: HeldBack, n_active: int) -> None:
        """Hold one more failure back.

        Raises:
            EvaluatorError: it is one too many.
        """
        self.failures.append(failure)
        # What was paid for has to count, and got further than a wrong key does.
        kind = "" if failure.cost else kind_of(check_reason(failure.error))
        self._kind = kind if self._kind in (None, kind) else ""
        n, limit = len(self.failures), self.limit
        if limit.in_a_row is not None and n >= limit.in_a_row and len(self.prompts) >= min(limit.prompts, n_active):
            raise self._hopeless(f"{n} evaluations in a row failed, the last one with")
        if len(self.prompts) < min(_FIRST, n_active):
            return
        examples = {held.trial.example for held in self.failures}
        several = len(examples) > 1 or None in examples or n >= _OF_ONE_EXAMPLE
        if limit.first is not None and n >= limit.first and several and self.is_first:
            raise self._hopeless(f"The first {n} evaluations all failed in the same way:")

    @property
    def is_first(self) -> bool:
        """Whether there was no success yet, and all failures are alike and were free."""
        return not self._succeeded and self._kind != ""

    @property
    def is_over(self) -> bool:
        """Whether nothing that comes can end the run any more."""
        return self.limit.in_a_row is None and not self.is_first

    def end(self, ahead: Selector) -> None:
        """Nothing can be asked any more, even if the failures count, as they do in the selector `ahead`.

        Raises:
            EvaluatorError: they are not to count.
        """
        if self.limit.prompts == 1:  # a bare number is taken at its word
            return
        if self.limit.in_a_row is None and len(self.failures) < _FIRST:
            return
        if ahead.done:
            result = ahead.result()
            # The baseline stays, whatever fails.
            failed = {entry.id for entry in result.prompts if entry.status == "failed" or not entry.pulls}
            hopeless = self.prompts <= failed and (len(self.prompts) > 1 or not result.selected)
        else:  # others have trials out
            hopeless = not self._succeeded and len(self.failures) >= _FIRST
        if hopeless:
            raise self._hopeless(f"{len(self.failures)} evaluations in a row failed, the last one with")

    @property
    def prompts(self) -> set[str | int]:
        """The prompts whose evaluations failed."""
        return {failure.trial.prompt_id for failure in self.failures}

    def _hopeless(self, what: str) -> EvaluatorError:
        last = self.failures[-1].error
        error = EvaluatorError(f"{what} {in_words(last).rstrip('.')}. They count against no prompt: {self.limit.cure}.")
        error.__cause__ = last
        return error
