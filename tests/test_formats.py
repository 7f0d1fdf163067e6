"""What was saved once loads for ever: samples of version 1 of every format, made by tests/saved_formats.py."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import asktell
from asktell import Selector, Study
from asktell.methods import PARTS
from asktell.problem.objectives import Constraint, Objective
from asktell.record import events
from asktell.record.events import AnyEvent
from asktell.record.saved import DEFAULTS, SavedState
from asktell.studies import log
from asktell.studies.leases import Expired, Leased, Paused, Resumed
from asktell.studies.storages.sqlite import SQLiteStorage
from asktell_adapters.cli import main as cli
from tests.saved_formats import Parrot, facts

ASSETS = Path(__file__).parent / "assets"


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


@pytest.mark.parametrize(
    "path", sorted(ASSETS.glob("selector-v*.json")), ids=lambda path: path.stem
)
def test_a_saved_selector_goes_on_where_it_was(path: Path) -> None:
    expected = json.loads(
        (ASSETS / f"expected-{path.stem}.json").read_text(encoding="utf-8")
    )
    selector = Selector.from_json(path.read_text(encoding="utf-8"))
    assert facts(Selector.from_json(selector.to_json())) == expected
    assert facts(selector) == expected
    assert Selector.from_json(selector.to_json()).to_json() == selector.to_json()


def test_every_kind_of_method_has_a_sample() -> None:
    assert {path.stem for path in ASSETS.glob("selector-v1-*.json")} == {
        f"selector-v1-{name}"
        for name in (
            "csr",
            "ege-sr",
            "ege-sh-published",
            "auto",
            "race",
            "grown",
            "segments",
        )
    }


def test_a_saved_study_opens_and_one_that_was_exported_is_the_same(
    tmp_path: Path,
) -> None:
    shutil.copy(ASSETS / "studies-v1.db", tmp_path / "studies.db")
    assert SQLiteStorage(tmp_path / "studies.db").snapshot(1) is not None
    with Study.open(f"sqlite:///{tmp_path / 'studies.db'}", "sample") as study:
        result = study.result()
        assert (result.spent, len(result.prompts), len(study.pending)) == (29, 10, 3)
        assert [each.details for each in study.evaluations() if each.details] == [
            {"answer": "short"}
        ]
        with Study.import_("memory://formats", ASSETS / "study-v1.jsonl") as imported:
            assert facts(imported.selector) == facts(study.selector)
            assert imported.pending == study.pending
        trial = study.ask()
        assert trial.id == 0  # the first, whose lease has run out
        assert study.tell(trial, [0.5, 0.5])


def test_a_saved_profile_loads() -> None:
    profile = asktell.ExampleProfile.from_json(
        (ASSETS / "profile-v1.json").read_text(encoding="utf-8")
    )
    assert json.loads(profile.to_json()) == json.loads(
        (ASSETS / "profile-v1.json").read_text(encoding="utf-8")
    )


def test_an_interrupted_run_goes_on_and_its_answers_are_not_paid_again(
    tmp_path: Path,
) -> None:
    shutil.copytree(ASSETS / "run-v1", tmp_path / "run")
    command = ["run", str(tmp_path / "run" / "a.toml")]
    before = Parrot.asked
    assert cli.main(command) == 0
    assert Parrot.asked - before == 12
    assert (
        len(
            (tmp_path / "run" / "out" / "evaluations.jsonl")
            .read_text(encoding="utf-8")
            .splitlines()
        )
        == 24
    )
    (tmp_path / "run" / "answers.db").unlink()
    shutil.copy(ASSETS / "run-v1" / "answers.db", tmp_path / "run")
    assert cli.main([*command, "--fresh"]) == 0
    assert Parrot.asked - before == 24  # of 24 answers, 12 were in the cache


# What a newer asktell wrote, and what an older one did not know yet


def saved(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (ASSETS / f"selector-v1-{name}.json").read_text(encoding="utf-8")
    )
    return found


def test_files_of_a_newer_version_are_refused_by_name(tmp_path: Path) -> None:
    newer = r"was written by asktell 2\.3, in version 2 of the format. This is asktell .* Upgrade asktell"
    selector = saved("csr") | {"version": 2, "asktell": "2.3"}
    with pytest.raises(asktell.InvalidStateError, match=rf"The saved selector {newer}"):
        Selector.from_json(selector)
    first, *rest = (ASSETS / "study-v1.jsonl").read_text(encoding="utf-8").splitlines()
    study = json.loads(first) | {"version": 2}
    study["selector"]["asktell"] = "2.3"
    (tmp_path / "study.jsonl").write_text(
        "\n".join([json.dumps(study), *rest]) + "\n", encoding="utf-8"
    )
    with pytest.raises(asktell.InvalidStateError, match=f"The study {newer}"):
        Study.import_("memory://newer", tmp_path / "study.jsonl")
    profile = json.loads((ASSETS / "profile-v1.json").read_text(encoding="utf-8")) | {
        "version": 2
    }
    with pytest.raises(
        asktell.InvalidStateError,
        match=r"was written by a newer asktell, .*Upgrade asktell",
    ):
        asktell.ExampleProfile.from_json(json.dumps(profile))


def test_a_key_that_this_version_does_not_know_is_refused_with_the_writer() -> None:
    with pytest.raises(
        asktell.InvalidStateError,
        match=r"unknown key 'weather'.*asktell '0\.9' wrote it, and this is",
    ):
        Selector.from_json(saved("csr") | {"weather": "fine", "asktell": "0.9"})
    data = saved("csr")
    data["state"]["weather"] = "fine"
    with pytest.raises(
        asktell.InvalidStateError,
        match=r"If a newer asktell wrote it, upgrade asktell.*unknown field `weather`",
    ):
        Selector.from_json(data)


def without(data: Any, path: list[Any]) -> Any:
    """A copy without the key at the end of a path."""
    data = plain(data)
    node = data
    for key in path[:-1]:
        node = node[key]
    del node[path[-1]]
    return data


def fields_with_defaults(kind: Any) -> set[str]:
    if issubclass(kind, msgspec.Struct):
        return {
            field.name for field in msgspec.structs.fields(kind) if not field.required
        }
    return {
        field.name
        for field in dataclasses.fields(kind)
        if field.default is not dataclasses.MISSING
    }


def default_keys(data: dict[str, Any]) -> list[list[Any]]:
    """The paths of the keys that have a default: of a problem, goal, method or state."""
    parts: list[tuple[list[Any], dict[str, Any], Any]] = [
        (["method"], data["method"], PARTS[data["method"]["type"]]),
        (["state"], data["state"], SavedState),
    ]
    for part, kind in (("objectives", Objective), ("subject_to", Constraint)):
        for number, each in enumerate(data["goal"][part]):
            parts.append((["goal", part, number], each, kind))
    return [
        *([key] for key in DEFAULTS if key in data),
        *(
            [*path, key]
            for path, part, kind in parts
            for key in sorted(fields_with_defaults(kind) & part.keys())
        ),
    ]


@pytest.mark.parametrize("name", ["csr", "auto", "race", "grown", "segments"])
def test_a_key_with_a_default_may_be_missing(name: str) -> None:
    """The file is read with the default, or it is refused since the rest of it does not fit the default."""
    data = saved(name)
    paths = default_keys(data)
    assert len(paths) > 30
    for path in paths:
        said = ""
        try:
            selector = Selector.from_json(without(data, path))
        except asktell.InvalidStateError as error:
            said = str(error)
        if not said:
            again = Selector.from_json(selector.to_json())
            assert again.to_json() == selector.to_json(), path
            continue
        assert path[-1] in OF_CONSEQUENCE, path
        for word in ("missing", "unknown", f"{path[-1]!r}"):
            assert word not in said, path


# The rest of a sample depends on these: rows, trials and arms that are not there are
# named elsewhere, and so on.
OF_CONSEQUENCE = {
    "trials", "arms", "examples", "scores", "decisions", "failures", "growth", "pending", "returned", "plan",
    "costs", "example_ids", "repeats", "max_cost", "segments", "profile", "on_failure", "quantile",
}  # fmt: skip


EVENTS: list[Any] = [*get_args(AnyEvent), Leased, Expired, Paused, Resumed]


@pytest.mark.parametrize("entry", EVENTS, ids=lambda kind: kind.__name__)
def test_fields_of_an_event_with_a_default_may_be_missing_at_its_end(
    entry: Any,
) -> None:
    fields: dict[Any, list[Any]] = {
        events.Asked: [3, 1], events.Told: [3, [0.5]], events.Failed: [3, "why"], events.Released: [3],
        events.Observed: [1, None, [0.5]], events.Decided: [0], events.Added: [["x"], ["text"]],
        events.Retired: [1, "why"], events.Extended: [], events.Remarked: ["topic", "text"],
        Leased: ["w", 1.5, [3]], Expired: [3], Paused: [1.5], Resumed: [],
    }  # fmt: skip
    required = fields[entry]
    tag = entry.__struct_config__.tag
    (shortest,) = log.decode(json.dumps([[tag, *required]]))
    assert type(shortest) is entry
    (whole,) = json.loads(log.encode([shortest]))
    for n in range(1 + len(required), 1 + len(whole)):
        assert log.decode(json.dumps([whole[:n]])) == (shortest,)
    with pytest.raises(asktell.InvalidStateError, match="`array` of at most length"):
        log.decode(json.dumps([[*whole, None]]))


def test_a_trial_number_does_not_decide_the_memory() -> None:
    data = json.loads(
        Selector(["a", "b"], asktell.BestFeasible("x"), 10**8, "auto").to_json()
    )
    data["state"] |= {
        "trials": [2 * 10**8],
        "arms": [0],
        "examples": [-1],
        "scores": [[0.5]],
        "asked": 2 * 10**8 + 1,
    }
    data["state"]["spent"] = 1
    with pytest.raises(
        asktell.InvalidStateError,
        match=r"asked is 200000001, but only 1 trials have scores",
    ):
        Selector.from_json(data)
