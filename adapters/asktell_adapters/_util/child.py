"""A process of Python that takes orders from this process on its standard input, and replies on its standard output."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress


def start_child(
    words: Sequence[str],
    environment: Mapping[str, str],
    *,
    in_own_session: bool = False,
) -> "subprocess.Popen[bytes]":
    """Start the process.

    Args:
        words: what Python runs: a file, or `-m` and a module.
        environment: its environment variables.
        in_own_session: whether signals of the terminal, such as that of Ctrl-C, do not
            reach it.
    """
    # -P keeps the script's folder off the search path, because modules in it have the
    # names of packages. Without buffers, a forked process can close the pipes without
    # waiting for a lock.
    return subprocess.Popen(
        [sys.executable, "-P", *words],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=in_own_session,
    )


def end_child(process: "subprocess.Popen[bytes]", owner: int) -> None:
    """Kill the process, and wait at most 5 seconds for its end. In a forked process, only close the pipes.

    Args:
        process: the process.
        owner: the id of the process that started it.
    """
    is_owner = os.getpid() == owner
    if is_owner:
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(5.0)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    if not is_owner:
        # Otherwise Popen would wait for a process that is not its child
        process.returncode = 0
