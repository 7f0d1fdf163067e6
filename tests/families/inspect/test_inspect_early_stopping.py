"""Early stopping: samples that cannot change the verdict are not run, whatever comes late, fails or is resumed."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import inspect_ai
import pytest
from inspect_ai import Epochs, Task
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelAPI, ModelOutput, modelapi
from inspect_ai.scorer import Score, includes, scorer
from inspect_ai.solver import solver

import asktell
from asktell.errors import InvalidArgumentError
from asktell_adapters.harnesses.inspect import EarlyStopping
from tests.words import lacking

N = 200
ACCURACY = asktell.maximize("includes", range=(0, 1))
BEST = asktell.BestFeasible(ACCURACY)
FOUR_FIFTHS = asktell.BestFeasible(ACCURACY, {"includes": 0.8})


def right(share: float) -> Callable[[list[Any]], str]:
    """A model that is right on this share of the questions, by their number."""
    shuffled = random.Random(0).sample(range(N), N)
    return lambda messages: (
        "right" if shuffled[int(messages[-1].text[1:-1])] < share * N else "wrong"
    )


def questions(stopping: EarlyStopping | None, n: int = N, **options: Any) -> Task:
    samples = [Sample(f"Q{i}?", target="right", id=f"q{i}") for i in range(n)]
    return Task(samples, scorer=includes(), early_stopping=stopping, **options)


def evaluate(
    stopping: EarlyStopping | None,
    *models: Any,
    task: Task | None = None,
    **options: Any,
) -> list[Any]:
    options = {"sample_shuffle": 1, "display": "none", **options}
    return list(
        inspect_ai.eval(task or questions(stopping), model=list(models), **options)
    )


def n_run(log: Any) -> int:
    return len(log.samples)


@pytest.mark.parametrize(("share", "verdict"), [(0.95, True), (0.5, False)])
def test_a_bound(scripted: Callable[..., Any], share: float, verdict: bool) -> None:
    stopping = EarlyStopping(FOUR_FIFTHS)
    (log,) = evaluate(stopping, scripted(right(share)))
    assert log.status == "success"
    assert n_run(log) < N
    summary = log.results.early_stopping
    assert summary.manager == "asktell"
    assert n_run(log) + len(summary.early_stops) == N
    key_words = ("established", "scripted/model") if verdict else ("constraint",)
    assert not lacking(summary.early_stops[0].reason, *key_words)
    assert summary.metadata["verdict"] == stopping.result().verdict.sentence
    assert stopping.result().feasible is verdict
    assert not lacking(str(stopping.result()), f"{n_run(log)} of {N} evaluations")


def test_close_to_the_bound_every_sample_runs(scripted: Callable[..., Any]) -> None:
    (log,) = evaluate(EarlyStopping(FOUR_FIFTHS), scripted(right(0.8)))
    assert n_run(log) == N


def test_models_against_each_other(scripted: Callable[..., Any]) -> None:
    models = {"scripted/good": 0.95, "scripted/poor": 0.4, "scripted/fair": 0.8}
    stopping = EarlyStopping(BEST, among=list(models))
    logs = evaluate(
        stopping,
        *(scripted(right(p), name.split("/")[1]) for name, p in models.items()),
        max_samples=10,
    )
    ran = {log.eval.model: n_run(log) for log in logs}
    assert ran["scripted/poor"] < ran["scripted/fair"] < N
    assert ran["scripted/poor"] < 60
    assert stopping.result().verdict.answer == "scripted/good"
    reasons = {
        log.eval.model: log.results.early_stopping.metadata["stopped"] for log in logs
    }
    assert not lacking(reasons["scripted/poor"], "established", "worse")


def test_tasks_against_each_other(scripted: Callable[..., Any]) -> None:
    """Two solvers with the same model: runs are told apart by the names of their tasks."""

    @solver
    def shouts() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            state = await generate(state)
            state.output.completion = state.output.completion.replace("right", "RIGH")
            return state

        return solve

    stopping = EarlyStopping(BEST, among=["plain", "shouting"])
    tasks = [
        questions(stopping, name="plain"),
        questions(stopping, name="shouting", solver=shouts()),
    ]
    logs = inspect_ai.eval(
        tasks, model=scripted(right(0.9)), sample_shuffle=1, display="none", max_tasks=2
    )
    assert {log.status for log in logs} == {"success"}
    assert all(n_run(log) < N / 2 for log in logs)
    assert stopping.result().verdict.answer == "plain"


def test_a_baseline_in_a_log(scripted: Callable[..., Any], logs: Path) -> None:
    (old,) = evaluate(None, scripted(right(0.6)), log_dir=str(logs / "old"))
    assert n_run(old) == N
    stopping = EarlyStopping(BEST, baseline=logs / "old")
    (log,) = evaluate(stopping, scripted(right(0.9), "new"))
    assert n_run(log) < N / 2
    result = stopping.result()
    assert result.baseline == "baseline"
    assert result.verdict.answer == "scripted/new"
    assert {entry.id: entry.evaluations for entry in result.prompts} == {
        "scripted/new": n_run(log),
        "baseline": N,
    }
    assert (result.spent, result.budget) == (n_run(log), N)


def test_one_after_the_other_in_a_study(
    scripted: Callable[..., Any], tmp_path: Path
) -> None:
    study = (f"sqlite:///{tmp_path}/studies.db", "models")

    def run(name: str, share: float) -> int:
        stopping = EarlyStopping(BEST, among=["scripted/a", "scripted/b"], study=study)
        return n_run(evaluate(stopping, scripted(right(share), name))[0])

    assert run("a", 0.9) == N  # nothing to compare with yet
    assert run("b", 0.5) < N / 2
    with asktell.Study.open(*study) as kept:
        assert kept.result().verdict.answer == "scripted/a"
        assert kept.spent == 0


def test_a_slow_sample_holds_up_what_came_after_it(
    scripted: Callable[..., Any],
) -> None:
    """Those that are complete first may be the easy ones: they count from the moment when the slow one is there."""
    done: list[str] = []
    others = anyio.Event()

    @solver
    def first_is_slow() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            if not done:
                done.append(state.sample_id)
                with anyio.fail_after(60):
                    await others.wait()
            state = await generate(state)
            done.append(state.sample_id)
            if len(done) == 150:
                others.set()
            return state

        return solve

    task = questions(stopping := EarlyStopping(FOUR_FIFTHS), solver=first_is_slow())
    (log,) = evaluate(stopping, scripted(right(0.4)), task=task, max_samples=5)
    assert 150 <= n_run(log) < 160


@solver
def often_fails() -> Any:
    async def solve(state: Any, generate: Any) -> Any:
        if (int(state.input_text[1:-1]) + len(str(state.model))) % 5 == 0:
            raise ValueError("broken")
        return await generate(state)

    return solve


@pytest.mark.parametrize("epochs", [1, 2])
def test_failed_samples_are_missing_values(
    scripted: Callable[..., Any], epochs: int
) -> None:
    stopping = EarlyStopping(FOUR_FIFTHS)
    task = questions(stopping, solver=often_fails(), epochs=epochs)
    (log,) = evaluate(stopping, scripted(right(0.4)), task=task, fail_on_error=False)
    assert n_run(log) < N / 2
    assert any(sample.error for sample in log.samples)
    assert stopping.result().prompts[0].evaluations == sum(
        sample.error is None for sample in log.samples
    )


def test_scorers_that_never_give_a_number_stop_the_run_with_the_reason(
    scripted: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    @scorer(metrics=[], name="includes")
    def nothing() -> Any:
        async def score(state: Any, target: Any) -> Score:
            return Score(value=float("nan"))

        return score

    stopping = EarlyStopping(FOUR_FIFTHS)
    task = questions(stopping)
    task.scorer = [nothing()]
    (log,) = evaluate(stopping, scripted(right(0.4)), task=task, max_samples=1)
    assert n_run(log) < 10
    reason = log.results.early_stopping.early_stops[0].reason
    assert "first 5 samples all ended without a number for 'includes'" in reason
    assert reason in caplog.text


def test_runs_with_failed_samples_are_compared(scripted: Callable[..., Any]) -> None:
    """Each of the two runs fails on other samples, and they are compared on the samples that both have scores of."""
    stopping = EarlyStopping(BEST, among=["scripted/good", "scripted/fair1"])
    logs = evaluate(
        stopping,
        scripted(right(0.95), "good"),
        scripted(right(0.4), "fair1"),
        task=questions(stopping, solver=often_fails()),
        fail_on_error=False,
        max_samples=10,
    )
    assert all(any(sample.error for sample in log.samples) for log in logs)
    assert all(n_run(log) < N / 2 for log in logs)
    assert stopping.result().verdict.answer == "scripted/good"


def test_a_baseline_with_failed_samples(
    scripted: Callable[..., Any], logs: Path
) -> None:
    failing = questions(None, solver=often_fails())
    options: dict[str, Any] = {"fail_on_error": False}
    folder = str(logs / "old")
    (old,) = evaluate(
        None, scripted(right(0.4)), task=failing, log_dir=folder, **options
    )
    assert any(sample.error for sample in old.samples)
    stopping = EarlyStopping(BEST, baseline=logs / "old")
    task = questions(stopping, solver=often_fails())
    (log,) = evaluate(stopping, scripted(right(0.95), "new1"), task=task, **options)
    assert n_run(log) < N / 2
    assert stopping.result().verdict.answer == "scripted/new1"


def test_epochs(scripted: Callable[..., Any]) -> None:
    stopping = EarlyStopping(FOUR_FIFTHS)
    (log,) = evaluate(
        stopping, scripted(right(0.4)), task=questions(stopping, 40, epochs=5)
    )
    assert n_run(log) < 200
    assert stopping.result().repeats == 5
    stopping = EarlyStopping(FOUR_FIFTHS)
    (log,) = evaluate(
        stopping,
        scripted(right(0.4)),
        task=questions(stopping, 40, epochs=Epochs(2, "max")),
    )
    assert not lacking(log.error.message, "mean", "epochs", "'max'")


class _OnceBroken(ModelAPI):
    """Right on half of the questions; breaks once, on its 15th."""

    answers = 0

    async def generate(
        self,
        input: list[Any],  # noqa: A002
        tools: Any,
        tool_choice: Any,
        config: Any,
    ) -> ModelOutput:
        _OnceBroken.answers += 1
        if _OnceBroken.answers == 15:
            raise ValueError("stop here")
        return ModelOutput.from_content(self.model_name, right(0.5)(input))


@modelapi(name="half_right")
def _half_right() -> type[ModelAPI]:
    return _OnceBroken


_made: list[EarlyStopping] = []


@inspect_ai.task
def stopped_early() -> Task:
    _made.append(EarlyStopping(FOUR_FIFTHS))
    return questions(_made[-1])


def test_an_eval_that_is_retried_goes_on() -> None:
    (log,) = evaluate(None, "half_right/model", task=stopped_early(), max_samples=1)
    assert log.status == "error"
    (log,) = inspect_ai.eval_retry(log, display="none", max_samples=1)
    assert log.status == "success"
    assert _OnceBroken.answers == n_run(log) + 1 < N
    assert _made[-1].result().prompts[0].evaluations == n_run(log)


def test_what_cannot_be_compared_is_refused(
    scripted: Callable[..., Any], tmp_path: Path
) -> None:
    with pytest.raises(
        InvalidArgumentError,
        match=r"subject_to.*baseline.*among",
    ):
        EarlyStopping(BEST)
    with pytest.raises(InvalidArgumentError, match=r"among.*list.*'scripted/a'"):
        EarlyStopping(BEST, among="scripted/a")
    with pytest.raises(asktell.InvalidStateError, match="early_stopping"):
        EarlyStopping(FOUR_FIFTHS).result()

    def error(stopping: EarlyStopping, **options: Any) -> str:
        (log,) = evaluate(stopping, scripted(right(0.5)), **options)
        assert log.status == "error"
        return str(log.error.message)

    said = error(EarlyStopping(FOUR_FIFTHS), sample_shuffle=None)
    assert not lacking(said, "random order", "sample_shuffle=1")
    said = error(EarlyStopping(asktell.BestFeasible("exact", {"exact": 0.5})))
    assert not lacking(said, "metrics", "'exact'", "'includes'")
    said = error(EarlyStopping(BEST, among=["x", "y"]))
    assert not lacking(said, "'scripted/model'", "among", "'x', 'y'")
    stopping = EarlyStopping(FOUR_FIFTHS)
    evaluate(stopping, scripted(right(0.5)))
    assert not lacking(error(stopping, sample_shuffle=2), "order", "same seed")
