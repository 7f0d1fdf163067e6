"""Example profiles: what earlier studies know about a data set's examples."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from asktell._util.extras import check_format
from asktell.errors import InvalidArgumentError, InvalidStateError
from asktell.numerics.arrays import Indices, Vector
from asktell.numerics.cells import Scored
from asktell.posterior.profile_factor import Learned, Sums, fitted, learned
from asktell.posterior.shape import Shape
from asktell.problem.checks import LARGEST, MOST_EVALUATIONS, MOST_EXAMPLES, check_number, short, some
from asktell.problem.examples import Examples

FORMAT, VERSION = "asktell.profile", 1
_LEAST_LOADING = 0.05  # of the mean, below which loadings are no measure
_DRIFT = 0.1  # of the levels' variance, that another study's levels may be off
_SMALLEST = 1e-9  # of a variance, so that none divides by 0
_SLACK = 1.001  # of sums that were rounded


class OfMetric(NamedTuple):
    """A metric's sums over the profile's examples.

    `prompts` counts those they rest on, `ability` is the sum of their abilities' squares, in the metric's units.
    """

    binary: bool
    sums: Sums
    prompts: float
    ability: float

    @property
    def variance(self) -> float:
        """That of the prompts' abilities."""
        return self.ability / max(self.prompts, _SMALLEST)


