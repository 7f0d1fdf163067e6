"""What a result says."""

import json
import os
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

from asktell import (
    BestFeasible,
    ParetoSet,
    PromptResult,
    Result,
    Selector,
    grid,
    minimize,
)
from asktell.numerics.pareto import dominators
from asktell.results.printing import with_doubt
from tests.plays import play
from tests.seeds import Seeds

GOAL = BestFeasible("rouge", {"brevity": 0.5})
PROMPTS = {
    "short": "Be brief.",
    "long": "Write\na lot,\tplease. " + "Really. " * 40,
    "odd": "\x1b[31m \u202e \u2603",
}
SCORES = {"short": [0.25, 1.0], "long": [0.5, 0.25], "odd": [0.125, 0.75]}


def played(goal: Any = GOAL, budget: int = 6, **options: Any) -> Selector:
    selector = Selector(PROMPTS, goal, budget, "uniform", examples=4, **options)
    while trial := selector.ask():
        bonus = 0.125 if trial.id % 2 else 0.0
        selector.tell(
            trial, [score + bonus for score in SCORES[str(trial.prompt_id)]], cost=0.5
        )
    return selector


def test_entries_know_everything_about_a_prompt() -> None:
    result = played().result()
    assert [entry.id for entry in result.prompts] == list(PROMPTS)
    assert [entry.prompt for entry in result.prompts] == list(PROMPTS.values())
    entry = result.selected[0]
    assert isinstance(entry, PromptResult)
    assert (entry.id, entry.prompt, entry.evaluations, entry.failures) == (
        "short",
        "Be brief.",
        2,
        0,
    )
    assert entry.status == "accepted"
    # Between the prompt's own mean of two scores and that of all prompts.
    assert 0.3125 < (entry.estimate["rouge"] or 0) < (0.3125 + 0.5625 + 0.1875) / 3
    assert (1.0625 + 0.3125 + 0.8125) / 3 < (entry.estimate["brevity"] or 0) < 1.0625
    spans = {"rouge": 0.625 - 0.125, "brevity": 1.125 - 0.25}  # of all scores
    assert all(
        0.04 < (entry.standard_error[metric] or 0) <= span
        for metric, span in spans.items()
    )
    assert (entry.round, entry.reason) == (
        1,
        "ranked 1 of 3 by the objective, feasible",
    )
    assert (entry.feasible, entry.p_feasible, entry.p_best) == (
        True,
        entry.p_feasible,
        result.verdict.p_best,
    )
    assert 0.9 < (entry.p_feasible or 0) <= 1.0
    long = result.prompts[1]
    assert (long.status, long.feasible) == ("rejected", False)
    assert long.reason == "ranked 3 of 3: violates a constraint by 0.1875"
    assert (
        result.spent,
        result.budget,
        result.spent_cost,
        result.done,
        result.feasible,
    ) == (6, 6, 3.0, True, True)


def test_estimates_of_all_given_examples_are_their_means() -> None:
    entry = played(budget=12, inputs="given", repeats=1).result().prompts[0]
    assert entry.evaluations == 4
    assert entry.estimate == pytest.approx({"rouge": 0.3125, "brevity": 1.0625})
    assert entry.standard_error == {"rouge": 0.0, "brevity": 0.0}


def test_to_dict_is_json_with_the_same_names() -> None:
    result = played().result()
    data = result.to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    fields = {name for name in Result.__dataclass_fields__ if not name.startswith("_")}
    assert set(data) - {"metrics", "comparison"} == fields - {
        "n_examples",
        "example_ids",
    }
    assert data["goal"] == "maximize rouge subject to brevity >= 0.5"
    assert data["metrics"] == ["rouge", "brevity"]
    assert [entry["id"] for entry in data["prompts"]] == ["short", "long", "odd"]
    assert data["selected"] == [data["prompts"][0]]
    assert set(data["selected"][0]) == {*PromptResult.__dataclass_fields__} - {
        "candidate",
        "segments",
        "proxies",
        "plain_mean",
    }


