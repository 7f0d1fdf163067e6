"""All processes of a program that asktell started, to be stopped together."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import NamedTuple, final

# A process that is killed may just have started another one, which the next round ends.
_ROUNDS = 20
_BETWEEN_ROUNDS = 0.001  # seconds, in which the kernel ends a killed process
_MOST_SECONDS_OF_PS = 5.0


class _Process(NamedTuple):
    """A process that has not ended.

    `identity` is its id and its start time, because the system uses ids again.
    """

    identity: tuple[int, str]
    parent: int

    @property
    def pid(self) -> int:
        return self.identity[0]


@final
class Session:
    """The processes of a program that was started in a session of its own.

    A program's child may change its process group, as the children of `timeout` and of
    shells with `set -m` do, so the group of the program does not have all of them. The
    processes are these:

    - all processes of the session, whatever their groups and parents are,
    - all their descendants, which may have sessions of their own.

    A process that has left the session and whose parent has ended is not found. It is a
    daemon.

    Args:
        leader: the id of the program's process, which is the session's, too.
    """

    def __init__(self, leader: int) -> None:
        self._leader = leader
        # They stay known after their parent has ended.
        self._outside: set[tuple[int, str]] = set()

    def signal(self, number: int) -> bool:
        """Send a signal to all processes. The signal 0 does nothing.

        Returns:
            Whether a process was left that may get signals.
        """
        is_left = False
        for pid in self._members():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
                is_left = True
        return is_left

    def kill(self) -> None:
        """Send SIGKILL to all processes, until none is left."""
        for _ in range(_ROUNDS):
            if not self.signal(signal.SIGKILL):
                return
            time.sleep(_BETWEEN_ROUNDS)

    def _members(self) -> set[int]:
        """The ids of the processes that have not ended."""
        # Few system calls, because this is asked after every evaluation
        if not self._outside and (pids := _ids()) is not None:
            pids = [pid for pid in pids if self._has(pid)]
            # The program itself stays a zombie until it has been waited for.
            if not any(map(_linux_process, pids)):
                return set()
        processes = list(_processes())
        inside = {process.pid for process in processes if self._has(process.pid)}
        members = inside | {
            process.pid for process in processes if process.identity in self._outside
        }
        n_before = -1
        while n_before < len(members):
            n_before = len(members)
            members |= {
                process.pid for process in processes if process.parent in members
            }
        self._outside = {
            process.identity for process in processes if process.pid in members - inside
        }
        return members

    def _has(self, pid: int) -> bool:
        """Whether a process is in the session."""
        try:
            return os.getsid(pid) == self._leader
        except OSError:
            return False


def _ids() -> list[int] | None:
    """The ids of all processes, or None if the system has no `/proc`."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()] or None
    except OSError:
        return None


def _processes() -> Iterator[_Process]:
    """All processes that have not ended. None if the system shows none."""
    pids = _ids()
    yield from (
        _macos_processes() if pids is None else filter(None, map(_linux_process, pids))
    )


def _linux_process(pid: int) -> _Process | None:
    """A process of Linux, or None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            # The name of the program is in parentheses, and may have any character.
            state, parent, *fields = stat.read().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    # The start is the 22nd field, and the parent the fourth.
    return None if state in "ZX" else _Process((pid, fields[17]), int(parent))


def _macos_processes() -> Iterator[_Process]:
    """The processes that `ps` lists, on macOS."""
    columns = ("pid", "ppid", "stat", "lstart")
    command = ["ps", "-A", *(word for name in columns for word in ("-o", f"{name}="))]
    try:
        lines = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_MOST_SECONDS_OF_PS,
        ).stdout.splitlines()
    except (OSError, subprocess.TimeoutExpired):
        return
    for line in lines:
        pid, parent, state, born = line.split(maxsplit=3)
        if not state.startswith("Z"):
            yield _Process((int(pid), born), int(parent))
