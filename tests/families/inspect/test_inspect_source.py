"""A selection as the source of a task's samples: Inspect's own loop asks and tells."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import inspect_ai
import pytest
from inspect_ai import Epochs, Task
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelAPI, ModelOutput, ModelUsage, modelapi
from inspect_ai.scorer import Score, includes, mean, scorer, stderr
from inspect_ai.solver import solver

import asktell
from asktell.errors import InvalidArgumentError
from asktell_adapters.harnesses.inspect.source import InspectSource
from tests.words import lacking

Scripted: TypeAlias = Callable[[Callable[[list[Any]], str]], Any]
GOAL = asktell.BestFeasible("includes", {asktell.minimize("output_tokens"): 10})
PROMPTS = {"bad": "wrong", "good": "right"}


def repeat(messages: list[Any]) -> str:
    """What the system message says."""
    return str(messages[0].text)


def questions(n: int = 4, **options: Any) -> Task:
    return Task(
        [Sample(f"Q{i}?", target="right") for i in range(n)],
        scorer=includes(),
        name="questions",
        **options,
    )


def new_selector(
    budget: int = 8, examples: int | None = 4, **options: Any
) -> asktell.Selector:
    options = {"method": "uniform", **options}
    return asktell.Selector(
        PROMPTS, options.pop("goal", GOAL), budget, examples=examples, **options
    )


def evaluate(source: InspectSource, model: Any, **options: Any) -> Any:
    (log,) = inspect_ai.eval(source.task, model=model, display="none", **options)
    return log


def test_one_eval_one_log(scripted: Scripted, logs: Path) -> None:
    selector = new_selector()
    task = questions()
    source = InspectSource(selector, task, concurrency=3)
    log = evaluate(source, scripted(repeat))
    assert log.status == "success"
    assert selector.done
    assert not selector.pending
    assert [entry.id for entry in source.result().selected] == ["good"]
    assert [
        found.scores for found in selector.evaluations() if found.prompt == "good"
    ] == [{"includes": 1.0, "output_tokens": 3.0}] * 4
    (file,) = logs.glob("*.eval")
    samples = read_eval_log(str(file)).samples
    assert {sample.id for sample in samples} == {
        f"{id_}|{i + 1}" for id_ in PROMPTS for i in range(4)
    }
    assert samples[0].metadata["asktell"]["prompt"] in PROMPTS.values()
    assert (len(task.dataset), task.sample_source) == (4, None), (
        "the task itself is not changed"
    )


def test_nothing_waits_for_the_slowest(scripted: Scripted) -> None:
    """The first evaluation ends only after all the others of the budget."""
    others = 0
    rest = anyio.Event()

    @solver
    def first_is_slow() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            nonlocal others
            if (
                state.metadata["asktell"]["example"] == slow
                and state.messages[0].text == "wrong"
            ):
                with anyio.fail_after(30):
                    await rest.wait()
            else:
                others += 1
                if others == 7:
                    rest.set()
            return await generate(state)

        return solve

    selector = new_selector()
    slow = selector.ask().example  # type: ignore[union-attr]
    log = evaluate(
        InspectSource(selector, questions(solver=first_is_slow()), concurrency=2),
        scripted(repeat),
    )
    assert [sample.error for sample in log.samples] == [None] * 8
    assert selector.spent == 8


def test_epochs_are_one_evaluation(scripted: Scripted) -> None:
    answers = iter(["right", "wrong"] * 100)
    selector = new_selector()
    log = evaluate(
        InspectSource(selector, questions(epochs=2)),
        scripted(lambda messages: next(answers)),
        max_samples=1,
    )
    assert len(log.samples) == 16
    assert selector.spent == 8
    assert {entry.estimate["includes"] for entry in selector.result().prompts} == {0.5}


def test_a_study_and_its_extra_metrics(scripted: Scripted, tmp_path: Path) -> None:
    with asktell.Study.create(
        tmp_path / "studies.db", "inspect", new_selector()
    ) as study:
        with InspectSource(study, questions(), concurrency=3) as source:
            evaluate(source, scripted(repeat))
        assert study.done
        known = list(study.evaluations())
        assert len(known) == 8
        assert {"latency", "input_tokens", "total_tokens"} <= set(
            known[0].details["scores"]
        )


def test_a_study_with_other_workers(scripted: Scripted, tmp_path: Path) -> None:
    """What another worker holds is waited for, without blocking Inspect's loop."""
    with asktell.Study.create(
        tmp_path / "studies.db", "inspect", new_selector()
    ) as study:
        (held,) = study.worker("other", lease=60).ask(1)

        def answer(messages: list[Any]) -> str:
            if study.spent == 6:  # all but this one and the other's
                study.worker("other").tell(held, {"includes": 0, "output_tokens": 1})
            return repeat(messages)

        source = InspectSource(study.worker("mine"), questions(), concurrency=1)
        evaluate(source, scripted(answer))
        assert (study.spent, study.done) == (8, True)