def test_to_dict_is_json_before_anything_is_known() -> None:
    result = Selector(["x", "y"], GOAL, 4).result()
    assert (result.selected, result.feasible, result.done, result.spent) == (
        [],
        None,
        False,
        0,
    )
    entry = json.loads(json.dumps(result.to_dict(), allow_nan=False))["prompts"][0]
    assert (
        entry["estimate"] == entry["standard_error"] == {"rouge": None, "brevity": None}
    )
    assert (entry["status"], entry["round"], entry["reason"], entry["feasible"]) == (
        "active",
        None,
        None,
        None,
    )


def test_the_text_shows_the_answer_on_single_lines_without_control_characters() -> None:
    goal = ParetoSet("rouge", "brevity")
    result = played(goal).result()
    text = str(result)
    lines = text.splitlines()
    assert (
        lines[0]
        == "Pareto set: maximize rouge, maximize brevity (final, 6 of 6 evaluations spent)"
    )
    assert [entry.id for entry in result.unresolved] == ["odd"]
    assert lines[1].split() == [
        "id",
        "rouge",
        "brevity",
        "P(in",
        "set)",
        "evaluations",
        "prompt",
    ]
    mark, first, *numbers = lines[2].split()[:8]
    assert (mark, first, numbers[1], numbers[4]) == ("*", "long", "±", "±")
    shown, entry = [float(numbers[i]) for i in (0, 2, 3, 5)], result.selected[0]
    wanted = [entry.estimate["rouge"], entry.standard_error["rouge"]]
    wanted += [entry.estimate["brevity"], entry.standard_error["brevity"]]
    assert shown == pytest.approx(wanted, rel=0.05)
    assert "Write a lot, please. Really." in lines[2]
    assert lines[2].endswith("...")
    assert all(c.isprintable() for line in lines for c in line)
    assert max(map(len, lines)) < 130


def test_the_text_says_when_there_was_nothing_left_to_evaluate() -> None:
    result = played(budget=30).result()
    assert (result.done, result.spent, result.finished_early) == (True, 12, True)
    assert (
        "12 of 30 evaluations spent; finished early: every prompt still in the "
        "selection was evaluated on every example)"
    ) in " ".join(str(result).split())
    # All is seen, and all is spent
    assert not played(budget=12).result().finished_early


def test_failed_examples_count_as_seen() -> None:
    selector = Selector(["x", "y"], BestFeasible("a"), 30, "uniform", examples=4)
    play(selector, lambda trial: "no answer" if trial.example == 2 else [trial.id])
    assert selector.result().spent == 6
    assert selector.result().finished_early


def test_nothing_in_the_text_steers_a_terminal() -> None:
    goal = BestFeasible("a\x1b[2J")
    selector = Selector({"p\x1b[31m\n": "\x07 x", "q\x9b": "y"}, goal, 2, "uniform")
    for trial in selector.ask(2):
        selector.tell(trial, [1.0])
    text = str(selector.result())
    assert all(line.isprintable() for line in text.split("\n"))
    assert "p\\x1b[31m\\n" in text


def test_long_answers_are_cut() -> None:
    prompts = [f"prompt {k}" for k in range(40)]
    selector = Selector(prompts, ParetoSet("a", "b"), 40, "uniform")
    play(selector, lambda trial: [trial.id, -trial.id])
    text = str(selector.result())
    assert len(selector.result().selected) == 40
    assert "... and 30 more." in text
    selector = Selector(prompts, ParetoSet("a"), 40, "uniform")
    play(selector, lambda trial: [trial.id])
    assert 39 > len(selector.result().unresolved) > 0


CONSTRAINED = ParetoSet("a", "b", subject_to={minimize("c"): 0.5})


def observed(
    rows: list[list[float]], method: Any = "uniform", goal: Any = CONSTRAINED
) -> Result:
    selector = Selector(
        [f"p{i}" for i in range(len(rows))], goal, 100, method, examples=50
    )
    for i, row in enumerate(rows):
        for example in range(8):
            selector.observe(i, row, example=example)
    return selector.result()


