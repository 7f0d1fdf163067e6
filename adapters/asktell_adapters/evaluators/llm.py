"""Evaluators for `asktell.run`: they send a prompt with an example to an LLM, and score its response by each metric."""

import asyncio
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, Generic, TypeVar

from asktell import EvaluatorError, InvalidArgumentError, Result, Trial
from asktell.extend import attempt, in_words, log, nearest, real, short, some
from asktell_adapters._util.loop import Lock
from asktell_adapters._util.scores import (
    Scores,
    check_dataset,
    checked_example,
    grouped,
    if_ready,
    or_raise,
    plain,
)
from asktell_adapters.llms.base import (
    LLM,
    Asked,
    AsyncLLM,
    Completion,
    Example,
    Metric,
    Request,
    names_of,
)
from asktell_adapters.llms.cache import AnswerCache, AnsweredOnce, CachedLLM, answer_key
from asktell_adapters.llms.models import Models
from asktell_adapters.llms.prompts import (
    TEMPLATE,
    Framing,
    Template,
    check_fields,
    fields_of,
    values_of,
)
from asktell_adapters.metrics.judge import Answered, Judgement
from asktell_adapters.metrics.text import range_of

Judged = dict[str, Any]
"""Metric name -> score of one response, or the exception, for metrics that score many responses at once."""

_LLM = TypeVar("_LLM")
_SETTINGS: dict[str, tuple[Any, str]] = {
    "prompt": (str, "a text"),
    "system": (str, "a text"),
    "template": (str, "a text"),
    "temperature": (int | float, "a number"),
    "max_new_tokens": (int, "a whole number"),
}
"""Factors that have a meaning to every evaluator, with their types and the words for them in messages."""
# Rounding can put a score slightly outside its range, by this part of its width
_ROUNDING = 1e-9
# A note is due if more than this share of the responses was cut
_MOST_CUT = 0.05


def asked_of(trial: Trial) -> Asked:
    """A trial's candidate, or its prompt if it has none."""
    return trial.candidate or trial.prompt


def _plain(asked: Asked | None) -> Any:
    """The text of a candidate whose only factor is its prompt. Any other candidate or prompt as it is."""
    return (
        asked["prompt"]
        if isinstance(asked, Mapping) and set(asked) == {"prompt"}
        else asked
    )


@dataclass(frozen=True)
class _Sorted:
    """A candidate, with its factors sorted by their purpose.

    Attributes:
        prompt: the text, or an empty text if the candidates have no prompt.
        framing: how prompt and example become a chat.
        temperature: sampling temperature.
        max_new_tokens: the response is cut after so many tokens.
        client: parameters of the LLM's client, which choose the LLM.
        options: options of a request, such as `top_p`.
        fields: values for names in braces.
    """

    prompt: str
    framing: Framing
    temperature: float
    max_new_tokens: int
    client: Mapping[str, Any]
    options: Mapping[str, Any]
    fields: Mapping[str, Any]


