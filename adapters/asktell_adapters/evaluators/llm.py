"""Evaluators for `asktell.run`: a prompt and an example's index in, an LLM's scores by metric name out."""

import asyncio
import logging
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from asktell import EvaluatorError, InvalidArgumentError, Result
from asktell.extend import in_words
from asktell_adapters._once import AnsweredOnce
from asktell_adapters._scores import checked_example
from asktell_adapters.cache import AnswerCache, CachedLLM, answer_key
from asktell_adapters.llms.base import (
    LLM,
    AsyncLLM,
    Completion,
    Example,
    Metric,
    Request,
)
from asktell_adapters.metrics.judge import Answered, Judgement
from asktell_adapters.prompts import TEMPLATE, Framing, Template, check_fields

Judged = dict[str, Any]
"""By name, what metrics that are asked for many answers at once gave for one: a number, or why there is none."""

_LLM = TypeVar("_LLM")
_log = logging.getLogger("asktell")


class TrialLike(Protocol):
    """The attributes of a trial that evaluators use."""

    @property
    def prompt(self) -> str:
        """The prompt's text."""
        ...

    @property
    def example(self) -> int | None:
        """The index of the example."""
        ...


class _Scoring(Generic[_LLM]):
    """Shared by the evaluators: examples, metrics, and the conversion of trials to requests."""

    def __init__(
        self,
        llm: _LLM,
        examples: Sequence[Example],
        metrics: Mapping[str, Metric] | Sequence[Metric],
        *,
        system: str | None = None,
        template: Template = TEMPLATE,
        max_new_tokens: int = 512,
        with_cost: bool = False,
        temperature: float = 0.0,
        seed: int = 0,
        cache: AnswerCache | None = None,
        fields: bool | None = None,
        keep_answers: bool = False,
    ) -> None:
        self.llm = llm
        self.keep_answers = keep_answers
        self.answers: Any = llm if cache is None else CachedLLM(llm, cache)
        if not examples:
            raise InvalidArgumentError("An evaluator needs at least one example, got none.")
        self.examples = tuple(examples)
        self.metrics = _named(metrics)
        if with_cost and "cost" in self.metrics:
            raise InvalidArgumentError("with_cost=True adds a score 'cost', but a metric has that name already.")
        self.framing = Framing(system, template, fields)
        self.max_new_tokens = max_new_tokens
        self.with_cost = with_cost
        self.temperature = temperature
        self.seed = seed
        self._repeats_alike = temperature == 0
        self.baseline: str | None = None
        self.request(" ", 0)  # A template that names a missing column fails here rather than in every trial.

    @property
    def repeatable(self) -> bool:
        """True if repeated evaluations should give the same scores.

        That holds at temperature 0, unless a metric declares `repeatable = False`, as judges and latency do.
        """
        return self.temperature == 0 and all(getattr(metric, "repeatable", True) for metric in self.metrics.values())

    def example(self, example: int | Example | None) -> Example:
        """The example that an index stands for; an Example stands for itself.

        Raises:
            InvalidArgumentError: no index, or one outside `range(len(examples))`.
        """
        if isinstance(example, Example):
            return example
        return self.examples[checked_example(example, len(self.examples))]

    def request(self, prompt: str, example: int | Example | None, repeat: int = 0) -> Request:
        """The request for a prompt and an example.

        Above temperature 0 the sampling seed follows from the evaluator's, the example and the number of the repeat: an
        evaluation is repeatable, and no two of the same prompt and example are of one seed.
        """
        if repeat and self._repeats_alike:
            self._repeats_alike = False
            _log.warning(
                "The same prompt is asked on the same example again, at temperature 0: it will answer the same. Give "
                "the evaluator a temperature, or leave out repeats, unless a metric (a judge) is what differs."
            )
        chat = self.framing.chat(prompt, self.example(example))
        request = Request(chat.messages, self.max_new_tokens, self.temperature, repeat=repeat, tools=chat.tools)
        if not self.temperature:
            return request
        row = example if isinstance(example, int) else 0
        return replace(request, seed=random.Random(f"answer {self.seed} {row} {repeat}").getrandbits(31))

    def check_prompts(self, prompts: Sequence[str] | Mapping[str, str]) -> None:
        """Check that every field of these prompts is a column of every example; `asktell.run` calls this first.

        Raises:
            InvalidArgumentError: one is not.
        """
        check_fields(prompts, self.examples, self.framing.fields)

    def begin(self, result: Callable[[], Result]) -> None:
        """Let the metrics that need it (`Preference`) prepare for a selection; `asktell.run` calls this first.

        Args:
            result: gives the selection's result so far: its prompts, and which is the baseline.

        Raises:
            InvalidArgumentError: the selection lacks what a metric needs.
            EvaluatorError: what a metric needs could not be had.
        """
        metrics = [metric for metric in self.metrics.values() if hasattr(metric, "begin")]
        if not metrics:
            return
        found = result()
        prompts = {entry.id: entry.prompt for entry in found.prompts}
        self.baseline = None if found.baseline is None else prompts[found.baseline]
        if self.baseline is not None:
            asked = (self.request(self.baseline, row) for row in range(len(self.examples)))
            keys = {answer_key({}, request) for request in asked}
            known = self.answers if isinstance(self.answers, AnsweredOnce) else None
            if known is None or known.keys != keys:
                self.answers = AnsweredOnce(self.answers if known is None else known.llm, keys)
        for metric in metrics:
            metric.begin(self, prompts)

    def remarks(self) -> dict[str, tuple[str, bool]]:
        """What metrics have to say of a result, by name; and whether that leaves no certainty."""
        found = {name: getattr(metric, "remarks", None) for name, metric in self.metrics.items()}
        return {name: remarks() for name, remarks in found.items() if callable(remarks)}

    def scores(
        self,
        completion: Completion,
        example: int | Example | None,
        repeat: int = 0,
        judged: Judged | None = None,
        *,
        prompt: str | None = None,
    ) -> dict[str, float]:
        """Every metric's value, by name.

        Args:
            completion: the answer.
            example: that it answers.
            repeat: of the evaluation, which judges number their opinions by.
            judged: values of judges that were asked before; by default they are asked now.
            prompt: that was answered, for metrics that compare with the baseline.

        Raises:
            EvaluatorError: a metric raised, or returned something that is not a number. Its `cost` says what the
                evaluation took, where that is known.
        """
        row = self.example(example)
        if judged is None:
            (judged,) = self.judged([(completion, row, repeat, prompt)])
        opinions = math.fsum(getattr(value, "cost", 0.0) for value in judged.values())
        answer = 0.0 if completion.from_cache else completion.cost
        scores: dict[str, float] = {}
        if completion.from_cache or judged or self.keep_answers:
            kept = completion.text if self.keep_answers else None
            scores = AnswerScores(completion.from_cache, judged, answer + opinions if opinions else None, kept)
        for name, metric in self.metrics.items():
            try:
                value = judged[name] if name in judged else metric(completion, row)
                if isinstance(value, BaseException):
                    raise value
                scores[name] = float(value)
            except (Exception, SystemExit, asyncio.CancelledError) as error:
                failure: BaseException = error
                if not isinstance(error, EvaluatorError):
                    failure = EvaluatorError(f"metric {name!r} failed: {in_words(error)}")
                    failure.__cause__ = error
                if answer + opinions:
                    failure.cost = answer + opinions  # type: ignore[attr-defined]
                raise failure  # noqa: B904 - its cause is set
        if self.with_cost:
            scores["cost"] = completion.cost
        return scores

    def judged(self, answered: Sequence[Answered]) -> list[Judged]:
        """The values of the metrics that take many answers at once (`score_all`), for each answer by name."""
        found: list[Judged] = [{} for _ in answered]
        for name, metric in self.metrics.items():
            if answered and callable(score_all := getattr(metric, "score_all", None)):
                for values, value in zip(found, score_all(answered), strict=True):
                    values[name] = value
        return found


