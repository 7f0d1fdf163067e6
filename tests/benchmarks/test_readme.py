"""Numbers travel from benchmarks to CSV files, and from these into README and charts."""

import io
import sys
from pathlib import Path

import pytest

from benchmarks.docs import charts, readme
from benchmarks.results import __main__ as keep
from benchmarks.results import load, table


def row(tables: str, ratio: str, goal: str = "Pareto set") -> dict[str, str]:
    numbers = {"equivalent budget": ratio, "low": "3.21", "high": "9.30", "b": "3", "seeds": "4"}
    return {"method": "auto", "goal": goal, "tables": tables, **numbers}


def test_equivalent_budgets_are_times_the_budget() -> None:
    said = readme._few_evaluations([row("one", "9.00"), row("all 2", "5.04"), row("all 2", "> 13.33", "best feasible")])
    assert "after about 15 (9.6 to 28) for the Pareto set and more than 40 (9.6 to 28) for the best prompt" in said
    assert "(2 recorded tables of real LLMs, 4 seeds" in said


def test_the_tables_that_nobody_tuned_to_count_if_there_are_any() -> None:
    rows = [row(which, ratio, goal) for which, ratio in (("all 2", "5"), ("report half (3)", "2"))
            for goal in ("Pareto set", "best feasible")]  # fmt: skip
    said = readme._few_evaluations(rows)
    assert "after about 6 (9.6 to 28) for the Pareto set" in said
    assert "(3 recorded tables of real LLMs that it was not developed on, 4 seeds" in said


def test_readme_is_renewed_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text("a\n<!-- begin numbers -->\nold\n<!-- end numbers -->\nb\n")
    readme.main(page)
    assert page.read_text().startswith("a\n<!-- begin numbers -->\n- **Few evaluations**")
    assert page.read_text().endswith("<!-- end numbers -->\nb\n")
    with pytest.raises(ValueError, match="README has no lines"):
        readme.renewed("nothing", "x")


def test_what_a_benchmark_prints_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "note\n\n" + table(["a", "b"], [["`x`", "1,000"]]) + "\n\nmore\n\n" + table(["c"], [["2"]]) + "\n"
    for names in (["one"], ["one", "two"]):
        monkeypatch.setattr(sys, "argv", ["results", *names, "--folder", str(tmp_path)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        if len(names) == 1:
            with pytest.raises(SystemExit):
                keep.main()
            assert not list(tmp_path.iterdir())
        else:
            keep.main()
    assert load("one", tmp_path) == [{"a": "x", "b": "1,000"}]
    assert load("two", tmp_path) == [{"c": "2"}]


def test_the_charts_are_drawn(tmp_path: Path) -> None:
    charts.main(tmp_path)
    assert len(list(tmp_path.iterdir())) == len(charts.CHARTS)
