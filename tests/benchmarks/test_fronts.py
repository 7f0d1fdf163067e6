import numpy as np
import pytest

from asktell.errors import IncompatibleMethodError
from asktell.problem.goals import ParetoSet
from benchmarks import problems
from benchmarks.selection import fronts, methods
from tests.benchmarks.pools import problem


@pytest.mark.parametrize("goal", problems.FRONTS)
@pytest.mark.parametrize("method", [*fronts.METHODS, "race", "in-full", "capo-race"])
def test_with_every_score_every_method_finds_the_front(goal: str, method: str) -> None:
    one = problem(goal)
    assert isinstance(one.goal, ParetoSet)
    outcome = methods.run(method, one, 12 * 30, 0)
    assert outcome.spent <= 12 * 30
    found, front = set(outcome.answer), set(np.flatnonzero(one.truth.front).tolist())
    if method == "auto" and goal == "front@floor.5":
        # Of new inputs, the front may be another: prompt 1 dominates prompt 0 by .04
        # and .03, less than a standard error.
        assert front <= found <= front | {0}
    elif method in ("uniform", "auto", "auto+conclude", "in-full", "race"):
        assert found == front
    elif method == "auto+filter" and "floor" in goal:
        # A bound along an objective: what dominates a feasible prompt is feasible
        assert found == front
    else:
        assert len(found) < 12


def test_who_does_not_mind_constraints_or_has_no_front_to_filter_is_refused() -> None:
    for method, goal in (
        ("ape", problems.FRONTS[0]),
        ("auto+filter", "pareto"),
        ("auto+conclude", "best@.5"),
    ):
        with pytest.raises(IncompatibleMethodError, match=r"is not for|is for fronts"):
            methods.run(method, problem(goal), 60, 0)
