"""The interface of prompt writers: a callable from a `Brief` to texts."""

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
    """The task of a writer.

    Attributes:
        generation: the number of the generation to write; 0 is the first.
        n: number of texts wanted; extra texts are dropped, fewer are fine.
        goal: the goal of the selection.
        parents: the prompts to improve on, best first; none for the first generation.
        failures: the examples on which the best parent scores worst, worst first.
        tried: every text so far, so that none is written again.
    """

    generation: int
    n: int
    goal: Goal
    parents: tuple[PromptResult, ...] = ()
    failures: tuple[FailedExample, ...] = ()
    tried: tuple[str, ...] = ()


Writer: TypeAlias = Callable[[Brief], Sequence[str]]
"""Writes prompts. The same for the same brief, if a loop that was killed is to end as one that was not."""
