"""A selection in Python's log: decisions and the state now and then as INFO, evaluations as DEBUG."""

import logging
from collections.abc import Iterator
from typing import final

from asktell.extend import describe_spending
from asktell_adapters.tracking.core import Extent, Selection, Tracker, View


@final
class LoggingTracker(Tracker):
    """Writes to a logger, `asktell.tracking` by default; see `Tracker` for the other arguments."""

    def __init__(
        self,
        logger: logging.Logger | logging.LoggerAdapter[logging.Logger] | None = None,
        *,
        name: str | None = None,
        interval: float = 5.0,
    ) -> None:
        super().__init__(name=name, interval=interval)
        self.logger = logger or logging.getLogger("asktell.tracking")

    def _open(self, selection: Selection) -> Extent:
        settings = ", ".join(f"{name} {value}" for name, value in selection.settings.items() if name != "goal")
        self.logger.info("%s: %s (%s)", selection.name or "selection", selection.settings["goal"], settings)
        return Extent()

    def _write(self, view: View, since: Extent) -> Iterator[Extent]:
        if self.logger.isEnabledFor(logging.DEBUG):
            for number, prompt, example, scores in view.evaluations(since.evaluations):
                told = ", ".join(f"{name} {score:.4g}" for name, score in scores.items())
                self.logger.debug("evaluation %d: prompt %r, example %s: %s", number, prompt, example, told)
        for decision in view.decisions(since.decisions):
            self.logger.info(
                "round %d, after %d evaluations: %d prompts left the race, %d stay",
                decision.round,
                decision.evaluations,
                len(decision.departures),
                decision.active,
            )
            for prompt, status, reason in decision.departures:
                self.logger.info("prompt %r %s: %s", prompt, status, reason)
        self.logger.info("%s spent, %d prompts active%s", describe_spending(view.result), *_standing(view))
        yield view.extent

    def _finish(self, view: View) -> None:
        self.logger.info("%s", view.result)


def _standing(view: View) -> tuple[int, str]:
    active = sum(1 for entry in view.result.prompts if entry.status == "active")
    if not view.result.selected:
        return active, ""
    best = view.result.selected[0]
    means = ", ".join(f"{name} {mean:.4g}" for name, mean in best.estimate.items() if mean is not None)
    return active, f", best so far {best.id!r}: {means}"
