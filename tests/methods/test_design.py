"""Which examples come next."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asktell.methods.auto import design
from asktell.methods.auto.design import (
    CellNoise,
    Informative,
    information,
    next_examples,
    next_turns,
)

NONE = np.zeros(0, dtype=np.int64)


def fill(n_arms: int, n_examples: int, pulls: int, share: float) -> np.ndarray:
    arms, examples = NONE, NONE
    for _ in range(pulls):
        more, on = next_examples(np.arange(n_arms), arms, examples, n_examples, share)
        arms, examples = np.concatenate((arms, more)), np.concatenate((examples, on))
    table = np.zeros((n_arms, n_examples), dtype=int)
    np.add.at(table, (arms, examples), 1)
    return table


@pytest.mark.parametrize("share", [1.0, 4.0, 10.0])
def test_every_example_is_used_by_about_so_many_prompts(share: float) -> None:
    table = fill(20, 500, 3, share)
    assert table.max() == 1
    assert (table.sum(axis=1) == 3).all()
    uses = table.sum(axis=0)
    assert uses[uses > 0].mean() == pytest.approx(share, rel=0.2)
    assert uses.max() <= share + 1


def test_sharing_fully_gives_every_prompt_the_same_examples() -> None:
    table = fill(20, 500, 3, 20.0)
    assert sorted(table.sum(axis=0))[-3:] == [20] * 3
    assert table.sum() == 60


def test_a_prompt_never_sees_an_example_twice_and_stops_when_it_has_seen_all() -> None:
    table = fill(4, 5, 7, 2.0)
    assert (table == 1).all()
    arms, examples = np.nonzero(table)
    assert not len(next_examples(np.arange(4), arms, examples, 5, 2.0)[0])


def test_noisy_examples_come_again_in_the_order_once_all_are_used() -> None:
    arms, examples = NONE, NONE
    for _ in range(12):
        more, on = next_examples(np.arange(3), arms, examples, 5, 2.0, repeats=3)
        arms, examples = np.concatenate((arms, more)), np.concatenate((examples, on))
    table = np.zeros((3, 5), dtype=int)
    np.add.at(table, (arms, examples), 1)
    assert (table == [3, 3, 2, 2, 2]).all()
    for _ in range(3):
        more, on = next_examples(np.arange(3), arms, examples, 5, 2.0, repeats=3)
        arms, examples = np.concatenate((arms, more)), np.concatenate((examples, on))
    assert not len(next_examples(np.arange(3), arms, examples, 5, 2.0, repeats=3)[0])


@pytest.mark.parametrize(
    ("noise", "expected"),
    [
        # .2025 / 1.405 > .25 / 5.5: a new one would tell of its example more than of
        # the prompt
        (CellNoise(0.9, 4.0), 0),
        (CellNoise(0.6, 1.0), 2),  # .09 / 1.02 < .25 / 2.5
        (CellNoise(0.2, 4.0), 2),
        (None, 2),
    ],
)
def test_who_would_be_alone_on_a_new_example_may_rather_ask_again(
    noise: CellNoise | None, expected: int
) -> None:
    used_arms, used = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    _, on = next_examples(
        np.array([0]), used_arms, used, 9, 2.0, np.ones(2), None, 2, noise
    )
    assert on.tolist() == [expected]
    # An example that somebody else has seen is better in any case.
    more_arms, more = np.append(used_arms, 1), np.append(used, 2)
    _, on = next_examples(
        np.array([0]), more_arms, more, 9, 2.0, np.ones(2), None, 2, noise
    )
    assert on.tolist() == [2]


def test_a_prompt_beyond_the_pool_goes_on() -> None:
    arms, examples = np.zeros(6, dtype=np.int64), np.arange(6)
    more, on = next_examples(np.array([0, 1]), arms, examples, 10, 100.0)
    assert more.tolist() == [0, 1]
    assert on.tolist() == [6, 0]


def test_information_by_hand() -> None:
    # Correlation 1/3: Beta with a + b = 2; half of the scores are 1, so a = b = 1, and
    # E p (1 - p) = 1/6 beforehand.
    examples = np.array([0, 0, 1, 1, 1, 2, -1, -1])
    scores = np.array([1, 0, 1, 1, 1, 0, 0, 0])
    found = information(examples, scores, 1 / 3, 4)
    # Example 0: Beta(2, 2), 4 / 20; 1: Beta(4, 1), 4 / 30; 2: Beta(1, 2), 2 / 12; 3:
    # nobody has seen it.
    np.testing.assert_allclose(found, [6 / 5, 6 * 4 / 30, 1.0, 1.0])


@given(
    counts=st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=6
    ),
    correlation=st.floats(0.5, 1.0),
)
def test_what_divides_the_prompts_tells_most(
    counts: list[tuple[int, int]], correlation: float
) -> None:
    counts = [*counts, (5, 5), (10, 0), (0, 10)]
    examples = np.concatenate([np.full(sum(pair), j) for j, pair in enumerate(counts)])
    scores = np.concatenate([np.repeat([1.0, 0.0], pair) for pair in counts])
    found = information(examples, scores, correlation, len(counts) + 1)
    assert (found > 0).all()
    assert found[-1] == pytest.approx(1.0)
    assert found[-4] > max(found[-3], found[-2])


def test_a_prompt_takes_the_example_that_has_divided_the_others() -> None:
    arms, used = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    doubt = np.array([1.0, 1.0, 1.0])
    for best in range(2):
        informative = Informative(np.array([1 - best]), np.array([0.1]))
        found, on = next_examples(np.array([2]), arms, used, 5, 6.0, doubt, informative)
        assert (found.tolist(), on.tolist()) == ([2], [best])


def test_a_new_example_is_opened_where_those_in_use_tell_nothing() -> None:
    arms, used = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    doubt = np.array([1.0, 1.0, 1.0])
    informative = Informative(np.array([0, 1]), np.array([0.1, 0.1]))
    _, on = next_examples(np.array([2]), arms, used, 5, 6.0, doubt, informative)
    assert on.tolist() == [2]
    _, on = next_examples(np.array([2, 0, 1]), arms, used, 5, 6.0, doubt, informative)
    assert on.tolist() == [2, 2, 2]


@given(seed=st.integers(0, 2**32), told=st.booleans())
def test_examples_that_nobody_reaches_change_nothing(seed: int, told: bool) -> None:
    rng = np.random.default_rng(seed)
    arms, used = np.nonzero(rng.random((4, 300)) < rng.choice([0.01, 0.5, 0.9]))
    doubt = rng.random(4) if told else None
    places = np.unique(used)
    informative = Informative(places, rng.random(len(places))) if told else None
    few, many = (
        next_examples(np.arange(4), arms, used, n, 3.0, doubt, informative)
        for n in (600, 10**12)
    )
    np.testing.assert_equal(few, many)


def _variance(
    n: int, asks: list[int], unseen: list[float], noise: CellNoise, n_given: int | None
) -> float:
    """Posterior variance of a prompt's mean, by dense matrices.

    The mean is that over new inputs, or over so many given examples. The prompt has
    scored n examples, each as often as `asks` says, whose effects are known from
    rivals; and further ones, whose effects have these variances.
    """
    n_examples = n_given or n + len(unseen)
    # Unknowns: the prompt's effect, whose prior is flat, and how it differs on each
    # example.
    prior = np.diag([1e7, *[1.0 - noise.share] * n_examples])
    rows = np.zeros((n + len(unseen), 1 + n_examples))
    rows[:, 0] = 1.0
    rows[np.arange(len(rows)), 1 + np.arange(len(rows))] = 1.0
    of_scores = np.diag(
        [*(noise.share / np.array(asks)), *(noise.share + np.array(unseen))]
    )
    mean = np.zeros(1 + n_examples)
    mean[0] = 1.0
    mean[1:] = 0.0 if n_given is None else 1.0 / n_given
    told = rows @ prior
    return float(
        mean @ prior @ mean
        - (told @ mean) @ np.linalg.solve(told @ rows.T + of_scores, told @ mean)
    )


@given(
    share=st.floats(0.05, 0.95),
    example=st.floats(0.0, 20.0),
    n=st.integers(1, 8),
    asks=st.integers(1, 4),
    more=st.sampled_from([None, 1, 5]),
)
def test_what_an_evaluation_takes_off_the_variance(
    share: float, example: float, n: int, asks: int, more: int | None
) -> None:
    """For the mean over new inputs, and over given examples of which one or five are new to the prompt."""
    noise, n_given = CellNoise(share, example), None if more is None else n + more
    before = _variance(n, [asks] * n, [], noise, n_given)
    for new_effect, is_shared in ((0.0, True), (example, False)):
        after = _variance(n, [asks] * n, [new_effect], noise, n_given)
        assert before - after == pytest.approx(
            noise.by_new_example(n, asks, is_shared), abs=1e-5
        )
    again = _variance(n, [asks + 1, *[asks] * (n - 1)], [], noise, n_given)
    assert before - again == pytest.approx(noise.by_repeat(n, asks), abs=1e-5)


@given(
    share=st.floats(0.0, 1.0),
    example=st.floats(0.0, 1e3),
    n=st.integers(1, 500),
    asks=st.integers(1, 50),
)
def test_a_repeat_is_never_better_than_a_new_example_that_rivals_share(
    share: float, example: float, n: int, asks: int
) -> None:
    noise = CellNoise(share, example)
    assert noise.by_repeat(n, asks) <= noise.by_new_example(n, asks, is_shared=True) * (
        1 + 1e-9
    )
    assert not CellNoise(0.0, example).favours_repeat(n, asks)


def test_only_much_noise_and_very_different_examples_favour_a_repeat() -> None:
    assert not CellNoise(0.5, 1.0).favours_repeat(5, 1)
    assert not CellNoise(0.2, 5.0).favours_repeat(5, 1)
    assert CellNoise(0.9, 5.0).favours_repeat(5, 1)
    assert CellNoise(0.9, 5.0).by_repeat(5, 4) < CellNoise(0.9, 5.0).by_repeat(5, 1)


@given(
    seed=st.integers(0, 2**32),
    n_examples=st.sampled_from([3, 20, 400]),
    repeats=st.sampled_from([1, 1, 3]),
)
def test_many_turns_are_turns_one_by_one(
    seed: int, n_examples: int, repeats: int
) -> None:
    rng = np.random.default_rng(seed)
    known = rng.random((4, n_examples)) < rng.choice([0.01, 0.5, 0.9])
    used_arms, used = np.nonzero(known)
    turn = rng.permutation(4)[: rng.integers(1, 5)]
    doubt = rng.random(4) if rng.random() < 0.7 else None
    informative = Informative(np.array([0, 2]), np.array([0.1, 0.3]))
    options = (n_examples, 3.0, doubt, informative, repeats, CellNoise(0.6, 5.0))
    many = next_turns(600, turn, used_arms, used, *options)
    one_by_one: list[tuple[int, int]] = []
    while len(turn) and len(one_by_one) < 600:
        turn, on = next_examples(turn, used_arms, used, *options)
        one_by_one += zip(turn.tolist(), on.tolist(), strict=True)
        used_arms, used = np.append(used_arms, turn), np.append(used, on)
    assert list(zip(*many, strict=True)) == one_by_one


def test_turns_do_not_read_the_cells_before_them_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches: list[int] = []

    class Counted(design._Search):
        def __init__(self, *arguments: object) -> None:
            searches.append(1)
            super().__init__(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(design, "_Search", Counted)
    arms, _ = next_turns(1000, np.arange(2), NONE, NONE, 10_000, 8.0)
    assert (len(arms), len(searches)) == (1000, 1)
