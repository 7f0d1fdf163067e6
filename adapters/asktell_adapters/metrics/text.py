"""Metrics that need no package: brevity, exact match, token F1, output tokens, latency, cost and tool calls."""

import json
import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

from asktell import InvalidArgumentError
from asktell.extend import real
from asktell_adapters.llms.base import Completion, Example

# Not "Vitamin A" and "A, C", where "A" is no article
_ARTICLES = re.compile(r"\b(?:a|an|the)\s+(?=\S)")
# "1.5" is not "15", "-5" is not "5", and "C++" is not "C". But "1,000" is "1000".
_MEANINGFUL = re.compile(
    r"(?<=\d)(?:[^\w\s,'’]|,(?!(?:\d\d,)*\d{3}(?!\d)))(?=\d)"  # between digits
    r"|(?<![\w-])-(?=[$€£¥]?\.?\d)|(?<![\w.])\.(?=\d)"  # the beginning of a number
    r"|(?<=\w)(?:\++|#)(?!\w)"  # the end of a name
)
# Thai, Lao, Tibetan, Burmese, Khmer, Japanese and Chinese
_UNSPACED = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff]"
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'(\[]?[A-Z0-9])")


@final
@dataclass(frozen=True)
class Brevity:
    """Brevity of a response: 1 up to `tau_low` tokens, 0 from `tau_high` tokens on, and linear between them.

    Larger is better. Source: the appendix of the paper that the README cites.

    Attributes:
        tau_low: largest number of tokens of a response that is short enough, at least
            0.
        tau_high: number of tokens from which a response is too long to be useful.
            Larger than `tau_low`.
        count_tokens: a function that counts the tokens of a text. None: the LLM's own
            count.
        name: the metric's name in a sequence of metrics.

    Raises:
        InvalidArgumentError: the numbers are not in the order 0 <= tau_low < tau_high.
    """

    tau_low: float
    tau_high: float
    count_tokens: Callable[[str], int] | None = None
    name: str = "brevity"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if not 0 <= self.tau_low < self.tau_high < float("inf"):
            raise InvalidArgumentError(
                f"The two lengths of brevity must be finite numbers with 0 <= first < second, got {self.tau_low!r} and "
                f"{self.tau_high!r}. The score is 1 up to the first length, and 0 from the second on."
            )

    def __call__(self, completion: Completion, example: Example, /) -> float:
        tokens = (
            completion.completion_tokens
            if self.count_tokens is None
            else self.count_tokens(completion.text)
        )
        return min(
            1.0, max(0.0, (self.tau_high - tokens) / (self.tau_high - self.tau_low))
        )


def normalize(text: str) -> str:
    """The text in lower case, without punctuation, English articles and extra white space.

    Punctuation stays if it is part of a number or at the end of a name, as in "-1.5",
    "2/3" and "C++". It also stays if the text has nothing else. Commas between
    thousands are removed. Accents may be written in either form of Unicode.

    Source: the evaluation script of Rajpurkar et al. 2016, "SQuAD". It removes all ASCII
    punctuation, so that "1.5" equals "15", and all articles, so that "A" equals "the".
    """
    # U+2212 is the minus of word processors and of some LLMs
    text = unicodedata.normalize("NFC", text).lower().replace("\u2212", "-")
    text = _ARTICLES.sub("", text)
    meaningful = {
        place for match in _MEANINGFUL.finditer(text) for place in range(*match.span())
    }
    words = "".join(
        character
        for place, character in enumerate(text)
        if place in meaningful or not _is_punctuation(character)
    ).split()
    return " ".join(words or text.split())


def _is_punctuation(character: str) -> bool:
    """Whether a character is punctuation in any language, or a symbol of ASCII."""
    return character in string.punctuation or (
        not character.isascii() and unicodedata.category(character).startswith("P")
    )


@final
@dataclass(frozen=True)
class ExactMatch:
    """Exact match: 1 if the response equals one of the references, else 0. Larger is better.

    Attributes:
        normalized: True to compare the texts after `normalize`, which ignores case,
            English articles, and punctuation outside of numbers. False to ignore only white space around
            the texts.
        name: the metric's name in a sequence of metrics.
    """

    normalized: bool = True
    name: str = "exact_match"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __call__(self, completion: Completion, example: Example, /) -> float:
        same = normalize if self.normalized else str.strip
        return float(
            any(
                same(completion.text) == same(reference)
                for reference in example.references
            )
        )


def spaced(text: str) -> str:
    """The text with spaces around each character of a script that has no spaces between words, such as Chinese."""
    return text if text.isascii() else _UNSPACED.sub(r" \g<0> ", text)


