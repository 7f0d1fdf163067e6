"""What a browser sees of a service, and who lets it in."""

import asyncio
import base64
import gzip
import hashlib
import json
import re
import time
from typing import Any
from urllib.parse import quote

import pytest

from asktell.service.feeds import Feeds, Kept, Pace
from asktell.service.gate import Limits
from asktell.service.tokens import Role, Tokens
from asktell.service.visitors import Sessions, check_own
from asktell.studies.study import Study

WRITE, READ = "write-token-0123456789", "read-token-0123456789"
STUDY = {"name": "s", "prompts": {"p": "P.", "q": "Q."}, "goal": {"maximize": "a"}, "budget": 6, "examples": 4}
BROWSER = {"Accept": "text/html,application/xhtml+xml"}


def told(service: Any, name: str = "s", n: int = 1, **headers: str) -> None:
    for _ in range(n):
        [trial] = service.post(f"/v1/studies/{name}/ask", {"worker": "w"}, **headers)["trials"]
        service.post(f"/v1/studies/{name}/tell", {"trial": trial, "scores": 0.5, "cost": 0.1}, **headers)


def newest(service: Any, path: str = "/studies/s/data", seconds: float = 60.0, **wanted: Any) -> Any:
    """The state, once it is as wanted."""
    until = time.monotonic() + seconds
    while True:
        data = service.get(path)
        if all(data[name] == value for name, value in wanted.items()) or time.monotonic() > until:
            return data
        time.sleep(0.05)


@pytest.fixture
def guarded(new_service: Any) -> Any:
    service = new_service(tokens=Tokens(WRITE, READ), limits=Limits(rate=0, strangers=0))
    service.post("/v1/studies", STUDY, 201, Authorization=f"Bearer {WRITE}")
    return service


def log_in(service: Any, token: str, status: int = 204, **headers: str) -> Any:
    response = service.send("POST", "/login", {"token": token}, headers)
    assert response.status_code == status, response.text
    return response


# What is shown


