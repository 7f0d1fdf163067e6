"""The batch API, against a server whose batches end as told; with a study in SQLite, as it would be in use."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell_adapters.cache import AnswerCache
from asktell_adapters.evaluators import (
    Completion,
    Example,
    LLMEvaluator,
    OpenAIChat,
    Price,
    ScriptedLLM,
)
from asktell_adapters.evaluators.openai_batch import OpenAIBatch
from asktell_adapters.testing.llm_server import Reply, content
from tests.adapters.batch_server import BatchServer, Fault

KEY = "sk-very-secret-0123456789"
PROMPTS = ["Answer.", "Answer briefly.", "Think."]
N_EXAMPLES = 6
DAY = 86400.0


def words(body: dict[str, Any]) -> Reply:
    """As many words as the last message has characters; 10 tokens read and 5 written."""
    return Reply(text=" ".join(["w"] * len(body["messages"][-1]["content"])))


def n_words(completion: Completion, example: Example) -> float:
    return float(len(completion.text.split()))


def expected(prompt: str, example: int) -> float:
    return float(len(f"{prompt}\n\nx{'y' * example}"))


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with BatchServer(words) as running:
        yield running


@pytest.fixture
def study(tmp_path: Path) -> Iterator[asktell.Study]:
    with asktell.Study.create(f"sqlite:///{tmp_path}/studies.db", "night", selector()) as made:
        yield made


def selector(budget: int = 18) -> asktell.Selector:
    return asktell.Selector(PROMPTS, asktell.BestFeasible("words"), budget, "uniform", examples=N_EXAMPLES)


class Clock:
    def __init__(self) -> None:
        self._start = time.time()
        self.ahead = 0.0

    def __call__(self) -> float:
        return self._start + self.ahead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def batches(server: BatchServer, clock: Clock) -> OpenAIBatch:
    return make(server, clock)


def make(
    server: BatchServer, clock: Clock, metric: Any = n_words, cache: AnswerCache | None = None, **options: Any
) -> OpenAIBatch:
    llm = OpenAIChat("m", base_url=server.base_url, price=Price(1e6, 2e6))
    examples = [Example(f"x{'y' * n}") for n in range(N_EXAMPLES)]
    return OpenAIBatch(LLMEvaluator(llm, examples, {"words": metric}, cache=cache), clock=clock, **options)


def told(study: asktell.Study) -> dict[tuple[str, int], float]:
    history = study.selector.state.history
    cells = zip(history.arms(), history.examples(), history.scores(), strict=True)
    return {(PROMPTS[arm], int(example)): float(scores[0]) for arm, example, scores in cells}


def right(study: asktell.Study) -> bool:
    return all(score == expected(*cell) for cell, score in told(study).items())


def failures(study: asktell.Study) -> list[str]:
    return study.selector.state.failures.reasons()


def test_a_night_from_ask_to_answer(study: asktell.Study, server: BatchServer, batches: OpenAIBatch) -> None:
    assert batches.submit(study, 10) == ["batch-0"]
    assert batches.submit(study, 100) == ["batch-1"]
    assert batches.submit(study, 100) == []  # the budget is out
    first = server.batches["batch-0"]
    assert len(first.requests) == 10
    assert (first.data["endpoint"], first.data["completion_window"]) == ("/v1/chat/completions", "24h")
    assert first.requests[0]["body"]["max_tokens"] == 512
    waiting = batches.collect(study)
    assert (waiting.told, waiting.running) == (
        0,
        {f"batch-{n}": f"in_progress, 0 of {m}" for n, m in ((1, 8), (0, 10))},
    )
    server.end("batch-1")
    collected = batches.collect(study)
    assert (collected.told, collected.failed, collected.released) == (8, 0, 0)
    assert collected.cost == 8 * (10 * 1 + 5 * 2) / 2
    assert collected.ended == {"batch-1": "completed"}
    server.end("batch-0")
    assert "10 told" in str(batches.collect(study))
    assert study.done
    assert right(study)
    assert len(told(study)) == 18
    assert study.result().spent_cost == 18 * 10
    server.calls.clear()
    assert batches.collect(study).ended == {}
    assert "GET content" not in server.calls  # nothing is read again


def test_answers_come_in_any_order_twice_and_from_strangers(
    study: asktell.Study, server: BatchServer, batches: OpenAIBatch
) -> None:
    batches.submit(study, 6)
    server.end(twice={0, 3}, strangers=3, garbage=True)
    collected = batches.collect(study)
    assert (collected.told, collected.failed) == (6, 0)
    assert (collected.duplicates, collected.passed_over, collected.malformed) == (2, 3, 1)
    assert "3 answers that nothing waits for" in str(collected)
    assert right(study)


def test_refused_requests_are_failures_with_their_reasons(
    study: asktell.Study, server: BatchServer, batches: OpenAIBatch
) -> None:
    replies = [
        Reply(status=400, text=f"context_length_exceeded, said {KEY}"),
        Reply(status=500),
        Reply(text=""),
        Reply(body=b'{"choices": []}'),
        Reply(),
    ]
    server.answer = lambda body: replies.pop(0)
    batches.submit(study, 5)
    server.end(shuffled=False)
    collected = batches.collect(study)
    assert (collected.told, collected.failed, collected.released) == (1, 4, 0)
    reasons = "\n".join(failures(study))
    assert all(word in reasons for word in ("context_length", "status 500", "empty completion", "malformed answer"))
    assert KEY not in reasons
    assert "***" in reasons
    assert study.result().spent_cost == 2 * (10 * 1 + 5 * 2) / 2  # of the good and the empty one


def test_an_answer_that_is_missing_is_a_failure(
    study: asktell.Study, server: BatchServer, batches: OpenAIBatch
) -> None:
    batches.submit(study, 4)
    server.end(missing={1})
    collected = batches.collect(study)
    assert (collected.told, collected.failed) == (3, 1)
    assert failures(study) == ["EvaluatorError: batch-0 was completed without an answer to it"]


@pytest.mark.parametrize("status", ["expired", "cancelled"])
def test_what_was_not_reached_is_asked_again(
    status: Any, study: asktell.Study, server: BatchServer, batches: OpenAIBatch
) -> None:
    batches.submit(study, 6)
    server.end(status=status, unfinished={0, 2, 4})
    collected = batches.collect(study)
    assert (collected.told, collected.failed, collected.released) == (3, 0, 3)
    assert collected.ended == {"batch-0": status}
    assert study.pending == []
    batches.submit(study, 15)
    server.end()
    batches.collect(study)
    assert study.done
    assert right(study)
    assert failures(study) == []


def test_a_batch_that_is_refused_whole_is_handed_back(
    study: asktell.Study, server: BatchServer, batches: OpenAIBatch
) -> None:
    batches.submit(study, 6)
    server.end(status="failed")
    collected = batches.collect(study)
    assert (collected.released, collected.failed) == (6, 0)
    assert "token_limit_exceeded: Enqueued token limit reached" in str(collected)


def test_a_metric_that_fails_is_a_failure_that_has_cost(
    study: asktell.Study, server: BatchServer, clock: Clock
) -> None:
    def picky(completion: Completion, example: Example) -> float:
        return float("nan") if example.input == "xy" else 1 / (len(example.input) - 1)

    batches = make(server, clock, picky)
    batches.submit(study, 18)
    server.end()
    collected = batches.collect(study)
    assert (collected.told, collected.failed) == (12, 6)
    assert collected.cost == 180
    assert sorted(reason.partition(":")[0] for reason in failures(study)) == [
        "EvaluatorError"] * 3 + ["InvalidScoresError"] * 3  # fmt: skip


# Crashes


class CrashError(BaseException):
    """The process is gone."""


def crash(*args: object, **kwargs: object) -> None:
    raise CrashError


def test_a_crash_before_the_upload_hands_the_trials_back_later(
    study: asktell.Study, server: BatchServer, clock: Clock, batches: OpenAIBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(OpenAIBatch, "_lines", crash)
        with pytest.raises(CrashError):
            batches.submit(study, 6)
    assert len(study.pending) == 6
    early = batches.collect(study)
    assert (early.unsettled, early.released) == (6, 0)
    assert "6 trials of a submission" in str(early)
    clock.ahead = 2 * 3600
    assert batches.collect(study).released == 6
    assert study.pending == []


@pytest.mark.parametrize("with_effect", [True, False])
def test_a_crash_while_the_batch_is_created_never_submits_twice(
    with_effect: bool,
    study: asktell.Study,
    server: BatchServer,
    clock: Clock,
    batches: OpenAIBatch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not with_effect:
        server.faults["POST /v1/batches"] = [Fault(Reply(drop=True))]
    batches_of_sdk = pytest.importorskip("openai.resources.batches").Batches
    real = batches_of_sdk.create
    with monkeypatch.context() as patch:  # the answer is lost with the process
        patch.setattr(batches_of_sdk, "create", lambda *args, **kwargs: crash(real(*args, **kwargs)))
        with pytest.raises((CrashError, EvaluatorError)):
            batches.submit(study, 6)
    assert len(server.batches) == with_effect
    assert len(study.pending) == 6
    clock.ahead = 2 * 3600
    if with_effect:
        server.end()
        assert batches.collect(study).told == 6
    else:
        assert batches.collect(study).released == 6
    batches.submit(study, 100)
    server.end()
    batches.collect(study)
    assert study.done
    assert right(study)
    asked = [request["custom_id"] for served in server.batches.values() for request in served.requests]
    assert len(asked) == len(set(asked)) == 18


def test_a_crash_between_two_tells_loses_nothing(
    study: asktell.Study, server: BatchServer, batches: OpenAIBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches.submit(study, 18)
    server.end()
    tell = study.tell
    left = 7

    def tell_and_die(*args: Any, **kwargs: Any) -> bool:
        nonlocal left
        left -= 1
        return tell(*args, **kwargs) if left >= 0 else crash()  # type: ignore[func-returns-value,return-value]

    with monkeypatch.context() as patch:
        patch.setattr(study, "tell", tell_and_die)
        with pytest.raises(CrashError):
            batches.collect(study)
    assert len(told(study)) == 7
    again = batches.collect(study)
    assert (again.told, again.passed_over) == (11, 7)
    assert study.done
    assert right(study)
    assert study.result().spent_cost == 18 * 10


def test_another_process_on_another_machine_collects(
    study: asktell.Study, server: BatchServer, clock: Clock, batches: OpenAIBatch, tmp_path: Path
) -> None:
    batches.submit(study, 18)
    server.end()
    with asktell.Study.open(f"sqlite:///{tmp_path}/studies.db", "night") as other:
        assert make(server, clock).collect(other).told == 18
    assert batches.collect(study).told == 0


# The API's own failures


def test_an_upload_that_fails_hands_the_trials_back(
    study: asktell.Study, server: BatchServer, batches: OpenAIBatch
) -> None:
    server.faults["POST /v1/files"] = [Fault(Reply(status=400, text=f"bad file, {KEY}"))]
    with pytest.raises(EvaluatorError, match=r"could not upload .*released: BadRequestError") as caught:
        batches.submit(study, 6)
    assert KEY not in str(caught.value)
    assert study.pending == []
    assert batches.submit(study, 6) == ["batch-0"]


def test_a_creation_that_is_refused_hands_the_trials_back(
    study: asktell.Study, server: BatchServer, batches: OpenAIBatch
) -> None:
    server.faults["POST /v1/batches"] = [Fault(Reply(status=400, text="no such model"))]
    with pytest.raises(EvaluatorError, match="refused a batch, whose trials were released"):
        batches.submit(study, 6)
    assert study.pending == []


@pytest.mark.parametrize("reply", [Reply(drop=True), Reply.server_error(503)], ids=["dropped", "503"])
def test_a_lost_answer_to_a_creation_is_looked_up(
    reply: Reply, study: asktell.Study, server: BatchServer, batches: OpenAIBatch
) -> None:
    server.faults["POST /v1/batches"] = [Fault(reply, with_effect=True)]
    assert batches.submit(study, 6) == ["batch-0"]
    server.faults["POST /v1/batches"] = [Fault(reply)]
    with pytest.raises(EvaluatorError, match=r"may or may not have a batch of 6 trials"):
        batches.submit(study, 6)
    assert len(study.pending) == 12
    assert batches.collect(study).unsettled == 6


def test_answers_that_were_deleted_are_asked_again(
    study: asktell.Study, server: BatchServer, batches: OpenAIBatch
) -> None:
    batches.submit(study, 6)
    server.end(status="expired")
    server.faults["GET content"] = [Fault(Reply(status=404))]
    collected = batches.collect(study)
    assert "its answers are gone" in str(collected)
    assert collected.released == 6


# Servers that cannot be believed


def served(study: str = "night", **changes: Any) -> bytes:
    """A list of one batch of the study's, but for some fields."""
    metadata = {"asktell_study": study, "asktell_worker": "openai-batch-20200101T000000Z-1", "asktell_lease": "9"}
    batch = {"id": "b", "status": "completed", "created_at": time.time(), "metadata": metadata, **changes}
    return json.dumps({"data": [batch], "has_more": False}).encode()


