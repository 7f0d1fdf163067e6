"""The verdict: what to do, how sure that is, what more evaluations would bring."""

import itertools
import json
import re
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import asktell
from asktell import (
    BestFeasible,
    IncompatibleMethodError,
    InvalidArgumentError,
    Outlook,
    ParetoSet,
    Selector,
    Verdict,
    maximize,
    within,
)
from asktell.problem.goals import Goal
from asktell.results.outlook import _OF_PROMPT, _allotted, _moved
from asktell.results.verdict import _n_covering
from tests.plays import play, selector_of
from tests.results.test_comparison import REPLACED
from tests.seeds import Seeds

Array = npt.NDArray[np.float64]


def played(
    scores: Array, goal: Goal, budget: int, method: Any = "uniform", **options: Any
) -> Selector:
    selector = selector_of(scores, goal, method, budget, **options)
    play(selector, scores, cost=0.5)
    return selector


def wins(n_wins: int, n_losses: int, n_ties: int) -> Array:
    """0/1 scores of two prompts: so often only the second is right, only the first, both (and neither, as often)."""
    first = [0.0] * n_wins + [1.0] * n_losses + [1.0, 0.0] * (n_ties // 2)
    second = [1.0] * n_wins + [0.0] * n_losses + [1.0, 0.0] * (n_ties // 2)
    return np.array([first, second])[:, :, None]


def test_all_questions_seen_is_no_certainty_about_new_ones() -> None:
    """10 wins against 9 on all 59 questions: the best of those given for certain, and of new ones hardly known."""
    scores = wins(10, 9, 41)
    verdict = played(scores, BestFeasible("right"), 120).result().verdict
    assert verdict.answer == 1
    assert 0.5 < (verdict.p_best or 0) < 0.75
    assert verdict.outlook == ()
    given = (
        played(scores, BestFeasible("right"), 120, inputs="given", repeats=1)
        .result()
        .verdict
    )
    assert (given.answer, given.p_best, given.loss) == (1, 1.0, 0.0)
    assert given.sentence == "Take prompt 1. It is the best with over 99% probability."


def test_a_clear_winner_is_to_be_taken() -> None:
    verdict = played(wins(40, 2, 18), BestFeasible("right"), 120).result().verdict
    assert (verdict.action, verdict.answer) == ("take", 1)
    assert (verdict.p_best or 0) > 0.99
    assert verdict.contenders == ((1, verdict.p_best),)


# The sentences. Numbers follow from the seed of the draws.


def near(step: float, n_prompts: int = 3, noise: float = 0.1) -> Array:
    """Scores of prompts a step apart, on examples that they share."""
    rng = np.random.default_rng(0)
    of_prompt = step * np.arange(n_prompts)[:, None, None]
    of_example, residual = (
        0.1 * rng.normal(size=(1, 50, 1)),
        noise * rng.normal(size=(n_prompts, 50, 1)),
    )
    return np.asarray(np.clip(0.5 + of_example + residual + of_prompt, 0.0, 1.0))


def shares(n_metrics: int = 1) -> Array:
    """Right answers of eight prompts of different quality; as a second metric, those that are valid in nine of ten."""
    right = (
        np.random.default_rng(1).random((8, 200, 1))
        < np.linspace(0.4, 0.7, 8)[:, None, None]
    )
    valid = np.random.default_rng(2).random((8, 200, 1)) < 0.9
    return np.concatenate([right, valid], axis=2)[:, :, :n_metrics].astype(float)


def evenly(seed: int, shape: tuple[int, int, int]) -> Array:
    return np.random.default_rng(seed).random(shape)


def trade_offs(
    noise: float,
    means: Any = ((0.9, 0.1), (0.5, 0.5), (0.1, 0.9), (0.2, 0.2)),
    n: int = 60,
) -> Array:
    rng = np.random.default_rng(5)
    return np.asarray(
        np.array(means)[:, None] + noise * rng.normal(size=(len(means), n, 2))
    )


ONE = BestFeasible("right")
RANGED = BestFeasible(asktell.maximize("a", range=(0, 1)))
LIMITED = BestFeasible("a", {"b": 0.7})
FRONT = ParetoSet("a", "b")
SENTENCES: dict[str, tuple[Array, Goal, int, dict[str, Any], str, str]] = {
    "settled": (
        wins(40, 2, 18),
        ONE,
        120,
        {},
        "take",
        ("Take prompt 1. It is the best with over 99% probability."),
    ),
    "baseline": (
        wins(2, 40, 18),
        ONE,
        120,
        {"baseline": 0},
        "take",
        (
            "Keep prompt 0: no prompt is shown to be better. Prompt 0 is the best "
            "with over 99% probability."
        ),
    ),
    "only prompt": (
        wins(10, 9, 41)[:1],
        ONE,
        60,
        {},
        "take",
        ("Take prompt 0. It is the only prompt."),
    ),
    "take within a wide tolerance": (
        near(0.07, 2, 0.12),
        BestFeasible(asktell.maximize("a", range=(0, 1), tolerance=0.05)),
        16,
        {"method": "race"},
        "take",
        (
            'Take prompt 1. It is within 0.05 of the best prompt in "a" with 96% '
            "probability."
        ),
    ),
    "more of these change little": (
        wins(10, 9, 41),
        ONE,
        110,
        {},
        "best so far",
        (
            "Best so far: prompt 1 (64%). The percentage is the probability that it"
            ' is the best. The expected gap to the best prompt is 0.014 in "right".'
            " 8 more evaluations should change little."
        ),
    ),
    "all examples used": (
        wins(10, 9, 41),
        ONE,
        120,
        {},
        "best so far",
        (
            "Best so far: prompt 1 (57%). The percentage is the probability that it"
            ' is the best. The expected gap to the best prompt is 0.018 in "right".'
            " Every prompt was evaluated on every example, but with about 118 new "
            "examples, this gap could shrink to 0.0076."
        ),
    ),
    "less is better": (
        1.0 - wins(10, 9, 41),
        BestFeasible(asktell.minimize("errors")),
        120,
        {},
        "best so far",
        (
            "Best so far: prompt 1 (58%). The percentage is the probability that it"
            " is the best. The expected gap to the best prompt is 0.017 in "
            '"errors". Every prompt was evaluated on every example, but with about '
            "118 new examples, this gap could shrink to 0.0075."
        ),
    ),
    "endless examples, more change little": (
        near(0.04, 2, 0.2),
        RANGED,
        80,
        {"examples": None},
        "take",
        (
            'Take prompt 1. It is within 0.01 of the best prompt in "a" with 95% '
            "probability."
        ),
    ),
    "within the tolerance": (
        near(0.03, 2, 0.4),
        RANGED,
        100,
        {"examples": None},
        "take",
        ("Take prompt 1. It is the best with 96% probability."),
    ),
    "either": (
        near(0.0, 2, 0.0),
        RANGED,
        100,
        {},
        "either",
        (
            "Take prompt 1 or prompt 0: they do not differ in what matters. Each of "
            'these 2 prompts is within 0.01 of the best prompt in "a" with at least '
            "90% probability. The two prompts hardly differ: with 95% probability, "
            'choosing is worth at most 0.001 in "a". Write different prompts instead '
            "of evaluating more."
        ),
    ),
    "any of many": (
        near(0.0, 5, 0.0),
        RANGED,
        250,
        {},
        "either",
        (
            "Take any of 5 prompts (prompt 3, prompt 0, prompt 1, ...): they do not "
            "differ in what matters. Each of these 5 prompts is within 0.01 of the "
            'best prompt in "a" with at least 90% probability. These 5 prompts hardly '
            "differ: with 95% probability, choosing is worth at most 0.001 in "
            '"a". Write different prompts instead of evaluating more.'
        ),
    ),
    "either under a constraint": (
        np.repeat(near(0.0, 2, 0.0), 2, axis=2),
        BestFeasible("a", {"b": 0.1}),
        100,
        {},
        "either",
        (
            "Take prompt 1 or prompt 0: they do not differ in what matters. Each of "
            'these 2 prompts is within 0.00091 of the best feasible prompt in "a" and'
            " satisfies the constraint with at least 90% probability. The two prompts "
            "hardly differ: with 95% probability, choosing is worth at most 0.000091 "
            'in "a". Write different prompts instead of evaluating more.'
        ),
    ),
    "ahead": (
        shares(),
        ONE,
        24,
        {},
        "go on",
        (
            "Not decided: prompt 6 leads (24%). The expected gap to the best prompt"
            ' is 0.098 in "right". With 12 more evaluations (cost about 6), this '
            "gap should shrink to 0.068, and the probability of selecting the best "
            "prompt should rise from 24% to 35%."
        ),
    ),
    "leads": (
        shares(),
        ONE,
        24,
        {"method": "auto"},
        "go on",
        (
            "Not decided: prompt 4 leads (23%). The expected gap to the best prompt"
            ' is 0.085 in "right". With 12 more evaluations (cost about 6), this '
            "gap should shrink to 0.074, and the probability of selecting the best "
            "prompt should rise from 23% to 27%."
        ),
    ),
    "leads under a constraint": (
        shares(2),
        BestFeasible("right", {"ok": 0.5}),
        48,
        {"method": "auto"},
        "best so far",
        (
            "Best so far: prompt 6 (65%). The percentage is the probability that it"
            " is the best. It satisfies the constraint with 99% probability. The "
            'expected gap to the best feasible prompt is 0.024 in "right". With '
            "1,552 more evaluations (cost about 776), this gap should shrink to "
            "0.0046, and the probability of selecting the best feasible prompt "
            "should rise from 65% to 82%."
        ),
    ),
    "leads under constraints": (
        np.concatenate([shares(2), shares(2)[:, :, 1:]], axis=2),
        BestFeasible("right", {"ok": 0.5, "valid": 0.6}),
        48,
        {"method": "auto"},
        "best so far",
        (
            "Best so far: prompt 4 (51%). The percentage is the probability that it"
            " is the best. It satisfies every constraint with over 99% probability. The "
            'expected gap to the best feasible prompt is 0.037 in "right". With '
            "1,552 more evaluations (cost about 776), this gap should shrink to "
            "0.0057, and the probability of selecting the best feasible prompt "
            "should rise from 51% to 78%."
        ),
    ),
    "unlikely": (
        evenly(1, (3, 6, 2)),
        LIMITED,
        9,
        {},
        "go on",
        (
            "Not decided: every prompt probably violates the constraint. Prompt 0 "
            "is the most likely to satisfy the constraint (probability 48%)."
        ),
    ),
    "unlikely with evaluations left": (
        evenly(5, (3, 6, 2)),
        LIMITED,
        9,
        {},
        "go on",
        (
            "Not decided: every prompt probably violates the constraint. Prompt 0 "
            "is the most likely to satisfy the constraint (probability 49%). With 9"
            " more evaluations (cost about 4.5), the probability of selecting the "
            "best feasible prompt should rise from 25% to 29%."
        ),
    ),
    "unlikely without room": (
        evenly(0, (3, 6, 2)),
        LIMITED,
        18,
        {},
        "best so far",
        (
            "Every prompt probably violates the constraint. Prompt 2 is the most "
            "likely to satisfy the constraint (probability 44%). More evaluations "
            "need new examples, because every prompt was evaluated on every "
            "example. Add examples, or relax the constraint."
        ),
    ),
    "none": (
        evenly(0, (4, 40, 2)) * [1.0, 0.3],
        LIMITED,
        80,
        {},
        "none",
        (
            "No prompt is likely to satisfy the constraint. The probability that at "
            "least one prompt does is under 1%. Prompt 2 is expected to violate it "
            "least. Relax the constraint or add prompts."
        ),
    ),
    "no front": (
        evenly(0, (4, 40, 2)) * [1.0, 0.3],
        ParetoSet("a", subject_to={"b": 0.7}),
        80,
        {},
        "none",
        (
            "No prompt is likely to satisfy the constraint. The probability that at "
            "least one prompt does is under 1%. Prompt 2 is expected to violate it "
            "least. Relax the constraint or add prompts."
        ),
    ),
    "front": (
        trade_offs(0.05),
        FRONT,
        200,
        {},
        "take",
        (
            "Choose among these 3 trade-offs. Together, they are expected to be over "
            "99% as good as the whole true Pareto set."
        ),
    ),
    "front of one": (
        trade_offs(0.05, ((0.9, 0.9), (0.1, 0.1))),
        FRONT,
        100,
        {},
        "take",
        (
            "Take prompt 0. This one prompt is expected to be over 99% as good as the"
            " whole true Pareto set."
        ),
    ),
    "front, keep evaluating": (
        trade_offs(0.8),
        FRONT,
        20,
        {},
        "go on",
        (
            "Not decided: these 2 trade-offs lead. Together, they are expected to "
            "be 89% as good as the whole true Pareto set. With 10 more evaluations "
            "(cost about 5), this percentage should rise to 95%, and the "
            "probability of missing at most 1% of it should rise from 70% to 81%."
        ),
    ),
    "front of one, keep evaluating": (
        evenly(1, (5, 30, 3)),
        ParetoSet("a", "c", subject_to={"b": 0.4}),
        30,
        {},
        "go on",
        (
            "Not decided: prompt 4 probably violates the constraint. It is selected"
            ' because of its good estimate of "a" and "c". Prompt 0 is the most '
            "likely to satisfy the constraint (probability 99%). With 15 more "
            "evaluations (cost about 7.5), the probability of missing at most 1% of"
            " it should rise from 9% to 22%."
        ),
    ),
    "front under a constraint": (
        trade_offs(0.5),
        ParetoSet("a", "b", subject_to={"b": 0.3}),
        100,
        {},
        "take",
        (
            "Choose among these 2 trade-offs. Together, they are expected to be over "
            "99% as good as the whole true Pareto set. The probability that all of them satisfy the "
            "constraint is over 99%."
        ),
    ),
    "front, all examples used": (
        evenly(2, (4, 8, 2)),
        FRONT,
        32,
        {},
        "best so far",
        (
            "Best so far: these 2 trade-offs. Together, they are expected to be 59%"
            " as good as the whole true Pareto set. Every prompt was evaluated on "
            "every example, but with about 4 new examples, this percentage could "
            "rise to 91%."
        ),
    ),
    "front of one, unlikely": (
        evenly(0, (3, 6, 2)),
        ParetoSet("a", subject_to={"b": 0.7}),
        18,
        {},
        "best so far",
        (
            "Every prompt probably violates the constraint. Prompt 2 is the most "
            "likely to satisfy the constraint (probability 44%). More evaluations "
            "need new examples, because every prompt was evaluated on every "
            "example. Add examples, or relax the constraint."
        ),
    ),
}


@pytest.mark.parametrize("kind", SENTENCES)
def test_every_sentence_with_its_numbers(kind: str) -> None:
    scores, goal, budget, options, action, sentence = SENTENCES[kind]
    result = played(scores, goal, budget, **options).result()
    assert (result.verdict.action, result.verdict.sentence) == (action, sentence)
    assert " ".join(sentence.split()) in " ".join(str(result).split())
    for text in (
        str(result),
        result.table(),
        *(check.sentence for check in result.checks),
    ):
        print(text)  # pytest -rP shows all texts, to be read aloud
        assert not REPLACED.search(text), REPLACED.search(text)


def test_the_sentence_before_anything_is_known_and_after_a_single_evaluation_or_example() -> (
    None
):
    selector = Selector(["a", "b", "c"], BestFeasible("x", {"y": 0.5}), 9, examples=9)
    assert (
        selector.result().verdict.sentence
        == "No prompt has been evaluated successfully yet."
    )
    selector.observe(1, [0.5, 0.5], example=0)
    single = "Not decided: one evaluation is not enough to estimate a probability."
    assert selector.result().verdict.sentence == single
    for prompt in (0, 2):
        selector.observe(prompt, [0.4, 0.6], example=0)
    verdict = selector.result().verdict
    assert (
        verdict.sentence
        == "Not decided: one example is not enough to estimate a probability."
    )
    assert (verdict.action, verdict.p_best, verdict.p_feasible) == ("go on", None, None)
    assert [entry.p_feasible for entry in selector.result().prompts] == [None] * 3


@pytest.mark.parametrize("goal", [ONE, FRONT])
def test_the_sentence_of_scores_that_are_in_doubt(goal: Goal) -> None:
    selector = played(evenly(0, (3, 20, len(goal.metrics))), goal, 30)
    selector.remark(
        "The judge disagrees with people in 9 of 20 cases.",
        topic=goal.metrics[0],
        doubtful=True,
    )
    verdict = selector.result().verdict
    sentence = (
        "Do not rely on these scores. The judge disagrees with people in 9 of 20 cases."
    )
    assert (verdict.action, verdict.sentence, verdict.p_best) == (
        "go on",
        sentence,
        None,
    )


def test_ids_are_quoted_in_sentences_and_nothing_in_them_steers_a_terminal() -> None:
    selector = Selector(
        {"a\nb\x1b[2J": "one", "x" * 100: "two"}, ONE, 40, "uniform", examples=20
    )
    play(selector, lambda trial: float(trial.prompt == "one"))
    sentence = selector.result().verdict.sentence
    assert sentence.startswith('Take "a b')
    assert sentence.isprintable()


def test_what_a_front_misses_is_lowered_to_an_amount_that_reads_as_less() -> None:
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        means, of_examples = rng.normal(size=(8, 1, 2)), 0.5 * rng.normal(size=(60, 2))
        scores = means + of_examples + 0.6 * rng.normal(size=(8, 60, 2))
        verdict = played(scores, FRONT, 20, "auto", seed=seed).result().verdict
        if verdict.action == "go on":
            lowered = (
                r"to be ((?:over )?\d+%) as good as .* should rise to ((?:over )?\d+%)"
            )
            found += re.findall(lowered, verdict.sentence)
    assert len(found) > 3
    assert all(now != then for now, then in found)


@pytest.mark.parametrize(("repeats", "times"), [(None, ""), (2, " 2 times")])
def test_given_examples_with_noisy_scores_can_be_repeated(
    repeats: int | None, times: str
) -> None:
    goal = asktell.BestFeasible("a", subject_to={"b": 0.7})
    selector = asktell.Selector(
        ["p", "q", "r"],
        goal,
        99,
        "uniform",
        examples=6,
        inputs="given",
        repeats=repeats,
    )
    noise = np.random.default_rng(1)
    play(selector, lambda _: noise.normal([0.5, 0.68], 0.3))
    said = selector.result().verdict.sentence
    assert (
        "More evaluations need a larger `repeats`, because every prompt was evaluated on "
        f"every example{times}."
    ) in said


def test_evaluations_are_not_called_impossible_while_ask_has_some() -> None:
    """Draws can repeat an example, and scores observed twice leave other examples."""
    drawn = asktell.Selector(
        ["a", "b"], ONE, 60, "uniform", examples=10, sampling="iid", seed=1
    )
    observed = asktell.Selector(["a", "b"], ONE, 60, "uniform", examples=5)
    for i in range(40):
        observed.observe(i % 2, [i % 3 / 2], example=i % 4)
        drawn.tell(trial := drawn.ask(), [trial.id % 3 / 2])
    for selector in (drawn, observed):
        assert "not possible" not in selector.result().verdict.sentence
        assert selector.ask() is not None


def test_prompts_that_score_the_same_are_equals() -> None:
    rng = np.random.default_rng(0)
    scores = np.repeat(rng.random((1, 50, 1)), 3, axis=0)
    verdict = (
        played(scores, BestFeasible(asktell.maximize("a", range=(0, 1))), 150)
        .result()
        .verdict
    )
    assert verdict.action == "either"
    assert sum(p for _, p in verdict.contenders) == pytest.approx(1.0)
    assert verdict.loss_95 is not None
    assert verdict.loss_95 <= 0.01


def test_few_evaluations_ask_for_more_and_say_what_they_bring_and_cost() -> None:
    rng = np.random.default_rng(1)
    scores = (rng.random((8, 200, 1)) < np.linspace(0.4, 0.7, 8)[:, None, None]).astype(
        float
    )
    verdict = played(scores, BestFeasible("right"), 24).result().verdict
    assert verdict.action == "go on"
    assert [each.evaluations for each in verdict.outlook] == [12, 24, 48, 8 * 200 - 24]
    assert [each.cost for each in verdict.outlook] == [
        pytest.approx(0.5 * n) for n in (12, 24, 48, 1576)
    ]
    for fewer, more in itertools.pairwise(verdict.outlook):
        assert more.loss <= fewer.loss + 0.01
        assert (more.p_best or 0) >= (fewer.p_best or 0) - 0.03
    assert "more evaluations (cost about" in verdict.sentence


def test_nothing_feasible_is_nothing_to_take() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random((4, 40, 2)) * [1.0, 0.3]
    verdict = played(scores, BestFeasible("a", {"b": 0.9}), 80).result().verdict
    assert (verdict.answer, verdict.action) == (None, "none")
    assert verdict.sentence == (
        "No prompt is likely to satisfy the constraint. The probability that at least "
        "one prompt does is under 1%. Prompt 2 is expected to violate it least. Relax "
        "the constraint or add prompts."
    )
    assert verdict.p_feasible == verdict.p_best == 0.0
    assert verdict.contenders  # who comes closest


def test_contenders_are_the_smallest_set_that_holds_the_best_with_95_percent() -> None:
    rng = np.random.default_rng(2)
    scores = rng.random((12, 60, 1)) + np.linspace(0, 0.5, 12)[:, None, None]
    result = played(scores, BestFeasible("a"), 120).result()
    p = {entry.id: entry.p_best or 0.0 for entry in result.prompts}
    shown = dict(result.verdict.contenders)
    assert sum(p.values()) == pytest.approx(1.0)
    assert sum(shown.values()) >= 0.95
    assert sum(shown.values()) - min(shown.values()) < 0.95
    assert next(iter(shown)) == result.selected[0].id
    assert [entry.id for entry in result.unresolved] == list(shown)[1:]
    assert min(shown.values()) >= max(
        (x for id_, x in p.items() if id_ not in shown), default=0.0
    )


def test_a_front_says_what_it_misses() -> None:
    rng = np.random.default_rng(3)
    means = np.array([[0.9, 0.1], [0.5, 0.5], [0.1, 0.9], [0.2, 0.2]])
    scores = np.clip(means[:, None] + 0.05 * rng.normal(size=(4, 60, 2)), 0, 1)
    verdict = played(scores, ParetoSet("a", "b"), 200).result().verdict
    assert (verdict.answer, verdict.p_best, verdict.p_feasible) == (None, None, None)
    assert (verdict.loss or 0) < 0.02
    assert [id_ for id_, _ in verdict.contenders[:3]] == [0, 1, 2] or {
        id_ for id_, _ in verdict.contenders
    } == {
        0,
        1,
        2,
    }


@pytest.mark.parametrize("method", ["auto", "csr"])
def test_before_anything_is_known_everybody_may_be_the_best(method: str) -> None:
    selector = Selector(["a", "b", "c"], BestFeasible("x"), 9, method, examples=9)
    result = selector.result()
    assert (result.verdict.action, result.verdict.answer, result.verdict.p_best) == (
        "none",
        None,
        None,
    )
    assert (
        [id_ for id_, _ in result.verdict.contenders]
        == [entry.id for entry in result.unresolved]
        == [0, 1, 2]
    )
    selector.observe(1, [0.5], example=0)
    result = selector.result()
    assert (result.verdict.action, result.verdict.answer) == ("go on", 1)
    assert [entry.id for entry in result.unresolved] == [0, 2]
    for trial in selector.ask(3):
        selector.tell(trial, [float(trial.id)])
    result = selector.result()  # a single pull each says nothing of the noise
    assert len(result.selected) + len(result.unresolved) == 3


@pytest.mark.parametrize("baseline", [None, 0])
@pytest.mark.parametrize("goal", [BestFeasible("a", {"b": 0.5}), ParetoSet("a", "b")])
def test_as_data_and_back(goal: Goal, baseline: int | None) -> None:
    scores = np.random.default_rng(0).random((5, 30, 2))
    verdict = played(scores, goal, 40, baseline=baseline).result().verdict
    assert verdict.p_good is not None
    has_change = baseline is not None and isinstance(goal, BestFeasible)
    assert (verdict.change is not None) == has_change
    assert (verdict.worth is None) == isinstance(goal, ParetoSet)
    data = json.loads(json.dumps(verdict.to_dict(), allow_nan=False))
    assert Verdict.from_dict(data) == verdict
    assert all(isinstance(each, Outlook) for each in Verdict.from_dict(data).outlook)


def test_a_mean_moves_to_the_truth_by_the_part_that_its_variance_shrinks() -> None:
    """A deviation of variance 4, after 3 scores of variance 6: by 3 * 4 / (3 * 4 + 6) = 2 / 3 of the way."""
    rng = np.random.default_rng(0)
    off, normal = rng.normal(0, 2, (40_000, 1, 1)), rng.normal(size=(40_000, 1, 1))
    moved = _moved(off, 3.0 / _OF_PROMPT, np.array([6.0]), normal)
    assert (moved * off).mean() / (off**2).mean() == pytest.approx(2 / 3, abs=0.02)
    assert moved.var() == pytest.approx(4 * 2 / 3, abs=0.06)


def test_evaluations_are_allotted_by_interest_and_none_beyond_what_is_left() -> None:
    found = _allotted(20, np.array([3.0, 1.0, 0.0]), np.array([5.0, 100.0, 100.0]))
    assert found[0] == 5.0
    assert found.sum() == pytest.approx(20.0)
    assert found[2] < 1e-3
    assert _allotted(50, np.ones(2), np.array([3.0, 4.0])).tolist() == [3.0, 4.0]


def test_sure_takes_the_best_of_those_that_keep_their_limits_for_sure() -> None:
    rng = np.random.default_rng(0)
    means = np.array([[0.9, 0.49], [0.8, 0.52], [0.6, 0.9], [0.5, 0.95]])
    scores = np.clip(means[:, None] + 0.15 * rng.normal(size=(4, 80, 2)), 0, 1)
    bound = {"b": 0.5}
    bold = played(scores, BestFeasible("a", bound), 40, "auto").result()
    safe = played(scores, BestFeasible("a", bound, sure=0.95), 40, "auto").result()
    assert bold.selected[0].id in (0, 1)
    assert safe.selected[0].id == 2
    assert (safe.verdict.p_feasible or 0) >= 0.95
    assert (
        str(safe.goal) == "maximize a subject to b >= 0.5, kept with probability 0.95"
    )
    again = Selector.from_json(
        played(scores, BestFeasible("a", bound, sure=0.9), 40, "auto").to_json()
    )
    assert again.goal == BestFeasible("a", bound, sure=0.9)


def test_sure_where_it_cannot_be_used() -> None:
    for sure in (0, 1, 1.5, True, "very"):
        with pytest.raises(
            InvalidArgumentError, match="`sure` must be a number above 0"
        ):
            BestFeasible("a", {"b": 0.5}, sure=sure)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"sure=\.\.\. requires constraints"):
        BestFeasible("a", sure=0.95)
    for method in ("csr", "uniform", "race"):
        with pytest.raises(IncompatibleMethodError, match="Use method='auto'"):
            Selector(
                ["x", "y"],
                BestFeasible("a", {"b": 0.5}, sure=0.95),
                10,
                method,
                examples=9,
            )


def test_prompts_that_were_retired_are_not_prompts_without_evaluations() -> None:
    def begun(n: int) -> Selector:
        selector = Selector(["a", "b"], BestFeasible("x"), 20, examples=9)
        for _ in range(n):
            selector.tell(selector.ask(), 0.5)
        return selector

    gone = (
        "No prompt can be selected, because all were retired. Add a prompt to continue."
    )
    for n in (0, 6):
        selector = begun(n)
        selector.retire(0, "not wanted")
        selector.retire(1, "not wanted")
        assert selector.result().verdict.sentence == gone
        assert gone in str(selector.result())
    selector = begun(1)
    (scored,) = [each.prompt for each in selector.evaluations()]
    selector.retire(scored, "not wanted")
    assert selector.result().verdict.sentence == (
        "No prompt that can still be selected has been evaluated successfully yet."
    )


def test_some_scores_and_some_failures_are_not_only_failures() -> None:
    selector = Selector(["a", "b"], BestFeasible("x"), 20, examples=9)
    selector.tell(selector.ask(), 0.5)
    selector.fail(selector.ask(), "no key")
    selector.retire(0, "not wanted")
    selector.retire(1, "not wanted")
    assert selector.result().done
    assert "all were retired" in selector.result().verdict.sentence


# The rules of the actions


GRADED = BestFeasible(asktell.maximize("a", range=(0, 1)))


def words(sentence: str) -> int:
    return len(re.sub(r'"[^"]*"|prompt \d+', "x", sentence).split())


@cache
def worlds() -> list[Verdict]:
    """Verdicts on prompts of different quality, after few and after many evaluations."""
    found = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        k, constrained = (2, 4, 12)[seed % 3], seed % 2 == 1
        means = 0.5 + rng.choice((0.01, 0.1)) * rng.normal(size=(k, 1, 2))
        scores = np.clip(means + 0.1 * rng.normal(size=(k, 40, 2)), 0, 1)
        goal = LIMITED if constrained else GRADED
        bound = BestFeasible("a", {"b": 0.5}) if constrained else goal
        metrics = 2 if constrained else 1
        budget = k * (2, 5, 30)[seed % 5 % 3]
        options = {"baseline": 0} if seed % 4 > 1 else {}
        selector = played(scores[:, :, :metrics], bound, budget, "auto", **options)
        found.append(selector.result().verdict)
    return found


def test_the_action_follows_from_the_probability_of_being_good() -> None:
    seen = set()
    for verdict in worlds():
        seen.add(verdict.action)
        assert verdict.p_good is not None
        assert bool(verdict.choices) == (verdict.action in ("take", "either"))
        if verdict.action == "take":
            assert verdict.p_good >= 0.9
            assert verdict.choices == (verdict.answer,)
        if verdict.action in ("go on", "best so far"):
            assert verdict.p_good < 0.9
        if verdict.p_feasible is not None:
            assert verdict.p_good <= verdict.p_feasible
    assert {"take", "go on", "best so far"} <= seen


def test_a_headline_is_short_and_at_most_four_reasons_follow_and_none_repeats() -> None:
    for verdict in worlds():
        assert verdict.sentence.startswith(verdict.headline)
        assert words(verdict.headline) <= 14
        sentences = re.split(r"(?<=\.) (?=[A-Z\"])", verdict.sentence)
        assert sentences[0] == verdict.headline
        assert 1 <= len(sentences) - 1 <= 4
        assert len(set(sentences)) == len(sentences)
        assert verdict.reasons == " ".join(sentences[1:])


@pytest.mark.parametrize("level", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("n", [16, 60])
def test_equal_scores_do_not_separate_prompts(level: float, n: int) -> None:
    goal = BestFeasible(asktell.maximize("a", range=(0, 1)))
    verdict = played(np.full((4, 30, 1), level), goal, n, "auto").result().verdict
    assert verdict.action == "either"
    assert verdict.headline.startswith("Take any of 4 prompts")
    assert sorted(verdict.choices) == [0, 1, 2, 3]
    alike = ("the scores do not separate them.", "they do not differ in what matters.")
    assert verdict.headline.endswith(alike)


def test_few_equal_scores_are_no_reason_to_take_either() -> None:
    """Four right answers of two easy prompts, on two examples, are hardly evidence."""
    verdict = played(np.ones((2, 30, 1)), BestFeasible("right"), 4).result().verdict
    assert verdict.action != "either"


def placebo(seed: int, mean: float = 0.7) -> Array:
    rng = np.random.default_rng(seed)
    ease = np.clip(mean + 0.2 * rng.normal(size=(1, 100, 1)), 0, 1)
    return (rng.random((2, 100, 1)) < ease).astype(float)


def test_a_placebo_does_not_replace_the_baseline(seeds: Seeds) -> None:
    decisions, goal = [], BestFeasible("right")
    for seed in seeds(100):
        scores = placebo(seed)
        verdict = asktell.analyze(scores, goal, baseline=0).verdict
        assert verdict.change is not None
        decisions.append(verdict.change.decision)
        kept = verdict.headline == "Keep prompt 0: no prompt is shown to be better."
        assert kept == (verdict.change.decision == "keep")
        if seed < len(seeds(10)):
            run = played(scores, goal, 200, baseline=0, seed=seed).result()
            assert run.verdict.change is not None
            assert run.verdict.change.decision == decisions[-1]
    # At most 2.5%: of 100, 2.5 are expected, with a standard error of 1.6
    n = len(decisions)
    assert decisions.count("ship") <= 0.025 * n + 2.4 * np.sqrt(0.025 * n)
    assert decisions.count("keep") > 0.8 * n


def test_a_better_prompt_replaces_the_baseline() -> None:
    table = asktell.analyze(wins(40, 2, 18), BestFeasible("right"), baseline=0)
    verdict, compared = table.verdict, table.compare(1, 0).differences["right"]
    change = verdict.change
    assert change is not None
    assert (change.decision, change.baseline) == ("ship", 0)
    assert (change.difference, change.low, change.high) == (
        compared.estimate,
        compared.low,
        compared.high,
    )
    assert change.evaluations is None
    assert re.fullmatch(
        r"Ship prompt 1: better than prompt 0 by \+0\.\d+ \(\+0\.\d+ to \+0\.\d+\)\.",
        verdict.headline,
    )


def test_a_likely_gain_over_the_baseline_is_open_and_says_how_many_would_decide() -> (
    None
):
    table = asktell.analyze(wins(16, 8, 36), BestFeasible("right"), baseline=0)
    change = table.verdict.change
    assert change is not None
    assert change.decision == "not decided"
    assert change.evaluations is not None
    assert table.verdict.headline.startswith(
        "Not decided: prompt 1 is probably better than prompt 0 ("
    )
    n = f"About {change.evaluations:,} more evaluations of each should establish"
    assert table.verdict.reasons.startswith(n)


@pytest.mark.parametrize("score", [0.0, 1.0])
def test_how_many_would_establish_a_difference_that_does_not_matter_is_not_said(
    score: float,
) -> None:
    scores = np.full((2, 8, 1), score)
    goal = BestFeasible(maximize("right", range=(0, 1)))
    change = asktell.analyze(scores, goal, baseline=0).verdict.change
    # About 100,000, for a difference by the chance of the draws
    assert change is not None
    assert change.evaluations is None


def test_a_baseline_that_violates_the_constraint_is_replaced() -> None:
    rng = np.random.default_rng(0)
    scores = np.clip(0.6 + 0.1 * rng.normal(size=(2, 60, 2)), 0, 1)
    scores[0, :, 1] -= 0.5
    goal = BestFeasible("a", {"b": 0.4})
    verdict = played(scores, goal, 120, baseline=0).result().verdict
    assert verdict.change is not None
    assert verdict.change.decision == "ship"
    assert verdict.headline.startswith("Ship prompt 1: ")


def test_a_selected_baseline_is_kept() -> None:
    verdict = played(wins(2, 40, 18), ONE, 120, baseline=0).result().verdict
    assert verdict.change == asktell.Change("keep", 0)


def test_twins_of_the_best_prompt_leave_it_decided(seeds: Seeds) -> None:
    for seed in seeds(8):
        rng = np.random.default_rng(seed)
        means = np.array([0.75, 0.5, 0.45])[:, None, None]
        scores = np.clip(means + 0.1 * rng.normal(size=(3, 60, 1)), 0, 1)
        alone = played(scores, GRADED, 180).result().verdict
        with_twin = np.concatenate([scores, scores[:1]])
        verdict = played(with_twin, GRADED, 240).result().verdict
        assert alone.action == "take"
        assert verdict.action in ("take", "either")


def test_two_evaluations_of_many_prompts_are_too_few_to_say_that_more_change_little(
    seeds: Seeds,
) -> None:
    for seed in seeds(6):
        rng = np.random.default_rng(seed)
        scores = (rng.random((40, 100, 1)) < 0.6).astype(float)
        verdict = played(scores, ONE, 80, "auto", seed=seed).result().verdict
        assert "change little" not in verdict.sentence
        assert "new example" not in verdict.sentence


def test_the_last_evaluations_are_counted_where_they_change_little() -> None:
    verdict = played(wins(10, 9, 41), ONE, 110).result().verdict
    left = verdict.outlook[-1].evaluations
    assert left == 2 * 59 - 110
    assert f"{left} more evaluations should change little." in verdict.sentence


def test_the_probability_that_rises_is_the_one_of_the_headline() -> None:
    """Also if two prompts had the same scores so far, which count as equal in the forecast."""
    verdict = played(shares(), ONE, 24).result().verdict
    shown = re.search(r"leads \((\d+%)\)", verdict.headline)
    rises = re.search(r"should rise from (\d+%)", verdict.sentence)
    assert shown is not None
    assert rises is not None
    assert shown[1] == rises[1]


def test_what_choosing_is_worth() -> None:
    verdict = played(near(0.2, 3), GRADED, 150).result().verdict
    assert verdict.worth is not None
    estimate, low, high = verdict.worth
    assert low < estimate < high
    assert low < 0.2 < high
    assert verdict.tolerance == 0.01
    assert verdict.assumption == (
        'No tolerance was stated. Differences of less than 0.01 in "a" are taken not to matter (1% of the range).'
    )
    assert played(near(0.2, 1), GRADED, 50).result().verdict.worth is None


def test_prompts_that_hardly_differ_are_said_to() -> None:
    rng = np.random.default_rng(0)
    ease = rng.normal(0.5, 0.1, 200)
    scores = np.clip(ease + rng.normal(0.0, 0.05, (12, 200)), 0.0, 1.0)

    def analyzed(factor: float, goal: BestFeasible, n: int = 200) -> asktell.Result:
        return asktell.analyze(factor * scores[:, :n], goal)

    quality = BestFeasible(maximize("quality", range=(0, 1), tolerance=0.05))
    result = analyzed(1.0, quality)
    assert result.worth is not None
    assert result.worth == result.verdict.worth
    # All may be equal
    assert result.worth[1] == 0.0
    said = "These 12 prompts hardly differ: with 95% probability, choosing is worth at most 0.0"
    assert said in result.verdict.sentence
    assert "Write different prompts" in str(result)
    # A single look at few examples promises nothing
    for n in (1, 2, 3):
        assert "hardly differ" not in analyzed(1.0, quality, n).verdict.sentence
    goal = BestFeasible(asktell.minimize("cost", tolerance=0.0001))
    sentence = analyzed(0.001, goal).verdict.sentence
    assert re.search(r'worth at most 0\.0\d+ in "cost per 1,000"', sentence)
    sets = asktell.ParetoSet("quality")
    assert asktell.analyze(scores, sets).worth is None


def test_equal_scores_on_few_examples_do_not_say_that_prompts_hardly_differ() -> None:
    goal = BestFeasible(maximize("right", range=(0, 1)))
    verdict = asktell.analyze(np.ones((3, 5)), goal).verdict
    assert "hardly differ" not in verdict.sentence


def test_a_bound_relative_to_the_best_is_always_satisfied_by_some_prompt() -> None:
    goal = BestFeasible(maximize("a", range=(0, 1)), {"b": within(0.01)})
    rng = np.random.default_rng(1)
    effects = 0.02 * rng.normal(size=(10, 1, 2))
    scores = np.clip(0.5 + effects + 0.15 * rng.normal(size=(10, 60, 2)), 0.0, 1.0)
    verdict = played(scores, goal, 40).result().verdict
    headline, *reasons = verdict.sentence.split(". ")
    assert headline.endswith("it is not clear which prompts satisfy the constraint")
    assert reasons[0] == "The probability that at least one prompt does is over 99%"
    assert "is the most likely to satisfy the constraint" in reasons[1]


def test_the_likeliest_prompts_of_some_draws_cover_less_of_others() -> None:
    p_best = np.array([0.5, 0.3, 0.1, 0.06, 0.04])
    assert _n_covering(p_best, p_best) == 4
    # The order of another estimate covers the same probability with more prompts.
    assert _n_covering(np.array([0.5, 0.3, 0.0, 0.06, 0.14]), p_best) == 5
    # 200 equal prompts, 400 draws: the likeliest of these draws are so by chance.
    rng = np.random.default_rng(0)
    one, other = (np.bincount(rng.integers(0, 200, 200), minlength=200) for _ in "ab")
    both = one + other
    assert _n_covering(both, both) < 160 < _n_covering(one, other)


def test_the_selected_prompts_that_are_expected_not_to_belong_are_counted() -> None:
    rng = np.random.default_rng(2)
    effects = 0.03 * rng.normal(size=(12, 1, 2))
    scores = 0.5 + effects + 0.1 * rng.normal(size=(12, 60, 2))
    result = played(scores, ParetoSet("a", "b"), 36).result()
    chosen = [entry.p_best for entry in result.selected]
    n_out = round(sum(1.0 - p for p in chosen if p is not None))
    assert n_out >= 1
    are = "is" if n_out == 1 else "are"
    said = f"About {n_out} of them {are} expected to be outside the true set."
    assert said in result.verdict.sentence


def test_the_tolerance_of_the_objective_is_the_verdicts() -> None:
    stated = BestFeasible(asktell.maximize("a", range=(0, 1), tolerance=0.03))
    verdict = played(near(0.2, 3), stated, 150).result().verdict
    assert (verdict.tolerance, verdict.assumption) == (0.03, "")
    by_limit = BestFeasible(
        asktell.maximize("a", range=(0, 1)), {"a": asktell.at_least(0, tolerance=0.03)}
    )
    assert played(near(0.2, 3), by_limit, 150).result().verdict.tolerance == 0.03
    unknown = played(near(0.2, 3), BestFeasible("a"), 150).result().verdict
    assert "(1% of the spread of the scores)" in unknown.assumption
    # A set's tolerance is a share of the hypervolume, whatever its metrics'
    goal = ParetoSet(asktell.maximize("a", tolerance=0.3), "b")
    both = np.concatenate([near(0.2, 3), near(0.2, 3)[::-1]], axis=2)
    assert played(both, goal, 150).result().verdict.tolerance == 0.01
    assert Verdict.from_dict(json.loads(json.dumps(unknown.to_dict()))) == unknown
