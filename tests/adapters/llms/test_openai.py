"""The OpenAI-compatible adapter: against scripted faults, and against a real local server."""

import asyncio
import gzip
import json
import logging
import pickle
import socket
import time
import traceback
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from typing import Any

import pytest

from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell.problem.trials import Trial
from asktell_adapters.evaluators import (
    AsyncLLMEvaluator,
    Completion,
    CompletionError,
    Example,
    LLMEvaluator,
    Metric,
    OpenAIChat,
    Price,
    Request,
)
from asktell_adapters.llms._bodies import MOST_BYTES
from asktell_adapters.llms._remote import Pace
from asktell_adapters.metrics import Brevity, Rouge, output_tokens
from asktell_adapters.testing.llm_server import FaultyLLMServer, Reply, content

KEY = "sk-very-secret-0123456789"
HELLO = Request.chat("hello", max_new_tokens=8)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def client(url: str, **settings: object) -> OpenAIChat:
    defaults = {
        "base_url": url,
        "backoff": 0.001,
        "max_wait": 0.01,
        "timeout": 20.0,
        "max_retries": 3,
    }
    return OpenAIChat("m", **{**defaults, **settings})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("faults", "attempts"),
    [
        ([], 1),
        ([Reply.rate_limited(0)], 2),
        # Capped by max_wait, or this test would take an hour.
        ([Reply.rate_limited(3600)], 2),
        ([Reply.rate_limited(formatdate(time.time() + 3600, usegmt=True))], 2),
        ([Reply.rate_limited("nonsense")], 2),
        ([Reply.server_error(), Reply.server_error(503)], 3),
        ([Reply(drop=True), Reply.rate_limited(), Reply.server_error()], 4),
    ],
)
def test_transient_faults_are_outlasted(faults: list[Reply], attempts: int) -> None:
    with FaultyLLMServer(faults) as server, client(server.base_url) as llm:
        (answer,) = llm.complete([HELLO])
        assert not isinstance(answer, Exception)
        assert (answer.text, answer.attempts, len(server.requests)) == (
            "ok",
            attempts,
            attempts,
        )
        body = server.requests[-1]
        assert body["messages"] == [{"role": "user", "content": "hello"}]
        assert (body["model"], body["max_tokens"], body["temperature"]) == ("m", 8, 0.0)
        assert "seed" not in body


@pytest.mark.parametrize(
    ("fault", "message", "attempts"),
    [
        (Reply.server_error(), "failed after 4 attempts with InternalServerError", 4),
        (Reply(drop=True), "failed after 4 attempts with APIConnectionError", 4),
        (Reply.rate_limited(), "failed after 4 attempts with RateLimitError", 4),
        (
            Reply(status=429, code="insufficient_quota"),
            "failed after 1 attempt with RateLimitError",
            1,
        ),
        (
            Reply(status=400, code="context_length_exceeded"),
            "failed after 1 attempt with BadRequestError",
            1,
        ),
        (Reply.malformed(), "cannot be read as JSON", 1),
        (Reply.malformed(b"\xff\xfe"), "a response that cannot be read", 1),
        (
            Reply.malformed(b'{"choices": []}'),
            "cannot be read as a chat completion",
            1,
        ),
        (
            Reply(body=b"<html>", headers={"Content-Type": "text/html"}),
            "a response that cannot be read",
            1,
        ),
        (Reply(text=""), "empty completion .*5 tokens", 1),
        (Reply(text=None), "empty completion", 1),
    ],
    ids=lambda value: getattr(value, "code", None) or str(value)[:30],
)
def test_lasting_faults_fail_that_request_with_the_reason(
    fault: Reply, message: str, attempts: int
) -> None:
    with FaultyLLMServer([fault] * attempts) as server, client(server.base_url) as llm:
        failed, good = llm.complete([HELLO])[0], llm.complete([HELLO])[0]
        assert isinstance(failed, CompletionError)
        with pytest.raises(CompletionError, match=message):
            raise failed
        assert failed.attempts == attempts
        assert not isinstance(good, Exception)
        assert len(server.requests) == attempts + 1


ANSWER: dict[str, Any] = json.loads(json.dumps(content(Reply(), "m")))


