"""The label page in a real browser: by keyboard, by two raters at once, over a killed server, under attack."""

import itertools
import json
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3

from asktell import Study
from asktell_adapters.cli.label import labelings
from asktell_adapters.server.auth import Tokens
from tests.adapters.labels.conftest import PROXIES, SCALE, LabelProject, LabelServer
from tests.adapters.server.conftest import Service
from tests.adapters.server.test_auth import basic
from tests.reports.conftest import HOSTILE, HURRY
from tests.times import wait_for

RECORDED = f'{SCALE}\nresponses = "responses.jsonl"'


@contextmanager
def opened(
    browser: Any, url: str, name: str = "", width: int = 1280, **options: Any
) -> Iterator[Any]:
    """The page of one rater, who has given a name. `page.traffic` has all that came and went."""
    context = browser.new_context(viewport={"width": width, "height": 800}, **options)
    page = context.new_page()
    page.add_init_script(HURRY)
    page.complaints, page.traffic = [], []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("dialog", lambda dialog: page.complaints.append(dialog.message))
    page.on("requestfinished", lambda request: page.traffic.append(request))
    page.goto(url)
    if name:
        page.wait_for_selector("input")
        page.keyboard.type(name)
        page.keyboard.press("Enter")
        page.wait_for_selector(".labels button, .say")
    yield page
    assert page.complaints == []
    context.close()


def response_of(page: Any) -> str:
    return str(page.locator("#item .side pre").first.inner_text())


def press(page: Any, key: str) -> None:
    """Press a key, and wait for the answer."""
    with page.expect_response(lambda response: "/label/" in response.url):
        page.keyboard.press(key)
    page.wait_for_selector("#item:not([aria-busy])")


def told(project: LabelProject) -> dict[str, Any]:
    """Every recorded evaluation by its response."""
    with Study.open(project.folder / "run" / "study.db", "run") as study:
        found = list(study.evaluations())
    by_response = {each.details["output"]: each for each in found}
    assert len(by_response) == len(found)
    return by_response


def test_forty_labels_without_a_mouse(
    browser: Any,
    project: LabelProject,
    serve_labels: Callable[..., LabelServer],
) -> None:
    server = serve_labels(project.write(RECORDED, budget=40))
    given = {}
    with opened(browser, server.url, "ann") as page:
        for k in range(40):
            assert page.locator(".labels button").count() == 3
            given[response_of(page)] = k % 3
            if k % 10 == 9:  # by arrows and Enter
                for _ in range(k % 3 + 1):
                    page.keyboard.press("ArrowRight")
                press(page, "Enter")
            else:
                press(page, str(k % 3 + 1))
        assert "40 labels given" in page.locator("header").inner_text()
        page.wait_for_selector("text=That was the last item. Thank you.")
        assert page.locator("text=Other raters hold").count() == 0
        assert page.get_by_text("Undo the last label").is_enabled()
        page.wait_for_selector("text=All items are labeled", timeout=60_000)
        assert "you can close this page" in page.locator("#item").inner_text()
        assert page.locator(".asked button").count() == 0
        times = page.evaluate(
            "performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/tell')).map((e) => e.duration)"
        )
    print(f"median {statistics.median(times):.0f} ms")
    assert statistics.median(times) < 200  # 50 on a machine that does nothing else
    assert {
        text: int(2 * e.scores["human"]) for text, e in told(project).items()
    } == given


def test_skip_and_undo_by_keyboard(
    browser: Any, project: LabelProject, serve_labels: Callable[..., LabelServer]
) -> None:
    server = serve_labels(project.write(RECORDED, budget=4))
    with opened(browser, server.url, "ann", width=390) as page:
        assert page.locator("button:has-text('Undo')").is_disabled()
        skipped = response_of(page)
        press(page, "s")
        first = response_of(page)
        assert first != skipped
        press(page, "3")
        second = response_of(page)
        press(page, "u")
        assert response_of(page) == first
        # Nothing happens with a modifier, a key that is held down, or another key.
        for key in ("Control+1", "Alt+2", "9", "x"):
            page.keyboard.press(key)
        page.evaluate(
            "document.dispatchEvent(new KeyboardEvent('keydown', { key: '1', repeat: true }))"
        )
        assert response_of(page) == first
        press(page, "1")
        assert response_of(page) == second
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        press(page, "2")
        press(page, "2")
        page.wait_for_selector("text=Only items that you skipped")
        press(page, "r")
        wait_for(lambda: response_of(page) == skipped, 20)
        press(page, "1")
    assert server.end()[0] == 143
    found = told(project)
    assert found[first].scores == {"human": 0.0}
    assert found[second].scores == {"human": 0.5}
    assert found[skipped].scores == {"human": 0.0}
    assert len(found) == 4