class _Scoring(Generic[_LLM]):
    """The base of the evaluators. It has the examples and metrics, makes requests and computes scores."""

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
        # A class such as OpenAIChat has the methods of an LLM, too, but it makes LLMs.
        is_llm = not isinstance(llm, type) and (
            hasattr(llm, "complete") or hasattr(llm, "acomplete")
        )
        self.llm: Any = llm if is_llm else Models(llm)  # type: ignore[arg-type]
        self.keep_answers = keep_answers
        self.answers: Any = self.llm if cache is None else CachedLLM(self.llm, cache)
        if not examples:
            raise InvalidArgumentError(
                "An evaluator needs at least one example, got none."
            )
        self.examples = tuple(examples)
        self.metrics = _named(metrics)
        if with_cost and "cost" in self.metrics:
            raise InvalidArgumentError(
                "with_cost=True adds a score 'cost', but a metric has that name already. Rename the metric, or "
                "leave out with_cost."
            )
        self.framing = Framing(system, template, fields)
        # Scalars of numpy cannot be sent to an API
        self.max_new_tokens = plain(max_new_tokens)
        self.with_cost = with_cost
        self.temperature = plain(temperature)
        self.seed = plain(seed)
        # A candidate can have a temperature of its own. check_prompts() then corrects
        # this.
        self._is_sampled = temperature > 0
        self._repeats_alike = True
        # Number of responses that were scored, and of those that were cut
        self._n_scored = self._n_cut = 0
        self._lock = Lock()
        self.baseline: Asked | None = None
        # Fails now, rather than in every trial, if the template has an unknown column.
        self.request(" ", 0)

    @property
    def repeatable(self) -> bool:
        """True if an evaluation should give the same scores whenever it is repeated.

        That is so if every candidate is evaluated at temperature 0, and no metric has
        the attribute `repeatable = False`. The metrics `Judge`, `Preference` and
        `latency` have it.
        """
        return not self._is_sampled and all(
            getattr(metric, "repeatable", True) for metric in self.metrics.values()
        )

    def example(self, example: int | Example | None) -> Example:
        """The example at an index of the dataset.

        Args:
            example: the index, from 0. An `Example` is returned as it is.

        Raises:
            InvalidArgumentError: the index is None or out of range.
        """
        if isinstance(example, Example):
            return example
        return self.examples[checked_example(example, len(self.examples))]

    def request(
        self, asked: Asked, example: int | Example | None, repeat: int = 0
    ) -> Request:
        """The request to the LLM for one evaluation.

        Above temperature 0, the sampling seed is derived from the evaluator's seed, the
        index of the example and the number of the repeat. So every evaluation can be
        reproduced, and the repeats of an evaluation have different seeds.

        Args:
            asked: the text of a prompt, or a candidate (factor -> value).
            example: the index of the example, from 0, or an `Example`.
            repeat: number of the repeat, from 0. It is the number of earlier
                evaluations of this prompt on this example.

        Raises:
            InvalidArgumentError: a factor is invalid, a field has no value, or the
                index is None or out of range.
        """
        of = self._sort(asked)
        if repeat and self._repeats_alike and not self._is_sampled:
            self._repeats_alike = False
            log.warning(
                "The same request is repeated at temperature 0, so the response will be the same. Give the evaluator a "
                "temperature, or leave out repeats, unless a metric such as a judge varies."
            )
        data = self.example(example)
        if of.fields:
            data = replace(data, fields={**data.fields, **of.fields})
        chat = of.framing.chat(of.prompt, data)
        # The number of the repeat is part of the key in a cache, so that repeats are
        # not the same response.
        settings: dict[str, Any] = {
            "repeat": repeat,
            "tools": chat.tools,
            "options": of.options,
            "client": of.client,
        }
        request = Request(chat.messages, of.max_new_tokens, of.temperature, **settings)
        if not of.temperature:
            return request
        row = example if isinstance(example, int) else 0
        return replace(
            request,
            seed=random.Random(f"answer {self.seed} {row} {repeat}").getrandbits(31),
        )

    def check_selection(self, selection: Any) -> None:
        """Check that a selection has the examples of this evaluator, and the ranges of its metrics.

        `asktell.run` calls this before the first evaluation.

        Args:
            selection: a Selector or a Study.

        Raises:
            InvalidArgumentError: the selection has more examples, its examples have
                other ids, or its goal has another range for a metric.
        """
        check_dataset(selection, self.examples, names_of)
        for name, span in selection.goal.ranges.items():
            metric_range = (
                range_of(self.metrics[name]) if name in self.metrics else None
            )
            if metric_range is not None and metric_range != span:
                raise InvalidArgumentError(
                    f"The goal has the range {list(span)} for {name!r}, but the metric itself has the range "
                    f"{list(metric_range)}. Nothing was evaluated. Make the goal with the metric's range: "
                    f"asktell.maximize({name!r}, range={metric_range}), or minimize."
                )

    def check_prompts(self, prompts: Sequence[Asked] | Mapping[str, Asked]) -> None:
        """Check all prompts or candidates, and make the LLMs that they need.

        `asktell.run` calls this before the first evaluation.

        Args:
            prompts: the prompts or candidates, in a sequence or as id -> prompt.

        Raises:
            InvalidArgumentError: a factor is invalid or is not used, or a field of a
                prompt is not a column of the data. It is also raised if `with_cost` is
                True and one of several models has no price.
        """
        named = (
            dict(prompts)
            if isinstance(prompts, Mapping)
            else {str(i): text for i, text in enumerate(prompts)}
        )
        by_id = {id_: self._sort(asked) for id_, asked in named.items()}
        examples = self._with_factors(list(by_id.values()))
        check_fields(
            {id_: candidate.prompt for id_, candidate in by_id.items()},
            examples,
            self.framing.fields,
        )
        self._is_sampled = any(
            candidate.temperature > 0 for candidate in by_id.values()
        )
        if isinstance(self.llm, Models):
            llms = {
                str(candidate.client.get("model")): self.llm.of(candidate.client)
                for candidate in by_id.values()
            }
            without = [
                name for name, llm in llms.items() if getattr(llm, "price", 0) is None
            ]
            if without and self.with_cost:
                raise InvalidArgumentError(
                    f"with_cost=True needs the price of every model, but the price of {some(without)} is unknown. Give "
                    "each model a price, for example OpenAIChat(..., price=Price(0.15, 0.6))."
                )

    def _with_factors(self, candidates: Sequence[_Sorted]) -> Sequence[Example]:
        """The examples, with the factors that are fields as further columns, which are empty.

        Raises:
            InvalidArgumentError: such a factor is in no prompt or template, or is a
                column of the data.
        """
        added: set[str] = set()
        used: set[str] = set()
        for candidate in candidates:
            added.update(candidate.fields)
            used.update(self._used(candidate))
        if not added:
            return self.examples
        if unused := sorted(added - used):
            raise InvalidArgumentError(self._unknown(unused[0], candidates[0].client))
        if columns := sorted(added & set(values_of(self.examples[0]))):
            raise InvalidArgumentError(
                f"{columns[0]!r} is both a factor and a column of the data. Rename the factor or the column."
            )
        empty = dict.fromkeys(added, "")
        return [
            replace(example, fields={**example.fields, **empty})
            for example in self.examples
        ]

    def _sort(self, asked: Asked) -> _Sorted:
        """Sort a candidate's factors by their purpose. A factor that is None leaves its setting as it is.

        Args:
            asked: a prompt's text, or a candidate (factor -> value).

        Raises:
            InvalidArgumentError: a factor has the wrong type, or a prompt is needed and missing.
        """
        all_factors = {"prompt": asked} if isinstance(asked, str) else asked
        factors: dict[str, Any] = {
            name: value for name, value in all_factors.items() if value is not None
        }
        takes = self.llm.takes if isinstance(self.llm, Models) else ()
        client: dict[str, Any] = {}
        # Whether these are options of requests or fields of prompts depends on the LLM.
        unassigned: dict[str, Any] = {}
        for name, value in factors.items():
            if name in _SETTINGS:
                kind, words = _SETTINGS[name]
                # True and False are integers in Python, but no number of tokens.
                if not isinstance(value, kind) or isinstance(value, bool):
                    raise InvalidArgumentError(
                        f"The factor {name!r} must be {words}, got {short(value)}."
                    )
            elif name in takes:
                client[name] = value
            else:
                unassigned[name] = value
        # Ask the LLM for its options only if needed, because this makes the LLM.
        options = self._options(client) if unassigned else ()
        framing = replace(
            self.framing,
            system=factors.get("system", self.framing.system),
            template=factors.get("template", self.framing.template),
        )
        if "prompt" not in factors:
            if framing.template == TEMPLATE:
                framing = replace(framing, template="{input}")
            if "{prompt}" in f"{framing.system} {framing.template}":
                raise InvalidArgumentError(
                    "The system turn or the template has {prompt}, but the candidates have no factor 'prompt'. Add the "
                    "factor, or remove {prompt}."
                )
        return _Sorted(
            factors.get("prompt", ""),
            framing,
            factors.get("temperature", self.temperature),
            factors.get("max_new_tokens", self.max_new_tokens),
            client,
            {name: value for name, value in unassigned.items() if name in options},
            {name: value for name, value in unassigned.items() if name not in options},
        )

    def _options(self, client: Mapping[str, Any]) -> frozenset[str]:
        """The names of the request options that the LLM takes."""
        llm = self.llm.of(client) if isinstance(self.llm, Models) else self.llm
        return getattr(llm, "request_options", frozenset())

    def _used(self, candidate: _Sorted) -> set[str]:
        """The names in braces in a candidate's prompt and template. A function as template may use all fields."""
        template = candidate.framing.template
        if callable(template):
            return set(candidate.fields)
        return {
            *fields_of(candidate.prompt, candidate.framing.fields),
            *re.findall(r"\{(\w+)\}", template),
        }

    def _unknown(self, name: str, client: Mapping[str, Any]) -> str:
        """The message about a factor that has no use."""
        takes = self.llm.takes if isinstance(self.llm, Models) else ()
        settings = sorted({*_SETTINGS, *self._options(client), *takes})
        if name == "model" and not takes:
            problem = (
                "This evaluator has one LLM for all candidates. To compare models, pass a mapping from names to LLMs, "
                "or a function that turns a name into an LLM, such as OpenAIChat."
            )
        else:
            problem = (
                f"It is not a setting of the LLM{nearest(name, settings)}, and no prompt or template has the field "
                f"{{{name}}}."
            )
            if self.framing.fields is not True:
                problem += (
                    f" In a plain-text prompt, {{{name}}} is a field only if `fields` is true (in a TOML file, in the "
                    "table [prompts])."
                )
        return f"The factor {name!r} has no effect. {problem} The settings of the LLM are {some(settings)}."

    def begin(self, result: Callable[[], Result]) -> None:
        """Prepare the metrics for a selection. `asktell.run` calls this before the first evaluation.

        Only metrics with a method `begin` need it, such as `Preference`. In your own
        loop, call `evaluator.begin(selector.result)` before the first evaluation.

        Args:
            result: a function without arguments that returns the selection's result so
                far, such as the method `selector.result`. The prompts and the baseline
                are read from this result.

        Raises:
            InvalidArgumentError: a metric does not fit the selection. For example,
                `Preference` compares with the baseline, and there is none.
        """
        metrics = [
            metric for metric in self.metrics.values() if hasattr(metric, "begin")
        ]
        if not metrics:
            return
        selection = result()
        prompts = {
            entry.id: _plain(entry.candidate or entry.prompt)
            for entry in selection.prompts
        }
        self.baseline = (
            None if selection.baseline is None else prompts[selection.baseline]
        )
        if self.baseline is not None:
            asked = (
                self.request(self.baseline, row) for row in range(len(self.examples))
            )
            keys = {answer_key(request.client, request) for request in asked}
            # A second run of the evaluator with the same baseline keeps the responses
            # that are paid for.
            once = self.answers if isinstance(self.answers, AnsweredOnce) else None
            if once is None or once.keys != keys:
                self.answers = AnsweredOnce(
                    self.answers if once is None else once.llm, keys
                )
        for metric in metrics:
            metric.begin(self, prompts)

    def remarks(self) -> dict[str, tuple[str, bool]]:
        """Texts about the scores. `asktell.run` adds them to the notes of the result.

        Returns:
            For each metric whose method `remarks` returns a text, such as `Preference`,
            metric name -> (text, flag). The flag is True if the scores of the metric are not reliable.
            Then nothing in the result is established, as with `doubtful=True` in
            `Selector.remark`. If more than 5% of the responses were cut at
            `max_new_tokens`, there is also a text with the key "responses".
        """
        methods = {
            name: getattr(metric, "remarks", None)
            for name, metric in self.metrics.items()
        }
        remarks_of = {
            name: remark
            for name, remarks in methods.items()
            if callable(remarks) and (remark := remarks())[0]
        }
        if self._n_cut > _MOST_CUT * self._n_scored:
            text = (
                f"{self._n_cut:,} of {self._n_scored:,} responses were cut at the largest number of tokens, and were "
                "scored as they are. Raise max_new_tokens if whole responses would have other scores."
            )
            remarks_of["responses"] = text, False
        return remarks_of

    def scores(
        self,
        completion: Completion,
        example: int | Example | None,
        repeat: int = 0,
        judged: Judged | None = None,
        *,
        prompt: Asked | None = None,
    ) -> dict[str, float]:
        """The scores of a response: metric name -> score.

        Args:
            completion: the response.
            example: the example that it responds to, or its index.
            repeat: number of the repeat, from 0. A judge is asked anew for each repeat.
            judged: the scores that the metrics with a method `score_all` have already
                given to the response, as metric name -> score. It is the response's
                item in the list from the method `judged`. If None, these metrics are
                called now.
            prompt: the prompt or candidate of the response, or None if it is unknown.
                `Preference` needs it to recognize the responses of the baseline, which
                get 0.5 without a comparison.

        Raises:
            EvaluatorError: a metric failed. If the response or its judges have cost
                money, this is in the error's attribute `cost`.
            InvalidArgumentError: the index is None or out of range.
        """
        row = self.example(example)
        with self._lock:
            self._n_scored += 1
            self._n_cut += completion.finish_reason == "length"
        if judged is None:
            (judged,) = self.judged([(completion, row, repeat, _plain(prompt))])
        details = self._details(completion, judged)
        # The cost of an evaluation includes its judges. A response from the cache was
        # paid for before.
        opinions = math.fsum(getattr(value, "cost", 0.0) for value in judged.values())
        spent = opinions + (0.0 if completion.from_cache else completion.cost)
        # None: the score "cost", if there is one, is the money paid.
        paid = spent if opinions or completion.from_cache else None
        scores: dict[str, float] = (
            Scores({}, details, paid) if details or judged else {}
        )
        for name, metric in self.metrics.items():
            try:
                value = judged[name] if name in judged else metric(completion, row)
                if isinstance(value, BaseException):
                    raise value
                score = real(value)
                if score is None:
                    raise TypeError(f"it returned {short(value)}, which is no number")
                span = range_of(metric)
                if span is not None and not _is_within(score, span):
                    raise ValueError(
                        f"it returned {score:g}, outside its range {list(span)}"
                    )
                scores[name] = score
            except (Exception, SystemExit, asyncio.CancelledError) as error:
                failure: BaseException = error
                if not isinstance(error, EvaluatorError):
                    failure = EvaluatorError(
                        f"the metric {name!r} failed with {in_words(error)}"
                    )
                    failure.__cause__ = error
                if spent:
                    failure.cost = spent  # type: ignore[attr-defined]
                raise failure  # noqa: B904 - its cause is set
        if self.with_cost:
            scores["cost"] = completion.cost
        return scores

    def _details(self, completion: Completion, judged: Judged) -> dict[str, Any]:
        """The details that a study stores next to the scores of a response."""
        details: dict[str, Any] = {}
        if self.keep_answers:
            details["output"] = completion.text
        if completion.from_cache:
            details["cached"] = True
        if judgements := {
            name: dict(value.details)
            for name, value in judged.items()
            if isinstance(value, Judgement)
        }:
            details["judged"] = judgements
        return details

    def judged(self, answered: Sequence[Answered]) -> list[Judged]:
        """Score many responses at once by the metrics that have a method `score_all`, such as `Judge`.

        Args:
            answered: for each response, a tuple of four items: the response, its
                example, the number of the repeat, and the prompt or candidate (None if
                unknown).

        Returns:
            For each response, in order, metric name -> score, or the exception if the
            metric failed. Metrics without `score_all` are not included.
        """
        outcomes: list[Judged] = [{} for _ in answered]
        for name, metric in self.metrics.items():
            if answered and callable(score_all := getattr(metric, "score_all", None)):
                for values, value in zip(outcomes, score_all(answered), strict=True):
                    values[name] = value
        return outcomes