LISTS = {
    "no JSON": b"{",
    "data of texts": b'{"data": ["b"]}',
    "no time": served(created_at=None),
    "metadata a list": served(metadata=["night"]),
    "the same page again": served().replace(b', "has_more": false', b""),
}


@pytest.mark.parametrize("body", LISTS.values(), ids=LISTS)
def test_a_malformed_list_is_an_error_that_says_so(
    body: bytes, study: asktell.Study, server: BatchServer, batches: OpenAIBatch
) -> None:
    batches.submit(study, 6)
    server.faults["GET /v1/batches"] = [Fault(Reply(body=body))] * 3
    with pytest.raises(EvaluatorError, match="could not list the batches") as caught:
        batches.collect(study)
    assert len(str(caught.value)) < 1200
    assert len(study.pending) == 6
    server.faults.clear()
    server.end()
    assert batches.collect(study).told == 6


def line(**changes: Any) -> Callable[[str], Any]:
    """An answer to a request, but for some fields."""
    body = content(Reply(), "m")
    return lambda id_: {"custom_id": id_, "error": None, "response": {"status_code": 200, "body": body}, **changes}


USAGE = {"prompt_tokens": -5, "completion_tokens": 5}
LINES = {
    "no response": line(response=None),
    "response a text": line(response="ok"),
    "no body": line(response={"status_code": 200}),
    "body of other fields": line(response={"status_code": 200, "body": {"_fields_set": 5, "self": 1, "choices": 2}}),
    "negative usage": line(response={"status_code": 200, "body": {**content(Reply(), "m"), "usage": USAGE}}),
    "status a list": line(response={"status_code": [200], "body": {}}),
    "an error of objects": line(error={"code": {"a": 1}, "message": [2]}),
    "a long error": line(error={"code": "x" * 10**6, "message": "y" * 10**6}),
}


