"""Cells that were scored several times, by hand."""

import numpy as np
import pytest

from asktell.numerics.cells import PRIOR_FREEDOM, PRIOR_SHARE, Cells, nth_asks


def scored(rows: list[tuple[int, int, float]], n_examples: int = 10) -> Cells:
    arms, examples, scores = (np.array(column) for column in zip(*rows, strict=True))
    return Cells.of(arms, examples, scores.astype(float)[:, None], n_examples)


def test_means_counts_and_squares_of_cells() -> None:
    cells = scored(
        [(1, 4, 1.0), (0, 2, 3.0), (1, 4, 2.0), (1, 4, 6.0), (0, -1, 5.0), (0, -1, 7.0)]
    )
    assert list(zip(cells.arms, cells.examples, cells.asks, strict=True)) == [
        (0, -1, 1), (0, -1, 1), (0, 2, 1), (1, 4, 3),
    ]  # fmt: skip
    assert cells.scores[2:, 0].tolist() == [3.0, 3.0]
    assert cells.squares[:, 0].tolist() == [0.0, 0.0, 0.0, 4.0 + 1.0 + 9.0]
    assert cells.is_noisy


def test_arms_with_the_same_scores_of_the_same_examples_are_alike() -> None:
    cells = scored(
        [
            *[(0, 1, 1.0), (0, 2, 0.0), (1, 2, 0.0), (1, 1, 1.0)],
            *[(2, 1, 1.0), (2, 2, 1.0), (3, 1, 1.0), (3, 3, 0.0)],
            *[(5, 1, 1.0), (5, 2, 0.0), (5, 2, 0.0)],
        ]
    )
    numbers = cells.alike(7).tolist()
    assert numbers[0] == numbers[1]
    # Another score, another example, one evaluation more; arms 4 and 6 have no score.
    assert len({numbers[arm] for arm in (0, 2, 3, 4, 5)}) == 5
    assert numbers[4] == numbers[6]


def test_noise_is_the_moments_beside_a_guess() -> None:
    # Two cells asked twice: (1, 3) and (2, 2): squares 2 of 2 degrees of freedom; a
    # third one once.
    cells = scored([(0, 0, 1.0), (0, 0, 3.0), (0, 1, 2.0), (0, 1, 2.0), (1, 0, 9.0)])
    guess = PRIOR_SHARE * 6.0
    pooled = (2.0 + PRIOR_FREEDOM * guess) / (2.0 + PRIOR_FREEDOM)
    assert cells.noise(np.array([6.0])) == pytest.approx([pooled])
    own = (2.0 + PRIOR_FREEDOM * pooled) / (2.0 + PRIOR_FREEDOM)
    # w mean(1 / r): both of the first arm's cells were asked twice, the second arm's
    # once.
    np.testing.assert_allclose(
        cells.noise_of_means(np.array([6.0]), 3)[:, 0], [own / 2, pooled, 0.0]
    )


def test_much_data_outweighs_the_guess() -> None:
    rng = np.random.default_rng(0)
    arms, examples = (
        np.repeat(np.arange(20), 60),
        np.tile(np.repeat(np.arange(20), 3), 20),
    )
    scores = rng.normal(size=(20, 20))[arms, examples] + rng.normal(0, 0.5, len(arms))
    cells = Cells.of(arms, examples, scores[:, None], 20)
    assert cells.noise(np.array([10.0])) == pytest.approx([0.25], rel=0.15)


def test_scores_that_always_come_again_as_they_were_have_no_noise_unless_chance_makes_them() -> (
    None
):
    some = [(0, j, 17.3 + j) for j in range(3)]
    assert scored(some + some).noise(np.array([4.0])) == 0.0
    simple = [(0, j, float(j % 2)) for j in range(3)]
    assert scored(simple + simple).noise(np.array([4.0])) > 0.0
    assert not scored(some + some).is_noisy


def test_which_score_of_its_cell_each_is() -> None:
    trials = np.array([7, -1, 3, 5, 9, -1])
    cells = np.array([1, 1, 1, 2, 1, 2])
    assert nth_asks(trials, cells).tolist() == [2, 0, 1, 1, 3, 0]
    assert nth_asks(trials[:0], cells[:0]).tolist() == []
