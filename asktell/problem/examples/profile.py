"""Example profiles: the levels and the informativeness of examples, learned from earlier studies.

In the terms of item response theory, the level of an example is its difficulty, and its
loading is its discrimination.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from asktell.errors import InvalidArgumentError, InvalidStateError
from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.cells import Cells
from asktell.numerics.shapes import Float, Int
from asktell.problem.checks import (
    LARGEST,
    MOST_EVALUATIONS,
    MOST_EXAMPLES,
    MalformedError,
    check_format,
    check_number,
)
from asktell.problem.examples.ids import ExampleIds
from asktell.problem.examples.profile_factor import Learned, Sums, fitted, learned
from asktell.problem.examples.shape import Shape
from asktell.problem.formats import checked, parse
from asktell.problem.words import short, some

FORMAT, VERSION = "asktell.profile", 1
_WHAT = "The profile of examples"
# Mean loading, relative to the loading of an unseen example, below which loadings
# measure nothing.
_LEAST_LOADING = 0.05
# Variance between the levels of two studies, relative to the variance of the levels.
_DRIFT = 0.1
# Smallest relative variance, which prevents a division by 0.
_SMALLEST = 1e-9
# Tolerance of the checks of saved sums, which were rounded.
_SLACK = 1.001


class OfMetric(NamedTuple):
    """The sums of a metric for each example of a profile.

    - `binary`: True if all scores are 0 or 1.
    - `prompts`: the number of prompts behind the sums, weighted by age.
    - `ability`: the sum of the squared abilities of these prompts, in squared units of
      the metric.
    """

    binary: bool
    sums: Sums
    prompts: float
    ability: float

    def plus(
        self,
        other: "OfMetric",
        places: Int[Ints, " examples"],
        n_examples: int,
        weight: float,
    ) -> "OfMetric":
        """The sums of both. The examples of `other` are at these `places`, and its prompts have this weight."""
        return OfMetric(
            self.binary and other.binary,
            self.sums.plus(other.sums.into(places, n_examples).times(weight)),
            self.prompts + weight * other.prompts,
            self.ability + weight * other.ability,
        )

    @property
    def variance(self) -> float:
        """The variance of the abilities of the prompts."""
        return self.ability / max(self.prompts, _SMALLEST)


class KnownExample(NamedTuple):
    """What a profile has recorded about one example in one metric. See `ExampleProfile.examples`.

    Attributes:
        id: the id of the example.
        level: the expected score of an average prompt on the example, in units of the
            metric. It shows how hard the example is.
        level_error: the standard error of `level`.
        loading: how strongly scores on the example follow the quality of the prompts. 1
            for an average example, 0 if they do not, below 0 if better prompts score
            worse.
        loading_error: the standard error of `loading`.
        tells: how much a score on the example tells about the quality of its prompt,
            compared with an unknown example, which has 1. The higher, the better the
            example distinguishes prompts.
        cells: the number of pairs (prompt, example) with a score, over all studies.
            With a `half_life`, older studies count less.
    """

    id: str
    level: float
    level_error: float
    loading: float
    loading_error: float
    tells: float
    cells: float


@final
class ExampleProfile:
    """What earlier studies have shown about each example: how hard it is, and how well it distinguishes prompts.

    Make a profile with `ExampleProfile.of(study, ...)` instead of the class itself, and
    pass it to `asktell.Selector(..., examples=ids, profile=...)`. Examples are matched
    by their ids. For each example, a profile stores the id and, for each metric, a few
    sums over its scores. It stores neither prompts nor texts of examples or responses.

        >>> import asktell
        >>> scores = {"a": [1, 1, 0], "b": [1, 0, 0], "c": [1, 1, 1]}
        >>> goal = asktell.BestFeasible("accuracy")
        >>> selector = asktell.Selector(list(scores), goal, budget=9, examples=["easy", "medium", "hard"])
        >>> while trial := selector.ask():
        ...     recorded = selector.tell(trial, scores[trial.prompt][trial.example])
        >>> profile = asktell.ExampleProfile.of(selector)
        >>> profile.ids, profile.metrics, profile.studies
        (('easy', 'medium', 'hard'), ('accuracy',), 1)
    """

    def __init__(
        self, ids: Sequence[str], metrics: Mapping[str, OfMetric], studies: int
    ) -> None:
        self._examples = ExampleIds(ids)
        self._metrics = dict(metrics)
        self._studies = studies

    @classmethod
    def of(cls, *studies: Any, half_life: float | None = None) -> "ExampleProfile":
        """Make a profile from studies or selectors, the oldest first. Their prompts and methods may differ.

        Args:
            studies: `Study` or `Selector` objects whose examples have ids and scores.
            half_life: the number of later studies after which a study counts half. With
                `half_life=2`, a study counts half after two later studies, and a
                quarter after four. Use it if the data or the models change over time.
                None (default): all studies count the same.

        Raises:
            InvalidArgumentError: an argument is not a study or selector, its examples
                have no ids, it has no scores, or `half_life` is not above 0.
        """
        return cls.merged(*(_of(study) for study in studies), half_life=half_life)

    @classmethod
    def merged(
        cls, *profiles: "ExampleProfile", half_life: float | None = None
    ) -> "ExampleProfile":
        """Merge profiles, the oldest first.

        Args:
            profiles: profiles of different studies. A study that is in two profiles
                counts twice.
            half_life: as for `of`. The later studies of a study are those in later
                profiles, and not those in its own profile.

        Raises:
            InvalidArgumentError: an argument is not a profile, there is no profile, or
                `half_life` is not above 0.
        """
        if not profiles or not all(
            isinstance(profile, ExampleProfile) for profile in profiles
        ):
            raise InvalidArgumentError(
                "A profile is made from at least one study, or merged from at least one profile. Got "
                f"[{some(profiles)}]."
            )
        if half_life is not None:
            half_life = check_number("half_life", half_life, 0.0, LARGEST, above=True)
        ids = tuple(dict.fromkeys(id_ for profile in profiles for id_ in profile.ids))
        place = {id_: i for i, id_ in enumerate(ids)}
        # The age of a profile is the number of studies in later profiles.
        later = np.cumsum([0, *(profile.studies for profile in reversed(profiles))])[
            -2::-1
        ].tolist()
        metrics: dict[str, OfMetric] = {}
        for profile, age in zip(profiles, later, strict=True):
            weight = 1.0 if half_life is None else 0.5 ** (age / half_life)
            places = np.array([place[id_] for id_ in profile.ids], dtype=np.int64)
            for name, one in profile._metrics.items():
                before = metrics.get(
                    name, OfMetric(True, Sums.none(len(ids)), 0.0, 0.0)
                )
                metrics[name] = before.plus(one, places, len(ids), weight)
        small = {
            name: one._replace(sums=one.sums.rounded()) for name, one in metrics.items()
        }
        return cls(ids, small, sum(profile.studies for profile in profiles))

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the examples."""
        return self._examples

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics in the profile."""
        return tuple(self._metrics)

    @property
    def studies(self) -> int:
        """The number of studies in the profile."""
        return self._studies

    def examples(self, metric: str) -> list[KnownExample]:
        """What is known about each example in a metric. Examples that distinguish prompts best come first.

        Raises:
            InvalidArgumentError: the profile does not have the metric.
        """
        if metric not in self._metrics:
            raise InvalidArgumentError(
                f"The profile has no metric {short(metric)}. Its metrics are {some(self.metrics)}."
            )
        of_metric = self._metrics[metric]
        learned_values = _learned(of_metric)
        if learned_values is None:
            # All scores are equal.
            level = float(of_metric.sums.y.sum() / of_metric.sums.n.sum())
            counts = zip(self.ids, of_metric.sums.n.tolist(), strict=True)
            return [
                KnownExample(id_, level, 0.0, 0.0, 0.0, 1.0, n) for id_, n in counts
            ]
        mean = _mean_loading(learned_values)
        levels = learned_values.level, np.sqrt(learned_values.level_variance)
        columns = (
            *levels,
            learned_values.loading / mean,
            np.sqrt(learned_values.loading_variance) / mean,
            _informativeness(of_metric, learned_values),
        )
        rows = zip(
            self.ids,
            *(column[:-1].tolist() for column in columns),
            of_metric.sums.n.tolist(),
            strict=True,
        )
        return sorted((KnownExample(*row) for row in rows), key=lambda one: -one.tells)

    def shape(self, metric: str, ids: Sequence[str]) -> Shape | None:
        """How the examples with these ids differ in a metric, in the form that the method "auto" uses.

        None if the profile does not have the metric, if it has none of these examples,
        if all scores are equal, or if better prompts do not score better on these
        examples.

        A `Shape` has an array for each parameter of the examples, such as `loading` and
        `tells`, in the order of `ids`.
        """
        of_metric = self._metrics.get(metric)
        learned_values = None if of_metric is None else _learned(of_metric)
        if of_metric is None or learned_values is None:
            return None
        there = {id_: i for i, id_ in enumerate(self.ids)}
        at = np.array([there.get(id_, len(there)) for id_ in ids], dtype=np.int64)
        if (at == len(there)).all() or _mean_loading(learned_values, at) <= 0:
            return None
        drift = _DRIFT * float(learned_values.level_variance[-1])
        return Shape.of(
            level=learned_values.level[at],
            loading=learned_values.loading[at],
            example=learned_values.level_variance[at] + drift,
            residual=_unexplained(of_metric, learned_values)[at],
            informativeness=_informativeness(of_metric, learned_values)[at],
            ability=of_metric.variance,
        )

    def to_data(self) -> dict[str, Any]:
        """The profile as mappings, lists and numbers, which JSON can represent. `from_data` reads it."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "studies": self.studies,
            "examples": list(self.ids),
            "metrics": {
                name: {
                    "binary": of_metric.binary,
                    "prompts": of_metric.prompts,
                    "ability": of_metric.ability,
                    "sums": {
                        field: column.tolist()
                        for field, column in of_metric.sums._asdict().items()
                    },
                }
                for name, of_metric in self._metrics.items()
            },
        }

    def to_json(self) -> str:
        """The profile as JSON text. `from_json` reads it."""
        return json.dumps(self.to_data(), separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> "ExampleProfile":
        """Read the text that `to_json` returned.

        Raises:
            InvalidStateError: the text is malformed, not a profile, or of an unknown
                version.
        """
        return cls.from_data(parse(text, _WHAT))

    @classmethod
    @checked(_WHAT)
    def from_data(cls, data: object) -> "ExampleProfile":
        """Read the data that `to_data` returned.

        Raises:
            InvalidStateError: the data are malformed, not a profile, or of an unknown
                version.
        """
        if not isinstance(data, dict):
            raise InvalidStateError(
                f"{_WHAT} must be a mapping, as in the JSON of ExampleProfile.to_json(), got {short(data)}."
            )
        check_format(_WHAT, data, FORMAT, VERSION)
        ids, studies, metrics = data["examples"], data["studies"], data["metrics"]
        if (
            type(studies) is not int
            or not 1 <= studies <= MOST_EVALUATIONS
            or not isinstance(ids, list)
        ):
            raise MalformedError(
                f"studies must be a whole number above 0, got {short(studies)}, and examples a list, got {short(ids)}."
            )
        loaded = {
            str(name): _load(data_of_metric, len(ids))
            for name, data_of_metric in metrics.items()
        }
        return cls(ids, loaded, studies)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExampleProfile) and self.to_data() == other.to_data()

    def __hash__(self) -> int:
        return hash((self.ids, self.metrics, self.studies))

    def __repr__(self) -> str:
        cells = max(
            (float(of_metric.sums.n.sum()) for of_metric in self._metrics.values()),
            default=0.0,
        )
        rests_on = f"{self.studies} studies, {cells:.0f} evaluations"
        return f"<ExampleProfile: {len(self.ids)} examples, {', '.join(self.metrics)}; of {rests_on}>"


