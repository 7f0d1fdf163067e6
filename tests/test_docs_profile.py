"""The Python of docs/how-to/learn-from-earlier-studies.md runs, from top to bottom; its commands are such."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell_adapters.cli.arguments import make_parser
from asktell_adapters.config.tables import KEYS

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "learn-from-earlier-studies.md"


def test_the_python_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    def evaluate(prompt: str, example: int) -> dict[str, float]:
        return {"accuracy": float((len(prompt) * (example + 3)) % (2 + example % 5) == 0)}

    names: dict[str, Any] = {
        "asktell": asktell,
        "dataset": [{"id": f"row {i}"} for i in range(40)],
        "old_prompts": [10 * "x" + i * "y" for i in range(12)],
        "new_prompts": [20 * "z" + i * "y" for i in range(12)],
        "goal": asktell.BestFeasible("accuracy"),
        "evaluate": evaluate,
    }
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block.replace("=500", "=120").replace("=150", "=40"), str(PAGE), "exec"), names)
    assert names["february"].spent == 40
    assert names["whole"].studies == 2
    assert len(capsys.readouterr().out.splitlines()) == 10


def test_the_commands_and_the_table_are_such() -> None:
    text = PAGE.read_text()
    (command,) = re.findall(r"```bash\nasktell (.*?)\n```", text, re.DOTALL)
    assert make_parser(dict.fromkeys(_commands(), lambda _: 0)).parse_args(command.split()).runs == [
        "runs/january",
        "runs/february",
    ]
    (table,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert set(tomllib.loads(table)["profile"]) == set(KEYS["profile"])


def _commands() -> list[str]:
    from asktell_adapters.cli.main import _COMMANDS

    return list(_COMMANDS)
