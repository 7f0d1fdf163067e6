"""The benchmark of a study that learns from an earlier one."""

import numpy as np
import pytest

from benchmarks.selection.second_study import halves, other_tables, run, summary

NAME = "recorded/smollm2_aclsum_short@24"


def test_halves_share_no_prompt() -> None:
    earlier, later = halves(NAME, 3, None)
    assert len(earlier.prompts) == len(later.prompts) == 12
    assert not set(earlier.prompts) & set(later.prompts)
    assert halves(NAME, 4, None)[0].prompts != earlier.prompts


@pytest.mark.parametrize("history", ["none", "5", "shuffled", "auto5"])
def test_every_history_leads_to_an_answer_that_is_judged_in_the_later_half(history: str) -> None:
    line = run(NAME, "best@.5", 2, history, 0, None)
    assert line is not None
    assert 0 <= line["quality"] <= 1
    assert line["k"] == 12
    again = run(NAME, "best@.5", 2, history, 0, None)
    assert again is not None
    assert again["quality"] == line["quality"]


def test_other_tables_are_of_the_same_task() -> None:
    assert other_tables(NAME, None) == []
    assert run(NAME, "pareto", 2, "other", 0, None) is None


def test_the_summary_compares_by_table() -> None:
    lines = [
        {"problem": p, "goal": "pareto", "per_prompt": 3.0, "history": h, "split": 0, "quality": q}
        for p, h, q in (("x", "none", 0.2), ("x", "20", 0.5), ("y", "none", 0.4), ("y", "20", 0.5))
    ]
    rows = summary(lines).splitlines()
    gains = np.array([0.3, 0.1])
    error = gains.std(ddof=1) / np.sqrt(2)
    assert rows[2] == "| pareto | 3 | none | 2 | 0.300 |  |"
    assert rows[3] == f"| pareto | 3 | 20 | 2 | 0.500 | +0.200 ({error:.3f}) |"
