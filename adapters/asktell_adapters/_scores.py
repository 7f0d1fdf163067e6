"""What adapters have in common: many at once, in groups or one by one; scores as numbers; checks of numbers."""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Real
from typing import Any, TypeVar, final

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import in_words

_Item = TypeVar("_Item")
_Ready = TypeVar("_Ready")
_Found = TypeVar("_Found")


def grouped(items: Iterable[_Item], key: Callable[[_Item], Hashable]) -> list[list[_Item]]:
    """The items of each key, in the order in which keys and items come first."""
    groups: dict[Hashable, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return [*groups.values()]


def in_groups(
    items: Sequence[_Item], key: Callable[[_Item], Hashable], evaluate: Callable[[list[_Item]], Sequence[_Found]]
) -> list[_Found]:
    """What `evaluate(items of one key)` finds for each of them, in the order of all items."""
    found: dict[int, _Found] = {}
    for places in grouped(range(len(items)), lambda place: key(items[place])):
        found.update(zip(places, evaluate([items[place] for place in places]), strict=True))
    return [found[place] for place in range(len(items))]


def if_ready(
    items: Sequence[_Item], prepare: Callable[[_Item], _Ready], evaluate: Callable[[list[_Ready]], Sequence[_Found]]
) -> list[_Found | Exception]:
    """What `evaluate(what was prepared)` finds for each item; where `prepare(item)` raised, the exception."""
    ready: dict[int, _Ready] = {}
    found: dict[int, _Found | Exception] = {}
    for place, item in enumerate(items):
        try:
            ready[place] = prepare(item)
        except Exception as error:
            found[place] = error
    if ready:
        found.update(zip(ready, evaluate([*ready.values()]), strict=True))
    return [found[place] for place in range(len(items))]


def or_alone(
    evaluate: Callable[[list[_Item]], Sequence[_Found | Exception]], items: list[_Item]
) -> Sequence[_Found | Exception]:
    """What `evaluate(items)` finds; where that raises, what it finds for each item alone, or the exception."""
    try:
        return evaluate(items)
    except Exception as error:
        return [error] if len(items) == 1 else [found for item in items for found in or_alone(evaluate, [item])]


@contextmanager
def failing(words: str) -> Iterator[None]:
    """Whatever is raised is an evaluation's failure: these words, then what it was."""
    try:
        yield
    except Exception as error:
        raise EvaluatorError(f"{words} {in_words(error)}") from error


def or_raise(found: _Found | Exception) -> _Found:
    """What was found; an exception is raised."""
    if isinstance(found, Exception):
        raise found
    return found


@final
class Scores(dict[str, float]):
    """Scores with the `details` that a study keeps, and the money `paid`, if "cost" is not all."""

    def __init__(self, scores: Mapping[str, float], details: dict[str, Any], paid: float | None = None) -> None:
        super().__init__(scores)
        self.details = details
        self.paid = paid


def positive(name: str, number: float, unit: str = "") -> float:
    """The number, which must be finite and above 0."""
    if not 0 < number < math.inf:
        raise InvalidArgumentError(f"{name} must be a positive number{unit}, got {number!r}.")
    return number


def checked_example(example: int | None, n: int) -> int:
    """A trial's example, as an index of the n that there are."""
    if example is None or not 0 <= example < n:
        raise InvalidArgumentError(
            f"The trial's example is {example!r}, but there are {n}: make the selector with examples={n}."
        )
    return example


def plain(value: object) -> object:
    """Scalars of numpy and torch as Python's; anything else as it is."""
    item = getattr(value, "item", None)
    return item() if callable(item) and getattr(value, "size", 1) in (1, ()) else value


def number(metric: str, value: object) -> float:
    """A finite score: numbers (numpy's too), True and False as 1 and 0."""
    if value is None:
        raise EvaluatorError(f"the metric {metric!r} gave no score")
    value = plain(value)
    if not isinstance(value, Real):
        raise EvaluatorError(f"the metric {metric!r} gave {value!r:.100}, which is no number")
    score = float(value)
    if not math.isfinite(score):
        raise EvaluatorError(f"the metric {metric!r} gave {score}")
    return score
