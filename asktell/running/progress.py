"""The progress of a run: a bar with what is spent and now and then the best so far; in a notebook, a cell."""

import html
import sys
import time
from collections.abc import Callable
from typing import Any

from asktell._util.terminal import in_three_digits, safe
from asktell.problem.budget import describe_spending
from asktell.results import Result
from asktell.results.entries import unit_of
from asktell.results.notebook import as_html
from asktell.selector import Selection

_SECONDS_BETWEEN_LOOKS = 0.5  # at the best so far, so that what is shown is not stale
_SHARE_OF_LOOKS = 0.05  # of the time, at most: a result of very many prompts takes long
_SECONDS = 1.0  # between two drawings, at least
_PAUSE = 4.0  # in units of what one takes: four fifths are the run's


def progress_of(selector: Selection, wanted: bool) -> "Bar | Cell":
    """What shows how far a run is: in a block, told to `show` after each evaluation."""
    return Cell(selector) if wanted and in_notebook() else Bar(selector, wanted)


class Bar:
    """Evaluations done, or money spent if that is bounded; prompts still active, the best so far, the time left."""

    def __init__(self, selector: Selection, wanted: bool) -> None:
        self._selector = selector
        self._bar: Any = None
        self._next_look = 0.0
        if wanted:
            from tqdm.auto import tqdm

            if selector.max_cost is None:
                self._bar = tqdm(total=selector.budget, initial=selector.spent, unit="eval", dynamic_ncols=True)
            else:
                money = "{percentage:3.0f}%|{bar}| [{elapsed}<{remaining}{postfix}]"
                self._bar = tqdm(total=selector.max_cost, initial=self._done, bar_format=money, dynamic_ncols=True)

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._bar is not None:
            self._look()
            self._bar.close()

    def show(self) -> None:
        """Move to what is spent; look for the best now and then, since that costs more than a tell."""
        if self._bar is None:
            return
        self._bar.update(self._done - self._bar.n)
        if time.monotonic() >= self._next_look:
            self._look()

    @property
    def _done(self) -> float:
        max_cost = self._selector.max_cost
        return self._selector.spent if max_cost is None else min(self._selector.spent_cost, max_cost)

    def _look(self) -> None:
        started = time.monotonic()
        result = self._selector.result()
        looked = time.monotonic()
        self._next_look = looked + max(_SECONDS_BETWEEN_LOOKS, (looked - started) / _SHARE_OF_LOOKS)
        self._bar.total = result.budget if result.max_cost is None else result.max_cost  # it may have been extended
        parts = [] if result.max_cost is None else [describe_spending(result)]
        parts.append(f"{self._selector.n_active} active")
        if len(result.selected) > 1:
            parts.append(f"{len(result.selected)} on the front")
        elif (best := result.best) is not None and best.evaluations:
            known = [(metric, mean) for metric, mean in best.estimate.items() if mean is not None]
            units = [(*unit_of(metric, [mean]), mean) for metric, mean in known]
            scores = ", ".join(f"{name} {in_three_digits(per * mean)}" for name, per, mean in units)
            infeasible = " (infeasible)" if best.feasible is False else ""
            parts.append(f"best {best.id!s:.20}: {scores}{infeasible}")
        failures = sum(entry.failures for entry in result.prompts)
        if failures:
            parts.append(f"{failures} failed")
        self._bar.set_postfix_str(safe(", ".join(parts)))


def in_notebook() -> bool:
    """Whether a notebook's kernel shows what this process displays; a terminal's IPython has none."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class Cell:
    """What is spent and the time that is left, the answer so far, those that may be better, and the plane."""

    def __init__(self, selector: Selection, clock: Callable[[], float] = time.monotonic) -> None:
        self._selector, self._clock = selector, clock
        self._handle: Any = None
        self._start = self._due = clock()
        self._first: Result | None = None

    def __enter__(self) -> "Cell":
        self.show()
        return self

    def __exit__(self, kind: object, *exc_info: object) -> None:
        self._draw(returned=kind is None)

    def show(self) -> None:
        """Draw it anew, if it was not drawn just now."""
        if self._clock() >= self._due:
            self._draw()

    def _draw(self, returned: bool = False) -> None:
        """Draw it anew; of a run that returned its result only how far it came, as the result shows itself."""
        from IPython.display import HTML, display

        began = self._clock()
        result = self._selector.result()
        self._first = self._first or result
        how_far = meter(result, self._selector.n_active, self._left(result))
        content = HTML(how_far if returned else as_html(result, [str(result.goal)], how_far))
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
        seconds = self._clock() - self._start
        told, paid = result.spent - first.spent, result.spent_cost - first.spent_cost
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
