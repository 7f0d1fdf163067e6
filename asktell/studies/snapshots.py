"""A study's state as bytes, so that opening it need not fold its whole log.

The state grows by rows, failures and decisions, which are only ever appended. So a snapshot is a `head`, which replaces
the last one and holds what changes, and a `part`, which is added to those before it and holds what was appended since.
Making one costs no more than what is new, whatever the length of the history. Both are JSON, compressed; columns of
numbers in it are base64 of their little-endian bytes.
"""

import base64
import json
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from asktell import serialization
from asktell.errors import InvalidStateError
from asktell.numerics.intmap import IntMap
from asktell.problem.checks import whole
from asktell.state import Problem, State
from asktell.studies.leases import Leases, Reissue

VERSION = 1
_BYTES = 8  # of a column's item in memory
_FREE_COLUMNS = 2**26  # bytes of the head's, however well they compress: a plan of millions of pulls does

Pack: TypeAlias = Callable[[Any], list[str]]


class Covered(NamedTuple):
    """What the parts so far cover."""

    rows: int = 0
    decisions: int = 0
    failures: int = 0
    parts: int = 0


def dump(state: State, leases: Leases, covered: Covered) -> tuple[bytes, bytes]:
    """The head, and the part that follows those that cover what `covered` says."""
    rest = serialization.dump_rest(state)
    plan_arms, plan_examples = rest.pop("plan")

    def head(pack: Pack) -> dict[str, Any]:
        return {
            "version": VERSION,
            "covered": Covered(len(state.history), len(state.decisions), len(state.failures), covered.parts + 1),
            "plan": [pack(plan_arms), pack(plan_examples)],
            "draws": pack(state.draws),
            "state": rest,
            "leases": _dump_leases(leases),
        }

    def part(pack: Pack) -> dict[str, Any]:
        return serialization.dump_rows(state, *covered[:3], pack=pack)

    return _compress(head, _FREE_COLUMNS), _compress(part)


@serialization.checked("The study's snapshot")
def read_covered(head: bytes) -> Covered | None:
    """What the parts of a head cover; None for one of an unknown version, which a newer asktell made."""
    return _covered(_read(head))


@serialization.checked("The study's snapshot")
def load(head: bytes, parts: Sequence[bytes], problem: Problem) -> tuple[State, Leases] | None:
    """The state and leases that were dumped; `problem` as known before the first pull.

    None for a snapshot of an unknown version, which a newer asktell made.
    """
    data = _read(head)
    mark = _covered(data)
    if mark is None:
        return None
    columns_of = _Columns(head, *parts)
    loaded = [_read(part) for part in parts]
    columns, failures = (
        {name: np.concatenate([columns_of.unpack(part[name]) for part in group]) for name in names}
        for group, names in (
            (loaded, ("trials", "arms", "examples", "scores")),
            ([part["failures"] for part in loaded], ("trials", "arms", "examples")),
        )
    )
    reasons = [reason for part in loaded for reason in part["failures"]["reasons"]]
    decisions = [item for part in loaded for item in part["decisions"]]
    found = Covered(len(columns["trials"]), len(decisions), len(reasons), len(loaded))
    if mark != found:
        raise InvalidStateError(f"The study's snapshot has {found}, and says {mark}.")
    saved = {
        **data["state"],
        **columns,
        "scores": columns["scores"].reshape(found.rows, len(problem.goal.columns)).astype(np.float64),
        "decisions": decisions,
        "failures": {**failures, "reasons": reasons},
        "plan": [columns_of.unpack(column) for column in data["plan"]],
        "draws": columns_of.unpack(data["draws"]),
    }
    state = serialization.load_state(saved, problem)
    return state, _load_leases(data["leases"], state)


def _read(part: bytes) -> dict[str, Any]:
    what = "The study's snapshot"
    return serialization.parse(serialization.decompress(part, what), what)


def _covered(head: dict[str, Any]) -> Covered | None:
    if head.get("version") != VERSION:
        return None
    return Covered(*[whole("what is covered", n, 0) for n in serialization.items("covered", head["covered"], 4)])


def _dump_leases(leases: Leases) -> dict[str, Any]:
    return {
        "paused": leases.paused,
        "held": [
            [worker, [[trial, leases.by_trial[trial].deadline] for trial in leases.held(worker)]]
            for worker in sorted(leases.by_worker)
        ],
        "reissued": [[trial, *reissue] for trial, reissue in sorted(leases.reissued.items())],
    }


def _load_leases(data: dict[str, Any], state: State) -> Leases:
    leases = Leases(paused=None if data["paused"] is None else float(data["paused"]))
    for worker, held in data["held"]:
        together: dict[float, list[int]] = {}
        for trial, end in held:
            together.setdefault(float(end), []).append(int(trial))
        for end, trials in together.items():
            leases = leases.with_lease(str(worker), end, tuple(trials))
    if not all(trial in state.pending for trial in leases.by_trial):
        raise InvalidStateError("The study's snapshot has leases on trials that are not pending.")
    reissued = {
        int(trial): Reissue(int(expired), None if teller is None else str(teller))
        for trial, expired, teller in data["reissued"]
    }
    return leases._replace(reissued=IntMap(reissued))


def _compress(make: Callable[[Pack], dict[str, Any]], free: int = 0) -> bytes:
    """What `make` makes, with the columns that it packs, as JSON; its text and `_Columns` are read again.

    What compresses too well for that, as a million equal scores do, is left as it is.
    """
    for level in (1, 0):
        columns: list[Any] = []

        def pack(column: Any, columns: list[Any] = columns, level: int = level) -> list[str]:
            columns.append(column)
            return _pack(column, level)

        text = json.dumps(make(pack), separators=(",", ":"), allow_nan=False).encode("ascii")
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