class AnswerScores(dict[str, float]):
    """Scores with what is to be kept beside them, and with what they cost now.

    Attributes:
        details: the answer if it is kept, whether it came from a cache, and what judges say of their scores.
        paid: money, judges included; None where `cost`, if there is one, is all.
    """

    def __init__(self, cached: bool, judged: Judged, paid: float | None, output: str | None = None) -> None:
        super().__init__()
        opinions = {name: dict(value.details) for name, value in judged.items() if isinstance(value, Judgement)}
        self.details: dict[str, Any] = {
            **({} if output is None else {"output": output}),
            **({"cached": True} if cached else {}),
            **({"judged": opinions} if opinions else {}),
        }
        self.paid = 0.0 if cached and paid is None else paid


class LLMEvaluator(_Scoring[LLM]):
    """Scores prompts with a synchronous LLM: one at a time by calling it, many by `evaluate_batch`.

    Args:
        llm: the LLM.
        examples: the data set; a trial's example is an index into it.
        metrics: name -> metric, or a sequence of metrics named by their `name` or `__name__`.
        system: the system turn; None for none.
        template: the user turn of a plain prompt: a text with `{prompt}`, `{input}` and columns in braces, or a
            function of (prompt, example). `system` may have the place `{prompt}` instead.
        max_new_tokens: answers are cut after so many tokens.
        with_cost: add the completion's cost to the scores, as "cost".
        temperature: of the LLM's answers; 0 is greedy decoding. Above 0 scores are noisy: see `Selector`'s `repeats`.
        seed: of answers above temperature 0, where the LLM allows for one.
        cache: answers on disk, which are not asked for again. Their scores are the same, cost and latency too, which
            are those of the first time; but a budget in cost is not charged.
        fields: whether names in braces in a prompt stand for columns: True, False, or None for in chats only. See
            `asktell_adapters.prompts`.
        keep_answers: keep the LLM's answers in a study, beside the scores: `details["output"]`.

    Raises:
        InvalidArgumentError: no examples, no metrics, two of one name, or a template that does not fit the examples.
    """

    def __call__(self, prompt: str, example: int | Example | None, repeat: int = 0) -> dict[str, float]:
        """Scores of one prompt on one example; raises what the LLM or a metric raised."""
        (answer,) = self.answers.complete([self.request(prompt, example, repeat)])
        if isinstance(answer, Exception):
            raise answer
        return self.scores(answer, example, repeat, prompt=prompt)

    def evaluate_batch(
        self, trials: Sequence[TrialLike], repeats: Sequence[int] = ()
    ) -> list[dict[str, float] | Exception]:
        """Scores in the order of the trials; a trial that fails yields its exception in its place."""
        results: list[dict[str, float] | Exception | None] = [None] * len(trials)
        requests: list[tuple[int, Request]] = []
        for position in _grouped_by_prompt(trials):
            try:
                trial, repeat = trials[position], repeats[position] if repeats else 0
                requests.append((position, self.request(trial.prompt, trial.example, repeat)))
            except Exception as error:
                results[position] = error
        answers = self.answers.complete([request for _, request in requests]) if requests else []
        if len(answers) != len(requests):
            raise EvaluatorError(f"the LLM was sent {len(requests)} requests and returned {len(answers)} answers")
        answered: dict[int, Answered] = {}
        for (position, request), answer in zip(requests, answers, strict=True):
            if isinstance(answer, Exception):
                results[position] = answer
            else:
                trial = trials[position]
                answered[position] = (answer, self.example(trial.example), request.repeat or 0, trial.prompt)
        for (position, each), judged in zip(answered.items(), self.judged([*answered.values()]), strict=True):
            try:
                results[position] = self.scores(*each[:3], judged)
            except Exception as error:
                results[position] = error
        return [result for result in results if result is not None]


