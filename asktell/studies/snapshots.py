"""A study's state as bytes, so that opening it need not fold its whole log.

The state grows by rows, failures and decisions, which are only ever appended. So a snapshot is a `head`, which replaces
the last one and holds what changes, and a `part`, which is added to those before it and holds what was appended since.
Making one costs no more than what is new, whatever the length of the history. Both are JSON, compressed; columns of
numbers in it are base64 of their little-endian bytes.

A snapshot is a cache. One that is of another version, damaged, or made of another log is ignored, and the log is
replayed.
"""

import base64
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from msgspec import structs

from asktell import serialization
from asktell.errors import InvalidStateError
from asktell.numerics.intmap import IntMap
from asktell.serialization import Saved, SavedFailures, SavedRows, SavedState
from asktell.state import Problem, State
from asktell.state.events import Index
from asktell.studies.leases import Leases, Reissue, Time

VERSION = 1
_BYTES = 8  # of a column's item in memory
_FREE_COLUMNS = 2**26  # bytes of the head's, however well they compress: a plan of millions of pulls does

Pack: TypeAlias = Callable[[Any], list[str]]


class Covered(NamedTuple):
    """The numbers of rows, decisions, failures and parts that a snapshot holds."""

    rows: Index = 0
    decisions: Index = 0
    failures: Index = 0
    parts: Index = 0


class SavedLeases(Saved, frozen=True, kw_only=True):
    """The trials that each worker holds with their deadlines, and what is known of trials handed out again."""

    paused: Time | None = None
    held: tuple[tuple[str, tuple[tuple[Index, Time], ...]], ...] = ()
    reissued: tuple[tuple[Index, Index, str | None], ...] = ()


class _Head(Saved, frozen=True, kw_only=True):
    """The head. `line`: checksum of the last line of the log that is in it."""

    version: int
    covered: Covered
    line: Index
    state: SavedState  # without its rows
    leases: SavedLeases = SavedLeases()


_WHAT = "The study's snapshot"
_HEAD = serialization.Decoder[_Head](_WHAT, _Head)
_PART = serialization.Decoder[SavedRows](_WHAT, SavedRows)


def dump(state: State, leases: Leases, covered: Covered, line: str) -> tuple[bytes, bytes]:
    """The head, and the part that follows those that cover as much as `covered`; `line` is the log's last one."""
    n_parts = covered.parts + 1

    def head(pack: Pack) -> _Head:
        return _Head(
            version=VERSION,
            covered=Covered(len(state.history), len(state.decisions), len(state.failures), n_parts),
            line=_checksum(line),
            state=serialization.dump_rest(state, pack),
            leases=_dump_leases(leases),
        )

    def part(pack: Pack) -> SavedRows:
        return serialization.dump_rows(state, *covered[:3], pack=pack)

    return _compress(head, _FREE_COLUMNS), _compress(part)


def is_newer(head: bytes) -> bool:
    """True if a newer asktell made a head, which saves snapshots for itself."""
    try:
        version = serialization.parse(serialization.decompress(head, _WHAT), _WHAT).get("version")
    except InvalidStateError:
        return False
    return type(version) is int and version > VERSION


@serialization.checked(_WHAT)
def read_covered(head: bytes, line: str) -> Covered:
    """The numbers that the parts of a head cover; `line` and errors as for `load`."""
    return _read(head, line).covered


@serialization.checked(_WHAT)
def load(head: bytes, parts: Sequence[bytes], problem: Problem, line: str) -> tuple[State, Leases]:
    """The state and leases that were dumped; `problem` as known before the first pull, `line` as for `dump`.

    Raises:
        InvalidStateError: the snapshot is of another version, damaged, or made of another log.
    """
    found = _read(head, line)
    unpack = _Columns(head, *parts).unpack
    loaded = [_PART.decode(serialization.decompress(part, _WHAT)) for part in parts]

    def joined(columns: Sequence[Any]) -> Any:
        return np.concatenate([unpack(column) for column in columns])

    failures = [part.failures for part in loaded]
    trials = joined([part.trials for part in loaded])
    rows = SavedRows(
        trials=trials,
        arms=joined([part.arms for part in loaded]),
        examples=joined([part.examples for part in loaded]),
        scores=joined([part.scores for part in loaded]).reshape(len(trials), len(problem.goal.columns)).astype(float),
        decisions=tuple(item for part in loaded for item in part.decisions),
        failures=SavedFailures(
            trials=joined([each.trials for each in failures]),
            arms=joined([each.arms for each in failures]),
            examples=joined([each.examples for each in failures]),
            reasons=tuple(reason for each in failures for reason in each.reasons),
        ),
    )
    covered = Covered(len(trials), len(rows.decisions), len(rows.failures.reasons), len(loaded))
    if found.covered != covered:
        raise InvalidStateError(f"{_WHAT} has {covered}, and says {found.covered}.")
    plan_arms, plan_examples = found.state.plan
    rest = structs.replace(
        found.state, plan=(unpack(plan_arms), unpack(plan_examples)), draws=unpack(found.state.draws)
    )
    state = serialization.load_state(serialization.with_rows(rest, rows), problem)
    return state, _load_leases(found.leases, state)


