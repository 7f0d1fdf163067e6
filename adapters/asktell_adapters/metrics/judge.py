"""An LLM as a judge of responses by a rubric. It grades one response, or compares two of them in both orders."""

import asyncio
import copy
import inspect
import math
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import short
from asktell_adapters._util.loop import Lock, LoopThread
from asktell_adapters._util.scores import or_raise
from asktell_adapters.llms.base import Asked, Completion, Example, Request, all_of
from asktell_adapters.llms.cache import AnswerCache, AnsweredOnce, CachedLLM
from asktell_adapters.llms.models import llm_of
from asktell_adapters.metrics.licence import Licence, Licensing, digest
from asktell_adapters.metrics.rubric import Criterion, Rubric, Shot

Against = str | Callable[[Example], str]
"""The response to compare with: a column of the example's `fields`, or a function of the example."""

Answered = tuple[Completion, Example, int, Asked | None]
"""A response, its example, the number of the repeat, and its prompt or candidate, which is None if it is unknown."""

_MOST_SHOWN = 500  # characters of a judge's reply in an error message


class Judgement(float):
    """The score of a response by a `Judge` or a `Preference`: a float with two attributes.

    The attribute `details` has these keys, if a judge was asked:

    - `opinions`: list of the scores of all opinions, `n` of each LLM.
    - `spread`: standard deviation of these scores, or None if there is only one.
    - `grades`: criterion -> mean grade.
    - `reasons`: list of the reasons in the LLMs' replies.
    - `prompt_tokens`, `completion_tokens`: numbers of tokens that the LLMs read and
      wrote, without replies from a cache.
    - `cost`: money that the replies cost, without replies from a cache.
    - `price`: money that all replies cost when they were made, also those from a cache.
    - `by_order`: in comparisons, the two scores of each opinion, one for each order of
      the responses.
    - `swayed_by_order`: in comparisons, the number of opinions that changed with the
      order of the responses.

    If a `Preference` is a tie because the two responses are equal, `details` is
    `{"same": True}`.

    Attributes:
        details: JSON data about the score.
        cost: money that was paid for the score, in the currency of the judge's price.
            Replies from a cache cost 0.
    """

    details: Mapping[str, Any]
    cost: float

    def __new__(
        cls, score: float, details: Mapping[str, Any], cost: float = 0.0
    ) -> "Judgement":
        judgement = super().__new__(cls, score)
        judgement.details, judgement.cost = details, cost
        return judgement

    def __getnewargs__(self) -> tuple[float, Mapping[str, Any], float]:  # type: ignore[override]
        return float(self), self.details, self.cost


class JudgementError(EvaluatorError):
    """A judge gave no reply, or its reply cannot be read.

    Attributes:
        cost: money that the requests to the judge cost.
        details: `{"reply": TEXT}` with the reply that cannot be read, or an empty
            mapping if there is no reply.
    """

    def __init__(
        self, message: str, *, reply: str | None = None, cost: float = 0.0
    ) -> None:
        super().__init__(message)
        self.cost = cost
        self.details = {} if reply is None else {"reply": reply}


@final
@dataclass(frozen=True)
class Spent:
    """Requests, tokens and money that a judge has used so far.

    The tokens and the money for the responses that it judged are not included.

    Attributes:
        requests: number of requests with a reply, from an LLM or from a cache.
        from_cache: number of these replies that came from a cache. Their tokens and cost
            are not included in the other attributes.
        prompt_tokens: number of tokens that the judge's LLMs read.
        completion_tokens: number of tokens that they wrote.
        cost: money that all requests cost, failed requests included, in the currency of
            the judge's price.
    """

    requests: int = 0
    from_cache: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0


