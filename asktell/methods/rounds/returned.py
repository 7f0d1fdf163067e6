"""Checks of what the parts of an elimination method return: shapes, whole numbers, finite means.

A wrong row would select a wrong prompt without a word. So every value of a part is
checked before it is used, whether the part is asktell's or a user's: the base class of
each part has a method that returns the checked value. The contracts in
`asktell.testing` use the same methods.
"""

from typing import Any, NoReturn

import numpy as np

from asktell.errors import IncompatibleMethodError
from asktell.numerics.arrays import Floats, Ints
from asktell.problem.words import short


def refuse(part: object, method: str, came: str, expected: str) -> NoReturn:
    """Raise the error for a wrong value that a method of a part returned."""
    raise IncompatibleMethodError(
        f"{type(part).__name__}.{method} {came}. Expected {expected}. Correct the method {method}. The contracts in "
        "asktell.testing test it."
    )


def numbers(values: Any) -> Floats | None:
    """The values as floats. None if they are no real numbers."""
    try:
        array = np.asarray(values)
        return array.astype(np.float64) if array.dtype.kind in "biuf" else None
    except (TypeError, ValueError):
        return None


def whole_numbers(values: Any) -> Ints | None:
    """The values as whole numbers. None if one of them is not whole."""
    array = numbers(values)
    if array is None or not np.isfinite(array).all() or (array % 1 != 0).any():
        return None
    return array.astype(np.int64)


def shown(values: Any) -> str:
    """Values for a message: an array by its shape, anything else as text."""
    shape = getattr(values, "shape", None)
    return short(values) if shape is None else f"{short(values)} of the shape {shape}"
