"""Values, names and errors as words of a message."""

import contextlib
import itertools
import re
from collections.abc import Collection, Sequence

_SHOWN = 20
_COMPARED = 1000  # known names that are compared with a misspelt name
_MOST_CAUSES = 5  # errors of a chain that are searched for an HTTP status
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
        candidate.lower(): candidate
        for candidate in itertools.islice(known, _COMPARED)
        if isinstance(candidate, str) and len(candidate) <= _LONGEST_COMPARED
    }
    close = (
        difflib.get_close_matches(name.lower(), names, 1)
        if isinstance(name, str) and len(name) <= _LONGEST_COMPARED
        else []
    )
    return f" (did you mean {short(names[close[0]])}?)" if close else ""


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
    """An error as text, such as "ValueError: no number in the response". Use it as the reason of a failure.

    An HTTP status that is not in its message follows its type, as in "APIError (HTTP
    503): try again".
    """
    error = cause_of(error)
    status, text = _status_of(error), str(error)
    # Not as a part of a request id
    shown = re.search(rf"(?<![\w.-]){status}(?![\w-])", text)
    code = "" if status is None or shown else f" (HTTP {status})"
    return f"{type(error).__name__}{code}: {text}".removesuffix(": ")


def _status_of(error: BaseException) -> int | None:
    """The HTTP status of the response that caused an error, by the attributes that clients use. None without one."""
    cause: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if cause is None:
            break
        for path in ("status_code", "code", "response.status_code", "response.status"):
            value: object = cause
            for name in path.split("."):
                # A property of a client may raise an error without a response
                with contextlib.suppress(Exception):
                    value = getattr(value, name, None)
            if type(value) is int and 300 <= value <= 599:
                return value
        cause = cause.__cause__
    return None
