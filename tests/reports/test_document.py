"""What a report shows is what the selection knows, by hand and by the selection's own words."""

import base64
import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import reports
from asktell.reports.data import Extras
from asktell.reports.heat_map import (
    MOST_CELLS,
    Grid,
    discriminating_examples,
    heat_map,
    spending,
)
from asktell.results.evaluations import Evaluation
from asktell.results.result import ranking
from asktell.studies.study import Study
from tests.reports.conftest import told

GOAL = asktell.BestFeasible("rouge", subject_to={"brevity": 0.3})
FRONT = asktell.ParetoSet("rouge", asktell.minimize("latency"))
IDS = [f"p{k}" for k in range(6)]


def document(selector: asktell.Selector, **options: Any) -> dict[str, Any]:
    return reports.document(
        selector.state, selector.method, selector.prompts, **options
    )


@pytest.fixture(scope="module")
def done(study: Callable[..., Study]) -> Study:
    return study(IDS, GOAL, 90, baseline="p1")


def test_it_is_json_and_says_what_the_result_says(done: Study) -> None:
    data, result = done.report_data({"model": "small"}), done.result()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["prompts"]["ids"] == IDS
    assert [IDS[arm] for arm in data["answer"]] == [
        entry.id for entry in result.selected
    ]
    assert [IDS[arm] for arm in data["unresolved"]] == [
        entry.id for entry in result.unresolved
    ]
    assert data["prompts"]["estimates"] == [
        [e.estimate["rouge"], e.estimate["brevity"]] for e in result.prompts
    ]
    assert data["prompts"]["errors"] == [
        list(e.standard_error.values()) for e in result.prompts
    ]
    assert data["prompts"]["p_best"] == [e.p_best for e in result.prompts]
    assert data["comparison"] == result.comparison.to_dict()  # type: ignore[union-attr]
    assert (data["spent"], data["budget"], data["spent_cost"]) == (
        result.spent,
        result.budget,
        result.spent_cost,
    )
    assert data["made"]["about"] == {"model": "small"}
    assert data["whole"]["evaluations"] == 180


def test_factors_of_candidates_stand_by_level_and_the_one_that_matters_is_named() -> (
    None
):
    grid = asktell.grid(model=["good", "bad"], prompt={"a": "A", "b": "B"})
    selector = asktell.Selector(grid, asktell.BestFeasible("rouge"), 60, examples=30)
    assert (
        document(selector)["words"]["factors"]
        == "No factor makes a clear difference in rouge yet."
    )
    while trial := selector.ask():
        good = trial.candidate["model"] == "good"
        selector.tell(trial, told(trial.id % 3, trial.example or 0, 1)[0] + 0.3 * good)
    data, found = document(selector), selector.result().factors()
    assert [each["name"] for each in data["factors"]] == ["model", "prompt"]
    for factor in data["factors"]:
        for level, means, errors in zip(
            factor["levels"], factor["estimates"], factor["errors"], strict=True
        ):
            assert found[factor["name"]][level] == {"rouge": (means[0], errors[0])}
    assert data["words"]["factors"].startswith(
        'The factor "model" makes the largest difference in rouge: 0.'
    )
    assert 'between "good" and "bad"' in data["words"]["factors"]


def test_quantities_are_means_per_prompt_and_failures_stand_by_reason(
    done: Study,
) -> None:
    data = done.report_data()
    by_name = {each["name"]: each for each in data["quantities"]}
    assert by_name["seconds"]["means"] == [pytest.approx(0.5 + k) for k in range(6)]
    assert by_name["cost"]["total"] == pytest.approx(done.result().spent_cost)
    (group,) = data["failures"]
    assert group["count"] == sum(entry.failures for entry in done.result().prompts)
    assert group["reason"].startswith("TimeoutError")