class AsyncLLMEvaluator(_Scoring[AsyncLLM]):
    """Scores prompts with an LLM that many tasks call at once; the arguments are those of LLMEvaluator."""

    async def __call__(self, prompt: str, example: int | Example | None, repeat: int = 0) -> dict[str, float]:
        """Scores of one prompt on one example; raises what the LLM or a metric raised."""
        answer = await self.answers.acomplete(self.request(prompt, example, repeat))
        return await self.ascores(answer, example, repeat, prompt=prompt)

    async def ascores(
        self,
        completion: Completion,
        example: int | Example | None,
        repeat: int = 0,
        *,
        prompt: str | None = None,
    ) -> dict[str, float]:
        """The same as `scores`; judges are asked without blocking."""
        judges = {name: metric for name, metric in self.metrics.items() if hasattr(metric, "ascore")}
        opinions = (judge.ascore(completion, self.example(example), repeat, prompt) for judge in judges.values())
        values = await asyncio.gather(*opinions, return_exceptions=True)
        return self.scores(completion, example, repeat, dict(zip(judges, values, strict=True)))


def _named(metrics: Mapping[str, Metric] | Sequence[Metric]) -> dict[str, Metric]:
    if isinstance(metrics, Mapping):
        named = dict(metrics)
    else:
        names = [str(getattr(metric, "name", None) or getattr(metric, "__name__", "")) for metric in metrics]
        if not all(names) or len(set(names)) < len(names):
            raise InvalidArgumentError(f"Metrics in a sequence need distinct names, got {names}; pass name -> metric.")
        named = dict(zip(names, metrics, strict=True))
    if not named:
        raise InvalidArgumentError("An evaluator needs at least one metric, got none.")
    for name, metric in named.items():
        if not callable(metric):
            raise InvalidArgumentError(f"Metric {name!r} must be callable, got {type(metric).__name__}.")
    return named


def _grouped_by_prompt(trials: Sequence[TrialLike]) -> list[int]:
    """Positions with equal prompts side by side, in order of first appearance: what a prefix cache wants."""
    first: dict[str, int] = {}
    for position, trial in enumerate(trials):
        first.setdefault(trial.prompt, position)
    return sorted(range(len(trials)), key=lambda position: first[trials[position].prompt])
