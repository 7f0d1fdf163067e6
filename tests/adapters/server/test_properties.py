"""The service against bodies that nobody would send."""

import itertools
import json
import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asktell_adapters.server.auth import Tokens
from asktell_adapters.server.open_studies import OpenStudies

STUDY = {
    "name": "s",
    "prompts": {"p": "text", "q": "other"},
    "goal": {"maximize": "a", "at_least": {"b": 0.5}},
    "budget": 10**6,
    "examples": 50,
}

HEADERS = {"Authorization": "Bearer write-token-0123456789"}


@pytest.fixture(scope="module", autouse=True)
def guesses_without_limit() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("asktell_adapters.server.auth._GUESSES_AT_ONCE", math.inf)
        yield


@pytest.fixture(scope="module", autouse=True)
def studies_to_use() -> Iterator[None]:
    for name in ("s", "seed"):
        assert (
            send(
                "POST", "/v1/studies", json.dumps({**STUDY, "name": name}).encode()
            ).status_code
            == 201
        )
    for example in range(3):
        body = {"prompt": "p", "scores": [1, 1], "example": example}
        assert (
            send(
                "POST", "/v1/studies/seed/observe", json.dumps(body).encode()
            ).status_code
            == 200
        )
    trials = json.loads(
        send("POST", "/v1/studies/seed/ask", b'{"n":3,"worker":"w"}').content
    )["trials"]
    body = {"trial": trials[0], "scores": [1, 1]}
    assert (
        send("POST", "/v1/studies/seed/tell", json.dumps(body).encode()).status_code
        == 200
    )
    yield
    for name in ("s", "seed"):
        send("DELETE", f"/v1/studies/{name}")


@cache
def client() -> Any:
    from starlette.testclient import TestClient

    from asktell_adapters.server.app import make_app

    tokens = Tokens("write-token-0123456789")
    app = make_app(OpenStudies("memory://properties"), tokens)
    return TestClient(app, raise_server_exceptions=False)


def send(
    method: str, path: str, body: bytes | None = None, kind: str = "application/json"
) -> Any:
    return client().request(
        method, path, content=body, headers={**HEADERS, "Content-Type": kind}
    )


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None, categories=None), max_size=20)
    | st.sampled_from(
        ["p", "q", "a", "b", "text", "s", 10**400, 1e308, "\ud800", "a\0", ""]
    ),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from([*STUDY, "x"]) | st.text(), inner)
    ),
    max_leaves=8,
)
FIELDS = {
    "ask": ["n", "worker", "lease"],
    "tell": ["trial", "scores", "cost", "worker"],
    "tell-many": ["tells", "worker"],
    "observe": ["prompt", "scores", "example", "cost"],
    "release": ["trial", "worker"],
    "fail": ["trial", "reason", "cost", "worker"],
    "heartbeat": ["worker", "trial", "lease"],
}
_numbers = itertools.count()
GOOD: dict[str, Any] = {
    "n": 2,
    "worker": "w",
    "lease": 5.5,
    "trial": 1,
    "scores": [0.5, 0.5],
    "cost": 1,
    "tells": [{"trial": 0, "scores": [1, 1]}],
    "prompt": "p",
    "example": 3,
    "reason": "no",
}


def check_fuzzed(method: str, path: str, body: bytes) -> Any:
    response = send(method, path, body)
    assert response.status_code < 500, (path, body, response.text)
    if response.status_code >= 400:
        problem = json.loads(response.content.decode("ascii"))
        assert response.headers["Content-Type"] == "application/problem+json"
        assert problem["status"] == response.status_code
        assert problem["detail"]
        assert "Traceback" not in problem["detail"]
    elif response.content:
        json.loads(response.content.decode("ascii"), parse_constant=pytest.fail)
    return response


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, Any]:
    """An operation, with fields of which most are good."""
    operation = draw(st.sampled_from(sorted(FIELDS)))
    body = {field: GOOD[field] for field in FIELDS[operation]}
    for field in draw(
        st.lists(st.sampled_from([*FIELDS[operation], "unknown"]), max_size=2)
    ):
        body[field] = draw(json_values)
    return operation, body