def answer(**changes: Any) -> bytes:
    """A good answer but for some of its fields; `usage` and `choice` are changed within."""
    usage = {**ANSWER["usage"], **changes.pop("usage", {})}
    choice = {**ANSWER["choices"][0], **changes.pop("choice", {})}
    return json.dumps(
        {**ANSWER, "usage": usage, "choices": [choice], **changes}
    ).encode()


MALFORMED = {
    "no object": b"[1, 2]",
    "deep": b"[" * 100_000,
    "a huge number": b"9" * 10_000,
    "choices an object": answer(choices={"0": ANSWER["choices"][0]}),
    "choices of null": answer(choices=[None]),
    "no message": answer(choice={"message": None}),
    "content a list": answer(choice={"message": {"content": ["ok"]}}),
    "half a character": answer(choice={"message": {"content": "\ud800"}}),
    "usage a list": json.dumps({**ANSWER, "usage": [10, 5]}).encode(),
    "negative input": answer(usage={"prompt_tokens": -1}),
    "more cached than read": answer(
        usage={"prompt_tokens_details": {"cached_tokens": 11}}
    ),
    "tokens without end": answer(usage={"completion_tokens": 1}).replace(
        b'_tokens": 1,', b'_tokens": 1e400,'
    ),
    "half a token": answer(usage={"completion_tokens": 1.5}),
    "tokens a text": answer(usage={"prompt_tokens": "10"}),
    "tokens missing": answer(usage={"prompt_tokens": None}),
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_answer_fails_its_request_and_costs_nothing(body: bytes) -> None:
    price = Price(1e6, 1e6)
    with (
        FaultyLLMServer([Reply(body=body)]) as server,
        client(server.base_url, price=price) as llm,
    ):
        failed, good = llm.complete([HELLO])[0], llm.complete([HELLO])[0]
    assert isinstance(failed, CompletionError)
    assert "a response that cannot be read" in str(failed)
    assert len(str(failed)) < 1500
    assert (failed.cost, failed.attempts) == (0.0, 1)
    assert isinstance(good, Completion)
    assert good.cost == 15


def test_an_endless_answer_is_not_read_to_its_end() -> None:
    with (
        FaultyLLMServer([Reply(body=b" " * 2**20, endless=True)]) as server,
        client(server.base_url) as llm,
    ):
        failed, good = llm.complete([HELLO])[0], llm.complete([HELLO])[0]
    assert isinstance(failed, CompletionError)
    assert f"more than {MOST_BYTES} bytes" in str(failed)
    assert failed.attempts == 1
    assert isinstance(good, Completion)


@pytest.mark.parametrize("status", [302, 400, 401, 404, 429, 500, 503])
@pytest.mark.parametrize("packed", [False, True])
def test_an_endless_error_is_not_read_to_its_end(status: int, packed: bool) -> None:
    headers = {"Location": "/v1/elsewhere"} if status == 302 else {}
    body = b'{"error": {"message": "no' + b"!" * 2**20
    if packed:
        headers["Content-Encoding"] = "gzip"
        body = gzip.compress(b" " * 2**24)
    reply = Reply(body=body, endless=True, status=status, headers=headers)
    with (
        FaultyLLMServer([reply] * 20) as server,
        client(server.base_url, max_retries=1) as llm,
    ):
        tracemalloc.start()
        (failed,) = llm.complete([HELLO])
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert isinstance(failed, CompletionError)
    assert most < 3e7
    assert failed.attempts <= 2
    if status not in (302, 404):
        assert str(status) in str(failed)


def test_a_compression_that_was_not_offered_is_refused() -> None:
    """A few bytes of some may become gigabytes."""
    replies = [
        Reply(headers={"Content-Encoding": used}) for used in ("zstd", "gzip, gzip")
    ]
    for reply in replies:
        with (
            FaultyLLMServer([reply]) as server,
            client(server.base_url, max_retries=0) as llm,
        ):
            (failed,) = llm.complete([HELLO])
            assert "but only gzip, deflate were offered" in str(failed)
            assert isinstance(llm.complete([HELLO])[0], Completion)


def test_a_slow_answer_is_a_timeout_that_is_tried_again_and_charged() -> None:
    price = Price(input=1e6, output=1e6)
    with (
        FaultyLLMServer([Reply(delay=30)]) as server,
        client(server.base_url, timeout=0.5, price=price) as llm,
    ):
        (answer,) = llm.complete([HELLO])
        assert not isinstance(answer, Exception)
        assert (answer.attempts, answer.cost) == (2, 2 * 15.0)
    with (
        FaultyLLMServer([Reply(delay=30)]) as server,
        client(server.base_url, timeout=0.2, max_retries=0) as llm,
        pytest.raises(
            CompletionError, match=r"did not answer within 0.2 s \(1 attempt\)"
        ),
    ):
        asyncio.run(llm.acomplete(HELLO))


def test_attempts_that_all_time_out_are_charged_as_estimated() -> None:
    price, slow = Price(input=1e6, output=10e6), [Reply(delay=30)] * 3
    request = Request.chat("x" * 400, max_new_tokens=7)
    settings = {"timeout": 0.3, "max_retries": 2, "price": price}
    with (
        FaultyLLMServer([*slow, Reply(usage=(10, 2, 0)), *slow]) as server,
        client(server.base_url, **settings) as llm,
    ):
        first, answer, second = (llm.complete([request])[0] for _ in range(3))
    assert isinstance(first, CompletionError)
    assert isinstance(second, CompletionError)
    assert not isinstance(answer, Exception)
    assert (first.attempts, first.cost) == (3, 3 * (100 + 7 * 10)), (
        "nothing is known yet: as long as it may be"
    )
    assert (second.attempts, second.cost) == (3, 3 * (100 + 2 * 10)), (
        "as long as answers were so far"
    )
    with (
        FaultyLLMServer([*slow, Reply(status=400)]) as server,
        client(server.base_url, **settings) as llm,
    ):
        llm.max_retries = 3
        (refused,) = llm.complete([request])
    assert isinstance(refused, CompletionError)
    assert (refused.attempts, refused.cost) == (4, 3 * (100 + 7 * 10)), (
        "what a refusal costs is nothing"
    )


def test_tokens_and_cost_follow_the_price_table() -> None:
    price = {"m": Price(input=2.0, output=8.0, cached_input=0.5)}
    script = [
        Reply(usage=(1000, 100, 600)),
        Reply(usage=None),
        Reply(text="", usage=(1000, 100, 0)),
    ]
    with FaultyLLMServer(script) as server, client(server.base_url, price=price) as llm:
        known, unknown, empty = (llm.complete([HELLO])[0] for _ in range(3))
    assert not isinstance(known, Exception)
    assert not isinstance(unknown, Exception)
    assert (known.prompt_tokens, known.completion_tokens, known.cached_tokens) == (
        1000,
        100,
        600,
    )
    assert known.cost == pytest.approx((400 * 2.0 + 600 * 0.5 + 100 * 8.0) / 1e6)
    assert (unknown.prompt_tokens, unknown.cost) == (0, 0.0)
    assert isinstance(empty, CompletionError)
    assert empty.cost == pytest.approx((1000 * 2.0 + 100 * 8.0) / 1e6)


def test_reasoning_that_only_the_total_counts_is_paid_for() -> None:
    """Some servers leave it out of `completion_tokens`, and charge for it."""
    counts = [
        {"prompt_tokens": 17, "completion_tokens": 10, "total_tokens": 475},
        {"prompt_tokens": 17, "completion_tokens": 458, "total_tokens": 475},
        {"prompt_tokens": 17, "completion_tokens": 458, "total_tokens": 0},
    ]
    script = [Reply(body=answer(usage=count)) for count in counts]
    with (
        FaultyLLMServer(script) as server,
        client(server.base_url, price=Price(1.0, 2.0)) as llm,
    ):
        for found in (llm.complete([HELLO])[0] for _ in counts):
            assert isinstance(found, Completion)
            assert found.completion_tokens == 458
            assert found.cost == pytest.approx((17 + 2 * 458) / 1e6)


def test_concurrency_is_limited_over_all_callers() -> None:
    script = [Reply(delay=0.05)] * 12
    with (
        FaultyLLMServer(script) as server,
        client(server.base_url, concurrency=3) as llm,
    ):
        with ThreadPoolExecutor(3) as pool:
            answers = list(pool.map(lambda _: llm.complete([HELLO] * 4), range(3)))
        assert [len(batch) for batch in answers] == [4, 4, 4]
        assert server.in_flight_peak <= 3
        assert len(server.requests) == 12


def test_one_client_serves_several_event_loops_and_cancels() -> None:
    async def cancelled() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await llm.acomplete(HELLO)

    with (
        FaultyLLMServer([Reply(), Reply(delay=30)]) as server,
        client(server.base_url, concurrency=1) as llm,
    ):
        assert asyncio.run(llm.acomplete(HELLO)).text == "ok"
        asyncio.run(cancelled())
        # The cancelled request gave its slot back.
        assert asyncio.run(llm.acomplete(HELLO)).text == "ok"
        llm.close()
        assert asyncio.run(llm.acomplete(HELLO)).text == "ok"


def test_the_key_never_shows(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    with FaultyLLMServer(api_key="another") as server, client(server.base_url) as llm:
        (failed,) = llm.complete([HELLO])
        assert isinstance(failed, CompletionError)
        shown = (
            "".join(traceback.format_exception(failed))
            + repr(llm)
            + caplog.text
            + repr(pickle.dumps(llm))
        )
        assert "AuthenticationError" in shown
        assert "Check the environment variable OPENAI_API_KEY" in shown
        assert KEY not in shown
        assert failed.attempts == 1
    with FaultyLLMServer(api_key=KEY) as server, client(server.base_url) as llm:
        copy = pickle.loads(pickle.dumps(llm))
        assert copy.complete([HELLO])[0].text == "ok"
        copy.close()
    with (
        FaultyLLMServer(api_key="second") as server,
        client(server.base_url, api_key_env="OTHER") as llm,
    ):
        monkeypatch.setenv("OTHER", "second")
        assert not isinstance(llm.complete([HELLO])[0], Exception)


def test_no_key_is_an_error_for_openai_itself_and_none_for_a_local_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(
        EvaluatorError, match="Set the environment variable OPENAI_API_KEY"
    ):
        OpenAIChat("m")
    with FaultyLLMServer() as server, client(server.base_url) as llm:
        assert not isinstance(llm.complete([HELLO])[0], Exception)


def test_the_body_can_be_adapted() -> None:
    settings = {
        "limit_field": "max_completion_tokens",
        "send_sampling": False,
        "extra_body": {"top_k": 1},
    }
    with FaultyLLMServer() as server, client(server.base_url, **settings) as llm:
        llm.complete([HELLO])
    body = server.requests[0]
    assert (body["max_completion_tokens"], body["top_k"]) == (8, 1)
    assert not {"max_tokens", "temperature", "seed"} & set(body)
    with FaultyLLMServer() as server, client(server.base_url) as llm:
        llm.complete([Request.chat("x", temperature=0.7, seed=5)])
    assert (server.requests[0]["temperature"], server.requests[0]["seed"]) == (0.7, 5)
    assert OpenAIChat("m").api.limit_field == "max_completion_tokens"


@pytest.mark.parametrize(
    "settings",
    [
        {"concurrency": 0},
        {"max_retries": -1},
        {"timeout": 0},
        {"backoff": -1},
        {"max_wait": float("nan")},
        {"requests_per_minute": 0},
        {"tokens_per_minute": float("inf")},
        {"price": {"other": Price(1, 1)}},
    ],
)
def test_bad_arguments_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError):
        OpenAIChat("m", **settings)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="prices"):
        Price(-1, 1)


