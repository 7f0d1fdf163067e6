"""A goal in words is the goal that Python's names make, and what does not go together is refused by its keys."""

from typing import Any

import pytest

from asktell.errors import InvalidArgumentError
from asktell.problem.goal_text import parse_goal
from asktell.problem.goals import BestFeasible, Goal, ParetoSet
from asktell.problem.objectives import Objective, at_least, at_most, minimize


@pytest.mark.parametrize(
    ("words", "goal"),
    [
        ({"kind": "best-feasible", "maximize": "a"}, BestFeasible("a")),
        ({"kind": "best-feasible", "minimize": ["a"]}, BestFeasible(minimize("a"))),
        (
            {
                "kind": "best-feasible",
                "maximize": ["a"],
                "at_least": {"b": 0.5},
                "at_most": {"c": 2},
                "ranges": {"c": [0, 10]},
            },
            BestFeasible(
                "a", {"b": at_least(0.5), Objective("c", True, (0, 10)): at_most(2)}
            ),
        ),
        (
            {"kind": "pareto-set", "maximize": "a", "minimize": ["b", "c"]},
            ParetoSet("a", minimize("b"), minimize("c")),
        ),
        (
            {
                "kind": "pareto-set",
                "maximize": "a",
                "minimize": "b",
                "at_least": {"c": 1},
                "at_most": {"b": 2},
            },
            ParetoSet(
                "a", minimize("b"), subject_to={"c": at_least(1), "b": at_most(2)}
            ),
        ),
        (
            {
                "kind": "pareto-set",
                "maximize": "a",
                "at_most": {"b": 2},
                "ranges": {"b": [0, 4]},
            },
            ParetoSet("a", subject_to={minimize("b", range=(0, 4)): 2}),
        ),
    ],
)
def test_words_are_the_goal_that_they_say(words: dict[str, Any], goal: Goal) -> None:
    assert parse_goal(**words) == goal


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"kind": "best"}, "type must be 'best-feasible' or 'pareto-set'"),
        (
            {"kind": "best-feasible"},
            "exactly one metric in maximize or minimize, got none",
        ),
        ({"kind": "best-feasible", "maximize": "a", "minimize": "b"}, "got 'a', 'b'"),
        (
            {
                "kind": "best-feasible",
                "maximize": "a",
                "at_least": {"b": 1},
                "at_most": {"b": 2},
            },
            "both bound 'b'",
        ),
        ({"kind": "pareto-set"}, "needs metrics"),
        (
            {"kind": "best-feasible", "maximize": "rouge", "ranges": {"rogue": [0, 1]}},
            "'rogue', .* mean 'rouge'",
        ),
        (
            {
                "kind": "pareto-set",
                "maximize": "a",
                "at_least": {"b": 1},
                "at_most": {"b": 2},
            },
            "both bound 'b'",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(
    words: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        parse_goal(**words)
