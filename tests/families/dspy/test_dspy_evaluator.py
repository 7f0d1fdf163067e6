"""DSPy programs as evaluators: the contract, and what the runs used."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import dspy
import pytest

import asktell
from asktell.errors import InvalidArgumentError
from asktell.testing.evaluator_contract import (
    PROMPTS,
    EvaluatorContract,
    Make,
    Script,
    good,
)
from asktell_adapters.evaluators import Price
from asktell_adapters.harnesses.dspy import (
    Candidate,
    ContextThreadPool,
    DSPyEvaluationError,
    DSPyEvaluator,
    scores_of,
)
from asktell_adapters.testing.llm_server import FaultyLLMServer, Reply

DATASET = [
    dspy.Example(question=str(n), answer=str(n)).with_inputs("question")
    for n in range(4)
]
ANSWER = "[[ ## answer ## ]]\n{}\n\n[[ ## completed ## ]]"


class Scripted(dspy.Module):
    """Answers what the script says for its instruction and the question."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.predict = dspy.Predict("question -> answer")
        self.script = script

    def forward(self, question: str) -> Any:
        outcome = self.script(self.predict.signature.instructions, int(question))
        if outcome == "raises":
            raise ZeroDivisionError("scripted")
        if outcome == "times out":
            raise TimeoutError("scripted")
        return dspy.Prediction(answer=outcome)


def as_number(example: Any, prediction: Any, trace: Any = None) -> float | None:
    return {"no score": None, "nan": math.nan}.get(prediction.answer, prediction.answer)


def exact(example: Any, prediction: Any, trace: Any = None) -> bool:
    return bool(example.answer == prediction.answer)


class TestContract(EvaluatorContract):
    @pytest.fixture
    def make(self) -> Make:
        return lambda script: DSPyEvaluator(
            Scripted(script), PROMPTS, as_number, DATASET
        )


