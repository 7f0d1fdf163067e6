"""What a selection will take before anything is spent: calls, tokens, money and time, from a few real calls or none."""

import asyncio
import inspect
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, final

from asktell.arguments import check_number, whole
from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell.running.run import outside_of_loops
from asktell_adapters.cache import CachedLLM
from asktell_adapters.evaluators.llm import AsyncLLMEvaluator, LLMEvaluator
from asktell_adapters.llms.base import Completion, Request, said
from asktell_adapters.llms.chat_api import Price

MOST_COUNTED = 200
"""Requests whose tokens are counted; those of the others are taken to be as many on average."""
_CHARACTERS_PER_TOKEN = 4  # about, in English
_TOKENS_PER_TURN = 4  # of a chat template, about


class Selection(Protocol):
    """What is read of a Selector or a Study."""

    @property
    def budget(self) -> int: ...  # noqa: D102
    @property
    def spent(self) -> int: ...  # noqa: D102
    def result(self) -> Any: ...  # noqa: D102


@final
@dataclass(frozen=True)
class Estimate:
    """What is left of a selection to be done will take. `str()` of it is a table.

    Attributes:
        evaluations: at most, by the budget; of a budget in cost, as many as it is expected to pay for.
        calls: those of them that the LLM is asked for; the others' answers are in the cache.
        prompt_tokens: to be read, all calls together, on average of the requests counted.
        completion_tokens: to be written, as the real calls were answered; without any, None.
        most_completion_tokens: if every answer is as long as it may be.
        cost: expected, in the currency of the price; None without a price or without real calls.
        most_cost: with the longest answers, and never above the budget; None without a price.
        seconds: None where nothing says how fast the LLM is.
        counted: requests whose tokens were counted.
        exact_tokens: whether the model's own tokenizer counted them; otherwise a token for four characters was taken.
        real_calls: answers that were asked for to learn this, and were not in the cache.
        real_cost: what they cost.
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

    def to_dict(self) -> dict[str, Any]:
        """The attributes, as JSON data."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(f"{name:15}{words}" for name, words in self._lines())

    def _lines(self) -> Iterator[tuple[str, str]]:
        cached = self.evaluations - self.calls
        yield "evaluations", f"{self.evaluations:,}" + (f", about {cached:,} of them in the cache" if cached else "")
        how = "the model's tokenizer" if self.exact_tokens else "a token for 4 characters, a guess"
        yield "tokens read", f"about {self.prompt_tokens:,} ({how}, {self.counted:,} requests counted)"
        longest = f"at most {self.most_completion_tokens:,}"
        written = self.completion_tokens
        yield "tokens written", longest if written is None else f"about {written:,}, {longest}"
        if self.most_cost is None:
            yield "money", "no price is known"
        else:
            longest = f"at most {self.most_cost:.4g}"
            yield "money", longest if self.cost is None else f"about {self.cost:.4g}, {longest}"
        yield "time", "unknown until something is asked" if self.seconds is None else f"about {_duration(self.seconds)}"
        if self.real_calls:
            yield "real calls", f"{self.real_calls}, for {self.real_cost:.4g}"


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
    """What a selection will take from here on.

    Prompts and examples are drawn at random: tokens are counted for some, and some are really asked for. Real answers
    go into the evaluator's cache, where it has one, and then are not paid twice.

    Args:
        evaluator: of the selection.
        selection: a Selector or a Study, new or in the middle.
        real_calls: how many answers to ask for, to learn their length and the LLM's speed.
        price: per million tokens; by default the LLM's own.
        seconds_per_call: between two answers, where it is known; by default as measured in the real calls.
        concurrency: calls at once, of an async LLM.
        seed: of the draw.

    Raises:
        InvalidArgumentError: a number is out of range, or the budget is a cost and there is no price.
        EvaluatorError: none of the real calls was answered.
    """
    whole("real_calls", real_calls, 0)
    whole("concurrency", concurrency, 1)
    if seconds_per_call is not None:
        check_number("seconds_per_call", seconds_per_call, 0.0, 1e9)
    llm = evaluator.llm
    price = price or getattr(llm, "price", None)
    result = selection.result()
    active = [entry.prompt for entry in result.prompts if entry.status == "active"]
    requests = _drawn(evaluator, active, max(MOST_COUNTED, real_calls), random.Random(seed))
    tokens, exact = _count(llm, requests[:MOST_COUNTED])
    known = _share_known(evaluator, requests[:MOST_COUNTED])
    asked = _ask(evaluator, requests[:real_calls], concurrency) if real_calls else _Asked([], 0, 0.0, 0.0)
    longest = evaluator.max_new_tokens
    read = sum(tokens) / len(tokens) if tokens else 0.0
    written = asked.mean_tokens
    per_call = None if price is None or written is None else price.of(round(read), 0) + price.of(0, 1) * written
    most_per_call = None if price is None else price.of(round(read), longest)
    cells = len(result.prompts) * len(evaluator.examples)
    evaluations = max(0, min(selection.budget, cells) - selection.spent)
    money = None if result.max_cost is None else max(0.0, result.max_cost - result.cost)
    if money is not None:
        if most_per_call is None:
            raise InvalidArgumentError("A budget in cost can only be estimated with a price: give price=Price(...).")
        paid = (per_call or most_per_call) * (1 - known)
        evaluations = min(evaluations, int(money / paid)) if paid else evaluations
    calls = round(evaluations * (1 - known))
    most = None if most_per_call is None else calls * most_per_call
    pace = seconds_per_call if seconds_per_call is not None else asked.seconds_per_call
    return Estimate(
        evaluations=evaluations,
        calls=calls,
        prompt_tokens=round(calls * read),
        completion_tokens=None if written is None else round(calls * written),
        most_completion_tokens=calls * longest,
        cost=None if per_call is None else _no_more(calls * per_call, money),
        most_cost=None if most is None else _no_more(most, money),
        seconds=None if pace is None else calls * max(pace, _slowest(llm, read + longest)),
        counted=len(tokens),
        exact_tokens=exact,
        real_calls=asked.n_fresh,
        real_cost=asked.cost,
    )


