"""The programs in docs/how-to/serve-a-study.md, run as they stand, apart from the port."""

import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from asktell import RemoteStudy
from asktell_adapters.cli.arguments import make_parser

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "serve-a-study.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def run(command: list[str], program: str, url: str) -> str:
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]} on this machine")
    program = program.replace("http://localhost:8000", url)
    process = subprocess.run([*command, program], capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_python(server: Any) -> None:
    output = run([sys.executable, "-c"], "".join(blocks("python")), server.url)
    assert output.count("(final, 12 of 12 evaluations spent") == 2


def test_shell(server: Any) -> None:
    start, with_token, loop = blocks("sh")
    commands: Any = defaultdict(lambda: None)
    for line in (start + with_token).splitlines():
        if line.startswith("asktell "):
            make_parser(commands).parse_args(line.split()[1:])
    if shutil.which("jq") is None or shutil.which("curl") is None:
        pytest.skip("there is no curl, or no jq, on this machine")
    output = run(["bash", "-euc"], "ASKTELL_TOKEN=\n" + loop, server.url)
    assert '"id": "exact"' in output or '"id": "brief"' in output
    with RemoteStudy(server.url, "from a shell") as study:
        assert study.done
        assert study.spent == 12


def test_javascript(server: Any) -> None:
    output = run(["node", "-e"], blocks("js")[0], server.url)
    assert output == "Be very exact.\n"
