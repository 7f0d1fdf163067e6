"""lm-evaluation-harness (lm-eval): a task with prompt variants, of which chosen documents are evaluated."""

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
from asktell_adapters._scores import checked_example, failing, number, or_alone

SYSTEM, DESCRIPTION, DOC_TO_TEXT = INSERTS = ("system", "description", "doc_to_text")


class LMEvalTask:
    """Evaluates trials as documents of an lm-eval task, for `asktell.run`.

    The requests of a batch go to the model together. The task and the model are made once, and no prompt is evaluated
    on more than the documents that were asked.

    Scores have lm-eval's names (`acc`, `exact_match`); of a task with several filters, `exact_match,strict-match`.
    Metrics that are only defined over all documents (corpus F1, BLEU, perplexity) are left out. Besides them there is
    `latency`, the batch's seconds over its size; and `output_tokens` with `count_tokens`.

    Args:
        task: a task's name, the path of its YAML file, its configuration as a dict, or an lm-eval Task.
        model: an lm-eval LM, or a name such as "hf" or "local-chat-completions" with its `model_args`.
        model_args: as for lm-eval's simple_evaluate, a dict or text.
        insert: how a prompt enters: "system", as system instruction (without a chat template, it is the beginning of
            the text, and the task's `fewshot_delimiter` follows); "description" or "doc_to_text", as that field of the
            task's configuration, a Jinja template with the document's fields. It is rendered in Jinja's sandbox, where
            it reaches these fields and nothing else of Python.
        metrics: those that the goal needs, checked now against the task's.
        num_fewshot: examples before the document; by default the task's own number. A document's are the same for
            every prompt.
        apply_chat_template: as for simple_evaluate. Models with chats only need it.
        fewshot_as_multiturn: as for simple_evaluate.
        count_tokens: of a text; adds `output_tokens`, of the answers of generate_until tasks.
        seed: of the draw of few-shot examples.
        confirm_run_unsafe_code: as for simple_evaluate.

    Raises:
        InvalidArgumentError: an argument cannot be used; a metric is unknown, or not defined for a single document.
        EvaluatorError: lm-eval cannot make the model.
    """

    def __init__(
        self,
        task: Any,
        model: Any,
        model_args: Mapping[str, Any] | str | None = None,
        *,
        insert: str = SYSTEM,
        metrics: Collection[str] | None = None,
        num_fewshot: int | None = None,
        apply_chat_template: bool = False,
        fewshot_as_multiturn: bool = False,
        count_tokens: Callable[[str], int] | None = None,
        seed: int = 1234,
        confirm_run_unsafe_code: bool = False,
    ) -> None:
        if insert not in INSERTS:
            raise InvalidArgumentError(f"insert must be one of {list(INSERTS)}, got {insert!r}.")
        self.task = load_task(str(task) if isinstance(task, Path) else task)
        if getattr(self.task, "UNSAFE_CODE", False) and not confirm_run_unsafe_code:
            raise InvalidArgumentError("The task runs code that the model writes; allow confirm_run_unsafe_code=True.")
        self.metrics = None if metrics is None else tuple(metrics)
        self._left_out = per_document_metrics(self.task, metrics, ["output_tokens"] if count_tokens else [])
        self.examples = self.task.eval_docs
        self.model = _model(model, model_args)
        if getattr(self.task, "MULTIMODAL", False) and not getattr(self.model, "MULTIMODAL", False):
            raise InvalidArgumentError(
                f"The task has images or audio, which {type(self.model).__name__} does not read."
            )
        self._insert = insert
        shots = self.task.config.num_fewshot if num_fewshot is None else num_fewshot
        self._num_fewshot = int(shots or 0)
        template = getattr(self.model, "apply_chat_template", None) if apply_chat_template else None
        self._chat = {"apply_chat_template": apply_chat_template, "chat_template": template}
        self._multiturn = fewshot_as_multiturn
        self._count_tokens = count_tokens
        self._seed = seed
        self._lock = threading.Lock()  # The task and the model are changed while a batch runs.

    def evaluate_batch(self, trials: Sequence[Trial]) -> list[Mapping[str, float] | Exception]:
        """Scores in the order of the trials; a document that failed yields an exception in its place.

        A batch in which the model fails is asked again document by document, to find out whose failure it is.
        """
        with self._lock:
            start = time.perf_counter()
            outcomes: list[Any] = [self._requests(trial, place) for place, trial in enumerate(trials)]
            ready = [place for place, requests in enumerate(outcomes) if isinstance(requests, list)]
            for place, error in zip(ready, or_alone(self._answer, [outcomes[place] for place in ready]), strict=True):
                outcomes[place] = error or outcomes[place]
            latency = (time.perf_counter() - start) / max(1, len(ready))
            for place in ready:
                if isinstance(outcomes[place], list):
                    outcomes[place] = self._scores(trials[place], outcomes[place], latency)
        return outcomes

    def _requests(self, trial: Trial, place: int) -> list[Any] | Exception:
        config = self.task.config
        try:
            number = checked_example(trial.example, len(self.examples))
            doc = self.examples[number]
            with self._inserted(trial.prompt, doc) as system:
                # Not one random state for all: a document's examples would depend on what was asked before.
                self.task.set_fewshot_seed(self._seed + number)
                context = self.task.fewshot_context(
                    doc,
                    num_fewshot=self._num_fewshot,
                    system_instruction=system,
                    fewshot_as_multiturn=self._multiturn,
                    gen_prefix=self.task.doc_to_prefix(doc),
                    **self._chat,
                )
                made = self.task.construct_requests(
                    doc=doc, ctx=context, metadata=(config.task, place, config.repeats), **self._chat
                )
        except Exception as error:
            return _failure(trial, error)
        return list(made) if isinstance(made, list) else [made]

    @contextmanager
    def _inserted(self, prompt: str, doc: Mapping[str, Any]) -> Iterator[str | None]:
        """The task with the prompt in it, for one document; yields the system instruction."""
        config = self.task.config
        if self._insert == SYSTEM:
            glue = self._chat["apply_chat_template"] or config.description or prompt[-1:].isspace()
            yield prompt if glue else prompt + config.fewshot_delimiter
            return
        before = getattr(config, self._insert)
        if self._insert == DOC_TO_TEXT and ("{{" not in prompt and "{%" not in prompt):
            raise InvalidArgumentError(
                "A doc_to_text names fields of the document, such as {{question}}; this prompt has none. Plain "
                'instructions go with insert="system".'
            )
        # From 0.4.11 on, what few-shot examples look like is kept apart.
        fewshot: Any = getattr(self.task, "fewshot_cfg", None)
        along = self._insert == DOC_TO_TEXT and fewshot is not None and fewshot.doc_to_text == before
        # A function in the place of a template: lm-eval would render that itself, outside of the sandbox.
        inserted = (
            functools.partial(rendered, prompt) if self._insert == DOC_TO_TEXT else literal(rendered(prompt, doc))
        )
        setattr(config, self._insert, inserted)
        if along:
            fewshot.doc_to_text = inserted
        try:
            yield None
        finally:
            setattr(config, self._insert, before)
            if along:
                fewshot.doc_to_text = before

    def _answer(self, documents: list[list[Any]]) -> list[Exception | None]:
        """Let the model answer; an exception for each document without an answer."""
        with failing("the model failed:"):
            self._ask([request for requests in documents for request in requests])
        return [_unanswered(requests) for requests in documents]

    def _ask(self, requests: list[Any]) -> None:
        kinds: dict[str, list[Any]] = defaultdict(list)
        for request in requests:
            request.resps = []
            kinds[request.request_type] += [request] * request.repeats
        for kind, repeated in kinds.items():
            method = getattr(self.model, kind)
            quiet = {"disable_tqdm": True} if "disable_tqdm" in signature(method).parameters else {}
            for request, answer in zip(repeated, method(repeated, **quiet), strict=True):
                request.resps.append(answer)

    def _scores(self, trial: Trial, requests: list[Any], latency: float) -> Mapping[str, float] | Exception:
        scores = {"latency": latency}
        if self._count_tokens is not None:
            texts = [answer for request in requests for answer in request.resps if isinstance(answer, str)]
            scores |= {"output_tokens": float(sum(map(self._count_tokens, texts)))} if texts else {}
        try:
            self.task._instances = requests
            self.task.apply_filters()
            for filter_ in (filters := requests[0].filtered_resps):
                answers = [request.filtered_resps[filter_] for request in sorted(requests, key=lambda r: r.idx)]
                for metric, value in self.task.process_results(requests[0].doc, answers).items():
                    if metric not in self._left_out:
                        name = metric if len(filters) == 1 else f"{metric},{filter_}"
                        scores[name] = self._number(name, value)
            for name in self.metrics or ():
                number(name, scores.get(name))
        except Exception as error:
            return _failure(trial, error)
        return scores

    def _number(self, name: str, value: object) -> float:
        try:
            return number(name, value)
        except EvaluatorError:
            if self.metrics is not None and name in self.metrics:
                raise
            return math.nan  # No failure unless the goal has this metric; the selector says so then.


