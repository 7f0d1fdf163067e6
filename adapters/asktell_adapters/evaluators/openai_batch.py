"""OpenAI's batch API: many evaluations of a study at half the price, submitted now and collected hours later.

The study has the pending trials, under one worker's name per batch. The server has the
batches, each with the names of the study and the worker in its metadata. A response's
`custom_id` has the trial and a digest of the request. Everything else follows from
these, on any machine and after any crash: see `OpenAIBatch`.
"""

import hashlib
import io
import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, final

from asktell import (
    ConflictingTellError,
    EvaluatorError,
    InvalidArgumentError,
    StorageError,
    Trial,
    UnknownTrialError,
)
from asktell.extend import (
    AbstractStudy,
    check_extra,
    describe_streak,
    details_of,
    goal_scores,
    import_extra,
    in_words,
    short,
    whole,
)
from asktell_adapters._util.scores import positive
from asktell_adapters.evaluators.llm import AsyncLLMEvaluator, LLMEvaluator, asked_of
from asktell_adapters.llms._bodies import ENCODINGS, SyncLimits
from asktell_adapters.llms._remote import MOST_SAID
from asktell_adapters.llms.base import Completion, CompletionError, Request
from asktell_adapters.llms.cache import CachedLLM
from asktell_adapters.llms.openai import OpenAIChat

_NOT_REACHED = ("batch_expired", "batch_cancelled")


