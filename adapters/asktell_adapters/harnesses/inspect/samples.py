"""Trials as samples of an Inspect task: their ids, the insertion of their prompts, and their scores."""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from asktell import InvalidArgumentError, Trial
from asktell.extend import import_extra, in_words
from asktell_adapters._util.scores import checked_example
from asktell_adapters.llms.base import CompletionError, Example
from asktell_adapters.llms.prompts import render

SYSTEM = "system"

Insert: TypeAlias = str | Callable[[str], Any]
"""How a prompt is inserted into a task. See `InspectTask`."""


def checked_task(task: Any) -> Any:
    """Return an Inspect Task whose samples can be chosen, given the Task or a function that creates it.

    Raises:
        InvalidArgumentError: there is no Task, its dataset is empty or no list of
            samples, or it does not reduce epochs by the mean.
    """
    checked = task() if callable(task) else task
    if not isinstance(checked, import_extra("inspect_ai", "inspect").Task):
        raise InvalidArgumentError(
            f"task must be an Inspect Task or a function that returns one, got {checked!r:.100}."
        )
    if getattr(checked, "sample_source", None) is not None or not len(checked.dataset):
        raise InvalidArgumentError(
            "The task's dataset must be a list with at least one sample."
        )
    names = [_registered(reducer) for reducer in checked.epochs_reducer or ()]
    if any(name != "mean" for name in names):
        raise InvalidArgumentError(
            f"A score is the mean over epochs, but the task reduces epochs by {names}. Use the reducer 'mean'."
        )
    return checked


def check_metrics(metrics: Collection[str], task: Any) -> None:
    """Check that a task has the metrics.

    Raises:
        InvalidArgumentError: it lacks one.
    """
    check_scorers(metrics, [_registered(scorer) for scorer in task.scorer or ()], USAGE)


def check_scorers(
    metrics: Collection[str], scorers: Sequence[str], besides: Sequence[str] = ()
) -> None:
    """Check that the metrics are names of these scorers or of the scores `besides`.

    Raises:
        InvalidArgumentError: a metric is neither.
    """
    names = list(besides)
    for index, name in enumerate(scorers):
        # Inspect numbers later scorers of the same name from 1.
        names.append(f"{name}{scorers[:index].count(name) or ''}")
    wrong = (
        metrics
        if isinstance(metrics, str)
        else [name for name in metrics if name.split("/")[0] not in names]
    )
    if wrong or isinstance(metrics, str):
        raise InvalidArgumentError(
            f"metrics must be a list of the task's metrics, got {wrong!r}. The task's metrics are {names}, and "
            "'scorer/key' of a scorer that returns a dict."
        )


def sample_of(trial: Trial, examples: Sequence[Any], taken: Collection[str]) -> Any:
    """Return a copy of the trial's sample with its own id, and with the prompt and the example in its metadata.

    The id is "prompt id|sample id". If that is taken, "|2" or the next free number
    follows.
    """
    number = checked_example(trial.example, len(examples))
    sample = examples[number]
    # Inspect numbers samples without an id from 1.
    name = id_ = f"{trial.prompt_id}|{number + 1 if sample.id is None else sample.id}"
    times = 1
    while id_ in taken:
        times += 1
        id_ = f"{name}|{times}"
    ours = {
        "prompt_id": trial.prompt_id,
        "prompt": trial.prompt,
        "example": trial.example,
    }
    return sample.model_copy(
        update={"id": id_, "metadata": {**(sample.metadata or {}), KEY: ours}}
    )