def test_metrics_are_the_prompts(scripted: Scripted) -> None:
    @scorer(metrics={"short": [mean(), stderr()], "*": [mean()]})
    def parts() -> Any:
        async def score(state: Any, target: Any) -> Score:
            return Score(
                value={"short": float(len(state.output.completion) < 6), "right": "C"}
            )

        return score

    def metrics(log: Any) -> dict[tuple[str, str], float]:
        return {
            (score.name, metric.name): metric.value
            for score in log.results.scores
            for metric in score.metrics.values()
        }

    task = questions()
    task.scorer = [*task.scorer, parts()]
    goal = asktell.BestFeasible("parts/short", {"includes": 0.5})
    log = evaluate(InspectSource(new_selector(goal=goal), task), scripted(repeat))
    found = metrics(log)
    assert found["includes", "accuracy(good)"] == 1
    assert found["includes", "accuracy(bad)"] == 0
    assert found["short", "mean(good)"] == found["right", "mean(bad)"] == 1
    assert "stderr(good)" in {name for _, name in found}
    log = evaluate(
        InspectSource(new_selector(), questions(metrics=[mean()])), scripted(repeat)
    )
    assert metrics(log) == {("includes", "mean(bad)"): 0, ("includes", "mean(good)"): 1}
    log = evaluate(
        InspectSource(new_selector(), questions(), by_prompt=False), scripted(repeat)
    )
    assert metrics(log)["includes", "accuracy"] == 0.5


