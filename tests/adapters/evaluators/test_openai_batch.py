"""The batch API, against a server whose batches end as told; with a study in SQLite, as it would be in use."""

import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell.errors import EvaluatorError, InvalidArgumentError, UnknownTrialError
from asktell_adapters.evaluators import (
    Completion,
    Example,
    LLMEvaluator,
    OpenAIChat,
    Price,
    ScriptedLLM,
)
from asktell_adapters.evaluators.openai_batch import OpenAIBatch
from asktell_adapters.llms._bodies import MOST_BYTES
from asktell_adapters.llms.cache import AnswerCache
from asktell_adapters.testing.llm_server import Reply, content
from tests.adapters.batch_server import BatchServer, Fault
from tests.plays import told
from tests.times import Clock

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


def selector(budget: int = 18) -> asktell.Selector:
    return asktell.Selector(
        PROMPTS,
        asktell.BestFeasible(asktell.maximize("words")),
        budget,
        "uniform",
        examples=N_EXAMPLES,
    )


def right(study: asktell.Study) -> bool:
    return all(
        score == expected(*cell)
        for cell, score in told(study.selector, PROMPTS).items()
    )


class Night:
    """A study, and the server whose batches evaluate it."""

    def __init__(self, server: BatchServer, url: str) -> None:
        self.server, self.url, self.clock = server, url, Clock()
        self.clock.time = time.time()  # as the server has it
        self.study = asktell.Study.create(url, "night", selector())
        self.batches = self.make()

    def make(
        self, metric: Any = n_words, cache: AnswerCache | None = None, **options: Any
    ) -> OpenAIBatch:
        llm = OpenAIChat("m", base_url=self.server.base_url, price=Price(1e6, 2e6))
        examples = [Example(f"x{'y' * n}") for n in range(N_EXAMPLES)]
        return OpenAIBatch(
            LLMEvaluator(llm, examples, {"words": metric}, cache=cache),
            clock=self.clock,
            **options,
        )

    def submit(self, n: int) -> list[str]:
        return self.batches.submit(self.study, n)

    def collect(self) -> Any:
        return self.batches.collect(self.study)

    @property
    def failures(self) -> list[str]:
        return self.study.selector.state.failures.reasons()


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    with BatchServer(words) as server:
        made = Night(server, f"sqlite:///{tmp_path}/studies.db")
        yield made
        made.study.close()


def test_a_night_from_ask_to_answer(night: Night) -> None:
    assert night.submit(10) == ["batch-0"]
    assert night.submit(100) == ["batch-1"]
    assert night.submit(100) == []  # the budget is out
    first = night.server.batches["batch-0"]
    assert len(first.requests) == 10
    assert (first.data["endpoint"], first.data["completion_window"]) == (
        "/v1/chat/completions",
        "24h",
    )
    assert first.requests[0]["body"]["max_tokens"] == 512
    waiting = night.collect()
    assert (waiting.told, waiting.running) == (
        0,
        {f"batch-{n}": f"in_progress, 0 of {m}" for n, m in ((1, 8), (0, 10))},
    )
    night.server.end("batch-1")
    collected = night.collect()
    assert (collected.told, collected.failed, collected.released) == (8, 0, 0)
    assert collected.cost == 8 * (10 * 1 + 5 * 2) / 2
    assert collected.ended == {"batch-1": "completed"}
    night.server.end("batch-0")
    assert "10 recorded" in str(night.collect())
    assert night.study.done
    assert right(night.study)
    assert len(told(night.study.selector, PROMPTS)) == 18
    assert night.study.result().spent_cost == 18 * 10
    night.server.calls.clear()
    assert night.collect().ended == {}
    assert "GET content" not in night.server.calls  # nothing is read again


def test_answers_come_in_any_order_twice_and_from_strangers(night: Night) -> None:
    night.submit(6)
    night.server.end(twice={0, 3}, strangers=3, garbage=True)
    collected = night.collect()
    assert (collected.told, collected.failed) == (6, 0)
    assert (collected.duplicates, collected.passed_over, collected.malformed) == (
        2,
        3,
        1,
    )
    assert "3 responses that no trial waits for" in str(collected)
    assert right(night.study)


