"""lm-evaluation-harness (lm-eval): an evaluator for `asktell.run`. It evaluates prompts on documents of a task.

A document is lm-eval's word for an example.
"""

import functools
import math
import os
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from inspect import signature
from pathlib import Path
from typing import Any

from asktell import EvaluatorError, InvalidArgumentError, Trial
from asktell.extend import import_extra, in_words
from asktell_adapters._util.scores import checked_example, failing, number, or_alone

__all__ = ["LMEvalTask"]

SYSTEM, DESCRIPTION, DOC_TO_TEXT = INSERTS = ("system", "description", "doc_to_text")


class LMEvalTask:
    """Evaluate trials as documents of an lm-eval task, for `asktell.run`.

    ```python
    evaluator = LMEvalTask("gsm8k", "hf", {"pretrained": "my-model"})
    selector = asktell.Selector(prompts, goal, budget=500, examples=len(evaluator.examples))
    result = asktell.run(selector, evaluator, concurrency=50)
    ```

    The task and the model are created once. `asktell.run` evaluates trials in batches,
    whose size is its argument `concurrency`. All requests of a batch go to the model
    together.

    A score has lm-eval's name, such as `acc` or `exact_match`. If the task has several
    filters, there is one score for each, with the name of the filter after a comma:
    `exact_match,strict-match`. Metrics that are only defined over all documents (corpus
    F1, BLEU, perplexity) are left out. There are two more scores:

    - `latency`: the seconds of the batch, divided by its number of documents.
    - `output_tokens`: number of tokens of the model's responses. Only with
      `count_tokens`, and only for tasks in which the model writes text
      (`generate_until`).

    Args:
        task: the name of a task, the path of its YAML file, its configuration as a
            dict, or an lm-eval Task.
        model: an lm-eval LM, or a name such as "hf" or "local-chat-completions"
            together with `model_args`.
        model_args: arguments of the model, as for lm-eval's `simple_evaluate`: a dict,
            or a text such as "pretrained=my-model".
        insert: where the prompt goes. With "system" (default), it becomes the system
            instruction. Without a chat template, the text for the model then starts
            with the prompt. With "description" or "doc_to_text", it replaces this field
            of the task's configuration. The prompt is then a Jinja template, which may
            use the fields of the document, such as `{{question}}`. It is rendered in
            Jinja's sandbox, so it has no access to other Python objects.
        metrics: names of the metrics that the goal needs (`goal.metrics`). A name that
            the task does not have raises an error here, before the first evaluation. By
            default, names are not checked.
        num_fewshot: number of few-shot examples before the document. By default, it is
            the number in the task's configuration. A document gets the same few-shot
            examples with every prompt.
        apply_chat_template: True: format requests with the chat template of the model.
            Models that only have a chat interface need it.
        fewshot_as_multiturn: True: present few-shot examples as turns of a chat, as in
            `simple_evaluate`.
        count_tokens: a function from a text to its number of tokens. With it, there is
            the score `output_tokens`.
        seed: seed of the choice of few-shot examples.
        confirm_run_unsafe_code: True: allow a task that runs code that the model
            writes. Otherwise, such a task raises an error.

    Attributes:
        task: the lm-eval Task.
        model: the lm-eval LM.
        examples: the documents of the task, for `Selector(examples=len(...))`.
        metrics: the argument `metrics` as a tuple, or None.

    Raises:
        InvalidArgumentError: an argument cannot be used. Or a metric is unknown, or is
            not defined for a single document.
        EvaluatorError: lm-eval cannot create the model.
    """

    def __init__(
        self,
        task: Any,
        model: Any,
        model_args: Mapping[str, Any] | str | None = None,
        *,
        insert: str = "system",
        metrics: Collection[str] | None = None,
        num_fewshot: int | None = None,
        apply_chat_template: bool = False,
        fewshot_as_multiturn: bool = False,
        count_tokens: Callable[[str], int] | None = None,
        seed: int = 1234,
        confirm_run_unsafe_code: bool = False,
    ) -> None:
        if insert not in INSERTS:
            raise InvalidArgumentError(
                f"insert must be one of {list(INSERTS)}, got {insert!r}."
            )
        self.task = load_task(str(task) if isinstance(task, Path) else task)
        if getattr(self.task, "UNSAFE_CODE", False) and not confirm_run_unsafe_code:
            raise InvalidArgumentError(
                "The task runs code that the model writes. To allow that, pass confirm_run_unsafe_code=True."
            )
        self.metrics = None if metrics is None else tuple(metrics)
        self._left_out = per_document_metrics(
            self.task, metrics, ["output_tokens"] if count_tokens else []
        )
        self.examples = self.task.eval_docs
        self.model = _model(model, model_args)
        if getattr(self.task, "MULTIMODAL", False) and not getattr(
            self.model, "MULTIMODAL", False
        ):
            kind = type(self.model).__name__
            raise InvalidArgumentError(
                f"The task has images or audio, but {kind} reads only text. Use a multimodal model."
            )
        self._insert = insert
        shots = self.task.config.num_fewshot if num_fewshot is None else num_fewshot
        self._num_fewshot = int(shots or 0)
        template = (
            getattr(self.model, "apply_chat_template", None)
            if apply_chat_template
            else None
        )
        self._chat = {
            "apply_chat_template": apply_chat_template,
            "chat_template": template,
        }
        self._multiturn = fewshot_as_multiturn
        self._count_tokens = count_tokens
        self._seed = seed
        # A batch changes the task while it runs, so that batches of several threads
        # must run one after the other.
        self._lock = threading.Lock()

    def evaluate_batch(
        self, trials: Sequence[Trial]
    ) -> list[Mapping[str, float] | Exception]:
        """Evaluate trials. Return, in their order, the scores of each trial, or an exception if it failed.

        If the model fails on a batch, its documents are evaluated again, one by one. So
        only the documents that make the model fail are failures.
        """
        with self._lock:
            start = time.perf_counter()
            outcomes: list[Any] = [
                self._requests(trial, place) for place, trial in enumerate(trials)
            ]
            ready = [
                place
                for place, requests in enumerate(outcomes)
                if isinstance(requests, list)
            ]
            for place, error in zip(
                ready,
                or_alone(self._answer, [outcomes[place] for place in ready]),
                strict=True,
            ):
                outcomes[place] = error or outcomes[place]
            latency = (time.perf_counter() - start) / max(1, len(ready))
            for place in ready:
                if isinstance(outcomes[place], list):
                    outcomes[place] = self._scores(
                        trials[place], outcomes[place], latency
                    )
        return outcomes

    def _requests(self, trial: Trial, place: int) -> list[Any] | Exception:
        """Build lm-eval's requests for a trial. `place` is its index in the batch."""
        config = self.task.config
        try:
            number = checked_example(trial.example, len(self.examples))
            doc = self.examples[number]
            with self._inserted(trial.prompt, doc) as system:
                # A seed per document. With one random state for all, a document's
                # few-shot examples would depend on the documents evaluated before it.
                self.task.set_fewshot_seed(self._seed + number)
                context = self.task.fewshot_context(
                    doc,
                    num_fewshot=self._num_fewshot,
                    system_instruction=system,
                    fewshot_as_multiturn=self._multiturn,
                    gen_prefix=self.task.doc_to_prefix(doc),
                    **self._chat,
                )
                instances = self.task.construct_requests(
                    doc=doc,
                    ctx=context,
                    metadata=(config.task, place, config.repeats),
                    **self._chat,
                )
        except Exception as error:
            return _failure(trial, error)
        return list(instances) if isinstance(instances, list) else [instances]

    @contextmanager
    def _inserted(self, prompt: str, doc: Mapping[str, Any]) -> Iterator[str | None]:
        """Insert the prompt into the task for one document, and restore the task at the end.

        Yields the system instruction, or None if the prompt is inserted elsewhere.
        """
        config = self.task.config
        if self._insert == SYSTEM:
            separated = (
                self._chat["apply_chat_template"]
                or config.description
                or prompt[-1:].isspace()
            )
            yield prompt if separated else prompt + config.fewshot_delimiter
            return
        before = getattr(config, self._insert)
        if self._insert == DOC_TO_TEXT and ("{{" not in prompt and "{%" not in prompt):
            raise InvalidArgumentError(
                "With insert='doc_to_text', a prompt must contain fields of the document, such as {{question}}, but "
                "this prompt has none. Use insert='system' for plain instructions."
            )
        # From version 0.4.11 on, lm-eval has a second configuration for the format of
        # few-shot examples. It follows the prompt unless the task gives few-shot
        # examples a format of their own.
        fewshot: Any = getattr(self.task, "fewshot_cfg", None)
        same_format = (
            self._insert == DOC_TO_TEXT
            and fewshot is not None
            and fewshot.doc_to_text == before
        )
        # lm-eval would render a template itself, outside of the sandbox. So it gets a
        # function or a rendered text.
        inserted: Any
        if self._insert == DOC_TO_TEXT:
            inserted = functools.partial(rendered, prompt)
        else:
            inserted = literal(rendered(prompt, doc))
        setattr(config, self._insert, inserted)
        if same_format:
            fewshot.doc_to_text = inserted
        try:
            yield None
        finally:
            setattr(config, self._insert, before)
            if same_format:
                fewshot.doc_to_text = before

    def _answer(self, documents: list[list[Any]]) -> list[Exception | None]:
        """Send the requests to the model. Returns an exception for each document without a response, else None."""
        with failing("the model failed:"):
            self._ask([request for requests in documents for request in requests])
        return [_unanswered(requests) for requests in documents]

    def _ask(self, requests: list[Any]) -> None:
        """Let the model respond to the requests, one call for each type of request, as lm-eval does."""
        kinds: dict[str, list[Any]] = defaultdict(list)
        for request in requests:
            # Requests are reused after a failed batch, and must not keep the responses
            # of the first attempt.
            request.resps = []
            kinds[request.request_type] += [request] * request.repeats
        for kind, repeated in kinds.items():
            method = getattr(self.model, kind)
            quiet = (
                {"disable_tqdm": True}
                if "disable_tqdm" in signature(method).parameters
                else {}
            )
            for request, answer in zip(
                repeated, method(repeated, **quiet), strict=True
            ):
                request.resps.append(answer)

    def _scores(
        self, trial: Trial, requests: list[Any], latency: float
    ) -> Mapping[str, float] | Exception:
        """The scores of one document, by lm-eval's filters and metrics."""
        scores = {"latency": latency}
        if self._count_tokens is not None:
            texts = [
                answer
                for request in requests
                for answer in request.resps
                if isinstance(answer, str)
            ]
            scores |= (
                {"output_tokens": float(sum(map(self._count_tokens, texts)))}
                if texts
                else {}
            )
        try:
            self.task._instances = requests
            self.task.apply_filters()
            for filter_ in (filters := requests[0].filtered_resps):
                answers = [
                    request.filtered_resps[filter_]
                    for request in sorted(requests, key=lambda r: r.idx)
                ]
                for metric, value in self.task.process_results(
                    requests[0].doc, answers
                ).items():
                    if metric not in self._left_out:
                        name = metric if len(filters) == 1 else f"{metric},{filter_}"
                        scores[name] = self._number(name, value)
            for name in self.metrics or ():
                number(name, scores.get(name))
        except Exception as error:
            return _failure(trial, error)
        return scores

    def _number(self, name: str, value: object) -> float:
        """A score as a number. NaN if the task's metric is no number and the goal does not need it."""
        try:
            return number(name, value)
        except EvaluatorError:
            if self.metrics is not None and name in self.metrics:
                raise
            # The selector turns NaN into a failure only if the goal has this metric.
            return math.nan


