"""What scores say of each example."""

from dataclasses import asdict
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

import asktell
from asktell import ExampleResult
from asktell.results.examples import _rates, _type_three, at_rate

GOAL = asktell.BestFeasible("accuracy")


def analyzed(scores: Any, goal: Any = GOAL, **options: Any) -> list[ExampleResult]:
    return asktell.analyze(scores, goal, **options).examples()


def world(n_prompts: int, n_examples: int, seed: int = 0) -> Any:
    """0/1 scores by a Rasch model, of prompts that differ much."""
    rng = np.random.default_rng(seed)
    abilities, difficulties = (
        rng.normal(0.0, 1.5, (n_prompts, 1)),
        rng.normal(0.0, 1.0, n_examples),
    )
    return (
        rng.random((n_prompts, n_examples)) < 1 / (1 + np.exp(difficulties - abilities))
    ).astype(float)


def flipped(scores: Any, examples: Any) -> Any:
    """The scores with wrong labels of these examples: what was right is wrong."""
    scores = scores.copy()
    scores[:, examples] = 1.0 - scores[:, examples]
    return scores


def test_a_table_worked_by_hand() -> None:
    scores = np.array(
        [[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 0, 1]],
        dtype=float,
    )
    found = analyzed(scores, examples=list("abcd"))
    assert [each.id for each in found] == list("abcd")
    assert [each.prompts for each in found] == [5, 5, 5, 5]
    assert [each.mean for each in found] == pytest.approx([1.0, 0.8, 0.4, 0.2])
    assert [each.loss for each in found] == pytest.approx([0.0, 0.2, 0.6, 0.8])
    assert [each.difficulty for each in found] == pytest.approx([-0.4, -0.2, 0.2, 0.4])
    assert [each.separates_nobody for each in found] == [True, False, False, False]
    for j, each in enumerate(found[1:], start=1):
        rest = np.delete(scores, j, axis=1).mean(axis=1)
        r = stats.pearsonr(scores[:, j], rest).statistic
        assert each.discrimination == pytest.approx(r)
        assert each.standard_error == pytest.approx(((1 - r**2) / 3) ** 0.5)
    assert (
        found[0].discrimination is found[0].standard_error is found[0].p_value is None
    )


def test_an_example_does_not_judge_itself() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random((30, 10))
    scores[:, 3] *= 1000.0  # it alone decides which prompt is the best
    each = analyzed(scores)[3]
    rest = np.delete(scores, 3, axis=1).mean(axis=1)
    assert each.discrimination == pytest.approx(
        stats.pearsonr(scores[:, 3], rest).statistic
    )


def test_difficulty_does_not_depend_on_which_prompts_saw_an_example() -> None:
    rng = np.random.default_rng(1)
    abilities, ease = rng.normal(size=(12, 1)), rng.normal(size=20)
    scores = abilities + ease
    scores[rng.random(scores.shape) < 0.4] = np.nan
    found = [each.difficulty for each in analyzed(scores)]
    assert found == pytest.approx(ease.mean() - ease, abs=1e-6)


def test_less_is_better_where_it_is_minimized() -> None:
    scores = world(20, 30)
    as_good = analyzed(scores)
    as_bad = analyzed(
        1.0 - scores, asktell.BestFeasible(asktell.minimize("error", range=(0, 1)))
    )
    for good, bad in zip(as_good, as_bad, strict=True):
        assert bad.mean == pytest.approx(1.0 - (good.mean or 0.0))
        for name in (
            "loss",
            "difficulty",
            "discrimination",
            "standard_error",
            "p_value",
        ):
            assert getattr(bad, name) == pytest.approx(getattr(good, name)), name


def test_every_metric_can_be_asked_for() -> None:
    scores = np.stack(
        [world(10, 20), np.random.default_rng(0).random((10, 20))], axis=2
    )
    result = asktell.analyze(
        scores, asktell.ParetoSet("accuracy", asktell.minimize("cost"))
    )
    assert [each.mean for each in result.examples()] == pytest.approx(
        scores[:, :, 0].mean(axis=0)
    )
    found = result.examples("cost")
    assert [each.mean for each in found] == pytest.approx(scores[:, :, 1].mean(axis=0))
    assert [each.loss for each in found] == pytest.approx(
        scores[:, :, 1].mean(axis=0) - scores[:, :, 1].min()
    )


