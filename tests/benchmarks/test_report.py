from pathlib import Path

import numpy as np
import pytest

from benchmarks import problems
from benchmarks.docs.page import replace, update
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


def test_means_are_over_seeds_of_means_over_tables() -> None:
    lines = [{"seed": s, "quality": q} for s, q in ((0, 0.0), (0, 1.0), (1, 0.5), (1, 0.7))]
    mean = report.mean(lines, "quality")
    assert mean.value == pytest.approx(0.55)
    assert mean.error == pytest.approx(12.706 * np.std([0.5, 0.6], ddof=1) / np.sqrt(2), rel=1e-4)


@pytest.mark.parametrize(
    ("values", "column", "shown"),
    [
        ([0.2, 0.3, 0.2, 0.3], "quality", "0.250 ± 0.092"),
        ([0.2, 0.3, 0.2], "quality", "–"),  # few seeds
        ([0.2], "quality", "–"),
        ([0.0, 1.0, 0.0, 1.0], "quality", "–"),  # 0.500 ± 0.919: wider than 0 to 1
        ([3.0, 9.0, 3.0, 9.0], "size", "6.000 ± 5.512"),
    ],
)
def test_what_says_nothing_is_not_shown_as_a_result(values: list[float], column: str, shown: str) -> None:
    lines = [{"seed": seed, column: value} for seed, value in enumerate(values)]
    assert str(report.mean(lines, column)) == shown


def test_the_best_rival_is_one_with_a_result() -> None:
    told, lucky = report.Mean(0.4, 0.1, True), report.Mean(0.9, 1.2, False)
    assert max(told, lucky, key=lambda mean: mean.rank) is told


def test_every_method_that_ran_is_in_the_table(lines: list[report.Line]) -> None:
    parts = report.parts(lines)
    assert all(f"`{name}`" in parts["best"] for name in ("uniform", "csr", "csr-published", "ucb-e"))
    assert all(f"`{name}`" in parts["pareto"] for name in ("uniform", "ege-sr", "ape"))
    assert "`ape`" not in parts["best"]
    assert "feasible: 75%" in parts["thresholds"]
    assert "`ucb-e`" in parts["per-table-best"]
    assert len({line.count("|") for line in parts["best"].splitlines() if line.startswith("|")}) == 1


def test_sizes_of_pools_are_apart(lines: list[report.Line]) -> None:
    parts = report.parts(lines)
    header, _, *rows = parts["pool-sizes-best"].splitlines()
    assert header == "| problems | b | method | K = 8 | K = 100 |"
    names = ["`uniform`", "`csr`", "`csr-published`", "`ucb-e`"]
    assert [row.split(" | ")[1:3] for row in rows] == [[b, name] for b in "23" for name in names]
    assert all(row.count("±") + row.count("–") == 2 for row in rows)
    assert "@8" not in parts["best"] + parts["per-table-best"]


def test_a_thousand_prompts_have_a_table_of_their_own() -> None:
    def line(problem: str, method: str, seed: int, quality: float, k: int) -> report.Line:
        return {
            "problem": problem,
            "goal": "best@.5",
            "method": method,
            "per_prompt": 3,
            "seed": seed,
            "quality": quality,
            "k": k,
            "seconds": 2.0 + seed,
        }

    lines = [line("synthetic/x@1000", "auto", seed, 0.4 + 0.2 * (seed % 2), 1000) for seed in range(4)]
    lines += [line("synthetic/preference@10000", "csr", 0, 0.3, 10_000)]
    lines += [line("synthetic/x@1000", "csr", seed, 0.9, 1000) for seed in range(4)]
    assert report.many_prompts(lines, "best@.5").splitlines()[2:] == [
        "| 1,000 | synthetic | 3 | `csr` | 0.900 ± 0.000 | 3.5 | 4 on 1 |",
        "| 1,000 | synthetic | 3 | `auto` | 0.500 ± 0.184 | 3.5 | 4 on 1 |",
        "| 10,000 | AlpacaEval, grown | 3 | `csr` | 0.300 | 2 | 1 on 1 |",
    ]
    assert "1000" not in report.pool_sizes(lines, "best@.5")