def _model(model: Any, model_args: Mapping[str, Any] | str | None) -> Any:
    """Return an lm-eval LM, given the LM itself or its name."""
    if not isinstance(model, str):
        if not isinstance(model, import_extra("lm_eval.api.model", "lm-eval").LM):
            raise InvalidArgumentError(
                f"model must be an lm-eval LM or its name, got {type(model).__name__}."
            )
        return model
    import_extra("lm_eval.models", "lm-eval")
    with failing(f"lm-eval cannot create the model {model!r}:"):
        kind = import_extra("lm_eval.api.registry", "lm-eval").get_model(model)
        if isinstance(model_args, Mapping):
            return kind.create_from_arg_obj(dict(model_args))
        return kind.create_from_arg_string(model_args or "")


def _unanswered(requests: list[Any]) -> Exception | None:
    """Return an error if a request has no response, else None.

    A missing response is None, the placeholder that the environment sets for it, or NaN
    instead of a likelihood.
    """
    nothing = (None, os.environ.get("LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER") or None)
    for request in requests:
        for response in request.resps:
            value = response[0] if isinstance(response, tuple) else response
            if value in nothing or (isinstance(value, float) and math.isnan(value)):
                return EvaluatorError(
                    f"the model returned no response to a {request.request_type} request: {response!r:.100}"
                )
    return None


