"""Configs as promptfoo's users write them, and those from which asktell cannot choose."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell.errors import InvalidArgumentError, MissingExtraError
from asktell_adapters.harnesses.promptfoo import PromptfooEvaluator
from asktell_adapters.harnesses.promptfoo.node import find_node, find_promptfoo
from asktell_adapters.testing.llm_server import FaultyLLMServer, Reply

MakeEvaluator = Callable[..., PromptfooEvaluator]

CONFIG = """
description: every way to write prompts and tests
prompts:
  - 'Say {{word}}.'
  - file://short.txt
  - {id: file://labelled.txt, label: long}
  - file://two.txt
  - file://function.cjs:make
  - {label: chat, raw: '[{"role": "user", "content": "{{word}}"}]'}
providers:
  - echo
  - {id: 'file://upper.cjs', label: upper, prompts: [long, chat]}
assertionTemplates:
  hit: {type: contains, value: x, metric: hit}
defaultTest:
  vars: {language: de}
  assert: [{type: javascript, value: output.length, metric: length}]
tests:
  - {vars: {word: [a, b]}, metadata: {n: 1}}
  - vars: {word: c}
    assert: [{$ref: '#/assertionTemplates/hit'}]
  - file://tests.csv
  - file://tests.yaml
  - file://tests.jsonl
  - file://tests.json
"""
FILES = {
    "promptfooconfig.yaml": CONFIG,
    "short.txt": "Short {{word}}",
    "labelled.txt": "Long, long {{word}}",
    "two.txt": "First {{word}}\n---\nSecond {{word}}",
    "function.cjs": "module.exports = { make: ({ vars }) => `made of ${vars.word}` };",
    "upper.cjs": "module.exports = class { id() { return 'u'; } "
    "async callApi(prompt) { return { output: prompt.toUpperCase() }; } };",
    "tests.csv": "word,__expected,__metadata:n\nd,contains:d,2\ne,contains:x,3\n",
    "tests.yaml": "- vars: {word: f}\n",
    "tests.jsonl": '{"vars": {"word": "g"}}\n',
    "tests.json": '[{"vars": {"word": "h"}}]',
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path / "promptfooconfig.yaml"


def test_prompts_and_tests_of_every_kind(
    config: Path, evaluator: MakeEvaluator
) -> None:
    found = evaluator(config, provider="echo")
    assert list(found.prompts) == [
        "prompt-1",
        "prompt-2",
        "long",
        "prompt-4",
        "prompt-5",
        "function.cjs:make",
        "chat",
    ]
    assert found.prompts["prompt-2"] == "Short {{word}}"
    assert found.prompts["long"] == "Long, long {{word}}"
    assert found.prompts["prompt-5"] == "Second {{word}}"
    assert [test["vars"]["word"] for test in found.tests] == list("abcdefgh")
    assert all(test["vars"]["language"] == "de" for test in found.tests)
    assert found.tests[1]["metadata"] == {"n": 1}
    assert found.tests[2]["metrics"] == ["length", "hit"]
    assert found.metrics == ["length"]
    prompts = list(found.prompts.values())
    wanted = [
        (prompts[0], 3, "Say d."),
        (prompts[5], 0, "made of a"),
        (prompts[4], 7, "Second h"),
        (prompts[5], 1, "made of b"),
        ("{{language}}, 100% {as is}", 5, "de, 100% {as is}"),
    ]
    trials = [
        asktell.Trial(id_, "id", prompt, test)
        for id_, (prompt, test, _) in enumerate(wanted)
    ]
    lengths = [
        outcome["length"]
        for outcome in found.evaluate_batch(trials)
        if isinstance(outcome, dict)
    ]
    assert lengths == [len(text) for _, _, text in wanted]
    assert found(prompts[0], 4)["success"] == 0
    assert found(prompts[0], 2)["hit"] == 0


def test_a_python_provider_and_a_python_assertion(
    tmp_path: Path, evaluator: MakeEvaluator
) -> None:
    (tmp_path / "provider.py").write_text(
        "def call_api(prompt, options, context):\n"
        "    if 'bad' in prompt:\n        raise RuntimeError('not this one')\n"
        "    return {'output': prompt[::-1], 'tokenUsage': {'total': 7, 'prompt': 4, 'completion': 3}}\n"
    )
    config = tmp_path / "promptfooconfig.json"
    check = {"type": "python", "value": "len(output) / 10", "metric": "length"}
    config.write_text(
        json.dumps(
            {
                "providers": ["file://provider.py"],
                "tests": [{"vars": {"w": "abc"}, "assert": [check]}],
            }
        )
    )
    found = evaluator(config)
    trials = [asktell.Trial(0, 0, "good {{w}}", 0), asktell.Trial(1, 1, "bad {{w}}", 0)]
    good, bad = found.evaluate_batch(trials)
    assert (good["length"], good["tokens"]) == (0.8, 7)
    assert "not this one" in str(bad)


def test_an_openai_compatible_server(evaluator: MakeEvaluator) -> None:
    script = [Reply("four", usage=(20, 2, 0)), Reply("no", status=400)]
    with FaultyLLMServer(script) as server:
        settings = {"apiBaseUrl": server.base_url, "apiKey": "none"}
        found = evaluator(
            {
                "prompts": ["Count {{word}}."],
                "providers": [{"id": "openai:chat:tiny", "config": settings}],
                "tests": [
                    {
                        "vars": {"word": "x"},
                        "assert": [
                            {"type": "equals", "value": "four", "metric": "right"}
                        ],
                    }
                ],
            }
        )
        scores = found("Count {{word}}.", 0)
        assert (scores["right"], scores["input_tokens"], scores["output_tokens"]) == (
            1,
            20,
            2,
        )
        assert "cost" not in scores, "promptfoo knows no price of this model"
        with pytest.raises(asktell.errors.EvaluatorError, match="400"):
            found("Count {{word}}.", 0)
    assert server.requests[0]["messages"][-1]["content"] == "Count x."


@pytest.mark.parametrize("kind", ["javascript", "python"])
def test_an_assertion_that_raises_is_a_failure_and_no_zero(
    kind: str, evaluator: MakeEvaluator
) -> None:
    code = {"javascript": "undefinedName + 1", "python": "undefined_name + 1"}[kind]
    found = evaluator(
        {
            "providers": ["echo"],
            "tests": [
                {"vars": {}, "assert": [{"type": kind, "value": code, "metric": "m"}]}
            ],
        }
    )
    with pytest.raises(asktell.errors.EvaluatorError, match="assertion 'm'"):
        found("Hello", 0)


ECHO: dict[str, Any] = {
    "providers": ["echo"],
    "prompts": ["A {{a}}", "B {{a}}"],
    "tests": [{"vars": {"a": "b"}}],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"providers": ["echo", {"id": "echo", "label": "two"}]}, 'has "echo", "two"'),
        ({"providers": ["nonsense:model"]}, "nonsense"),
        ({"prompts": ["A", "A"]}, "same text"),
        (
            {"prompts": [{"raw": "A", "label": "x"}, {"raw": "B", "label": "x"}]},
            "prompts.*'x'",
        ),
        ({"tests": [{"vars": {"a": "b"}, "prompts": ["A"]}]}, "`prompts`"),
        ({"tests": [{"vars": {"a": "b"}, "provider": "echo"}]}, "`provider`"),
        (
            {"tests": [{"vars": {"a": "b"}, "options": {"storeOutputAs": "c"}}]},
            "storeOutputAs",
        ),
        (
            {
                "tests": [
                    {
                        "vars": {"a": "b"},
                        "assert": [{"type": "select-best", "value": "x"}],
                    }
                ]
            },
            "select-best",
        ),
        ({"tests": [{"vars": {"a": "file://nowhere.txt"}}]}, "nowhere.txt"),
        ({"extensions": ["file://hook.js:beforeAll"]}, "extensions"),
    ],
    ids=lambda value: None if isinstance(value, dict) else value,
)
def test_what_cannot_be_chosen_from_is_refused_at_once(
    change: dict[str, Any], message: str, evaluator: MakeEvaluator
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        evaluator({**ECHO, **change})


def test_what_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node_modules: Path
) -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"no promptfoo config.*promptfooconfig\.yaml"
    ):
        PromptfooEvaluator(tmp_path / "promptfooconfig.yaml")
    assert (
        find_promptfoo(None, node_modules.parent / "src" / "evals")
        == node_modules / "promptfoo"
    )
    command = node_modules / ".bin"
    monkeypatch.setenv("PATH", str(command))
    # The command is a link of npm, which is followed.
    assert find_promptfoo(None, tmp_path) == (node_modules / "promptfoo").resolve()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingExtraError, match="npm install promptfoo"):
        find_promptfoo(None, tmp_path)
    with pytest.raises(MissingExtraError, match="npm install promptfoo"):
        find_promptfoo(tmp_path, tmp_path)
    with pytest.raises(MissingExtraError, match=r"Node\.js"):
        find_node("node-of-no-kind")
