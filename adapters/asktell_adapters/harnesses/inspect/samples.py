"""A trial as a sample of an Inspect task: what it is called, and how its prompt enters."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

from asktell import InvalidArgumentError, Trial
from asktell.extend import import_extra
from asktell_adapters._scores import checked_example
from asktell_adapters.harnesses.inspect.scores import KEY, USAGE
from asktell_adapters.llms.base import Example
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
