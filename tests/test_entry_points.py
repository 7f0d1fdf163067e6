"""`python -m asktell`, `asktell.__version__`, and what objects say of themselves in a prompt."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import asktell
from asktell import BestFeasible, ParetoSet, Selector
from asktell.studies.storages.memory import MemoryStorage


def module(site: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """`python -m asktell` where the only packages are those in `site`."""
    root = Path(asktell.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(root)])}
    command = [sys.executable, *flags, "-m", "asktell", "one", "two"]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_it_runs_the_command_that_is_installed(tmp_path: Path) -> None:
    installed = tmp_path / "asktell-7.8.9.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: asktell\nVersion: 7.8.9\n"
    )
    (installed / "entry_points.txt").write_text(
        "[console_scripts]\nasktell = the_command:main\n"
    )
    (tmp_path / "the_command.py").write_text(
        "import sys, asktell\ndef main():\n    print(sys.argv[1:], asktell.__version__)\n    return 3\n"
    )
    done = module(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (
        3,
        "['one', 'two'] 7.8.9\n",
        "",
    )


def test_without_one_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.metadata as m; m.entry_points = lambda **_: []"
    )
    done = module(tmp_path)
    assert done.returncode == 2
    assert "the command `asktell` is not installed. Run: pip install" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_version_is_that_of_the_installed_package() -> None:
    from importlib.metadata import version

    assert asktell.__version__ == version("asktell")


@pytest.mark.parametrize("goal", [BestFeasible("a", {"b": 0.5}), ParetoSet("a", "b")])
def test_representations_are_short_whatever_the_prompts_are(
    goal: asktell.problem.goals.Goal,
) -> None:
    selector = Selector(
        [f"{i} " + "long\n" * 1000 for i in range(50)], goal, 100, examples=10
    )
    trials = selector.ask(2)
    selector.tell(trials[0], [1.0, 1.0])
    assert (
        repr(selector)
        == f"<Selector: 50 prompts, {goal}; 1 of 100 evaluations, 1 pending>"
    )
    shown = repr(selector.result())
    assert shown.startswith(f"<Result: {goal}; selected [")
    assert shown.endswith("; 1 of 100 evaluations, so far>")
    assert len(shown) < 200
    with asktell.Study.create(MemoryStorage(), "s", selector) as study:
        assert repr(study) == "<Study 's': 1 of 100 evaluations>"
