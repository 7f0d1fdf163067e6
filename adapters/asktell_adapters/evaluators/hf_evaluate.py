"""Task evaluators of Hugging Face `evaluate` (`evaluate.evaluator("summarization")`), for chosen prompts and rows."""

import copy
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, final

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import import_extra
from asktell_adapters._scores import checked_example
from asktell_adapters.llms.base import LLM, Example, Request
from asktell_adapters.metrics.hf import load_module
from asktell_adapters.prompts import TEMPLATE, Template, render


@final
class TaskEvaluator:
    """Scores a prompt on a row by `task_evaluator.compute(pipeline, data=that row, metric=...)`.

    The scores are what `compute` returns: the metric's values, and "latency_in_seconds", "total_time_in_seconds" and
    "samples_per_second". One evaluation is one call of the pipeline, and modules of `evaluate` keep state: use it from
    one thread. For batches use an LLMEvaluator with HuggingFaceMetric, which scores the same.

    Args:
        task: a task's name, such as "text2text-generation", or an evaluator of `evaluate`.
        pipeline: a transformers pipeline, a model's id or folder to make one of (then candidates may have a factor
            "model", each with a pipeline of its own), or any function from a list of inputs
            to a list of outputs; outputs that are texts are brought into the task's form. Tasks that transformers 5
            has no pipelines for, all but text and token classification, "text-generation" and those of images and
            sound, need a function; `answers(llm)` makes one of an LLM.
        data: the rows: a `datasets.Dataset`, or a list of mappings.
        metric: a module, its folder or hub name, or what `evaluate.combine` returns; None: the task's own, of the hub.
        template: how prompt and row make the input; see `render`.
        column: which one the template fills as `{input}`; by default the task's input.
        settings: further arguments of `compute`, such as `label_column` and `label_mapping`.

    Raises:
        EvaluatorError: the metric or the model cannot be loaded.
        InvalidArgumentError: there is no such task, no row, or no such column, or the template does not fit.
        MissingExtraError: evaluate, datasets or transformers is not installed.
    """

    def __init__(
        self,
        task: str | object,
        pipeline: str | Callable[..., Any],
        data: Any,
        metric: object = None,
        *,
        template: Template = TEMPLATE,
        column: str | None = None,
        **settings: Any,
    ) -> None:
        self._evaluator = _task(task)
        self._dataset = import_extra("datasets", "metrics").Dataset
        self.data = self._dataset.from_list([dict(row) for row in data]) if isinstance(data, list | tuple) else data
        self.n_examples = len(self.data)
        if not self.n_examples:
            raise InvalidArgumentError("TaskEvaluator needs at least one row of data, got none.")
        is_qa = self._evaluator.task == "question-answering"
        key = "question_column" if is_qa else "input_column"
        self._column = column or settings.get(key) or ("question" if is_qa else "text")
        if self._column not in self.data.column_names:
            raise InvalidArgumentError(
                f"The data has no column {self._column!r} for the input, but {self.data.column_names}: name it by "
                f"{key}=..."
            )
        self._template = template
        self._row(" ", 0)  # a template that names a missing column fails here rather than in every trial
        self._settings = settings
        self._metric = load_module(self._evaluator.default_metric_name if metric is None else metric)
        if not callable(getattr(self._metric, "compute", None)):
            raise InvalidArgumentError(f"The metric must be a module of evaluate, or its name; got {self._metric!r}.")
        self._prepare = self._evaluator.prepare_pipeline
        self._is_made = isinstance(pipeline, str)
        self._pipes: dict[Any, _Pipe] = {
            None: _Pipe(self._made(pipeline) if isinstance(pipeline, str) else pipeline, self._evaluator)
        }
        self._pipe = self._pipes[None]
        # evaluate's own asks transformers for a class that it has no more.
        self._evaluator.prepare_pipeline = lambda **_: self._pipe

    def __call__(self, candidate: str | Mapping[str, Any], example: int | None) -> dict[str, float]:
        """Scores of a prompt, or a candidate, on a row; raises what the pipeline or the metric raised.

        Raises:
            InvalidArgumentError: no row, or one that is not there, or a factor that is of no use here.
        """
        prompt, self._pipe = self._asked(candidate)
        row = self._dataset.from_list([self._row(prompt, example)], features=self.data.features)
        result = self._evaluator.compute(model_or_pipeline=None, data=row, metric=self._metric, **self._settings)
        return _numbers(result)

    def check_prompts(self, prompts: Mapping[str, Any]) -> None:
        """Make the pipelines of all candidates; `asktell.run` calls this first.

        Raises:
            InvalidArgumentError: a factor is of no use here.
        """
        for candidate in prompts.values():
            self._asked(candidate)

    def _asked(self, candidate: str | Mapping[str, Any]) -> "tuple[str, _Pipe]":
        """The prompt's text, and the pipeline of the candidate's model."""
        factors = {"prompt": candidate} if isinstance(candidate, str) else candidate
        model = factors.get("model")
        if "prompt" not in factors or not set(factors) <= {"prompt", "model"}:
            raise InvalidArgumentError(
                f"TaskEvaluator takes the factors 'prompt' and 'model', got {sorted(factors)}. LLMEvaluator with "
                "HuggingFaceMetric takes others."
            )
        if model is not None and not self._is_made:
            raise InvalidArgumentError(
                f"The factor 'model' is {model!r}, but this TaskEvaluator has a ready pipeline of one model. Give it a "
                "model's id or folder as `pipeline`, or use LLMEvaluator with HuggingFaceMetric."
            )
        if model not in self._pipes:
            self._pipes[model] = _Pipe(self._made(str(model)), self._evaluator)
        return factors["prompt"], self._pipes[model]

    def _row(self, prompt: str, example: int | None) -> dict[str, Any]:
        row = dict(self.data[checked_example(example, self.n_examples)])
        return {**row, self._column: render(self._template, prompt, Example(str(row[self._column]), fields=row))}

    def _made(self, model: str) -> Any:
        try:
            return self._prepare(model_or_pipeline=model)
        except (KeyError, OSError, ValueError) as error:
            raise EvaluatorError(
                f"transformers could not make a pipeline of {model!r} for {self._evaluator.task!r}: {error}"
            ) from error


