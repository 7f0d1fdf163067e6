"""The JSON of requests. Only its shape is checked here, because the engine checks the values."""

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
    METHODS,
    Adaptive,
    Budget,
    Candidates,
    InvalidArgumentError,
    Race,
    Referee,
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
            "description": "1 to 200 printable characters.",
        }
    ),
]
Number = StrictFloat
Span = Annotated[list[Number], Field(min_length=2, max_length=2)]
Scores = Annotated[
    dict[Text, Number] | list[Number] | Number,
    Field(
        description="An object from metric to number, a list of numbers in the order of the study's `metrics`, or a "
        "single number if there is one metric. An object may also have scores of proxies. Other names are ignored."
    ),
]
Lease = Annotated[
    Number | None,
    Field(
        description="Seconds until other workers may get the trials (default: 600). Only together with `worker`.",
        json_schema_extra={"exclusiveMinimum": 0, "maximum": 1e9},
    ),
]
Worker = Annotated[
    Name | None,
    Field(description="Name of the worker. Each worker needs a different name."),
]
Instance = Annotated[
    str,
    Field(
        max_length=64,
        pattern="^[!-~]*$",
        description="A text that the worker's process makes once. If another process then uses the worker's name, the "
        "first one gets the error `conflicting-worker`. Empty: this is not checked.",
    ),
]
PromptId = StrictInt | Text
Key = Annotated[
    Name | None,
    Field(
        description="An idempotency key that is stored with the study. A second request with the same key has no "
        "effect."
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
            keys = list(cls.model_fields)
            also = (
                ""
                if nearest(unknown[0], keys)
                else f". The keys are {', '.join(map(repr, keys))}"
            )
            raise ValueError(
                f"unknown key {short(unknown[0])}{nearest(unknown[0], keys)}{also}"
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
    """Candidates that differ in several factors, such as the model and the prompt.

    The id of a candidate is the names of its levels, joined by `/`.
    """

    factors: dict[Text, dict[Text, Level]]
    """Factor -> name of a level -> value of this level. Example: `{"model": {"mini": "gpt-4o-mini"}}`."""
    candidates: list[list[Text]] | None = None
    """For each candidate, the names of its levels, in the order of the factors. Null for all combinations."""

    def value(self) -> Candidates:
        return Candidates.from_data(self.model_dump())


Prompts = Annotated[
    CandidatesModel | list[Text] | dict[Text, Text],
    Field(
        description="An object from id to text, a list of texts (their ids are 0, 1, ...), or candidates that differ "
        "in several factors."
    ),
]


class PromptReference(StrictRequest):
    """A prompt by its id, for ids that equal the text of another prompt."""

    id: PromptId
    """Id of the prompt."""


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
    """A bound of a constraint, with options."""

    bound: Number
    """In the units of the metric."""
    quantile: float | None = None
    """With 0.05 in `at_least` or 0.95 in `at_most`, at least 95% of the
    examples must satisfy the bound. Null: the mean must.
    """
    in_every_segment: bool = False
    """Whether the bound is required in each segment of the examples, instead of over all examples."""
    tolerance: Number | None = None
    """A violation that does not matter, in the units of the metric. With `quantile`, a share of the examples."""


class GoalModel(StrictRequest):
    """The goal: the best prompt by one metric, or a Pareto set, among the prompts that satisfy every constraint."""

    type: Literal["best-feasible", "pareto-set"] = "best-feasible"
    """`best-feasible` needs exactly one metric in `maximize` or `minimize`."""
    maximize: Text | list[Text] = []
    """Metrics to maximize."""
    minimize: Text | list[Text] = []
    """Metrics to minimize."""
    worst_segment: list[Text] = []
    """Metrics of `maximize` or `minimize` for which the mean of the prompt's worst
    segment counts, not the overall mean.
    """
    at_least: dict[Text, Number | Relative | BoundModel] = {}
    """Metric -> its lowest allowed mean: a number, or a text. With `within 0.02 of best`, the
    mean may be up to 0.02 worse than the best prompt's mean. With `within 0.02 of baseline`,
    it may be up to 0.02 worse than the baseline's mean.
    """
    at_most: dict[Text, Number | Relative | BoundModel] = {}
    """Metric -> its highest allowed mean, in the same forms."""
    ranges: dict[Text, Span] = {}
    """Metric -> [lowest possible score, highest possible score]."""
    tolerances: dict[Text, Number] = {}
    """Metric -> the difference that does not matter, in the units of the metric. The
    verdict then counts a prompt as good if it is within the tolerance of the best, and
    a study with `confidence` ends with such a prompt.
    """
    sure: float | None = None
    """Probability, such as 0.95, with which the selected prompt must satisfy its constraints. Null: 0.5 is enough."""

    def value(self) -> Goal:
        words = self.model_dump()
        return parse_goal(words.pop("type"), **words)


class BudgetModel(StrictRequest):
    """A maximum number of evaluations, a maximum cost, or both."""

    evaluations: StrictInt | None = None
    """Maximum number of evaluations."""
    cost: Number | None = None
    """Maximum total cost. Each `tell` must then have a cost, in the same unit."""
    max_cost_per_evaluation: Number | None = None
    """The largest possible cost of an evaluation. If it is given, the total never exceeds `cost`."""

    def value(self) -> Budget:
        return Budget(**self.arguments())


_WITH_OPTIONS: dict[str, type[Adaptive | Race | Referee]] = {
    "auto": Adaptive,
    "race": Race,
    "referee": Referee,
}


def _method(
    name: str, confidence: float | None, each: int | None
) -> str | Adaptive | Race | Referee:
    """The method of this name, with the options that are given."""
    if each is not None and name != "referee":
        raise InvalidArgumentError(
            f"each requires the method 'referee', got {short(name)}."
        )
    options: dict[str, Any] = {"confidence": confidence, "each": each}
    options = {key: value for key, value in options.items() if value is not None}
    if not options:
        return name
    if name not in _WITH_OPTIONS:
        raise InvalidArgumentError(
            f"confidence requires one of the methods {list(_WITH_OPTIONS)}, got {short(name)}."
        )
    return _WITH_OPTIONS[name](**options)


class NewStudy(StrictRequest):
    """The definition of a new study."""

    name: Name
    prompts: Prompts
    goal: GoalModel
    budget: StrictInt | BudgetModel
    """Maximum number of evaluations, or an object with a maximum cost."""
    method: Annotated[
        Text,
        Field(
            description=f"One of {', '.join(f'`{name}`' for name in METHODS)}, or a plug-in of the service."
        ),
    ] = "auto"
    confidence: Number | None = None
    """Only for `auto`, `race` and `referee`. With `auto` and `race`, stop as soon as the selection is right with this
    probability, such as 0.95. With `referee`, the probability that no candidate is accepted falsely.
    """
    each: StrictInt | None = None
    """Only for `referee`: the largest number of evaluations of a candidate (default: 200)."""
    examples: StrictInt | list[Text] | None = None
    """Number of examples, or their distinct ids. Null if the evaluator draws its own."""
    features: list[list[Number]] | Literal["text"] | None = None
    """For the methods `lcsh`, `gege`, `mlp-csr` and `mlp-ege`: numbers that describe each
    prompt, such as an embedding. `"text"`: the service computes them from the texts.
    """
    seed: StrictInt = 0
    """Seed of all random choices, at least 0 and below 2^64."""
    sampling: Text = "shared"
    """`shared`: prompts share examples, and a prompt gets an example at most `repeats`
    times. `iid`: every evaluation draws one of the examples at random.
    """
    on_failure: Literal["skip"] | dict[Text, Number] = "skip"
    """With `"skip"`, failures are left out of the estimates. With an object from metric
    to score, they count as these scores.
    """
    max_failure_rate: Number = 0.5
    """A prompt is eliminated if its true failure rate is above this with 99% probability. With 1, no prompt."""
    baseline: AnyPrompt | None = None
    """Id or text of the prompt in use, which is never eliminated."""
    repeats: StrictInt | None = None
    """How often a prompt may be evaluated on the same example (default: once). Use more for noisy scores."""
    inputs: Literal["new", "given"] = "new"
    """Whether estimates are about new inputs like the examples (`new`), or about exactly the given examples."""
    profile: dict[Text, Any] | None = None
    """An example profile from earlier studies: the content of a file that `asktell profile` has written."""
    segments: list[Text] | None = None
    """For each example, the name of its segment, such as its language."""
    proxies: list[Text] = []
    """Names of cheap metrics that are not in the goal, but help to predict it. Send
    their scores with `observe` or `tell`.
    """
    max_attempts: StrictInt = 3
    """A trial fails when its lease has expired this many times."""
    exist_ok: StrictBool = False
    """Whether to use an existing study of this name with the same definition.
    Otherwise, an existing study of this name is an error (409).
    """

    def selector(self) -> Selector:
        """Make the study's selector, in which nothing is asked yet.

        Raises:
            InvalidArgumentError: a value is invalid.
        """
        arguments = self.arguments()
        # These belong to the study, not to its selector.
        for name in ("name", "max_attempts", "exist_ok"):
            del arguments[name]
        method = _method(
            arguments.pop("method"),
            arguments.pop("confidence"),
            arguments.pop("each"),
        )
        return Selector(method=method, **arguments)


class TrialReference(StrictRequest):
    """A trial as `ask` returned it. It is refused if the id belongs to another prompt or example."""

    id: StrictInt
    """Id of the trial."""
    prompt_id: PromptId
    """Id of the prompt."""
    prompt: Text | None = None
    """Text of the prompt. It may be missing."""
    example: StrictInt | None = None
    """Position of the example, or null if the trial has none."""
    candidate: dict[Text, Any] | None = None
    """Value of each factor. It may be missing."""

    def value(self) -> Trial:  # without its text
        return Trial(self.id, self.prompt_id, "", self.example)


AnyTrial = Annotated[
    StrictInt | Text | TrialReference,
    Field(
        description="A trial as `ask` returned it, or its id (a number). A string is the id or the text of a prompt. "
        "It stands for the trial of this prompt that the worker holds, or else for the prompt's oldest pending trial."
    ),
]


class Ask(StrictRequest):
    """A request for trials."""

    n: Annotated[
        StrictInt, Field(ge=0, le=10_000, description="Maximum number of trials.")
    ] = 1
    worker: Worker = None
    instance: Instance = ""
    lease: Lease = None
    besides: Annotated[
        list[StrictInt],
        Field(
            max_length=100_000,
            description="Ids of trials that the worker is evaluating already. The response has up to `n` other trials.",
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
    """Cost of the evaluation, in the same unit for the whole study. `spent_cost` is the sum."""
    details: Details = None


class Tell(Score):
    """Scores of a trial, told by a worker."""

    worker: Worker = None


class TellMany(StrictRequest):
    """Scores of several trials."""

    tells: Annotated[list[Score], Field(max_length=10_000)]
    worker: Worker = None


class Observe(StrictRequest):
    """Scores from elsewhere."""

    prompt: AnyPrompt
    scores: Scores | None
    """In the same forms as for `tell`. Null to add only a cost."""
    example: StrictInt | Text | None = None
    """The example's position or id. Null if the scores are not from an example of the study."""
    cost: Number | None = None
    """Cost to add to the study's `spent_cost`."""


class Release(StrictRequest):
    """A trial to release."""

    trial: AnyTrial
    worker: Worker = None
    instance: Instance = ""


class Fail(Release):
    """A trial whose evaluation failed."""

    reason: Text
    """The error message, which results show."""
    cost: Number | None = None
    """Cost of the evaluation, in the same unit for the whole study."""
    details: Details = None


class Add(StrictRequest):
    """Prompts to add."""

    prompts: Prompts
    key: Key = None


class Remark(StrictRequest):
    """A remark about the scores."""

    text: Text
    """Sentences that results have in `notes`."""
    topic: Text = "scores"
    """A later remark on the same topic replaces this remark."""
    doubtful: bool = False
    """True if the scores are not reliable. Results then have no probabilities."""


class Retire(StrictRequest):
    """A prompt to retire."""

    prompt: AnyPrompt
    reason: Text
    """Results have it in the field `reason` of the prompt."""
    key: Key = None


class Extend(StrictRequest):
    """Additional budget or examples."""

    evaluations: StrictInt | None = None
    """Number of additional evaluations."""
    cost: Number | None = None
    """Additional cost, if the study has a maximum cost."""
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
    """Id or text of prompt a. Required unless `a_id` is given."""
    b: str | None = None
    """Id or text of prompt b (default: the baseline, or else the selected prompt)."""
    a_id: str | None = None
    """Id of prompt a. Needed only if this id is also the text of another prompt."""
    b_id: str | None = None
    """Id of prompt b. Needed only if this id is also the text of another prompt."""
    confidence: float = 0.95
    """The probability that all intervals hold, above 0 and below 1."""
    tolerance: float | None = None
    """The largest difference that counts as equal, in the units of every metric. By default, each metric has the
    tolerance of the goal.
    """

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
    instance: Instance = ""


class Saved(BaseModel):
    """A saved selector, as `GET /v1/studies/{name}/selector` returned it, with all its fields."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    format: str
    """Name of the format."""
    version: int
    """Version of the format."""
