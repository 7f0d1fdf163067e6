"""What a browser sees of a service, and who lets it in."""

import base64
import hashlib
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any
from urllib.parse import quote

import pytest

from asktell.studies.study import Study
from asktell_adapters.server.auth import Tokens
from asktell_adapters.server.watching import LiveReport
from tests.adapters.server.test_auth import basic
from tests.times import wait_for

WRITE, READ = "write-token-0123456789", "read-token-0123456789"
WRITES, READS = basic(WRITE), basic(READ)
STUDY = {
    "name": "s",
    "prompts": {"p": "P.", "q": "Q."},
    "goal": {"maximize": "a"},
    "budget": 6,
    "examples": 4,
}
BROWSER = {"Accept": "text/html,application/xhtml+xml"}


def told(service: Any, name: str = "s", n: int = 1, **headers: str) -> None:
    for _ in range(n):
        [trial] = service.post(f"/v1/studies/{name}/ask", {"worker": "w"}, **headers)[
            "trials"
        ]
        service.post(
            f"/v1/studies/{name}/tell",
            {"trial": trial, "scores": 0.5, "cost": 0.1},
            **headers,
        )


def newest(
    service: Any, path: str = "/studies/s/data", seconds: float = 60.0, **wanted: Any
) -> Any:
    """The state, once it is as wanted."""
    until = time.monotonic() + seconds
    while True:
        data = service.get(path)
        if (
            all(data[name] == value for name, value in wanted.items())
            or time.monotonic() > until
        ):
            return data
        time.sleep(0.05)


@pytest.fixture
def guarded(new_service: Any) -> Any:
    service = new_service(tokens=Tokens(WRITE, READ))
    service.post("/v1/studies", STUDY, 201, Authorization=f"Bearer {WRITE}")
    return service


# What is shown


def test_a_browser_sees_pages_and_programs_see_what_they_saw(service: Any) -> None:
    service.post("/v1/studies", STUDY, 201)
    service.post("/v1/studies", {**STUDY, "name": "a/b"}, 201)
    for path in ("/", "/studies/s", "/studies/a%2Fb"):
        response = service.send("GET", path, headers=BROWSER)
        assert (response.status_code, response.headers["Content-Type"]) == (
            200,
            "text/html; charset=utf-8",
        )
    assert service.send("GET", "/").status_code == 404
    assert not any(
        path.startswith(("/studies", "/log")) or path == "/"
        for path in service.get("/openapi.json")["paths"]
    )


@pytest.mark.usefixtures("hurried")
def test_the_feed_is_what_the_report_shows(service: Any) -> None:
    service.post("/v1/studies", STUDY, 201)
    told(service, n=2)
    data = service.get("/studies/s/data")
    assert (data["name"], data["spent"], data["prompts"]["ids"]) == ("s", 2, ["p", "q"])
    told(service)
    assert newest(service, spent=3)["spent"] == 3
    service.post("/v1/studies/s/extend", {"evaluations": 2})
    assert newest(service, budget=8)["budget"] == 8
    long = {**STUDY, "name": "long", "prompts": {"p": "P " * 10_000, "q": "Q."}}
    service.post("/v1/studies", long, 201)
    for name in ("s", "long"):
        for encoding in ("gzip", "identity"):
            response = service.send(
                "GET", f"/studies/{name}/data", headers={"Accept-Encoding": encoding}
            )
            assert response.headers.get("Content-Encoding", "identity") == encoding
            assert response.json()["name"] == name
    assert service.send("GET", "/studies/t/data").status_code == 404
    service.client.delete("/v1/studies/s")
    assert service.send("GET", "/studies/s/data").status_code == 404


def test_names_are_text(service: Any) -> None:
    name = "</script><b>\"' & a/b"
    service.post("/v1/studies", {**STUDY, "name": name}, 201)
    page = service.send("GET", f"/studies/{quote(name, safe='')}", headers=BROWSER).text
    assert "<b>" not in page
    assert page.count("</script>") == 2
    assert f'data-live="{quote(name, safe="")}/data"' in page
    assert service.get(f"/studies/{quote(name, safe='')}/data")["name"] == name


