"""The JSON of requests and answers: shapes only, as the engine checks whether values make sense."""

from typing import Annotated, Any, Literal

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

from asktell.errors import InvalidArgumentError, InvalidStateError
from asktell.methods import stopping
from asktell.posterior.profile import ExampleProfile
from asktell.problem.budget import Budget
from asktell.problem.candidates import ById, Trial
from asktell.problem.checks import nearest, short
from asktell.problem.goals import Goal, parse_goal
from asktell.selector import Selector

# Requests


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text")
    return value


# Pydantic's own str refuses lone surrogates, which JSON can carry and a prompt may hold.
Text = Annotated[str, PlainValidator(_text), WithJsonSchema({"type": "string"})]
Name = Annotated[
    str,
    PlainValidator(_text),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 200, "description": "Printable text."}),
]
Number = StrictFloat
Span = Annotated[list[Number], Field(min_length=2, max_length=2)]
Scores = Annotated[
    dict[Text, Number] | list[Number] | Number,
    Field(description="Metric to number, or numbers in the order of the study's `metrics`; a number for one metric."),
]
Lease = Annotated[
    Number | None,
    Field(
        description="Seconds until the trials may be given to somebody else; 600 if only `worker` is given.",
        json_schema_extra={"exclusiveMinimum": 0, "maximum": 1e9},
    ),
]
Worker = Annotated[Name | None, Field(description="A name of your choice, a different one for each worker.")]
Prompts = Annotated[
    list[Text] | dict[Text, Text], Field(description="Texts (their ids are their positions), or id to text.")
]
PromptId = StrictInt | Text
Key = Annotated[
    Name | None,
    Field(description="A name for this request, kept with the study: sent again under it, it does nothing."),
]


