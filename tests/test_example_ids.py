"""Examples with ids: which example is which, in every process, file and study; others are refused and named."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asktell
from asktell import (
    BestFeasible,
    InvalidArgumentError,
    InvalidStateError,
    Selector,
    Study,
    StudyExistsError,
)
from asktell.problem.examples.ids import ExampleIds, changes

IDS = ["a", "b", "c", "d"]


def new(examples: Any = IDS, budget: int = 8) -> Selector:
    return Selector(["x", "y"], BestFeasible("q"), budget, "uniform", examples)


def test_ids_are_kept_and_a_trial_has_the_position() -> None:
    selector = new()
    assert selector.example_ids == tuple(IDS)
    again = Selector.from_json(selector.to_json(), examples=IDS)
    assert again.example_ids == tuple(IDS)
    assert again.to_json() == selector.to_json()
    trial = again.ask()
    assert trial == new(4).ask()
    assert trial.example in range(4)
    assert again.result().example_ids == tuple(IDS)
    assert again.result().to_dict()["example_ids"] == IDS


def test_an_observation_may_name_its_example_by_its_id() -> None:
    one, other = new(), new()
    one.observe("x", {"q": 0.5}, "c")
    other.observe("x", {"q": 0.5}, 2)
    assert one.to_json() == other.to_json()
    before = one.to_json()
    with pytest.raises(
        InvalidArgumentError, match=r"no example 'C'.*by its id: 'a', 'b', 'c', 'd'"
    ):
        one.observe("x", {"q": 0.5}, "C")
    with pytest.raises(InvalidArgumentError, match="from 0 to 3"):
        one.observe("x", {"q": 0.5}, 4)
    assert one.to_json() == before
    with pytest.raises(InvalidArgumentError, match=r"'c'.*no ids.*from 0 to 3"):
        new(4).observe("x", {"q": 0.5}, "c")


@pytest.mark.parametrize(
    ("examples", "said"),
    [
        (
            ["a", "b", "a", "c", "b"],
            r"distinct.*'a' at the positions 0 and 2; 'b' at the",
        ),
        (["a", ""], "not empty. The id at position 1 is ''"),
        ([1, 2], "The id at position 0 is 1"),
        ([{"input": "x"}], r"Pass len\(dataset\)"),
        ([], "got 0"),
        ("abc", "a number, or a list of distinct ids"),
        ({"a", "b"}, "a list of distinct ids"),
        (True, "got True"),
        (2.0, "got 2.0"),
        (np.array([["a"]]), "a list of distinct ids"),
    ],
)
def test_what_are_no_ids_is_refused(examples: Any, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        new(examples)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["a", "c", "b", "d"], r"1 moved \('.'\)"),
        (["a", "b", "c", "d", "e"], r"1 added \('e'\)"),
        (["b", "c", "d"], r"1 missing \('a'\)"),
        (["e", "d", "a", "b"], r"1 moved \('d'\); 1 added \('e'\); 1 missing \('c'\)"),
        (
            ["u", "v", "w", "x", "y", "z"],
            r"6 added \('u', 'v', 'w', 'x', 'y', \.\.\.\); 4 missing",
        ),
        (5, "4 then, 5 now"),
    ],
)
def test_going_on_with_others_is_refused(given: Any, said: str, tmp_path: Path) -> None:
    text = new().to_json()
    with pytest.raises(InvalidArgumentError, match=f"saved selector.*{said}"):
        Selector.from_json(text, examples=given)
    with Study.create(tmp_path / "s.db", "s", new()) as study:
        before = study.selector.to_json()
    with pytest.raises(InvalidArgumentError, match=f"study 's'.*{said}"):
        Study.open(tmp_path / "s.db", "s", examples=given)
    if given not in (5, ["a", "b", "c", "d", "e"]):
        with pytest.raises(StudyExistsError, match=f"examples: {said}"):
            Study.create(tmp_path / "s.db", "s", new(given), exist_ok=True)
    with Study.open(tmp_path / "s.db", "s", examples=IDS) as study:
        assert study.selector.to_json() == before
        assert study.example_ids == tuple(IDS)


def test_whoever_has_the_same_ids_joins_and_whoever_has_none_does_not(
    tmp_path: Path,
) -> None:
    Study.create(tmp_path / "s.db", "s", new()).close()
    Study.create(tmp_path / "s.db", "s", new(), exist_ok=True).close()
    with pytest.raises(StudyExistsError, match="other values of examples"):
        Study.create(tmp_path / "s.db", "s", new(4), exist_ok=True)


def test_evaluations_and_exports_carry_ids(tmp_path: Path) -> None:
    with Study.create(tmp_path / "s.db", "s", new()) as study:
        asktell.run(
            study,
            lambda prompt, example: [float(len(prompt) + example)],
            progress=False,
        )
        told = list(study.evaluations())
        assert [e.example_id for e in told] == [IDS[e.example or 0] for e in told]
        study.export(tmp_path / "s.jsonl")
    with Study.import_(tmp_path / "t.db", tmp_path / "s.jsonl") as copy:
        assert copy.example_ids == tuple(IDS)
        assert list(copy.evaluations()) == told


def test_a_file_with_ids_that_do_not_fit_is_refused_whole() -> None:
    data = json.loads(new().to_json())
    for ids in (["a"], ["a", "a", "b", "c"], [1, 2, 3, 4], "abcd", {}):
        with pytest.raises(InvalidStateError):
            Selector.from_json(json.dumps({**data, "example_ids": ids}))


@pytest.mark.parametrize("ids", ["abc", b"abc"])
def test_a_single_text_is_not_the_ids_of_its_letters(ids: Any) -> None:
    for take in (ExampleIds, ExampleIds(IDS).with_more):
        with pytest.raises(InvalidArgumentError, match="got a single text"):
            take(ids)
    with pytest.raises(
        InvalidArgumentError,
        match="examples must be a number, or a list of distinct ids",
    ):
        new().extend(examples=ids)


def test_more_come_after_those_that_are_there() -> None:
    examples = ExampleIds(IDS)
    assert examples.with_more(["e"]) == (*IDS, "e")
    with pytest.raises(InvalidArgumentError, match="'b' at the positions 1 and 4"):
        examples.with_more(["b"])


@given(
    st.permutations(list("abcdefg")),
    st.sets(st.sampled_from("abcdefg")),
    st.permutations(list("uvw")),
)
def test_changes_explain_what_came_of_the_ids(
    after: list[str], gone: set[str], fresh: list[str]
) -> None:
    before = list("abcdefg")
    now = [id_ for id_ in after if id_ not in gone] + fresh
    found = changes(before, now)
    assert set(found.missing) == gone
    assert list(found.added) == fresh
    stayed = [id_ for id_ in now if id_ not in (*found.moved, *found.added)]
    # What is not moved is in order
    assert stayed == [id_ for id_ in before if id_ in stayed]
    # And as much as can be
    assert len(stayed) == max(map(len, _rising(now, before)), default=0)


def _rising(now: list[str], before: list[str]) -> Iterator[list[str]]:
    """All parts of `now` that are in the order of `before`."""
    common = [id_ for id_ in now if id_ in before]
    for mask in range(2 ** len(common)):
        part = [id_ for i, id_ in enumerate(common) if mask >> i & 1]
        if part == sorted(part):
            yield part
