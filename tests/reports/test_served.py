"""The pages of `asktell serve` in a real browser: a study live, and its changes with the right token."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

import asktell
from asktell.studies.study import Study
from asktell_adapters.server.app import make_app
from asktell_adapters.server.auth import Tokens
from asktell_adapters.server.open_studies import OpenStudies
from tests.reports.conftest import HOSTILE, HURRY, unfold

WRITE, READ = "write-token-0123456789", "read-token-0123456789"
GOAL = asktell.BestFeasible("rouge", subject_to={"brevity": 0.3})


@contextmanager
def serving(url: str) -> Iterator[str]:
    studies = OpenStudies(url)
    app = make_app(studies, Tokens(WRITE, READ))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        studies.close()


@pytest.mark.usefixtures("hurried")
def test_a_browser_follows_and_changes_a_study(
    browser: Any, study: Callable[..., Study], tmp_path: Path
) -> None:
    running = study(
        ["a", "b", "c"], GOAL, 40, stop=20, folder=tmp_path, texts=list(HOSTILE[:3])
    )
    with serving(f"sqlite:///{tmp_path}/studies.db") as url:
        complaints: list[str] = []

        def new_page(token: str) -> Any:
            page = browser.new_context(
                http_credentials={"username": "me", "password": token}
            ).new_page()
            page.add_init_script(HURRY)
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on(
                "request",
                lambda request: (
                    None
                    if request.url.startswith(url)
                    else complaints.append(request.url)
                ),
            )
            return page

        assert new_page("wrong-token-0123456789").goto(f"{url}/").status == 401
        complaints.clear()
        page = new_page(READ)
        page.goto(f"{url}/")
        page.get_by_text("20 of 40 evaluations").first.wait_for()
        page.get_by_role("link", name="summaries").click()
        page.locator("header").get_by_text(
            "20 of 40 evaluations", exact=False
        ).first.wait_for(timeout=60_000)
        assert page.get_by_role("button", name="Extend the budget").count() == 0
        unfold(page)
        (trial, *_) = running.worker(HOSTILE[1], lease=100).ask(2)
        page.locator("#workers").get_by_text(
            "1 worker holds 2 trials.", exact=False
        ).wait_for(timeout=60_000)
        assert HOSTILE[1] in page.locator("#workers").inner_text()
        assert page.locator("#workers img").count() == 0
        running.worker(HOSTILE[1]).tell(trial, [0.5, 0.9], 0.1)
        page.locator("header").get_by_text("21 of 40", exact=False).wait_for(
            timeout=60_000
        )
        page.locator("#workers").get_by_text("Total speed: ", exact=False).wait_for(
            timeout=60_000
        )
        assert ". Left: about" in page.locator("header").inner_text()

        page.context.close()
        page = new_page(WRITE)
        dialog = page.get_by_role("dialog")
        page.goto(f"{url}/studies/summaries")
        unfold(page)
        page.get_by_role("button", name="Extend the budget").click()
        dialog.get_by_label("More evaluations").fill("5")
        dialog.get_by_role("button", name="Extend the budget").dblclick()
        page.locator("header").get_by_text("of 45 evaluations", exact=False).wait_for(
            timeout=60_000
        )
        page.get_by_role("button", name="Add a prompt").click()
        dialog.get_by_label("Id of the prompt").fill("late")
        dialog.get_by_label("Text of the prompt").fill("<img src=x onerror=alert(1)>")
        dialog.get_by_role("button", name="Add a prompt").click()
        page.locator("#prompts").get_by_text("late", exact=True).first.wait_for(
            timeout=60_000
        )
        page.get_by_role("button", name="Retire a prompt").click()
        assert page.locator("datalist option").evaluate_all(
            "all => all.map((each) => each.value)"
        ) == ["a", "b", "c"]
        dialog.get_by_label("Id of the prompt").fill("nobody")
        dialog.get_by_label("Reason").fill("too long")
        dialog.get_by_role("button", name="Retire a prompt").click()
        dialog.get_by_text("nobody").wait_for()
        assert page.evaluate("document.activeElement.textContent") == "Retire a prompt"
        dialog.get_by_label("Id of the prompt").fill("late")
        dialog.get_by_role("button", name="Retire a prompt").click()
        page.locator("#prompts").get_by_text("too long", exact=False).first.wait_for(
            timeout=60_000
        )
        assert running.budget == 45
        page.get_by_role("button", name="Pause").click()
        page.get_by_role("button", name="Resume").wait_for()
        # At once, and not with the next look
        assert "Paused: " in page.locator("header").inner_text()
        page.locator("#verdict").get_by_text("is paused", exact=False).wait_for(
            timeout=60_000
        )
        # Who uses the keyboard is where they were.
        assert page.evaluate("document.activeElement.textContent") == "Resume"
        page.context.set_offline(True)
        page.get_by_role("button", name="Resume").click()
        page.get_by_role("alert").get_by_text(
            "The service is unreachable.", exact=False
        ).wait_for()
        page.context.set_offline(False)
        complaints.clear()  # the browser tells of requests that went nowhere
        assert running.paused
        page.locator("#verdict").get_by_text(
            "until it is resumed", exact=False
        ).wait_for(timeout=60_000)
        page.get_by_role("button", name="Resume").click()
        page.locator("header").get_by_text("Live: ", exact=False).wait_for(
            timeout=60_000
        )
        assert not running.paused
        assert [each for each in complaints if "status of 4" not in each] == []
        page.get_by_role("link", name="All studies").click()
        page.get_by_role("link", name="summaries").wait_for(timeout=60_000)
        # The list uses the width of the window
        for width in (390, 1600):
            page.set_viewport_size({"width": width, "height": 900})
            box = page.locator("table").bounding_box()
            assert box["width"] >= 0.9 * width
        part = page.get_by_label("progress of summaries").evaluate("bar => bar.value")
        assert part == running.spent / running.budget
        assert [each for each in complaints if "status of 4" not in each] == []
        page.context.close()
