"""The progress bar of a run."""

import contextlib
import time
from collections.abc import Callable
from typing import Any

from asktell._util.log import log
from asktell._util.terminal import in_digits, safe
from asktell.problem.budget import describe_spending
from asktell.problem.words import in_words
from asktell.results.entries import unit_of
from asktell.selector import Selection

# Between two computations of the best prompt so far, at least
_SECONDS_BETWEEN_LOOKS = 0.5
# Of the run's time at most, because the result of very many prompts takes long
_SHARE_OF_LOOKS = 0.05


class Bar:
    """A bar with the evaluations made (or the money spent, if that is limited), the active prompts and the best one."""

    def __init__(self, selector: Selection, wanted: bool) -> None:
        self._selector = selector
        self._bar: Any = None
        self._next_look = 0.0
        if wanted:
            self._try(self._open)

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._bar is not None:
            self._try(self._look)
        if self._bar is not None:
            self._try(self._bar.close)

    def show(self) -> None:
        """Update the bar. The best prompt is computed only now and then, because that takes longer than a tell."""
        if self._bar is not None:
            self._try(self._update)

    def _try(self, step: Callable[[], None]) -> None:
        """Do a step. If it fails, the run goes on without a bar, because stderr may be closed or missing."""
        try:
            step()
        except Exception as error:
            with contextlib.suppress(Exception):
                self._bar.disable = True  # it would write once more when it is deleted
            self._bar = None
            log.warning(
                "The run goes on without its progress bar, which failed with %s.",
                in_words(error),
            )

    def _open(self) -> None:
        from tqdm.auto import tqdm

        if self._selector.max_cost is None:
            self._bar = tqdm(
                total=self._selector.budget,
                initial=self._selector.spent,
                unit="eval",
                dynamic_ncols=True,
            )
        else:
            money = "{percentage:3.0f}%|{bar}| [{elapsed}<{remaining}{postfix}]"
            self._bar = tqdm(
                total=self._selector.max_cost,
                initial=self._done,
                bar_format=money,
                dynamic_ncols=True,
            )

    def _update(self) -> None:
        self._bar.update(self._done - self._bar.n)
        if time.monotonic() >= self._next_look:
            self._look()

    @property
    def _done(self) -> float:
        """The evaluations made or, if the budget is a cost, the money spent, at most the budget."""
        max_cost = self._selector.max_cost
        return (
            self._selector.spent
            if max_cost is None
            else min(self._selector.spent_cost, max_cost)
        )

    def _look(self) -> None:
        """Compute the result so far, and show it behind the bar."""
        started = time.monotonic()
        result = self._selector.result()
        looked = time.monotonic()
        self._next_look = looked + max(
            _SECONDS_BETWEEN_LOOKS, (looked - started) / _SHARE_OF_LOOKS
        )
        # The budget may be extended
        self._bar.total = result.budget if result.max_cost is None else result.max_cost
        parts = [] if result.max_cost is None else [describe_spending(result)]
        parts.append(f"{self._selector.n_active} active")
        if len(result.selected) > 1:
            parts.append(f"{len(result.selected)} in the Pareto set")
        elif (best := result.best) is not None and best.evaluations:
            estimates = [
                (metric, mean)
                for metric, mean in best.estimate.items()
                if mean is not None
            ]
            units = [(*unit_of(metric, [mean]), mean) for metric, mean in estimates]
            scores = ", ".join(
                f"{name} {in_three_digits(per * mean)}" for name, per, mean in units
            )
            infeasible = " (infeasible)" if best.feasible is False else ""
            parts.append(f"best {best.id!s:.20}: {scores}{infeasible}")
        failures = sum(entry.failures for entry in result.prompts)
        if failures:
            parts.append(f"{failures} failed")
        self._bar.set_postfix_str(safe(", ".join(parts)))


def in_three_digits(number: float) -> str:
    """A number with three digits, even if these are zero as in 0.00 and 1.00. It then reads as a measured number."""
    size = abs(number)
    if size >= 1000:
        return f"{number:,.0f}"
    return in_digits(number, 3) if 0 < size < 1e-3 else f"{number:#.3g}".rstrip(".")
