"""Helpers of the adapters: evaluate many items at once or in groups, convert scores to numbers, check numbers."""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, final

from asktell import EvaluatorError, InvalidArgumentError
from asktell.extend import in_words, real

_Item = TypeVar("_Item")
_Ready = TypeVar("_Ready")
_Found = TypeVar("_Found")


def grouped(
    items: Iterable[_Item], key: Callable[[_Item], Hashable]
) -> list[list[_Item]]:
    """The items grouped by key. Groups are in the order of their first items, and items keep their order."""
    groups: dict[Hashable, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return [*groups.values()]


def in_groups(
    items: Sequence[_Item],
    key: Callable[[_Item], Hashable],
    evaluate: Callable[[list[_Item]], Sequence[_Found]],
) -> list[_Found]:
    """Evaluate the items of one key at a time.

    Args:
        items: the items.
        key: returns the key of an item.
        evaluate: returns one result for each item of a group, in order.

    Returns:
        The results in the order of `items`.
    """
    outcomes: dict[int, _Found] = {}
    for places in grouped(range(len(items)), lambda place: key(items[place])):
        outcomes.update(
            zip(places, evaluate([items[place] for place in places]), strict=True)
        )
    return [outcomes[place] for place in range(len(items))]


def if_ready(
    items: Sequence[_Item],
    prepare: Callable[[_Item], _Ready],
    evaluate: Callable[[list[_Ready]], Sequence[_Found]],
) -> list[_Found | Exception]:
    """Prepare each item, and evaluate all prepared items at once.

    Returns:
        One result per item, in order. If `prepare(item)` raised an exception, the
        exception is the item's result.
    """
    ready: dict[int, _Ready] = {}
    outcomes: dict[int, _Found | Exception] = {}
    for place, item in enumerate(items):
        try:
            ready[place] = prepare(item)
        except Exception as error:
            outcomes[place] = error
    if ready:
        outcomes.update(zip(ready, evaluate([*ready.values()]), strict=True))
    return [outcomes[place] for place in range(len(items))]


def or_alone(
    evaluate: Callable[[list[_Item]], Sequence[_Found | Exception]], items: list[_Item]
) -> Sequence[_Found | Exception]:
    """Evaluate all items at once. If that raises an exception, evaluate each item alone.

    Returns:
        One result per item. If an item raises an exception even alone, the exception is
        its result.
    """
    try:
        return evaluate(items)
    except Exception as error:
        if len(items) == 1:
            return [error]
    outcomes: list[_Found | Exception] = []
    for item in items:
        outcomes.extend(or_alone(evaluate, [item]))
    return outcomes


@contextmanager
def failing(words: str) -> Iterator[None]:
    """Turn any exception inside the `with` block into an EvaluatorError: these words, then the exception."""
    try:
        yield
    except Exception as error:
        raise EvaluatorError(f"{words} {in_words(error)}") from error


def or_raise(found: _Found | Exception) -> _Found:
    """Return a result, or raise it if it is an exception."""
    if isinstance(found, Exception):
        raise found
    return found


@final
class Scores(dict[str, float]):
    """Scores by metric, with the `details` that a study stores, and the money `paid`.

    `paid` is None if the score "cost" is the money paid. It differs from "cost" if
    judges were paid, too, or if the response came from the cache.
    """

    def __init__(
        self,
        scores: Mapping[str, float],
        details: dict[str, Any],
        paid: float | None = None,
    ) -> None:
        super().__init__(scores)
        self.details = details
        self.paid = paid


def positive(name: str, number: float, unit: str = "") -> float:
    """Check that a number is finite and above 0, and return it.

    Args:
        name: name of the argument, for the message.
        number: the number.
        unit: further words for the message, such as " of seconds".

    Raises:
        InvalidArgumentError: the number is 0, negative, infinite or NaN.
    """
    if not 0 < number < math.inf:
        raise InvalidArgumentError(
            f"{name} must be a positive, finite number{unit}, got {number!r}."
        )
    return number


def check_dataset(
    selection: Any, examples: Sequence[Any], names_of: Callable[[Any], Iterable[Any]]
) -> None:
    """Check that the examples of an evaluator are those of a selection, as far as both have ids.

    Without this check, each score would be recorded for whatever example is at the same
    position. An evaluator may have more examples than the selection.

    Args:
        selection: a Selector or a Study.
        examples: the examples of the evaluator, in their order.
        names_of: returns the ids that an example may have in the selection. The first is
            its own id, or None if it has none.

    Raises:
        InvalidArgumentError: there are too few examples, or an example of the selection
            has another id, or is at another position.
    """
    ids, n = selection.example_ids, selection.result().n_examples
    if n is not None and len(examples) < n:
        raise InvalidArgumentError(
            f"The evaluator has {len(examples):,} examples, but the selection was made with {n:,}. Nothing was "
            "evaluated. Give the evaluator the same examples, or make the selection with "
            f"examples={len(examples)}."
        )
    offered = [tuple(names_of(example)) for example in examples]
    names = [[str(name) for name in few if name is not None] for few in offered]
    # Examples without ids may be named by the numbers of their lines, which say nothing
    # about ids of another kind. Nor does a column "id" that the ids may not be made of.
    has_no_ids = all(few[0] is None or str(few[0]).isdecimal() for few in offered)
    if ids is None or (
        has_no_ids and set(ids).isdisjoint(name for few in names for name in few)
    ):
        return
    for position, (id_, few) in enumerate(zip(ids, names, strict=False)):
        if few and id_ not in few:
            elsewhere = next((i for i, few in enumerate(names) if id_ in few), None)
            where = (
                "has no example with this id"
                if elsewhere is None
                else f"has it at position {elsewhere}"
            )
            raise InvalidArgumentError(
                f"The selection has the example {id_!r:.100} at position {position}, but the evaluator {where}. At "
                f"position {position}, it has {few[0]!r:.100}. Nothing was evaluated. Give the evaluator the same "
                "examples in the same order, or give each Example the id that it has in the selection."
            )


def checked_example(example: int | None, n: int) -> int:
    """Check that a trial's example is an index of the evaluator's n examples, and return it.

    Raises:
        InvalidArgumentError: the trial has no example, or the index is out of range. The
            selector was then made for another dataset.
    """
    if example is None or not 0 <= example < n:
        raise InvalidArgumentError(
            f"Got a trial with example {example!r}, but the evaluator has {n:,} examples, numbered from 0. Make the "
            f"selector with examples={n}."
        )
    return example


def plain(value: Any) -> Any:
    """Convert scalars of numpy and torch to Python numbers. Return any other value as it is."""
    item = getattr(value, "item", None)
    return item() if callable(item) and getattr(value, "size", 1) in (1, ()) else value


def number(metric: str, value: object) -> float:
    """The score of a metric as a float. Numbers of numpy are accepted, and True and False are 1 and 0.

    Raises:
        EvaluatorError: the value is not a finite number.
    """
    if value is None:
        raise EvaluatorError(f"the metric {metric!r} returned None instead of a number")
    score = real(value)
    if score is None:
        raise EvaluatorError(
            f"the metric {metric!r} returned {value!r:.100}, which is not a number"
        )
    if not math.isfinite(score):
        raise EvaluatorError(
            f"the metric {metric!r} returned {score}, which is not a finite number"
        )
    return score