def test_refused_requests_are_failures_with_their_reasons(night: Night) -> None:
    replies = [
        Reply(status=400, text=f"context_length_exceeded, said {KEY}"),
        Reply(status=500),
        Reply(text=""),
        Reply(body=b'{"choices": []}'),
        Reply(),
    ]
    night.server.answer = lambda body: replies.pop(0)
    night.submit(5)
    night.server.end(shuffled=False)
    collected = night.collect()
    assert (collected.told, collected.failed, collected.released) == (1, 4, 0)
    reasons = "\n".join(night.failures)
    assert all(
        word in reasons
        for word in (
            "context_length",
            "status 500",
            "empty completion",
            "a response that cannot be read",
        )
    )
    assert KEY not in reasons
    assert "***" in reasons
    # Of the good and the empty one
    assert night.study.result().spent_cost == 2 * (10 * 1 + 5 * 2) / 2


def test_an_answer_that_is_missing_is_a_failure(night: Night) -> None:
    night.submit(4)
    night.server.end(missing={1})
    collected = night.collect()
    assert (collected.told, collected.failed) == (3, 1)
    assert night.failures == [
        "EvaluatorError: batch-0 was completed, but it has no response to this trial"
    ]


@pytest.mark.parametrize("status", ["expired", "cancelled"])
def test_what_was_not_reached_is_asked_again(status: Any, night: Night) -> None:
    night.submit(6)
    night.server.end(status=status, unfinished={0, 2, 4})
    collected = night.collect()
    assert (collected.told, collected.failed, collected.released) == (3, 0, 3)
    assert collected.ended == {"batch-0": status}
    assert night.study.pending == []
    night.submit(15)
    night.server.end()
    night.collect()
    assert night.study.done
    assert right(night.study)
    assert night.failures == []


def test_a_batch_that_is_refused_whole_is_handed_back(night: Night) -> None:
    night.submit(6)
    night.server.end(status="failed")
    collected = night.collect()
    assert (collected.released, collected.failed) == (6, 0)
    assert "Enqueued token limit reached (token_limit_exceeded)" in str(collected)


def test_a_metric_that_fails_is_a_failure_that_has_cost(night: Night) -> None:
    def picky(completion: Completion, example: Example) -> float:
        return float("nan") if example.input == "xy" else 1 / (len(example.input) - 1)

    night.batches = night.make(picky)
    night.submit(18)
    night.server.end()
    collected = night.collect()
    assert (collected.told, collected.failed) == (12, 6)
    assert collected.cost == 180
    assert sorted(reason.partition(":")[0] for reason in night.failures) == [
        "EvaluatorError"] * 3 + ["InvalidScoresError"] * 3  # fmt: skip


# Crashes


class CrashError(BaseException):
    """The process is gone."""


def crash(*args: object, **kwargs: object) -> None:
    raise CrashError


def test_a_crash_before_the_upload_hands_the_trials_back_later(
    monkeypatch: pytest.MonkeyPatch, night: Night
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(OpenAIBatch, "_lines", crash)
        with pytest.raises(CrashError):
            night.submit(6)
    assert len(night.study.pending) == 6
    early = night.collect()
    assert (early.unsettled, early.released) == (6, 0)
    assert "6 trials of a submission" in str(early)
    night.clock.time += 2 * 3600
    assert night.collect().released == 6
    assert night.study.pending == []


@pytest.mark.parametrize("with_effect", [True, False])
def test_a_crash_while_the_batch_is_created_never_submits_twice(
    with_effect: bool, monkeypatch: pytest.MonkeyPatch, night: Night
) -> None:
    if not with_effect:
        night.server.faults["POST /v1/batches"] = [Fault(Reply(drop=True))]
    batches_of_sdk = pytest.importorskip("openai.resources.batches").Batches
    real = batches_of_sdk.create
    with monkeypatch.context() as patch:  # the answer is lost with the process
        patch.setattr(
            batches_of_sdk,
            "create",
            lambda *args, **kwargs: crash(real(*args, **kwargs)),
        )
        with pytest.raises((CrashError, EvaluatorError)):
            night.submit(6)
    assert len(night.server.batches) == with_effect
    assert len(night.study.pending) == 6
    night.clock.time += 2 * 3600
    if with_effect:
        night.server.end()
        assert night.collect().told == 6
    else:
        assert night.collect().released == 6
    night.submit(100)
    night.server.end()
    night.collect()
    assert night.study.done
    assert right(night.study)
    asked = [
        request["custom_id"]
        for served in night.server.batches.values()
        for request in served.requests
    ]
    assert len(asked) == len(set(asked)) == 18


def test_a_crash_between_two_tells_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, night: Night
) -> None:
    night.submit(18)
    night.server.end()
    tell = night.study.tell
    left = 7

    def tell_and_die(*args: Any, **kwargs: Any) -> bool:
        nonlocal left
        left -= 1
        return tell(*args, **kwargs) if left >= 0 else crash()  # type: ignore[func-returns-value,return-value]

    with monkeypatch.context() as patch:
        patch.setattr(night.study, "tell", tell_and_die)
        with pytest.raises(CrashError):
            night.collect()
    assert len(told(night.study.selector, PROMPTS)) == 7
    again = night.collect()
    assert (again.told, again.passed_over) == (11, 7)
    assert night.study.done
    assert right(night.study)
    assert night.study.result().spent_cost == 18 * 10


