"""The two-way model of examples that differ as earlier studies say."""

import numpy as np
import pytest

from asktell.numerics.cells import Cells
from asktell.posterior import two_way
from asktell.posterior.equations import System, Variances
from asktell.posterior.regressors import Regressors
from asktell.posterior.two_way import posterior
from asktell.problem.examples.shape import Shape

V = Variances(0.7, 1.3, 0.4)


def a_shape(rng: np.random.Generator, n: int) -> Shape:
    positive = rng.uniform(0.2, 2.0, size=(2, n))
    return Shape.of(
        rng.normal(size=n),
        rng.uniform(-0.2, 2.2, size=n),
        *positive,
        informativeness=np.ones(n),
        ability=0.5,
    )


def dense(
    arms,
    examples,
    y,
    n_arms,
    n_examples,
    shape,
    precision=None,
    noise=0.0,
    z=None,
    slope=0.0,
):
    """Means and covariance of the prompts' means by conditioning all cells' joint Gaussian, the level's prior wide."""
    everyone, every = np.divmod(np.arange(n_arms * n_examples), n_examples)
    kernel = (
        np.eye(n_arms) if z is None else (1 - slope) * np.eye(n_arms) + slope * z @ z.T
    )
    cov = (
        1e7
        + V.prompt
        * np.outer(shape.loading[every], shape.loading[every])
        * kernel[np.ix_(everyone, everyone)]
    )
    cov += (every[:, None] == every) * V.example * shape.example[every]
    own = V.residual * shape.residual[every]
    cov += np.diag((1 - noise) * own)
    at = arms * n_examples + examples
    asks = np.ones(len(y)) if precision is None else precision
    k = cov[np.ix_(at, at)] + np.diag(noise * own[at] / asks)
    gain = np.linalg.solve(k, cov[at]).T
    mean = shape.shift[every] + gain @ (y - shape.shift[examples])
    total = cov - gain @ cov[at]
    into = (everyone == np.arange(n_arms)[:, None]) / n_examples
    return into @ mean, into @ total @ into.T


@pytest.mark.parametrize(("n_arms", "n_examples"), [(4, 9), (9, 4)])
@pytest.mark.parametrize("noise", [0.0, 0.4])
@pytest.mark.parametrize("slope", [0.0, 0.6])
def test_the_posterior_is_that_of_the_joint_gaussian(
    n_arms, n_examples, noise, slope
) -> None:
    rng = np.random.default_rng(n_arms + 10 * round(10 * noise))
    shape = a_shape(rng, n_examples)
    arms, examples = np.nonzero(rng.random((n_arms, n_examples)) < 0.7)
    y = rng.normal(size=len(arms))
    asks = rng.integers(1, 4, len(arms)) if noise else None
    z = rng.normal(size=(n_arms, 2))
    z /= np.sqrt((z**2).sum(axis=1).mean())
    shifted = y - shape.shift[examples]
    system = System(
        arms,
        examples,
        shifted,
        n_arms,
        n_examples,
        Regressors.of_arms(z) if slope else None,
        asks,
        noise,
        shape,
    )
    assert system.keep_arms == (n_arms < n_examples)
    part = system.means_by_share(V, slope)
    mean, cov = dense(
        arms,
        examples,
        y,
        n_arms,
        n_examples,
        shape,
        asks,
        noise,
        z if slope else None,
        slope,
    )
    np.testing.assert_allclose(part.mean, mean, atol=2e-5)
    joint = part.rows @ part.root @ part.root.T @ np.asarray(part.rows).T + np.diag(
        part.own**2
    )
    np.testing.assert_allclose(joint, cov, atol=2e-5)


@pytest.mark.parametrize(("n_arms", "n_examples"), [(4, 9), (9, 4)])
def test_likelihoods_of_two_shapes_compare_as_those_of_the_scores(
    n_arms: int, n_examples: int
) -> None:
    rng = np.random.default_rng(5)
    arms, examples = np.nonzero(rng.random((n_arms, n_examples)) < 0.8)
    y = rng.normal(size=len(arms))
    found, direct = [], []
    for shape in (a_shape(rng, n_examples), a_shape(rng, n_examples)):
        shifted = y - shape.shift[examples]
        log_det, squares = System(
            arms, examples, shifted, n_arms, n_examples, shape=shape
        ).likelihood(V)
        found.append(
            -0.5 * (log_det + squares / V.residual + (len(y) - 1) * np.log(V.residual))
        )
        load = shape.loading[examples]
        cov = V.prompt * np.outer(load, load) * (arms[:, None] == arms)
        cov += (examples[:, None] == examples) * V.example * shape.example[examples]
        cov += np.diag(V.residual * shape.residual[examples])
        inverse, ones = np.linalg.inv(cov), np.ones(len(y))
        left = shifted - ones @ inverse @ shifted / (ones @ inverse @ ones)
        logs = np.linalg.slogdet(cov)[1] + np.log(ones @ inverse @ ones)
        direct.append(-0.5 * (logs + left @ inverse @ left))
    assert found[0] - found[1] == pytest.approx(direct[0] - direct[1])


