"""Who is let in, how often, and with how much."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from asktell.errors import InvalidArgumentError
from asktell.service.gate import Limits
from asktell.service.limits import Answer, Answers, RateLimit
from asktell.service.tokens import Role, Tokens, is_loopback

WRITE, READ = "write-token-0123456789", "read-token-0123456789"
STUDY = {"name": "s", "prompts": ["p", "q"], "goal": {"maximize": "a"}, "budget": 6, "examples": 4}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


# Tokens


def test_roles() -> None:
    tokens = Tokens(WRITE, READ)
    assert tokens.role(f"Bearer {WRITE}") is Role.WRITE
    assert tokens.role(f"bearer  {READ} ") is Role.READ
    for wrong in (None, "", "Bearer", f"Basic {WRITE}", WRITE, f"Bearer {WRITE}x", "Bearer \ud800é\0"):
        assert tokens.role(wrong) is Role.NOTHING
    assert Tokens().role(None) is Role.WRITE
    assert Tokens(read=READ).role(None) is Role.NOTHING
    assert WRITE not in repr(tokens)


@pytest.mark.parametrize("token", ["", "short", "sixteen letters and spaces", "é" * 20, "line\nbreak-0123456789"])
def test_unusable_tokens(token: str) -> None:
    with pytest.raises(InvalidArgumentError, match="ASKTELL_READ_TOKEN must be at least 16") as error:
        Tokens.from_environment({"ASKTELL_READ_TOKEN": token})
    assert not token or token not in str(error.value)
    with pytest.raises(InvalidArgumentError, match="the same token"):
        Tokens(WRITE, WRITE)


def test_loopback() -> None:
    assert all(map(is_loopback, ["localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "LOCALHOST"]))
    assert not any(map(is_loopback, ["0.0.0.0", "", "::", "10.0.0.1", "localhost.example.org", "127.0.0.1.nip.io"]))


@pytest.mark.parametrize("headers", [{}, bearer("wrong-token-0123456789"), {"Authorization": WRITE}])
def test_without_a_token_nothing_is_said(headers: dict[str, str], new_service: Any) -> None:
    service = new_service(tokens=Tokens(WRITE, READ))
    service.post("/v1/studies", STUDY, 201, **bearer(WRITE))
    for method, path in [
        ("GET", "/v1/studies"),
        ("GET", "/v1/studies/s"),
        ("DELETE", "/v1/studies/s"),
        ("POST", "/v1/studies"),
        ("GET", "/metrics"),
        ("GET", "/v1/nothing"),
    ]:
        response = service.send(method, path, headers=headers)
        assert response.status_code == 401
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert response.headers["Content-Type"] == "application/problem+json"
    assert service.send("GET", "/health", headers=headers).json() == {"status": "ok"}
    assert service.send("GET", "/openapi.json", headers=headers).status_code == 200


def test_who_may_read_may_not_write(new_service: Any) -> None:
    service = new_service(tokens=Tokens(WRITE, READ))
    service.post("/v1/studies", STUDY, 201, **bearer(WRITE))
    for path in ("", "/s", "/s/result", "/s/workers", "/s/selector"):
        assert service.send("GET", f"/v1/studies{path}", headers=bearer(READ)).status_code == 200
    for method, path in [("DELETE", "/s"), ("PUT", "/t/selector"), ("POST", ""), ("POST", "/s/ask"), ("PATCH", "/s")]:
        response = service.send(method, f"/v1/studies{path}", {}, bearer(READ))
        assert response.status_code == 403
        assert "read-write token" in response.json()["detail"]
    service.post("/v1/studies/s/ask", {}, **bearer(WRITE))


@pytest.mark.parametrize(
    ("host", "status"), [("localhost:80", 200), ("127.0.0.1", 200), ("[::1]:9", 200), ("evil.example", 403), ("", 403)]
)
def test_without_tokens_only_this_machine_is_answered(host: str, status: int, new_service: Any) -> None:
    assert new_service().send("GET", "/v1/studies", headers={"Host": host}).status_code == status
    with_tokens = new_service(tokens=Tokens(WRITE))
    assert with_tokens.send("GET", "/v1/studies", headers={"Host": host, **bearer(WRITE)}).status_code == 200


@pytest.mark.parametrize(
    "header",
    [
        *("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded", "x-forwarded-PROTO", "Via", "X-Real-IP"),
        *("X-Original-Forwarded-For", "X-Client-IP", "True-Client-IP", "CF-Connecting-IP", "X-Envoy-External-Address"),
    ],
)
def test_without_tokens_what_a_proxy_passes_on_is_refused(header: str, new_service: Any) -> None:
    for method, path in (("GET", "/v1/studies"), ("POST", "/v1/studies"), ("GET", "/health"), ("GET", "/metrics")):
        response = new_service().send(method, path, headers={header: "203.0.113.7"})
        assert response.status_code == 403
        problem = response.json()
        assert problem["type"] == "urn:asktell:problem:access-denied"
        assert f"proxy (it has the header {header.lower()})" in problem["detail"]
        assert "ASKTELL_TOKEN" in problem["detail"]
    with_tokens = new_service(tokens=Tokens(WRITE))
    assert with_tokens.send("GET", "/v1/studies", headers={header: "x", **bearer(WRITE)}).status_code == 200


# Sizes and kinds of bodies


def test_bodies_that_are_too_large(new_service: Any) -> None:
    service = new_service(limits=Limits(body=1000, rate=0))
    service.post("/v1/studies", STUDY, 201)
    for content in (b"{" + b" " * 1000 + b"}", (b" " * 600 for _ in range(2))):
        response = service.client.request(
            "POST", "/v1/studies/s/ask", content=content, headers={"Content-Type": "application/json"}
        )
        assert response.status_code == 413
        assert response.json()["type"] == "urn:asktell:problem:the-request-is-too-large"
    service.post("/v1/studies/s/ask", {})


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"])
def test_bodies_that_a_web_page_could_send_unasked_are_refused(kind: str, service: Any) -> None:
    service.post("/v1/studies", STUDY, 201)
    response = service.client.request("POST", "/v1/studies/s/ask", content=b"{}", headers={"Content-Type": kind})
    assert response.status_code == 415
    assert service.get("/v1/studies/s")["pending"] == 0


async def call(
    gate: Any, messages: list[Any], method: str = "POST", path: str = "/v1/studies", **headers: str
) -> list[Any]:
    """What is sent and received for a request whose body comes as told; after it nothing comes any more."""
    sent: list[Any] = []

    async def receive() -> Any:
        sent.append("received")
        if messages:
            return messages.pop(0)
        return await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "client": ("127.0.0.1", 1),
        "headers": [(b"host", b"localhost"), *((k.encode(), v.encode()) for k, v in headers.items())],
    }
    await gate(scope, receive, send)
    return sent


CHUNKED = {"transfer-encoding": "chunked"}
LONG = {"content-length": "1000000"}
PART = {"type": "http.request", "body": b"x" * 100, "more_body": True}


@pytest.mark.parametrize(
    ("messages", "headers", "status", "said"),
    [
        ([PART], CHUNKED, 408, "within 0.01 s"),
        ([PART, {"type": "http.disconnect"}], CHUNKED, 400, "has left"),
        ([], {"content-length": "9" * 30}, 413, "at most"),
    ],
)
async def test_bodies_that_do_not_come(
    messages: Any, headers: dict[str, str], status: int, said: str, new_service: Any
) -> None:
    gate = new_service(limits=Limits(body_seconds=0.01, linger_seconds=0.01, rate=0)).gate
    start, body = [message for message in await call(gate, messages, **headers) if message != "received"][:2]
    assert start["status"] == status
    assert (b"connection", b"close") in start["headers"]
    assert said in json.loads(body["body"])["detail"]


@pytest.mark.parametrize("headers", [{}, bearer("wrong-token-0123456789"), bearer(READ)])
@pytest.mark.parametrize("size", [LONG, CHUNKED])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/health"),
        ("GET", "/openapi.json"),
        ("POST", "/health"),
        ("POST", "/v1/studies"),
        ("GET", "/v1/studies"),
    ],
)
async def test_a_body_is_read_of_nobody_but_who_may_write(
    method: str, path: str, size: dict[str, str], headers: dict[str, str], new_service: Any
) -> None:
    gate = new_service(tokens=Tokens(WRITE, READ), limits=Limits(linger=1000, strangers=0)).gate
    lowered = {name.lower(): value for name, value in headers.items()}
    start, body, *then = await call(gate, [PART] * 1000, method, path, **size, **lowered)
    assert start["status"] in (200, 401, 403)
    assert (b"connection", b"close") in start["headers"]
    assert body["body"]
    # Some of it is thrown away, so that the answer is not lost when the connection is closed upon it.
    assert then == [*["received"] * 10, {"type": "http.response.body"}]


async def test_a_connection_stays_open_without_a_body(new_service: Any) -> None:
    gate = new_service(tokens=Tokens(WRITE, READ)).gate
    for size in ({}, {"content-length": "0"}):
        start, body = await call(gate, [], "GET", "/health", **size)
        assert start["status"] == 200
        assert dict(start["headers"]).get(b"connection") is None
        assert not body["more_body"]


# Rates


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def test_a_rate_limit_lets_through_a_burst_and_then_the_rate() -> None:
    clock = Clock()
    limit = RateLimit(2.0, 3.0, clock)
    assert [limit.wait("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert limit.wait("b") == 0.0
    clock.time = 0.25
    assert limit.wait("a") == pytest.approx(0.25)
    clock.time = 0.5
    assert limit.wait("a") == 0.0
    assert limit.wait("a") > 0
    clock.time = 100.0
    assert [limit.wait("a") > 0 for _ in range(4)] == [False, False, False, True]
    assert RateLimit(0.0, 0.0, clock).wait("a") == 0.0


def test_a_rate_limit_remembers_so_many_keys() -> None:
    limit = RateLimit(1.0, 1.0, Clock(), most=2)
    assert [limit.wait(key) > 0 for key in "abab"] == [False, False, True, True]
    assert [limit.wait(key) > 0 for key in "cab"] == [False, False, False]  # each is forgotten for the next


def test_too_many_requests(new_service: Any) -> None:
    service = new_service(tokens=Tokens(WRITE, READ), limits=Limits(rate=0.01, strangers=0.01))
    service.gate._clients = RateLimit(0.01, 3)
    statuses = [service.send("GET", "/v1/studies", headers=bearer(WRITE)).status_code for _ in range(4)]
    assert statuses == [200, 200, 200, 429]
    response = service.send("GET", "/v1/studies", headers=bearer(WRITE))
    assert 1 <= int(response.headers["Retry-After"]) <= 100
    assert service.send("GET", "/v1/studies", headers=bearer(READ)).status_code == 200  # another client
    guesses = [service.send("GET", "/v1/studies", headers=bearer(f"{i}" * 20)).status_code for i in range(2)]
    assert guesses == [401, 429]


# Requests that come again


def test_a_request_that_comes_again_is_answered_again(service: Any) -> None:
    service.post("/v1/studies", STUDY, 201, **{"Idempotency-Key": "1"})
    assert service.post("/v1/studies", STUDY, 201, **{"Idempotency-Key": "1"})["name"] == "s"
    first = service.post("/v1/studies/s/ask", {"n": 2}, **{"Idempotency-Key": "2"})
    assert service.post("/v1/studies/s/ask", {"n": 2}, **{"Idempotency-Key": "2"}) == first
    assert service.get("/v1/studies/s")["pending"] == 2
    for path, data in (("/v1/studies/s/ask", {"n": 1}), ("/v1/studies/s/tell-many", {"n": 2})):
        problem = service.post(path, data, 422, **{"Idempotency-Key": "2"})
        assert "another request" in problem["detail"]
    service.post("/v1/studies/s/ask", {}, 422, **{"Idempotency-Key": "x" * 201})


def make(answers: list[Answer], calls: list[int], gate: asyncio.Event | None = None) -> Callable[[], Any]:
    async def made() -> Answer:
        calls.append(1)
        if gate is not None:
            await gate.wait()
        return answers.pop(0)

    return made


async def test_answers_are_kept_unless_they_say_come_again() -> None:
    good, busy, calls = Answer(200, [], b"good"), Answer(503, [], b"busy"), list[int]()
    answers = Answers()
    script = make([busy, good], calls)
    assert await answers.get("k", b"r", script) == busy
    assert await answers.get("k", b"r", script) == good
    assert await answers.get("k", b"r", script) == good
    assert await answers.get("k", b"other", script) is None
    assert len(calls) == 2


async def test_who_comes_again_too_early_waits() -> None:
    calls, gate, answers = list[int](), asyncio.Event(), Answers()
    script = make([Answer(500, [], b""), Answer(200, [], b"good")], calls, gate)
    first, second = (asyncio.create_task(answers.get("k", b"r", script)) for _ in range(2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(calls) == 1
    assert await answers.get("k", b"other", script) is None
    gate.set()
    assert [(await first).status, (await second).status] == [500, 200]  # type: ignore[union-attr]


async def test_answers_are_forgotten() -> None:
    clock, calls = Clock(), list[int]()
    answers = Answers(most=2, most_bytes=10, seconds=5, clock=clock)

    async def get(key: str, body: bytes = b"") -> None:
        assert await answers.get(key, b"", make([Answer(200, [], body)], calls)) is not None

    await get("a")
    clock.time = 5.0
    await get("a")
    assert len(calls) == 2
    await get("b", b"x" * 11)
    await get("c")
    await get("a")
    await get("b")
    assert len(calls) == 6
