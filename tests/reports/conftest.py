"""Selections to report on, and a browser to look at the pages with."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asktell
from asktell.studies.study import Study

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

HOSTILE = (
    "</script><script>document.title = 'taken'</script>",
    "<img src=x onerror=\"document.title = 'taken'\">",
    "javascript:document.title='taken'",
    "\u2028line\u2029separators\u0000and\u0085more",
    '" onmouseover="document.title=\'taken\'" x="',
    "<!--<script>",
    "]]></style><svg onload=\"document.title='taken'\">",
    "{{constructor.constructor('alert(1)')()}}",
    "\ud800 half a character",
    "</title></noscript><script>document.title = 'taken'</script>",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium; for a module, as its driver's event loop is in the way of other tests' own."""
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        reason = "there is no Chromium on this machine (apt-get install chromium)"
        if os.environ.get("ASKTELL_ALL_SERVERS"):
            pytest.fail(reason)
        pytest.skip(reason)
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        # Root has no sandbox of its own, and a container little shared memory.
        chromium = driver.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield chromium
        chromium.close()


HURRY = (
    "const slow = setTimeout; globalThis.setTimeout = (call, ms) => slow(call, ms / 8);"
)
"""For a page that looks every other second, and waits."""


def unfold(page: Any) -> None:
    """Open all panels at once."""
    page.wait_for_selector("#verdict h1")
    page.evaluate(
        "document.querySelectorAll('section > details').forEach((each) => (each.name = ''))"
    )
    page.evaluate("unfold(...PANELS.filter(([, title]) => title).map(([id]) => id))")


def faults(page: Any) -> list[str]:
    """What is wrong with the drawing of a page: texts that are cut off, and names that cover a mark or each other."""
    return page.evaluate(  # type: ignore[no-any-return]
        """() => {
          const found = [], page = document.documentElement.scrollWidth;
          if (page > innerWidth) found.push(`the page is ${page} pixels wide`);
          const across = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width;
          const meet = (a, b) => across(a, b) && a.y < b.y + b.height && b.y < a.y + a.height;
          const isOutside = (box, { width, height }) =>
            box.x < -1 || box.x + box.width > width + 1 || box.y < -2 || box.y + box.height > height + 3;
          const middle = (box) => ({ x: box.x + box.width / 2, y: box.y + box.height / 2, width: 0.1, height: 0.1 });
          for (const svg of document.querySelectorAll("figure svg, .multiples svg")) {
            if (!svg.checkVisibility() || !svg.viewBox.baseVal.width) continue;
            const all = (what) => [...svg.querySelectorAll(what)].map((each) => [each, each.getBBox()]);
            const say = (text, what) => found.push(`${svg.closest("section").id}: "${text.textContent}" ${what}`);
            for (const [text, box] of all("text")) if (isOutside(box, svg.viewBox.baseVal)) say(text, "is cut off");
            const names = all(".label"), marks = all("circle, path").filter(([each]) => each.querySelector("title"));
            names.forEach(([name, box], i) => {
              for (const [other, its] of names.slice(i + 1)) if (meet(box, its)) say(name, "covers a name");
              for (const [, its] of marks) if (meet(box, middle(its))) say(name, "covers a point");
            });
          }
          return found;
        }"""
    )


def unnamed(page: Any) -> list[str]:
    """The contenders whose names are not in the chart on the first screen. At most 15 have to be."""
    return page.evaluate(  # type: ignore[no-any-return]
        """() => {
          const data = prepared(document.getElementById("data").textContent);
          const shown = [...document.querySelectorAll("#plane .label")].map((each) => each.textContent);
          const isCut = (text, name) => text.endsWith("…") && name.startsWith(text.slice(0, -1));
          const isShown = (name) => shown.some((text) => name === text || isCut(text, name));
          const drawn = known(data, ...data.goal.objectives);
          const contenders = [...data.answer, ...data.unresolved].filter((arm) => drawn.includes(arm));
          return contenders.slice(0, 15).map((arm) => data.names[arm]).filter((name) => !isShown(name));
        }"""
    )


def told(k: int, example: int, n_metrics: int) -> list[float]:
    """Scores that depend on prompt and example, and look like noise; examples 0 and 1 are failed by everybody."""
    rng = np.random.default_rng([k, example])
    score = (
        0.4 + 0.03 * k - (0.35 if example < 2 else 0.0) + rng.normal(0, 0.08, n_metrics)
    )
    return np.clip(score, 0, 1).round(4).tolist()  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Study]:
    """A study that was worked on, with costs, answers, seconds and failures."""

    def make(
        ids: list[str],
        goal: asktell.problem.goals.Goal,
        budget: int,
        examples: int | None = 30,
        method: str = "auto",
        baseline: str | None = None,
        texts: list[str] | None = None,
        reason: str = "TimeoutError: no answer after {} s",
        stop: int | None = None,
        folder: Path | None = None,
    ) -> Study:
        texts = texts or [
            f"Summarize the paper, variant {k}. Be brief." for k in range(len(ids))
        ]
        selector = asktell.Selector(
            dict(zip(ids, texts, strict=True)),
            goal,
            budget,
            method,
            examples=examples,
            baseline=baseline,
        )
        path = (folder or tmp_path_factory.mktemp("reports")) / "studies.db"
        study = Study.create(path, "summaries", selector)
        while (stop is None or study.spent < stop) and (trial := study.ask()):
            k = ids.index(str(trial.prompt_id))
            if trial.id % 17 == 5:
                study.fail(trial, reason.format(trial.id), 0.001)
                continue
            details = {
                "output": f"Answer of {trial.prompt_id} to {trial.example}",
                "seconds": 0.5 + k,
                "tokens": 10 * k,
            }
            scores = told(k, trial.example or trial.id, len(goal.metrics))
            study.tell(trial, scores, 0.01 * (k + 1), details=details)
        return study

    return make
