"""Langfuse's own experiments, against a stand-in for its server."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langfuse import Evaluation, Langfuse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)

import asktell
from asktell import BestFeasible, EvaluatorError, Selector
from asktell_adapters.harnesses.langfuse import LangfuseExperiments
from tests.families.platforms import stand_in
from tests.families.platforms.stand_in import ROWS, StandIn


def right(*, output: str, expected_output: str, **_: Any) -> list[Evaluation]:
    return [
        Evaluation(name="right", value=output == expected_output),
        Evaluation(name="said", value=output),
    ]


def task(prompt: str, item: Any) -> str:
    return str(item.input["question"]) if prompt == "Repeat." else "?"


@pytest.fixture
def server() -> Iterator[StandIn]:
    with stand_in.langfuse() as server:
        yield server


@pytest.fixture
def client(server: StandIn) -> Iterator[Langfuse]:
    # A client for each key
    client = Langfuse(public_key=server.url, secret_key="secret", base_url=server.url)
    yield client
    client.shutdown()


def experiments(server: StandIn) -> Counter[tuple[str, str]]:
    """How many items each experiment, by its id and name, was sent."""
    found: Counter[tuple[str, str]] = Counter()
    for body in server.sent("POST", "/api/public/otel/v1/traces"):
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for span in (
                span for scope in resource.scope_spans for span in scope.spans
            ):
                if span.name == "experiment-item-run":
                    about = {
                        each.key: each.value.string_value for each in span.attributes
                    }
                    found[
                        about["langfuse.experiment.id"],
                        about["langfuse.experiment.name"],
                    ] += 1
    return found


def test_each_prompt_has_one_experiment_also_after_a_restart(
    server: StandIn, client: Langfuse
) -> None:
    items = client.get_dataset("capitals").items
    for budget in (12, 16):
        evaluator = LangfuseExperiments(client, items, task, [right], name="s")
        selector = Selector(
            ["Repeat.", "Sing."],
            BestFeasible("right"),
            budget,
            "uniform",
            examples=len(ROWS),
        )
        with ThreadPoolExecutor(4) as threads:
            result = asktell.run(
                selector, evaluator, threads, progress=False, repeatable=True
            )
        assert result.selected[0].prompt == "Repeat."
        assert result.spent == budget
    client.flush()
    sent = experiments(server)
    assert {name: n for (_, name), n in sent.items()} == {
        "s: Repeat.": 14,
        "s: Sing.": 14,
    }
    scores = [
        score for sent in server.sent("POST", "/api/public/scores") for score in sent
    ]
    assert Counter(score["name"] for score in scores) == {"right": 28, "said": 28}


def test_what_raises_is_a_failure_that_says_why(
    server: StandIn, client: Langfuse
) -> None:
    async def fails(prompt: str, item: Any) -> str:
        raise KeyError("no such field")

    evaluator = LangfuseExperiments(client, [{"input": "x"}], fails, [right])
    with pytest.raises(EvaluatorError, match=r"task.*KeyError.*no such field"):
        evaluator("Repeat.", 0)

    def broken(**_: Any) -> Evaluation:
        raise ZeroDivisionError

    without = LangfuseExperiments(
        client, [{"input": "x"}], lambda prompt, item: "x", [broken]
    )
    assert without("Repeat.", 0) == {}, (
        "which is no score: a selection takes that as a failure"
    )


def test_options_of_run_experiment(server: StandIn, client: Langfuse) -> None:
    def both(*, evaluations: Any, **_: Any) -> Evaluation:
        return Evaluation(name="both", value=0.5)

    local = {"input": "x", "expected_output": "x"}
    evaluator = LangfuseExperiments(
        client,
        [local],
        lambda prompt, item: "x",
        [right],
        composite_evaluator=both,
        metadata={"model": "m"},
    )
    assert evaluator("Repeat.", 0) == {"right": 1.0, "both": 0.5}
