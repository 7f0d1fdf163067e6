"""Checks of arguments. Every function raises InvalidArgumentError with the expected form of the argument."""

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from asktell._util.extras import own_version
from asktell.errors import InvalidArgumentError, InvalidStateError
from asktell.numerics.arrays import Floats

LARGEST = 1e100
MOST_EVALUATIONS = 10**8
"""The largest budget of evaluations.

If the budget is only a cost, a selection has this budget of evaluations, or all possible evaluations if they are fewer.
"""
MOST_EXAMPLES = 10**7
MOST_REPEATS = 10**6
# Bounds of the sizes of numbers. Within them, squares and sums of scores in units of
# their range stay finite.
SMALLEST_RANGE = 1e-50
# In any currency. A smaller cost counts as free, so that gains per cost stay finite.
SMALLEST_COST = 1e-50

_MOST = 2**63 - 1  # a 64-bit integer
_SHOWN = 20
_COMPARED = 1000  # known names that are compared with a misspelt name
_LONGEST_COMPARED = 200  # characters of such a name, because the time is quadratic


def exact(number: float) -> str:
    """Return the shortest usual text that only this number has: 2, 0.5, 1.0000001."""
    text = f"{number:g}"
    return text if float(text) == number else repr(float(number))


def short(item: object) -> str:
    """A value as text for a message: its repr, cut to 60 characters. It never fails, even for very long values."""
    try:
        text = repr(item)
    except (RecursionError, ValueError):
        # Python writes no more than sys.get_int_max_str_digits() digits
        text = f"<{type(item).__name__}>"
    return text if len(text) <= 60 else text[:57] + "..."


class MalformedError(InvalidStateError):
    """Saved data are malformed. `asktell.problem.formats.checked` adds the name of the data and the remedy."""


DAMAGED = (
    "If a newer asktell wrote it, upgrade asktell. Otherwise it is damaged or incomplete, so use a backup or another "
    "copy."
)
"""The remedy for saved data that cannot be read."""


def check_format(
    what: str, data: Mapping[str, Any], name: str, version: int, writer: object = None
) -> None:
    """Check that data have a format, in the version that this asktell reads.

    `writer` is the version of asktell that wrote the data. None: the value of "asktell"
    in the data.

    Raises:
        InvalidStateError: the format or its version is different. The message asks for
            an upgrade if it is newer.
    """
    if data.get("format") != name:
        raise InvalidStateError(
            f"{what} must have the format {name!r}, but its format is {short(data.get('format'))}. Check that you load "
            "the right data."
        )
    came, writer = (
        data.get("version"),
        data.get("asktell") if writer is None else writer,
    )
    if type(came) is int and came > version:
        by = f"asktell {str(writer)[:40]}" if writer else "a newer asktell"
        raise InvalidStateError(
            f"{what} was written by {by}, in version {short(came)} of the format. This is asktell {own_version()}, "
            f"which reads version {version}. Upgrade asktell."
        )
    if type(came) is not int or came != version:
        raise InvalidStateError(
            f"{what} has version {short(came)}, but this asktell reads version {version}. {DAMAGED}"
        )


def some(items: Sequence[object]) -> str:
    """Several values as text for a message: the first 20, and the number of all values if there are more."""
    shown = ", ".join(short(item) for item in items[:_SHOWN])
    return shown + (f", ... ({len(items)} in all)" if len(items) > _SHOWN else "")


def nearest(name: object, known: Collection[object]) -> str:
    """A suggestion for a message about an unknown name, such as " (did you mean 'accuracy'?)".

    Empty if no known name is similar.

    Args:
        name: the unknown name.
        known: the names that would be right.
    """
    import difflib

    names = {
        other.lower(): other
        for other in itertools.islice(known, _COMPARED)
        if isinstance(other, str) and len(other) <= _LONGEST_COMPARED
    }
    close = (
        difflib.get_close_matches(name.lower(), names, 1)
        if isinstance(name, str) and len(name) <= _LONGEST_COMPARED
        else []
    )
    return f" (did you mean {short(names[close[0]])}?)" if close else ""


