"""The JSON of requests. Only its shape is checked here, because the engine checks the values."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    StrictFloat,
    StrictInt,
    WithJsonSchema,
    model_validator,
)

from asktell import (
    Adaptive,
    Budget,
    Candidates,
    InvalidArgumentError,
    Race,
    Selector,
    Trial,
)
from asktell.extend import Goal, nearest, parse_goal, short


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be a text, got {short(value)}")
    return value


# Pydantic's own str refuses lone surrogates. JSON can have them, and so may a prompt.
Text = Annotated[str, PlainValidator(_text), WithJsonSchema({"type": "string"})]
Name = Annotated[
    str,
    PlainValidator(_text),
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": 200,
            "description": "Printable text.",
        }
    ),
]
Number = StrictFloat
Span = Annotated[list[Number], Field(min_length=2, max_length=2)]
Scores = Annotated[
    dict[Text, Number] | list[Number] | Number,
    Field(
        description="Metric or proxy to number, numbers in the order of the study's `metrics`, or a number for one "
        "metric."
    ),
]
Lease = Annotated[
    Number | None,
    Field(
        description="Seconds until other workers may get the trials (default: 600 if `worker` is given).",
        json_schema_extra={"exclusiveMinimum": 0, "maximum": 1e9},
    ),
]
Worker = Annotated[
    Name | None, Field(description="Any name. Each worker needs its own.")
]
PromptId = StrictInt | Text
Key = Annotated[
    Name | None,
    Field(
        description="An idempotency key that is stored with the study. A second request with it has no effect."
    ),
]


class StrictRequest(BaseModel):
    """A request. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: Any) -> Any:
        unknown = (
            [key for key in data if key not in cls.model_fields]
            if isinstance(data, dict)
            else []
        )
        if unknown:
            known = list(cls.model_fields)
            also = (
                ""
                if nearest(unknown[0], known)
                else f". The keys are {', '.join(map(repr, known))}"
            )
            raise ValueError(
                f"unknown key {short(unknown[0])}{nearest(unknown[0], known)}{also}"
            )
        return data

    def value(self) -> Any:
        """Convert the request to the engine's type."""
        return self

    def arguments(self) -> dict[str, Any]:
        """The fields by the names of the engine's arguments, in the engine's types."""
        return {
            name: field.value() if isinstance(field, StrictRequest) else field
            for name, field in self
        }


Level = Text | StrictBool | StrictInt | Number | None


class CandidatesModel(StrictRequest):
    """Candidates that differ in several factors. See `asktell.Candidates`."""

    factors: dict[Text, dict[Text, Level]]
    """Factor to its levels, each a name and a value."""
    candidates: list[list[Text]] | None = None
    """The names of each candidate's levels, in the order of the factors; null for all combinations."""

    def value(self) -> Candidates:
        return Candidates.from_data(self.model_dump())


Prompts = Annotated[
    CandidatesModel | list[Text] | dict[Text, Text],
    Field(
        description="Texts (their ids are their positions), a mapping from ids to texts, or candidates."
    ),
]


class PromptReference(StrictRequest):
    """A prompt by its id, for ids that equal the text of another prompt."""

    id: PromptId


AnyPrompt = Annotated[
    PromptId | PromptReference,
    Field(
        description='A prompt\'s id or text, or `{"id": ...}` if its id equals the text of another prompt.'
    ),
]


Relative = Annotated[
    str,
    Field(
        strict=True,
        description="`within 0.02 of best`, or `within 0.02 of baseline`. The mean may be worse by this much.",
    ),
]


class BoundModel(StrictRequest):
    """A bound on the mean over the examples, or on a quantile over them."""

    bound: Number
    quantile: float | None = None
    in_every_segment: bool = False


class GoalModel(StrictRequest):
    """The goal: the best prompt by one metric, or a Pareto set, among the prompts that satisfy every constraint."""

    type: Literal["best-feasible", "pareto-set"] = "best-feasible"
    maximize: Text | list[Text] = []
    minimize: Text | list[Text] = []
    worst_segment: list[Text] = []
    """Objectives whose worst segment counts."""
    at_least: dict[Text, Number | Relative | BoundModel] = {}
    at_most: dict[Text, Number | Relative | BoundModel] = {}
    ranges: dict[Text, Span] = {}
    """Metric to [low, high], its smallest and largest possible scores."""
    sure: float | None = None
    """Probability with which the selected prompt must satisfy its constraints (default: above 0.5)."""

    def value(self) -> Goal:
        words = self.model_dump()
        return parse_goal(words.pop("type"), **words)


