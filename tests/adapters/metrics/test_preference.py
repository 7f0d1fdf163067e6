"""Which of two answers a judge prefers: both orders, and the baseline's answers."""

from __future__ import annotations

import asyncio
import json
import pickle
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell_adapters.evaluators import (
    AsyncLLMEvaluator,
    Completion,
    CompletionError,
    Example,
    LLMEvaluator,
    Request,
    ScriptedLLM,
)
from asktell_adapters.llms.cache import AnswerCache
from asktell_adapters.metrics import Judge, JudgementError, Preference, range_of

EXAMPLES = [
    Example(f"text {n}", id=f"e{n}", fields={"old": "2 old"}) for n in range(12)
]
PROMPTS = {"plain": "1 Plain.", "good": "3 Good.", "bad": "0 Bad."}
GOAL = asktell.BestFeasible(asktell.maximize("preference", range=(0, 1)))


def answering(**fields: Any) -> ScriptedLLM:
    """Answers with the prompt and the input."""
    return ScriptedLLM(
        lambda request: Completion(request.messages[-1]["content"], 10, 5, **fields)
    )


def comparing(better: Callable[[str, str], str], **fields: Any) -> ScriptedLLM:
    """A judge that says which of two answers is better: "first", "second" or "tie"."""

    def answer(request: Request) -> Completion:
        told = request.messages[-1]["content"]
        first, second = re.findall(
            r"<(?:first|second)-answer-\w+>\n(.*?)\n</", told, re.DOTALL
        )
        return Completion(
            json.dumps({"reason": "", "grades": {"better": better(first, second)}}),
            50,
            5,
            **fields,
        )

    return ScriptedLLM(answer, "judge")


def by_number(first: str, second: str) -> str:
    return (
        "tie"
        if first[0] == second[0]
        else "first"
        if first[0] > second[0]
        else "second"
    )


def selector(
    budget: int = 36, method: Any = "auto", **settings: Any
) -> asktell.Selector:
    ids = [str(example.id) for example in EXAMPLES]
    settings = {"repeats": 1, "inputs": "given", **settings}
    return asktell.Selector(
        PROMPTS, GOAL, budget, method, examples=ids, baseline="plain", **settings
    )


def test_answers_are_compared_with_the_baselines_and_the_baseline_is_half_without_a_call() -> (
    None
):
    llm, judge = answering(), comparing(by_number)
    metric = Preference(judge)
    result = asktell.run(
        selector(), LLMEvaluator(llm, EXAMPLES, [metric]), progress=False
    )
    assert {entry.id: entry.estimate["preference"] for entry in result.prompts} == {
        "plain": 0.5,
        "good": 1,
        "bad": 0,
    }
    assert range_of(metric) == (0.0, 1.0)
    n_compared = sum("Plain" not in str(request.messages) for request in llm.requests)
    assert len(judge.requests) == metric.spent.requests == 2 * n_compared
    assert (
        'The metric "preference" is how often a judge (judge) prefers a prompt\'s response over '
        "the baseline's response. People may prefer other responses. Swapping the two responses "
        "changed the judge's preference in 0% of" in result.notes[0]
    )


@pytest.mark.parametrize("kind", [LLMEvaluator, AsyncLLMEvaluator])
def test_the_baseline_answers_each_example_once_however_many_ask_at_a_time(
    kind: Any,
) -> None:
    gate, asked = threading.Lock(), []

    class Slow:
        def complete(self, requests: list[Request]) -> list[Completion]:
            with gate:
                asked.extend(requests)
            threading.Event().wait(0.01)
            return [Completion(request.messages[-1]["content"]) for request in requests]

        async def acomplete(self, request: Request) -> Completion:
            asked.append(request)
            await asyncio.sleep(0.01)
            return Completion(request.messages[-1]["content"])

    evaluator = kind(Slow(), EXAMPLES, [Preference(comparing(by_number))])
    if kind is LLMEvaluator:
        with ThreadPoolExecutor(8) as threads:
            asktell.run(
                selector(),
                evaluator,
                threads,
                concurrency=8,
                batch_size=1,
                progress=False,
                repeatable=True,
            )
    else:
        asktell.run(
            selector(), evaluator, concurrency=8, progress=False, repeatable=True
        )
    of_baseline = [
        str(request.messages) for request in asked if "Plain" in str(request.messages)
    ]
    assert sorted(of_baseline) == sorted(set(of_baseline))
    assert len(of_baseline) == 12