class LLMEvaluator(_Scoring[LLM]):
    """Scores prompts with a synchronous LLM, which has a method `complete`.

    ```python
    examples = load_examples("questions.csv", input="question", reference="answer")
    evaluator = LLMEvaluator(HuggingFace("HuggingFaceTB/SmolLM2-135M-Instruct"), examples, [token_f1])
    selector = asktell.Selector(prompts, goal, budget=500, examples=len(examples))
    result = asktell.run(selector, evaluator)
    ```

    Without `asktell.run`, call `evaluator(prompt, example)` for one evaluation, or
    `evaluator.evaluate_batch(trials)` for many.

    A candidate may have further factors (settings) besides its prompt. The name of a
    factor determines its use:

    - "prompt" is the text of the prompt.
    - "system", "template", "temperature" and "max_new_tokens" replace the arguments of
      the same names.
    - If the argument `llm` is a mapping, "model" chooses the LLM.
    - If `llm` is a function, every factor that is a parameter of the function chooses
      the LLM. For the class `OpenAIChat`, "model" is such a factor.
    - An option of requests, such as "top_p", is sent with the request. The names of the
      options are in the LLM's attribute `request_options`.
    - Any other factor is a field. Its value is inserted where its name is in braces in
      a factor "template". It is also inserted into prompts in which names in braces are
      fields: see the argument `fields`. If the field is in none of the prompts and
      templates, `check_prompts` raises an error.

    A factor with the value None has no effect.

    Args:
        llm: the LLM. If the candidates have a factor "model", pass a mapping from model
            to LLM. Or pass a function that makes an LLM, such as the class `OpenAIChat`:
            the factors that are parameters of the function are passed to it. Each LLM
            is made once, and its own price applies.
        examples: the dataset. A trial's `example` is an index into it.
        metrics: name -> metric, or a sequence of metrics. In a sequence, the name of a
            metric is its attribute `name` or `__name__`.
        system: the system turn, or None for no system turn. If it contains `{prompt}`,
            the prompt is inserted there, and not in the user turn.
        template: the user turn of a prompt that is neither a chat nor a text with
            fields. It is a text in which `{prompt}`, `{input}` and columns in braces are
            filled in. It may also be a function of (prompt, example) that returns the
            user turn.
        max_new_tokens: largest number of tokens in a response. A longer response is
            cut.
        with_cost: True to add the cost of the response to the scores, as "cost".
        temperature: sampling temperature of the LLM. At 0, the LLM always writes the
            most likely token (greedy decoding). Above 0, scores are noisy, so it can be
            useful to evaluate a prompt on the same example several times (`repeats` of
            `Selector`).
        seed: seed of sampling above temperature 0. LLMs that do not support seeds
            ignore it.
        cache: a store of responses on disk. A response in it is not requested again.
            Its text, cost and latency are the same as the first time, and a budget in
            money is not charged for it again. The metrics score it again, so a judge
            needs a `cache` of its own to give the same score without new requests.
        fields: whether a name in braces in a prompt is a field. A field is replaced by
            the example's value in the column of this name, or by the candidate's factor
            of this name. True: in every prompt. False: in no prompt. None: only in
            chats, so any other prompt is sent with its braces. See
            `asktell_adapters.llms.prompts`.
        keep_answers: True to store the LLM's responses in a study, next to the scores,
            as `details["output"]`.

    Raises:
        InvalidArgumentError: the examples or metrics are empty or invalid, a metric is
            named "cost" although `with_cost` is True, or the template has an unknown
            column.
    """

    def __call__(
        self, candidate: Asked, example: int | Example | None, repeat: int = 0
    ) -> dict[str, float]:
        """The scores of one prompt or candidate on one example.

        Raises:
            EvaluatorError: the LLM or a metric failed.
        """
        (answer,) = self.answers.complete([self.request(candidate, example, repeat)])
        return self.scores(or_raise(answer), example, repeat, prompt=candidate)

    def evaluate_batch(
        self, trials: Sequence[Trial], repeats: Sequence[int] = ()
    ) -> list[dict[str, float] | Exception]:
        """Score many trials in a single call of the LLM.

        Args:
            trials: the trials.
            repeats: for each trial, the number of earlier evaluations of its prompt on
                its example (default: all 0).

        Returns:
            For each trial, in order, its scores, or the exception if it failed.

        Raises:
            EvaluatorError: the LLM cannot be loaded.
        """
        # Requests with the same prompt follow each other, so that a prefix cache can
        # reuse it.
        places = [
            *chain(*grouped(range(len(trials)), lambda place: trials[place].prompt))
        ]

        def asked(place: int) -> tuple[Trial, Request]:
            trial, repeat = trials[place], repeats[place] if repeats else 0
            return trial, self.request(asked_of(trial), trial.example, repeat)

        def answered(
            pair: tuple[tuple[Trial, Request], Completion | Exception],
        ) -> Answered:
            (trial, request), answer = pair
            return (
                or_raise(answer),
                self.example(trial.example),
                request.repeat or 0,
                _plain(asked_of(trial)),
            )

        def scored(answers: list[Answered]) -> list[Any]:
            return [
                attempt(self.scores, *answer[:3], judged)
                for answer, judged in zip(answers, self.judged(answers), strict=True)
            ]

        def evaluate(ready: list[tuple[Trial, Request]]) -> list[Any]:
            answers = self.answers.complete([request for _, request in ready])
            # A wrong number of responses would assign scores to the wrong prompts.
            if len(answers) != len(ready):
                raise EvaluatorError(
                    "complete() of the LLM must return one response per request. The number of requests was "
                    f"{len(ready):,}, and the number of responses was {len(answers):,}"
                )
            return if_ready(list(zip(ready, answers, strict=True)), answered, scored)

        outcomes = dict(zip(places, if_ready(places, asked, evaluate), strict=True))
        return [outcomes[place] for place in range(len(trials))]


