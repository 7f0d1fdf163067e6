"""The scores of one evaluation: numbers for the metrics of a goal, checked and in its order."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from asktell.errors import (
    InvalidScoresError,
)
from asktell.problem.checks import (
    LARGEST,
    is_nan,
    real,
)
from asktell.problem.words import exact, nearest, short, some

AnyScores: TypeAlias = Mapping[str, float] | Sequence[float] | float
"""Scores of one evaluation: by metric, in the order of the metrics, or a single one."""


# Rounding can put a score slightly outside its range. Up to this share of the range's
# width, it counts as the end.
_AT_THE_LIMIT = 1e-9


# Kinds of scores that need no look for names
_PLAIN = frozenset({dict, list, tuple, float, int})


# Where data classes, models of pydantic, structs of msgspec and classes of attrs list
# their fields
_FIELDS = (
    "__dataclass_fields__",
    "model_fields",
    "__struct_fields__",
    "__attrs_attrs__",
)


def by_name(scores: object) -> object:
    """Scores that have names, as a mapping from name to score. Other scores are returned as they are.

    A position would silently give a score to the wrong metric, for example if a row of
    a table has its columns in another order. Rows of data frames and databases, named
    tuples, data classes, models of pydantic, classes of attrs and structured scalars of
    numpy have names.
    """
    kind = type(scores)
    if kind in _PLAIN or isinstance(scores, Mapping | type):
        return scores
    names = getattr(getattr(scores, "dtype", None), "names", None)
    if names is not None and getattr(scores, "ndim", 0) == 0:
        return {name: scores[name] for name in names}  # type: ignore[index]
    if callable(getattr(scores, "_asdict", None)):
        return dict(scores._asdict())  # type: ignore[attr-defined]
    if hasattr(kind, "keys") and hasattr(kind, "__getitem__"):
        return _scores_by_key(scores)
    for attribute in _FIELDS:
        if fields := getattr(kind, attribute, None):
            fields = [getattr(field, "name", field) for field in fields]
            return {name: getattr(scores, name) for name in fields}
    return scores


def _scores_by_key(scores: Any) -> object:
    """The scores of an object with keys, such as a row of a database. A series that is only numbered is a list."""
    keys = list(scores.keys())
    by_key = {key: scores[key] for key in keys}
    if len(by_key) < len(keys):
        raise InvalidScoresError(
            f"Two scores have the same name. Got the names {some(keys)}. Give each column its own name."
        )
    return list(by_key.values()) if keys == list(range(len(keys))) else by_key


def ordered_scores(scores: object, metrics: Sequence[str]) -> list[Any]:
    """The scores in the order of the metrics, not checked one by one yet."""
    if type(scores) is float and len(metrics) == 1:
        return [scores]
    scores = by_name(scores)
    if isinstance(scores, np.ndarray) and scores.ndim:
        # Not `tolist`, which turns durations of some units into whole numbers
        scores = list(scores)
    if isinstance(scores, Mapping):
        if missing := [name for name in metrics if name not in scores]:
            unknown = [name for name in scores if name not in metrics]
            got = ""
            if unknown:
                got = f" Got [{some(unknown)}]{nearest(unknown[0], missing)}."
            raise InvalidScoresError(
                f"Scores must have the metrics {list(metrics)}, but they lack {missing}.{got}"
            )
        return [scores[name] for name in metrics]
    if isinstance(scores, Sequence) and not isinstance(
        scores, str | bytes | bytearray | memoryview
    ):
        if len(scores) != len(metrics):
            raise InvalidScoresError(
                f"Expected {len(metrics)} scores in the order {list(metrics)}, but the number of scores is "
                f"{len(scores)}. Pass one number per metric, or a mapping from metric to number."
            )
        return list(scores)
    if len(metrics) == 1 and real(scores) is not None:
        return [scores]
    bare = ", or a number" if len(metrics) == 1 else ""
    raise InvalidScoresError(
        f"Scores must be a mapping from metric to number, or a sequence in the order {list(metrics)}{bare}. Got "
        f"{short(scores)} ({type(scores).__name__})."
    )


def checked_score(name: str, item: Any, span: tuple[float, float] | None) -> float:
    """Check one score, and return it as a float."""
    # Nearly all scores are floats already.
    if type(item) is not float:
        value = real(item)
        if value is None:
            raise InvalidScoresError(
                f"The score of {name!r} must be a number, got {short(item)}."
            )
        if math.isnan(value) and not is_nan(item):
            raise InvalidScoresError(
                f"The score of {name!r} must be a single finite number of at most {LARGEST} in size. Got {short(item)}."
            )
        item = value
    if not -LARGEST <= item <= LARGEST:
        raise InvalidScoresError(
            f"The score of {name!r} must be a finite number of at most {LARGEST} in size. Got {short(item)}. "
            "If an evaluation has no score, report it with fail(), or raise an exception in the evaluator."
        )
    if span is not None and not span[0] <= item <= span[1]:
        rounding = _AT_THE_LIMIT * (span[1] - span[0])
        if not span[0] - rounding <= item <= span[1] + rounding:
            raise InvalidScoresError(
                f"The score of {name!r} must be within its range [{exact(span[0])}, {exact(span[1])}]. Got "
                f"{short(item)}. Check the scale of the metric."
            )
        item = min(max(item, span[0]), span[1])
    return item  # type: ignore[no-any-return]


def proxy_score(name: str, item: Any) -> float | None:
    """Check one score of a proxy. None and NaN stand for a missing score.

    Raises:
        InvalidScoresError: the score is not a number, or it is infinite.
    """
    is_missing = item is None or (isinstance(item, float) and math.isnan(item))
    return None if is_missing else checked_score(name, item, None)
