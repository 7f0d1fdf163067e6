"""Opik's own optimization, with our algorithm in it, against a stand-in for its server."""

import json
from collections.abc import Iterator
from typing import Any

import opik
import pytest
from opik_optimizer import ChatPrompt, MultiMetricObjective, OptimizableAgent

from asktell import BestFeasible, EvaluatorError, InvalidArgumentError
from asktell_adapters.optimizers.opik import AsktellOptimizer
from tests.families.platforms import stand_in
from tests.families.platforms.stand_in import ROWS, StandIn


class Scripted(OptimizableAgent):  # type: ignore[misc]
    """Repeats the question if it is told to, and fails on one."""

    def __init__(self, fails_at: str = "") -> None:
        super().__init__(project_name="tests")
        self.fails_at = fails_at

    def invoke_agent(
        self,
        prompts: Any,
        dataset_item: Any,
        allow_tool_use: bool = False,
        seed: Any = None,
    ) -> str:
        (prompt,) = prompts.values()
        system, question = (
            str(message["content"]) for message in prompt.get_messages(dataset_item)
        )
        if question == self.fails_at:
            raise KeyError(question)
        return question if "Repeat" in system else "?"


def correct(dataset_item: dict[str, Any], llm_output: str) -> float:
    return float(llm_output == dataset_item["answer"])


def short(dataset_item: dict[str, Any], llm_output: str) -> float:
    return float(len(llm_output) < 3)


PROMPT = ChatPrompt(system="Answer.", user="{question}")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with stand_in.opik() as server:
        monkeypatch.setenv("OPIK_URL_OVERRIDE", server.url)
        yield server


@pytest.fixture
def dataset(server: StandIn) -> Any:
    return opik.Opik().get_dataset("capitals")


def test_the_best_candidate_is_the_result_and_every_trial_is_in_opik(
    server: StandIn, dataset: Any
) -> None:
    optimizer = AsktellOptimizer(["Repeat.", "Sing."], 18, verbose=0, batch_size=6)
    found = optimizer.optimize_prompt(
        PROMPT, dataset, correct, agent=Scripted(), n_samples=1
    )
    assert found.prompt.get_messages()[0]["content"] == "Repeat."
    assert found.score == pytest.approx(1, abs=0.1)
    assert found.initial_score == 0
    assert found.details["finish_reason"] == "completed"
    assert optimizer.result.spent == 18
    assert len(found.history[0]["trials"]) == 3
    (optimization,) = server.sent("POST", "/v1/private/optimizations")
    trials = server.sent("POST", "/v1/private/experiments")
    assert {trial["optimization_id"] for trial in trials} == {optimization["id"]}
    items = [
        item
        for sent in server.sent("POST", "/v1/private/experiments/items")
        for item in sent["experiment_items"]
    ]
    assert len(items) == 1 + 18, "the baseline's, and those chosen"
    assert len(trials) < len(items)
    (ended,) = server.sent("PUT", "/v1/private/optimizations/[^/]+")
    assert ended["status"] == "completed"


def test_an_item_that_fails_fails_alone(server: StandIn, dataset: Any) -> None:
    optimizer = AsktellOptimizer(["Repeat."], 20, verbose=0, method="uniform")
    optimizer.optimize_prompt(
        PROMPT, dataset, correct, agent=Scripted(ROWS[3]), n_samples=1
    )
    assert [entry.failures for entry in optimizer.result.prompts] == [1, 1]
    assert [entry.evaluations for entry in optimizer.result.prompts] == [9, 9]


def test_a_metric_that_raises_is_a_failure_and_no_zero(dataset: Any) -> None:
    def broken(dataset_item: dict[str, Any], llm_output: str) -> float:
        raise ZeroDivisionError("scripted")

    optimizer = AsktellOptimizer(["Repeat."], 6, verbose=0)
    with pytest.raises(EvaluatorError, match=r"'broken'.*ZeroDivisionError"):
        optimizer.optimize_prompt(
            PROMPT, dataset, broken, agent=Scripted(), n_samples=1
        )


def test_limits_on_the_parts_of_an_objective(dataset: Any) -> None:
    both = MultiMetricObjective([correct, short], [0.5, 0.5], name="both")
    goal = BestFeasible("correct", {"short": 0.5})
    whole = {"chat-prompt": ChatPrompt(system="Repeat it.", user="{question}")}
    optimizer = AsktellOptimizer(
        lambda context: [whole, "Sing."], 12, goal=goal, verbose=0, method="uniform"
    )
    found = optimizer.optimize_prompt(
        PROMPT, dataset, both, agent=Scripted(), n_samples=1
    )
    assert (
        json.loads(optimizer.result.prompts[1].prompt)["chat-prompt"][0]["content"]
        == "Repeat it."
    )
    assert optimizer.result.prompts[1].feasible is False
    assert found.prompt.get_messages()[0]["content"] in ("Answer.", "Sing.")


def test_several_prompts_need_names(dataset: Any) -> None:
    prompts = {"one": PROMPT, "two": PROMPT.copy()}
    with pytest.raises(InvalidArgumentError, match=r"prompts.*one, two"):
        AsktellOptimizer(["Repeat."], 6, verbose=0).optimize_prompt(
            prompts, dataset, correct, agent=Several(), n_samples=1
        )


class Several(OptimizableAgent):  # type: ignore[misc]
    def invoke_agent(
        self,
        prompts: Any,
        dataset_item: Any,
        allow_tool_use: bool = False,
        seed: Any = None,
    ) -> str:
        return "?"
