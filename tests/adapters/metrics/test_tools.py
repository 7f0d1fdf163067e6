"""The metric of calls of tools, by hand."""

from typing import Any

import pytest

from asktell_adapters.evaluators import Completion, Example
from asktell_adapters.metrics import range_of, tool_call

ULM: dict[str, Any] = {"name": "find", "arguments": {"town": "Ulm", "n": 1}}
PAU: dict[str, Any] = {"name": "find", "arguments": {"town": "Pau"}}


@pytest.mark.parametrize(
    ("calls", "reference", "score"),
    [
        ([ULM], '{"name": "find", "arguments": {"n": 1, "town": "Ulm"}}', 1),
        ([ULM], '{"name": "find", "arguments": {"town": "Ulm"}}', 0),
        ([ULM], '{"name": "find"}', 1),
        ([ULM], "find", 1),
        ([ULM], "search", 0),
        ([], "find", 0),
        ([], "[]", 1),
        ([ULM], "[]", 0),
        ([ULM, PAU], "find", 0),
        (
            [ULM, PAU],
            '[{"name": "find"}, {"name": "find", "arguments": {"n": 1, "town": "Ulm"}}]',
            1,
        ),
        (
            [PAU, PAU],
            '[{"name": "find"}, {"name": "find", "arguments": {"n": 1, "town": "Ulm"}}]',
            0,
        ),
        ([{"name": "find", "arguments": "{broken"}], "find", 1),
        ([ULM], ["search", "find"], 1),
        ([{"name": "7", "arguments": {}}], "7", 1),
        (
            [PAU | {"arguments": {"n": 1.0}}],
            '{"name": "find", "arguments": {"n": 1}}',
            1,
        ),
        (
            [PAU | {"arguments": {"n": True}}],
            '{"name": "find", "arguments": {"n": 1}}',
            0,
        ),
        (
            [PAU | {"arguments": {"n": [{"m": False}]}}],
            '{"name": "find", "arguments": {"n": [{"m": 0}]}}',
            0,
        ),
        (
            [PAU | {"arguments": {"n": [{"m": False}]}}],
            '{"name": "find", "arguments": {"n": [{"m": false}]}}',
            1,
        ),
    ],
)
def test_a_call_is_what_the_reference_says(
    calls: list[Any], reference: Any, score: float
) -> None:
    assert (
        tool_call(Completion("", tool_calls=tuple(calls)), Example("q", reference))
        == score
    )


def test_its_range_is_known() -> None:
    assert range_of(tool_call) == (0.0, 1.0)
