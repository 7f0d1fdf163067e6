"""Authentication, limits, and requests that come again."""

import asyncio
import base64
import json
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from fastapi import Response

from asktell.errors import InvalidArgumentError
from asktell_adapters.server.auth import Guard, Role, Tokens, check_site, is_loopback
from asktell_adapters.server.idempotency import Answers
from asktell_adapters.server.problems import ProblemDetails
from tests.adapters.server.conftest import services
from tests.times import Clock

WRITE, READ = "write-token-0123456789", "read-token-0123456789"
LABEL = "label-token-0123456789"
STUDY = {
    "name": "s",
    "prompts": ["p", "q"],
    "goal": {"maximize": "a"},
    "budget": 6,
    "examples": 4,
}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def basic(token: str, user: str = "anybody") -> dict[str, str]:
    return {
        "Authorization": f"Basic {base64.b64encode(f'{user}:{token}'.encode()).decode()}"
    }


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A service with the study `s`, and without tokens. For many tests, which change nothing."""
    with services(tmp_path_factory.mktemp("unguarded")) as make:
        service = make()
        service.post("/v1/studies", STUDY, 201)
        yield service


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Likewise, with tokens."""
    with services(tmp_path_factory.mktemp("guarded")) as make:
        service = make(tokens=Tokens(WRITE, READ))
        service.post("/v1/studies", STUDY, 201, **bearer(WRITE))
        yield service


# Tokens


def test_roles() -> None:
    tokens = Tokens(WRITE, READ)
    assert tokens.role(f"Bearer {WRITE}") is Role.WRITE
    assert tokens.role(f"bearer  {READ} ") is Role.READ
    assert tokens.role(basic(WRITE)["Authorization"]) is Role.WRITE
    assert tokens.role(basic(READ, "")["Authorization"]) is Role.READ
    wrong_basic = (
        basic("")["Authorization"],
        basic(WRITE[:-1])["Authorization"],
        "Basic",
        "Basic é",
        f"Basic {WRITE}",
    )
    for wrong in (
        None,
        "",
        "Bearer",
        WRITE,
        f"Bearer {WRITE}x",
        "Bearer \ud800é\0",
        *wrong_basic,
    ):
        assert tokens.role(wrong) is Role.NOTHING
    assert Tokens().role(None) is Role.WRITE
    assert Tokens(read=READ).role(None) is Role.NOTHING
    assert WRITE not in repr(tokens)


@pytest.mark.parametrize(
    "token",
    ["", "short", "sixteen letters and spaces", "é" * 20, "line\nbreak-0123456789"],
)
def test_unusable_tokens(token: str) -> None:
    with pytest.raises(
        InvalidArgumentError, match="ASKTELL_READ_TOKEN must have at least 16"
    ) as error:
        Tokens.from_environment({"ASKTELL_READ_TOKEN": token})
    assert not token or token not in str(error.value)
    with pytest.raises(InvalidArgumentError, match="the same token"):
        Tokens(WRITE, WRITE)