def _model(model: Any, model_args: Mapping[str, Any] | str | None) -> Any:
    if not isinstance(model, str):
        if not isinstance(model, import_extra("lm_eval.api.model", "lm-eval").LM):
            raise InvalidArgumentError(f"model must be an lm-eval LM or its name, got {type(model).__name__}.")
        return model
    import_extra("lm_eval.models", "lm-eval")
    with failing(f"lm-eval cannot make the model {model!r}:"):
        kind = import_extra("lm_eval.api.registry", "lm-eval").get_model(model)
        if isinstance(model_args, Mapping):
            return kind.create_from_arg_obj(dict(model_args))
        return kind.create_from_arg_string(model_args or "")


def _unanswered(requests: list[Any]) -> Exception | None:
    """What is no answer: None, or what lm-eval was told to put in its place; NaN as likelihood."""
    nothing = (None, os.environ.get("LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER") or None)
    for request in requests:
        for answer in request.resps:
            value = answer[0] if isinstance(answer, tuple) else answer
            if value in nothing or (isinstance(value, float) and math.isnan(value)):
                return EvaluatorError(f"the model gave no answer to a {request.request_type} request: {answer!r:.100}")
    return None


def _failure(trial: Trial, error: Exception) -> Exception:
    if isinstance(error, EvaluatorError | InvalidArgumentError):
        return error
    failure = EvaluatorError(f"lm-eval's document {trial.example}: {in_words(error)}")
    failure.__cause__ = error
    return failure