def test_threads_have_the_settings_of_whoever_runs() -> None:
    class Reads(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.predict = dspy.Predict("question -> answer")

        def forward(self, question: str) -> Any:
            return dspy.Prediction(answer=dspy.settings.get("flavour"))

    seen = DSPyEvaluator(
        Reads(),
        ["a", "b"],
        lambda example, prediction: prediction.answer == "sweet",
        DATASET,
    )
    selector = asktell.Selector(
        seen.prompts, asktell.BestFeasible("score"), 8, "uniform", examples=4
    )
    with dspy.context(flavour="sweet"), ContextThreadPool(3) as pool:
        result = asktell.run(selector, seen, pool, progress=False)
    assert result.spent == 8
    assert all(found.scores == {"score": 1} for found in selector.evaluations())


@pytest.fixture
def server() -> Iterator[FaultyLLMServer]:
    with FaultyLLMServer(
        [Reply(text=ANSWER.format(n), usage=(100, 10 + n, 40)) for n in range(8)]
    ) as server:
        yield server


def lm(server: FaultyLLMServer, **settings: Any) -> Any:
    return dspy.LM(
        "openai/scripted",
        api_base=server.base_url,
        api_key="none",
        num_retries=0,
        **settings,
    )


PRICES = {"openai/scripted": Price(input=1e6, output=2e6, cached_input=0)}


def test_tokens_calls_latency_and_cost(server: FaultyLLMServer) -> None:
    program = dspy.Predict("question -> answer")
    evaluator = DSPyEvaluator(program, ["Answer."], exact, DATASET, prices=PRICES)
    with dspy.context(lm=lm(server, cache=False)):
        scores = evaluator.evaluate("Answer.", 0)
        other = evaluator.evaluate("Answer.", 3)
    assert scores.pop("latency") > 0
    # 60 tokens read afresh, 10 written, at 1 and 2.
    expected = {
        "score": 1,
        "calls": 1,
        "tokens": 110,
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "cost": 80,
    }
    assert scores == expected
    assert (other["score"], other["tokens"], other["cost"]) == (0, 111, 82)
    assert "Answer." in str(server.requests[0]["messages"][0]["content"])
    assert program.signature.instructions != "Answer."


def test_the_cache_hides_tokens_and_is_free(server: FaultyLLMServer) -> None:
    program = dspy.Predict("question -> answer")
    evaluator = DSPyEvaluator(
        program, ["Answer, cached."], exact, DATASET, prices=PRICES
    )
    strict = DSPyEvaluator(
        program,
        ["Answer, cached."],
        exact,
        DATASET,
        prices=PRICES,
        metrics=["score", "tokens"],
    )
    with dspy.context(lm=lm(server, cache=True)):
        first = evaluator.evaluate("Answer, cached.", 0)
        again = evaluator.evaluate("Answer, cached.", 0)
        assert (first["tokens"], first["cost"]) == (110, 80)
        assert "tokens" not in again
        assert (again["score"], again["calls"], again["cost"]) == (1, 1, 0)
        with pytest.raises(
            DSPyEvaluationError, match=r"tokens.*1 of 1.*cache=False"
        ) as caught:
            strict.evaluate("Answer, cached.", 0)
    assert caught.value.cost == 0


def test_a_failure_says_what_it_cost_and_why(server: FaultyLLMServer) -> None:
    def broken(example: Any, prediction: Any) -> float:
        raise KeyError("no such field")

    evaluator = DSPyEvaluator(
        dspy.Predict("question -> answer"), ["Answer."], broken, DATASET, prices=PRICES
    )
    with dspy.context(lm=lm(server, cache=False)):
        with pytest.raises(
            DSPyEvaluationError, match=r"metric.*KeyError.*no such field"
        ) as caught:
            evaluator.evaluate("Answer.", 0)
        assert caught.value.cost == 80
        assert isinstance(caught.value.__cause__, KeyError)
        selector = asktell.Selector(
            ["Answer."], asktell.BestFeasible("score"), 2, "uniform", examples=4
        )
        result = asktell.run(
            selector, evaluator, progress=False, max_failures_in_a_row=None
        )
    assert result.spent_cost == 82 + 84 + 86 + 88
    assert "KeyError" in str(result.prompts[0].reason)


def test_the_judges_calls_cost_but_are_not_the_programs(
    server: FaultyLLMServer,
) -> None:
    judge = dspy.Predict("answer -> verdict")
    evaluator = DSPyEvaluator(
        dspy.Predict("question -> answer"),
        ["Answer."],
        lambda example, prediction: judge(answer=prediction.answer).verdict == "ok",
        DATASET,
        prices=PRICES,
    )
    reply = Reply(
        text="[[ ## verdict ## ]]\nok\n\n[[ ## completed ## ]]", usage=(1, 1, 0)
    )
    with (
        FaultyLLMServer([Reply(text=ANSWER.format(1), usage=(2, 2, 0)), reply]) as both,
        dspy.context(lm=lm(both, cache=False)),
    ):
        scores = evaluator.evaluate("Answer.", 0)
    assert (scores["score"], scores["calls"], scores["tokens"], scores["cost"]) == (
        1,
        1,
        4,
        6 + 3,
    )


def test_a_model_without_a_price_is_a_failure_that_names_it(
    server: FaultyLLMServer,
) -> None:
    evaluator = DSPyEvaluator(
        dspy.Predict("question -> answer"), ["Answer."], exact, DATASET, prices={}
    )
    with (
        dspy.context(lm=lm(server, cache=False)),
        pytest.raises(DSPyEvaluationError, match=r"'openai/scripted'.*price"),
    ):
        evaluator.evaluate("Answer.", 0)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, {"score": 1}),
        (0.25, {"score": 0.25}),
        (
            dspy.Prediction(score=0.5, feedback="good", brevity=2),
            {"score": 0.5, "brevity": 2},
        ),
        ({"f1": 0.5, "safe": True}, {"f1": 0.5, "safe": 1}),
    ],
)
def test_what_metrics_return(value: Any, expected: dict[str, float]) -> None:
    assert scores_of(value) == expected


