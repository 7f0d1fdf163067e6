"""Scores with names are read by name, and what is no real number is refused."""

import datetime as dt
import sqlite3
from collections import namedtuple
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

import asktell
from asktell import ParetoSet, Selector
from asktell.errors import InvalidArgumentError, InvalidScoresError
from asktell.extend import real
from asktell.problem.scores import by_name

GOAL = ParetoSet("a", "b")


class Row(NamedTuple):
    b: float
    a: float


@dataclass
class Data:
    b: float
    a: float
    more: str = "text"


def sqlite_row(sql: str = "SELECT 0.2 AS b, 0.7 AS a") -> sqlite3.Row:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    row: sqlite3.Row = connection.execute(sql).fetchone()
    connection.close()
    return row


def pydantic_model() -> object:
    pydantic = pytest.importorskip("pydantic")
    return pydantic.create_model("Model", b=(float, 0.2), a=(float, 0.7))()


def attrs_object() -> object:
    attrs = pytest.importorskip("attrs")
    return attrs.make_class("Attrs", ["b", "a"])(0.2, 0.7)


STRUCTURED = np.array([(0.2, 0.7)], dtype=[("b", float), ("a", float)])


@pytest.mark.parametrize(
    "scores",
    [
        Row(b=0.2, a=0.7),
        namedtuple("Other", "index b a")(3, 0.2, 0.7),
        Data(0.2, 0.7),
        sqlite_row(),
        STRUCTURED[0],
        STRUCTURED[0:1].reshape(()),
        np.rec.array(STRUCTURED)[0],
    ],
    ids=lambda scores: type(scores).__name__,
)
def test_scores_with_names_are_read_by_name(scores: Any) -> None:
    are_read_by_name(scores)


def test_rows_of_frames_are_read_by_name() -> None:
    import pandas as pd

    frame = pd.DataFrame({"b": [0.2], "a": [0.7]})
    are_read_by_name(next(frame.itertuples()))
    are_read_by_name(next(frame.itertuples(index=False)))
    are_read_by_name(frame.iloc[0])
    are_read_by_name(next(frame.iterrows())[1])


def are_read_by_name(scores: Any) -> None:
    assert GOAL.vector(scores) == (0.7, 0.2)
    selector = Selector(["x", "y"], GOAL, 4, examples=2)
    selector.tell(selector.ask(1)[0], scores)
    assert next(iter(selector.evaluations())).scores == {"a": 0.7, "b": 0.2}
    asktell.run(selector, lambda prompt, example: scores, progress=False)
    assert {tuple(e.scores.values()) for e in selector.evaluations() if e.scores} == {
        (0.7, 0.2)
    }


@pytest.mark.parametrize("make", [pydantic_model, attrs_object])
def test_objects_with_fields_are_read_by_name(make: Any) -> None:
    assert GOAL.vector(make()) == (0.7, 0.2)


@pytest.mark.parametrize(
    "scores",
    [
        namedtuple("Two", "x y")(0.2, 0.7),
        sqlite_row("SELECT 0.2, 0.7"),
        STRUCTURED,
        np.array([(0.2, 0.7)], dtype=[("x", float), ("y", float)])[0],
    ],
    ids=lambda scores: type(scores).__name__,
)
def test_other_names_are_refused(scores: Any) -> None:
    with pytest.raises(InvalidScoresError):
        GOAL.vector(scores)


def test_other_names_of_frames_are_refused() -> None:
    import pandas as pd

    for scores in (
        pd.Series([0.2, 0.7], index=["x", "y"]),
        pd.Series([0.2, 0.7], index=[1, 0]),
        pd.DataFrame({"b": [0.2, 0.3], "a": [0.7, 0.8]}),
    ):
        with pytest.raises(InvalidScoresError):
            GOAL.vector(scores)


def test_two_columns_with_one_name_are_refused() -> None:
    with pytest.raises(InvalidScoresError, match="same name"):
        GOAL.vector(sqlite_row("SELECT 0.2 AS a, 0.7 AS a, 0.1 AS b"))