@pytest.mark.parametrize(
    "number",
    [10**400, -(10**400), 1e308, float("nan")],
    ids=["huge", "-huge", "1e308", "nan"],
)
def test_a_number_that_cannot_be_added_up_is_no_quantity_and_no_end_of_the_report(
    number: float,
) -> None:
    told = [
        Evaluation(
            i, "a", i, {"rouge": 0.5}, None, None, {"seconds": 2.0, "odd": number}
        )
        for i in range(3)
    ]
    (quantity,) = Extras(told, ["a"], ["rouge"], ()).quantities(1)
    assert (quantity["name"], quantity["total"]) == ("seconds", 6.0)


def test_failures_that_differ_in_numbers_only_are_one_group() -> None:
    reasons = ["after 3 s", "after 14.5 s", "no key"]
    evaluations = [
        Evaluation(i, "a", i, None, None, reason) for i, reason in enumerate(reasons)
    ]
    extras = Extras(evaluations, ["a"], ["score"], ())
    assert [(group["count"], group["reason"]) for group in extras.failures()] == [
        (2, "after 3 s"),
        (1, "no key"),
    ]


def test_the_answers_of_both_prompts_stand_side_by_side(done: Study) -> None:
    duel = done.report_data()["duels"][0]
    a, b = duel["a"], duel["b"]
    assert (duel["what"], b) == ("baseline", 1)
    scores = {(e.prompt, e.example): e.scores for e in done.evaluations() if e.scores}
    for row in duel["rows"]:
        assert row["a"] == list(scores[IDS[a], row["example"]].values())
        assert row["b"] == list(scores[IDS[b], row["example"]].values())
        assert row["answers"] == [
            f"Answer of {IDS[arm]} to {row['example']}" for arm in (a, b)
        ]
    ahead = [row["a"][0] - row["b"][0] for row in duel["rows"]]
    assert ahead == sorted(ahead)  # the worst regression first
    assert duel["counts"][0] == [
        sum(x > 0 for x in ahead),
        ahead.count(0),
        sum(x < 0 for x in ahead),
    ]


def grid_selector(
    scores: dict[tuple[int, int], float], n_prompts: int, n_examples: int
) -> asktell.Selector:
    prompts = {f"p{k}": f"text {k}" for k in range(n_prompts)}
    selector = asktell.Selector(
        prompts, asktell.BestFeasible("s"), 10, examples=n_examples
    )
    for (prompt, example), score in scores.items():
        selector.observe(f"p{prompt}", {"s": score}, example)
    return selector


def levels(picture: dict[str, Any], heat: dict[str, Any]) -> np.ndarray[Any, Any]:
    raw = np.frombuffer(base64.b64decode(picture["bytes"]), dtype=np.uint8)
    return raw.reshape(len(heat["row_starts"]), len(heat["column_starts"]))


def test_the_heat_map_has_the_scores_in_their_places_and_unseen_cells_blank() -> None:
    state = grid_selector({(0, 0): 0.0, (1, 0): 0.5, (1, 2): 1.0}, 2, 3).state
    heat = heat_map(Grid(state), np.array([1, 0]))
    assert (heat["rows"], heat["columns"], heat["seen"], heat["all"]) == (
        [1, 0],
        [0, 2],
        3,
        6,
    )
    assert levels(heat["pictures"][0], heat).tolist() == [[128, 255], [1, 0]]


def test_a_heat_map_too_large_is_binned_and_says_so() -> None:
    rng = np.random.default_rng(0)
    cells = {
        (k, int(e)): float(rng.random())
        for k in range(600)
        for e in rng.permutation(700)[:3]
    }
    state = grid_selector(cells, 600, 700).state
    heat = heat_map(Grid(state), np.arange(600))
    assert heat["binned"]
    assert levels(heat["pictures"][0], heat).size <= MOST_CELLS
    assert len(heat["row_starts"]) == 500
    shown = levels(heat["pictures"][0], heat)
    assert (shown > 0).sum() <= len(cells)


