"""Metrics that need no package: brevity, exact match, token F1, output tokens, latency, cost and calls of tools."""

import json
import math
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

from asktell import InvalidArgumentError
from asktell_adapters.llms.base import Completion, Example

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'(\[]?[A-Z0-9])")


@final
@dataclass(frozen=True)
class Brevity:
    """1 up to `tau_low` tokens, 0 from `tau_high`, linear between (the paper's appendix). Larger is better.

    Attributes:
        tau_low: tokens; the answer is as short as anybody wants.
        tau_high: tokens; the answer is too long to be of use. Larger than `tau_low`.
        count_tokens: tokens of a text; by default the completion's own count, in the LLM's tokens.
    """

    tau_low: float
    tau_high: float
    count_tokens: Callable[[str], int] | None = None
    name: str = "brevity"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if not 0 <= self.tau_low < self.tau_high < float("inf"):
            raise InvalidArgumentError(
                f"brevity needs 0 <= tau_low < tau_high, got tau_low={self.tau_low!r}, tau_high={self.tau_high!r}."
            )

    def __call__(self, completion: Completion, example: Example, /) -> float:
        tokens = completion.completion_tokens if self.count_tokens is None else self.count_tokens(completion.text)
        return min(1.0, max(0.0, (self.tau_high - tokens) / (self.tau_high - self.tau_low)))


def normalize(text: str) -> str:
    """Lower case without punctuation, English articles and extra white space (as SQuAD's script compares)."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


@final
@dataclass(frozen=True)
class ExactMatch:
    """1 if the text equals a reference, else 0.

    Attributes:
        normalized: compare `normalize(text)`; otherwise only surrounding white space is ignored.
    """

    normalized: bool = True
    name: str = "exact_match"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __call__(self, completion: Completion, example: Example, /) -> float:
        same = normalize if self.normalized else str.strip
        return float(any(same(completion.text) == same(reference) for reference in example.references))


def token_f1(completion: Completion, example: Example, /) -> float:
    """F1 of the bags of normalized words; of several references, the best. Two empty texts are equal: 1."""
    return max(_bag_f1(normalize(completion.text), normalize(reference)) for reference in example.references)


token_f1.range = (0.0, 1.0)  # type: ignore[attr-defined]


def output_tokens(completion: Completion, example: Example, /) -> float:
    """Tokens written. Smaller is better."""
    return float(completion.completion_tokens)


def latency(completion: Completion, example: Example, /) -> float:
    """Wall seconds. Smaller is better."""
    return completion.latency


latency.repeatable = False  # type: ignore[attr-defined]


def cost(completion: Completion, example: Example, /) -> float:
    """The price of all attempts, in the price table's currency. Smaller is better."""
    return completion.cost


def split_sentences(text: str) -> str:
    """One sentence a line, by punctuation and capitals: what ROUGE-Lsum expects of running text."""
    return _SENTENCE_END.sub("\n", text)


def _bag_f1(text: str, reference: str) -> float:
    ours, theirs = Counter(text.split()), Counter(reference.split())
    if not ours or not theirs:
        return float(ours == theirs)
    return 2 * (ours & theirs).total() / (ours.total() + theirs.total())


# Calls of tools


def tool_call(completion: Completion, example: Example, /) -> float:
    """1 if the LLM calls what a reference says, and nothing else, else 0. Larger is better.

    A reference is the name of a tool, whose arguments do not count then; or JSON: a call,
    `{"name": ..., "arguments": {...}}`, or a list of calls in any order, `[]` for none. Arguments are compared as JSON
    data; a call without any in the reference may have any.
    """
    return float(any(_are(completion.tool_calls, _wanted(reference)) for reference in example.references))


tool_call.range = (0.0, 1.0)  # type: ignore[attr-defined]


def _wanted(reference: str) -> list[Mapping[str, Any]]:
    try:
        found = json.loads(reference)
    except (ValueError, RecursionError):
        found = None
    calls = found if isinstance(found, list) else [found]
    if all(isinstance(call, dict) and "name" in call for call in calls):
        return calls
    return [{"name": reference.strip()}]


def _are(calls: tuple[Mapping[str, Any], ...], wanted: list[Mapping[str, Any]]) -> bool:
    if len(calls) != len(wanted):
        return False
    left = sorted(wanted, key=lambda call: "arguments" not in call)  # what is particular finds its call first
    rest = list(calls)
    for call in left:
        same = next((i for i, made in enumerate(rest) if _is(made, call)), None)
        if same is None:
            return False
        del rest[same]
    return True


def _is(made: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    if made["name"] != wanted["name"]:
        return False
    return "arguments" not in wanted or bool(made["arguments"] == wanted["arguments"])


def range_of(metric: object) -> tuple[float, float] | None:
    """A metric's attribute `range`, its lowest and highest score; None if it declares none.

    Ours in [0, 1] do; one of your own may: `my_metric.range = (0, 1)`.
    """
    span = getattr(metric, "range", None)
    if not isinstance(span, tuple | list) or len(span) != 2:
        return None
    if not all(isinstance(end, int | float) and math.isfinite(end) for end in span) or not span[0] < span[1]:
        return None
    return float(span[0]), float(span[1])
