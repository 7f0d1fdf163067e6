"""Every kind of report, in a real browser with all panels open: none of its scripts may fail."""

import itertools
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import reports
from asktell.finished import FinishedTable
from asktell.studies.storages.memory import MemoryStorage
from asktell.studies.study import Study
from asktell_adapters.cli.view import PageServer
from tests.reports.conftest import HURRY, faults, unfold, unnamed

N = 12
PROMPTS = {f"p{k}": f"Summarize the text, variant {k}." for k in range(5)}
QUALITY = asktell.BestFeasible("quality")


def score(trial: asktell.Trial, metric: int = 0) -> float:
    """A score that depends on prompt, example and metric, from 0 to 1."""
    number = sum(map(ord, str(trial.prompt_id)))
    return (7 * number + 5 * (trial.example or trial.id) + 3 * metric) % 11 / 10


def evaluate(study: Study, stop: int | None = None) -> None:
    """Record scores with details, and now and then a failure."""
    metrics = study.metrics
    while (stop is None or study.spent < stop) and (trial := study.ask()):
        if trial.id % 9 == 4:
            study.fail(trial, "TimeoutError: no response after 30 s", 0.001)
            continue
        details = {
            "output": f"response to {trial.example}",
            "seconds": 1.5,
            "tokens": 12,
            "rater": "ann",
        }
        scores = {name: score(trial, j) for j, name in enumerate(metrics)}
        study.tell(trial, scores, 0.01, details=details)


def with_proxies(goal: asktell.BestFeasible, **options: Any) -> asktell.Selector:
    """A selection with two proxies. One has a score of every cell, the other of a few."""
    selector = asktell.Selector(
        PROMPTS, goal, 25, examples=N, proxies=["judge", "length"], **options
    )
    for (k, prompt), example in itertools.product(enumerate(PROMPTS), range(N)):
        scores = {"judge": (k + example) % 2}
        scores |= {"length": 100 * k} if example < 2 and k else {}
        selector.observe(prompt, scores, example)
    return selector


