"""Details of trials: what is exact in JSON is converted, and nothing else of a paid response is lost with the rest."""

import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import json
import logging
import pathlib
import uuid
from collections import namedtuple
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pytest

import asktell
from asktell import Selector, Study
from asktell.studies.details import encode
from asktell.studies.storages.memory import MemoryStorage


class Level(enum.Enum):
    HIGH = "high"


@dataclasses.dataclass
class Usage:
    tokens: int = 3
    seconds: float = 0.5


class Broken:
    def model_dump(self) -> None:
        raise RuntimeError("no")


Pair = namedtuple("Pair", "first second")


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.True_, True),
        (np.str_("x"), "x"),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array(["a", None], dtype=object), ["a", None]),
        (np.datetime64("2026-01-02"), "2026-01-02"),
        (pathlib.Path("folder/file"), str(pathlib.Path("folder/file"))),
        (pathlib.PurePosixPath("a/b"), "a/b"),
        (decimal.Decimal("0.5"), 0.5),
        (decimal.Decimal("0.1"), "0.1"),
        (fractions.Fraction(1, 3), "1/3"),
        (dt.datetime(2026, 1, 2, 3), "2026-01-02T03:00:00"),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Level.HIGH, "high"),
        ((1, (2,)), [1, [2]]),
        ({"a"}, ["a"]),
        (frozenset([3, 1]), [1, 3]),
        (Usage(), {"tokens": 3, "seconds": 0.5}),
        (Pair(1, np.int8(2)), {"first": 1, "second": 2}),
        (MappingProxyType({"a": np.int64(1)}), {"a": 1}),
        ({1: "a", False: "b", None: "c"}, {"1": "a", "false": "b", "null": "c"}),
        ({np.int64(4): "a"}, {"4": "a"}),
        (None, None),
        (10**30, 10**30),
    ],
    ids=repr,
)
def test_what_is_exact_is_converted(value: Any, stored: Any) -> None:
    assert json.loads(str(encode({"x": value}))) == {"x": stored}


@pytest.mark.parametrize(
    "value",
    [
        object(),
        len,
        int,
        float("nan"),
        np.float64("inf"),
        1j,
        np.complex64(1),
        np.array([1j]),
        b"bytes",
        dt.timedelta(1),
        np.timedelta64(1),
        "Series",
        "DataFrame",
        Broken(),
        decimal.Decimal("NaN"),
        (x for x in "ab"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_anything_else_is_named_and_the_rest_is_stored(
    value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    if isinstance(value, str):
        import pandas

        value = getattr(pandas, value)([1], index=["label"])
    details = {
        "output": "yes",
        "x": value,
        "usage": {"raw": value, "tokens": 3},
        "list": [1, value],
    }
    with caplog.at_level(logging.WARNING):
        stored = json.loads(str(encode(details)))
    left_out = stored.pop("not stored")
    assert list(left_out) == ["x", "usage.raw", "list[1]"]
    assert stored["output"] == "yes"
    assert stored["usage"]["tokens"] == 3
    assert stored["list"][0] == 1
    assert "usage.raw" in caplog.text


def test_keys_that_would_be_one_key_and_loops_are_named() -> None:
    loop: dict[str, Any] = {"a": 1}
    loop["again"] = loop
    stored = json.loads(
        str(encode({"loop": loop, "keys": {5: "number", "5": "text", (1, 2): "pair"}}))
    )
    assert stored["loop"] == {"a": 1}
    assert stored["keys"] == {"5": "number"}
    assert set(stored["not stored"]) == {"loop.again", "keys.5", "keys.(1, 2)"}


def test_many_values_are_counted_once() -> None:
    details = {"values": [object() for _ in range(500)], "output": "yes"}
    stored = json.loads(str(encode(details)))
    assert len(stored["not stored"]) == 21
    assert stored["values"] == [None] * 500
    assert stored["output"] == "yes"


def a_study() -> Study:
    selector = Selector(["x", "y"], asktell.BestFeasible("acc"), 4, examples=2)
    return Study.create(MemoryStorage(), "s", selector)


def test_no_response_that_was_paid_for_is_dropped() -> None:
    class Scores(dict[str, float]):
        details: ClassVar = {
            "response": {"text": "yes", "logprobs": np.float32([-0.5]), "raw": object()}
        }

    class FailedError(Exception):
        details: ClassVar = {"response": {"text": "no", "raw": object()}}

    def evaluate(prompt: str, example: int) -> Scores:
        if (prompt, example) == ("y", 1):
            raise FailedError
        return Scores(acc=0.5)

    study = a_study()
    asktell.run(study, evaluate, progress=False)
    stored = [e.details or {} for e in study.evaluations()]
    assert [d["response"]["text"] for d in stored].count("yes") == 3
    assert [d["response"]["text"] for d in stored].count("no") == 1
    assert all(list(d["not stored"]) == ["response.raw"] for d in stored)
    assert stored[0]["response"].get("logprobs", [-0.5]) == [-0.5]


def test_tell_and_fail_record_what_they_can() -> None:
    study = a_study()
    first, second = study.ask(2)
    assert study.tell(first, 0.5, details={"output": "yes", "raw": object()})
    assert study.fail(second, "no", details={"output": "no", "raw": object()})
    assert [(e.details or {})["output"] for e in study.evaluations()] == ["yes", "no"]


def test_a_scores_class_with_fields_keeps_its_details() -> None:
    @dataclasses.dataclass
    class Answer:
        acc: float
        tokens: int
        details: dict[str, Any]

    study = a_study()
    asktell.run(study, lambda p, e: Answer(0.5, 7, {"output": "yes"}), progress=False)
    for evaluation in study.evaluations():
        assert evaluation.details == {
            "output": "yes",
            "scores": {"acc": 0.5, "tokens": 7.0},
        }


def test_a_number_with_too_many_digits_loses_nothing_else() -> None:
    """Python refuses to write it, and another process would refuse to read it."""
    huge = 10**700
    text = encode(
        {"output": "yes", "n": huge, huge: 1, "list": [-huge, 10**600], "ok": {"n": 1}}
    )
    assert text is not None
    stored = json.loads(text)
    left_out = stored.pop("not stored")
    assert stored == {"output": "yes", "list": [None, 10**600], "ok": {"n": 1}}
    assert left_out["n"] == left_out["list[0]"]
    assert "640 digits" in left_out["n"]
    assert len(left_out) == 3

    study = a_study()
    trial = study.ask()
    assert trial is not None
    assert study.tell(trial, 0.5, details={"output": "yes", "n": 10**5000})
    assert next(iter(study.evaluations())).details["output"] == "yes"  # type: ignore[index]