def test_a_study_that_goes_on_elsewhere_has_the_baselines_answers_from_the_cache(
    tmp_path: Path,
) -> None:
    llm = answering(cost=1.0)
    for budget in (9, 27):
        with asktell.Study.create(
            tmp_path / "study.db", "s", selector(), exist_ok=True
        ) as study:
            evaluator = LLMEvaluator(
                llm,
                EXAMPLES,
                [Preference(comparing(by_number))],
                cache=AnswerCache(tmp_path / "c"),
            )
            asktell.run(
                study,
                evaluator,
                progress=False,
                repeatable=True,
                until=lambda s, n=budget: s.spent >= n,
            )
            result = study.result()
    of_baseline = [
        str(request.messages)
        for request in llm.requests
        if "Plain" in str(request.messages)
    ]
    assert len(of_baseline) == len(set(of_baseline))
    assert result.selected[0].id == "good"
    assert "how often a judge (judge) prefers a prompt's response" in result.notes[0]


def test_what_the_baselines_answer_costs_is_charged_once() -> None:
    evaluator = LLMEvaluator(
        answering(cost=1.0), EXAMPLES, [Preference(comparing(by_number, cost=0.25))]
    )
    evaluator.begin(selector().result)
    first, again, own = (
        evaluator(PROMPTS["good"], 0),
        evaluator(PROMPTS["bad"], 0),
        evaluator(PROMPTS["plain"], 0),
    )
    assert [each.paid for each in (first, again, own)] == [1 + 1 + 0.5, 1 + 0.5, 0.0]
    assert own == {"preference": 0.5}
    evaluator.begin(selector().result)  # of another run
    assert evaluator(PROMPTS["plain"], 0).paid == 0.0


@pytest.mark.parametrize("kind", [LLMEvaluator, AsyncLLMEvaluator])
def test_the_baseline_is_a_candidate_with_a_model_of_its_own(kind: Any) -> None:
    class Model:
        def __init__(self, grade: int) -> None:
            self.grade, self.asked = grade, list[str]()

        async def acomplete(self, request: Request) -> Completion:
            self.asked.append(str(request.messages))
            return Completion(
                f"{self.grade} {request.messages[-1]['content']}", cost=1.0
            )

    class SyncModel(Model):
        def complete(self, requests: list[Request]) -> list[Completion]:
            return [asyncio.run(self.acomplete(request)) for request in requests]

    made = SyncModel if kind is LLMEvaluator else Model
    models = {"new": made(3), "old": made(1)}
    candidates = asktell.grid(
        model=list(models), prompt={"long": "Be long.", "short": "Be short."}
    )
    chosen = asktell.Selector(
        candidates,
        GOAL,
        48,
        "uniform",
        examples=12,
        baseline="old/short",
        repeats=1,
        inputs="given",
    )
    metric = Preference(comparing(by_number))
    result = asktell.run(
        chosen, kind(models, EXAMPLES, [metric]), progress=False, repeatable=True
    )
    estimates = {entry.id: entry.estimate["preference"] for entry in result.prompts}
    assert estimates == {
        "new/long": 1.0,
        "new/short": 1.0,
        "old/long": 0.5,
        "old/short": 0.5,
    }
    of_baseline = [asked for asked in models["old"].asked if "short" in asked]
    assert sorted(of_baseline) == sorted(set(of_baseline))


def test_a_judge_that_always_prefers_the_first_answer_says_nothing_but_ties() -> None:
    result = asktell.run(
        selector(),
        LLMEvaluator(
            answering(), EXAMPLES, [Preference(comparing(lambda *_: "first"))]
        ),
        progress=False,
    )
    assert {entry.estimate["preference"] for entry in result.prompts} == {0.5}
    assert re.search(
        r"changed the judge's preference in 100% of \d+ comparisons", result.notes[0]
    )


def test_orders_that_disagree_by_a_half_are_a_tie_too() -> None:
    metric = Preference(
        comparing(lambda first, _: "first" if "3" in first else "tie"), against="old"
    )
    assert metric(Completion("3 new"), EXAMPLES[0]) == 0.5
    assert metric(Completion("3 new"), EXAMPLES[0]).details["by_order"] == [[1.0, 0.5]]


