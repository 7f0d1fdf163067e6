"""Results of a selection at any time: the answer, estimates of every prompt, comparisons, plots."""

from asktell.results.checks import Check
from asktell.results.comparison import ChangedExample, Comparison, Noise
from asktell.results.difference import Difference
from asktell.results.entries import PromptResult
from asktell.results.examples import ExampleResult
from asktell.results.result import Result
from asktell.results.verdict import Outlook, Verdict

__all__ = [
    "ChangedExample",
    "Check",
    "Comparison",
    "Difference",
    "ExampleResult",
    "Noise",
    "Outlook",
    "PromptResult",
    "Result",
    "Verdict",
]