def test_examples_that_divide_and_examples_that_everybody_fails() -> None:
    rows = {0: [0, 1, 0, 1], 1: [0, 1, 1, 1], 2: [0, 1, 0, 1]}
    cells = {(k, e): float(x) for k, row in rows.items() for e, x in enumerate(row)}
    selector = grid_selector(cells, 3, 4)
    found = discriminating_examples(Grid(selector.state), selector.result())
    assert found["judged"] == 4
    assert [row["example"] for row in found["rows"] if row["failed"]] == [0]
    assert found["rows"][0]["example"] == 2
    assert found["same"] == 3
    assert [row["spread"] for row in found["rows"]] == pytest.approx(
        [2**0.5 / 3, 0.0, 0.0, 0.0]
    )


def test_examples_that_look_wrong_are_listed_and_named() -> None:
    rng = np.random.default_rng(0)
    chances = 1 / (1 + np.exp(rng.normal(0, 1, 60) - rng.normal(0, 1.5, (60, 1))))
    scores = (rng.random((60, 60)) < chances).astype(float)
    scores[:, 5] = 1.0 - scores[:, 5]
    scores[:, 40] = scores[:, 11]
    selector = asktell.Selector(
        [f"p{k}" for k in range(60)], asktell.BestFeasible("s"), 9, examples=60
    )
    for arm, example in np.ndindex(60, 60):
        selector.observe(f"p{arm}", [scores[arm, example]], example)
    data = document(selector)
    telling = data["telling"]
    assert [row["example"] for row in telling["rows"] if row["mislabeled"]] == [5]
    assert {
        row["example"]: row["duplicates"]
        for row in telling["rows"]
        if row["duplicates"]
    } == {11: [40], 40: [11]}
    assert (telling["mislabeled"], telling["duplicates"]) == (1, 2)
    said = data["words"]["examples"]
    assert (
        "On 1 example, better prompts have worse s than other prompts. Check the labels of these examples first."
        in said
    )
    assert (
        "2 examples may be near duplicates, because every prompt has the same score on another example."
        in said
    )


def test_where_evaluations_went_counts_every_one() -> None:
    selector = grid_selector(
        {(k, e): 0.5 for k in range(3) for e in range(k + 1)}, 3, 4
    )
    found = spending(selector.state, np.array([2, 1, 0]))
    counts = np.frombuffer(base64.b64decode(found["bytes"]), dtype=np.uint8).reshape(
        3, found["steps"]
    )
    assert (counts > 0).sum(axis=1).tolist() == [3, 2, 1]
    assert found["evaluations"] == 6


def test_the_ranking_puts_the_answer_first_then_feasible_then_infeasible() -> None:
    goal = asktell.BestFeasible("a", subject_to={"b": 0.5})
    selector = asktell.Selector(
        {id_: id_ for id_ in "xyu"},
        goal,
        8,
        "uniform",
        examples=2,
        inputs="given",
        repeats=1,
    )
    for prompt, scores in (("x", [0.9, 0.1]), ("y", [0.2, 0.9]), ("u", [0.5, 0.9])):
        for example in range(2):
            selector.observe(prompt, scores, example)
    result = selector.result()
    assert [entry.feasible for entry in result.prompts] == [False, True, True]
    assert ranking(result).tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("goal", "method"),
    [
        (GOAL, "auto"),
        (FRONT, "auto"),
        (asktell.BestFeasible("rouge"), "auto"),
        (GOAL, "race"),
        (FRONT, "uniform"),
    ],
)
def test_every_goal_and_method_at_every_stage_has_a_report(
    goal: Any, method: str
) -> None:
    selector = asktell.Selector(
        {"a": "A", "b": "B"}, goal, 8, method, examples=5, baseline="a"
    )
    seen = [document(selector)]
    while trial := selector.ask():
        selector.tell(trial, [0.5 + 0.1 * (trial.prompt_id == "b")] * len(goal.metrics))
        seen.append(document(selector))
    for data in seen:
        json.dumps(data, allow_nan=False)
        assert all(data["words"].values())


