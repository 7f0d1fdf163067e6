"""The page needs nothing else, and nothing in a document becomes markup, script or style."""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell import reports
from asktell.reports.page import assets, encode
from asktell.studies.study import Study
from tests.reports.conftest import HOSTILE

GOAL = asktell.BestFeasible("rouge", subject_to={"brevity": 0.3})


class Parsed(HTMLParser):
    """Tags with their attributes, and the content of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.content: dict[str, list[str]] = {"script": [], "style": [], "title": []}
        self._inside: str | None = None
        self.feed(page)

    def handle_starttag(
        self, tag: str, attributes: list[tuple[str, str | None]]
    ) -> None:
        self.tags.append((tag, dict(attributes)))
        self._inside = tag if tag in self.content else None
        if self._inside:
            self.content[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.content[self._inside][-1] += data


@pytest.fixture(scope="module")
def hostile(study: Callable[..., Study]) -> dict[str, Any]:
    """A document in which everything that can be somebody's text is an attack."""
    ids = [text.replace("\0", "") for text in HOSTILE]
    selector = asktell.Selector(
        dict(zip(ids, HOSTILE, strict=True)), GOAL, 60, examples=8, baseline=ids[0]
    )
    while trial := selector.ask():
        if trial.id % 9 == 4:
            selector.fail(trial, HOSTILE[trial.id % len(HOSTILE)])
        else:
            selector.tell(trial, [0.2 + 0.05 * ids.index(str(trial.prompt_id)), 0.5])
    return reports.document(
        selector.state,
        selector.method,
        selector.prompts,
        name=HOSTILE[0],
        about={HOSTILE[0]: HOSTILE[1]},
    )


def test_data_go_in_and_come_out(hostile: dict[str, Any]) -> None:
    page = Parsed(reports.render(hostile))
    assert json.loads(page.content["script"][0]) == hostile


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_in_the_data_is_markup(text: str) -> None:
    written = encode({"x": text})
    assert not re.search("[<>&\u2028\u2029\ud800-\udfff\0]", written)
    assert json.loads(written) == {"x": text}


def test_an_attack_adds_no_element(hostile: dict[str, Any]) -> None:
    page = Parsed(reports.render(hostile))
    assert [tag for tag, _ in page.tags if tag in ("script", "style", "svg", "img", "title", "noscript", "pre")] == [
        "title", "style", "noscript", "pre", "svg", "script", "script",
    ]  # fmt: skip
    assert page.content["title"] == [f"{HOSTILE[0]} · asktell"]
    assert not any(
        name.startswith("on") for _, attributes in page.tags for name in attributes
    )


def test_the_policy_allows_the_two_inline_parts_and_nothing_else(
    hostile: dict[str, Any],
) -> None:
    page = Parsed(reports.render(hostile))
    policy = next(
        a["content"] for t, a in page.tags if t == "meta" and "http-equiv" in a
    )
    digests = {
        kind: "'sha256-"
        + base64.b64encode(
            hashlib.sha256(page.content[kind][-1].encode()).digest()
        ).decode()
        + "'"
        for kind in ("script", "style")
    }
    assert f"script-src {digests['script']};" in policy
    assert f"style-src {digests['style']};" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert not any("style" in attributes for _, attributes in page.tags)


def test_the_page_names_no_address_outside(study: Callable[..., Study]) -> None:
    page = reports.render(study(["a", "b"], GOAL, 12).report_data())
    assert (
        re.findall(
            r"(?:https?:|wss?:|ftp:|//[a-z0-9-]+\.[a-z])[^\s\"'<]*",
            page.split('id="data"')[0],
        )
        == []
    )
    _, script = assets()
    assert re.findall(r"(https?|wss?|ftp)://", script) == []


def test_the_script_never_parses_text_as_markup_or_code() -> None:
    _, script = assets()
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "srcdoc",
    ):
        assert word not in script
    assert "</script" not in script


def test_a_thousand_prompts_and_examples_stay_under_three_megabytes(
    tmp_path: Path,
) -> None:
    selector = asktell.Selector(
        {f"プロンプト {k} " + "x" * 60: f"{k} " + "要約を書いてください。" * 60 for k in range(1000)},
        asktell.ParetoSet("rouge", "brevity", asktell.minimize("latency")), 1000, "uniform", examples=1000,
    )  # fmt: skip
    history = selector.state.history
    for cell in range(0, 1_000_000, 8):
        k, e = divmod(cell, 1000)
        history = history.append(
            cell, k, e, ((k * e) % 97 / 97, (k + e) % 89 / 89, 0.5)
        )
    state = selector.state._replace(history=history, spent=125_000)
    data = reports.document(state, selector.method, selector.prompts)
    reports.write(tmp_path / "page.html", data)
    assert (tmp_path / "page.html").stat().st_size < 3_000_000


def test_the_file_is_whole_and_its_owners(
    study: Callable[..., Study], tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    selector = study(["a", "b"], GOAL, 12).selector
    selector.report(path)
    first = path.read_text()
    assert first.startswith("<!DOCTYPE html>")
    assert first.rstrip().endswith("</html>")
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(FileNotFoundError):
        selector.report(tmp_path / "nowhere" / "report.html")
