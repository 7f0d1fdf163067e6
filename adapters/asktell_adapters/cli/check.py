"""`asktell check`: one evaluation of everything, seen from the prompt to the cost, and kept nowhere."""

import argparse
import asyncio
import contextlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from asktell import ConfigError, EvaluatorError, InvalidArgumentError, Trial
from asktell.extend import in_words, nearest, one_line, outside_of_loops, some
from asktell_adapters.cli.output import say_braces, show
from asktell_adapters.cli.process import logging_to_stderr
from asktell_adapters.llms.base import Completion, Example, Request
from asktell_adapters.llms.models import llm_of

if TYPE_CHECKING:
    from asktell_adapters.config import Config
    from asktell_adapters.evaluators.llm import AsyncLLMEvaluator, LLMEvaluator

_REASON = 200  # characters of a judge's reason


@dataclass
class Checked:
    """What one evaluation has come to so far."""

    prompt: str | int
    example: str  # its id, or the number of its row
    request: Request
    candidate: Mapping[str, Any] | None = None
    answer: Completion | None = None
    scores: dict[str, float] = field(default_factory=dict)
    paid: float = 0.0
    seconds: float = 0.0
    is_priced: bool = True  # or it costs nothing, as on this machine

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        answer = self.answer
        return {
            "prompt": self.prompt,
            **({} if self.candidate is None else {"candidate": self.candidate}),
            "example": self.example,
            "messages": [dict(message) for message in self.request.messages],
            "answer": None if answer is None else answer.text,
            "finish_reason": None if answer is None else answer.finish_reason,
            "prompt_tokens": 0 if answer is None else answer.prompt_tokens,
            "completion_tokens": 0 if answer is None else answer.completion_tokens,
            "from_cache": answer is not None and answer.from_cache,
            "scores": self.scores,
            "judged": getattr(self.scores, "details", {}).get("judged", {}),
            "cost": self.paid,
            "seconds": round(self.seconds, 3),
        }


def check(arguments: argparse.Namespace) -> int:
    from asktell_adapters.config import load_config

    with contextlib.closing(load_config(arguments.config)) as config:
        say_braces(config)
        return _check(config, arguments)


def _check(config: "Config", arguments: argparse.Namespace) -> int:
    prompts = config.selector.prompts
    arm = _arm(prompts.ids, arguments.prompt)
    id_, candidate = prompts.ids[arm], None if prompts.candidates is None else prompts.candidates[arm]
    position = _example(config, arguments.example)
    if config.harness is not None:
        return _check_harness(config, Trial(0, id_, prompts.texts[arm], position), arguments.json)
    with logging_to_stderr():
        evaluator = config.evaluator()
        name = config.dataset.ids[position]
        if config.dataset.names is None:  # a digest, which tells nobody anything
            name = config.examples[position].id or name
        checked = Checked(id_, name, evaluator.request(candidate or prompts.texts[arm], position), candidate)
        checked.is_priced = getattr(llm_of(evaluator.llm, checked.request), "price", 0.0) is not None
        evaluator.begin(config.selector.result)
        try:
            _evaluate(evaluator, checked, evaluator.example(position))
            # A selection refuses scores that are missing, not finite, or out of the goal's ranges.
            config.selector.goal.vector({name: checked.scores[name] for name in config.selector.goal.metrics})
        finally:  # what there is to see helps most where something failed
            lines = [json.dumps(checked.to_dict(), indent=1)] if arguments.json else _lines(checked)
            for line in lines:
                show(line) if not arguments.json else print(line)
    if not arguments.json:
        show(f"This works. What the whole run takes: asktell run {arguments.config} --estimate")
    return 0


def _check_harness(config: "Config", trial: Trial, as_json: bool) -> int:
    """The same of a harness, which alone knows what was sent."""
    assert config.harness is not None
    start = time.perf_counter()
    (scores,) = config.harness.evaluate_batch([trial])
    seconds = time.perf_counter() - start
    if isinstance(scores, BaseException):
        raise EvaluatorError(f"the evaluation failed: {in_words(scores)}") from scores
    if as_json:
        print(json.dumps({"prompt": trial.prompt_id, "scores": dict(scores), "seconds": round(seconds, 3)}, indent=1))
    else:
        show(f"prompt {trial.prompt_id!r}: {trial.prompt}\non: {config.examples[trial.example or 0].input}\n--- scores")
        show("\n".join(f"{name}  {score:.4g}" for name, score in scores.items()))
        show(f"---\nseconds: {seconds:.2g}")
    missing = [name for name in config.selector.goal.metrics if name not in scores]
    if missing:
        raise ConfigError(f"{config.path.name}: [goal] names {missing}, but the scores are {sorted(scores)}.")
    if not as_json:
        show(f"This works. Next: asktell run {config.path}")
    return 0


