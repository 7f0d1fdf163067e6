"""Estimate the calls, tokens, money and time that a selection will take, from a few real calls or from none."""

import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any, NamedTuple, TypeAlias, final

from asktell import (
    EvaluatorError,
    InvalidArgumentError,
    PromptResult,
    Result,
    Selector,
    Trial,
)
from asktell.extend import AbstractStudy, in_words, n_repeats, whole
from asktell_adapters._util.scores import or_raise
from asktell_adapters.evaluators.llm import AsyncLLMEvaluator, LLMEvaluator
from asktell_adapters.llms.base import (
    Asked,
    Completion,
    Example,
    Request,
    gathered,
    said,
)
from asktell_adapters.llms.cache import CachedLLM
from asktell_adapters.llms.chat_api import Price
from asktell_adapters.llms.models import Models, llm_of
from asktell_adapters.metrics.judge import Judge, Spent
from asktell_adapters.metrics.preference import Preference, beside

# Used where the model's own tokenizer is not available. Both are rules of thumb for
# English text.
_CHARACTERS_PER_TOKEN = 4
_TOKENS_PER_TURN = 4  # added to each message by a chat template

_NOTHING_LEFT = "0: nothing is left to evaluate within the budget"


class SampledEvaluation(NamedTuple):
    """One evaluation, drawn at random to stand for the evaluations still to come.

    Attributes:
        answer: the response to its request, from the cache or from a real call. None if
            there is none yet.
        is_real: True if the response comes from the real calls of this estimate.
        example: the example.
        repeat: number of earlier evaluations of the same prompt on the same example.
    """

    answer: Completion | None
    is_real: bool
    example: Example
    repeat: int


class Use(NamedTuple):
    """A number of LLM calls, and the tokens and money that they take.

    Attributes:
        calls: number of calls.
        read: expected number of tokens read.
        written: expected number of tokens written. None if unknown.
        longest: the largest possible number of tokens written.
        cost: expected money, in the currency of the price. None if unknown.
        most_cost: the largest possible amount of money. None if unknown.
    """

    calls: float
    read: float
    written: float | None
    longest: float
    cost: float | None
    most_cost: float | None

    @classmethod
    def of_call(
        cls,
        read: float,
        written: float | None,
        longest: int,
        price: Price | None,
        most_read: float | None = None,
        highest: Price | None = None,
    ) -> "Use":
        """The use of a single call.

        Args:
            read: expected number of tokens read.
            written: expected number of tokens written, or None if that is unknown.
            longest: the largest possible number of tokens written.
            price: the mean price of the LLMs in use. None if it is unknown. `cost` is
                then None.
            most_read: the largest possible number of tokens read (default: `read`).
            highest: the highest price of the LLMs in use (default: `price`).
        """
        most_read = read if most_read is None else most_read
        highest = highest or price
        cost = None
        if price is not None and written is not None:
            cost = price.of(round(read), 0) + price.of(0, 1) * written
        most = None if highest is None else highest.of(round(most_read), longest)
        return cls(1, read, written, longest, cost, most)

    @classmethod
    def total(cls, uses: Iterable["Use"]) -> "Use":
        """The sum of several uses, field by field. A field that is None in one of them is None in the sum."""
        sums = (
            None if None in field_values else sum(field_values)
            for field_values in zip(*uses, strict=True)
        )
        return cls(*sums)  # type: ignore[arg-type]

    def times(self, n: float) -> "Use":
        """The use of n times as many calls."""
        return Use(*(None if amount is None else n * amount for amount in self))  # type: ignore[arg-type]

    def rounded(self) -> tuple[int, int, int | None, int, float | None, float | None]:
        """The fields as a tuple, with calls and tokens rounded to whole numbers."""
        written = None if self.written is None else round(self.written)
        return (
            round(self.calls),
            round(self.read),
            written,
            round(self.longest),
            self.cost,
            self.most_cost,
        )


