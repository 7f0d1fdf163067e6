"""The problem: everything known before the first evaluation, and how it grows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from asktell.errors import InvalidArgumentError, InvalidScoresError, InvalidStateError
from asktell.numerics import counters
from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.cached import Memo, cached_property
from asktell.numerics.shapes import Bool, Float, Int
from asktell.problem import checks
from asktell.problem.budget import Budget
from asktell.problem.candidates import AnyPrompt, Candidates, Prompts
from asktell.problem.checks import whole
from asktell.problem.examples.ids import Examples, numbered
from asktell.problem.examples.profile import ExampleProfile
from asktell.problem.examples.segments import Segments
from asktell.problem.examples.shape import Shape
from asktell.problem.features import check_features, rank, text_features
from asktell.problem.goals import Goal, Subset
from asktell.problem.words import nearest, short, some
from asktell.record.events import Added, Extended

AnyProfile: TypeAlias = ExampleProfile | Mapping[str, Any]
"""An example profile, or the mapping in its JSON."""

SAMPLINGS = ("shared", "iid")
INPUTS = ("new", "given")
SKIP: Final = "skip"

# If all are recorded, 10^8 scores take some GB while they are summed.
_MOST_PROXY_SCORES = 10**8


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything known before the first evaluation.

    - `n_arms`: the number of prompts, K.
    - `goal`: the objectives and constraints.
    - `budget`: the number of evaluations.
    - `n_examples`: the number of examples, N. None: the evaluator draws its own
      examples.
    - `features` (K, d): the features of the prompts, None without features.
    - `seed`: the seed of all random numbers.
    - `sampling`: with "shared", the t-th evaluation of every prompt uses the t-th
      example of one seeded order, without replacement. With "iid", every evaluation
      draws its own example.
    - `failure_scores`: the scores of a failed evaluation. None: its scores are missing,
      and an arm with a failure rate above `max_failure_rate` is eliminated.
    - `max_cost`, `max_cost_per_evaluation`: see `asktell.Budget`.
    - `baseline`: the arm in use today, which is never eliminated. None without a
      baseline.
    - `examples`: the ids of the examples, None without ids.
    - `repeats`: how often the same cell (arm, example) may be evaluated. Above 1,
      scores are noisy and their mean counts. An arm is evaluated on all examples in
      the order before any example comes again. With "iid", a cell is evaluated as often as it is drawn,
      and `repeats` only decides whether scores are noisy.
    - `joined_examples`: the number of examples that were added, one item per event.
    - `profile`: the example profile from earlier studies, None without one.
    - `differs`: True if repeated evaluations are known to differ although `repeats` is
      1.
    - `candidates`: the candidates, if they have factors, else None.
    - `labels` (N,): the label of the segment of each example, None without segments.
    - `inputs`: the population of estimates, probabilities and claims. With "new", a
      mean is the expected score on a new input that is evaluated once, and the examples
      are a sample of such inputs. With "given", it is the mean over exactly the given
      examples.
    - `exact`: True if the user states that repeated evaluations give the same scores.
    - `proxies`: the names of cheap metrics outside of the goal that help to predict its metrics.
    - `looks_once`: True for a finished table, which nobody looked at while it grew. Its
      intervals are for one look. It is not saved.
    """

    n_arms: int
    goal: Goal
    budget: int
    n_examples: int | None = None
    features: Float[Floats, "arms features"] | None = None
    seed: int = 0
    sampling: str = "shared"
    failure_scores: tuple[float, ...] | None = None
    max_failure_rate: float = 0.5
    max_cost: float | None = None
    max_cost_per_evaluation: float | None = None
    baseline: int | None = None
    examples: Examples | None = None
    repeats: int = 1
    joined_examples: tuple[int, ...] = ()
    profile: ExampleProfile | None = None
    differs: bool = False
    candidates: Candidates | None = None
    labels: tuple[str, ...] | None = None
    inputs: str = "new"
    exact: bool = False
    proxies: tuple[str, ...] = ()
    looks_once: bool = False

    @cached_property
    def memo(self) -> Memo:
        """A cache for results that methods compute from the problem alone."""
        return Memo()

    @cached_property
    def segments(self) -> Segments | None:
        """The segments of the examples. None without segments."""
        return None if self.labels is None else Segments.of(self.labels)

    def is_in(
        self, subset: Subset, examples: Int[Ints, " cells"]
    ) -> Bool[Bools, " cells"]:
        """Whether each example belongs to the subset. -1, an example that is none of the N, belongs to none."""
        assert self.segments is not None, "a goal with segments requires them"
        of_examples = self.segments.of_examples[examples]
        return np.asarray((examples >= 0) & (of_examples == subset.kind))

    def size_of(self, subset: Subset) -> int:
        """The number of examples in the subset."""
        assert self.segments is not None, "a goal with segments requires them"
        return int(self.segments.sizes[subset.kind])

    @cached_property
    def order(self) -> Int[Ints, " examples"]:
        """The shared order of the examples. Added examples follow the existing examples."""
        # One order for each extension, so that no example changes its place.
        first = (self.n_examples or 0) - sum(self.joined_examples)
        order = counters.permutation(self.seed, "example order", first)
        for number, n in enumerate(self.joined_examples, start=1):
            more = len(order) + counters.permutation(
                self.seed, "example order", n, number
            )
            order = np.concatenate((order, more))
        return order

    @property
    def on_failure(self) -> Literal["skip"] | dict[str, float]:
        """The argument `on_failure` of the selector: "skip", or the scores of a failed evaluation by metric."""
        if self.failure_scores is None:
            return SKIP
        return dict(zip(self.goal.metrics, self.failure_scores, strict=False))

    @property
    def is_bound_by_cost_alone(self) -> bool:
        """True if the budget allows all existing evaluations, so that only the cost is limited."""
        return self.max_cost is not None and self.budget == most_evaluations(
            self.n_arms, self.n_examples, self.sampling, self.repeats
        )

    def part_of_cost(self, spent: float) -> float:
        """The part of the largest cost that is spent, at most 1. It is 0 without a limit."""
        return 0.0 if self.max_cost is None else min(1.0, spent / self.max_cost)

    @property
    def population(self) -> int | None:
        """The number of examples that an arm can see without replacement. None: unlimited."""
        return self.n_examples if self.sampling == "shared" else None

    @property
    def most_pulls(self) -> int | None:
        """The largest number of evaluations of an arm. None: unlimited."""
        return None if self.population is None else self.population * self.repeats

    @property
    def target(self) -> int | None:
        """The number of examples whose mean is estimated. None for the mean over new inputs."""
        return self.population if self.inputs == "given" else None

    @property
    def n_target(self) -> int | None:
        """The number of examples whose mean the posterior estimates, also if each evaluation draws its own example."""
        return self.n_examples if self.inputs == "given" else None

    @property
    def exhausted_at(self) -> int | None:
        """The number of examples after which the mean of an arm is known exactly. None: it is never known exactly."""
        return None if self.is_noisy else self.target

    @property
    def is_noisy(self) -> bool:
        """True if repeated evaluations of a cell may give different scores.

        Given examples count as noisy unless the user states, or repeats show, that
        repeated evaluations agree. New inputs are evaluated once, so noise is part of
        their scores.
        """
        return (
            self.repeats > 1
            or self.differs
            or (self.inputs == "given" and not self.exact)
        )

    @property
    def rounds(self) -> int | None:
        """How often an arm may see all given examples if their scores are noisy. None if scores are not noisy."""
        return self.repeats if self.is_noisy and self.target is not None else None

    @cached_property
    def with_noise(self) -> "Problem":
        """The same problem with noisy scores."""
        return self._in_same_order(replace(self, differs=True))

    @cached_property
    def without_noise(self) -> "Problem":
        """The same problem with scores that agree when evaluations are repeated."""
        return self._in_same_order(replace(self, exact=True))

    def _in_same_order(self, other: "Problem") -> "Problem":
        """The other problem with the order of this problem, which saves drawing it again."""
        vars(other).update(order=self.order, place=self.place)
        return other

    @cached_property
    def place(self) -> Int[Ints, " examples"]:
        """The place of each example in the shared order."""
        place = np.empty_like(self.order)
        place[self.order] = np.arange(len(place))
        return place

    @cached_property
    def shapes(self) -> tuple[Shape | None, ...]:
        """For each column of the goal, the differences between the examples in earlier studies. None where unknown."""
        if self.profile is None or self.examples is None:
            return (None,) * len(self.goal.columns)
        told = tuple(
            self.profile.shape(metric, self.examples.ids)
            for metric in self.goal.metrics
        )
        # Shares of a quantile and the failure rate have no profile.
        return told + (None,) * (len(self.goal.columns) - len(told))

    @cached_property
    def tells(self) -> Float[Floats, " examples"] | None:
        """How informative each example is according to earlier studies, averaged over metrics. None if unknown."""
        known = [shape.tells for shape in self.shapes if shape is not None]
        if not known:
            return None
        # A metric without a profile counts 1 for each example.
        return np.asarray(
            (np.sum(known, axis=0) + len(self.shapes) - len(known)) / len(self.shapes)
        )

    @cached_property
    def telling_order(self) -> Int[Ints, " examples"]:
        """The examples, most informative first. Equals are in the shared order."""
        if self.tells is None:
            return self.order
        return self.order[np.argsort(-self.tells[self.order], kind="stable")]

    @cached_property
    def telling_place(self) -> Int[Ints, " examples"]:
        """The place of each example in the order of informativeness."""
        if self.tells is None:
            return self.place
        place = np.empty_like(self.order)
        place[self.telling_order] = np.arange(len(place))
        return place

    @property
    def kinds_in_order(self) -> Int[Ints, " examples"]:
        """The kind, that is the segment, of the example at each place of the order of informativeness."""
        assert self.segments is not None, "a goal with segments requires them"
        return self.segments.of_examples[self.telling_order]

    @cached_property
    def feature_rank(self) -> int | None:
        """The rank of the features of all arms, whatever their units. None without features."""
        return None if self.features is None else rank(self.features)

    def draw(
        self, arms: Int[Ints, " pulls"], nth: Int[Ints, " pulls"]
    ) -> Int[Ints, " pulls"]:
        """The example of the `nth` draw (from 0) of each of the `arms` (n,). -1 without examples."""
        if self.n_examples is None:
            return np.full(len(arms), -1, dtype=np.int64)
        if self.sampling == "shared":
            # After the last example, repeats begin with the first one.
            return self.order[nth % len(self.order)]
        return counters.integers(self.seed, "example", self.n_examples, arms, nth)