def _of(study: object) -> ExampleProfile:
    """The profile of one study or selector."""
    state = getattr(getattr(study, "selector", study), "state", None)
    problem = getattr(state, "problem", None)
    if state is None or problem is None:
        raise InvalidArgumentError(
            f"ExampleProfile.of() needs studies or selectors, got {short(study)}."
        )
    if problem.examples.ids is None:
        raise InvalidArgumentError(
            "A profile needs a study whose examples have ids. Create the study with examples=[...], a list of ids."
        )
    history = state.history
    examples, real = history.examples(), history.examples() >= 0
    if not real.any():
        raise InvalidArgumentError(
            "The study has no scores on its examples yet. Make its profile after the first scores."
        )
    cells = Cells.of(
        history.arms()[real], examples[real], history.scores()[real], problem.examples.n
    )
    n_prompts, metrics = len(np.unique(cells.arms)), dict[str, OfMetric]()
    for j, name in enumerate(problem.goal.metrics):
        binary = bool(np.isin(history.scores()[real, j], (0.0, 1.0)).all())
        columns = cells.arms, cells.examples, cells.scores[:, j]
        sums, ability = fitted(*columns, problem.n_arms, problem.examples.n, binary)
        metrics[name] = OfMetric(binary, sums, float(n_prompts), ability * n_prompts)
    return ExampleProfile(problem.examples.ids, metrics, 1)


