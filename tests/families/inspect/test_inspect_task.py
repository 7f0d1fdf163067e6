"""Inspect itself runs every sample; the models are its mock model and a scripted server."""

import asyncio
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import inspect_ai.model
import pytest
from inspect_ai import Epochs, Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import read_eval_log
from inspect_ai.model import (
    ChatMessageSystem,
    ChatMessageUser,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.scorer import Score, includes, match, mean, scorer
from inspect_ai.solver import (
    generate,
    multiple_choice,
    prompt_template,
    solver,
    system_message,
)

import asktell
from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell.testing.evaluator_contract import EvaluatorContract, Make, Script
from asktell_adapters.harnesses.inspect.samples import value_to_float
from asktell_adapters.harnesses.inspect.task import InspectTask
from asktell_adapters.llms.base import CompletionError
from asktell_adapters.testing.llm_server import FaultyLLMServer, Reply
from tests.words import lacking

Scripted: TypeAlias = Callable[[Callable[[list[Any]], str]], Any]


def echo(messages: list[Any]) -> str:
    return "\n".join(f"{message.role}: {message.text}" for message in messages)


def last(messages: list[Any]) -> str:
    return str(messages[-1].text)


def trials(*pairs: tuple[str, int]) -> list[asktell.Trial]:
    return [
        asktell.Trial(index, f"p{index}", prompt, example)
        for index, (prompt, example) in enumerate(pairs)
    ]


@scorer(metrics=[mean()])
def written() -> Any:
    """The number that the model wrote."""

    async def score(state: Any, target: Any) -> Score | None:
        return (
            None
            if state.output.completion == "no score"
            else Score(value=float(state.output.completion))
        )

    return score


class TestContract(EvaluatorContract):
    metric = "written"

    @pytest.fixture
    def make(self, scripted: Scripted) -> Make:
        def made(script: Script) -> InspectTask:
            def answer(messages: list[Any]) -> str:
                system, user = messages
                outcome = script(system.text, int(user.text))
                if outcome == "raises":
                    raise ZeroDivisionError("scripted")
                return str(outcome)

            @solver
            def sleepy() -> Any:
                async def solve(state: Any, generate: Any) -> Any:
                    if (
                        script(state.messages[0].text, int(state.input_text))
                        == "times out"
                    ):
                        await asyncio.sleep(30)
                    return state

                return solve

            samples = [Sample(input=str(example)) for example in range(self.n_examples)]
            wait = Task(
                dataset=samples,
                solver=[sleepy(), generate()],
                scorer=written(),
                time_limit=5,
            )
            return InspectTask(wait, scripted(answer))

        return made


def test_scores_usage_and_log(scripted: Scripted, logs: Path) -> None:
    @scorer(metrics={"*": [mean()]})
    def parts() -> Any:
        async def score(state: Any, target: Any) -> Score:
            return Score(value={"short": 0.25, "grade": "P", "missing": None})

        return score

    dataset = MemoryDataset(
        [Sample(input="yes", target="yes", id="s1"), Sample(input="no", target="yes")]
    )
    evaluator = InspectTask(
        Task(dataset=dataset, scorer=[includes(), includes(), parts()]), scripted(echo)
    )
    first, second = evaluator.evaluate_batch(trials(("A", 0), ("B", 1)))
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    missing = {name for name, value in first.items() if math.isnan(value)}
    assert missing == {"parts/missing"}
    assert first.pop("latency") >= 0
    assert {name: value for name, value in first.items() if name not in missing} == {
        "includes": 1.0,
        "includes1": 1.0,
        "parts/short": 0.25,
        "parts/grade": 0.5,
        "input_tokens": 7.0,
        "output_tokens": 3.0,
        "total_tokens": 10.0,
    }
    assert second["includes"] == 0.0
    (file,) = logs.glob("*.eval")
    log = read_eval_log(str(file))
    assert log.eval.tags == ["asktell"]
    assert [sample.id for sample in log.samples] == ["p0|s1", "p1|2"]
    assert log.samples[1].metadata["asktell"] == {
        "prompt_id": "p1",
        "prompt": "B",
        "example": 1,
    }
    assert log.samples[1].input == "no"


def seen(evaluator: InspectTask, prompt: str, example: int = 0) -> str:
    """What the model was sent."""
    (outcome,) = evaluator.evaluate_batch(trials((prompt, example)))
    assert isinstance(outcome, dict), outcome
    return str(evaluator.heard.pop())  # type: ignore[attr-defined]


def listening(scripted: Scripted, task: Task, **options: Any) -> InspectTask:
    heard: list[str] = []

    def answer(messages: list[Any]) -> str:
        heard.append(echo(messages))
        return "ANSWER: A"

    evaluator = InspectTask(task, scripted(answer), **options)
    evaluator.heard = heard  # type: ignore[attr-defined]
    return evaluator


PROMPT = "Be {brief}: 100% {prompt} {input}"


@pytest.mark.parametrize(
    ("task", "insert", "expected"),
    [
        (Task([Sample("Q?")], scorer=match()), "system", f"system: {PROMPT}\nuser: Q?"),
        (
            Task(
                [
                    Sample(
                        [ChatMessageSystem(content="S"), ChatMessageUser(content="Q?")]
                    )
                ],
                scorer=match(),
            ),
            "system",
            f"system: S\nsystem: {PROMPT}\nuser: Q?",
        ),
        (
            Task([Sample("Q?", metadata={"hint": "{H}"})], scorer=match()),
            "{prompt}|{input}|{hint}",
            f"user: {PROMPT}|Q?|{{H}}",
        ),
        (
            Task(
                [Sample("Q?")],
                solver=[prompt_template("<{prompt}>"), generate()],
                scorer=match(),
            ),
            "{prompt}|{input}",
            f"user: <{PROMPT}|Q?>",
        ),
        (
            Task([Sample("Q?")], setup=system_message("set up"), scorer=match()),
            lambda prompt: [system_message("solver"), generate()],
            "system: set up\nsystem: solver\nuser: Q?",
        ),
        (
            Task([Sample("Q?")], setup=system_message("one"), scorer=match()),
            "system",
            f"system: one\nsystem: {PROMPT}\n",
        ),
        (
            Task([Sample("Q?")], setup=[system_message("one")], scorer=match()),
            "system",
            f"system: one\nsystem: {PROMPT}\n",
        ),
    ],
)
def test_how_a_prompt_enters(
    scripted: Scripted, task: Task, insert: Any, expected: str
) -> None:
    assert seen(listening(scripted, task, insert=insert), PROMPT).startswith(expected)


def test_multiple_choice_and_a_task_function(scripted: Scripted) -> None:
    @task
    def questions() -> Task:
        return Task(
            [Sample("Q?", choices=["x", "y"], target="A")],
            solver=multiple_choice(),
            scorer=match("any"),
        )

    evaluator = listening(scripted, questions)  # type: ignore[arg-type]
    assert seen(evaluator, "Think.").startswith(
        "system: Think.\nuser: Answer the following multiple choice question."
    )


def test_the_task_is_not_changed(scripted: Scripted) -> None:
    mine = Task([Sample("Q?", id="s")], setup=system_message("one"), scorer=match())
    seen(listening(scripted, mine), "A")
    seen(listening(scripted, mine, insert=lambda prompt: generate()), "A")
    assert len(mine.dataset) == 1
    assert mine.dataset[0].id == "s"
    assert mine.dataset[0].metadata is None
    assert not isinstance(mine.setup, list)


def test_epochs_are_averaged_and_one_that_fails_fails_the_trial(
    scripted: Scripted,
) -> None:
    answers = iter(["1", "0", "1", "boom"])

    def answer(messages: list[Any]) -> str:
        text = next(answers)
        if text == "boom":
            raise ValueError(text)
        return text

    evaluator = InspectTask(
        Task([Sample("?")], scorer=written(), epochs=2), scripted(answer), max_samples=1
    )
    (scores,) = evaluator.evaluate_batch(trials(("A", 0)))
    assert dict(scores)["written"] == 0.5  # type: ignore[arg-type]
    (failure,) = evaluator.evaluate_batch(trials(("A", 0)))
    assert "boom" in str(failure)
    with pytest.raises(InvalidArgumentError, match=r"mean.*epochs.*'mode'"):
        InspectTask(Task([Sample("?")], scorer=match(), epochs=Epochs(2, "mode")))


def test_the_cost_where_prices_are_known(scripted: Scripted) -> None:
    if not hasattr(inspect_ai.model, "set_model_info"):
        pytest.skip("this version of Inspect knows no prices")
    prices = inspect_ai.model.ModelCost(
        input=10_000, output=100_000, input_cache_write=0, input_cache_read=0
    )
    inspect_ai.model.set_model_info(
        "scripted/model", inspect_ai.model.ModelInfo(cost=prices)
    )
    evaluator = InspectTask(
        Task([Sample("1"), Sample("word")], scorer=written(), epochs=2), scripted(last)
    )
    scores, failure = evaluator.evaluate_batch(trials(("A", 0), ("B", 1)))
    assert dict(scores)["cost"] == pytest.approx(2 * (0.07 + 0.3))  # type: ignore[arg-type]
    assert isinstance(failure, CompletionError)  # "word" is no number, but was paid for
    assert failure.cost == pytest.approx(2 * (0.07 + 0.3))


def test_limits_fail_unless_they_are_to_be_scored(scripted: Scripted) -> None:
    short = Task([Sample("yes", target="yes")], scorer=includes(), token_limit=5)
    (failure,) = InspectTask(short, scripted(echo)).evaluate_batch(trials(("A", 0)))
    assert not lacking(str(failure), "token limit", "5")
    (scores,) = InspectTask(short, scripted(echo), score_limited=True).evaluate_batch(
        trials(("A", 0))
    )
    assert "includes" in scores  # type: ignore[operator]


def test_a_missing_example_fails_alone(scripted: Scripted) -> None:
    evaluator = InspectTask(
        Task([Sample("yes", target="yes")], scorer=includes()), scripted(echo)
    )
    good, bad = evaluator.evaluate_batch(
        [asktell.Trial(0, 0, "A", 0), asktell.Trial(1, 0, "A", 1)]
    )
    assert isinstance(good, dict)
    assert isinstance(bad, InvalidArgumentError)
    (bad,) = evaluator.evaluate_batch([asktell.Trial(1, 0, "A", None)])
    assert "examples=1" in str(bad)


ONE = Task([Sample("?")], scorer=[match(), match(), includes()])


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (("file.py",), {}, r"Inspect Task.*'file\.py'"),
        ((Task([Sample("?")]), None), {"insert": "{prompt} only"}, "insert.*template"),
        (
            (ONE,),
            {"metrics": ["match", "exact"]},
            r"metrics.*'exact'.*'match', 'match1', 'includes'",
        ),
        ((ONE,), {"metrics": "match"}, "list.*'match'.*'includes'"),
        ((ONE,), {"limit": 3}, "'limit'.*Omit"),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(
    arguments: Any, options: Any, words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        InspectTask(*arguments, **options)


def test_a_model_that_cannot_be_made_is_an_error_at_once() -> None:
    with pytest.raises(EvaluatorError, match=r"'nobody/knows'.*not recognized"):
        InspectTask(ONE, "nobody/knows")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("C", 1.0),
        ("P", 0.5),
        ("I", 0.0),
        ("N", 0.0),
        ("Yes", 1.0),
        ("false", 0.0),
        ("0.25", 0.25),
        (True, 1.0),
        (3, 3.0),
    ],
)
def test_values_are_what_inspect_takes_them_for(value: object, expected: float) -> None:
    from inspect_ai.scorer import value_to_float as theirs

    assert value_to_float(value) == expected == theirs()(value)  # type: ignore[arg-type]