def token_f1(completion: Completion, example: Example, /) -> float:
    """Token F1, from 0 to 1: how well the words of the response match the words of a reference. Larger is better.

    It is the harmonic mean of two shares:

    - the share of the response's words that are in the reference (precision)
    - the share of the reference's words that are in the response (recall)

    The words are those after `normalize`, and their order does not count. In scripts
    without spaces between words, such as Chinese and Thai, each character counts as a
    word. With several references, the best match counts. Two empty texts have F1 1.

    Source: Rajpurkar et al. 2016, "SQuAD".
    """
    return max(
        _bag_f1(normalize(completion.text), normalize(reference))
        for reference in example.references
    )


token_f1.range = (0.0, 1.0)  # type: ignore[attr-defined]


def output_tokens(completion: Completion, example: Example, /) -> float:
    """Number of tokens in the response. Smaller is better."""
    return float(completion.completion_tokens)


def latency(completion: Completion, example: Example, /) -> float:
    """Seconds of wall time for the response: `Completion.latency`. Smaller is better."""
    return completion.latency


latency.repeatable = False  # type: ignore[attr-defined]


def cost(completion: Completion, example: Example, /) -> float:
    """Money that the response cost, failed attempts included, in the currency of the price. Smaller is better."""
    return completion.cost


def split_sentences(text: str) -> str:
    """The text with each sentence on its own line, as ROUGE-Lsum expects.

    A sentence ends at ".", "!" or "?" if white space and a capital letter or digit
    follow.
    """
    return _SENTENCE_END.sub("\n", text)


def _bag_f1(text: str, reference: str) -> float:
    """F1 of two bags of words."""
    ours, theirs = Counter(spaced(text).split()), Counter(spaced(reference).split())
    if not ours or not theirs:
        return float(ours == theirs)
    return 2 * (ours & theirs).total() / (ours.total() + theirs.total())


# Tool calls


def tool_call(completion: Completion, example: Example, /) -> float:
    """1 if the LLM makes exactly the tool calls of one of the references, else 0. Larger is better.

    The example's reference describes the calls in one of these ways:

    - the name of a tool, which may be called with any arguments
    - a call in JSON, `{"name": ..., "arguments": {...}}`
    - a list of such calls in JSON. The LLM may make them in any order. `[]` stands for
      no call.

    Arguments are compared as JSON data. If a call in a reference has no "arguments",
    any arguments are right.
    """
    return float(
        any(
            _are(completion.tool_calls, _wanted(reference))
            for reference in example.references
        )
    )


tool_call.range = (0.0, 1.0)  # type: ignore[attr-defined]


def _wanted(reference: str) -> list[Mapping[str, Any]]:
    """The calls of a reference. A reference that is no call in JSON is the name of a tool."""
    try:
        parsed = json.loads(reference)
    except (ValueError, RecursionError):
        parsed = None
    calls = parsed if isinstance(parsed, list) else [parsed]
    if all(isinstance(call, dict) and "name" in call for call in calls):
        return calls
    return [{"name": reference.strip()}]


def _are(calls: tuple[Mapping[str, Any], ...], wanted: list[Mapping[str, Any]]) -> bool:
    """Whether the calls are the wanted calls, in any order."""
    if len(calls) != len(wanted):
        return False
    # Calls with arguments are matched first, because a call without arguments matches
    # more.
    left = sorted(wanted, key=lambda call: "arguments" not in call)
    rest = list(calls)
    for call in left:
        for i, actual in enumerate(rest):
            # A reference without arguments allows any.
            arguments = actual.get("arguments")
            if actual["name"] == call["name"] and _is_same(
                call.get("arguments", arguments), arguments
            ):
                del rest[i]
                break
        else:
            return False
    return True


def _is_same(a: object, b: object) -> bool:
    """Whether two values are the same JSON data. For Python, true would equal 1."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_is_same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_is_same, a, b))
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def range_of(metric: object) -> tuple[float, float] | None:
    """The lowest and highest possible score of a metric, from its attribute `range`.

    `Brevity`, `ExactMatch`, `Rouge`, `token_f1`, `tool_call`, `Judge` and `Preference`
    have this attribute. To give it to your own metric, set `my_metric.range = (0, 1)`.

    Args:
        metric: the metric.

    Returns:
        The range. It is None if the metric has no such attribute, or if this is not two
        finite numbers in increasing order.
    """
    span = getattr(metric, "range", None)
    if not isinstance(span, tuple | list) or len(span) != 2:
        return None
    low, high = (real(end) for end in span)
    if low is None or high is None or not -math.inf < low < high < math.inf:
        return None
    return low, high