def test_another_process_on_another_machine_collects(
    tmp_path: Path, night: Night
) -> None:
    night.submit(18)
    night.server.end()
    with asktell.Study.open(f"sqlite:///{tmp_path}/studies.db", "night") as other:
        assert night.make().collect(other).told == 18
    assert night.collect().told == 0


@pytest.mark.parametrize(
    ("status", "operation"), [("expired", "release"), ("completed", "fail")]
)
def test_what_another_process_settles_meanwhile_is_passed_over(
    status: Any, operation: str, monkeypatch: pytest.MonkeyPatch, night: Night
) -> None:
    def late(*args: object, **kwargs: object) -> None:
        raise UnknownTrialError("told by another")

    night.submit(4)
    night.server.end(status=status, missing={2})
    monkeypatch.setattr(night.study, operation, late)
    collected = night.collect()
    assert (collected.told, collected.failed, collected.released) == (3, 0, 0)


# The API's own failures


def test_an_upload_that_fails_hands_the_trials_back(night: Night) -> None:
    night.server.faults["POST /v1/files"] = [
        Fault(Reply(status=400, text=f"bad file, {KEY}"))
    ]
    with pytest.raises(
        EvaluatorError,
        match=r"confirm the upload .*released\. Submit them again.*BadRequestError",
    ) as caught:
        night.submit(6)
    assert KEY not in str(caught.value)
    assert night.study.pending == []
    assert night.submit(6) == ["batch-0"]


def test_a_creation_that_is_refused_hands_the_trials_back(night: Night) -> None:
    night.server.faults["POST /v1/batches"] = [
        Fault(Reply(status=400, text="no such model"))
    ]
    with pytest.raises(
        EvaluatorError, match="refused a batch, whose trials were released"
    ):
        night.submit(6)
    assert night.study.pending == []


@pytest.mark.parametrize(
    "reply", [Reply(drop=True), Reply.server_error(503)], ids=["dropped", "503"]
)
def test_a_lost_answer_to_a_creation_is_looked_up(reply: Reply, night: Night) -> None:
    night.server.faults["POST /v1/batches"] = [Fault(reply, with_effect=True)]
    assert night.submit(6) == ["batch-0"]
    night.server.faults["POST /v1/batches"] = [Fault(reply)]
    with pytest.raises(
        EvaluatorError, match=r"may or may not have created a batch of 6 trials"
    ):
        night.submit(6)
    assert len(night.study.pending) == 12
    assert night.collect().unsettled == 6


def test_answers_that_were_deleted_are_asked_again(night: Night) -> None:
    night.submit(6)
    night.server.end(status="expired")
    night.server.faults["GET content"] = [Fault(Reply(status=404))]
    collected = night.collect()
    assert "the server has deleted the responses of batch-" in str(collected)
    assert collected.released == 6


# Servers that cannot be believed


def served(study: str = "night", **changes: Any) -> bytes:
    """A list of one batch of the study's, but for some fields."""
    metadata = {
        "asktell_study": study,
        "asktell_worker": "openai-batch-20200101T000000Z-1",
        "asktell_lease": "9",
    }
    batch = {
        "id": "b",
        "status": "completed",
        "created_at": time.time(),
        "metadata": metadata,
        **changes,
    }
    return json.dumps({"data": [batch], "has_more": False}).encode()


LISTS = {
    "no JSON": b"{",
    "data of texts": b'{"data": ["b"]}',
    "no time": served(created_at=None),
    "metadata a list": served(metadata=["night"]),
    "the same page again": served().replace(b', "has_more": false', b""),
}