def test_a_browser_sees_pages_and_programs_see_what_they_saw(service: Any) -> None:
    service.post("/v1/studies", STUDY, 201)
    service.post("/v1/studies", {**STUDY, "name": "a/b"}, 201)
    for path in ("/", "/studies/s", "/studies/a%2Fb"):
        response = service.send("GET", path, headers=BROWSER)
        assert (response.status_code, response.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert service.send("GET", "/").status_code == 404
    assert not any(
        path.startswith(("/studies", "/log")) or path == "/" for path in service.get("/openapi.json")["paths"]
    )


def test_the_feed_is_what_the_report_shows(service: Any) -> None:
    service.post("/v1/studies", STUDY, 201)
    told(service, n=2)
    data = service.get("/studies/s/data")
    assert (data["name"], data["spent"], data["prompts"]["ids"]) == ("s", 2, ["p", "q"])
    address = f"/studies/s/data?version={data['state']}"
    response = service.send("GET", address)
    assert (response.status_code, response.content) == (204, b"")
    told(service)
    assert newest(service, spent=3)["spent"] == 3
    service.post("/v1/studies/s/extend", {"evaluations": 2})
    assert newest(service, budget=8)["budget"] == 8
    plain = service.send("GET", "/studies/s/data", headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    assert plain.json()["spent"] == 3
    for missing in ("/studies/t/data", "/studies/t/data?version=1.0.0"):
        assert service.send("GET", missing).status_code == 404
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
        if found["n"] == 2 and rows.get("s", {}).get("part") == 1.0 and rows.get("t", {}).get("workers") == 1:
            break
        time.sleep(0.05)
    assert list(rows) == ["s", "t"]
    assert (rows["s"]["state"], rows["s"]["spending"]) == ("done", "6 of 6 evaluations")
    assert rows["s"]["answer"] in ("p", "q")
    assert (rows["t"]["state"], rows["t"]["workers"], rows["t"]["failures"]) == ("at work", 1, 0)


def test_only_the_pages_own_script_and_style_may_run(service: Any) -> None:
    for path in ("/", "/studies/s"):
        response = service.send("GET", path, headers=BROWSER)
        policy = response.headers["Content-Security-Policy"]
        assert "unsafe" not in policy
        assert "*" not in policy
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "connect-src 'self'" in policy
        for tag in ("script", "style"):
            [code] = re.findall(rf"<{tag}>(.*?)</{tag}>", response.text, re.DOTALL)
            digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
            assert f"{tag}-src 'sha256-{digest}'" in policy
        assert not re.findall(r"""(src|href|action)\s*=\s*["']?(https?:)?//""", response.text)


@pytest.mark.parametrize("path", ["/", "/studies", "/studies/s", "/studies/s/data", "/studies/none/data", "/login"])
def test_nothing_of_a_page_is_kept_framed_or_guessed_at(path: str, guarded: Any) -> None:
    for headers in ({}, {"Authorization": f"Bearer {READ}"}):
        response = guarded.send("GET", path, headers={**BROWSER, **headers})
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "no-referrer"
        assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/studies/none", 404, "There is no study &#x27;none&#x27;."),
        ("/studies/%3Cscript%3E%22%26", 404, "&lt;script&gt;&quot;&amp;"),
        ("/studies/none/data", 404, "There is no study"),
        ("/nowhere", 404, "There is nothing at this address."),
        ("/studies/s/retire", 405, "does not know this method"),
        ("/studies/s/data?look=x", 422, "look"),
    ],
)
def test_a_browser_is_told_in_a_page_what_went_wrong(path: str, status: int, said: str, guarded: Any) -> None:
    may_read = {"Authorization": f"Bearer {READ}"}
    page = guarded.send("GET", path, headers={**BROWSER, **may_read})
    assert (page.status_code, page.headers["Content-Type"]) == (status, "text/html; charset=utf-8")
    assert page.headers["Cache-Control"] == "no-store"
    assert said in page.text
    assert page.text.count("<script>") == 1
    assert f'data-home="{"../" * (path.partition("?")[0].count("/") - 1) or "./"}"' in page.text
    policy = page.headers["Content-Security-Policy"]
    [code] = re.findall(r"<script>(.*?)</script>", page.text, re.DOTALL)
    assert f"script-src 'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'" in policy
    program = guarded.send("GET", path, headers=may_read)
    assert (program.status_code, program.headers["Content-Type"]) == (status, "application/problem+json")
    assert guarded.send("HEAD", path, headers={**BROWSER, **may_read}).content == b""


