"""Any program as an evaluator: JSON on its standard input, metrics on the last line of its standard output."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, final

from asktell import EvaluatorError, InvalidArgumentError, Trial
from asktell.extend import one_line, short
from asktell_adapters._scores import Scores, checked_example, positive
from asktell_adapters.llms.base import Example

_OUTPUT = 2**20  # bytes of the end of standard output that are kept: the longest last line
_ERRORS = 2**14  # the same of standard error
_REASON = 500  # characters of the end of standard error that a failure shows
_SHOWN = 100  # characters of a line that is no JSON object
_FIRST_LOOK, _LAST_LOOK = 0.002, 0.05  # seconds between two looks whether the program has ended: few, then more
_LINGER = 1.0  # seconds for what the program has written to arrive after its end, while its children hold the pipe
_E = TypeVar("_E", bound=BaseException)
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


@final
class CommandEvaluator:
    """Starts a program for every evaluation and reads its metrics: an agent, a script in any language.

    The program gets one JSON object on its standard input, which then ends:

    - `prompt`, `prompt_id`: the prompt's text and id;
    - `candidate`: factor -> value; of a selection among prompts, `{"prompt": ...}`;
    - `example`: the row, column -> value; of an `Example`, its input, `reference` and other columns;
    - `trial`: the number of the evaluation; of one that is repeated to see whether scores differ, a negative number.

    It prints its metrics as a JSON object on the last line of its standard output: numbers, and true and false as 1 and
    0. It may print such lines earlier, too, and whatever else; the last line counts. `cost` is also what the evaluation
    has cost, and where `seconds` is missing, it is measured. The text `output` is kept as the answer. All other values
    are ignored.

    An exit code other than 0, a timeout, or a last line that is no JSON object is the failure of that evaluation. Its
    reason is the end of standard error, and the last `cost` printed so far counts as spent: a program that takes long
    prints a line now and then.

    The program is started without a shell, with this process's environment, in a session of its own: Ctrl-C does not
    reach it. After a timeout, if its prompt was eliminated meanwhile, if the run is interrupted, and for children that
    are left when it ends, its process group gets SIGTERM, and SIGKILL after `grace` seconds. A child that starts a
    session of its own has left that group. Linux and macOS only.

    A program that is stopped has no scores, whatever it has printed, but for its cost. One that had ended by then has.
    """

    def __init__(
        self,
        command: Sequence[str],
        examples: Sequence[Example | Mapping[str, Any]],
        *,
        timeout: float = 600.0,
        folder: str | Path | None = None,
        grace: float = 5.0,
        repeatable: bool = False,
    ) -> None:
        """An evaluator of the rows of `examples`.

        Args:
            command: the program and its arguments.
            examples: the rows; a trial's example is an index of them.
            timeout: seconds that an evaluation may take.
            folder: where the program is started, by default the working directory. Relative paths in `command` are
                looked up there.
            grace: seconds between SIGTERM and SIGKILL.
            repeatable: whether the program gives the same metrics when an evaluation is repeated, so that none is
                repeated to find that out.

        Raises:
            InvalidArgumentError: an argument cannot be used, there is no such program, or this is not Linux or macOS.
        """
        if not hasattr(os, "killpg"):
            raise InvalidArgumentError(
                "A command is evaluated on Linux and macOS only, as programs and their children are ended by process "
                "group. On Windows use WSL, or an evaluator in Python."
            )
        if isinstance(command, str) or not command or not all(isinstance(word, str) and word for word in command):
            raise InvalidArgumentError(
                f'A command is a list of words, as ["python", "agent.py"], since it is not run by a shell; got '
                f"{short(command)}."
            )
        if any("\0" in word for word in command):
            raise InvalidArgumentError(f"A command cannot hold the character NUL, got {short(list(command))}.")
        if not examples:
            raise InvalidArgumentError("An evaluator needs at least one example, got none.")
        self.command: Final = tuple(command)
        self.examples: Final = tuple(examples)
        self.timeout: Final = positive("timeout", timeout, " of seconds")
        self.grace: Final = positive("grace", grace, " of seconds")
        self.folder: Final = Path(folder or ".")
        self.repeatable: Final = repeatable
        self._check_program()

    def _check_program(self) -> None:
        name = self.command[0]
        if not self.folder.is_dir():
            raise InvalidArgumentError(f"There is no folder {str(self.folder)!r} to start {name!r} in.")
        place = str(self.folder / name) if os.path.dirname(name) else name
        if shutil.which(place) is None:
            where = f"in {str(self.folder)!r}" if os.path.dirname(name) else "on the PATH"
            raise InvalidArgumentError(f"There is no program {name!r} {where}, or it may not be executed.")

    async def __call__(self, trial: Trial) -> Scores:
        """The metrics of one evaluation.

        Raises:
            EvaluatorError: it failed; where the program had printed a cost, the error has it as `cost`.
            asyncio.CancelledError: it was cancelled before the program had ended; with the same `cost`.
        """
        try:
            ended = await self._run(self.request(trial))
        except OSError as error:
            raise EvaluatorError(f"the program {self.command[0]!r} could not be started: {error}") from error
        lines = ended.lines()
        found = _metrics(lines[-1]) if lines else None
        if ended.cancelled is not None and ended.code is None:
            raise _with_cost(ended.cancelled, lines)
        if ended.code is None:
            problem = f"the program was ended after {self.timeout:g} seconds, its timeout"
        elif ended.code != 0:
            problem = f"the program ended with {_ending(ended.code)}"
        elif found is None:
            problem = f"the last line of its output must be a JSON object with the metrics, {_instead(ended, lines)}"
        else:
            scores, details = found
            return Scores({"seconds": ended.seconds, **scores}, details)
        raise _with_cost(EvaluatorError(f"{problem}{ended.reason()}"), lines)

    def request(self, trial: Trial) -> str:
        """What the program reads: a line of JSON."""
        row = self.examples[checked_example(trial.example, len(self.examples))]
        data = {
            "prompt": trial.prompt,
            "prompt_id": trial.prompt_id,
            "candidate": trial.candidate or {"prompt": trial.prompt},
            "example": _row_of(row) if isinstance(row, Example) else dict(row),
            "trial": trial.id,
        }
        return json.dumps(data, default=_as_json) + "\n"  # plain ASCII: half a surrogate pair is no UTF-8

    async def _run(self, request: str) -> "_Ended":
        output, errors = _Tail(_OUTPUT), _Tail(_ERRORS)
        with tempfile.TemporaryFile() as given:  # a pipe would fill up where a program does not read
            given.write(request.encode())
            given.seek(0)
            process = subprocess.Popen(
                self.command,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.folder,
                start_new_session=True,
            )
        start, code, seconds = time.perf_counter(), None, self.timeout
        cancelled: asyncio.CancelledError | None = None
        async with contextlib.AsyncExitStack() as pipes:
            try:
                await _read(pipes, process.stdout, output)
                await _read(pipes, process.stderr, errors)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.timeout):
                        code = await _exit_code(process)
                    seconds = time.perf_counter() - start
                    await _closed(output, errors)  # which children of the program may still write to
            except asyncio.CancelledError as error:
                cancelled = error
                code = process.poll()  # it may have ended at this very moment, and what it printed was paid for
                seconds = time.perf_counter() - start
            finally:
                try:
                    await self._end(process)
                    await _closed(output, errors)
                except asyncio.CancelledError as error:  # by then every process was killed
                    cancelled = error
        return _Ended(code, seconds, output, errors, cancelled)

    async def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """End what is left of the process group: with SIGTERM, and with SIGKILL after a while or if cancelled."""
        is_left = _signal(process, signal.SIGTERM)
        until = time.monotonic() + self.grace
        try:
            while is_left and time.monotonic() < until:
                process.poll()  # its parent, this process, has to take note of its end
                is_left = _signal(process, 0)
                await asyncio.sleep(_LAST_LOOK if is_left else 0)
        finally:
            if is_left:
                _signal(process, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs in the system
                process.wait(1.0)


class _Tail(asyncio.Protocol):
    """The end of what may be endless."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept = bytearray()
        self._n_cut = 0
        self.closed = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self._kept += data
        if len(self._kept) > 2 * self._size:
            self._cut()

    def connection_lost(self, error: Exception | None) -> None:
        self.closed.set()

    def _cut(self) -> None:
        if (n := len(self._kept) - self._size) > 0:
            del self._kept[:n]
            self._n_cut += n

    @property
    def is_cut(self) -> bool:
        return self._n_cut > 0

    def end(self) -> bytes:
        self._cut()
        return bytes(self._kept)


