"""The answers of a batch: read line by line, scored, and told to a study."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, final

from asktell import ConflictingTellError, EvaluatorError, StorageError, Trial, UnknownTrialError
from asktell.extend import AbstractStudy, details_of, goal_scores, short
from asktell_adapters.cache import CachedLLM
from asktell_adapters.evaluators.llm import AsyncLLMEvaluator, LLMEvaluator, asked_of
from asktell_adapters.llms.base import Completion, CompletionError
from asktell_adapters.llms.openai import OpenAIChat

_NOT_REACHED = ("batch_expired", "batch_cancelled")


@final
@dataclass
class Collected:
    """The outcome of one call of `collect`.

    Attributes:
        told: evaluations whose scores were told.
        failed: evaluations that failed, each with its reason in the study.
        released: trials released, to be asked again.
        cost: of what was told or failed.
        running: batches that have not ended, with their progress.
        ended: batches whose answers were taken now, with how they ended.
        problems: of whole batches, in words.
        unsettled: trials of a submission that is under way, or was broken off a short while ago.
        passed_over: answers to what was not, or is no longer, to be answered.
        duplicates: further answers to the same request; the first one counts.
        malformed: lines that could not be read.
    """

    told: int = 0
    failed: int = 0
    released: int = 0
    cost: float = 0.0
    running: dict[str, str] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    unsettled: int = 0
    passed_over: int = 0
    duplicates: int = 0
    malformed: int = 0

    def __str__(self) -> str:
        lines = [f"{self.told} told, {self.failed} failed, {self.released} released, cost {self.cost:g}"]
        lines += [f"{id_}: {how}" for id_, how in (*self.ended.items(), *self.running.items())]
        lines += self.problems
        counts = {
            "trials of a submission that is under way or was broken off": self.unsettled,
            "answers that nothing waits for": self.passed_over,
            "answers that came twice": self.duplicates,
            "lines that cannot be read": self.malformed,
        }
        return "\n".join(lines + [f"{count} {what}" for what, count in counts.items() if count])


def read_answers(files: Iterable[bytes], collected: Collected) -> dict[str, dict[str, Any]]:
    """The lines of a batch's files, by `custom_id`."""
    found: dict[str, dict[str, Any]] = {}
    for text in (line for data in files for line in data.splitlines() if line.strip()):
        try:
            line = json.loads(text)
            id_ = line["custom_id"]
            if not isinstance(id_, str):
                raise TypeError("custom_id is no text")
        except (ValueError, KeyError, TypeError, RecursionError):
            collected.malformed += 1
            continue
        collected.duplicates += id_ in found
        found.setdefault(id_, line)
    return found


@final
class Taker:
    """Brings a batch's trials to their ends, as `asktell.run` would."""

    def __init__(
        self,
        study: AbstractStudy,
        worker: str,
        evaluator: LLMEvaluator | AsyncLLMEvaluator,
        llm: OpenAIChat,
        paid: float,
        collected: Collected,
    ) -> None:
        self._study = study
        self._worker = worker
        self._evaluator = evaluator
        self._llm = llm
        self._paid = paid
        self._collected = collected

    def take(self, trial: Trial, line: dict[str, Any], batch: str) -> None:
        """Tell the scores of an answer, or count its failure."""
        try:
            body = _body(line, f"{self._llm.name}, in {batch},")
            if body is None:
                self._release(trial)
                return
            completion = self._llm.api.completion(body, self._llm.name, paid=self._paid)
        except CompletionError as error:
            self._fail(trial, error, error.cost)
            return
        if isinstance(answers := self._evaluator.answers, CachedLLM):
            request = self._evaluator.request(asked_of(trial), trial.example, self._study.repeat_of(trial))
            answers.keep([answers.key(request)], [completion])
        self.tell(trial, completion)

    def tell(self, trial: Trial, completion: Completion) -> None:
        """Tell the scores of a completion; a metric that fails is the trial's failure."""
        cost = completion.cost if self._llm.api.price and not completion.from_cache else None
        try:
            scores = self._evaluator.scores(
                completion, trial.example, self._study.repeat_of(trial), prompt=asked_of(trial)
            )
            if cost is not None:
                scores.setdefault("cost", cost)
            vector, cost = goal_scores(self._study, scores)
            details = {"output": completion.text, **(details_of(self._study, scores) or {})}
            if self._study.tell(trial, vector, cost, worker=self._worker, details=details):
                self._collected.told += 1
                self._collected.cost += cost or 0.0
            else:
                self._collected.passed_over += 1
        except StorageError:
            raise
        except (ConflictingTellError, UnknownTrialError):
            self._collected.passed_over += 1  # another process collects, too
        except Exception as error:
            self._fail(trial, error, getattr(error, "cost", cost))  # with that of judges

    def leave(self, trial: Trial, batch: str, status: str) -> None:
        """End a trial of which the batch's files say nothing."""
        if status == "completed":
            self._fail(trial, EvaluatorError(f"{batch} was completed without an answer to it"), None)
        else:
            self._release(trial)

    def _release(self, trial: Trial) -> None:
        self._collected.released += self._in_time(lambda: self._study.release(trial, worker=self._worker))

    def _fail(self, trial: Trial, error: Exception, cost: float | None) -> None:
        if isinstance(error, CompletionError):
            error = CompletionError(self._llm.redact(str(error)), cost=error.cost)
        if self._in_time(lambda: self._study.fail(trial, error, cost, worker=self._worker)):
            self._collected.failed += 1
            self._collected.cost += cost or 0.0

    def _in_time(self, operation: Any) -> bool:
        try:
            return bool(operation())
        except UnknownTrialError:  # another process was faster
            return False


def _body(line: dict[str, Any], source: str) -> dict[str, Any] | None:
    """The completion's JSON; None if the request was not reached."""
    error = line.get("error")
    if isinstance(error, dict):
        if error.get("code") in _NOT_REACHED:
            return None
        raise CompletionError(f"{source} failed: {short(error.get('code'))}: {str(error.get('message'))[:200]}")
    response = line.get("response")
    body = response.get("body") if isinstance(response, dict) else None
    if not isinstance(response, dict) or not isinstance(body, dict):
        raise CompletionError(f"{source} sent a malformed line: {str(line)[:200]}")
    if response.get("status_code") != 200:
        said = body.get("error")
        message = said.get("message") if isinstance(said, dict) else said
        raise CompletionError(f"{source} failed: status {short(response.get('status_code'))}: {str(message)[:200]}")
    return body