def scored(llm: OpenAIChat, examples: list[Example]) -> AsyncLLMEvaluator:
    metrics: dict[str, Metric] = {
        "rouge": Rouge(),
        "brevity": Brevity(5, 20),
        "tokens": output_tokens,
    }
    return AsyncLLMEvaluator(llm, examples, metrics, max_new_tokens=12, with_cost=True)


def test_a_real_server_answers_scores_and_counts(llama_server: str) -> None:
    examples = [
        Example("The cat sat on the mat.", "A cat sat."),
        Example("Dogs run fast.", "Dogs run."),
    ]
    price = Price(input=1.0, output=2.0)
    with OpenAIChat(
        "smollm2", base_url=llama_server, concurrency=2, price=price, allow_empty=True
    ) as llm:
        evaluator = scored(llm, examples)

        async def main() -> list[dict[str, float]]:
            return await asyncio.gather(
                *(evaluator("Summarize the text.", index) for index in (0, 1, 0))
            )

        first, _, again = asyncio.run(main())
        assert first == again  # Greedy.
        assert set(first) == {"rouge", "brevity", "tokens", "cost"}
        assert 0 < first["tokens"] <= 12
        assert first["cost"] > first["tokens"] * 2e-6
        batch = LLMEvaluator(
            llm, examples, evaluator.metrics, max_new_tokens=12, with_cost=True
        )
        assert batch.evaluate_batch([Trial(0, "p", "Summarize the text.", 0)]) == [
            first
        ]


