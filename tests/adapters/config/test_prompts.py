"""Prompts in a configuration: texts, templates and chats; checked against the data when it is loaded."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from asktell import ConfigError
from asktell_adapters.config import differences, load_config
from asktell_adapters.evaluators import chat
from tests.command_line import cli

FILE = """
budget = 6
{prompts}
[data]
file = "data.csv"
input = "question"
reference = "answer"
[model]
loader = "echoing_model:make"
{model}
[metrics]
exact_match = true
[goal]
maximize = "exact_match"
"""
MODULE = """
import json
from asktell_adapters.evaluators import Completion, ScriptedLLM

def make():
    return ScriptedLLM(lambda request: Completion(json.dumps([dict(turn) for turn in request.messages])))
"""
CHAT = """
[prompts.texts]
plain = "Answer."
[[prompts.texts.terse]]
role = "system"
content = 'As {"a": 1}.'
[[prompts.texts.terse]]
role = "user"
content = "{context}: {question}"
"""


@pytest.fixture
def write(tmp_path: Path) -> Any:
    (tmp_path / "echoing_model.py").write_text(MODULE)
    (tmp_path / "data.csv").write_text(
        "question,answer,context\nWhere?,There,c0\nWhen?,Then,c1\n"
    )

    def make(prompts: str, model: str = "") -> Path:
        path = tmp_path / "a.toml"
        path.write_text(FILE.format(prompts=prompts, model=model))
        return path

    return make


def asked(path: Path, position: int, example: int = 0) -> list[dict[str, str]]:
    """The messages of a prompt and an example."""
    config = load_config(path)
    request = config.evaluator().request(
        config.selector.prompts.texts[position], example
    )
    return [dict(turn) for turn in request.messages]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.txt", "Höflich.\nKürzer."),
        ("p.csv", "prompt\nHöflich.\nKürzer.\n"),
        ("p.json", '["Höflich.", "Kürzer."]'),
        ("p.jsonl", '"Höflich."\n"Kürzer."\n'),
        ("p.toml", 'a = "Höflich."\nb = "Kürzer."\n'),
    ],
)
def test_prompts_may_be_in_another_encoding(
    write: Any, tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / name).write_bytes(content.encode("cp1252"))
    path = write(f"[prompts]\nfile = '{name}'\nencoding = 'cp1252'")
    assert list(load_config(path).selector.prompts.texts) == ["Höflich.", "Kürzer."]
    with pytest.raises(ConfigError, match=r"not UTF-8 .*give its encoding"):
        load_config(write(f"[prompts]\nfile = '{name}'"))


def test_chats_have_fields_and_texts_keep_their_braces(write: Any) -> None:
    path = write(CHAT.replace('"Answer."', "'Answer as {question}.'"))
    assert asked(path, 0)[-1]["content"] == "Answer as {question}.\n\nWhere?"
    assert asked(path, 1, 1) == [
        {"role": "system", "content": 'As {"a": 1}.'},
        {"role": "user", "content": "c1: When?"},
    ]
    assert "fields" not in load_config(path).setup


def test_texts_have_fields_if_the_file_says_so(write: Any) -> None:
    path = write(
        """[prompts]\nfields = true\ntexts = ['{context} {question} as {"a": {}}', "Answer."]"""
    )
    assert asked(path, 0)[-1]["content"] == 'c0 Where? as {"a": {}}'
    assert asked(path, 1)[-1]["content"] == "Answer.\n\nWhere?"
    then = load_config(path).setup
    plain = write("[prompts]\ntexts = ['{context} {question}', \"Answer.\"]")
    changed = differences(then, load_config(plain).setup)
    assert "'fields' was True, and is not given now" in changed


@pytest.mark.parametrize(
    ("prompts", "said"),
    [
        (
            "[prompts]\nfields = true\n[prompts.texts]\nbad = '{contxt}'",
            "a.toml, [prompts]: Prompt 'bad' has the field {contxt}, but the data has no such column (did you mean "
            "'context'?). Its columns are 'context', 'input', 'question'.",
        ),
        (
            CHAT.replace("{context}", "{answer}"),
            "Prompt 'terse' has the field {answer}, but the data has no such",
        ),
        (
            CHAT.replace('"user"', '"robot"'),
            "[prompts]: prompt 'terse': message 2 of a chat must have one",
        ),
        (
            "[prompts]\nfields = 1\ntexts = ['a']",
            "'fields' in [prompts] must be true or false, got 1.",
        ),
        (
            "[prompts]\nencoding = 'cp1252'\ntexts = ['a']",
            "'encoding' in [prompts] can be used only with `file`, and not with `texts`. Remove it",
        ),
        (
            "[prompts]\ntexts = ['a', { b = 1 }]",
            "prompt 1: A prompt must be a text, a list of messages",
        ),
    ],
)
def test_mistakes_are_named_before_anything_is_asked(
    write: Any, prompts: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        load_config(write(prompts))


def test_a_run_with_chats_can_be_read_and_goes_on(write: Any) -> None:
    path = write(CHAT)
    cli("run", path, "--no-progress")
    shown = cli("run", path, "--no-progress").out
    assert '[system] As {"a": 1}. [user] {context}: {question}' in shown
    lines = (path.parent / "a" / "evaluations.jsonl").read_text().splitlines()
    answers = [json.loads(line) for line in lines]
    assert any("c1: When?" in line["output"] for line in answers)
    result = json.loads((path.parent / "a" / "result.json").read_text())
    turns = [
        {"role": "system", "content": 'As {"a": 1}.'},
        {"role": "user", "content": "{context}: {question}"},
    ]
    assert chat(turns) in [entry["prompt"] for entry in result["prompts"]]
