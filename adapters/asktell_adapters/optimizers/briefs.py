"""The interface of prompt writers. A writer is a callable from a `Brief` to texts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from asktell import PromptResult
from asktell.extend import Goal


@dataclass(frozen=True)
class FailedExample:
    """An example on which the best parent scores badly.

    Attributes:
        position: position of the example in the dataset, counting from 0.
        id: id of the example in the dataset. None if the examples have no ids.
        scores: scores of the best parent on the example, in the units of the metrics.
        answer: response of the model. None unless the study keeps details of
            evaluations.
        example: the example itself. None unless `improve` got the dataset as
            `examples`.
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
        generation: number of the generation to write. Generation 0 has the prompts that
            the study was created with.
        n: number of texts wanted. Further texts are dropped, and fewer texts are
            accepted.
        goal: the goal of the selection.
        parents: the prompts to improve on, best first.
        failures: the examples on which the best parent scores worst, worst first.
        tried: all earlier texts, so that a writer can avoid them.
    """

    generation: int
    n: int
    goal: Goal
    parents: tuple[PromptResult, ...] = ()
    failures: tuple[FailedExample, ...] = ()
    tried: tuple[str, ...] = ()


Writer: TypeAlias = Callable[[Brief], Sequence[str]]
"""A function that writes prompts.

If it returns the same texts for the same brief, a loop that resumes after a crash ends as it would have without one.
"""
