"""Candidates of several factors: their ids and levels, and every way by which they travel."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell import (
    BestFeasible,
    Candidates,
    InvalidArgumentError,
    Selector,
    Study,
    Trial,
    grid,
)

PROMPTS = {"short": "Be brief.", "long": "Take your time."}
GRID = grid(model=["a", "b"], prompt=PROMPTS, temperature=[0.0, 0.7])
GOAL = BestFeasible("accuracy")


def selector(candidates: Candidates = GRID) -> Selector:
    return Selector(candidates, GOAL, 40, examples=10, seed=3)


def accuracy(candidate: dict[str, Any], example: int) -> float:
    return (
        {"a": 0.2, "b": 0.7, "c": 0.9}[candidate["model"]]
        + candidate["temperature"] / 10
        + example / 100
    )


def test_a_grid_has_every_combination_and_the_last_factor_changes_first() -> None:
    assert len(GRID) == 8
    assert GRID.ids[:3] == ["a/short/0.0", "a/short/0.7", "a/long/0.0"]
    assert GRID[2] == {"model": "a", "prompt": "Take your time.", "temperature": 0.0}
    assert GRID.texts[2] == "Take your time."
    assert list(GRID[6:]) == [GRID[6], GRID[7]]
    some = grid(
        model=["a", "b"],
        temperature=[0.0, 0.7],
        where=lambda c: (c["model"], c["temperature"]) != ("b", 0.7),
    )
    assert some.ids == some.texts == ["a/0.0", "a/0.7", "b/0.0"]


def test_levels_are_named_by_their_values_and_long_texts_by_their_beginning() -> None:
    found = Candidates(
        [
            {"x": 1, "prompt": "Think. " * 20},
            {"prompt": "Be\nbrief.", "x": True},
            {"x": None, "prompt": "P"},
        ]
    )
    assert found.ids[2] == "null/P"
    assert found.ids[1].startswith("true/Be brief.~")
    assert found.ids[0].startswith("1/Think. Think. Think.~")
    assert found.texts[0] == "Think. " * 20
    assert Candidates([found[1], found[0]]).ids == [found.ids[1], found.ids[0]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Candidates([]), "no candidates"),
        (lambda: Candidates([{}]), "no candidates"),
        (lambda: Candidates(["text"]), "maps factors to values, got 'text'"),  # type: ignore[list-item]
        (lambda: Candidates([{"a": 1}, {"b": 1}]), "same factors. The first candidate has 'a', and another has 'b'"),
        (lambda: Candidates([{"a": 1}, {"a": 1}]), "Two candidates have the id '1'"),
        (lambda: Candidates([{"a": 1}, {"a": "1"}]), "stands for two values, 1 and '1'"),
        (lambda: Candidates([{"a": float("nan")}]), "finite number"),
        (lambda: Candidates([{"a": [1]}]), "finite number"),  # type: ignore[dict-item]
        (lambda: Candidates([{"prompt": 1}]), "'prompt' must be texts"),
        (lambda: grid(a=["x/y", "x"], b=["z", "y/z"]), "Two candidates have the id 'x/y/z'"),
        (lambda: grid(model="gpt"), "needs a list of values"),
        (lambda: grid(model=["a", "a"]), "has the same value more than once"),
        (lambda: grid(model=[]), "no candidates"),
        (lambda: grid(), "no candidates"),
        (lambda: grid(a=[1], where=lambda _: False), "returned False for every candidate"),
        (lambda: grid(a=range(1001), b=range(1000)), "more than 1,000,000"),
        (lambda: grid(prompt={"": "x"}), "name of a level"),
    ],
)  # fmt: skip
def test_what_cannot_be_candidates_is_refused(
    make: Callable[[], Candidates], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make()


def test_a_trial_carries_its_candidate_and_means_the_same_after_json() -> None:
    asked = selector()
    trial, other = asked.ask(2)
    assert trial.candidate in list(GRID)
    assert trial.prompt == trial.candidate["prompt"]
    assert {trial: 1}[trial] == 1
    trial.candidate["model"] = "changed by the caller"
    assert asked.pending[0].candidate in list(GRID)
    assert asked.tell(Trial(*json.loads(json.dumps(other))), [0.5])
    assert asked.tell(json.loads(json.dumps(trial._asdict())), [0.5])
    assert Selector(["x", "y"], GOAL, 4).ask().candidate is None  # type: ignore[union-attr]


def test_a_text_of_several_candidates_names_none_of_them() -> None:
    asked = selector()
    asked.observe("a/long/0.7", [0.5], example=1)
    with pytest.raises(
        InvalidArgumentError,
        match=r"text of 4 candidates\. Name one of them by its id: 'a/short/0.0'",
    ):
        asked.observe("Be brief.", [0.5], example=1)
    one = Selector(grid(prompt=PROMPTS, temperature=[0.5]), GOAL, 4, examples=2)
    assert one.observe("Be brief.", [0.5], example=1)
    with pytest.raises(InvalidArgumentError, match="text of 4 candidates"):
        asked.result().compare("Be brief.", "a/long/0.7")


def test_more_candidates_join() -> None:
    asked = selector()
    new = grid(model=["b", "c"], prompt=PROMPTS, temperature=[0.0])
    assert asked.add(new, key="k") == asked.add(new, key="k") == new.ids
    assert len(asked.prompts) == 10
    assert asked.prompts.ids[8:] == ["c/short/0.0", "c/long/0.0"]
    assert asked.state.problem.candidates == asked.prompts.candidates
    assert asked.state.problem.candidates[9] == new[3]  # type: ignore[index]
    for more, message in (
        (grid(model=["c"], prompt=PROMPTS), "have the factors"),
        (["A text"], "got texts, but the existing prompts are asktell.Candidates"),
        (
            grid(model=["d"], prompt={"short": "Be long."}, temperature=[0.0]),
            "stands for two values, 'Be brief.' and 'Be long.'",
        ),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            asked.add(more)  # type: ignore[arg-type]
    with pytest.raises(
        InvalidArgumentError,
        match=r"got asktell\.Candidates, but the existing prompts are texts",
    ):
        Selector(["x", "y"], GOAL, 4).add(GRID)


def test_a_saved_selector_has_its_candidates_again() -> None:
    asked = selector()
    asktell.run(asked, accuracy, progress=False, until=lambda s: s.spent >= 9)
    asked.add(grid(model=["c"], prompt=PROMPTS, temperature=[0.0]))
    text = asked.to_json()
    again = Selector.from_json(text)
    assert again.to_json() == text
    assert again.prompts.candidates == asked.prompts.candidates
    assert again.ask(5) == asked.ask(5)
    data = json.loads(text)
    assert data["prompts"]["factors"]["prompt"] == PROMPTS
    assert data["prompts"]["candidates"][0] == ["a", "short", "0.0"]
    del data["prompts"]["candidates"]  # all combinations
    assert Selector.from_json(data).ask(5) == Selector.from_json(text).ask(5)
    for spoilt in (
        [["a", "short"]],
        [["a", "short", "1.0"]],
        [["a", "short", []]],
        7,
        [],
    ):
        data["prompts"]["candidates"] = spoilt
        with pytest.raises(asktell.InvalidStateError):
            Selector.from_json(data)


def test_a_study_keeps_candidates_and_those_that_join(tmp_path: Path) -> None:
    with Study.create(tmp_path / "s.db", "one", selector()) as study:
        asktell.run(study, accuracy, progress=False, until=lambda s: s.spent >= 5)
        study.add(grid(model=["c"], prompt=PROMPTS, temperature=[0.0]))
        study.export(tmp_path / "one.jsonl")
        with (
            Study.open(tmp_path / "s.db", "one") as other,
            Study.import_(tmp_path / "t.db", tmp_path / "one.jsonl") as third,
        ):
            assert (
                other.selector.to_json()
                == third.selector.to_json()
                == study.selector.to_json()
            )
            result = asktell.run(other, accuracy, progress=False)
    assert result.best.candidate["model"] == "c"
    assert result.to_dict()["selected"][0]["candidate"] == result.best.candidate


def test_an_evaluator_of_candidates_gets_prompts_as_candidates_too() -> None:
    result = asktell.run(
        Selector(["x", "yy"], GOAL, 8, examples=4),
        lambda candidate, example: len(candidate["prompt"]),
        progress=False,
    )
    assert (result.best.prompt, result.best.candidate) == ("yy", None)


def test_an_evaluator_of_trials_gets_them_whole() -> None:
    seen: list[tuple[Trial, int]] = []

    def evaluate(trial: Trial, repeat: int) -> float:
        seen.append((trial, repeat))
        return float(len(trial.candidate["prompt"])) if trial.candidate else 0.0

    asked = Selector(
        grid(prompt=["x", "yy"], model=["a"]), GOAL, 8, "uniform", examples=4
    )
    assert asktell.run(asked, evaluate, progress=False).best.id == "yy/a"
    known = [trial for trial, repeat in seen if not repeat]
    assert sorted(trial.id for trial in known) == list(range(8))
    assert {(trial.prompt_id, trial.example) for trial in known} == {
        (id_, n) for id_ in asked.prompts.ids for n in range(4)
    }


def test_an_evaluator_of_prompts_that_would_not_see_the_model_is_refused() -> None:
    asked = selector()
    with pytest.raises(
        InvalidArgumentError, match="Rename its first parameter to `candidate`"
    ):
        asktell.run(asked, lambda prompt, example: 0.5, progress=False)
    assert (asked.spent, asked.pending) == (0, [])
    assert asktell.run(
        Selector(grid(prompt=PROMPTS), GOAL, 4, examples=2),
        lambda p, e: len(p),
        progress=False,
    ).best
