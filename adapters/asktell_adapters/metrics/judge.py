"""An LLM as a judge of answers, by a rubric: alone, or against a fixed answer in both orders."""

import asyncio
import copy
import inspect
import math
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import short
from asktell_adapters._loop import Lock, LoopThread
from asktell_adapters._scores import or_raise
from asktell_adapters.cache import AnswerCache, AnsweredOnce, CachedLLM
from asktell_adapters.llms.base import Asked, Completion, Example, Request, all_of
from asktell_adapters.llms.models import llm_of
from asktell_adapters.metrics.rubric import Criterion, Rubric, Shot

Against = str | Callable[[Example], str]
"""The fixed answer to an example: a column of its `fields`, or a function of it."""

Answered = tuple[Completion, Example, int, Asked | None]
"""An answer, the example that it answers, which repeat of the evaluation it belongs to, and whose it is; None where
nobody says."""

_MOST_SHOWN = 500  # characters of a reply in a message


class Judgement(float):
    """A score, with what led to it.

    Attributes:
        details: JSON data: `opinions` (the score by each judge, `n` of each), their `spread` (the standard deviation;
            None of one), mean grades by criterion, `reasons`, tokens read and written, `cost`. Of
            pairs also each opinion `by_order`, and how many were `swayed_by_order`.
        cost: money paid for it now, in the currency of the judges' prices; what a cache had is free.
    """

    details: Mapping[str, Any]
    cost: float

    def __new__(cls, score: float, details: Mapping[str, Any], cost: float = 0.0) -> "Judgement":
        made = super().__new__(cls, score)
        made.details, made.cost = details, cost
        return made

    def __getnewargs__(self) -> tuple[float, Mapping[str, Any], float]:  # type: ignore[override]
        return float(self), self.details, self.cost


class JudgementError(EvaluatorError):
    """A judge gave no judgement that could be read.

    Attributes:
        cost: what the asking cost all the same.
        details: JSON data: what the judge said, as `reply`.
    """

    def __init__(self, message: str, *, reply: str | None = None, cost: float = 0.0) -> None:
        super().__init__(message)
        self.cost = cost
        self.details = {} if reply is None else {"reply": reply}


@final
@dataclass(frozen=True)
class Spent:
    """What a judge has used so far, without the answers it judged: requests, tokens, and money in its own currency.

    Of requests `from_cache`, tokens and money are not counted.
    """

    requests: int = 0
    from_cache: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0