def test_the_list_has_state_spending_and_answer(service: Any) -> None:
    assert service.get("/studies") == {"n": 0, "studies": []}
    service.post("/v1/studies", STUDY, 201)
    service.post("/v1/studies", {**STUDY, "name": "t"}, 201)
    told(service, n=6)
    service.post("/v1/studies/t/ask", {"worker": "w"})
    for _ in range(600):
        found = service.get("/studies")
        rows = {row["name"]: row for row in found["studies"]}
        if (
            found["n"] == 2
            and rows.get("s", {}).get("part") == 1.0
            and rows.get("t", {}).get("workers") == 1
        ):
            break
        time.sleep(0.05)
    assert list(rows) == ["s", "t"]
    assert (rows["s"]["state"], rows["s"]["spending"]) == ("done", "6 of 6 evaluations")
    assert rows["s"]["answer"] in ("p", "q")
    assert (rows["t"]["state"], rows["t"]["workers"], rows["t"]["failures"]) == (
        "at work",
        1,
        0,
    )


def test_only_the_pages_own_script_and_style_may_run(service: Any) -> None:
    service.post("/v1/studies", STUDY, 201)
    for path in ("/", "/studies/s"):
        response = service.send("GET", path, headers=BROWSER)
        assert response.headers["Content-Security-Policy"] == "frame-ancestors 'none'"
        begin = r'\A(.*?)<meta http-equiv="Content-Security-Policy" content="(.*?)">'
        [(before, policy)] = re.findall(begin, response.text, re.DOTALL)
        # It holds for all that follows
        assert not re.findall("<(?:script|style|link)", before)
        assert "unsafe" not in policy
        assert "*" not in policy
        assert "default-src 'none'" in policy
        assert "connect-src 'self'" in policy
        for tag in ("script", "style"):
            [code] = re.findall(rf"<{tag}>(.*?)</{tag}>", response.text, re.DOTALL)
            digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
            assert f"{tag}-src 'sha256-{digest}'" in policy
        assert not re.findall(
            r"""(src|href|action)\s*=\s*["']?(https?:)?//""", response.text
        )


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/studies",
        "/studies/s",
        "/studies/s/data",
        "/studies/none/data",
        "/v1/studies",
    ],
)
def test_nothing_of_a_page_is_kept_framed_or_guessed_at(
    path: str, guarded: Any
) -> None:
    for headers in ({}, {"Authorization": f"Bearer {READ}"}):
        response = guarded.send("GET", path, headers={**BROWSER, **headers})
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "no-referrer"
        assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]


# Who is let in


def test_pages_are_behind_the_tokens(guarded: Any) -> None:
    for path in ("/", "/studies", "/studies/s", "/studies/s/data", "/studies/none"):
        response = guarded.send("GET", path, headers=BROWSER)
        assert (response.status_code, response.headers["Content-Type"]) == (
            401,
            "application/problem+json",
        )
        assert response.headers["WWW-Authenticate"].startswith("Basic ")
        for authorization in (READS, {"Authorization": f"Bearer {READ}"}):
            allowed = guarded.send("GET", path, headers={**BROWSER, **authorization})
            assert allowed.status_code == (404 if path == "/studies/none" else 200)


@pytest.mark.parametrize("path", ["/", "/studies", "/studies/s", "/studies/s/data"])
def test_without_tokens_a_name_that_leads_here_is_no_way_in(
    path: str, service: Any
) -> None:
    for headers in ({"Host": "evil.example"}, {"X-Forwarded-For": "203.0.113.7"}):
        assert (
            service.send("GET", path, headers={**BROWSER, **headers}).status_code == 403
        )


def test_only_who_may_write_gets_buttons(guarded: Any) -> None:
    assert (
        'data-change=""'
        in guarded.send("GET", "/studies/s", headers={**BROWSER, **READS}).text
    )
    assert (
        'data-change="../v1/studies/s"'
        in guarded.send("GET", "/studies/s", headers={**BROWSER, **WRITES}).text
    )


# What is made once


