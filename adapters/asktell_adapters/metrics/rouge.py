"""ROUGE F1 of a response, computed offline. In Latin script, the values are those of Hugging Face's `rouge`."""

import re
import unicodedata
from functools import cached_property
from itertools import groupby
from typing import Any, ClassVar, final

from asktell import InvalidArgumentError
from asktell.extend import import_extra
from asktell_adapters.llms.base import Completion, Example
from asktell_adapters.metrics.text import spaced, split_sentences


@final
class Rouge:
    """ROUGE F1 of a response: how many words or word sequences it shares with the reference.

    The score is from 0 to 1, and larger is better. With several references, the best
    match counts.

    It calls the package `rouge_score` directly, because a call through Hugging Face's
    `evaluate` takes 20 times as long. For texts in Latin script, the scores are the
    same as those of the hub's metric `rouge` with `use_aggregator=False`. The hub's
    metric ignores the words of all other scripts. Here they count, and in scripts
    without spaces between words, such as Chinese and Thai, each character is a word.

    Args:
        rouge_type: the variant: rouge1 to rouge9, rougeL, or rougeLsum (the longest
            common subsequence line by line).
        use_stemmer: strip English suffixes before comparing.
        split: put each sentence of response and reference on its own line first. This
            changes rougeLsum only. Texts with line breaks do not need it.
        name: the metric's name in a sequence of metrics.

    Raises:
        InvalidArgumentError: the type is unknown.
    """

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __init__(
        self,
        rouge_type: str = "rougeLsum",
        *,
        use_stemmer: bool = False,
        split: bool = False,
        name: str = "rouge",
    ) -> None:
        if not re.fullmatch(r"rouge([1-9]|L|Lsum)", rouge_type):
            raise InvalidArgumentError(
                f"rouge_type must be rouge1 to rouge9, rougeL or rougeLsum, got {rouge_type!r}."
            )
        self.rouge_type = rouge_type
        self.use_stemmer = use_stemmer
        self.split = split
        self.name = name

    def __call__(self, completion: Completion, example: Example, /) -> float:
        return self.score(completion.text, *example.references)

    def score(self, text: str, *references: str) -> float:
        """The ROUGE F1 of a text. With several references, it is the F1 of the best match.

        Args:
            text: the text.
            references: one or more references.
        """
        if self.split:
            text = split_sentences(text)
            references = tuple(split_sentences(reference) for reference in references)
        scores = self._scorer.score_multi(references, text)
        return float(scores[self.rouge_type].fmeasure)

    @cached_property
    def _scorer(self) -> Any:
        scorer = import_extra("rouge_score.rouge_scorer", "metrics")
        return scorer.RougeScorer(
            [self.rouge_type], tokenizer=_Tokenizer(self.use_stemmer)
        )


class _Tokenizer:
    """Splits a text into words of any script. Latin words are those of `rouge_score`."""

    def __init__(self, use_stemmer: bool) -> None:
        tokenizers = import_extra("rouge_score.tokenizers", "metrics")
        self._latin = tokenizers.DefaultTokenizer(use_stemmer)

    def tokenize(self, text: str) -> list[str]:
        """The words of a text, in order."""
        words: list[str] = []
        for is_latin, run in groupby(spaced(text), _is_latin):
            part = "".join(run)
            words += self._latin.tokenize(part) if is_latin else [part.lower()]
        return words


def _is_latin(character: str) -> bool:
    """False for letters, marks and digits of other scripts than Latin."""
    return (
        character < "\u0370"  # the first letter after Latin and its accents
        or unicodedata.category(character)[0] not in "LMN"
        or "LATIN" in unicodedata.name(character, "")
    )
