"""A Node process that stays, and answers one request after another: promptfoo takes a second or two to load."""

import contextlib
import json
import logging
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, final

from asktell import EvaluatorError, MissingExtraError

_WORKER = Path(__file__).with_name("worker.mjs")
_log = logging.getLogger("asktell")


class WorkerLostError(EvaluatorError):
    """The process died, or was ended because it did not answer."""


class RefusedError(EvaluatorError):
    """promptfoo could not do what was asked of it; the process is as before."""


def find_node(node: str | Path) -> str:
    """The path of Node."""
    found = shutil.which(node)
    if found is None:
        raise MissingExtraError(
            f"promptfoo needs Node.js 22.22 or newer, but there is no {str(node)!r}. Install it, or give node=PATH."
        )
    return found


def find_promptfoo(node_modules: str | Path | None, folder: Path) -> Path:
    """The folder of the npm package: in `node_modules`, where Node looks from `folder`, or behind the command."""
    if node_modules is not None:
        places = [Path(node_modules).absolute()]
    else:
        places = [parent / "node_modules" for parent in (folder, *folder.parents)]
        command = shutil.which("promptfoo")
        if command is not None:  # .../node_modules/promptfoo/dist/src/entrypoint.js
            places += [parent.parent for parent in Path(command).resolve().parents if parent.name == "promptfoo"]
    for place in places:
        if (place / "promptfoo" / "package.json").is_file():
            return place / "promptfoo"
    where = f"{places[0]}" if node_modules is not None else f"{folder} or above it, nor a command promptfoo"
    raise MissingExtraError(
        f"There is no promptfoo in {where}. Run: npm install promptfoo (with Node 22.22 or newer: to an older one npm "
        "gives an old promptfoo), or give node_modules=FOLDER."
    )


@final
class NodeWorker:
    """The process: started by the first request, and again by the next one after it was lost.

    It runs in `folder`, where the files are that a config names; `promptfoo` is the folder of the npm package.
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
        return self._process is not None and self._process.poll() is None

    def ask(self, request: Mapping[str, Any], timeout: float) -> Any:
        try:
            self._asked += 1
            return self._answer({"id": self._asked, **request}, time.monotonic() + timeout, timeout)
        except RefusedError:
            raise
        except BaseException:  # a KeyboardInterrupt too: the next answer would not be the next request's
            self.close()
            raise

    def _answer(self, request: Mapping[str, Any], deadline: float, timeout: float) -> Any:
        process = self._process if self.running and self._process is not None else self._start()
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has died, as its stdout will say
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        while True:
            try:
                line = self._replies.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise WorkerLostError(f"promptfoo did not answer within {timeout:g} seconds, and was ended") from None
            if line is None:
                process.wait()
                self._listener.join(1.0)  # a child of it may keep the pipe open
                raise WorkerLostError(f"promptfoo's process ended with code {process.returncode}{self._last_words()}")
            try:
                reply = json.loads(line)
            except (ValueError, RecursionError):
                continue  # something else has printed it
            if not isinstance(reply, dict) or reply.get("id") != request["id"]:
                continue
            if "ok" not in reply:
                raise RefusedError(str(reply.get("error")))
            return reply["ok"]

    def _start(self) -> subprocess.Popen[str]:
        self.close()
        quiet = {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1", "LOG_LEVEL": "warn"}
        quiet["PROMPTFOO_PYTHON"] = sys.executable  # for Python providers and assertions
        process = subprocess.Popen(
            self._command,
            cwd=self._folder,
            env={**quiet, **os.environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # what it starts ends with it, and Ctrl-C is ours
        )
        assert process.stdout is not None
        assert process.stderr is not None
        # New ones for each process, so that nothing of the last one is read.
        self._process, self._replies, self._said = process, queue.Queue(), deque(maxlen=20)
        threading.Thread(target=_read, args=(process.stdout, self._replies.put), daemon=True).start()
        self._listener = threading.Thread(target=_read, args=(process.stderr, self._said.append), daemon=True)
        self._listener.start()
        return process

    def _last_words(self) -> str:
        said = [line.strip() for line in list(self._said) if line and line.strip()]
        error = next((line for line in said if "Error" in line), said[-1] if said else "")
        return f": {error:.500}" if error else ""

    def close(self) -> None:
        """End the process and all that it has started. A later request starts another."""
        process, self._process = self._process, None
        if process is None:
            return
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        else:  # Windows has no groups, but a command that follows who started whom
            with contextlib.suppress(OSError):
                subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True)
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _read(stream: IO[str], take: Callable[[str | None], None]) -> None:
    with contextlib.suppress(ValueError, OSError):  # closed meanwhile
        for line in stream:
            take(line)
    take(None)
