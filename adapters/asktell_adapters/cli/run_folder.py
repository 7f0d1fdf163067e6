"""A run on disk: the files of its folder, and its lock.

| file                | what it holds                                                                      |
|---------------------|------------------------------------------------------------------------------------|
| `run.json`          | what the run was started with; another set-up is not mixed into it                 |
| `evaluations.jsonl` | one line per evaluation, as soon as it is made: nothing on disk is evaluated again |
| `state.json`        | `Selector.to_json()`, saved now and then; what it lacks is replayed from the lines |
| `result.json`       | `Result.to_dict()`, once the run has finished                                      |
| `lock`              | held by the process that runs                                                      |
"""

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from asktell.errors import FolderBusyError, InvalidStateError
from asktell.files import write_atomically
from asktell.results import Result
from asktell.selector import Selector
from asktell_adapters.cli.evaluations import MALFORMED, Evaluation, parse, replay

FORMAT, VERSION = "asktell.run", 1
_SECONDS_FOR_LOCK = 0.5  # `asktell status` holds it for a moment


class RunFolder:
    """The output folder of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.setup_file = path / "run.json"
        self.log_file = path / "evaluations.jsonl"
        self.state_file = path / "state.json"
        self.result_file = path / "result.json"
        self.lock_file = path / "lock"

    @property
    def used(self) -> bool:
        """Whether a run has left anything here."""
        return any(file.exists() for file in (self.setup_file, self.log_file, self.state_file))

    # The lock

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder, which is made if missing; the system lets go of it however the process ends.

        Raises:
            FolderBusyError: another process holds it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        handle = _lock(self.lock_file)
        try:
            yield
        finally:
            os.close(handle)

    @property
    def runner(self) -> str | None:
        """The id of the process that runs here, None if none does."""
        try:
            import fcntl

            handle = os.open(self.lock_file, os.O_RDWR)
        except (ImportError, OSError):
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return _owner(handle)
        finally:
            os.close(handle)
        return None

    def set_aside(self) -> Path:
        """Rename the folder to the first free of `NAME.1`, `NAME.2`, ...; its new path."""
        number = 1
        while (target := self.path.with_name(f"{self.path.name}.{number}")).exists():
            number += 1
        self.path.rename(target)
        return target

    # What the run was started with

    def read_setup(self) -> dict[str, Any] | None:
        """What `write_setup` was given; None if there is nothing.

        Raises:
            InvalidStateError: the file is malformed, or of an unknown version.
        """
        if not self.setup_file.exists():
            return None
        data = _read_json(self.setup_file)
        if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("setup"), dict):
            raise InvalidStateError(f"{self.setup_file} is not that of an asktell run.")
        if data.get("version") != VERSION:
            raise InvalidStateError(
                f"{self.setup_file} has version {data.get('version')!r}, this asktell reads {VERSION}; "
                "finish the run with the version that began it."
            )
        return dict(data["setup"])

    def write_setup(self, setup: Mapping[str, Any]) -> None:
        """Keep what the run is started with."""
        data = {"format": FORMAT, "version": VERSION, "setup": setup}
        write_atomically(self.setup_file, json.dumps(data, indent=1) + "\n")

    # The selector

    def load(self, new: Selector | None = None) -> tuple[Selector, list[Evaluation]]:
        """The selector with everything that is on disk, and the evaluations that it had no use for yet.

        `new` stands in where no state was saved yet.

        Raises:
            InvalidStateError: a file is malformed, or nothing was saved and there is no `new`.
        """
        # The lines first: a run that goes on meanwhile adds to both files, and the state must not lag behind.
        evaluations = list(self.evaluations())
        try:
            text = self.state_file.read_text(encoding="utf-8", errors="surrogatepass")
        except FileNotFoundError:
            if new is None:
                raise InvalidStateError(f"There is no run in {str(self.path)!r}: no {self.state_file.name}.") from None
            selector = new
        else:
            try:
                selector = Selector.from_json(text)
            except InvalidStateError as error:
                raise InvalidStateError(
                    f"{self.state_file}: {error} Delete this file to rebuild it from {self.log_file.name}: "
                    "the same `asktell run` does."
                ) from error
        return selector, replay(selector, evaluations)

    def save(self, selector: Selector) -> None:
        """Keep the selector's state."""
        write_atomically(self.state_file, selector.to_json())

    def write_result(self, result: Result) -> None:
        """Keep the result."""
        write_atomically(self.result_file, json.dumps(result.to_dict(), indent=1) + "\n")

    # The evaluations

    def evaluations(self) -> Iterator[Evaluation]:
        """The lines on disk; a last one that was cut off is passed over.

        Raises:
            InvalidStateError: another line is not an evaluation; it is named.
        """
        try:
            data = self.log_file.read_bytes()
        except FileNotFoundError:
            return
        *lines, last = data.split(b"\n")
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    yield parse(line)
                except MALFORMED as error:
                    raise InvalidStateError(
                        f"{self.log_file}, line {number}: not an evaluation ({type(error).__name__}: {error}). "
                        "Repair or remove the line."
                    ) from error
        with contextlib.suppress(*MALFORMED):
            yield parse(last)

    @contextlib.contextmanager
    def appending(self) -> Iterator[int]:
        """A handle of the evaluations, to append whole lines to; a last line that was cut off is removed first."""
        handle = os.open(self.log_file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            data = self.log_file.read_bytes()
            whole, last = data.rfind(b"\n") + 1, data[data.rfind(b"\n") + 1 :]
            if last:
                try:
                    parse(last)
                    os.write(handle, b"\n")
                except MALFORMED:
                    os.ftruncate(handle, whole)
            yield handle
        finally:
            os.close(handle)


def _lock(path: Path) -> int:
    """A handle that holds the lock."""
    deadline = time.monotonic() + _SECONDS_FOR_LOCK
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                os.ftruncate(handle, 0)
                os.write(handle, f"{os.getpid()}\n".encode())
                return handle
        except ImportError:  # no such locks on Windows
            return handle
        except OSError as error:
            if time.monotonic() > deadline:
                owner = _owner(handle)
                os.close(handle)
                raise FolderBusyError(
                    f"Another run (process {owner}) is using {str(path.parent)!r}. Wait for it, stop it, or "
                    "give this one another `output`."
                ) from error
        os.close(handle)
        time.sleep(0.02)


def _owner(handle: int) -> str:
    """The id of the process that holds the lock."""
    return os.pread(handle, 20, 0).decode("ascii", "replace").strip() or "?"


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InvalidStateError(f"{path} is not whole JSON: {error}") from error