def answers(llm: LLM, *, system: str | None = None, max_new_tokens: int = 512) -> Callable[[Sequence[str]], list[str]]:
    """An LLM as a pipeline: texts in, answers out; raises what the LLM raised."""

    def pipe(texts: Sequence[str]) -> list[str]:
        written = []
        for answer in llm.complete([Request.chat(text, system, max_new_tokens=max_new_tokens) for text in texts]):
            if isinstance(answer, Exception):
                raise answer
            written.append(answer.text)
        return written

    return pipe


class _Pipe:
    """A pipeline or a function as the evaluator calls it."""

    def __init__(self, pipe: Callable[..., Any], evaluator: Any) -> None:
        self._pipe = pipe
        self._evaluator = evaluator
        self._is_pipeline = isinstance(pipe, import_extra("transformers", "huggingface").Pipeline)

    def __call__(self, *inputs: Any, **keywords: Any) -> Any:
        if self._is_pipeline:
            return self._pipe(*inputs, **keywords)
        named = {name: list(x) for name, x in keywords.items() if name not in self._evaluator.PIPELINE_KWARGS}
        outputs = list(self._pipe(*map(list, inputs), **named))
        return [self._formed(output) if isinstance(output, str) else output for output in outputs]

    def _formed(self, text: str) -> Any:
        if prefix := getattr(self._evaluator, "PREDICTION_PREFIX", None):
            return {f"{prefix}_text": text}
        if prefix := getattr(self._evaluator, "predictions_prefix", None):
            return [{f"{prefix}_text": text}]
        if self._evaluator.task == "question-answering":
            return {"answer": text, "score": 0.0}
        return {"label": text}


def _task(task: Any) -> Any:
    module = import_extra("evaluate.evaluator", "metrics")
    import_extra("transformers", "huggingface")
    if not isinstance(task, str):
        return copy.copy(task)
    # evaluate.evaluator() asks transformers, which has dropped most tasks; their evaluators need a pipeline only.
    tasks = module.SUPPORTED_EVALUATOR_TASKS
    if task not in tasks:
        raise InvalidArgumentError(f"evaluate has no task {task!r}; it has {sorted(tasks)}.")
    return tasks[task]["implementation"](task=task, default_metric_name=tasks[task]["default_metric_name"])


def _numbers(result: Mapping[str, Any]) -> dict[str, float]:
    """The values that are numbers; others, such as a confidence interval, are not scores."""
    values = {key: value[0] if isinstance(value, list) and len(value) == 1 else value for key, value in result.items()}
    return {key: float(value) for key, value in values.items() if isinstance(value, Real)}
