"""The Python of docs/how-to/run-on-a-cluster.md runs; that for Ray in tests/families/ray."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from asktell_adapters.cli.arguments import make_parser

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "how-to" / "run-on-a-cluster.md").read_text()
RAY, DASK, SUBMITIT = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def factory() -> str:
    """That of the first block, "as above"."""
    (found,) = (node for node in ast.parse(RAY).body if isinstance(node, ast.FunctionDef))
    return ast.unparse(found)


@pytest.fixture
def names(factory: str) -> dict[str, Any]:
    """With the factory in it."""
    names: dict[str, Any] = {"__name__": "__main__"}  # so that it is sent by value, as from a script
    exec(factory, names)
    return names


def test_dask(names: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    distributed = pytest.importorskip("distributed")
    local = distributed.LocalCluster
    monkeypatch.setattr(
        distributed, "LocalCluster", lambda **options: local(dashboard_address=":0", silence_logs=50, **options)
    )
    try:
        exec(DASK, names)
    finally:
        names["client"].close()
        names["cluster"].close()
    assert "(final, 40 of 40 evaluations spent" in capsys.readouterr().out


def test_submitit(factory: str, tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    program = [sys.executable, "-c", f"{factory}\n{SUBMITIT}"]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "(final, 40 of 40 evaluations spent" in done.stdout, done.stderr
    assert len(list((tmp_path / "jobs").glob("*_result.pkl"))) == 2


def test_commands_and_links() -> None:
    commands: Any = defaultdict(lambda: None)
    (serve,) = re.findall(r"^asktell (serve .*)$", PAGE, re.MULTILINE)
    make_parser(commands).parse_args(serve.split())
    for link in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (ROOT / "docs" / "how-to" / link).exists(), link