def _failure(trial: Trial, error: Exception) -> Exception:
    if isinstance(error, EvaluatorError | InvalidArgumentError):
        return error
    failure = EvaluatorError(f"lm-eval's document {trial.example}: {in_words(error)}")
    failure.__cause__ = error
    return failure


# Tasks


def load_task(task: Any) -> Any:
    """Return an lm-eval Task, given its name, the path of its YAML file, its configuration, or the Task itself.

    Raises:
        InvalidArgumentError: lm-eval cannot create the task, or the name is that of a
            group of tasks.
    """
    api = import_extra("lm_eval.api.task", "lm-eval")
    if isinstance(task, api.Task):
        return task
    try:
        if isinstance(task, Mapping):
            return api.ConfigurableTask(config=deepcopy(dict(task)))
        tasks = _find(task)
    except Exception as error:
        raise InvalidArgumentError(
            f"lm-eval cannot create the task {task!r:.100} ({type(error).__name__}: {error})."
        ) from error
    loaded, *rest = list(tasks.values()) or [None]
    if rest or not isinstance(loaded, api.Task):
        names = sorted(map(str, loaded if isinstance(loaded, Mapping) else tasks))
        raise InvalidArgumentError(
            f"{task!r} is a group of {len(names)} tasks. Pass a single task of {', '.join(names):.300}."
        )
    return loaded


