"""What `asktell status` and `asktell result` print of a result."""

from asktell import ParetoSet, Selector, minimize
from asktell_adapters.cli.output import overview


def test_a_front_under_constraints_comes_before_the_feasible_and_these_before_the_infeasible() -> None:
    goal = ParetoSet("a", minimize("b"), subject_to={minimize("c"): 0.5})
    selector = Selector(["far off", "near", "beaten", "cheap", "good", "unknown"], goal, 30, "uniform", examples=9)
    rows = [[9, 0, 0.9], [9, 0, 0.6], [0.1, 2, 0], [0.5, 1, 0.5], [0.9, 1.5, 0.2]]
    for prompt, row in enumerate(rows):
        for example in range(3):
            selector.observe(prompt, row, example=example)
    lines = selector.result().table().split("\n")
    ids = [line.replace("*", " ").replace("?", " ").split()[0] for line in lines[2:8]]
    assert ids == ["4", "3", "2", "1", "0", "5"]
    assert [line.startswith("*") for line in lines[2:8]] == [True, True, False, False, False, False]
    assert ["infeasible" in line for line in lines[2:8]] == [False, False, False, True, True, False]
    assert "subject to c <= 0.5" in lines[0]
    assert any("c 0.2" in line for line in overview(selector.result(), "here", 6))