def test_a_selection_without_examples_or_with_failures_only_has_a_report() -> None:
    free = asktell.Selector(["a", "b"], asktell.BestFeasible("s"), 4)
    while trial := free.ask():
        free.tell(trial, [0.1])
    assert document(free)["heat_map"] is None
    failing = asktell.Selector(
        ["a", "b"], asktell.BestFeasible("s"), 4, examples=3, max_failure_rate=1e-6
    )
    while trial := failing.ask():
        failing.fail(trial, ValueError("no key"))
    data = document(failing)
    assert data["answer"] == []
    assert (
        data["words"]["answer"]
        == "Nothing was measured, because all 2 evaluations failed."
    )
    assert data["unresolved"] == []  # with what?
    assert data["failures"][0]["count"] == 2


def test_texts_are_cut_to_what_a_page_can_hold() -> None:
    texts = {f"p{k}": f"{k} " + "長い" * 2000 for k in range(300)}
    data = document(asktell.Selector(texts, asktell.BestFeasible("s"), 300, examples=3))
    assert sum(len(text.encode()) for text in data["prompts"]["texts"]) <= 700_000
    assert data["prompts"]["lengths"][0] == len(texts["p0"])


def play(
    selector: asktell.Selector,
    scores: Callable[[str, int], Any],
    failing: str | None = None,
) -> dict[str, Any]:
    while trial := selector.ask():
        if trial.prompt_id == failing:
            selector.fail(trial, "no answer")
        else:
            selector.tell(trial, scores(str(trial.prompt_id), trial.example or 0))
    return document(selector)


@pytest.mark.parametrize(
    ("new", "said", "is_open"),
    [
        (lambda e: 0.9, 'Ship "new": better than "now" by +0.', False),
        (lambda e: 0.1, 'Keep "now": no prompt is shown to be better.', False),
        (
            lambda e: 0.5 + (0.4 if e % 5 else -0.9),
            'Not decided: "new" is not shown to be better than "now".',
            True,
        ),
    ],
    ids=["better", "worse", "undecided"],
)
def test_it_is_said_whether_to_change_what_is_in_use(
    new: Callable[[int], float], said: str, is_open: bool
) -> None:
    """The last one is ahead on average, by chance or not: its interval spans nought."""
    selector = asktell.Selector(
        {"now": "A.", "new": "B."},
        asktell.BestFeasible("s"),
        10,
        "uniform",
        examples=40,
        baseline="now",
    )
    data = play(
        selector, lambda prompt, e: 0.5 + 0.01 * (e % 3) if prompt == "now" else new(e)
    )
    assert data["words"]["answer"].startswith(said)
    assert data["words"]["answer"] == data["verdict"]["headline"]
    assert data["verdict"]["headline"] not in data["words"]["verdict"]
    assert ("undecided" in str(data["comparison"])) == is_open


def test_a_baseline_that_is_the_answer_is_held_against_the_runner_up() -> None:
    selector = asktell.Selector(
        {"now": "A.", "x": "B.", "y": "C."},
        asktell.BestFeasible("s"),
        30,
        examples=10,
        baseline="now",
    )
    data = play(
        selector, lambda prompt, e: {"now": 0.9, "x": 0.1, "y": 0.5}[prompt] + 0.01 * e
    )
    ids = data["prompts"]["ids"]
    assert [
        (ids[duel["a"]], ids[duel["b"]], duel["what"]) for duel in data["duels"]
    ] == [("now", "y", "runner-up")]


def test_who_failed_or_was_retired_has_left_too() -> None:
    selector = asktell.Selector(
        {"a": "A.", "b": "B.", "c": "C."}, FRONT, 30, examples=10
    )
    selector.retire("c", "too long")
    data = play(selector, lambda prompt, e: [0.1 * e, 0.2], failing="b")
    left = {
        data["prompts"]["ids"][each["prompt"]]: each
        for each in data["spending_by_prompt"]["left_otherwise"]
    }
    assert {id_: each["status"] for id_, each in left.items()} == {
        "b": "failed",
        "c": "retired",
    }
    assert "too long" in left["c"]["reason"]
    assert (
        "2 of 3 prompts have been eliminated, failed or retired."
        in data["words"]["spending"]
    )
    assert data["words"]["answer"] == 'Take "a".'
    assert [id_ for id_, _ in data["verdict"]["contenders"]] == ["a"]
    assert "there is no trade-off" in data["words"]["plane"]