def test_the_loss_in_a_constrained_metric_uses_its_range() -> None:
    goal = asktell.BestFeasible(
        "accuracy", {asktell.maximize("brevity", range=(0, 10)): asktell.at_least(2)}
    )
    scores = np.array([[[1.0, 4.0], [0.0, 7.0]], [[1.0, 6.0], [1.0, 3.0]]])
    found = asktell.analyze(scores, goal).examples("brevity")
    assert [each.loss for each in found] == pytest.approx([5.0, 5.0])


def test_it_is_a_table_for_pandas_and_for_json() -> None:
    import pandas

    found = analyzed(world(6, 5))
    frame = pandas.DataFrame(found)
    assert list(frame.columns) == list(asdict(found[0]))
    assert len(frame) == 5
    assert found[0].to_dict()["near_duplicates"] == []


# Mislabeled examples


@pytest.mark.parametrize("skew", [-1.5, -0.2, 0.0, 0.7, 3.0])
def test_the_permutation_distribution_is_pearsons_third_type(skew: float) -> None:
    z = np.linspace(-4.0, 4.0, 9)
    assert _type_three(z, np.full(9, skew)) == pytest.approx(
        stats.pearson3.cdf(z, skew), abs=1e-9
    )


def test_discoveries_are_those_of_benjamini_and_hochberg_among_the_small_half() -> None:
    # Doubled .002, .04, .068, .24 and .96. One is above 1/2: (1 + 1) / (1 - 1/2) = 4
    # hypotheses may be true. The bars are .025, .05, .075 and .1: the third one passes,
    # and so do those below it.
    p_values = np.array([0.9, 0.02, 0.001, np.nan, 0.034, 0.12, 0.7, 0.48])
    assert sorted(at_rate(_rates(p_values), 0.1)) == [1, 2, 4]
    assert not at_rate(_rates(np.array([np.nan, 0.9])), 0.1)


def test_p_values_are_no_smaller_than_they_may_be() -> None:
    """Also where few prompts stand apart, as broken ones do."""
    rng = np.random.default_rng(2)
    abilities = np.concatenate(([-5.0, -5.0], rng.normal(0.0, 0.1, 26)))[:, None]
    # Which say how good the prompts are
    anchors = abilities + rng.normal(0.0, 0.01, (28, 50))
    chance = (rng.random((28, 4000)) < rng.uniform(0.02, 0.98, 4000)).astype(float)
    found = analyzed(np.concatenate((anchors, chance / 1000.0), axis=1))[50:]
    p_values = np.array(
        [1.0 if each.p_value is None else each.p_value for each in found]
    )
    for level in (0.05, 0.005):
        assert (p_values <= level).mean() <= 1.2 * level


def test_wrong_labels_are_found_and_others_are_not() -> None:
    wrong = np.arange(0, 200, 20)
    found = np.array(
        [each.likely_mislabeled for each in analyzed(flipped(world(60, 200), wrong))]
    )
    assert found[wrong].mean() >= 0.8
    assert found.sum() - found[wrong].sum() <= 1
    assert not any(each.likely_mislabeled for each in analyzed(world(60, 200)))


def test_a_lower_rate_finds_a_part() -> None:
    result = asktell.analyze(flipped(world(30, 200), np.arange(0, 200, 20)), GOAL)
    few, many = (
        {each.id for each in result.examples(fdr=rate) if each.likely_mislabeled}
        for rate in (0.01, 0.3)
    )
    assert few < many


def test_nothing_is_called_mislabeled_where_no_prompt_is_better() -> None:
    """Scores that follow from two opposed abilities have negative correlations, but no prompt is good in both."""
    rng = np.random.default_rng(3)
    side = rng.normal(0.0, 1.5, (60, 1)) * np.where(np.arange(200) % 2, 1.0, -1.0)
    found = analyzed((rng.random((60, 200)) < 1 / (1 + np.exp(side))).astype(float))
    assert min(each.discrimination or 0.0 for each in found) < -0.3
    assert not any(each.likely_mislabeled for each in found)


# Near duplicates


def test_near_duplicates_name_each_other() -> None:
    scores = world(60, 50)
    twin = scores[:, [7]].copy()
    twin[0] = 1.0 - twin[0]
    found = analyzed(np.concatenate((scores, twin), axis=1))
    assert found[7].near_duplicates == (50,)
    assert found[50].near_duplicates == (7,)
    assert [each.id for each in found if each.near_duplicates] == [7, 50]


