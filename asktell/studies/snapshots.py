"""Snapshots: the state of a study as bytes, so that opening the study need not apply its whole log.

The largest parts of a state (rows, failures and decisions) only grow at their end. So a
snapshot consists of a head and several parts. The head holds everything else, and
replaces the last head. A part holds the rows, failures and decisions that were appended
since the last snapshot, and is added to the earlier parts. So the cost of a snapshot
does not grow with the length of the history.

Heads and parts are compressed JSON. Columns of numbers in it are little-endian bytes in
base64.

A snapshot is a cache. If it has another version, is damaged, or belongs to another log,
it is ignored and the log is applied from its beginning.
"""

import base64
import zlib
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from msgspec import structs

from asktell.errors import InvalidStateError
from asktell.numerics.intmap import IntMap
from asktell.problem import formats
from asktell.problem.checks import MalformedError
from asktell.problem.problem import Problem
from asktell.record import State, events
from asktell.record.facet import Saved
from asktell.record.saved import SavedRows, SavedState
from asktell.studies.leases import Lease, Leases, Time

VERSION = 1
_BYTES = 8  # size of a column's item in memory
# Bytes that the columns of a head may have in memory, however well they compress. A
# plan of millions of evaluations compresses to very little.
_FREE_COLUMNS = 2**26

Pack: TypeAlias = Callable[[Any], list[str]]


class Covered(NamedTuple):
    """The numbers of rows, decisions, failures, parts and scores of proxies that a snapshot holds."""

    rows: events.Index = 0
    decisions: events.Index = 0
    failures: events.Index = 0
    parts: events.Index = 0
    proxies: events.Index = 0


class SavedLeases(Saved, frozen=True, kw_only=True):
    """Leases as JSON.

    Attributes:
        paused: the time of the pause, None if the study is not paused.
        held: for each worker, its name and its trials, each with the fields of its
            `Lease` after the worker.
        instances: for each worker, its name and its latest instances.
        reissued: for each trial that was handed out again, its number, how many leases
            expired, and the teller.
    """

    paused: Time | None = None
    held: tuple[tuple[str, tuple[tuple[events.Index, Time, Time, Time], ...]], ...] = ()
    instances: tuple[tuple[str, tuple[str, ...]], ...] = ()
    reissued: tuple[tuple[events.Index, events.Index, str | None], ...] = ()


class _Head(Saved, frozen=True, kw_only=True):
    """The head. `line` is the checksum of the last line of the log that the snapshot includes."""

    version: int
    covered: Covered
    line: events.Index
    state: SavedState  # without its rows
    leases: SavedLeases = SavedLeases()


_WHAT = "The study's snapshot"
_HEAD = formats.Decoder[_Head](_Head)
_PART = formats.Decoder[SavedRows](SavedRows)


def dump(
    state: State, leases: Leases, covered: Covered, line: str
) -> tuple[bytes, bytes]:
    """Make a head and the next part.

    Args:
        state: the state to save.
        leases: the leases to save.
        covered: the numbers of rows and so on in the earlier parts.
        line: the last line of the log.
    """
    n_parts = covered.parts + 1

    def head(pack: Pack) -> _Head:
        return _Head(
            version=VERSION,
            covered=Covered(
                len(state.history),
                len(state.decisions),
                len(state.failures),
                n_parts,
                len(state.proxies),
            ),
            line=_checksum(line),
            state=SavedState.of_rest(state, pack),
            leases=_dump_leases(leases),
        )

    def part(pack: Pack) -> SavedRows:
        return SavedRows.of(state, *covered[:3], covered.proxies, pack=pack)

    return _compress(head, _FREE_COLUMNS), _compress(part)


def is_newer(head: bytes) -> bool:
    """True if a newer version of asktell made a head. An older one must not replace its snapshots."""
    try:
        version = formats.parse(formats.decompress(head, _WHAT), _WHAT).get("version")
    except InvalidStateError:
        return False
    return type(version) is int and version > VERSION


@formats.checked(_WHAT)
def read_covered(head: bytes, line: str) -> Covered:
    """Return the numbers of rows and so on in the parts of a head. `line` and errors are as for `load`."""
    return _read(head, line).covered


@formats.checked(_WHAT)
def load(
    head: bytes, parts: Sequence[bytes], problem: Problem, line: str
) -> tuple[State, Leases]:
    """Return the state and leases of a snapshot.

    Args:
        head: the last head.
        parts: all parts, oldest first.
        problem: the problem at the beginning of the study.
        line: the line of the log at the snapshot's position.

    Raises:
        InvalidStateError: the snapshot has another version, is damaged, or belongs to
            another log.
    """
    saved = _read(head, line)
    unpack = _Columns(head, *parts).unpack
    decoded = [_PART.decode(formats.decompress(part, _WHAT)) for part in parts]
    rows = _joined(decoded, unpack)
    shape = len(rows.trials), len(problem.goal.columns)
    rows = structs.replace(rows, scores=np.reshape(rows.scores, shape))
    covered = Covered(
        len(rows.trials),
        len(rows.decisions),
        len(rows.failures.reasons),
        len(parts),
        len(rows.proxies.arms),
    )
    if saved.covered != covered:
        raise MalformedError(
            f"Its parts contain {covered._asdict()}, but its head (a summary) states {saved.covered._asdict()}."
        )
    plan_arms, plan_examples = saved.state.plan
    rest = structs.replace(
        saved.state,
        plan=(unpack(plan_arms), unpack(plan_examples)),
        draws=unpack(saved.state.draws),
    )
    state = rest.with_rows(rows).load(problem)
    return state, _load_leases(saved.leases, state)


