"""The examples of a selection: their order, how often each may be evaluated, and what is known about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from asktell.errors import InvalidArgumentError, InvalidStateError
from asktell.numerics import counters
from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.cached import cached_property
from asktell.numerics.shapes import Bool, Float, Int
from asktell.problem import checks
from asktell.problem.checks import whole
from asktell.problem.examples.ids import ExampleIds, changes, numbered
from asktell.problem.examples.profile import ExampleProfile
from asktell.problem.examples.segments import Segments
from asktell.problem.examples.shape import Shape
from asktell.problem.goals import Goal
from asktell.problem.objectives import Subset
from asktell.problem.words import short, some

AnyProfile: TypeAlias = ExampleProfile | Mapping[str, Any]
"""An example profile, or the mapping in its JSON."""

SAMPLINGS = ("shared", "iid")
INPUTS = ("new", "given")


@dataclass(frozen=True, eq=False)
class Examples:
    """The examples of a selection, numbered from 0.

    - `n`: the number of examples, N. None: the evaluator draws its own examples.
    - `ids`: the ids of the examples, None without ids.
    - `seed`: the seed of their order.
    - `sampling`: with "shared", the t-th evaluation of every prompt uses the t-th
      example of one seeded order, without replacement. With "iid", every evaluation
      draws its own example.
    - `repeats`: how often the same cell (arm, example) may be evaluated. Above 1,
      scores are noisy and their mean counts. An arm is evaluated on all examples in
      the order before any example comes again. With "iid", a cell is evaluated as
      often as it is drawn, and `repeats` only decides whether scores are noisy.
    - `joined`: the number of examples that were added, one item per event.
    - `inputs`: the population of estimates, probabilities and claims. With "new", a
      mean is the expected score on a new input that is evaluated once, and the examples
      are a sample of such inputs. With "given", it is the mean over exactly the given
      examples.
    - `exact`: True if the user states that repeated evaluations give the same scores.
    - `differs`: True if repeated evaluations are known to differ although `repeats` is
      1.
    - `labels` (N,): the label of the segment of each example, None without segments.
    - `profile`: the example profile from earlier studies, None without one.
    - `metrics`: for each column of the goal the metric that a profile may have, None
      for shares of a quantile and the failure rate.
    """

    n: int | None = None
    ids: ExampleIds | None = None
    seed: int = 0
    sampling: str = "shared"
    repeats: int = 1
    joined: tuple[int, ...] = ()
    inputs: str = "new"
    exact: bool = False
    differs: bool = False
    labels: tuple[str, ...] | None = None
    profile: ExampleProfile | None = None
    metrics: tuple[str | None, ...] = ()

    # How many there are

    @cached_property
    def population(self) -> int | None:
        """The number of examples that an arm can see without replacement. None: unlimited."""
        return self.n if self.sampling == "shared" else None

    @cached_property
    def most_pulls(self) -> int | None:
        """The largest number of evaluations of an arm. None: unlimited."""
        return None if self.population is None else self.population * self.repeats

    def most_evaluations(self, n_arms: int) -> int:
        """The number of evaluations of all arms that exist, at most `checks.MOST_EVALUATIONS`."""
        most = self.most_pulls
        if most is None:
            return checks.MOST_EVALUATIONS
        return min(n_arms * most, checks.MOST_EVALUATIONS)

    @cached_property
    def target(self) -> int | None:
        """The number of examples whose mean is estimated. None for the mean over new inputs."""
        return self.population if self.inputs == "given" else None

    @cached_property
    def exhausted_at(self) -> int | None:
        """The number of examples after which the mean of an arm is known exactly. None: it is never known exactly."""
        return None if self.is_noisy else self.target

    @cached_property
    def rounds(self) -> int | None:
        """How often an arm may see all given examples if their scores are noisy. None if scores are not noisy."""
        return self.repeats if self.is_noisy and self.target is not None else None

    @cached_property
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

    def position(self, example: int | str) -> int:
        """The position of an example, given by its position or its id.

        Raises:
            InvalidArgumentError: there is no such example.
        """
        if self.n is None:
            raise InvalidArgumentError(
                f"Got example {short(example)}, but this selector was made without `examples`. Leave the example out, "
                "or pass Selector(..., examples=...)."
            )
        if not isinstance(example, str):
            return whole("example", example, 0, self.n - 1)
        if self.ids is None:
            raise InvalidArgumentError(
                f"Got example {short(example)}, but this selector was made with a number of examples and no ids. Pass "
                f"the position of the example, from 0 to {self.n - 1}."
            )
        return self.ids.position(example)

    def check_same(self, what: str, examples: object) -> None:
        """Check that these are the examples of something that is opened again. None fits any.

        Args:
            what: the name of that thing in the error.
            examples: the number of examples, or their ids.

        Raises:
            InvalidArgumentError: the examples are others. The message lists the
                differences.
        """
        if examples is None:
            return
        n, ids = numbered(examples)
        if self.ids is not None and ids is not None:
            changed = str(changes(self.ids, ids))
        else:
            changed = "" if n == self.n else f"{self.n or 0:,} then, {n:,} now"
        if changed:
            raise InvalidArgumentError(
                f"{what} was made with other examples. Compared with those, your examples have these changes: "
                f"{changed}. Pass the same examples in the same order.{self._how_to_add(n, ids)}"
            )

    def _how_to_add(self, n: int | None, ids: ExampleIds | None) -> str:
        """Return a sentence on how to add examples, if these are the first of `n` examples."""
        if self.n is None or n is None or n <= self.n:
            return ""
        more: int | list[str] = n - self.n
        if self.ids is not None:
            if ids is None or ids[: self.n] != self.ids:
                return ""
            more = list(ids[self.n :])
        return f" To add the new ones, call extend(examples={short(more)}) first, if the method allows it."

    # Others like these

    def with_more(self, n: int, ids: Sequence[str] | None) -> "Examples":
        """These examples, followed by `n` more, which have ids if these have ids."""
        if self.n is None or not n:
            return self
        earlier = self.ids
        return replace(
            self,
            n=self.n + n,
            ids=earlier if earlier is None or ids is None else earlier.with_more(ids),
            joined=(*self.joined, n),
        )

    def with_noise(self, is_noisy: bool) -> "Examples":
        """The same examples, of which repeats have shown whether their scores are noisy."""
        return replace(self, differs=True) if is_noisy else replace(self, exact=True)

    # Their order

    @cached_property
    def order(self) -> Int[Ints, " examples"]:
        """The shared order of the examples. Added examples follow the existing examples."""
        # One order for each extension, so that no example changes its place.
        first = (self.n or 0) - sum(self.joined)
        order = counters.permutation(self.seed, "example order", first)
        for number, n in enumerate(self.joined, start=1):
            more = len(order) + counters.permutation(
                self.seed, "example order", n, number
            )
            order = np.concatenate((order, more))
        return order

    @cached_property
    def place(self) -> Int[Ints, " examples"]:
        """The place of each example in the shared order."""
        return _places(self.order)

    def draw(
        self, arms: Int[Ints, " pulls"], nth: Int[Ints, " pulls"]
    ) -> Int[Ints, " pulls"]:
        """The example of the `nth` draw (from 0) of each of the `arms` (n,). -1 without examples."""
        if self.n is None:
            return np.full(len(arms), -1, dtype=np.int64)
        if self.sampling == "shared":
            # After the last example, repeats begin with the first one.
            return self.order[nth % len(self.order)]
        return counters.integers(self.seed, "example", self.n, arms, nth)

    # What earlier studies have shown

    @cached_property
    def shapes(self) -> tuple[Shape | None, ...]:
        """For each column of the goal, the differences between the examples in earlier studies. None where unknown."""
        profile, ids = self.profile, self.ids
        return tuple(
            None
            if profile is None or ids is None or metric is None
            else profile.shape(metric, ids)
            for metric in self.metrics
        )

    @cached_property
    def informativeness(self) -> Float[Floats, " examples"] | None:
        """How informative each example is according to earlier studies, averaged over metrics. None if unknown."""
        by_metric = [
            shape.informativeness for shape in self.shapes if shape is not None
        ]
        if not by_metric:
            return None
        # A metric without a profile counts 1 for each example.
        n = len(self.shapes)
        return np.asarray((np.sum(by_metric, axis=0) + n - len(by_metric)) / n)

    @cached_property
    def informative_order(self) -> Int[Ints, " examples"]:
        """The examples, most informative first. Equals are in the shared order."""
        if self.informativeness is None:
            return self.order
        return self.order[np.argsort(-self.informativeness[self.order], kind="stable")]

    @cached_property
    def informative_place(self) -> Int[Ints, " examples"]:
        """The place of each example in the order of informativeness."""
        return (
            self.place
            if self.informativeness is None
            else _places(self.informative_order)
        )

    # Segments

    @cached_property
    def segments(self) -> Segments | None:
        """The segments of the examples. None without segments."""
        return None if self.labels is None else Segments.of(self.labels)

    def is_in(
        self, subset: Subset, examples: Int[Ints, " cells"]
    ) -> Bool[Bools, " cells"]:
        """Whether each example belongs to the subset. -1, an example that is none of the N, belongs to none."""
        kinds = self._segments.of_examples[examples]
        return np.asarray((examples >= 0) & (kinds == subset.kind))

    def size_of(self, subset: Subset) -> int:
        """The number of examples in the subset."""
        return int(self._segments.sizes[subset.kind])

    @property
    def kinds_in_order(self) -> Int[Ints, " examples"]:
        """The kind, that is the segment, of the example at each place of the order of informativeness."""
        return self._segments.of_examples[self.informative_order]

    @property
    def _segments(self) -> Segments:
        """The segments, which a goal with segments requires."""
        assert self.segments is not None, "checked with the goal"
        return self.segments


def _places(order: Int[Ints, " examples"]) -> Int[Ints, " examples"]:
    """The place of each example in an order."""
    place = np.empty_like(order)
    place[order] = np.arange(len(place))
    return place


def checked_examples(
    examples: int | Sequence[str] | None,
    goal: Goal,
    seed: int,
    sampling: str,
    repeats: int | None,
    profile: AnyProfile | None,
    segments: Sequence[str] | None,
    inputs: str,
) -> Examples:
    """The examples that the arguments of a selection describe. See `asktell.Selector`.

    Raises:
        InvalidArgumentError: an argument is invalid.
    """
    if sampling not in SAMPLINGS:
        raise InvalidArgumentError(
            f"sampling must be {' or '.join(map(repr, SAMPLINGS))}, got {short(sampling)}."
        )
    if inputs not in INPUTS:
        raise InvalidArgumentError(
            f'inputs must be {" or ".join(map(repr, INPUTS))}, got {short(inputs)}. "new" estimates the mean score '
            'on new inputs like the examples, and "given" estimates the mean over exactly these examples.'
        )
    n, ids = numbered(examples)
    if inputs == "given" and (n is None or sampling != "shared"):
        raise InvalidArgumentError(
            'inputs="given" needs examples=... and sampling="shared", because the mean over the given examples is '
            "estimated from evaluations of different examples."
        )
    times = whole("repeats", 1 if repeats is None else repeats, 1, checks.MOST_REPEATS)
    if times > 1 and n is None:
        raise InvalidArgumentError(
            f"repeats={times} needs examples=..., because a repeat evaluates a prompt on the same example again. If "
            "your evaluator draws its own examples, leave repeats out."
        )
    n_others = len(goal.columns) - len(goal.metrics)
    return Examples(
        n,
        ids,
        seed,
        str(sampling),
        times,
        inputs=str(inputs),
        exact=repeats is not None and times == 1,
        labels=_labels(segments, n, goal),
        profile=_profile(profile, goal, ids),
        metrics=(*goal.metrics, *(None,) * n_others),
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


def _profile(
    profile: object, goal: Goal, ids: ExampleIds | None
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
    for what, of_profile, of_selection in (
        ("metrics", profile.metrics, goal.metrics),
        ("examples", profile.ids, ids),
    ):
        if set(of_profile).isdisjoint(of_selection):
            raise InvalidArgumentError(
                f"The profile has none of the {what} {some(of_selection[:3])}. Its {what} are "
                f"{some(of_profile[:3])}. Use a profile of a study with the same {what}."
            )
    return profile
