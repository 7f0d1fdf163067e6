from pathlib import Path

import numpy as np
import pytest

from benchmarks import problems
from benchmarks.results import tables
from benchmarks.selection import report
from benchmarks.selection.plots import draw_all
from benchmarks.selection.run import Suite, run_tasks, tasks


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[report.Line]:
    suite = Suite(problems.GOALS, (2, 3), 4, (2, 3), 1)
    wanted = tasks(suite, ["synthetic/linear-small@8"], ["uniform", "csr", "csr-published", "ege-sr", "ucb-e", "ape"])
    path = tmp_path_factory.mktemp("lines") / "lines.jsonl"
    run_tasks(wanted, path, None, jobs=1)
    small = report.load([path])
    return [{**line, "problem": line["problem"].removesuffix("@8"), "k": 100} for line in small] + small


def cells(text: str) -> list[list[str]]:
    return tables(text)[0][1:]


def test_means_are_over_seeds_of_means_over_tables() -> None:
    lines = [{"seed": s, "quality": q} for s, q in ((0, 0.0), (0, 1.0), (1, 0.5), (1, 0.7))]
    mean = report.mean(lines, "quality")
    assert mean.value == pytest.approx(0.55)
    assert mean.error == pytest.approx(12.706 * np.std([0.5, 0.6], ddof=1) / np.sqrt(2), rel=1e-4)


@pytest.mark.parametrize(
    ("values", "column", "shown"),
    [
        ([0.2, 0.3, 0.2, 0.3], "quality", ("0.250", "0.092")),
        ([0.2, 0.3, 0.2], "quality", ("", "")),  # few seeds
        ([0.0, 1.0, 0.0, 1.0], "quality", ("", "")),  # 0.500 +- 0.919: wider than 0 to 1
        ([3.0, 9.0, 3.0, 9.0], "size", ("6.000", "5.512")),
    ],
)
def test_what_says_nothing_is_no_result(values: list[float], column: str, shown: tuple[str, str]) -> None:
    lines = [{"seed": seed, column: value} for seed, value in enumerate(values)]
    assert report.mean(lines, column).cells == shown


def test_the_best_rival_is_one_with_a_result() -> None:
    told, lucky = report.Mean(0.4, 0.1, True), report.Mean(0.9, 1.2, False)
    assert max(told, lucky, key=lambda mean: mean.rank) is told


def test_every_method_that_ran_is_in_the_tables(lines: list[report.Line], tmp_path: Path) -> None:
    made = report.tables(lines)
    assert {row[2] for row in cells(made["quality-best"])} == {"uniform", "csr", "csr-published", "ucb-e"}
    assert {row[2] for row in cells(made["quality-pareto"])} == {"uniform", "ege-sr", "ape"}
    assert {row[1] for row in cells(made["thresholds"])} == {"25%", "50%", "75%"}
    assert {row[1] for row in cells(made["quality-by-table"])} == {"synthetic/linear-small"}
    assert {(row[0], row[4]) for row in cells(made["pool-sizes"])} == {
        (g, k) for g in ("best@.5", "pareto") for k in ("8", "100")
    }
    assert len(draw_all(lines, tmp_path)) == 3


def test_auto_stands_beside_the_best_of_all_others(lines: list[report.Line]) -> None:
    with_auto = [*lines, *({**line, "method": "auto", "quality": 0.9} for line in lines if line["method"] == "csr")]
    row = cells(report.against_the_best(with_auto, report.MIDDLE))[0]
    mine = report.grouped((x for x in lines if (x["goal"], x["per_prompt"]) == (report.MIDDLE, 2)), "method")
    told = {method: mean for (method,), found in mine.items() if (mean := report.mean(found)).told}
    assert row[:3] == ["synthetic", "2", "0.900 ± 0.000"]
    assert row[-1] == max(told, key=lambda m: told[m].rank)


def test_only_what_ran_alike_is_ranked() -> None:
    def line(goal: str, b: float, method: str) -> report.Line:
        return {"goal": goal, "per_prompt": b, "method": method}

    alike = [line("best@.5", 3, method) for method in ("auto", "csr", "uniform")]
    others = [line("best@.25", 3, "auto"), line("best@.5", 40, "csr-published"), line("pareto", 40, "ege-sr")]
    assert report.rankable(alike + others, "best@.5") == alike


def test_the_likeliest_loss_is_named() -> None:
    def line(method: str, seed: int, quality: float) -> report.Line:
        place = {"problem": "capo/x", "goal": "best@.5", "per_prompt": 3}
        return {**place, "method": method, "seed": seed, "quality": quality}

    lines = [line("blup-csr", seed, 0.3 + 0.01 * seed) for seed in range(8)]
    lines += [line("csr-sh", seed, 0.5) for seed in range(8)]
    lines += [line("lcsh", seed, 0.1) for seed in range(8)]
    assert [row[1:7] for row in cells(report.never_worse(lines))] == [
        ["csr-sh", "1", "-0.165", "1", "capo/x, best@.5, b = 3", "-0.165"],
        ["lcsh", "1", "+0.235", "0", "capo/x, best@.5, b = 3", "+0.235"],
    ]
