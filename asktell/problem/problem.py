"""The problem: everything known before the first evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy.typing as npt

from asktell.errors import InvalidArgumentError, InvalidScoresError
from asktell.numerics.arrays import Floats
from asktell.numerics.cached import Memo, cached_property
from asktell.numerics.shapes import Float
from asktell.problem import checks
from asktell.problem.budget import Budget
from asktell.problem.candidates import Candidates
from asktell.problem.checks import whole
from asktell.problem.examples.examples import AnyProfile, Examples, checked_examples
from asktell.problem.features import check_features, text_features
from asktell.problem.goals import Goal
from asktell.problem.prompts import AnyPrompt, Prompts
from asktell.problem.words import nearest, short, some

SKIP: Final = "skip"

# If all are recorded, 10^8 scores take some GB while they are summed.
_MOST_PROXY_SCORES = 10**8


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything known before the first evaluation.

    - `n_arms`: the number of prompts, K.
    - `goal`: the objectives and constraints.
    - `budget`: the number of evaluations.
    - `examples`: the examples, how often each may be evaluated, and what is known about
      them.
    - `features` (K, d): the features of the prompts, None without features.
    - `seed`: the seed of all random numbers.
    - `failure_scores`: the scores of a failed evaluation. None: its scores are missing,
      and an arm with a failure rate above `max_failure_rate` is eliminated.
    - `max_cost`, `max_cost_per_evaluation`: see `asktell.Budget`.
    - `baseline`: the arm in use today, which is never eliminated. None without a
      baseline.
    - `candidates`: the candidates, if they have factors, else None.
    - `proxies`: the names of cheap metrics outside of the goal that help to predict its metrics.
    - `looks_once`: True for a finished table, which nobody looked at while it grew. Its
      intervals are for one look. It is not saved.
    """

    n_arms: int
    goal: Goal
    budget: int
    examples: Examples = field(default_factory=Examples)
    features: Float[Floats, "arms features"] | None = None
    seed: int = 0
    failure_scores: tuple[float, ...] | None = None
    max_failure_rate: float = 0.5
    max_cost: float | None = None
    max_cost_per_evaluation: float | None = None
    baseline: int | None = None
    candidates: Candidates | None = None
    proxies: tuple[str, ...] = ()
    looks_once: bool = False

    @cached_property
    def memo(self) -> Memo:
        """A cache for results that methods compute from the problem alone."""
        return Memo()

    @property
    def on_failure(self) -> Literal["skip"] | dict[str, float]:
        """The argument `on_failure` of the selector: "skip", or the scores of a failed evaluation by metric."""
        if self.failure_scores is None:
            return SKIP
        return dict(zip(self.goal.metrics, self.failure_scores, strict=False))

    @property
    def is_bound_by_cost_alone(self) -> bool:
        """True if the budget allows all existing evaluations, so that only the cost is limited."""
        most = self.examples.most_evaluations(self.n_arms)
        return self.max_cost is not None and self.budget == most

    @cached_property
    def by_noise(self) -> dict[bool, "Problem"]:
        """The same problem, after repeats have shown that its scores are noisy (True), or that they are not."""
        return {
            is_noisy: replace(self, examples=self.examples.with_noise(is_noisy))
            for is_noisy in (False, True)
        }


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
    repeats: int | None,
    profile: AnyProfile | None,
    segments: Sequence[str] | None,
    inputs: str,
    proxies: Sequence[str] = (),
) -> Problem:
    """The problem that the arguments of a selector describe. See `asktell.Selector`.

    Raises:
        InvalidArgumentError: an argument is invalid.
    """
    if not isinstance(goal, Goal):
        raise InvalidArgumentError(
            f"goal must be asktell.BestFeasible(...) or asktell.ParetoSet(...), got {short(goal)}."
        )
    seed = whole("seed", seed, 0, 2**64 - 1)
    of_examples = checked_examples(
        examples, goal, seed, sampling, repeats, profile, segments, inputs
    )
    if not isinstance(budget, Budget):
        budget = Budget(whole("budget", budget, 1, checks.MOST_EVALUATIONS))
    in_use = None if baseline is None else prompts.arm(baseline, "baseline: ")
    goal = goal.with_baseline(in_use)
    if of_examples.labels is not None:
        goal = goal.with_segments(len(set(of_examples.labels)))
    # A budget of cost alone allows all evaluations that exist.
    everything = of_examples.most_evaluations(len(prompts))
    return Problem(
        n_arms=len(prompts),
        goal=goal,
        budget=everything if budget.evaluations is None else budget.evaluations,
        examples=of_examples,
        features=_features(features, prompts.texts),
        seed=seed,
        failure_scores=_failure_scores(on_failure, goal),
        max_failure_rate=checks.check_number(
            "max_failure_rate", max_failure_rate, 0.0, 1.0, above=True
        ),
        max_cost=budget.cost,
        max_cost_per_evaluation=budget.max_cost_per_evaluation,
        baseline=in_use,
        candidates=prompts.candidates,
        proxies=_proxies(proxies, goal, len(prompts), of_examples.n),
    )


