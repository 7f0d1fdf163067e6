"""Evaluators for `asktell.run`: a prompt and an example's index in, an LLM's scores by metric name out."""

import asyncio
import logging
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, Generic, TypeVar

from asktell import EvaluatorError, InvalidArgumentError, Result, Trial
from asktell.extend import attempt, in_words, nearest, short, some
from asktell_adapters._scores import Scores, checked_example, grouped, if_ready, or_raise
from asktell_adapters.cache import AnswerCache, AnsweredOnce, CachedLLM, answer_key
from asktell_adapters.llms.base import LLM, Asked, AsyncLLM, Completion, Example, Metric, Request
from asktell_adapters.llms.models import Models
from asktell_adapters.metrics.judge import Answered, Judgement
from asktell_adapters.prompts import TEMPLATE, Framing, Template, check_fields, fields_of, values_of

Judged = dict[str, Any]
"""By name, what metrics that are asked for many answers at once gave for one: a number, or why there is none."""

_LLM = TypeVar("_LLM")
_SETTINGS: dict[str, tuple[Any, str]] = {
    "prompt": (str, "a text"),
    "system": (str, "a text"),
    "template": (str, "a text"),
    "temperature": (int | float, "a number"),
    "max_new_tokens": (int, "a whole number"),
}
"""The factors that every evaluator knows: what they may be."""
_log = logging.getLogger("asktell")


def asked_of(trial: Trial) -> Asked:
    """A trial's candidate, or its prompt if it has none."""
    return trial.candidate or trial.prompt


def _plain(asked: Asked | None) -> Any:
    """The same in one form: a candidate that is a prompt alone is its text."""
    return asked["prompt"] if isinstance(asked, Mapping) and set(asked) == {"prompt"} else asked


@dataclass(frozen=True)
class _Sorted:
    """A candidate, its factors sorted by what they determine."""

    prompt: str
    framing: Framing
    temperature: float
    max_new_tokens: int
    client: Mapping[str, Any]
    options: Mapping[str, Any]
    fields: Mapping[str, Any]


