"""A PostgreSQL server for tests and benchmarks, with its files in a folder, on a free port of this machine."""

import contextlib
import glob
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_USERS = ("postgres", "nobody")  # the server refuses to run as root


def find_binaries() -> Path | None:
    """The folder with `initdb` and `postgres`. None if PostgreSQL is not installed."""
    folders = sorted(
        glob.glob("/usr/lib/postgresql/*/bin"),
        key=lambda path: float(path.split("/")[-2]),
        reverse=True,
    )
    initdb = shutil.which("initdb")
    folders += [os.path.dirname(os.path.realpath(initdb))] if initdb else []
    return next(
        (Path(folder) for folder in folders if os.access(f"{folder}/initdb", os.X_OK)),
        None,
    )


class Server:
    """A PostgreSQL server.

    Attributes:
        url: the address of its database.
    """

    def __init__(self, folder: Path, binaries: Path, port: int, options: str) -> None:
        self.url = f"postgresql://asktell@127.0.0.1:{port}/postgres"
        self._data = folder / "data"
        self._binaries = binaries
        self._options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories='' {options}"

    def start(self) -> None:
        """Start the server, and wait until it responds."""
        self._run(
            "pg_ctl",
            "start",
            "--wait",
            "-D",
            self._data,
            "-l",
            self._data / "log",
            "-o",
            self._options,
        )

    def stop(self, mode: str = "fast") -> None:
        """Stop the server. The mode "immediate" is like a crash."""
        self._run("pg_ctl", "stop", "--wait", "-D", self._data, "-m", mode)

    def make(self) -> None:
        """Create the files of the server."""
        self._run(
            "initdb",
            "-D",
            self._data,
            "-U",
            "asktell",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-locale",
            "--no-sync",
        )

    def _run(self, name: str, *arguments: object) -> None:
        command = [str(self._binaries / name), *map(str, arguments)]
        if os.geteuid() == 0:
            user = _user()
            command = [
                "setpriv",
                f"--reuid={user.pw_uid}",
                f"--regid={user.pw_gid}",
                "--clear-groups",
                *command,
            ]
        # Output goes to a file, because a server that inherited a pipe would keep it open
        with open(self._data.parent / "output", "ab") as output:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/"
            )
        if done.returncode:
            raise RuntimeError(
                f"{name} failed: {(self._data.parent / 'output').read_text()[-2000:]}"
            )


@contextlib.contextmanager
def postgresql_server(folder: Path, options: str = "-c fsync=off") -> Iterator[Server]:
    """A running server, which is stopped at the end. Its folder is created.

    With the default options, the server is fast, but does not survive a crash of the
    machine.
    """
    binaries = find_binaries()
    if binaries is None:
        raise RuntimeError(
            "PostgreSQL is not installed on this machine. Run: apt-get install postgresql"
        )
    folder.mkdir(mode=0o755)
    if os.geteuid() == 0:
        shutil.chown(folder, _user().pw_uid)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Server(folder, binaries, port, options)
    server.make()
    server.start()
    try:
        yield server
    finally:
        with contextlib.suppress(RuntimeError):
            server.stop("immediate")


def _user() -> Any:
    import pwd  # which Windows lacks

    return next(user for user in pwd.getpwall() if user.pw_name in _USERS)