@pytest.mark.parametrize("body", LISTS.values(), ids=LISTS)
def test_a_malformed_list_is_an_error_that_says_so(body: bytes, night: Night) -> None:
    night.submit(6)
    night.server.faults["GET /v1/batches"] = [Fault(Reply(body=body))] * 3
    with pytest.raises(EvaluatorError, match="could not list the batches") as caught:
        night.collect()
    assert len(str(caught.value)) < 1200
    assert len(night.study.pending) == 6
    night.server.faults.clear()
    night.server.end()
    assert night.collect().told == 6


def line(**changes: Any) -> Callable[[str], Any]:
    """An answer to a request, but for some fields."""
    body = content(Reply(), "m")
    return lambda id_: {
        "custom_id": id_,
        "error": None,
        "response": {"status_code": 200, "body": body},
        **changes,
    }


USAGE = {"prompt_tokens": -5, "completion_tokens": 5}
LINES = {
    "no response": line(response=None),
    "response a text": line(response="ok"),
    "no body": line(response={"status_code": 200}),
    "body of other fields": line(
        response={
            "status_code": 200,
            "body": {"_fields_set": 5, "self": 1, "choices": 2},
        }
    ),
    "negative usage": line(
        response={"status_code": 200, "body": {**content(Reply(), "m"), "usage": USAGE}}
    ),
    "status a list": line(response={"status_code": [200], "body": {}}),
    "an error of objects": line(error={"code": {"a": 1}, "message": [2]}),
    "a long error": line(error={"code": "x" * 10**6, "message": "y" * 10**6}),
}


@pytest.mark.parametrize("make_line", LINES.values(), ids=LINES)
def test_a_malformed_answer_fails_its_trial(
    make_line: Callable[[str], Any], night: Night
) -> None:
    night.submit(2)
    night.server.end(shuffled=False)
    data = night.server.batches["batch-0"].data
    bad, good = night.server.files[data["output_file_id"]].splitlines()
    written = json.dumps(make_line(json.loads(bad)["custom_id"])).encode()
    night.server.files[data["output_file_id"]] = b"\n".join([written, good])
    collected = night.collect()
    assert (collected.told, collected.failed) == (1, 1)
    (reason,) = night.failures
    assert reason.startswith("CompletionError: ")
    assert len(reason) < 1000
    assert night.study.result().spent_cost == 10


@pytest.mark.parametrize(
    "text",
    [
        b"null", b"[]", b"17", b'"t"', b"{}", b'{"custom_id": null}', b'{"custom_id": 1}', b"[" * 100_000, b"\xff",
        b"9" * 10_000,
    ],
    ids=lambda text: repr(text[:30]),
)  # fmt: skip
def test_a_line_that_is_no_answer_is_counted(text: bytes, night: Night) -> None:
    night.submit(2)
    night.server.end()
    night.server.files[night.server.batches["batch-0"].data["output_file_id"]] += (
        text + b"\n"
    )
    collected = night.collect()
    assert (collected.told, collected.malformed) == (2, 1)


def test_answers_without_end_are_a_problem_of_their_batch(night: Night) -> None:
    night.batches = night.make(most_answer_bytes=10_000)
    night.submit(2)
    night.server.end()
    night.server.files[night.server.batches["batch-0"].data["output_file_id"]] += (
        b" " * 10_000
    )
    assert "a file of more than 10000 bytes" in str(night.collect())
    assert len(night.study.pending) == 2
    assert night.make().collect(night.study).told == 2


# Leases, limits, other studies


