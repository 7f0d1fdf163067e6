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


def test_of_many_metrics_the_tables_are_no_wider_than_a_terminal() -> None:
    metrics = [f"metric number {i}" for i in range(9)]
    selector = Selector({f"id {i}": f"text {i} " * 30 for i in range(3)}, ParetoSet(*metrics), 30, examples=9)
    for prompt in ("id 0", "id 1", "id 2"):
        selector.observe(prompt, [0.123456] * 9, example=0)
    result = selector.result()
    lines = result.table(100).split("\n")
    assert max(map(len, lines)) <= 100
    assert max(map(len, str(result).split("\n"))) <= 110
    assert max(map(len, overview(result, "here", 3))) <= 110
    for text in ("\n".join(lines), str(result)):
        heads = [line for line in text.split("\n") if line.split()[:1] == ["id"] and "number" in line]
        assert len(heads) > 1
        assert [name for name in metrics if " ".join(heads).count(name) != 1] == []
        assert len([line for line in text.split("\n") if "  text 0 text 0" in line]) == 1
