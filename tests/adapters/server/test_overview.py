"""All studies at a glance: for the list of them, and for Prometheus."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from asktell_adapters.server.pages import Overview

DASHBOARD = (
    Path(__file__).parents[3] / "docs" / "examples" / "grafana" / "dashboard.json"
)
STUDY = {
    "name": "s",
    "prompts": {"p": "P.", "q": "Q."},
    "goal": {"maximize": "a"},
    "budget": 6,
    "examples": 4,
}


def test_how_far_every_study_is_can_be_drawn(service: Any) -> None:
    service.post("/v1/studies", STUDY, 201)
    odd = 'a"b\\c/é'
    service.post("/v1/studies", {**STUDY, "name": odd}, 201)
    for _ in range(2):
        [trial] = service.post("/v1/studies/s/ask", {"worker": "w"})["trials"]
        service.post("/v1/studies/s/tell", {"trial": trial, "scores": 0.5, "cost": 0.1})
    [trial] = service.post("/v1/studies/s/ask", {"worker": "w"})["trials"]
    service.post(
        "/v1/studies/s/fail", {"trial": trial, "reason": "no answer", "cost": 0.25}
    )
    service.post("/v1/studies/s/ask", {"worker": "w"})
    text = service.send("GET", "/metrics").text
    for name, value in {
        "spent": 2.0,
        "budget": 6.0,
        "spent_cost": 0.45,
        "max_cost": "+Inf",
        "active": 2.0,
        "pending": 1.0,
        "failures": 1.0,
        "workers": 1.0,
        "paused": 0.0,
    }.items():
        assert f'asktell_study_{name}{{study="s"}} {value}\n' in text
    assert 'asktell_study_spent{study="a\\"b\\\\c/é"} 0.0\n' in text
    service.post("/v1/studies/s/pause", {})
    standing = Overview(service.studies).look()[0].standing
    assert standing.paused


def test_a_look_at_many_studies_is_short_and_goes_on_where_it_ended(
    service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"s{i}" for i in range(10)]
    for name in names:
        service.post("/v1/studies", {**STUDY, "name": name}, 201)
    monkeypatch.setattr("asktell_adapters.server.pages._MOST_LOOK", 3.0)
    monkeypatch.setattr("asktell_adapters.server.pages._STALE", 100.0)
    now = 0.0
    overview = Overview(service.studies, clock=lambda: now)
    genuine = service.studies.call
    looked: list[str] = []

    def call(name: str, operation: Any, keep: bool) -> Any:
        nonlocal now
        now += 1.0
        looked.append(name)
        return genuine(name, operation, keep)

    service.studies.call = call
    assert [row.name for row in overview.look()] == names[:3]
    for _ in range(4):
        overview.look()
    assert looked == names
    now += 100.0
    overview.look()
    assert looked[10:] == names[:3]


@pytest.mark.parametrize("broken", ["standing", "result"])
def test_one_broken_study_does_not_hide_the_others(
    service: Any, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    for name in ("whole", "broken"):
        service.post("/v1/studies", {**STUDY, "name": name}, 201)
    genuine = service.studies.call

    def call(name: str, operation: Any, keep: bool = True) -> Any:
        if name == "broken" and broken in operation.__code__.co_names:
            raise ZeroDivisionError("an error of the numerics")
        return genuine(name, operation, keep)

    monkeypatch.setattr(service.studies, "call", call)
    listed = service.get("/studies")["studies"]
    assert {study["name"]: study["state"] for study in listed} == {
        "whole": "waits",
        "broken": "cannot be read",
    }
    text = service.send("GET", "/metrics").text
    assert 'asktell_study_spent{study="whole"} 0.0' in text
    assert 'study="broken"' not in text


def test_a_look_leaves_open_what_is_in_use(new_service: Any) -> None:
    service = new_service(most=2)
    for name in ("s", "t", "u", "v"):
        service.post("/v1/studies", {**STUDY, "name": name}, 201)
    before = list(service.studies._entries)
    assert len(Overview(service.studies).look(answers=True)) == 4
    assert list(service.studies._entries) == before


def test_the_dashboard_draws_what_there_is(service: Any) -> None:
    service.post("/v1/studies", STUDY, 201)
    text = service.send("GET", "/metrics").text
    there = set(re.findall(r"^(asktell_\w+)", text, re.MULTILINE))
    dashboard = json.loads(DASHBOARD.read_text())
    drawn = {
        name
        for panel in dashboard["panels"]
        for each in panel["targets"]
        for name in _names(each["expr"])
    }
    assert len(drawn) == 9
    assert drawn <= there


def _names(expression: str) -> list[str]:
    return re.findall(r"asktell_\w+", expression)