class AsyncLLMEvaluator(_Scoring[AsyncLLM]):
    """Scores prompts with an async LLM, which has a method `acomplete`. Many evaluations can run at once.

    The arguments are those of `LLMEvaluator`, and factors are used in the same way.

    ```python
    evaluator = AsyncLLMEvaluator(OpenAIChat("gpt-4o-mini"), examples, [token_f1])
    result = asktell.run(selector, evaluator, concurrency=32)
    ```

    Without `asktell.run`, call `await evaluator(prompt, example)` for one evaluation.
    """

    # Nothing to cancel: a request that was sent is paid for, so its response is awaited
    cancel: Final = None

    async def __call__(
        self, candidate: Asked, example: int | Example | None, repeat: int = 0
    ) -> dict[str, float]:
        answer = await self.answers.acomplete(self.request(candidate, example, repeat))
        return await self.ascores(answer, example, repeat, prompt=candidate)

    async def ascores(
        self,
        completion: Completion,
        example: int | Example | None,
        repeat: int = 0,
        *,
        prompt: Asked | None = None,
    ) -> dict[str, float]:
        """The scores of a response: metric name -> score. Judges are called without blocking the event loop.

        Args:
            completion: the response.
            example: the example that it responds to, or its index.
            repeat: number of the repeat, from 0. A judge is asked anew for each repeat.
            prompt: the prompt or candidate of the response, as for `scores`.

        Raises:
            EvaluatorError: a metric failed, as in `scores`.
        """
        judges = {
            name: metric
            for name, metric in self.metrics.items()
            if hasattr(metric, "ascore")
        }
        opinions = (
            judge.ascore(completion, self.example(example), repeat, _plain(prompt))
            for judge in judges.values()
        )
        # A judge that fails must not lose the costs of the other judges.
        values = await asyncio.gather(*opinions, return_exceptions=True)
        return self.scores(
            completion, example, repeat, dict(zip(judges, values, strict=True))
        )


