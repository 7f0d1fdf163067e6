"""What stands in a prompt, or in an example, is never run by promptfoo unless that was asked for."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell.errors import InvalidArgumentError
from asktell_adapters.harnesses.promptfoo import PromptfooEvaluator

MakeEvaluator = Callable[..., PromptfooEvaluator]

# A provider that writes down what it is sent.
PROVIDER = """
const fs = require('node:fs');
module.exports = class {
  id() { return 'listening'; }
  async callApi(prompt) {
    fs.appendFileSync(`${__dirname}/sent`, JSON.stringify(prompt) + '\\n');
    return { output: 'x' };
  }
};
"""
CODE = "{{ range.constructor(\"process.getBuiltinModule('fs').writeFileSync('ran', '')\")() }}"
SPELLINGS = [
    CODE,
    "{% set f = range.constructor %}" + CODE.replace("range.constructor", "f"),
    "{% for i in [1] %}" + CODE + "{% endfor %}",
    "{% raw %}{% endraw %}" + CODE + "{% raw %}{% endraw %}",
    "{% endraw %}" + CODE,
    "{{{{ '' }}" + CODE,
    "{#" + CODE + "#}{{ cycler.constructor() }}",
    "{{'{{'}}" + CODE[2:],
    "#} %} }} {% {{ {#",
    "{" * 5 + CODE[2:],
]


@pytest.fixture
def listening(
    tmp_path: Path, evaluator: MakeEvaluator
) -> Callable[..., PromptfooEvaluator]:
    def make(
        *, prompts: Any = (), tests: Any = ({"vars": {"word": "w"}},), **options: Any
    ) -> PromptfooEvaluator:
        (tmp_path / "provider.cjs").write_text(PROVIDER)
        config = {
            "providers": ["file://provider.cjs"],
            "prompts": list(prompts),
            "tests": list(tests),
        }
        (tmp_path / "promptfooconfig.json").write_text(json.dumps(config))
        return evaluator(tmp_path / "promptfooconfig.json", **options)

    return make


def sent(folder: Path) -> list[str]:
    return [json.loads(line) for line in (folder / "sent").read_text().splitlines()]


def test_prompts_are_sent_as_they_are(listening: MakeEvaluator, tmp_path: Path) -> None:
    prompts = [
        *SPELLINGS,
        "{{ env.PATH }}",
        "{{ env['PATH'] }}",
        "langfuse://x",
        "portkey://x",
    ]
    chats = [json.dumps([{"role": "user", "content": prompt}]) for prompt in prompts]
    given = [*prompts, *(f"{prompt} {{{{word}}}}" for prompt in prompts), *chats]
    found = listening()
    found.evaluate_batch(
        [asktell.Trial(number, number, text, 0) for number, text in enumerate(given)]
    )
    texts = sent(tmp_path)
    read = [
        json.loads(text)[0]["content"] if text.startswith("[") else text
        for text in texts
    ]
    assert sorted(read) == sorted(
        [*prompts, *(f"{prompt} w" for prompt in prompts), *prompts]
    )
    assert not (tmp_path / "ran").exists()


def test_examples_are_sent_as_they_are(
    listening: MakeEvaluator, tmp_path: Path
) -> None:
    values = [*SPELLINGS, "{{ env.PATH }}"]
    found = listening(
        prompts=["Say {{word}}."],
        tests=[{"vars": {"word": value, "other": value}} for value in values],
    )
    prompts = ["Say {{word}}.", '[{"role": "user", "content": "{{word}}"}]']
    pairs = [(prompt, test) for prompt in prompts for test in range(len(values))]
    found.evaluate_batch(
        [asktell.Trial(number, number, *pair) for number, pair in enumerate(pairs)]
    )
    texts = sent(tmp_path)
    assert sorted(text for text in texts if text.startswith("Say")) == sorted(
        f"Say {value}." for value in values
    )
    chats = [
        json.loads(text)[0]["content"] for text in texts if not text.startswith("Say")
    ]
    assert sorted(chats) == sorted(values)
    assert not (tmp_path / "ran").exists()


def test_variables_are_filled_in_as_promptfoo_does(
    listening: MakeEvaluator, tmp_path: Path
) -> None:
    (tmp_path / "long.txt").write_text("from a file\n")
    values = {
        "a": "1",
        "list": [[1, 2]],
        "deep": {"key": {"of": "d"}},
        "of_a": "<{{a}}>",
        "quote": '"',
        "n": 3,
    }
    options = {"prefix": "[{{n}}] ", "suffix": "!"}
    tests = [
        {"vars": {**values, "file": "file://long.txt"}},
        {"vars": values, "options": options},
    ]
    prompts = [
        "{{a}} {{ a }} {{deep.key.of}} {{of_a}} {{missing}} {{deep.missing.of}} {a} {{n}} }} {",
        '[{"role": "user", "content": "{{quote}}"}, 1, null]',
        "{{file}}",
        "{{a.constructor}}{{deep.constructor.name}}{{deep.__proto__}}",
    ]
    data, code = listening(tests=tests), listening(tests=tests, prompts_are_code=True)
    for prompt in prompts:
        data(prompt, 0)
        code(prompt, 0)
    by_us, by_promptfoo = sent(tmp_path)[::2], sent(tmp_path)[1::2]
    assert by_us[:3] == by_promptfoo[:3]
    assert by_us[0] == "1 1 d <1>   {a} 3 }} {"
    assert by_us[3] == ""
    data("a {{a}}", 1)
    code("a {{a}}", 1)
    assert sent(tmp_path)[-2:] == ["[3] a 1!"] * 2


def test_a_function_of_the_config_makes_text_and_no_template(
    listening: MakeEvaluator, tmp_path: Path
) -> None:
    (tmp_path / "function.cjs").write_text(
        "module.exports = { text: ({ vars }) => `made of ${vars.word}`, "
        "chat: ({ vars }) => [{ role: 'user', content: vars.word }], "
        "config: ({ vars }) => ({ prompt: vars.word, config: { temperature: 0 } }) };"
    )
    prompts = [f"file://function.cjs:{name}" for name in ("text", "chat", "config")]
    found = listening(prompts=prompts, tests=[{"vars": {"word": CODE}}])
    for prompt in found.prompts.values():
        found(prompt, 0)
    text, chat, config = sent(tmp_path)
    assert (text, config) == (f"made of {CODE}", CODE)
    assert json.loads(chat) == [{"role": "user", "content": CODE}]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompts": ["Say {{word | upper}}"]}, "upper"),
        ({"prompts": ["{% if word %}a{% endif %}"]}, "if word"),
        ({"prompts": ["{# a note #}{{word}}"]}, "a note"),
        ({"prompts": ["{{ env.PATH }}"]}, "env.PATH"),
        ({"prompts": [{"raw": "langfuse://a:1", "label": "theirs"}]}, "langfuse://"),
        (
            {"tests": [{"vars": {"a": "b"}, "options": {"prefix": "{{a | upper}}"}}]},
            "a prefix has",
        ),
        ({"tests": [{"vars": {"a": "file://var.cjs"}}]}, "var.cjs"),
        ({"tests": [{"vars": {"a": ["b", "file://var.py"]}}]}, "var.py"),
        ({"tests": [{"vars": {"a": "file://*"}}]}, "file://\\*"),
        ({"tests": [{"vars": {"a": "package:x:y"}}]}, "package:x:y"),
    ],
    ids=str,
)
def test_a_config_that_needs_code_is_refused_with_the_cure(
    change: dict[str, Any], message: str, listening: MakeEvaluator, tmp_path: Path
) -> None:
    (tmp_path / "var.cjs").write_text("require('node:fs').writeFileSync('ran', '');")
    with pytest.raises(InvalidArgumentError, match=f"{message}.*prompts_are_code=True"):
        listening(**change)
    assert not (tmp_path / "ran").exists()


def test_the_whole_language_when_it_is_asked_for(
    listening: MakeEvaluator, tmp_path: Path
) -> None:
    (tmp_path / "var.cjs").write_text(
        "module.exports = (name) => ({ output: `made as ${name}` });"
    )
    tests = [{"vars": {"word": "w", "made": "file://var.cjs"}}]
    found = listening(prompts=["{{word | upper}}"], tests=tests, prompts_are_code=True)
    for prompt in ("{{word | upper}}", "{% if word %}{{made}}{% endif %}"):
        found(prompt, 0)
    assert sent(tmp_path) == ["W", "made as made"]
