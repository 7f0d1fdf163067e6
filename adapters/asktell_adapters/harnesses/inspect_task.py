"""Inspect (inspect-ai): a task whose prompts and samples asktell chooses, one `eval()` and one log per batch.

Called inspect_task, because a file inspect.py or inspect_ai.py hides those modules from whoever stands in this folder.
"""

import copy
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from asktell import Trial
from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell.extras import import_extra
from asktell.running.run import outside_of_loops
from asktell_adapters.evaluators.llm import render
from asktell_adapters.harnesses.inspect_scores import KEY, USAGE, Scoring, ValueToFloat
from asktell_adapters.llms.base import CompletionError, Example

SYSTEM = "system"

_OURS = {
    "tasks",
    "model",
    "limit",
    "sample_id",
    "fail_on_error",
    "log_header_only",
    "log_samples",
    "run_samples",
    "score",
}
_one_eval_at_a_time = threading.Lock()  # Inspect refuses a second one in the same process.


class InspectTask:
    """Evaluates trials as samples of an Inspect task, for `asktell.run`.

    A batch is one `inspect_ai.eval()` over the pairs that were asked, and one file in `log_dir`, in which a sample's id
    is "prompt id|sample id" and its metadata has both, the prompt's text and the example's index under "asktell".

    Scores are named after their scorer; of a scorer that returns a dict, `scorer/key`. Besides them there are
    `input_tokens`, `output_tokens`, `total_tokens` (of the evaluated model), `latency` (the sample's wall seconds) and,
    where Inspect knows prices, `cost` (of all its models, in dollars). Over epochs, the mean.

    Args:
        task: an Inspect Task, or a function without arguments that makes one (such as an `@task`).
        model: a name such as "openai/gpt-4o-mini", or an Inspect Model; by default the task's own, or that of
            INSPECT_EVAL_MODEL.
        insert: how a prompt enters: "system", as a system message before the task's solver; a template of the user's
            turn with `{prompt}` and `{input}` (and columns of the sample's metadata); or a function from the prompt to
            a solver, an agent or a list of solvers, which then replaces the task's solver.
        metrics: those that the goal needs, checked now against the task's scorers.
        log_dir: where the logs go; by default where Inspect puts them.
        score_limited: take the scores of samples that ran into a limit (time, tokens, messages), as Inspect does; by
            default these are failures.
        value_to_float: what a score's value is worth; by default numbers, "C" 1, "P" .5, "I" and "N" 0, yes and no.
        options: more arguments of `inspect_ai.eval`: max_connections, time_limit, retry_on_error, temperature, ...

    Raises:
        InvalidArgumentError: an argument cannot be used.
        EvaluatorError: Inspect cannot make the model.
        MissingExtraError: inspect-ai is not installed.
    """

    def __init__(
        self,
        task: Any,
        model: Any = None,
        *,
        insert: str | Callable[[str], Any] = SYSTEM,
        metrics: Collection[str] | None = None,
        log_dir: str | Path | None = None,
        score_limited: bool = False,
        value_to_float: ValueToFloat | None = None,
        **options: Any,
    ) -> None:
        self._inspect = import_extra("inspect_ai", "inspect")
        self.task = _task(self._inspect.Task, task)
        self.examples = tuple(self.task.dataset)
        if wrong := sorted(_OURS & set(options)):
            raise InvalidArgumentError(f"InspectTask chooses samples and reads logs itself: leave out {wrong}.")
        if metrics is not None:
            _check_metrics(metrics, self.task)
        self._scoring = Scoring(value_to_float, score_limited, None if metrics is None else tuple(metrics))
        self._model = _model(model)
        self._changes = _changes(self.task, insert)
        self._options = {"display": "none", **options, "tags": ["asktell", *(options.get("tags") or ())]}
        if log_dir is not None:
            self._options["log_dir"] = str(log_dir)

    def evaluate_batch(self, trials: Sequence[Trial]) -> list[Mapping[str, float] | Exception]:
        """Scores in the order of the trials; a sample that failed yields an exception in its place.

        Raises:
            EvaluatorError: Inspect refused the evaluation as a whole.
            KeyboardInterrupt: it was interrupted; samples that were ready are in its log.
        """
        samples: dict[str, Any] = {}
        ids: list[str | Exception] = []
        for trial in trials:
            try:
                sample = self._sample(trial, samples)
            except InvalidArgumentError as error:
                ids.append(error)
            else:
                samples[sample.id] = sample
                ids.append(sample.id)
        log = self._eval(list(samples.values())) if samples else None
        return [self._outcome(log, id_) if isinstance(id_, str) else id_ for id_ in ids]

    def _sample(self, trial: Trial, taken: Collection[str]) -> Any:
        if trial.example is None or not 0 <= trial.example < len(self.examples):
            raise InvalidArgumentError(
                f"The trial's example is {trial.example!r}, but the task has {len(self.examples)} samples; make the "
                "selector with examples=len(evaluator.examples)."
            )
        sample = self.examples[trial.example]
        # Inspect numbers samples without an id from 1.
        id_ = f"{trial.prompt_id}|{trial.example + 1 if sample.id is None else sample.id}"
        if id_ in taken:
            id_ += f"|{trial.id}"
        ours = {"prompt_id": trial.prompt_id, "prompt": trial.prompt, "example": trial.example}
        return sample.model_copy(update={"id": id_, "metadata": {**(sample.metadata or {}), KEY: ours}})

    def _eval(self, samples: list[Any]) -> Any:
        whole = self.task.dataset
        dataset = import_extra("inspect_ai.dataset", "inspect").MemoryDataset(samples, whole.name, whole.location)
        # A copy, since task_with() changes what it is given.
        task = self._inspect.task_with(copy.copy(self.task), dataset=dataset, **self._changes)
        options = self._options if self._model is None else {**self._options, "model": self._model}
        with _one_eval_at_a_time:
            try:
                logs = outside_of_loops(lambda: self._inspect.eval(task, fail_on_error=False, **options))
            except Exception as error:
                raise EvaluatorError(f"Inspect refused the evaluation: {type(error).__name__}: {error}") from error
        if not logs or logs[0].status == "cancelled":  # Inspect swallows Ctrl-C.
            raise KeyboardInterrupt
        return logs[0]

    def _outcome(self, log: Any, id_: str) -> Mapping[str, float] | Exception:
        epochs = [sample for sample in log.samples or () if sample.id == id_]
        if not epochs:
            why = log.error.message if log.error else "it was not run"
            return EvaluatorError(f"Inspect's log has no sample {id_!r}: {why}")
        try:
            return self._scoring.of_epochs(epochs, log.eval.model)
        except CompletionError as error:
            return error


