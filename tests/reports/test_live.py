"""The page that `asktell view` serves: live, to this machine only."""

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import asktell
from asktell.studies.study import Study
from asktell_adapters.cli.view import PageServer
from tests.plays import play
from tests.reports.conftest import HURRY, unfold
from tests.times import wait_for

GOAL = asktell.BestFeasible("rouge", subject_to={"brevity": 0.3})
pytestmark = pytest.mark.usefixtures("hurried")


@contextmanager
def serving(study: Study) -> Iterator[PageServer]:
    with PageServer(study, {"model": "small"}) as server:
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.02}
        )
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def get(
    server: PageServer, path: str, host: str | None = None
) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    try:
        connection.request("GET", path, headers={} if host is None else {"Host": host})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


@pytest.fixture
def running(study: Callable[..., Study]) -> Study:
    return study(["a", "b", "c"], GOAL, 40, stop=20)


def test_a_new_state_is_sent_soon(running: Study) -> None:
    with serving(running) as server:
        status, headers, text = get(server, f"{server.path}state")
        assert (status, headers["Cache-Control"]) == (200, "no-store")
        data = json.loads(text)
        assert (data["spent"], data["made"]["about"]) == (20, {"model": "small"})
        trial = running.ask()
        running.tell(trial, [0.9, 0.9], 0.1)
        wait_for(
            lambda: json.loads(get(server, f"{server.path}state")[2])["spent"] == 21
        )


def test_nothing_is_shown_to_who_does_not_know_the_way_or_comes_by_another_name(
    running: Study,
) -> None:
    with serving(running) as server:
        for path in (
            "/",
            "/state",
            "/wrong/",
            f"{server.path}other",
            f"{server.path}../state",
        ):
            assert get(server, path)[0] == 404
        assert get(server, server.path, host="evil.example")[0] == 421
        assert (
            get(server, server.path, host=f"localhost:{server.server_port}")[0] == 200
        )
        assert len(server.path) > 30


def test_a_browser_sees_what_comes_without_a_reload(
    browser: Any, running: Study
) -> None:
    with serving(running) as server:
        page = browser.new_page()
        page.add_init_script(HURRY)
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(server.url)
        page.get_by_text("20 of 40 evaluations", exact=False).first.wait_for()
        bar = page.locator("header progress")
        assert bar.evaluate("bar => bar.value") == 0.5
        assert page.get_by_label("The leader from").count() == 0
        play(running, lambda _: [0.5, 0.9], cost=0.1)
        page.locator("#verdict td").get_by_text("40", exact=True).wait_for(
            timeout=60_000
        )
        assert "Done: 40 of 40" in page.locator("header").inner_text()
        assert bar.evaluate("bar => bar.value") == 1
        course = page.get_by_label("The leader from 20 to 40 evaluations")
        leader = page.locator("#verdict .tile a").first.inner_text()
        assert leader in course.locator(".label").all_text_contents()
        assert (
            page.locator("h1")
            .inner_text()
            .startswith(("Take ", "Best so far: ", "Not decided: "))
        )
        assert complaints == []
        page.close()


def test_who_is_reading_is_not_interrupted(browser: Any, running: Study) -> None:
    with serving(running) as server:
        page = browser.new_page()
        page.add_init_script(HURRY)
        page.goto(server.url)
        unfold(page)
        page.locator("#prompts input").fill("variant")
        trial = running.ask()
        running.tell(trial, [0.5, 0.9], 0.1)
        page.get_by_role("button", name="Show the new state").wait_for(timeout=60_000)
        page.locator("header").get_by_text("21 of 40", exact=False).wait_for(
            timeout=60_000
        )
        assert page.locator("#verdict td").get_by_text("20", exact=True).count() == 1
        page.get_by_role("button", name="Show the new state").click()
        assert page.locator("#verdict td").get_by_text("21", exact=True).count() == 1
        assert page.locator("#prompts input").input_value() == "variant"
        page.close()
