"""Estimates of what a selection will take: calls, tokens, money and time, from a few real calls or none."""

import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any, NamedTuple, TypeAlias, final

from asktell import EvaluatorError, InvalidArgumentError, PromptResult, Result, Selector, Trial
from asktell.extend import AbstractStudy, in_words, n_repeats, whole
from asktell_adapters._scores import or_raise
from asktell_adapters.cache import CachedLLM
from asktell_adapters.evaluators.llm import AsyncLLMEvaluator, LLMEvaluator
from asktell_adapters.llms.base import Asked, Completion, Example, Request, gathered, said
from asktell_adapters.llms.chat_api import Price
from asktell_adapters.llms.models import Models, llm_of
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


class Use(NamedTuple):
    """What calls of an LLM take: how many, tokens read, and tokens written and money, expected and at most.

    None stands for what is not known.
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
        """One call; `most_read` and `highest`, of the dearest of several LLMs, where they differ from the means."""
        highest = highest or price
        cost = None if price is None or written is None else price.of(round(read), 0) + price.of(0, 1) * written
        most = None if highest is None else highest.of(round(read if most_read is None else most_read), longest)
        return cls(1, read, written, longest, cost, most)

    @classmethod
    def total(cls, uses: Iterable["Use"]) -> "Use":
        return cls(*(None if None in each else sum(each) for each in zip(*uses, strict=True)))  # type: ignore[arg-type]

    def times(self, n: float) -> "Use":
        return Use(*(None if each is None else n * each for each in self))  # type: ignore[arg-type]

    def rounded(self) -> tuple[int, int, int | None, int, float | None, float | None]:
        written = None if self.written is None else round(self.written)
        return round(self.calls), round(self.read), written, round(self.longest), self.cost, self.most_cost


@final
@dataclass(frozen=True)
class JudgeEstimate:
    """What a judge, by its metric's name, will take over all its LLMs, opinions and orders: see `Estimate`.

    Where it is not known how long answers are, `prompt_tokens` are as if every answer were as long as it may be.
    Without the price of each of its LLMs, it has no cost.
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
    """What a judge takes for one evaluation on average, the seconds where they were measured, and the real calls."""

    name: str
    use: Use
    seconds: float | None
    real_calls: int
    real_cost: float


def opinion(
    name: str,
    metric: Judge | Preference,
    samples: Sequence[Sample],
    mean_answer: float | None,
    longest: int,
    prices: dict[int, Price],
) -> Opinion:
    """What a judge takes for an evaluation, by the samples; it is asked about those that are real.

    `mean_answer` and `longest` are tokens of the answers, None where that is not known; `prices` are those of LLMs, by
    their `id()`, that are told rather than known.
    """
    judge = metric if isinstance(metric, Judge) else metric.judge
    answer_tokens = longest if mean_answer is None else mean_answer
    if isinstance(metric, Preference):  # the other answer is as long, and as well known
        unknown = "x" * round(_CHARACTERS_PER_TOKEN * answer_tokens)
        samples = [
            each._replace(example=beside(each.example, each.answer.text if each.answer else unknown))
            for each in samples
        ]
    orders = 2 if judge.rubric.pairwise else 1
    asked = ((each.answer or Completion(""), each.example, each.repeat) for each in samples)
    requests = [or_raise(judge.requests(*each))[:orders] for each in asked]
    flat = [request for each in requests for request in each]
    known = [_share_known(asked, requests, samples) for asked in judge.answers]
    took, seconds = _ask_judge(name, judge, samples)
    per_call = took.completion_tokens / fresh if (fresh := took.requests - took.from_cache) else None
    unseen = sum(sample.answer is None for sample in samples) / len(samples)  # their answers are not in the tokens
    uses = []
    for llm, share in zip(judge.llms, known, strict=True):
        tokens = sum(count(llm, flat)[0]) / len(flat)
        price: Price | None = prices.get(id(llm)) or getattr(getattr(llm, "api", None), "price", None)
        most_read = tokens + unseen * longest
        call = Use.of_call(tokens + unseen * answer_tokens, per_call, judge.max_new_tokens, price, most_read)
        uses.append(call.times(judge.n * orders * (1 - share)))
    return Opinion(name, Use.total(uses), seconds, fresh, took.cost)