def test_loopback() -> None:
    assert all(
        map(
            is_loopback,
            ["localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "LOCALHOST"],
        )
    )
    assert not any(
        map(
            is_loopback,
            [
                "0.0.0.0",
                "",
                "::",
                "10.0.0.1",
                "localhost.example.org",
                "127.0.0.1.nip.io",
            ],
        )
    )
    assert not any(
        map(
            is_loopback,
            [
                "[localhost]",
                "[127.0.0.1]",
                "[::1",
                "::1]",
                "[[::1]]",
                "[::1].evil",
                "[]",
            ],
        )
    )


@pytest.mark.parametrize(
    "headers", [{}, bearer("wrong-token-0123456789"), {"Authorization": WRITE}]
)
def test_without_a_token_nothing_is_said(headers: dict[str, str], guarded: Any) -> None:
    for method, path in [
        ("GET", "/v1/studies"),
        ("GET", "/v1/studies/s"),
        ("DELETE", "/v1/studies/s"),
        ("POST", "/v1/studies"),
        ("GET", "/metrics"),
        ("GET", "/v1/nothing"),
    ]:
        response = guarded.send(method, path, headers=headers)
        assert response.status_code == 401
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert response.headers["Content-Type"] == "application/problem+json"
    # Of a page that the service gave
    for own in ({"Origin": "http://localhost"}, {"Sec-Fetch-Site": "same-origin"}):
        response = guarded.send("POST", "/v1/studies/s/pause", {}, {**headers, **own})
        assert response.headers["WWW-Authenticate"].startswith("Basic ")
    assert guarded.send("GET", "/health", headers=headers).json() == {"status": "ok"}
    assert guarded.send("GET", "/openapi.json", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/studies/s/label", True),
        ("POST", "/studies/a%2Fb/label/tell", True),
        ("GET", "/health", True),
        ("GET", "/", False),
        ("GET", "/studies/s", False),
        ("GET", "/studies/s/data", False),
        ("GET", "/v1/studies/s/evaluations", False),
        ("POST", "/v1/studies/s/label", False),
        ("GET", "/studies/s/label/../data", False),
        ("GET", "/studies/s/labels", False),
    ],
)
def test_raters_may_use_the_label_pages_only(
    method: str, path: str, allowed: bool
) -> None:
    guard = Guard(Tokens(WRITE, READ, LABEL), Clock())
    if allowed:
        assert (
            guard.admit(method, path, {"authorization": f"Bearer {LABEL}"}, "a")
            is Role.LABEL
        )
    else:
        with pytest.raises(ProblemDetails, match="label pages only"):
            guard.admit(method, path, {"authorization": f"Bearer {LABEL}"}, "a")
    with pytest.raises(ProblemDetails, match="may only read"):
        guard.admit(
            "POST", "/studies/s/label/tell", {"authorization": f"Bearer {READ}"}, "a"
        )


def test_who_may_read_may_not_write(new_service: Any) -> None:
    service = new_service(tokens=Tokens(WRITE, READ))
    service.post("/v1/studies", STUDY, 201, **bearer(WRITE))
    for path in ("", "/s", "/s/result", "/s/workers", "/s/selector"):
        assert (
            service.send("GET", f"/v1/studies{path}", headers=bearer(READ)).status_code
            == 200
        )
    for method, path in [
        ("DELETE", "/s"),
        ("PUT", "/t/selector"),
        ("POST", ""),
        ("POST", "/s/ask"),
        ("PATCH", "/s"),
    ]:
        response = service.send(method, f"/v1/studies{path}", {}, bearer(READ))
        assert response.status_code == 403
        assert "read-write token" in response.json()["detail"]
    service.post("/v1/studies/s/ask", {}, **bearer(WRITE))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(
            (host, 200)
            for host in (
                "localhost:80",
                "LocalHost",
                "127.0.0.1",
                "127.0.0.1:",
                "[::1]",
                "[::1]:9",
            )
        ),
        *(
            (host, 403)
            for host in (
                "evil.example",
                "",
                "[::1].evil",
                "[::1]evil:80",
                "[::1",
                "localhost:80@evil",
            )
        ),
        *(
            (host, 403)
            for host in (
                "localhost:80.evil",
                "user@localhost",
                "localhost/",
                "localhost:x",
                "[evil]:1",
            )
        ),
    ],
)
def test_without_tokens_only_this_machine_is_answered(
    host: str, status: int, unguarded: Any, guarded: Any
) -> None:
    named = {"Host": host}
    assert unguarded.send("GET", "/v1/studies", headers=named).status_code == status
    named |= bearer(WRITE)
    assert guarded.send("GET", "/v1/studies", headers=named).status_code == 200


