"""Tests that every metric must pass. Derive a class from `MetricContract`, and define two fixtures.

    class TestPolite(MetricContract):
        @pytest.fixture
        def metric(self):
            return polite

        @pytest.fixture
        def cases(self):
            return [(Completion("Yes, please."), Example("More tea?"))]

It needs pytest.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pytest

from asktell import maximize
from asktell.problem.checks import real

Metric: TypeAlias = Callable[[Any, Any], float]
"""A function of a response and its example."""


class MetricContract:
    """Tests of a metric."""

    @pytest.fixture
    def metric(self) -> Metric:
        """The metric to test. Override this fixture."""
        raise NotImplementedError

    @pytest.fixture
    def cases(self) -> Sequence[tuple[Any, Any]]:
        """Responses with their examples, as pairs. Override this fixture.

        Include an empty response, and a response with an error that models make.
        """
        raise NotImplementedError

    def test_each_score_is_a_finite_number_within_its_range(
        self, metric: Metric, cases: Sequence[tuple[Any, Any]]
    ) -> None:
        span = getattr(metric, "range", None)
        low, high = (-math.inf, math.inf) if span is None else span
        for completion, example in cases:
            score = real(metric(completion, example))
            assert score is not None, "a score is a number"
            assert math.isfinite(score), "a score is finite"
            assert low <= score <= high, "a score is within `range` of the metric"

    def test_the_range_is_one_of_a_goal(self, metric: Metric) -> None:
        maximize("metric", range=getattr(metric, "range", None))

    def test_it_repeats_unless_it_says_otherwise(
        self, metric: Metric, cases: Sequence[tuple[Any, Any]]
    ) -> None:
        if not getattr(metric, "repeatable", True):
            pytest.skip("the metric has the attribute repeatable = False")
        for completion, example in cases:
            assert metric(completion, example) == metric(completion, example)