def _ask_judge(name: str, judge: Judge, samples: Sequence[Sample]) -> tuple[Spent, float | None]:
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


MOST_COUNTED = 200
"""Requests whose tokens are counted; those of the others are taken to be as many on average."""


Selection: TypeAlias = Selector | AbstractStudy


@final
@dataclass(frozen=True)
class Estimate:
    """What the rest of a selection will take. `str()` gives a table.

    Attributes:
        evaluations: the maximum by the budget; for a cost budget, as many as it is expected to pay for.
        repeats: further ones, to see whether scores differ when an evaluation is repeated; see `asktell.run`.
        calls: those of them that the LLM is asked for; the others' answers are in the cache. What judges are asked is
            in `judges`.
        prompt_tokens: to be read, all calls together, on average of the requests counted.
        completion_tokens: to be written, as the real calls were answered; without any, None.
        most_completion_tokens: if every answer is as long as it may be.
        cost: expected, judges included, in the currency of the price; of a selection that was started, by what its
            evaluations have cost so far; otherwise None without a price or without real calls.
        most_cost: with the longest answers, judges included, and never above the budget; None without a price. A judge
            whose own price is not known is not in it, and in `cost` only as far as it was paid.
        seconds: None where nothing says how fast the LLM is.
        counted: requests whose tokens were counted.
        exact_tokens: whether the model's own tokenizer counted them; otherwise a token for four characters was taken.
        real_calls: answers that were asked for to learn this, and were not in the cache.
        real_cost: what they cost.
        judges: what each of them will take.
        currency: of all amounts; empty if unknown.
        paid_evaluations: how many of the selection's own `cost` rests on; 0 if on price and tokens.
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
        """The attributes, as JSON data."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(f"{name:15}{words}" for name, words in self._lines())

    def _lines(self) -> Iterator[tuple[str, str]]:
        cached = self.evaluations + self.repeats - self.calls
        if not self.evaluations:
            yield "evaluations", "0: nothing is left to be done within the budget"
        else:
            again = f" and {self.repeats:,} repeated, to see whether scores differ" if self.repeats else ""
            of_them = f", about {cached:,} of them in the cache" if cached else ""
            yield "evaluations", f"{self.evaluations:,}{again}{of_them}"
            yield from self._needs()
        if self.real_calls or any(judge.real_calls for judge in self.judges):
            opinions = sum(judge.real_calls for judge in self.judges)
            more = f" and {opinions} of judges" if opinions else ""
            cost = self.real_cost + sum(judge.real_cost for judge in self.judges)
            yield "real calls", f"{self.real_calls}{more}, for {amount(cost, self.currency)}"

    def _needs(self) -> Iterator[tuple[str, str]]:
        how = "the model's tokenizer" if self.exact_tokens else "a token for 4 characters, a guess"
        yield "tokens read", f"about {self.prompt_tokens:,} ({how}, {self.counted:,} requests counted)"
        longest = f"at most {self.most_completion_tokens:,}"
        written = self.completion_tokens
        yield "tokens written", longest if written is None else f"about {written:,}, {longest}"
        for judge in self.judges:
            yield f"judge {judge.name}"[:14], ", ".join(_of_judge(judge, written is not None))
        yield "money", ", ".join(self._money()) + ("" if self.most_cost is None else _shares(self.judges))
        yield "time", "unknown until something is asked" if self.seconds is None else f"about {in_time(self.seconds)}"

    def _money(self) -> Iterator[str]:
        if self.cost is None and self.most_cost is None:
            yield "no price is known"
        if self.cost is not None:
            by = f" by the {self.paid_evaluations:,} evaluations paid so far" if self.paid_evaluations else ""
            shown = f"{self.cost:.4g}" if self.most_cost is not None else amount(self.cost, self.currency)
            yield f"about {shown}{by}"
        if self.most_cost is not None:
            yield f"at most {amount(self.most_cost, self.currency)}"


def amount(cost: float, currency: str) -> str:
    """Money, with its currency where that is known."""
    return f"{cost:.4g} {currency}".rstrip()