@pytest.mark.parametrize(
    "header",
    [
        "Forwarded",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "X-Forwarded",
        "x-forwarded-PROTO",
        "Via",
        "X-Real-IP",
        "X-Original-Forwarded-For",
        "X-Client-IP",
        "True-Client-IP",
        "CF-Connecting-IP",
        "X-Envoy-External-Address",
    ],
)
def test_without_tokens_what_a_proxy_passes_on_is_refused(
    header: str, unguarded: Any, guarded: Any
) -> None:
    for method, path in (
        ("GET", "/v1/studies"),
        ("POST", "/v1/studies"),
        ("GET", "/health"),
        ("GET", "/metrics"),
    ):
        response = unguarded.send(method, path, headers={header: "203.0.113.7"})
        assert response.status_code == 403
        problem = response.json()
        assert problem["type"] == "urn:asktell:problem:access-denied"
        assert (
            f"proxy, because it has the header {header.lower()}." in problem["detail"]
        )
        assert "ASKTELL_TOKEN" in problem["detail"]
    sent = {header: "x", **bearer(WRITE)}
    assert guarded.send("GET", "/v1/studies", headers=sent).status_code == 200


# Sizes and kinds of bodies


def test_bodies_that_are_too_large(new_service: Any) -> None:
    service = new_service(most_bytes=1000)
    service.post("/v1/studies", STUDY, 201)
    for content in (b"{" + b" " * 1000 + b"}", (b" " * 600 for _ in range(2))):
        response = service.client.request(
            "POST",
            "/v1/studies/s/ask",
            content=content,
            headers={"Content-Type": "application/json"},
        )
        assert response.status_code == 413
        assert response.json()["type"] == "urn:asktell:problem:the-request-is-too-large"
    service.post("/v1/studies/s/ask", {})


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"]
)
def test_bodies_that_a_web_page_could_send_unasked_are_refused(
    kind: str, unguarded: Any
) -> None:
    response = unguarded.client.request(
        "POST", "/v1/studies/s/ask", content=b"{}", headers={"Content-Type": kind}
    )
    assert response.status_code == 415
    assert unguarded.get("/v1/studies/s")["pending"] == 0


async def call(
    app: Any, messages: list[Any], method: str, path: str, **headers: str
) -> tuple[int, int]:
    """The status of the answer to a request whose body comes as told, and how often it was read."""
    statuses, reads = list[int](), 0

    async def receive() -> Any:
        nonlocal reads
        reads += 1
        return messages.pop(0) if messages else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    lowered = {name.lower().encode(): value.encode() for name, value in headers.items()}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "client": ("127.0.0.1", 1),
        "headers": [
            (b"host", b"localhost"),
            (b"content-type", b"application/json"),
            *lowered.items(),
        ],
    }
    await app(scope, receive, send)
    return statuses[0] if statuses else 0, reads


CHUNKED = {"transfer-encoding": "chunked"}
PART = {"type": "http.request", "body": b"x" * 100, "more_body": True}


async def test_bodies_that_do_not_come(
    new_service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asktell_adapters.server.app._SECONDS_FOR_A_BODY", 0.01)
    app = new_service().app
    assert await call(app, [PART], "POST", "/v1/studies", **CHUNKED) == (408, 2)
    assert (await call(app, [], "POST", "/v1/studies", **{"content-length": "9" * 30}))[
        0
    ] == 413
    # Nobody is left to answer
    await call(
        app, [PART, {"type": "http.disconnect"}], "POST", "/v1/studies", **CHUNKED
    )


@pytest.mark.parametrize(
    "headers", [{}, bearer("wrong-token-0123456789"), bearer(READ)]
)
@pytest.mark.parametrize("size", [{"content-length": "1000000"}, CHUNKED])
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/health"), ("POST", "/v1/studies"), ("GET", "/v1/studies")],
)
async def test_a_body_is_read_only_of_who_may_write(
    method: str, path: str, size: dict[str, str], headers: dict[str, str], guarded: Any
) -> None:
    parts = [PART] * 1000
    status, reads = await call(guarded.app, parts, method, path, **size, **headers)
    assert (status in (200, 401, 403), reads) == (True, 0)


# Guesses


def admitted(guard: Guard, token: str, address: str) -> int:
    try:
        guard.admit("GET", "/v1/studies", {"authorization": f"Bearer {token}"}, address)
    except ProblemDetails as problem:
        return problem.status
    return 200


