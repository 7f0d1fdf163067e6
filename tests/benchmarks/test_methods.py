import numpy as np
import pytest

import asktell
from asktell.errors import (
    BudgetTooSmallError,
    IncompatibleMethodError,
    InvalidArgumentError,
)
from asktell.numerics import counters
from benchmarks.selection import methods
from benchmarks.selection.metrics import evaluate
from tests.benchmarks.pools import exact, pool_of, problem

# Those that take seconds to compile are tested with the engine.
FAST = [
    name
    for name in methods.names()
    if not name.startswith(("mlp-", "auto", "lcsh", "gege"))
]


@pytest.fixture(autouse=True)
def _needs_optuna(request: pytest.FixtureRequest) -> None:
    if "optuna" in request.node.name:
        pytest.importorskip("optuna")


@pytest.mark.parametrize("goal", ["best@.5", "pareto"])
@pytest.mark.parametrize("method", FAST)
def test_a_method_keeps_to_its_budget_and_repeats_itself(
    method: str, goal: str
) -> None:
    for budget in (12, 60):
        try:
            outcome = methods.run(method, problem(goal), budget, seed=3)
        except (IncompatibleMethodError, BudgetTooSmallError):
            continue
        assert 0 < outcome.spent <= budget
        assert outcome.answer
        assert set(outcome.answer) <= set(range(12))
        assert methods.run(method, problem(goal), budget, seed=3) == outcome


@pytest.mark.parametrize("method", FAST)
def test_with_everything_evaluated_the_answer_is_right(method: str) -> None:
    means = ((0.1, 0.9), (0.5, 0.8), (0.7, 0.6), (0.9, 0.1), (0.2, 0.2))
    for goal in ("best@.5", "pareto"):
        try:
            outcome = methods.run(method, exact(goal, *means), 100, seed=0)
        except (IncompatibleMethodError, BudgetTooSmallError):
            continue
        assert evaluate(exact(goal, *means), outcome.answer)["quality"] == 1.0


def test_every_preset_of_the_engine_is_in_the_table() -> None:
    assert set(asktell.METHODS) <= set(methods.names())
    assert {"csr-published", "ege-sr-published"} <= set(methods.names())
    assert set(methods.REFERENCE.values()) <= set(methods.names())


def test_an_unknown_method_is_an_error() -> None:
    for name in ("nonsense", "auto-published"):
        with pytest.raises(KeyError, match=name):
            methods.run(name, problem("pareto"), 50, 0)


def test_rivals_get_the_cells_that_our_methods_get() -> None:
    scores = problem("pareto").scores
    pool = pool_of(scores, 100, seed=5)
    goal = asktell.ParetoSet("quality", "brevity")
    selector = asktell.Selector(
        problem("pareto").table.prompts, goal, 100, "uniform", examples=30, seed=5
    )
    ours = [trial.example for trial in selector.ask(100) if trial.prompt_id == 0]
    arm = counters.chance_order(5, range(12)).tolist().index(0)
    for example in ours:
        np.testing.assert_array_equal(pool.pull(arm), scores[0, example])
    assert pool.best(goal) == [0]


@pytest.mark.parametrize("method", methods.RIVALS)
def test_a_rival_takes_one_of_equals_by_chance(method: str) -> None:
    goal = (
        "best@.5" if asktell.BestFeasible in methods.RIVALS[method].goals else "pareto"
    )
    problem = exact(goal, *[(0.5, 0.5)] * 4, features=np.eye(4))
    answers = [methods.run(method, problem, 4, seed).answer for seed in range(40)]
    chosen = np.bincount([answer[0] for answer in answers], minlength=4)
    assert chosen.min() >= 2  # of 10 on average, with a standard deviation of 2.7


def test_a_pool_refuses_to_overspend_and_begins_again_after_the_last_example() -> None:
    pool = pool_of(problem("pareto").scores, 31, seed=0)
    rows = [pool.pull(4) for _ in range(31)]
    np.testing.assert_array_equal(rows[30], rows[0])
    prompt = counters.chance_order(0, range(12))[4]
    np.testing.assert_allclose(
        np.mean(rows[:30], axis=0), problem("pareto").means[prompt]
    )
    with pytest.raises(InvalidArgumentError, match="budget of 31 evaluations is spent"):
        pool.pull(4)


def test_rivals_run_in_a_simulation() -> None:
    pool = problem("best@.5")
    names = ("ucb-e", "capo-race", "ape")
    rivals = {name: methods.RIVALS[name] for name in names}
    found = asktell.simulate(
        pool.scores, pool.goal, rivals, (3,), 2, jobs=1, on_progress=lambda *_: None
    )
    assert [run["answer"] for run in found.runs[:4]] == [
        methods.run(name, pool, 36, seed).answer
        for name in names[:2]
        for seed in (0, 1)
    ]
    assert "ape did not run at 3: This method is not for this goal" in str(
        found.summary()
    )
