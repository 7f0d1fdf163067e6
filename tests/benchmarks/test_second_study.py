"""The benchmark of a study that learns from an earlier one."""

import numpy as np
import pytest

from benchmarks.selection.second_study import GRID, halves, other_tables, qualities, run, summary

NAME = "recorded/smollm2_aclsum_short@24"


def test_halves_share_no_prompt() -> None:
    earlier, later = halves(NAME, 3, None)
    assert len(earlier.prompts) == len(later.prompts) == 12
    assert not set(earlier.prompts) & set(later.prompts)
    assert halves(NAME, 4, None)[0].prompts != earlier.prompts


@pytest.mark.parametrize("history", ["none", "5", "shuffled", "auto5"])
@pytest.mark.parametrize("goal", ["best", "best@.5"])
def test_every_history_leads_to_an_answer_that_is_judged_in_the_later_half(history: str, goal: str) -> None:
    line = run(NAME, goal, 2, history, 0, None)
    assert line is not None
    assert 0 <= line["quality"] <= 1
    assert line["k"] == 12
    again = run(NAME, goal, 2, history, 0, None)
    assert again is not None
    assert again["quality"] == line["quality"]


def test_other_tables_are_of_the_same_task() -> None:
    assert other_tables(NAME, None) == []
    assert run(NAME, "pareto", 2, "other", 0, None) is None


def test_the_summary_compares_by_table_and_says_what_a_history_is_worth() -> None:
    def lines(problem: str, history: str, b: float, quality: float) -> dict[str, object]:
        return {
            "problem": problem,
            "goal": "pareto",
            "per_prompt": b,
            "history": history,
            "split": 0,
            "quality": quality,
        }

    plain = [lines(problem, "none", b, 0.1 * GRID.index(b)) for problem in "xy" for b in GRID]
    found = summary([*plain, lines("x", "20", 3, 0.2), lines("y", "20", 3, 0.4)]).splitlines()
    gains = np.array([0.1, 0.3])
    error = gains.std(ddof=1) / np.sqrt(2)
    assert found[2].startswith("| Pareto set | 3 | none | 2 | 0.100 |")
    # Together .3, which without a profile takes the fourth budget of the grid.
    assert found[3].startswith(f"| Pareto set | 3 | 20 | 2 | 0.300 | +0.200 ({error:.3f}) | {GRID[3] / 3:.2f} [")


def test_a_split_that_lacks_a_run_is_left_out() -> None:
    quality = {("x", "pareto", float(b), "none", split): 0.5 for b in GRID for split in (0, 1)}
    quality |= {("x", "pareto", 3.0, "20", 0): 0.7}
    ours, plain = qualities(quality, "Pareto set", 3.0, "20")
    assert ours.tolist() == [[0.7]]
    assert plain.shape == (1, len(GRID), 1)
