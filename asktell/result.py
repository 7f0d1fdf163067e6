"""The answer, at any time: what was selected, and what is known about every prompt."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from asktell.errors import InvalidArgumentError
from asktell.goals import BestFeasible, Goal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROWS_SHOWN = 10


@dataclass(frozen=True)
class PromptResult:
    """What is known about one prompt.

    `estimate` and `standard_error` map a metric to a number in its own units, None where nothing is known; the error
    is that of the mean over the examples given, 0 once all were seen. `status` is active, accepted, rejected or
    failed; `round` and `reason` say when and why it left. `feasible` is None without constraints or estimate.
    `p_feasible` and `p_optimal` are None unless the method has a posterior.
    """

    id: str | int
    prompt: str
    estimate: Mapping[str, float | None]
    standard_error: Mapping[str, float | None]
    pulls: int
    status: str
    round: int | None
    reason: str | None
    feasible: bool | None
    failures: int
    p_feasible: float | None = None
    p_optimal: float | None = None


@dataclass(frozen=True)
class Result:
    """The answer so far; final once `done`.

    `selected`: the best feasible prompt, or the Pareto set, best first. `unresolved`: prompts that could not be told
    apart from the answer. `feasible`: whether the selected prompt keeps every constraint (None without constraints).
    """

    goal: Goal
    selected: list[PromptResult]
    prompts: list[PromptResult]
    unresolved: list[PromptResult]
    spent: int
    budget: int
    cost: float
    done: bool
    feasible: bool | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready data, with the same names."""
        return {
            "goal": str(self.goal),
            "metrics": list(self.goal.metrics),
            "selected": [asdict(entry) for entry in self.selected],
            "prompts": [asdict(entry) for entry in self.prompts],
            "unresolved": [asdict(entry) for entry in self.unresolved],
            "spent": self.spent,
            "budget": self.budget,
            "cost": self.cost,
            "done": self.done,
            "feasible": self.feasible,
        }

    def plot(self, x: str | None = None, y: str | None = None, ax: "Axes | None" = None) -> "Axes":
        """Draw the plane of two metrics: every prompt with its uncertainty, the thresholds or the front, the answer.

        `x` and `y` are metrics, by default the goal's first two. Needs matplotlib.

        Raises:
            InvalidArgumentError: a metric is unknown.
        """
        from asktell.plot import plot_result

        metrics = self.goal.metrics
        for name in (x, y):
            if name is not None and name not in metrics:
                raise InvalidArgumentError(f"plot() knows the metrics {list(metrics)}, got {name!r}.")
        return plot_result(self, x or metrics[0], y or metrics[min(1, len(metrics) - 1)], ax)

    def __str__(self) -> str:
        state = "final" if self.done else "so far"
        lines = [f"{self.goal} ({state}, {self.spent} of {self.budget} evaluations spent)"]
        if not self.selected:
            return "\n".join([*lines, "Nothing selected: no prompt has been evaluated successfully."])
        if self.feasible is False:
            lines.append("No prompt keeps every constraint; this one violates them least.")
        lines += _table(self.selected[:_ROWS_SHOWN], self.goal.metrics)
        if len(self.selected) > _ROWS_SHOWN:
            lines.append(f"... and {len(self.selected) - _ROWS_SHOWN} more.")
        if self.unresolved:
            ids = ", ".join(str(entry.id) for entry in self.unresolved[:_ROWS_SHOWN])
            more = ", ..." if len(self.unresolved) > _ROWS_SHOWN else ""
            lines.append(
                f"Not told apart from the answer: {len(self.unresolved)} of {len(self.prompts)} ({ids}{more})."
            )
        return "\n".join(lines)


def _table(entries: list[PromptResult], metrics: tuple[str, ...]) -> list[str]:
    rows = [["id", *metrics, "pulls", "prompt"]]
    for entry in entries:
        cells = [_cell(entry.estimate[m], entry.standard_error[m]) for m in metrics]
        rows.append([str(entry.id), *cells, str(entry.pulls), _one_line(entry.prompt)])
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _cell(mean: float | None, error: float | None) -> str:
    if mean is None:
        return "-"
    return f"{mean:.4g}" if error is None else f"{mean:.4g} +- {error:.2g}"


def _one_line(text: str, width: int = 60) -> str:
    """Printable in one line of a terminal, whatever a prompt holds."""
    flat = "".join(c if c.isprintable() else " " for c in text[: 4 * width])
    flat = " ".join(flat.split())
    return flat if len(flat) <= width else flat[: width - 3] + "..."


def is_feasible(goal: Goal, estimate: Mapping[str, float | None]) -> bool | None:
    """Whether an estimate keeps every constraint; None without constraints or without an estimate."""
    import numpy as np

    if not isinstance(goal, BestFeasible) or not goal.constraints:
        return None
    means = [estimate[name] for name in goal.metrics]
    if any(mean is None for mean in means):
        return None
    return bool((goal.values(np.array([means], dtype=float))[0, 1:] >= 0).all())
