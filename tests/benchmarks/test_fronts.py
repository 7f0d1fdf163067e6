from collections.abc import Callable

import numpy as np
import pytest

from asktell.problem.goals import ParetoSet
from benchmarks import problems
from benchmarks.problems import BenchmarkProblem
from benchmarks.selection import fronts, methods
from benchmarks.selection.run import SUITES, run_tasks, tasks

Named = Callable[[str], BenchmarkProblem]


@pytest.mark.parametrize("goal", problems.FRONTS)
@pytest.mark.parametrize("method", [*fronts.METHODS, "race", "in-full", "capo-race", "blup-ege"])
def test_with_every_score_every_method_finds_the_front(problem: Named, goal: str, method: str) -> None:
    one = problem(goal)
    assert isinstance(one.goal, ParetoSet)
    outcome = methods.run(method, one, 12 * 30, 0)
    assert outcome.spent <= 12 * 30
    found, front = set(outcome.answer), set(np.flatnonzero(one.front).tolist())
    if method in ("uniform", "auto", "auto+conclude", "in-full", "race"):
        assert found == front
    elif method == "auto+filter" and "floor" in goal:
        assert found == front  # a bound along an objective: what dominates a feasible prompt is feasible
    else:
        assert len(found) < 12


def test_who_does_not_mind_constraints_or_has_no_front_to_filter_is_refused(problem: Named) -> None:
    for method, goal in (("ape", problems.FRONTS[0]), ("auto+filter", "pareto"), ("auto+conclude", "best@.5")):
        with pytest.raises(methods.NotApplicableError, match=r"is not for|is for fronts"):
            methods.run(method, problem(goal), 60, 0)


def test_the_table_has_a_row_per_method_and_budget(tmp_path: object, problem: Named) -> None:
    suite = SUITES["fronts"]._replace(per_prompt=(2, 3), seeds=2)
    names = ["synthetic/linear-small@8", "synthetic/linear-strong@8"]
    lines = run_tasks(tasks(suite, names, ["auto", "uniform"]), tmp_path / "lines.jsonl", None, 1)  # type: ignore[operator]
    text = fronts.summary(lines, problems.FRONTS[0])
    assert len(text.splitlines()) == 2 + 4
    mean = np.mean(
        [x["quality"] for x in lines if (x["goal"], x["method"], x["per_prompt"]) == (problems.FRONTS[0], "auto", 2)]
    )
    assert f"| 2 | `auto` | {mean:.3f} ± " in text
