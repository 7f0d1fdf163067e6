"""A trial as a sample of an Inspect task: what it is called, and how its prompt enters."""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from asktell import InvalidArgumentError, Trial
from asktell.extend import import_extra, in_words
from asktell_adapters._scores import checked_example
from asktell_adapters.llms.base import CompletionError, Example
from asktell_adapters.prompts import render

SYSTEM = "system"

Insert: TypeAlias = str | Callable[[str], Any]
"""How a prompt enters: see `InspectTask`."""


def checked_task(task: Any) -> Any:
    """A Task whose samples can be chosen, from that or from a function that makes it."""
    made = task() if callable(task) else task
    if not isinstance(made, import_extra("inspect_ai", "inspect").Task):
        raise InvalidArgumentError(f"An Inspect Task or a function that makes one is needed, got {made!r:.100}.")
    if getattr(made, "sample_source", None) is not None or not len(made.dataset):
        raise InvalidArgumentError("The task's dataset must be a list of samples, and at least one.")
    names = [_registered(reducer) for reducer in made.epochs_reducer or ()]
    if any(name != "mean" for name in names):
        raise InvalidArgumentError(f"A trial's score is the mean over epochs, but the task reduces them by {names}.")
    return made


def check_metrics(metrics: Collection[str], task: Any) -> None:
    """See whether a task has the metrics."""
    check_scorers(metrics, [_registered(scorer) for scorer in task.scorer or ()], USAGE)


def check_scorers(metrics: Collection[str], scorers: Sequence[str], besides: Sequence[str] = ()) -> None:
    """See whether scorers of these names, or what there is besides, give the metrics; errors of `check_metrics`."""
    known = [*besides, *(f"{name}{scorers[:index].count(name) or ''}" for index, name in enumerate(scorers))]
    if isinstance(metrics, str) or (wrong := [name for name in metrics if name.split("/")[0] not in known]):
        raise InvalidArgumentError(
            f"The task has no metric {metrics if isinstance(metrics, str) else wrong!r}; it has {known}, and "
            "'scorer/key' of a scorer that returns a dict."
        )


def sample_of(trial: Trial, examples: Sequence[Any], taken: Collection[str]) -> Any:
    """A copy of the trial's sample, called "prompt id|sample id" and, if that is taken, numbered from 2."""
    number = checked_example(trial.example, len(examples))
    sample = examples[number]
    # Inspect numbers samples without an id from 1.
    name = id_ = f"{trial.prompt_id}|{number + 1 if sample.id is None else sample.id}"
    times = 1
    while id_ in taken:
        times += 1
        id_ = f"{name}|{times}"
    ours = {"prompt_id": trial.prompt_id, "prompt": trial.prompt, "example": trial.example}
    return sample.model_copy(update={"id": id_, "metadata": {**(sample.metadata or {}), KEY: ours}})


def changes(task: Any, insert: Insert) -> dict[str, Any]:
    """What is to be changed in a task, so that each sample's own prompt enters."""
    solvers = import_extra("inspect_ai.solver", "inspect")

    async def as_system_message(state: Any, generate: Any) -> Any:
        return await system_prompt(state.metadata[KEY]["prompt"])(state, generate)

    async def by_template(state: Any, generate: Any) -> Any:
        fields = {name: value for name, value in state.metadata.items() if name != KEY}
        example = Example(state.user_prompt.text, fields=fields)
        state.user_prompt.text = render(str(insert), state.metadata[KEY]["prompt"], example)
        return state

    async def by_solver(state: Any, generate: Any) -> Any:
        assert callable(insert)
        return await solvers.chain(insert(state.metadata[KEY]["prompt"]))(state, generate)

    if callable(insert):
        return {"solver": solvers.solver(name="asktell_prompt")(lambda: by_solver)()}
    if insert != SYSTEM and not ("{prompt}" in insert and "{input}" in insert):
        raise InvalidArgumentError(
            f'insert must be "system", a template with {{prompt}} and {{input}}, or a function, got {insert!r}.'
        )
    step = solvers.solver(name="asktell_prompt")(lambda: as_system_message if insert == SYSTEM else by_template)()
    setup = task.setup if isinstance(task.setup, Sequence) else [task.setup] if task.setup else []
    return {"setup": [*setup, step]}


def system_prompt(prompt: str) -> Any:
    """A solver that adds the prompt, as it is, as a system message after those that are there.

    Inspect's own `system_message` reads a text that is a path or an address, and looks up what stands in braces.
    """
    solvers = import_extra("inspect_ai.solver", "inspect")
    messages = import_extra("inspect_ai.model", "inspect")

    async def add(state: Any, generate: Any) -> Any:
        place = 1 + max((i for i, message in enumerate(state.messages) if message.role == "system"), default=-1)
        state.messages.insert(place, messages.ChatMessageSystem(content=prompt))
        return state

    return solvers.solver(name="asktell_system_prompt")(lambda: add)()