class StrictRequest(BaseModel):
    """What comes: nothing but what is known."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: Any) -> Any:
        """Name a key that there is not, and the nearest that there is."""
        unknown = [key for key in data if key not in cls.model_fields] if isinstance(data, dict) else []
        if unknown:
            known = list(cls.model_fields)
            also = "" if nearest(unknown[0], known) else f"; there are {', '.join(map(repr, known))}"
            raise ValueError(f"unknown key {short(unknown[0])}{nearest(unknown[0], known)}{also}")
        return data


class PromptReference(StrictRequest):
    """A prompt by its id, where the bare id may be the text of another prompt."""

    id: PromptId


AnyPrompt = Annotated[
    PromptId | PromptReference,
    Field(description='A prompt\'s id or text; or `{"id": ...}`, where its id is the text of another prompt.'),
]


class GoalModel(StrictRequest):
    """What is looked for among the prompts that keep the bounds: the best of one metric, or a Pareto set."""

    type: Literal["best-feasible", "pareto-set"] = "best-feasible"
    maximize: Text | list[Text] = []
    minimize: Text | list[Text] = []
    at_least: dict[Text, Number] = {}
    at_most: dict[Text, Number] = {}
    ranges: Annotated[
        dict[Text, Span], Field(description="Metric to [low, high], for metrics on very different scales.")
    ] = {}

    def goal(self) -> Goal:
        """The goal as the engine takes it.

        Raises:
            InvalidArgumentError: the parts do not go together.
        """
        return parse_goal(self.type, self.maximize, self.minimize, self.at_least, self.at_most, self.ranges)


class BudgetModel(StrictRequest):
    """What may be spent; see `asktell.Budget`."""

    evaluations: StrictInt | None = None
    cost: Number | None = None
    max_cost_per_evaluation: Number | None = None

    def budget(self) -> Budget:
        """The budget as the selector takes it."""
        return Budget(self.evaluations, self.cost, self.max_cost_per_evaluation)


class NewStudy(StrictRequest):
    """A study, in words; see `asktell.Selector` for what they mean."""

    name: Name
    prompts: Prompts
    goal: GoalModel
    budget: Annotated[
        StrictInt | BudgetModel,
        Field(description="Evaluations allowed, or a cost, or both."),
    ]
    method: Text = "auto"
    confidence: Annotated[
        Number | None,
        Field(description="0.95: end once the answer is right with that probability. For the methods auto and race."),
    ] = None
    tolerance: Annotated[
        Number | None, Field(description="With it: how much worse than right counts as right, in the metrics' units.")
    ] = None
    examples: Annotated[
        StrictInt | list[Text] | None,
        Field(description="How many there are, or their distinct ids; null: draw your own."),
    ] = None
    features: list[list[Number]] | Literal["text"] | None = None
    seed: StrictInt = 0
    sampling: Text = "shared"
    on_failure: Annotated[
        Literal["skip"] | dict[Text, Number],
        Field(description="A failed evaluation is a missing value, or counts as these scores, one for each metric."),
    ] = "skip"
    max_failure_rate: Annotated[
        Number,
        Field(description="A prompt leaves if its failure rate is above this with 99 % probability; 1: never."),
    ] = 0.5
    baseline: Annotated[
        AnyPrompt | None, Field(description="Id or text of the prompt in use today; never eliminated.")
    ] = None
    repeats: Annotated[
        StrictInt, Field(description="How often a prompt may be asked on the same example, if scores are noisy.")
    ] = 1
    profile: Annotated[
        dict[Text, Any] | None,
        Field(description="What earlier studies know of the examples: what asktell.ExampleProfile.to_json() wrote."),
    ] = None
    max_attempts: Annotated[StrictInt, Field(description="A trial whose lease runs out this often has failed.")] = 3
    exist_ok: Annotated[
        StrictBool, Field(description="Take the study of this name if there is one and it was made of the same.")
    ] = False

    def selector(self) -> Selector:
        """The selector that the study is made of."""
        return Selector(
            self.prompts,
            self.goal.goal(),
            self.budget.budget() if isinstance(self.budget, BudgetModel) else self.budget,
            stopping(self.method, self.confidence, self.tolerance),
            self.examples,
            self.features,
            self.seed,
            self.sampling,
            self.on_failure,
            self.max_failure_rate,
            self.baseline,
            self.repeats,
            self._profile(),
        )

    def _profile(self) -> ExampleProfile | None:
        try:
            return None if self.profile is None else ExampleProfile.from_data(self.profile)
        except InvalidStateError as error:
            raise InvalidArgumentError(f"profile: {error}") from error


class TrialReference(StrictRequest):
    """A trial as it was asked; refused if that id is another prompt or example by now. Its text may be left out."""

    id: StrictInt
    prompt_id: PromptId
    prompt: Text | None = None
    example: StrictInt | None = None

    def trial(self) -> Trial:
        """The trial as the engine takes it, without its text."""
        return Trial(self.id, self.prompt_id, "", self.example)


AnyTrial = Annotated[
    StrictInt | Text | TrialReference,
    Field(description="A trial's id, the trial itself, or a prompt's id or text: your own trial of it, or its oldest."),
]


class Ask(StrictRequest):
    """How many trials to hold, and who holds them."""

    n: Annotated[StrictInt, Field(ge=0, le=10_000)] = 1
    worker: Worker = None
    lease: Lease = None
    besides: Annotated[
        list[StrictInt],
        Field(max_length=10_000, description="Trials that the worker is busy with: n others are wanted."),
    ] = []
    process: Annotated[
        Text | None,
        Field(description="The worker's process, in asktell's words: on the service's own machine its end is noticed."),
    ] = None


Details = Annotated[
    dict[str, Any] | None,
    Field(description="What else to keep of the evaluation: the model's answer, other metrics, ..."),
]


class Score(StrictRequest):
    """A trial's scores, and what they cost."""

    trial: AnyTrial
    scores: Scores
    cost: Annotated[Number | None, Field(description="In any unit you keep to; summed up in the result.")] = None
    details: Details = None


class Tell(Score):
    """A trial's scores, and who tells them."""

    worker: Worker = None


class TellMany(StrictRequest):
    """Several trials' scores."""

    tells: Annotated[list[Score], Field(max_length=10_000)]
    worker: Worker = None


class Observe(StrictRequest):
    """Scores from elsewhere, or null and what was paid for none."""

    prompt: AnyPrompt
    scores: Scores | None
    example: Annotated[StrictInt | Text | None, Field(description="Its position, or its id.")] = None
    cost: Annotated[Number | None, Field(description="What was paid, if it is to be booked.")] = None


class Release(StrictRequest):
    """A trial to hand back."""

    trial: AnyTrial
    worker: Worker = None


