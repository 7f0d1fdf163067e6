"""Checks of arguments. Every function raises InvalidArgumentError with the expected form of the argument."""

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from asktell.errors import InvalidArgumentError, InvalidStateError
from asktell.problem.words import in_words, short

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
# Values that are no numbers, although float() converts some of them
_NO_NUMBERS = (str, bytes, bytearray, complex)
# Kinds of numpy: complex numbers, durations, dates, bytes and two kinds of text
_NO_REAL_KINDS = frozenset("cmMSUT")
# Bools, signed and unsigned whole numbers, floats and text
_PLAIN_KINDS = frozenset("biufU")


class MalformedError(InvalidStateError):
    """Saved data are malformed. `asktell.problem.formats.checked` adds the name of the data and the remedy."""


DAMAGED = (
    "If a newer asktell wrote it, upgrade asktell. Otherwise it is damaged or incomplete, so use a backup or another "
    "copy."
)
"""The remedy for saved data that cannot be read."""


def own_version() -> str:
    """The version of asktell, or "unknown" in a checkout that is not installed."""
    # Imported here, to keep the import of asktell light.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("asktell")
    except PackageNotFoundError:
        return "unknown"


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
    came = data.get("version")
    writer = data.get("asktell") if writer is None else writer
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
    ids = None if ids is None else [plain(id_) for id_ in ids]
    texts = [plain(text) for text in texts]
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


def real(number: object) -> float | None:
    """Return a real number of any kind as a float, such as one of numpy, a decimal, or a tensor of one number.

    NaN stands for a number that no float can represent, and for several numbers. None:
    it is no real number, but for example text, a complex number, a date or a duration.

    Args:
        number: any object.
    """
    # numpy converts complex numbers, dates and durations of some units, and text
    dtype = getattr(number, "dtype", None)
    kind = getattr(dtype, "kind", None)
    n_dimensions = getattr(number, "ndim", None)
    if kind == "O" and n_dimensions == 0:
        return real(number.item())  # type: ignore[attr-defined]  # an array has it
    # The only item of an array, which numpy's next versions do not convert
    if kind is not None and n_dimensions and getattr(number, "size", None) == 1:
        return real(number.reshape(())[()])  # type: ignore[attr-defined]  # likewise
    is_other = (
        isinstance(number, _NO_NUMBERS)
        or kind in _NO_REAL_KINDS
        or getattr(dtype, "names", None) is not None
        or getattr(dtype, "is_complex", False)
    )
    if is_other or not (hasattr(number, "__float__") or hasattr(number, "__index__")):
        return None
    try:
        return float(number)  # type: ignore[arg-type]
    except (TypeError, ValueError, ArithmeticError, RuntimeError):
        return math.nan


def plain(value: Any) -> Any:
    """Return a scalar of numpy as a plain bool, int, float or text. Any other value is returned as it is."""
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind is None or kind not in _PLAIN_KINDS or getattr(value, "ndim", None) != 0:
        return value
    # An item of extended precision is still of numpy
    return float(value.item()) if kind == "f" else value.item()


def is_bool(value: object) -> bool:
    """True if a value is True or False, of Python or numpy."""
    # numpy's own have a kind, and are not imported here, so that commands start fast
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    return isinstance(value, bool) or (kind == "b" and not hasattr(value, "__len__"))


def finite(what: str, number: object) -> float:
    """Return a number, such as an item of an array, as a finite float. True and False are refused."""
    value = None if is_bool(number) else real(number)
    if value is None:
        raise InvalidArgumentError(
            f"{what} needs a number, got {short(number)} ({type(number).__name__})."
        )
    if not -LARGEST <= value <= LARGEST:
        raise InvalidArgumentError(
            f"{what} needs a single finite number of at most {LARGEST} in size, got {short(number)}."
        )
    return value


def check_cost(cost: object) -> float | None:
    """Return a cost as a finite float of at least 0, or None if it is unknown: None or NaN.

    It may be any real number: of Python, `decimal` or `fractions`, or an array or a
    tensor of one number. A cost below 1e-50 becomes 0.

    Raises:
        InvalidArgumentError: it is no such number, is negative, or is above 1e100.
    """
    if cost is None:
        return None
    value = None if _is_bool(cost) else real(cost)
    if value is None or (math.isnan(value) and not is_nan(cost)):
        cure = " Convert text with float()." if isinstance(cost, str | bytes) else ""
        raise InvalidArgumentError(
            f"cost must be a number of at least 0, got {short(cost)} ({type(cost).__name__}).{cure}"
        )
    if math.isnan(value):
        return None
    if not 0 <= value <= LARGEST:
        bound = "at least 0" if value < 0 else f"at most {LARGEST:g}"
        raise InvalidArgumentError(f"cost must be {bound}, got {short(cost)}.")
    return value if value >= SMALLEST_COST else 0.0