def _registered(thing: Any) -> str:
    name: str = import_extra("inspect_ai.util", "inspect").registry_info(thing).name
    return name.split("/", 1)[-1]


# Scores of a sample in a log: numbers by name, or a failure with its reason


KEY = "asktell"
"""Under which a sample's metadata has its prompt and example."""

GROUP = "asktell_prompt"
"""Under which it has the prompt's id alone, to group metrics by."""

USAGE = ("input_tokens", "output_tokens", "total_tokens", "latency", "cost")

ValueToFloat: TypeAlias = Callable[[Any], float]

_WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def value_to_float(value: Any) -> float:
    """The same as Inspect's function of this name, but NaN for what that turns into 0 with a warning."""
    if isinstance(value, str):
        value = _WORDS.get(value, _WORDS.get(value.lower(), value))
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def numbers(scores: Mapping[str, Any], to_float: ValueToFloat | None = None) -> dict[str, float]:
    """Scorers' Scores as numbers by name; `scorer/key` of those that are mappings or lists."""
    to_float, found = to_float or value_to_float, {}
    for scorer, score in scores.items():
        value = score.value
        if isinstance(value, Mapping):
            found.update({f"{scorer}/{key}": to_float(part) for key, part in value.items()})
        elif isinstance(value, Sequence) and not isinstance(value, str):
            found.update({f"{scorer}/{index}": to_float(part) for index, part in enumerate(value)})
        else:
            found[scorer] = to_float(value)
    return found


@dataclass(frozen=True)
class Scoring:
    """How samples are read."""

    value_to_float: ValueToFloat | None = None  # of a score's value; None for the function above
    score_limited: bool = False  # whether a sample that ran into a limit has scores; otherwise it failed
    metrics: tuple[str, ...] | None = None  # without one of these, a sample failed

    def of_epochs(self, samples: Sequence[Any], model: str) -> dict[str, float]:
        """Means over the epochs of one sample, NaN where a scorer gave no number; and what all epochs cost."""
        cost = _cost(samples)
        paid = cost or 0.0
        rows = []
        for sample in samples:
            try:
                rows.append({**_usage(sample, model), **self._scores(sample)})
            except Exception as error:
                why = str(error) if isinstance(error, CompletionError) else in_words(error)
                raise CompletionError(f"sample {sample.id!r} of Inspect: {why}", cost=paid) from error
        names = [name for name in rows[0] if all(name in row for row in rows)]
        means = {name: math.fsum(row[name] for row in rows) / len(rows) for name in names}
        if cost is not None:
            means.setdefault("cost", cost)  # unless a scorer has that name
        for name in self.metrics or ():
            if not math.isfinite(means.get(name, math.nan)):
                raise CompletionError(f"sample {samples[0].id!r} of Inspect has no score {name!r}", cost=paid)
        return means

    def _scores(self, sample: Any) -> dict[str, float]:
        if sample.error is not None:
            raise CompletionError(_why(sample.error))
        if sample.limit is not None and not self.score_limited:
            raise CompletionError(f"its {sample.limit.type} limit of {sample.limit.limit:g} was reached")
        return numbers(sample.scores or {}, self.value_to_float)


_DIRECT_CAUSE = "\nThe above exception was the direct cause of the following exception:\n"


def _why(error: Any) -> str:
    """An error's message; of tenacity's RetryError, which says nothing, the line in the traceback for its cause."""
    message = str(error.message)
    if not message.startswith("RetryError"):
        return message
    *_, cause, _ = "", *str(error.traceback).split(_DIRECT_CAUSE)
    lines = cause.rstrip().split("\n")
    after = 1 + max((at for at, line in enumerate(lines) if line.startswith(" ")), default=-1)
    said = "\n".join(lines[after:])
    return re.sub(r"^[\w.]+\.(?=\w+(:|$))", "", said) or message


def _usage(sample: Any, model: str) -> dict[str, float]:
    """Tokens of the evaluated model (of its graders none), and wall seconds, as far as the log has them."""
    usage: dict[str, float] = {}
    own = sample.model_usage.get(model)
    if own is not None:
        usage |= {name: float(getattr(own, name)) for name in ("input_tokens", "output_tokens", "total_tokens")}
    if sample.total_time is not None:
        usage["latency"] = float(sample.total_time)
    return usage


def _cost(samples: Sequence[Any]) -> float | None:
    """The cost of all models, in dollars; None unless Inspect knows every price."""
    costs = [getattr(used, "total_cost", None) for sample in samples for used in sample.model_usage.values()]
    known = [float(cost) for cost in costs if cost is not None]
    return math.fsum(known) if known and len(known) == len(costs) else None
