"""The progress of a run in a notebook: one output of the cell that is drawn anew, as HTML."""

import html
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from asktell._util.terminal import safe
from asktell.problem.budget import describe_spending
from asktell.results.notebook import as_html
from asktell.results.result import Result, heading

if TYPE_CHECKING:
    from asktell.selector import Selector
    from asktell.studies.worker import Worker

_SECONDS = 1.0  # between two drawings, at least
_PAUSE = 4.0  # in units of what one takes: four fifths are the run's


def in_notebook() -> bool:
    """Whether a notebook's kernel shows what this process displays; a terminal's IPython has none."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class Cell:
    """What is spent and the time that is left, the answer so far, those not told apart from it, and the plane.

    Args:
        selector: whose progress it is.
        clock: gives seconds.
    """

    def __init__(self, selector: "Selector | Worker", clock: Callable[[], float] = time.monotonic) -> None:
        self._selector, self._clock = selector, clock
        self._handle: Any = None
        self._start = self._due = clock()
        self._first: Result | None = None

    def __enter__(self) -> "Cell":
        self.show()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._draw()

    def show(self) -> None:
        """Draw it anew, if it was not drawn just now."""
        if self._clock() >= self._due:
            self._draw()

    def _draw(self) -> None:
        from IPython.display import HTML, display

        began = self._clock()
        result = self._selector.result()
        self._first = self._first or result
        content = HTML(as_html(result, heading(result), meter(result, self._selector.n_active, self._left(result))))
        now = self._clock()
        if self._handle is None:
            self._handle = display(content, display_id=True)
            self._due = now + _SECONDS  # what it took was mostly loading what it needs
        else:
            self._handle.update(content)
            self._due = now + max(_SECONDS, _PAUSE * (now - began))

    def _left(self, result: Result) -> float | None:
        """Seconds until the budget is spent, at the pace of this run; None where it has none yet."""
        first = self._first or result
        seconds, told, paid = (
            self._clock() - self._start,
            result.spent - first.spent,
            result.spent_cost - first.spent_cost,
        )
        if result.done or told <= 0:
            return None
        left = [(result.budget - result.spent) * seconds / told]
        if result.max_cost is not None and paid > 0:
            left.append(max(0.0, result.max_cost - result.spent_cost) * seconds / paid)
        return min(left)


def meter(result: Result, n_active: int, seconds_left: float | None) -> str:
    """How far a run is, as HTML: a bar, what is spent, and what is left."""
    share = 0.0 if result.max_cost is None else result.spent_cost / result.max_cost
    share = min(1.0, max(share, result.spent / result.budget))
    words = [describe_spending(result), f"{n_active} active"]
    if failed := sum(entry.failures for entry in result.prompts):
        words.append(f"{failed} failed")
    if seconds_left is not None:
        minutes = round(seconds_left / 60)
        words.append(f"about {round(seconds_left)} s to go" if seconds_left < 90 else f"about {minutes} min to go")
    text = html.escape(safe(", ".join(words)))
    bar = f'<progress max="1" value="{share:.4f}" aria-label="{share:.0%} of the budget"></progress>'
    return f"<p>{bar} {text}</p>"