def _of_judge(judge: JudgeEstimate, knows_answers: bool) -> Iterator[str]:
    yield f"{judge.calls:,} calls"
    yield f"{'about' if knows_answers else 'at most about'} {judge.prompt_tokens:,} tokens read"
    longest = f"at most {judge.most_completion_tokens:,} written"
    yield longest if judge.completion_tokens is None else f"about {judge.completion_tokens:,}, {longest}"


def _shares(judges: Sequence[JudgeEstimate]) -> str:
    known = [judge for judge in judges if judge.most_cost is not None]
    unknown = [repr(judge.name) for judge in judges if judge.most_cost is None]
    said = []
    if known:
        most = sum(judge.most_cost or 0.0 for judge in known)
        about = "" if any(judge.cost is None for judge in known) else f"{sum(j.cost or 0.0 for j in known):.4g}, "
        said.append(f"judges: {about}at most {most:.4g}")
    if unknown:
        said.append(f"without the judge {', '.join(unknown)}, who has no price")
    return f" ({'; '.join(said)})" if said else ""


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
    """Estimate what the rest of a selection will take.

    Prompts and examples are drawn at random: tokens are counted for some, and some are really asked for. Real answers
    go into the evaluator's cache, where it has one, and then are not paid twice. Of a selection that was started only
    what is left counts, at the price of what was paid so far.

    Args:
        evaluator: of the selection.
        selection: a Selector or a Study, new or in the middle.
        real_calls: how many answers to ask for, to learn their length and the LLM's speed.
        price: per million tokens; by default the LLM's own.
        seconds_per_call: between two answers, where it is known; by default as measured in the real calls.
        concurrency: calls at once, of an async LLM.
        seed: of the draw.

    Raises:
        InvalidArgumentError: a number is out of range, or the budget is a cost, and there is no price and nothing paid.
        EvaluatorError: none of the real calls was answered.
    """
    whole("real_calls", real_calls, 0)
    whole("concurrency", concurrency, 1)
    if seconds_per_call is not None and not 0 <= seconds_per_call <= 1e9:
        raise InvalidArgumentError(f"seconds_per_call must be a number of seconds, got {seconds_per_call!r}.")
    llm = evaluator.llm
    result = selection.result()
    n_cells = len(result.prompts) * len(evaluator.examples) * result.repeats
    evaluations = max(0, min(selection.budget, n_cells) - selection.spent)
    active: dict[Any, Asked] = {
        entry.id: entry.candidate or entry.prompt
        for entry in result.prompts
        if entry.status == "active" and evaluations
    }
    told = _Told.of(selection)
    cells = _drawn(evaluator, active, told.cells, result.repeats, max(MOST_COUNTED, real_calls), random.Random(seed))
    requests = [evaluator.request(*cell) for cell in cells]
    tokens, exact = count(llm, requests[:MOST_COUNTED])
    found = in_cache(evaluator.answers, requests[:MOST_COUNTED])
    known = sum(answer is not None for answer in found) / len(found) if found else 0.0
    asked = _ask(evaluator, requests[:real_calls], concurrency) if real_calls and requests else _Asked()
    llms = [llm_of(llm, request) for request in requests] or [llm]
    prices = [price or getattr(each, "price", None) for each in llms]
    mean_price = _combined(prices, statistics.fmean)
    read = sum(tokens) / len(tokens) if tokens else 0.0
    longest = max((request.max_new_tokens for request in requests), default=evaluator.max_new_tokens)
    call = Use.of_call(read, asked.mean_tokens, longest, mean_price, highest=_combined(prices, max))
    samples = [
        Sample(asked.answers.get(i, answer), i in asked.answers, evaluator.example(cells[i][1]), cells[i][2])
        for i, answer in enumerate(found)
    ]
    opinions = [
        opinion(name, metric, samples, call.written, longest, {} if mean_price is None else {id(llm): mean_price})
        for name, metric in evaluator.metrics.items()
        if isinstance(metric, Judge | Preference) and samples
    ]
    # What was really paid knows the answers' lengths, unless more answers were just asked for.
    mean_paid, n_paid = told.paid(active)
    n_paid = n_paid if n_paid >= len(asked.answers) else 0
    each_paid = mean_paid * (1 - known) if n_paid else None
    money = math.inf
    if result.max_cost is not None:
        money = max(0.0, result.max_cost - result.spent_cost)
        if each_paid is None and call.most_cost is None:
            raise InvalidArgumentError("A budget in cost can only be estimated with a price: give price=Price(...).")
        # A share of the evaluations is asked for, and all of them are judged.
        uses = [call.times(1 - known), *(each.use for each in opinions)]
        expected = sum((use.most_cost if use.cost is None else use.cost) or 0.0 for use in uses)
        expected = expected if each_paid is None else each_paid
        evaluations = min(evaluations, int(money / expected)) if expected else evaluations
    repeats = 0 if evaluator.repeatable else _repeated(result, selection.spent, evaluations)
    if result.repeats > 1:  # only late ones, and where no second round of the examples takes their place
        repeats = repeats // 2 if selection.spent + evaluations < 2 * n_cells // result.repeats else 0
    took = call.times(round(evaluations * (1 - known)) + repeats)
    judged = [each.use.times(evaluations + repeats) for each in opinions]
    # A judge of unknown price is left out; a part whose length is unknown makes the expected cost so.
    total = Use.total([use for use in (took, *judged) if use.most_cost is not None] or [took])
    cost = total.cost if each_paid is None else each_paid * (evaluations + repeats)
    most_cost = total.most_cost if total.most_cost is None or cost is None else max(total.most_cost, cost)
    took = took._replace(
        cost=None if cost is None else min(cost, money),
        most_cost=None if most_cost is None else min(most_cost, money),
    )
    pace = seconds_per_call if seconds_per_call is not None else asked.seconds_per_call
    seconds = None if pace is None else took.calls * max(pace, _slowest(llm, read + longest))
    if seconds is not None:
        seconds += (evaluations + repeats) * sum(each.seconds or 0.0 for each in opinions)
    return Estimate(
        evaluations,
        *took.rounded(),
        seconds,
        counted=len(tokens),
        exact_tokens=exact,
        real_calls=asked.n_fresh,
        real_cost=asked.cost,
        judges=tuple(
            JudgeEstimate(each.name, *use.rounded(), each.real_calls, each.real_cost)
            for each, use in zip(opinions, judged, strict=True)
        ),
        repeats=repeats,
        currency="" if mean_price is None else mean_price.currency,
        paid_evaluations=n_paid,
    )