def _is_bool(number: Any) -> bool:
    """True if an object is a truth value of any library."""
    is_scalar = getattr(number, "shape", None) == () and hasattr(number, "item")
    return isinstance(number.item() if is_scalar else number, bool)


def is_nan(number: Any) -> bool:
    """True if an object is the number NaN. `real` returns NaN for several numbers, too."""
    try:
        return bool(number != number) or math.isnan(number)
    except (TypeError, ValueError, ArithmeticError, RuntimeError):
        return False


def check_max_cost(name: str, cost: object) -> float:
    """Return a limit of costs as a finite float of at least 1e-50."""
    return check_number(name, cost, SMALLEST_COST, LARGEST)


def needed_cost(cost: object, max_cost: float | None) -> float | None:
    """Return the cost of a trial with scores, as `check_cost` does. A budget of cost requires a known cost.

    Raises:
        InvalidArgumentError: the cost is invalid, or unknown although the budget is a
            cost.
    """
    value = check_cost(cost)
    if value is None and max_cost is not None:
        what = "have no cost" if cost is None else "have the cost NaN"
        raise InvalidArgumentError(
            f"The scores {what}, but the budget is a cost of {max_cost:g}. Use tell(trial, scores, cost=...), or "
            "return 'cost' among the scores of an evaluator. A free evaluation has the cost 0. The scores were not "
            "recorded."
        )
    return value


def check_reason(reason: object) -> str:
    """Return the reason of a failure or of a retirement as text."""
    if isinstance(reason, BaseException):
        return in_words(reason)
    if not isinstance(reason, str):
        raise InvalidArgumentError(
            f"The reason must be text or an instance of an exception, got {short(reason)}."
        )
    return str(reason)


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
    value = as_integer(number)
    if value is None or not low <= value <= high:
        is_open = high == _MOST and not (value is not None and value > high)
        span = f"of at least {low}" if is_open else f"from {low:,} to {high:,}"
        raise InvalidArgumentError(
            f"{name} must be a whole number {span}, got {short(number)}."
        )
    return value


def as_integer(number: object) -> int | None:
    """Return a whole number of Python, numpy or a tensor as an int. None if it is no such number, or a bool."""
    if is_bool(number):
        return None
    try:
        return operator.index(number)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        return None


def check_number(
    name: str, number: object, low: float, high: float, *, above: bool = False
) -> float:
    """Return the number as a float from low, or `above` it, to high. Bools are refused."""
    value = None if is_bool(number) else real(number)
    if value is None or not low <= value <= high or (above and value == low):
        least = f"above {low:g} and at most" if above else f"from {low:g} to"
        raise InvalidArgumentError(
            f"{name} must be a number {least} {high:g}, got {short(number)}."
        )
    return value


def check_part(name: str, number: object) -> float:
    """Return a number above 0 and below 1, such as a probability, as a float."""
    value = None if is_bool(number) else real(number)
    if value is None or not 0 < value < 1:
        raise InvalidArgumentError(
            f"{name} must be a number above 0 and below 1, such as 0.95, got {short(number)}."
        )
    return value


def check_texts(
    name: str, given: Iterable[object], n_examples: int | None
) -> list[str]:
    """The texts of the first examples, such as their inputs. `name`: the argument.

    Raises:
        InvalidArgumentError: one is no text, or there are more texts than examples.
    """
    texts = list(given)
    if n_examples is not None and len(texts) > n_examples:
        raise InvalidArgumentError(
            f"`{name}` has {len(texts):,} texts, but there are {n_examples:,} examples. Give one text for each "
            "example, in the order of the examples."
        )
    for text in texts:
        if not isinstance(text, str):
            raise InvalidArgumentError(
                f"`{name}` needs the text of each example, but got {short(text)}."
            )
    return [str(text) for text in texts]


def check_flag(name: str, value: object) -> bool:
    """Return True or False, of Python or numpy, as a bool."""
    if not is_bool(value):
        raise InvalidArgumentError(f"{name} must be True or False, got {short(value)}.")
    return bool(value)


def check_name(what: str, name: object) -> str:
    """Check that the name is printable text of 1 to 200 characters, and return it."""
    if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable():
        raise InvalidArgumentError(
            f"{what} must be printable text of 1 to 200 characters, got {short(name)}."
        )
    return str(name)
