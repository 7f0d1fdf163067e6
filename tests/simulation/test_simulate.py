import json
import math
from pathlib import Path

import numpy as np
import pytest

import asktell
from asktell.errors import InvalidArgumentError
from asktell.simulation.replay import Replay, by_chance, play
from asktell.simulation.simulate import run_once
from asktell.simulation.simulation import holm
from asktell.simulation.truth import Truth, means_of
from tests.simulation.rivals import best_of_all, dies, greedy

# Means of four prompts on three examples: accuracy .1, .4, .7, .9; latency 1, 1, 1, 3.
SCORES = np.array(
    [
        [[a, latency]] * 3
        for a, latency in ((0.1, 1.0), (0.4, 1.0), (0.7, 1.0), (0.9, 3.0))
    ]
)
GOAL = asktell.BestFeasible("accuracy", subject_to={"latency": asktell.at_most(2.0)})
QUIET = {"on_progress": lambda done, total: None}


def test_every_method_finds_the_best_of_noiseless_scores_with_all_evaluations() -> None:
    found = asktell.simulate(SCORES, GOAL, budgets=(3,), seeds=2, jobs=1, **QUIET)
    assert {(run["method"], run["seed"]) for run in found.runs} == {
        (name, seed) for name in ("auto", "csr-sh", "uniform") for seed in (0, 1)
    }
    for run in found.runs:
        assert (run["answer"], run["quality"], run["regret"], run["feasible"]) == (
            [2],
            1.0,
            0.0,
            True,
        )
        assert run["size"] == 1
        assert run["evaluations"] <= 12
        assert run["hypervolume"] is run["f1"] is None
    json.dumps(found.to_dict(), allow_nan=False)


def test_answers_are_judged_by_hand() -> None:
    """Of the feasible .1, .4 and .7 the median is .4."""
    answers = {"a": 0, "b": 1, "c": [2, 3], "d": 3}
    rivals = {
        name: lambda problem, budget, seed, answer=answer: answer
        for name, answer in answers.items()
    }
    found = asktell.simulate(
        SCORES, GOAL, rivals, budgets=(1,), seeds=1, jobs=1, **QUIET
    ).to_dataframe()
    assert found["method"].tolist() == list(answers)
    assert found["quality"].tolist() == [0.0, 0.0, 1.0, 0.0]
    assert found["regret"].tolist() == pytest.approx([0.6, 0.3, 0.0, 0.0])
    assert found["feasible"].tolist() == [True, True, False, False]
    assert found["size"].tolist() == [1, 1, 2, 1]
    assert found["evaluations"].tolist() == [0] * 4


def test_a_minimized_objective() -> None:
    truth = Truth(
        *means_of(
            SCORES[:, :, ::-1],
            asktell.BestFeasible(asktell.minimize("latency"), {"accuracy": 0.2}),
        )
    )
    assert np.flatnonzero(truth.feasible).tolist() == [1, 2, 3]
    assert truth.judge([3])["regret"] == 2.0
    assert truth.judge([1])["quality"] == 1.0


def test_a_pareto_set_by_hand() -> None:
    goal = asktell.ParetoSet("accuracy", asktell.minimize("latency"))
    rivals = {"both": lambda *_: [2, 3], "one": lambda *_: [3, 0]}
    one, other = asktell.simulate(
        SCORES, goal, rivals, budgets=(1,), seeds=1, jobs=1, **QUIET
    ).runs
    assert (one["quality"], one["f1"], one["regret"], one["size"]) == (1.0, 1.0, 0.0, 2)
    # Of the front (.75, 1), (1, 0) in units of the ranges the second spans no area, nor
    # does the dominated (0, 1).
    assert (other["hypervolume"], other["f1"]) == (0.0, 0.5)
    assert other["quality"] == 0.25


def test_missing_cells_are_failures() -> None:
    scores = SCORES.copy()
    scores[2, 0, 0] = scores[0] = np.nan
    goal, means = means_of(
        scores[:, :, :1],
        asktell.BestFeasible("accuracy", {"failure_rate": asktell.at_most(0.2)}),
    )
    np.testing.assert_allclose(means_of(scores, GOAL)[1][1:], SCORES.mean(axis=1)[1:])
    assert np.isnan(means_of(scores, GOAL)[1][0]).all()
    assert means[:, -1].tolist() == pytest.approx([1, 0, 1 / 3, 0])
    assert np.flatnonzero(Truth(goal, means).feasible).tolist() == [1, 3]
    problem = Replay(scores, GOAL, 1, seed=0)
    assert problem.evaluate(2, 0) is None
    assert (problem.evaluate(2, 1), problem.left) == ([0.7, 1.0], 0)
    for run in asktell.simulate(
        scores, GOAL, budgets=(3,), seeds=2, jobs=1, **QUIET
    ).runs:
        assert run["answer"] == [2]