class Fail(Release):
    """A trial whose evaluation failed."""

    reason: Text
    cost: Number | None = None
    details: Details = None


class Add(StrictRequest):
    """Prompts that join."""

    prompts: Prompts
    features: list[list[Number]] | Literal["text"] | None = None
    key: Key = None


class Retire(StrictRequest):
    """A prompt to be taken out."""

    prompt: AnyPrompt
    reason: Text
    key: Key = None


class Extend(StrictRequest):
    """How much more may be spent, and how many more examples there are."""

    evaluations: StrictInt | None = None
    cost: Number | None = None
    examples: Annotated[StrictInt | list[Text] | None, Field(description="How many, or their ids.")] = None
    key: Key = None


class Nothing(StrictRequest):
    """Nothing needs to be said: `{}`."""


class EvaluationsQuery(StrictRequest):
    """Which of the evaluations."""

    after: Annotated[int, Field(ge=0, le=2**62, description="Without the first so many.")] = 0
    n: Annotated[int, Field(ge=1, le=10_000, description="At most so many.")] = 1000


class CompareQuery(StrictRequest):
    """Which prompts to compare, and how sure to be."""

    a: Annotated[str | None, Field(description="Id or text of a prompt.")] = None
    b: Annotated[str | None, Field(description="Of another one; by default the baseline, or the answer.")] = None
    a_id: Annotated[str | None, Field(description="In place of `a`: an id, which may be the text of another.")] = None
    b_id: Annotated[str | None, Field(description="In place of `b`.")] = None
    confidence: float = 0.95
    tolerance: float = 0.0

    @model_validator(mode="after")
    def _complete(self) -> "CompareQuery":
        if (self.a is None) == (self.a_id is None) or (self.b is not None and self.b_id is not None):
            raise ValueError("give either `a` or `a_id`, and at most one of `b` and `b_id`")
        return self

    def prompts(self) -> tuple[str | ById, str | ById | None]:
        """The two prompts as the engine takes them."""
        a, b = self.a if self.a_id is None else ById(self.a_id), self.b if self.b_id is None else ById(self.b_id)
        return a or "", b


class Heartbeat(StrictRequest):
    """A worker that is still at work."""

    worker: Name
    trial: Annotated[StrictInt | Text | TrialReference | None, Field(description="Only this one; null: all.")] = None
    lease: Lease = None


# Answers


class Names(BaseModel):
    """The names of all studies, in the order in which they were made."""

    studies: list[str]


class Info(BaseModel):
    """How far a study is."""

    name: str
    metrics: Annotated[list[str], Field(description="In the order of score vectors.")]
    goal: str
    budget: Annotated[int, Field(description="Evaluations allowed; 100000000: any number.")]
    spent_cost: Annotated[float, Field(description="Sum of the costs told.")]
    max_cost: Annotated[float | None, Field(description="Maximum cost; null if unlimited.")]
    spent: Annotated[int, Field(description="Evaluations told so far.")]
    pending: Annotated[int, Field(description="Trials that are out.")]
    active: Annotated[int, Field(description="Prompts still in the race.")]
    done: Annotated[bool, Field(description="Nothing will be asked again.")]
    paused: Annotated[bool, Field(description="Nothing is handed out until it is resumed.")]
    examples: Annotated[int | None, Field(description="How many there are; null: the evaluator draws its own.")]
    repeats: Annotated[int, Field(description="How often a prompt may be asked on the same example.")]
    baseline: Annotated[int | str | None, Field(description="The id of the prompt in use today; null: none.")]
    definition: Annotated[dict[str, Any], Field(description="Goal and method as in a saved selector.")]


class ExampleIds(BaseModel):
    """The examples' ids by position, which is a trial's `example`; null: they have none."""

    ids: list[str] | None


class TrialModel(BaseModel):
    """One pull: evaluate the prompt on the example (null: draw one yourself), then tell the scores."""

    id: int
    prompt_id: int | str
    prompt: str
    example: int | None


class Trials(BaseModel):
    """What to evaluate now."""

    trials: list[TrialModel]
    repeats: Annotated[
        list[int],
        Field(description="How often each one's prompt was asked on its example before; left out if none was."),
    ] = []
    done: Annotated[bool, Field(description="The selection is over. If it is not and no trial came, ask again later.")]
    paused: Annotated[bool, Field(description="No trial came because the study is paused; left out if not.")] = False


