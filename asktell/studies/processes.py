"""Whether the process that holds a lease is gone: known on the machine where it ran, on Linux.

Nobody is called gone unless that is certain: the same boot of the same machine, the same process ids (containers have
their own), and the kernel knows no such process, or one that began at another time. Elsewhere a lease has to run out.
"""

import hashlib
import os
import re
import socket
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

_PROCESS = re.compile(r"([0-9a-f]{16}):([1-9][0-9]{0,9}):([0-9]{1,20})")  # machine, id, and when it began


def this_process() -> str | None:
    """What tells this process from every other one; None where that cannot be known."""
    pid = os.getpid()
    machine, stat = _machine(pid), _stat(pid)
    return None if machine is None or stat is None else f"{machine}:{pid}:{stat[0]}"


def is_process(text: object) -> bool:
    """Whether a text can have come from `this_process`."""
    return isinstance(text, str) and _PROCESS.fullmatch(text) is not None


def is_gone(process: str) -> bool:
    """Whether it is certain that the process has ended."""
    found = _PROCESS.fullmatch(process)
    if found is None or found[1] != _machine(os.getpid()):
        return False
    try:
        os.kill(int(found[2]), 0)  # not by /proc, which may hide the processes of other users
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # it is another user's
        pass
    stat = _stat(int(found[2]))
    return stat is not None and (stat[0] != found[3] or stat[1])


@lru_cache(maxsize=1)
def _machine(pid: int) -> str | None:
    """This boot of this machine with its namespaces, as the process of this id, this one, sees them."""
    try:
        if os.readlink("/proc/self") != str(pid):  # it is mounted from another namespace
            return None
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        spaces = [os.readlink("/proc/self/ns/pid")]
    except (OSError, ValueError):
        return None
    with suppress(OSError):  # kernels before 5.6 have none
        spaces.append(os.readlink("/proc/self/ns/time"))
    return hashlib.sha256("\n".join([boot, socket.gethostname(), *spaces]).encode()).hexdigest()[:16]


def _stat(pid: int) -> tuple[str, bool] | None:
    """When a process began, in ticks since the boot, and whether it has ended and only waits to be reaped."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the name before may hold anything
    state, threads, start = fields[0], fields[17], fields[19]
    return start, state in "ZX" and int(threads) <= 1
