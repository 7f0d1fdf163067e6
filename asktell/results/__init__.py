"""What a selection says at any time: the answer, what is known about every prompt, how two of them differ, pictures."""

from asktell.results.comparison import Comparison, Difference
from asktell.results.entries import PromptResult
from asktell.results.result import Result

__all__ = ["Comparison", "Difference", "PromptResult", "Result"]
