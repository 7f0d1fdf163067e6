"""ROUGE F1 of a response, computed offline, with the same values as Hugging Face's `rouge`."""

import re
from functools import cached_property
from typing import Any, ClassVar, final

from asktell import InvalidArgumentError
from asktell.extend import import_extra
from asktell_adapters.llms.base import Completion, Example
from asktell_adapters.metrics.text import split_sentences


@final
class Rouge:
    """ROUGE F1 of a response in [0, 1], for the best reference. Larger is better.

    It calls `rouge_score` directly, because a call through `evaluate` takes 20 times as
    long. The values are the same as those of the hub's `rouge` with
    `use_aggregator=False`.

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
        """The F1 of a text against one or more references."""
        if self.split:
            text, references = (
                split_sentences(text),
                tuple(split_sentences(reference) for reference in references),
            )
        scores = self._scorer.score_multi(references, text)
        return float(scores[self.rouge_type].fmeasure)

    @cached_property
    def _scorer(self) -> Any:
        scorer = import_extra("rouge_score.rouge_scorer", "metrics")
        return scorer.RougeScorer([self.rouge_type], use_stemmer=self.use_stemmer)
