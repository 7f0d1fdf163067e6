"""Brevity, exact match, token F1 and what a completion took."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asktell.errors import EvaluatorError, InvalidArgumentError
from asktell_adapters.evaluators import Completion, Example
from asktell_adapters.metrics import (
    Brevity,
    ExactMatch,
    cost,
    latency,
    output_tokens,
    split_sentences,
    token_f1,
)

NOTHING = Example("")


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [(0, 1), (10, 1), (20, 0.8), (35, 0.5), (59, 0.02), (60, 0), (512, 0)],
)
def test_brevity_is_the_papers_function(tokens: int, expected: float) -> None:
    assert Brevity(10, 60)(
        Completion("x", completion_tokens=tokens), NOTHING
    ) == pytest.approx(expected)


@given(
    low=st.integers(0, 100),
    width=st.integers(1, 100),
    tokens=st.lists(st.integers(0, 300), min_size=2, max_size=2),
)
def test_brevity_stays_in_the_unit_interval_and_never_rises(
    low: int, width: int, tokens: list[int]
) -> None:
    short, long = sorted(tokens)
    brevity = Brevity(low, low + width)
    values = [
        brevity(Completion("", completion_tokens=count), NOTHING)
        for count in (short, long)
    ]
    assert 1 >= values[0] >= values[1] >= 0


def test_brevity_counts_tokens_as_told() -> None:
    words = Brevity(1, 3, count_tokens=lambda text: len(text.split()))
    assert words(Completion("two words", completion_tokens=99), NOTHING) == 0.5


@pytest.mark.parametrize(
    ("low", "high"), [(5, 5), (6, 5), (-1, 5), (0, float("inf")), (float("nan"), 5)]
)
def test_brevity_refuses_thresholds_out_of_order(low: float, high: float) -> None:
    with pytest.raises(
        InvalidArgumentError, match="finite numbers with 0 <= first < second"
    ):
        Brevity(low, high)


@pytest.mark.parametrize(
    ("text", "reference", "normalized", "strict", "f1"),
    [
        ("The Cat.", "cat", 1, 0, 1.0),
        (" cat\n", "cat", 1, 1, 1.0),
        ("a b c d", ("x", "b c"), 0, 0, 0.8),  # The article goes: b c d against b c.
        ("dog", "cat", 0, 0, 0.0),
        ("", "", 1, 1, 1.0),
        ("", "cat", 0, 0, 0.0),
        ("b b", "b", 0, 0, 2 / 3),
    ],
)
def test_matches(
    text: str,
    reference: str | tuple[str, ...],
    normalized: float,
    strict: float,
    f1: float,
) -> None:
    completion, example = Completion(text), Example("", reference)
    assert ExactMatch()(completion, example) == normalized
    assert ExactMatch(normalized=False)(completion, example) == strict
    assert token_f1(completion, example) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("15", "1.5"),
        ("05", "0.5"),
        ("5", "-5"),
        ("5", ".5"),
        ("$5", "-$5"),
        ("15", "1,5"),
        ("124750", "$1,247.50"),
        ("23", "2/3"),
        ("23", "2^3"),
        ("330", "3:30"),
        ("510", "5-10"),
        ("C", "C++"),
        ("C#", "C++"),
        ("+", "-"),
        ("...", "A"),
        ("the", "A"),
        ("Vitamin", "Vitamin A"),
        ("C", "A, C"),
    ],
)
def test_different_answers_do_not_match(text: str, reference: str) -> None:
    for one, other in ((text, reference), (reference, text)):
        assert ExactMatch()(Completion(one), Example("", other)) == 0
        assert token_f1(Completion(one), Example("", other)) < 1


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("1,000,000", "1000000"),
        ("1,00,000", "100000"),
        ("1'000", "1000"),
        ("$1,247.50.", "1247.50"),
        ("\u22125", "-5"),
        ("(-5)", "-5"),
        ("A.", "A"),
        ("(A)", "a"),
        ('The "Beatles"', "beatles"),
        ("U.S.A.", "USA"),
        ("cafe\u0301", "caf\xe9"),
        ("it\u2019s", "it's"),
        ("\u5df4\u9ece\u3002", "\u5df4\u9ece"),
    ],
)
def test_the_same_answer_matches_however_it_is_written(
    text: str, reference: str
) -> None:
    for one, other in ((text, reference), (reference, text)):
        assert ExactMatch()(Completion(one), Example("", other)) == 1
        assert token_f1(Completion(one), Example("", other)) == 1


def test_a_metric_that_needs_a_reference_says_so() -> None:
    with pytest.raises(EvaluatorError, match="example 'e7' has no reference"):
        token_f1(Completion("x"), Example("", id="e7"))


def test_what_the_completion_took() -> None:
    completion = Completion("x", completion_tokens=4, latency=0.25, cost=0.125)
    assert [
        metric(completion, NOTHING) for metric in (output_tokens, latency, cost)
    ] == [4.0, 0.25, 0.125]


def test_sentences_are_split_at_their_ends() -> None:
    assert (
        split_sentences("We do it. It works (e.g. here)! 3 times? Yes")
        == "We do it.\nIt works (e.g. here)!\n3 times?\nYes"
    )
    assert split_sentences("one\ntwo") == "one\ntwo"