@final
@dataclass(frozen=True)
class HarnessEstimate:
    """What the rest of a selection will take whose evaluator alone knows its requests. `str()` gives a table.

    Attributes:
        evaluations: the maximum by the budget; for a cost budget, as many as it is expected to pay for.
        repeats: further ones, to see whether scores differ when an evaluation is repeated; see `asktell.run`.
        cost: expected, by what the selection's evaluations have cost so far, by those tried, or as it was given; None
            where nothing says what an evaluation costs.
        most_cost: the budget that is left; None without one.
        seconds: expected, by the evaluations tried; None where none was.
        tried: evaluations that were made to learn this. They are not told to the selection.
        failed: how many of them failed.
        tried_cost: what they cost.
        paid_evaluations: how many of the selection's own `cost` rests on; 0 if on others.
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
        """The attributes, as JSON data."""
        return asdict(self)

    def __str__(self) -> str:
        again = f" and {self.repeats:,} repeated, to see whether scores differ" if self.repeats else ""
        left = "0: nothing is left to be done within the budget"
        rows = [("evaluations", f"{self.evaluations:,}{again}" if self.evaluations else left)]
        if self.evaluations:
            most = "" if self.most_cost is None else f", at most {self.most_cost:.4g}"
            by = f" by the {self.paid_evaluations:,} evaluations paid so far" if self.paid_evaluations else ""
            unknown = "unknown until an evaluation is tried: --estimate 3"
            rows.append(("money", (unknown if self.cost is None else f"about {self.cost:.4g}{by}") + most))
            rows.append(("time", unknown if self.seconds is None else f"about {in_time(self.seconds)}"))
        if self.tried:
            failed = f", {self.failed} of them failed" if self.failed else ""
            rows.append(("tried", f"{self.tried} evaluations{failed}, for {self.tried_cost:.4g}"))
        return "\n".join(f"{name:15}{words}" for name, words in rows)


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
    """Estimate what the rest of a selection will take whose evaluator alone knows its requests.

    Args:
        evaluate: as `evaluate_batch(trials)` of its evaluator.
        selection: a Selector or a Study, new or in the middle.
        n_examples: that there are.
        cost: about what an evaluation costs, where neither evaluations of the selection nor those tried tell it.
        real: how many evaluations of prompts and examples drawn at random to make.
        concurrency: evaluations at once.
        repeatable: whether the evaluator gives the same scores when an evaluation is repeated.
        seed: of the draw.

    Raises:
        InvalidArgumentError: a number is out of range.
        EvaluatorError: all evaluations that were tried failed.
    """
    whole("real_calls", real, 0)
    whole("concurrency", concurrency, 1)
    result = selection.result()
    n_cells = len(result.prompts) * n_examples * result.repeats
    evaluations = max(0, min(selection.budget, n_cells) - selection.spent)
    active = [entry for entry in result.prompts if entry.status == "active"] if evaluations else []
    cells = random.Random(seed).sample(range(len(active) * n_examples), min(real, len(active) * n_examples))
    trials = [_trial(number, active[cell // n_examples], cell % n_examples) for number, cell in enumerate(cells)]
    start = time.perf_counter()
    groups = [trials[first : first + concurrency] for first in range(0, len(trials), concurrency)]
    found = [outcome for group in groups for outcome in evaluate(group)]
    seconds = (time.perf_counter() - start) / len(trials) if trials else None
    failures = [outcome for outcome in found if isinstance(outcome, BaseException)]
    if found and len(failures) == len(found):
        raise EvaluatorError(f"none of {len(found)} evaluations succeeded, the first: {in_words(failures[0])}")
    costs = [each for outcome in found if (each := _cost_of(outcome)) is not None]
    mean_paid, n_paid = _Told.of(selection).paid([entry.id for entry in active])
    n_paid = n_paid if n_paid >= len(costs) else 0
    each_cost = mean_paid if n_paid else statistics.fmean(costs) if costs else cost
    left = None if result.max_cost is None else max(0.0, result.max_cost - result.spent_cost)
    if left is not None and each_cost:
        evaluations = min(evaluations, int(left / each_cost))
    repeats = 0 if repeatable else _repeated(result, selection.spent, evaluations)
    n = evaluations + repeats
    expected = None if each_cost is None else n * each_cost
    return HarnessEstimate(
        evaluations,
        repeats,
        expected if left is None or expected is None else min(expected, left),
        left,
        None if seconds is None else n * seconds,
        tried=len(found),
        failed=len(failures),
        tried_cost=math.fsum(costs),
        paid_evaluations=n_paid,
    )


def _trial(number: int, entry: PromptResult, example: int) -> Trial:
    return Trial(number, entry.id, entry.prompt, example, None if entry.candidate is None else dict(entry.candidate))


def _cost_of(outcome: Any) -> float | None:
    """What an evaluation has cost, as far as it is known: a failed one, too."""
    paid = getattr(outcome, "paid", None)
    if paid is None:
        paid = getattr(outcome, "cost", None) if isinstance(outcome, BaseException) else outcome.get("cost")
    return float(paid) if isinstance(paid, Real) and 0 <= float(paid) < math.inf else None


class _Told(NamedTuple):
    """How often each prompt was evaluated on each example, and what evaluations cost that were not in the cache."""

    cells: Counter[tuple[Any, int | None]]
    costs: Sequence[tuple[Any, float]]
    spent_cost: float
    spent: int

    @classmethod
    def of(cls, selection: Selection) -> "_Told":
        cells: Counter[tuple[Any, int | None]] = Counter()
        costs = []
        for evaluation in selection.evaluations():
            cells[evaluation.prompt, evaluation.example] += 1
            if evaluation.cost:
                costs.append((evaluation.prompt, evaluation.cost))
        return cls(cells, costs, selection.spent_cost, selection.spent)

    def paid(self, active: Collection[Any]) -> tuple[float, int]:
        """The mean cost of an evaluation, and of how many: of the active prompts, or of all if none of those was paid.

        A selector, unlike a study, keeps only their sum.
        """
        costs = [cost for prompt, cost in self.costs if prompt in active] or [cost for _, cost in self.costs]
        if costs:
            return statistics.fmean(costs), len(costs)
        return (self.spent_cost / self.spent, self.spent) if self.spent_cost else (0.0, 0)


def _combined(prices: Sequence[Price | None], how: Callable[[list[float]], float]) -> Price | None:
    """The price of several LLMs, where all are known; that of one as it is."""
    known = [price for price in prices if price is not None]
    if not known or len(known) < len(prices):
        return None
    read, written = how([price.input for price in known]), how([price.output for price in known])
    return known[0] if known == known[:1] * len(known) else Price(read, written, currency=known[0].currency)


class _Asked(NamedTuple):
    answers: Mapping[int, Completion] = {}  # by the requests' positions
    mean_tokens: float | None = None
    n_fresh: int = 0
    cost: float = 0.0
    seconds_per_call: float | None = None


def _drawn(
    evaluator: LLMEvaluator | AsyncLLMEvaluator,
    prompts: Mapping[Any, Asked],
    done: Counter[tuple[Any, int | None]],
    repeats: int,
    n: int,
    rng: random.Random,
) -> list[tuple[Asked, int, int]]:
    """Random cells (prompt, example, repeat) of those that were not evaluated yet; of all if there are no others."""
    # At temperature 0 a repeat is asked the same again.
    repeats = repeats if evaluator.temperature else 1
    n_examples, ids = len(evaluator.examples), list(prompts)

    def cell(number: int) -> tuple[Any, int, int]:
        row, example = divmod(number, n_examples)
        return ids[row % len(ids)], example, row // len(ids)

    n_cells = len(ids) * n_examples * repeats
    drawn = [cell(number) for number in rng.sample(range(n_cells), min(n + done.total(), n_cells))]
    left = [(id_, example, repeat) for id_, example, repeat in drawn if repeat >= done[id_, example]]
    return [(prompts[id_], example, repeat) for id_, example, repeat in (left or drawn)[:n]]


def _ask(evaluator: LLMEvaluator | AsyncLLMEvaluator, requests: list[Request], concurrency: int) -> _Asked:
    if callable(load := getattr(evaluator.llm, "load", None)):
        load()  # which is not part of a call's time
    start = time.perf_counter()
    is_async = isinstance(evaluator, AsyncLLMEvaluator)
    found: Sequence[Completion | Exception]
    found = gathered(evaluator.answers, requests, concurrency) if is_async else evaluator.answers.complete(requests)
    seconds = time.perf_counter() - start
    answers = {i: answer for i, answer in enumerate(found) if isinstance(answer, Completion)}
    if not answers:
        raise EvaluatorError(f"none of {len(requests)} real calls was answered, the first with: {found[0]!r}")
    fresh = [answer for answer in answers.values() if not answer.from_cache]
    if is_async:  # what takes long waits elsewhere
        seconds = sum(answer.latency for answer in fresh) / concurrency
    costs = [answer.cost for answer in fresh]
    costs += [float(getattr(answer, "cost", 0.0)) for answer in found if isinstance(answer, Exception)]
    mean_tokens = statistics.fmean(answer.completion_tokens for answer in answers.values())
    return _Asked(answers, mean_tokens, len(fresh), sum(costs), seconds / len(fresh) if fresh else None)


def _slowest(llm: Any, tokens: float) -> float:
    """The seconds between calls that the LLM's own limits leave, with so many tokens a call."""
    limits = [(1.0, getattr(llm, "requests_per_minute", None)), (tokens, getattr(llm, "tokens_per_minute", None))]
    return max(60 * units / per_minute if per_minute else 0.0 for units, per_minute in limits)


def in_time(seconds: float) -> str:
    """A duration, in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _repeated(result: Result, spent: int, evaluations: int) -> int:
    """How many evaluations a run repeats beside so many further ones: some of those on given examples, see `run`."""
    return n_repeats(spent + evaluations) - n_repeats(spent) if result.inputs == "given" else 0
