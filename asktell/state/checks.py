"""A problem, from what users pass in."""

from collections.abc import Sequence

import numpy.typing as npt

from asktell.arguments import MOST_EVALUATIONS, MOST_REPEATS, check_features, short, some, whole
from asktell.budget import Budget
from asktell.errors import InvalidArgumentError
from asktell.examples import Examples, numbered
from asktell.features import text_features
from asktell.goals import Goal
from asktell.numerics.arrays import Features
from asktell.profiles.profile import ExampleProfile
from asktell.state.problem import SAMPLINGS, Problem, most_evaluations
from asktell.trial import Prompts


def checked_problem(
    prompts: Prompts,
    goal: object,
    budget: int | Budget,
    examples: int | Sequence[str] | None,
    features: npt.ArrayLike | str | None,
    seed: int,
    sampling: str,
    max_failures: int,
    baseline: str | int | None,
    repeats: int,
    profile: ExampleProfile | None,
) -> Problem:
    """The problem that a selector's arguments describe; see `asktell.Selector`.

    Raises:
        InvalidArgumentError: an argument has the wrong type, value or length.
    """
    if not isinstance(goal, Goal):
        raise InvalidArgumentError(f"goal must be asktell.BestFeasible(...) or asktell.ParetoSet(...), got {goal!r}.")
    if sampling not in SAMPLINGS:
        raise InvalidArgumentError(f"sampling must be one of {list(SAMPLINGS)}, got {sampling!r}.")
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
        max_failures=whole("max_failures", max_failures, 1),
        max_cost=budget.cost,
        max_cost_per_evaluation=budget.max_cost_per_evaluation,
        baseline=None if baseline is None else prompts.arm(baseline, "baseline: "),
        examples=ids,
        repeats=repeats,
        profile=_profile(profile, goal, ids),
    )


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
