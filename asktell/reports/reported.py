"""The part of a selector that tells people what happened."""

from pathlib import Path

from asktell import reports
from asktell.methods import Method
from asktell.problem.candidates import Prompts
from asktell.results.evaluations import Evaluations, evaluations_of
from asktell.state import State


class Reported:
    """What has a state, a method and prompts can be reported on."""

    _method: Method
    _state: State

    @property
    def _prompts(self) -> Prompts:
        raise NotImplementedError

    @property
    def state(self) -> State:
        """See `Selector.state`."""
        raise NotImplementedError

    def evaluations(self) -> Evaluations:
        """The evaluations that were told, in that order, then those that failed; `.to_dataframe()` is a table."""
        return Evaluations(evaluations_of(self._state, self._prompts.ids), self._state.problem.goal.metrics)

    def report(self, path: str | Path) -> None:
        """Write one HTML page about the selection, which needs nothing else: no network, no other file.

        Raises:
            OSError: the file cannot be written.
        """
        reports.write(path, reports.document(self.state, self._method, self._prompts))
