"""PCA, rank and the text features."""

import subprocess
import sys

import numpy as np
import pytest

from asktell.errors import InvalidArgumentError
from asktell.methods.rounds.directions import (
    lost_directions,
    rank,
    span,
    with_intercept,
)
from asktell.problem.features import pca, text_features

PROMPTS = [f"{verb} the {noun} in {n} words." for verb in ("Summarize", "Translate", "Judge") for noun in
           ("text", "review", "document") for n in (5, 50, 500)]  # fmt: skip


def test_pca_keeps_the_inner_products_and_reports_the_variance() -> None:
    x = np.random.default_rng(0).normal(size=(30, 8)) * np.arange(1, 9)
    full = pca(x, 8)
    centred = x - x.mean(axis=0)
    np.testing.assert_allclose(
        full.features @ full.features.T, centred @ centred.T, atol=1e-9
    )
    assert full.explained_variance_ratio.sum() == pytest.approx(1.0)
    assert (np.diff(full.explained_variance_ratio) <= 0).all()
    few = pca(x, 3)
    np.testing.assert_array_equal(few.features, full.features[:, :3])
    ratio = few.features.var(axis=0) / centred.var(axis=0).sum()
    np.testing.assert_allclose(few.explained_variance_ratio, ratio, rtol=1e-9)


def test_pca_has_fixed_signs_and_zero_columns_beyond_the_rank() -> None:
    x = np.random.default_rng(0).normal(size=(4, 20))
    result = pca(x, 6)
    np.testing.assert_allclose(
        np.abs(pca(-x, 6).features), np.abs(result.features), atol=1e-9
    )
    largest = result.features[np.abs(result.features).argmax(axis=0), np.arange(6)]
    assert (largest >= 0).all()
    np.testing.assert_allclose(result.features[:, 3:], 0.0, atol=1e-9)
    assert pca(np.ones((5, 3)), 2).explained_variance_ratio.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("bad", "d"),
    [(np.zeros(3), 1), (np.full((2, 2), np.nan), 1), (np.zeros((2, 2)), 0)],
)
def test_pca_refuses_what_it_cannot_use(bad: np.ndarray, d: int) -> None:
    with pytest.raises(InvalidArgumentError):
        pca(bad, d)


def test_rank_does_not_depend_on_units() -> None:
    x = np.random.default_rng(0).normal(size=(20, 4))
    assert rank(x) == 4
    assert rank(x * np.array([1e-200, 1e-9, 1.0, 1e200])) == 4
    assert rank(np.column_stack((x, x @ np.ones(4), np.zeros(20)))) == 4
    assert rank(np.zeros((3, 2))) == 0
    assert rank(np.random.default_rng(0).normal(size=(3, 10))) == 3


@pytest.mark.parametrize("far", [0.0, 1e6])
@pytest.mark.parametrize(
    ("apart", "lost"), [(0.0, 0), (1e-6, 0), (1e-10, 1), (1e-11, 1)]
)
def test_directions_that_are_nearly_but_not_exactly_sums_of_others_are_lost(
    apart: float, lost: int, far: float
) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 4))
    x[:, 3] = x[:, 0] - x[:, 1] + apart * rng.normal(size=30)
    # There such a difference is one of rounding
    wanted = 0 if far and apart < 1e-9 else lost
    assert lost_directions(x + far, intercept=True) == wanted
    if not far:
        assert lost_directions(x, intercept=False) == wanted
        assert rank(x) == (4 if apart == 1e-6 else 3)


def test_span_is_orthonormal() -> None:
    x = span(with_intercept(np.random.default_rng(0).normal(size=(20, 4)) + 1e5))
    assert x.shape == (20, 5)
    np.testing.assert_allclose(x.T @ x, np.eye(5), atol=1e-12)


def test_text_features_tell_prompts_apart_and_bring_similar_ones_together() -> None:
    x = text_features(PROMPTS, d=8)
    assert x.shape == (27, 8)
    assert np.isfinite(x).all()
    distance = np.linalg.norm(x[:, None] - x[None], axis=2) + np.diag(
        np.full(27, np.inf)
    )
    verbs = [prompt.split()[0] for prompt in PROMPTS]
    assert (
        np.mean([verbs[i] == verbs[j] for i, j in enumerate(distance.argmin(axis=1))])
        > 0.8
    )
    assert (distance.min(axis=1) > 0).all()


def test_text_features_are_the_same_in_every_process() -> None:
    code = (
        "import sys; from asktell.problem.features import text_features;"
        "print(text_features(sys.argv[1:], d=4).round(9).tolist())"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code, *PROMPTS[:6]], check=True, capture_output=True, text=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert printed == {f"{text_features(PROMPTS[:6], d=4).round(9).tolist()}\n"}


def test_many_prompts_take_another_path_to_the_same_features() -> None:
    prompts = [
        f"{prompt} {word}"
        for prompt in PROMPTS
        for word in ["alpha", "beta", "gamma", "delta", "eps", "zeta", "eta"]
    ]
    prompts += [prompt + "!" for prompt in prompts]
    import asktell.problem.features as module

    assert len(prompts) > module._DENSE_ARMS
    x = module._rows(prompts, 0)
    sparse = module._principal_components(x, 5)
    original = module._DENSE_ARMS
    try:
        module._DENSE_ARMS = 10**6
        dense = module._principal_components(x, 5)
    finally:
        module._DENSE_ARMS = original
    np.testing.assert_allclose(np.abs(sparse), np.abs(dense), atol=1e-6)


@pytest.mark.parametrize(
    "prompts", [[], [""], ["", "", ""], ["a"], ["same", "same"], ["é漢字🙂", "b"]]
)
def test_odd_prompts(prompts: list[str]) -> None:
    x = text_features(prompts, d=5)
    assert x.shape == (len(prompts), 5)
    assert np.isfinite(x).all()


def test_one_dimension_is_the_length() -> None:
    x = text_features(["a", "aa " * 20, "b" * 400], d=1)
    assert (np.diff(x[:, 0]) > 0).all()
    with pytest.raises(InvalidArgumentError):
        text_features(["a"], d=0)


def test_half_a_character_in_a_text_has_features_too() -> None:
    features = text_features(["half \ud800 a character", "none", "another \udfff"])
    assert np.isfinite(features).all()
