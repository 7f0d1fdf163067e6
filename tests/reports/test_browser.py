"""The page in a real browser: in both themes and three widths, every control, the values, attacks, accessibility."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell import reports
from asktell.studies.storages.memory import MemoryStorage
from asktell.studies.study import Study
from tests.plays import play
from tests.reports.conftest import HOSTILE, faults, told, unfold

GOAL = asktell.BestFeasible(
    "rouge", subject_to={"brevity": 0.3, "toxicity": asktell.at_most(0.9)}
)
FRONT = asktell.ParetoSet("rouge", asktell.minimize("latency"))
FOLDED = ["checks", "prompts", "examples", "duel", "spending", "costs", "made"]
PANELS = ["verdict", "plane", *FOLDED]
ODD = [
    "要約-短い",
    "ملخص قصير",
    "🚀🎉",
    "a-long-identifier-" * 8,
    "plain",
    "e\u0301́",
    "b<i>",
    "0",
]


@contextmanager
def opened(
    browser: Any,
    path: Path,
    width: int = 1280,
    theme: str = "light",
    folded: bool = False,
) -> Iterator[Any]:
    """The page, all of it unless `folded`; at the end it has complained of nothing, and asked for nothing."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=theme,
        offline=True,
        accept_downloads=True,
    )
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "request",
        lambda request: (
            complaints.append(request.url) if not _is_own(request.url, path) else None
        ),
    )
    page.goto(path.as_uri())
    page.wait_for_selector("#verdict h1")
    if not folded:
        unfold(page)
    yield page
    assert complaints == []
    context.close()


def _is_own(url: str, path: Path) -> bool:
    return url.split("#")[0] == path.as_uri() or url.startswith("blob:")