def test_wrong_tokens_are_limited_by_address_and_right_ones_never() -> None:
    clock = Clock()
    guard = Guard(Tokens(WRITE, READ), clock)
    assert [admitted(guard, "x" * 20, "a") for _ in range(22)] == [401] * 20 + [429] * 2
    with pytest.raises(ProblemDetails, match=r"in 1 s\."):
        guard.admit("GET", "/v1/studies", {"authorization": "Bearer x"}, "a")
    assert [admitted(guard, token, "a") for token in (WRITE, READ)] == [200, 200]
    assert admitted(guard, "x" * 20, "b") == 401
    clock.time += 1.05  # five a second
    assert [admitted(guard, "x" * 20, "a") for _ in range(6)] == [401] * 5 + [429]
    clock.time += 100.0
    assert [admitted(guard, "x" * 20, "a") for _ in range(21)] == [401] * 20 + [429]


def test_no_more_addresses_are_remembered_than_there_is_room_for() -> None:
    guard = Guard(Tokens(WRITE, READ), Clock())
    for i in range(25_000):
        admitted(guard, "x" * 20, str(i))
    assert len(guard._due) <= 10_000


# Other sites


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:99"},
        {"Origin": "http://[broken"},
    ],
)
def test_what_a_page_elsewhere_sends_changes_nothing(
    headers: dict[str, str], unguarded: Any, guarded: Any
) -> None:
    for service, token in ((unguarded, {}), (guarded, basic(WRITE))):
        for path, data in (
            ("/s/pause", {}),
            ("/s/pause", None),
            ("/s/ask", {}),
            ("", {**STUDY, "name": "t"}),
        ):
            assert (
                service.send(
                    "POST", f"/v1/studies{path}", data, {**headers, **token}
                ).status_code
                == 403
            )
        assert (
            service.send(
                "DELETE", "/v1/studies/s", headers={**headers, **token}
            ).status_code
            == 403
        )
        info = service.send("GET", "/v1/studies/s", headers=token).json()
        assert (info["paused"], info["pending"]) == (False, 0)


def test_a_form_pauses_nothing(service: Any) -> None:
    """What a page can send without a script: no body, or one that is not called JSON; not by GET either."""
    service.post("/v1/studies", STUDY, 201)
    assert service.send("POST", "/v1/studies/s/pause", None).status_code == 422
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        assert (
            service.send(
                "POST", "/v1/studies/s/pause", b"{}", {"Content-Type": kind}
            ).status_code
            == 415
        )
    assert service.send("GET", "/v1/studies/s/pause").status_code == 405
    assert not service.get("/v1/studies/s")["paused"]


def test_a_page_elsewhere_may_lead_here_and_use_nothing(service: Any) -> None:
    service.post("/v1/studies", STUDY, 201)
    elsewhere = {"Sec-Fetch-Site": "cross-site"}
    for path in ("/studies", "/studies/s/data", "/v1/studies"):
        assert service.send("GET", path, headers=elsewhere).status_code == 403
    followed = {**elsewhere, "Sec-Fetch-Mode": "navigate"}
    assert service.send("GET", "/studies/s", headers=followed).status_code == 200


def test_own_requests_pass() -> None:
    for headers in (
        {
            "sec-fetch-site": "same-origin",
            "origin": "https://studies.example",
            "host": "127.0.0.1:8000",
        },
        {"sec-fetch-site": "none"},
        {"origin": "http://Studies.example:8000", "host": "studies.example:8000"},
        {},
    ):
        check_site("POST", headers)


# Requests that come again


