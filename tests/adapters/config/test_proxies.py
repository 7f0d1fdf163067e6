"""The table `[proxies]`: names of cheap metrics, and recorded scores of them."""

import json
from pathlib import Path

import pytest

from asktell import ConfigError
from asktell_adapters.cli.main import main
from asktell_adapters.config import Config, load_config

_MODULE = """
from asktell_adapters.evaluators import Completion, ScriptedLLM

def make():
    return ScriptedLLM(lambda request: Completion("yes, " * len(str(request)), 9, len(str(request)) % 7))
"""
_FILE = """
budget = 12
[prompts]
texts = {{ a = "Be brief", b = "Be long", c = "Be odd" }}
[data]
file = "data.jsonl"
id = "id"
[model]
loader = "proxies_llm:make"
[metrics]
exact_match = true
brevity = {{ low = 1, high = 9 }}
[goal]
maximize = "exact_match"
[proxies]
{proxies}
"""
_SCORES = """prompt,example,judge,other
a,x0,0.5,good
b,x1,0.75,bad
b,x2,,bad
z,x0,1,good
c,x9,1,good
"""
_BY_FILE = 'scores = "judge.csv"\ncolumns = ["judge"]'


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "proxies_llm.py").write_text(_MODULE)
    (tmp_path / "judge.csv").write_text(_SCORES)
    rows = [{"id": f"x{j}", "input": f"i{j}", "reference": "a"} for j in range(4)]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))

    def read(proxies: str) -> Config:
        (tmp_path / "run.toml").write_text(_FILE.format(proxies=proxies))
        return load_config(tmp_path / "run.toml")

    return read


def test_recorded_scores_are_known_before_the_first_evaluation(load) -> None:  # type: ignore[no-untyped-def]
    config = load(_BY_FILE + '\nmetrics = ["brevity"]')
    assert config.selector.proxies == ("judge", "brevity")
    assert config.selector.spent == 0
    scores = config.selector.state.proxies
    assert list(
        zip(scores.arms(), scores.examples(), scores.scores(), strict=True)
    ) == [
        (0, 0, 0.5),
        (1, 1, 0.75),
    ]
    assert config.setup["proxies"]["columns"] == ["judge"]


def test_metrics_that_the_goal_lacks_are_scored_with_every_response(
    load,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],  # type: ignore[no-untyped-def]
) -> None:
    load(_BY_FILE + '\nmetrics = ["brevity"]')
    assert main(["run", str(tmp_path / "run.toml"), "--yes"]) == 0
    assert "brevity (proxy)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("proxies", "message"),
    [
        ("", "has no proxies"),
        ('scores = "judge.csv"', "needs both scores"),
        ('columns = ["judge"]', "needs both scores"),
        (
            'metrics = ["breviti"]',
            "'breviti', which is not in .metrics..*'brevity'",
        ),
        ('metrics = ["exact_match"]', "is a metric of the goal"),
        (
            'scores = "judge.csv"\ncolumns = ["juge"]',
            "'juge', which is not in judge.csv.*'judge'",
        ),
        ('scores = "none.csv"\ncolumns = ["judge"]', "no file"),
        ('scores = "data.jsonl"\ncolumns = ["id"]', "column"),
    ],
)
def test_mistakes_are_named(load, proxies: str, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError, match=message):
        load(proxies)


def test_a_file_about_other_prompts_is_refused(load, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    load(_BY_FILE)
    (tmp_path / "judge.csv").write_text("prompt,example,judge\nz,x0,1\n")
    with pytest.raises(ConfigError, match=r"no row has the ids.*'a', 'b', 'c'"):
        load(_BY_FILE)
