"""A study of Optuna's goes on with more prompts and a larger budget."""

import pytest

from asktell import BestFeasible, Selector

optuna = pytest.importorskip("optuna")

from asktell_adapters.optimizers.optuna import AsktellSampler  # noqa: E402

TEXTS = ["a", "bb", "ccc", "dddd", "eeeee"]


def of(n_prompts: int) -> "optuna.study.study.ObjectiveFuncType":
    def objective(trial: "optuna.Trial") -> float:
        prompt = trial.suggest_int("prompt", 0, n_prompts - 1)
        return len(TEXTS[prompt]) + 0.1 * trial.suggest_int("example", 0, 9)

    return objective


def selector() -> Selector:
    return Selector(TEXTS[:3], BestFeasible("value"), 12, examples=10)


@pytest.mark.filterwarnings("ignore")
def test_prompts_join_a_study_that_was_done() -> None:
    storage = optuna.storages.InMemoryStorage()
    study = optuna.create_study(
        storage=storage,
        study_name="s",
        direction="maximize",
        sampler=AsktellSampler(selector()),
    )
    study.optimize(of(3), n_trials=100)
    assert len(study.trials) == 12
    grown = selector()
    grown.add(TEXTS[3:])
    grown.extend(evaluations=10)
    study = optuna.load_study(
        storage=storage, study_name="s", sampler=AsktellSampler(grown)
    )
    study.optimize(of(5), n_trials=100)
    result = study.sampler.result(study)
    assert (len(study.trials), result.spent, result.budget) == (22, 22, 22)
    assert result.selected[0].id == 4
    assert {trial.params["prompt"] for trial in study.trials[12:]} >= {3, 4}
    again = optuna.load_study(
        storage=storage, study_name="s", sampler=AsktellSampler(grown)
    )
    assert again.sampler.result(again).to_dict() == result.to_dict()