def _find(task: str) -> dict[Any, Any]:
    """Load a task by its name or from its YAML file."""
    name = task
    if task.endswith((".yaml", ".yml")):
        path = Path(task)
        named = re.search(
            r"^task:\s*[\"']?(.+?)[\"']?\s*$",
            path.read_text(encoding="utf-8"),
            re.MULTILINE,
        )
        if named is None:
            raise ValueError("the file has no line 'task: NAME'")
        name = named.group(1)
        manager = _manager(str(path.parent.resolve()))
    else:
        manager = _manager()
    # lm-eval has this method from version 0.4.11 on.
    if hasattr(manager, "load"):
        tasks: dict[Any, Any] = manager.load(name)["tasks"]
    else:
        tasks = manager.load_task_or_group(name)
    return tasks


@functools.cache
def _manager(folder: str | None = None) -> Any:
    """Return lm-eval's TaskManager. It is cached because it reads thousands of YAML files, which takes seconds."""
    manager = import_extra("lm_eval.tasks", "lm-eval").TaskManager
    return (
        manager()
        if folder is None
        else manager(include_path=folder, include_defaults=False)
    )


def per_document_metrics(
    task: Any, wanted: Collection[str] | None, more: Collection[str] = ()
) -> set[str]:
    """Check that the wanted metrics are defined for a single document. Return the task's metrics that are not.

    A metric is defined for a single document if lm-eval aggregates it over documents by
    the mean.

    Args:
        task: an lm-eval Task.
        wanted: metrics, named as the scores of `LMEvalTask`. None: no metric is
            wanted.
        more: names of the scores that the evaluator adds, besides latency.

    Raises:
        InvalidArgumentError: a wanted metric is unknown or not defined for a single
            document, or no metric of the task is defined for a single document.
    """
    metrics = import_extra("lm_eval.api.metrics", "lm-eval")
    numpy = import_extra("numpy", "lm-eval")
    means = (metrics.mean, metrics.nanmean, numpy.mean, numpy.nanmean)
    together = {
        name: function
        for name, function in task.aggregation().items()
        if function not in means
    }
    filters = [ensemble.name for ensemble in task._filters]
    suffixes = [""] if len(filters) == 1 else [f",{name}" for name in filters]
    task_metrics = [
        name + suffix
        for name in task.aggregation()
        if name not in together
        for suffix in suffixes
    ]
    why = ", ".join(
        f"{name!r} (by {getattr(function, '__name__', function)})"
        for name, function in sorted(together.items())
    )
    if isinstance(wanted, str):
        raise InvalidArgumentError(
            f"metrics must be a list of metric names, got {wanted!r}."
        )
    for name in wanted or ():
        if name.split(",")[0] in together:
            raise InvalidArgumentError(
                f"The metric {name!r} is only defined over all documents, not for each document. Use one of "
                f"{task_metrics}, or add a metric with the aggregation 'mean' to the task."
            )
        if name not in task_metrics and name not in ("latency", *more):
            raise InvalidArgumentError(
                f"The task has no metric {name!r}. Its metrics are {[*task_metrics, 'latency', *more]}."
            )
    if not task_metrics:
        raise InvalidArgumentError(
            f"The metrics of the task are only defined over all documents, not for each document: {why}. Add a metric "
            "with the aggregation 'mean' to the task."
        )
    return set(together)


