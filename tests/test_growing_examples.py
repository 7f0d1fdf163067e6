"""Examples with ids join."""

import json
from collections.abc import Sequence

import pytest

import asktell
from asktell.studies.storages.memory import MemoryStorage
from tests.plays import play


def selector() -> asktell.Selector:
    return asktell.Selector(
        ["a", "b", "c"], asktell.BestFeasible("m"), 12, examples=["x", "y"]
    )


def finish(study: asktell.Selector | asktell.Study) -> None:
    play(study, lambda trial: [len(trial.prompt) * 0.5])


def test_examples_join_with_their_ids() -> None:
    one = selector()
    finish(one)
    assert one.done
    one.extend(examples=["z", "w"])
    assert not one.done
    assert one.example_ids == ("x", "y", "z", "w")
    again = asktell.Selector.from_json(one.to_json())
    assert again.example_ids == one.example_ids
    finish(again)
    assert again.spent == 12
    ids = [evaluation.example_id for evaluation in again.evaluations()]
    assert sorted(ids) == sorted(["x", "y", "z", "w"] * 3)


def test_a_study_knows_the_ids_of_examples_that_joined_when_it_is_opened_again() -> (
    None
):
    study = asktell.Study.create(MemoryStorage(), "s", selector())
    finish(study)
    study.extend(examples=["z"])
    finish(study)
    assert study.example_ids == ("x", "y", "z")
    assert {evaluation.example_id for evaluation in study.evaluations()} == {
        "x",
        "y",
        "z",
    }


@pytest.mark.parametrize(
    ("given", "examples", "said"),
    [
        (["x", "y"], 2, "needs the ids"),
        (["x", "y"], ["x"], "'x' at the positions 0 and 2"),
        (["x", "y"], ["z", "z"], "'z' at"),
        (2, ["z"], "have no ids"),
    ],
)
def test_other_examples_are_refused(
    given: int | Sequence[str], examples: int | Sequence[str], said: str
) -> None:
    one = asktell.Selector(["a", "b"], asktell.BestFeasible("m"), 4, examples=given)
    before = one.to_json()
    with pytest.raises(asktell.InvalidArgumentError, match=said):
        one.extend(examples=examples)
    assert one.to_json() == before


def test_a_saved_extension_with_a_wrong_number_of_ids_is_refused() -> None:
    one = selector()
    one.extend(examples=["z"])
    data = json.loads(one.to_json().replace('["z"]', '["z", "u"]'))
    with pytest.raises(asktell.InvalidStateError):
        asktell.Selector.from_json(data)
