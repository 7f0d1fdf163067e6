"""What `asktell status` and `asktell result` print of a result."""

import re

import pytest

from asktell import BestFeasible, ParetoSet, Selector, minimize
from asktell_adapters.cli.output import overview, show


def test_a_front_under_constraints_comes_before_the_feasible_and_these_before_the_infeasible() -> (
    None
):
    goal = ParetoSet("a", minimize("b"), subject_to={minimize("c"): 0.5})
    selector = Selector(
        ["far off", "near", "beaten", "cheap", "good", "unknown"],
        goal,
        30,
        "uniform",
        examples=9,
    )
    rows = [[9, 0, 0.9], [9, 0, 0.6], [0.1, 2, 0], [0.5, 1, 0.3], [0.9, 1.5, 0.2]]
    for prompt, row in enumerate(rows):
        for example in range(3):
            selector.observe(prompt, row, example=example)
    lines = selector.result().table().split("\n")
    ids = [line.replace("*", " ").replace("?", " ").split()[0] for line in lines[2:8]]
    # The one that was not evaluated has the estimates of an average prompt, which
    # misses the bound by less.
    assert ids == ["4", "3", "2", "5", "1", "0"]
    assert [line.startswith("*") for line in lines[2:8]] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]
    assert [line.startswith("?") for line in lines[2:8]] == [
        False,
        False,
        False,
        True,
        False,
        False,
    ]
    assert ["infeasible" in line for line in lines[2:8]] == [
        False,
        False,
        False,
        True,
        True,
        True,
    ]
    assert re.search(r" 2 ± 0\.0\d+ ", lines[4])
    assert "subject to c <= 0.5" in lines[0]
    assert any("c 0.2" in line for line in overview(selector.result(), "here", 6))


def test_no_line_is_a_command_to_the_runner_of_a_build(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Prompts, remarks and reasons have several lines, and a runner reads the log line by line."""
    show(
        "A remark.\n::warning::taken over\n  ::add-mask::a\r\n##[error]no\n##vso[task.setvariable]x"
    )
    assert capsys.readouterr().out.splitlines() == [
        "A remark.",
        "\\x3a:warning::taken over",
        "  \\x3a:add-mask::a\\r",
        "\\x23#[error]no",
        "\\x23#vso[task.setvariable]x",
    ]
    usual = ["# A heading", "## Another", "a::b", ": a colon", "", "[x]"]
    show("\n".join(usual))
    assert capsys.readouterr().out.splitlines() == usual


def test_a_remark_is_one_line_wherever_it_is_shown() -> None:
    selector = Selector(["x", "y"], BestFeasible("a"), 4, examples=9)
    selector.remark("Judged by a model.\n::warning::taken over", topic="judge")
    assert "Judged by a model. ::warning::taken over" in selector.result().notes
    assert all("\n" not in note for note in selector.result().notes)