# Prompts that are Jinja templates. They are rendered in a sandbox, because lm-eval's
# own environment gives a template access to all of Python.

# Modules of types whose attributes a template may use. Objects of other types, such as
# images, can read files.
_HARMLESS = ("builtins", "datetime", "decimal", "jinja2.runtime", "jinja2.utils")


def rendered(template: str, doc: Mapping[str, Any]) -> str:
    """Render a Jinja template with the fields of a document.

    It may use lm-eval's Jinja filters. Unlike in lm-eval, it is rendered in Jinja's
    sandbox.

    Raises:
        jinja2.TemplateError: the template is malformed, or uses an unknown field or an
            attribute that is not allowed.
    """
    text: str = _sandbox().from_string(template).render(**doc)
    return text


def literal(text: str) -> str:
    """Return a template that renders as the text.

    If a text is also the name of a field, lm-eval replaces it by the field's value. So
    the template starts with an empty expression.
    """
    return "{{ '' }}" + re.sub(r"\{(?=[{%#])", "{{ '{' }}", text)


@functools.cache
def _sandbox() -> Any:
    """The Jinja environment in which prompts are rendered. It refuses attributes of objects that could read files."""
    jinja2 = import_extra("jinja2", "lm-eval")
    sandbox = import_extra("jinja2.sandbox", "lm-eval")

    class Sandbox(sandbox.ImmutableSandboxedEnvironment):  # type: ignore[misc,name-defined]
        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            return type(obj).__module__ in _HARMLESS and bool(
                super().is_safe_attribute(obj, attr, value)
            )

    environment = Sandbox(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    environment.filters.update(import_extra("lm_eval.utils", "lm-eval").env.filters)
    return environment
