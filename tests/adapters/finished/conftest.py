"""Files of results that tests write."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, Any], Path]:
    """Write a file in the current folder: a text as it is, JSON lines for a name that ends so, and otherwise JSON."""
    monkeypatch.chdir(tmp_path)

    def _write(name: str, content: Any) -> Path:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            text = content
        elif name.endswith(".jsonl"):
            text = "".join(json.dumps(row) + "\n" for row in content)
        else:
            text = json.dumps(content)
        path.write_text(text, encoding="utf-8")
        return path

    return _write