def test_segments_count() -> None:
    scores = np.array([[[0.5]] * 12, [[1.0], [0.2]] * 6])
    found = {}
    for within in (False, True):
        goal = asktell.BestFeasible(asktell.maximize("accuracy", worst_segment=within))
        runs = asktell.simulate(
            scores, goal, ("auto",), (12,), 1, jobs=1, segments=["a", "b"] * 6, **QUIET
        ).runs
        found[within] = runs[0]["answer"], runs[0]["quality"]
    assert found == {False: ([1], 1.0), True: ([0], 1.0)}


def test_a_rival_may_not_overspend() -> None:
    def greedy(problem: Replay, budget: int, seed: int) -> int:
        for example in range(budget + 1):
            problem.evaluate(0, example % problem.n_examples)
        return 0

    with pytest.raises(
        InvalidArgumentError, match="budget of 4 evaluations is spent"
    ) as caught:
        asktell.simulate(SCORES, GOAL, (greedy,), (1,), 1, **QUIET)
    assert caught.value.__notes__ == ["Method greedy, budget 1 per prompt, seed 0."]


@pytest.mark.parametrize("answer", [4, -1, "best", [0, 9]])
def test_a_rival_answers_rows(answer: object) -> None:
    with pytest.raises(
        InvalidArgumentError, match="must return the row of the selected prompt"
    ):
        asktell.simulate(SCORES, GOAL, {"odd": lambda *_: answer}, (1,), 1, **QUIET)


def test_examples_can_be_drawn_for_every_evaluation() -> None:
    """Shared examples tell everything in 6 evaluations; drawn ones repeat themselves, so the runs go on."""
    scores = np.array([[[0.2], [0.4]], [[0.3], [0.5]], [[0.1], [0.9]]])
    goal, spent = asktell.BestFeasible("accuracy"), {}
    for sampling in ("shared", "iid"):
        found = asktell.simulate(
            scores, goal, ("uniform",), (4,), 2, jobs=1, sampling=sampling, **QUIET
        )
        spent[sampling] = [run["evaluations"] for run in found.runs]
    assert spent == {"shared": [6, 6], "iid": [12, 12]}
    assert run_once("uniform", scores, goal, 12, 1, sampling="iid")[:2] == (
        found.runs[1]["answer"],
        12,
    )


def test_processes_give_the_same_and_rivals_come_along() -> None:
    methods = ("uniform", best_of_all, {"here": lambda *_: 1})
    apart = asktell.simulate(SCORES, GOAL, methods, (1, 2), 2, jobs=2, **QUIET)
    assert apart.methods == ("uniform", "best_of_all", "here")
    assert (
        apart.runs
        == asktell.simulate(SCORES, GOAL, methods, (1, 2), 2, jobs=1, **QUIET).runs
    )


def test_an_error_in_a_process_is_raised_here() -> None:
    with pytest.raises(InvalidArgumentError, match="is spent") as caught:
        asktell.simulate(SCORES, GOAL, (greedy,), (1, 2), 2, jobs=2, **QUIET)
    assert "rivals.py" in "".join(caught.value.__notes__)


def test_a_process_that_dies_is_an_error() -> None:
    with pytest.raises(asktell.AsktellError, match="A process of the simulation died"):
        asktell.simulate(SCORES, GOAL, (dies,), (1, 2), 2, jobs=2, **QUIET)


def test_what_is_in_the_file_is_not_run_again(tmp_path: Path) -> None:
    ran: list[tuple[int, int]] = []

    def rival(problem: Replay, budget: int, seed: int) -> int:
        ran.append((budget, seed))
        return 2

    path, seen = tmp_path / "new" / "runs.jsonl", []
    first = asktell.simulate(
        SCORES,
        GOAL,
        (rival,),
        (1,),
        2,
        lines=path,
        on_progress=lambda *at: seen.append(at),
    )
    assert seen == [(1, 2), (2, 2)]
    with path.open("a") as file:
        file.write('{"data": "cut sh')
    again = asktell.simulate(SCORES, GOAL, (rival,), (1, 2), 2, lines=path, **QUIET)
    assert ran == [(4, 0), (4, 1), (8, 0), (8, 1)]
    assert again.runs[:2] == first.runs
    asktell.simulate(
        SCORES,
        asktell.BestFeasible("accuracy", {"latency": asktell.at_most(9)}),
        (rival,),
        (1,),
        1,
        lines=path,
    )
    assert len(ran) == 5
    assert len(path.read_text().splitlines()) == 5


def test_holm_by_hand() -> None:
    np.testing.assert_allclose(
        holm(np.array([0.04, 0.01, 0.03, 0.9])), [0.09, 0.04, 0.09, 0.9]
    )


