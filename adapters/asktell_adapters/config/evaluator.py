"""Evaluators whose scores carry the LLM's answer, for whoever records them."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from asktell_adapters import metrics
from asktell_adapters.cache import AnswerCache
from asktell_adapters.config.judges import with_llm
from asktell_adapters.config.model import ModelTable
from asktell_adapters.evaluators.llm import AsyncLLMEvaluator, Judged, LLMEvaluator
from asktell_adapters.llms.base import Completion, Example, Metric


class OutputScores(dict[str, float]):
    """Scores, with the LLM's output that they are of among their details."""

    def __init__(self, scores: Mapping[str, float], output: str) -> None:
        super().__init__(scores)
        self.details = {"output": output, **getattr(scores, "details", {})}
        self.paid = getattr(scores, "paid", None)


class _KeepsOutput(LLMEvaluator):
    def scores(
        self, completion: Completion, example: int | Example | None, repeat: int = 0, judged: Judged | None = None
    ) -> dict[str, float]:
        return OutputScores(super().scores(completion, example, repeat, judged), completion.text)


class _AsyncKeepsOutput(AsyncLLMEvaluator):
    def scores(
        self, completion: Completion, example: int | Example | None, repeat: int = 0, judged: Judged | None = None
    ) -> dict[str, float]:
        return OutputScores(super().scores(completion, example, repeat, judged), completion.text)


def make_evaluator(
    model: ModelTable,
    with_cost: bool,
    examples: Sequence[Example],
    computed: Mapping[str, Metric],
    concurrency: int,
    seed: int = 0,
    cache: AnswerCache | None = None,
    fields: bool | None = None,
) -> LLMEvaluator | AsyncLLMEvaluator:
    """The evaluator, its model loaded.

    Raises:
        AsktellError: the model or a metric cannot be used.
        MissingExtraError: a package is missing.
    """
    # Before the model, which takes longer to load: a package that a metric lacks is missed now.
    for metric in computed.values():
        if isinstance(metric, metrics.Rouge):
            metric.score("a", "a")
    with model.named():
        llm = model.make(concurrency)
        computed = {name: with_llm(metric, llm, concurrency, cache) for name, metric in computed.items()}
        settings: dict[str, Any] = {
            "system": model.system,
            "template": model.template,
            "max_new_tokens": model.max_new_tokens,
            "cache": cache,
            "with_cost": "cost" not in computed and with_cost,
            "temperature": model.temperature,
            "seed": seed,
            "fields": fields,
        }
        evaluator: LLMEvaluator | AsyncLLMEvaluator
        if inspect.iscoroutinefunction(getattr(llm, "acomplete", None)):
            evaluator = _AsyncKeepsOutput(llm, examples, computed, **settings)
        else:
            evaluator = _KeepsOutput(llm, examples, computed, **settings)
        if callable(load := getattr(llm, "load", None)):
            load()
    return evaluator