class _Scoring(Generic[_LLM]):
    """Shared by the evaluators: examples, metrics, and the conversion of trials to requests."""

    def __init__(
        self,
        llm: _LLM | Mapping[str, _LLM] | Callable[..., _LLM],
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
        one = not isinstance(llm, type) and (hasattr(llm, "complete") or hasattr(llm, "acomplete"))
        self.llm: Any = llm if one else Models(llm)  # type: ignore[arg-type]
        self.keep_answers = keep_answers
        self.answers: Any = self.llm if cache is None else CachedLLM(self.llm, cache)
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
        self._is_sampled = temperature > 0
        self._repeats_alike = True
        self.baseline: Asked | None = None
        self.request(" ", 0)  # A template that names a missing column fails here rather than in every trial.

    @property
    def repeatable(self) -> bool:
        """True if repeated evaluations should give the same scores.

        That holds at temperature 0, of every candidate too, unless a metric declares `repeatable = False`, as judges
        and latency do.
        """
        return not self._is_sampled and all(getattr(metric, "repeatable", True) for metric in self.metrics.values())

    def example(self, example: int | Example | None) -> Example:
        """The example that an index stands for; an Example stands for itself."""
        if isinstance(example, Example):
            return example
        return self.examples[checked_example(example, len(self.examples))]

    def request(self, asked: Asked, example: int | Example | None, repeat: int = 0) -> Request:
        """The request for a prompt, or a candidate, and an example.

        Above temperature 0 the sampling seed follows from the evaluator's, the example and the number of the repeat: an
        evaluation is repeatable, and no two of the same prompt and example are of one seed.
        """
        of = self._sort(asked)
        if repeat and self._repeats_alike and not self._is_sampled:
            self._repeats_alike = False
            _log.warning(
                "The same prompt is asked on the same example again, at temperature 0: it will answer the same. Give "
                "the evaluator a temperature, or leave out repeats, unless a metric (a judge) is what differs."
            )
        given = self.example(example)
        chat = of.framing.chat(of.prompt, replace(given, fields={**given.fields, **of.fields}) if of.fields else given)
        settings: dict[str, Any] = {"repeat": repeat, "tools": chat.tools, "options": of.options, "client": of.client}
        request = Request(chat.messages, of.max_new_tokens, of.temperature, **settings)
        if not of.temperature:
            return request
        row = example if isinstance(example, int) else 0
        return replace(request, seed=random.Random(f"answer {self.seed} {row} {repeat}").getrandbits(31))

    def check_prompts(self, prompts: Sequence[Asked] | Mapping[str, Asked]) -> None:
        """Check all prompts or candidates, and make the LLMs that they need; `asktell.run` calls this first."""
        named = dict(prompts) if isinstance(prompts, Mapping) else {str(i): text for i, text in enumerate(prompts)}
        found = {id_: self._sort(asked) for id_, asked in named.items()}
        added = {name for each in found.values() for name in each.fields}
        if unused := added - {name for each in found.values() for name in self._used(each)}:
            raise InvalidArgumentError(self._unknown(sorted(unused)[0], next(iter(found.values())).client))
        if columns := sorted(added & set(values_of(self.examples[0]))):
            raise InvalidArgumentError(f"{columns[0]!r} is a factor and a column of the data; give one another name.")
        filled = [replace(e, fields={**e.fields, **dict.fromkeys(added, "")}) for e in self.examples if added]
        check_fields({id_: each.prompt for id_, each in found.items()}, filled or self.examples, self.framing.fields)
        self._is_sampled = any(each.temperature > 0 for each in found.values())
        if isinstance(self.llm, Models):
            prices = {str(each.client.get("model")): self.llm.of(each.client) for each in found.values()}
            without = [name for name, llm in prices.items() if getattr(llm, "price", 0) is None]
            if without and self.with_cost:
                raise InvalidArgumentError(
                    f"The cost is a score, but the price of these models is not known: {some(without)}. Give each a "
                    "price, as OpenAIChat(..., price=Price(0.15, 0.6))."
                )

    def _sort(self, asked: Asked) -> _Sorted:
        """What a candidate's factors determine; a factor that is None leaves its setting as it is."""
        given = {"prompt": asked} if isinstance(asked, str) else asked
        factors: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        for name, (kind, words) in _SETTINGS.items():
            value = factors.get(name)
            if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
                raise InvalidArgumentError(f"The factor {name!r} must be {words}, got {short(value)}.")
        takes = self.llm.takes if isinstance(self.llm, Models) else ()
        client = {name: value for name, value in factors.items() if name in takes and name not in _SETTINGS}
        others = {name: value for name, value in factors.items() if name not in {*_SETTINGS, *client}}
        known = self._options(client) if others else ()
        framing = replace(
            self.framing,
            system=factors.get("system", self.framing.system),
            template=factors.get("template", self.framing.template),
        )
        if "prompt" not in factors:
            if framing.template == TEMPLATE:
                framing = replace(framing, template="{input}")
            if "{prompt}" in f"{framing.system} {framing.template}":
                raise InvalidArgumentError("There is the place {prompt}, but the candidates have no factor 'prompt'.")
        return _Sorted(
            factors.get("prompt", ""),
            framing,
            factors.get("temperature", self.temperature),
            factors.get("max_new_tokens", self.max_new_tokens),
            client,
            {name: value for name, value in others.items() if name in known},
            {name: value for name, value in others.items() if name not in known},
        )

    def _options(self, client: Mapping[str, Any]) -> frozenset[str]:
        llm = self.llm.of(client) if isinstance(self.llm, Models) else self.llm
        return getattr(llm, "request_options", frozenset())

    def _used(self, candidate: _Sorted) -> set[str]:
        """The names in braces in a candidate's prompt and template; all of its fields where a function is asked."""
        template = candidate.framing.template
        if callable(template):
            return set(candidate.fields)
        return {*fields_of(candidate.prompt, candidate.framing.fields), *re.findall(r"\{(\w+)\}", template)}

    def _unknown(self, name: str, client: Mapping[str, Any]) -> str:
        takes = self.llm.takes if isinstance(self.llm, Models) else ()
        known = sorted({*_SETTINGS, *self._options(client), *takes})
        cure = f"no setting of the LLM{nearest(name, known)}, and no prompt or template has the place {{{name}}}"
        if name == "model" and not takes:
            cure = "of no use, since this evaluator has one LLM: give it a function that makes the LLM of a model, such"
            cure += " as OpenAIChat, or a mapping from model to LLM"
        elif self.framing.fields is not True:
            cure += " (in prompts that are no chats, places need fields=True)"
        return f"The factor {name!r} is {cure}. Settings are {some(known)}."

    def begin(self, result: Callable[[], Result]) -> None:
        """Let the metrics that need it (`Preference`) prepare for a selection; `asktell.run` calls this first.

        `result` gives the selection's result so far: its prompts, and which is the baseline.
        """
        metrics = [metric for metric in self.metrics.values() if hasattr(metric, "begin")]
        if not metrics:
            return
        found = result()
        prompts = {entry.id: _plain(entry.candidate or entry.prompt) for entry in found.prompts}
        self.baseline = None if found.baseline is None else prompts[found.baseline]
        if self.baseline is not None:
            asked = (self.request(self.baseline, row) for row in range(len(self.examples)))
            keys = {answer_key(request.client, request) for request in asked}
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
        prompt: Asked | None = None,
    ) -> dict[str, float]:
        """Every metric's value, by name.

        Judges number their opinions by `repeat`, and are asked now unless `judged` has what they said. `prompt` is what
        was answered, for metrics that compare with the baseline.
        """
        row = self.example(example)
        if judged is None:
            (judged,) = self.judged([(completion, row, repeat, _plain(prompt))])
        opinions = math.fsum(getattr(value, "cost", 0.0) for value in judged.values())
        answer = 0.0 if completion.from_cache else completion.cost
        said = {name: dict(value.details) for name, value in judged.items() if isinstance(value, Judgement)}
        details = {
            **({"output": completion.text} if self.keep_answers else {}),
            **({"cached": True} if completion.from_cache else {}),
            **({"judged": said} if said else {}),
        }
        paid = answer + opinions if opinions else 0.0 if completion.from_cache else None
        scores: dict[str, float] = Scores({}, details, paid) if details or judged else {}
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


