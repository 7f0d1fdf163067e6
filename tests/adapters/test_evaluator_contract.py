"""The contract itself, over the ways to write an evaluator; and that it catches those that break it."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np
import pytest

from asktell import Trial
from asktell.errors import EvaluatorError
from asktell.running.evaluator import Evaluator
from asktell.testing.evaluator_contract import EvaluatorContract, Make, Script, good
from asktell_adapters._util.scores import number


def score(script: Script, prompt: str, example: int | None) -> dict[str, float]:
    assert example is not None
    outcome = script(prompt, example)
    match outcome:
        case "raises":
            raise ZeroDivisionError("scripted")
        case "times out":
            raise TimeoutError("scripted")
        case "no score":
            return {}
        case "nan":
            return {"score": math.nan}
    return {"score": outcome}


def plain(script: Script) -> Evaluator:
    return lambda prompt, example: score(script, prompt, example)


def coroutine(script: Script) -> Evaluator:
    async def evaluate(prompt: str, example: int | None) -> dict[str, float]:
        return score(script, prompt, example)

    return evaluate


class Batch:
    """Scores of a batch, in an order of its own making."""

    def __init__(
        self, script: Script, order: Callable[[list[object]], list[object]] = list
    ) -> None:
        self._script = script
        self._order = order

    def evaluate_batch(self, trials: Sequence[Trial]) -> list[object]:
        outcomes: list[object] = []
        for trial in trials:
            try:
                outcomes.append(score(self._script, trial.prompt, trial.example))
            except Exception as error:
                outcomes.append(error)
        return self._order(outcomes)


class TestEveryKind(EvaluatorContract):
    kinds: ClassVar[Mapping[str, Make]] = {
        "plain": plain,
        "async": coroutine,
        "batch": Batch,
    }

    @pytest.fixture(params=["plain", "async", "batch"])
    def make(self, request: pytest.FixtureRequest) -> Make:
        return self.kinds[request.param]


def test_it_catches_a_batch_in_another_order() -> None:
    with pytest.raises(AssertionError):
        EvaluatorContract().test_each_score_comes_to_its_trial(
            lambda script: Batch(script, lambda found: found[::-1])
        )


def test_it_catches_a_failure_that_becomes_a_score() -> None:
    def lenient(script: Script) -> Evaluator:
        def evaluate(prompt: str, example: int | None) -> dict[str, float]:
            try:
                return score(script, prompt, example)
            except ZeroDivisionError:
                return {"score": 0.0}

        return evaluate

    with pytest.raises(AssertionError):
        EvaluatorContract().test_one_fault_is_the_failure_of_one_trial(
            "raises", lenient
        )


def test_it_catches_a_batch_that_fails_whole() -> None:
    class Brittle(Batch):
        def evaluate_batch(self, trials: Sequence[Trial]) -> list[object]:
            return [
                score(self._script, trial.prompt, trial.example) for trial in trials
            ]

    with pytest.raises(AssertionError):
        EvaluatorContract().test_one_fault_is_the_failure_of_one_trial(
            "raises", Brittle
        )


def test_scripts_tell_every_pair_apart() -> None:
    prompts = ["Answer.", "Answer briefly."]
    assert (
        len({good(prompt, example) for prompt in prompts for example in range(4)}) == 8
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1.0),
        (True, 1.0),
        (0.5, 0.5),
        (np.float32(0.5), 0.5),
        (np.array([0.25]), 0.25),
    ],
)
def test_numbers(value: object, expected: float) -> None:
    assert number("f1", value) == expected


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "instead of a number"),
        ("C", "'C', which is not a number"),
        (math.nan, "nan"),
        (math.inf, "inf"),
        ([1, 2], "not a number"),
    ],
)
def test_what_is_no_number(value: object, words: str) -> None:
    with pytest.raises(EvaluatorError, match=f"'f1' returned .*{words}"):
        number("f1", value)
