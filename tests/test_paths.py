"""URLs in the place of paths, and swapped arguments of evaluators, are refused before they do harm."""

from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell import BestFeasible, Selector, Study
from asktell.errors import InvalidArgumentError
from asktell.studies.storages.sqlite import SQLiteStorage
from asktell_adapters.llms.cache import AnswerCache


def new() -> Selector:
    return Selector(["a", "b"], BestFeasible("acc"), 6, examples=5)


PATHS = [
    "sqlite:study.db",
    "sqlite:/study.db",
    "SQLite:study.db",
    "file:x.db",
    "file:x.db?mode=ro",
    "x.db?mode=ro",
    "postgresql:study",
    "memory:study",
    "https:x.db",
    "s3:bucket",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", [str, Path])
def test_a_url_is_no_path(
    path: str, kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for use in (
        lambda: Study.create(kind(path), "s", new()),
        lambda: Study.open(kind(path), "s"),
        lambda: SQLiteStorage(kind(path)),
        lambda: AnswerCache(kind(path)),
        lambda: new().report(kind(path)),
    ):
        with pytest.raises(
            InvalidArgumentError,
            match=r"A path must be a file|without two slashes|has no options",
        ):
            use()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "location", ["sqlite:///x.db?mode=ro", "sqlite:///file:x.db", ":memory:"]
)
def test_urls_with_options_and_in_memory_are_no_files(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgumentError):
        Study.create(location, "s", new())
    with pytest.raises(InvalidArgumentError, match="memory://NAME"):
        SQLiteStorage(":memory:")
    assert not list(tmp_path.iterdir())


def test_a_password_in_a_url_is_not_shown() -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        Study.open("postgresql:user:secret@host/database", "s")
    assert "secret" not in str(raised.value)


def test_other_names_are_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("run-1.db", "why?.db", "a=b.db", f"{tmp_path}/sqlite.db"):
        Study.create(path, "s", new()).close()
    assert len(list(tmp_path.glob("*.db"))) == 4


# Arguments of evaluators


class Batch:
    def evaluate_batch(self, repeats: Any, trials: Any) -> Any:
        return []


class Method:
    def evaluate(self, example: Any, prompt: Any) -> Any:
        return 0.5


@pytest.mark.parametrize(
    "evaluator",
    [
        lambda example, prompt: 0.5,
        lambda example, text: 0.5,
        lambda example_id, prompt: 0.5,
        lambda text, prompt: 0.5,
        lambda example, candidate: 0.5,
        lambda prompt, candidate: 0.5,
        lambda prompt, trial: 0.5,
        lambda prompt, repeat: 0.5,
        Batch(),
        Method(),
    ],
)
def test_swapped_arguments_are_refused(evaluator: Any) -> None:
    selector = new()
    with pytest.raises(InvalidArgumentError, match="is at the place of"):
        asktell.run(selector, evaluator, progress=False)
    assert selector.spent == 0


@pytest.mark.parametrize(
    "evaluator",
    [
        lambda prompt, example: 0.5,
        lambda text, i: 0.5,
        lambda candidate, example: 0.5,
        lambda trial: 0.5,
        lambda trial, repeat: 0.5,
        lambda prompt, example, repeat: 0.5,
        lambda prompt, example, trial=None: 0.5,
        lambda *arguments: 0.5,
        lambda p, example: 0.5,
        lambda prompt, index: 0.5,
    ],
)
def test_other_names_of_arguments_are_right(evaluator: Any) -> None:
    selector = new()
    asktell.run(selector, evaluator, progress=False)
    assert selector.done