def test_two_raters_and_a_killed_server(
    browser: Any, project: LabelProject, serve_labels: Callable[..., LabelServer]
) -> None:
    config = project.write(RECORDED, budget=16)
    server = serve_labels(config)
    given: dict[str, tuple[str, float]] = {}
    with (
        opened(browser, server.url, "ann") as ann,
        opened(browser, server.url, "bob") as bob,
    ):
        pages = {"ann": ann, "bob": bob}

        def label(name: str, choice: int) -> None:
            text = response_of(pages[name])
            assert text not in given
            given[text] = name, choice / 2
            press(pages[name], str(choice + 1))

        for k in range(3):
            label("ann", k % 3)
            label("bob", (k + 1) % 3)
        shown = {name: response_of(page) for name, page in pages.items()}
        assert shown["ann"] != shown["bob"]
        server.kill()
        # The page says so, and repeats the label until there is a server again.
        given[shown["ann"]] = "ann", 1.0
        ann.keyboard.press("3")
        ann.wait_for_selector("text=unreachable")
        server = serve_labels(config, "--port", str(server.port))
        wait_for(lambda: response_of(ann) != shown["ann"], 60)
        ann.wait_for_selector("#item:not([aria-busy])")
        assert response_of(bob) == shown["bob"]
        # What was labeled last before the kill can still be undone.
        press(bob, "u")
        last = response_of(bob)
        assert given.pop(last)[0] == "bob"
        for k in range(4):
            label("bob", k % 3)
            label("ann", 2)
        assert "8 labels given" in ann.locator("header").inner_text()
    server.end()
    found = {
        text: (e.details["rater"], e.scores["human"])
        for text, e in told(project).items()
    }
    assert found == given
    assert len(found) == 14


def test_nothing_in_the_page_or_on_the_wire_names_a_prompt(
    browser: Any, project: LabelProject, serve_labels: Callable[..., LabelServer]
) -> None:
    label = f'{RECORDED}\ngold = "gold.jsonl"\ngold_every = 3'
    server = serve_labels(project.write(label, more=PROXIES))
    with opened(browser, server.url, "ann") as page:
        for key in "123s21u1":
            press(page, key)
        content = page.content()
        bodies = [
            part
            for request in page.traffic
            for part in (
                request.url,
                request.post_data or "",
                request.response().text(),
            )
        ]
        refused = [
            page.request.get(server.url.split("/studies")[0] + path).status
            for path in (
                "/studies",
                "/studies/run",
                "/v1/studies",
                "/v1/studies/run/result",
            )
        ]
    assert len(bodies) > 20
    for text in (content, *bodies):
        assert "secret" not in text
        assert "judge" not in text
    assert refused == [404] * 4


def test_responses_are_text(
    browser: Any, project: LabelProject, serve_labels: Callable[..., LabelServer]
) -> None:
    hostile = [text for text in HOSTILE if text.isprintable()]
    for k, row in enumerate(project.rows):
        row["response"] = f"{hostile[k % len(hostile)]} {k}"
    project.inputs = [hostile[j % len(hostile)] for j in range(len(project.inputs))]
    label = RECORDED.replace('"Partly"', json.dumps("<img src=x onerror=alert(1)>"))
    server = serve_labels(project.write(label))
    with opened(browser, server.url, "<b>ann</b>") as page:
        for _ in range(8):
            assert (
                page.locator("#page img, #page script, #page b, #item a").count() == 0
            )
            text = response_of(page)
            assert any(text.startswith(each.strip()) for each in hostile)
            press(page, "2")
        assert page.title() == "Labels · asktell"


def test_a_comparison_shows_two_responses(
    browser: Any, project: LabelProject, serve_labels: Callable[..., LabelServer]
) -> None:
    label = 'compare = true\nresponses = "responses.jsonl"'
    server = serve_labels(project.write(label, top='baseline = "secret-short"'))
    with opened(browser, server.url, "ann") as page:
        assert page.locator("#item .side section").count() == 2
        assert page.locator(".labels button").all_inner_texts() == [
            "1\nA is better",
            "2\nB is better",
            "3\nEqually good",
        ]
        press(page, "3")


