"""The evaluator of `[model]` and `[metrics]`, which keeps the LLM's answers."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from asktell import Candidates, ConfigError, InvalidArgumentError
from asktell_adapters import metrics
from asktell_adapters.cache import AnswerCache
from asktell_adapters.config.judges import with_llm
from asktell_adapters.config.model import ModelTable
from asktell_adapters.evaluators.llm import AsyncLLMEvaluator, LLMEvaluator
from asktell_adapters.llms.base import Example, Metric
from asktell_adapters.llms.models import Models


def make_evaluator(
    model: ModelTable,
    make: Callable[[int], Any],
    with_cost: bool,
    examples: Sequence[Example],
    computed: Mapping[str, Metric],
    concurrency: int,
    seed: int = 0,
    cache: AnswerCache | None = None,
    fields: bool | None = None,
    candidates: Candidates | None = None,
) -> LLMEvaluator | AsyncLLMEvaluator:
    """The evaluator, its model loaded.

    `make`: the LLM, or several, with so many requests at once; `model` says what is the same for all.
    """
    # Before the model, which takes longer to load: a package that a metric lacks is missed now.
    for metric in computed.values():
        if isinstance(metric, metrics.Rouge):
            metric.score("a", "a")
    with model.named():
        llm = make(concurrency)
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
        made = llm.made.values() if isinstance(llm, Models) else [llm]
        if all(inspect.iscoroutinefunction(getattr(each, "acomplete", None)) for each in made):
            evaluator = AsyncLLMEvaluator(llm, examples, computed, **settings)
        else:
            evaluator = LLMEvaluator(llm, examples, computed, **settings)
    if candidates is not None:
        try:
            evaluator.check_prompts(dict(zip(candidates.ids, candidates, strict=True)))
        except InvalidArgumentError as error:
            raise ConfigError(f"{model.config_file.name}: [candidates]: {error}") from error
    with model.named():
        if callable(load := getattr(llm, "load", None)):
            load()
    return evaluator