def test_the_summary_compares_with_the_first_method() -> None:
    # The qualities of "other" are 1, 1, 0, 0 by seed, those of "first" 0.
    rivals = {
        "first": lambda *_: 1,
        "other": lambda problem, budget, seed: 2 if seed < 2 else 1,
    }
    summary = asktell.simulate(SCORES, GOAL, rivals, (1, 2), 4, **QUIET).summary()
    first, other = summary.rows[:2]
    assert (
        first.method,
        first.quality,
        first.quality_error,
        first.difference,
        first.p,
    ) == ("first", 0, 0, None, None)
    # Student's t of 3 degrees, standard deviation, root of the seeds
    half = 3.1824463 * math.sqrt(1 / 3) / 2
    assert (other.quality, other.difference) == (0.5, 0.5)
    assert other.difference_error == pytest.approx(half)
    # T = sqrt(3) of 3 degrees, two comparisons
    assert other.p == pytest.approx(2 * 0.1816901)
    text = str(summary)
    assert "minus first" in text
    assert "+0.500 ± 0.919" in text
    assert "0.36" in text


def test_what_does_not_fit_is_left_out_and_said() -> None:
    goal = asktell.ParetoSet("accuracy", asktell.minimize("latency"))
    found = asktell.simulate(SCORES, goal, budgets=(1, 2), seeds=1, jobs=1, **QUIET)
    assert set(found.to_dataframe()["method"]) == {"auto", "uniform"}
    assert "csr-sh did not run at 1, 2: The method 'csr-sh' is for BestFeasible" in str(
        found.summary()
    )


def test_curves() -> None:
    pytest.importorskip("matplotlib")
    found = asktell.simulate(
        SCORES, GOAL, ("auto", "uniform"), (1, 2), 3, jobs=1, **QUIET
    )
    for what in ("quality", "regret"):
        ax = found.plot(what)
        assert [line.get_label() for line in ax.get_lines()] == ["auto", "uniform"]
        assert ax.get_lines()[0].get_xdata().tolist() == [1, 2]
        assert ax.get_ylabel() == what
    with pytest.raises(InvalidArgumentError, match="quality"):
        found.plot("qualty")


