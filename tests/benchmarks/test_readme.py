"""README says what the benchmark page says."""

import pytest

from benchmarks.docs import readme
from benchmarks.docs.page import TABLES, replace

HEADLINE = """\
At 3 evaluations per prompt; 4 seeds.

| method | goal | tables | quality | published, same budget | equivalent budget |
| --- | --- | --- | --- | --- | --- |
| `auto` | Pareto set | one | 0.7 | 0.5 | 9.00 [8.00, 10.00] |
| `auto` | Pareto set | all 2 | 0.7 | 0.5 | 5.04 [3.21, 9.30] |
| `csr-sh` | best feasible | all 2 | 0.5 | 0.3 | 1.00 [1.00, 1.00] |
| `auto` | best feasible | all 2 | 0.5 | 0.3 | > 13.33 [2.10, 13.33] |
"""


def test_its_numbers_are_those_of_the_page() -> None:
    text = readme.README.read_text()
    assert replace(text, readme.parts(TABLES.read_text())) == text, "Run: python -m benchmarks.docs.readme"


def test_equivalent_budgets_are_times_the_budget() -> None:
    said = readme._few_evaluations(HEADLINE)
    assert "3 evaluations per prompt are worth about 15 (9.6 to 28) of the published" in said
    assert "and more than 40 (6.3 to 40) for the best feasible prompt (2 recorded tables of real LLMs, 4 seeds" in said


def test_the_tables_that_nobody_tuned_to_count_if_there_are_any() -> None:
    report = "| `auto` | Pareto set | report half (3) | 0.7 | 0.5 | 2.00 [1.00, 3.00] |\n"
    said = readme._few_evaluations(report.join(HEADLINE.partition("| `csr-sh`")[::2]))
    assert "are worth about 6 (3 to 9) of the published" in said
    assert "(3 recorded tables of real LLMs that it was not developed on, 4 seeds" in said


def test_a_page_without_the_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match="no part 'headline'"):
        readme.parts("nothing")
