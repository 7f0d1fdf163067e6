"""Comparisons over many tables: paired, and adjusted for their number."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from asktell.simulation.statistics import holm
from benchmarks.selection.compare import compare, losses


def lines(method: str, qualities: list[float], problem: str = "t") -> list[dict[str, Any]]:
    return [
        {"method": method, "problem": problem, "goal": "pareto", "per_prompt": 3, "seed": seed, "quality": quality}
        for seed, quality in enumerate(qualities)
    ]


def test_holm_by_hand() -> None:
    # 3 * .01, 2 * .02, and the last one not below the one before.
    np.testing.assert_allclose(holm(np.array([0.01, 0.02, 0.03])), [0.03, 0.04, 0.04])
    np.testing.assert_allclose(holm(np.array([0.4, 0.6])), [0.8, 0.8])
    assert holm(np.array([])).shape == (0,)


def test_a_comparison_is_the_paired_one_sided_t_test() -> None:
    ours, theirs = [0.5, 0.4, 0.6, 0.3, 0.5], [0.6, 0.6, 0.6, 0.5, 0.8]
    (found,) = compare(lines("a", ours) + lines("b", theirs), [("a", "b")])
    assert found.difference == pytest.approx(-0.16)
    assert found.p == pytest.approx(stats.ttest_rel(ours, theirs, alternative="less").pvalue)
    assert found.adjusted == found.p
    assert losses([found]) == [found]


def test_many_comparisons_make_one_loss_unremarkable() -> None:
    rng = np.random.default_rng(2)
    everything: list[dict[str, Any]] = []
    for i in range(40):
        everything += lines("a", rng.normal(size=20).tolist(), f"t{i}")
        everything += lines("b", rng.normal(size=20).tolist(), f"t{i}")
    found = compare(everything, [("a", "b")])
    assert len(found) == 40
    assert found[0].p < 0.05
    assert losses(found) == []


def test_equal_runs_are_no_loss_and_few_or_refused_ones_are_left_out() -> None:
    same = [0.5] * 6
    (found,) = compare(lines("a", same) + lines("b", same), [("a", "b")])
    assert (found.difference, found.p) == (0.0, 0.5)
    assert compare(lines("a", same[:4]) + lines("b", same[:4]), [("a", "b")]) == []
    refused = [{**line, "refused": "no"} for line in lines("b", same)]
    assert compare(lines("a", same) + refused, [("a", "b")]) == []
