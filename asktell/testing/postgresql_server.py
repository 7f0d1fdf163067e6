"""A PostgreSQL server of one's own, for tests and benchmarks: in a folder, on a free port of this machine."""

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
    """The folder with `initdb` and `postgres`, None if there is none."""
    folders = sorted(
        glob.glob("/usr/lib/postgresql/*/bin"),
        key=lambda path: float(path.split("/")[-2]),
        reverse=True,
    )
    found = shutil.which("initdb")
    folders += [os.path.dirname(os.path.realpath(found))] if found else []
    return next(
        (Path(folder) for folder in folders if os.access(f"{folder}/initdb", os.X_OK)),
        None,
    )


class Server:
    """A server that runs; `url` leads to its database."""

    def __init__(self, folder: Path, binaries: Path, port: int, options: str) -> None:
        self.url = f"postgresql://asktell@127.0.0.1:{port}/postgres"
        self._data = folder / "data"
        self._binaries = binaries
        self._options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories='' {options}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
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
        """Stop it; "immediate" is as good as a crash."""
        self._run("pg_ctl", "stop", "--wait", "-D", self._data, "-m", mode)

    def make(self) -> None:
        """Make its files."""
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
        # Output goes to a file: a server that inherited a pipe would keep it open.
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
    """A server with its files in a folder, which is made; stopped at the end.

    By the default options it is fast and does not outlive a crash of the machine.
    """
    binaries = find_binaries()
    if binaries is None:
        raise RuntimeError(
            "There is no PostgreSQL server on this machine: apt-get install postgresql"
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
