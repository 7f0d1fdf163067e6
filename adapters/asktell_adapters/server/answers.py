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

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, with_config
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
        typed_dict = TypedDict(self._kind.__name__, {**public, **self._others})  # type: ignore[misc]
        typed_dict.__doc__ = self._kind.__doc__
        return typed_dict


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
        asktell.Comparison,
        differences=Mapping[str, Difference],
        guaranteed=Annotated[
            bool, Field(description="True if all differences are guaranteed.")
        ],
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
        metrics=Annotated[
            list[str], Field(description="The names of the goal's metrics.")
        ],
        inputs=Literal["new", "given"],
        example_ids=NotRequired[list[str]],
        factors=NotRequired[
            Annotated[
                _Factors,
                Field(
                    description="Factor -> level -> metric -> [estimate, standard error] of the mean of all candidates "
                    "with this level. The standard error is null if there is not enough data."
                ),
            ]
        ],
        comparison=Annotated[
            Comparison | None,
            Field(
                description="The first selected prompt compared with the baseline or with another prompt. Null if "
                "there is nothing to compare."
            ),
        ],
    ),
]


class Report(TypedDict):
    """The data of a report. Only the fields that are listed here stay the same in later versions."""

    format: Annotated[str, Field(description="Name of the format.")]
    version: Annotated[int, Field(description="Version of the format.")]


ReportData: TypeAlias = Annotated[dict[str, Any], _FieldsOf(Report)]


class Health(TypedDict):
    """The service runs, and its storage responds."""

    status: Literal["ok"]


class Names(TypedDict):
    """The names of all studies, the oldest study first."""

    studies: list[str]


@_described
class Info(TypedDict):
    """A study's progress."""

    name: str
    """Name of the study."""
    metrics: list[str]
    """Names of the goal's metrics. If scores are sent as a list, they are in this order."""
    goal: str
    """The goal in words, such as `maximize rouge`."""
    budget: int
    """Maximum number of evaluations, or 100000000 if unlimited."""
    spent_cost: float
    """Sum of the recorded costs, in the unit of these costs."""
    max_cost: float | None
    """Maximum cost in the same unit, or null if unlimited."""
    done: bool
    """True when the selection has ended, so that workers get no more trials."""
    paused: bool
    """True when workers get no trials until the study is resumed."""
    spent: int
    """Number of recorded evaluations."""
    pending: int
    """Number of trials that are handed out and have no recorded scores or failure yet."""
    active: int
    """Number of prompts whose `status` (see `PromptResult`) is `active`."""
    examples: int | None
    """Number of examples, or null if the evaluator draws its own."""
    repeats: int
    """How often a prompt may be evaluated on the same example."""
    baseline: int | str | None
    """Id of the prompt in use, or null if there is no baseline."""
    definition: dict[str, Any]
    """The goal, the method and the proxies, as in a saved selector."""


@_described
class ExampleIds(TypedDict):
    """The ids of the examples."""

    ids: list[str] | None
    """In the order of the positions: a trial with `example` 0 is on the first. Null if the examples have no ids."""


@_described
class Trials(TypedDict):
    """Trials to evaluate. If a trial's `example` is null, draw an example yourself."""

    trials: list[Trial]
    done: bool
    """True when the selection has ended. If false and there are no trials, ask again later."""
    paused: NotRequired[Literal[True]]
    """Present if the response has no trials because the study is paused."""
    repeats: NotRequired[list[int]]
    """For each trial, the number of earlier trials of its prompt on its example. Missing if all are 0."""


class HeldTrials(TypedDict):
    """The trials that a worker still holds, oldest first."""

    trials: list[Trial]


class Workers(TypedDict):
    """The pending trials and the workers that hold them, oldest first."""

    holdings: list[Held]


@_described
class Taken(TypedDict):
    """Whether a request changed the study."""

    taken: bool
    """False if the same scores were recorded before, the trial is no longer pending, or another worker has it now."""


@_described
class Joined(TypedDict):
    """The added prompts."""

    ids: list[int | str]
    """Ids of the prompts, in the order of the request."""


@_described
class InvalidPart(TypedDict):
    """A part of a request that is invalid."""

    where: str
    """Path in the request, such as `body.goal`."""
    what: str
    """The reason, such as `is missing`."""


@_described
class Problem(TypedDict):
    """An error, as problem details (RFC 9457)."""

    type: str
    """The kind of error, such as `urn:asktell:problem:unknown-trial`."""
    title: str
    """The kind of error in words."""
    status: int
    """The HTTP status."""
    detail: str
    """The error message."""
    pending: NotRequired[list[int]]
    """Ids of the pending trials, at most 100. Only in errors of the type `unknown-trial`."""
    errors: NotRequired[list[InvalidPart]]
    """The invalid parts of the request. Only if its body or query does not fit the schema."""


@_described
class Outcome(TypedDict):
    """The outcome for one trial."""

    taken: bool
    """True if this request recorded the scores. False after an error, or if nothing changed (see `Taken`)."""
    problem: Problem | None
    """The error, or null if there was none."""


class Outcomes(TypedDict):
    """The outcome for each trial, in the order of the request."""

    outcomes: list[Outcome]


class Evaluations(TypedDict):
    """Evaluations in the order of recording. If there are fewer than `n`, no more are recorded so far."""

    evaluations: list[Told]
