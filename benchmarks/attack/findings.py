"""What an attack found, and how to see it again."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple


class BrokenPromiseError(AssertionError):
    """A promise was broken."""


@contextmanager
def promised(what: str) -> Iterator[None]:
    """Something that must not raise.

    Raises:
        BrokenPromiseError: it did.
    """
    try:
        yield
    except BrokenPromiseError:
        raise
    except Exception as error:
        raise BrokenPromiseError(
            f"{what} raised {type(error).__name__}: {error}"
        ) from error


class Finding(NamedTuple):
    """A broken promise, the command that shows it again, and what was seen."""

    what: str
    command: str
    detail: str = ""

    def __str__(self) -> str:
        detail = "".join(f"\n    {line}" for line in self.detail.splitlines())
        return f"FOUND: {self.what}\n    again: {self.command}{detail}"


@dataclass
class Report:
    """How many cases a family of attacks had, and what they found, alike findings once."""

    cases: int = 0
    found: list[Finding] = field(default_factory=list)
    times: dict[str, int] = field(default_factory=dict)

    def is_new(self, what: str) -> bool:
        """Whether nothing alike was found yet; counts it."""
        kind = _kind(what)
        self.times[kind] = self.times.get(kind, 0) + 1
        return self.times[kind] == 1

    def add(self, finding: Finding) -> None:
        """Take a finding."""
        self.found.append(finding)
        print(finding, flush=True)


def our_frames(stacks: str) -> str:
    """Stacks without the frames of other packages."""
    return "\n".join(
        line
        for line in stacks.splitlines()
        if not re.search(r"/lib/python|site-packages|<frozen", line)
    )


def _kind(what: str) -> str:
    """What is found, whatever its numbers and names."""
    return re.sub(r"[\d.]+(e[+-]?\d+)?|'[^']*'", "#", what)[:60]


class Limit(NamedTuple):
    """When a family ends: after so many cases, or so many seconds."""

    seconds: float
    cases: int | None = None

    def numbers(self) -> Iterator[int]:
        """0, 1, ... until then."""
        end = time.monotonic() + self.seconds
        number = 0
        while time.monotonic() < end and (self.cases is None or number < self.cases):
            yield number
            number += 1
