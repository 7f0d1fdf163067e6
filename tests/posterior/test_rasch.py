"""The model of right and wrong answers."""

import numpy as np
import numpy.typing as npt
import pytest

from asktell import BestFeasible, ParetoSet, Selector, at_least, maximize
from asktell.posterior.of_state import stated
from asktell.posterior.rasch import Rasch
from tests.seeds import Seeds

Matrix = npt.NDArray[np.float64]


def drawn(
    n_arms: int, n_examples: int, seed: int, spread: float = 0.5
) -> tuple[Matrix, Matrix]:
    """Shares of 1 in a large population, and scores on examples drawn from it."""
    rng = np.random.default_rng(seed)
    ability, ease = spread * rng.normal(size=n_arms), rng.normal(1.0, 2.0, 4000)
    chance = 1 / (1 + np.exp(-(ability[:, None] + ease)))
    given = rng.integers(0, len(ease), n_examples)
    return chance.mean(axis=1), (
        rng.random((n_arms, n_examples)) < chance[:, given]
    ).astype(float)


def model(
    scores: Matrix,
    part: float,
    seed: int = 0,
    *,
    is_new: bool,
    centre: float | None = None,
) -> Rasch:
    """The model of a random part of the cells, for new inputs or for the examples of the scores."""
    told = np.random.default_rng(seed).random(scores.shape) < part
    told[:, 0] = True
    arms, examples = np.nonzero(told)
    n_examples = None if is_new else scores.shape[1]
    return Rasch(arms, examples, scores[told], len(scores), n_examples, centre)


@pytest.mark.parametrize("is_new", [False, True])
def test_levels_and_prompts_are_covered_on_the_given_examples_and_on_new_ones(
    seeds: Seeds,
    is_new: bool,
) -> None:
    inside = []
    for seed in seeds(60):
        of_all, scores = drawn(6, 40, seed)
        truth = of_all if is_new else scores.mean(axis=1)
        draws = model(scores, 0.3, seed, is_new=is_new).draws(
            400, np.random.default_rng(seed)
        )
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        inside.append(np.mean((low <= truth) & (truth <= high)))
    wide = np.sqrt(60 / len(inside))
    assert 0.9 - 0.06 * wide < np.mean(inside) < 0.9 + 0.07 * wide


def test_what_was_seen_whole_is_known_exactly_and_new_examples_are_not() -> None:
    scores = drawn(3, 30, 1)[1]
    given = model(scores, 1.1, is_new=False).draws(50, np.random.default_rng(0))
    np.testing.assert_allclose(
        given, np.broadcast_to(scores.mean(axis=1), given.shape), atol=1e-12
    )
    new = model(scores, 1.1, is_new=True).draws(50, np.random.default_rng(0))
    assert (new.std(axis=0) > 0.02).all()


def test_examples_that_are_right_or_wrong_whoever_answers_tell_nothing_of_prompts() -> (
    None
):
    """Of 40 examples 20 are always right and 20 always wrong: the prompts are alike, but the level is not known."""
    scores = np.tile(np.repeat([1.0, 0.0], 20), (5, 1))
    new = model(scores, 0.5, is_new=True).draws(400, np.random.default_rng(0))
    level = new.mean(axis=1)
    assert level.std() > 0.05
    assert (new - level[:, None]).std() < 0.5 * level.std()


@pytest.mark.parametrize("is_new", [False, True])
def test_draws_are_shares_and_follow_from_the_seed(is_new: bool) -> None:
    scores = drawn(4, 20, 2)[1]
    one, other = (
        model(scores, 0.4, is_new=is_new).draws(64, np.random.default_rng(3))
        for _ in range(2)
    )
    assert one.shape == (64, 4)
    assert ((one >= 0) & (one <= 1)).all()
    np.testing.assert_array_equal(one, other)


def test_few_scores_draw_the_level_towards_the_share_that_is_likely_beforehand() -> (
    None
):
    scores = np.ones((3, 2))
    levels = [
        model(scores, 1.1, is_new=True, centre=centre)
        .draws(400, np.random.default_rng(0))
        .mean()
        for centre in (0.1, None, 0.5, 0.9)
    ]
    assert levels[1] == levels[2]
    assert levels[0] < levels[1] - 0.01
    assert levels[2] < levels[3] - 0.01
    many = np.tile([1.0, 1.0, 1.0, 0.0], (3, 100))
    levels = [
        model(many, 1.1, is_new=True, centre=centre)
        .draws(400, np.random.default_rng(0))
        .mean()
        for centre in (0.1, 0.9)
    ]
    assert levels == pytest.approx([0.75, 0.75], abs=0.02)


