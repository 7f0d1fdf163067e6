"""`asktell serve` in a process of its own, which shows its stacks and its memory."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

WRITE, READ = "write-token-0123456789", "read-token-9876543210"
_SERVE = (
    "import faulthandler, signal, sys; faulthandler.register(signal.SIGUSR1); "
    "from asktell_adapters.cli.main import main; sys.exit(main(['serve', *sys.argv[1:]]))"
)
_SECONDS_TO_END = 45.0  # the service gives running requests 30


class Service:
    """A service on a free port of this machine, with tokens or without; used in a `with` block."""

    def __init__(
        self, url: str, folder: Path, *arguments: str, tokens: bool = True
    ) -> None:
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("ASKTELL_")
        }
        if tokens:
            environment |= {"ASKTELL_TOKEN": WRITE, "ASKTELL_READ_TOKEN": READ}
        self._log = folder / "service.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVE, url, "--port", "0", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
            )
        assert self._process.stdout is not None
        match = re.search(r"http://127\.0\.0\.1:(\d+)", self._process.stdout.readline())
        if match is None:
            self._process.wait()
            raise RuntimeError(f"The service did not start: {self._log.read_text()}")
        self.url = match[0]
        self.port = int(match[1])

    def __enter__(self) -> "Service":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def stacks(self) -> str:
        """What its threads are doing."""
        size = self._log.stat().st_size
        self._process.send_signal(signal.SIGUSR1)
        time.sleep(1)
        return self._log.read_bytes()[size:].decode(errors="replace")

    def peak(self) -> int:
        """The most memory that it ever held, in bytes."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        match = re.search(r"VmHWM:\s*(\d+) kB", status)
        assert match is not None
        return 1024 * int(match[1])

    def stop(self) -> int | None:
        """End it as an administrator would; its exit code, None if it does not end."""
        self._process.terminate()
        try:
            return self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            return None
