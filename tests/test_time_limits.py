"""A test that hangs fails, with the stack of where it hangs: in Python, and in native code that holds the GIL."""

import subprocess
import sys
from pathlib import Path

import pytest

HANGS = {
    "python": "import threading\n\ndef test_hangs():\n    threading.Event().wait()\n",
    "native": """import ctypes

def test_hangs():
    mutex, libc = ctypes.create_string_buffer(64), ctypes.PyDLL(None)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)
""",
}


@pytest.mark.skipif(sys.platform != "linux", reason="a mutex of glibc")
@pytest.mark.parametrize("where", HANGS)
def test_a_test_that_hangs_fails_with_its_stack(
    where: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    assert float(str(pytestconfig.getini("timeout"))) < float(
        str(pytestconfig.getini("faulthandler_timeout"))
    )
    (tmp_path / "test_it.py").write_text(HANGS[where])
    limits = ["--override-ini", "timeout=1", "--override-ini", "faulthandler_timeout=2"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        str(pytestconfig.inipath),
        "-p",
        "no:cacheprovider",
        *limits,
    ]
    done = subprocess.run(
        [*command, "test_it.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert (
        "from pytest-timeout" if where == "python" else "Timeout (0:00:02)!"
    ) in said
    assert "test_hangs" in said
    assert "test_it.py" in said
