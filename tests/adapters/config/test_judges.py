"""A judge in a configuration file."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest

from asktell import ConfigError
from asktell_adapters.config import load_config
from asktell_adapters.metrics import Judge, Preference, range_of
from asktell_adapters.metrics.licence import Licence

MODULE = """
from asktell_adapters.evaluators import Completion, ScriptedLLM

def answers():
    return ScriptedLLM(lambda request: Completion("a", 9, 3), "answers")

def judges(grade=4):
    reply = '{"reason": "", "grades": {"clear": %d}}' % grade
    return ScriptedLLM(lambda request: Completion(reply, 99, 9, cost=0.5), f"judge {grade}")

def pairs():
    return ScriptedLLM(lambda request: Completion('{"grades": {"clear": "first"}}'))
"""
JUDGE = (
    '[metrics.quality]\nmetric = "judge"\ncriteria = { clear = "A child gets it." }\n'
)
OWN = 'model = { loader = "scripted_judges:judges" }\n'


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def load(judge: str, goal: str = 'maximize = "quality"', top: str = ""):
        (tmp_path / "scripted_judges.py").write_text(MODULE)
        rows = [{"input": f"i{k}", "reference": "a", "old": "b"} for k in range(3)]
        (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
        (tmp_path / "run.toml").write_text(
            f'budget = 6\n{top}[prompts]\ntexts = ["Be brief", "Be long"]\n[data]\nfile = "data.jsonl"\n'
            f'[model]\nloader = "scripted_judges:answers"\n{judge}\n[goal]\n{goal}\n'
        )
        return load_config(tmp_path / "run.toml")

    yield load
    sys.modules.pop("scripted_judges", None)


@pytest.mark.parametrize("key", ["metric", "type"])
def test_a_judge_with_a_model_of_its_own_scores(config, key: str) -> None:
    found = config(JUDGE.replace("metric =", f"{key} =") + "scale = [0, 10]\n" + OWN)
    assert range_of(found.metrics["quality"]) == (0.0, 10.0)
    evaluator = found.evaluator()
    scores = asyncio.run(evaluator("Be brief", 0))
    assert scores == {"quality": 4.0}
    assert scores.details["output"] == "a"
    assert scores.details["judged"]["quality"]["cost"] == scores.paid == 0.5


def test_several_judges_and_opinions(config) -> None:
    models = "".join(
        f'[[metrics.quality.model]]\nloader = "scripted_judges:judges"\narguments = {{ grade = {grade} }}\n'
        for grade in (2, 5)
    )
    scores = asyncio.run(
        config(JUDGE + "n = 2\ntemperature = 0.7\n" + models).evaluator()("Be brief", 0)
    )
    assert scores == {"quality": 3.5}
    assert scores.details["judged"]["quality"]["opinions"] == [2.0, 2.0, 5.0, 5.0]


def test_without_a_model_of_its_own_the_runs_model_judges(config) -> None:
    found = config(JUDGE)
    for _ in range(2):
        evaluator = found.evaluator()
        judge = evaluator.metrics["quality"]
        assert isinstance(judge, Judge)
        assert judge.llms == (evaluator.llm,)
    assert found.metrics["quality"] is not judge


def test_a_pair_with_a_shot(config) -> None:
    judge = (
        JUDGE
        + 'against = "old"\nmodel = { loader = "scripted_judges:pairs" }\n'
        + '[[metrics.quality.shots]]\ninput = "i"\nanswer = "a"\nother = "b"\ngrades = { clear = "tie" }\n'
    )
    found = config(judge)
    assert asyncio.run(found.evaluator()("Be brief", 0)) == {"quality": 0.5}


def test_a_judge_uses_the_cache(config) -> None:
    found = config(JUDGE + OWN + '[cache]\nfile = "answers.db"\n')
    first, second = (asyncio.run(found.evaluator()("Be brief", 0)) for _ in range(2))
    assert first == second
    assert (first.paid, second.paid) == (0.5, 0.0)


@pytest.mark.parametrize(
    ("judge", "words"),
    [
        ("[metrics]\njudge = true", "'criteria' is missing in [metrics.judge]"),
        (
            JUDGE + "scale = [5, 1]\n",
            "[metrics.quality]: scale must be two whole numbers",
        ),
        (JUDGE + "n = 2\n", "same opinion 2 times"),
        (
            JUDGE + 'against = "older"\n',
            "'against' in [metrics.quality] must be a column",
        ),
        (
            JUDGE + 'model = { type = "opnai", model = "x" }\n',
            "'type' in [metrics.quality.model] must be one of",
        ),
        (
            JUDGE + 'model = { type = "openai", model = "x", temperature = 1 }\n',
            "Set 'temperature' in [metrics.quality] instead",
        ),
        (
            JUDGE.replace('"A child gets it."', "{ weight = 2 }"),
            "is missing in [metrics.quality.criteria.clear]",
        ),
    ],
)
def test_mistakes_are_named(config, judge: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(
            judge,
            'maximize = "judge"' if "judge = true" in judge else 'maximize = "quality"',
        )
    assert words in str(caught.value)


def test_a_preference_compares_with_the_baseline(config) -> None:
    table = '[metrics.better]\nmetric = "preference"\ncriteria = { clear = "A child gets it." }\n'
    table += 'model = { loader = "scripted_judges:pairs" }\n'
    found = config(table, 'maximize = "better"')
    metric = found.metrics["better"]
    assert isinstance(metric, Preference)
    assert (metric.against, range_of(metric)) == ("baseline", (0.0, 1.0))
    assert isinstance(found.evaluator().metrics["better"], Preference)
    wrong = f'{table}against = "older"\n'
    with pytest.raises(
        ConfigError, match=re.escape("'against' in [metrics.better] must be a column")
    ):
        config(wrong, 'maximize = "better"')


def test_a_judge_without_the_licence_that_its_file_demands_establishes_nothing(
    config, tmp_path: Path
) -> None:
    found = config(JUDGE + OWN + "[judge]\nfloor = 0.9\n").evaluator()
    words, is_doubtful = found.remarks()["quality"]
    assert is_doubtful
    assert "has no licence, because there is no file 'judge.json'." in words
    judge = found.metrics["quality"]
    grades = [1.0, 5.0] * 40
    licence = Licence.measured(
        "a", "judge 4", judge.digests, grades, grades, (1.0, 2.0, 3.0, 4.0, 5.0)
    )
    licence.write(tmp_path / "judge.json")
    words, is_doubtful = config(JUDGE + OWN + "[judge]\nfloor = 0.9\n").evaluator().remarks()["quality"]  # fmt: skip
    assert (words.split(" (")[0], is_doubtful) == (
        'The judge of "quality" agrees with people on 100% of 80 labeled responses',
        False,
    )
    assert "quality" not in config(JUDGE + OWN).evaluator().remarks()
    for change, part in (
        (("A child gets it.", "A child may get it."), "rubric differs"),
        (('judges"', 'judges", arguments = { grade = 3 }'), "model differs"),
        (("criteria =", "max_new_tokens = 99\ncriteria ="), "settings differ"),
    ):
        other = (JUDGE + OWN).replace(*change) + "[judge]\n"
        words, is_doubtful = config(other).evaluator().remarks()["quality"]
        assert (f"whose {part}" in words, is_doubtful) == (True, True)


@pytest.mark.parametrize(
    ("judge", "words"),
    [
        (JUDGE + OWN + "[judge]\nfloor = 1.5\n", "'floor' in [judge] must be at most 1, got 1.5"),
        (JUDGE + OWN + '[judge]\nmetric = "qualty"\n', "(did you mean 'quality'?), got 'qualty'. The judges there are"),
        (JUDGE + OWN + '[judge]\nlicence = "data.jsonl"\n', "[judge]: 'DATA' is not complete JSON"),
        (JUDGE + OWN + "[metrics.tone]\nmetric = 'judge'\ncriteria = { a = 'b' }\n" + OWN + "[judge]\n",
         "'metric' in [judge] is missing, because [metrics] has several judges"),
        ("[metrics]\noutput_tokens = true\n[judge]\n", "[judge] needs a judge in [metrics]"),
    ],
)  # fmt: skip
def test_mistakes_about_licences_are_named(
    config, tmp_path: Path, judge: str, words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        config(
            judge,
            'maximize = "quality"' if "quality" in judge else 'maximize = "output_tokens"',
        )  # fmt: skip
    text = str(caught.value).replace(str(tmp_path / "data.jsonl"), "DATA")
    assert words in text
