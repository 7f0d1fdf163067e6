"""What a writer of prompts is told, and what it is: a callable from a `Brief` to texts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from asktell import PromptResult
from asktell.extend import Goal


@dataclass(frozen=True)
class FailedExample:
    """An example on which the best parent does badly.

    `position` is that in the data set, `id` its id there (None: it has none), `scores` what the parent got, in the
    metrics' own units, `answer` what the model said, where the study keeps details. `example` is the example itself,
    where `improve` was given the data set.
    """

    position: int
    id: str | None
    scores: Mapping[str, float]
    answer: str | None = None
    example: Any = None


@dataclass(frozen=True)
class Brief:
    """What to write.

    Attributes:
        generation: the number of the one that is to be written; 0 is the first.
        n: texts wanted; more are cut, fewer are fine.
        goal: what the prompts are judged by.
        parents: the prompts to improve on, best first; none for the first generation.
        failures: where the best parent does worst, worst first.
        tried: every text so far, which need not be written again.
    """

    generation: int
    n: int
    goal: Goal
    parents: tuple[PromptResult, ...] = ()
    failures: tuple[FailedExample, ...] = ()
    tried: tuple[str, ...] = ()


Writer: TypeAlias = Callable[[Brief], Sequence[str]]
"""Writes prompts. The same for the same brief, if a loop that was killed is to end as one that was not."""
