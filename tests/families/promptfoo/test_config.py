"""A configuration that `asktell init` wrote for a promptfoo config, checked and run with promptfoo."""

import io
import json
import shutil
from pathlib import Path

import pytest

from tests.command_line import cli
from tests.words import lacking

DOCS = Path(__file__).parents[3] / "docs"


def test_what_init_writes_is_checked_and_run(
    tmp_path: Path, node_modules: Path, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(DOCS / "examples" / "promptfoo", tmp_path / "example")
    (tmp_path / "example" / "node_modules").symlink_to(node_modules)
    monkeypatch.chdir(tmp_path / "example")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setenv("PATH", f"{Path(node).parent}:/usr/bin:/bin")
    cli("init a.toml --kind promptfoo")
    text = (
        Path("a.toml")
        .read_text()
        .replace(
            'maximize = "score"', 'maximize = "accuracy"\nat_most = { length = 20 }'
        )
    )
    Path("a.toml").write_text(text.replace("budget = 32", "budget = 24"))
    assert "\naccuracy  " in cli("check a.toml").out
    said = cli("run a.toml --no-progress").out
    assert "(final, 24 of 24 evaluations spent" in said
    assert "reasons" not in said.split("\n")[2], "too long"
    cli("status a.toml")


# As one moves an evaluation of OpenAI's: chat prompts, columns below `item`, graders as
# assertions.
MOVED = """\
# yaml-language-server: $schema=https://promptfoo.dev/config-schema.json
description: Ticket triage
tags:
  source: openai-evals
prompts:
  - label: short
    raw: |
      [{"role": "system", "content": "Name the category."}, {"role": "user", "content": "{{ item.ticket }}"}]
  - label: careful
    raw: |
      [{"role": "developer", "content": "Name the category, nothing else."},
       {"role": "user", "content": "Subject: {{item.subject}} {{item.ticket}}"}]
providers:
  - id: openai:responses:gpt-5-mini
    label: gpt-5-mini
    config: { apiBaseUrl: "http://localhost:9/v1", apiKey: none, temperature: 0 }
  - id: echo
    label: echoed
defaultTest:
  assert:
    - { type: icontains, value: "{{item.category}}", metric: category, weight: 2 }
    - { type: javascript, value: "output.length < 200", metric: short }
tests:
  - { description: row 1, vars: { item: { ticket: "A bill, twice.", subject: Bill, category: bill } } }
  - { description: row 2, vars: { item: { ticket: "The app crashes.", subject: Bug, category: bug } } }
  - { description: row 3, vars: { item: { ticket: "A new plan?", subject: Plan, category: plan } } }
evaluateOptions: { maxConcurrency: 4 }
outputPath: results.json
"""


@pytest.fixture
def moved(
    tmp_path: Path, node_modules: Path, node: str, monkeypatch: pytest.MonkeyPatch
) -> Path:
    (tmp_path / "moved").mkdir()
    (tmp_path / "moved" / "evals.yaml").write_text(MOVED)
    (tmp_path / "moved" / "node_modules").symlink_to(node_modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setenv("PATH", f"{Path(node).parent}:/usr/bin:/bin")
    return tmp_path / "moved"


def test_a_moved_evaluation_is_taken_as_it_comes(moved: Path) -> None:
    said = cli("init a.toml --promptfoo moved/evals.yaml", code=2).err
    assert not lacking(said, "provider", "--model", '"gpt-5-mini", "echoed"')
    said = cli("init a.toml --promptfoo moved/evals.yaml --model echoed").out
    assert not lacking(said, "2 prompts", "3 tests")
    assert not lacking(said, "score, success, category, short")
    text = Path("a.toml").read_text()
    assert '\nconfig = "moved/evals.yaml" ' in text
    assert '\nprovider = "echoed"\n' in text
    assert text.count("\nbudget = 6 ") == 1
    Path("a.toml").write_text(
        text.replace('maximize = "score"', 'maximize = "category"')
    )
    said = cli("run a.toml --no-progress").out
    assert "(final, 6 of 6 evaluations spent" in said
    assert "careful" in said.split("prompt\n")[1].split("\n")[0]


def test_an_assertion_that_may_give_any_number_decides_no_mean(moved: Path) -> None:
    counted = MOVED.replace("output.length < 200", "output.length")
    (moved / "evals.yaml").write_text(counted)
    said = cli("init a.toml --promptfoo moved/evals.yaml --model echoed", code=2).err
    assert not lacking(said, "'short'", "code")
    cli("init a.toml --promptfoo moved/evals.yaml --model echoed --maximize score")
    said = cli("check a.toml", code=2).err
    assert not lacking(said, "'short'", "[goal]", "'score'")
    cli(
        "init a.toml --force --promptfoo moved/evals.yaml --model echoed --maximize category"
    )
    assert "category" in cli("check a.toml").out


def test_the_configuration_in_promptfoos_own_export_is_taken(moved: Path) -> None:
    config = {
        "prompts": ["Say {{word}}."],
        "providers": ["echo"],
        "tests": [{"vars": {"word": "yes"}}],
    }
    (moved / "eval.json").write_text(
        json.dumps({"evalId": "eval-1", "config": config, "results": {"version": 3}})
    )
    said = cli("init b.toml --promptfoo moved/eval.json").out
    assert not lacking(said, "only one prompt", "add others")


def test_what_is_no_configuration_is_refused(moved: Path) -> None:
    (moved / "eval_items_run.jsonl").write_text('{"object": "eval.run.output_item"}\n')
    for words, key_words in (
        (
            ["--promptfoo", "moved/eval_items_run.jsonl"],
            ["results of past runs", "OpenAI Evals"],
        ),
        (["--promptfoo", "moved/none.yaml"], ["no promptfoo config", "none.yaml"]),
        (
            ["--promptfoo", "moved/evals.yaml", "--kind", "openai"],
            ["--promptfoo", "--kind promptfoo", "openai"],
        ),
        (
            ["--promptfoo", "moved/evals.yaml", "--model", "a", "--model", "b"],
            ["one --model", "got 2"],
        ),
        (
            ["--promptfoo", "moved/evals.yaml", "--model", "a"],
            ['provider "a"', '"gpt-5-mini", "echoed"'],
        ),
    ):
        assert not lacking(cli("init c.toml", *words, code=2).err, *key_words)
    assert not Path("c.toml").exists()
    (moved / "evals.yaml").write_text(
        MOVED.replace("{{ item.ticket }}", "{{ item.ticket | upper }}")
    )
    said = cli("init c.toml --promptfoo moved/evals.yaml --model echoed", code=2).err
    assert not lacking(said, "prompts_are_code = true", "[evaluator]")
    Path("c.toml").write_text(
        'budget = 6\noutput = "c"\n[evaluator]\ntype = "promptfoo"\nconfig = "moved/evals.yaml"\nprovider = "echoed"\n'
        'prompts_are_code = true\n[goal]\nmaximize = "score"\n'
    )
    assert "\ncategory  1\n" in cli("check c.toml").out