class _Ended(NamedTuple):
    """A program that has ended, with its exit code, or None where it was ended; by `cancelled` if it was cancelled."""

    code: int | None
    seconds: float
    output: _Tail
    errors: _Tail
    cancelled: asyncio.CancelledError | None

    def lines(self) -> list[bytes]:
        """The last lines of its output that are not empty; the first of those that were kept may be half of one."""
        end = self.output.end()
        lines = end.split(b"\n")
        return [line for line in lines[1 if self.output.is_cut else 0 :] if line.strip()]

    def reason(self) -> str:
        """The end of standard error, after a colon; empty where there is nothing."""
        text = _CONTROL.sub("", self.errors.end().decode("utf-8", "replace")).strip()
        if not text:
            return "; it wrote nothing to standard error"
        return f": {text if len(text) <= _REASON else '...' + text[-_REASON:]}"


async def _read(reading: contextlib.AsyncExitStack, pipe: Any, tail: _Tail) -> None:
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: tail, pipe)
    reading.callback(transport.close)


async def _exit_code(process: "subprocess.Popen[bytes]") -> int:
    delay = _FIRST_LOOK
    while (code := process.poll()) is None:
        await asyncio.sleep(delay)
        delay = min(1.5 * delay, _LAST_LOOK)
    return code


