"""What a meter's calls say: known numbers, and why others are unknown. Unknown is never 0."""

import pytest

from asktell_adapters.llms.chat_api import Price
from asktell_adapters.llms.metering import METRICS, Call, Reading, refused
from asktell_adapters.llms.usage import CUT, Usage

PRICES = {"m": Price(1.0, 10.0, cached_input=0.1, cache_write=2.0)}


USAGE = Usage(1000, 100, 500, 200, 50)


def call(
    usage: Usage | None = USAGE,
    model: str | None = "m",
    served: str | None = None,
    is_whole: bool = True,
    problem: str = "",
) -> Call:
    return Call(model, served, 0.5, False, usage, is_whole, problem)


def test_all_is_known() -> None:
    reading = Reading((call(), call(), refused("m", 0.25)), PRICES)
    assert reading.scores() == {
        "calls": 3,
        "errors": 1,
        "call_seconds": 1.25,
        "tokens_in": 2000,
        "tokens_out": 200,
        "tokens_cached": 1000,
        "tokens_reasoning": 100,
        "cost": pytest.approx(2 * (300 * 1 + 500 * 0.1 + 200 * 2 + 100 * 10) / 1e6),
    }
    assert all(reading.why_unknown(name) == "" for name in METRICS)


def test_the_price_is_that_of_the_model_asked_for_or_else_served() -> None:
    assert "cost" in Reading((call(model="m", served="m-2026"),), PRICES).scores()
    assert "cost" in Reading((call(model=None, served="m"),), PRICES).scores()
    reading = Reading((call(), call(model="other")), PRICES)
    assert "cost" not in reading.scores()
    assert "no price of the model 'other'" in reading.why_unknown("cost")
    assert reading.scores()["tokens_out"] == 200


@pytest.mark.parametrize(
    ("calls", "missing", "words"),
    [
        ((), "cost tokens_in tokens_out tokens_cached tokens_reasoning", "no call went"),
        (
            (call(), call(None, is_whole=False, problem="a stream had no usage")),
            "cost tokens_in tokens_out tokens_cached tokens_reasoning",
            "1 of 2 calls are unknown, because a stream had no usage",
        ),
        (
            (call(is_whole=False, problem=CUT),),
            "cost tokens_in tokens_out tokens_cached tokens_reasoning",
            "was cut",
        ),
        ((call(), call(Usage(1, 1, None, 0, 0))), "tokens_cached", "does not count"),
        ((call(), call(Usage(1, 1, 0, 0, None))), "tokens_reasoning", "does not count"),
    ],
)  # fmt: skip
def test_unknown_is_left_out(calls: tuple[Call, ...], missing: str, words: str) -> None:
    reading = Reading(calls, PRICES)
    assert set(METRICS) - set(reading.scores()) == set(missing.split())
    assert all(words in reading.why_unknown(name) for name in missing.split())


def test_what_is_known_of_a_response_that_was_cut_was_paid_for() -> None:
    cut = call(Usage(1000, 1, 0, 0, None), is_whole=False, problem=CUT)
    assert Reading((cut,), PRICES).paid == pytest.approx(0.00101)
    assert Reading((call(None, is_whole=False),), PRICES).paid is None
    assert Reading().paid is None


def test_a_lost_meter_knows_nothing() -> None:
    reading = Reading(problem="the meter has ended")
    assert reading.scores() == {}
    assert {reading.why_unknown(name) for name in METRICS} == {"the meter has ended"}
