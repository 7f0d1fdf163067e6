"""promptfoo as npm installed it beside this environment, and configs for it."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from asktell_adapters.harnesses.promptfoo import PromptfooEvaluator

MakeEvaluator = Callable[..., PromptfooEvaluator]

# A provider that does as its table says, with the prompt and the test's `i`: answers,
# or fails in some way.
PROVIDER = """
const fs = require('node:fs');
const { execSync } = require('node:child_process');
const table = JSON.parse(fs.readFileSync(`${__dirname}/table.json`, 'utf8'));
module.exports = class {
  id() { return 'scripted'; }
  async callApi(prompt, { vars }) {
    fs.appendFileSync(`${__dirname}/calls`, `${prompt}|${vars.i}\\n`);
    const outcome = table[`${prompt}|${vars.i}`];
    if (outcome === 'raises') throw new Error('the provider raised');
    if (outcome === 'times out') await new Promise(() => {});
    if (outcome === 'blocks') for (;;);
    if (outcome === 'dies') process.exit(7);
    if (outcome === 'fails') return { error: 'the provider failed', cost: 0.5 };
    if (outcome === 'prints') {
      console.log('{"id": 1, "ok": []}');
      execSync('printf half', { stdio: 'inherit' });
    }
    return { output: String(outcome), tokenUsage: { total: 5, prompt: 3, completion: 2 }, cost: 0.25 };
  }
};
"""
ASSERTION = """
module.exports = (output) => {
  const score = output === 'no score' ? {} : { quality: output === 'nan' ? NaN : Number(output) };
  return { pass: true, score: 1, reason: '', namedScores: score };
};
"""


@pytest.fixture(scope="session")
def node_modules() -> Path:
    folder = Path(
        os.environ.get("PROMPTFOO_NODE_MODULES", Path(sys.prefix) / "node_modules")
    )
    if not (folder / "promptfoo").is_dir():
        pytest.skip(f"promptfoo is not installed in {folder}")
    return folder


@pytest.fixture(scope="session")
def node() -> str:
    beside = Path(sys.prefix) / "bin" / "node"
    found = str(beside) if beside.exists() else shutil.which("node")
    if found is None:
        pytest.skip("Node is not installed")
    return found


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where promptfoo keeps its own database."""
    monkeypatch.setenv("PROMPTFOO_CONFIG_DIR", str(tmp_path / "home"))
    for name in ("PROMPTFOO_DISABLE_TELEMETRY", "PROMPTFOO_DISABLE_UPDATE"):
        monkeypatch.setenv(name, "1")
    return tmp_path / "home"


@pytest.fixture
def evaluator(node_modules: Path, node: str) -> Iterator[MakeEvaluator]:
    made: list[PromptfooEvaluator] = []

    def make(config: Path | Mapping[str, Any], **options: Any) -> PromptfooEvaluator:
        made.append(
            PromptfooEvaluator(config, node_modules=node_modules, node=node, **options)
        )
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def scripted(
    tmp_path: Path, evaluator: MakeEvaluator
) -> Callable[..., PromptfooEvaluator]:
    """An evaluator of four tests, over a provider that does as a table of "prompt|test" says."""
    import json

    def make(
        table: Mapping[str, object], prompts: Sequence[str] = (), **options: Any
    ) -> PromptfooEvaluator:
        (tmp_path / "provider.cjs").write_text(PROVIDER)
        (tmp_path / "assertion.cjs").write_text(ASSERTION)
        (tmp_path / "table.json").write_text(json.dumps(table))
        config: dict[str, Any] = {
            "providers": ["file://provider.cjs"],
            "defaultTest": {
                "assert": [{"type": "javascript", "value": "file://assertion.cjs"}]
            },
            "tests": [{"vars": {"i": i}} for i in range(4)],
        }
        if prompts:
            config["prompts"] = [{"raw": text, "label": text} for text in prompts]
        (tmp_path / "promptfooconfig.json").write_text(json.dumps(config))
        return evaluator(tmp_path / "promptfooconfig.json", **options)

    return make