def test_refusals_and_bugs_are_pages_too_and_the_api_speaks_json(
    guarded: Any, new_service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = guarded.send("GET", "/studies", headers={**BROWSER, "Sec-Fetch-Site": "cross-site"})
    assert (elsewhere.status_code, "A page of another site" in elsewhere.text) == (403, True)
    assert elsewhere.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "data-login" not in guarded.send("GET", "/elsewhere", headers=BROWSER).text  # a session is of no use there
    for path in ("/v1/studies/none", "/v1/nothing"):
        answer = guarded.send("GET", path, headers={**BROWSER, "Authorization": f"Bearer {READ}"})
        assert (answer.status_code, answer.headers["Content-Type"]) == (404, "application/problem+json")
    slow = new_service(limits=Limits(rate=0.01))
    answers = [slow.send("GET", "/", headers=BROWSER) for _ in range(3)]
    assert (answers[-1].status_code, "Too many requests" in answers[-1].text) == (429, True)
    assert int(answers[-1].headers["Retry-After"]) > 1

    def broken(self: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("asktell.service.studies.Studies.names", broken)
    page = guarded.send("GET", "/studies/s", headers={**BROWSER, "Authorization": f"Bearer {READ}"})
    assert (page.status_code, "its log says more" in page.text, "secret" in page.text) == (500, True, False)


# Who is let in


def test_pages_are_behind_the_tokens(guarded: Any) -> None:
    for path in ("/", "/studies", "/studies/s", "/studies/s/data", "/studies/none"):
        response = guarded.send("GET", path)
        assert (response.status_code, response.headers["Content-Type"]) == (401, "application/problem+json")
        response = guarded.send("GET", path, headers=BROWSER)
        assert (response.status_code, response.headers["Content-Type"]) == (401, "text/html; charset=utf-8")
        up = "../" * (path.count("/") - 1)
        assert f'data-login="{up}login"' in response.text
        assert "s/data" not in response.text
    for path in ("/studies/s/data", "/studies"):
        assert guarded.send("GET", path, headers={"Authorization": f"Bearer {READ}"}).status_code == 200


def test_a_browser_logs_in_and_out(guarded: Any) -> None:
    response = log_in(guarded, READ)
    cookie = response.headers["Set-Cookie"]
    assert re.fullmatch(r"asktell=[\w-]{43}; Path=/; HttpOnly; SameSite=Strict; Max-Age=\d+", cookie)
    assert READ not in cookie
    assert guarded.get("/studies/s/data")["name"] == "s"
    guarded.send("POST", "/logout")
    assert guarded.send("GET", "/studies/s/data").status_code == 401
    stolen = cookie.partition(";")[0]
    assert guarded.send("GET", "/studies/s/data", headers={"Cookie": stolen}).status_code == 401


def test_a_session_of_https_is_for_https(guarded: Any) -> None:
    for headers in ({"X-Forwarded-Proto": "https"}, {"Origin": "https://localhost"}):
        cookie = log_in(guarded, READ, **headers).headers["Set-Cookie"]
        assert cookie.startswith("__Host-asktell=")
        assert "; Secure;" in cookie
        guarded.client.cookies.clear()
        session = {"Cookie": f"other=1; {cookie.partition(';')[0]}"}
        assert guarded.send("GET", "/studies/s/data", headers=session).status_code == 200


def test_the_api_does_not_listen_to_a_session(guarded: Any) -> None:
    log_in(guarded, WRITE)
    assert guarded.send("GET", "/v1/studies").status_code == 401
    assert guarded.send("POST", "/v1/studies/s/ask", {}).status_code == 401
    assert guarded.send("GET", "/metrics").status_code == 401


def test_a_session_ends_by_itself_and_a_new_one_ends_the_old() -> None:
    now = 0.0
    sessions = Sessions(seconds=10.0, most=2, clock=lambda: now)
    first, second = sessions.begin(Role.READ), sessions.begin(Role.WRITE)
    assert [sessions.role(name) for name in (first, second, "other", None)] == [
        Role.READ,
        Role.WRITE,
        Role.NOTHING,
        Role.NOTHING,
    ]
    third = sessions.begin(Role.READ)
    assert [sessions.role(name) for name in (first, second, third)] == [Role.NOTHING, Role.WRITE, Role.READ]
    now = 10.0
    assert {sessions.role(name) for name in (second, third)} == {Role.NOTHING}


def test_logging_in_again_ends_the_session_before(guarded: Any) -> None:
    before = log_in(guarded, READ).headers["Set-Cookie"].partition(";")[0]
    log_in(guarded, WRITE)
    guarded.client.cookies.clear()
    assert guarded.send("GET", "/studies", headers={"Cookie": before}).status_code == 401


def test_guesses_are_refused_and_never_keep_out_who_has_a_token(new_service: Any) -> None:
    service = new_service(tokens=Tokens(WRITE, READ), limits=Limits(rate=0, strangers=0.01))
    assert "unknown" in log_in(service, "x" * 20, 403).json()["detail"]
    for _ in range(30):
        response = log_in(service, "x" * 20, 429)
        assert service.send("GET", "/studies", headers={"Authorization": "Bearer " + "x" * 20}).status_code == 429
    assert 1 <= int(response.headers["Retry-After"]) <= 100
    page = service.send("GET", "/", headers=BROWSER)
    assert (page.status_code, "data-login" in page.text) == (401, True)
    assert service.send("GET", "/v1/studies", headers={"Authorization": f"Bearer {READ}"}).status_code == 200
    log_in(service, WRITE)
    assert service.send("GET", "/", headers=BROWSER).status_code == 200


@pytest.mark.parametrize("body", [b"{}", b"[]", b"null", b'{"token": 5}', b'{"token": "\\ud800"}', b"[" * 4000, b"{"])
def test_what_is_no_token_does_not_log_in(body: bytes, guarded: Any) -> None:
    response = guarded.send("POST", "/login", body)
    assert response.status_code == 403
    assert "Set-Cookie" not in response.headers
    assert guarded.send("POST", "/login", b" " * 5000).status_code == 413
    assert guarded.client.post("/login", data={"token": WRITE}).status_code == 415


def test_without_tokens_nobody_logs_in(service: Any) -> None:
    assert service.send("POST", "/login", {"token": WRITE}).status_code == 404


# Pages elsewhere


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:99"},
        {"Origin": "http://[broken"},
    ],
)
def test_what_a_page_elsewhere_sends_changes_nothing(headers: dict[str, str], guarded: Any, service: Any) -> None:
    log_in(guarded, WRITE)
    for path, data in (
        ("/studies/s/extend", {"evaluations": 5}),
        ("/studies/s/pause", {}),
        ("/studies/s/pause", None),
        ("/login", {"token": READ}),
        ("/logout", None),
    ):
        response = guarded.send("POST", path, data, headers)
        assert response.status_code == 403
        assert "Set-Cookie" not in response.headers
    for path in ("/v1/studies", "/v1/studies/s/ask"):
        assert service.send("POST", path, {**STUDY, "name": "t"}, headers).status_code == 403
    assert service.send("GET", "/v1/studies").json() == {"studies": ["s"]}
    data = guarded.get("/studies/s/data")
    assert (data["budget"], data["paused"]) == (6, False)