def _task(kind: Any, task: Any) -> Any:
    made = task() if callable(task) else task
    if not isinstance(made, kind):
        raise InvalidArgumentError(
            f"InspectTask needs an Inspect Task or a function that makes one, got {made!r:.100}."
        )
    if getattr(made, "sample_source", None) is not None or not len(made.dataset):
        raise InvalidArgumentError("The task's dataset must be a list of samples, and at least one.")
    names = [_registered(reducer) for reducer in made.epochs_reducer or ()]
    if any(name != "mean" for name in names):
        raise InvalidArgumentError(f"A trial's score is the mean over epochs, but the task reduces them by {names}.")
    return made


def _registered(thing: Any) -> str:
    """The name of a scorer or reducer, without its package."""
    name: str = import_extra("inspect_ai.util", "inspect").registry_info(thing).name
    return name.split("/", 1)[-1]


def _check_metrics(metrics: Collection[str], task: Any) -> None:
    names = [_registered(scorer) for scorer in task.scorer or ()]
    known = [*USAGE, *(f"{name}{names[:index].count(name) or ''}" for index, name in enumerate(names))]
    if isinstance(metrics, str) or (wrong := [name for name in metrics if name.split("/")[0] not in known]):
        raise InvalidArgumentError(
            f"The task has no metric {metrics if isinstance(metrics, str) else wrong!r}; it has {known}, and "
            "'scorer/key' of a scorer that returns a dict."
        )


def _model(model: Any) -> Any:
    if not isinstance(model, str):
        return model
    try:
        return import_extra("inspect_ai.model", "inspect").get_model(model)
    except Exception as error:
        raise EvaluatorError(f"Inspect cannot make the model {model!r}: {error}") from error


def _changes(task: Any, insert: str | Callable[[str], Any]) -> dict[str, Any]:
    """What is to be changed in a task, so that each sample's own prompt enters."""
    solvers = import_extra("inspect_ai.solver", "inspect")
    messages = import_extra("inspect_ai.model", "inspect")

    async def as_system_message(state: Any, generate: Any) -> Any:
        place = 1 + max((i for i, message in enumerate(state.messages) if message.role == "system"), default=-1)
        state.messages.insert(place, messages.ChatMessageSystem(content=state.metadata[KEY]["prompt"]))
        return state

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