def test_a_front_under_constraints_reads_as_one() -> None:
    result = observed([[1, 2, 0.5], [2, 1, 0.25], [9, 9, 0.75], [0, 0, 0]])
    assert [entry.id for entry in result.selected] == [1, 0]
    assert result.feasible is True
    assert [entry.feasible for entry in result.prompts] == [True, True, False, True]
    text = str(result)
    assert text.startswith(
        "Pareto set: maximize a, maximize b subject to c <= 0.5 (so far"
    )
    assert text.split("\n")[1].split()[:4] == ["id", "a", "b", "c"]
    assert "No prompt is likely" not in text
    assert result.to_dict()["metrics"] == ["a", "b", "c"]


def test_a_set_with_members_whose_estimates_miss_a_constraint_says_so(
    seeds: Seeds,
) -> None:
    notes = set()
    for seed in seeds(8):
        rng = np.random.default_rng(seed)
        selector = Selector(
            [f"p{i}" for i in range(12)], CONSTRAINED, 60, examples=40, seed=seed
        )
        means = rng.uniform(0.3, 0.7, (12, 3))
        play(selector, lambda trial: means[trial.prompt_id] + rng.normal(size=3))  # noqa: B023
        result = selector.result()
        misses = sum(entry.feasible is False for entry in result.selected)
        if 0 < misses < len(result.selected):
            notes.add(misses)
            assert result.feasible is False
            said = f"{misses} of the selected prompts probably violate a constraint. They are"
            assert any(said in note for note in result.notes)
            assert "No prompt is likely" not in str(result)
            kept = [entry.feasible for entry in result.selected]
            assert kept == sorted(kept, reverse=True)  # feasible ones first
        else:
            assert not any("miss a constraint" in note for note in result.notes)
    assert notes


def test_results_are_snapshots() -> None:
    selector = Selector(["x", "y"], GOAL, 4)
    before = selector.result()
    selector.tell(selector.ask().id, [1, 1])  # type: ignore[union-attr]
    assert before.spent == 0
    assert before.prompts[0].evaluations == 0


def test_probabilities_are_shown_where_a_method_states_them() -> None:
    rng = np.random.default_rng(0)
    headers = {}
    goals = {
        "best": BestFeasible("a", subject_to={"b": 0.5}),
        "only": BestFeasible("a"),
        "front": ParetoSet("a", "b"),
    }
    for name, goal in goals.items():
        for method in ("auto", "uniform"):
            selector = Selector(["x", "y", "z"], goal, 12, method, examples=9)
            play(selector, lambda _: rng.random(len(goal.metrics)).tolist())  # noqa: B023
            lines = str(selector.result()).splitlines()
            headers[name, method] = next(
                line for line in lines if line.lstrip().startswith("id ")
            ).split("  ")
            if (name, method) == ("best", "auto"):
                entry = selector.result().selected[0]
                assert entry.p_best is not None
                row = next(
                    line
                    for line in lines
                    if line.lstrip("* ").startswith(f"{entry.id} ")
                )
                assert f"  {entry.p_best:.2f}  " in row
    shown = {
        case: [cell.strip() for cell in cells if "P(" in cell]
        for case, cells in headers.items()
    }
    assert shown == {
        ("best", "auto"): ["P(best)", "P(feasible)"],
        ("only", "auto"): ["P(best)"],
        ("front", "auto"): ["P(in set)"],
        ("best", "uniform"): ["P(best)", "P(feasible)"],
        ("only", "uniform"): ["P(best)"],
        ("front", "uniform"): ["P(in set)"],
    }


def test_probabilities_from_draws_are_never_certain() -> None:
    stated = [with_doubt(p) for p in (None, 0.0, 0.004, 0.5, 0.994, 1.0)]
    assert stated == ["-", "<0.01", "<0.01", "0.50", "0.99", ">0.99"]


def test_of_several_that_dominate_a_prompt_the_one_that_is_ahead_by_most_is_named() -> (
    None
):
    values = np.array([[0.0, 0.0], [1.0, 0.1], [0.8, 0.8], [0.9, 0.05]])
    assert dominators(values) == [2, None, None, 1]
    assert dominators(np.zeros((2, 2))) == [None, None]
    assert dominators(np.zeros((0, 2))) == []


