"""The batches that a server lists, validated."""

import math
from collections.abc import Callable, Iterator
from typing import Any, final

from asktell.extend import needs_extra

with needs_extra("openai"):
    from pydantic import BaseModel, ConfigDict, Field

MOST_PAGES = 1000

_OPEN = ("validating", "in_progress", "finalizing", "cancelling")


class _Data(BaseModel):
    model_config = ConfigDict(strict=True)


class _Named(_Data):
    id: str = Field(pattern=r"^[ -~]{1,200}$")


class _Counts(_Data):
    completed: int = 0
    failed: int = 0
    total: int = 0


class _Error(_Data):
    code: str | None = None
    message: str | None = None


class _Errors(_Data):
    data: list[_Error] | None = None


@final
class ServedBatch(_Named):
    """A batch as the server describes it; `created_at` is in seconds since 1970."""

    status: str = Field(pattern=r"^[ -~]{0,49}$")
    created_at: float
    metadata: dict[str, Any] | None = None
    request_counts: _Counts | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: _Errors | None = None

    @property
    def is_open(self) -> bool:
        """Whether it may still get answers."""
        return self.status in _OPEN

    @property
    def study(self) -> object:
        """The name of the study that it belongs to."""
        return (self.metadata or {}).get("asktell_study")

    @property
    def worker(self) -> str:
        """The worker that holds its trials; empty if it is not ours."""
        worker = (self.metadata or {}).get("asktell_worker")
        return worker if isinstance(worker, str) else ""

    @property
    def lease(self) -> float:
        """Seconds for which its trials were first reserved."""
        try:
            lease = float((self.metadata or {}).get("asktell_lease", "0"))
        except (TypeError, ValueError):
            return 0.0
        return lease if math.isfinite(lease) else 0.0

    @property
    def progress(self) -> str:
        """Requests that have ended, of how many."""
        counts = self.request_counts
        return "?" if counts is None else f"{counts.completed + counts.failed} of {counts.total}"

    @property
    def files(self) -> list[str]:
        """Ids of the files with its answers."""
        return [file for file in (self.output_file_id, self.error_file_id) if file]

    @property
    def reasons(self) -> str:
        """Why it failed, in the server's words."""
        errors = (self.errors.data if self.errors else None) or []
        return (
            "; ".join(f"{each.code or '?'}: {each.message or '?'}" for each in errors[:20])[:1000] or "no reason given"
        )


class _Page(_Data):
    data: list[ServedBatch]
    has_more: bool | None = None


def read_list(page_after: Callable[[str | None], object], since: float) -> Iterator[ServedBatch]:
    """The batches created since then, newest first, page by page.

    Args:
        page_after: the JSON of the page that follows a batch's id; of the first one for None.
        since: in seconds since 1970.
    """
    seen: set[str] = set()
    after: str | None = None
    for _ in range(MOST_PAGES):
        page = _Page.model_validate(page_after(after))
        for batch in page.data:
            if batch.created_at < since:
                return
            if batch.id in seen:
                raise ValueError(f"the list has the batch {batch.id!r} twice")
            seen.add(batch.id)
            yield batch
        if not page.data or page.has_more is False:
            return
        after = page.data[-1].id
    raise ValueError(f"the list has more than {MOST_PAGES} pages")


def id_of(reply: object, what: str) -> str:
    """The id of what was created."""
    try:
        return _Named.model_validate(reply).id
    except ValueError as error:
        raise ValueError(f"the answer is no {what}: {error}") from None
