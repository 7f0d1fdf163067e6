"""Metrics, which score a response to an example, and tools to check the LLMs that are used as judges."""

from asktell_adapters.metrics.correction import CorrectedMean, corrected_mean
from asktell_adapters.metrics.hf import HuggingFaceMetric
from asktell_adapters.metrics.judge import Judge, Judgement, JudgementError, Spent
from asktell_adapters.metrics.preference import Preference
from asktell_adapters.metrics.rouge import Rouge
from asktell_adapters.metrics.rubric import PAIRWISE, POINTWISE, Criterion, Shot
from asktell_adapters.metrics.text import (
    Brevity,
    ExactMatch,
    cost,
    latency,
    normalize,
    output_tokens,
    range_of,
    split_sentences,
    token_f1,
    tool_call,
)

__all__ = [
    "PAIRWISE", "POINTWISE", "Brevity", "CorrectedMean", "Criterion", "ExactMatch", "HuggingFaceMetric", "Judge",
    "Judgement", "JudgementError", "Preference", "Rouge", "Shot", "Spent", "corrected_mean", "cost", "latency",
    "normalize", "output_tokens", "range_of", "split_sentences", "token_f1", "tool_call",
]  # fmt: skip
