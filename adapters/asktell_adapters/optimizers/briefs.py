"""The interface of prompt writers. A writer is a callable from a `Brief` to texts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from asktell import PromptResult
from asktell.extend import Goal


@dataclass(frozen=True)
class FailedExample:
    """An example on which the best prompt of a `Brief` (the first of its `parents`) scores badly.

    Attributes:
        position: position of the example in the dataset, counting from 0.
        id: id of the example. None if the study was created without ids.
        scores: the scores of the best prompt on the example, by metric, in the units of
            the metrics.
        answer: the model's response to the example with the best prompt. None unless
            `improve` got a `Study` that stores responses.
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
    """The task of a writer: how many prompts to write, and what it can learn from.

    Attributes:
        generation: number of the generation to write. The first written generation has
            the number 1.
        n: number of prompts wanted. The writer may return fewer texts. If it returns
            more, the texts after the first n are dropped.
        goal: the goal of the selection, such as a `BestFeasible`.
        parents: the best prompts so far, best first, as `asktell.PromptResult` objects
            with text and estimates.
        failures: at most 8 examples on which the first of the parents scores worst,
            worst first.
        tried: the texts of all earlier prompts. `improve` drops a new text that is one
            of them.
    """

    generation: int
    n: int
    goal: Goal
    parents: tuple[PromptResult, ...] = ()
    failures: tuple[FailedExample, ...] = ()
    tried: tuple[str, ...] = ()


Writer: TypeAlias = Callable[[Brief], Sequence[str]]
"""A function from a `Brief` to a list with the texts of new prompts.

After a crash, `improve` continues when it is called again. If the crash came before the
new prompts were stored, the function is called again with the same `Brief`. If it then
returns the same texts, the crash does not change how `improve` ends.
"""
