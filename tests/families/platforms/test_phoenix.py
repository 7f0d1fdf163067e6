"""Phoenix's own client, against a stand-in for its server."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from phoenix.client import Client

import asktell
from asktell import BestFeasible, EvaluatorError, Selector
from asktell_adapters.harnesses.phoenix import PhoenixExperiments
from tests.families.platforms import stand_in
from tests.families.platforms.stand_in import ROWS, StandIn


def right(output: str, expected: dict[str, Any]) -> bool:
    return bool(output == expected["answer"])


def task(prompt: str, example: Any) -> str:
    return str(example["input"]["question"]) if prompt == "Repeat." else "?"


@pytest.fixture
def server() -> Iterator[StandIn]:
    with stand_in.phoenix() as server:
        yield server


def make(
    server: StandIn, task: Any = task, evaluators: Any = (right,)
) -> PhoenixExperiments:
    client = Client(base_url=server.url)
    return PhoenixExperiments(
        client,
        client.datasets.get_dataset(dataset="capitals"),
        task,
        evaluators,
        name="s",
    )


def test_each_prompt_has_one_experiment_also_after_a_restart(server: StandIn) -> None:
    for budget in (12, 16):
        selector = Selector(
            ["Repeat.", "Sing."],
            BestFeasible("right"),
            budget,
            "uniform",
            examples=len(ROWS),
            inputs="given",
        )
        with ThreadPoolExecutor(4) as threads:
            result = asktell.run(selector, make(server), threads, progress=False)
        assert result.selected[0].prompt == "Repeat."
        assert result.spent == budget
    made = server.sent("POST", "/v1/datasets/d/experiments")
    assert [
        (each["name"], each["metadata"])
        for each in sorted(made, key=lambda each: str(each["name"]))
    ] == [
        ("s: Repeat.", {"selection": "s", "prompt": "Repeat."}),
        ("s: Sing.", {"selection": "s", "prompt": "Sing."}),
    ]
    runs = server.sent("POST", "/v1/experiments/.*/runs")
    # The second selection evaluates some that are there already, and repeats four.
    assert Counter(run["repetition_number"] for run in runs) == {1: 28, 2: 4}
    kept = {(run["experiment_id"], run["dataset_example_id"]) for run in runs}
    scored = server.sent("POST", "/v1/experiment_evaluations")
    assert len(scored) == len(kept) + 4
    assert scored[0]["result"]["score"] in (0, 1)
    assert scored[0]["annotator_kind"] == "CODE"


def test_what_raises_is_a_failure_here_and_there(server: StandIn) -> None:
    def fails(prompt: str, example: Any) -> str:
        raise KeyError("no such field")

    with pytest.raises(EvaluatorError, match=r"task.*KeyError.*no such field"):
        make(server, fails)("Repeat.", 0)
    (run,) = server.sent("POST", "/v1/experiments/.*/runs")
    assert run["error"] == "KeyError: 'no such field'"

    def broken(output: str) -> float:
        raise ZeroDivisionError("scripted")

    with pytest.raises(
        EvaluatorError,
        match=r"'broken'.*ZeroDivisionError.*scripted",
    ):
        make(server, evaluators=[broken])("Repeat.", 0)
    (said,) = server.sent("POST", "/v1/experiment_evaluations")
    assert said["error"] == "ZeroDivisionError: scripted"


def test_evaluators_by_name_labels_and_several_scores(server: StandIn) -> None:
    def several(output: str) -> list[dict[str, Any]]:
        return [
            {"name": "length", "score": len(output)},
            {"name": "tone", "label": "kind"},
        ]

    evaluator = make(server, evaluators={"matches": right, "several": several})
    assert evaluator("Repeat.", 0) == {"matches": 1.0, "length": 4.0}
    assert [
        each["name"] for each in server.sent("POST", "/v1/experiment_evaluations")
    ] == ["matches", "length", "tone"]
