"""A goal in words: metrics by name, under the keys that a configuration's `[goal]` and a request's `goal` share."""

from collections.abc import Mapping, Sequence

from asktell import goals
from asktell.arguments import nearest, short
from asktell.errors import InvalidArgumentError
from asktell.goals import BestFeasible, Goal, Objective, ParetoSet, Threshold

TYPES = ("best-feasible", "pareto-set")
"""The types of goals, as they are called in words."""


def parse_goal(
    kind: str,
    maximize: str | Sequence[str] = (),
    minimize: str | Sequence[str] = (),
    at_least: Mapping[str, float] | None = None,
    at_most: Mapping[str, float] | None = None,
    ranges: Mapping[str, Sequence[float]] | None = None,
) -> Goal:
    """The goal that the words say; `kind` is one of `TYPES`, `ranges` are metrics' [low, high].

    Raises:
        InvalidArgumentError: the parts do not go together, or one is not what a goal can have.
    """
    at_least, at_most, ranges = at_least or {}, at_most or {}, ranges or {}

    def objective(metric: str, minimized: bool) -> Objective:
        span = ranges.get(metric)
        return Objective(metric, minimized, None if span is None else (span[0], span[1]))

    wanted = [objective(name, False) for name in _listed(maximize)]
    wanted += [objective(name, True) for name in _listed(minimize)]
    if both := set(at_least) & set(at_most):
        raise InvalidArgumentError(f"at_least and at_most both bound {min(both)!r}; give one of them.")
    subject_to: dict[str | Objective, float | Threshold] = {}
    subject_to |= {objective(name, False): goals.at_least(bound) for name, bound in at_least.items()}
    subject_to |= {objective(name, True): goals.at_most(bound) for name, bound in at_most.items()}
    if kind == "pareto-set":
        if not wanted:
            raise InvalidArgumentError(
                "A goal of type 'pareto-set' needs metrics: maximize = ['rouge', ...], minimize = [...]."
            )
        return ParetoSet(*wanted, subject_to=subject_to)
    if kind != "best-feasible":
        raise InvalidArgumentError(
            f"A goal's type must be one of {list(TYPES)}, got {short(kind)}{nearest(kind, TYPES)}."
        )
    if len(wanted) != 1:
        raise InvalidArgumentError(
            "A goal of type 'best-feasible' needs exactly one metric in maximize or minimize, got "
            f"{', '.join(repr(o.metric) for o in wanted[:20]) or 'none'}. Bound others with at_least and at_most, or "
            "take type 'pareto-set'."
        )
    return BestFeasible(wanted[0], subject_to)


def _listed(names: str | Sequence[str]) -> Sequence[str]:
    return [names] if isinstance(names, str) else names
