"""The Python of docs/how-to/run-on-a-cluster.md runs; that for Ray in tests/families/ray."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from asktell.cli_arguments import make_parser

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "run-on-a-cluster.md").read_text()
RAY, DASK, SUBMITIT = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def names() -> dict[str, Any]:
    """With the factory of the first block, "as above"."""
    (factory,) = (node for node in ast.parse(RAY).body if isinstance(node, ast.FunctionDef))
    names: dict[str, Any] = {"__name__": "__main__"}  # so that it is sent by value, as from a script
    exec(ast.unparse(factory), names)
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


def test_submitit(
    names: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("submitit")
    monkeypatch.chdir(tmp_path)
    exec(SUBMITIT, names)
    assert "(final, 40 of 40 evaluations spent" in capsys.readouterr().out
    assert len(list((tmp_path / "jobs").glob("*_result.pkl"))) == 2


def test_commands_and_links() -> None:
    commands = dict.fromkeys(["run", "status", "result", "studies", "watch", "export", "import", "serve"])
    (serve,) = re.findall(r"^asktell (serve .*)$", PAGE, re.MULTILINE)
    make_parser(commands).parse_args(serve.split())  # type: ignore[arg-type]
    for link in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (ROOT / "docs" / "how-to" / link).exists(), link
