"""The command line, run in this process."""

import io
import shlex
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from asktell_adapters.cli.main import main


class Terminal(io.StringIO):
    """Something typed into a terminal."""

    def isatty(self) -> bool:
        return True


class Said(NamedTuple):
    """What a command printed."""

    out: str
    err: str


def cli(line: str, *words: object, code: int = 0) -> Said:
    """Run a command, which ends with this exit code: a line as in a shell, and further words as they are."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        ended = main([*shlex.split(line), *map(str, words)])
    said = Said(out.getvalue(), err.getvalue())
    assert ended == code, said
    return said
