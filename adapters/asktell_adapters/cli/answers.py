"""`asktell cache`, and what a run says of the answers that it did not have to ask for."""

import argparse
from datetime import datetime
from pathlib import Path

from asktell import InvalidArgumentError, Study
from asktell_adapters.cache import AnswerCache
from asktell_adapters.cli.output import show
from asktell_adapters.cli.places import AnyStudy

_MOST_COUNTED = 100_000


def cache(arguments: argparse.Namespace) -> int:
    answers = _cache_of(arguments.where)
    if arguments.action == "clear":
        size = answers.path.stat().st_size if answers.path.exists() else 0
        count = answers.clear()
        show(f"{answers.path}: {count} answers removed" + (", a damaged file" if size and not count else ""))
        return 0
    info = answers.info()
    show(f"{info.path}: {info.answers} answers, {_megabytes(info.bytes)} of at most {_megabytes(info.max_bytes)}")
    if info.oldest is not None:
        show(f"the oldest of {datetime.fromtimestamp(info.oldest):%Y-%m-%d %H:%M}")
    return 0


def _cache_of(where: Path | None) -> AnswerCache:
    if where is None or where.suffix != ".toml":
        return AnswerCache(where)
    from asktell_adapters.config import load_cache

    found = load_cache(where)
    if found is None:
        raise InvalidArgumentError(f"{where.name} has no table [cache]: its answers are not kept.")
    return found


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def from_cache(study: AnyStudy) -> str | None:
    """How many of a study's evaluations were answered by a cache, in words; None if none was.

    Of a very long study, and of one at a service, they are not counted: all evaluations would have to be read.
    """
    if not isinstance(study, Study) or study.spent > _MOST_COUNTED:
        return None
    count = sum(bool((evaluation.details or {}).get("cached")) for evaluation in study.evaluations())
    return f"{count} of {study.spent} evaluations were answered by the cache, for nothing." if count else None