def test_two_judges_say_how_often_they_agree() -> None:
    never = comparing(lambda first, second: "first" if first > second else "second")
    contrary = comparing(
        lambda first, second: (
            "second" if "text 1" in first else by_number(first, second)
        )
    )
    metric = Preference([never, contrary], against=["1 x"] * 12)
    result = asktell.run(
        selector(), LLMEvaluator(answering(), EXAMPLES, [metric]), progress=False
    )
    assert "The 2 judges agree on " in result.notes[0]
    assert "The 2 judges agree on 100%" not in result.notes[0]


@pytest.mark.parametrize(
    "against",
    [{"e0": "2 x"}, ["2 x"], "old", lambda example: f"2 {example.input}"],
    ids=["by id", "by position", "a column", "a function"],
)
def test_answers_from_elsewhere_take_the_baselines_place(against: Any) -> None:
    evaluator = LLMEvaluator(
        answering(), EXAMPLES[:1], [Preference(comparing(by_number), against)]
    )
    evaluator.begin(selector().result)
    assert [
        evaluator(PROMPTS[id_], 0)["preference"] for id_ in ("good", "bad", "plain")
    ] == [1.0, 0.0, 0.0]


def test_what_is_missing_is_a_clear_failure() -> None:
    evaluator = LLMEvaluator(answering(), EXAMPLES, [Preference(comparing(by_number))])
    with pytest.raises(
        EvaluatorError, match=r"the baseline is unknown.*evaluator\.begin"
    ):
        evaluator(PROMPTS["good"], 0)
    with pytest.raises(InvalidArgumentError, match="Pass baseline="):
        asktell.run(asktell.Selector(PROMPTS, GOAL, 9, examples=12), evaluator)
    evaluator = LLMEvaluator(
        answering(), EXAMPLES, [Preference(comparing(by_number), {"e1": "2"})]
    )
    with pytest.raises(
        EvaluatorError,
        match="example 'e0' has no response to compare with: against must give a text for each example, but gave None",
    ):
        evaluator(PROMPTS["good"], 0)


def test_a_judge_or_a_baseline_that_fails_is_the_trials_failure() -> None:
    evaluator = LLMEvaluator(
        answering(), EXAMPLES, [Preference(comparing(lambda *_: "neither"))]
    )
    evaluator.begin(selector().result)
    with pytest.raises(JudgementError, match="'neither', but must be one of"):
        evaluator(PROMPTS["good"], 0)

    def answer(request: Request) -> Completion:
        if "Plain" in str(request.messages) and "text 0" in str(request.messages):
            raise CompletionError("no answer within 60 s", cost=0.25)
        return Completion(request.messages[-1]["content"])

    evaluator = LLMEvaluator(
        ScriptedLLM(answer), EXAMPLES, [Preference(comparing(by_number))]
    )
    evaluator.begin(selector().result)
    with pytest.raises(
        EvaluatorError, match=r"to compare with: .*no answer within 60 s"
    ) as caught:
        evaluator(PROMPTS["good"], 0)
    assert caught.value.cost == 0.25
    assert evaluator(PROMPTS["good"], 1) == {"preference": 1.0}


def test_a_judge_with_criteria_of_its_own_compares_by_them() -> None:
    judge = Judge(comparing(by_number), {"better": "It is kinder."}, cache=None)
    metric = Preference(judge, against="old")
    assert metric(Completion("3 new"), EXAMPLES[0]) == 1.0
    assert "It is kinder." in judge.llms[0].requests[0].messages[0]["content"]
    assert "You compare two answers" in judge.llms[0].requests[0].messages[0]["content"]
    assert not judge.rubric.pairwise


class Echo:
    def complete(self, requests: list[Request]) -> list[Completion]:
        return [Completion("x") for _ in requests]


def test_it_travels_to_other_processes_with_what_it_knows() -> None:
    evaluator = LLMEvaluator(Echo(), EXAMPLES, [Preference(Echo())])
    evaluator.begin(selector().result)
    evaluator(PROMPTS["plain"], 0)
    again = pickle.loads(pickle.dumps(evaluator))
    assert again(PROMPTS["good"], 0) == {"preference": 0.5}


# Licences


def test_a_licence_of_a_preference_is_not_that_of_its_judge() -> None:
    preference = Preference(comparing(by_number))
    assert preference.digests != preference.judge.digests
    assert preference.digests == Preference(comparing(by_number)).digests
    assert "licence" not in preference.remarks()[0]
    words, is_doubtful = preference.licensed(None).remarks()
    assert is_doubtful
    assert "People may prefer other responses." in words
    assert 'The judge of "preference" has no licence.' in words