@pytest.mark.parametrize(
    "value", [None, math.nan, "good", {"f1": None}, dspy.Prediction(feedback="good")]
)
def test_what_is_no_score(value: Any) -> None:
    with pytest.raises(asktell.EvaluatorError, match="metric"):
        scores_of(value)


def test_bad_set_ups_are_refused_early() -> None:
    program = dspy.Predict("question -> answer")
    with pytest.raises(InvalidArgumentError, match=r"Example 1\b.*with_inputs"):
        DSPyEvaluator(program, ["a"], exact, [DATASET[0], dspy.Example(question="1")])
    with pytest.raises(InvalidArgumentError, match="callable"):
        DSPyEvaluator(program, ["a"], "exact", DATASET)  # type: ignore[arg-type]
    with pytest.raises(
        InvalidArgumentError,
        match=r"unknown.*retrieve.*self",
    ):
        DSPyEvaluator(program, [{"retrieve": "a"}], exact, DATASET)
    with pytest.raises(InvalidArgumentError, match=r"list.*'Answer.'"):
        DSPyEvaluator(program, "Answer.", exact, DATASET)
    with pytest.raises(InvalidArgumentError, match=r"str.*3"):
        DSPyEvaluator(program, [3], exact, DATASET)
    evaluator = DSPyEvaluator(Scripted(good), PROMPTS, as_number, DATASET)
    with pytest.raises(InvalidArgumentError, match=r"example 4\b.*4 examples"):
        evaluator.evaluate(PROMPTS[0], 4)
    with pytest.raises(InvalidArgumentError, match=r"candidate.*'unknown'"):
        evaluator.evaluate("unknown", 0)


class Two(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.draft = dspy.ChainOfThought("question -> idea")
        self.answer = dspy.Predict("idea -> answer")


DEMO = dspy.Example(idea="i", answer="a", augmented=True)


def test_candidates_of_several_predictors_and_demos() -> None:
    program = Two()
    names = [name for name, _ in program.named_predictors()]
    assert names == ["draft.predict", "answer"]
    evaluator = DSPyEvaluator(
        program,
        [{"answer": "Be brief."}, Candidate({"draft.predict": "Think."})],
        exact,
        DATASET,
        demos=[{"answer": [DEMO]}],
        keep_original=True,
    )
    assert len(evaluator.prompts) == len(set(evaluator.prompts)) == 3 * 2
    chosen = dict(evaluator.program(evaluator.prompts[3]).named_predictors())
    assert chosen["answer"].signature.instructions == "Be brief."
    assert chosen["answer"].demos == [DEMO]
    assert (
        chosen["draft.predict"].signature.instructions
        == program.draft.predict.signature.instructions
    )
    assert program.answer.demos == []
    for text, candidate in zip(evaluator.prompts, evaluator.candidates, strict=True):
        again = Candidate.from_text(text, names)
        assert again.to_text() == text
        assert [p.demos for p in again.apply(program).predictors()] == [
            p.demos for p in candidate.apply(program).predictors()
        ]
    with pytest.raises(
        InvalidArgumentError,
        match=r"draft\.predict.*answer.*mapping.*'Answer\.'",
    ):
        DSPyEvaluator(program, ["Answer."], exact, DATASET)


@pytest.mark.parametrize(
    "text", ["Answer.", "{}", '{"other": 1}', "[1]", "{not json", "", '{"self": "x"}']
)
def test_an_instruction_is_its_own_text(text: str) -> None:
    assert Candidate({"self": text}).to_text() == text
    assert Candidate.from_text(text, ["self"]).instructions == {"self": text}


def test_an_instruction_that_looks_like_a_candidate_is_kept_apart() -> None:
    text = Candidate({"self": "Answer."}, {"self": [DEMO]}).to_text()
    again = Candidate.from_text(Candidate({"self": text}).to_text(), ["self"])
    assert again == Candidate({"self": text})
