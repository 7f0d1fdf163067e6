"""What was saved once loads for ever: samples of version 1 of every format, made by tests/saved_formats.py."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell import Selector, Study
from asktell.storages.sqlite import SQLiteStorage
from asktell_adapters.cli import main as cli
from tests.saved_formats import Parrot, facts

ASSETS = Path(__file__).parent / "assets"


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("path", sorted(ASSETS.glob("selector-v*.json")), ids=lambda path: path.stem)
def test_a_saved_selector_goes_on_where_it_was(path: Path) -> None:
    expected = json.loads((ASSETS / f"expected-{path.stem}.json").read_text(encoding="utf-8"))
    selector = Selector.from_json(path.read_text(encoding="utf-8"))
    assert facts(Selector.from_json(selector.to_json())) == expected
    assert facts(selector) == expected
    assert Selector.from_json(selector.to_json()).to_json() == selector.to_json()


def test_every_kind_of_method_has_a_sample() -> None:
    assert {path.stem for path in ASSETS.glob("selector-v1-*.json")} == {
        f"selector-v1-{name}" for name in ("csr", "ege-sr", "ege-sh-published", "auto", "race", "grown", "segments")
    }


def test_a_saved_study_opens_and_one_that_was_exported_is_the_same(tmp_path: Path) -> None:
    shutil.copy(ASSETS / "studies-v1.db", tmp_path / "studies.db")
    assert SQLiteStorage(tmp_path / "studies.db").snapshot(1) is not None
    with Study.open(f"sqlite:///{tmp_path / 'studies.db'}", "sample") as study:
        result = study.result()
        assert (result.spent, len(result.prompts), len(study.pending)) == (29, 10, 3)
        assert [each.details for each in study.evaluations() if each.details] == [{"answer": "short"}]
        with Study.import_("memory://formats", ASSETS / "study-v1.jsonl") as imported:
            assert plain(imported.result().to_dict()) == plain(result.to_dict())
            assert imported.pending == study.pending
        trial = study.ask()
        assert trial.id == 0  # the first, whose lease has run out
        assert study.tell(trial, [0.5, 0.5])


def test_a_saved_profile_loads() -> None:
    profile = asktell.ExampleProfile.from_json((ASSETS / "profile-v1.json").read_text(encoding="utf-8"))
    assert json.loads(profile.to_json()) == json.loads((ASSETS / "profile-v1.json").read_text(encoding="utf-8"))


def test_an_interrupted_run_goes_on_and_its_answers_are_not_paid_again(tmp_path: Path) -> None:
    shutil.copytree(ASSETS / "run-v1", tmp_path / "run")
    command = ["run", str(tmp_path / "run" / "a.toml")]
    before = Parrot.asked
    assert cli.main(command) == 0
    assert Parrot.asked - before == 12
    assert len((tmp_path / "run" / "out" / "evaluations.jsonl").read_text(encoding="utf-8").splitlines()) == 24
    (tmp_path / "run" / "answers.db").unlink()
    shutil.copy(ASSETS / "run-v1" / "answers.db", tmp_path / "run")
    assert cli.main([*command, "--fresh"]) == 0
    assert Parrot.asked - before == 24  # of 24 answers, 12 were in the cache