def test_a_long_title_stays_within_the_picture() -> None:
    pytest.importorskip("matplotlib")
    metrics = [f"a_metric_with_a_long_name_{k}" for k in range(6)]
    goal = asktell.BestFeasible(
        "accuracy", {name: asktell.at_most(1.0) for name in metrics}
    )
    ax = asktell.simulate(
        np.full((2, 2, 7), 0.5), goal, ("uniform",), (1,), 1, jobs=1, **QUIET
    ).plot()
    figure = ax.get_figure()
    figure.draw_without_rendering()
    box = ax.title.get_window_extent()
    assert 0 <= box.x0 <= box.x1 <= figure.bbox.width
    assert box.y1 <= figure.bbox.height
    assert ax.get_title().replace("\n", " ") == str(goal)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scores": SCORES[:, :, :1]}, r"\['accuracy', 'latency'\]. Got \(4, 3, 1\)"),
        ({"scores": SCORES * np.inf}, "infinite"),
        (
            {"scores": SCORES + 5},
            "no prompt satisfies the constraints.*violates the constraints by 4",
        ),
        ({"methods": ("uto",)}, "method must be one of"),
        ({"methods": ()}, "methods is empty"),
        ({"methods": (3,)}, "A method must be a name"),
        ({"methods": ("auto", "auto")}, "Two methods have the name 'auto'"),
        ({"budgets": (0,)}, "evaluations per prompt"),
        ({"budgets": 0}, "evaluations per prompt"),
        ({"seeds": 0}, "seeds"),
        ({"jobs": 0}, "jobs"),
        (
            {"segments": ["a"]},
            "number of segments is 1, but the number of examples is 3",
        ),
    ],
)
def test_arguments_are_checked(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        asktell.simulate(**{"scores": SCORES, "goal": GOAL, **QUIET, **changes})


# Of two prompts, each evaluated four times on three examples: means .5 and .625; a
# score's number is its value in 1/96.
REPEATED = np.arange(24.0).reshape(2, 3, 1, 4) / 24
ONE = asktell.BestFeasible("accuracy")


@pytest.mark.parametrize("repeats", [None, 1, 3, 4])
def test_each_evaluation_of_a_cell_takes_another_recorded_repeat(
    repeats: int | None,
) -> None:
    taken: dict[int, list[list[float]]] = {}

    def rival(problem: Replay, budget: int, seed: int) -> int:
        assert problem.repeats == (repeats or 4)
        taken[seed] = [problem.evaluate(1, 2) or [] for _ in range(problem.repeats)]
        with pytest.raises(
            InvalidArgumentError,
            match=rf"Prompt 1 was already evaluated {problem.repeats} times? on example 2",
        ):
            problem.evaluate(1, 2)
        problem.evaluate(0, 2)  # another cell is as it was
        assert problem.spent == problem.repeats + 1
        return 0

    asktell.simulate(
        REPEATED,
        ONE,
        (rival,),
        budgets=(3,),
        seeds=20,
        jobs=1,
        repeats=repeats,
        **QUIET,
    )
    for found in taken.values():
        assert len({value for (value,) in found}) == (repeats or 4)
        assert {value for (value,) in found} <= set(REPEATED[1, 2, 0])
    # The order is by chance, and another one for each seed
    assert len({found[0][0] for found in taken.values()}) == 4


def test_the_order_of_repeats_is_that_of_the_seed_and_of_the_cell() -> None:
    first, again, other = (
        by_chance(REPEATED, 5),
        by_chance(REPEATED, 5),
        by_chance(REPEATED, 6),
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    np.testing.assert_array_equal(np.sort(first, axis=3), REPEATED)
    orders = {
        tuple(order) for order in np.argsort(first, axis=3).reshape(6, 4).tolist()
    }
    assert len(orders) > 1
    assert by_chance(REPEATED[..., 0], 5) is not None
    np.testing.assert_array_equal(by_chance(REPEATED[..., 0], 5), REPEATED[..., 0])


@pytest.mark.parametrize(("repeats", "spent"), [(None, 24), (2, 12), (1, 6)])
@pytest.mark.parametrize("method", ["uniform", "auto", "race"])
def test_a_selection_asks_a_cell_at_most_as_often_as_it_may(
    method: str, repeats: int | None, spent: int
) -> None:
    found = asktell.simulate(
        REPEATED,
        ONE,
        (method,),
        budgets=(12,),
        seeds=3,
        jobs=1,
        repeats=repeats,
        **QUIET,
    )
    for run in found.runs:
        assert run["evaluations"] <= spent
        if method != "race":
            assert run["evaluations"] == spent
        assert run["answer"] == [1]


def test_the_truth_is_the_mean_over_repeats_and_examples() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random((3, 4, 2, 5))
    scores[1, 2, 0, 3] = scores[0, 0, 1, :2] = np.nan
    goal = asktell.BestFeasible("a", {"b": 0.1, "failure_rate": asktell.at_most(0.2)})
    _, means = means_of(scores, goal)
    for row, cells in zip(
        means, np.moveaxis(scores, 3, 2).reshape(3, 20, 2), strict=True
    ):
        known = cells[~np.isnan(cells).any(axis=1)]
        assert row.tolist() == pytest.approx([*known.mean(axis=0), 1 - len(known) / 20])
    in_segments = asktell.BestFeasible(asktell.maximize("a", worst_segment=True))
    _, by_segment = means_of(scores[:, :, :1], in_segments, ["x", "y", "x", "y"])
    assert by_segment[2, 1:].tolist() == pytest.approx(
        [scores[2, ::2, 0].mean(), scores[2, 1::2, 0].mean()]
    )


def test_recorded_repeats_that_failed_are_failures_one_by_one() -> None:
    scores = np.ones((1, 2, 1, 2))
    scores[0, :, 0, 0] = np.nan
    problem = Replay(scores, ONE, 4, seed=0)
    assert problem.evaluate(0, 1) is None
    assert problem.evaluate(0, 1) == [1.0]
    assert problem.spent == 1
    selector = asktell.Selector(
        ["a"], ONE, 4, "uniform", examples=2, repeats=2, max_failure_rate=1.0
    )
    result = play(selector, scores)
    assert (result.prompts[0].evaluations, result.prompts[0].failures) == (2, 2)


def test_repeats_are_checked() -> None:
    with pytest.raises(
        InvalidArgumentError,
        match=r"repeats=5, but every prompt was evaluated 4 times on each example",
    ):
        asktell.simulate(REPEATED, ONE, budgets=(1,), repeats=5, **QUIET)
    with pytest.raises(
        InvalidArgumentError,
        match=r"repeats=2, but every prompt was evaluated 1 time on each",
    ):
        asktell.simulate(REPEATED[..., 0], ONE, budgets=(1,), repeats=2, **QUIET)
    with pytest.raises(InvalidArgumentError, match="repeats"):
        asktell.simulate(REPEATED, ONE, budgets=(1,), repeats=0, **QUIET)
    with pytest.raises(
        InvalidArgumentError, match=r"or \(K, N, 1, R\) with R evaluations of each pair"
    ):
        asktell.simulate(REPEATED[:, :, [0, 0]], ONE, budgets=(1,), **QUIET)