@dataclass(frozen=True)
class _Asked:
    """What the real calls have shown."""

    answers: list[Completion]
    n_fresh: int
    cost: float
    seconds: float

    @property
    def mean_tokens(self) -> float | None:
        return sum(a.completion_tokens for a in self.answers) / len(self.answers) if self.answers else None

    @property
    def seconds_per_call(self) -> float | None:
        return self.seconds / self.n_fresh if self.n_fresh else None


def _drawn(
    evaluator: LLMEvaluator | AsyncLLMEvaluator, prompts: Sequence[str], n: int, rng: random.Random
) -> list[Request]:
    n_examples = len(evaluator.examples)
    cells = len(prompts) * n_examples
    return [
        evaluator.request(prompts[cell // n_examples], cell % n_examples)
        for cell in rng.sample(range(cells), min(n, cells))
    ]


def _count(llm: Any, requests: list[Request]) -> tuple[list[int], bool]:
    """Tokens of each, and whether the model's tokenizer said so."""
    if callable(counter := getattr(llm, "count_tokens", None)):
        try:
            return list(counter(requests)), True
        except EvaluatorError:  # one that does not fit; the run says so of that one
            pass
    texts = [[said(turn) for turn in request.messages] for request in requests]
    return [sum(len(text) // _CHARACTERS_PER_TOKEN + _TOKENS_PER_TURN for text in each) for each in texts], False


def _share_known(evaluator: LLMEvaluator | AsyncLLMEvaluator, requests: list[Request]) -> float:
    """The part of the answers that the cache has."""
    answers = evaluator.answers
    if not isinstance(answers, CachedLLM) or not requests:
        return 0.0
    fresh = CachedLLM(answers.llm, answers.cache)  # which counts for itself
    fresh.look_up([fresh.key(request) for request in requests])
    return fresh.hits / len(requests)


def _ask(evaluator: LLMEvaluator | AsyncLLMEvaluator, requests: list[Request], concurrency: int) -> _Asked:
    if callable(load := getattr(evaluator.llm, "load", None)):
        load()  # which is not part of a call's time
    start = time.perf_counter()
    found: Sequence[Completion | BaseException]
    if inspect.iscoroutinefunction(getattr(evaluator.answers, "acomplete", None)) and not isinstance(
        evaluator, LLMEvaluator
    ):
        found = outside_of_loops(lambda: asyncio.run(_ask_async(evaluator.answers, requests, concurrency)))
        at_once = min(concurrency, len(requests))
    else:
        found, at_once = evaluator.answers.complete(requests), 0
    seconds = time.perf_counter() - start
    answers = [answer for answer in found if isinstance(answer, Completion)]
    if not answers:
        raise EvaluatorError(f"none of {len(requests)} real calls was answered, the first with: {found[0]!r}")
    fresh = [answer for answer in answers if not answer.from_cache]
    if at_once:  # what takes long waits elsewhere
        seconds = sum(answer.latency for answer in fresh) / concurrency
    costs = [answer.cost for answer in fresh]
    costs += [float(getattr(answer, "cost", 0.0)) for answer in found if isinstance(answer, BaseException)]
    return _Asked(answers, len(fresh), sum(costs), seconds)


async def _ask_async(llm: Any, requests: list[Request], concurrency: int) -> list[Completion | BaseException]:
    slots = asyncio.Semaphore(concurrency)

    async def one(request: Request) -> Completion:
        async with slots:
            answer: Completion = await llm.acomplete(request)
            return answer

    return await asyncio.gather(*map(one, requests), return_exceptions=True)


def _slowest(llm: Any, tokens: float) -> float:
    """The seconds between calls that the LLM's own limits leave, with so many tokens a call."""
    limits = [(1.0, getattr(llm, "requests_per_minute", None)), (tokens, getattr(llm, "tokens_per_minute", None))]
    return max(60 * units / per_minute if per_minute else 0.0 for units, per_minute in limits)


def _no_more(cost: float, money: float | None) -> float:
    return cost if money is None else min(cost, money)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