def _learned(known: OfMetric) -> Learned | None:
    """The estimates for each example, and for an unseen example in the last place. None if all scores are equal."""
    sums, total = known.sums, known.sums.n.sum()
    spread = sums.yy.sum() / total - (sums.y.sum() / total) ** 2
    if spread <= _SMALLEST * sums.yy.sum() / total:
        return None
    return learned(Sums(*(np.append(column, 0.0) for column in sums)), known.binary)


def _unexplained(known: OfMetric, found: Learned) -> Float[Floats, " examples"]:
    """The variance of a score given the ability of its prompt, including the uncertainty of the loading."""
    return np.asarray(found.residual + found.loading_variance * known.variance)


def _informativeness(known: OfMetric, found: Learned) -> Float[Floats, " examples"]:
    """The part of the variance of scores that comes from the prompts, relative to an unseen example."""
    explained = found.loading**2 * known.variance
    share = explained / (explained + _unexplained(known, found))
    return np.asarray(share / share[-1]) if share[-1] > 0 else np.ones(len(share))


def _mean_loading(found: Learned, at: Int[Ints, " some"] | None = None) -> float:
    """The mean loading of all examples, or of the examples `at` some places. 0 if it is too small to be estimated."""
    mean = float((found.loading[:-1] if at is None else found.loading[at]).mean())
    return mean if mean > _LEAST_LOADING * float(found.loading[-1]) else 0.0