def test_a_state_is_made_once_for_all_who_look(
    service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.post("/v1/studies", STUDY, 201)
    made: list[float] = []
    genuine = Study.report_data
    monkeypatch.setattr(
        Study,
        "report_data",
        lambda self, *given: made.append(1.0) or genuine(self, *given),
    )
    with ThreadPoolExecutor(8) as pool:
        texts = set(
            pool.map(lambda _: service.get("/studies/s/data")["name"], range(50))
        )
    assert (texts, len(made)) == ({"s"}, 1)


@pytest.mark.parametrize(
    ("seconds", "looks"),
    [
        (0.5, (0.0, 4.9, 5.1)),  # nine times what it took, from its end
        # And never more than five seconds: a page that stands still looks broken
        (7.0, (0.0, 11.9, 12.1)),
    ],
)
def test_after_a_state_comes_a_pause(
    seconds: float,
    looks: tuple[float, ...],
    service: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service.post("/v1/studies", STUDY, 201)
    now = 0.0
    genuine = Study.report_data

    def slow(self: Study, *given: Any) -> Any:
        nonlocal now
        now += seconds
        return genuine(self, *given)

    monkeypatch.setattr(Study, "report_data", slow)
    monkeypatch.setattr("asktell_adapters.server.watching.time.monotonic", lambda: now)

    def spent(study: Study) -> list[int]:
        nonlocal now
        live, found = LiveReport(study), list[int]()
        for looked in looks:
            now = looked
            found.append(json.loads(live.text())["spent"])
            told(service)
        return found

    assert service.studies.call("s", spent) == [0, 0, 2]


def test_while_a_state_is_being_made_viewers_get_the_one_before(
    service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.post("/v1/studies", STUDY, 201)
    monkeypatch.setattr("asktell_adapters.server.watching._SECONDS_BETWEEN_LOOKS", 0.0)
    monkeypatch.setattr("asktell_adapters.server.watching._PAUSE", 0.0)
    assert service.get("/studies/s/data")["spent"] == 0
    genuine, begun, may_end = Study.report_data, Event(), Event()

    def slow(self: Study, *given: Any) -> Any:
        begun.set()
        assert may_end.wait(60)
        return genuine(self, *given)

    monkeypatch.setattr(Study, "report_data", slow)
    told(service)
    with ThreadPoolExecutor(1) as pool:
        next_state = pool.submit(service.get, "/studies/s/data")
        assert begun.wait(60)
        meanwhile = service.get("/studies/s/data")
        may_end.set()
        assert (meanwhile["spent"], next_state.result(60)["spent"]) == (0, 1)


def test_a_state_that_cannot_be_made_is_an_error_and_tried_again(
    service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.post("/v1/studies", STUDY, 201)

    def broken(self: Study, *given: Any) -> Any:
        raise ZeroDivisionError("an error of the numerics")

    with monkeypatch.context() as patch:
        patch.setattr(Study, "report_data", broken)
        assert service.send("GET", "/studies/s/data").status_code == 500
    assert service.get("/studies/s/data")["spent"] == 0


@pytest.mark.usefixtures("hurried")
def test_who_works_is_sent_where_nothing_else_has_changed(service: Any) -> None:
    service.post("/v1/studies", STUDY, 201)
    trials = service.post(
        "/v1/studies/s/ask", {"n": 2, "worker": "<b>w</b>", "lease": 60}
    )["trials"]
    first = service.get("/studies/s/data")
    assert (first["pending"], first["live"]["workers"][0]["holds"]) == (2, 2)
    (worker,) = first["live"]["workers"]
    assert (worker["name"], worker["seen"]) == ("<b>w</b>", None)
    assert [arm for arm, *_ in worker["trials"]] == [
        [0, 1][t["prompt_id"] == "q"] for t in trials
    ]
    service.post("/v1/studies/s/heartbeat", {"worker": "<b>w</b>", "lease": 600})
    wait_for(
        lambda: service.get("/studies/s/data")["live"]["workers"][0]["seen"] is not None
    )
    later = service.get("/studies/s/data")
    assert later["state"] == first["state"]
    assert (
        later["live"]["workers"][0]["until"]
        > first["live"]["workers"][0]["until"] + 500
    )


def test_a_study_made_anew_is_shown_anew(service: Any) -> None:
    service.post("/v1/studies", STUDY, 201)
    told(service, n=2)
    assert service.get("/studies/s/data")["spent"] == 2
    service.client.delete("/v1/studies/s")
    service.post("/v1/studies", STUDY, 201)
    assert service.get("/studies/s/data")["spent"] == 0