def _joined(parts: Sequence[Any], unpack: Callable[[Any], Any]) -> Any:
    """Return what the parts have together, oldest first: a record with unpacked columns, a column, or a tuple."""
    first = parts[0]
    if isinstance(first, Saved):
        fields = {
            name: _joined([getattr(part, name) for part in parts], unpack)
            for name in first.__struct_fields__
        }
        return structs.replace(first, **fields)
    # A part without scores of proxies has an empty tuple for each of their columns
    columns = [unpack(part) for part in parts if isinstance(part, list)]
    return np.concatenate(columns) if columns else tuple(chain(*parts))


def _read(head: bytes, line: str) -> _Head:
    saved = _HEAD.decode(formats.decompress(head, _WHAT))
    if saved.version != VERSION:
        raise MalformedError(
            f"It has version {saved.version}, but this asktell reads version {VERSION}."
        )
    if saved.line != _checksum(line):
        raise MalformedError("It does not fit the study's log.")
    return saved


def _checksum(line: str) -> int:
    return zlib.crc32(line.encode("ascii", "replace"))


def _dump_leases(leases: Leases) -> SavedLeases:
    return SavedLeases(
        paused=leases.paused,
        held=tuple(
            (
                worker,
                tuple(
                    (trial, *leases.by_trial[trial][1:])
                    for trial in leases.held(worker)
                ),
            )
            for worker in sorted(leases.by_worker)
        ),
        instances=tuple(sorted(leases.instances.items())),
        reissued=tuple(
            (trial, *reissue) for trial, reissue in sorted(leases.reissued.items())
        ),
    )


def _load_leases(saved: SavedLeases, state: State) -> Leases:
    by_trial: dict[int, Lease] = {}
    by_worker: dict[str, IntMap[None]] = {}
    for worker, held in saved.held:
        leases = {trial: Lease(worker, *lease) for trial, *lease in held}
        by_trial.update(leases)
        by_worker[worker] = IntMap(dict.fromkeys(leases))
    if not all(trial in state.pending for trial in by_trial):
        raise MalformedError("It has leases on trials that are not pending.")
    return Leases(
        by_trial=IntMap(by_trial),
        by_worker=by_worker,
        instances=dict(saved.instances),
        paused=saved.paused,
        reissued=IntMap(
            {trial: (expired, teller) for trial, expired, teller in saved.reissued}
        ),
    ).tightened()


def _compress(make: Callable[[Pack], Saved], free: int = 0) -> bytes:
    """Return the compressed JSON of the record that `make` makes. `make` gets a function that packs its columns.

    Readers limit how much memory a file may need, in proportion to its size. Data that
    compresses better than that, such as a million equal scores, is not compressed.
    """
    for level in (1, 0):
        columns: list[Any] = []

        def pack(
            column: Any, columns: list[Any] = columns, level: int = level
        ) -> list[str]:
            columns.append(column)
            return _pack(column, level)

        text = formats.encode(make(pack)).encode("ascii")
        data = zlib.compress(text, level)
        n_bytes = _BYTES * sum(np.size(column) for column in columns)
        most = formats.most_bytes(len(data))
        if len(text) <= most and n_bytes <= most + free:
            break
    return data


def _pack(column: Any, level: int) -> list[str]:
    """Return [type, base64 text] of a column: integers of the smallest type that holds them, or floats."""
    array = np.asarray(column) if len(column) else np.zeros(0, dtype=np.int8)
    if array.dtype.kind == "i":
        array = array.astype(
            np.result_type(
                *map(np.min_scalar_type, (array.min(initial=-1), array.max(initial=0)))
            )
        )
    kind = f"<{array.dtype.kind}{array.dtype.itemsize}"
    return [
        kind,
        base64.b64encode(zlib.compress(array.astype(kind).tobytes(), level)).decode(
            "ascii"
        ),
    ]


class _Columns:
    """Unpacks the columns of one snapshot, up to a limit on the memory that they take together."""

    def __init__(self, head: bytes, *parts: bytes) -> None:
        self._left = _FREE_COLUMNS + sum(
            formats.most_bytes(len(part)) for part in (head, *parts)
        )

    def unpack(self, packed: Any) -> Any:
        """Return the column that `_pack` packed.

        Raises:
            InvalidStateError: its type is unknown, or the column is too large.
        """
        kind, text = packed
        if kind not in ("<i1", "<i2", "<i4", "<i8", "<f8"):
            raise MalformedError(
                f"A list of numbers has the unknown type {str(kind)[:20]!r}."
            )
        dtype = np.dtype(kind)
        most = self._left // _BYTES * dtype.itemsize
        array = np.frombuffer(
            formats.decompress(base64.b64decode(text), "A column", most),
            dtype=dtype,
        )
        self._left -= _BYTES * len(array)
        return array.astype(np.float64 if kind == "<f8" else np.int64)
