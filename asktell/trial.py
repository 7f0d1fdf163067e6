"""What `ask()` hands out: plain data that means the same in another process."""

from typing import NamedTuple


class Trial(NamedTuple):
    """One pull: evaluate `prompt` on the example at index `example` (None: draw one yourself), then tell the scores."""

    id: int
    prompt_id: str | int
    prompt: str
    example: int | None