class BudgetModel(StrictRequest):
    """The budget. See `asktell.Budget`."""

    evaluations: StrictInt | None = None
    cost: Number | None = None
    max_cost_per_evaluation: Number | None = None

    def value(self) -> Budget:
        return Budget(**self.arguments())


_STOPPING: dict[str, type[Adaptive | Race]] = {"auto": Adaptive, "race": Race}


def _method(name: str, stop: Mapping[str, float | None]) -> str | Adaptive | Race:
    """The method of this name, with the options for stopping early, if any is given."""
    given: dict[str, Any] = {
        option: value for option, value in stop.items() if value is not None
    }
    if not given:
        return name
    if name not in _STOPPING:
        raise InvalidArgumentError(
            f"{next(iter(given))} requires one of the methods {list(_STOPPING)}, got {short(name)}."
        )
    return _STOPPING[name](**given)


class NewStudy(StrictRequest):
    """A study. See `asktell.Selector` for the arguments."""

    name: Name
    prompts: Prompts
    goal: GoalModel
    budget: StrictInt | BudgetModel
    """Maximum evaluations, a maximum cost, or both."""
    method: Text = "auto"
    confidence: Number | None = None
    """For auto and race, stop as soon as the selected prompt is right with this probability, such as 0.95."""
    tolerance: Number | None = None
    """With `confidence`, a loss in the metrics' units that does not matter."""
    examples: StrictInt | list[Text] | None = None
    """Number of examples, or their distinct ids. Null if the evaluator draws its own."""
    features: list[list[Number]] | Literal["text"] | None = None
    seed: StrictInt = 0
    sampling: Text = "shared"
    on_failure: Literal["skip"] | dict[Text, Number] = "skip"
    """A failed evaluation is a missing value (`skip`), or counts as these scores, one per metric."""
    max_failure_rate: Number = 0.5
    """A prompt is eliminated if its failure rate is above this with 99% probability. With 1, never."""
    baseline: AnyPrompt | None = None
    """Id or text of the prompt in use, which is never eliminated."""
    repeats: StrictInt | None = None
    """Maximum evaluations of a prompt on the same example. Above 1 for noisy scores."""
    inputs: Literal["new", "given"] = "new"
    """Whether estimates hold for new inputs like the examples, or for exactly the given examples."""
    profile: dict[Text, Any] | None = None
    """Item parameters from earlier studies, as written by asktell.ExampleProfile.to_json()."""
    segments: list[Text] | None = None
    """Label of each example's segment, such as its language."""
    proxies: list[Text] = []
    """Names of cheap metrics outside of the goal that help to predict it. Their scores come by `observe` or `tell`."""
    max_attempts: StrictInt = 3
    """A trial fails when its lease has expired this many times."""
    exist_ok: StrictBool = False
    """Use an existing study of this name if it has the same definition."""

    def selector(self) -> Selector:
        """Make the study's selector, in which nothing is asked yet.

        Raises:
            InvalidArgumentError: a value is invalid.
        """
        given = self.arguments()
        # These belong to the study, not to its selector.
        for name in ("name", "max_attempts", "exist_ok"):
            del given[name]
        stop = {name: given.pop(name) for name in ("confidence", "tolerance")}
        return Selector(method=_method(given.pop("method"), stop), **given)


class TrialReference(StrictRequest):
    """A trial as it was asked. It is refused if the id belongs to another prompt or example."""

    id: StrictInt
    prompt_id: PromptId
    prompt: Text | None = None
    example: StrictInt | None = None
    candidate: dict[Text, Any] | None = None

    def value(self) -> Trial:  # without its text
        return Trial(self.id, self.prompt_id, "", self.example)


AnyTrial = Annotated[
    StrictInt | Text | TrialReference,
    Field(
        description="A trial or its id. A prompt's id or text means the worker's own (else the oldest) trial of it."
    ),
]


class Ask(StrictRequest):
    """A request for trials."""

    n: Annotated[StrictInt, Field(ge=0, le=10_000)] = 1
    worker: Worker = None
    lease: Lease = None
    besides: Annotated[
        list[StrictInt],
        Field(
            max_length=100_000,
            description="Ids of trials that the worker is busy with. The response has n other trials.",
        ),
    ] = []