def _read(head: bytes, line: str) -> _Head:
    found = _HEAD.decode(serialization.decompress(head, _WHAT))
    if found.version != VERSION:
        raise InvalidStateError(f"{_WHAT} has version {found.version}; this asktell reads {VERSION}.")
    if found.line != _checksum(line):
        raise InvalidStateError(f"{_WHAT} was made of another log.")
    return found


def _checksum(line: str) -> int:
    return zlib.crc32(line.encode("ascii", "replace"))


def _dump_leases(leases: Leases) -> SavedLeases:
    return SavedLeases(
        paused=leases.paused,
        held=tuple(
            (worker, tuple((trial, leases.by_trial[trial].deadline) for trial in leases.held(worker)))
            for worker in sorted(leases.by_worker)
        ),
        reissued=tuple((trial, *reissue) for trial, reissue in sorted(leases.reissued.items())),
    )


def _load_leases(saved: SavedLeases, state: State) -> Leases:
    leases = Leases(paused=saved.paused)
    for worker, held in saved.held:
        together: dict[float, list[int]] = {}
        for trial, end in held:
            together.setdefault(end, []).append(trial)
        for end, trials in together.items():
            leases = leases.with_lease(worker, end, tuple(trials))
    if not all(trial in state.pending for trial in leases.by_trial):
        raise InvalidStateError(f"{_WHAT} has leases on trials that are not pending.")
    return leases._replace(
        reissued=IntMap({trial: Reissue(expired, teller) for trial, expired, teller in saved.reissued})
    )


def _compress(make: Callable[[Pack], Saved], free: int = 0) -> bytes:
    """What `make` makes, with the columns that it packs, as JSON; its text and `_Columns` are read again.

    What compresses too well for that, as a million equal scores do, is left as it is.
    """
    for level in (1, 0):
        columns: list[Any] = []

        def pack(column: Any, columns: list[Any] = columns, level: int = level) -> list[str]:
            columns.append(column)
            return _pack(column, level)

        text = serialization.encode(make(pack)).encode("ascii")
        data = zlib.compress(text, level)
        n_bytes = _BYTES * sum(np.size(column) for column in columns)
        most = serialization.most_bytes(len(data))
        if len(text) <= most and n_bytes <= most + free:
            break
    return data


def _pack(column: Any, level: int) -> list[str]:
    """Whole numbers in as few bytes as they need, or floats."""
    array = np.asarray(column) if len(column) else np.zeros(0, dtype=np.int8)
    if array.dtype.kind == "i":
        array = array.astype(np.result_type(*map(np.min_scalar_type, (array.min(initial=-1), array.max(initial=0)))))
    kind = f"<{array.dtype.kind}{array.dtype.itemsize}"
    return [kind, base64.b64encode(zlib.compress(array.astype(kind).tobytes(), level)).decode("ascii")]


class _Columns:
    """Unpacks the columns of one snapshot, which together may take so much memory, however they are compressed."""

    def __init__(self, head: bytes, *parts: bytes) -> None:
        self._left = _FREE_COLUMNS + sum(serialization.most_bytes(len(part)) for part in (head, *parts))

    def unpack(self, packed: Any) -> Any:
        """The column that `_pack` packed."""
        kind, text = packed
        if kind not in ("<i1", "<i2", "<i4", "<i8", "<f8"):
            raise InvalidStateError(f"{str(kind)[:20]!r} is no kind of number.")
        dtype = np.dtype(kind)
        most = self._left // _BYTES * dtype.itemsize
        array = np.frombuffer(serialization.decompress(base64.b64decode(text), "A column", most), dtype=dtype)
        self._left -= _BYTES * len(array)
        return array.astype(np.float64 if kind == "<f8" else np.int64)
