"""The Python of docs/how-to/bring-your-own.md, with its contracts, run by pytest in a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import asktell

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "bring-your-own.md"


def test_what_the_page_brings_passes_the_contracts(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 7
    program = "\n\n".join(blocks) + (
        "\n\nimport asktell\n\n"
        "def test_a_study_runs_in_it(tmp_path):\n"
        "    selector = asktell.Selector(['a', 'bb'], asktell.BestFeasible('score'), 6, examples=4)\n"
        "    with asktell.Study.create(OneFile(tmp_path / 'studies.json'), 'first try', selector) as study:\n"
        "        evaluate = make_evaluate(lambda prompt, example: len(prompt) + example)\n"
        "        assert asktell.run(study, evaluate, progress=False).selected[0].prompt == 'bb'\n"
    )
    (tmp_path / "test_mine.py").write_text(program)
    command = [sys.executable, "-m", "pytest", "-q", "-o", "asyncio_mode=auto", "-p", "no:cacheprovider", str(tmp_path)]
    paths = [str(Path(asktell.__file__).parents[1]), str(ROOT / "adapters")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 35