@pytest.mark.parametrize("make_line", LINES.values(), ids=LINES)
def test_a_malformed_answer_fails_its_trial(
    make_line: Callable[[str], Any], study: asktell.Study, server: BatchServer, batches: OpenAIBatch
) -> None:
    batches.submit(study, 2)
    server.end(shuffled=False)
    data = server.batches["batch-0"].data
    bad, good = server.files[data["output_file_id"]].splitlines()
    written = json.dumps(make_line(json.loads(bad)["custom_id"])).encode()
    server.files[data["output_file_id"]] = b"\n".join([written, good])
    collected = batches.collect(study)
    assert (collected.told, collected.failed) == (1, 1)
    (reason,) = failures(study)
    assert reason.startswith("CompletionError: ")
    assert len(reason) < 1000
    assert study.result().spent_cost == 10


@pytest.mark.parametrize(
    "text",
    [
        b"null", b"[]", b"17", b'"t"', b"{}", b'{"custom_id": null}', b'{"custom_id": 1}', b"[" * 100_000, b"\xff",
        b"9" * 10_000,
    ],
    ids=lambda text: repr(text[:30]),
)  # fmt: skip
def test_a_line_that_is_no_answer_is_counted(
    text: bytes, study: asktell.Study, server: BatchServer, batches: OpenAIBatch
) -> None:
    batches.submit(study, 2)
    server.end()
    server.files[server.batches["batch-0"].data["output_file_id"]] += text + b"\n"
    collected = batches.collect(study)
    assert (collected.told, collected.malformed) == (2, 1)


