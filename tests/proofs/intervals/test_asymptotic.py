"""Bounds for scores of unknown range: the published boundary, exact in the end, careful with few observations."""

import math

import numpy as np
import pytest
from scipy import special

from asktell.proofs.intervals.asymptotic import Asymptotic


def test_many_observations_have_the_published_width() -> None:
    # Waudby-Smith et al. 2021, theorem 2.2, with the rho that makes t = 64 tightest by
    # their equation for it.
    x = np.tile([-1.0, 1.0], 50_000)
    t, error = len(x), 0.05
    rho2 = (-special.lambertw(-(error**2) * math.exp(-1), -1).real - 1) / 64
    width = math.sqrt(
        2 * (t * rho2 + 1) / (t * rho2) * math.log(math.sqrt(t * rho2 + 1) / error) / t
    )
    low, high = Asymptotic().interval(x, error)
    assert (high - low) / 2 == pytest.approx(width, rel=0.01)


def test_one_side_alone_is_tighter_and_the_sides_mirror_each_other() -> None:
    x = np.random.default_rng(0).normal(0.3, 1, (20, 80))
    for bounds in (Asymptotic(), Asymptotic(300)):
        both = bounds.interval(x, 0.05)
        assert (both.low < bounds.lower(x, 0.05)).all()
        assert bounds.lower(x, 0.025) == pytest.approx(both.low, abs=0.02)
        mirrored = bounds.interval(-x, 0.05)
        assert (both.low == -mirrored.high).all()
        assert (both.high == -mirrored.low).all()


def test_all_observations_are_exact_and_few_bound_nothing() -> None:
    x = np.array([0.3, 0.8, 0.1, 0.5])
    assert Asymptotic(4).interval(x, 0.05) == (x.mean(), x.mean())
    assert Asymptotic(5).interval(x[:2], 0.05) == (-math.inf, math.inf)
    assert Asymptotic(1).interval(np.array([7.0]), 0.05) == (7.0, 7.0)
    widths = np.diff(
        [Asymptotic(n).interval(x, 0.05) for n in (5, 10, 100, 10**6)]
    ).ravel()
    assert (np.diff(widths) > 0).all()
    assert widths[-1] == pytest.approx(
        np.diff(Asymptotic().interval(x, 0.05))[0], rel=1e-3
    )


def test_observations_that_are_all_equal_bound_nothing_without_a_scale() -> None:
    assert Asymptotic(300).interval(np.zeros(50), 0.05) == (-math.inf, math.inf)
    low, high = Asymptotic(300).interval(np.zeros(50), 0.05, scale=1.0)
    assert -0.25 < low == -high < -0.1


def test_sequences_at_once_are_as_each_by_itself() -> None:
    x = np.random.default_rng(0).normal(0, 1, (2, 3, 30))
    together = Asymptotic(100).interval(x, 0.1)
    for place in np.ndindex(2, 3):
        alone = Asymptotic(100).interval(x[place], 0.1)
        assert alone == pytest.approx(
            (together.low[place], together.high[place]), rel=1e-12
        )


def _miscoverage(population: np.ndarray, runs: int, scale: float) -> float:
    x = np.random.default_rng(0).permuted(np.tile(population, (runs, 1)), axis=1)
    bounds, wrong = Asymptotic(len(population)), np.zeros(runs, dtype=bool)
    for n in range(3, len(population)):
        low, high = bounds.interval(x[:, :n], 0.05, scale)
        wrong |= (low > population.mean()) | (high < population.mean())
    return float(wrong.mean())


@pytest.mark.parametrize("most", [0.07])
def test_mostly_equal_scores_are_not_taken_for_proof(most: float) -> None:
    # Of 300 pairs, some disagree, and nothing but them tells of their kind.
    for plus, minus in ((6, 0), (12, 6), (30, 0), (45, 15), (30, 30)):
        population = np.repeat([1.0, -1.0, 0.0], [plus, minus, 300 - plus - minus])
        assert _miscoverage(population, 400, 1.0) <= most


def test_smooth_scores_are_covered_from_the_first_bound_on() -> None:
    population = np.random.default_rng(0).normal(0, 1, 200)
    assert _miscoverage(population, 400, 0.0) <= 0.05
    assert _miscoverage(np.random.default_rng(0).standard_t(3, 200), 400, 0.0) <= 0.07