async def test_inside_a_running_loop(scripted: Scripted) -> None:
    evaluator = InspectTask(
        Task([Sample("yes", target="yes")], scorer=includes()), scripted(echo)
    )
    (scores,) = evaluator.evaluate_batch(trials(("A", 0)))
    assert isinstance(scores, dict)


def test_with_the_mock_model() -> None:
    # It would fetch a tokenizer if usage were left out.
    output = ModelOutput.from_content("mockllm/model", "yes")
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    evaluator = InspectTask(
        Task([Sample("?", target="yes")], scorer=includes()),
        get_model("mockllm/model", custom_outputs=[output]),
    )
    good, bad = evaluator.evaluate_batch(trials(("A", 0), ("B", 0)))
    # It has one answer
    assert sorted([type(good).__name__, type(bad).__name__]) == [
        "CompletionError",
        "dict",
    ]


def test_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    dataset = [
        Sample(input=f"word{index}", target=f"word{index}") for index in range(4)
    ]
    with FaultyLLMServer([Reply(status=400, text="too long")], echo=True) as server:
        monkeypatch.setenv("LOCAL_BASE_URL", server.base_url)
        monkeypatch.setenv("LOCAL_API_KEY", "none")
        evaluator = InspectTask(
            Task(dataset, scorer=includes()),
            "openai-api/local/m",
            metrics=["includes", "output_tokens"],
            max_tokens=9,
        )
        goal = asktell.BestFeasible(
            "includes", {asktell.minimize("output_tokens"): 100}
        )
        selector = asktell.Selector(
            ["Repeat.", "Say it again."],
            goal,
            8,
            "uniform",
            examples=len(evaluator.examples),
        )
        result = asktell.run(selector, evaluator, concurrency=3, progress=False)
    assert sorted(entry.failures for entry in result.prompts) == [0, 1]
    recorded = [found.scores for found in selector.evaluations() if not found.error]
    assert recorded == [{"includes": 1.0, "output_tokens": 5.0}] * result.spent
    (reason,) = selector.state.failures.reasons()
    assert "too long" in reason
    assert {body["max_tokens"] for body in server.requests} == {9}
    assert {body["messages"][0]["content"] for body in server.requests} == {
        "Repeat.",
        "Say it again.",
    }