class KnownExample(NamedTuple):
    """An entry of a profile for an example and a metric.

    `level`: the expected score of an average prompt; `loading`: how much it divides prompts, in units of the average
    example's; each with its standard error. `tells`: the part of its scores' variance that is the prompts' doing, in
    units of that on an example that nobody has seen. `cells`: on how many scores that rests, weighted by age.
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
    """Per example and metric, what earlier prompts have shown: its level, how much it divides prompts, and how surely.

    Make one with `ExampleProfile.of(study, ...)`, and give it to `asktell.Selector(..., examples=ids, profile=...)`.
    Examples are matched by their ids. A profile stores sums per example only: no prompts and no texts.
    """

    def __init__(self, ids: Sequence[str], metrics: Mapping[str, OfMetric], studies: int) -> None:
        self._examples = Examples(ids)
        self._metrics = dict(metrics)
        self._studies = studies

    @classmethod
    def of(cls, *studies: Any, half_life: float | None = None) -> "ExampleProfile":
        """What these studies tell: any number of studies and selectors, the oldest first, with any prompts.

        Args:
            studies: each a `Study` or a `Selector`, with ids of its examples and scores on them. How they chose what to
                evaluate does not matter.
            half_life: after how many later studies one counts half as much as it did, for data or models that drift.
                None: all count the same.
        """
        return cls.merged(*(_of(study) for study in studies), half_life=half_life)

    @classmethod
    def merged(cls, *profiles: "ExampleProfile", half_life: float | None = None) -> "ExampleProfile":
        """What all these profiles tell together, the oldest first.

        Args:
            profiles: of studies that are not in two of them.
            half_life: as for `of`; the studies within a profile are of the same age.
        """
        if not profiles or not all(isinstance(profile, ExampleProfile) for profile in profiles):
            raise InvalidArgumentError(f"A profile is made of studies or profiles, at least one; got {some(profiles)}.")
        if half_life is not None:
            check_number("half_life", half_life, 0.0, LARGEST, above=True)
        ids = tuple(dict.fromkeys(id_ for profile in profiles for id_ in profile.ids))
        place = {id_: i for i, id_ in enumerate(ids)}
        later = np.cumsum([0, *(profile.studies for profile in reversed(profiles))])[-2::-1].tolist()
        metrics: dict[str, OfMetric] = {}
        for profile, age in zip(profiles, later, strict=True):
            weight = 1.0 if half_life is None else 0.5 ** (age / half_life)
            places = np.array([place[id_] for id_ in profile.ids], dtype=np.int64)
            for name, one in profile._metrics.items():
                before = metrics.get(name, OfMetric(True, Sums.none(len(ids)), 0.0, 0.0))
                metrics[name] = OfMetric(
                    before.binary and one.binary,
                    before.sums.plus(one.sums.into(places, len(ids)).times(weight)),
                    before.prompts + weight * one.prompts,
                    before.ability + weight * one.ability,
                )
        small = {name: one._replace(sums=one.sums.rounded()) for name, one in metrics.items()}
        return cls(ids, small, sum(profile.studies for profile in profiles))

    @property
    def ids(self) -> tuple[str, ...]:
        """The examples' ids."""
        return self._examples.ids

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that something is known of."""
        return tuple(self._metrics)

    @property
    def studies(self) -> int:
        """The number of studies it rests on."""
        return self._studies

    def examples(self, metric: str) -> list[KnownExample]:
        """The examples, most informative first."""
        if metric not in self._metrics:
            raise InvalidArgumentError(f"The profile knows no metric {short(metric)}; it knows {some(self.metrics)}.")
        known = self._metrics[metric]
        found = _learned(known)
        if found is None:  # all scores are the same
            level = float(known.sums.y.sum() / known.sums.n.sum())
            each = zip(self.ids, known.sums.n.tolist(), strict=True)
            return [KnownExample(id_, level, 0.0, 0.0, 0.0, 1.0, n) for id_, n in each]
        mean = _mean_loading(found)
        levels = found.level, np.sqrt(found.level_variance)
        columns = *levels, found.loading / mean, np.sqrt(found.loading_variance) / mean, _tells(known, found)
        rows = zip(self.ids, *(column[:-1].tolist() for column in columns), known.sums.n.tolist(), strict=True)
        return sorted((KnownExample(*row) for row in rows), key=lambda one: -one.tells)

    def shape(self, metric: str, ids: Sequence[str]) -> Shape | None:
        """In what the examples with these ids differ in a metric; None where nothing is known of that."""
        known = self._metrics.get(metric)
        found = None if known is None else _learned(known)
        if known is None or found is None:
            return None
        there = {id_: i for i, id_ in enumerate(self.ids)}
        at = np.array([there.get(id_, len(there)) for id_ in ids], dtype=np.int64)
        if (at == len(there)).all() or _mean_loading(found, at) <= 0:
            return None
        drift = _DRIFT * float(found.level_variance[-1])
        return Shape.of(
            level=found.level[at],
            loading=found.loading[at],
            example=found.level_variance[at] + drift,
            residual=_unexplained(known, found)[at],
            tells=_tells(known, found)[at],
            ability=known.variance,
        )

    def to_data(self) -> dict[str, Any]:
        """The profile as JSON's mappings, lists and numbers."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "studies": self.studies,
            "examples": list(self.ids),
            "metrics": {
                name: {
                    "binary": one.binary,
                    "prompts": one.prompts,
                    "ability": one.ability,
                    "sums": {field: column.tolist() for field, column in one.sums._asdict().items()},
                }
                for name, one in self._metrics.items()
            },
        }

    def to_json(self) -> str:
        """The profile as JSON text."""
        return json.dumps(self.to_data(), separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> "ExampleProfile":
        """The profile that `to_json` made the text of.

        Raises:
            InvalidStateError: the text is malformed, foreign, or of an unknown version.
        """
        try:
            return cls.from_data(json.loads(text))
        except (ValueError, TypeError, RecursionError) as error:
            if isinstance(error, InvalidStateError):
                raise
            raise InvalidStateError(f"The profile is not whole JSON: {error}. Is the file truncated?") from error

    @classmethod
    def from_data(cls, data: object) -> "ExampleProfile":
        """The profile that `to_data` made `data` of."""
        if not isinstance(data, dict):
            raise InvalidStateError(f"This is no profile of examples: {short(data)}.")
        check_format("The profile of examples", data, FORMAT, VERSION)
        try:
            ids, studies, metrics = data["examples"], data["studies"], data["metrics"]
            if type(studies) is not int or not 1 <= studies <= MOST_EVALUATIONS or not isinstance(ids, list):
                raise ValueError(f"studies must be a number and examples a list, got {short(studies)}, {short(ids)}")
            loaded = {str(name): _load(one, len(ids)) for name, one in metrics.items()}
            return cls(ids, loaded, studies)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
            raise InvalidStateError(f"The profile is malformed: {error}") from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExampleProfile) and self.to_data() == other.to_data()

    def __hash__(self) -> int:
        return hash((self.ids, self.metrics, self.studies))

    def __repr__(self) -> str:
        cells = max((float(one.sums.n.sum()) for one in self._metrics.values()), default=0.0)
        rests_on = f"{self.studies} studies, {cells:.0f} evaluations"
        return f"<ExampleProfile: {len(self.ids)} examples, {', '.join(self.metrics)}; of {rests_on}>"