def made() -> Iterator[tuple[str, asktell.Selector]]:
    """A selection of each kind, by its name."""
    plain: dict[str, Any] = {"budget": 25, "examples": N}
    segments = ["de", "en", "<i>"] * (N // 3)
    by_segment = asktell.BestFeasible(
        asktell.maximize("quality", worst_segment=True),
        {"cost": asktell.at_most(0.8)},
    )
    yield "plain", asktell.Selector(PROMPTS, QUALITY, **plain)
    yield "without examples", asktell.Selector(PROMPTS, QUALITY, 25)
    yield "without ids", asktell.Selector([*PROMPTS.values()], QUALITY, **plain)
    yield "proxies", with_proxies(QUALITY)
    yield "proxies and segments", with_proxies(by_segment, segments=segments)
    yield "segments", asktell.Selector(PROMPTS, by_segment, segments=segments, **plain)
    grid = asktell.grid(
        model=["small", "large"],
        prompt={"brief": "Be brief.", "long": "Think first."},
        temperature=[0, 1],
    )
    yield "factors", asktell.Selector(grid, QUALITY, **plain)
    agents = asktell.Candidates(
        [{"agent": name, "tools": len(name)} for name in ("react", "plan", "react-2")]
    )
    yield "agents", asktell.Selector(agents, QUALITY, **plain)
    constrained = asktell.BestFeasible(
        "quality",
        {"cost": asktell.at_most(0.5), "recall": asktell.within(0.1, of="baseline")},
    )
    yield (
        "constraints",
        asktell.Selector(PROMPTS, constrained, baseline="p1", **plain),
    )
    front = asktell.ParetoSet("quality", asktell.minimize("latency"))
    yield "Pareto set", asktell.Selector(PROMPTS, front, baseline="p1", **plain)
    yield "repeats", asktell.Selector(PROMPTS, QUALITY, repeats=3, **plain)
    for method in ("race", "csr-sh"):
        yield method, asktell.Selector(PROMPTS, QUALITY, method=method, **plain)
    yield (
        "cost",
        asktell.Selector(PROMPTS, QUALITY, asktell.Budget(cost=0.2), examples=N),
    )


SELECTIONS = dict(made())


@contextmanager
def watched(browser: Any) -> Iterator[Any]:
    """A page that has complained of nothing at the end."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    assert complaints == []
    context.close()


def use(page: Any) -> None:
    """Open all panels, and use each of their controls once."""
    unfold(page)
    panels = "document.querySelectorAll('section:not([hidden]) .panel')"
    assert page.evaluate(f"[...{panels}].every((panel) => panel.hasChildNodes())")
    assert page.locator("#prompts tbody tr:not(.detail)").count() >= 3
    # By the script, since this is not about how they look
    page.evaluate(
        """() => {
          const all = (what) => [...document.querySelectorAll(`main ${what}`)];
          for (let i = 0; i < 2; i += 1) all("th button").forEach((each) => each.click());
          all("td button[aria-expanded=false]").forEach((each) => each.click());
          all("figure details").forEach((each) => { each.open = true; });
          for (const select of all("select")) {
            for (const option of select.options) {
              select.value = option.value;
              select.dispatchEvent(new Event("change"));
            }
          }
        }"""
    )


@pytest.mark.parametrize(
    ("kind", "stop"),
    [
        *((kind, None) for kind in SELECTIONS),
        *((kind, 8) for kind in ("proxies", "factors", "Pareto set", "repeats")),
        *((kind, 1) for kind in ("proxies and segments", "constraints")),
        *((kind, 0) for kind in ("proxies and segments", "agents", "Pareto set")),
    ],
)
def test_a_report_of_every_kind(
    browser: Any, tmp_path: Path, kind: str, stop: int | None
) -> None:
    with Study.create(MemoryStorage(), kind, SELECTIONS[kind]) as study:
        evaluate(study, stop)
        study.report(tmp_path / "report.html", {"model": "small", "settings": {"n": 1}})
    with watched(browser) as page:
        page.goto((tmp_path / "report.html").as_uri())
        use(page)
        look_at(page)


def look_at(page: Any) -> None:
    """Draw a page wide and narrow, light and dark, and for paper. It has no fault in any of these."""
    for width, theme in ((1280, "light"), (390, "dark")):
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": 900})
        page.reload()
        unfold(page)
        assert faults(page) == []
        assert unnamed(page) == []
    first = page.locator("#verdict").inner_text() + page.locator("#plane").inner_text()
    assert not re.search(r"decision|null|hypervolume|[0-9a-f]{12}", first)
    # As wide as A4 between its margins
    page.emulate_media(media="print", color_scheme="light")
    page.set_viewport_size({"width": 718, "height": 1000})
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert faults(page) == []
    printed = page.inner_text("main")
    assert not re.search(r"open a row|point at|\bnull\b", printed, re.IGNORECASE)


@pytest.mark.parametrize("verdict", ["passed", "failed", "undecided", None])
def test_a_report_of_a_gate_and_of_finished_results(
    browser: Any, tmp_path: Path, verdict: str | None
) -> None:
    ids = ["old", "new"]
    cells = list(itertools.product(range(2), range(N)))
    table = FinishedTable(
        prompts=dict(zip(ids, ids, strict=True)),
        examples=[f"question {n}" for n in range(N)],
        arms=np.array([arm for arm, _ in cells]),
        places=np.array([n for _, n in cells]),
        scores=np.array([[(7 * n + 3 * arm) % 5 / 4] for arm, n in cells]),
    )
    goal = asktell.BestFeasible(asktell.maximize("quality", range=(0, 1)))
    selector = table.selector(goal, "old")
    ruling = {
        "headline": f'{verdict}: "new" against "old".',
        "verdict": verdict,
        "requirements": [["quality not worse", verdict]],
        "reasons": ["A reason."],
        "candidate": "new",
        "baseline": "old",
        "confidence": 0.95,
    }
    data = reports.document(
        selector.state, selector.method, selector.prompts, ruling=ruling if verdict else None,
        inputs=[f"The whole of question {n}" for n in range(N)],
    )  # fmt: skip
    reports.write(tmp_path / "report.html", data)
    with watched(browser) as page:
        page.goto((tmp_path / "report.html").as_uri())
        unfold(page)
        assert not page.locator("#spending").is_visible()
        assert page.get_by_text("Forecast").count() == 0
        if verdict:
            assert page.locator("h1").inner_text() == ruling["headline"]
            assert page.locator("#verdict .badge").first.inner_text() == verdict
            assert page.locator("#verdict .tile a").first.inner_text() == "new"
            assert "the candidate win or lose" in page.locator("#duel").inner_text()
        look_at(page)


@pytest.mark.parametrize("kind", ["proxies and segments", "factors", "Pareto set"])
def test_a_live_page_of_every_kind(browser: Any, kind: str) -> None:
    with (
        Study.create(MemoryStorage(), kind, SELECTIONS[kind]) as study,
        PageServer(study, {"model": "small"}) as server,
    ):
        thread = threading.Thread(target=server.serve_forever, args=[0.02])
        thread.start()
        try:
            with watched(browser) as page:
                page.add_init_script(HURRY)
                page.goto(server.url)
                page.wait_for_selector("#verdict h1")
                for stop in (8, None):
                    evaluate(study, stop)
                    words = f"{study.spent} of 25 evaluations"
                    page.locator("header").get_by_text(words).wait_for(timeout=60_000)
                    use(page)
                    # Nothing that is open keeps the next state from being drawn
                    page.reload()
                    page.wait_for_selector("#verdict h1")
        finally:
            server.shutdown()
            thread.join()