def _load(data: Any, n_examples: int) -> OfMetric:
    """The sums of a metric, checked. Any error means that the data are malformed."""
    columns = [np.array(data["sums"][name], dtype=np.float64) for name in Sums._fields]
    for column in columns:
        if column.shape != (n_examples,) or not (np.abs(column) <= LARGEST).all():
            raise MalformedError(
                f"Each column of sums must have {n_examples} finite numbers."
            )
    sums = Sums(*columns)
    prompts, ability = (
        check_number(f"{name} of a metric", data[name], 0.0, LARGEST)
        for name in ("prompts", "ability")
    )
    if (
        (sums.n < 0).any()
        or (sums.aa < 0).any()
        or (sums.yy < 0).any()
        or type(data["binary"]) is not bool
    ):
        raise MalformedError(
            "n, aa and yy must be at least 0, and binary must be true or false."
        )
    # The Cauchy-Schwarz inequality, for each example.
    possible = sums.a**2 <= _SLACK * sums.n * sums.aa
    possible &= (sums.y**2 <= _SLACK * sums.n * sums.yy) & (
        sums.ya**2 <= _SLACK * sums.aa * sums.yy
    )
    if not possible.all():
        raise MalformedError("The sums contradict each other.")
    if n_examples > MOST_EXAMPLES or not sums.n.sum() > 0:
        raise MalformedError("A metric has no scores.")
    return OfMetric(data["binary"], sums, prompts, ability)