def test_the_labels_are_in_sight_of_a_long_response(
    browser: Any, project: LabelProject, serve_labels: Callable[..., LabelServer]
) -> None:
    for row in project.rows:
        row["response"] = f"{row['response']} " + "word " * 2000
    server = serve_labels(project.write(RECORDED))
    for width, scheme in itertools.product((390, 1280), ("light", "dark")):
        look: dict[str, Any] = {"width": width, "color_scheme": scheme}
        with opened(browser, server.url, "ann", **look) as page:
            box = page.locator(".labels").bounding_box()
            assert box["y"] + box["height"] < 800
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_token_of_raters_opens_the_label_page_only(
    browser: Any, project: LabelProject, serve_labels: Callable[..., LabelServer]
) -> None:
    token = "label-token-0123456789"
    server = serve_labels(project.write(RECORDED), ASKTELL_LABEL_TOKEN=token)
    credentials = {"username": "ann", "password": token}
    with opened(browser, server.url, "ann", http_credentials=credentials) as page:
        press(page, "1")
    home = server.url.split("/studies")[0]
    for headers, status in (({}, 401), (basic(token), 403)):
        answer = urllib3.request("GET", f"{home}/v1/studies", headers=headers)
        assert answer.status == status


# The service that also serves labels


def test_the_service_with_a_label_page(project: LabelProject, tmp_path: Path) -> None:
    tokens = Tokens("write-token-0123456789", None, "label-token-0123456789")
    url = f"sqlite:///{tmp_path}/studies.db"
    with labelings([project.write(RECORDED)], url) as found:
        service = Service(url, tokens, labelings=found)
        rates = basic("label-token-0123456789")
        base = "/studies/run/label"
        assert service.send("GET", base, headers=rates).status_code == 200
        assert service.send("GET", base).status_code == 401
        for path in ("/", "/studies", "/studies/run", "/v1/studies/run/evaluations"):
            assert service.send("GET", path, headers=rates).status_code == 403
        assert service.send("POST", "/v1/studies/run/ask", {}, rates).status_code == 403
        item = service.send("POST", f"{base}/next", {"rater": "ann"}, rates).json()
        body = {"rater": "ann", "item": item["item"], "choice": 1}
        assert service.send("POST", f"{base}/tell", body, rates).json()["given"] == 1
        for wrong in ({}, {**body, "choice": -1}, {**body, "prompt": "?"}):
            answer = service.send("POST", f"{base}/tell", wrong, rates)
            assert answer.status_code == 422
        other = {**rates, "Origin": "https://evil.example"}
        assert service.send("POST", f"{base}/tell", body, other).status_code == 403
        none = service.send("POST", "/studies/none/label/next", {"rater": "a"}, rates)
        assert (none.status_code, "--label" in none.text) == (404, True)
        other = service.send("POST", f"{base}/tell", {**body, "choice": 0}, rates)
        assert 'You gave this item the label "Partly" before' in other.json()["said"]
        writes = basic("write-token-0123456789")
        assert service.send("GET", "/v1/studies/run", headers=writes).status_code == 200
        service.studies.close()
    wait_for(lambda: Study.open(url, "run").spent == 1, 10)


def test_a_study_that_is_deleted_takes_no_more_labels(
    project: LabelProject, tmp_path: Path
) -> None:
    tokens = Tokens("write-token-0123456789", None, "label-token-0123456789")
    url = f"sqlite:///{tmp_path}/studies.db"
    with labelings([project.write(RECORDED)], url) as found:
        service = Service(url, tokens, labelings=found)
        rates, writes = (
            basic(f"{role}-token-0123456789") for role in ("label", "write")
        )
        base = "/studies/run/label"
        item = service.send("POST", f"{base}/next", {"rater": "ann"}, rates).json()
        body = {"rater": "ann", "item": item["item"], "choice": 1}
        service.send("POST", f"{base}/tell", body, rates)
        deleted = service.send("DELETE", "/v1/studies/run", headers=writes)
        assert deleted.status_code in (200, 204)
        for what in ("next", "tell", "undo"):
            sent = body if what == "tell" else {"rater": "ann"}
            refused = service.send("POST", f"{base}/{what}", sent, rates)
            assert refused.status_code == 404
            assert "was deleted" in refused.json()["detail"]
        service.studies.close()


def test_a_page_of_a_deleted_study_says_so(
    browser: Any, project: LabelProject, serve_labels: Callable[..., LabelServer]
) -> None:
    server = serve_labels(project.write(RECORDED))
    with opened(browser, server.url, "ann") as page:
        press(page, "1")
        Study.delete(project.folder / "run" / "study.db", "run")
        press(page, "2")
        assert "was deleted" in page.locator("[role=alert]").inner_text()
        assert "1 label given" in page.locator("header").inner_text()