@pytest.fixture(scope="module")
def study_page(
    study: Callable[..., Study], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    path = tmp_path_factory.mktemp("page") / "report.html"
    made = study(
        ODD,
        GOAL,
        120,
        baseline="plain",
        texts=[f"Summarize, variant {k} of eight." for k in range(8)],
    )
    data = made.report_data({"model": {"name": "small", "temperature": 0}})
    reports.write(path, data)
    return path, data


@pytest.mark.parametrize(
    ("width", "theme"), [(390, "light"), (820, "dark"), (1600, "light")]
)
def test_every_panel_is_drawn_in_every_theme_and_width(
    browser: Any, study_page: tuple[Path, dict[str, Any]], width: int, theme: str
) -> None:
    with opened(browser, study_page[0], width, theme) as page:
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        for panel in PANELS:
            assert page.locator(f"#{panel}").bounding_box()["height"] > 60
        assert page.locator("#plane svg[role=img] .label").count() > 0
        assert overlaps(page) == []


def test_segments_are_small_pictures_on_one_scale(browser: Any, tmp_path: Path) -> None:
    goal = asktell.BestFeasible(
        asktell.maximize("rouge", worst_segment=True), {"rouge": asktell.at_least(0.3)}
    )
    selector = asktell.Selector(
        ["a", "b", "c"], goal, 40, examples=30, segments=["de", "en", "<i>"] * 10
    )
    play(selector, lambda trial: told(int(trial.prompt_id), trial.example or 0, 1))
    selector.report(tmp_path / "report.html")
    for width in (390, 1400):
        with opened(browser, tmp_path / "report.html", width) as page:
            assert page.locator("#segments .multiples svg").count() == 3
            assert " is worst in " in page.locator("#segments .say").first.inner_text()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert overlaps(page) == []


@pytest.mark.parametrize("what", ["segments", "factors"])
def test_nothing_is_said_of_what_there_is_not(
    browser: Any, study_page: tuple[Path, dict[str, Any]], what: str
) -> None:
    with opened(browser, study_page[0]) as page:
        assert not page.locator(f"#{what}").is_visible()


def test_the_first_screen_is_for_who_decides(
    browser: Any, study_page: tuple[Path, dict[str, Any]]
) -> None:
    path, data = study_page
    with opened(browser, path, 1400, folded=True) as page:
        first = page.locator("#verdict").inner_text()
        reasons = data["verdict"]["sentence"].removeprefix(data["verdict"]["headline"])
        for said in (
            data["verdict"]["headline"],
            reasons.strip(),
            data["prompts"]["texts"][data["answer"][0]],
            "P(best)",
            *data["notes"],
        ):
            assert said in first
        assert f"+{data['verdict']['outlook'][-1]['evaluations']}" in first
        assert "TimeoutError" in first
        for part in ("#verdict table", "#plane svg[role=img]"):
            box = page.locator(part).bounding_box()
            assert box["y"] + box["height"] <= 900
        heights = [page.evaluate("document.documentElement.scrollHeight")]
        for panel in FOLDED:
            page.locator(f"#{panel} summary h2").click()
            page.locator(f"#{panel} .panel > *").first.wait_for()
            # The one before has closed
            assert page.locator("section > details[open]").count() == 1
            heights.append(page.evaluate("document.documentElement.scrollHeight"))
        assert max(heights) <= 3 * 900


def test_a_prompt_is_read_on_a_phone_without_scrolling_sideways(
    browser: Any, study_page: tuple[Path, dict[str, Any]]
) -> None:
    with opened(browser, study_page[0], 400, folded=True) as page:
        page.locator("#verdict a").first.click()
        for text in (
            page.locator("#verdict pre"),
            page.locator("#prompts tr.detail:visible pre").first,
        ):
            box = text.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 400
            assert text.evaluate("node => node.scrollWidth <= node.clientWidth")


def test_a_long_prompt_is_shown_whole_on_demand(browser: Any, tmp_path: Path) -> None:
    prompts = {
        name: f"Variant {name}. " + "Read the ticket, and say what it is about. " * 20
        for name in "ab"
    }
    selector = asktell.Selector(prompts, asktell.BestFeasible("s"), 8, examples=4)
    play(selector, lambda trial: float(trial.prompt_id == "a"))
    selector.report(tmp_path / "page.html")
    is_whole = "node => node.scrollHeight <= node.clientHeight"
    for width in (390, 1280):
        with opened(browser, tmp_path / "page.html", width, folded=True) as page:
            text = page.locator("#verdict pre")
            assert not text.evaluate(is_whole)
            page.get_by_role("button", name="Show the whole prompt").click()
            assert text.evaluate(is_whole)
            page.get_by_role("button", name="Show less of the prompt").click()
            assert not text.evaluate(is_whole)


@pytest.mark.parametrize(
    ("dear", "per"), [(1.0, "evaluation"), (1e-4, "1,000 evaluations")]
)
def test_money_is_given_for_as_many_evaluations_as_cost_something(
    browser: Any, tmp_path: Path, dear: float, per: str
) -> None:
    goal = asktell.BestFeasible(
        "s",
        {"cost": asktell.at_most(dear), "latency": asktell.at_most(2.0, quantile=0.75)},
    )
    prompts = {f"p{k}": f"Prompt {k}." for k in range(4)}
    study = asktell.Study.create(
        MemoryStorage(),
        "s",
        asktell.Selector(prompts, goal, 40, examples=20, baseline="p0"),
    )
    while trial := study.ask():
        k = int(str(trial.prompt_id)[1:])
        cost = dear * (0.337 + 0.01 * k + 0.001 * (trial.id % 3))
        study.tell(
            trial,
            {"s": (k + trial.id % 3) / 5, "cost": cost, "latency": 1.0 + trial.id % 2},
            cost=cost,
        )
    study.report(tmp_path / "page.html", {"model": {"price": {"currency": "EUR"}}})
    factor = 1 if per == "evaluation" else 1000
    with opened(browser, tmp_path / "page.html") as page:
        tile = page.locator("#verdict .tile").first.inner_text()
        assert f"cost per {per} in EUR (at most {dear * factor:g})" in " ".join(
            tile.split()
        )
        assert "()" not in tile
        shown = page.locator("#costs").inner_text()
        assert f"cost per {per}" in shown.lower()
        assert f" EUR per {per} on average" in shown
        assert f"Per {per}, " in shown
        for panel in ("verdict", "plane", "prompts", "duel", "costs"):
            assert not re.search(
                r"\de-\d", page.locator(f"#{panel} .panel").inner_text()
            )
        cells = page.locator(
            "#prompts tbody tr:not(.detail) td:nth-child(3)"
        ).all_inner_texts()
        assert all(
            0.3 < float(cell.split()[0]) / (dear * factor) < 0.4 for cell in cells
        )
        with page.expect_download() as saved:
            page.get_by_role("button", name="Download the data as JSON").click()
        raw = json.loads(Path(saved.value.path()).read_text())
        assert raw["goal"]["metrics"][1]["name"] == "cost"
        assert raw["prompts"]["estimates"][0][1] == pytest.approx(dear * 0.338, rel=0.1)


@pytest.mark.parametrize("binary", [True, False])
def test_bars_stay_within_the_range_of_a_metric(
    browser: Any, tmp_path: Path, binary: bool
) -> None:
    goal = asktell.BestFeasible(
        "s" if binary else asktell.maximize("s", range=(0.0, 2.0))
    )
    selector = asktell.Selector(
        [f"p{k}" for k in range(6)], goal, 18, "uniform", examples=40
    )
    play(selector, lambda trial: float(trial.id % 5 > 0) * (1.0 if binary else 2.0))
    selector.report(tmp_path / "page.html")
    with opened(browser, tmp_path / "page.html") as page:
        high = page.evaluate(
            "JSON.parse(document.getElementById('data').textContent).goal.metrics[0].range"
        )
        assert high == [0.0, 1.0 if binary else 2.0]
        at, ends = page.evaluate(
            """(high) => {
              const own = (what) => [...document.querySelectorAll(`#plane svg[role=img] ${what}`)];
              const tick = own("text.soft").find((each) => each.textContent === String(high));
              return [Number(tick.getAttribute("x")), own("line:not([class])").map((bar) => bar.x2.baseVal.value)];
            }""",
            high[1],
        )
        assert len(ends) >= 6
        assert max(ends) <= at + 0.01


def test_a_panel_for_the_factors_of_candidates(browser: Any, tmp_path: Path) -> None:
    odd = ["claude-with-a-long-name-" * 3, "<img src=x onerror=alert(1)>", "要約"]
    grid = asktell.grid(model=odd, prompt={f"p{k}": f"Prompt {k}" for k in range(24)})
    selector = asktell.Selector(grid, GOAL, 150, examples=20)
    while trial := selector.ask():
        rouge = 0.2 + 0.3 * odd.index(str(trial.candidate["model"]))
        selector.tell(trial, [rouge, 0.5 + 0.01 * (trial.example or 0), 0.1])
    selector.report(tmp_path / "page.html")
    for width, theme in ((400, "dark"), (1400, "light")):
        with opened(browser, tmp_path / "page.html", width, theme) as page:
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert page.locator("#factors svg .label").all_text_contents() == [
                "model",
                "prompt",
            ]
            rows = page.locator("#factors .multiples svg").evaluate_all(
                "all => all.map(each => each.querySelectorAll('circle, path').length)"
            )
            assert rows == [3, 20]
            assert (
                "Only the best 20 levels"
                in page.locator("#factors figcaption").inner_text()
            )
            assert (
                page.locator("#factors svg text[text-anchor=end]").first.text_content()
                == "要約"
            )
            page.locator("#factors select").select_option("1")
            page.locator("#factors figure details summary").click()
            page.locator("#factors tbody tr").nth(20).wait_for()


def overlaps(page: Any) -> list[Any]:
    """Pairs of labels in the plane that cover each other."""
    return page.evaluate(  # type: ignore[no-any-return]
        """() => {
          const boxes = [...document.querySelectorAll("#plane .label")].map((e) => [e.textContent, e.getBBox()]);
          const across = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width;
          const meet = (a, b) => across(a, b) && a.y < b.y + b.height && b.y < a.y + a.height;
          return boxes.flatMap(([n, a], i) => boxes.slice(i + 1).filter(([, b]) => meet(a, b)).map(([m]) => [n, m]));
        }"""
    )


def test_what_is_shown_is_what_the_study_says(
    browser: Any, study_page: tuple[Path, dict[str, Any]]
) -> None:
    path, data = study_page
    arm = data["answer"][0]
    with opened(browser, path) as page:
        assert data["prompts"]["ids"][arm] in page.locator("h1").inner_text()
        first = page.locator("#prompts tbody tr").first.locator("td")
        assert data["prompts"]["ids"][arm][:40] in first.nth(0).inner_text()
        shown = float(first.nth(1).inner_text().split("±")[0])
        assert shown == pytest.approx(data["prompts"]["estimates"][arm][0], rel=1e-3)
        names = [column["name"] for column in data["prompts"]["columns"]]
        n_evaluations = first.nth(1 + names.index("evaluations")).inner_text()
        assert n_evaluations == str(data["prompts"]["evaluations"][arm])
        assert page.locator("#verdict tr").nth(1).locator(
            "td"
        ).first.inner_text() == str(data["spent"])
        duel = data["duels"][0]
        wins, ties, losses = duel["counts"][0]
        assert (
            f"{wins} wins, {ties} ties and {losses} losses"
            in page.locator("#duel").inner_text()
        )
        assert page.locator("#duel tbody tr").first.locator("td").nth(
            1
        ).inner_text() == (f"{float(format(duel['rows'][0]['a'][0], '.4g')):g}")


def test_every_control_works(
    browser: Any, study_page: tuple[Path, dict[str, Any]]
) -> None:
    path, data = study_page
    with opened(browser, path) as page:
        for index in range(page.locator("select").count()):
            if index >= page.locator("select").count():  # a choice may remove others
                break
            select = page.locator("select").nth(index)
            for value in select.locator("option").evaluate_all(
                "options => options.map(option => option.value)"
            ):
                page.locator("select").nth(index).select_option(value)
            page.locator("select").nth(index).select_option(index=0)
        for index in range(page.locator("th button").count()):
            page.locator("th button").nth(index).click()
            page.locator("th button").nth(index).click()
        for index in range(page.locator("figure details summary").count()):
            page.locator("figure details summary").nth(index).click()
            page.locator("figure details").nth(index).locator(
                "tbody tr"
            ).first.wait_for()
        for panel in ("prompts", "duel"):
            page.locator(f"#{panel} tbody button.link[aria-expanded]").first.click()
            assert page.locator(f"#{panel} tr.detail:visible pre").count() >= 1
        for canvas in page.locator("canvas[tabindex]").all():
            canvas.hover(position={"x": 5, "y": 5})
            canvas.focus()
            page.keyboard.press("ArrowRight")
            page.keyboard.press("ArrowDown")
        assert "on example" in page.locator("#examples .readout").inner_text()
        with page.expect_download() as download:
            page.get_by_role("button", name="Download the data as JSON").click()
        assert json.loads(Path(download.value.path()).read_text()) == data


def test_rows_are_sorted_and_searched(
    browser: Any, study_page: tuple[Path, dict[str, Any]]
) -> None:
    path, data = study_page
    with opened(browser, path) as page:
        page.locator("#prompts th button").nth(1).click()
        column = page.locator(
            "#prompts tbody tr:not(.detail) td:nth-child(2)"
        ).all_inner_texts()
        means = [float(text.split("±")[0]) for text in column]
        assert means == sorted(means, reverse=True)
        assert (
            page.locator("#prompts th").nth(1).get_attribute("aria-sort")
            == "descending"
        )
        page.locator("#prompts input").fill("variant 3")
        assert page.locator("#prompts tbody tr:not(.detail)").count() == 1
        page.locator("#prompts input").fill("nothing of the kind")
        assert page.locator("#prompts tbody tr").count() == 0
        page.locator("#verdict a").first.click()
        assert (
            data["prompts"]["texts"][data["answer"][0]]
            in page.locator("#prompts tr.detail pre").first.inner_text()
        )


def test_the_difference_of_two_texts_is_marked(
    browser: Any, study_page: tuple[Path, dict[str, Any]]
) -> None:
    path, data = study_page
    with opened(browser, path) as page:
        assert page.evaluate("difference('be very brief now', 'be brief right now')") == [
            [0, "be "], [-1, "very "], [0, "brief"], [1, " right"], [0, " now"],
        ]  # fmt: skip
        assert page.evaluate("difference('', 'a b')") == [[1, "a b"]]
        assert page.evaluate("difference('same', 'same')") == [[0, "same"]]
        for a, b in [
            ("a b c a b b a", "c b a b a c"),
            ("x", ""),
            ("one two", "three four five"),
        ]:
            parts = page.evaluate("([a, b]) => difference(a, b)", [a, b])
            assert "".join(text for kind, text in parts if kind <= 0) == a
            assert "".join(text for kind, text in parts if kind >= 0) == b
        winner = data["answer"][0]
        page.locator("#verdict a").first.click()
        page.locator("#prompts tr.detail select").first.select_option(
            str(data["baseline"])
        )
        assert page.locator("#prompts tr.detail ins").first.inner_text() == str(winner)


def test_attacks_do_nothing(browser: Any, tmp_path: Path) -> None:
    ids = [text.replace("\0", "") for text in HOSTILE]
    selector = asktell.Selector(
        dict(zip(ids, HOSTILE, strict=True)), GOAL, 60, examples=8, baseline=ids[0]
    )
    while trial := selector.ask():
        if trial.id % 9 == 4:
            selector.fail(trial, HOSTILE[trial.id % len(HOSTILE)])
        else:
            selector.tell(
                trial, [0.2 + 0.05 * ids.index(str(trial.prompt_id)), 0.5, 0.1]
            )
    path = tmp_path / "page.html"
    document = reports.document(
        selector.state,
        selector.method,
        selector.prompts,
        name=HOSTILE[0],
        about={HOSTILE[1]: HOSTILE[2]},
    )
    reports.write(path, document)
    with opened(browser, path) as page:
        assert page.title() == f"{HOSTILE[0]} · asktell"
        while page.locator("#prompts button[aria-expanded=false]").count():
            page.locator("#prompts button[aria-expanded=false]").first.click()
        for view in ("ranked", "parallel", "plane"):
            page.locator("#plane select").first.select_option(view)
        assert (
            page.locator(
                "img, iframe, object, a[href^=javascript], [onload], [onerror], [onmouseover]"
            ).count()
            == 0
        )
        assert page.evaluate("[...document.scripts].length") == 2
        assert page.title() == f"{HOSTILE[0]} · asktell"


def test_two_prompts_and_one_metric_make_a_page(
    browser: Any, study: Callable[..., Study], tmp_path: Path
) -> None:
    made = study(["a", "b"], asktell.BestFeasible("score"), 14, examples=9)
    made.report(tmp_path / "page.html")
    with opened(browser, tmp_path / "page.html", 390) as page:
        assert page.locator("#plane svg[role=img]").count() == 1
        assert page.locator("#plane select").count() == 0


def test_a_front_of_two_metrics_is_drawn(
    browser: Any, study: Callable[..., Study], tmp_path: Path
) -> None:
    made = study([f"p{k}" for k in range(9)], FRONT, 120, stop=70)
    made.report(tmp_path / "page.html")
    with opened(browser, tmp_path / "page.html") as page:
        assert "trade-offs" in page.locator("h1").inner_text()
        page.locator("#plane select").first.select_option("ranked")
        page.locator("#plane select").nth(1).select_option("1")
        assert overlaps(page) == []


def test_who_cannot_see_or_point_gets_along(
    browser: Any, study_page: tuple[Path, dict[str, Any]]
) -> None:
    with opened(browser, study_page[0]) as page:
        nameless = page.evaluate(
            """() => [...document.querySelectorAll("button, select, input, [role=img], canvas[tabindex], section")]
              .filter((e) => !(e.textContent.trim() || e.getAttribute("aria-label") || (e.labels && e.labels.length)))
              .map((e) => e.outerHTML.slice(0, 120))"""
        )
        assert nameless == []
        assert page.locator("th:not([scope])").count() == 0
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.tagName") == "SELECT"
        for theme in ("light", "dark"):
            page.locator("header select").select_option(theme)
            assert [each for each in contrasts(page) if each[1] < 4.5] == []


def contrasts(page: Any) -> list[Any]:
    """The contrast of every colour of text with both backgrounds (WCAG 2)."""
    return page.evaluate(  # type: ignore[no-any-return]
        """() => {
          const linear = (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
          const light = (name) => {
            const c = colorOf(name).map((x) => linear(x / 255));
            return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2];
          };
          const names = ["--text", "--soft", "--link", "--answer", "--rival", "--baseline", "--bad"];
          return names.flatMap((name) => ["--back", "--panel"].map((under) => {
            const [a, b] = [light(name), light(under)].sort((x, y) => y - x);
            return [`${name} on ${under}`, (a + 0.05) / (b + 0.05)]; }));
        }"""
    )


def test_it_prints(
    browser: Any, study_page: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    with opened(browser, study_page[0], theme="dark") as page:
        page.emulate_media(media="print")
        assert (
            page.evaluate("getComputedStyle(document.body).backgroundColor")
            == "rgb(255, 255, 255)"
        )
        for control in (
            "header select",
            "#prompts tbody button",
            "#prompts input",
            "#made button",
        ):
            assert not page.locator(control).first.is_visible()
        assert page.locator("#prompts").get_by_text("1 to 8 of 8").is_visible()
        page.evaluate(
            "document.querySelectorAll('section > details').forEach((each) => (each.open = false))"
        )
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator("#made dl").is_visible()
        assert page.evaluate("document.documentElement.dataset.theme") == "light"
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert page.locator("section > details[open]").count() == 0
        page.pdf(path=tmp_path / "page.pdf")
        assert (tmp_path / "page.pdf").stat().st_size > 20_000


def test_a_row_opens_with_the_input_both_responses_the_grades_and_the_reasons(
    browser: Any, tmp_path: Path
) -> None:
    goal = asktell.BestFeasible(asktell.maximize("s", range=(0, 1)))
    selector = asktell.Selector(
        {"a": "A", "b": "B"}, goal, 60, "uniform", examples=30, baseline="b"
    )
    study = asktell.Study.create(MemoryStorage(), "s", selector)
    while trial := study.ask():
        example = trial.example or 0
        if example == 7:
            study.fail(trial, "TimeoutError: no response")
            continue
        right = trial.prompt_id == "a" if example % 3 else example % 2
        judged = {
            "grades": {"clear": float(right)},
            "reasons": [f"Because of {example}."],
        }
        details = {"output": f"{trial.prompt_id} on {example}", "judged": {"s": judged}}
        study.tell(trial, [float(right)], details=details)
    inputs = [f"Start of {n}. {'A long input. ' * 40}End of {n}." for n in range(30)]
    study.report(tmp_path / "page.html", inputs=inputs)
    for width in (390, 1280):
        with opened(browser, tmp_path / "page.html", width) as page:
            list_ = page.locator("#duel")
            rows = list_.locator("tbody tr:not(.detail)")
            shown = list_.locator("select").last
            shown.select_option("differs")
            assert set(rows.locator("td:nth-child(5)").all_inner_texts()) == {"win"}
            list_.locator("input[type=search]").fill("End of 11.")
            assert rows.count() == 1
            assert "example 11" in rows.inner_text()
            rows.locator("button").click()
            detail = list_.locator("tr.detail:visible").inner_text()
            for text in (inputs[11], "a on 11", "b on 11", "clear 1", "clear 0"):
                assert text in detail
            assert detail.count("Because of 11.") == 2
            shown.select_option("failed")
            list_.locator("input[type=search]").fill("")
            assert rows.count() == 1
            assert "example 7" in rows.inner_text()
            rows.locator("button").click()
            failed = list_.locator("tr.detail:visible pre").all_inner_texts()[1:]
            assert set(failed) == {"TimeoutError: no response"}


def test_a_limit_that_decides_nothing_stretches_no_axis(
    browser: Any, tmp_path: Path
) -> None:
    goal = asktell.BestFeasible("s", {"latency": asktell.at_most(1000.0)})
    selector = asktell.Selector(
        {f"p{k}": f"Prompt {k}" for k in range(6)}, goal, 90, examples=30
    )
    while trial := selector.ask():
        k = int(str(trial.prompt_id)[1:])
        noise = (7 * trial.id % 11) / 20
        selector.tell(trial, {"s": 0.1 * k + noise, "latency": 2.0 + 0.1 * k + noise})
    selector.report(tmp_path / "page.html")
    with opened(browser, tmp_path / "page.html", 390, folded=True) as page:
        chart = page.locator("#plane select").first
        assert chart.input_value() == "ranked"
        names = page.locator("#plane .label").all_text_contents()
        assert sorted(names) == [f"p{k}" for k in range(6)]
        chart.select_option("plane")
        marks = "#plane svg[role=img] :is(circle, path):has(title)"
        heights = page.locator(marks).evaluate_all(
            "all => all.map((e) => e.getBBox().y)"
        )
        assert max(heights) - min(heights) > 50
        assert faults(page) == []


@pytest.mark.parametrize("width", [390, 1280])
def test_names_stand_beside_crowded_points(
    browser: Any, tmp_path: Path, width: int
) -> None:
    goal = asktell.ParetoSet("rouge", "brevity")
    prompts = {f"a prompt with number {k}": f"Prompt {k}" for k in range(40)}
    selector = asktell.Selector(prompts, goal, 120, examples=10)
    while trial := selector.ask():
        k = list(prompts).index(str(trial.prompt_id))
        score = 0.5 + 0.001 * (k % 7) + 0.01 * (trial.example or 0)
        selector.tell(trial, [score, 1.0 - score + 0.001 * (k % 5)])
    selector.report(tmp_path / "page.html")
    with opened(browser, tmp_path / "page.html", width, folded=True) as page:
        assert len(page.locator("#plane .label").all()) == 15
        assert faults(page) == []
