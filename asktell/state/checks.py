"""A problem, from what users pass in."""

from collections.abc import Mapping, Sequence

import numpy.typing as npt

from asktell.arguments import MOST_EVALUATIONS, MOST_REPEATS, check_features, nearest, short, some, whole
from asktell.budget import Budget
from asktell.errors import InvalidArgumentError, InvalidScoresError
from asktell.examples import Examples, numbered
from asktell.features import text_features
from asktell.goals import Goal
from asktell.numerics.arrays import Features
from asktell.profiles.profile import ExampleProfile
from asktell.state.problem import SAMPLINGS, SKIP, Problem, most_evaluations
from asktell.trial import AnyPrompt, Prompts


def checked_problem(
    prompts: Prompts,
    goal: object,
    budget: int | Budget,
    examples: int | Sequence[str] | None,
    features: npt.ArrayLike | str | None,
    seed: int,
    sampling: str,
    on_failure: object,
    max_failure_rate: object,
    baseline: AnyPrompt | None,
    repeats: int,
    profile: ExampleProfile | None,
) -> Problem:
    """The problem that a selector's arguments describe; see `asktell.Selector`.

    Raises:
        InvalidArgumentError: an argument has the wrong type, value or length.
    """
    if not isinstance(goal, Goal):
        raise InvalidArgumentError(
            f"goal must be asktell.BestFeasible(...) or asktell.ParetoSet(...), got {short(goal)}."
        )
    if sampling not in SAMPLINGS:
        raise InvalidArgumentError(f"sampling must be one of {list(SAMPLINGS)}, got {short(sampling)}.")
    n_examples, ids = numbered(examples)
    repeats = whole("repeats", repeats, 1, MOST_REPEATS)
    if repeats > 1 and n_examples is None:
        raise InvalidArgumentError(
            f"repeats={repeats} needs examples=...: a cell that is asked again is a prompt on one of the examples. "
            "Where the evaluator draws its own, its scores are taken for noisy anyway: leave repeats out."
        )
    if not isinstance(budget, Budget):
        budget = Budget(whole("budget", budget, 1, MOST_EVALUATIONS))
    everything = most_evaluations(len(prompts), n_examples, sampling, repeats)  # are allowed by a cost alone
    return Problem(
        n_arms=len(prompts),
        goal=goal,
        budget=everything if budget.evaluations is None else int(budget.evaluations),
        n_examples=n_examples,
        features=_features(features, prompts.texts),
        seed=whole("seed", seed, 0, 2**64 - 1),
        sampling=sampling,
        failure_scores=_failure_scores(on_failure, goal),
        max_failure_rate=_failure_rate(max_failure_rate),
        max_cost=budget.cost,
        max_cost_per_evaluation=budget.max_cost_per_evaluation,
        baseline=None if baseline is None else prompts.arm(baseline, "baseline: "),
        examples=ids,
        repeats=repeats,
        profile=_profile(profile, goal, ids),
    )


def _failure_scores(on_failure: object, goal: Goal) -> tuple[float, ...] | None:
    """What a failed evaluation counts as; None for a missing value."""
    if isinstance(on_failure, str) and on_failure == SKIP:
        return None
    expected = f'"{SKIP}", or a mapping with a score for each of the metrics {some(goal.metrics)}'
    if not isinstance(on_failure, Mapping):
        raise InvalidArgumentError(f"on_failure must be {expected}; got {short(on_failure)}.")
    for metric in on_failure:
        if metric not in goal.metrics:
            raise InvalidArgumentError(
                f"on_failure must be {expected}; {short(metric)} is none of them{nearest(metric, goal.metrics)}."
            )
    try:
        return goal.vector(on_failure)
    except InvalidScoresError as error:
        raise InvalidArgumentError(f"on_failure must be {expected}: {error}") from error


def _failure_rate(rate: object) -> float:
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1:
        raise InvalidArgumentError(
            f"max_failure_rate must be a number above 0 and at most 1, which never removes a prompt; got {short(rate)}."
        )
    return float(rate)


def _profile(profile: object, goal: Goal, ids: Examples | None) -> ExampleProfile | None:
    if profile is None:
        return None
    if not isinstance(profile, ExampleProfile):
        raise InvalidArgumentError(
            f"profile must be an asktell.ExampleProfile, as of ExampleProfile.of(study, ...) or from_json; got "
            f"{short(profile)}."
        )
    if ids is None:
        raise InvalidArgumentError(
            f"A profile goes with ids of the examples, by which it knows them: examples=[...], a list of texts such as "
            f"{some(profile.ids)}."
        )
    if not set(profile.metrics) & set(goal.metrics):
        raise InvalidArgumentError(
            f"The profile knows {some(profile.metrics)}, but the goal's metrics are {some(goal.metrics)}."
        )
    if not set(profile.ids) & set(ids.ids):
        raise InvalidArgumentError(
            f"The profile knows none of these examples. It knows {some(profile.ids[:3])}; given were "
            f"{some(ids.ids[:3])}."
        )
    return profile


def _features(features: npt.ArrayLike | None, texts: Sequence[str]) -> Features | None:
    if features is None:
        return None
    if isinstance(features, str):
        if features != "text":
            raise InvalidArgumentError(f'features must be numbers, "text" or None, got {short(features)}.')
        features = text_features(texts)
    return check_features(features, len(texts))
