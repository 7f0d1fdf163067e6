"""A configuration that `asktell init` wrote for a promptfoo config, checked and run with promptfoo."""

import io
import shutil
from pathlib import Path
from typing import Any

import pytest

from asktell_adapters.cli.main import main

DOCS = Path(__file__).parents[3] / "docs"


def test_what_init_writes_is_checked_and_run(
    tmp_path: Path, node_modules: Path, node: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    shutil.copytree(DOCS / "examples" / "promptfoo", tmp_path / "example")
    (tmp_path / "example" / "node_modules").symlink_to(node_modules)
    monkeypatch.chdir(tmp_path / "example")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setenv("PATH", f"{Path(node).parent}:/usr/bin:/bin")
    assert main(["init", "a.toml", "--kind", "promptfoo"]) == 0
    text = Path("a.toml").read_text().replace('maximize = "score"', 'maximize = "accuracy"\nat_most = { length = 20 }')
    Path("a.toml").write_text(text.replace("budget = 32", "budget = 24"))
    assert main(["check", "a.toml"]) == 0
    assert "\naccuracy  " in capsys.readouterr().out
    assert main(["run", "a.toml", "--no-progress"]) == 0
    said = capsys.readouterr().out
    assert "(final, 24 of 24 evaluations spent" in said
    assert "reasons" not in said.split("\n")[2], "too long"
    assert main(["status", "a.toml"]) == 0