def _arm(named: Sequence[str | int], wanted: str | None) -> int:
    ids = list(map(str, named))
    if wanted is None:
        return 0
    if wanted not in ids:
        raise InvalidArgumentError(
            f"There is no prompt {wanted!r}{nearest(wanted, ids)}. Name one by its id: {some(ids)}."
        )
    return ids.index(wanted)


def _example(config: "Config", wanted: str | None) -> int:
    ids = config.dataset.ids
    if wanted is None:
        return 0
    for names in (ids, [example.id for example in config.examples]):
        if wanted in names:
            return list(names).index(wanted)
    raise InvalidArgumentError(
        f"There is no example {wanted!r}{nearest(wanted, ids)}. Name one by its id: {some(ids)}."
    )


def _evaluate(evaluator: "LLMEvaluator | AsyncLLMEvaluator", checked: Checked, example: Example) -> None:
    start = time.perf_counter()
    try:
        if hasattr(evaluator, "ascores"):
            outside_of_loops(lambda: asyncio.run(_ask_async(evaluator, checked, example)))
            return
        (answer,) = evaluator.answers.complete([checked.request])
        _took(checked, answer)
        with _scored(checked):
            checked.scores = evaluator.scores(answer, example)
    finally:
        checked.seconds = time.perf_counter() - start


async def _ask_async(evaluator: Any, checked: Checked, example: Example) -> None:
    _took(checked, await evaluator.answers.acomplete(checked.request))
    with _scored(checked):
        checked.scores = await evaluator.ascores(checked.answer, example)


def _took(checked: Checked, answer: Completion | Exception) -> None:
    if isinstance(answer, Exception):
        raise EvaluatorError(f"the model gave no answer: {in_words(answer)}") from answer
    checked.answer = answer
    checked.paid = 0.0 if answer.from_cache else answer.cost


@contextlib.contextmanager
def _scored(checked: Checked) -> Iterator[None]:
    """Note what the scores have cost."""
    try:
        yield
    except EvaluatorError as error:
        checked.paid = getattr(error, "cost", checked.paid)
        raise
    paid = getattr(checked.scores, "paid", None)
    checked.paid = checked.paid if paid is None else paid


def _lines(checked: Checked) -> Iterator[str]:
    yield f"prompt {checked.prompt!r} on example {checked.example!r}"
    factors = {name: value for name, value in (checked.candidate or {}).items() if name != "prompt"}
    yield from [", ".join(f"{name}: {value}" for name, value in factors.items())] if factors else []
    for message in checked.request.messages:
        yield f"--- {message.get('role', '')}, as sent"
        yield str(message.get("content") or "")
    if checked.answer is None:
        return
    answer = checked.answer
    cut = ", cut by max_new_tokens" if answer.finish_reason == "length" else ""
    cached = ", from the cache" if answer.from_cache else ""
    yield f"--- answer ({answer.prompt_tokens} tokens read, {answer.completion_tokens} written{cut}{cached})"
    yield answer.text
    yield "--- scores"
    width = max(map(len, checked.scores), default=0)
    judged = getattr(checked.scores, "details", {}).get("judged", {})
    for name, score in checked.scores.items():
        yield f"{name:<{width}}  {score:.4g}{_of_judge(judged.get(name))}"
    yield "---"
    cost = f"{checked.paid:.4g}" if checked.paid or checked.is_priced else "no price is known"
    yield f"cost: {cost}; seconds: {checked.seconds:.2g}"


def _of_judge(details: Mapping[str, Any] | None) -> str:
    if details is None:
        return ""
    grades = ", ".join(f"{name} {grade:.3g}" for name, grade in details["grades"].items())
    reason = next((text for text in details["reasons"] if text), "")
    spread = "" if details["spread"] is None else f"; spread {details['spread']:.2g}"
    return f"   ({grades}{spread})" + (f"  {one_line(reason, _REASON)}" if reason else "")