# Tasks


def load_task(task: Any) -> Any:
    """An lm-eval Task, from its name, the path of its YAML file, its configuration, or itself."""
    api = import_extra("lm_eval.api.task", "lm-eval")
    if isinstance(task, api.Task):
        return task
    try:
        if isinstance(task, Mapping):
            return api.ConfigurableTask(config=deepcopy(dict(task)))
        found = _find(task)
    except Exception as error:
        raise InvalidArgumentError(
            f"lm-eval cannot make the task {task!r:.100}: {type(error).__name__}: {error}"
        ) from error
    made, *others = list(found.values()) or [None]
    if others or not isinstance(made, api.Task):
        names = sorted(map(str, made if isinstance(made, Mapping) else found))
        raise InvalidArgumentError(
            f"{task!r} is a group of {len(names)} tasks; give one of them: {', '.join(names):.300}."
        )
    return made


def _find(task: str) -> dict[Any, Any]:
    name = task
    if task.endswith((".yaml", ".yml")):
        path = Path(task)
        named = re.search(r"^task:\s*[\"']?(.+?)[\"']?\s*$", path.read_text(encoding="utf-8"), re.MULTILINE)
        if named is None:
            raise ValueError("the file has no line 'task: NAME'")
        name = named.group(1)
        manager = _manager(str(path.parent.resolve()))
    else:
        manager = _manager()
    if hasattr(manager, "load"):  # from 0.4.11 on
        tasks: dict[Any, Any] = manager.load(name)["tasks"]
    else:
        tasks = manager.load_task_or_group(name)
    return tasks