def _proxies(
    proxies: Any, goal: Goal, n_arms: int, n_examples: int | None
) -> tuple[str, ...]:
    """Check the names of the proxies, which must be no metrics of the goal."""
    is_list = isinstance(proxies, Sequence) and not isinstance(proxies, str)
    if not is_list or not all(isinstance(name, str) and name for name in proxies):
        raise InvalidArgumentError(
            f"proxies must be a list of names of metrics, such as ['judge']. Got {short(proxies)}."
        )
    names = tuple(map(str, proxies))
    if len(set(names)) < len(names):
        raise InvalidArgumentError(
            f"Each proxy must be named once, got {short(list(names))}."
        )
    for name in names:
        if name in goal.metrics:
            raise InvalidArgumentError(
                f"{short(name)} is a metric of the goal, so it cannot be a proxy as well. Name other metrics "
                "as proxies."
            )
    if names and n_examples is None:
        raise InvalidArgumentError(
            "proxies=... needs examples=... (their number or their ids), because a proxy helps only if it is scored "
            "on the same examples as the metrics of the goal."
        )
    check_proxy_scores(len(names), n_arms, n_examples or 0)
    return names


def check_proxy_scores(n_proxies: int, n_arms: int, n_examples: int) -> None:
    """Check that the proxies' scores of all cells fit into memory.

    Raises:
        InvalidArgumentError: they do not.
    """
    if n_proxies * n_arms * n_examples > _MOST_PROXY_SCORES:
        raise InvalidArgumentError(
            f"proxies=... supports at most {_MOST_PROXY_SCORES:,} scores, since each takes memory. Got {n_proxies} "
            f"proxies x {n_arms:,} prompts x {n_examples:,} examples. Use fewer prompts, examples or proxies."
        )


def _failure_scores(on_failure: object, goal: Goal) -> tuple[float, ...] | None:
    """The scores of a failed evaluation. None: its scores are missing."""
    if isinstance(on_failure, str) and on_failure == SKIP:
        return None
    expected = (
        f'"{SKIP}", or a mapping with a score for each of the metrics {some(goal.metrics)}, within the range of '
        "the metric"
    )
    if not isinstance(on_failure, Mapping):
        raise InvalidArgumentError(
            f"on_failure must be {expected}. Got {short(on_failure)}."
        )
    if unknown := [metric for metric in on_failure if metric not in goal.metrics]:
        near = nearest(unknown[0], goal.metrics)
        raise InvalidArgumentError(
            f"on_failure must be {expected}. {short(unknown[0])} is none of these metrics{near}."
        )
    try:
        return goal.vector(on_failure, failed=True)
    except InvalidScoresError as error:
        raise InvalidArgumentError(f"on_failure must be {expected}. {error}") from error


def _features(
    features: npt.ArrayLike | None, texts: Sequence[str]
) -> Float[Floats, "arms features"] | None:
    """Check the features, or compute them from the texts of the prompts."""
    if features is None:
        return None
    if isinstance(features, str):
        if features != "text":
            raise InvalidArgumentError(
                f'The features of the prompts must be rows of numbers, "text" or None, got {short(features)}.'
            )
        features = text_features(texts)
    return check_features(features, len(texts))
