"""The JSON of responses. Operations return these types, and the OpenAPI document describes them.

A response that contains a value of the engine has the fields of this value's class.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import (
    Annotated,
    Any,
    Literal,
    # TypedDict is from typing_extensions, because pydantic reads the TypedDict of
    # `typing` only from Python 3.12 on.
    NotRequired,
    TypeAlias,
    get_type_hints,
)

from pydantic import ConfigDict, GetCoreSchemaHandler, with_config
from pydantic_core import CoreSchema
from typing_extensions import TypedDict

import asktell
from asktell.extend import Evaluation, Holding

_described = with_config(ConfigDict(use_attribute_docstrings=True))


class _FieldsOf:
    """Marks data as an object with the fields of a class.

    Args:
        kind: the class.
        others: types of fields whose JSON differs from the class.
    """

    def __init__(self, kind: type, **others: Any) -> None:
        self._kind, self._others = kind, others

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return handler.generate_schema(self._as_typed_dict)

    # pydantic would take a second TypedDict for another schema.
    @cached_property
    def _as_typed_dict(self) -> Any:
        hints = get_type_hints(self._kind, include_extras=True)
        public = {
            name: hint for name, hint in hints.items() if not name.startswith("_")
        }
        made = TypedDict(self._kind.__name__, {**public, **self._others})  # type: ignore[misc]
        made.__doc__ = self._kind.__doc__
        return made


Trial: TypeAlias = Annotated[dict[str, Any], _FieldsOf(asktell.Trial)]
Held: TypeAlias = Annotated[dict[str, Any], _FieldsOf(Holding, trial=Trial)]
Told: TypeAlias = Annotated[dict[str, Any], _FieldsOf(Evaluation)]
Difference: TypeAlias = Annotated[
    dict[str, Any],
    _FieldsOf(
        asktell.Difference, verdict=Literal["better", "worse", "equal", "undecided"]
    ),
]
Comparison: TypeAlias = Annotated[
    dict[str, Any],
    _FieldsOf(
        asktell.Comparison, differences=Mapping[str, Difference], guaranteed=bool
    ),
]
_Factors: TypeAlias = Mapping[
    str, Mapping[str, Mapping[str, tuple[float, float | None]]]
]
Result: TypeAlias = Annotated[
    dict[str, Any],
    _FieldsOf(
        asktell.Result,
        goal=str,
        metrics=list[str],
        inputs=Literal["new", "given"],
        example_ids=NotRequired[list[str]],
        factors=NotRequired[_Factors],
        comparison=Comparison | None,
    ),
]


class Report(TypedDict):
    """The data of a report. Only `format` and `version` are stable."""

    format: str
    version: int


ReportData: TypeAlias = Annotated[dict[str, Any], _FieldsOf(Report)]


class Health(TypedDict):
    """The service runs, and its storage responds."""

    status: Literal["ok"]


class Names(TypedDict):
    """The names of all studies, in the order in which they were made."""

    studies: list[str]


@_described
class Info(TypedDict):
    """A study's progress."""

    name: str
    metrics: list[str]
    """In the order of score vectors."""
    goal: str
    budget: int
    """Maximum evaluations, or 100000000 if unlimited."""
    spent_cost: float
    """Sum of the costs recorded."""
    max_cost: float | None
    """Maximum cost, or null if unlimited."""
    done: bool
    """True when no more trials will be asked."""
    paused: bool
    """True when workers get no trials until the study is resumed."""
    spent: int
    """Evaluations recorded so far."""
    pending: int
    """Trials whose scores are not recorded yet."""
    active: int
    """Prompts that are not eliminated."""
    examples: int | None
    """Number of examples, or null if the evaluator draws its own."""
    repeats: int
    """Maximum evaluations of a prompt on the same example."""
    baseline: int | str | None
    """Id of the prompt in use, or null if not given."""
    definition: dict[str, Any]
    """Goal and method, as in a saved selector."""


class ExampleIds(TypedDict):
    """Ids of the examples by position (a trial's `example`), or null if they have none."""

    ids: list[str] | None


@_described
class Trials(TypedDict):
    """Trials to evaluate. If a trial's `example` is null, draw one yourself."""

    trials: list[Trial]
    done: bool
    """True when the selection has ended. If false and there are no trials, ask again later."""
    paused: NotRequired[Literal[True]]
    """Present if the response has no trials because the study is paused."""
    repeats: NotRequired[list[int]]
    """Number of earlier evaluations of each trial's prompt on its example. Omitted if all are 0."""


class HeldTrials(TypedDict):
    """The trials that a worker still holds, oldest first."""

    trials: list[Trial]


class Workers(TypedDict):
    """The pending trials and the workers that hold them, oldest first."""

    holdings: list[Held]


class Taken(TypedDict):
    """True if this request recorded something.

    False if the scores were recorded before, or another worker has the trial.
    """

    taken: bool


class Joined(TypedDict):
    """Ids of the added prompts, in the order of the request."""

    ids: list[int | str]


class InvalidPart(TypedDict):
    """A part of a request that is invalid."""

    where: str
    what: str


@_described
class Problem(TypedDict):
    """An error, as problem details (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    pending: NotRequired[list[int]]
    """Ids of the pending trials, if the trial is unknown."""
    errors: NotRequired[list[InvalidPart]]
    """The invalid parts of the request, if it has any."""


class Outcome(TypedDict):
    """The outcome for one trial. `taken` is true if its scores were recorded."""

    taken: bool
    problem: Problem | None


class Outcomes(TypedDict):
    """The outcome for each trial, in the order of the request."""

    outcomes: list[Outcome]


class Evaluations(TypedDict):
    """Evaluations in the order in which they were recorded. If there are fewer than `n`, these are the latest."""

    evaluations: list[Told]
