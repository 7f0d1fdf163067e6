"""`asktell check`: make one evaluation and print every part of it, from the request to the cost. Nothing is stored.

With `--repeats`, the evaluation is repeated, which shows how much its scores differ.
"""

import argparse
import contextlib
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from asktell import ConfigError, EvaluatorError, InvalidArgumentError, Selector, Trial
from asktell.extend import in_words, nearest, one_line, outside_of_loops, some, whole
from asktell_adapters.cli.folder import RunFolder
from asktell_adapters.cli.output import say_braces, show, show_json
from asktell_adapters.cli.process import logging_to_stderr
from asktell_adapters.config import Config, load_config
from asktell_adapters.evaluators.llm import AsyncLLMEvaluator, LLMEvaluator
from asktell_adapters.llms.base import Completion, Example, Request
from asktell_adapters.llms.models import llm_of

_REASON = 200  # characters of a judge's reason


@dataclass
class Attempt:
    """One evaluation, as far as it has got."""

    prompt: str | int
    example: str  # its id, or the number of its row
    request: Request
    candidate: Mapping[str, Any] | None = None
    reference: str | Sequence[str] | None = None
    answer: Completion | None = None
    scores: dict[str, float] = field(default_factory=dict)
    paid: float = 0.0
    seconds: float = 0.0
    # False if no price is known; a model on this machine has the price 0
    is_priced: bool = True
    repeat: int = 0  # number of earlier evaluations of this prompt on this example

    def took(self, answer: Completion | Exception) -> Completion:
        """Note the response and its cost.

        Raises:
            EvaluatorError: there is no response.
        """
        if isinstance(answer, Exception):
            raise EvaluatorError(
                f"The model returned no response. The error was {in_words(answer)}"
            ) from answer
        self.answer = answer
        self.paid = 0.0 if answer.from_cache else answer.cost
        return answer

    def evaluate(
        self, evaluator: LLMEvaluator | AsyncLLMEvaluator, example: Example
    ) -> None:
        """Make the evaluation. Its response, scores, cost and time are in the attributes, as far as it gets."""
        start = time.perf_counter()
        try:
            if hasattr(evaluator, "ascores"):
                outside_of_loops(lambda: self._evaluate_async(evaluator, example))
            else:
                (answer,) = evaluator.answers.complete([self.request])
                self.scores = evaluator.scores(self.took(answer), example, self.repeat)
        except EvaluatorError as error:
            self.paid = getattr(error, "cost", self.paid)
            raise
        finally:
            self.seconds = time.perf_counter() - start
        paid = getattr(self.scores, "paid", None)
        self.paid = self.paid if paid is None else paid

    async def _evaluate_async(self, evaluator: Any, example: Example) -> None:
        """Make the evaluation with an asynchronous evaluator."""
        answer = self.took(await evaluator.answers.acomplete(self.request))
        self.scores = await evaluator.ascores(answer, example, self.repeat)

    @property
    def judged(self) -> Mapping[str, Mapping[str, Any]]:
        """The grades and reasons of each judge, by metric."""
        judged: Mapping[str, Mapping[str, Any]] = getattr(
            self.scores, "details", {}
        ).get("judged", {})
        return judged

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as JSON data."""
        answer = self.answer or Completion("")
        return {
            "prompt": self.prompt,
            **({} if self.candidate is None else {"candidate": self.candidate}),
            "example": self.example,
            "messages": [dict(message) for message in self.request.messages],
            "answer": None if self.answer is None else answer.text,
            "reference": self.reference,
            "finish_reason": answer.finish_reason,
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
            "from_cache": answer.from_cache,
            "scores": self.scores,
            "judged": self.judged,
            "cost": self.paid,
            "seconds": round(self.seconds, 3),
        }

    def lines(self) -> Iterator[str]:
        """The evaluation in words, one part after the other."""
        yield f"prompt {self.prompt!r} on example {self.example!r}"
        factors = {
            name: value
            for name, value in (self.candidate or {}).items()
            if name != "prompt"
        }
        yield from (
            [", ".join(f"{name}: {value}" for name, value in factors.items())]
            if factors
            else []
        )
        for message in self.request.messages:
            yield f"--- {message.get('role', '')}, as sent"
            yield str(message.get("content") or "")
        if (answer := self.answer) is None:
            yield from _wanted(self.reference)
            return
        cut = ", cut by max_new_tokens" if answer.finish_reason == "length" else ""
        cached = ", from the cache" if answer.from_cache else ""
        yield f"--- response ({answer.prompt_tokens} tokens read, {answer.completion_tokens} written{cut}{cached})"
        yield answer.text
        yield from _wanted(self.reference)
        yield "--- scores"
        width = max(map(len, self.scores), default=0)
        for name, score in self.scores.items():
            yield f"{name:<{width}}  {score:.4g}{_judge_words(self.judged.get(name))}"
        yield "---"
        cost = (
            f"{self.paid:.4g}" if self.paid or self.is_priced else "no price is known"
        )
        yield f"cost: {cost}; seconds: {self.seconds:.2g}"


def check(arguments: argparse.Namespace) -> int:
    """`asktell check`: make one evaluation, or several of the same, and print every part of it."""
    repeats = whole("--repeats", arguments.repeats, 1)
    with contextlib.closing(load_config(arguments.config)) as config:
        say_braces(config)
        dataset = config.dataset
        selector, arm = _selector_and_arm(config, arguments.prompt)
        prompts = selector.prompts
        row = _position(
            "example",
            arguments.example,
            dataset.ids,
            [example.id for example in config.examples],
        )
        if config.harness is not None:
            trials = [prompts.trial(number, arm, row) for number in range(repeats)]
            return _check_harness(config, trials, arguments.json)
        labels = config.labels
        if labels is not None and labels.recorded is not None:
            raise ConfigError(
                f"{config.path.name} has recorded responses in [label], so there is no LLM to check. To see a "
                f"response as raters see it: asktell label {config.path}"
            )
        candidate = None if prompts.candidates is None else prompts.candidates[arm]
        # The id of a row without a name is a digest, which means nothing to a reader.
        name = (dataset.names is None and config.examples[row].id) or dataset.ids[row]
        with logging_to_stderr():
            evaluator = config.evaluator()
            checked = Attempt(
                prompts.ids[arm],
                name,
                evaluator.request(candidate or prompts.texts[arm], row),
                candidate,
                config.examples[row].reference,
            )
            checked.is_priced = (
                getattr(llm_of(evaluator.llm, checked.request), "price", 0.0)
                is not None
            )
            evaluator.begin(config.selector.result)
            repeated: list[Mapping[str, float]] = []
            try:
                checked.evaluate(evaluator, evaluator.example(row))
                # A selection refuses scores that are missing, not finite, or out of the
                # goal's ranges. People give the label, so one of the labels is assumed.
                scores = dict(checked.scores)
                if labels is not None:
                    scores[labels.table.metric] = labels.options[0].score
                goal = config.selector.goal
                goal.vector({name: scores[name] for name in goal.metrics})
                repeated.append(checked.scores)
                for number in range(1, repeats):
                    request = evaluator.request(
                        candidate or prompts.texts[arm], row, number
                    )
                    again = replace(checked, request=request, repeat=number)
                    again.evaluate(evaluator, evaluator.example(row))
                    checked.paid += again.paid
                    repeated.append(again.scores)
            finally:  # after a failure, the request and the response help most
                if arguments.json:
                    show_json({**checked.to_dict(), **_repeated(repeated)})
                else:
                    show("\n".join([*checked.lines(), *_noise(repeated)]))
        if not arguments.json:
            to = "To estimate the whole run: asktell run {} --estimate"
            if labels is not None:
                to = f"People give {labels.table.metric!r}. Next: asktell label {{}}"
            show(f"This works. {to.format(arguments.config)}")
        return 0


def _repeated(repeats: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """The scores of repeated evaluations, as JSON data. Empty if there was only one."""
    return {"repeats": [dict(scores) for scores in repeats]} if len(repeats) > 1 else {}


def _noise(repeats: Sequence[Mapping[str, float]]) -> Iterator[str]:
    """Describe how much the scores of several evaluations differ, in one line per metric."""
    if len(repeats) < 2:
        return
    yield f"--- noise: {len(repeats)} evaluations of this prompt and example"
    width = max(map(len, repeats[0]))
    for name in repeats[0]:
        values = [scores[name] for scores in repeats]
        shown = " ".join(f"{value:.4g}" for value in values)
        differ = (
            f"standard deviation {statistics.stdev(values):.2g}"
            if len(set(values)) > 1
            else "all agree"
        )
        yield f"{name:<{width}}  {shown}: {differ}"


def _check_harness(config: Config, trials: Sequence[Trial], as_json: bool) -> int:
    """Check a harness. The requests that it sends are not visible here."""
    assert config.harness is not None
    trial, start = trials[0], time.perf_counter()
    with logging_to_stderr():
        # As in a run, which has the reason if a metric of the goal is unknown
        if callable(
            prepare := getattr(config.harness.evaluator, "check_selection", None)
        ):
            prepare(config.selector)
        outcomes = [
            scores
            for trial in trials
            for scores in config.harness.evaluate_batch([trial])
        ]
    seconds = time.perf_counter() - start
    example = config.examples[trial.example or 0]
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise EvaluatorError(
                f"The evaluation failed. The error was {in_words(outcome)}"
            ) from outcome
    scores = outcomes[0]
    output = getattr(scores, "details", {}).get("output")
    if as_json:
        shown = {
            "prompt": trial.prompt_id,
            "reference": example.reference,
            "scores": dict(scores),
        }
        candidate = {} if trial.candidate is None else {"candidate": trial.candidate}
        answer = {} if output is None else {"answer": output}
        timed = {"seconds": round(seconds, 3), **_repeated(outcomes)}
        show_json({**shown, **candidate, **answer, **timed})
    else:
        text = "" if trial.prompt == trial.prompt_id else f": {trial.prompt}"
        width = max(map(len, scores), default=0)
        lines = [f"prompt {trial.prompt_id!r}{text}", f"on: {example.input}"]
        lines += [] if output is None else ["--- response", output]
        lines += [*_wanted(example.reference), "--- scores"]
        show(
            "\n".join(
                [
                    *lines,
                    *(
                        f"{name:<{width}}  {score:.4g}"
                        for name, score in scores.items()
                    ),
                ]
            )
        )
        show("\n".join([*_noise(outcomes), f"---\nseconds: {seconds:.2g}"]))
    missing = [name for name in config.selector.goal.metrics if name not in scores]
    if missing:
        raise ConfigError(
            f"{config.path.name}: [goal] uses {missing}, but the evaluator returned only {sorted(scores)}. Correct "
            "[goal]."
        )
    if not as_json:
        show(f"This works. Next: asktell run {config.path}")
    return 0


def _selector_and_arm(config: Config, wanted: str | None) -> tuple[Selector, int]:
    """The selector that has the prompt, and the prompt's position.

    It is the configuration's selector, or that of its run if the prompt was added by
    `asktell add`.
    """
    selector, folder = config.selector, RunFolder(config.output)
    if (
        wanted is not None
        and wanted not in map(str, selector.prompts.ids)
        and folder.study_name is not None
    ):
        with folder.open_study() as study:
            selector = study.selector
    return selector, _position("prompt", wanted, list(map(str, selector.prompts.ids)))


def _wanted(reference: str | Sequence[str] | None) -> Iterator[str]:
    """Lines with the reference, if the example has one."""
    if reference is None:
        return
    several = not isinstance(reference, str) and len(reference) > 1
    yield "--- references, the best match counts" if several else "--- reference"
    yield from [reference] if isinstance(reference, str) else reference


def _position(
    what: str,
    wanted: str | None,
    ids: Sequence[str],
    other_names: Sequence[str | None] = (),
) -> int:
    """Position of the item with this id or, failing that, with this other name. 0 if none is wanted."""
    if wanted is None:
        return 0
    for names in (ids, other_names):
        if wanted in names:
            return list(names).index(wanted)
    raise InvalidArgumentError(
        f"There is no {what} {wanted!r}{nearest(wanted, ids)}. Give one of these ids: {some(ids)}."
    )


def _judge_words(details: Mapping[str, Any] | None) -> str:
    """The grades, the spread and a reason of a judge, to stand after its score."""
    if details is None:
        return ""
    grades = ", ".join(
        f"{name} {grade:.3g}" for name, grade in details["grades"].items()
    )
    reason = next((text for text in details["reasons"] if text), "")
    spread = "" if details["spread"] is None else f"; spread {details['spread']:.2g}"
    return f"   ({grades}{spread})" + (
        f"  {one_line(reason, _REASON)}" if reason else ""
    )