@functools.cache
def _manager(folder: str | None = None) -> Any:
    """Once in a process: to read thousands of YAML files takes seconds."""
    manager = import_extra("lm_eval.tasks", "lm-eval").TaskManager
    return manager() if folder is None else manager(include_path=folder, include_defaults=False)


def per_document_metrics(task: Any, wanted: Collection[str] | None, more: Collection[str] = ()) -> set[str]:
    """Check the metrics that are wanted; returns those of the task that a single document does not have.

    A metric is a document's own if lm-eval takes its mean over documents. `wanted` are named as in LMEvalTask's scores,
    None for all that there are; `more` are those that the evaluator adds, besides latency.
    """
    metrics = import_extra("lm_eval.api.metrics", "lm-eval")
    numpy = import_extra("numpy", "lm-eval")
    means = (metrics.mean, metrics.nanmean, numpy.mean, numpy.nanmean)
    together = {name: function for name, function in task.aggregation().items() if function not in means}
    filters = [ensemble.name for ensemble in task._filters]
    suffixes = [""] if len(filters) == 1 else [f",{name}" for name in filters]
    own = [name + suffix for name in task.aggregation() if name not in together for suffix in suffixes]
    why = ", ".join(
        f"{name!r} (by {getattr(function, '__name__', function)})" for name, function in sorted(together.items())
    )
    if isinstance(wanted, str):
        raise InvalidArgumentError(f"metrics must be names in a list, got {wanted!r}.")
    for name in wanted or ():
        if name.split(",")[0] in together:
            raise InvalidArgumentError(
                f"The metric {name!r} is only defined over all documents, not for one: {why}. Choose among {own}, or "
                "give the task a metric whose aggregation is 'mean'."
            )
        if name not in own and name not in ("latency", *more):
            raise InvalidArgumentError(f"The task has no metric {name!r}; it has {[*own, 'latency', *more]}.")
    if not own:
        raise InvalidArgumentError(
            f"The task has only metrics that are defined over all documents, not for one: {why}. Give it a metric "
            "whose aggregation is 'mean'."
        )
    return set(together)


# Prompts that are Jinja templates: rendered in a sandbox, since lm-eval renders with all of Python in reach

# Objects of other types, such as images, have methods that reach files.
_HARMLESS = ("builtins", "datetime", "decimal", "jinja2.runtime", "jinja2.utils")


def rendered(template: str, doc: Mapping[str, Any]) -> str:
    """The template with the document's fields, as lm-eval renders it."""
    text: str = _sandbox().from_string(template).render(**doc)
    return text


def literal(text: str) -> str:
    """A template that renders as the text, and is no field's name."""
    return "{{ '' }}" + re.sub(r"\{(?=[{%#])", "{{ '{' }}", text)


@functools.cache
def _sandbox() -> Any:
    jinja2, sandbox = import_extra("jinja2", "lm-eval"), import_extra("jinja2.sandbox", "lm-eval")

    class Sandbox(sandbox.ImmutableSandboxedEnvironment):  # type: ignore[misc,name-defined]
        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            return type(obj).__module__ in _HARMLESS and bool(super().is_safe_attribute(obj, attr, value))

    made = Sandbox(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    made.filters.update(import_extra("lm_eval.utils", "lm-eval").env.filters)
    return made
