"""Checks the files in dist/ as users get them: installed into fresh environments, from another folder.

    check.py extras plot server         # a bare install, then one extra at a time
    check.py pythons 3.11 3.12 3.13     # the tests of the sdist against the wheel, on each Python
    check.py pythons oldest             # the oldest versions of what asktell needs, on the oldest Python

The tests run where the sdist was unpacked, without its asktell/ and adapters/: what
they import is the wheel's.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
UV = Path(sys.executable).with_name("uv")

OLDEST = "3.11"
EXTRAS = "analysis,plot,postgresql,client,server"  # what the tests of the engine use
# Its bounds would raise the engine's own, so the oldest versions of both are never
# together
STRUCTURED = "structured"
TESTS = [
    "methods/test_*.py",
    "methods/rounds/rules",
    "methods/rounds/schedulers",
    "numerics",
    "posterior",
    "proofs",
    "record",
    "results",
    "running",
    "studies",
    "test_*.py",
    "adapters/cli/test_locks.py",
    "adapters/cli/test_process.py",
]


def run(*command: object, cwd: Path, **environment: str) -> None:
    """Run it, seeing nothing of this checkout; its failure ends all."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env={**clean, **environment}
    )
    if done.returncode:
        sys.exit(f"It failed: {' '.join(str(part) for part in command)}")


def find_python(version: str) -> str:
    """An interpreter of that version: on the PATH, or one of pyenv's. The sixth part of a version is no wish: 3.13t."""
    free_threaded, number = version.endswith("t"), version.removesuffix("t")
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    folders = [
        folder
        for folder in pyenv.glob(f"{number}*")
        if folder.name.endswith("t") == free_threaded
    ]
    candidates = [
        shutil.which(f"python{version}"),
        *(str(folder / "bin" / "python") for folder in sorted(folders)),
    ]
    asks = "import sys; print('%d.%d' % sys.version_info[:2] + ('' if getattr(sys, '_is_gil_enabled', int)() else 't'))"
    for python in candidates:
        if python is None:
            continue
        try:
            said = subprocess.run(
                [python, "-c", asks], capture_output=True, text=True
            ).stdout.strip()
        except OSError:
            continue
        if said == version or (
            version == number and said.removesuffix("t") == number and not free_threaded
        ):
            return python
    sys.exit(f"There is no Python {version} here: not on the PATH, not in {pyenv}.")


def environment(folder: Path, python: str, *what: object) -> Path:
    """A fresh environment with these packages; its Python."""
    run(UV, "venv", "--quiet", "--python", python, folder, cwd=folder.parent)
    inside = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    run(UV, "pip", "install", "--quiet", "--python", inside, *what, cwd=folder.parent)
    return inside


def wheel() -> Path:
    found = list((ROOT / "dist").glob("*.whl"))
    if len(found) != 1:
        sys.exit(f"dist/ has {len(found)} wheels, expected one. Run: make dist")
    return found[0]


def check_extras(extras: Sequence[str], folder: Path) -> None:
    locked = ["--constraint", ROOT / "lock.txt"]
    smoke = shutil.copy(HERE / "smoke.py", folder)
    for extra in ("", *extras):
        print(f"== {f'the extra {extra}' if extra else 'a bare install'}", flush=True)
        what = f"asktell[{extra}] @ {wheel().as_uri()}"
        python = environment(
            folder / f"with-{extra or 'nothing'}", sys.executable, what, *locked
        )
        run(python, "-I", smoke, *([extra] if extra else []), cwd=folder)


def check_oldest_structured(folder: Path) -> None:
    print(f"== oldest versions of the extra {STRUCTURED}, Python {OLDEST}", flush=True)
    locked = ["--constraint", HERE / f"oldest-{STRUCTURED}.txt"]
    what = f"asktell[{STRUCTURED}] @ {wheel().as_uri()}"
    python = environment(
        folder / "oldest-structured", find_python(OLDEST), what, *locked
    )
    run(python, "-I", shutil.copy(HERE / "smoke.py", folder), STRUCTURED, cwd=folder)


def check_pythons(
    versions: Sequence[str], folder: Path, tests: Sequence[str] = TESTS
) -> None:
    with tarfile.open(next((ROOT / "dist").glob("*.tar.gz"))) as sdist:
        sdist.extractall(folder, filter="data")
    (sources,) = (path for path in folder.iterdir() if path.is_dir())
    for package in ("asktell", "adapters"):
        shutil.rmtree(sources / package)
    paths = [
        str(path.relative_to(sources))
        for name in tests
        for path in sorted((sources / "tests").glob(name))
    ]
    for version in versions:
        oldest = version == "oldest"
        print(
            f"== {f'oldest versions, Python {OLDEST}' if oldest else f'Python {version}'}",
            flush=True,
        )
        python = environment(
            folder / f"python-{version}",
            find_python(OLDEST if oldest else version),
            f"asktell[{EXTRAS if oldest else f'{EXTRAS},{STRUCTURED}'}] @ {wheel().as_uri()}",
            *["--requirement", HERE / "tests.txt"],
            *(["--constraint", HERE / "oldest.txt"] if oldest else []),
        )
        # Old packages with newer ones below them warn for themselves.
        flags = ["-W", "default", "--skip-missing-extras"] if oldest else []
        pytest = [
            python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--hypothesis-profile=quick",
            "--night=without",
            *flags,
        ]
        run(*pytest, *paths, cwd=sources, OPENBLAS_NUM_THREADS="1")
        if oldest:
            check_oldest_structured(folder)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["extras", "pythons"])
    parser.add_argument("names", nargs="*")
    parser.add_argument(
        "--tests",
        nargs="+",
        default=TESTS,
        help="of these files and folders below tests/ only",
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="asktell-packages-") as folder:
        if arguments.what == "extras":
            check_extras(arguments.names, Path(folder))
        else:
            check_pythons(arguments.names, Path(folder), arguments.tests)


if __name__ == "__main__":
    main()
