"""The bar of a run counts evaluations, or the money that is bounded."""

import io
import re
from typing import Any

import pytest

import asktell
from asktell._util.terminal import in_three_digits
from asktell.running import progress


def shown(
    budget: Any, monkeypatch: pytest.MonkeyPatch, examples: int | None = None
) -> str:
    """What the bar looks like at the end."""
    import tqdm.auto

    text, made = io.StringIO(), tqdm.auto.tqdm
    monkeypatch.setattr(
        tqdm.auto,
        "tqdm",
        lambda **options: made(**{**options, "file": text, "ncols": 200}),
    )
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LOOKS", 0.0)
    selector = asktell.Selector(
        ["x", "yy", "zzz"], asktell.BestFeasible("a"), budget, examples=examples
    )
    asktell.run(
        selector, lambda prompt, example: {"a": len(prompt), "cost": 0.3}, progress=True
    )
    return text.getvalue().rstrip().rpartition("\r")[2]


def test_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "12/12" in shown(12, monkeypatch, 10)


def test_money(monkeypatch: pytest.MonkeyPatch) -> None:
    bar = shown(asktell.Budget(cost=2.0), monkeypatch)
    assert re.search(
        r" 90%\|.*, 6 evaluations and a cost of 1.8 of 2, 0 active, best", bar
    )
    assert "100000000" not in bar


def test_more_money_than_there_was(monkeypatch: pytest.MonkeyPatch) -> None:
    bar = shown(asktell.Budget(cost=0.2), monkeypatch, 10)
    assert re.search(r"100%\|.*1 of 30 evaluations and a cost of 0.3 of 0.2", bar)


@pytest.mark.parametrize(
    ("score", "words"),
    [(0.5, "a 0.500"), (2.0, "a 2.00"), (123.4, "a 123]"), (1234.5, "a 1,234")],
)
def test_a_score_has_digits_also_where_they_are_zero(
    score: float, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tqdm.auto

    text, made = io.StringIO(), tqdm.auto.tqdm
    monkeypatch.setattr(
        tqdm.auto,
        "tqdm",
        lambda **options: made(**{**options, "file": text, "ncols": 200}),
    )
    selector = asktell.Selector(
        ["x", "yy"], asktell.BestFeasible("a"), 4, "uniform", examples=2
    )
    asktell.run(selector, lambda prompt, example: score, progress=True, repeatable=True)
    assert f": {words}" in text.getvalue()
    assert in_three_digits(0.0) == "0.00"
    assert in_three_digits(0.00009634) == "0.0000963"
