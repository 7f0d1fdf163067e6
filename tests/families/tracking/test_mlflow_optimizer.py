"""`mlflow.genai.optimize_prompts` with asktell's optimizer, and with GEPA's under asktell's policy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import asktell
from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell_adapters.harnesses.gepa import AsktellPolicy
from asktell_adapters.optimizers import Brief

mlflow = pytest.importorskip("mlflow")
pytest.importorskip(
    "mlflow.genai.optimize.optimizers.gepa_optimizer",
    reason="this MLflow's optimizers evaluate no rows yet",
)

from mlflow.genai.optimize.optimizers import BasePromptOptimizer, GepaPromptOptimizer  # noqa: E402
from mlflow.genai.optimize.types import EvaluationResultRecord  # noqa: E402
from mlflow.genai.scorers import scorer  # noqa: E402

from asktell_adapters.optimizers.mlflow import PromptOptimizer  # noqa: E402

ROWS = [
    {"inputs": {"question": f"{n}"}, "expectations": {"expected_response": "yes"}}
    for n in range(20)
]
PROMPT = {"qa": "Q: {{question}}"}


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    yield mlflow.MlflowClient()
    while mlflow.active_run():
        mlflow.end_run()


class Evaluating:
    """The more x the better, up to five; and the longer the less brief."""

    def __init__(self, failing: Sequence[str] = ()) -> None:
        self.rows: list[tuple[str, str]] = []
        self.failing = failing

    def __call__(
        self, candidate: dict[str, str], rows: list[dict[str, Any]]
    ) -> list[Any]:
        template = "".join(candidate.values())
        return [self.record(template, row["inputs"]["question"]) for row in rows]

    def record(self, template: str, question: str) -> Any:
        self.rows.append((template, question))
        quality = min(5, template.count("x")) / 5 + int(question) % 3 / 10
        failed = question in self.failing
        return EvaluationResultRecord(
            inputs={"question": question},
            outputs=f"Failed to invoke the predict_fn with {question}: down"
            if failed
            else f"answer {question}",
            expectations={},
            score=0.0 if failed else quality,
            trace=None,
            rationales={},
            individual_scores={"brevity": 1 - len(template) / 100},
        )


def optimize(
    optimizer: PromptOptimizer,
    evaluating: Any = None,
    prompts: dict[str, str] | None = None,
) -> Any:
    return optimizer.optimize(
        evaluating or Evaluating(), ROWS, prompts or PROMPT, enable_tracking=False
    )


def test_the_best_candidate_is_found_within_the_budget_of_rows() -> None:
    evaluating = Evaluating()
    optimizer = PromptOptimizer(
        [f"{'x' * n} {{{{question}}}}" for n in range(1, 6)], budget=60
    )
    assert isinstance(optimizer, BasePromptOptimizer)
    output = optimize(optimizer, evaluating)
    assert output.optimized_prompts == {"qa": "xxxxx {{question}}"}
    assert optimizer.result.spent <= 60
    assert len(set(evaluating.rows)) == optimizer.result.spent
    assert output.initial_eval_score == pytest.approx(0.095, abs=0.1)
    assert output.final_eval_score == pytest.approx(1.095, abs=0.1)
    assert str(optimizer.result.baseline) == "0"


def test_scorers_are_metrics_and_constraints() -> None:
    goal = asktell.BestFeasible("score", {"brevity": 0.5})
    optimizer = PromptOptimizer(
        ["xx {{question}}", f"xxxxx {'long ' * 10}{{{{question}}}}"],
        budget=40,
        goal=goal,
    )
    output = optimize(optimizer)
    assert output.optimized_prompts == {"qa": "xx {{question}}"}
    assert output.final_eval_score_per_scorer == {"brevity": pytest.approx(0.85)}


def test_a_predict_fn_that_raises_is_a_failure_and_no_score() -> None:
    optimizer = PromptOptimizer(["xxxxx {{question}}"], budget=40)
    optimize(optimizer, Evaluating(failing=["3", "7"]))
    assert sum(entry.failures for entry in optimizer.result.prompts) == 4
    assert optimizer.result.prompts[1].estimate["score"] == pytest.approx(1.1, abs=0.02)
    with pytest.raises(EvaluatorError, match="down"):
        optimize(
            PromptOptimizer(["x {{question}}"], budget=40),
            Evaluating([str(n) for n in range(20)]),
        )


def test_a_writer_is_shown_failures_and_its_variables_are_completed() -> None:
    briefs: list[Brief] = []

    def writer(brief: Brief) -> list[str]:
        briefs.append(brief)
        return [f"{brief.parents[0].prompt} x", "without", "{{other}} xxxxx"]

    optimizer = PromptOptimizer(writer=writer, budget=100)
    output = optimize(optimizer)
    assert output.optimized_prompts["qa"].startswith("Q: {{question}} x x")
    assert (briefs[0].failures[0].answer or "").startswith("answer")
    assert (
        briefs[0].failures[0].example.input
        == f'{{"question": "{briefs[0].failures[0].position}"}}'
    )
    assert "without\n\n{{question}}" in briefs[1].tried
    assert not any("{{other}}" in text for text in briefs[1].tried)


def test_several_prompts_stay_together() -> None:
    prompts = {"draft": "Draft {{question}}", "judge": "Judge"}
    better = {"judge": "Judge xx", "draft": "xx {{question}}"}
    assert (
        optimize(
            PromptOptimizer([better], budget=20), prompts=prompts
        ).optimized_prompts
        == better
    )
    written = PromptOptimizer(
        writer=lambda brief: ['{"judge": "xxx", "draft": "xx {{question}}"}', "x"],
        budget=60,
    )
    assert optimize(written, prompts=prompts).optimized_prompts["judge"] == "xxx"


def test_chats_are_templates_in_json() -> None:
    def chat(text: str) -> str:
        return json.dumps(
            [
                {"role": "system", "content": text},
                {"role": "user", "content": "{{question}}"},
            ]
        )

    optimizer = PromptOptimizer([chat("xx"), chat("xxxx")], budget=30)
    assert optimize(optimizer, prompts={"qa": chat("")}).optimized_prompts == {
        "qa": chat("xxxx")
    }


def test_bad_set_ups_are_refused() -> None:
    for candidates in ([], "x {{question}}", PROMPT):
        with pytest.raises(InvalidArgumentError, match=r"candidates.*list"):
            PromptOptimizer(candidates, budget=10)  # type: ignore[arg-type]
    for candidate in ("no variable", "{{question}} {{other}}"):
        with pytest.raises(
            InvalidArgumentError,
            match=r"variables.*'qa'.*\{\{question\}\}",
        ):
            optimize(PromptOptimizer([candidate], budget=10))
    two = {"draft": "a", "judge": "b"}
    with pytest.raises(InvalidArgumentError, match=r"variables.*'draft'.*'judge'"):
        optimize(PromptOptimizer(["{{question}}"], budget=10), prompts=two)
    for other in ({"draft": "x"}, {"drafts": "x", "judge": "b"}):
        with pytest.raises(InvalidArgumentError, match=r"prompts.*'draft', 'judge'"):
            optimize(PromptOptimizer([other], budget=10), prompts=two)
    optimizer = PromptOptimizer(["x {{question}}"], budget=10)
    with pytest.raises(InvalidArgumentError, match=r"train_data.*scorers"):
        optimizer.optimize(None, [], PROMPT)  # type: ignore[arg-type]
    with pytest.raises(EvaluatorError, match=r"'score'.*None"):
        optimize(
            optimizer,
            lambda candidate, rows: [
                SimpleNamespace(outputs="", score=None) for _ in rows
            ],
        )

    def failing(candidate: dict[str, str], rows: list[Any]) -> list[Any]:
        down = [
            f"Failed to invoke the predict_fn with {row['inputs']}: down"
            for row in rows
        ]
        return [
            SimpleNamespace(outputs=each if "x" in candidate["qa"] else "", score=None)
            for each in down
        ]

    with pytest.raises(
        EvaluatorError,
        match=r"(?s)2 candidates.*(down|None)",
    ):
        optimize(PromptOptimizer(["x {{question}}"], budget=8), failing)


def test_an_optimization_that_is_repeated_evaluates_nothing_again(
    tmp_path: Path,
) -> None:
    settings: dict[str, Any] = {
        "budget": 40,
        "study": (f"sqlite:///{tmp_path}/study.db", "qa"),
    }
    first = optimize(PromptOptimizer(["x {{question}}", "xx {{question}}"], **settings))
    again = Evaluating()
    assert (
        optimize(
            PromptOptimizer(["x {{question}}", "xx {{question}}"], **settings), again
        )
        == first
    )
    assert not again.rows


@scorer
def length(outputs: str) -> float:
    return len(outputs) / 100


def predict(question: str) -> str:
    template = mlflow.genai.load_prompt("prompts:/qa/1")
    return "long answer" if "long" in template.format(question=question) else "short"


def test_mlflow_registers_what_is_found_and_tracks_the_run(store: Any) -> None:
    prompt = mlflow.genai.register_prompt(name="qa", template="Q: {{question}}")
    optimizer = PromptOptimizer(["A long answer: {{question}}"], budget=8)
    result = mlflow.genai.optimize_prompts(
        predict_fn=predict,
        train_data=ROWS[:6],
        prompt_uris=[prompt.uri],
        optimizer=optimizer,
        scorers=[length],
    )
    assert [each.template for each in result.optimized_prompts] == [
        "A long answer: {{question}}"
    ]
    assert result.initial_eval_score == pytest.approx(0.05, abs=0.01)
    assert result.final_eval_score == pytest.approx(0.11, abs=0.01)
    (run,) = mlflow.search_runs(output_format="list")
    assert run.data.metrics["final_eval_score"] == result.final_eval_score
    assert run.data.metrics["progress/evaluations"] >= 8
    assert run.data.params["asktell.budget"] == "8"


def test_mlflows_gepa_takes_the_policy() -> None:
    policy = AsktellPolicy(4, same_examples=True)

    def more(
        candidate: dict[str, str], dataset: Any, components: list[str]
    ) -> dict[str, str]:
        return {name: f"{candidate[name]}x" for name in components}

    settings = {
        "val_evaluation_policy": policy,
        "candidate_selection_strategy": policy,
        "acceptance_criterion": policy,
    }
    optimizer = GepaPromptOptimizer(
        "openai:/scripted",
        max_metric_calls=100,
        gepa_kwargs={
            **settings,
            "custom_candidate_proposer": more,
            "skip_perfect_score": False,
        },
    )
    evaluating = Evaluating()
    output = optimizer.optimize(evaluating, ROWS, PROMPT, enable_tracking=False)
    assert output.optimized_prompts["qa"].startswith("Q: {{question}}xxx")
    assert len(evaluating.rows) < 120