@final
@dataclass
class Collected:
    """The outcome of one call of `OpenAIBatch.collect`. `print` shows it as text.

    Attributes:
        told: number of evaluations whose scores were recorded in this call.
        failed: number of evaluations that failed. The study has the reason of each.
        released: number of trials that were released without scores, so that they can
            be evaluated later.
        cost: money that the recorded and failed evaluations cost, in the currency of
            the LLM's price.
        running: the batches that have not ended: id -> status and progress.
        ended: the batches that have ended and were collected in this call: id -> final
            status.
        problems: messages about whole batches, for example that a batch was refused.
        unsettled: number of trials that belong to no batch yet. Their submission is in
            progress, or was interrupted less than `settle_after` seconds ago.
        passed_over: number of responses that were not recorded. Either the trial is not
            pending any more, or its request has changed since it was sent.
        duplicates: number of further responses to the same request. The first response
            counts.
        malformed: number of lines in the files of responses that could not be read.
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
        lines = [
            f"{self.told} recorded, {self.failed} failed, {self.released} released, cost {self.cost:g}"
        ]
        lines += [
            f"{id_}: {how}" for id_, how in (*self.ended.items(), *self.running.items())
        ]
        lines += self.problems
        counts = {
            "trials of a submission that is in progress or was interrupted": self.unsettled,
            "responses that no trial waits for": self.passed_over,
            "duplicate responses": self.duplicates,
            "malformed lines": self.malformed,
        }
        return "\n".join(
            lines + [f"{count} {what}" for what, count in counts.items() if count]
        )


def read_answers(
    files: Iterable[bytes], collected: Collected
) -> dict[str, dict[str, Any]]:
    """Parse the lines of a batch's files.

    Args:
        files: the files' contents.
        collected: counts duplicates and malformed lines.

    Returns:
        `custom_id` -> the first line with this id.
    """
    line_of: dict[str, dict[str, Any]] = {}
    for text in (line for data in files for line in data.splitlines() if line.strip()):
        try:
            line = json.loads(text)
            id_ = line["custom_id"]
            if not isinstance(id_, str):
                raise TypeError("custom_id is not a text")
        except (ValueError, KeyError, TypeError, RecursionError):
            collected.malformed += 1
            continue
        # The first response counts, whenever the files are read.
        collected.duplicates += id_ in line_of
        line_of.setdefault(id_, line)
    return line_of


@final
@dataclass(frozen=True)
class Taker:
    """Records the scores or the failure of a batch's trials, as `asktell.run` would.

    Args:
        study: the study.
        worker: the name under which the study has the batch's trials.
        evaluator: scores the responses.
        llm: the LLM of the batch.
        paid: share of the LLM's price that the batch costs.
        collected: counts the outcomes.
    """

    study: AbstractStudy
    worker: str
    evaluator: LLMEvaluator | AsyncLLMEvaluator
    llm: OpenAIChat
    paid: float
    collected: Collected

    def request(self, trial: Trial) -> Request:
        return self.evaluator.request(
            asked_of(trial), trial.example, self.study.repeat_of(trial)
        )

    def take(self, trial: Trial, line: dict[str, Any], batch: str) -> None:
        """Record the scores of a response, or its failure. Release the trial if its request was not processed.

        Args:
            trial: the trial.
            line: its line in the batch's file.
            batch: id of the batch, for messages.
        """
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
        """Record the scores of a response. If a metric fails, record the failure of the trial."""
        cost = (
            completion.cost
            if self.llm.api.price and not completion.from_cache
            else None
        )
        repeat = self.study.repeat_of(trial)
        try:
            scores = self.evaluator.scores(
                completion, trial.example, repeat, prompt=asked_of(trial)
            )
            if cost is not None:
                scores.setdefault("cost", cost)
            vector, cost = goal_scores(self.study, scores)
            details = {
                "output": completion.text,
                **(details_of(self.study, scores) or {}),
            }
            if self.study.worker(self.worker).tell(
                trial, vector, cost, details=details
            ):
                self.collected.told += 1
                self.collected.cost += cost or 0.0
            else:
                self.collected.passed_over += 1
        except StorageError:
            raise
        except (ConflictingTellError, UnknownTrialError):
            # Another process has collected it.
            self.collected.passed_over += 1
        except Exception as error:
            # The error's cost includes judges
            self._fail(trial, error, getattr(error, "cost", cost))

    def leave(self, trial: Trial, batch: str, status: str) -> None:
        """End a trial that is not in the batch's files.

        If the batch is completed, the trial fails. Otherwise its request was not
        processed, and it is released.

        Args:
            trial: the trial.
            batch: id of the batch, for messages.
            status: final status of the batch.
        """
        if status == "completed":
            self._fail(
                trial,
                EvaluatorError(
                    f"{batch} was completed, but it has no response to this trial"
                ),
                None,
            )
        else:
            self._release(trial)

    def _release(self, trial: Trial) -> None:
        # Another process was faster.
        with suppress(UnknownTrialError):
            self.collected.released += self.study.worker(self.worker).release(trial)

    def _fail(self, trial: Trial, error: Exception, cost: float | None) -> None:
        """Record the failure of a trial, without keys in its message. Another process may have done so."""
        if isinstance(error, CompletionError):
            error = CompletionError(self.llm.redact(str(error)), cost=error.cost)
        with suppress(UnknownTrialError):
            if self.study.worker(self.worker).fail(trial, error, cost):
                self.collected.failed += 1
                self.collected.cost += cost or 0.0


def _body(line: dict[str, Any], source: str) -> dict[str, Any] | None:
    """The JSON of a chat completion in a line of a batch's file, or None if the request was not processed.

    Raises:
        CompletionError: the request failed, or the line is malformed.
    """
    error = line.get("error")
    if isinstance(error, dict):
        if error.get("code") in _NOT_REACHED:
            return None
        raise CompletionError(
            f"{source} failed with the error {short(error.get('code'))}, {str(error.get('message'))[:200]}"
        )
    response = line.get("response")
    body = response.get("body") if isinstance(response, dict) else None
    if not isinstance(response, dict) or not isinstance(body, dict):
        raise CompletionError(
            f"{source} sent a line without a usable response: {str(line)[:200]}"
        )
    if response.get("status_code") != 200:
        problem = body.get("error")
        message = problem.get("message") if isinstance(problem, dict) else problem
        raise CompletionError(
            f"{source} failed with the status {short(response.get('status_code'))}, {str(message)[:200]}"
        )
    return body


PREFIX = "openai-batch-"
MOST_REQUESTS, MOST_BYTES = 50_000, 200_000_000  # the API's limits for one batch
MOST_ANSWERS = (
    1_000_000_000  # bytes of a file of responses. The API documents no limit.
)
_DAYS_KEPT = 35  # the API deletes the responses after 30 days
# An account with so many pages of a hundred batches has others than asktell's.
_MOST_PAGES = 1000
_SLACK = 3600.0  # seconds that the server's clock and the study's may differ
# Statuses of batches that may still get responses
_OPEN = ("validating", "in_progress", "finalizing", "cancelling")
_TIME = "%Y%m%dT%H%M%SZ"


@final
class OpenAIBatch:
    """Evaluates the trials of a study by OpenAI's batch API, at half the price. Responses come within 24 hours.

    `submit` sends trials to the API in batches. `collect` records the scores of the
    responses that have arrived. Both may be called from any process, at any time and
    any number of times.

    ```python
    batch = OpenAIBatch(LLMEvaluator(OpenAIChat("gpt-4o-mini"), examples, [token_f1]))
    batch.submit(study, 1000)
    print(batch.collect(study))  # a few hours later
    ```

    **Crashes.** Nothing is stored on this machine: the study has the trials, and the
    server has the batches. So a crash loses no responses. The next `collect`, on any
    machine, continues. Call it within 30 days, because the server then deletes the
    responses.

    | Time of the crash                       | Effect of the next `collect`                                         |
    |-----------------------------------------|----------------------------------------------------------------------|
    | before the study gave out trials        | none                                                                 |
    | after that, but before the batch exists | releases the trials if the submission is older than `settle_after`   |
    | while the batch was created             | as in the row below if the batch exists, as in the row above if not  |
    | after the batch was created             | records the scores of the batch if it has ended                      |
    | while scores were recorded              | records the scores of the trials that are still pending              |

    Args:
        evaluator: makes the request of a trial and scores the response. Its LLM is an
            `OpenAIChat`.
        lease: seconds for which other workers cannot get the trials of a batch
            (default: 7 days). Each call of `submit` or `collect` starts this time anew,
            for all batches of the study that have not ended.
        paid: share of the LLM's price that a batch costs, such as 0.5.
        settle_after: seconds after which a submission that has created no batch counts
            as interrupted (default: 1 hour). Its trials are then released. A submission
            in progress gives up after half of this time.
        timeout: largest number of seconds for one call of the API, such as the upload
            of a file.
        most_requests: largest number of requests in one batch (default: 50,000, the
            API's limit). Further requests go into another batch.
        most_bytes: largest size of the requests in one batch, in bytes (default:
            200,000,000, the API's limit). Further requests go into another batch.
        most_answer_bytes: largest size of a file of responses, in bytes (default:
            1,000,000,000). A larger file is not read, and is reported as a problem of
            its batch.
        clock: a function that returns the time in seconds since 1970.

    Raises:
        InvalidArgumentError: the evaluator's LLM is not an `OpenAIChat`, or a number is
            out of range.
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
            raise InvalidArgumentError(
                f"OpenAIBatch needs an evaluator whose LLM is an OpenAIChat, got an evaluator whose LLM is {llm!r:.60}."
            )
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
        """Send up to n trials of a study in batches.

        The study may give out fewer trials, or none. This happens if its remaining
        budget is already pending, or if it needs scores before it can choose further
        trials. If the evaluator's cache has the response to a trial, its scores are
        recorded at once, and no request is sent. If the API refuses a batch, its trials
        are released.

        Args:
            study: the study.
            n: largest number of trials, at least 1.

        Returns:
            The ids of the new batches.

        Raises:
            EvaluatorError: the API cannot be reached, or refused a batch. Batches that
                were created before the error remain.
            InvalidArgumentError: n is below 1, or the study has other examples than the
                evaluator.
            StorageError: the study's storage cannot be used.
        """
        left = whole("n", n, 1)
        self.evaluator.check_selection(study)
        created: list[str] = []
        with self._client() as client:
            self._look_after(study, self._batches(client, study), Collected())
            while left > 0:
                # A later process reads the age of an interrupted submission from the time
                # in the name.
                worker = f"{PREFIX}{datetime.fromtimestamp(self._clock(), UTC):{_TIME}}-{uuid.uuid4().hex[:8]}"
                trials = study.worker(worker, lease=self.lease).ask(
                    min(left, self.most_requests)
                )
                if not trials:
                    break
                sent, lines, unsent = self._lines(
                    study, worker, self._tell_known(study, worker, trials)
                )
                for trial in unsent:
                    study.worker(worker).release(trial)
                left -= len(trials) - len(unsent)
                if lines:
                    created.append(
                        self._create(client, study, worker, sent, b"".join(lines))
                    )
        return created

    def collect(self, study: AbstractStudy) -> Collected:
        """Record the scores of all batches of a study that have ended.

        A response is scored, or fails, as in `asktell.run`. If a request was not
        processed because its batch expired, was canceled or was refused, its trial is
        released. Such a request costs nothing.

        Args:
            study: the study.

        Returns:
            The number of recorded scores, and the state of the study's batches.

        Raises:
            EvaluatorError: the API cannot be reached, or refused the call.
            StorageError: the study's storage cannot be used. Call `collect` again.
        """
        collected = Collected()
        with self._client() as client:
            batches = self._batches(client, study)
            self._look_after(study, batches, collected)
            for batch in batches:
                if batch.status not in _OPEN:
                    self._take(study, batch, collected)
        if collected.failed and (streak := describe_streak(study.selector.state)):
            collected.problems.append(streak)
        return collected

    # Submitting

    def _lines(
        self, study: AbstractStudy, worker: str, trials: Sequence[Trial]
    ) -> tuple[list[Trial], list[bytes], list[Trial]]:
        """The trials that fit into one batch, their lines of its input file, and the trials that do not fit.

        A trial whose request cannot be made, or is too large for any batch, fails.
        """
        sent: list[Trial] = []
        lines: list[bytes] = []
        size = 0
        for position, trial in enumerate(trials):
            try:
                body = self._body(trial)
                line = {
                    "custom_id": custom_id(trial, body),
                    "method": "POST",
                    "url": "/v1/chat/completions",
                }
                body = self._body(trial, study.repeat_of(trial))
                text = json.dumps({**line, "body": body}).encode() + b"\n"
                if len(text) > self.most_bytes:
                    raise EvaluatorError(
                        f"the request has {len(text)} bytes, but a batch can have at most {self.most_bytes}. Shorten "
                        "the prompt or the example"
                    )
            except Exception as error:
                study.worker(worker).fail(trial, error, None)
                continue
            if size + len(text) > self.most_bytes:
                return sent, lines, list(trials[position:])
            size += len(text)
            sent.append(trial)
            lines.append(text)
        return sent, lines, []

    def _body(self, trial: Trial, repeat: int = 0) -> dict[str, Any]:
        """The JSON body of the request for a trial."""
        return self._llm.api.body(
            self.evaluator.request(asked_of(trial), trial.example, repeat)
        )

    def _tell_known(
        self, study: AbstractStudy, worker: str, trials: Sequence[Trial]
    ) -> list[Trial]:
        """Record the scores of trials whose responses are in the cache. Return the other trials."""
        answers = self.evaluator.answers
        if not isinstance(answers, CachedLLM):
            return [*trials]
        taker = Taker(study, worker, self.evaluator, self._llm, self._paid, Collected())
        unknown: list[Trial] = []
        for trial in trials:
            try:
                (completion,) = answers.look_up([answers.key(taker.request(trial))])
            except Exception:
                # The request cannot be made, and fails in _lines.
                completion = None
            if completion is None:
                unknown.append(trial)
            else:
                taker.tell(trial, completion)
        return unknown

    def _create(
        self,
        client: Any,
        study: AbstractStudy,
        worker: str,
        trials: Sequence[Trial],
        data: bytes,
    ) -> str:
        """Upload the input file and create the batch. Return its id.

        Raises:
            EvaluatorError: the upload failed or took too long, or the API refused the
                batch. The trials were released. Or it is unknown whether the batch was
                created. The trials stay pending, and `collect` finds out.
        """

        def hand_back() -> None:
            for trial in trials:
                study.worker(worker).release(trial)

        try:
            file = client.files.create(
                file=(f"{worker}.jsonl", io.BytesIO(data)), purpose="batch"
            ).id
        except BaseException as error:
            # Also Ctrl-C, because without the file no batch can exist
            hand_back()
            raise self._explained(
                "did not confirm the upload of a batch, whose trials were released. Submit them again",
                error,
            ) from None
        # After settle_after, another process takes the submission for interrupted and
        # releases its trials. Half of it is a margin for the creation of the batch.
        if self._age(worker) > self.settle_after / 2:
            hand_back()
            raise EvaluatorError(
                f"The upload of a batch took more than {self.settle_after / 2:g} s, so its trials were released. "
                "Submit fewer trials at once, or raise settle_after."
            )
        metadata = {
            "asktell_study": study.name,
            "asktell_worker": worker,
            "asktell_lease": str(int(self.lease)),
        }
        try:
            # No retries, because the first attempt may have created the batch although
            # its response was lost.
            created = client.with_options(max_retries=0).batches.create(
                input_file_id=file,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata=metadata,
            )
            return str(created.id)
        except Exception as error:
            status = getattr(error, "status_code", None)
            # A refusal is certain: no batch exists. After any other error it may exist.
            if status is not None and status < 500:
                hand_back()
                raise self._explained(
                    "refused a batch, whose trials were released", error
                ) from None
            try:
                ids = [
                    batch.id
                    for batch in self._batches(client, study)
                    if _worker(batch) == worker
                ]
            except EvaluatorError:
                ids = []
            if not ids:
                what = f"may or may not have created a batch of {len(trials)} trials. Call collect() to find out"
                raise self._explained(what, error) from None
            return str(ids[0])

    # Collecting

    def _batches(self, client: Any, study: AbstractStudy) -> list[Any]:
        """The study's batches whose responses the server may still have."""
        kept_since, batches, seen = self._clock() - _DAYS_KEPT * 86400, [], set[str]()
        try:
            for batch in _listed(client):
                if batch.created_at < kept_since:
                    break
                # A server that ignores pages sends the first page forever
                if batch.id in seen:
                    raise ValueError(f"the list has the batch {batch.id!r} twice")
                seen.add(batch.id)
                if (batch.metadata or {}).get(
                    "asktell_study"
                ) == study.name and _worker(batch).startswith(PREFIX):
                    batches.append(batch)
        except Exception as error:
            raise self._explained("could not list the batches", error) from None
        return batches

    def _look_after(
        self, study: AbstractStudy, batches: Sequence[Any], collected: Collected
    ) -> None:
        """Extend the leases of running batches, and release the trials of submissions that left no batch."""
        workers = set(map(_worker, batches))
        for batch in batches:
            if batch.status in _OPEN:
                study.worker(_worker(batch), lease=self.lease).heartbeat()
                counts = batch.request_counts
                progress = (
                    "?"
                    if counts is None
                    else f"{counts.completed + counts.failed} of {counts.total}"
                )
                collected.running[batch.id] = f"{batch.status}, {progress}"
        for holding in study.workers():
            worker = holding.worker or ""
            if worker.startswith(PREFIX) and worker not in workers:
                if self._age(worker) < self.settle_after:
                    collected.unsettled += 1
                else:
                    collected.released += study.worker(worker).release(holding.trial)

    def _age(self, worker: str) -> float:
        """Seconds since the submission under this worker's name began."""
        try:
            begun = datetime.strptime(
                worker.removeprefix(PREFIX).partition("-")[0], _TIME
            ).replace(tzinfo=UTC)
        except ValueError:
            return float("inf")
        return self._clock() - begun.timestamp()

    def _take(self, study: AbstractStudy, batch: Any, collected: Collected) -> None:
        """Record the scores of a batch that has ended, and release its trials without a response."""
        held = study.worker(_worker(batch), lease=self.lease).heartbeat()
        first_lease = float(batch.metadata.get("asktell_lease", 0))
        if not held and self._clock() < batch.created_at + first_lease - _SLACK:
            # No trial is held, and no lease can have expired yet, so the batch was
            # collected before
            return
        try:
            files = [
                self._content(file)
                for file in (batch.output_file_id, batch.error_file_id)
                if file
            ]
        except Exception as error:
            collected.problems.append(
                str(self._explained(f"did not send the responses of {batch.id}", error))
            )
            return
        if None in files:
            collected.problems.append(
                f"the server has deleted the responses of {batch.id}, because it keeps them for only 30 days"
            )
        if batch.status == "failed":
            collected.problems.append(f"{batch.id} was refused: {self._reasons(batch)}")
        taker = Taker(
            study, _worker(batch), self.evaluator, self._llm, self._paid, collected
        )
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

    def _reasons(self, batch: Any) -> str:
        """The server's reasons for refusing a batch."""
        errors = (batch.errors and batch.errors.data) or []
        reasons = (
            "; ".join(
                f"{error.message or '?'} ({error.code or '?'})" for error in errors
            )
            or "no reason given"
        )
        return self._llm.redact(reasons)[:MOST_SAID]

    def _content(self, file: str) -> bytes | None:
        """A file of responses, or None if the server has deleted it.

        Raises:
            ValueError: the file is too large.
        """
        data = bytearray()
        try:
            with (
                self._client(streams=True) as client,
                client.files.with_streaming_response.content(file) as raw,
            ):
                for part in raw.iter_bytes():
                    data += part
                    if len(data) > self.most_answer_bytes:
                        raise ValueError(
                            f"a file of more than {self.most_answer_bytes} bytes"
                        )
        except import_extra("openai", "openai").NotFoundError:
            return None
        return bytes(data)

    def _client(self, streams: bool = False) -> Any:
        """A client of the SDK. If it streams, only the bodies of its errors are limited."""
        openai = import_extra("openai", "openai")
        limits = SyncLimits(self.timeout)
        return openai.OpenAI(
            api_key=self._llm.key(),
            base_url=self._llm.base_url,
            timeout=self.timeout,
            http_client=openai.DefaultHttpxClient(
                timeout=self.timeout,
                headers={"Accept-Encoding": ENCODINGS},
                event_hooks={
                    "response": [limits.limit_error if streams else limits.limit_all]
                },
            ),
        )

    def _explained(self, what: str, error: BaseException) -> BaseException:
        """Convert an exception of the SDK to an error without keys.

        An exception that ends the program, such as Ctrl-C, is returned as it is.
        """
        if not isinstance(error, Exception):
            return error
        server = self._llm.base_url or "OpenAI"
        return EvaluatorError(
            self._llm.redact(f"{server} {what}. The error was {in_words(error)}")[
                :MOST_SAID
            ]
        )


def _unanswered(study: AbstractStudy) -> dict[int, Trial]:
    """The trials that accept scores, by id. They are the pending trials and the trials with expired leases."""
    # This is a copy of the selector, which gives out released trials first.
    selector = study.selector
    returned = selector.ask(len(selector.state.plan.returned))
    return {trial.id: trial for trial in (*selector.pending, *returned)}


def _listed(client: Any) -> Iterator[Any]:
    """All batches of the account, the latest first."""
    pages = client.batches.list(limit=100).iter_pages()
    for number, page in enumerate(pages, 1):
        yield from page.data
        # Before the next page is asked for
        if number == _MOST_PAGES:
            raise ValueError(
                f"the list has {_MOST_PAGES:,} pages of batches of the last {_DAYS_KEPT} days"
            )


def _worker(batch: Any) -> str:
    return str((batch.metadata or {}).get("asktell_worker", ""))


def _number(id_: str) -> int:
    """The trial's number in a `custom_id`, or -1 if it has none."""
    try:
        return int(id_.partition("-")[0])
    except ValueError:
        return -1


def custom_id(trial: Trial, body: dict[str, Any]) -> str:
    """The id of a request in a batch: the trial's number and a digest of the request.

    Because of the digest, a response to another request is never taken for a response
    to this trial.
    """
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return f"{trial.id}-{digest[:32]}"