def test_a_list_of_batches_without_end_is_not_read_to_its_end(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asktell_adapters.evaluators.openai_batch._MOST_PAGES", 3)
    night.server.page = 2
    night.batches = night.make(most_requests=2)
    night.submit(18)
    with pytest.raises(EvaluatorError, match="3 pages of batches of the last 35 days"):
        night.collect()
    assert night.server.calls.count("GET /v1/batches") < 15


def test_a_page_or_an_error_of_any_size_is_limited(night: Night) -> None:
    night.submit(2)
    huge = Reply(body=b" " * (MOST_BYTES + 1))
    night.server.faults["GET /v1/batches"] = [Fault(huge)] * 3
    with pytest.raises(EvaluatorError, match=f"more than {MOST_BYTES} bytes"):
        night.collect()
    huge = Reply(body=b"!" * 2**24, status=400)
    night.server.faults["GET /v1/batches"] = [Fault(huge)] * 3
    tracemalloc.start()
    with pytest.raises(EvaluatorError, match=r"400|!!!") as caught:
        night.collect()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(str(caught.value)) < 1200
    assert most < 5e6
    night.server.faults.clear()
    night.server.end()
    assert night.collect().told == 2


def test_paid_answers_are_taken_after_their_leases_ran_out(night: Night) -> None:
    night.batches = night.make(lease=0.2)
    night.submit(18)
    night.server.end()
    time.sleep(0.3)
    (stolen, *_) = night.study.worker("somebody").ask(3)  # their leases end now
    assert night.study.worker("somebody").tell(
        stolen, {"words": expected(stolen.prompt, stolen.example or 0)}
    )
    night.clock.time += DAY
    collected = night.collect()
    assert (collected.told, collected.passed_over) == (17, 1)
    assert night.study.done
    assert right(night.study)


def test_large_requests_become_several_batches(night: Night) -> None:
    night.batches = night.make(most_bytes=600)
    ids = night.submit(7)
    assert len(ids) > 2
    assert sum(len(served.requests) for served in night.server.batches.values()) == 7
    assert len(night.study.pending) == 7
    sizes = [len(data) for data in night.server.files.values()]
    assert max(sizes) <= 1000
    with_huge = night.make(most_bytes=100)
    assert with_huge.submit(night.study, 3) == []
    assert "the request has" in night.failures[0]


def test_the_list_of_batches_has_pages(night: Night) -> None:
    night.server.page = 2
    night.batches = night.make(most_requests=3)
    night.submit(18)
    for id_ in night.server.batches:
        night.server.end(id_)
    assert night.collect().told == 18


def test_a_study_of_the_same_name_gets_no_answers_to_other_questions(
    tmp_path: Path, night: Night
) -> None:
    night.submit(18)
    night.server.end()
    prompts = [prompt[::-1] for prompt in PROMPTS]
    other = asktell.Selector(
        prompts,
        asktell.BestFeasible(asktell.maximize("words")),
        18,
        "uniform",
        examples=N_EXAMPLES,
    )
    with asktell.Study.create(
        f"sqlite:///{tmp_path}/others.db", "night", other
    ) as namesake:
        namesake.ask(18)
        night.clock.time += 8 * DAY
        collected = night.batches.collect(namesake)
        assert (collected.told, collected.failed, collected.passed_over) == (0, 0, 18)
        assert len(namesake.pending) == 18
    assert night.collect().told == 18


def test_a_study_in_a_service(tmp_path: Path, night: Night) -> None:
    pytest.importorskip("fastapi")
    from tests.adapters.server.conftest import Process

    with (
        Process(f"sqlite:///{tmp_path}/served.db") as service,
        asktell.RemoteStudy.create(service.url, "night", selector()) as study,
    ):
        night.batches.submit(study, 12)
        night.server.end(status="expired", unfinished={1, 2})
        collected = night.batches.collect(study)
        assert (collected.told, collected.released) == (10, 2)
        assert study.spent == 10


def test_bad_arguments_are_refused(night: Night) -> None:
    scripted: Callable[[Any], Completion] = lambda request: Completion("a")  # noqa: E731
    evaluator = LLMEvaluator(ScriptedLLM(scripted), [Example("x")], {"words": n_words})
    with pytest.raises(
        InvalidArgumentError,
        match="whose LLM is an OpenAIChat, got an evaluator whose LLM is <",
    ):
        OpenAIBatch(evaluator)
    with pytest.raises(
        InvalidArgumentError, match="lease must be a positive, finite number"
    ):
        night.make(lease=0)


def test_what_a_cache_knows_is_told_at_once_and_the_rest_is_kept(
    tmp_path: Path, night: Night
) -> None:
    cache = AnswerCache(tmp_path / "answers.db")
    night.batches = night.make(cache=cache)
    assert night.submit(10) == ["batch-0"]
    night.server.end("batch-0")
    assert night.collect().told == 10
    assert cache.info().answers == 10
    with asktell.Study.create(
        f"sqlite:///{tmp_path}/studies.db", "night after", selector()
    ) as again:
        assert night.batches.submit(again, 18) == ["batch-1"]
        assert len(night.server.batches["batch-1"].requests) == 8
        assert again.spent == 10
        assert again.result().spent_cost == 0.0
        assert right(again)
        assert [
            bool((done.details or {}).get("cached")) for done in again.evaluations()
        ] == [True] * 10
        night.server.end("batch-1")
        assert night.batches.collect(again).told == 8
        assert again.done
