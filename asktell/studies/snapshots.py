"""A study's state as bytes, so that opening it need not fold its whole log.

The state grows by rows, failures and decisions, which are only ever appended. So a snapshot is a `head`, which replaces
the last one and holds what changes, and a `part`, which is added to those before it and holds what was appended since.
Making one costs no more than what is new, whatever the length of the history. Both are JSON, compressed; columns of
numbers in it are base64 of their little-endian bytes.
"""

import base64
import json
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from immutables import Map

from asktell import serialization
from asktell.errors import InvalidStateError
from asktell.problem.checks import whole
from asktell.state import Problem, State
from asktell.studies.leases import Leases, Reissue

VERSION = 1


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
    head = {
        "version": VERSION,
        "covered": Covered(len(state.history), len(state.decisions), len(state.failures), covered.parts + 1),
        "plan": [_pack(plan_arms), _pack(plan_examples)],
        "draws": _pack(state.draws),
        "state": rest,
        "leases": _dump_leases(leases),
    }
    part = serialization.dump_rows(state, *covered[:3], pack=_pack)
    return _compress(head), _compress(part)


@serialization.checked("The study's snapshot")
def read_covered(head: bytes) -> Covered | None:
    """What the parts of a head cover; None for one of an unknown version, which a newer asktell made."""
    data = _decompress(head)
    if data.get("version") != VERSION:
        return None
    return Covered(*[whole("what is covered", n, 0) for n in serialization.items("covered", data["covered"], 4)])


@serialization.checked("The study's snapshot")
def load(head: bytes, parts: Sequence[bytes], problem: Problem) -> tuple[State, Leases]:
    """The state and leases that were dumped; `problem` as known before the first pull."""
    data = _decompress(head)
    loaded = [_decompress(part) for part in parts]
    columns, failures = (
        {name: np.concatenate([_unpack(part[name]) for part in group]) for name in names}
        for group, names in (
            (loaded, ("trials", "arms", "examples", "scores")),
            ([part["failures"] for part in loaded], ("trials", "arms", "examples")),
        )
    )
    reasons = [reason for part in loaded for reason in part["failures"]["reasons"]]
    decisions = [item for part in loaded for item in part["decisions"]]
    mark, found = read_covered(head), Covered(len(columns["trials"]), len(decisions), len(reasons), len(loaded))
    if mark != found:
        raise InvalidStateError(f"The study's snapshot has {found}, and says {mark}.")
    saved = {
        **data["state"],
        **columns,
        "scores": columns["scores"].reshape(found.rows, len(problem.goal.columns)).astype(np.float64),
        "decisions": decisions,
        "failures": {**failures, "reasons": reasons},
        "plan": [_unpack(column) for column in data["plan"]],
        "draws": _unpack(data["draws"]),
    }
    state = serialization.load_state(saved, problem)
    return state, _load_leases(data["leases"], state)


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
        for trial, end in held:
            leases = leases.with_lease(str(worker), float(end), (int(trial),))
    if not all(trial in state.pending for trial in leases.by_trial):
        raise InvalidStateError("The study's snapshot has leases on trials that are not pending.")
    reissued = {
        int(trial): Reissue(int(expired), None if teller is None else str(teller))
        for trial, expired, teller in data["reissued"]
    }
    return leases._replace(reissued=Map(reissued))


def _compress(data: dict[str, Any]) -> bytes:
    return zlib.compress(json.dumps(data, separators=(",", ":"), allow_nan=False).encode("ascii"), 1)


def _decompress(data: bytes) -> dict[str, Any]:
    try:
        return serialization.parse(zlib.decompress(data), "The study's snapshot")
    except zlib.error as error:
        raise InvalidStateError(f"The study's snapshot cannot be decompressed: {error}.") from error


def _pack(column: Any) -> list[str]:
    """Whole numbers in as few bytes as they need, or floats."""
    array = np.asarray(column) if len(column) else np.zeros(0, dtype=np.int8)
    if array.dtype.kind == "i":
        array = array.astype(np.result_type(*map(np.min_scalar_type, (array.min(initial=-1), array.max(initial=0)))))
    kind = f"<{array.dtype.kind}{array.dtype.itemsize}"
    return [kind, base64.b64encode(zlib.compress(array.astype(kind).tobytes(), 1)).decode("ascii")]


def _unpack(packed: Any) -> Any:
    kind, text = packed
    if kind not in ("<i1", "<i2", "<i4", "<i8", "<f8"):
        raise InvalidStateError(f"{str(kind)[:20]!r} is no kind of number.")
    try:
        array = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=kind)
    except zlib.error as error:
        raise InvalidStateError(f"A column cannot be decompressed: {error}.") from error
    return array.astype(np.float64 if kind == "<f8" else np.int64)
