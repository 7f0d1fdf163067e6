"""A Node process that serves one request after another. It stays alive because promptfoo takes seconds to load."""

import contextlib
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, final

from asktell import EvaluatorError, MissingExtraError
from asktell_adapters._util.session import Session

_WORKER = Path(__file__).with_name("worker.mjs")


class WorkerLostError(EvaluatorError):
    """The process died, or was ended because it did not respond in time."""


class RefusedError(EvaluatorError):
    """promptfoo could not fulfill a request. The process is still usable."""


def find_node(node: str | Path) -> str:
    """Return the path of Node.

    Raises:
        MissingExtraError: there is no such command.
    """
    path = shutil.which(node)
    if path is None:
        raise MissingExtraError(
            f"promptfoo needs Node.js 22.22 or newer, but there is no {str(node)!r}. Install it, or pass node=PATH."
        )
    return path


def find_promptfoo(node_modules: str | Path | None, folder: Path) -> Path:
    """Return the folder of the npm package promptfoo.

    It is searched for in `node_modules` if that is given. Otherwise it is searched for
    as Node does, from `folder` upwards, and then through the command `promptfoo`.

    Raises:
        MissingExtraError: promptfoo is not there.
    """
    if node_modules is not None:
        places = [Path(node_modules).absolute()]
    else:
        places = [parent / "node_modules" for parent in (folder, *folder.parents)]
        command = shutil.which("promptfoo")
        if command is not None:  # .../node_modules/promptfoo/dist/src/entrypoint.js
            places += [
                parent.parent
                for parent in Path(command).resolve().parents
                if parent.name == "promptfoo"
            ]
    for place in places:
        if (place / "promptfoo" / "package.json").is_file():
            return place / "promptfoo"
    where = (
        f"{places[0]}"
        if node_modules is not None
        else f"{folder} or above it, and there is no command promptfoo"
    )
    raise MissingExtraError(
        f"promptfoo is not in {where}. Run `npm install promptfoo` with Node 22.22 or newer, because npm installs an "
        "old promptfoo for an older Node. Or pass node_modules=FOLDER."
    )


@final
class NodeWorker:
    """The Node process. The first request starts it, and the first request after a loss starts it again.

    Args:
        node: path of Node.
        promptfoo: folder of the npm package.
        folder: working folder of the process. The config refers to its files relative
            to this folder.
    """

    def __init__(self, node: str, promptfoo: Path, folder: Path) -> None:
        self._command = [node, str(_WORKER), str(promptfoo)]
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self._replies: queue.Queue[str | None] = queue.Queue()
        self._said: deque[str | None] = deque(maxlen=20)
        self._listener = threading.Thread()
        self._asked = 0

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def ask(self, request: Mapping[str, Any], timeout: float) -> Any:
        """Send a request and return the reply to it.

        Raises:
            RefusedError: promptfoo could not fulfill the request.
            WorkerLostError: the process died, or did not respond within `timeout`
                seconds.
        """
        try:
            # Replies carry the number of their request, because a late reply must not
            # be taken for the next.
            self._asked += 1
            return self._answer(
                {"id": self._asked, **request}, time.monotonic() + timeout, timeout
            )
        except RefusedError:
            raise
        except BaseException:
            # Also KeyboardInterrupt: the next request would read the reply to this one.
            self.close()
            raise

    def _answer(
        self, request: Mapping[str, Any], deadline: float, timeout: float
    ) -> Any:
        """Write the request, and wait for the line with its reply."""
        process = (
            self._process
            if self.running and self._process is not None
            else self._start()
        )
        assert process.stdin is not None
        # The process has died. The end of its stdout will show that.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        while True:
            try:
                line = self._replies.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise WorkerLostError(
                    f"promptfoo did not respond within {timeout:g} seconds, and was ended"
                ) from None
            if line is None:
                process.wait()
                # Not forever, because a child process may keep the pipe open.
                self._listener.join(1.0)
                raise WorkerLostError(
                    f"promptfoo's process ended with code {process.returncode}{self._last_words()}"
                )
            try:
                reply = json.loads(line)
            except (ValueError, RecursionError):
                # Other code has printed the line.
                continue
            if not isinstance(reply, dict) or reply.get("id") != request["id"]:
                continue
            if "ok" not in reply:
                raise RefusedError(str(reply.get("error")))
            return reply["ok"]

    def _start(self) -> subprocess.Popen[str]:
        """Start the process, and the threads that read its output."""
        self.close()
        quiet = {
            "PROMPTFOO_DISABLE_TELEMETRY": "1",
            "PROMPTFOO_DISABLE_UPDATE": "1",
            "LOG_LEVEL": "warn",
        }
        # For Python providers and assertions.
        quiet["PROMPTFOO_PYTHON"] = sys.executable
        process = subprocess.Popen(
            self._command,
            cwd=self._folder,
            env={**quiet, **os.environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            # A session of its own, so that close() ends its children too, and Ctrl-C
            # reaches only this process.
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        # New queues for each process, so that no output of the last process is read.
        self._process = process
        self._replies = queue.Queue()
        self._said = deque(maxlen=20)
        threading.Thread(
            target=_read, args=(process.stdout, self._replies.put), daemon=True
        ).start()
        self._listener = threading.Thread(
            target=_read, args=(process.stderr, self._said.append), daemon=True
        )
        self._listener.start()
        return process

    def _last_words(self) -> str:
        """The first line of the recent stderr that has an error, else its last line."""
        lines = [line.strip() for line in list(self._said) if line and line.strip()]
        error = next(
            (line for line in lines if "Error" in line), lines[-1] if lines else ""
        )
        return f": {error:.500}" if error else ""

    def close(self) -> None:
        """End the process and its children. A later request starts another process."""
        process, self._process = self._process, None
        if process is None:
            return
        if hasattr(os, "killpg"):
            Session(process.pid).kill()
        else:
            # Windows has no sessions. taskkill /T ends a process and its
            # children.
            with contextlib.suppress(OSError):
                subprocess.run(
                    ["taskkill", "/F", "/T", "/PID", str(process.pid)],
                    capture_output=True,
                )
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _read(stream: IO[str], take: Callable[[str | None], None]) -> None:
    """Pass every line of the stream to `take`, and None at its end."""
    # The stream was closed while it was read.
    with contextlib.suppress(ValueError, OSError):
        for line in stream:
            take(line)
    take(None)
