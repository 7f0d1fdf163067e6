"""Optional packages: named with their extra when missing, and never imported early."""

import subprocess
import sys

import pytest

from asktell._util.extras import check_extra, import_extra, needs_extra
from asktell.errors import MissingExtraError
from asktell_adapters.cli.arguments import GROUPS

NAMES = (
    "",
    ".tables",
    ".evaluators",
    ".llms.gguf",
    ".metrics",
    ".optimizers.writers",
)
MODULES = [f"asktell_adapters{name}" for name in NAMES]
HEAVY = [
    "torch", "transformers", "openai", "litellm", "tenacity", "evaluate", "datasets", "pyarrow", "openpyxl",
    "rouge_score", "xllamacpp", "gguf", "scipy.stats", "pydantic",
]  # fmt: skip


def test_a_missing_package_names_the_extra() -> None:
    with pytest.raises(
        MissingExtraError,
        match=r"No module named 'no_such_x'. Run: pip install 'asktell\[openai\]'",
    ) as caught:
        import_extra("no_such_x", "openai")
    assert caught.value.name == "no_such_x"
    assert isinstance(caught.value, ImportError)


def test_constructors_can_check_without_importing() -> None:
    check_extra("openai", "sys", "wave")
    with pytest.raises(
        MissingExtraError,
        match=r"No module named 'no_such_x'. Run: pip install 'asktell\[openai\]'",
    ):
        check_extra("openai", "sys", "no_such_x")


def test_other_errors_pass_through() -> None:
    with pytest.raises(ValueError, match="other"), needs_extra("openai"):
        raise ValueError("other")


def test_the_help_of_every_command_needs_no_extra() -> None:
    missing = [name for name in HEAVY if not name.startswith("scipy")]
    commands = [command.name for group in GROUPS for command in group.commands]
    code = f"""
import sys
sys.modules.update(dict.fromkeys({missing!r}))
from asktell_adapters.cli.main import main
for command in {commands!r}:
    try:
        main([command, "--help"])
    except SystemExit as end:
        assert end.code == 0, command
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("usage: asktell ") == len(commands) > 20


def test_importing_every_adapter_imports_no_package_behind_it() -> None:
    code = f"import sys; import {', '.join(MODULES)}; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