def _is_within(score: float, span: tuple[float, float]) -> bool:
    """Whether a score is within a range, up to rounding. NaN, which the selection refuses, counts as within."""
    rounding = _ROUNDING * (span[1] - span[0])
    return not (score < span[0] - rounding or score > span[1] + rounding)


def _named(metrics: Mapping[str, Metric] | Sequence[Metric]) -> dict[str, Metric]:
    """Metrics by name.

    Raises:
        InvalidArgumentError: there are none, a name is missing or occurs twice, or a metric
            is not callable.
    """
    if isinstance(metrics, Mapping):
        named = dict(metrics)
    else:
        names = [
            str(getattr(metric, "name", None) or getattr(metric, "__name__", ""))
            for metric in metrics
        ]
        if not all(names) or len(set(names)) < len(names):
            raise InvalidArgumentError(
                f"Metrics in a sequence need distinct names, got {names}. Pass a mapping from name to metric."
            )
        named = dict(zip(names, metrics, strict=True))
    if not named:
        raise InvalidArgumentError(
            "An evaluator needs at least one metric, got none. Pass a metric."
        )
    for name, metric in named.items():
        if not callable(metric):
            raise InvalidArgumentError(
                f"The metric {name!r} must be a function of a completion and an example, got {short(metric)}."
            )
    return named
