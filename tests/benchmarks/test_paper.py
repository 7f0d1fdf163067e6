"""The numbers and measures of the paper."""

from benchmarks import problems
from benchmarks.paper import published
from benchmarks.paper.published import REWARD, VOLUME, count


def test_the_papers_numbers_are_all_there() -> None:
    rows = published.rows()
    assert len(rows) == 4 * 2 * 3 * 3 / 2 * 2 == 72
    assert {row.where for row in rows} == {
        f"{data}, {model}"
        for data in ("XSum", "CNN/DailyMail")
        for model in ("Gemma-7B", "Llama3-8B")
    }
    assert all(len(row.values) == len(row.errors) == 4 for row in rows)
    (row,) = [
        r
        for r in rows
        if (r.where, r.metric, r.k, r.method)
        == ("XSum, Gemma-7B", REWARD, 100, "MLP-CSR")
    ]
    assert row.values == (0.139, 0.142, 0.145, 0.147)


def test_how_often_its_claims_hold_in_its_own_tables() -> None:
    """Counted by hand in its appendix: not "consistently"."""
    rows = published.rows()
    assert count(rows, VOLUME, "EGE", "Uniform").below == 5
    assert count(rows, VOLUME, "MLP-EGE", "Uniform").below == 4
    assert count(rows, REWARD, "CSR", "Uniform").below == 1
    assert count(rows, VOLUME, "MLP-EGE", "EGE")[:2] == (23, 1)
    assert count(rows, REWARD, "MLP-CSR", "CSR")[:2] == (25, 4)


def test_a_threshold_may_be_a_number() -> None:
    problem = problems.load("recorded/smollm2_aclsum", "best>=.6")
    assert problem.threshold == 0.6
    assert problem.truth.feasible.sum() == (problem.means[:, 1] >= 0.6).sum() == 11