@final
class Judge:
    """Scores answers with an LLM. Larger is better.

    Alone, an answer's score is the mean of its grades by the criteria's weights, on the scale. Against a fixed answer
    it is in [0, 1]: 1 where it wins by every criterion in both orders, 0.5 where the two are even.

    It judges the input and the answer, not the prompt. It is a metric; LLMEvaluator asks it in batches, and
    AsyncLLMEvaluator without blocking.

    Args:
        llm: whoever judges: any LLM with `complete` or `acomplete`, or a sequence of several.
        criteria: name -> what makes a good grade (a text, or a Criterion with a weight).
        scale: the worst and the best grade, whole numbers.
        reference: whether the judge is shown the example's references: True, False, or None for where there is one.
        against: compare with this answer rather than grade: a column of the example's `fields`, or a function of it.
        shots: answers that were judged already, as examples.
        n: opinions of each LLM on each answer; above 1 needs a temperature.
        temperature: of the judges; 0 gives the same opinion each time.
        seed: of the opinions, above temperature 0.
        max_new_tokens: a reply is cut after so many tokens, which is a failure.
        cache: replies on disk, which are not asked for again.
        instructions: the system turn, instead of POINTWISE or PAIRWISE; their fields in braces are filled in.
        name: the metric's name in a sequence of metrics.
    """

    repeatable = False
    """A judge may think otherwise when it is asked again, at temperature 0 too."""

    def __init__(
        self,
        llm: Any,
        criteria: Mapping[str, str | Criterion],
        *,
        scale: tuple[int, int] = (1, 5),
        reference: bool | None = None,
        against: Against | None = None,
        shots: Sequence[Shot] = (),
        n: int = 1,
        temperature: float = 0.0,
        seed: int = 0,
        max_new_tokens: int = 512,
        cache: AnswerCache | None = None,
        instructions: str | None = None,
        name: str = "judge",
    ) -> None:
        if n < 1:
            raise InvalidArgumentError(f"n must be at least 1, got {n!r}.")
        if n > 1 and temperature == 0:
            raise InvalidArgumentError(
                f"n={n} at temperature 0 would be the same opinion {n} times. Give the judge a temperature, as 0.7."
            )
        named = {key: text if isinstance(text, Criterion) else Criterion(text) for key, text in criteria.items()}
        self.rubric = Rubric(named, tuple(scale), against is not None, tuple(shots), instructions)  # type: ignore[arg-type]
        self.reference = reference
        self.against = against
        self.n = n
        self.seed = seed
        self.name = name
        self.max_new_tokens = max_new_tokens
        self.spent = Spent()
        self._request = Request.chat(
            "", max_new_tokens=max_new_tokens, temperature=temperature, repeat=0, schema=self.rubric.schema()
        )
        self._loop = LoopThread()
        self._lock = Lock()
        self.ask(llm, cache)

    def ask(self, llm: Any, cache: AnswerCache | None = None) -> None:
        """Let this LLM, or these, judge from here on."""
        self.llms = tuple(llm) if isinstance(llm, list | tuple) else (llm,)
        if not self.llms:
            raise InvalidArgumentError("A judge needs at least one LLM, got none.")
        for each in self.llms:
            if not callable(getattr(each, "complete", None)) and not _is_async(each):
                raise InvalidArgumentError(
                    f"A judge's LLM needs complete(requests) or an async acomplete(request), got {type(each).__name__}."
                )
        self.answers = self.llms if cache is None else tuple(CachedLLM(each, cache) for each in self.llms)

    def of_pairs(self, column: str) -> "Judge":
        """The same judge by the same criteria, but of pairs: it compares with the answer in a column."""
        judge = copy.copy(self)
        judge.rubric, judge.against = replace(self.rubric, pairwise=True), column
        judge._request = replace(self._request, schema=judge.rubric.schema())
        return judge

    @property
    def range(self) -> tuple[float, float]:
        return self.rubric.range

    def __call__(self, completion: Completion, example: Example, /) -> Judgement:
        return or_raise(self.score_all([(completion, example, 0, None)])[0])

    def score_all(self, answered: Sequence[Answered], /) -> list[Judgement | Exception]:
        """Scores in the order of the answers, all asked for at once; what fails yields its exception in its place."""
        asked = [self.requests(*each[:3]) for each in answered]
        flat = [request for requests in asked if not isinstance(requests, Exception) for request in requests]
        replies = [iter(self.complete(llm, flat) if flat else []) for llm in self.answers]
        return [self._judgement(requests, replies) for requests in asked]

    async def ascore(
        self, completion: Completion, example: Example, repeat: int = 0, candidate: Asked | None = None, /
    ) -> Judgement:
        requests = or_raise(self.requests(completion, example, repeat))
        replies = await asyncio.gather(*(self.acomplete(llm, requests) for llm in self.answers))
        return or_raise(self._judgement(requests, [iter(each) for each in replies]))

    def requests(self, completion: Completion, example: Example, repeat: int) -> list[Request] | Exception:
        """The requests to each LLM about an answer: `n` opinions, each in both orders for a pair.

        An EvaluatorError is returned where the example lacks the reference, or the answer to compare with.
        """
        try:
            orders = [self._answers(completion.text, example)]
            # By itself an example has a reference or not; asked for one, it must have it.
            shown = example.reference is not None if self.reference is None else self.reference
            references = example.references if shown else ()
        except EvaluatorError as error:
            return error
        if self.rubric.pairwise:
            orders.append(orders[0][::-1])
        chats = [self.rubric.messages(example.input, references, answers) for answers in orders]
        found = []
        for number in range(repeat * self.n, (repeat + 1) * self.n):
            seed = random.Random(f"judge {self.seed} {number}").getrandbits(31)
            found += [replace(self._request, messages=chat, repeat=number, seed=seed) for chat in chats]
        return found

    def _answers(self, text: str, example: Example) -> tuple[str, ...]:
        if self.against is None:
            return (text,)
        other = self.against(example) if callable(self.against) else example.fields.get(self.against)
        if not isinstance(other, str):
            where = "against=" if callable(self.against) else f"the column {self.against!r}"
            name = example.id or example.input[:40]
            raise EvaluatorError(f"example {name!r} has no answer to compare with: {where} gave {short(other)}")
        return text, other

    def complete(self, llm: Any, requests: Sequence[Request]) -> Sequence[Completion | Exception]:
        if callable(getattr(_inner(llm, requests), "complete", None)):
            answers: Sequence[Completion | Exception] = llm.complete(requests)
            if len(answers) != len(requests):
                raise EvaluatorError(f"a judge was sent {len(requests)} requests and returned {len(answers)} answers")
            return answers
        return self._loop.submit(self.acomplete(llm, requests)).result()

    async def acomplete(self, llm: Any, requests: Sequence[Request]) -> Sequence[Completion | Exception]:
        if not _is_async(_inner(llm, requests)):
            return await asyncio.to_thread(self.complete, llm, requests)
        return await all_of(map(llm.acomplete, requests))

    def _judgement(
        self, requests: Sequence[Request] | Exception, replies: Sequence[Iterator[Completion | Exception]]
    ) -> Judgement | Exception:
        if isinstance(requests, Exception):
            return requests
        given = [[next(each) for _ in requests] for each in replies]
        flat = [reply for each in given for reply in each]
        spent = self._count(flat)
        try:
            read = [self._read(reply) for reply in flat]
        except JudgementError as error:
            error.cost = spent.cost
            return error
        orders = 2 if self.rubric.pairwise else 1
        opinions, grades, by_order = [], [], []
        swayed = 0
        for first in range(0, len(read), orders):
            both = [read[first][0]]
            if orders == 2:  # where the other answer came first, the verdict is about that one
                both.append({name: 1.0 - grade for name, grade in read[first + 1][0].items()})
                swayed += both[0] != both[1]
            grades += both
            by_order.append([self.rubric.total(each) for each in both])
            opinions.append(statistics.fmean(by_order[-1]))
        details: dict[str, Any] = {
            "opinions": opinions,
            "spread": statistics.stdev(opinions) if len(opinions) > 1 else None,
            "grades": {name: statistics.fmean(each[name] for each in grades) for name in self.rubric.criteria},
            "reasons": [reason for _, reason in read],
            "prompt_tokens": spent.prompt_tokens,
            "completion_tokens": spent.completion_tokens,
            "cost": spent.cost,
            **({"by_order": by_order, "swayed_by_order": swayed} if orders == 2 else {}),
        }
        return Judgement(statistics.fmean(opinions), details, spent.cost)

    def _read(self, reply: Completion | Exception) -> tuple[dict[str, float], str]:
        if isinstance(reply, Exception):
            raise JudgementError(f"the judge {self.name!r} gave no answer: {reply}") from reply
        try:
            if reply.finish_reason == "length":
                raise ValueError(f"it was cut after {self._request.max_new_tokens} tokens; raise max_new_tokens")
            return self.rubric.read(reply.text)
        except ValueError as error:
            shown = reply.text if len(reply.text) <= _MOST_SHOWN else f"{reply.text[:_MOST_SHOWN]}..."
            raise JudgementError(
                f"what the judge {self.name!r} said is no judgement, since {error}: {shown!r}", reply=reply.text
            ) from None

    def _count(self, replies: Sequence[Completion | Exception]) -> Spent:
        fresh = [reply for reply in replies if isinstance(reply, Completion) and not reply.from_cache]
        failed = [float(getattr(reply, "cost", 0.0)) for reply in replies if isinstance(reply, Exception)]
        took = Spent(
            requests=sum(isinstance(reply, Completion) for reply in replies),
            from_cache=sum(isinstance(reply, Completion) and reply.from_cache for reply in replies),
            prompt_tokens=sum(reply.prompt_tokens for reply in fresh),
            completion_tokens=sum(reply.completion_tokens for reply in fresh),
            cost=math.fsum([*failed, *(reply.cost for reply in fresh)]),
        )
        with self._lock:
            self.spent = Spent(*(getattr(self.spent, name) + getattr(took, name) for name in Spent.__match_args__))
        return took

    def __repr__(self) -> str:
        return f"Judge({list(self.llms)!r}, {list(self.rubric.criteria)!r})"


def _inner(llm: Any, requests: Sequence[Request]) -> Any:
    """Who answers in the end, the first request at least."""
    while isinstance(llm, CachedLLM | AnsweredOnce):
        llm = llm.llm
    return llm_of(llm, requests[0]) if requests else llm


def _is_async(llm: Any) -> bool:
    return inspect.iscoroutinefunction(getattr(llm, "acomplete", None))