def _of(study: object) -> ExampleProfile:
    state = getattr(getattr(study, "selector", study), "state", None)
    problem = getattr(state, "problem", None)
    if state is None or problem is None:
        raise InvalidArgumentError(f"A profile is made of studies and selectors, got {short(study)}.")
    if problem.examples is None:
        raise InvalidArgumentError(
            "A study tells of its examples only where they have ids: make it with examples=[...], a list of texts."
        )
    history = state.history
    examples, real = history.examples(), history.examples() >= 0
    if not real.any():
        raise InvalidArgumentError("The study has no scores on its examples yet.")
    cells = Scored.of(history.arms()[real], examples[real], history.scores()[real], problem.n_examples)
    n_prompts, metrics = len(np.unique(cells.arms)), dict[str, OfMetric]()
    for j, name in enumerate(problem.goal.metrics):
        binary = bool(np.isin(history.scores()[real, j], (0.0, 1.0)).all())
        columns = cells.arms, cells.examples, cells.scores[:, j]
        sums, ability = fitted(*columns, problem.n_arms, problem.n_examples, binary)
        metrics[name] = OfMetric(binary, sums, float(n_prompts), ability * n_prompts)
    return ExampleProfile(problem.examples.ids, metrics, 1)


def _learned(known: OfMetric) -> Learned | None:
    """What is known of each example, and last of one that nobody has seen; None if all scores are the same."""
    sums, total = known.sums, known.sums.n.sum()
    spread = sums.yy.sum() / total - (sums.y.sum() / total) ** 2
    if spread <= _SMALLEST * sums.yy.sum() / total:
        return None
    return learned(Sums(*(np.append(column, 0.0) for column in sums)), known.binary)


def _unexplained(known: OfMetric, found: Learned) -> Vector:
    """(E,) variance of a score given its prompt's ability, for what is not known of the loading too."""
    return np.asarray(found.residual + found.loading_variance * known.variance)


def _tells(known: OfMetric, found: Learned) -> Vector:
    """(E,) the part of a score's variance that is its prompt's doing, over that on an example nobody has seen."""
    own = found.loading**2 * known.variance
    share = own / (own + _unexplained(known, found))
    return np.asarray(share / share[-1]) if share[-1] > 0 else np.ones(len(share))


def _mean_loading(found: Learned, at: Indices | None = None) -> float:
    mean = float((found.loading[:-1] if at is None else found.loading[at]).mean())
    return mean if mean > _LEAST_LOADING * float(found.loading[-1]) else 0.0


def _load(data: Any, n_examples: int) -> OfMetric:
    columns = [np.array(data["sums"][name], dtype=np.float64) for name in Sums._fields]
    for column in columns:
        if column.shape != (n_examples,) or not (np.abs(column) <= LARGEST).all():
            raise ValueError(f"sums must be {n_examples} finite numbers each")
    sums = Sums(*columns)
    prompts, ability = (check_number(name, data[name], 0.0, LARGEST) for name in ("prompts", "ability"))
    if (sums.n < 0).any() or (sums.aa < 0).any() or (sums.yy < 0).any() or type(data["binary"]) is not bool:
        raise ValueError("n, aa and yy must be at least 0, and binary true or false")
    possible = sums.a**2 <= _SLACK * sums.n * sums.aa
    possible &= (sums.y**2 <= _SLACK * sums.n * sums.yy) & (sums.ya**2 <= _SLACK * sums.aa * sums.yy)
    if not possible.all():
        raise ValueError("the sums contradict each other")
    if n_examples > MOST_EXAMPLES or not sums.n.sum() > 0:
        raise ValueError("there are no scores")
    return OfMetric(data["binary"], sums, prompts, ability)
