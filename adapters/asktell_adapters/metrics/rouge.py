"""ROUGE F1 per completion, with the numbers of Hugging Face's `rouge`, offline."""

import re
from functools import cached_property
from typing import Any, ClassVar, final

from asktell import InvalidArgumentError
from asktell.extend import import_extra
from asktell_adapters.llms.base import Completion, Example
from asktell_adapters.metrics.text import split_sentences


@final
class Rouge:
    """ROUGE F1 of a completion in [0, 1]; of several references, the best. Larger is better.

    It calls `rouge_score` directly, since a round trip through `evaluate` costs 20 times the computation; the numbers
    are those of the hub's `rouge`, with `use_aggregator=False`.

    Args:
        rouge_type: rouge1 to rouge9, rougeL, or rougeLsum (the longest common subsequence line by line).
        use_stemmer: strip English suffixes before comparing.
        split: put completion and reference one sentence a line first. The hub's metric leaves that to its caller; it
            matters for rougeLsum alone, and texts that have their line breaks already need it not.
        name: the metric's name in a sequence of metrics.
    """

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __init__(
        self, rouge_type: str = "rougeLsum", *, use_stemmer: bool = False, split: bool = False, name: str = "rouge"
    ) -> None:
        if not re.fullmatch(r"rouge([1-9]|L|Lsum)", rouge_type):
            raise InvalidArgumentError(f"rouge_type must be rouge1 to rouge9, rougeL or rougeLsum, got {rouge_type!r}.")
        self.rouge_type = rouge_type
        self.use_stemmer = use_stemmer
        self.split = split
        self.name = name

    def __call__(self, completion: Completion, example: Example, /) -> float:
        return self.score(completion.text, *example.references)

    def score(self, text: str, *references: str) -> float:
        """The F1 of a text against one or more references."""
        if self.split:
            text, references = split_sentences(text), tuple(split_sentences(reference) for reference in references)
        scores = self._scorer.score_multi(references, text)
        return float(scores[self.rouge_type].fmeasure)

    @cached_property
    def _scorer(self) -> Any:
        scorer = import_extra("rouge_score.rouge_scorer", "metrics")
        return scorer.RougeScorer([self.rouge_type], use_stemmer=self.use_stemmer)