@final
@dataclass(frozen=True)
class JudgeEstimate:
    """The calls, tokens and money that one judge will take for the rest of a selection.

    All numbers are sums. A judge may ask several LLMs, each of them several times. If it
    compares two responses, it asks for both orders of the two.

    Attributes:
        name: the name of the judge's metric.
        calls: calls of the judge's LLMs whose responses are not in the cache.
        prompt_tokens: tokens that these calls read. These tokens include the responses
            to judge. Without real calls, their length is unknown, so the estimate
            assumes the maximum length for each of them.
        completion_tokens: tokens that these calls write. None if the judge has not
            scored a real response for this estimate.
        most_completion_tokens: tokens that these calls write if each of the judge's
            responses is as long as possible.
        cost: expected money. None if the price of one of the judge's LLMs is unknown, or
            `completion_tokens` is None.
        most_cost: money if each response is as long as possible. None if the price of
            one of the judge's LLMs is unknown.
        real_calls: calls that the judge made for this estimate.
        real_cost: money that these real calls cost.
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


class Opinion(NamedTuple):
    """The mean calls, tokens and money that a judge takes per evaluation.

    Attributes:
        name: the name of the judge's metric.
        use: mean calls, tokens and money per evaluation.
        seconds: mean seconds per evaluation. None if no real response was judged.
        real_calls: calls that the judge made to measure this.
        real_cost: money that these real calls cost.
    """

    name: str
    use: Use
    seconds: float | None
    real_calls: int
    real_cost: float


def opinion(
    name: str,
    metric: Judge | Preference,
    samples: Sequence[SampledEvaluation],
    mean_answer: float | None,
    longest: int,
    prices: dict[int, Price],
) -> Opinion:
    """Estimate the calls, tokens and money that a judge takes per evaluation.

    The judge scores the samples with a real response (`is_real`). These calls of the
    judge may cost money.

    Args:
        name: the name of the metric.
        metric: the judge, or the preference that uses it.
        samples: evaluations that stand for all others, at least one.
        mean_answer: mean number of tokens of a response to judge, or None if that is
            unknown.
        longest: the largest possible number of tokens of a response to judge.
        prices: Python's `id()` of an LLM -> its price. Other LLMs have their own price.

    Raises:
        EvaluatorError: the judge failed on all real responses, or a sample cannot be
            judged.
    """
    judge = metric if isinstance(metric, Judge) else metric.judge
    answer_tokens = longest if mean_answer is None else mean_answer
    if isinstance(metric, Preference):
        samples = [_with_other_response(sample, answer_tokens) for sample in samples]
    orders = 2 if judge.rubric.pairwise else 1
    requests = []
    for sample in samples:
        of_sample = or_raise(
            judge.requests(
                sample.answer or Completion(""), sample.example, sample.repeat
            )
        )
        requests.append(of_sample[:orders])
    flat = [request for of_sample in requests for request in of_sample]
    # Looked up before the judge scores the real samples, since their opinions go into
    # the cache.
    shares = [_share_known(llm, requests, samples) for llm in judge.answers]
    took, seconds = _ask_judge(name, judge, samples)
    fresh = took.requests - took.from_cache
    written = took.completion_tokens / fresh if fresh else None
    # Requests with an unknown response were counted without it.
    unseen = sum(sample.answer is None for sample in samples) / len(samples)
    uses = []
    for llm, share in zip(judge.llms, shares, strict=True):
        tokens = sum(count(llm, flat)[0]) / len(flat)
        price: Price | None = prices.get(id(llm)) or getattr(
            getattr(llm, "api", None), "price", None
        )
        read, most_read = tokens + unseen * answer_tokens, tokens + unseen * longest
        call = Use.of_call(read, written, judge.max_new_tokens, price, most_read)
        uses.append(call.times(judge.n * orders * (1 - share)))
    return Opinion(name, Use.total(uses), seconds, fresh, took.cost)


def _with_other_response(sample: SampledEvaluation, tokens: float) -> SampledEvaluation:
    """The sample with a response to compare with, which is taken to be the same text, or a text of as many tokens."""
    rival = (
        sample.answer.text
        if sample.answer
        else "x" * round(_CHARACTERS_PER_TOKEN * tokens)
    )
    return sample._replace(example=beside(sample.example, rival))


def _ask_judge(
    name: str, judge: Judge, samples: Sequence[SampledEvaluation]
) -> tuple[Spent, float | None]:
    """Score the real samples. Return what the judge spent on them, and the seconds per sample if there are any."""
    real = [
        (sample.answer, sample.example, sample.repeat, None)
        for sample in samples
        if sample.is_real and sample.answer is not None
    ]
    if not real:
        return Spent(), None
    for llm in judge.llms:
        _load(llm)
    before, start = judge.spent, time.perf_counter()
    judgements = judge.score_all(real)
    seconds = time.perf_counter() - start
    if all(isinstance(judgement, Exception) for judgement in judgements):
        raise EvaluatorError(
            f"The judge of the metric {name!r} failed on all real responses ({len(real):,} of {len(real):,}). Remove "
            f"the cause, and repeat the estimate. The first error was: {judgements[0]}"
        )
    took = Spent(
        *(
            getattr(judge.spent, key) - getattr(before, key)
            for key in Spent.__match_args__
        )
    )
    return took, seconds / len(real)


def _load(llm: Any) -> None:
    """Load the model, if the LLM has one to load, so that its time is not taken for that of a call."""
    if callable(load := getattr(llm, "load", None)):
        load()


def _share_known(
    llm: Any,
    requests: Sequence[Sequence[Request]],
    samples: Sequence[SampledEvaluation],
) -> float:
    """The share (0 to 1) of the judge's opinions that the cache has. An unknown response has no opinion yet."""
    answerable: list[Request] = []
    for of_sample, sample in zip(requests, samples, strict=True):
        if sample.answer is not None:
            answerable.extend(of_sample)
    n = sum(map(len, requests))
    return (
        sum(opinion is not None for opinion in in_cache(llm, answerable)) / n
        if n
        else 0.0
    )


