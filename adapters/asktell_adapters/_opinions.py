"""Estimates for judges: calls, tokens and money, from a few real opinions or none."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from asktell import EvaluatorError
from asktell_adapters.cache import CachedLLM
from asktell_adapters.llms.base import Completion, Example, Request, said
from asktell_adapters.llms.chat_api import Price
from asktell_adapters.llms.models import Models
from asktell_adapters.metrics.judge import Judge, Spent
from asktell_adapters.metrics.preference import Preference, beside

_CHARACTERS_PER_TOKEN = 4  # about, in English
_TOKENS_PER_TURN = 4  # of a chat template, about


class Sample(NamedTuple):
    """One evaluation of those that may come, and its answer if that is known."""

    answer: Completion | None
    is_real: bool  # it was just asked for
    example: Example
    repeat: int


@final
@dataclass(frozen=True)
class JudgeEstimate:
    """What a judge will take, over all its LLMs, opinions and orders.

    Attributes:
        name: of the metric.
        calls: that its LLMs are asked for; the other opinions are in the cache.
        prompt_tokens: to be read; where the answers' length is not known (`completion_tokens` of the estimate is None)
            as if every answer were as long as it may be.
        completion_tokens: to be written, as in the real calls; without any, None.
        most_completion_tokens: if every opinion is as long as it may be.
        cost: expected, in the currency of the judges' prices; None without a price or without real calls.
        most_cost: with the longest answers and opinions; None where one of its LLMs has no price.
        real_calls: opinions that were asked for to learn this, and were not in the cache.
        real_cost: what they cost.
    """

    name: str
    calls: int
    prompt_tokens: int
    completion_tokens: int | None
    most_completion_tokens: int
    cost: float | None
    most_cost: float | None
    real_calls: int
    real_cost: float


@final
@dataclass(frozen=True)
class Opinion:
    """The same for one evaluation, on average, and the seconds that it takes where that was measured."""

    name: str
    calls: float
    read: float
    written: float | None
    longest: float
    cost: float | None
    most_cost: float | None
    seconds: float | None
    real_calls: int
    real_cost: float

    def times(self, evaluations: int) -> JudgeEstimate:
        return JudgeEstimate(
            self.name,
            round(evaluations * self.calls),
            round(evaluations * self.read),
            None if self.written is None else round(evaluations * self.written),
            round(evaluations * self.longest),
            None if self.cost is None else evaluations * self.cost,
            None if self.most_cost is None else evaluations * self.most_cost,
            self.real_calls,
            self.real_cost,
        )


def opinion(
    name: str,
    metric: Judge | Preference,
    samples: Sequence[Sample],
    mean_answer: float | None,
    longest: int,
    prices: dict[int, Price],
) -> Opinion:
    """What a judge takes for an evaluation, by the samples; it is asked about those that are real.

    Args:
        name: of the metric.
        metric: a judge of one LLM, or several.
        samples: of evaluations.
        mean_answer: tokens of an answer; None where that is not known.
        longest: tokens of the longest answer.
        prices: of LLMs, by their `id()`, that are told rather than known.
    """
    judge = metric if isinstance(metric, Judge) else metric.judge
    if isinstance(metric, Preference):  # the other answer is as long, and as well known
        unknown = "x" * round(_CHARACTERS_PER_TOKEN * (longest if mean_answer is None else mean_answer))
        others = [sample.answer.text if sample.answer else unknown for sample in samples]
        samples = [
            sample._replace(example=beside(sample.example, other))
            for sample, other in zip(samples, others, strict=True)
        ]
    orders = 2 if judge.rubric.pairwise else 1
    requests = [_requests(judge, sample)[:orders] for sample in samples]
    flat = [request for each in requests for request in each]
    known = [_share_known(asked, requests, samples) for asked in judge.answers]
    took, seconds = _ask(name, judge, samples)
    per_call = took.completion_tokens / fresh if (fresh := took.requests - took.from_cache) else None
    calls = read = 0.0
    cost: float | None = None if per_call is None else 0.0
    most_cost: float | None = 0.0
    for llm, share in zip(judge.llms, known, strict=True):
        tokens = sum(count(llm, flat)[0]) / len(flat)
        unseen = sum(sample.answer is None for sample in samples) / len(samples)  # their answers are not in the tokens
        llm_reads = tokens + unseen * (longest if mean_answer is None else mean_answer)
        llm_most = tokens + unseen * longest
        n = judge.n * orders * (1 - share)
        calls += n
        read += n * llm_reads
        price: Price | None = prices.get(id(llm)) or getattr(getattr(llm, "api", None), "price", None)
        if price is None:
            cost = most_cost = None
            continue
        if cost is not None and per_call is not None:
            cost += n * (price.of(round(llm_reads), 0) + price.of(0, 1) * per_call)
        if most_cost is not None:
            most_cost += n * price.of(round(llm_most), judge.max_new_tokens)
    written = None if per_call is None else calls * per_call
    most = calls * judge.max_new_tokens
    return Opinion(name, calls, read, written, most, cost, most_cost, seconds, fresh, took.cost)


def _requests(judge: Judge, sample: Sample) -> list[Request]:
    requests = judge.requests(sample.answer or Completion(""), sample.example, sample.repeat)
    if isinstance(requests, Exception):
        raise requests
    return requests


def _ask(name: str, judge: Judge, samples: Sequence[Sample]) -> tuple[Spent, float | None]:
    """What the opinions on real answers took, and the seconds each."""
    real = [
        (each.answer, each.example, each.repeat, None) for each in samples if each.is_real and each.answer is not None
    ]
    if not real:
        return Spent(), None
    for llm in judge.llms:
        if callable(load := getattr(llm, "load", None)):
            load()  # which is not part of an opinion's time
    before, start = judge.spent, time.perf_counter()
    found = judge.score_all(real)
    seconds = time.perf_counter() - start
    if all(isinstance(each, Exception) for each in found):
        raise EvaluatorError(f"the judge {name!r} judged none of {len(real)} real answers, the first: {found[0]}")
    took = Spent(*(getattr(judge.spent, key) - getattr(before, key) for key in Spent.__match_args__))
    return took, seconds / len(real)


def _share_known(asked: Any, requests: Sequence[Sequence[Request]], samples: Sequence[Sample]) -> float:
    """The part of the opinions that the cache has: what is not answered yet is not judged either."""
    flat = [
        request for each, sample in zip(requests, samples, strict=True) if sample.answer is not None for request in each
    ]
    n = sum(map(len, requests))
    return sum(answer is not None for answer in in_cache(asked, flat)) / n if n else 0.0


def count(llm: Any, requests: Sequence[Request]) -> tuple[list[int], bool]:
    """Tokens of each, and whether the model's tokenizer said so."""
    if isinstance(llm, Models):
        each = [count(llm.of(request.client), [request]) for request in requests]
        return [n for tokens, _ in each for n in tokens], all(exact for _, exact in each)
    if callable(counter := getattr(llm, "count_tokens", None)):
        try:
            return list(counter(requests)), True
        except EvaluatorError:  # one that does not fit; the run says so of that one
            pass
    texts = [[said(turn) for turn in request.messages] for request in requests]
    return [sum(len(text) // _CHARACTERS_PER_TOKEN + _TOKENS_PER_TURN for text in each) for each in texts], False


def in_cache(answers: Any, requests: Sequence[Request]) -> list[Completion | None]:
    """The answers that the cache has, None for the others; `answers` is an LLM, or a cached one."""
    if not isinstance(answers, CachedLLM):
        return [None] * len(requests)
    fresh = CachedLLM(answers.llm, answers.cache)  # which counts for itself
    return fresh.look_up([fresh.key(request) for request in requests])
