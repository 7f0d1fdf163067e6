"""Two prompts, one metric: what is stated, how it is said, and that it is right."""

import json
import math
import re
from itertools import product
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import BestFeasible, InvalidArgumentError, maximize, minimize
from asktell.results.comparison import Comparison, lead
from asktell.results.difference import Difference, compare
from tests.seeds import Seeds

# Words and spellings that docs/contributing/style.md replaces.
REPLACED = re.compile(
    r"\d %|\b(answers?|pulls?|front|told|knows|proofs?|proven|certain|undecided|limits?|thresholds?|keeps|misses)\b"
    r"|\b(joined|who|nobody|go on)\b",
    re.IGNORECASE,
)


def exact(a: Any, b: Any, **options: Any) -> Difference:
    """The difference on examples that are exactly those given, with scores that agree when they are repeated."""
    return compare(a, b, population=len(a), **options)


def said(
    difference: Difference, examples: int | None = None, tolerance: float = 0.0
) -> str:
    tolerances = {"accuracy": tolerance} if tolerance else {}
    return str(
        Comparison("b", "mine", 0.95, {"accuracy": difference}, examples, tolerances)
    )


def scores(
    n: int, both: int = 0, only_a: int = 0, only_b: int = 0, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """0/1 scores of two prompts on n examples, in random order."""
    counts = [both, only_a, only_b, n - both - only_a - only_b]
    order = np.random.default_rng(seed).permutation(n)
    return np.repeat([1.0, 1.0, 0.0, 0.0], counts)[order], np.repeat(
        [1.0, 0.0, 1.0, 0.0], counts
    )[order]


def test_a_clear_difference_is_a_verdict_in_the_metrics_direction() -> None:
    a, b = scores(300, both=150, only_a=70, only_b=10)
    more = compare(a[:150], b[:150], population=300, limits=(0, 1))
    less = compare(a[:150], b[:150], population=300, limits=(0, 1), minimize=True)
    assert (more.verdict, less.verdict) == ("better", "worse")
    assert (more.estimate, more.low, more.high) == (less.estimate, less.low, less.high)
    assert more.guaranteed
    assert more.low is not None
    assert more.high is not None
    assert 0 < more.low < 0.2 < more.high
    assert said(more, 300).startswith(
        'accuracy: "b" is better than "mine": difference +0.2'
    )
    assert said(less, 300).startswith(
        'accuracy: "b" is worse than "mine": difference +0.2'
    )


def test_an_undecided_difference_has_its_probability() -> None:
    a, b = scores(300, both=150, only_a=40, only_b=28)
    difference = compare(a[:120], b[:120], 0.021, 0.73, limits=(0, 1))
    assert (difference.verdict, difference.estimate, difference.p_better) == (
        "undecided",
        0.021,
        0.73,
    )
    assert said(difference, 300) == (
        'accuracy: "b" is probably better than "mine" (estimated probability 73%). '
        "This is not established, because the 95% interval includes 0. The "
        "probability depends on a statistical model, but the interval does not. "
        "Estimated difference +0.021, 95% interval at every look -0.15 to +0.169 (120 common "
        "examples of 300)."
    )


def test_a_prompt_without_a_common_example_has_a_probability_all_the_same() -> None:
    late = compare([], [], 0.2, 0.9, limits=(0, 1))
    assert (late.estimate, late.p_better, late.pairs, late.verdict) == (
        0.2,
        0.9,
        0,
        "undecided",
    )
    assert said(late, 300) == (
        'accuracy: "b" is probably better than "mine" (estimated probability 90%). This is not established, '
        "because they have no common examples. Estimated difference +0.2."
    )


def test_a_sentence_never_rounds_to_certainty() -> None:
    difference = Difference(-0.05, -0.12, 0.01, 0.0012, 80, "undecided", False)
    assert said(difference) == (
        'accuracy: "b" is probably worse than "mine" (estimated probability over '
        "99%). This is not established, because the 95% interval includes 0. The "
        "probability depends on a statistical model, but the interval does not. "
        "Estimated difference -0.05, 95% interval at every look -0.12 to +0.01 (80 common "
        "examples)."
    )


def test_all_given_examples_are_exact_whatever_the_range_or_the_model() -> None:
    a, b = scores(60, both=30, only_a=6, only_b=3)
    difference = compare(a, b, 0.04, 0.8, population=60)
    assert difference == Difference(0.05, 0.05, 0.05, 1.0, 60, "better", True)
    assert (
        said(difference, 60)
        == 'accuracy: "b" is better than "mine": difference +0.05 (exact for the '
        "given examples, since both were evaluated on all 60 examples)."
    )
    assert exact(a, b, minimize=True).p_better == 0.0
    assert exact(a, b, tolerance=0.05).verdict == "equal"
    assert exact([0.1, 0.2], [0.3, 0.0]) == Difference(
        0.0, 0.0, 0.0, 0.5, 2, "equal", True
    )


def test_for_new_inputs_no_number_of_examples_is_exact() -> None:
    """10 wins against 9 of 60: certain of the 60; of new inputs it is what 60 draws of any number tell."""
    a, b = np.zeros(60), np.zeros(60)
    in_turn = np.random.default_rng(0).permutation(60)
    a[in_turn[:10]], b[in_turn[10:19]] = 1.0, 1.0
    found = compare(a, b, limits=(0, 1))
    assert found.verdict == "undecided"
    assert (found.low or 0) < 0 < 1 / 60 < (found.high or 0)
    ties = compare(np.ones(8), np.ones(8))
    assert (ties.low or 0) < 0 == ties.estimate < (ties.high or 0)


def test_scores_that_all_agree_are_no_proof() -> None:
    ones = np.ones(24)
    for limits in ((0, 1), None):
        difference = compare(ones, ones, population=300, limits=limits, tolerance=0.02)
        assert difference.verdict == "undecided"
        assert difference.p_better == 0.5
        assert difference.high is not None
        assert difference.high > 0.1
        assert said(difference).startswith(
            'accuracy: "b" and "mine" have the same mean so far: difference 0, 95% interval at every look '
        )
    # Nothing tells how far others may lie
    assert compare(ones * 7, ones * 7, population=300).high is None
    late = compare(np.ones(250), np.ones(250), population=300, tolerance=0.02)
    assert late.verdict == "equal"
    assert said(late, 300, 0.02).startswith(
        'accuracy: "b" and "mine" are equal within the tolerance of 0.02: difference '
        "0, 95% interval at every look -0.0072"
    )


def test_a_metric_without_noise_is_soon_settled() -> None:
    jitter = np.random.default_rng(0).normal(0, 1e-6, (2, 20))
    few = compare(3 + jitter[0, :4], 5 + jitter[1, :4], population=300, minimize=True)
    assert few.verdict == "better"
    verdicts = [compare([3.0] * n, [5.0] * n, population=300).verdict for n in (5, 15)]
    assert verdicts == ["undecided", "worse"]


def test_scores_of_0_and_1_keep_within_their_range_without_being_told() -> None:
    difference = compare([1, 1, 0], [0, 1, 0], population=300)
    assert not difference.guaranteed
    assert difference.low is not None
    assert difference.high is not None
    assert -1 <= difference.low <= difference.high <= 1


def test_only_a_known_range_is_guaranteed_and_only_if_nothing_else_speaks_against_it() -> (
    None
):
    a, b = scores(100, both=40, only_a=20)
    assert compare(a[:9], b[:9], population=100, limits=(0, 1)).guaranteed
    assert not compare(
        a[:9], b[:9], population=100, limits=(0, 1), guaranteed=False
    ).guaranteed
    assert not compare(a[:9], b[:9], population=100).guaranteed
    both = {"x": compare(a[:9], b[:9], limits=(0, 1)), "y": compare(a[:9], b[:9])}
    assert not Comparison(0, 1, 0.95, both).guaranteed


def test_without_a_common_example_nothing_is_stated() -> None:
    assert compare([], []) == Difference(None, None, None, 0.5, 0, "undecided", False)
    bounded = compare([], [], limits=(0, 5))
    assert (bounded.low, bounded.high) == (-5, 5)
    assert said(bounded) == 'accuracy: "b" and "mine" have no common example yet.'


def test_a_comparison_is_json() -> None:
    entry = Comparison("b", 0, 0.95, {"m": compare([0.2], [0.1])}, 30).to_dict()
    assert entry["differences"]["m"]["low"] is None
    assert (entry["a"], entry["b"], entry["guaranteed"]) == ("b", 0, False)


def test_a_steering_id_is_escaped() -> None:
    comparison = Comparison("\x1b[2J", "b", 0.95, {"m\n": compare([], [])})
    assert str(comparison) == r'm\n: "\x1b[2J" and "b" have no common example yet.'


@pytest.mark.parametrize("limits", [(0.0, 1.0), None])
def test_verdicts_at_any_look_are_wrong_at_most_as_often_as_stated(
    seeds: Seeds,
    limits: tuple[float, float] | None,
) -> None:
    wrong = {"alike": 0, "equal": 0}
    runs = len(seeds(40))
    for seed in range(runs):
        # 12 pairs disagree, and neither prompt is better; then one is, by more than the
        # tolerance.
        for name, only_a, only_b, false in (
            ("alike", 6, 6, {"better", "worse"}),
            ("equal", 9, 3, {"equal", "worse"}),
        ):
            a, b = scores(100, both=60, only_a=only_a, only_b=only_b, seed=seed)
            verdicts = {
                compare(
                    a[:n], b[:n], population=100, limits=limits, tolerance=0.03
                ).verdict
                for n in range(4, 100, 24)
            }
            wrong[name] += bool(verdicts & false)
    assert max(wrong.values()) <= 0.05 * runs + 3 * math.sqrt(0.05 * 0.95 * runs)


@pytest.mark.parametrize("step", [0.1, 0.2, 0.3, 0.0])
@pytest.mark.parametrize("size", [1.0, 1e-6, 1e9, 1e-100])
def test_differences_that_are_equal_but_for_rounding_count_as_equal(
    step: float, size: float
) -> None:
    base = np.random.default_rng(1).random(12).round(3) * size
    rounded = compare(base + step * size, base, population=40)
    whole = np.round(np.random.default_rng(1).random(12), 3)
    in_whole = compare(1000 * (whole + step) // 1, 1000 * whole // 1, population=40)
    assert rounded.verdict == in_whole.verdict
    for name in ("estimate", "low", "high"):
        ours, theirs = getattr(rounded, name), getattr(in_whole, name)
        assert ours is not None
        assert ours / size == pytest.approx(theirs / 1000, abs=1e-3)


def test_few_scores_of_unknown_range_bound_nothing() -> None:
    """Three pairs within 0 and 1 made "+0.333 [-11.7, +12.4]"."""
    rng = np.random.default_rng(0)
    stated = dict.fromkeys((3, 4, 6, 10, 20), 0)
    for n in stated:
        for _ in range(50):
            a, b = rng.random((2, n))
            difference = compare(a, b, population=60)
            if difference.low is not None and difference.high is not None:
                stated[n] += 1
                assert difference.high - difference.low <= 2 * float(np.ptp([a, b]))
            else:
                assert (difference.verdict, difference.high, difference.guaranteed) == (
                    "undecided",
                    None,
                    False,
                )
                assert "95% interval" not in said(difference, 60)
    assert stated[3] <= 5
    assert stated[20] == 50


def test_a_tolerance_beyond_all_that_was_seen_still_decides() -> None:
    difference = compare([0.1, 0.2, 0.4], [0.1, 0.3, 0.2], tolerance=1e6)
    assert (difference.verdict, difference.low) == ("equal", None)


def test_a_comparison_comes_back_from_json() -> None:
    comparison = Comparison(
        "a",
        "b",
        0.95,
        {"right": compare([1.0], [0.0], 0.3, 0.7, limits=(0, 1))},
        60,
        {"right": 0.1},
    )
    assert (
        Comparison.from_dict(json.loads(json.dumps(comparison.to_dict()))) == comparison
    )


def test_the_lead_by_the_model_counts_ties_half_and_follows_the_direction() -> None:
    draws = np.array([[0.1, 0.3], [0.2, 0.2], [0.5, 0.1], [0.0, 0.3]])
    means = draws.mean(axis=0)
    assert lead(draws, means, 0, 1, minimize=False) == (
        pytest.approx(-0.025),
        pytest.approx(1.5 / 4),
    )
    assert lead(draws, means, 0, 1, minimize=True) == (
        pytest.approx(-0.025),
        pytest.approx(2.5 / 4),
    )


def test_a_lead_that_is_only_rounding_is_no_lead() -> None:
    draws = np.array([[0.5, 0.5 + 1e-15], [0.25 + 1e-14, 0.25]])
    for scale in (1.0, 1e6, 1e-6):
        found = lead(scale * draws, scale * draws.mean(axis=0), 0, 1, minimize=False)
        assert found == (0.0, 0.5)
    comparison = Comparison(0, 1, 0.95, {"a": compare([], [], *found)}, 12)
    assert str(comparison) == (
        "a: Prompt 0 and prompt 1 have the same mean so far: difference 0."
    )


def table_of(broken: int, times: int, seed: int = 0) -> np.ndarray:
    """Scores (2, 127, 1, times) of 0 and 1: 23% of evaluations flip, and the first examples broke for "a"."""
    rng = np.random.default_rng(seed)
    right = np.where(np.arange(127) % 2, 0.5, 1.0) * np.ones((2, 1))
    right[0, : 2 * broken : 2] = 0.0
    return (rng.random((2, 127, 1, times)) < right[:, :, None, None]).astype(float)


def test_repeats_tell_what_broke_from_noise() -> None:
    goal = BestFeasible("accuracy")
    found = asktell.analyze(table_of(12, 4), goal, prompts=["a", "b"]).compare("a", "b")
    listed = found.regressions()
    broken = {2 * i for i in range(12)}
    assert len({each.example for each in listed} & broken) >= 10
    assert len({each.example for each in listed} - broken) <= 1
    assert [each.false_rate for each in listed] == sorted(
        each.false_rate for each in listed
    )
    assert all(
        (each.a < each.b, each.evaluations_a, each.evaluations_b) == (True, 4, 4)
        for each in listed
    )
    assert len(found.regressions(1.0)) > len(listed) > len(found.regressions(1e-6))
    assert [each.example for each in found.improvements(1.0)]
    noise = found.noise()
    assert noise is not None
    assert noise.share == pytest.approx(0.23, abs=0.05)
    assert str(noise).startswith(
        f"The two prompts scored differently on {noise.differ} of 127 examples. With the measured noise, "
    )
    turned = asktell.analyze(table_of(12, 4)[::-1], goal, prompts=["b", "a"]).compare(
        "b", "a"
    )
    assert {each.example for each in turned.improvements()} >= broken - {20, 22}


def test_two_runs_of_one_agent_list_next_to_nothing() -> None:
    by_sign = listed = 0
    for seed, times in product(range(8), (1, 3)):
        result = asktell.analyze(
            table_of(0, times, seed), BestFeasible("accuracy"), prompts=["a", "b"]
        )
        found = result.compare("a", "b")
        by_sign += len(found.regressions(1.0)) + len(found.improvements(1.0))
        listed += len(found.regressions()) + len(found.improvements())
    assert by_sign > 16 * 20
    assert listed <= 4


def test_less_is_an_improvement_where_less_is_better() -> None:
    scores = np.ones((2, 10))
    scores[0, :3], scores[1, 3] = 0.5, 0.75
    selector = asktell.Selector(
        ["a", "b"], BestFeasible(minimize("cost")), 20, "uniform", 10, repeats=1
    )
    found = asktell.run(
        selector,
        lambda prompt, i: scores["ab".index(prompt), i],
        progress=False,
        repeatable=True,
    )
    compared = found.compare(0, 1)
    # One evaluation is exact: all differences
    assert [each.example for each in compared.improvements()] == [0, 1, 2]
    assert [
        (each.example, each.a, each.b) for each in compared.regressions(metric="cost")
    ] == [(3, 1.0, 0.75)]
    assert (
        str(compared.noise())
        == "The two prompts scored differently on 4 of 10 examples. Repeated evaluations do not differ."
    )


def test_repeats_of_other_scores_tell_what_broke_from_noise() -> None:
    rng = np.random.default_rng(3)
    scores = rng.uniform(0, 1, (127, 1, 1)) + 0.05 * rng.normal(size=(2, 127, 1, 4))
    scores[0, :10] -= 0.5
    found = asktell.analyze(
        scores, BestFeasible(maximize("rouge")), prompts=["a", "b"]
    ).compare("a", "b")
    assert {each.example for each in found.regressions()} == set(range(10))
    assert found.improvements() == ()
    noise = found.noise()
    assert noise is not None
    assert str(noise) == (
        "The two prompts scored differently on 127 of 127 examples. "
        "It is not known how often two runs of the same candidate would differ."
    )


def test_what_has_no_scores_by_example_lists_nothing_or_says_why() -> None:
    found = asktell.analyze(
        table_of(2, 1), BestFeasible("accuracy"), prompts=["a", "b"]
    ).compare("a", "b")
    for fdr in (0, 1.5, "x"):
        with pytest.raises(
            InvalidArgumentError, match="fdr must be a number above 0 and at most 1"
        ):
            found.regressions(fdr)  # type: ignore[arg-type]
    with pytest.raises(
        InvalidArgumentError,
        match=r"There is no metric 'rouge'\. The metrics are 'accuracy'",
    ):
        found.improvements(metric="rouge")
    with pytest.raises(InvalidArgumentError, match="has no scores by example"):
        Comparison.from_dict(json.loads(json.dumps(found.to_dict()))).regressions()
    # Draws its own examples
    selector = asktell.Selector(["a", "b"], BestFeasible("accuracy"), 8, "uniform")
    drawn = asktell.run(
        selector, lambda prompt, example: float(prompt == "a"), progress=False
    ).compare(0, 1)
    assert (drawn.regressions(), drawn.noise()) == ((), None)
    assert repr(found) == repr(Comparison.from_dict(found.to_dict()))


# Every kind of sentence about two prompts.


def difference(
    estimate: float | None,
    low: float | None,
    high: float | None,
    p_better: float,
    pairs: int,
    verdict: str,
) -> Difference:
    return Difference(estimate, low, high, p_better, pairs, verdict, True)


SENTENCES = {
    "better": (
        difference(0.05, 0.01, 0.09, 0.99, 60, "better"),
        '"b" is better than "mine": difference +0.05, 95% interval at every look '
        "+0.01 to +0.09 (60 common examples of 100).",
    ),
    "worse": (
        difference(-0.05, -0.09, -0.01, 0.01, 60, "worse"),
        '"b" is worse than "mine": difference -0.05, 95% interval at every look '
        "-0.09 to -0.01 (60 common examples of 100).",
    ),
    "exact": (
        difference(0.05, 0.05, 0.05, 1.0, 100, "better"),
        '"b" is better than "mine": difference +0.05 (exact for the given examples, '
        "since both were evaluated on all 100 examples).",
    ),
    "equal": (
        difference(0.0, 0.0, 0.0, 0.5, 100, "equal"),
        '"b" and "mine" are equal: difference 0 (exact for the given examples, since '
        "both were evaluated on all 100 examples).",
    ),
    "probably better": (
        difference(0.02, -0.03, 0.07, 0.92, 14, "undecided"),
        (
            '"b" is probably better than "mine" (estimated probability 92%). This is '
            "not established, because the 95% interval includes 0. The probability "
            "depends on a statistical model, but the interval does not. Estimated "
            "difference +0.02, 95% interval at every look -0.03 to +0.07 (14 common examples of "
            "100)."
        ),
    ),
    "probably worse": (
        difference(0.02, -0.03, 0.07, 0.001, 14, "undecided"),
        (
            '"b" is probably worse than "mine" (estimated probability over 99%). This'
            " is not established, because the 95% interval includes 0. The "
            "probability depends on a statistical model, but the interval does not. "
            "Estimated difference +0.02, 95% interval at every look -0.03 to +0.07 (14 common "
            "examples of 100)."
        ),
    ),
    "level": (
        difference(0.0, -0.03, 0.03, 0.5, 14, "undecided"),
        (
            '"b" and "mine" have the same mean so far: difference 0, 95% interval at every look -0.03 to +0.03 (14 '
            "common examples of 100)."
        ),
    ),
    "not ranked": (
        difference(0.02, -0.3, 0.3, 0.5, 1, "undecided"),
        (
            '"b" and "mine" cannot be ranked yet (estimated probability that "b" is better: 50%). '
            "Estimated difference +0.02, 95% interval at every look -0.3 to +0.3 (1 common example of 100)."
        ),
    ),
    "too few": (
        difference(0.3, None, None, 0.99, 2, "undecided"),
        '"b" is probably better than "mine" (estimated probability 99%). This is not '
        "established, because there is no interval yet. To get one, declare the metric's "
        "range, or evaluate both on more common examples. Estimated difference +0.3 (2 common examples of 100).",
    ),
    "nothing in common": (
        difference(0.3, -1.0, 1.0, 0.99, 0, "undecided"),
        '"b" is probably better than "mine" (estimated probability 99%). This is not established, because '
        "they have no common examples. Estimated difference +0.3.",
    ),
    "unknown": (
        difference(None, None, None, 0.5, 0, "undecided"),
        '"b" and "mine" have no common example yet.',
    ),
}


@pytest.mark.parametrize("kind", SENTENCES)
def test_every_sentence_of_a_comparison(kind: str) -> None:
    found, sentence = SENTENCES[kind]
    comparison = Comparison(
        "b",
        "mine",
        0.95,
        {"accuracy": found},
        100,
        tolerances={"accuracy": 0.1} if kind == "equal" else {},
    )
    print(comparison)  # pytest -rP shows all sentences, to be read aloud
    assert str(comparison) == f"accuracy: {sentence}"
    assert not REPLACED.search(str(comparison))