def most_evaluations(
    n_arms: int, n_examples: int | None, sampling: str, repeats: int
) -> int:
    """The number of evaluations that exist, at most `checks.MOST_EVALUATIONS`."""
    if sampling != "shared" or n_examples is None:
        return checks.MOST_EVALUATIONS
    return min(n_arms * n_examples * repeats, checks.MOST_EVALUATIONS)


def grown(problem: Problem, event: object) -> Problem:
    """The problem after an event. Only new prompts, budget or examples change it."""
    if isinstance(event, Added):
        candidates = problem.candidates
        if candidates is not None and event.candidates is not None:
            candidates = candidates.joined(event.candidates)
        n_arms = problem.n_arms + len(event.texts)
        # Methods that use features plan their rounds, and refuse new prompts. So new
        # prompts have no features, and the others' are not needed any more.
        larger = replace(problem, n_arms=n_arms, features=None, candidates=candidates)
    elif isinstance(event, Extended):
        larger = replace(
            problem,
            budget=problem.budget + event.evaluations,
            max_cost=None
            if problem.max_cost is None
            else problem.max_cost + event.cost,
            n_examples=None
            if problem.n_examples is None
            else problem.n_examples + event.examples,
            examples=problem.examples
            if problem.examples is None or event.ids is None
            else problem.examples.with_more(event.ids),
            joined_examples=problem.joined_examples
            + ((event.examples,) if event.examples else ()),
        )
    else:
        return problem
    # A limit on cost alone allows all evaluations that exist, now more than before.
    if problem.is_bound_by_cost_alone:
        budget = most_evaluations(
            larger.n_arms, larger.n_examples, larger.sampling, larger.repeats
        )
        larger = replace(larger, budget=budget)
    if larger.n_examples == problem.n_examples:
        # The order is unchanged, so it need not be drawn again.
        vars(larger).update(order=problem.order, place=problem.place)
    return larger


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
    if sampling not in SAMPLINGS:
        raise InvalidArgumentError(
            f"sampling must be {' or '.join(map(repr, SAMPLINGS))}, got {short(sampling)}."
        )
    if inputs not in INPUTS:
        raise InvalidArgumentError(
            f'inputs must be {" or ".join(map(repr, INPUTS))}, got {short(inputs)}. "new" estimates the mean score '
            'on new inputs like the examples, and "given" estimates the mean over exactly these examples.'
        )
    n_examples, ids = numbered(examples)
    if inputs == "given" and (n_examples is None or sampling != "shared"):
        raise InvalidArgumentError(
            'inputs="given" needs examples=... and sampling="shared", because the mean over the given examples is '
            "estimated from evaluations of different examples."
        )
    states_repeats = repeats is not None
    repeats = whole("repeats", repeats if states_repeats else 1, 1, checks.MOST_REPEATS)
    if repeats > 1 and n_examples is None:
        raise InvalidArgumentError(
            f"repeats={repeats} needs examples=..., because a repeat evaluates a prompt on the same example again. If "
            "your evaluator draws its own examples, leave repeats out."
        )
    if not isinstance(budget, Budget):
        budget = Budget(whole("budget", budget, 1, checks.MOST_EVALUATIONS))
    labels = _labels(segments, n_examples, goal)
    in_use = None if baseline is None else prompts.arm(baseline, "baseline: ")
    goal = goal.with_baseline(in_use)
    # A budget of cost alone allows all evaluations that exist.
    everything = most_evaluations(len(prompts), n_examples, sampling, repeats)
    return Problem(
        n_arms=len(prompts),
        goal=goal if labels is None else goal.with_segments(len(set(labels))),
        budget=everything if budget.evaluations is None else budget.evaluations,
        n_examples=n_examples,
        features=_features(features, prompts.texts),
        seed=whole("seed", seed, 0, 2**64 - 1),
        sampling=str(sampling),
        failure_scores=_failure_scores(on_failure, goal),
        max_failure_rate=checks.check_number(
            "max_failure_rate", max_failure_rate, 0.0, 1.0, above=True
        ),
        max_cost=budget.cost,
        max_cost_per_evaluation=budget.max_cost_per_evaluation,
        baseline=in_use,
        examples=ids,
        repeats=repeats,
        profile=_profile(profile, goal, ids),
        candidates=prompts.candidates,
        labels=labels,
        inputs=str(inputs),
        exact=states_repeats and repeats == 1,
        proxies=_proxies(proxies, goal, len(prompts), n_examples),
    )