async def _closed(*tails: _Tail) -> None:
    """Wait until all that was written has been read, or for a moment where another process holds a pipe."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER):
            for tail in tails:
                await tail.closed.wait()


def _signal(process: "subprocess.Popen[bytes]", number: int) -> bool:
    """Send a signal to the program's process group; False if nobody is left in it."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):  # the latter on macOS, where only zombies are left
        return False
    return True


def _metrics(line: bytes) -> tuple[dict[str, float], dict[str, Any]] | None:
    """The numbers in a JSON object, and what is kept beside them; None if the line is none."""
    try:
        data = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    scores = {name: number for name, value in data.items() if (number := _number(value)) is not None}
    output = data.get("output")
    return scores, {"output": output} if isinstance(output, str) else {}


def _with_cost(error: _E, lines: Sequence[bytes]) -> _E:
    """The error, with the last cost in the program's lines as its `cost`, if there is one."""
    found = (_metrics(line) for line in reversed(lines))
    costs = (each[0]["cost"] for each in found if each is not None and "cost" in each[0])
    cost = next(costs, None)
    if cost is not None:
        error.cost = cost  # type: ignore[attr-defined]
    return error


def _number(value: object) -> float | None:
    if not isinstance(value, Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _instead(ended: _Ended, lines: Sequence[bytes]) -> str:
    if lines:
        return f"got {one_line(lines[-1].decode('utf-8', 'replace'), _SHOWN)!r}"
    if ended.output.is_cut:
        return f"got a line of more than {_OUTPUT:,} bytes"
    return "but it printed nothing"


def _ending(code: int) -> str:
    if code > 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"the signal {signal.Signals(-code).name}"
    return f"the signal {-code}"


def _row_of(example: Example) -> dict[str, Any]:
    reference = {} if example.reference is None else {"reference": example.reference}
    return {example.input_column: example.input, **reference, **example.fields}


def _as_json(value: object) -> object:
    """What JSON has no form for, such as a date or a number of numpy."""
    item = getattr(value, "item", None)
    return item() if callable(item) and getattr(value, "size", 1) == 1 else str(value)