def test_examples_of_equal_counts_count_by_their_own_spreads() -> None:
    """The likelihood of a complete table, where every example has the same count, by a dense covariance."""
    rng = np.random.default_rng(7)
    n_arms, n_examples = 4, 30
    arms, examples = np.divmod(np.arange(n_arms * n_examples), n_examples)
    y = rng.normal(size=len(arms))
    ones = np.ones(n_examples)
    spread = rng.uniform(0.2, 2.0, n_examples)
    shape = Shape.of(0.0 * ones, ones, spread, ones, ones, 0.5)
    system = System(arms, examples, y, n_arms, n_examples, shape=shape)
    cov = V.prompt * (arms[:, None] == arms).astype(float)
    cov += (examples[:, None] == examples) * V.example * shape.example[examples]
    cov += V.residual * np.eye(len(y))
    inverse, level = np.linalg.inv(cov), np.ones(len(y))
    precision = level @ inverse @ level
    left = y - level @ inverse @ y / precision
    # The restricted likelihood: log |V| + log |1'V^-1 1| and the generalized residual
    # sum of squares. `likelihood` has them in units of the residual variance.
    log_det, squares = system.likelihood(V)
    direct = np.linalg.slogdet(cov)[1] + np.log(precision)
    assert log_det + (len(y) - 1) * np.log(V.residual) == pytest.approx(direct)
    assert squares / V.residual == pytest.approx(left @ inverse @ left)


def test_a_flat_shape_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two_way, "reml", lambda *_: V)  # the same variances for both
    rng = np.random.default_rng(6)
    arms, examples = np.nonzero(rng.random((6, 12)) < 0.6)
    cells = Cells.of(arms, examples, rng.normal(size=(len(arms), 1)), 12)
    ones = np.ones(12)
    flat = Shape(np.zeros(12), ones, ones, ones, ones, (0.1, 0.4, 0.5))
    plain, shaped = (
        posterior(cells, 0, 6, 12, averaged=False, shape=given)
        for given in (None, flat)
    )
    np.testing.assert_allclose(shaped.mean, plain.mean, rtol=1e-6)
    np.testing.assert_allclose(shaped.sd, plain.sd, rtol=1e-6)
    assert shaped.trust == pytest.approx(0.89)


def test_what_columns_explain_counts_beside_a_shape() -> None:
    rng = np.random.default_rng(3)
    x, arms, examples = (
        rng.normal(size=(30, 2)),
        np.repeat(np.arange(30), 6),
        np.tile(np.arange(6), 30),
    )
    scores = (
        (x @ [1.0, -1.0])[arms]
        + rng.normal(size=6)[examples]
        + 0.5 * rng.normal(size=180)
    )
    ones = np.ones(6)
    flat = Shape(np.zeros(6), ones, ones, ones, ones, (0.1, 0.4, 0.5))
    cells, columns = (
        Cells.of(arms, examples, scores[:, None], 6),
        Regressors.of_arms(x - x.mean(axis=0)),
    )
    plain, shaped = (
        posterior(cells, 0, 30, 6, regressors=columns, shape=given).explained
        for given in (None, flat)
    )
    assert plain > 0.5
    assert shaped == pytest.approx(plain, abs=0.1)


def scores_of(shape: Shape, rng: np.random.Generator, n_arms: int) -> np.ndarray:
    n = len(shape.loading)
    table = (
        shape.shift
        + np.outer(rng.normal(size=n_arms), shape.loading)
        + 0.3 * rng.normal(size=n)
    )
    return table + 0.7 * np.sqrt(shape.residual) * rng.normal(size=table.shape)


def test_a_shape_that_holds_is_believed_and_a_wrong_one_is_not() -> None:
    rng = np.random.default_rng(7)
    shape = a_shape(rng, 60)
    table = scores_of(shape, rng, 30)
    arms, examples = np.nonzero(rng.random(table.shape) < 0.2)
    cells = Cells.of(arms, examples, table[arms, examples][:, None], 60)
    order = rng.permutation(60)
    wrong = Shape(*(column[order] for column in shape[:5]), shape.variances)
    off = {}
    for name, given in (("none", None), ("right", shape), ("wrong", wrong)):
        fit = posterior(cells, 0, 30, 60, averaged=False, shape=given)
        off[name] = np.sqrt(((fit.mean - table.mean(axis=1)) ** 2).mean())
        if given is not None:
            assert fit.trust == pytest.approx(1.0 if name == "right" else 0.0, abs=0.1)
    assert off["right"] < 0.8 * off["none"]
    assert off["wrong"] < 1.05 * off["none"]


def test_levels_are_unbiased_where_only_hard_examples_were_asked() -> None:
    rng = np.random.default_rng(8)
    shape = a_shape(rng, 60)
    table = scores_of(shape, rng, 30)
    hard = np.argsort(shape.shift)[:12]
    arms, examples = np.repeat(np.arange(30), 12), np.tile(hard, 30)
    cells = Cells.of(arms, examples, table[arms, examples][:, None], 60)
    errors = [
        posterior(cells, 0, 30, 60, averaged=False, shape=given).mean.mean()
        - table.mean()
        for given in (None, shape)
    ]
    assert errors[0] < -0.8
    assert abs(errors[1]) < 0.25