def test_who_looks_better_and_is_no_candidate_is_named() -> None:
    selector = asktell.Selector(
        {"a": "A.", "b": "B.", "c": "C."}, asktell.BestFeasible("s"), 30, examples=10
    )
    for example in range(5):
        selector.observe("a", {"s": 0.9}, example)
    selector.retire("a", "too long")
    said = play(
        selector, lambda prompt, e: {"a": 0.9, "b": 0.2, "c": 0.5}[prompt] + 0.01 * e
    )["words"]
    assert 'Failed or retired prompts with better s: "a" (retired).' in said["verdict"]
    assert (
        '"c" has the highest s of all prompts that can still be selected.'
        in said["plane"]
    )


def test_a_relative_bound_is_named_by_its_reference() -> None:
    goal = asktell.BestFeasible("s", subject_to={"t": asktell.within(0.1), "u": 0.5})
    selector = asktell.Selector({"a": "A.", "b": "B."}, goal, 4, examples=2)
    while trial := selector.ask():
        selector.tell(trial, [0.5, 0.7, 0.6])
    _, relative, fixed = document(selector)["goal"]["metrics"]
    (bound,) = relative["thresholds"]
    assert (bound["relative"], bound["text"]) == ("best - 0.1", "t >= best - 0.1")
    assert bound["bound"] == pytest.approx(0.6)
    assert fixed["thresholds"][0]["relative"] is None


def test_if_nobody_keeps_the_thresholds_nobody_is_called_the_best() -> None:
    goal = asktell.BestFeasible("s", subject_to={"t": 0.9})
    selector = asktell.Selector({"a": "A.", "b": "B."}, goal, 16, examples=8)
    trial = selector.ask()
    selector.tell(trial, [0.5, 0.1])
    assert (
        document(selector)["words"]["answer"]
        == "Not decided: one evaluation is not enough to estimate a probability."
    )
    while selector.spent < 12:
        trial = selector.ask()
        selector.tell(trial, [0.5, 0.1])
    assert (
        document(selector)["words"]["answer"]
        == "No prompt is likely to satisfy the constraint."
    )
    said = play(
        selector, lambda prompt, e: [0.5, 0.1 if prompt == "a" else 0.4 + 0.01 * e]
    )["words"]
    assert said["answer"] == "No prompt is likely to satisfy the constraint."
    assert "the best" not in said["verdict"]
    assert "baseline" not in said["verdict"], "there is none"
    assert '"b" is expected to violate it least. Relax' in said["verdict"]


def test_names_that_run_from_right_to_left_are_isolated_in_sentences() -> None:
    arabic = "\u0645\u0644\u062e\u0635"
    selector = asktell.Selector(
        {arabic: "A.", "b": "B."},
        asktell.BestFeasible("s"),
        20,
        examples=10,
        baseline="b",
    )
    said = play(
        selector, lambda prompt, e: (0.9 if prompt == arabic else 0.1) + 0.01 * e
    )["words"]
    assert f"\u2068{arabic}\u2069" in said["answer"]
    for text in said.values():
        assert text.count(arabic) == text.count(f"\u2068{arabic}\u2069")
    assert not any("\u2068b" in text for text in said.values())


def test_the_verdict_says_how_sure_it_is_that_thresholds_are_kept(done: Study) -> None:
    said = re.findall(
        r"It satisfies the constraint with .*% probability",
        done.report_data()["words"]["verdict"],
    )
    assert len(said) == 1


