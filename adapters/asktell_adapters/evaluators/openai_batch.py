"""OpenAI's batch API: many evaluations of a study at half the price, submitted now and collected hours later.

No files are kept. The study knows which trials are pending, under a worker's name for each batch. The server knows the
batches, each with the study's and the worker's name in its metadata. An answer's `custom_id` says which trial it is for
and what exactly was asked. Everything else follows from these, on any machine and after any crash:

| a crash                                  | what the next `collect` or `submit` finds and does                        |
|------------------------------------------|---------------------------------------------------------------------------|
| before the trials were asked             | nothing                                                                   |
| after that, before the batch was created | pending trials without a batch: released, once no batch can come any more |
| while it was being created               | the batch, or not: one of the others                                      |
| afterwards                               | the batch and its trials                                                  |
| while scores were told                   | the trials that are still out                                             |
"""

import hashlib
import io
import json
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, final

from asktell import ConflictingTellError, EvaluatorError, InvalidArgumentError, StorageError, Trial, UnknownTrialError
from asktell.extend import AbstractStudy, check_extra, details_of, goal_scores, import_extra, short, whole
from asktell_adapters._scores import positive
from asktell_adapters.cache import CachedLLM
from asktell_adapters.evaluators.llm import AsyncLLMEvaluator, LLMEvaluator, asked_of
from asktell_adapters.llms._remote import MOST_SAID
from asktell_adapters.llms.base import Completion, CompletionError, Request
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
@dataclass(frozen=True)
class Taker:
    """Brings a batch's trials to their ends, as `asktell.run` would."""

    study: AbstractStudy
    worker: str
    evaluator: LLMEvaluator | AsyncLLMEvaluator
    llm: OpenAIChat
    paid: float
    collected: Collected

    def request(self, trial: Trial) -> Request:
        return self.evaluator.request(asked_of(trial), trial.example, self.study.repeat_of(trial))

    def take(self, trial: Trial, line: dict[str, Any], batch: str) -> None:
        """Tell the scores of an answer, or count its failure."""
        try:
            body = _body(line, f"{self.llm.name}, in {batch},")
            if body is None:
                self._release(trial)
                return
            completion = self.llm.api.completion(body, self.llm.name, paid=self.paid)
        except CompletionError as error:
            self._fail(trial, error, error.cost)
            return
        if isinstance(answers := self.evaluator.answers, CachedLLM):
            answers.keep([answers.key(self.request(trial))], [completion])
        self.tell(trial, completion)

    def tell(self, trial: Trial, completion: Completion) -> None:
        """Tell the scores of a completion; a metric that fails is the trial's failure."""
        cost = completion.cost if self.llm.api.price and not completion.from_cache else None
        repeat = self.study.repeat_of(trial)
        try:
            scores = self.evaluator.scores(completion, trial.example, repeat, prompt=asked_of(trial))
            if cost is not None:
                scores.setdefault("cost", cost)
            vector, cost = goal_scores(self.study, scores)
            details = {"output": completion.text, **(details_of(self.study, scores) or {})}
            if self.study.tell(trial, vector, cost, worker=self.worker, details=details):
                self.collected.told += 1
                self.collected.cost += cost or 0.0
            else:
                self.collected.passed_over += 1
        except StorageError:
            raise
        except (ConflictingTellError, UnknownTrialError):
            self.collected.passed_over += 1  # another process collects, too
        except Exception as error:
            self._fail(trial, error, getattr(error, "cost", cost))  # with that of judges

    def leave(self, trial: Trial, batch: str, status: str) -> None:
        """End a trial of which the batch's files say nothing."""
        if status == "completed":
            self._fail(trial, EvaluatorError(f"{batch} was completed without an answer to it"), None)
        else:
            self._release(trial)

    def _release(self, trial: Trial) -> None:
        with suppress(UnknownTrialError):  # another process was faster
            self.collected.released += self.study.release(trial, worker=self.worker)

    def _fail(self, trial: Trial, error: Exception, cost: float | None) -> None:
        if isinstance(error, CompletionError):
            error = CompletionError(self.llm.redact(str(error)), cost=error.cost)
        with suppress(UnknownTrialError):
            if self.study.fail(trial, error, cost, worker=self.worker):
                self.collected.failed += 1
                self.collected.cost += cost or 0.0


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