class LLMEvaluator(_Scoring[LLM]):
    """Scores prompts with a synchronous LLM: one at a time by calling it, many by `evaluate_batch`.

    Args:
        llm: the LLM. For candidates with a factor "model": a mapping from model to LLM, or a function that makes the
            LLM of a model, such as the class `OpenAIChat`; factors that are its parameters are passed to it. Every LLM
            is made once, and its price is that of its trials.
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

    The factors "prompt", "system", "template", "temperature" and "max_new_tokens" of a candidate take the place of the
    arguments; options of the LLM's requests (its `request_options`, such as "top_p") are sent along; any other factor
    is put where a prompt or the template has its name in braces, and refused if none has.
    """

    def __call__(self, candidate: Asked, example: int | Example | None, repeat: int = 0) -> dict[str, float]:
        """Scores of one prompt or candidate on one example; raises what the LLM or a metric raised."""
        (answer,) = self.answers.complete([self.request(candidate, example, repeat)])
        return self.scores(or_raise(answer), example, repeat, prompt=candidate)

    def evaluate_batch(
        self, trials: Sequence[Trial], repeats: Sequence[int] = ()
    ) -> list[dict[str, float] | Exception]:
        """Scores in the order of the trials; a trial that fails yields its exception in its place."""
        # Equal prompts go side by side: what a prefix cache wants.
        places = [*chain(*grouped(range(len(trials)), lambda place: trials[place].prompt))]

        def asked(place: int) -> tuple[Trial, Request]:
            trial, repeat = trials[place], repeats[place] if repeats else 0
            return trial, self.request(asked_of(trial), trial.example, repeat)

        def answered(each: tuple[tuple[Trial, Request], Completion | Exception]) -> Answered:
            (trial, request), answer = each
            return or_raise(answer), self.example(trial.example), request.repeat or 0, _plain(asked_of(trial))

        def scored(each: list[Answered]) -> list[Any]:
            return [attempt(self.scores, *one[:3], judged) for one, judged in zip(each, self.judged(each), strict=True)]

        def evaluate(ready: list[tuple[Trial, Request]]) -> list[Any]:
            answers = self.answers.complete([request for _, request in ready])
            if len(answers) != len(ready):
                raise EvaluatorError(f"the LLM was sent {len(ready)} requests and returned {len(answers)} answers")
            return if_ready(list(zip(ready, answers, strict=True)), answered, scored)

        found = dict(zip(places, if_ready(places, asked, evaluate), strict=True))
        return [found[place] for place in range(len(trials))]


class AsyncLLMEvaluator(_Scoring[AsyncLLM]):
    """Scores prompts with an LLM that many tasks call at once; the arguments are those of LLMEvaluator."""

    cancel: Final = None  # a request that was sent is paid for, so that its answer is waited for

    async def __call__(self, candidate: Asked, example: int | Example | None, repeat: int = 0) -> dict[str, float]:
        answer = await self.answers.acomplete(self.request(candidate, example, repeat))
        return await self.ascores(answer, example, repeat, prompt=candidate)

    async def ascores(
        self, completion: Completion, example: int | Example | None, repeat: int = 0, *, prompt: Asked | None = None
    ) -> dict[str, float]:
        """The same as `scores`; judges are asked without blocking."""
        judges = {name: metric for name, metric in self.metrics.items() if hasattr(metric, "ascore")}
        opinions = (
            judge.ascore(completion, self.example(example), repeat, _plain(prompt)) for judge in judges.values()
        )
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