def test_examples_say_what_earlier_studies_told(done: Study) -> None:
    assert done.report_data()["telling"]["earlier"] is None
    ids = [f"example {j}" for j in range(10)]
    scores = np.random.default_rng(1).random((6, 10)) + np.outer(
        np.arange(6), np.arange(10) > 7
    )
    selectors: list[asktell.Selector] = []
    for given in (None, 0):
        profile = None if given is None else asktell.ExampleProfile.of(selectors[given])
        goal = asktell.BestFeasible("rouge")
        selector = asktell.Selector(
            IDS, goal, 40 if given is None else 12, "auto", ids, profile=profile
        )
        while trial := selector.ask():
            selector.tell(trial, [scores[IDS.index(trial.prompt), trial.example]])
        selectors.append(selector)
    data = document(selectors[1])
    shape = selectors[1].state.problem.examples.shapes[0]
    assert [row["earlier"] for row in data["telling"]["rows"]] == [
        shape.informativeness[row["example"]] for row in data["telling"]["rows"]
    ]
    most = np.argsort(-shape.informativeness)[:2]
    told = selectors[1].state.history.examples()
    assert data["telling"]["earlier"] == {
        "studies": 1,
        "share": float(np.isin(told, most).mean()),
    }
    assert "on the fifth of the examples that was most informative about rouge" in str(
        data["words"]
    )


def test_prompts_that_the_end_did_not_select_were_not_eliminated() -> None:
    selector = asktell.Selector(
        {"a": "A.", "b": "B.", "c": "C."}, FRONT, 12, examples=10
    )
    data = play(selector, lambda prompt, e: [{"A.": 0.9}.get(prompt, 0.1), 0.1 * e])
    assert selector.done
    assert data["words"]["spending"].endswith("No prompt has been eliminated.")


def compared(scores: dict[str, list[float]], metric: str = "s") -> dict[str, Any]:
    """The document of two prompts with these scores by example, "b" as the baseline. Repeats are lists."""
    goal = asktell.BestFeasible(
        asktell.maximize("s", range=(0, 1)), subject_to={"cost": asktell.at_most(9)}
    )
    n = len(scores["a"])
    selector = asktell.Selector(
        {"a": "A", "b": "B"}, goal, 2, examples=n, baseline="b", repeats=3
    )
    for prompt, cells in scores.items():
        for example, cell in enumerate(cells):
            for score in np.atleast_1d(cell):
                told = {"s": float(score), "cost": 1.0 + (prompt == "a")}
                selector.observe(prompt, told, example)
    return document(selector)


def test_means_of_repeats_that_differ_by_rounding_tie() -> None:
    ups, downs = [0.1, 0.2, 0.6], [0.6, 0.2, 0.1]
    data = compared({"a": [ups, ups, 0.9, 0.1], "b": [downs, downs, 0.2, 0.4]})
    [duel] = data["duels"]
    sides = [next(row for row in duel["rows"] if row["example"] == 0)[k] for k in "ab"]
    assert sides[0] != sides[1]
    assert duel["counts"][0] == [1, 2, 1]
    ahead = {row["example"]: row["ahead"][0] for row in duel["rows"]}
    assert ahead == {0: 0, 1: 0, 2: 1, 3: -1}
    assert [row["example"] for row in duel["rows"]] == [3, 0, 1, 2]
    assert "wins 1, ties 2 and loses 1" in data["words"]["duel"]


def test_examples_are_compared_by_a_score_and_not_by_what_they_cost() -> None:
    prompts, within = {"a": "A", "b": "B"}, asktell.within(0.1)
    goal = asktell.BestFeasible(asktell.minimize("cost"), subject_to={"s": within})
    selector = asktell.Selector(prompts, goal, 2, examples=8, baseline="b")
    for example in range(8):
        right = float(example % 2)
        selector.observe("a", {"cost": 2.0, "s": right}, example)
        selector.observe("b", {"cost": 3.0, "s": 1.0}, example)
    data = document(selector)
    duel = data["duels"][0]
    assert data["goal"]["metrics"][duel["metric"]]["name"] == "s"
    assert "in s." in data["words"]["duel"]


