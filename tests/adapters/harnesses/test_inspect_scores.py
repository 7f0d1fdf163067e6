"""How samples of an Inspect log are read, on samples made by hand; Inspect itself is run in tests/families/inspect."""

import math
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import asktell
from asktell.errors import MissingExtraError
from asktell_adapters.harnesses.inspect.logs import observe_logs
from asktell_adapters.harnesses.inspect.samples import Scoring, value_to_float
from asktell_adapters.harnesses.inspect.task import InspectTask
from asktell_adapters.harnesses.lm_eval import LMEvalTask
from asktell_adapters.llms.base import CompletionError


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("inspect_ai", "inspect_ai.log", "lm_eval.api.task"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"asktell\[inspect\]"):
        InspectTask(object())
    with pytest.raises(MissingExtraError, match=r"asktell\[inspect\]"):
        observe_logs(asktell.Selector(["A"], asktell.BestFeasible("m"), 1), "logs")
    with pytest.raises(MissingExtraError, match=r"asktell\[lm-eval\]"):
        LMEvalTask({}, object())


def sample(
    value: Any = 1.0,
    *,
    costs: tuple[float | None, ...] = (0.25,),
    error: str | None = None,
    limit: str | None = None,
) -> Any:
    usage = [
        SimpleNamespace(
            input_tokens=7, output_tokens=3, total_tokens=10, total_cost=cost
        )
        for cost in costs
    ]
    return SimpleNamespace(
        id="p|1",
        error=None if error is None else SimpleNamespace(message=error),
        limit=None if limit is None else SimpleNamespace(type=limit, limit=5.0),
        scores={"grade": SimpleNamespace(value=value)},
        model_usage=dict(zip(("m", "grader"), usage, strict=False)),
        total_time=2.0,
    )


def test_means_over_epochs_and_the_sum_of_their_costs() -> None:
    scores = Scoring().of_epochs([sample("C"), sample("I", costs=(0.25, 0.5))], "m")
    assert scores == {
        "grade": 0.5,
        "input_tokens": 7.0,
        "output_tokens": 3.0,
        "total_tokens": 10.0,
        "latency": 2.0,
        "cost": 1.0,
    }


@pytest.mark.parametrize("costs", [(), (None,), (0.25, None)])
def test_no_cost_unless_every_price_is_known(costs: tuple[float | None, ...]) -> None:
    assert "cost" not in Scoring().of_epochs([sample(costs=costs)], "m")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": 0.5, "b": "P"}, {"grade/a": 0.5, "grade/b": 0.5}),
        ([1, "I"], {"grade/0": 1.0, "grade/1": 0.0}),
        (True, {"grade": 1.0}),
    ],
)
def test_names(value: Any, expected: dict[str, float]) -> None:
    scores = Scoring().of_epochs([sample(value, costs=())], "m")
    assert {
        name: number for name, number in scores.items() if name.startswith("grade")
    } == expected


@pytest.mark.parametrize(
    ("failing", "words"),
    [
        (sample(error="ValueError('boom')"), "ValueError.'boom'"),
        (sample(limit="time"), "the sample reached its time limit of 5 seconds"),
        (sample("blue"), "no score 'grade'"),
        (sample({"a": 1.0}), "no score 'grade'"),
        (sample(math.nan), "no score 'grade'"),
    ],
)
def test_a_failure_names_itself_and_brings_the_cost_of_all_epochs(
    failing: Any, words: str
) -> None:
    with pytest.raises(CompletionError, match=rf"'p\|1'.*{words}") as caught:
        Scoring(metrics=("grade",)).of_epochs([sample(), failing], "m")
    assert caught.value.cost == 0.5


TRACEBACK = """Traceback (most recent call last):
  File "a.py", line 1, in f
    raise APIConnectionError(request=request) from err
openai.APIConnectionError: Connection error.
Is it up?

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "b.py", line 2, in g
    raise retry_exc from fut.exception()
tenacity.RetryError: RetryError[<Future at 0x7f state=finished raised APIConnectionError>]
"""


@pytest.mark.parametrize(
    ("traceback", "said"),
    [
        (
            TRACEBACK,
            "Inspect's sample 'p|1' failed: APIConnectionError: Connection error.\nIs it up?",
        ),
        ("cut off", "Inspect's sample 'p|1' failed: RetryError(<Future at 0x7f>)"),
    ],
)
def test_of_attempts_that_failed_the_reason_is_that_of_the_last(
    traceback: str, said: str
) -> None:
    failing = sample(error="RetryError(<Future at 0x7f>)")
    failing.error.traceback = traceback
    with pytest.raises(CompletionError) as caught:
        Scoring().of_epochs([failing], "m")
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("C", 1.0),
        ("P", 0.5),
        ("I", 0.0),
        ("N", 0.0),
        ("Yes", 1.0),
        ("FALSE", 0.0),
        ("-2.5", -2.5),
    ],
)
def test_values(value: object, expected: float) -> None:
    assert value_to_float(value) == expected


@pytest.mark.parametrize("value", ["blue", "c", "", None, [1.0], {}, math.nan, "nan"])
def test_values_that_are_no_number(value: object) -> None:
    assert math.isnan(value_to_float(value))
