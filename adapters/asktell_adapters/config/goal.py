"""The table `[goal]`: what is looked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asktell.errors import ConfigError
from asktell.goals import BestFeasible, Goal, Objective, ParetoSet, at_least, at_most
from asktell_adapters.config.tables import Table, did_you_mean, is_number, listed


def read_goal(table: Table, computed: Mapping[str, Any]) -> Goal:
    """The goal of `[goal]`; `computed` are the metrics that there are."""
    kind = table.take("type", "text", "best-feasible")
    if kind not in ("best-feasible", "pareto-set"):
        close = did_you_mean(kind, ["best-feasible", "pareto-set"])
        raise table.error("type", f"must be 'best-feasible' or 'pareto-set'{close}", kind)
    ranges = table.take("ranges", "table", {})
    wanted: list[tuple[str, bool]] = []
    for key, minimized in (("maximize", False), ("minimize", True)):
        names = table.take(key, "metrics", [])
        wanted += [(name, minimized) for name in ([names] if isinstance(names, str) else names)]
    bounds = {key: table.take(key, "table", {}) for key in ("at_least", "at_most")}
    for name in (*(name for name, _ in wanted), *bounds["at_least"], *bounds["at_most"], *ranges):
        if name not in computed:
            raise ConfigError(
                f"{table.file}: [goal] names the metric {name!r}, which is not computed"
                f"{did_you_mean(name, list(computed))}; [metrics] has {listed(list(computed))}."
            )
    used = {name for name, _ in wanted} | set(bounds["at_least"]) | set(bounds["at_most"])
    for name in ranges:
        if name not in used:
            raise table.error("ranges", f"names {name!r}, which the goal does not use")

    def objective(name: str, minimized: bool) -> Objective:
        span = ranges.get(name)
        if span is not None and not (isinstance(span, list) and len(span) == 2 and all(map(is_number, span))):
            raise table.error("ranges", f"must give {name!r} as [low, high]", span)
        return Objective(name, minimized, None if span is None else (span[0], span[1]))

    with table.named():
        if kind == "pareto-set":
            if bounds["at_least"] or bounds["at_most"]:
                raise table.error("at_least" if bounds["at_least"] else "at_most", "goes with type 'best-feasible'")
            if not wanted:
                raise ConfigError(f"{table.file}: [goal] needs metrics: maximize = ['rouge', ...], minimize = [...].")
            return ParetoSet(*(objective(name, minimized) for name, minimized in wanted))
        if len(wanted) != 1:
            raise ConfigError(
                f"{table.file}: [goal] of type 'best-feasible' needs exactly one metric in maximize or minimize, got "
                f"{listed([name for name, _ in wanted]) or 'none'}. Bound others with at_least and at_most, or take "
                "type = 'pareto-set'."
            )
        both = set(bounds["at_least"]) & set(bounds["at_most"])
        if both:
            raise table.error("at_most", f"bounds {min(both)!r}, as at_least does; give one of them")
        subject_to: dict[str | Objective, Any] = {}
        for key, bound in (("at_least", at_least), ("at_most", at_most)):
            for name, value in bounds[key].items():
                if not is_number(value):
                    raise table.error(key, f"must bound {name!r} by a finite number", value)
                subject_to[objective(name, key == "at_most")] = bound(value)
        return BestFeasible(objective(*wanted[0]), subject_to)
