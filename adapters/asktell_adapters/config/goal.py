"""The table `[goal]`: what is looked for."""

from collections.abc import Mapping
from typing import Any

from asktell import ConfigError
from asktell.extend import Goal, nearest, parse_goal
from asktell_adapters.config.tables import Table, is_number, listed

_TYPES = ("best-feasible", "pareto-set")


def read_goal(table: Table, computed: Mapping[str, Any] | None) -> Goal:
    """The goal of `[goal]`; `computed` are the metrics that there are, None where a harness decides that."""
    kind = table.take("type", "text", _TYPES[0])
    if kind not in _TYPES:
        raise table.error("type", f"must be {' or '.join(map(repr, _TYPES))}{nearest(kind, _TYPES)}", kind)
    best = {key: table.take(key, "metrics", []) for key in ("maximize", "minimize")}
    bounds = {key: table.take(key, "table", {}) for key in ("at_least", "at_most")}
    ranges = table.take("ranges", "table", {})
    used = [name for names in best.values() for name in ([names] if isinstance(names, str) else names)]
    used += [name for bounded in bounds.values() for name in bounded]
    for name in (*used, *ranges):
        if computed is not None and name not in computed:
            raise ConfigError(
                f"{table.file}: [goal] names the metric {name!r}, which is not computed"
                f"{nearest(name, list(computed))}; [metrics] has {listed(list(computed))}."
            )
    for name, span in ranges.items():
        if name not in used:
            raise table.error("ranges", f"names {name!r}, which the goal does not use")
        if not (isinstance(span, list) and len(span) == 2 and all(map(is_number, span))):
            raise table.error("ranges", f"must give {name!r} as [low, high]", span)
    for key, bounded in bounds.items():
        for name, value in bounded.items():
            if not is_number(value):
                raise table.error(key, f"must bound {name!r} by a finite number", value)
    with table.named():
        return parse_goal(kind, **best, **bounds, ranges=ranges)