def _labels(
    segments: Any, n_examples: int | None, goal: Goal
) -> tuple[str, ...] | None:
    """Check the labels of the segments, one per example. None without segments, which a goal may require."""
    if segments is None:
        if goal.by_segment:
            raise InvalidArgumentError(
                "The goal has constraints or objectives by segment. Pass segments=[...], one label per example."
            )
        return None
    if hasattr(segments, "tolist"):
        # A column of a data frame, or an array.
        segments = segments.tolist()
    if not isinstance(segments, Sequence) or isinstance(segments, str):
        raise InvalidArgumentError(
            f"segments must be a list with a label for each example, such as ['en', 'de', ...]. Got {short(segments)}."
        )
    for place, label in enumerate(segments):
        if not isinstance(label, str) or not label:
            raise InvalidArgumentError(
                f"Each label in segments must be a text that is not empty. The label at position {place} is "
                f"{short(label)}."
            )
    if len(segments) != n_examples:
        raise InvalidArgumentError(
            f"The number of labels in segments is {len(segments)}, but the number of examples is "
            f"{n_examples or 0}. Pass one label per example."
        )
    return tuple(map(str, segments))


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


def _profile(
    profile: object, goal: Goal, ids: Examples | None
) -> ExampleProfile | None:
    """Check that a profile shares examples and metrics with the problem. A mapping is its JSON data."""
    if profile is None:
        return None
    if isinstance(profile, Mapping):
        try:
            profile = ExampleProfile.from_data(profile)
        except InvalidStateError as error:
            raise InvalidArgumentError(str(error)) from error
    if not isinstance(profile, ExampleProfile):
        raise InvalidArgumentError(
            "profile must be an asktell.ExampleProfile, made by ExampleProfile.of(study, ...) or from_json(text). Got "
            f"{short(profile)}."
        )
    if ids is None:
        raise InvalidArgumentError(
            f"A profile matches examples by their ids. Pass ids, such as examples=[{some(profile.ids[:2])}, ...]."
        )
    for what, known, given in (
        ("metrics", profile.metrics, goal.metrics),
        ("examples", profile.ids, ids.ids),
    ):
        if set(known).isdisjoint(given):
            raise InvalidArgumentError(
                f"The profile has none of the {what} {some(given[:3])}. Its {what} are {some(known[:3])}. Use a "
                f"profile of a study with the same {what}."
            )
    return profile


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