def test_a_request_that_comes_again_is_answered_again(service: Any) -> None:
    service.post("/v1/studies", STUDY, 201, **{"Idempotency-Key": "1"})
    assert (
        service.post("/v1/studies", STUDY, 201, **{"Idempotency-Key": "1"})["name"]
        == "s"
    )
    first = service.post("/v1/studies/s/ask", {"n": 2}, **{"Idempotency-Key": "2"})
    assert (
        service.post("/v1/studies/s/ask", {"n": 2}, **{"Idempotency-Key": "2"}) == first
    )
    assert service.get("/v1/studies/s")["pending"] == 2
    for path, data in (
        ("/v1/studies/s/ask", {"n": 1}),
        ("/v1/studies/s/tell-many", {"n": 2}),
    ):
        problem = service.post(path, data, 422, **{"Idempotency-Key": "2"})
        assert "another request" in problem["detail"]
    service.post("/v1/studies/s/ask", {}, 422, **{"Idempotency-Key": "x" * 201})
    many = service.post(
        "/v1/studies/s/ask",
        {"n": 20},
        **{"Idempotency-Key": "3", "Accept-Encoding": "gzip"},
    )
    for encoding in ("gzip", "identity"):  # as each client takes it
        again = {"Idempotency-Key": "3", "Accept-Encoding": encoding}
        assert service.post("/v1/studies/s/ask", {"n": 20}, **again) == many


def test_raters_and_workers_have_keys_of_their_own(service: Any) -> None:
    key = {"Idempotency-Key": "1"}
    service.post("/v1/studies", STUDY, 201, **key)
    # Without tokens, everybody on this machine has the same role
    path, asked = "/studies/none/label/next", {"rater": "a"}
    assert service.send("POST", path, asked, key).status_code == 404
    answers = service.app.state.answers
    assert list(answers) == [(Role.WRITE, True), (Role.WRITE, False)]
    service.post("/v1/studies", STUDY, 201, **key)  # the first answer is kept


def test_the_document_of_the_api_is_written_once(
    service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = service.send("GET", "/openapi.json")
    assert first.headers["content-type"] == "application/json"
    monkeypatch.setattr(json, "dumps", lambda *_, **__: 1 / 0)
    for encoding in ("gzip", "identity"):
        again = service.send(
            "GET", "/openapi.json", headers={"Accept-Encoding": encoding}
        )
        assert again.content == first.content
        assert again.headers.get("content-encoding", "identity") == encoding


def make(
    bodies: list[bytes | Exception], calls: list[int], gate: asyncio.Event | None = None
) -> Callable[[], Coroutine[Any, Any, Response]]:
    async def made() -> Response:
        calls.append(1)
        if gate is not None:
            await gate.wait()
        body = bodies.pop(0)
        if isinstance(body, Exception):
            raise body
        return Response(body)

    return made


async def test_answers_are_kept_and_errors_are_not() -> None:
    calls, answers = list[int](), Answers()
    script = make([ValueError("busy"), b"good"], calls)
    with pytest.raises(ValueError, match="busy"):
        await answers.get("k", b"r", script)
    for _ in range(2):
        assert (await answers.get("k", b"r", script)).body == b"good"
    with pytest.raises(ProblemDetails, match="another request"):
        await answers.get("k", b"other", script)
    assert len(calls) == 2


async def test_who_comes_again_too_early_waits_and_gets_the_same() -> None:
    calls, gate, answers = list[int](), asyncio.Event(), Answers()
    first, second = (
        asyncio.create_task(answers.get("k", b"r", make([b"good"], calls, gate)))
        for _ in range(2)
    )
    await asyncio.sleep(0)
    with pytest.raises(ProblemDetails, match="another request"):
        await answers.get("k", b"other", make([], calls))
    first.cancel()  # its client has left; the other waits on
    gate.set()
    assert (await second).body == b"good"
    assert len(calls) == 1


async def test_the_oldest_answers_give_way() -> None:
    calls, answers = list[int](), Answers(most=2, most_bytes=10)

    async def n_calls(key: str, body: bytes = b"") -> int:
        await answers.get(key, b"", make([body], calls))
        return len(calls)

    assert [await n_calls(key) for key in "aab"] == [1, 1, 2]
    assert [await n_calls(key) for key in "cba"] == [3, 3, 4]  # a gave way to c, b to a
    assert await n_calls("d", b"x" * 11) == 5
    # Too large to be kept, and all others went
    assert [await n_calls(key) for key in "da"] == [6, 7]
    assert answers._bytes == 0
