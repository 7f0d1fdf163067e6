"""A program as an evaluator. It reads JSON from standard input, and prints metrics on the last line of its output."""

import asyncio
import contextlib
import itertools
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
from asktell_adapters._util.scores import (
    Scores,
    check_dataset,
    checked_example,
    positive,
)
from asktell_adapters._util.session import Session
from asktell_adapters.llms.base import Example, names_of
from asktell_adapters.llms.meter import Meter
from asktell_adapters.llms.metering import METRICS, Reading

# Bytes kept from the end of standard output, so the longest possible last line
_OUTPUT = 2**20
_ERRORS = 2**14  # bytes kept from the end of standard error
_REASON = 500  # characters from the end of standard error in the message of a failure
_SHOWN = 100  # characters of a malformed last line in the message
# Lines in which a cost is looked for. The event loop waits meanwhile, and an output may
# be a hundred thousand short lines.
_COST_LINES = 1000
# Seconds between checks whether the program has ended, increasing
_FIRST_LOOK, _LAST_LOOK = 0.002, 0.05
# Seconds to wait for output after the program's end, while its children hold the pipe
_LINGER = 1.0
_WITHOUT_METER = Reading(problem="there is no meter")
_E = TypeVar("_E", bound=BaseException)
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


@final
class CommandEvaluator:
    """Starts a program for every evaluation, and reads the scores from its output. It may be an agent or a script.

    ```python
    evaluator = CommandEvaluator(["python", "agent.py"], examples)
    result = asktell.run(selector, evaluator, concurrency=4)
    ```

    **Input.** The program gets one JSON object on its standard input:

    - `prompt`, `prompt_id`: the prompt's text and id.
    - `candidate`: the candidate, as factor -> value. In a selection among prompts, it
      is `{"prompt": ...}`.
    - `example`: the example, as column -> value. If it is an `Example`, the columns are
      its input, its reference (if it has one) and its other columns.
    - `trial`: the number of the evaluation. It is negative if `asktell.run` repeats an
      evaluation to check whether its scores vary.

    **Output.** On the last line of its standard output, the program prints a JSON
    object with its scores, such as `{"accuracy": 1, "cost": 0.02}`. Earlier lines may
    contain anything. The keys of the object are read as follows:

    - A number is the score of the metric with this name. `true` counts as 1, and
      `false` as 0.
    - The number `cost` is a metric, too. It also counts as the money that the
      evaluation cost.
    - The number `seconds` is a metric, too. If the program does not print it, it is the
      time for which the program ran.
    - The text `output` is stored in a study as the response.
    - Other values are ignored.

    **Meter.** With a `meter`, asktell counts the calls of LLMs that the program makes, their
    tokens and their cost, without the help of the program: see `Meter`. A metric that the
    program prints counts instead of the meter's. If the goal or the budget needs a number
    that the meter could not count, the evaluation fails, and the reason explains it.

    **Failures.** The evaluation fails in each of these cases:

    - The exit code is not 0.
    - The program runs for longer than `timeout`.
    - The last line is not a JSON object.

    The reason of the failure contains the end of the program's standard error. The cost
    of a failed evaluation is the last `cost` that the program printed, or else what the
    meter has counted until then. So without a meter, a program that runs for long should
    print a line such as `{"cost": 0.02}` now and then.

    **Stopping.** The program is stopped at the timeout, if its prompt is eliminated, or
    if the run is interrupted. The program, all processes of its session and all
    their descendants get SIGTERM, and SIGKILL after `grace` seconds. A stopped program
    has no scores, whatever it has printed, but its cost counts. If the program has
    already ended by itself when its prompt is eliminated or the run is interrupted, its
    scores count.

    The program runs in its own session. So Ctrl-C reaches only your Python process,
    which then stops the program. When the program ends, processes of its session that
    are still running are stopped in the same way. Two cases cannot be stopped: a daemon,
    which has left the session and whose parent has ended, and all programs if your
    Python process itself is killed by SIGKILL.

    The program is started without a shell, with the environment variables of your
    Python process. This class works on Linux and macOS only.

    Args:
        command: the program and its arguments, as a list of words.
        examples: the dataset. Each example is an `Example`, or a mapping column ->
            value. A trial's `example` is an index into it.
        timeout: largest number of seconds for one evaluation.
        folder: the folder in which the program is started (default: the working
            directory). Relative paths in `command` are paths in this folder.
        grace: seconds between SIGTERM and SIGKILL.
        repeatable: True if the program prints the same scores whenever an evaluation is
            repeated. If False, `asktell.run` may repeat some evaluations to check this
            (see its argument `repeatable`).
        meter: counts the program's calls of LLMs. `close` ends it.

    Raises:
        InvalidArgumentError: an argument is invalid, the program does not exist or may
            not be executed, or the system is neither Linux nor macOS.
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
        meter: Meter | None = None,
    ) -> None:
        if not hasattr(os, "killpg"):
            raise InvalidArgumentError(
                "CommandEvaluator works on Linux and macOS only, because it stops programs by their session. On "
                "Windows, use WSL, or write an evaluator in Python."
            )
        if (
            isinstance(command, str)
            or not command
            or not all(isinstance(word, str) and word for word in command)
        ):
            raise InvalidArgumentError(
                'The command must be a list of words, such as ["python", "agent.py"]. It needs at least one word, and '
                f"no word may be empty. Got {short(command)}."
            )
        if any("\0" in word for word in command):
            raise InvalidArgumentError(
                f"The command has the character NUL, got {short(list(command))}. Remove the character."
            )
        if not examples:
            raise InvalidArgumentError(
                "An evaluator needs at least one example, got none. Pass examples."
            )
        self.command: Final = tuple(command)
        self.examples: Final = tuple(examples)
        self.timeout: Final = positive("timeout", timeout, " of seconds")
        self.grace: Final = positive("grace", grace, " of seconds")
        self.folder: Final = Path(folder or ".")
        self.repeatable: Final = repeatable
        self.meter: Final = meter
        # The metrics of the meter that the goal or the budget needs
        self._needed: tuple[str, ...] = ()
        self._check_program()

    def _check_program(self) -> None:
        """Check that the folder and the program exist.

        Raises:
            InvalidArgumentError: one does not, or the program may not be executed.
        """
        name = self.command[0]
        if not self.folder.is_dir():
            raise InvalidArgumentError(
                f"The program {name!r} cannot start in the folder {str(self.folder)!r}, which does not exist. Create "
                "the folder, or give another."
            )
        place = str(self.folder / name) if os.path.dirname(name) else name
        if shutil.which(place) is None:
            where = (
                f"in {str(self.folder)!r}" if os.path.dirname(name) else "on the PATH"
            )
            raise InvalidArgumentError(
                f"The program {name!r} does not exist {where}, or you may not execute it. Correct its name, or make it "
                "executable."
            )

    def check_selection(self, selection: Any) -> None:
        """Check that a selection has the examples of this evaluator. `asktell.run` calls this before the first program.

        Args:
            selection: a Selector or a Study.

        Raises:
            InvalidArgumentError: the selection has more examples, or they have other
                ids.
        """
        check_dataset(selection, self.examples, names_of)
        needed = {*selection.metrics, *selection.proxies}
        if selection.max_cost is not None:
            needed.add("cost")
        if self.meter is not None:
            self._needed = tuple(name for name in METRICS if name in needed)

    def close(self) -> None:
        """End the meter, if there is one. It starts again with the next evaluation."""
        if self.meter is not None:
            self.meter.end()

    async def __call__(self, trial: Trial) -> Scores:
        """The metrics of one evaluation.

        Raises:
            EvaluatorError: the evaluation failed. If the program had printed a cost, or
                the meter had counted one, the error has it as `cost`.
            asyncio.CancelledError: the evaluation was canceled before the program
                ended. It has the same `cost`.
        """
        request = self.request(trial)
        if self.meter is None:
            return self._scores(await self._started(request, {}), _WITHOUT_METER)
        secret, variables = self.meter.open()
        try:
            ended = await self._started(request, variables)
        finally:
            reading = self.meter.close(secret)
        return self._scores(ended, reading)

    async def _started(self, request: str, variables: Mapping[str, str]) -> "_Ended":
        """Run the program.

        Raises:
            EvaluatorError: it could not be started.
        """
        try:
            return await self._run(request, variables)
        except OSError as error:
            raise EvaluatorError(
                f"the program {self.command[0]!r} could not be started ({error}). Check that it exists and is "
                "executable"
            ) from error

    def _scores(self, ended: "_Ended", reading: Reading) -> Scores:
        """The metrics that the program has printed, and the metrics of the meter.

        Raises:
            EvaluatorError, asyncio.CancelledError: as in a call.
        """
        lines = ended.lines()
        metrics = _metrics(lines[-1]) if lines else None
        if ended.cancelled is not None and ended.code is None:
            raise _with_cost(ended.cancelled, lines, reading)
        if ended.code is None:
            problem = (
                f"the program was stopped at its timeout of {self.timeout:g} seconds"
            )
        elif ended.code != 0:
            problem = f"the program ended with {_ending(ended.code)}"
        elif metrics is None:
            problem = (
                "the last line of the program's output must be a JSON object with the metrics, "
                f"{_instead(ended, lines)}"
            )
        else:
            printed, details = metrics
            scores = {"seconds": ended.seconds, **reading.scores(), **printed}
            lacking = [name for name in self._needed if name not in scores]
            if not lacking:
                return Scores(scores, details)
            why = reading.why_unknown(lacking[0])
            error = EvaluatorError(f"the meter has no {lacking[0]!r}: {why}")
            raise _with_cost(error, lines, reading)
        # A failed evaluation may have cost money. Without it, a budget in money would
        # be exceeded.
        raise _with_cost(EvaluatorError(f"{problem}{ended.reason()}"), lines, reading)

    def request(self, trial: Trial) -> str:
        """The input of the program for a trial, as one line of JSON.

        Args:
            trial: the trial.

        Raises:
            InvalidArgumentError: the trial's example is not an index of the examples.
        """
        row = self.examples[checked_example(trial.example, len(self.examples))]
        if isinstance(row, Example):
            reference = {} if row.reference is None else {"reference": row.reference}
            columns = {row.input_column: row.input, **reference, **row.fields}
        else:
            columns = dict(row)
        data = {
            "prompt": trial.prompt,
            "prompt_id": trial.prompt_id,
            "candidate": trial.candidate or {"prompt": trial.prompt},
            "example": columns,
            "trial": trial.id,
        }
        # json writes plain ASCII. In UTF-8, half a surrogate pair could not be written.
        return json.dumps(data, default=_as_json) + "\n"

    async def _run(self, request: str, variables: Mapping[str, str]) -> "_Ended":
        """Run the program until it ends, its time is over, or this task is canceled.

        Args:
            request: its standard input.
            variables: further environment variables.

        Raises:
            OSError: the program could not be started.
        """
        output, errors = _Tail(_OUTPUT), _Tail(_ERRORS)
        # Not a pipe, which would fill up if the program does not read it
        with tempfile.TemporaryFile() as stdin:
            stdin.write(request.encode())
            stdin.seek(0)
            # All processes of a session can be stopped together.
            process = subprocess.Popen(
                self.command,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.folder,
                env={**os.environ, **variables},
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
                    # Children of the program may still write to the pipes
                    await _closed(output, errors)
            except asyncio.CancelledError as error:
                cancelled = error
                # If it has just ended, its metrics count, because they were paid for
                code = process.poll()
                seconds = time.perf_counter() - start
            finally:
                try:
                    await self._end(process)
                    await _closed(output, errors)
                except asyncio.CancelledError as error:
                    # Every process has been killed by now
                    cancelled = error
        return _Ended(code, seconds, output, errors, cancelled)

    async def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """Stop the processes that are left with SIGTERM, and after a while or if canceled with SIGKILL."""
        session = Session(process.pid)
        is_left = session.signal(signal.SIGTERM)
        until = time.monotonic() + self.grace
        try:
            while is_left and time.monotonic() < until:
                process.poll()
                is_left = session.signal(0)
                await asyncio.sleep(_LAST_LOOK if is_left else 0)
        finally:
            if is_left:
                session.kill()
            # It hangs in a system call
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)


class _Tail(asyncio.Protocol):
    """Keeps the end of an output that may be endless."""

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
    """A program that has ended.

    `code` is its exit code, or None if it was stopped. `cancelled` is the cancellation
    that stopped it, if any.
    """

    code: int | None
    seconds: float
    output: _Tail
    errors: _Tail
    cancelled: asyncio.CancelledError | None

    def lines(self) -> list[bytes]:
        """The lines of the kept output that are not empty."""
        end = self.output.end()
        lines = end.split(b"\n")
        # The first line may be incomplete.
        if self.output.is_cut:
            lines = lines[1:]
        return [line for line in lines if line.strip()]

    def reason(self) -> str:
        """The end of standard error, in words that continue a message."""
        text = _CONTROL.sub("", self.errors.end().decode("utf-8", "replace")).strip()
        if not text:
            return ". Its standard error was empty"
        return f": {text if len(text) <= _REASON else '...' + text[-_REASON:]}"


async def _read(reading: contextlib.AsyncExitStack, pipe: Any, tail: _Tail) -> None:
    """Read a pipe into the tail in the event loop, until the end of the stack."""
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: tail, pipe
    )
    reading.callback(transport.close)


async def _exit_code(process: "subprocess.Popen[bytes]") -> int:
    """Wait for the program to end. Polling works in every thread and event loop, unlike the signal of a child."""
    delay = _FIRST_LOOK
    while (code := process.poll()) is None:
        await asyncio.sleep(delay)
        # Short programs are noticed at once, and long programs cost no CPU time.
        delay = min(1.5 * delay, _LAST_LOOK)
    return code


async def _closed(*tails: _Tail) -> None:
    """Wait until all output has been read, but not for long, since another process may hold the pipe."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER):
            for tail in tails:
                await tail.closed.wait()