PREFIX = "openai-batch-"
MOST_REQUESTS, MOST_BYTES = 50_000, 200_000_000  # of one batch, by the API
MOST_ANSWERS = 1_000_000_000  # bytes of a file of answers, for which the API states no limit
_DAYS_KEPT = 35  # the API deletes the answers after 30
_SLACK = 3600.0  # seconds between the server's clock and the study's
_OPEN = ("validating", "in_progress", "finalizing", "cancelling")  # statuses in which answers may still come
_TIME = "%Y%m%dT%H%M%SZ"


@final
class OpenAIBatch:
    """Evaluates a study's trials in batches: `submit` asks and sends, `collect` reads and tells.

    Both may be called from any process, at any time, any number of times.

    Args:
        evaluator: makes a trial's request and scores its answer; its LLM is an `OpenAIChat`.
        lease: seconds for which a batch's trials are kept from other workers, from when it was last looked at.
        paid: times the LLM's price table; a batch costs half.
        settle_after: seconds after which a submission that left no batch is taken for broken off. One that takes
            more than half of that gives up itself.
        timeout: seconds for one call, such as the upload of a file.
        most_requests: of one batch; further ones go into another.
        most_bytes: likewise.
        most_answer_bytes: of a file of answers; a longer one is a problem of its batch, and not read.
    """

    def __init__(
        self,
        evaluator: LLMEvaluator | AsyncLLMEvaluator,
        *,
        lease: float = 7 * 86400.0,
        paid: float = 0.5,
        settle_after: float = 3600.0,
        timeout: float = 600.0,
        most_requests: int = MOST_REQUESTS,
        most_bytes: int = MOST_BYTES,
        most_answer_bytes: int = MOST_ANSWERS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        llm = getattr(evaluator, "llm", None)
        if not isinstance(llm, OpenAIChat):
            raise InvalidArgumentError(f"OpenAIBatch needs an evaluator of an OpenAIChat, got one of {llm!r:.60}.")
        check_extra("openai", "openai")
        self.evaluator = evaluator
        self.lease = positive("lease", lease)
        self.settle_after = positive("settle_after", settle_after)
        self.timeout = positive("timeout", timeout)
        self.most_requests = int(positive("most_requests", most_requests))
        self.most_bytes = positive("most_bytes", most_bytes)
        self.most_answer_bytes = positive("most_answer_bytes", most_answer_bytes)
        self._llm = llm
        self._paid = paid
        self._clock = clock

    def submit(self, study: AbstractStudy, n: int) -> list[str]:
        """Ask for up to n trials and send them; the ids of the new batches.

        What the evaluator's cache knows is told at once. There are fewer trials, or none, when the study's budget is
        given out, or when it waits for scores before it can go on. What the API refuses for good is released.

        Raises:
            EvaluatorError: the API is out of reach, or refused. Batches that were created before stay.
            StorageError: the study's storage cannot be used.
        """
        left = whole("n", n, 1)
        created: list[str] = []
        with self._client() as client:
            self._look_after(study, self._batches(client, study), Collected())
            while left > 0:
                worker = f"{PREFIX}{datetime.fromtimestamp(self._clock(), UTC):{_TIME}}-{uuid.uuid4().hex[:8]}"
                trials = study.ask(min(left, self.most_requests), worker=worker, lease=self.lease, besides=())
                if not trials:
                    break
                sent, lines, kept = self._lines(study, worker, self._tell_known(study, worker, trials))
                for trial in kept:
                    study.release(trial, worker=worker)
                left -= len(trials) - len(kept)
                if lines:
                    created.append(self._create(client, study, worker, sent, b"".join(lines)))
        return created

    def collect(self, study: AbstractStudy) -> Collected:
        """Tell what has come, and say how things stand.

        An answer is told or fails as in `asktell.run`. A request that was not reached, since its batch expired, was
        cancelled or refused, is released: it cost nothing.

        Raises:
            EvaluatorError: the API is out of reach, or refused.
            StorageError: the study's storage cannot be used; call again.
        """
        collected = Collected()
        with self._client() as client:
            batches = self._batches(client, study)
            self._look_after(study, batches, collected)
            for batch in batches:
                if batch.status not in _OPEN:
                    self._take(study, batch, collected)
        return collected

    # Submitting

    def _lines(
        self, study: AbstractStudy, worker: str, trials: Sequence[Trial]
    ) -> tuple[list[Trial], list[bytes], list[Trial]]:
        """Trials that fit into one batch, their lines of its input, and trials that do not fit."""
        sent: list[Trial] = []
        lines: list[bytes] = []
        size = 0
        for position, trial in enumerate(trials):
            try:
                body = self._body(trial)
                line = {"custom_id": custom_id(trial, body), "method": "POST", "url": "/v1/chat/completions"}
                body = self._body(trial, study.repeat_of(trial))
                text = json.dumps({**line, "body": body}).encode() + b"\n"
                if len(text) > self.most_bytes:
                    raise EvaluatorError(f"the request has {len(text)} bytes, a batch at most {self.most_bytes}")
            except Exception as error:
                study.fail(trial, error, None, worker=worker)
                continue
            if size + len(text) > self.most_bytes:
                return sent, lines, list(trials[position:])
            size += len(text)
            sent.append(trial)
            lines.append(text)
        return sent, lines, []

    def _body(self, trial: Trial, repeat: int = 0) -> dict[str, Any]:
        return self._llm.api.body(self.evaluator.request(asked_of(trial), trial.example, repeat))

    def _tell_known(self, study: AbstractStudy, worker: str, trials: Sequence[Trial]) -> list[Trial]:
        answers = self.evaluator.answers
        if not isinstance(answers, CachedLLM):
            return [*trials]
        taker = Taker(study, worker, self.evaluator, self._llm, self._paid, Collected())
        others: list[Trial] = []
        for trial in trials:
            try:
                (known,) = answers.look_up([answers.key(taker.request(trial))])
            except Exception:
                known = None  # a request that cannot be made fails where it is sent
            if known is None:
                others.append(trial)
            else:
                taker.tell(trial, known)
        return others

    def _create(self, client: Any, study: AbstractStudy, worker: str, trials: Sequence[Trial], data: bytes) -> str:
        def hand_back() -> None:
            for trial in trials:
                study.release(trial, worker=worker)

        try:
            file = client.files.create(file=(f"{worker}.jsonl", io.BytesIO(data)), purpose="batch").id
        except BaseException as error:  # Ctrl-C, too: without its file there is no batch
            hand_back()
            raise self._explained("could not upload a batch, whose trials were released", error) from None
        if self._age(worker) > self.settle_after / 2:
            hand_back()
            raise EvaluatorError(f"The upload took more than {self.settle_after / 2:g} s; its trials were released.")
        metadata = {"asktell_study": study.name, "asktell_worker": worker, "asktell_lease": str(int(self.lease))}
        try:
            # Not tried again: the first try may have had its effect.
            made = client.with_options(max_retries=0).batches.create(
                input_file_id=file, endpoint="/v1/chat/completions", completion_window="24h", metadata=metadata
            )
            return str(made.id)
        except Exception as error:
            status = getattr(error, "status_code", None)
            if status is not None and status < 500:
                hand_back()
                raise self._explained("refused a batch, whose trials were released", error) from None
            try:
                found = [batch.id for batch in self._batches(client, study) if _worker(batch) == worker]
            except EvaluatorError:
                found = []
            if not found:
                what = f"may or may not have a batch of {len(trials)} trials; collect() finds out"
                raise self._explained(what, error) from None
            return str(found[0])

    # Collecting

    def _batches(self, client: Any, study: AbstractStudy) -> list[Any]:
        kept_since, found, seen = self._clock() - _DAYS_KEPT * 86400, [], set[str]()
        try:
            for batch in client.batches.list(limit=100):
                if batch.created_at < kept_since:
                    break
                if batch.id in seen:  # a server without pages sends the first one for ever
                    raise ValueError(f"the list has the batch {batch.id!r} twice")
                seen.add(batch.id)
                if (batch.metadata or {}).get("asktell_study") == study.name and _worker(batch).startswith(PREFIX):
                    found.append(batch)
        except Exception as error:
            raise self._explained("could not list the batches", error) from None
        return found

    def _look_after(self, study: AbstractStudy, batches: Sequence[Any], collected: Collected) -> None:
        """Extend the leases of batches that run, and hand back what never became a batch."""
        known = set(map(_worker, batches))
        for batch in batches:
            if batch.status in _OPEN:
                study.heartbeat(_worker(batch), lease=self.lease)
                counts = batch.request_counts
                progress = "?" if counts is None else f"{counts.completed + counts.failed} of {counts.total}"
                collected.running[batch.id] = f"{batch.status}, {progress}"
        for holding in study.workers():
            worker = holding.worker or ""
            if worker.startswith(PREFIX) and worker not in known:
                if self._age(worker) < self.settle_after:
                    collected.unsettled += 1
                else:
                    collected.released += study.release(holding.trial, worker=worker)

    def _age(self, worker: str) -> float:
        try:
            begun = datetime.strptime(worker.removeprefix(PREFIX).partition("-")[0], _TIME).replace(tzinfo=UTC)
        except ValueError:
            return float("inf")
        return self._clock() - begun.timestamp()

    def _take(self, study: AbstractStudy, batch: Any, collected: Collected) -> None:
        held = study.heartbeat(_worker(batch), lease=self.lease)
        first_lease = float(batch.metadata.get("asktell_lease", 0))
        if not held and self._clock() < batch.created_at + first_lease - _SLACK:
            return  # collected before: no lease can have run out since
        try:
            files = [self._content(file) for file in (batch.output_file_id, batch.error_file_id) if file]
        except Exception as error:
            collected.problems.append(f"{batch.id}: {self._explained('could not send its answers', error)}")
            return
        if None in files:
            collected.problems.append(f"{batch.id}: its answers are gone; they are kept for 30 days")
        if batch.status == "failed":
            errors = (batch.errors and batch.errors.data) or []
            reasons = "; ".join(f"{each.code or '?'}: {each.message or '?'}" for each in errors) or "no reason given"
            collected.problems.append(f"{batch.id}: refused ({self._llm.redact(reasons)[:MOST_SAID]})")
        taker = Taker(study, _worker(batch), self.evaluator, self._llm, self._paid, collected)
        out = _unanswered(study)
        for id_, line in read_answers(filter(None, files), collected).items():
            trial = out.get(_number(id_))
            if trial is not None and custom_id(trial, self._body(trial)) == id_:
                taker.take(trial, line, batch.id)
                del out[trial.id]
            else:
                collected.passed_over += 1
        for trial in held:
            if trial.id in out:
                taker.leave(trial, batch.id, batch.status)
        collected.ended[batch.id] = batch.status

    def _content(self, file: str) -> bytes | None:
        """A file of answers; None if it was deleted."""
        data = bytearray()
        try:
            with self._client() as client, client.files.with_streaming_response.content(file) as raw:
                for part in raw.iter_bytes():
                    data += part
                    if len(data) > self.most_answer_bytes:
                        raise ValueError(f"a file of more than {self.most_answer_bytes} bytes")
        except import_extra("openai", "openai").NotFoundError:
            return None
        return bytes(data)

    def _client(self) -> Any:
        openai = import_extra("openai", "openai")
        return openai.OpenAI(api_key=self._llm.key(), base_url=self._llm.base_url, timeout=self.timeout)

    def _explained(self, what: str, error: BaseException) -> BaseException:
        if not isinstance(error, Exception):
            return error
        server = self._llm.base_url or "OpenAI"
        return EvaluatorError(self._llm.redact(f"{server} {what}: {type(error).__name__}: {error}")[:MOST_SAID])


def _unanswered(study: AbstractStudy) -> dict[int, Trial]:
    """The trials that take scores, by id: pending ones, and those released since their leases ran out."""
    selector = study.selector  # a copy, which hands out first what was released
    returned = selector.ask(len(selector.state.returned))
    return {trial.id: trial for trial in (*selector.pending, *returned)}


def _worker(batch: Any) -> str:
    return str((batch.metadata or {}).get("asktell_worker", ""))


def _number(id_: str) -> int:
    try:
        return int(id_.partition("-")[0])
    except ValueError:
        return -1


def custom_id(trial: Trial, body: dict[str, Any]) -> str:
    """Names a trial and what exactly was asked: an answer to another question is never taken for its answer."""
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return f"{trial.id}-{digest[:32]}"
