"""A look ahead: what a selection would ask if the failures that are held back counted."""

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from asktell.errors import AsktellError
from asktell.problem.candidates import Trial
from asktell.running.failures import HeldBack
from asktell.selector import Selector


class Asked(NamedTuple):
    """So many were asked for at once; these are those of them that were not handed back, by id."""

    n: int
    probes: dict[int, Trial]


class Ahead:
    """A copy of a selection in which failures count. What happens in it is noted, to be repeated in the selection.

    What it asks for are probes: trials with ids below 0, since the selection itself has not asked for them yet.

    Attributes:
        selector: the copy.
        steps: what was asked, and what of it has failed, in that order.
    """

    def __init__(self, copy: Selector, failures: Sequence[HeldBack], repeats: list[int]) -> None:
        """`repeats`: of every probe so far, its number among those of its cell; it is added to."""
        self.selector = copy
        self.steps: list[Asked | HeldBack] = []
        self._trials: dict[int, int] = {}  # of the copy, by probe
        self._repeats = repeats
        for failure in failures:
            with contextlib.suppress(AsktellError):  # its lease was lost
                copy.fail(failure.trial.id, failure.error, failure.cost)

    def __contains__(self, trial: Trial) -> bool:
        return trial.id in self._trials

    def ask(self, n: int) -> list[Trial]:
        """Up to n probes."""
        probes = {}
        for trial in self.selector.ask(n):
            self._repeats.append(self.selector.repeat_of(trial))
            probe = trial._replace(id=-len(self._repeats))
            probes[probe.id], self._trials[probe.id] = probe, trial.id
        if probes:
            self.steps.append(Asked(len(probes), probes))
        return list(probes.values())

    def fail(self, failure: HeldBack) -> None:
        """A probe has failed."""
        self.selector.fail(self._trials[failure.trial.id], failure.error, failure.cost)
        self.steps.append(failure)

    def release(self, probe: Trial) -> None:
        """A probe is not evaluated: whatever will be asked for in its place is."""
        for step in self.steps:
            if isinstance(step, Asked):
                step.probes.pop(probe.id, None)