@final
class Judge:
    """A metric that scores responses by the opinions of an LLM, or of several LLMs. Larger is better.

    ```python
    judge = Judge(
        OpenAIChat("gpt-4o"),
        {"correct": "The answer agrees with the reference.", "polite": Criterion("The tone is friendly.", weight=0.5)},
        scale=(1, 5),
    )
    evaluator = LLMEvaluator(llm, examples, {"quality": judge})
    ```

    **Grades.** In an *opinion*, an LLM grades the response on the scale, once for each
    criterion. The score of an opinion is the weighted mean of its grades. The score of
    the response is the mean of all opinions, so it is on the scale, too.

    **Comparisons.** With `against`, the judge compares the response with another
    response instead of grading it. For each opinion, the LLM is asked twice, because
    LLMs favor a position: once with the response first, and once with the response
    second. The score is then from 0 to 1:

    - 1: the response is better by every criterion in both orders.
    - 0: the other response is better by every criterion in both orders.
    - 0.5: the responses are even.

    The judge reads the example's input, its references and the response, but not the
    prompt. The score is a `Judgement`, which also has the reasons.

    Args:
        llm: an LLM with a method `complete` or `acomplete`, or a list of several LLMs.
        criteria: name -> description of a good response: a text, or a text with a weight
            (`Criterion`, in a configuration file a table `{ text = "...", weight = 2 }`).
        scale: the worst and the best grade, whole numbers.
        reference: whether to show the judge the example's references (default: true if
            there are any).
        against: compare the response with this response instead of grading it. It is a
            column of the data (a key of the example's `fields`) or, not in a
            configuration file, a function of the example.
        shots: responses with their grades (`Shot`), which show the judge how to grade.
        n: number of opinions of each LLM on each response. More than 1 needs a
            temperature above 0, because the opinions would otherwise be the same.
        temperature: sampling temperature of the judge's LLMs. At 0, an LLM should give
            the same opinion whenever it is asked.
        seed: seed of sampling above temperature 0. Each opinion and each repeat gets its
            own seed from it.
        max_new_tokens: largest number of tokens in a reply. A longer reply is cut, and the
            evaluation fails.
        cache: a store of replies on disk. A reply in it is not requested again.
        instructions: the judge's system message (default: `POINTWISE` or, with
            `against`, `PAIRWISE` from `asktell_adapters.metrics`). `{criteria}` and
            `{format}` (how to write the grades) are filled in, and without `against`
            also `{low}` and `{high}`, the ends of the scale.
        name: the metric's name in a sequence of metrics.

    Raises:
        InvalidArgumentError: an argument is invalid.
    """

    repeatable = False
    """False, because a judge may score a response differently when it is asked again, even at temperature 0."""

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
                f"n={n} at temperature 0 gives the same opinion {n} times. Pass a temperature, for example 0.7."
            )
        named = {
            key: text if isinstance(text, Criterion) else Criterion(text)
            for key, text in criteria.items()
        }
        # `Rubric` checks the number of ends.
        self.rubric = Rubric(
            named,
            tuple(scale),  # type: ignore[arg-type]
            against is not None,
            tuple(shots),
            instructions,
        )
        self.reference = reference
        self.against = against
        self.n = n
        self.seed = seed
        self.name = name
        self.max_new_tokens = max_new_tokens
        self.spent = Spent()
        self.licensing: Licensing | None = None
        self._request = Request.chat(
            "",
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            repeat=0,
            schema=self.rubric.schema(),
        )
        self._loop = LoopThread()
        self._lock = Lock()
        self.ask(llm, cache)

    def ask(self, llm: Any, cache: AnswerCache | None = None) -> None:
        """Use this LLM, or these LLMs, from now on.

        Args:
            llm: an LLM, or a list of several LLMs.
            cache: a store of replies on disk, or None for no cache. A reply that cannot
                be read is not stored, so it is requested again.

        Raises:
            InvalidArgumentError: an LLM has neither `complete` nor an async
                `acomplete`, or there is no LLM.
        """
        self.llms = tuple(llm) if isinstance(llm, list | tuple) else (llm,)
        if not self.llms:
            raise InvalidArgumentError("A judge needs at least one LLM, got none.")
        for model in self.llms:
            if not callable(getattr(model, "complete", None)) and not _is_async(model):
                raise InvalidArgumentError(
                    f"A judge's LLM needs complete(requests) or an async acomplete(request), got "
                    f"{type(model).__name__}."
                )
        self._cache = cache
        self.answers = (
            self.llms
            if cache is None
            else tuple(CachedLLM(model, cache, self._is_read) for model in self.llms)
        )

    def of_pairs(self, column: str) -> "Judge":
        """Make a copy of the judge that compares two responses by the same criteria.

        Args:
            column: the key of the example's `fields` with the response to compare with.
        """
        judge = copy.copy(self)
        judge.rubric, judge.against = replace(self.rubric, pairwise=True), column
        judge._request = replace(self._request, schema=judge.rubric.schema())
        judge.ask(self.llms, self._cache)  # Which replies can be read has changed
        return judge

    def licensed(
        self, licence: Licence | str | Path | None, floor: float | None = None
    ) -> "Judge":
        """Make a copy of the judge whose scores establish something only with a licence.

        The result of a run then has a note on the licence. If there is no licence, if
        it is for another rubric, model or settings, or if the lower bound of its
        agreement is below the floor, the note says so, the result has no probabilities,
        and a gate is undecided.

        Args:
            licence: the licence, or the path of its file, as `asktell judge` writes it.
                If there is no such file, the judge has no licence.
            floor: lowest lower bound of the agreement with people, from 0 to 1. None
                for no floor.

        Raises:
            InvalidArgumentError: the file is no licence or damaged, or the floor is not
                a number from 0 to 1.
        """
        judge = copy.copy(self)
        judge.licensing = (
            Licensing(licence, floor)
            if isinstance(licence, Licence)
            else Licensing.of_file(licence, floor)
        )
        return judge

    @property
    def digests(self) -> dict[str, str]:
        """Digests of the rubric, the model and the settings, by which a licence names the judge.

        Raises:
            InvalidArgumentError: an LLM has no method `identity`, or is not named by it.
        """
        rubric, request = self.rubric, self._request
        weights = [criterion.weight for criterion in rubric.criteria.values()]
        shown = [dict(message) for message in rubric.messages("", (), ("",))[:-1]]
        return {
            "rubric": digest([shown, weights, rubric.schema()]),
            "model": digest([_identity(llm) for llm in self.llms]),
            "settings": digest(
                [self.n, request.temperature, self.max_new_tokens, self.reference]
            ),
        }

    def remarks(self) -> tuple[str, bool]:
        """The remark about the scores in a result: the licence, if one is demanded. Otherwise an empty text.

        Returns:
            The remark, and True if no licence covers the judge. Then nothing in the
            result is established.
        """
        if self.licensing is None:
            return "", False
        return self.licensing.remark(self.name, self.digests)

    @property
    def range(self) -> tuple[float, float]:
        """The worst and the best possible score: the ends of the scale or, with `against`, 0 and 1."""
        return self.rubric.range

    def __call__(self, completion: Completion, example: Example, /) -> Judgement:
        """Score one response.

        Raises:
            JudgementError: a judge's reply is missing or cannot be read.
        """
        return or_raise(self.score_all([(completion, example, 0, None)])[0])

    def score_all(self, answered: Sequence[Answered], /) -> list[Judgement | Exception]:
        """Score many responses at once, in one call of each LLM.

        Args:
            answered: for each response, a tuple of four items: the response, its
                example, the number of the repeat, and the prompt or candidate, which is
                not used.

        Returns:
            For each response, in order, its score, or the exception if it failed.
        """
        asked = [self.requests(*row[:3]) for row in answered]
        # All responses are judged in one call per LLM, which can batch them.
        flat: list[Request] = []
        for requests in asked:
            if not isinstance(requests, Exception):
                flat.extend(requests)
        replies = [
            iter(self.complete(llm, flat) if flat else []) for llm in self.answers
        ]
        return [self._judgement(requests, replies) for requests in asked]

    async def ascore(
        self,
        completion: Completion,
        example: Example,
        repeat: int = 0,
        candidate: Asked | None = None,
        /,
    ) -> Judgement:
        """Score one response without blocking the event loop.

        Args:
            completion: the response.
            example: its example.
            repeat: number of the repeat, from 0. The judge is asked anew for each repeat.
            candidate: the prompt or candidate of the response, which is not used.

        Raises:
            JudgementError: an LLM gave no reply, or its reply cannot be read.
            EvaluatorError: the example has no reference although `reference` is True,
                or has no response to compare with.
        """
        requests = or_raise(self.requests(completion, example, repeat))
        replies = await asyncio.gather(
            *(self.acomplete(llm, requests) for llm in self.answers)
        )
        return or_raise(self._judgement(requests, [iter(reply) for reply in replies]))

    def requests(
        self, completion: Completion, example: Example, repeat: int
    ) -> list[Request] | Exception:
        """The requests about a response, which each LLM gets: one for each of `n` opinions.

        With `against`, there are two for each opinion, with the responses in both
        orders.

        Args:
            completion: the response.
            example: its example.
            repeat: number of the repeat, from 0.

        Returns:
            The requests, or an EvaluatorError. It is returned, not raised, if the
            example has no reference although `reference` is True, or has no response to
            compare with.
        """
        try:
            orders = [self._answers(completion.text, example)]
            # With reference=None an example may have a reference or not. With True it
            # must have one.
            shown = (
                example.reference is not None
                if self.reference is None
                else self.reference
            )
            references = example.references if shown else ()
        except EvaluatorError as error:
            return error
        if self.rubric.pairwise:
            # LLMs favor a position. Asking in both orders cancels that, and shows how
            # much it matters.
            orders.append(orders[0][::-1])
        chats = [
            self.rubric.messages(example.input, references, answers)
            for answers in orders
        ]
        requests = []
        for number in range(repeat * self.n, (repeat + 1) * self.n):
            # Opinions have different seeds, but the two orders of an opinion have the
            # same, so that only the order differs.
            seed = random.Random(f"judge {self.seed} {number}").getrandbits(31)
            requests += [
                replace(self._request, messages=chat, repeat=number, seed=seed)
                for chat in chats
            ]
        return requests

    def _answers(self, text: str, example: Example) -> tuple[str, ...]:
        """The responses to judge: one, or for a comparison this response and the other.

        Raises:
            EvaluatorError: the example has no response to compare with.
        """
        if self.against is None:
            return (text,)
        rival = (
            self.against(example)
            if callable(self.against)
            else example.fields.get(self.against)
        )
        if not isinstance(rival, str):
            where = (
                "the function against"
                if callable(self.against)
                else f"the column {self.against!r}"
            )
            name = example.id or example.input[:40]
            raise EvaluatorError(
                f"example {name!r} has no response to compare with, because {where} gave {short(rival)}"
            )
        return text, rival

    def complete(
        self, llm: Any, requests: Sequence[Request]
    ) -> Sequence[Completion | Exception]:
        """Send requests to an LLM, which may be async, and wait for its replies.

        Args:
            llm: the LLM.
            requests: the requests.

        Returns:
            For each request, in order, its reply, or the exception if it failed.

        Raises:
            EvaluatorError: the LLM returned too few or too many replies.
        """
        if callable(getattr(_inner(llm, requests), "complete", None)):
            answers: Sequence[Completion | Exception] = llm.complete(requests)
            if len(answers) != len(requests):
                raise EvaluatorError(
                    "complete() of a judge's LLM must return one response per request. The number of requests was "
                    f"{len(requests):,}, and the number of responses was {len(answers):,}"
                )
            return answers
        return self._loop.submit(self.acomplete(llm, requests)).result()

    async def acomplete(
        self, llm: Any, requests: Sequence[Request]
    ) -> Sequence[Completion | Exception]:
        """Send requests to an LLM, which may be synchronous, without blocking the event loop.

        Args:
            llm: the LLM.
            requests: the requests.

        Returns:
            For each request, in order, its reply, or the exception if it failed.
        """
        if not _is_async(_inner(llm, requests)):
            return await asyncio.to_thread(self.complete, llm, requests)
        return await all_of(map(llm.acomplete, requests))

    def _judgement(
        self,
        requests: Sequence[Request] | Exception,
        replies: Sequence[Iterator[Completion | Exception]],
    ) -> Judgement | Exception:
        """Read the judgement of one response.

        Args:
            requests: the requests about the response, or the error that prevented them.
            replies: the remaining replies of each LLM. As many as there are requests are taken.
        """
        if isinstance(requests, Exception):
            return requests
        flat: list[Completion | Exception] = []
        for of_llm in replies:
            flat.extend(next(of_llm) for _ in requests)
        spent = self._count(flat)
        try:
            read = [self._read(reply) for reply in flat]
        except JudgementError as error:
            # The replies were paid for, even if they cannot be read.
            error.cost = spent.cost
            return error
        opinions, details = self._opinions([grades for grades, _ in read])
        details |= {
            "reasons": [reason for _, reason in read],
            "prompt_tokens": spent.prompt_tokens,
            "completion_tokens": spent.completion_tokens,
            "cost": spent.cost,
            "price": math.fsum(
                reply.cost for reply in flat if isinstance(reply, Completion)
            ),
        }
        return Judgement(statistics.fmean(opinions), details, spent.cost)

    def _opinions(
        self, read: Sequence[dict[str, float]]
    ) -> tuple[list[float], dict[str, Any]]:
        """The score of each opinion, and details about them.

        Args:
            read: the grades of each reply, by criterion. In a comparison, two replies in a row
                are one opinion, in both orders.
        """
        orders = 2 if self.rubric.pairwise else 1
        opinions, grades, by_order = [], [], []
        swayed = 0
        for first in range(0, len(read), orders):
            both = [read[first]]
            # The second reply is about the other response, which came first there
            if orders == 2:
                both.append(
                    {name: 1.0 - grade for name, grade in read[first + 1].items()}
                )
                swayed += both[0] != both[1]
            grades += both
            by_order.append([self.rubric.total(grade) for grade in both])
            opinions.append(statistics.fmean(by_order[-1]))
        details: dict[str, Any] = {
            "opinions": opinions,
            "spread": statistics.stdev(opinions) if len(opinions) > 1 else None,
            "grades": {
                name: statistics.fmean(grade[name] for grade in grades)
                for name in self.rubric.criteria
            },
        }
        if orders == 2:
            details |= {"by_order": by_order, "swayed_by_order": swayed}
        return opinions, details

    def _read(self, reply: Completion | Exception) -> tuple[dict[str, float], str]:
        """The grades and the reason in a reply.

        Raises:
            JudgementError: the LLM failed, or its reply cannot be read.
        """
        if isinstance(reply, Exception):
            raise JudgementError(
                f"the judge {self.name!r} gave no response: {reply}"
            ) from reply
        try:
            return self._grades(reply)
        except ValueError as error:
            shown = (
                reply.text
                if len(reply.text) <= _MOST_SHOWN
                else f"{reply.text[:_MOST_SHOWN]}..."
            )
            raise JudgementError(
                f"the reply of the judge {self.name!r} cannot be read, because {error}: {shown!r}",
                reply=reply.text,
            ) from None

    def _grades(self, reply: Completion) -> tuple[dict[str, float], str]:
        """The grades and the reason in a reply.

        Raises:
            ValueError: the reply cannot be read.
        """
        if reply.finish_reason == "length":
            raise ValueError(
                f"it was cut after {self._request.max_new_tokens} tokens (raise max_new_tokens)"
            )
        return self.rubric.read(reply.text)

    def _is_read(self, reply: Completion) -> bool:
        """Whether a reply can be read."""
        try:
            self._grades(reply)
        except ValueError:
            return False
        return True

    def _count(self, replies: Sequence[Completion | Exception]) -> Spent:
        """Count the requests, tokens and money of replies, and add them to `spent`."""
        fresh = [
            reply
            for reply in replies
            if isinstance(reply, Completion) and not reply.from_cache
        ]
        failed = [
            float(getattr(reply, "cost", 0.0))
            for reply in replies
            if isinstance(reply, Exception)
        ]
        took = Spent(
            requests=sum(isinstance(reply, Completion) for reply in replies),
            from_cache=sum(
                isinstance(reply, Completion) and reply.from_cache for reply in replies
            ),
            prompt_tokens=sum(reply.prompt_tokens for reply in fresh),
            completion_tokens=sum(reply.completion_tokens for reply in fresh),
            cost=math.fsum([*failed, *(reply.cost for reply in fresh)]),
        )
        with self._lock:
            self.spent = Spent(
                *(
                    getattr(self.spent, name) + getattr(took, name)
                    for name in Spent.__match_args__
                )
            )
        return took

    def __repr__(self) -> str:
        return f"Judge({list(self.llms)!r}, {list(self.rubric.criteria)!r})"


def _identity(llm: Any) -> Any:
    """Everything about an LLM that determines its replies, apart from the request.

    Raises:
        InvalidArgumentError: the LLM has no method `identity`.
    """
    if not callable(identity := getattr(llm, "identity", None)):
        raise InvalidArgumentError(
            f"A licence needs to name the judge's LLM, but {type(llm).__name__} has no method identity(). Add the "
            "method. It returns the name of the model and its settings as JSON data, without keys."
        )
    return identity()


def _inner(llm: Any, requests: Sequence[Request]) -> Any:
    """The LLM behind caches, which responds to the first request at least."""
    while isinstance(llm, CachedLLM | AnsweredOnce):
        llm = llm.llm
    return llm_of(llm, requests[0]) if requests else llm


def _is_async(llm: Any) -> bool:
    """Whether an LLM has an async method `acomplete`."""
    return inspect.iscoroutinefunction(getattr(llm, "acomplete", None))
