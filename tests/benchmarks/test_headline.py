import numpy as np
import pytest

from benchmarks.selection.headline import budget_for, equivalent, monotone

CURVE = np.array([0.2, 0.4, 0.6, 0.8])
GRID4 = (2.0, 4.0, 8.0, 16.0)


def test_monotone_pools_what_falls() -> None:
    np.testing.assert_allclose(
        monotone(np.array([1.0, 3.0, 2.0, 4.0])), [1.0, 2.5, 2.5, 4.0]
    )
    np.testing.assert_allclose(monotone(np.array([3.0, 2.0, 1.0])), [2.0, 2.0, 2.0])


@pytest.mark.parametrize(
    ("quality", "expected"),
    [
        (0.2, (2.0, "")),
        (0.4, (4.0, "")),
        (0.5, (np.sqrt(32), "")),
        (0.8, (16.0, "")),
        (0.9, (16.0, ">")),
        (0.1, (2.0, "<")),
    ],
)
def test_the_budget_for_a_quality_is_read_off_the_curve(
    quality: float, expected: tuple[float, str]
) -> None:
    budget, mark = budget_for(quality, GRID4, CURVE)
    assert (pytest.approx(budget), mark) == expected


def test_a_method_is_worth_as_much_as_itself() -> None:
    rng = np.random.default_rng(0)
    published = CURVE[None, :, None] + rng.normal(0, 0.05, (4, 4, 50))
    result = equivalent(published[:, 1], published, at=4.0, grid=GRID4, rng=rng)
    assert result.ratio == pytest.approx(1.0, abs=0.1)
    assert result.low < 1.0 < result.high
    assert result.mark == ""


def test_a_censored_ratio_says_so() -> None:
    published = np.tile(CURVE[None, :, None], (2, 1, 3))
    assert str(
        equivalent(
            np.full((2, 3), 0.95), published, 2.0, GRID4, np.random.default_rng(0)
        )
    ).startswith("> 8.00")
