"""What this machine offers: physical cores and a folder for files that can be made again."""

import os
import sys
from pathlib import Path


def physical_cores() -> int:
    """Physical cores that this process may run on; logical ones where the system does not say which belong together."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    usable = os.sched_getaffinity(0)
    siblings = Path("/sys/devices/system/cpu")
    try:
        cores = {(siblings / f"cpu{cpu}/topology/thread_siblings_list").read_text() for cpu in usable}
    except OSError:
        return len(usable)
    return len(cores)


def cache_dir() -> Path:
    """The user's cache folder for asktell: ASKTELL_CACHE if set, else where the system wants it."""
    if chosen := os.environ.get("ASKTELL_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "asktell"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "asktell"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "asktell"