Details = Annotated[
    dict[str, Any] | None,
    Field(
        description="Anything else to store with the evaluation, such as the response of the LLM."
    ),
]


class Score(StrictRequest):
    """Scores of a trial."""

    trial: AnyTrial
    scores: Scores
    cost: Number | None = None
    """Cost of the evaluation, always in the same unit. The result has the sum."""
    details: Details = None


class Tell(Score):
    """Scores of a trial, told by a worker."""

    worker: Worker = None


class TellMany(StrictRequest):
    """Scores of several trials."""

    tells: Annotated[list[Score], Field(max_length=10_000)]
    worker: Worker = None


class Observe(StrictRequest):
    """Scores from elsewhere, or null to add only a cost."""

    prompt: AnyPrompt
    scores: Scores | None
    example: StrictInt | Text | None = None
    """The example's position or id."""
    cost: Number | None = None
    """Cost to add to the study's."""


class Release(StrictRequest):
    """A trial to release."""

    trial: AnyTrial
    worker: Worker = None


class Fail(Release):
    """A trial whose evaluation failed."""

    reason: Text
    cost: Number | None = None
    details: Details = None


class Add(StrictRequest):
    """Prompts to add."""

    prompts: Prompts
    key: Key = None


class Remark(StrictRequest):
    """A remark about the scores, which results show."""

    text: Text
    topic: Text = "scores"
    doubtful: bool = False


class Retire(StrictRequest):
    """A prompt to retire."""

    prompt: AnyPrompt
    reason: Text
    key: Key = None


class Extend(StrictRequest):
    """Additional budget or examples."""

    evaluations: StrictInt | None = None
    cost: Number | None = None
    examples: StrictInt | list[Text] | None = None
    """Number of additional examples, or their ids."""
    key: Key = None


class Nothing(StrictRequest):
    """An empty object: `{}`."""


class EvaluationsQuery(StrictRequest):
    """A page of the evaluations."""

    after: Annotated[
        int, Field(ge=0, le=2**62, description="Number of evaluations to skip.")
    ] = 0
    n: Annotated[
        int, Field(ge=1, le=10_000, description="Maximum number of evaluations.")
    ] = 1000


class CompareQuery(StrictRequest):
    """Two prompts to compare."""

    a: str | None = None
    """Id or text of a prompt."""
    b: str | None = None
    """Id or text of the other prompt (default: the baseline, or else the selected prompt)."""
    a_id: str | None = None
    """Used instead of `a` for an id that equals the text of another prompt."""
    b_id: str | None = None
    """Used instead of `b`, likewise."""
    confidence: float = 0.95
    tolerance: float = 0.0

    @model_validator(mode="after")
    def _complete(self) -> "CompareQuery":
        if (self.a is None) == (self.a_id is None) or (
            self.b is not None and self.b_id is not None
        ):
            raise ValueError(
                "give either `a` or `a_id`, and at most one of `b` and `b_id`"
            )
        return self

    def with_surrogates(self, query: bytes) -> "CompareQuery":
        """Read the names from the query again, because the framework replaces lone surrogates.

        A lone surrogate of a prompt's text arrives as its three bytes of UTF-8.

        Args:
            query: the query of the URL as it was sent.

        Raises:
            InvalidArgumentError: the query is not percent-encoded.
        """
        try:
            sent = dict(
                parse_qsl(
                    query.decode("ascii"),
                    keep_blank_values=True,
                    errors="surrogatepass",
                )
            )
        except UnicodeError:
            raise InvalidArgumentError(
                "The query must be percent-encoded UTF-8."
            ) from None
        return self.model_copy(
            update={
                name: sent[name] for name in ("a", "b", "a_id", "b_id") if name in sent
            }
        )

    def prompts(self) -> tuple[Any, Any]:
        """The two prompts as the engine accepts them. The second is None if it was not given."""
        a = self.a if self.a_id is None else PromptReference(id=self.a_id)
        b = self.b if self.b_id is None else PromptReference(id=self.b_id)
        return a, b


class Heartbeat(StrictRequest):
    """A sign of life from a worker."""

    worker: Name
    trial: StrictInt | Text | TrialReference | None = None
    """The trial whose lease to extend, or null for all trials of the worker."""
    lease: Lease = None


class Saved(BaseModel):
    """A saved selector, as `Selector.to_json` writes it."""

    model_config = ConfigDict(extra="allow")

    format: str
    version: int