def test_answers_without_end_are_a_problem_of_their_batch(
    study: asktell.Study, server: BatchServer, clock: Clock
) -> None:
    batches = make(server, clock, most_answer_bytes=10_000)
    batches.submit(study, 2)
    server.end()
    server.files[server.batches["batch-0"].data["output_file_id"]] += b" " * 10_000
    assert "a file of more than 10000 bytes" in str(batches.collect(study))
    assert len(study.pending) == 2
    assert make(server, clock).collect(study).told == 2


# Leases, limits, other studies


def test_paid_answers_are_taken_after_their_leases_ran_out(
    study: asktell.Study, server: BatchServer, clock: Clock
) -> None:
    batches = make(server, clock, lease=0.2)
    batches.submit(study, 18)
    server.end()
    time.sleep(0.3)
    (stolen, *_) = study.ask(3, worker="somebody")  # their leases end now
    assert study.tell(stolen, {"words": expected(stolen.prompt, stolen.example or 0)}, worker="somebody")
    clock.ahead = DAY
    collected = batches.collect(study)
    assert (collected.told, collected.passed_over) == (17, 1)
    assert study.done
    assert right(study)


def test_large_requests_become_several_batches(study: asktell.Study, server: BatchServer, clock: Clock) -> None:
    batches = make(server, clock, most_bytes=600)
    ids = batches.submit(study, 7)
    assert len(ids) > 2
    assert sum(len(served.requests) for served in server.batches.values()) == 7
    assert len(study.pending) == 7
    sizes = [len(data) for data in server.files.values()]
    assert max(sizes) <= 1000
    with_huge = make(server, clock, most_bytes=100)
    assert with_huge.submit(study, 3) == []
    assert "the request has" in failures(study)[0]


