"""The sampler, on real Optuna studies in every kind of storage."""

import contextlib
import logging
import math
import multiprocessing
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asktell
from asktell.errors import IncompatibleMethodError, InvalidArgumentError

optuna = pytest.importorskip("optuna")

from asktell_adapters.optimizers.optuna import AsktellSampler, goal_of  # noqa: E402

PROMPTS = {f"p{i}": f"Answer in {i} words." for i in range(6)}
N = 8
OPTUNA_5 = int(optuna.__version__.split(".")[0]) >= 5


@pytest.fixture(autouse=True)
def _quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def accuracy(prompt: str, example: int) -> float:
    """Better with the prompt's number; every cell is different."""
    return 0.1 * int(prompt[1:]) + 0.03 * ((7 * example + 3 * int(prompt[1:])) % N) / N


def suggest(trial: Any) -> tuple[str, int]:
    return trial.suggest_categorical("prompt", list(PROMPTS)), trial.suggest_int(
        "example", 0, N - 1
    )


def objective(trial: Any) -> float:
    return accuracy(*suggest(trial))


def new_selector(
    goal: Any = None, budget: Any = 20, examples: int | None = N, **options: Any
) -> asktell.Selector:
    return asktell.Selector(
        PROMPTS,
        goal or asktell.BestFeasible("accuracy"),
        budget,
        examples=examples,
        **options,
    )


def new_study(sampler: Any, names: list[str] | None = None, **options: Any) -> Any:
    if "directions" not in options:
        options.setdefault("direction", "maximize")
    study = optuna.create_study(sampler=sampler, **options)
    if names:
        with pytest.warns(optuna.exceptions.ExperimentalWarning):
            study.set_metric_names(names)
    return study


def played(selector: asktell.Selector, score: Any = objective, **options: Any) -> Any:
    """A study of a selector that came to its end, and its result."""
    study = new_study(AsktellSampler(selector), **options)
    study.optimize(score, n_trials=100)
    return study, study.sampler.result(study)


def cells(study: Any) -> list[tuple[str, int]]:
    return [(trial.params["prompt"], trial.params["example"]) for trial in study.trials]


# What a study gets


def test_a_study_ends_with_the_budget_and_the_best_prompt() -> None:
    study, result = played(new_selector())
    assert len(study.trials) == result.spent == 20
    assert result.done
    assert [entry.id for entry in result.selected] == ["p5"]
    assert len(set(cells(study))) == 20, "no cell twice"
    assert {prompt for prompt, _ in cells(study)} == set(PROMPTS), (
        "every prompt at least once"
    )
    best = result.selected[0]
    told = [accuracy(*cell) for cell in cells(study) if cell[0] == "p5"]
    assert (best.evaluations, best.prompt) == (len(told), "Answer in 5 words.")


def test_a_new_sampler_for_every_trial_goes_on_exactly() -> None:
    """As after kill -9: nothing but the storage is left."""
    whole = new_study(AsktellSampler(new_selector()))
    whole.optimize(objective, n_trials=20)
    pieces = new_study(None)
    for _ in range(20):
        pieces.sampler = AsktellSampler(new_selector())
        pieces.optimize(objective, n_trials=1)
    assert cells(pieces) == cells(whole)
    again = AsktellSampler(new_selector())
    assert again.result(pieces).to_dict() == whole.sampler.result(whole).to_dict()


def test_several_values_are_a_pareto_set() -> None:
    def two(trial: Any) -> tuple[float, float]:
        prompt, example = suggest(trial)
        # p4 is worse than p3 in both.
        words = {"p3": 3.0, "p4": 4.0}.get(prompt, 5.0 if int(prompt[1:]) < 3 else 6.0)
        return accuracy(
            "p2" if prompt == "p4" else prompt, example
        ), words + 0.01 * example

    goal = asktell.ParetoSet("accuracy", asktell.minimize("words"))
    _, result = played(new_selector(goal, 30), two, directions=["maximize", "minimize"])
    assert {entry.id for entry in result.selected} == {"p3", "p5"}
    assert result.spent == 30