def test_the_retry_waits_follow_retry_after_and_grow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []
    real: Callable[[float], object] = asyncio.sleep

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await real(0)  # type: ignore[misc]

    faults = [
        Reply.rate_limited(7),
        Reply.server_error(),
        Reply.server_error(),
        Reply.rate_limited(999),
    ]
    settings = {"backoff": 1.0, "max_wait": 60.0, "max_retries": 4}
    with FaultyLLMServer(faults) as server, client(server.base_url, **settings) as llm:
        monkeypatch.setattr(asyncio, "sleep", sleep)
        (answer,) = llm.complete([HELLO])
    assert not isinstance(answer, Exception)
    asked = [seconds for seconds in waits if seconds > 0]
    assert asked[0] == 7
    assert 2 <= asked[1] <= 4
    assert 4 <= asked[2] <= 8
    assert asked[3] == 60


def test_limits_per_minute_spread_the_requests_evenly() -> None:
    now = 100.0
    pace = Pace("requests_per_minute", 30, lambda: now)
    assert [pace.reserve() for _ in range(3)] == [0, 2, 4]
    now = 103.0
    assert pace.reserve(2) == 3  # the next place is at 106
    now = 200.0
    assert pace.reserve() == 0  # what was not used is not made up for
    pace.correct(4)
    assert pace.reserve() == 10
    assert pickle.loads(pickle.dumps(Pace("x", 30))).reserve() == 0
    assert [Pace("x", None).reserve(1e9) for _ in range(2)] == [0, 0]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"requests_per_minute": 60}, [0, 1, 2, 3]),
        # Guessed: 8 tokens of the answer, and 5 characters.
        ({"tokens_per_minute": 60 * 9.25}, [0, 1, 2, 3]),
        ({"requests_per_minute": 60, "tokens_per_minute": 60 * 9.25 / 2}, [0, 2, 4, 6]),
    ],
)
def test_requests_wait_for_their_places(
    limits: dict[str, float], expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    real: Callable[[float], object] = asyncio.sleep

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await real(0)  # type: ignore[misc]

    with (
        FaultyLLMServer([Reply(usage=None)] * 9) as server,
        client(server.base_url, **limits) as llm,
    ):
        llm._requests._clock = llm._tokens._clock = lambda: 0.0
        monkeypatch.setattr(asyncio, "sleep", sleep)
        answers = llm.complete([HELLO] * 3)
        llm.complete([HELLO])
    assert not any(isinstance(answer, Exception) for answer in answers)
    assert waits == pytest.approx(expected)


# A server that is not there


def test_an_address_at_which_nothing_answers_is_tried_once_more() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    for address in (url, "http://no-such-host.invalid/v1"):
        with client(address, max_retries=8) as llm:
            (failed,) = llm.complete([HELLO])
        assert isinstance(failed, CompletionError)
        assert failed.attempts == 2
        assert f"at {address} cannot be reached (2 attempts): " in str(failed)
        assert str(failed).endswith(
            ". Check the address, and that the server is running"
        )


def test_a_server_that_has_answered_may_be_away_for_longer() -> None:
    with FaultyLLMServer([Reply()]) as server, client(server.base_url) as llm:
        llm.complete([HELLO])
        assert llm._answered
    with client("http://no-such-host.invalid/v1") as llm:
        llm._answered = True
        (failed,) = llm.complete([HELLO])
    assert "failed after 4 attempts with APIConnectionError" in str(failed)


def test_a_page_in_place_of_an_api_is_said() -> None:
    with (
        FaultyLLMServer([Reply(status=404, body=b"<html>Not found</html>")]) as server,
        client(server.base_url) as llm,
    ):
        (failed,) = llm.complete([HELLO])
    assert (
        "status 404 and no JSON. base_url must be the root of the API, which usually ends in /v1"
        in str(failed)
    )