class Held(BaseModel):
    """What a worker still holds, oldest first."""

    trials: list[TrialModel]


class Taken(BaseModel):
    """True if this request recorded something; false if it was known already, or another worker has the trial."""

    taken: bool


class Joined(BaseModel):
    """The ids of the prompts that joined, in the order in which they came."""

    ids: list[int | str]


class ProblemModel(BaseModel):
    """What went wrong (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str


class Outcome(BaseModel):
    """What became of one trial's scores: taken or not, or the problem with them."""

    taken: bool
    problem: ProblemModel | None = None


class Outcomes(BaseModel):
    """What became of each score, in the order in which they came."""

    outcomes: list[Outcome]


class HoldingModel(BaseModel):
    """A trial that is out, and who holds it."""

    trial: TrialModel
    worker: str | None
    seconds_left: float | None
    attempt: int


class Workers(BaseModel):
    """The trials that are out, oldest first."""

    holdings: list[HoldingModel]


class PromptModel(BaseModel):
    """What is known about one prompt; see `asktell.PromptResult`."""

    id: int | str
    prompt: str
    estimate: dict[str, float | None]
    standard_error: dict[str, float | None]
    standard_error_population: dict[str, float | None] = {}
    pulls: int
    status: str
    round: int | None
    reason: str | None
    feasible: bool | None
    failures: int
    p_feasible: float | None
    p_optimal: float | None


class DifferenceModel(BaseModel):
    """The difference of two prompts in one metric, in its own units; see `asktell.Difference`."""

    estimate: float | None
    low: float | None
    high: float | None
    p_better: float
    pairs: int
    verdict: Literal["better", "worse", "equal", "undecided"]
    guaranteed: bool


class ComparisonModel(BaseModel):
    """Prompt `a` against prompt `b`; see `asktell.Comparison`."""

    a: int | str
    b: int | str
    confidence: float
    tolerance: float
    guaranteed: bool
    examples: int | None
    unless: Annotated[str, Field(description="Conditions under which the intervals do not hold, in words.")] = ""
    differences: dict[str, DifferenceModel]


class FailureModel(BaseModel):
    """Evaluations that failed in the same way: the first one's reason, how many, and ids of their prompts."""

    reason: str
    count: int
    prompts: list[int | str]


class ResultModel(BaseModel):
    """The answer so far, final once `done`; see `asktell.Result`."""

    goal: str
    metrics: list[str]
    selected: list[PromptModel]
    prompts: list[PromptModel]
    unresolved: list[PromptModel]
    spent: int
    budget: int
    spent_cost: float
    max_cost: float | None
    done: StrictBool
    stopped_early: StrictBool
    finished_early: StrictBool = False
    failures: Annotated[list[FailureModel], Field(description="By reason, the most common one first.")] = []
    notes: list[str]
    feasible: bool | None
    examples: int | None
    example_ids: Annotated[list[str] | None, Field(description="By position; left out where there are none.")] = None
    repeats: Annotated[int, Field(description="How often a prompt may see each; above 1 scores are noisy.")] = 1
    baseline: int | str | None
    comparison: Annotated[ComparisonModel | None, Field(description="The answer against the baseline.")]


class EvaluationModel(BaseModel):
    """One evaluation: its scores, or, if it failed, the error."""

    trial: int
    prompt: int | str
    example: int | None
    scores: dict[str, float] | None
    cost: float | None
    error: str | None
    details: Annotated[dict[str, Any] | None, Field(description="What was told beside the scores.")]
    example_id: str | None


class Evaluations(BaseModel):
    """Evaluations in the order in which they were told. Fewer than were wanted: these are the last ones so far."""

    evaluations: list[EvaluationModel]


class Report(BaseModel):
    """What a report shows: its `format` and `version`, and for its page alone everything else."""

    model_config = ConfigDict(extra="allow")

    format: str
    version: int


class Saved(BaseModel):
    """A saved selector, as `Selector.to_json` writes it."""

    model_config = ConfigDict(extra="allow")

    format: str
    version: int


class Health(BaseModel):
    """The service runs, and its storage answers."""

    status: Literal["ok"]