def test_the_likeliest_regressions_are_named_with_their_share_of_false_alarms() -> None:
    a = [0.0, 0.0, *[1.0] * 28]
    data = compared({"a": a, "b": [1.0, 1.0, *[0.0] * 5, *[1.0] * 23]})
    [duel] = data["duels"]
    rates = {row["example"]: row["false"] for row in duel["rows"] if "false" in row}
    assert rates.keys() == set(range(7))
    expected = f"{50 * (rates[0] + rates[1]):.0f}%"
    assert (
        f"Most likely broken: example 0, example 1. The expected share of false alarms among them is {expected}."
        in data["words"]["duel"]
    )


def test_an_opened_row_has_the_input_the_grades_and_the_reasons() -> None:
    study = Study.create("memory://judged", "judged", selector_of_two())
    text = "All of the input. " * 100
    said = {"grades": {"clear": 0.5}, "reasons": ["Too short.", "", "Too short."]}
    while trial := study.ask():
        if trial.example == 2:
            study.fail(trial, "TimeoutError: no response after 30 s")
            continue
        details = {"output": "no", "judged": {"s": said, "odd": 3}}
        study.tell(trial, [float(trial.prompt_id == "a")], details=details)
    inputs = [f"{text}{n}" for n in range(4)]
    data = study.report_data(inputs=inputs)
    [duel] = data["duels"]
    assert data["inputs"] == {
        str(row["example"]): inputs[row["example"]] for row in duel["rows"]
    }
    graded = [{"metric": "s", "grades": {"clear": 0.5}, "reasons": ["Too short."]}]
    assert duel["rows"][0]["judged"] == [graded, graded]
    assert duel["failed"] == [
        {"example": 2, "errors": ["TimeoutError: no response after 30 s"] * 2}
    ]
    assert "inputs" not in study.report_data()
    for wrong in ([1, 2], ["a"] * 5):
        with pytest.raises(asktell.InvalidArgumentError, match="`inputs`"):
            study.report_data(inputs=wrong)  # type: ignore[arg-type]


def selector_of_two() -> asktell.Selector:
    goal = asktell.BestFeasible(asktell.maximize("s", range=(0, 1)))
    return asktell.Selector(
        {"a": "A", "b": "B"}, goal, 8, "uniform", examples=4, baseline="b"
    )


def test_an_id_that_was_made_of_an_input_becomes_the_number_of_its_row() -> None:
    ids = [
        "What is (the) (0123456789ab)",
        "What is (the) (0123456789ab)-2",
        "own (0123456789ab)",
    ]
    goal = asktell.BestFeasible("s")
    selector = asktell.Selector(["A", "B"], goal, 6, examples=ids)
    data = document(selector, inputs=["What is (the)  matter?"] * 3)
    assert data["example_names"] == [
        "row 1: What is (the)",
        "row 2: What is (the)",
        "own (0123456789ab)",
    ]
    assert document(selector)["example_names"] == ids


def test_a_ruling_heads_the_page_of_a_gate() -> None:
    scores = [[1.0, 1.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0]]
    selector = selector_of_two()
    for prompt, row in zip("ab", scores, strict=True):
        for example, score in enumerate(row):
            selector.observe(prompt, {"s": score}, example)
    ruling = {
        "headline": 'Undecided: too few evaluations of "a".',
        "verdict": "undecided",
        "requirements": [["s not worse", "undecided"]],
        "reasons": ["More are needed."],
        "candidate": "a",
        "baseline": "b",
        "confidence": 0.9,
    }
    data = document(selector, ruling=ruling)
    assert (data["words"]["answer"], data["words"]["verdict"]) == (
        ruling["headline"],
        "More are needed.",
    )
    [duel] = data["duels"]
    assert (duel["a"], duel["b"], duel["confidence"]) == (0, 1, 0.9)
    assert "Undecided" in reports.render(data).split("<noscript>")[1].split("</")[0]
