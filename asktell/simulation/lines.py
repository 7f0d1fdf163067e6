"""Runs in a file of JSON lines. A run that the file has is not repeated."""

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
    """The lines of a file, none if the file does not exist.

    If a crash left half of a line at the end, this line is removed from the file. A
    file with the suffix `.xz` is only read.
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
    """The lines of a file by key, after running the missing tasks.

    Args:
        path: the file to which new lines are appended. None: no file.
        wanted: the tasks, which are also the keys of their lines.
        key: the key of a line.
        run_all: runs tasks, and yields their lines in any order. None is not a line.
        keep: whether a line of the file counts. By default, every line counts.
        on_progress: called with the numbers of finished and of all missing tasks. By
            default, a progress bar is shown.
    """
    line_of = (
        {}
        if path is None
        else {key(line): line for line in read_lines(path) if keep(line)}
    )
    missing = [task for task in wanted if task not in line_of]
    if not missing:
        return line_of
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    with nullcontext() if path is None else path.open("a") as file:
        for line in _watched(run_all(missing), len(missing), on_progress):
            if line is not None:
                line_of[key(line)] = line
                if file is not None:
                    file.write(json.dumps(line) + "\n")
                    file.flush()
    return line_of


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