@pytest.mark.parametrize("method", ["auto", "csr-sh", "race"])
def test_the_time_of_a_result_grows_with_the_prompts_and_not_with_their_square(
    method: str,
) -> None:
    """With 100,000 prompts a result took 55 seconds."""

    def seconds(n_prompts: int) -> float:
        selector = Selector(
            [f"p{i}" for i in range(n_prompts)], GOAL, n_prompts, method, examples=5
        )
        play(selector, lambda trial: [0.1 * (trial.id % 7), 1.0], n_prompts)
        assert selector.done
        taken = []
        for _ in range(3):
            start = time.process_time()
            selector.result()
            taken.append(time.process_time() - start)
        return min(taken)

    # 32 times as many: with their square, it would be 1,024 times as long
    assert seconds(8_000) < 300 * seconds(250)


def test_factors_are_the_means_of_their_levels() -> None:
    candidates = grid(
        model=["a", "b"],
        prompt={"short": "Be brief.", "long": "Take your time."},
        n=[1, 2, 3],
    )
    selector = Selector(
        candidates, ParetoSet("accuracy", minimize("cost")), 120, "uniform", examples=20
    )
    assert selector.result().factors() == {}
    while trial := selector.ask():
        at = trial.candidate or {}
        selector.tell(
            trial,
            [
                (at["model"] == "b") + (trial.example or 0) % 4 / 4,
                0.1 * int(str(at["n"])),
            ],
        )
    result = selector.result()
    factors = result.factors()
    assert {factor: list(levels) for factor, levels in factors.items()} == {
        "model": ["a", "b"], "prompt": ["short", "long"], "n": ["1", "2", "3"],
    }  # fmt: skip
    (a, error), (b, _) = (factors["model"][model]["accuracy"] for model in "ab")
    assert b - a == pytest.approx(1.0, abs=0.1)
    assert error is not None
    assert 0 < error < 0.2
    short, long = (
        factors["prompt"][prompt]["accuracy"] for prompt in ("short", "long")
    )
    assert abs(short[0] - long[0]) < 0.1
    assert factors["n"]["3"]["cost"][0] == pytest.approx(0.3, abs=0.02)
    data = json.loads(json.dumps(result.to_dict()))
    assert data["factors"]["model"]["b"]["accuracy"] == list(
        factors["model"]["b"]["accuracy"]
    )
    assert f"accuracy by model: b {b:.4g} ± " in str(result)
    assert f"accuracy by model: b {b:.4g} ± " in result.table()
    assert "factors" not in played().result().to_dict()


def test_the_mean_of_a_level_that_was_all_seen_is_exact() -> None:
    candidates, options = (
        grid(model=["a", "b"], n=[1, 2]),
        {"inputs": "given", "repeats": 1},
    )
    selector = Selector(
        candidates, BestFeasible("x"), 40, "uniform", examples=10, **options
    )
    while trial := selector.ask():
        selector.tell(
            trial,
            [
                {"a": 0.25, "b": 0.5}[str((trial.candidate or {})["model"])]
                + (trial.example or 0) % 2
            ],
        )
    found = {
        level: means["x"]
        for level, means in selector.result().factors()["model"].items()
    }
    assert found == {"a": (pytest.approx(0.75), 0.0), "b": (pytest.approx(1.0), 0.0)}


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_result_can_be_printed_on_an_old_terminal(encoding: str) -> None:
    code = (
        "import asktell\n"
        "scores = [[1, 1, 0, 1] * 5, [1, 0, 0, 0] * 5]\n"
        "goal = asktell.BestFeasible('acc')\n"
        "result = asktell.analyze(scores, goal, prompts=['Оценка', 'b'], baseline='b')\n"
        "print(result)\n"
        "print(result.table())\n"
        "print(result.comparison)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.decode(encoding)
    assert ("+-" if encoding == "ascii" else "±") in printed or "+-" in printed
    assert r"\u041e" in printed