@st.composite
def studies(draw: st.DrawFn) -> Any:
    """The body of a new study, with one or two fields changed."""
    body: dict[str, Any] = {**STUDY, "name": f"fuzzed {next(_numbers)}", "budget": 20}
    for field in draw(
        st.lists(
            st.sampled_from([*STUDY, "method", "features", "seed", "max_attempts"]),
            max_size=2,
        )
    ):
        body[field] = draw(json_values)
    if draw(st.booleans()):
        goal = dict(STUDY["goal"])  # type: ignore[call-overload]
        goal[
            draw(
                st.sampled_from(
                    ["type", "minimize", "maximize", "at_least", "at_most", "ranges"]
                )
            )
        ] = draw(json_values)
        body["goal"] = goal
    return body


def request_is_answered(data: st.DataObject) -> None:
    operation, body = data.draw(requests())
    check_fuzzed("POST", f"/v1/studies/s/{operation}", json.dumps(body).encode("ascii"))


def study_is_made_or_refused(data: st.DataObject) -> None:
    body = data.draw(studies())
    response = check_fuzzed("POST", "/v1/studies", json.dumps(body).encode("ascii"))
    if response.status_code == 201:
        send("DELETE", response.headers["Location"])


def selector_is_loaded_or_refused(data: st.DataObject) -> None:
    saved = json.loads(send("GET", "/v1/studies/seed/selector").content)
    holder = saved
    while True:
        key = data.draw(
            st.sampled_from(
                sorted(holder) if isinstance(holder, dict) else range(len(holder))
            )
        )
        if not (isinstance(holder[key], dict | list) and holder[key]) or data.draw(
            st.booleans()
        ):
            break
        holder = holder[key]
    holder[key] = data.draw(json_values)
    check_fuzzed(
        "PUT", "/v1/studies/loaded/selector", json.dumps(saved).encode("ascii")
    )
    send("DELETE", "/v1/studies/loaded")


def bytes_are_refused(data: st.DataObject) -> None:
    check_fuzzed(
        "POST",
        f"/v1/studies/s/{data.draw(st.sampled_from(sorted(FIELDS)))}",
        data.draw(st.binary()),
    )


def address_is_answered(data: st.DataObject) -> None:
    path = data.draw(
        st.text(
            st.characters(
                min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="#"
            )
        )
    )
    check_fuzzed(
        data.draw(st.sampled_from(["GET", "POST", "PUT", "DELETE"])),
        "/v1/studies/x" + path,
        b"{}",
    )


TARGETS = [
    request_is_answered,
    study_is_made_or_refused,
    selector_is_loaded_or_refused,
    bytes_are_refused,
    address_is_answered,
]


def fuzz(target: Callable[[st.DataObject], None], examples: int) -> None:
    options = settings(
        max_examples=examples, suppress_health_check=list(HealthCheck), database=None
    )
    options(given(st.data())(target))()


@pytest.mark.parametrize("target", TARGETS)
def test_fuzzed(target: Callable[[st.DataObject], None]) -> None:
    fuzz(target, 30)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_fuzzed_for_long(target: Callable[[st.DataObject], None]) -> None:
    fuzz(target, 5_000)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"n":' * 100_000,
        b"9" * 5000,
        b'{"n":1e999}',
        b'"\\ud800"',
        b"\xff\xfe\x00{",
        b"null",
        b"",
    ],
    ids=range(8),
)
def test_bodies_that_break_parsers_are_refused(body: bytes) -> None:
    for operation in ("ask", "tell"):
        check_fuzzed("POST", f"/v1/studies/s/{operation}", body)
        assert send("POST", f"/v1/studies/s/{operation}", body).status_code in (
            400,
            422,
        )
