"""LLMEvaluator and AsyncLLMEvaluator: the contract with asktell.run, without an LLM."""

import asyncio
import inspect
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import asktell
from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell.problem.trials import Trial
from asktell_adapters.evaluators import (
    LLM,
    AsyncLLMEvaluator,
    Completion,
    CompletionError,
    Example,
    LLMEvaluator,
    Request,
    ScriptedLLM,
    render,
)
from asktell_adapters.metrics import ExactMatch, output_tokens

EXAMPLES = [Example(f"text {index}", f"answer {index}") for index in range(4)]


def trial(prompt: str, example: int | None) -> Trial:
    return Trial(id=0, prompt_id=prompt, prompt=prompt, example=example)


def user(request: Request) -> str:
    return request.messages[-1]["content"]


def answering(request: Request) -> Completion:
    return Completion("answer " + user(request)[-1], completion_tokens=7, cost=0.5)


def test_calling_it_scores_one_prompt_on_one_example_with_exactly_the_metrics_names() -> (
    None
):
    llm = ScriptedLLM(answering)
    evaluator = LLMEvaluator(
        llm, EXAMPLES, {"em": ExactMatch(), "tokens": output_tokens}
    )
    assert isinstance(llm, LLM)
    assert evaluator("Do it.", 2) == {"em": 1.0, "tokens": 7.0}
    (request,) = llm.requests
    assert request.messages == ({"role": "user", "content": "Do it.\n\ntext 2"},), (
        "no system prompt that nobody gave"
    )
    assert (request.max_new_tokens, request.temperature) == (512, 0.0)


def test_metrics_in_a_sequence_are_named_by_themselves_and_cost_comes_on_request() -> (
    None
):
    evaluator = LLMEvaluator(
        ScriptedLLM(answering), EXAMPLES, [ExactMatch(), output_tokens], with_cost=True
    )
    assert evaluator("p", 0) == {"exact_match": 1.0, "output_tokens": 7.0, "cost": 0.5}


def test_a_batch_is_asked_grouped_by_prompt_and_answered_in_its_own_order() -> None:
    llm = ScriptedLLM(answering)
    evaluator = LLMEvaluator(
        llm, EXAMPLES, {"example": lambda _, example: float(example.input[-1])}
    )
    trials = [trial(prompt, example) for example in range(3) for prompt in ("b", "a")]
    results = evaluator.evaluate_batch(trials)
    assert results == [{"example": float(asked.example or 0)} for asked in trials]
    assert [user(request)[0] for request in llm.requests] == [
        "b",
        "b",
        "b",
        "a",
        "a",
        "a",
    ]


def test_one_trials_failure_is_its_own() -> None:
    def answer(request: Request) -> Completion:
        if user(request).startswith("bad"):
            raise CompletionError("scripted")
        return answering(request)

    evaluator = LLMEvaluator(ScriptedLLM(answer), EXAMPLES, {"em": ExactMatch()})
    cases = [
        ("good", 0),
        ("bad", 1),
        ("good", 99),
        ("good", None),
        ("good", -1),
        ("good", 3),
    ]
    results = evaluator.evaluate_batch(
        [trial(prompt, example) for prompt, example in cases]
    )
    kinds = [type(result) for result in results]
    assert kinds == [
        dict,
        CompletionError,
        InvalidArgumentError,
        InvalidArgumentError,
        InvalidArgumentError,
        dict,
    ]
    assert "has 4 examples" in str(results[2])
    assert "examples=4" in str(results[3])
    assert evaluator.evaluate_batch([]) == []
    with pytest.raises(CompletionError, match="scripted"):
        evaluator("bad", 0)


def test_an_exit_of_the_llm_is_no_answer() -> None:
    llm = ScriptedLLM(lambda request: sys.exit("no licence"))
    with pytest.raises(SystemExit, match="no licence"):
        LLMEvaluator(llm, EXAMPLES, [output_tokens]).evaluate_batch(
            [trial("a", 0), trial("b", 0)]
        )
    assert len(llm.requests) == 1


def test_a_failing_metric_fails_the_trial_and_says_which() -> None:
    def broken(completion: Completion, example: Example, /) -> float:
        raise ZeroDivisionError("by zero")

    evaluator = LLMEvaluator(ScriptedLLM(answering), EXAMPLES, {"broken": broken})
    (result,) = evaluator.evaluate_batch([trial("p", 0)])
    assert isinstance(result, EvaluatorError)
    assert "metric 'broken' failed with ZeroDivisionError: by zero" in str(result)


