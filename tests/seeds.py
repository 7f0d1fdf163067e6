"""Seeds of the tests that count how often something is right."""

from collections.abc import Callable
from typing import TypeAlias

Seeds: TypeAlias = Callable[[int], range]
"""What the fixture `seeds` is. A test that takes it calls `seeds(n)`, with the number of seeds that it has at night."""


def every(n: int) -> range:
    """All seeds: at night, after a change that a test reaches, and before a release."""
    return range(n)


def half(n: int) -> range:
    """Every test runs so: a mistake that changes a count shows in half the plays, too."""
    return range((n + 1) // 2)