def count(llm: Any, requests: Sequence[Request]) -> tuple[list[int], bool]:
    """Count the prompt tokens of each request.

    Returns:
        The number of tokens of each request, and whether these numbers are exact. They
        are exact if the model's own tokenizer counted them. Otherwise, four characters
        count as a token.
    """
    if isinstance(llm, Models):
        counts = [count(llm.of(request.client), [request]) for request in requests]
        return [n for tokens, _ in counts for n in tokens], all(
            exact for _, exact in counts
        )
    if callable(counter := getattr(llm, "count_tokens", None)):
        try:
            return list(counter(requests)), True
        except EvaluatorError:
            # A request is too long for the model, and the run will report it
            pass
    tokens = []
    for request in requests:
        texts = [said(turn) for turn in request.messages]
        tokens.append(
            sum(len(text) // _CHARACTERS_PER_TOKEN + _TOKENS_PER_TURN for text in texts)
        )
    return tokens, False


def in_cache(answers: Any, requests: Sequence[Request]) -> list[Completion | None]:
    """The cached response to each request. None if there is none.

    Args:
        answers: a `CachedLLM`. For any other LLM, all responses are None.
        requests: the requests.
    """
    if not isinstance(answers, CachedLLM):
        return [None] * len(requests)
    # Another object, so that the user's counters stay as they are
    fresh = CachedLLM(answers.llm, answers.cache)
    return fresh.look_up([fresh.key(request) for request in requests])


MOST_COUNTED = 200
"""The tokens of at most this many requests are counted. Their mean stands for all other requests."""


Selection: TypeAlias = Selector | AbstractStudy


@final
@dataclass(frozen=True)
class Estimate:
    """The calls, tokens, money and time that the rest of a selection will take. `str()` gives a table.

    Attributes:
        evaluations: the largest number of further evaluations that the budget allows.
            For a budget in money, the number that it is expected to pay for.
        calls: calls of the LLM: the `evaluations` and `repeats` whose responses are not
            in the cache. The calls of judges are not in this number, but in `judges`.
        prompt_tokens: tokens that all these calls read, estimated from the counted
            requests.
        completion_tokens: tokens that all these calls write, estimated from the real
            calls. None without real calls.
        most_completion_tokens: tokens that all these calls write if each response is as
            long as possible.
        cost: expected money, with judges, in the currency of the price. If evaluations
            of the selection have a cost, it is based on their mean cost (see
            `paid_evaluations`). Otherwise it is computed from tokens and price. It is
            then None if the price or the number of tokens is unknown, for example
            without real calls.
        most_cost: money if each response is as long as possible, with judges, but never
            more than what is left of a budget in money. None without a price. A judge
            whose price is unknown is left out.
        seconds: expected time in seconds. None if the speed of the LLM is unknown.
        counted: number of requests whose tokens were counted, at most `MOST_COUNTED`.
        exact_tokens: True if the model's own tokenizer counted them. Otherwise, four
            characters count as a token.
        real_calls: calls of the LLM that were made for this estimate. Responses from the
            cache do not count.
        real_cost: money that these real calls cost.
        judges: an estimate for each judge.
        repeats: evaluations outside of the budget, which check whether a repeated
            evaluation gives other scores. See `asktell.run`.
        currency: the currency of all amounts, or an empty string if it is unknown.
        paid_evaluations: number of the selection's own evaluations that `cost` is based
            on. 0 if `cost` is based on tokens and price.
    """

    evaluations: int
    calls: int
    prompt_tokens: int
    completion_tokens: int | None
    most_completion_tokens: int
    cost: float | None
    most_cost: float | None
    seconds: float | None
    counted: int
    exact_tokens: bool
    real_calls: int
    real_cost: float
    judges: tuple[JudgeEstimate, ...] = ()
    repeats: int = 0
    currency: str = ""
    paid_evaluations: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The attributes by name, as JSON data."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(f"{name:15}{words}" for name, words in self._lines())

    def _lines(self) -> Iterator[tuple[str, str]]:
        """The rows of the table, as name and words."""
        if self.evaluations:
            cached = self.evaluations + self.repeats - self.calls
            of_them = f", about {cached:,} of them in the cache" if cached else ""
            yield (
                "evaluations",
                f"{_evaluations(self.evaluations, self.repeats)}{of_them}",
            )
            yield from self._needs()
        else:
            yield "evaluations", _NOTHING_LEFT
        opinions = sum(judge.real_calls for judge in self.judges)
        if self.real_calls or opinions:
            more = f", and {opinions} of judges" if opinions else ""
            cost = self.real_cost + sum(judge.real_cost for judge in self.judges)
            yield (
                "real calls",
                f"{self.real_calls}{more}, which cost {amount(cost, self.currency)}",
            )

    def _needs(self) -> Iterator[tuple[str, str]]:
        """The rows on tokens, judges, money and time."""
        how = (
            "the model's tokenizer"
            if self.exact_tokens
            else "a guess of one token per 4 characters"
        )
        yield (
            "tokens read",
            f"about {self.prompt_tokens:,} ({how}, {self.counted:,} requests counted)",
        )
        longest = f"at most {self.most_completion_tokens:,}"
        written = self.completion_tokens
        yield (
            "tokens written",
            longest if written is None else f"about {written:,}, {longest}",
        )
        for judge in self.judges:
            yield (
                f"judge {judge.name}"[:14],
                ", ".join(_judge_words(judge, written is not None)),
            )
        yield (
            "money",
            ", ".join(self._money())
            + ("" if self.most_cost is None else _shares(self.judges)),
        )
        yield (
            "time",
            "unknown without real calls"
            if self.seconds is None
            else f"about {in_time(self.seconds)}",
        )

    def _money(self) -> Iterator[str]:
        """The expected and the largest cost, in words."""
        if self.cost is None and self.most_cost is None:
            yield "no price is known"
        if self.cost is not None:
            shown = (
                f"{self.cost:.4g}"
                if self.most_cost is not None
                else amount(self.cost, self.currency)
            )
            yield f"about {shown}{_based_on(self.paid_evaluations)}"
        if self.most_cost is not None:
            yield f"at most {amount(self.most_cost, self.currency)}"


def amount(cost: float, currency: str) -> str:
    """Money as text, such as "0.0123 USD". Without the currency if `currency` is empty."""
    return f"{cost:.4g} {currency}".rstrip()


def _evaluations(evaluations: int, repeats: int) -> str:
    """A number of evaluations with its repeats, in words."""
    again = (
        f", and {repeats:,} repeated to check whether scores vary" if repeats else ""
    )
    return f"{evaluations:,}{again}"


def _based_on(paid_evaluations: int) -> str:
    """The base of an expected cost, in words."""
    return (
        f" based on the {paid_evaluations:,} evaluations paid so far"
        if paid_evaluations
        else ""
    )


def _judge_words(judge: JudgeEstimate, length_is_known: bool) -> Iterator[str]:
    """The calls and tokens of a judge, in words."""
    yield f"{judge.calls:,} calls"
    yield f"{'about' if length_is_known else 'at most about'} {judge.prompt_tokens:,} tokens read"
    longest = f"at most {judge.most_completion_tokens:,}"
    yield (
        f"{longest} written"
        if judge.completion_tokens is None
        else f"about {judge.completion_tokens:,} written ({longest})"
    )


def _shares(judges: Sequence[JudgeEstimate]) -> str:
    """The judges' part of the money, and the judges that are not in it, in parentheses."""
    priced = [judge for judge in judges if judge.most_cost is not None]
    unpriced = [repr(judge.name) for judge in judges if judge.most_cost is None]
    parts = []
    if priced:
        costs = [judge.cost for judge in priced if judge.cost is not None]
        most = sum(judge.most_cost or 0.0 for judge in priced)
        about = f"{sum(costs):.4g}, " if len(costs) == len(priced) else ""
        parts.append(f"judges: {about}at most {most:.4g}")
    if unpriced:
        parts.append(f"without the judge {', '.join(unpriced)}, which has no price")
    return f" ({', '.join(parts)})" if parts else ""


def estimate(
    evaluator: LLMEvaluator | AsyncLLMEvaluator,
    selection: Selection,
    *,
    real_calls: int = 0,
    price: Price | None = None,
    seconds_per_call: float | None = None,
    concurrency: int = 1,
    seed: int = 0,
) -> Estimate:
    """Estimate the calls, tokens, money and time that the rest of a selection will take.

    Pairs of a prompt and an example are drawn at random, and stand for all others. The
    tokens of at most 200 requests are counted, and `real_calls` of the requests are sent
    to the LLM. If the evaluator has a cache, these real responses go into it, so they
    are not paid twice.

    If the selection has started, only the rest is estimated. The expected cost of each
    further evaluation is then the mean cost of the evaluations so far. But if there are
    more real calls than paid evaluations, it is computed from tokens and price.

    Args:
        evaluator: the evaluator of the selection.
        selection: a Selector or a Study, new or started.
        real_calls: number of requests to send to the LLM, to measure the length of its
            responses and its speed.
        price: the LLM's price per million tokens (default: the LLM's own price).
        seconds_per_call: mean seconds from one response to the next, with `concurrency`
            calls at once, if you know it (default: as measured in the real calls).
        concurrency: number of simultaneous calls of an async LLM.
        seed: seed of the random draw.

    Raises:
        InvalidArgumentError: a number is out of range. Or the budget is in money, but
            the LLM has no price, and no evaluation so far has a cost.
        EvaluatorError: all real calls failed, or a judge failed on all real responses.
    """
    whole("real_calls", real_calls, 0)
    whole("concurrency", concurrency, 1)
    if seconds_per_call is not None and not 0 <= seconds_per_call <= 1e9:
        raise InvalidArgumentError(
            f"seconds_per_call must be a number of seconds from 0 to 1e9, got {seconds_per_call!r}."
        )
    result, history = selection.result(), _History.of(selection)
    calls = _calls(
        evaluator, selection, result, history, max(MOST_COUNTED, real_calls), seed
    )
    tokens = _tokens(evaluator, calls, price, real_calls, concurrency)
    money = _money(evaluator, result, history, calls, tokens)
    judges = [
        JudgeEstimate(
            opinion.name, *use.rounded(), opinion.real_calls, opinion.real_cost
        )
        for opinion, use in zip(tokens.opinions, money.judged, strict=True)
    ]
    return Estimate(
        money.evaluations,
        *money.took.rounded(),
        _time(evaluator, tokens, money, seconds_per_call),
        counted=tokens.counted,
        exact_tokens=tokens.exact,
        real_calls=tokens.asked.n_fresh,
        real_cost=tokens.asked.cost,
        judges=tuple(judges),
        repeats=money.repeats,
        currency=tokens.currency,
        paid_evaluations=money.n_paid,
    )


class _Calls(NamedTuple):
    """The evaluations that are left, and random requests that stand for them."""

    # That the number of evaluations in the budget allows, before the money in it
    evaluations: int
    n_cells: int  # prompts x examples x repeats
    # Prompt id -> prompt or candidate. Empty if no evaluations are left.
    active: Mapping[Any, Asked]
    cells: list[tuple[Asked, int, int]]  # (prompt, example, repeat) of each request
    requests: list[Request]


def _calls(
    evaluator: LLMEvaluator | AsyncLLMEvaluator,
    selection: Selection,
    result: Result,
    history: "_History",
    n_drawn: int,
    seed: int,
) -> _Calls:
    """Step 1: count the evaluations that are left, and draw requests at random from them."""
    n_cells = len(result.prompts) * len(evaluator.examples) * result.repeats
    evaluations = max(0, min(selection.budget, n_cells) - selection.spent)
    active: dict[Any, Asked] = {}
    for entry in _active(result, evaluations):
        active[entry.id] = entry.candidate or entry.prompt
    cells = _drawn(
        evaluator, active, history.cells, result.repeats, n_drawn, random.Random(seed)
    )
    return _Calls(
        evaluations,
        n_cells,
        active,
        cells,
        [evaluator.request(*cell) for cell in cells],
    )


def _active(result: Result, evaluations: int) -> list[PromptResult]:
    """The prompts that may still be evaluated: the active prompts, or none if no evaluations are left."""
    return (
        [entry for entry in result.prompts if entry.status == "active"]
        if evaluations
        else []
    )


def _drawn(
    evaluator: LLMEvaluator | AsyncLLMEvaluator,
    prompts: Mapping[Any, Asked],
    done: Counter[tuple[Any, int | None]],
    repeats: int,
    n: int,
    rng: random.Random,
) -> list[tuple[Asked, int, int]]:
    """Draw at most n cells (prompt, example, repeat) that were not evaluated yet.

    If all drawn cells were evaluated, they are returned all the same.
    """
    # At temperature 0 a repeat is the same request again.
    repeats = repeats if evaluator.temperature else 1
    n_examples, ids = len(evaluator.examples), list(prompts)

    def cell(number: int) -> tuple[Any, int, int]:
        row, example = divmod(number, n_examples)
        return ids[row % len(ids)], example, row // len(ids)

    n_cells = len(ids) * n_examples * repeats
    # So many that n of them are left even if each evaluated cell is among them.
    drawn = [
        cell(number)
        for number in rng.sample(range(n_cells), min(n + done.total(), n_cells))
    ]
    left = [
        (id_, example, repeat)
        for id_, example, repeat in drawn
        if repeat >= done[id_, example]
    ]
    return [
        (prompts[id_], example, repeat) for id_, example, repeat in (left or drawn)[:n]
    ]


class _Tokens(NamedTuple):
    """Tokens and price of a mean call, and of a mean evaluation by each judge."""

    counted: int  # requests
    exact: bool
    # Share of the counted requests whose responses are in the cache, 0 to 1
    cached: float
    asked: "_Asked"
    call: Use
    opinions: list[Opinion]
    currency: str


def _tokens(
    evaluator: LLMEvaluator | AsyncLLMEvaluator,
    calls: _Calls,
    price: Price | None,
    real_calls: int,
    concurrency: int,
) -> _Tokens:
    """Step 2: count the tokens of the drawn requests, make the real calls, and let the judges score them."""
    llm, requests = evaluator.llm, calls.requests
    counted = requests[:MOST_COUNTED]
    tokens, exact = count(llm, counted)
    # Looked up before the real calls, whose responses go into the cache.
    responses = in_cache(evaluator.answers, counted)
    n_cached = sum(response is not None for response in responses)
    asked = _Asked()
    if real_calls and requests:
        asked = _ask(evaluator, requests[:real_calls], concurrency)
    llms = [llm_of(llm, request) for request in requests] or [llm]
    prices = [price or getattr(model, "price", None) for model in llms]
    mean_price = _combined(prices, statistics.fmean)
    longest = max(
        (request.max_new_tokens for request in requests),
        default=evaluator.max_new_tokens,
    )
    call = Use.of_call(
        statistics.fmean(tokens) if tokens else 0.0,
        asked.mean_tokens,
        longest,
        mean_price,
        highest=_combined(prices, max),
    )
    samples = []
    for i, response in enumerate(responses):
        _, example, repeat = calls.cells[i]
        response = asked.answers.get(i, response)
        samples.append(
            SampledEvaluation(
                response, i in asked.answers, evaluator.example(example), repeat
            )
        )
    # A judge may be the same LLM
    own_price = {} if mean_price is None else {id(llm): mean_price}
    return _Tokens(
        counted=len(tokens),
        exact=exact,
        cached=n_cached / len(responses) if responses else 0.0,
        asked=asked,
        call=call,
        opinions=_opinions(evaluator, samples, call.written, longest, own_price),
        currency="" if mean_price is None else mean_price.currency,
    )


def _opinions(
    evaluator: LLMEvaluator | AsyncLLMEvaluator,
    samples: Sequence[SampledEvaluation],
    written: float | None,
    longest: int,
    own_price: dict[int, Price],
) -> list[Opinion]:
    """The use of each judge for one response. `written` is the expected length of a response."""
    if not samples:
        return []
    return [
        opinion(name, metric, samples, written, longest, own_price)
        for name, metric in evaluator.metrics.items()
        if isinstance(metric, Judge | Preference)
    ]


class _Money(NamedTuple):
    """The evaluations that the budget pays for, and their calls, tokens and money."""

    evaluations: int
    repeats: int
    # Calls and tokens of the LLM, and the money of the LLM and the judges together
    took: Use
    judged: list[Use]  # of each judge
    n_paid: int  # evaluations of the selection that the expected money is based on


def _money(
    evaluator: LLMEvaluator | AsyncLLMEvaluator,
    result: Result,
    history: "_History",
    calls: _Calls,
    tokens: _Tokens,
) -> _Money:
    """Step 3: find out how many evaluations the budget pays for, and what they cost.

    Raises:
        InvalidArgumentError: the budget is in money while the LLM has no price and no
            evaluation was paid.
    """
    call, opinions = tokens.call, tokens.opinions
    left = _money_left(result)
    # Past costs include the true length of responses, so they are preferred, unless the
    # real calls are more.
    mean_paid, n_paid = history.paid(calls.active)
    if n_paid < len(tokens.asked.answers):
        n_paid = 0
    each_paid = mean_paid * (1 - tokens.cached) if n_paid else None
    evaluations = calls.evaluations
    if left is not None:
        if each_paid is None and call.most_cost is None:
            raise InvalidArgumentError(
                "The budget is in money, but the cost of an evaluation is unknown, because the LLM has no price and no "
                "evaluation with a cost is recorded. Give the LLM a price."
            )
        per_evaluation = (
            _cost_of_evaluation(call, opinions, tokens.cached)
            if each_paid is None
            else each_paid
        )
        evaluations = _affordable(evaluations, left, per_evaluation)
    repeats = _n_repeated(evaluator, result, history.spent, evaluations, calls.n_cells)
    n = evaluations + repeats
    # A repeat is always a new call, never from the cache.
    took = call.times(round(evaluations * (1 - tokens.cached)) + repeats)
    judged = [opinion.use.times(n) for opinion in opinions]
    # A judge of unknown price is left out. A priced part of unknown length makes the
    # expected cost unknown.
    total = Use.total(
        [use for use in (took, *judged) if use.most_cost is not None] or [took]
    )
    cost = total.cost if each_paid is None else each_paid * n
    most_cost = total.most_cost
    if most_cost is not None and cost is not None:
        most_cost = max(most_cost, cost)
    took = took._replace(
        cost=_capped_cost(cost, left), most_cost=_capped_cost(most_cost, left)
    )
    return _Money(evaluations, repeats, took, judged, n_paid)


def _money_left(result: Result) -> float | None:
    """The rest of a budget in money, or None if the budget is not in money."""
    return (
        None
        if result.max_cost is None
        else max(0.0, result.max_cost - result.spent_cost)
    )


def _capped_cost(cost: float | None, left: float | None) -> float | None:
    """The cost, or the rest of the budget if that is less."""
    return cost if cost is None or left is None else min(cost, left)


def _cost_of_evaluation(call: Use, opinions: Sequence[Opinion], cached: float) -> float:
    """The expected money of an evaluation, or the largest possible money where the length of responses is unknown.

    The cache saves calls of the LLM. The judges' uses are already without the opinions
    that the cache has.
    """
    total = 0.0
    for use in (call.times(1 - cached), *(opinion.use for opinion in opinions)):
        cost = use.most_cost if use.cost is None else use.cost
        total += cost or 0.0
    return total


def _affordable(evaluations: int, left: float, each_cost: float) -> int:
    """As many of the evaluations as the money that is left pays for."""
    return min(evaluations, int(left / each_cost)) if each_cost else evaluations


def _n_repeated(
    evaluator: LLMEvaluator | AsyncLLMEvaluator,
    result: Result,
    spent: int,
    evaluations: int,
    n_cells: int,
) -> int:
    """The number of evaluations that `asktell.run` repeats to check whether scores vary (`asktell.running.repeats`)."""
    if evaluator.repeatable:
        return 0
    repeats = _repeated(result, spent, evaluations)
    if result.repeats == 1:
        return repeats
    # Half of the repeats are early. With several rounds of the examples, only late
    # repeats are made, and none once a second round is complete, because it repeats
    # every evaluation.
    two_rounds = 2 * n_cells // result.repeats
    return repeats // 2 if spent + evaluations < two_rounds else 0


def _time(
    evaluator: LLMEvaluator | AsyncLLMEvaluator,
    tokens: _Tokens,
    money: _Money,
    seconds_per_call: float | None,
) -> float | None:
    """Step 4: the expected seconds of all calls and all opinions, or None if the seconds of a call are unknown."""
    pace = (
        tokens.asked.seconds_per_call if seconds_per_call is None else seconds_per_call
    )
    if pace is None:
        return None
    slowest = _slowest(evaluator.llm, tokens.call.read + tokens.call.longest)
    judging = sum(opinion.seconds or 0.0 for opinion in tokens.opinions)
    return (
        money.took.calls * max(pace, slowest)
        + (money.evaluations + money.repeats) * judging
    )


@final
@dataclass(frozen=True)
class HarnessEstimate:
    """The evaluations, money and time that the rest of a selection will take with a harness. `str()` gives a table.

    A harness is another tool that evaluates prompts, such as promptfoo or Inspect. It
    makes its own requests, so their tokens cannot be counted.

    Attributes:
        evaluations: the largest number of further evaluations that the budget allows.
            For a budget in money, the number that it is expected to pay for.
        repeats: evaluations outside of the budget, which check whether a repeated
            evaluation gives other scores. See `asktell.run`.
        cost: expected money. It is based on the selection's evaluations so far, or else
            on the tried evaluations, or else on the argument `cost`. None if the cost
            is unknown in all three.
        most_cost: what is left of a budget in money. None without such a budget.
        seconds: expected time in seconds, based on the tried evaluations. None if none
            were tried.
        tried: number of evaluations that were made for this estimate. The selection
            does not record their scores.
        failed: number of tried evaluations that failed.
        tried_cost: money that the tried evaluations cost.
        paid_evaluations: number of the selection's own evaluations that `cost` is based
            on. 0 if `cost` is based on something else.
    """

    evaluations: int
    repeats: int
    cost: float | None
    most_cost: float | None
    seconds: float | None
    tried: int
    failed: int
    tried_cost: float
    paid_evaluations: int

    def to_dict(self) -> dict[str, Any]:
        """The attributes by name, as JSON data."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(f"{name:15}{words}" for name, words in self._lines())

    def _lines(self) -> Iterator[tuple[str, str]]:
        """The rows of the table, as name and words."""
        if self.evaluations:
            unknown = "unknown until an evaluation is tried: --estimate 3"
            cost = (
                unknown
                if self.cost is None
                else f"about {self.cost:.4g}{_based_on(self.paid_evaluations)}"
            )
            most = "" if self.most_cost is None else f", at most {self.most_cost:.4g}"
            yield "evaluations", _evaluations(self.evaluations, self.repeats)
            yield "money", cost + most
            yield (
                "time",
                unknown if self.seconds is None else f"about {in_time(self.seconds)}",
            )
        else:
            yield "evaluations", _NOTHING_LEFT
        if self.tried:
            failed = f", {self.failed} of them failed" if self.failed else ""
            yield (
                "tried",
                f"{self.tried} evaluations{failed}, for {self.tried_cost:.4g}",
            )


def estimate_harness(
    evaluate: Callable[[Sequence[Trial]], Sequence[Any]],
    selection: Selection,
    n_examples: int,
    *,
    cost: float | None = None,
    real: int = 0,
    concurrency: int = 1,
    repeatable: bool = False,
    seed: int = 0,
) -> HarnessEstimate:
    """Estimate the evaluations, money and time that the rest of a selection will take with a harness.

    Some evaluations may be tried first, to measure their cost and time.

    Args:
        evaluate: a function that evaluates trials, and returns the scores or an
            exception for each. Pass the method `evaluate_batch` of the harness's
            evaluator, for example.
        selection: a Selector or a Study, new or started.
        n_examples: number of examples.
        cost: approximate cost of an evaluation. It is used only if neither the
            selection's own nor the tried evaluations have a cost.
        real: number of evaluations to try, of prompts and examples drawn at random.
        concurrency: number of simultaneous evaluations.
        repeatable: True if a repeated evaluation always gives the same scores.
        seed: seed of the random draw.

    Raises:
        InvalidArgumentError: a number is out of range.
        EvaluatorError: all tried evaluations failed.
    """
    whole("real", real, 0)
    whole("concurrency", concurrency, 1)
    result, history = selection.result(), _History.of(selection)
    n_cells = len(result.prompts) * n_examples * result.repeats
    evaluations = max(0, min(selection.budget, n_cells) - selection.spent)
    active = _active(result, evaluations)
    cells = random.Random(seed).sample(
        range(len(active) * n_examples), min(real, len(active) * n_examples)
    )
    trials = [
        _trial(number, active[cell // n_examples], cell % n_examples)
        for number, cell in enumerate(cells)
    ]
    tried = _try(evaluate, trials, concurrency)

    mean_paid, n_paid = history.paid([entry.id for entry in active])
    if n_paid < len(tried.costs):
        n_paid = 0
    if n_paid:
        each_cost: float | None = mean_paid
    elif tried.costs:
        each_cost = statistics.fmean(tried.costs)
    else:
        each_cost = cost
    left = _money_left(result)
    if left is not None and each_cost:
        evaluations = _affordable(evaluations, left, each_cost)
    repeats = 0 if repeatable else _repeated(result, selection.spent, evaluations)
    n = evaluations + repeats
    return HarnessEstimate(
        evaluations,
        repeats,
        cost=_capped_cost(None if each_cost is None else n * each_cost, left),
        most_cost=left,
        seconds=None if tried.seconds is None else n * tried.seconds,
        tried=len(trials),
        failed=tried.n_failed,
        tried_cost=math.fsum(tried.costs),
        paid_evaluations=n_paid,
    )


def _trial(number: int, entry: PromptResult, example: int) -> Trial:
    """A trial of a prompt on an example, outside of the selection."""
    return Trial(
        number,
        entry.id,
        entry.prompt,
        example,
        None if entry.candidate is None else dict(entry.candidate),
    )


class _Tried(NamedTuple):
    """The outcome of the tried evaluations."""

    seconds: float | None  # per evaluation. None without any.
    n_failed: int
    costs: list[float]  # of the evaluations whose cost is known


def _try(
    evaluate: Callable[[Sequence[Trial]], Sequence[Any]],
    trials: list[Trial],
    concurrency: int,
) -> _Tried:
    """Evaluate the trials, `concurrency` of them at once.

    Raises:
        EvaluatorError: all of them failed.
    """
    start = time.perf_counter()
    outcomes: list[Any] = []
    for first in range(0, len(trials), concurrency):
        outcomes.extend(evaluate(trials[first : first + concurrency]))
    seconds = (time.perf_counter() - start) / len(trials) if trials else None
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if outcomes and len(failures) == len(outcomes):
        raise EvaluatorError(
            f"All evaluations failed ({len(outcomes):,} of {len(outcomes):,}). Remove the cause, and repeat the "
            f"estimate. The first error was {in_words(failures[0])}"
        )
    costs = [cost for cost in map(_cost_of, outcomes) if cost is not None]
    return _Tried(seconds, len(failures), costs)


def _cost_of(outcome: Any) -> float | None:
    """The money that an evaluation cost, even if it failed, or None if that is unknown."""
    paid = getattr(outcome, "paid", None)
    if paid is None:
        paid = (
            getattr(outcome, "cost", None)
            if isinstance(outcome, BaseException)
            else outcome.get("cost")
        )
    return (
        float(paid) if isinstance(paid, Real) and 0 <= float(paid) < math.inf else None
    )


class _History(NamedTuple):
    """The evaluations of a selection so far."""

    # (prompt id, example) -> number of evaluations
    cells: Counter[tuple[Any, int | None]]
    # (prompt id, cost) of each evaluation that was paid
    costs: Sequence[tuple[Any, float]]
    spent_cost: float
    spent: int

    @classmethod
    def of(cls, selection: Selection) -> "_History":
        """Read the evaluations of a selection."""
        cells: Counter[tuple[Any, int | None]] = Counter()
        costs = []
        for evaluation in selection.evaluations():
            cells[evaluation.prompt, evaluation.example] += 1
            if evaluation.cost:
                costs.append((evaluation.prompt, evaluation.cost))
        return cls(cells, costs, selection.spent_cost, selection.spent)

    def paid(self, active: Collection[Any]) -> tuple[float, int]:
        """The mean cost of an evaluation, and the number of evaluations that it is the mean of.

        The evaluations of active prompts are used, or all evaluations if no active
        prompt was paid for. A selector, unlike a study, keeps only the sum of costs, so
        its mean is over all evaluations.
        """
        costs = [cost for prompt, cost in self.costs if prompt in active] or [
            cost for _, cost in self.costs
        ]
        if costs:
            return statistics.fmean(costs), len(costs)
        return (
            (self.spent_cost / self.spent, self.spent) if self.spent_cost else (0.0, 0)
        )


def _combined(
    prices: Sequence[Price | None], how: Callable[[list[float]], float]
) -> Price | None:
    """One price for several LLMs, such as their mean or maximum, or None if the price of any LLM is unknown."""
    defined = [price for price in prices if price is not None]
    if not defined or len(defined) < len(prices):
        return None
    if defined == defined[:1] * len(defined):
        return defined[0]  # as it is, with the fields that cannot be combined
    read = how([price.input for price in defined])
    written = how([price.output for price in defined])
    return Price(read, written, currency=defined[0].currency)


class _Asked(NamedTuple):
    """The real calls."""

    # Position of the request -> response, without failures
    answers: Mapping[int, Completion] = {}
    mean_tokens: float | None = None  # written per response
    n_fresh: int = 0  # responses that were not in the cache
    cost: float = 0.0
    seconds_per_call: float | None = None  # None if all responses were in the cache


def _ask(
    evaluator: LLMEvaluator | AsyncLLMEvaluator,
    requests: list[Request],
    concurrency: int,
) -> _Asked:
    """Make the real calls.

    Raises:
        EvaluatorError: all of them failed.
    """
    _load(evaluator.llm)
    start = time.perf_counter()
    is_async = isinstance(evaluator, AsyncLLMEvaluator)
    responses: Sequence[Completion | Exception]
    responses = (
        gathered(evaluator.answers, requests, concurrency)
        if is_async
        else evaluator.answers.complete(requests)
    )
    seconds = time.perf_counter() - start
    answers = {
        i: answer
        for i, answer in enumerate(responses)
        if isinstance(answer, Completion)
    }
    if not answers:
        raise EvaluatorError(
            f"All real calls failed ({len(responses):,} of {len(responses):,}). Remove the cause, and repeat the "
            f"estimate. The first error was: {responses[0]}"
        )
    fresh = [answer for answer in answers.values() if not answer.from_cache]
    if is_async:
        # Latencies rather than the clock: a few calls rarely fill all `concurrency`
        # places, and the run will.
        seconds = sum(answer.latency for answer in fresh) / concurrency
    costs = [answer.cost for answer in fresh]
    costs += [
        float(getattr(answer, "cost", 0.0))
        for answer in responses
        if isinstance(answer, Exception)
    ]
    mean_tokens = statistics.fmean(
        answer.completion_tokens for answer in answers.values()
    )
    return _Asked(
        answers,
        mean_tokens,
        len(fresh),
        sum(costs),
        seconds / len(fresh) if fresh else None,
    )


def _slowest(llm: Any, tokens: float) -> float:
    """The least seconds between calls within the LLM's own rate limits, if each call has so many tokens."""
    limits = [
        (1.0, getattr(llm, "requests_per_minute", None)),
        (tokens, getattr(llm, "tokens_per_minute", None)),
    ]
    return max(
        60 * units / per_minute if per_minute else 0.0 for units, per_minute in limits
    )


def in_time(seconds: float) -> str:
    """A duration as text, such as "45 s", "12 min" or "1.5 h"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _repeated(result: Result, spent: int, evaluations: int) -> int:
    """How many evaluations a run repeats beside so many further ones: some of those on given examples, see `run`."""
    return (
        n_repeats(spent + evaluations) - n_repeats(spent)
        if result.inputs == "given"
        else 0
    )