def test_a_form_pauses_nothing(guarded: Any) -> None:
    """What a page can send without a script: no body, or one that is not called JSON; not by GET either."""
    log_in(guarded, WRITE)
    assert guarded.send("POST", "/studies/s/pause", None).status_code == 422
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        answer = guarded.send("POST", "/studies/s/pause", b"{}", {"Content-Type": kind})
        assert answer.status_code == 415
    assert guarded.send("GET", "/studies/s/pause", headers=BROWSER).status_code == 405
    assert not guarded.get("/studies/s/data")["paused"]


def test_a_page_elsewhere_may_lead_here_and_use_nothing(service: Any) -> None:
    service.post("/v1/studies", STUDY, 201)
    elsewhere = {"Sec-Fetch-Site": "cross-site"}
    assert service.send("GET", "/studies", headers=elsewhere).status_code == 403
    followed = {**BROWSER, **elsewhere, "Sec-Fetch-Mode": "navigate"}
    assert service.send("GET", "/studies/s", headers=followed).status_code == 200


def test_own_requests_pass() -> None:
    for headers in (
        {b"sec-fetch-site": "same-origin", b"origin": "https://studies.example", b"host": "127.0.0.1:8000"},
        {b"sec-fetch-site": "none"},
        {b"origin": "http://Studies.example:8000", b"host": "studies.example:8000"},
        {},
    ):
        check_own("POST", True, headers)


@pytest.mark.parametrize("path", ["/", "/studies", "/studies/s", "/studies/s/data"])
def test_without_tokens_a_name_that_leads_here_is_no_way_in(path: str, service: Any) -> None:
    for headers in ({"Host": "evil.example"}, {"X-Forwarded-For": "203.0.113.7"}):
        assert service.send("GET", path, headers={**BROWSER, **headers}).status_code == 403


# Changes


def test_who_logged_in_to_read_changes_nothing(guarded: Any) -> None:
    log_in(guarded, READ)
    assert 'data-change=""' in guarded.send("GET", "/studies/s", headers=BROWSER).text
    for path, data in (
        ("extend", {"evaluations": 5}),
        ("add", {"prompts": {"r": "R."}}),
        ("retire", {"prompt": "q", "reason": "worse"}),
        ("pause", {}),
        ("resume", {}),
    ):
        assert guarded.send("POST", f"/studies/s/{path}", data).status_code == 403
    assert guarded.get("/studies/s/data")["budget"] == 6