@pytest.mark.parametrize("kind", ["user attribute", "set_constraint"])
def test_constraints(kind: str) -> None:
    if kind == "set_constraint" and not OPTUNA_5:
        pytest.skip("Optuna 4 has no set_constraint")

    def limited(trial: Any) -> float:
        prompt, example = suggest(trial)
        words = int(prompt[1:])
        if kind == "set_constraint":
            trial.set_constraint("words", words - 2.5)
        elif kind == "user attribute":
            trial.set_user_attr("words", words)
        return accuracy(prompt, example)

    bound = 2.5 if kind == "user attribute" else 0
    goal = asktell.BestFeasible("accuracy", {"words": asktell.at_most(bound)})
    _, result = played(new_selector(goal, 30), limited)
    assert [entry.id for entry in result.selected] == ["p2"]
    assert result.selected[0].estimate["words"] == pytest.approx(
        2 if kind == "user attribute" else -0.5, abs=0.01
    )  # a bound nearby moves the level a little


@pytest.mark.parametrize(
    ("prompts", "choices"),
    [
        (list(PROMPTS.values()), list(range(6))),
        (list(PROMPTS.values()), list(reversed(PROMPTS.values()))),
        (PROMPTS, list(reversed(PROMPTS))),
        (list(PROMPTS.values()), None),
    ],
    ids=["positions", "texts", "another order", "an int"],
)
def test_choices_are_ids_or_texts(prompts: Any, choices: Any) -> None:
    def other(trial: Any) -> float:
        # The example first
        example = trial.suggest_categorical("example", [f"row {i}" for i in range(N)])
        if choices is None:
            prompt: Any = trial.suggest_int("prompt", 0, 5)
        else:
            prompt = trial.suggest_categorical("prompt", choices)
        text = prompt if isinstance(prompt, str) else list(PROMPTS.values())[prompt]
        number = text[1:] if text in PROMPTS else text.split()[2]
        return accuracy(f"p{number}", int(example.split()[1]))

    _, result = played(
        asktell.Selector(prompts, asktell.BestFeasible("accuracy"), 20, examples=N),
        other,
    )
    assert [entry.prompt for entry in result.selected] == ["Answer in 5 words."]


@pytest.mark.filterwarnings("ignore:Argument .*(multivariate|group)")
@pytest.mark.parametrize("group", [False, True])
def test_other_parameters_are_sampled_together(group: bool) -> None:
    """As many as the other sampler takes at once, without ours."""
    others = optuna.samplers.TPESampler(
        seed=0, multivariate=True, group=group, n_startup_trials=3
    )
    relative: list[set[str]] = []
    sample = others.sample_relative

    def spied(study: Any, trial: Any, space: Any) -> Any:
        relative.append(set(space))
        return sample(study, trial, space)

    others.sample_relative = spied
    study = new_study(AsktellSampler(new_selector(), others=others))

    def warm(trial: Any) -> float:
        value = objective(trial)
        return (
            value
            - trial.suggest_float("temperature", 0, 1)
            - trial.suggest_float("top_p", 0, 1)
        )

    study.optimize(warm)
    assert relative[-1] == {"temperature", "top_p"}
    assert len(study.trials) == 20
    best = min(
        trial.params["temperature"] + trial.params["top_p"]
        for trial in study.trials[3:]
    )
    assert best < 0.5, "it was minimized"


