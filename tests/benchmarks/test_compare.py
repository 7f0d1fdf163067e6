"""Comparisons over many tables: paired, and adjusted for their number."""

from typing import Any

import pytest
from scipy import stats

from benchmarks.selection.compare import compare, losses


def lines(
    method: str, qualities: list[float], problem: str = "t"
) -> list[dict[str, Any]]:
    return [
        {
            "method": method,
            "problem": problem,
            "goal": "pareto",
            "per_prompt": 3,
            "seed": seed,
            "quality": quality,
        }
        for seed, quality in enumerate(qualities)
    ]


def test_a_comparison_is_the_paired_one_sided_t_test() -> None:
    ours, theirs = [0.5, 0.4, 0.6, 0.3, 0.5], [0.6, 0.6, 0.6, 0.5, 0.8]
    (found,) = compare(lines("a", ours) + lines("b", theirs), [("a", "b")])
    assert found.difference == pytest.approx(-0.16)
    assert found.p == pytest.approx(
        stats.ttest_rel(ours, theirs, alternative="less").pvalue
    )
    assert found.adjusted == found.p
    assert losses([found]) == [found]