def test_the_list_of_batches_has_pages(study: asktell.Study, server: BatchServer, clock: Clock) -> None:
    server.page = 2
    batches = make(server, clock, most_requests=3)
    batches.submit(study, 18)
    for id_ in server.batches:
        server.end(id_)
    assert batches.collect(study).told == 18


def test_a_study_of_the_same_name_gets_no_answers_to_other_questions(
    study: asktell.Study, server: BatchServer, clock: Clock, batches: OpenAIBatch, tmp_path: Path
) -> None:
    batches.submit(study, 18)
    server.end()
    prompts = [prompt[::-1] for prompt in PROMPTS]
    other = asktell.Selector(prompts, asktell.BestFeasible("words"), 18, "uniform", examples=N_EXAMPLES)
    with asktell.Study.create(f"sqlite:///{tmp_path}/others.db", "night", other) as namesake:
        namesake.ask(18)
        clock.ahead = 8 * DAY
        collected = batches.collect(namesake)
        assert (collected.told, collected.failed, collected.passed_over) == (0, 0, 18)
        assert len(namesake.pending) == 18
    assert batches.collect(study).told == 18


def test_a_study_in_a_service(server: BatchServer, batches: OpenAIBatch, tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    from tests.service.conftest import Process

    with (
        Process(f"sqlite:///{tmp_path}/served.db") as service,
        asktell.RemoteStudy.create(service.url, "night", selector()) as study,
    ):
        batches.submit(study, 12)
        server.end(status="expired", unfinished={1, 2})
        collected = batches.collect(study)
        assert (collected.told, collected.released) == (10, 2)
        assert study.spent == 10


def test_bad_arguments_are_refused(server: BatchServer, clock: Clock) -> None:
    scripted: Callable[[Any], Completion] = lambda request: Completion("a")  # noqa: E731
    evaluator = LLMEvaluator(ScriptedLLM(scripted), [Example("x")], {"words": n_words})
    with pytest.raises(InvalidArgumentError, match="an evaluator of an OpenAIChat, got one of <"):
        OpenAIBatch(evaluator)
    with pytest.raises(InvalidArgumentError, match="lease must be a positive number"):
        make(server, clock, lease=0)


def test_what_a_cache_knows_is_told_at_once_and_the_rest_is_kept(
    study: asktell.Study, server: BatchServer, clock: Clock, tmp_path: Path
) -> None:
    cache = AnswerCache(tmp_path / "answers.db")
    batches = make(server, clock, cache=cache)
    assert batches.submit(study, 10) == ["batch-0"]
    server.end("batch-0")
    assert batches.collect(study).told == 10
    assert cache.info().answers == 10
    with asktell.Study.create(f"sqlite:///{tmp_path}/studies.db", "night after", selector()) as again:
        assert batches.submit(again, 18) == ["batch-1"]
        assert len(server.batches["batch-1"].requests) == 8
        assert again.spent == 10
        assert again.result().spent_cost == 0.0
        assert right(again)
        assert [bool((done.details or {}).get("cached")) for done in again.evaluations()] == [True] * 10
        server.end("batch-1")
        assert batches.collect(again).told == 8
        assert again.done
