"""What goes over HTTP, and, as a saved selector, may come back. Shapes only."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool


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
