"""The table `[goal]`: what is looked for."""

from collections.abc import Mapping
from typing import Any

from asktell.extend import Goal, nearest, parse_goal
from asktell_adapters.config.tables import Table, key, listed

_METRICS = "a metric's name, or a list of them"
_BOUNDS = "a table, METRIC = a finite number, or { bound = 2.0, quantile = 0.95, in_every_segment = true }"


class GoalTable(Table, table="goal"):
    """What is looked for."""

    type: str = key("best-feasible", 'Or `"pareto-set"`.')
    maximize: str | list[str] = key([], "Metrics that should be large.", said="this or `minimize`", expected=_METRICS)
    minimize: str | list[str] = key([], "Metrics that should be small.", said="this or `maximize`", expected=_METRICS)
    worst_segment: str | list[str] = key([], "Objectives whose worst segment counts.", expected=_METRICS)
    at_least: dict[str, float | dict[str, Any]] = key(
        {}, "Metric to lower bound of its mean, or of a quantile over the examples.", expected=_BOUNDS
    )
    at_most: dict[str, float | dict[str, Any]] = key(
        {}, "Metric to upper bound of its mean, or of a quantile over the examples.", expected=_BOUNDS
    )
    ranges: dict[str, list[float]] = key(
        {}, "Metric to `[low, high]`: the range of its scores.", expected="a table, METRIC = [low, high]"
    )

    sure: float | None = key(
        None, "Probability with which the answer must keep its bounds, such as 0.95.", said="more likely than not"
    )

    def goal(self, computed: Mapping[str, Any] | None) -> Goal:
        """The goal; `computed` are the metrics that there are, None where a harness decides that."""
        best = [[names] if isinstance(names, str) else names for names in (self.maximize, self.minimize)]
        parts = self.at_least, self.at_most, self.ranges, self.sure, self.worst_segment
        with self.named():
            goal = parse_goal(self.type, best[0], best[1], *parts)
        for name in goal.metrics:
            if computed is not None and name not in computed:
                near = nearest(name, list(computed))
                raise self.mistake(
                    f"[goal] names the metric {name!r}, which is not computed{near}; [metrics] has "
                    f"{listed(list(computed))}."
                )
        return goal