def check_prompts(prompts: object) -> tuple[list[str] | None, list[str]]:
    """Return the ids (None: positions) and the texts of the prompts."""
    if isinstance(prompts, Mapping):
        ids, texts = list(prompts), list(prompts.values())
        if wrong := [id_ for id_ in ids if not isinstance(id_, str)]:
            raise InvalidArgumentError(
                f"The ids of prompts must be texts, got {short(wrong[0])}. Use texts as keys, or pass a list."
            )
    elif isinstance(prompts, Sequence) and not isinstance(prompts, (str, bytes)):
        ids, texts = None, list(prompts)
    else:
        raise InvalidArgumentError(
            f"prompts must be a list of texts, or a mapping from id to text, got {short(prompts)}."
        )
    if not texts:
        raise InvalidArgumentError("prompts is empty. Give at least one prompt.")
    places: dict[str, list[object]] = {}
    for name, text in zip(ids or range(len(texts)), texts, strict=True):
        if not isinstance(text, str):
            raise InvalidArgumentError(
                f"Prompt {name!r} must be text, got {short(text)}."
            )
        places.setdefault(text, []).append(name)
    if len(places) < len(texts):
        twice = [
            f"the prompts {names} are all {short(text)}"
            for text, names in places.items()
            if len(names) > 1
        ]
        listed = "; ".join(twice[:5])
        raise InvalidArgumentError(
            f"A prompt is given more than once: {listed}. Remove the duplicates."
        )
    return ids, texts