def test_a_server_that_is_down_is_an_error_and_costs_no_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("LOCAL_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("LOCAL_API_KEY", "k")
    selector = new_selector()
    log = evaluate(
        InspectSource(selector, questions()), "openai-api/local/m", max_retries=1
    )
    assert log.status == "error"
    assert not lacking(log.error.message, "same way", "max_failures_in_a_row")
    assert not lacking(log.error.message, "APIConnectionError", "run it again")
    assert lacking(log.error.message, "RetryError")
    assert [entry.status for entry in selector.result().prompts] == ["active", "active"]


@pytest.mark.parametrize("limit", [None, "default"])
def test_an_eval_in_which_everything_failed_is_no_success(
    scripted: Scripted, limit: str | None
) -> None:
    kinds = iter([ValueError, KeyError, TypeError, OSError] * 100)

    def never(messages: list[Any]) -> str:
        raise next(kinds)("scripted")

    options = {} if limit else {"max_failures_in_a_row": None}
    log = evaluate(
        InspectSource(new_selector(), questions(), **options), scripted(never)
    )
    assert log.status == "error"
    assert not lacking(log.error.message, "failed", "scripted")


def test_failures(scripted: Scripted) -> None:
    def answer(messages: list[Any]) -> str:
        if messages[0].text == "wrong":
            raise ValueError("scripted")
        return "right"

    selector = new_selector(12, method="auto")
    log = evaluate(
        InspectSource(selector, questions(), concurrency=2), scripted(answer)
    )
    assert log.status == "success"
    bad, good = selector.result().prompts
    assert (bad.status, bad.failures, good.evaluations) == ("failed", 4, 4)
    assert "scripted" in str(bad.reason)


def test_what_inspect_tries_again_is_one_evaluation(scripted: Scripted) -> None:
    tried: set[str] = set()

    @solver
    def once_broken() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            if str(state.sample_id) not in tried:
                tried.add(str(state.sample_id))
                raise ConnectionError("try again")
            return await generate(state)

        return solve

    selector = new_selector()
    evaluate(
        InspectSource(selector, questions(solver=once_broken())),
        scripted(repeat),
        retry_on_error=1,
    )
    assert (selector.spent, len(selector.state.failures)) == (8, 0)


def test_an_eval_that_was_interrupted_goes_on(scripted: Scripted) -> None:
    answers = 0

    def interrupted(messages: list[Any]) -> str:
        nonlocal answers
        answers += 1
        if answers == 4:
            signal.raise_signal(signal.SIGINT)  # as Ctrl-C does
        return repeat(messages)

    selector = new_selector()
    source = InspectSource(selector, questions(), concurrency=3)
    logs = inspect_ai.eval(
        source.task, model=scripted(interrupted), display="none", max_samples=1
    )
    assert [log.status for log in logs] in ([], ["cancelled"])
    assert 0 < selector.spent < 8
    source.close()
    assert not selector.pending
    log = evaluate(source, scripted(repeat))
    assert log.status == "success"
    assert selector.spent == 8
    assert all(len(sample.id.split("|")) == 2 for sample in log.samples)


class _OnceBroken(ModelAPI):
    """An eval that is retried makes its model anew."""

    answers = 0

    async def generate(
        self,
        input: list[Any],  # noqa: A002
        tools: Any,
        tool_choice: Any,
        config: Any,
    ) -> ModelOutput:
        _OnceBroken.answers += 1
        if _OnceBroken.answers == 5:
            raise ValueError("stop here")
        output = ModelOutput.from_content(self.model_name, repeat(input))
        output.usage = ModelUsage(input_tokens=7, output_tokens=3, total_tokens=10)
        return output


@modelapi(name="once_broken")
def _once_broken() -> type[ModelAPI]:
    return _OnceBroken


_made: list[asktell.Selector] = []


@inspect_ai.task
def selection() -> Task:
    _made.append(new_selector())
    return InspectSource(_made[-1], questions(), concurrency=1).task


def test_a_retried_eval_evaluates_nothing_twice() -> None:
    """Inspect gives what the log of the first attempt has, as the new selector asks for it."""
    (log,) = inspect_ai.eval(
        selection(), model="once_broken/model", display="none", fail_on_error=True
    )
    assert log.status == "error"
    (log,) = inspect_ai.eval_retry(log, display="none", fail_on_error=False)
    assert log.status == "success"
    assert len(log.samples or ()) == _made[-1].spent == 8
    assert _OnceBroken.answers == 4 + 1 + 4


async def test_what_an_operator_takes_out_of_the_queue_is_handed_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("INSPECT_EVAL_MODEL", "mockllm/model")
    selector = new_selector()
    source = InspectSource(selector, questions(epochs=2), concurrency=2)
    first = await source.next_samples()
    assert len(first) == len(selector.pending) == 2
    await source.sample_abandoned(first[0], 1)
    assert len(selector.pending) == 2, "its other epoch is still to come"
    await source.sample_abandoned(first[0], 2)
    assert [trial.example for trial in selector.pending] == [
        first[1].metadata["asktell"]["example"]
    ]
    second = await source.next_samples()
    assert second is not None
    assert [sample.metadata for sample in second] == [
        sample.metadata for sample in first
    ]
    assert [sample.id for sample in second] == [f"{sample.id}|2" for sample in first]
    for sample in second:
        for epoch in (1, 2):
            await source.sample_abandoned(sample, epoch)
    assert await source.next_samples() is None, "or it would go on for ever"
    assert not lacking(caplog.text, "none of the samples")
    assert not selector.pending
    assert selector.spent == 0


def test_another_model_is_another_selection(scripted: Scripted) -> None:
    source = InspectSource(new_selector(), questions())
    evaluate(source, scripted(repeat))
    from inspect_ai.model import get_model

    log = evaluate(source, get_model("mockllm/model"))
    assert not lacking(log.error.message, "one model", "mockllm/model")


@pytest.mark.parametrize(
    ("selector", "task", "options", "words"),
    [
        (
            new_selector(examples=9, budget=18),
            questions(),
            {},
            "examples=9.*4 samples",
        ),
        (new_selector(examples=None), questions(), {}, "examples=None.*4 samples"),
        (
            new_selector(goal=asktell.BestFeasible("rouge")),
            questions(),
            {},
            r"metrics.*'rouge'.*'includes'",
        ),
        ({"A": "B"}, questions(), {}, "Selector or a Study.*dict"),
        (new_selector(), "file.py", {}, "Inspect Task.*'file\\.py'"),
        (
            new_selector(),
            questions(epochs=Epochs(2, "mode")),
            {},
            "mean.*epochs.*'mode'",
        ),
        (new_selector(), questions(), {"concurrency": 0}, "concurrency.*0"),
        (new_selector(), questions(), {"insert": "{prompt}"}, "insert.*template"),
    ],
)
def test_what_does_not_go_together(
    selector: Any, task: Any, options: Any, words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        InspectSource(selector, task, **options)