def changes(task: Any, insert: Insert) -> dict[str, Any]:
    """Return the arguments of `task_with` that insert the prompt of each sample.

    Raises:
        InvalidArgumentError: `insert` is none of the three kinds.
    """
    solvers = import_extra("inspect_ai.solver", "inspect")

    async def as_system_message(state: Any, generate: Any) -> Any:
        return await system_prompt(state.metadata[KEY]["prompt"])(state, generate)

    async def by_template(state: Any, generate: Any) -> Any:
        fields = {name: value for name, value in state.metadata.items() if name != KEY}
        example = Example(state.user_prompt.text, fields=fields)
        state.user_prompt.text = render(
            str(insert), state.metadata[KEY]["prompt"], example
        )
        return state

    async def by_solver(state: Any, generate: Any) -> Any:
        assert callable(insert)
        return await solvers.chain(insert(state.metadata[KEY]["prompt"]))(
            state, generate
        )

    if callable(insert):
        return {"solver": solvers.solver(name="asktell_prompt")(lambda: by_solver)()}
    if insert != SYSTEM and not ("{prompt}" in insert and "{input}" in insert):
        raise InvalidArgumentError(
            f'insert must be "system", a template with {{prompt}} and {{input}}, or a function, got {insert!r}.'
        )
    step = solvers.solver(name="asktell_prompt")(
        lambda: as_system_message if insert == SYSTEM else by_template
    )()
    if isinstance(task.setup, Sequence):
        return {"setup": [*task.setup, step]}
    return {"setup": [task.setup, step] if task.setup else [step]}


def system_prompt(prompt: str) -> Any:
    """Return a solver that adds the prompt as a system message, after the existing system messages.

    The text is inserted unchanged. Inspect's own `system_message` would read a file or
    URL if the text is its name, and would fill in fields in braces.
    """
    solvers = import_extra("inspect_ai.solver", "inspect")
    messages = import_extra("inspect_ai.model", "inspect")

    async def add(state: Any, generate: Any) -> Any:
        place = 1 + max(
            (i for i, message in enumerate(state.messages) if message.role == "system"),
            default=-1,
        )
        state.messages.insert(place, messages.ChatMessageSystem(content=prompt))
        return state

    return solvers.solver(name="asktell_system_prompt")(lambda: add)()


def _registered(thing: Any) -> str:
    name: str = import_extra("inspect_ai.util", "inspect").registry_info(thing).name
    return name.split("/", 1)[-1]


# Scores of a sample in a log: numbers by name, or a failure with its reason


KEY = "asktell"
"""The key of a sample's metadata for its prompt and example."""

GROUP = "asktell_prompt"
"""The key of a sample's metadata for the id of its prompt alone. Metrics are grouped by it."""

USAGE = ("input_tokens", "output_tokens", "total_tokens", "latency", "cost")
"""The scores of every sample besides those of its scorers."""

ValueToFloat: TypeAlias = Callable[[Any], float]
"""A function from a score's value to a number, or to NaN if the value has none."""

_WORDS = {
    "C": 1.0,
    "P": 0.5,
    "I": 0.0,
    "N": 0.0,
    "yes": 1.0,
    "true": 1.0,
    "no": 0.0,
    "false": 0.0,
}


def value_to_float(value: Any) -> float:
    """Convert a score's value to a number as Inspect's function of this name does.

    For a value without a number, Inspect's function warns and returns 0. This function
    returns NaN.
    """
    if isinstance(value, str):
        value = _WORDS.get(value, _WORDS.get(value.lower(), value))
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def numbers(
    scores: Mapping[str, Any], to_float: ValueToFloat | None = None
) -> dict[str, float]:
    """Convert Inspect's Scores, by scorer, to numbers by name.

    A value that is a mapping or a list becomes one number per entry, with the name
    `scorer/key`.
    """
    to_float, by_name = to_float or value_to_float, {}
    for scorer, score in scores.items():
        value = score.value
        if isinstance(value, Mapping):
            by_name.update(
                {f"{scorer}/{key}": to_float(part) for key, part in value.items()}
            )
        elif isinstance(value, Sequence) and not isinstance(value, str):
            by_name.update(
                {
                    f"{scorer}/{index}": to_float(part)
                    for index, part in enumerate(value)
                }
            )
        else:
            by_name[scorer] = to_float(value)
    return by_name


