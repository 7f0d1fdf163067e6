"""Runs in a file of JSON lines: what is there is not run again."""

import json
import lzma
import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

Line: TypeAlias = dict[str, Any]
OnProgress: TypeAlias = Callable[[int, int], object]
_Key = TypeVar("_Key", bound=Hashable)


def read_lines(path: Path) -> list[Line]:
    """The lines of a file, none if there is no such file; a last line cut short by a crash is cut off.

    A file that ends in `.xz` is read only.
    """
    if not path.exists():
        return []
    if path.suffix == ".xz":
        return [
            json.loads(line)
            for line in lzma.decompress(path.read_bytes()).decode().splitlines()
        ]
    raw = path.read_bytes()
    end = raw.rfind(b"\n") + 1
    if end < len(raw):
        os.truncate(path, end)
    return [json.loads(line) for line in raw[:end].decode().splitlines()]


def known_lines(
    path: Path | None,
    wanted: Sequence[_Key],
    key: Callable[[Line], _Key],
    run_all: Callable[[Sequence[_Key]], Iterable[Line | None]],
    keep: Callable[[Line], bool] = lambda line: True,
    on_progress: OnProgress | None = None,
) -> dict[_Key, Line]:
    """The file's lines by key; those that are wanted and missing are run and appended to it, but for what is None.

    `on_progress` is called with how many are done, and of how many; by default there is
    a progress bar.
    """
    known = (
        {}
        if path is None
        else {key(line): line for line in read_lines(path) if keep(line)}
    )
    missing = [task for task in wanted if task not in known]
    if not missing:
        return known
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    with nullcontext() if path is None else path.open("a") as file:
        for line in _watched(run_all(missing), len(missing), on_progress):
            if line is not None:
                known[key(line)] = line
                if file is not None:
                    file.write(json.dumps(line) + "\n")
                    file.flush()
    return known


def _watched(
    lines: Iterable[Line | None], total: int, on_progress: OnProgress | None
) -> Iterable[Line | None]:
    if on_progress is None:
        from tqdm.auto import tqdm

        yield from tqdm(lines, total=total, unit="run", mininterval=0.5)
        return
    for done, line in enumerate(lines, 1):
        yield line
        on_progress(done, total)