def test_an_llm_that_loses_an_answer_is_reported() -> None:
    class Lossy:
        def complete(self, requests: object, /) -> list[Completion | Exception]:
            return []

    with pytest.raises(
        EvaluatorError, match="requests was 1, and the number of responses was 0"
    ):
        LLMEvaluator(Lossy(), EXAMPLES, {"em": ExactMatch()}).evaluate_batch(
            [trial("p", 0)]
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"examples": []}, "at least one example"),
        ({"metrics": {}}, "at least one metric"),
        ({"metrics": [output_tokens, output_tokens]}, "distinct names"),
        ({"metrics": {"x": 3}}, "metric 'x' must be a function"),
        ({"template": "{prompt} {nothing}"}, r"has \{nothing\}"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        (
            {"metrics": {"cost": output_tokens}, "with_cost": True},
            "has that name already",
        ),
    ],
)
def test_bad_arguments_are_refused_at_construction(
    changes: dict[str, object], message: str
) -> None:
    arguments: dict[str, object] = {
        "examples": EXAMPLES,
        "metrics": {"em": ExactMatch()},
        **changes,
    }
    with pytest.raises(InvalidArgumentError, match=message):
        LLMEvaluator(ScriptedLLM(answering), **arguments)  # type: ignore[arg-type]


@given(prompt=st.text(), text=st.text(), field=st.text())
def test_braces_in_prompts_and_examples_are_kept(
    prompt: str, text: str, field: str
) -> None:
    example = Example(text, fields={"title": field})
    assert (
        render("{prompt}|{title}|{input}", prompt, example)
        == f"{prompt}|{field}|{text}"
    )


def test_the_async_evaluator_scores_concurrently() -> None:
    evaluator = AsyncLLMEvaluator(
        ScriptedLLM(answering), EXAMPLES, {"em": ExactMatch()}
    )
    assert inspect.iscoroutinefunction(evaluator.__call__)

    async def main() -> list[dict[str, float]]:
        return await asyncio.gather(*(evaluator("p", index) for index in range(4)))

    assert asyncio.run(main()) == [{"em": 1.0}] * 4


def test_above_temperature_0_every_repeat_has_a_seed_of_its_own() -> None:
    llm = ScriptedLLM(answering)
    evaluator = LLMEvaluator(llm, EXAMPLES, [ExactMatch()], temperature=0.8, seed=3)
    for repeat in (0, 1, 2):
        evaluator("Do it.", 1, repeat)
    evaluator("Do it.", 2)
    evaluator.evaluate_batch([trial("Do it.", 1), trial("Do it.", 1)], [0, 1])
    seeds = [request.seed for request in llm.requests]
    assert len(set(seeds[:4])) == 4
    assert seeds[4:] == seeds[:2]
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert {request.temperature for request in llm.requests} == {0.8}
    assert (
        LLMEvaluator(llm, EXAMPLES, [ExactMatch()], temperature=0.8)
        .request("Do it.", 1)
        .seed
        not in seeds
    )


def test_asking_again_at_temperature_0_is_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    llm = ScriptedLLM(answering)
    evaluator = LLMEvaluator(llm, EXAMPLES, [ExactMatch()])
    evaluator("Do it.", 1)
    assert not caplog.records
    evaluator("Do it.", 1, 1)
    evaluator("Do it.", 1, 2)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "at temperature 0" in caplog.text
    assert {request.seed for request in llm.requests} == {0}


@pytest.mark.parametrize("batches", [False, True])
def test_a_run_tells_the_evaluator_which_repeat_it_is(batches: bool) -> None:
    llm = ScriptedLLM(answering)
    evaluator = LLMEvaluator(llm, EXAMPLES, {"em": ExactMatch()}, temperature=1.0)
    selector = asktell.Selector(
        ["Do it."], asktell.BestFeasible("em"), 12, "uniform", examples=4, repeats=3
    )
    asktell.run(selector, evaluator if batches else evaluator.__call__, progress=False)
    asked = [(user(request), request.seed) for request in llm.requests]
    assert len(set(asked)) == len(asked) == 12


@pytest.mark.parametrize("cut", [1, 8])
@pytest.mark.parametrize("kind", [LLMEvaluator, AsyncLLMEvaluator])
def test_a_result_says_how_many_responses_were_cut(
    kind: type[LLMEvaluator] | type[AsyncLLMEvaluator], cut: int
) -> None:
    """A model that reasons until its limit gets low scores, and nothing fails."""
    left = [cut]

    def reasoning(request: Request) -> Completion:
        left[0] -= 1
        return Completion("Well,", finish_reason="stop" if left[0] < 0 else "length")

    selector = asktell.Selector(
        ["a", "b"], asktell.BestFeasible("exact_match"), budget=30, examples=40
    )
    examples = [Example(f"text {n}", "Well") for n in range(40)]
    llm = ScriptedLLM(reasoning)
    if kind is AsyncLLMEvaluator:
        llm.acomplete = lambda request: asyncio.to_thread(  # type: ignore[attr-defined]
            reasoning, request
        )
    evaluator = kind(llm, examples, [ExactMatch()])  # type: ignore[arg-type]
    result = asktell.run(selector, evaluator, progress=False, repeatable=True)
    said = [note for note in result.notes if "responses were cut" in note]
    if cut == 1:
        assert not said
    else:
        assert said[0].startswith("8 of 30 responses were cut")
        assert "max_new_tokens" in said[0]