def test_the_page_for_people_shows_the_half_that_nothing_was_developed_on() -> None:
    lines = [
        {"problem": problem, "goal": "pareto", "method": method, "per_prompt": 3, "seed": seed, "quality": quality}
        for problem, quality in (("capo/agnews_llama_seed42", 0.2), ("capo/agnews_mistral_seed42", 0.6))
        for method in ("auto", "uniform", "csr", "auto+features")
        for seed in range(4)
    ]
    rows = report.against_the_best(report.fair(lines), "pareto").splitlines()[2:]
    assert [row.split(" | ")[0:3] for row in rows] == [["| recorded tables, report half", "3", "0.600 ± 0.000"]]
    assert rows[0].endswith("`uniform` |")  # not our own with features
    assert len(report.against_the_best(lines, "pareto").splitlines()) == 4
    assert report.fair(lines[:16]) == lines[:16]


def test_only_what_ran_alike_is_ranked() -> None:
    def line(goal: str, b: float, method: str) -> report.Line:
        return {"goal": goal, "per_prompt": b, "method": method}

    alike = [line("best@.5", 3, method) for method in ("auto", "csr", "uniform")]
    others = [line("best@.25", 3, "auto"), line("best@.5", 40, "csr-published"), line("pareto", 40, "ege-sr")]
    assert report.rankable(alike + others) == alike


def test_the_likeliest_loss_is_named() -> None:
    def line(method: str, seed: int, quality: float) -> report.Line:
        place = {"problem": "capo/x", "goal": "best@.5", "per_prompt": 3}
        return {**place, "method": method, "seed": seed, "quality": quality}

    lines = [line("blup-csr", seed, 0.3 + 0.01 * seed) for seed in range(8)]
    lines += [line("csr-sh", seed, 0.5) for seed in range(8)]
    lines += [line("lcsh", seed, 0.1) for seed in range(8)]
    rows = report.never_worse(lines).splitlines()[2:]
    assert [row.split(" | ")[1:5] for row in rows] == [
        ["`csr-sh`", "1", "-0.165", "1"],
        ["`lcsh`", "1", "+0.235", "0"],
    ]
    assert "capo/x, best@.5, b = 3: -0.165" in rows[0]


def test_only_the_generated_parts_of_the_page_change(lines: list[report.Line]) -> None:
    page = "prose\n<!-- begin runs -->\nold\n<!-- end runs -->\nmore prose\n"
    once = replace(page, report.parts(lines))
    assert once.startswith("prose\n<!-- begin runs -->\n")
    assert once.endswith("<!-- end runs -->\nmore prose\n")
    assert "old" not in once
    assert replace(once, report.parts(lines)) == once


def test_a_new_page_gets_all_parts_and_one_without_a_place_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "new.md"
    update(page, {"runs": "2 runs", "best": "| a |"})
    assert "<!-- begin runs -->\n2 runs\n<!-- end runs -->" in page.read_text()
    update(page, {"runs": "3 runs"})
    assert "3 runs" in page.read_text()
    assert "| a |" in page.read_text()
    page.write_text("# Something else\n")
    with pytest.raises(ValueError, match="no place for any of runs"):
        update(page, {"runs": "3 runs"})
    assert page.read_text() == "# Something else\n"


def test_auto_stands_beside_the_best_of_all_others(lines: list[report.Line]) -> None:
    with_auto = [*lines, *({**line, "method": "auto", "quality": 0.9} for line in lines if line["method"] == "csr")]
    shown = report.against_the_best(report.rankable(report.select(with_auto)), "best")
    row = shown.splitlines()[2]
    qualities = {m: report.mean(report.select(lines, method=m, goal=report.MIDDLE, per_prompt=2), "quality")
                 for m in ("uniform", "csr", "csr-published", "ucb-e")}  # fmt: skip
    told = {m: found for m, found in qualities.items() if found.told}
    assert row.startswith("| synthetic | 2 | 0.900 ± 0.000 |")
    assert row.endswith(f"`{max(told, key=lambda m: told[m].rank)}` |")


def test_the_pictures_are_drawn(lines: list[report.Line], tmp_path: Path) -> None:
    pictures = draw_all(report.select(lines), tmp_path)
    assert len(pictures) == 3
    assert all(path.stat().st_size > 1000 for path in pictures)