def test_easy_examples_agree_by_chance() -> None:
    rng = np.random.default_rng(4)
    scores = (rng.random((100, 60)) < 0.98).astype(float)
    assert not any(each.near_duplicates for each in analyzed(scores))


def test_examples_that_only_the_bad_prompts_fail_are_no_duplicates() -> None:
    """They agree because the prompts differ, which tells nothing of the examples."""
    scores = np.ones((60, 40))
    scores[:30] = 0.0
    rng = np.random.default_rng(5)
    noise = rng.random(scores.shape) < 0.02
    found = analyzed(np.where(noise, 1.0 - scores, scores))
    assert not any(each.near_duplicates for each in found)


def test_duplicates_among_scores_that_are_no_shares() -> None:
    scores = np.random.default_rng(6).normal(size=(40, 30))
    found = analyzed(np.concatenate((scores, scores[:, [4]] + 1e-6), axis=1))
    assert found[4].near_duplicates == (30,)


# Hostile tables


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 7).flatmap(
        lambda k: st.integers(1, 7).flatmap(
            lambda n: st.lists(
                st.lists(
                    st.sampled_from([0.0, 1.0, 0.5, -3.0, 1e90, np.nan]),
                    min_size=n,
                    max_size=n,
                ),
                min_size=k,
                max_size=k,
            )
        )
    )
)
def test_any_table_has_examples_and_numbers_within_bounds(
    rows: list[list[float]],
) -> None:
    scores = np.array(rows)
    if np.isnan(scores).all():
        return
    found = analyzed(scores)
    assert len(found) == scores.shape[1]
    for j, each in enumerate(found):
        assert each.prompts == int((~np.isnan(scores[:, j])).sum())
        assert (each.mean is None) == (each.prompts == 0)
        assert each.discrimination is None or -1.0 <= each.discrimination <= 1.0
        assert each.p_value is None or 0.0 <= each.p_value <= 1.0
        assert each.loss is None or each.loss >= -1e-9 * np.nanmax(np.abs(scores))
        assert j not in each.near_duplicates


def test_one_prompt_and_one_example() -> None:
    (only,) = analyzed([[1.0]])
    assert (
        only.prompts,
        only.separates_nobody,
        only.discrimination,
        only.difficulty,
    ) == (1, False, None, 0.0)
    assert all(each.discrimination is None for each in analyzed([[1.0, 0.0, 1.0]]))
    assert all(each.discrimination is None for each in analyzed(world(10, 1)))


def test_constant_scores_separate_nobody() -> None:
    found = analyzed(np.full((8, 6), 0.7))
    assert all(
        each.separates_nobody
        and each.discrimination is None
        and not each.near_duplicates
        for each in found
    )


def test_an_example_without_scores_has_no_numbers() -> None:
    scores = world(8, 6)
    scores[:, 2] = np.nan
    each = analyzed(scores)[2]
    assert (each.prompts, each.mean, each.loss, each.difficulty, each.p_value) == (
        0,
        None,
        None,
        None,
        None,
    )
    assert not each.separates_nobody


def test_repeats_count_once_and_a_selection_has_examples_before_it_ends() -> None:
    scores = world(8, 6)
    assert analyzed(np.stack([scores] * 3, axis=2)[:, :, None]) == analyzed(scores)
    selector = asktell.Selector(["a", "b"], GOAL, 10, examples=["x", "y", "z"])
    assert [each.prompts for each in selector.result().examples()] == [0, 0, 0]
    trial = selector.ask()
    assert trial is not None
    selector.tell(trial, [1.0])
    assert sum(each.prompts for each in selector.result().examples()) == 1


def test_wrong_calls_say_what_to_do() -> None:
    result = asktell.analyze(world(6, 5), GOAL)
    with pytest.raises(asktell.InvalidArgumentError, match="did you mean 'accuracy'"):
        result.examples("acuracy")
    for rate in (0, 1.5, "0.1", float("nan")):
        with pytest.raises(asktell.InvalidArgumentError, match="above 0 and at most 1"):
            result.examples(fdr=rate)  # type: ignore[arg-type]
    free = asktell.Selector(["a", "b"], GOAL, 4)
    with pytest.raises(asktell.InvalidArgumentError, match="examples="):
        free.result().examples()
