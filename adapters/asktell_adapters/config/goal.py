"""The table `[goal]`: what is looked for."""

from collections.abc import Mapping
from typing import Any

from asktell.extend import Goal, nearest, parse_goal
from asktell_adapters.config.tables import Table, is_number, key, listed

_TYPES = ("best-feasible", "pareto-set")
_METRICS = "a metric's name, or a list of them"


class GoalTable(Table, table="goal"):
    """What is looked for."""

    type: str = key(_TYPES[0], 'Or `"pareto-set"`.')
    maximize: str | list[str] = key([], "Metrics that should be large.", said="this or `minimize`", expected=_METRICS)
    minimize: str | list[str] = key([], "Metrics that should be small.", said="this or `maximize`", expected=_METRICS)
    at_least: dict[str, Any] = key({}, "Metric to lower bound of its mean.")
    at_most: dict[str, Any] = key({}, "Metric to upper bound of its mean.")
    ranges: dict[str, Any] = key({}, "Metric to `[low, high]`: the range of its scores.")

    def goal(self, computed: Mapping[str, Any] | None) -> Goal:
        """The goal; `computed` are the metrics that there are, None where a harness decides that."""
        if self.type not in _TYPES:
            wanted = " or ".join(map(repr, _TYPES))
            raise self.error("type", f"must be {wanted}{nearest(self.type, _TYPES)}", self.type)
        best = [[names] if isinstance(names, str) else names for names in (self.maximize, self.minimize)]
        bounds = {"at_least": self.at_least, "at_most": self.at_most}
        used = [name for names in (*best, *bounds.values()) for name in names]
        for name in (*used, *self.ranges):
            if computed is not None and name not in computed:
                near = nearest(name, list(computed))
                raise self.mistake(
                    f"[goal] names the metric {name!r}, which is not computed{near}; [metrics] has "
                    f"{listed(list(computed))}."
                )
        for name, span in self.ranges.items():
            if name not in used:
                raise self.error("ranges", f"names {name!r}, which the goal does not use")
            if not (isinstance(span, list) and len(span) == 2 and all(map(is_number, span))):
                raise self.error("ranges", f"must give {name!r} as [low, high]", span)
        for which, bounded in bounds.items():
            for name, value in bounded.items():
                if not is_number(value):
                    raise self.error(which, f"must bound {name!r} by a finite number", value)
        with self.named():
            return parse_goal(self.type, best[0], best[1], self.at_least, self.at_most, self.ranges)