def test_scores_of_unnamed_examples_are_of_one_example_each() -> None:
    arms = np.repeat([0, 1], 30)
    scores = np.concatenate(
        (np.tile([1.0, 1.0, 0.0], 10), np.tile([1.0, 0.0, 0.0], 10))
    )
    new = Rasch(arms, np.full(60, -1), scores, 2, None).draws(
        400, np.random.default_rng(0)
    )
    assert new.mean(axis=0) == pytest.approx([0.62, 0.38], abs=0.06)
    named = Rasch(arms, np.arange(60)[::-1], scores, 2, None).draws(
        400, np.random.default_rng(0)
    )
    np.testing.assert_array_equal(new, named)


def test_a_statement_of_scores_of_0_and_1_states_the_error_of_the_level_that_all_prompts_share() -> (
    None
):
    """On four examples that all prompts share, the level is as uncertain as four coins are, however many prompts."""
    selector = Selector(
        [f"p{i}" for i in range(20)],
        BestFeasible("right"),
        200,
        "uniform",
        examples=200,
    )
    for arm in range(20):
        for example in range(4):
            selector.observe(arm, [float(example < 2)], example=example)
    found = stated(selector.state)
    assert found is not None
    assert 0.12 < found.values[:, :, 0].mean(axis=1).std() < 0.3
    assert (found.errors[:, 0] > 0.12).all()


@pytest.mark.parametrize(
    ("score", "bound", "n_prompts", "n_scores"),
    [(0.0, 0.56, 8, 16), (1.0, 0.8, 30, 30)],
)
def test_few_examples_on_which_all_are_alike_decide_about_no_limit_in_between(
    score: float, bound: float, n_prompts: int, n_scores: int
) -> None:
    goal = BestFeasible("brevity", {"accuracy": bound})
    selector = Selector(
        [f"prompt {i}" for i in range(n_prompts)],
        goal,
        budget=2 * n_prompts,
        examples=100,
    )
    for at, trial in enumerate(selector.ask(n_scores)):
        selector.tell(trial, {"brevity": 0.1 * at, "accuracy": score})
    verdict = selector.result().verdict
    assert verdict.p_feasible is not None
    assert 0.02 < verdict.p_feasible < 0.9, (
        "scores of many prompts on few examples are few"
    )
    assert verdict.p_best is not None
    assert verdict.outlook[0].p_best is not None
    assert verdict.outlook[0].p_best < verdict.p_best + 0.3, (
        "scores that may be 0 or 1 are noisy"
    )


def test_a_metric_of_which_only_an_end_was_seen_is_no_share_where_its_range_is_another() -> (
    None
):
    goal = ParetoSet(
        "brevity",
        maximize("stars", range=(1.0, 5.0)),
        subject_to={"stars": at_least(1.0)},
    )
    selector = Selector(["a", "b"], goal, budget=8, examples=100)
    for trial in selector.ask(8):
        selector.tell(trial, {"brevity": 0.5, "stars": 1.0})
    assert selector.result().verdict.p_feasible == 1.0


def test_the_precision_is_the_curvature_less_what_the_unknown_ease_takes_away() -> None:
    """Example by example: the covariance of the prompts' chances over the posterior of the example's ease."""
    rng = np.random.default_rng(0)
    told = rng.random((4, 9)) < 0.5
    told[:, 0] = True
    arms, examples = np.nonzero(told)
    scores = (rng.random(len(arms)) < 0.6).astype(float)
    found = Rasch(arms, examples, scores, 4, None)
    p = rng.random((4, 29))
    ease = rng.dirichlet(np.ones(29), told.any(axis=0).sum())
    expected = np.diag(np.full(4, 5.0))
    for weights, seen in zip(ease, told.T[told.any(axis=0)], strict=True):
        mine = np.flatnonzero(seen)
        covariance = np.cov(p[mine], aweights=weights, bias=True).reshape(
            len(mine), len(mine)
        )
        expected[np.ix_(mine, mine)] -= covariance
    np.testing.assert_allclose(
        found._precision(p, ease, np.full(4, 5.0)), expected, atol=1e-12
    )
