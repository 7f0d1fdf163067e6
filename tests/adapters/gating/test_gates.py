"""`gate` in Python: the same verdicts as `asktell gate`, on configurations, files, selectors and studies."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asktell
from asktell import BestFeasible, InvalidArgumentError, Selector, Study, maximize
from asktell_adapters.finished import Wanted, read_results
from asktell_adapters.gating import FAILED, PASSED, UNDECIDED, Ruling, gate
from tests.command_line import cli
from tests.plays import play

GOAL = BestFeasible(maximize("right", range=(0, 1)))
LLM = """
from asktell_adapters.evaluators import Completion

SKILL = {"good.": 0.9, "fair.": 0.5}
CALLS = []

class LLM:
    def complete(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        prompt, text = request.messages[-1]["content"].split("\\n\\n")
        CALLS.append(text)
        right = (int(text) * 7 % 100) / 100 < SKILL[prompt.split()[-1]]
        return Completion("yes" if right else "no", completion_tokens=1)

def load():
    return LLM()
"""
CONFIG = """
budget = 300

[prompts.texts]
old = "Be fair."
new = "Be good."

[data]
file = "rows.jsonl"

[model]
loader = "llm_of_gates:load"

[metrics]
exact_match = true

[goal]
maximize = "exact_match"
"""


def table(path: Path, n: int = 100, **shares: float) -> Path:
    """A table with a column of scores for each candidate, each right on its share of the examples."""
    rows = [
        {"id": f"q{i}", **{name: float(i < n * s) for name, s in shares.items()}}
        for i in range(n)
    ]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


def evaluated(n: int = 150, inputs: Any = "given", **shares: float) -> Selector:
    """A selection in which each prompt is right on its share of n examples."""
    budget, prompts = n * len(shares), {name: name for name in shares}
    selector = Selector(
        prompts, GOAL, budget, "uniform", n, baseline="old", inputs=inputs, repeats=1
    )
    ease = np.random.default_rng(0).permutation(n) / n
    play(
        selector,
        lambda trial: float(ease[trial.example] < shares[str(trial.prompt_id)]),
    )
    return selector


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration of a gate in a folder, with an LLM of a few lines."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "llm_of_gates.py").write_text(LLM)
    rows = [json.dumps({"input": str(i), "reference": "yes"}) for i in range(150)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows) + "\n")
    path = tmp_path / "gate.toml"
    path.write_text(CONFIG)
    return path


# Two columns of a finished file


@pytest.mark.parametrize(
    ("new", "margin", "verdict", "code"),
    [(0.8, 0.05, PASSED, 0), (0.3, 0.05, FAILED, 1), (0.58, 0.0, UNDECIDED, 3)],
)
def test_two_columns_of_a_finished_file(
    new: float, margin: float, verdict: str, code: int, tmp_path: Path
) -> None:
    path = table(tmp_path / "scores.jsonl", new=new, old=0.6, other=0.5)
    ruling = gate(
        path,
        candidate="new",
        baseline="old",
        margin=margin,
        goal=BestFeasible("score"),
        wanted=Wanted(candidates=("new", "old")),
    )
    assert (ruling.verdict, ruling.exit_code) == (verdict, code)
    assert (ruling.passed, ruling.failed, ruling.undecided) == (
        verdict == PASSED,
        verdict == FAILED,
        verdict == UNDECIDED,
    )
    printed = cli(
        f"gate {path} --candidates new,old --candidate new --baseline old --margin {margin} --maximize score",
        code=code,
    ).out
    assert printed == f"{ruling}\n"


def test_files_and_scores_that_were_read_before_give_the_same(tmp_path: Path) -> None:
    paths = [tmp_path / "new.json", tmp_path / "old.json"]
    for path, share in zip(paths, (0.9, 0.5), strict=True):
        rows = [{"id": i, "success": float(i < 100 * share)} for i in range(100)]
        path.write_text(json.dumps(rows))
    goal = BestFeasible("success")
    of_paths = gate(paths, baseline="old", goal=goal, margin=0.05)
    assert of_paths.passed
    of_scores = gate(read_results(paths), baseline="old", goal=goal, margin=0.05)
    assert str(of_scores) == str(of_paths)
    of_names = gate([*map(str, paths)], baseline="old", goal=goal, margin=0.05)
    assert str(of_names) == str(of_paths)


@pytest.mark.parametrize(
    ("subject", "arguments", "message"),
    [
        (np.zeros((2, 3)), {"goal": BestFeasible("score")}, "subject must be the path"),
        (None, {}, "subject must be the path"),
        ([], {"goal": BestFeasible("score")}, "No file is given"),
        ("no.csv", {"goal": "maximize score"}, "goal must be a goal"),
        ("no.csv", {"goal": BestFeasible("score")}, "There is no file 'no.csv'"),
    ],
)
def test_what_is_no_subject_or_no_goal(
    subject: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        gate(subject, **arguments)


def test_errors_in_python_name_arguments_and_no_flags(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("id,score\n" + "".join(f"q{i},{i % 2}\n" for i in range(20)))
    with pytest.raises(InvalidArgumentError, match="wanted=Wanted") as error:
        gate(path, baseline="old", goal=BestFeasible("score"))
    assert "--" not in str(error.value)


def test_what_files_of_results_lack_is_said(tmp_path: Path) -> None:
    path = table(tmp_path / "scores.jsonl", new=0.9, old=0.5)
    wanted = Wanted(candidates=("new", "old"))
    with pytest.raises(InvalidArgumentError, match=r"No goal is given\. Pass one"):
        gate(path, baseline="old", wanted=wanted)
    goal = BestFeasible("score")
    with pytest.raises(InvalidArgumentError, match="No baseline is given"):
        gate(path, goal=goal, wanted=wanted)
    with pytest.raises(InvalidArgumentError, match=r"no candidate 'odl' .did you mean"):
        gate(path, goal=goal, wanted=wanted, baseline="odl")
    with pytest.raises(InvalidArgumentError, match="are both 'old'"):
        gate(path, goal=goal, wanted=wanted, baseline="old", candidate="old")
    with pytest.raises(InvalidArgumentError, match="recheck and progress can be used"):
        gate(path, goal=goal, baseline="old", recheck=5, progress=True)


# A selector or study in memory


def test_a_selector_gives_the_verdict_of_its_scores() -> None:
    selector = evaluated(new=0.9, old=0.6)
    before = selector.to_json()
    ruling = gate(selector)
    assert ruling.passed
    assert ruling.candidate.id == "new"
    assert gate(selector, candidate="old", baseline="new", margin=0.05).failed
    assert gate(evaluated(20, "new", new=0.6, old=0.6), margin=0.01).undecided
    assert selector.to_json() == before


def test_a_study_gives_the_verdict_of_its_selector(tmp_path: Path) -> None:
    url, n = f"sqlite:///{tmp_path / 'studies.db'}", 60
    selector = Selector(
        {"new": "1", "old": "0"}, GOAL, 2 * n, "uniform", n, baseline="old",
        inputs="given", repeats=1,
    )  # fmt: skip
    with Study.create(url, "s", selector) as study:
        undecided = gate(study, margin=0.05)
        assert undecided.undecided
        asktell.run(study, lambda prompt, example: float(prompt), progress=False)
        ruling = gate(study, margin=0.05)
        assert str(ruling) == str(gate(study.selector, margin=0.05))
    assert ruling.passed


def test_a_selected_candidate_has_to_show_more() -> None:
    """The best of many equal prompts leads by luck, so its error is divided among them."""
    others = {f"v{i}": 0.5 for i in range(8)}
    many = evaluated(150, "new", new=0.65, old=0.6, **others)
    pair = evaluated(150, "new", new=0.65, old=0.6)
    assert [entry.id for entry in many.result().selected] == ["new"]
    ruling = gate(many, candidate="new")
    assert gate(pair).passed
    assert ruling.undecided
    assert ruling.comparison.confidence == 0.95
    # In words, "the better choice" is a statement about two prompts.
    assert "is the better choice" in str(gate(pair))
    assert "is the better choice" not in str(ruling)


def test_scores_that_were_only_observed_pass_nothing_and_the_ruling_says_why() -> None:
    selector = Selector(
        {"new": "n", "old": "o"}, GOAL, 80, "uniform", 40, baseline="old"
    )
    for example in range(40):
        selector.observe("new", 1.0, example)
        selector.observe("old", 0.0, example)
    ruling = gate(selector)
    assert ruling.requirements == {"right": PASSED, "failure_rate": UNDECIDED}
    assert ruling.undecided
    assert "Write the scores into a table" in str(ruling)
    assert "Write the scores into a table" not in str(gate(evaluated(new=0.9, old=0.6)))


def test_a_selection_needs_to_know_which_two_prompts() -> None:
    selector = evaluated(30, new=0.9, old=0.6, other=0.5)
    with pytest.raises(InvalidArgumentError, match=r"No candidate is given\."):
        gate(selector)
    with pytest.raises(InvalidArgumentError, match="candidate: "):
        gate(selector, candidate="nobody")
    with pytest.raises(InvalidArgumentError, match="are the same prompt, 'old'"):
        gate(selector, candidate="old")
    without = Selector({"a": "a", "b": "b"}, GOAL, 4, "uniform", 2)
    with pytest.raises(InvalidArgumentError, match="No baseline is given"):
        gate(without, candidate="a")
    with pytest.raises(InvalidArgumentError, match=r"goal can be used with files"):
        gate(selector, candidate="new", goal=GOAL)
    with pytest.raises(InvalidArgumentError, match="confidence of a gate must be"):
        gate(selector, candidate="new", confidence=1.0)
    with pytest.raises(InvalidArgumentError, match="The margin"):
        gate(selector, candidate="new", margin=1.0)
    with pytest.raises(InvalidArgumentError, match="subject must be the path"):
        gate(5)  # type: ignore[arg-type]


# A configuration that is evaluated


def test_a_configuration_is_evaluated_until_the_verdict(project: Path) -> None:
    ruling = gate(project, candidate="new", baseline="old", margin=0.05)
    assert ruling.passed, ruling
    assert 0 < ruling.result.spent < 300
    printed = cli("gate gate.toml --candidate new --baseline old --margin 0.05").out
    assert printed == f"{ruling}\n"
    assert gate(str(project), candidate="old", baseline="new").failed


def test_a_loaded_configuration_is_a_subject_too(project: Path) -> None:
    from asktell_adapters.config import load_config

    config = load_config(project)
    assert gate(config, baseline="old", margin=0.05).passed
    for wrong, said in (
        ({}, "No baseline is given"),
        ({"baseline": "nobody"}, "Got baseline 'nobody'"),
        ({"baseline": "old", "recheck": -1}, "^recheck must be a number"),
        ({"baseline": "old", "goal": GOAL}, "goal can be used with files of results"),
    ):
        with pytest.raises(InvalidArgumentError, match=said):
            gate(config, **wrong)  # type: ignore[arg-type]


def test_a_price_above_the_limit_is_accepted_first(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Priced:
        most_cost = 12.0

    from asktell_adapters.config import load_config

    monkeypatch.setattr(
        "asktell_adapters.estimate.estimate", lambda *arguments: Priced()
    )
    config = replace(load_config(project), confirm_above=5.0)
    with pytest.raises(InvalidArgumentError, match="may cost up to 12, more than"):
        gate(config, baseline="old", margin=0.05)
    assert gate(config, baseline="old", margin=0.05, accept_price=True).passed


# What a ruling can do


def rulings(tmp_path: Path, project: Path) -> list[Ruling]:
    path = table(tmp_path / "scores.jsonl", new=0.9, old=0.5)
    wanted = Wanted(candidates=("new", "old"))
    goal = BestFeasible("score")
    return [
        gate(path, baseline="old", goal=goal, wanted=wanted),
        gate(evaluated(new=0.9, old=0.6)),
        gate(project, baseline="old"),
    ]


def test_every_ruling_has_a_page_and_a_mapping(tmp_path: Path, project: Path) -> None:
    for ruling in rulings(tmp_path, project):
        ruling.write_page(tmp_path / "gate.html")
        page = (tmp_path / "gate.html").read_text()
        assert ruling.headline.partition(":")[0] in page
        data: dict[str, Any] = json.loads(json.dumps(ruling.to_dict()))
        assert (data["verdict"], data["exit_code"]) == (PASSED, 0)
        assert (data["candidate"], data["baseline"]) == ("new", "old")
        (metric,) = data["comparison"]["differences"]
        assert data["comparison"]["differences"][metric]["verdict"] == "better"
        assert data["worse"] == {metric: []}
        assert len(data["better"][metric]) > 10
        assert str(ruling).endswith(f"{ruling.headline}.")
        assert ruling.markdown().startswith("## ✅ Passed")


def test_a_ruling_without_a_page_says_so(tmp_path: Path) -> None:
    ruling = replace(gate(evaluated(new=0.9, old=0.6)), document=None)
    with pytest.raises(InvalidArgumentError, match="without a page"):
        ruling.write_page(tmp_path / "gate.html")
