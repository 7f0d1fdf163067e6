"""Failed evaluations, those that failed in the same way together."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# What differs from evaluation to evaluation: names, numbers.
_PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|[-+]?\d+(\.\d+)?(e[-+]?\d+)?", re.IGNORECASE)
_COMPARED = 300  # characters of a reason


def kind_of(reason: str) -> str:
    """The same text for reasons that differ only in numbers and in what stands in quotes."""
    return _PARTICULAR.sub("#", reason)[:_COMPARED]


@dataclass(frozen=True)
class FailureGroup:
    """Evaluations that failed in the same way.

    `reason`: that of the first of them, `count`: how many, `prompts`: the ids of their prompts.
    """

    reason: str
    count: int
    prompts: list[str | int]


def grouped(failures: Iterable[tuple[str | int, str]]) -> list[FailureGroup]:
    """Prompts' ids and reasons, the most common reason first."""
    found: dict[str, tuple[str, list[str | int]]] = {}
    for prompt, reason in failures:
        found.setdefault(kind_of(reason), (reason, []))[1].append(prompt)
    groups = [FailureGroup(reason, len(ids), list(dict.fromkeys(ids))) for reason, ids in found.values()]
    return sorted(groups, key=lambda group: -group.count)


def in_words(groups: list[FailureGroup], most: int = 3) -> Iterator[str]:
    """A line for each of the most common reasons."""
    total = sum(group.count for group in groups)
    for group in groups[:most]:
        ids = ", ".join(map(str, group.prompts[:5])) + (", ..." if len(group.prompts) > 5 else "")
        yield f"{group.count} of {total} failures ({ids}): {group.reason}"
    if len(groups) > most:
        yield f"... and {len(groups) - most} other reasons"