def _metrics(line: bytes) -> tuple[dict[str, float], dict[str, Any]] | None:
    """The metrics and the details in a line, or None if the line is not a JSON object."""
    try:
        data = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    numbers = {name: _number(value) for name, value in data.items()}
    scores = {name: number for name, number in numbers.items() if number is not None}
    output = data.get("output")
    return scores, {"output": output} if isinstance(output, str) else {}


def _with_cost(error: _E, lines: Sequence[bytes], reading: Reading) -> _E:
    """Set the error's `cost` to the last cost in the program's lines, or else to the meter's. Return the error."""
    if reading.paid is not None:
        error.cost = reading.paid  # type: ignore[attr-defined]
    candidates = (line for line in reversed(lines) if b"cost" in line)
    for line in itertools.islice(candidates, _COST_LINES):
        metrics = _metrics(line)
        if metrics is not None and "cost" in metrics[0]:
            error.cost = metrics[0]["cost"]  # type: ignore[attr-defined]
            break
    return error


def _number(value: object) -> float | None:
    """A value as a float, or None if it is no number. An integer can be too large for a float."""
    if not isinstance(value, Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _instead(ended: _Ended, lines: Sequence[bytes]) -> str:
    """The end of the message about a last line that is no JSON object."""
    if lines:
        return f"got {one_line(lines[-1].decode('utf-8', 'replace'), _SHOWN)!r}"
    if ended.output.is_cut:
        return f"got a line of more than {_OUTPUT:,} bytes"
    return "but it printed nothing"


def _ending(code: int) -> str:
    """Words for an exit code. A negative code is the number of a signal."""
    if code > 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"the signal {signal.Signals(-code).name}"
    return f"the signal {-code}"


def _as_json(value: object) -> object:
    """Convert a value that JSON does not support: a number of numpy to a number, any other value to text."""
    item = getattr(value, "item", None)
    return item() if callable(item) and getattr(value, "size", 1) == 1 else str(value)