def test_trials_without_a_prompt_are_the_other_samplers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A conditional space: some trials have no prompt."""
    study = new_study(AsktellSampler(new_selector()))

    def conditional(trial: Any) -> float:
        if trial.number % 3 == 2:
            return float(trial.suggest_float("threshold", 0, 1))
        return objective(trial)

    with caplog.at_level(logging.WARNING, "asktell"):
        study.optimize(conditional, n_trials=100)
        study.tell(study.ask({"x": optuna.distributions.FloatDistribution(0, 1)}), 0.5)
    result = study.sampler.result(study)
    assert (result.spent, result.selected[0].id) == (20, "p5")
    assert len(study.trials) == 20 + 9 + 1
    (warning,) = caplog.messages
    assert (
        "Trial 2 has no parameter 'prompt', so RandomSampler sampled all its parameters"
        in warning
    )


# Trials that fail, are pruned, run elsewhere


def test_failed_trials() -> None:
    sampler = AsktellSampler(new_selector(max_failure_rate=0.2))
    study = new_study(sampler)

    def shaky(trial: Any) -> float:
        prompt, example = suggest(trial)
        if prompt == "p5":
            raise ConnectionError("no answer")
        return math.nan if prompt == "p4" else accuracy(prompt, example)

    study.optimize(shaky, catch=(ConnectionError,))
    result = sampler.result(study)
    assert [entry.id for entry in result.selected] == ["p3"]
    assert {entry.id: entry.failures for entry in result.prompts if entry.failures} == {
        "p4": 2,
        "p5": 2,
    }
    assert result.spent == 20
    assert len(study.trials) == 24
    assert "trial" in str({entry.id: entry.reason for entry in result.prompts}["p5"])


def test_pruned_trials_count_by_their_last_value() -> None:
    def stepwise(trial: Any) -> float:
        prompt, example = suggest(trial)
        if prompt == "p4":
            raise optuna.TrialPruned  # without a value
        trial.report(accuracy(prompt, example), 0)
        if trial.should_prune():
            raise optuna.TrialPruned
        return accuracy(prompt, example)

    _, result = played(
        new_selector(), stepwise, pruner=optuna.pruners.ThresholdPruner(lower=0.2)
    )
    by_id = {entry.id: entry for entry in result.prompts}
    assert result.selected[0].id == "p5"
    assert by_id["p0"].evaluations > 0
    assert by_id["p0"].estimate["accuracy"] < 0.2  # type: ignore[operator]
    assert (by_id["p4"].evaluations, by_id["p4"].failures) == (0, 6)
    assert "pruned before it had a value" in str(by_id["p4"].reason)


def test_a_trial_without_a_metric_is_a_failure() -> None:
    def forgetful(trial: Any) -> float:
        prompt, example = suggest(trial)
        if prompt != "p5":
            trial.set_user_attr("brevity", 1 - 0.1 * int(prompt[1:]))
        return accuracy(prompt, example)

    _, result = played(
        new_selector(asktell.BestFeasible("accuracy", {"brevity": 0.5})), forgetful
    )
    assert [entry.id for entry in result.selected] == ["p4"]
    assert "but they lack ['brevity']" in str(result.prompts[5].reason)


def test_threads() -> None:
    sampler = AsktellSampler(new_selector(budget=30))
    study = new_study(sampler)
    study.optimize(objective, n_jobs=4)
    assert sampler.result(study).spent == 30
    assert 30 <= len(study.trials) <= 33, (
        "some may have begun when the last evaluation was taken"
    )
    counted = [
        (t.params["prompt"], t.params["example"])
        for t in study.trials
        if "planner" in t.system_attrs["asktell"]
    ]
    assert len(counted) == len(set(counted)) == 30, "no cell twice"
    assert [entry.id for entry in sampler.result(study).selected] == ["p5"]


def open_storage(url: str) -> Any:
    if url.startswith("sqlite"):
        return optuna.storages.RDBStorage(
            url, engine_kwargs={"connect_args": {"timeout": 100}}
        )
    from optuna.storages.journal import JournalFileBackend

    return optuna.storages.JournalStorage(JournalFileBackend(url))


def work(url: str) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.load_study(
        study_name="s",
        storage=open_storage(url),
        sampler=AsktellSampler(new_selector(budget=12)),
    )
    study.optimize(objective)


@pytest.mark.parametrize(
    "kind", ["sqlite", pytest.param("journal", marks=pytest.mark.slow)]
)
def test_several_processes(kind: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db" if kind == "sqlite" else str(tmp_path / "s.log")
    study = new_study(
        AsktellSampler(new_selector(budget=12)),
        storage=open_storage(url),
        study_name="s",
    )
    # Not forked: another test may have left JAX's threads
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=work, args=(url,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    result = study.sampler.result(study)
    assert result.done
    # Optuna has no transactions: both may take the last evaluation.
    assert 12 <= result.spent <= 13
    assert len(study.trials) <= 14
    assert [entry.id for entry in result.selected] == ["p5"]


def test_processes_that_start_together_choose_differently() -> None:
    """Neither sees what the other is about to choose; from the same facts both would choose the same."""
    study = new_study(None)
    samplers = [AsktellSampler(new_selector()) for _ in range(4)]
    trials = []
    for sampler in samplers:
        study.sampler = sampler
        trials.append(study.ask())  # running, and nothing chosen
    chosen = []
    for trial, sampler in reversed(list(zip(trials, samplers, strict=True))):
        study.sampler = sampler
        chosen.append(suggest(trial))
    assert len(set(chosen)) == 4


def test_a_process_that_died_leaves_the_study_usable() -> None:
    study = new_study(AsktellSampler(new_selector()))
    suggest(study.ask())  # and nobody will tell
    study.ask()  # has not even chosen
    study.optimize(objective, n_trials=40)
    result = study.sampler.result(study)
    assert result.spent == 18, "the budget of what is out is kept for it"
    study.tell(0, state=optuna.trial.TrialState.FAIL)
    study.tell(1, state=optuna.trial.TrialState.FAIL)
    study.optimize(objective, n_trials=40)
    assert study.sampler.result(study).spent == 20
    assert study.sampler.result(study).done


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:.*Retry.* is experimental")
def test_a_retried_trial_is_the_evaluation_again() -> None:
    """What the heartbeat of a storage does with a trial whose process died."""
    study = new_study(AsktellSampler(new_selector(budget=10)))
    trial = study.ask()
    cell = suggest(trial)
    study.tell(trial, state=optuna.trial.TrialState.FAIL)
    optuna.storages.RetryFailedTrialCallback()(study, study.trials[0])
    study.optimize(objective)
    result = study.sampler.result(study)
    assert cells(study)[:2] == [cell, cell]
    assert (len(study.trials), result.spent) == (11, 10)
    assert sum(entry.failures for entry in result.prompts) == 1
    assert len(set(cells(study))) == 10


# Warm starts, and what is beyond the budget


def test_what_was_there_before_is_observed() -> None:
    study = new_study(optuna.samplers.RandomSampler(seed=1))
    study.optimize(objective, n_trials=12)
    study.add_trial(
        optuna.trial.create_trial(
            params={"prompt": "p1", "example": 2},
            distributions={
                "prompt": optuna.distributions.CategoricalDistribution(list(PROMPTS)),
                "example": optuna.distributions.IntDistribution(0, N - 1),
            },
            value=0.1,
        )
    )
    study.add_trial(optuna.trial.create_trial(state=optuna.trial.TrialState.FAIL))
    study.sampler = AsktellSampler(new_selector())
    known = {
        (trial.params["prompt"], trial.params["example"]) for trial in study.trials[:13]
    }
    study.optimize(objective)
    result = study.sampler.result(study)
    assert result.spent == 20
    assert len(study.trials) == 14 + 20
    new = {
        (trial.params["prompt"], trial.params["example"]) for trial in study.trials[14:]
    }
    assert len(new) == 20
    assert not new & known, "known cells are not evaluated again"
    assert sum(entry.evaluations for entry in result.prompts) == len(known) + 20


def test_enqueued_trials_are_observed() -> None:
    study = new_study(AsktellSampler(new_selector()))
    study.enqueue_trial({"prompt": "p2", "example": 3})
    study.enqueue_trial({"prompt": "p3"})
    study.enqueue_trial({"example": 1})
    study.optimize(objective)
    result = study.sampler.result(study)
    assert study.trials[0].params == {"prompt": "p2", "example": 3}
    assert study.trials[1].params["prompt"] == "p3"
    assert study.trials[2].params["example"] == 1
    assert (len(study.trials), result.spent) == (23, 20)


def test_beyond_the_budget_the_best_are_observed() -> None:
    sampler = AsktellSampler(new_selector(budget=12), stop=False)
    study = new_study(sampler)
    study.optimize(objective, n_trials=20)
    result = sampler.result(study)
    assert len(study.trials) == 20
    assert result.spent == 12
    answer = {"p5"}
    assert {trial.params["prompt"] for trial in study.trials[12:]} == answer
    assert sum(entry.evaluations for entry in result.prompts) == len(set(cells(study)))


def test_ask_and_tell() -> None:
    study = new_study(AsktellSampler(new_selector(budget=12)))
    distributions = {
        "prompt": optuna.distributions.CategoricalDistribution(list(PROMPTS)),
        "example": optuna.distributions.CategoricalDistribution(list(range(N))),
    }
    while not study.sampler.result(study).done:
        batch = [study.ask(distributions) for _ in range(4)]
        for trial in reversed(batch):
            study.tell(trial, accuracy(trial.params["prompt"], trial.params["example"]))
    assert len(study.trials) == 12
    assert len(set(cells(study))) == 12


def test_a_budget_of_cost() -> None:
    def priced(trial: Any) -> float:
        value = objective(trial)
        trial.set_user_attr("cost", 0.0625)
        return value

    study, result = played(new_selector(budget=asktell.Budget(cost=1.0)), priced)
    assert result.spent_cost == pytest.approx(1.0)
    assert len(study.trials) == 16

    # Each trial fails for the same reason, which ends the loop
    with pytest.raises(
        asktell.EvaluatorError, match=r"in the same way.* no user attribute 'cost'"
    ):
        played(new_selector(budget=asktell.Budget(cost=1.0)))


def test_trials_that_all_fail_in_the_same_way_end_optimize_and_it_continues() -> None:
    calls = []

    def broken(trial: Any) -> float:
        objective(trial)
        calls.append(trial.number)
        raise RuntimeError("no key")

    study = new_study(AsktellSampler(new_selector()))
    with pytest.raises(asktell.EvaluatorError, match="failed in the same way"):
        study.optimize(broken, n_trials=100, catch=(Exception,))
    assert 5 <= len(calls) < 20
    assert study.sampler.selector(study).n_active == len(PROMPTS)
    study.optimize(objective)
    assert study.sampler.result(study).spent == new_selector().budget


def test_what_an_invalid_trial_cost_is_paid() -> None:
    def priced(trial: Any) -> float:
        value = objective(trial)
        trial.set_user_attr("cost", 0.25)
        return value if trial.number else -1e300

    _, result = played(new_selector(budget=asktell.Budget(cost=1.0)), priced)
    assert result.spent_cost == pytest.approx(1.0)
    assert sum(entry.failures for entry in result.prompts) == 1


def test_samplers_are_pickled_with_their_studies() -> None:
    study = new_study(AsktellSampler(new_selector()))
    study.optimize(objective, n_trials=7)
    copy = pickle.loads(pickle.dumps(study))
    copy.optimize(objective)
    study.optimize(objective)
    assert cells(copy) == cells(study)


@pytest.mark.parametrize("storage", ["memory", "sqlite", "journal"])
def test_storages_and_what_the_dashboard_reads(storage: str, tmp_path: Path) -> None:
    url = {
        "sqlite": f"sqlite:///{tmp_path}/s.db",
        "journal": str(tmp_path / "s.log"),
    }.get(storage)
    place = None if url is None else open_storage(url)
    study = new_study(
        AsktellSampler(new_selector(budget=7)), storage=place, study_name="s"
    )
    study.optimize(objective)
    if url is not None:
        study = optuna.load_study(
            study_name="s", storage=open_storage(url), sampler=study.sampler
        )
    (mark,) = study.trials[0].system_attrs.values()
    plan = mark.pop("plan")
    assert mark == {**study.trials[0].params, "planner": 0}
    assert [list(PROMPTS)[arm] for arm, _ in plan] == [
        trial.params["prompt"] for trial in study.trials[: len(plan)]
    ]
    assert (
        AsktellSampler(new_selector(budget=7)).result(study).to_dict()
        == study.sampler.result(study).to_dict()
    )


@settings(max_examples=15)
@given(st.data())
def test_any_play_leaves_a_state_that_follows_from_the_storage(data: Any) -> None:
    """Trials of several processes, finished in any order and way."""
    study = new_study(None)
    samplers = [
        AsktellSampler(new_selector(budget=10, max_failure_rate=0.2), stop=False)
        for _ in range(2)
    ]
    out: list[Any] = []
    for _ in range(data.draw(st.integers(1, 25))):
        if not out or (len(out) < 4 and data.draw(st.booleans())):
            study.sampler = data.draw(st.sampled_from(samplers))
            if data.draw(st.integers(0, 5)) == 0:
                study.enqueue_trial(
                    {"prompt": data.draw(st.sampled_from(list(PROMPTS)))}
                )
            trial = study.ask()
            suggest(trial)
            out.append(trial)
        else:
            trial = out.pop(data.draw(st.integers(0, len(out) - 1)))
            study.sampler = data.draw(st.sampled_from(samplers))
            if data.draw(st.integers(0, 3)) == 0:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(
                    trial, accuracy(trial.params["prompt"], trial.params["example"])
                )
    results = [
        sampler.result(study)
        for sampler in (
            *samplers,
            AsktellSampler(new_selector(budget=10, max_failure_rate=0.2)),
        )
    ]
    finished = [
        t
        for t in study.trials
        if "planner" in t.system_attrs.get("asktell", {}) and t.values is not None
    ]
    for result in results:
        assert result.spent == len(finished) <= 10
        assert [e.evaluations for e in result.prompts] == [
            e.evaluations for e in results[0].prompts
        ]
        assert [e.failures for e in result.prompts] == [
            e.failures for e in results[0].prompts
        ]
        assert [e.estimate["accuracy"] for e in result.prompts] == [
            None
            if e.estimate["accuracy"] is None
            else pytest.approx(e.estimate["accuracy"], abs=1e-6)
            for e in results[0].prompts
        ]


# Goals and wrong set-ups


def test_the_goal_of_a_study() -> None:
    assert str(goal_of(new_study(None))) == "maximize value"
    assert (
        str(goal_of(optuna.create_study(), ["brevity"]))
        == "minimize value subject to brevity <= 0"
    )
    assert goal_of(
        optuna.create_study(directions=["maximize", "minimize"])
    ).metrics == ("value_0", "value_1")
    several = new_study(
        None, ["accuracy", "words"], directions=["maximize", "minimize"]
    )
    assert str(goal_of(several)) == "Pareto set: maximize accuracy, minimize words"
    bounded = "Pareto set: maximize accuracy, minimize words subject to toxicity <= 0"
    assert str(goal_of(several, ["toxicity"])) == bounded
    sampler = AsktellSampler(new_selector(goal_of(several)))
    assert not sampler.result(several).selected


@pytest.mark.parametrize(
    ("goal", "directions", "names", "words"),
    [
        (
            asktell.BestFeasible("accuracy"),
            ["minimize"],
            None,
            "minimize 'accuracy'.*'maximize accuracy'",
        ),
        (
            asktell.ParetoSet("a", asktell.minimize("b")),
            ["maximize", "maximize"],
            None,
            "maximize 'b'",
        ),
        (
            asktell.ParetoSet("a", "b"),
            ["maximize"],
            None,
            "has the metric 'b', but the values",
        ),
        (
            asktell.BestFeasible("a"),
            ["maximize", "maximize"],
            None,
            "2 values, but the goal has only the metrics",
        ),
        (
            asktell.BestFeasible("a"),
            ["maximize"],
            ["rouge"],
            r"has the metric 'a', but the values of the Optuna study are called \['rouge'\]",
        ),
    ],
)
def test_goals_that_are_not_the_studys(
    goal: Any, directions: Any, names: Any, words: str
) -> None:
    study = new_study(AsktellSampler(new_selector(goal)), names, directions=directions)
    with pytest.raises(IncompatibleMethodError, match=words):
        study.optimize(objective, n_trials=1)


def test_parameters_that_are_not_the_selectors() -> None:
    def wrong(suggest: Callable[[Any], Any], words: str) -> None:
        study = new_study(AsktellSampler(new_selector()))
        with pytest.raises(InvalidArgumentError, match=words):
            study.optimize(lambda trial: suggest(trial) and 0.0, n_trials=1)
        assert study.sampler.result(study).spent == 0

    wrong(
        lambda t: t.suggest_categorical("prompt", ["p0", "p1", "x"]),
        r"Unknown choices: .*x.*\. Missing prompts: .*p2",
    )
    wrong(
        lambda t: t.suggest_float("prompt", 0, 5),
        "must be categorical or an int, got FloatDistribution",
    )
    wrong(
        lambda t: t.suggest_int("example", 0, 99), "has 100 choices, but .* examples=8"
    )
    wrong(
        lambda t: t.suggest_categorical("prompt", list(PROMPTS)),
        r"Trial 0 has the parameters \['prompt'\], but",
    )
    wrong(
        lambda t: t.suggest_int("example", 0, N - 1),
        r"Trial 0 has the parameters \['example'\], but",
    )


def test_selectors_that_do_not_fit() -> None:
    with pytest.raises(IncompatibleMethodError, match="works in rounds"):
        AsktellSampler(new_selector(method="csr", budget=60))
    used = new_selector()
    used.ask()
    with pytest.raises(InvalidArgumentError, match="number of trials: 1"):
        AsktellSampler(used)
    with pytest.raises(InvalidArgumentError, match=r"needs an asktell\.Selector"):
        AsktellSampler(PROMPTS)  # type: ignore[arg-type]


def test_the_selector_is_not_changed_and_may_be_warm() -> None:
    selector = new_selector()
    for example in range(N):
        selector.observe("p5", {"accuracy": -1.0}, example)
    study = new_study(AsktellSampler(selector))
    with contextlib.suppress(KeyboardInterrupt):
        study.optimize(objective)
    assert [entry.id for entry in study.sampler.result(study).selected] == ["p4"]
    assert "p5" not in {prompt for prompt, _ in cells(study)}
    assert selector.spent == 0