def test_scores_without_names_keep_their_order() -> None:
    import pandas as pd

    numbered = pd.Series([0.7, 0.2])
    for scores in ([0.7, 0.2], (0.7, 0.2), np.array([0.7, 0.2]), numbered):
        assert GOAL.vector(scores) == (0.7, 0.2)
    assert by_name(0.5) == 0.5


def test_scores_and_cost_of_proxies_are_read_by_name() -> None:
    class Judged(NamedTuple):
        cost: float
        judge: float
        a: float
        b: float

    selector = Selector(
        ["x", "y"], GOAL, asktell.Budget(4, cost=9.0), examples=2, proxies=["judge"]
    )
    asktell.run(selector, lambda p, e: Judged(0.5, 0.9, 0.7, 0.2), progress=False)
    assert selector.spent_cost == 0.5 * selector.spent > 0
    assert selector.result().prompts[0].proxies == {"judge": pytest.approx(0.9)}


NO_NUMBERS = [
    1j,
    0.5 + 0j,
    np.complex64(0.5),
    np.complex128(0.5 + 3j),
    np.clongdouble(0.5),
    np.array(0.5 + 0j),
    dt.timedelta(1),
    dt.datetime(2026, 1, 1),
    dt.date(2026, 1, 1),
    *(np.timedelta64(1500, unit) for unit in ("Y", "D", "s", "ms", "us", "ns", "as")),
    np.timedelta64(5),
    *(np.datetime64(1, unit) for unit in ("D", "ms", "ns")),
    "0.5",
    np.str_("0.5"),
    np.array("0.5"),
    np.array("0.5", dtype=object),
    b"0.5",
    np.bytes_(b"0.5"),
    bytearray(b"1"),
    [0.5],
    {},
]


@pytest.mark.parametrize("item", NO_NUMBERS, ids=repr)
def test_what_is_no_real_number_is_refused(item: Any) -> None:
    is_refused(item)


def test_times_of_pandas_are_no_real_numbers() -> None:
    import pandas as pd

    is_refused(pd.Timedelta("1s"))
    is_refused(pd.Timestamp("2026"))


def is_refused(item: Any) -> None:
    assert real(item) is None
    for scores in ({"a": item, "b": 0.5}, [item, 0.5]):
        with pytest.raises(InvalidScoresError, match="'a' must be a number"):
            GOAL.vector(scores)
    one = asktell.BestFeasible("a")
    with pytest.raises(InvalidScoresError):
        one.vector([item] if isinstance(item, list) else item)
    selector = Selector(["x", "y"], one, asktell.Budget(cost=5), examples=2)
    trial = selector.ask()
    assert trial is not None
    with pytest.raises(InvalidArgumentError):
        selector.tell(trial, 0.5, cost=item)
    with pytest.raises(InvalidArgumentError):
        asktell.at_least(item)
    assert selector.pending == [trial]


@pytest.mark.parametrize(
    "kind", ["timedelta64[ns]", "timedelta64[ms]", "datetime64[ns]", "complex64", "U3"]
)
def test_arrays_of_other_kinds_are_refused(kind: str) -> None:
    array = np.array([1, 2]).astype(kind)
    with pytest.raises(InvalidScoresError, match="must be a number"):
        GOAL.vector(array)


@pytest.mark.parametrize(
    "item",
    [
        1,
        True,
        np.True_,
        np.int8(1),
        np.uint64(1),
        np.float16(1),
        np.float32(1),
        np.longdouble(1),
        np.array(1.0),
        Decimal(1),
        Fraction(1),
    ],
    ids=repr,
)
def test_real_numbers_of_any_kind_are_scores(item: Any) -> None:
    assert GOAL.vector([item, item]) == (1.0, 1.0)
    assert asktell.BestFeasible("a").vector(item) == (1.0,)


@pytest.mark.parametrize("item", [float("nan"), np.float32("inf"), Decimal("NaN"), 10**400])  # fmt: skip
def test_numbers_that_are_not_finite_are_refused(item: Any) -> None:
    with pytest.raises(InvalidScoresError, match="finite number"):
        GOAL.vector([item, 0.5])