def check_features(
    features: npt.ArrayLike, n_arms: int
) -> Float[Floats, "arms features"]:
    """Return the features as a read-only array of finite floats."""
    try:
        matrix = np.array(features, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(
            f"features must be numbers, in one row per prompt, all of the same length. Got {short(features)}."
        ) from error
    if matrix.ndim != 2 or len(matrix) != n_arms or matrix.shape[1] == 0:
        raise InvalidArgumentError(
            f"features must have {n_arms} rows, one for each prompt, and at least one column. Got the shape "
            f"{matrix.shape}."
        )
    bad = np.argwhere(~(np.abs(matrix) <= LARGEST))
    if len(bad):
        row, column = bad[0].tolist()
        raise InvalidArgumentError(
            f"features must be numbers from -{LARGEST} to {LARGEST}. Got {matrix[row, column]} in row {row}, "
            f"column {column}. Rows and columns count from 0."
        )
    matrix.flags.writeable = False
    return matrix


def check_trials(what: str, trials: object) -> frozenset[int]:
    """Return the ids of trials in any collection."""
    if not isinstance(trials, Collection) or isinstance(trials, (str, bytes)):
        raise InvalidArgumentError(
            f"{what} must be a collection of the ids of trials, got {short(trials)}."
        )
    for trial in trials:
        if isinstance(trial, bool) or not isinstance(trial, (int, np.integer)):
            raise InvalidArgumentError(
                f"{what} must contain ids of trials, which are whole numbers. Got {short(trial)}."
            )
    return frozenset(trials)


def finite(what: str, number: object) -> float:
    """Return a number, such as an item of an array, as a finite float."""
    if isinstance(number, (bool, str, bytes)) or not hasattr(number, "__float__"):
        raise InvalidArgumentError(
            f"{what} needs a number, got {short(number)} ({type(number).__name__})."
        )
    try:
        value = float(number)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not -LARGEST <= value <= LARGEST:
        raise InvalidArgumentError(
            f"{what} needs a single finite number of at most {LARGEST} in size, got {short(number)}."
        )
    return value


def check_cost(cost: object) -> float:
    """Return the cost as a finite float of at least 0. A cost below 1e-50 becomes 0."""
    value = finite("cost", cost)
    if value < 0:
        raise InvalidArgumentError(f"cost must be at least 0, got {short(value)}.")
    return value if value >= SMALLEST_COST else 0.0


def check_max_cost(name: str, cost: object) -> float:
    """Return a limit of costs as a finite float of at least 1e-50."""
    return check_number(name, cost, SMALLEST_COST, LARGEST)


def needed_cost(cost: object, max_cost: float | None) -> float | None:
    """Return the cost of a trial with scores. A budget of cost requires one."""
    if cost is None and max_cost is not None:
        raise InvalidArgumentError(
            f"The scores have no cost, but the budget is a cost of {max_cost:g}. Use tell(trial, scores, cost=...), or "
            "return 'cost' among the scores of an evaluator. A free evaluation has the cost 0. The scores were not "
            "recorded."
        )
    return None if cost is None else check_cost(cost)


def cause_of(error: BaseException) -> BaseException:
    """Return the error, but for tenacity's RetryError the error of the last attempt."""
    while (
        type(error).__name__ == "RetryError"
        and (attempt := getattr(error, "last_attempt", None)) is not None
    ):
        last = attempt.exception() if attempt.done() else None
        if last is None:  # it was tried again because of its return value
            break
        error = last
    return error


def in_words(error: BaseException) -> str:
    """An error as text, such as "ValueError: no number in the response". Use it as the reason of a failure."""
    error = cause_of(error)
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def check_reason(reason: object) -> str:
    """Return the reason of a failure or of a retirement as text."""
    if isinstance(reason, BaseException):
        return in_words(reason)
    if not isinstance(reason, str):
        raise InvalidArgumentError(
            f"The reason must be text or an instance of an exception, got {short(reason)}."
        )
    return reason


def whole(name: str, number: object, low: int, high: int = _MOST) -> int:
    """Check that an argument is a whole number from `low` to `high`, and return it as an int.

    Args:
        name: the name of the argument, for the message.
        number: the argument. True and False are refused.
        low: the lowest allowed number.
        high: the highest allowed number (default: the largest 64-bit integer).

    Raises:
        InvalidArgumentError: it is no such number.
    """
    if (
        isinstance(number, bool)
        or not isinstance(number, (int, np.integer))
        or not low <= number <= high
    ):
        is_open = high == _MOST and not (isinstance(number, int) and number > high)
        span = f"of at least {low}" if is_open else f"from {low:,} to {high:,}"
        raise InvalidArgumentError(
            f"{name} must be a whole number {span}, got {short(number)}."
        )
    return int(number)


def check_number(
    name: str, number: object, low: float, high: float, *, above: bool = False
) -> float:
    """Return the number as a float from low, or `above` it, to high. Bools are refused."""
    is_number = isinstance(number, int | float | np.number) and not isinstance(
        number, bool | np.complexfloating
    )
    if not is_number or not low <= number <= high or (above and number == low):  # type: ignore[operator]
        least = f"above {low:g} and at most" if above else f"from {low:g} to"
        raise InvalidArgumentError(
            f"{name} must be a number {least} {high:g}, got {short(number)}."
        )
    return float(number)  # type: ignore[arg-type]


def check_part(name: str, number: object) -> None:
    """Check for a number above 0 and below 1, such as a probability."""
    if (
        isinstance(number, bool)
        or not isinstance(number, int | float)
        or not 0 < number < 1
    ):
        raise InvalidArgumentError(
            f"{name} must be a number above 0 and below 1, such as 0.95, got {short(number)}."
        )


def check_name(what: str, name: object) -> str:
    """Check that the name is printable text of 1 to 200 characters, and return it."""
    if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable():
        raise InvalidArgumentError(
            f"{what} must be printable text of 1 to 200 characters, got {short(name)}."
        )
    return name


def check_seconds(name: str, number: object) -> float:
    """Return a time as finite seconds above 0."""
    return check_number(f"{name}, in seconds,", number, 0.0, 1e9, above=True)
