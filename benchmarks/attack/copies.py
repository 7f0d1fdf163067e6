"""Whatever can be made anew of a study must equal the study as it is, in every bit."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from asktell import Selector, Study
from asktell.selector import selector_of
from asktell.studies import export as documents
from asktell.studies import log
from asktell.studies.leases import Leases
from asktell.studies.storages import AbstractStorage
from asktell.studies.storages.memory import MemoryStorage
from benchmarks.attack.findings import BrokenPromiseError, promised


def fingerprint(selector: Selector, leases: Leases) -> tuple[Any, ...]:
    """All that a study knows."""
    return (
        selector.to_json(),
        dict(leases.by_trial.items()),
        dict(leases.reissued.items()),
    )


def current(study: Study) -> tuple[Any, ...]:
    """The fingerprint of a handle, once it has read everything that was written."""
    assert study.spent >= 0  # which reads it
    return fingerprint(study._replica.selector, study._replica.leases)


def replayed(storage: AbstractStorage, name: str) -> tuple[Any, ...]:
    """The fingerprint of a study's log from its first line, without snapshots."""
    key = storage.find(name)
    engine = documents.from_bytes(storage.document(key)).engine()
    lines = [line.text for line in storage.read(key, 0)]
    state, leases, _ = log.replayed(engine, Leases(), lines, 1)
    return fingerprint(selector_of(engine.at(state)), leases)


def check_copies(study: Study, fresh: AbstractStorage) -> None:
    """Whatever is made anew equals the study as it is.

    Args:
        study: any handle.
        fresh: a storage of the same studies, another object.

    Raises:
        BrokenPromiseError: it does not, or cannot be made.
    """
    with promised("reading a study"):
        expected = current(study)

    def import_() -> tuple[Any, ...]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "export"
            study.export(path)
            return current(Study.import_(MemoryStorage(), path))

    copies: dict[str, Callable[[], tuple[Any, ...]]] = {
        "the log replayed from scratch": lambda: replayed(fresh, study.name),
        "the study opened anew": lambda: current(Study.open(fresh, study.name)),
        "the study exported and imported": import_,
    }
    for what, make in copies.items():
        with promised(what):
            copied = make()
        for part, got, wanted in zip(
            ("selector", "leases", "reissued"), copied, expected, strict=True
        ):
            if got != wanted:
                raise BrokenPromiseError(
                    f"{what} is another one: its {part}, {difference(got, wanted)}"
                )
    check_saved(study._replica.selector)


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
