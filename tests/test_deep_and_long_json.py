"""JSON with too many brackets or digits is refused with a message, wherever it comes from, and never half-loaded."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell import (
    BestFeasible,
    ExampleProfile,
    InvalidArgumentError,
    InvalidStateError,
    Selector,
    Study,
)
from asktell.studies.storages.memory import MemoryStorage
from asktell_adapters.config import load_config
from asktell_adapters.tables import datasets, rows

LONG = "9" * 5000  # more digits than Python reads
DEEP = "[" * 20_000 + "]" * 20_000
# Python reads it at the bottom of a stack, and writes it nowhere near the top
NESTED = "[" * 900 + "]" * 900
MARK = "put it here"


def new() -> Selector:
    return Selector(["a", "b"], BestFeasible("q"), 10, examples=["x", "y", "z"])


def told() -> Selector:
    selector = new()
    for trial in selector.ask(4):
        selector.tell(trial, [0.1 * trial.id])
    return selector


def with_marks(data: Any) -> list[Any]:
    """The data once for each of its values that is checked, with the mark in its place."""
    found: list[Any] = []
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        # The version that wrote it, and what may be large
        if key in ("asktell", "max_cost"):
            continue
        below = with_marks(value) if isinstance(value, dict | list) and value else []
        for one in [MARK, *below]:
            copy = dict(data) if isinstance(data, dict) else list(data)
            copy[key] = one
            found.append(copy)
    return found


def put(data: Any, text: str) -> str:
    return json.dumps(data).replace(f'"{MARK}"', text)


def far_down(calls: int, what: Callable[[], Any]) -> Any:
    """What is found by so many calls within each other."""
    return far_down(calls - 1, what) if calls else what()


@pytest.mark.parametrize("text", [LONG, DEEP, NESTED], ids=["long", "deep", "nested"])
def test_selectors_and_profiles(text: str) -> None:
    selector, profile = (
        json.loads(told().to_json()),
        json.loads(ExampleProfile.of(told()).to_json()),
    )
    for load, data in (
        (Selector.from_json, selector),
        (ExampleProfile.from_json, profile),
    ):
        for marked in with_marks(data):
            with pytest.raises(InvalidStateError):
                load(put(marked, text))  # type: ignore[operator]


def test_data_that_was_parsed_elsewhere() -> None:
    huge, deep = 10**5000, json.loads("[]")
    for _ in range(100_000):
        deep = [deep]
    for item in (huge, deep):
        for data in (
            item,
            {"format": item},
            {"format": "asktell.selector", "version": item},
        ):
            with pytest.raises(InvalidStateError):
                Selector.from_json(data)
        known = ExampleProfile.of(told()).to_data()
        for changed in (
            item,
            *({**known, key: item} for key in ("version", "studies", "metrics")),
        ):
            with pytest.raises(InvalidStateError):
                ExampleProfile.from_data(changed)
        with pytest.raises(InvalidArgumentError):
            Selector(["a", "b"], BestFeasible("q"), item)
        with pytest.raises(asktell.AsktellError):
            new().tell(item, [0.5])


@pytest.mark.parametrize("text", [LONG, DEEP, NESTED], ids=["long", "deep", "nested"])
def test_exported_studies(text: str, tmp_path: Path) -> None:
    study = Study.create(MemoryStorage(), "s", new())
    trial = study.worker("w").ask()
    study.tell(trial, 0.5, details={"answer": "yes"})
    study.export(tmp_path / "s")
    lines = (tmp_path / "s").read_text().splitlines()
    for number, line in enumerate(lines):
        for marked in with_marks(json.loads(line)):
            (tmp_path / "t").write_text(
                "\n".join([*lines[:number], put(marked, text), *lines[number + 1 :]])
                + "\n"
            )
            storage = MemoryStorage()
            with pytest.raises((InvalidStateError, InvalidArgumentError)):
                Study.import_(storage, tmp_path / "t")
            assert storage.names() == []


@pytest.mark.parametrize("text", [LONG, DEEP, NESTED], ids=["long", "deep", "nested"])
def test_a_line_of_the_log(text: str) -> None:
    storage = MemoryStorage()
    study = Study.create(storage, "s", new())
    assert study.worker("w").ask() is not None
    before = study.selector.to_json()
    lines = storage._logs[1].lines
    for marked in with_marks(json.loads(lines[0])):
        lines.append(put(marked, text))
        with pytest.raises(InvalidStateError):
            study.ask()
        del lines[-1]
    assert study.selector.to_json() == before


def test_details_are_read_wherever_they_were_kept() -> None:
    storage = MemoryStorage()
    study = Study.create(storage, "s", new())
    first, second = study.ask(2)
    for levels, fits in ((99, True), (100, False), (900, False)):
        details = {"x": json.loads("[" * levels + "]" * levels)}
        if fits:
            study.tell(first, 0.5, details=details)
            (found,) = far_down(800, lambda: list(study.evaluations()))
            assert found.details == details
        else:
            third = study.ask()
            assert third is not None
            far_down(300, partial(study.tell, third, 0.5, details=details))
            stored = list(study.evaluations())[-1].details
            (what,) = stored["not stored"].values()
            assert "100 levels" in what
    study.tell(second, 0.5, details={"x": [[]] * 200})  # many, but not deep
    storage._logs[1].details[second.id] = DEEP
    with pytest.raises(InvalidStateError):
        list(study.evaluations())


@pytest.mark.parametrize("text", [LONG, DEEP], ids=["long", "deep"])
def test_files_of_examples_and_configurations(text: str, tmp_path: Path) -> None:
    for name, content in (("a.jsonl", f'{{"x": {text}}}'), ("a.toml", f"x = {text}")):
        (tmp_path / name).write_text(content)
    with pytest.raises(InvalidArgumentError, match="line 1"):
        list(rows.jsonl(tmp_path / "a.jsonl"))
    with pytest.raises(InvalidArgumentError, match="TOML"):
        datasets.load_prompts(tmp_path / "a.toml")
    with pytest.raises(asktell.ConfigError, match="TOML"):
        load_config(tmp_path / "a.toml")
