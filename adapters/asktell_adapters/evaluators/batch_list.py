"""The batches that a server lists, read from its JSON with nothing taken on trust."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

from asktell.extend import short

MOST_PAGES = 1000

_OPEN = ("validating", "in_progress", "finalizing", "cancelling")


@final
@dataclass(frozen=True)
class ServedBatch:
    """A batch as the server describes it.

    Attributes:
        id: by which the server knows it.
        status: in the API's words.
        created_at: in seconds since 1970.
        metadata: what it was created with.
        progress: requests that have ended, of how many.
        files: ids of the files with its answers.
        errors: why it failed, in the server's words.
    """

    id: str
    status: str
    created_at: float
    metadata: Mapping[str, str]
    progress: str
    files: tuple[str, ...]
    errors: str

    @property
    def is_open(self) -> bool:
        """True if the batch may still get answers."""
        return self.status in _OPEN

    @property
    def worker(self) -> str:
        """Under which name its trials are out; empty if it is not ours."""
        return self.metadata.get("asktell_worker", "")

    @property
    def lease(self) -> float:
        """Seconds for which its trials were first kept."""
        try:
            lease = float(self.metadata.get("asktell_lease", "0"))
        except ValueError:
            return 0.0
        return lease if math.isfinite(lease) else 0.0

    @classmethod
    def read(cls, row: object) -> "ServedBatch":
        """The batch of one entry of the list.

        Raises:
            ValueError: it is no batch.
        """
        metadata = _field(row, "metadata", dict, {})
        counts = _field(row, "request_counts", dict, {})
        done = [_field(counts, name, int, 0) for name in ("completed", "failed", "total")]
        errors = _field(_field(row, "errors", dict, {}), "data", list, [])
        said = [f"{_field(error, 'code', str, '?')}: {_field(error, 'message', str, '?')}" for error in errors[:20]]
        files = [_field(row, name, str, "") for name in ("output_file_id", "error_file_id")]
        status = _field(row, "status", str)
        if not (status.isprintable() and len(status) < 50):
            raise ValueError(f"'status' is {status[:50]!r}")
        return cls(
            _id(row),
            status,
            float(_field(row, "created_at", (int, float))),
            {name: value for name, value in metadata.items() if isinstance(value, str)},
            f"{done[0] + done[1]} of {done[2]}" if counts else "?",
            tuple(file for file in files if file),
            "; ".join(said)[:1000] or "no reason given",
        )


def read_list(page_after: Callable[[str | None], object], since: float) -> Iterator[ServedBatch]:
    """The batches created since then, newest first, page by page.

    Args:
        page_after: the JSON of the page that follows a batch's id; of the first one for None.
        since: in seconds since 1970.

    Raises:
        ValueError: a page is malformed, or they have no end.
    """
    seen: set[str] = set()
    after: str | None = None
    for _ in range(MOST_PAGES):
        page = page_after(after)
        rows = _field(page, "data", list)
        for row in rows:
            batch = ServedBatch.read(row)
            if batch.created_at < since:
                return
            if batch.id in seen:
                raise ValueError(f"the list has the batch {batch.id!r} twice")
            seen.add(batch.id)
            yield batch
        if not rows or _field(page, "has_more", bool, True) is False:
            return
        after = _id(rows[-1])
    raise ValueError(f"the list has more than {MOST_PAGES} pages")


def id_of(reply: object, what: str) -> str:
    """The id of what was made.

    Raises:
        ValueError: the reply has none.
    """
    try:
        return _id(reply)
    except ValueError as error:
        raise ValueError(f"the answer is no {what}: {error}") from None


def _id(thing: object) -> str:
    id_: str = _field(thing, "id", str)
    if not (id_.isascii() and id_.isprintable() and 0 < len(id_) <= 200):
        raise ValueError(f"'id' is {id_[:50]!r}")
    return id_


_NEEDED: Any = object()


def _field(thing: object, name: str, kind: type | tuple[type, ...], default: Any = _NEEDED) -> Any:
    """What an object of JSON has under a name; the default where it has nothing or null."""
    if not isinstance(thing, dict):
        raise ValueError(f"there is {short(thing)} in the place of an object")
    value = thing.get(name)
    if value is None and default is not _NEEDED:
        return default
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{name!r} is {short(value)}")
    return value
