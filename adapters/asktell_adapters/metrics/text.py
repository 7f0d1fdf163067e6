"""Metrics that need no package: brevity, exact match, token F1, output tokens, latency and cost."""

import re
import string
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

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
