"""Draws of several metrics, correlated as the scores are."""

import numpy as np
import pytest

import asktell
from asktell.methods.belief import stated
from asktell.posterior.draws import correlated, of_metrics
from asktell.posterior.two_way import Cells


def cells(scores: np.ndarray, n_examples: int) -> Cells:
    arms, examples = (x.ravel() for x in np.indices((len(scores), n_examples)))
    return Cells(arms, examples, scores.reshape(-1, scores.shape[2]))


def test_the_correlation_is_that_within_prompts_shrunk_to_independence() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4, 6, 2))
    # The other way round between prompts
    scores[:, :, 1] = -2 * scores[:, :, 0] + 100 * np.arange(4)[:, None]
    found = of_metrics(cells(scores, 6), 4)
    np.testing.assert_allclose(found, [[1, -20 / 30], [-20 / 30, 1]])


def test_what_does_not_vary_and_single_scores_are_independent() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4, 6, 3))
    scores[:, :, 1] = 0.1
    np.testing.assert_array_equal(of_metrics(cells(scores, 6), 4)[1], [0, 1, 0])
    np.testing.assert_array_equal(of_metrics(cells(scores[:, :1], 1), 4), np.eye(3))
    np.testing.assert_array_equal(of_metrics(cells(scores[:, :, :1], 6), 4), np.eye(1))


def test_normals_stay_standard_and_correlate() -> None:
    rng = np.random.default_rng(1)
    wanted = np.array([[1.0, -0.6, 0.3], [-0.6, 1.0, 0.2], [0.3, 0.2, 1.0]])
    normals = [rng.normal(size=(20000, 2)) for _ in range(3)]
    mixed = correlated(normals, wanted)
    np.testing.assert_array_equal(mixed[0], normals[0])
    for column in range(2):
        np.testing.assert_allclose(
            np.cov([some[:, column] for some in mixed]), wanted, atol=0.04
        )
    apart = correlated([normals[0], rng.normal(size=(20000, 5)), normals[2]], wanted)
    assert np.var(apart[1]) == pytest.approx(1.0, abs=0.03)
    assert np.corrcoef(apart[0][:, 0], apart[2][:, 0])[0, 1] == pytest.approx(
        0.3, abs=0.03
    )
    assert np.var(apart[2]) == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("sign", [-1, 1])
def test_metrics_that_go_together_are_stated_to(sign: int) -> None:
    rng = np.random.default_rng(2)
    selector = asktell.Selector(
        list("abcde"), asktell.ParetoSet("x", "y"), 100, examples=50
    )
    for prompt in "abcde":
        for example, x in enumerate(rng.normal(size=8)):
            selector.observe(
                prompt, [x, sign * x + 0.1 * rng.normal()], example=example
            )
    found = stated(selector.state)
    assert found is not None
    values = found.values - found.values.mean(axis=0)
    correlation = np.corrcoef(values[:, :, 0].ravel(), values[:, :, 1].ravel())[0, 1]
    assert sign * correlation > 0.5
