"""Whatever can be made anew of a study must equal the study as it is, in every bit."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from asktell import Selector, Study
from asktell.studies import export as documents
from asktell.studies.log import LoggedSelector
from asktell.studies.storages import AbstractStorage
from asktell.studies.storages.memory import MemoryStorage
from benchmarks.attack.findings import BrokenPromiseError, promised


def fingerprint(logged: LoggedSelector) -> tuple[Any, ...]:
    """All that a study knows."""
    leases = logged.leases
    return (
        logged.selector.to_json(),
        dict(leases.by_trial.items()),
        dict(leases.reissued.items()),
    )


def current(study: Study) -> LoggedSelector:
    """A handle's logged selector, once it has read everything that was written."""
    assert study.spent >= 0  # which reads it
    return study._replica.logged


def replayed(storage: AbstractStorage, name: str) -> LoggedSelector:
    """A study's log from its first line, without snapshots."""
    key = storage.find(name)
    logged = documents.from_bytes(storage.document(key)).logged()
    for line in storage.read(key, 0):
        logged.replay([line.text], line.position)
    return logged


def check_copies(study: Study, fresh: AbstractStorage) -> None:
    """Whatever is made anew equals the study as it is.

    Args:
        study: any handle.
        fresh: a storage of the same studies, another object.

    Raises:
        BrokenPromiseError: it does not, or cannot be made.
    """
    with promised("reading a study"):
        live = current(study)
    expected = fingerprint(live)

    def import_() -> LoggedSelector:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "export"
            study.export(path)
            return Study.import_(MemoryStorage(), path)._replica.logged

    copies: dict[str, Callable[[], LoggedSelector]] = {
        "the log replayed from scratch": lambda: replayed(fresh, study.name),
        "the study opened anew": lambda: Study.open(fresh, study.name)._replica.logged,
        "the study exported and imported": import_,
    }
    for what, make in copies.items():
        with promised(what):
            copied = fingerprint(make())
        for part, got, wanted in zip(
            ("selector", "leases", "reissued"), copied, expected, strict=True
        ):
            if got != wanted:
                raise BrokenPromiseError(
                    f"{what} is another one: its {part}, {difference(got, wanted)}"
                )
    check_saved(live.selector)


def check_saved(selector: Selector) -> None:
    """Saved and loaded it is the same.

    Raises:
        BrokenPromiseError: it is not, or cannot be loaded.
    """
    text = selector.to_json()
    with promised("the selector saved and loaded"):
        again = Selector.from_json(text).to_json()
    if again != text:
        raise BrokenPromiseError(
            f"the selector saved and loaded is another one: {difference(again, text)}"
        )


def difference(one: object, other: object) -> str:
    """Where two texts, or other values, begin to differ."""
    left, right = str(one), str(other)
    i = next(
        (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b),
        min(len(left), len(right)),
    )
    start = max(0, i - 30)
    return f"...{left[start : i + 50]!r} instead of ...{right[start : i + 50]!r}"
