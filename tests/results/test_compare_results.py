"""Two prompts of a result compared, and the answer against the prompt in use today."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import (
    Adaptive,
    BestFeasible,
    Comparison,
    InvalidArgumentError,
    InvalidScoresError,
    ParetoSet,
    Race,
    Selector,
    maximize,
)
from asktell.results.difference import compare
from tests.plays import play

PROMPTS = {"mine": "Answer.", "b": "Answer briefly.", "c": "Answer at length."}
ZERO_ONE = BestFeasible(maximize("accuracy", range=(0, 1)))
METHODS = [
    (goal, method)
    for goal in (ZERO_ONE, ParetoSet(maximize("accuracy", range=(0, 1)), "brevity"))
    for method in asktell.METHODS
    if method
    # Those only estimate otherwise, and a referee needs a baseline
    not in ("lcsh", "gege", "mlp-csr", "mlp-ege", "referee")
    and (
        method in ("auto", "uniform", "race")
        or ("ege" in method) == isinstance(goal, ParetoSet)
    )
]


def table(
    n_prompts: int, n_examples: int, n_metrics: int = 1, seed: int = 0
) -> np.ndarray:
    """0/1 scores, worse from prompt to prompt, in the first metric; noise in the others."""
    rng = np.random.default_rng(seed)
    scores = rng.random((n_prompts, n_examples, n_metrics))
    easy = rng.random(n_examples)
    scores[:, :, 0] = easy > 0.2 + 0.1 * np.arange(n_prompts)[:, None]
    return scores


def played(selector: Selector, scores: np.ndarray, n_left: int = 0) -> Selector:
    """A selector with scores from a table. The last `n_left` evaluations stay pending, so that it has not ended."""
    ids = [entry.id for entry in selector.result().prompts]
    while trial := selector.ask():
        assert trial.example is not None
        if selector.spent + n_left >= selector.budget:
            break
        selector.tell(trial, scores[ids.index(trial.prompt_id), trial.example].tolist())
    return selector


def test_a_comparison_is_that_of_the_scores_on_common_examples_in_the_shared_order() -> (
    None
):
    scores = table(3, 40)
    selector = played(
        Selector(PROMPTS, ZERO_ONE, 60, "uniform", examples=40, seed=3), scores
    )
    result = selector.result()
    order = selector.state.problem.examples.order[:20]
    found = result.compare("mine", "b")
    assert isinstance(found, Comparison)
    lead = found.differences["accuracy"]
    expected = compare(
        scores[0, order, 0],
        scores[1, order, 0],
        lead.estimate,
        lead.p_better,
        limits=(0, 1),
        confidence=1 - 0.05 / 2,  # "mine" is selected, of three
        looks_once=True,
    )
    assert found.differences == {"accuracy": expected}
    mine, b = (entry.estimate["accuracy"] for entry in result.prompts[:2])
    assert lead.estimate == pytest.approx((mine or 0) - (b or 0))  # as the table says
    assert lead.p_better > 0.5
    assert (found.a, found.b, found.confidence, found.examples) == (
        "mine",
        "b",
        0.95,
        40,
    )
    assert found.looks_once, "at the end of a budget that was fixed beforehand"
    assert not found.guaranteed
    assert found.differences["accuracy"].pairs == 20
    assert result.compare("Answer.", "Answer briefly.") == found
    assert result.compare("b", "mine").differences["accuracy"].estimate == -(
        expected.estimate or 0
    )
    assert Comparison.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    # By default with the selected prompt.
    assert result.selected[0].id == "mine"
    assert result.compare("c").b == "mine"


def test_two_named_prompts_are_compared_without_the_rest_of_the_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    selector = played(
        Selector(PROMPTS, ZERO_ONE, 60, "auto", examples=40), table(3, 40)
    )
    expected = selector.result().compare("b", "c")
    monkeypatch.setattr("asktell.results.summary._prompt_results", None)
    assert selector.compare("b", "c") == expected


def test_of_two_prompts_without_a_baseline_the_answer_is_compared_with_the_other() -> (
    None
):
    selector = played(
        Selector(["x", "y"], ZERO_ONE, 40, "auto", examples=40), table(2, 40)
    )
    result = selector.result()
    assert result.comparison == result.compare(
        result.selected[0].id, 1 - int(result.selected[0].id)
    )
    assert str(result).splitlines()[-1] == result.sentence
    played(
        three := Selector(["x", "y", "z"], ZERO_ONE, 40, "auto", examples=40),
        table(3, 40),
    )
    assert (three.result().comparison, three.result().sentence) == (None, None)


def test_a_result_keeps_comparing_what_it_rested_on() -> None:
    selector = Selector(PROMPTS, ZERO_ONE, 60, "uniform", examples=40)
    scores = table(3, 40)
    play(
        selector,
        lambda trial: scores[list(PROMPTS).index(str(trial.prompt_id)), trial.example],
        n=12,
    )
    before = selector.result()
    played(selector, scores)
    assert before.compare("mine", "b").differences["accuracy"].pairs == 4
    assert selector.result().compare("mine", "b").differences["accuracy"].pairs == 20


def test_several_metrics_share_the_error() -> None:
    goal = ParetoSet(maximize("x", range=(0, 1)), asktell.minimize("y", range=(0, 1)))
    scores = table(2, 30, 2)
    selector = played(Selector(["p", "q"], goal, 40, "uniform", examples=30), scores)
    found = selector.result().compare(0, 1, confidence=0.9)
    order = selector.state.problem.examples.order[:20]
    for j, name in enumerate("xy"):
        x, y = scores[0, order, j], scores[1, order, j]
        single = compare(
            x,
            y,
            limits=(0, 1),
            confidence=0.95,
            minimize=name == "y",
            looks_once=True,
        )
        assert found.differences[name].low == pytest.approx(single.low)
        assert found.differences[name].high == pytest.approx(single.high)
    assert selector.result().compare("0", "1", confidence=0.9) == found


def test_what_is_guaranteed() -> None:
    scores = table(3, 40)
    open_ = BestFeasible("accuracy")
    assert (
        not played(Selector(PROMPTS, open_, 60, "uniform", examples=40), scores)
        .result()
        .compare("b", "c")
        .guaranteed
    )
    all_examples = Selector(PROMPTS, open_, 120, "uniform", examples=40)
    assert not played(all_examples, scores).result().compare("b", "c").guaranteed
    suite = Selector(
        PROMPTS, open_, 120, "uniform", examples=40, inputs="given", repeats=1
    )
    exhausted = played(suite, scores).result().compare("b", "c")
    assert exhausted.guaranteed
    assert (
        exhausted.differences["accuracy"].low == exhausted.differences["accuracy"].high
    )
    # However a method chooses, an interval rests on the first examples of the order
    # that both have completed.
    steady = Selector(PROMPTS, ZERO_ONE, 60, "auto", examples=40, seed=1)
    chosen = played(steady, scores, 1)
    place, history = chosen.state.problem.examples.place, chosen.state.history
    had = [
        set(place[history.examples()[history.arms() == arm]].tolist()) for arm in (1, 2)
    ]
    first = next(n for n in range(41) if not all(n in places for places in had))
    found = chosen.result().compare("b", "c")
    assert found.guaranteed
    assert found.differences["accuracy"].pairs == first
    # An example that failed leaves a gap.
    failing = Selector(PROMPTS, ZERO_ONE, 60, "uniform", examples=40)
    failing.fail(failing.ask() or 0, "no answer")
    (arm,) = failing.state.failures.arms()
    gone = list(PROMPTS)[arm]
    others = [id_ for id_ in PROMPTS if id_ != gone]
    result = played(failing, scores, 1).result()
    assert not result.compare(gone, others[0]).guaranteed
    assert result.compare(*others).guaranteed


def test_intervals_are_for_one_look_only_at_the_first_end() -> None:
    scores = table(3, 10)
    selector = Selector({"a": "A", "b": "B"}, ZERO_ONE, 30, examples=10)
    played(selector, scores)
    assert selector.done
    assert selector.compare("a", "b").looks_once
    selector.add({"c": "C"})
    assert not selector.compare("a", "b").looks_once
    played(selector, scores)
    assert selector.done
    assert not selector.compare("a", "b").looks_once, "this is the second look"


def test_prompts_that_draw_their_own_examples_are_compared_draw_by_draw() -> None:
    selector = Selector(PROMPTS, ZERO_ONE, 30, "uniform")
    rng = np.random.default_rng(0)
    while trial := selector.ask():
        selector.tell(trial, [float(rng.random() < 0.5)])
        if selector.spent == 29:
            before = selector.result().compare("mine", "b")
    found = selector.result().compare("mine", "b")
    assert found.examples is None
    assert found.differences["accuracy"].pairs == 10
    assert before.guaranteed
    assert not found.guaranteed, "its interval is for one look, at the end"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("nobody",),
            "There is no prompt 'nobody'. Pass the text or the id of one of the prompts. The ids are 'mine', 'b', 'c'.",
        ),
        ((True,), "There is no prompt True"),
        (
            ("b", "b"),
            "compare() needs two different prompts, but a and b are both the prompt 'b'. Pass another prompt as b.",
        ),
        (
            ("mine",),
            "the prompt 'mine' would be compared with itself. Pass another prompt as b. Without b",
        ),
        (
            ("b", "c", 1.0),
            "The confidence must be a number above 0 and below 1, such as 0.95, got 1.0.",
        ),
        (("b", "c", 0.9, -1), "The tolerance must be a number from 0 to 1e+100"),
        (
            ("b", "c", 0.9, float("nan")),
            "The tolerance must be a number from 0 to 1e+100",
        ),
    ],
)
def test_what_cannot_be_compared(arguments: Any, said: str) -> None:
    result = Selector(
        PROMPTS, ZERO_ONE, 9, "uniform", examples=3, baseline="mine"
    ).result()
    with pytest.raises(InvalidArgumentError) as error:
        result.compare(*arguments)
    assert said in str(error.value)


def test_a_score_outside_its_range_is_refused_and_the_trial_stays_open() -> None:
    goal = BestFeasible(maximize("a", range=(0, 1)), {maximize("b", range=(0, 5)): 1.0})
    assert goal.ranges == {"a": (0, 1), "b": (0, 5)}
    selector = Selector(["x", "y"], goal, 4, examples=2)
    trial = selector.ask()
    for scores, said in (
        ([1.5, 2], "The score of 'a' must be within its range [0, 1]. Got 1.5"),
        ([0.5, -1], "'b' must be within"),
    ):
        with pytest.raises(InvalidScoresError) as error:
            selector.tell(trial, scores)
        assert said in str(error.value)
        assert selector.pending == [trial]
    with pytest.raises(InvalidScoresError):
        selector.observe(0, [2, 2])
    selector.tell(trial, [1 + 1e-12, 5])  # rounding
    assert selector.state.history.scores().tolist() == [[1.0, 5.0]]
    loaded = Selector.from_json(selector.to_json())
    assert loaded.goal == goal
    assert loaded.goal.ranges == goal.ranges


# The prompt in use today


@pytest.mark.parametrize(("goal", "method"), METHODS)
def test_the_baseline_is_never_eliminated(goal: Any, method: str) -> None:
    scores = table(8, 30, len(goal.metrics))
    scores[7] = 0.0  # the worst there can be
    ids = [f"p{i}" for i in range(8)]
    selector = Selector(
        {i: f"prompt {i}" for i in ids},
        goal,
        90,
        method,
        30,
        "text",
        baseline="p7",
        seed=1,
    )
    while trials := selector.ask(5):
        if trials[0].id % 20 == 0:  # who was eliminated is so in the end, too
            assert "p7" in [
                e.id for e in selector.result().prompts if e.status == "active"
            ]
        for trial in trials:
            selector.tell(trial, scores[ids.index(str(trial.prompt_id)), trial.example])
    result = selector.result()
    assert result.done
    assert result.spent <= 90
    assert result.prompts[7].status == "active"
    assert "p7" not in [entry.id for entry in result.selected]
    assert all(entry.status in ("accepted", "rejected") for entry in result.prompts[:7])
    assert result.comparison.differences["accuracy"].pairs >= 5
    assert result.sentence is not None
    assert str(result).endswith(f"\n{result.sentence}")
    loaded = Selector.from_json(selector.to_json())
    assert loaded.result() == result
    assert str(loaded.result()) == str(result)
    assert loaded.to_json() == selector.to_json()
    data = result.to_dict()
    assert data["baseline"] == "p7"
    assert data["comparison"] == result.comparison.to_dict()
    json.dumps(data, allow_nan=False)


def test_the_last_line_is_what_a_person_would_say() -> None:
    rng = np.random.default_rng(5)
    scores = np.stack([rng.random(300) < 0.6, rng.random(300) < 0.63]).astype(float)[
        :, :, None
    ]
    prompts = {"mine": "Answer.", "b": "Answer briefly."}
    text = str(
        played(
            Selector(prompts, ZERO_ONE, 240, "uniform", examples=300, baseline="mine"),
            scores,
        ).result()
    )
    assert text.splitlines()[-1].startswith('"b" is probably better than "mine" (')
    assert text.splitlines()[-1].endswith("(120 common examples of 300).")
    own = played(
        Selector(prompts, ZERO_ONE, 240, "uniform", examples=300, baseline="b"), scores
    ).result()
    assert (own.comparison, own.sentence) == (
        None,
        'The baseline "b" is the selected prompt.',
    )


def test_the_best_of_many_shares_the_error_with_those_it_was_chosen_from() -> None:
    result = played(
        Selector(
            [f"p{i}" for i in range(5)],
            ZERO_ONE,
            100,
            "uniform",
            examples=40,
            baseline=4,
        ),
        table(5, 40),
    ).result()
    chosen = result.selected[0]
    assert result.comparison == result.compare(chosen)
    lead = result.compare(chosen).differences["accuracy"]
    others = result.compare(result.prompts[3]).differences["accuracy"]
    assert lead.low is not None
    assert lead.high is not None
    assert others.low is not None
    assert others.high is not None
    # Neither of these two is selected
    assert others.high - others.low < lead.high - lead.low


def test_a_baseline_is_a_prompt_by_id_or_text() -> None:
    by_text = Selector(["x", "y"], ZERO_ONE, 4, baseline="y")
    assert by_text.result().baseline == 1
    assert Selector.from_json(by_text.to_json()).result().baseline == 1
    for wrong in ("z", 2, True):
        with pytest.raises(InvalidArgumentError, match="baseline: There is no prompt"):
            Selector(["x", "y"], ZERO_ONE, 4, baseline=wrong)


def test_an_unknown_range_takes_the_guarantee_away_and_is_named(tmp_path: Path) -> None:
    """Rare disasters: 2% of the examples. As long as none was seen, nothing bounds them."""
    rng = np.random.default_rng(0)
    scores = (rng.random((2, 400, 1)) < np.array([0.4, 0.8])[:, None, None]).astype(
        float
    )
    for method in (Race(0.99), Adaptive(confidence=0.99)):
        unknown = played(
            Selector(
                {"mine": "Answer.", "b": "Answer briefly."},
                BestFeasible("accuracy"),
                800,
                method,
                examples=400,
            ),
            scores,
        )
        result = unknown.result()
        assert result.stopped_early
        (check,) = (check for check in result.checks if check.name == "range")
        assert check.ok is None
        assert f"about {300 / n_seen(unknown):.2g}% of the examples" in check.sentence
        sure = 'With 99% confidence, the selection is correct. This is not guaranteed. See the check "range".'
        assert sure in result.notes
        assert not result.compare("b", "mine").guaranteed
        unknown.report(tmp_path / "report.html")
        assert check.sentence.split(" is ")[1] in (tmp_path / "report.html").read_text()
        ranged = BestFeasible(asktell.maximize("accuracy", range=(0, 1)))
        known = played(
            Selector(
                {"mine": "Answer.", "b": "Answer briefly."},
                ranged,
                800,
                method,
                examples=400,
            ),
            scores,
        ).result()
        assert known.stopped_early
        assert "guaranteed" not in str(known)
        assert known.compare("b", "mine").guaranteed


def n_seen(selector: Selector) -> int:
    return len(set(selector.state.history.examples().tolist()))


def test_doubtful_scores_are_compared_and_prove_nothing() -> None:
    scores = np.stack([np.zeros((60, 1)), np.ones((60, 1))])
    selector = played(
        Selector(["x", "y"], ZERO_ONE, 120, "uniform", examples=60), scores, 1
    )
    before = selector.compare(1, 0).differences["accuracy"]
    assert (before.verdict, before.guaranteed) == ("better", True)
    selector.remark("The judge disagrees with people.", topic="accuracy", doubtful=True)
    after = selector.compare(1, 0).differences["accuracy"]
    assert (after.verdict, after.guaranteed, after.p_better) == (
        "undecided",
        False,
        0.5,
    )
    assert after.estimate == before.estimate
    (check,) = (check for check in selector.result().checks if check.name == "labels")
    assert (check.ok, check.sentence) == (False, "The judge disagrees with people.")


def test_a_prompt_that_joined_late_is_compared_but_not_guaranteed() -> None:
    scores = table(3, 40)
    selector = Selector(
        {"mine": "Answer.", "b": "Answer briefly."}, ZERO_ONE, 120, "race", examples=40
    )
    play(
        selector,
        lambda trial: scores[["mine", "b"].index(str(trial.prompt_id)), trial.example],
        n=20,
    )
    assert selector.compare("mine", "b").guaranteed
    selector.add({"c": "Answer at length."})
    played(selector, scores)
    assert selector.compare("mine", "b").guaranteed
    late = selector.compare("c", "mine")
    assert not late.guaranteed
    assert late.differences["accuracy"].pairs > 0
    (check,) = (check for check in selector.result().checks if check.name == "order")
    assert check.ok is None


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2)])
def test_repeats_of_an_example_are_one_observation_by_whole_rounds(
    order: tuple[int, ...],
) -> None:
    """While a round is incomplete, it counts for nothing; and it does not matter in which order its scores came."""
    selector = Selector(["x", "y"], ZERO_ONE, 16, "uniform", examples=4, repeats=2)
    rng, rounds = np.random.default_rng(0), np.zeros((2, 2, 4))
    trials = selector.ask(16)
    place = selector.state.problem.examples.place
    seen: dict[tuple[int, int], int] = {}
    by_round: dict[int, list[Any]] = {0: [], 1: []}
    for trial in trials:
        cell = int(trial.prompt_id), int(place[trial.example])
        by_round[seen.get(cell, 0)].append((trial, cell))
        seen[cell] = 1 + seen.get(cell, 0)
    for number, told in by_round.items():
        for _, (arm, at) in told:
            rounds[number, arm, at] = float(rng.random() < 0.3 + 0.4 * arm)

    def found() -> tuple[float, float, int]:
        each = selector.compare(1, 0).differences["accuracy"]
        return each.low, each.high, each.pairs  # type: ignore[return-value]

    def expected(
        values: np.ndarray, looks_once: bool = False
    ) -> tuple[float, float, int]:
        each = compare(
            values[1],
            values[0],
            limits=(0, 1),
            confidence=1 - 0.05 / 2,
            looks_once=looks_once,
        )
        return each.low, each.high, each.pairs  # type: ignore[return-value]

    for trial, (arm, at) in by_round[0]:
        selector.tell(trial, rounds[0, arm, at])
    assert found() == expected(rounds[0])
    second = [
        (trial, cell) for at in order for trial, cell in by_round[1] if cell[1] == at
    ]
    for trial, (arm, at) in second[:-1]:
        selector.tell(trial, rounds[1, arm, at])
        assert found() == expected(rounds[0])
    trial, (arm, at) = second[-1]
    selector.tell(trial, rounds[1, arm, at])
    # The budget is spent
    assert found() == expected(rounds.mean(axis=0), looks_once=True)
    # What is repeated beyond that, for another purpose, is ignored.
    selector.observe(0, 1.0, 0)
    assert found() == expected(rounds.mean(axis=0), looks_once=True)


def test_a_score_that_is_out_keeps_the_later_one_of_the_same_cell_back() -> None:
    """Scores may come late because of what they are, so the first asked is the first that counts."""
    selector = Selector(["x", "y"], ZERO_ONE, 8, "uniform", examples=2, repeats=2)
    trials = [
        trial
        for trial in selector.ask(8)
        if int(selector.state.problem.examples.place[trial.example]) == 0
    ]
    others = [trial for trial in selector.pending if trial not in trials]
    first = {
        prompt: min(t.id for t in trials if t.prompt_id == prompt) for prompt in (0, 1)
    }
    for trial in [*trials, *others]:
        if trial.id != first[0]:
            selector.tell(trial, 1.0)
    assert selector.compare(0, 1).differences["accuracy"].pairs == 0
    (slow,) = selector.pending
    selector.tell(slow, 0.0)
    assert selector.compare(0, 1).differences["accuracy"].pairs == 2