@dataclass(frozen=True)
class Scoring:
    """How scores are read from samples.

    Attributes:
        value_to_float: converts a score's value to a number. None: the function
            `value_to_float`.
        score_limited: whether a sample that reached a limit has scores. Otherwise it
            failed.
        metrics: a sample failed if it lacks one of these metrics.
    """

    value_to_float: ValueToFloat | None = None
    score_limited: bool = False
    metrics: tuple[str, ...] | None = None

    def of_epochs(self, samples: Sequence[Any], model: str) -> dict[str, float]:
        """Return the mean of every score over the epochs of one sample, and the cost of all epochs.

        A mean is NaN if a scorer returned no number.

        Args:
            samples: all epochs of one sample.
            model: the evaluated model, whose tokens are counted.

        Raises:
            CompletionError: an epoch failed, or a metric has no finite mean. The error
                has the cost of all epochs.
        """
        cost = _cost(samples)
        paid = cost or 0.0
        rows = []
        for sample in samples:
            try:
                rows.append({**_usage(sample, model), **self._scores(sample)})
            except Exception as error:
                why = (
                    str(error)
                    if isinstance(error, CompletionError)
                    else in_words(error)
                )
                raise CompletionError(
                    f"Inspect's sample {sample.id!r} failed: {why}", cost=paid
                ) from error
        names = [name for name in rows[0] if all(name in row for row in rows)]
        means = {
            name: math.fsum(row[name] for row in rows) / len(rows) for name in names
        }
        if cost is not None:
            # A scorer of this name takes precedence.
            means.setdefault("cost", cost)
        for name in self.metrics or ():
            if not math.isfinite(means.get(name, math.nan)):
                raise CompletionError(
                    f"Inspect's sample {samples[0].id!r} has no score {name!r}",
                    cost=paid,
                )
        return means

    def _scores(self, sample: Any) -> dict[str, float]:
        """The scores of one epoch.

        Raises:
            CompletionError: the epoch failed, or reached a limit.
        """
        if sample.error is not None:
            raise CompletionError(_why(sample.error))
        if sample.limit is not None and not self.score_limited:
            unit = " seconds" if sample.limit.type in ("time", "working") else ""
            raise CompletionError(
                f"the sample reached its {sample.limit.type} limit of {sample.limit.limit:g}{unit}"
            )
        return numbers(sample.scores or {}, self.value_to_float)


_DIRECT_CAUSE = (
    "\nThe above exception was the direct cause of the following exception:\n"
)


def _why(error: Any) -> str:
    """Return an error's message.

    The message of tenacity's RetryError does not contain the cause, so that the cause
    is taken from the traceback.
    """
    message = str(error.message)
    if not message.startswith("RetryError"):
        return message
    *_, cause, _ = "", *str(error.traceback).split(_DIRECT_CAUSE)
    lines = cause.rstrip().split("\n")
    after = 1 + max(
        (at for at, line in enumerate(lines) if line.startswith(" ")), default=-1
    )
    last = "\n".join(lines[after:])
    # Without the module of the exception's type: "httpx.ConnectError: ..." becomes
    # "ConnectError: ...".
    return re.sub(r"^[\w.]+\.(?=\w+(:|$))", "", last) or message


def _usage(sample: Any, model: str) -> dict[str, float]:
    """Tokens of the evaluated model (without those of graders) and wall-clock seconds, if the log has them."""
    usage: dict[str, float] = {}
    model_usage = sample.model_usage.get(model)
    if model_usage is not None:
        usage |= {
            name: float(getattr(model_usage, name))
            for name in ("input_tokens", "output_tokens", "total_tokens")
        }
    if sample.total_time is not None:
        usage["latency"] = float(sample.total_time)
    return usage


def _cost(samples: Sequence[Any]) -> float | None:
    """The cost of all models in dollars. None unless Inspect has every price."""
    costs = [
        getattr(used, "total_cost", None)
        for sample in samples
        for used in sample.model_usage.values()
    ]
    priced = [float(cost) for cost in costs if cost is not None]
    return math.fsum(priced) if priced and len(priced) == len(costs) else None
