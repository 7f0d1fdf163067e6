"""The evaluator of `[model]` and `[metrics]`, which keeps the LLM's answers."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from asktell_adapters import metrics
from asktell_adapters.cache import AnswerCache
from asktell_adapters.config.judges import with_llm
from asktell_adapters.config.model import ModelTable
from asktell_adapters.evaluators.llm import AsyncLLMEvaluator, LLMEvaluator
from asktell_adapters.llms.base import Example, Metric


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
            "keep_answers": True,
        }
        evaluator: LLMEvaluator | AsyncLLMEvaluator
        if inspect.iscoroutinefunction(getattr(llm, "acomplete", None)):
            evaluator = AsyncLLMEvaluator(llm, examples, computed, **settings)
        else:
            evaluator = LLMEvaluator(llm, examples, computed, **settings)
        if callable(load := getattr(llm, "load", None)):
            load()
    return evaluator
