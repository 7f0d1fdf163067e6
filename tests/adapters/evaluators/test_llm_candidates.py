"""Candidates of several factors in LLMEvaluator: an LLM per model, settings, options and places in prompts."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell import InvalidArgumentError
from asktell_adapters.estimate import estimate
from asktell_adapters.evaluators import (
    AsyncLLMEvaluator,
    Completion,
    Example,
    LLMEvaluator,
    Models,
    OpenAIChat,
    Price,
    Request,
    ScriptedLLM,
)
from asktell_adapters.llms.cache import AnswerCache
from asktell_adapters.llms.chat_api import ChatAPI
from asktell_adapters.metrics import ExactMatch

EXAMPLES = [Example(f"text {index}", "b") for index in range(3)]
COSTS = {"a": 1.0, "b": 2.5}
GRID = asktell.grid(
    model=["a", "b"],
    prompt={"short": "Be brief.", "long": "Take your time."},
    temperature=[0.0, 0.7],
)


class Maker:
    """Makes LLMs that answer with the name of their model, and counts them."""

    def __init__(self) -> None:
        self.made: dict[str, ScriptedLLM] = {}

    def __call__(self, model: str) -> ScriptedLLM:
        assert model not in self.made, "one client per model"
        self.made[model] = ScriptedLLM(
            lambda _: Completion(model, cost=COSTS[model]), model
        )
        return self.made[model]


def evaluator(llm: Any, kind: Any = LLMEvaluator, **settings: Any) -> Any:
    return kind(llm, EXAMPLES, [ExactMatch()], **settings)


def checked(candidates: asktell.Candidates, llm: Any, **settings: Any) -> Any:
    made = evaluator(llm, **settings)
    made.check_prompts(dict(zip(candidates.ids, candidates, strict=True)))
    return made


@pytest.mark.parametrize("kind", [LLMEvaluator, AsyncLLMEvaluator])
def test_every_trial_is_asked_of_its_own_model_and_costs_what_that_costs(
    kind: type,
) -> None:
    maker = Maker()
    selector = asktell.Selector(
        GRID, asktell.BestFeasible("exact_match"), asktell.Budget(24, 100.0), examples=3
    )
    result = asktell.run(
        selector, evaluator(maker, kind, with_cost=True), progress=False
    )
    assert result.best.candidate["model"] == "b"
    assert result.spent_cost == sum(
        cost * len(maker.made[name].requests) for name, cost in COSTS.items()
    )
    asked = maker.made["a"].requests
    assert {
        (r.messages[0]["content"].split("\n")[0], r.temperature) for r in asked
    } <= {
        (text, temperature)
        for text in ("Be brief.", "Take your time.")
        for temperature in (0.0, 0.7)
    }


def test_a_batch_has_each_answer_in_its_place_and_temperature_makes_scores_noisy() -> (
    None
):
    made = checked(GRID, Maker())
    assert not made.repeatable
    assert evaluator(Maker()).repeatable
    trials = [
        asktell.Trial(i, id_, GRID.texts[i], 0, GRID[i])
        for i, id_ in enumerate(GRID.ids)
    ]
    assert [scores["exact_match"] for scores in made.evaluate_batch(trials)] == [
        0.0
    ] * 4 + [1.0] * 4


def test_settings_options_and_places_are_taken_from_the_candidate_and_none_leaves_them() -> (
    None
):
    llm = ScriptedLLM(lambda _: Completion("b"))
    llm.request_options = frozenset({"top_p"})  # type: ignore[attr-defined]
    candidate = {
        "system": "S",
        "max_new_tokens": 9,
        "top_p": 0.5,
        "tone": "kindly",
        "prompt": "Answer {tone}.",
    }
    request = evaluator(llm, fields=True).request(candidate, 1)
    assert request.messages == (
        {"role": "system", "content": "S"},
        {"role": "user", "content": "Answer kindly."},
    )
    assert (request.max_new_tokens, request.options, request.client) == (
        9,
        {"top_p": 0.5},
        {},
    )
    assert (
        ChatAPI("m", "max_tokens", extra_body={"top_p": 1}).body(request)["top_p"]
        == 0.5
    )
    plain = evaluator(llm, system="T").request(
        {"system": None, "template": "{input}?"}, 1
    )
    assert [m["content"] for m in plain.messages] == ["T", "text 1?"]
    assert (
        evaluator(llm).request({"temperature": 0.5}, 2).messages[0]["content"]
        == "text 2"
    ), "no factor prompt"


@pytest.mark.parametrize(
    ("factors", "settings", "message"),
    [
        ({"max_tokens": [5]}, {}, r"did you mean 'max_new_tokens'\?"),
        ({"prompt": ["Be {tone}."], "tone": ["kind"]}, {}, "only if `fields` is true"),
        ({"temperature": ["hot"]}, {}, "'temperature' must be a number, got 'hot'"),
        ({"max_new_tokens": [True]}, {}, "must be a whole number"),
        ({"template": ["{prompt}!"]}, {}, "no factor 'prompt'"),
        (
            {"input": ["x"], "prompt": ["{input}"]},
            {"fields": True},
            "a factor and a column",
        ),
        ({"model": ["c"]}, {}, "one of 'a', 'b', but it is 'c'"),
        ({"temperature": [0.0]}, {}, "one of 'a', 'b', but it is missing"),
    ],
)
def test_factors_of_no_use_and_wrong_values_are_refused_before_anything_is_asked(
    factors: dict[str, Any], settings: dict[str, Any], message: str
) -> None:
    llms = {
        "a": ScriptedLLM(lambda _: Completion("x")),
        "b": ScriptedLLM(lambda _: Completion("x")),
    }
    grid = asktell.grid(
        **(
            {}
            if "model" in factors or message.endswith("it is missing")
            else {"model": ["a"]}
        ),
        **factors,
    )
    with pytest.raises(InvalidArgumentError, match=message):
        checked(grid, llms, **settings)


def test_one_llm_refuses_models_and_a_missing_price_is_named() -> None:
    with pytest.raises(
        InvalidArgumentError, match="This evaluator has one LLM for all candidates"
    ):
        checked(GRID, ScriptedLLM(lambda _: Completion("x")))
    with pytest.raises(InvalidArgumentError, match=r"a function that .*got 5"):
        evaluator(5)
    priced, free = Maker()("a"), Maker()("b")
    priced.price, free.price = Price(1, 2), None  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgumentError, match="price of 'b' is unknown"):
        checked(GRID, {"a": priced, "b": free}, with_cost=True)
    with pytest.raises(InvalidArgumentError, match="the model 'b'"):
        checked(
            GRID,
            lambda model: OpenAIChat(
                model, base_url="http://x/v1", price={"a": Price(1, 2)}
            ),
        )


def test_a_class_is_a_function_that_takes_its_parameters_as_factors() -> None:
    grid = asktell.grid(
        model=["a"], base_url=["http://x/v1", "http://y/v1"], top_p=[0.5]
    )
    made = checked(grid, OpenAIChat)
    assert isinstance(made.llm, Models)
    assert {made.llm.of(made.request(each, 0).client).base_url for each in grid} == {
        "http://x/v1",
        "http://y/v1",
    }
    assert made.request(grid[0], 0).options == {"top_p": 0.5}


def test_the_cache_tells_models_and_settings_apart(tmp_path: Path) -> None:
    maker = Maker()
    made = evaluator(
        maker, AsyncLLMEvaluator, cache=AnswerCache(tmp_path / "answers.db")
    )
    options = frozenset({"top_p"})
    made.llm.of({"model": "a"}).request_options = made.llm.of(
        {"model": "b"}
    ).request_options = options
    different = [*GRID, {**GRID[0], "top_p": 0.5}, {**GRID[0], "max_new_tokens": 5}]
    for _ in range(2):
        for candidate in different:
            asyncio.run(made(candidate, 0))
    assert sum(len(llm.requests) for llm in maker.made.values()) == len(different)


def test_an_estimate_takes_the_mean_price_and_at_most_the_highest() -> None:
    llms = {
        "a": ScriptedLLM(lambda _: Completion("x")),
        "b": ScriptedLLM(lambda _: Completion("x")),
    }
    llms["a"].price, llms["b"].price = Price(0, 100), Price(0, 300)  # type: ignore[attr-defined]
    selector = asktell.Selector(
        GRID, asktell.BestFeasible("exact_match"), 24, examples=3
    )
    found = estimate(evaluator(llms, max_new_tokens=10), selector)
    assert found.most_cost == pytest.approx(found.calls * 10 * 300 / 1e6)
    dearest = estimate(
        evaluator(llms, max_new_tokens=10), selector, price=Price(0, 400)
    )
    assert dearest.most_cost == pytest.approx(found.calls * 10 * 400 / 1e6)
    real = estimate(evaluator({**llms, "b": llms["a"]}), selector, real_calls=3)
    assert real.real_calls == 3


def test_a_request_is_sent_to_a_model_once_made() -> None:
    models = Models(Maker())
    requests = [Request.chat("x", client={"model": name}) for name in "abab"]
    assert [
        answer.text
        for answer in models.complete(requests)
        if isinstance(answer, Completion)
    ] == list("abab")
