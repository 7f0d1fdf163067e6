"""A selection as an Optuna study, for Optuna's dashboard and plots."""

import importlib
import importlib.util
import logging
import warnings
from collections.abc import Iterator
from typing import Any

from asktell import IncompatibleMethodError, InvalidArgumentError, Result, Selector, Study
from asktell.extend import Goal, describe_spending, needs_extra
from asktell_adapters.optimizers._optuna_trials import value_names

with needs_extra("optuna"):
    import optuna
    from optuna.distributions import CategoricalDistribution, IntDistribution
    from optuna.trial import FrozenTrial, TrialState

_log = logging.getLogger("asktell")
KEY = "asktell:evaluation"
"""The user attribute by which an evaluation is known again."""


def to_optuna(
    source: Selector | Study, storage: str | optuna.storages.BaseStorage | None = None, study_name: str | None = None
) -> optuna.Study:
    """An Optuna study with a finished trial for every evaluation so far; called again, it adds what is new.

    The goal's objectives become the values, its constraints Optuna's (at most 0), and a constrained metric a user
    attribute in its own units. Observed scores are trials too, and failures failed trials. The study's user attributes
    say what is known of every prompt and which are selected; with optuna-dashboard installed, so does its note.
    `study.best_trials` are single evaluations, and lucky ones: the answer is among the attributes. Without evaluations,
    there is a warning.

    Args:
        source: what to export; it is not changed.
        storage: where to: a URL, one of Optuna's storages, or None for memory.
        study_name: by default the name of the study, "asktell" for a selector.

    Raises:
        IncompatibleMethodError: there is a study of this name that looks for something else.
        InvalidArgumentError: the source is neither a Selector nor a Study.
        StorageError: the study's own storage cannot be used.
    """
    if isinstance(source, Study):
        selector, costs = source.selector, _costs(source)
    elif isinstance(source, Selector):
        selector, costs = source, {}
    else:
        raise InvalidArgumentError(f"to_optuna() needs a Selector or a Study, got {type(source).__name__}.")
    if not len(selector.state.history) and not selector.state.failures:
        _log.warning(
            "to_optuna() got a selection without evaluations. An AsktellSampler copies the selector that it is made "
            "with: export sampler.selector(study)."
        )
    goal, result = selector.goal, selector.result()
    aims = goal.objectives
    name = study_name or (source.name if isinstance(source, Study) else "asktell")
    study = optuna.create_study(
        storage=storage,
        study_name=name,
        directions=["minimize" if aim.minimize else "maximize" for aim in aims],
        load_if_exists=True,
    )
    names = [aim.metric for aim in aims]
    if study.get_trials(deepcopy=False) and study.metric_names != names:
        raise IncompatibleMethodError(f"There is a study {name!r} already, which was not exported from here.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study.set_metric_names(names)
    value_names(study, goal)
    known = {trial.user_attrs.get(KEY) for trial in study.get_trials(deepcopy=False)}
    study.add_trials(trial for trial in _trials(selector, result, costs) if trial.user_attrs[KEY] not in known)
    _describe(study, result)
    return study


def _trials(selector: Selector, result: Result, costs: dict[int, float]) -> Iterator[FrozenTrial]:
    """Observed ones first, then by the number of the selector's trial."""
    state, entries = selector.state, result.prompts
    distributions: dict[str, Any] = {"prompt": CategoricalDistribution([entry.id for entry in entries])}
    if state.problem.n_examples is not None:
        distributions["example"] = IntDistribution(0, state.problem.n_examples - 1)

    def trial(key: str, arm: int, example: int | None, attributes: dict[str, Any], **outcome: Any) -> FrozenTrial:
        params = {"prompt": entries[arm].id} | ({} if example is None else {"example": example})
        return optuna.trial.create_trial(
            params=params,
            distributions={name: distributions[name] for name in params},
            user_attrs={KEY: key, "text": entries[arm].prompt, **attributes},
            **outcome,
        )

    rows: list[tuple[int, FrozenTrial]] = []
    history, n_observed = state.history, 0
    errors = {failure.trial: failure.reason for failure in state.failures}
    columns = (history.trials().tolist(), history.arms().tolist(), history.examples().tolist(), history.scores())
    for id_, arm, example, scores in zip(*columns, strict=True):
        key = f"trial {id_}" if id_ >= 0 else f"observed {n_observed}"
        n_observed += id_ < 0
        values, attributes, constraints = _scores(
            selector.goal, dict(zip(selector.metrics, scores.tolist(), strict=False))
        )
        attributes |= {"cost": costs[id_]} if id_ in costs else {}
        attributes |= {"error": errors[id_]} if id_ in errors else {}
        rows.append(
            (
                id_,
                trial(key, arm, None if example < 0 else example, attributes, values=values, system_attrs=constraints),
            )
        )
    for id_, arm, example, reason in state.missing:
        attributes = {"error": reason} | ({"cost": costs[id_]} if id_ in costs else {})
        rows.append((id_, trial(f"trial {id_}", arm, example, attributes, state=TrialState.FAIL)))
    rows.sort(key=lambda row: row[0])
    return (row for _, row in rows)


def _scores(goal: Goal, scores: dict[str, float]) -> tuple[list[float], dict[str, Any], dict[str, Any]]:
    """Values, user attributes, and constraints as the system attributes in which Optuna keeps them."""
    values = [scores[aim.metric] for aim in goal.objectives]
    bounds = goal.constraints
    attributes = {bound.metric: scores[bound.metric] for bound in bounds}
    excess = [(scores[b.metric] - b.bound) * (1 if b.at_most else -1) for b in bounds]
    if not excess:
        return values, attributes, {}
    # As a list they are understood by Optuna 4 and 5, and by the dashboard.
    return values, attributes, {"constraints": list(excess)}


def _describe(study: optuna.Study, result: Result) -> None:
    answer = result.to_dict()
    prompts = {
        str(entry["id"]): {k: v for k, v in entry.items() if k not in ("id", "prompt")} for entry in answer["prompts"]
    }
    study.set_user_attr("asktell:goal", str(result.goal))
    study.set_user_attr("asktell:selected", [entry.id for entry in result.selected])
    study.set_user_attr("asktell:spending", describe_spending(result))
    study.set_user_attr("asktell:prompts", prompts)
    if importlib.util.find_spec("optuna_dashboard") is not None:
        importlib.import_module("optuna_dashboard").save_note(study, f"```\n{result}\n```")


def _costs(study: Study) -> dict[int, float]:
    """What evaluations were told to cost, by trial: of that, a selector keeps sums."""
    return {each.trial: each.cost for each in study.evaluations() if each.trial is not None and each.cost is not None}