def test_who_logged_in_to_write_changes_each_thing_once(guarded: Any) -> None:
    log_in(guarded, WRITE)
    assert 'data-change="s"' in guarded.send("GET", "/studies/s", headers=BROWSER).text
    for _ in range(2):
        guarded.post("/studies/s/extend", {"evaluations": 5, "key": "click 1"})
        assert guarded.post("/studies/s/add", {"prompts": {"r": "R."}, "key": "click 2"}) == {"ids": ["r"]}
        guarded.post("/studies/s/retire", {"prompt": "q", "reason": "worse", "key": "click 3"})
    data = newest(guarded, budget=11)
    assert (data["budget"], data["prompts"]["ids"]) == (11, ["p", "q", "r"])
    assert "worse" in data["prompts"]["reason"][1]
    for _ in range(2):
        assert guarded.post("/studies/s/pause", {})["paused"]
    newest(guarded, paused=True)
    assert not guarded.post("/studies/s/resume", {})["paused"]


# What is made once


def test_a_state_is_made_once_for_all_who_look(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    service.post("/v1/studies", STUDY, 201)
    made: list[float] = []
    genuine = Study.report_data
    monkeypatch.setattr(Study, "report_data", lambda self, **options: made.append(1.0) or genuine(self, **options))
    feeds = Feeds(service.studies)

    async def look() -> list[Any]:
        return await asyncio.gather(*(feeds.newer("s", None) for _ in range(200)))

    packed = asyncio.run(look())
    assert len(made) == 1
    assert len(set(packed)) == 1
    assert packed[0] is not None
    assert json.loads(gzip.decompress(packed[0].content))["name"] == "s"


def test_who_works_is_sent_by_itself_when_nothing_else_has_changed(service: Any) -> None:
    service.post("/v1/studies", STUDY, 201)
    trials = service.post("/v1/studies/s/ask", {"n": 2, "worker": "<b>w</b>", "lease": 60})["trials"]
    answer = service.send("GET", "/studies/s/data")
    data = answer.json()
    assert (answer.headers["Asktell-Look"], data["out"], data["live"]["workers"][0]["holds"]) == ("-1", 2, 2)
    path = f"/studies/s/data?version={data['state']}"
    assert service.send("GET", path).status_code == 204
    first = service.send("GET", f"{path}&look=-1")
    (worker,) = first.json()["live"]["workers"]
    assert first.json().keys() == {"live"}
    assert (worker["name"], worker["seen"]) == ("<b>w</b>", None)
    assert [arm for arm, *_ in worker["trials"]] == [[0, 1][t["prompt_id"] == "q"] for t in trials]
    assert service.send("GET", f"{path}&look={first.headers['Asktell-Look']}").status_code == 204
    service.post("/v1/studies/s/heartbeat", {"worker": "<b>w</b>", "lease": 600})
    until = time.monotonic() + 60
    while service.send("GET", f"{path}&look={first.headers['Asktell-Look']}").status_code == 204:
        assert time.monotonic() < until
        time.sleep(0.1)
    (worker,) = service.send("GET", f"{path}&look=-1").json()["live"]["workers"]
    assert worker["until"] > first.json()["live"]["workers"][0]["until"] + 500
    assert worker["seen"] is not None


def test_after_a_state_comes_a_pause() -> None:
    now, made = 0.0, []

    def make(before: int | None) -> int:
        nonlocal now
        now += 1.0  # it takes a second
        made.append(now)
        return len(made)

    kept: Kept[int] = Kept(make, lambda: now)

    async def look(at: float) -> int:
        nonlocal now
        now = at
        await kept.get()
        return await kept.get(wait=True)

    assert asyncio.run(look(0.0)) == 1
    assert asyncio.run(look(9.9)) == 1  # nine times what it took, from its end
    assert asyncio.run(look(10.1)) == 2
    kept.sent = 2_400_000_000  # to be sent at 8 MB a second: 300 seconds
    assert asyncio.run(look(30.0)) == 3
    assert asyncio.run(look(330.0)) == 3
    assert asyncio.run(look(332.0)) == 4


def test_the_more_look_the_less_often_each_does() -> None:
    now = 0.0
    pace = Pace(lambda: now)
    assert pace.seconds == 2.0
    for viewers, seconds in ((10, 2.0), (300, 12.0), (10_000, 30.0), (25, 2.0)):
        for _ in range(6):
            step = pace.seconds / viewers
            for _ in range(viewers):
                now += step
                pace.count()
        assert pace.seconds == pytest.approx(seconds, rel=0.02)
