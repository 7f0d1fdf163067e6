"""The answer, at any time: what was selected, and what is known about every prompt."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from asktell.arguments import MOST_EVALUATIONS
from asktell.errors import InvalidArgumentError
from asktell.goals import Goal
from asktell.results.entries import PromptResult
from asktell.terminal import aligned, one_line, safe, with_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FINISHED_EARLY = "finished early: the prompts left have seen every example"
STOPPED_EARLY = "stopped early: the answer is settled"
_ROWS_SHOWN = 10


@dataclass(frozen=True)
class Result:
    """The answer so far; final once `done`.

    `selected`: the best feasible prompt, or the Pareto set, best first. `unresolved`: prompts that could not be told
    apart from the answer: as far as can be told, they are tied with it. `stopped_early`: whether the run ended before
    its budget because the answer was settled (`Adaptive(confidence=...)`). `feasible`: whether the selected prompt
    keeps every constraint (None without constraints).
    `examples`: how many there are for a prompt to see, None for any number. `cost` is the sum of what was told,
    `max_cost` what was allowed (None: any). `notes`: what else there is to know, in sentences.

    A Pareto set of `auto` is chosen for its expected quality, in which a prompt counts that may well be optimal. So it
    can hold a prompt whose estimate another selected one dominates; a note says so.
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
    examples: int | None = None
    stopped_early: bool = False
    max_cost: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def finished_early(self) -> bool:
        """Whether budget was left over because every prompt in the last round had seen every example."""
        if not self.done or self.stopped_early or self.spent >= self.budget or self.examples is None:
            return False
        judged = [entry for entry in self.prompts if entry.status in ("accepted", "rejected")]
        last = max((entry.round or 0 for entry in judged), default=0)
        left = [entry for entry in judged if entry.round == last]
        return bool(left) and all(entry.pulls + entry.failures >= self.examples for entry in left)

    @property
    def spending(self) -> str:
        """What was spent of what, in words."""
        counted = f"{self.spent} of {self.budget} evaluations"
        if self.max_cost is None:
            return counted
        counted = f"{self.spent} evaluations" if self.budget >= MOST_EVALUATIONS else counted
        return f"{counted} and a cost of {self.cost:.4g} of {self.max_cost:.4g}"

    @property
    def early(self) -> str:
        """Why budget was left over, in words; empty if none was."""
        return STOPPED_EARLY if self.stopped_early else FINISHED_EARLY if self.finished_early else ""

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
            "max_cost": self.max_cost,
            "done": self.done,
            "stopped_early": self.stopped_early,
            "feasible": self.feasible,
            "notes": list(self.notes),
        }

    def plot(self, x: str | None = None, y: str | None = None, ax: "Axes | None" = None) -> "Axes":
        """Draw the plane of two metrics: every prompt with its uncertainty, the thresholds or the front, the answer.

        `x` and `y` are metrics, by default the goal's first two. Needs matplotlib.

        Raises:
            InvalidArgumentError: a metric is unknown.
        """
        from asktell.results.plot import draw_plane

        metrics = self.goal.metrics
        for name in (x, y):
            if name is not None and name not in metrics:
                raise InvalidArgumentError(f"plot() knows the metrics {list(metrics)}, got {name!r}.")
        x, y = x or metrics[0], y or metrics[min(1, len(metrics) - 1)]
        return draw_plane(self.goal, self.prompts, self.selected, self.unresolved, x, y, self.spending, ax)

    def __str__(self) -> str:
        lines = heading(self)
        if not self.selected:
            return "\n".join([*lines, "Nothing selected: no prompt has been evaluated successfully."])
        lines += _table(self.selected[:_ROWS_SHOWN], self.goal.metrics)
        lines += _legend(self.selected[0], self.examples)
        if len(self.selected) > _ROWS_SHOWN:
            lines.append(f"... and {len(self.selected) - _ROWS_SHOWN} more.")
        if self.unresolved:
            ids = ", ".join(safe(str(entry.id)) for entry in self.unresolved[:_ROWS_SHOWN])
            more = ", ..." if len(self.unresolved) > _ROWS_SHOWN else ""
            what = (
                "Tied with the answer, as far as can be told"
                if self.stopped_early
                else "Not told apart from the answer"
            )
            lines.append(f"{what}: {len(self.unresolved)} of {len(self.prompts)} ({ids}{more}).")
        return "\n".join([*lines, *self.notes])


def heading(result: Result) -> list[str]:
    """What was looked for, how far it is, and whether the answer is one."""
    state = "final" if result.done else "so far"
    early = f"; {result.early}" if result.early else ""
    lines = [f"{safe(str(result.goal))} ({state}, {result.spending} spent{early})"]
    if result.feasible is False:
        lines.append("No prompt keeps every constraint; the selected one violates them least.")
    return lines


def _legend(entry: PromptResult, examples: int | None) -> list[str]:
    """What the errors speak of."""
    wider = {name: error for name, error in entry.standard_error_population.items() if error is not None}
    if examples is None or not wider:
        return []
    numbers = ", ".join(f"{safe(name)} {error:.2g}" for name, error in wider.items())
    return [f"+- speaks of the {examples} examples given; of new ones like them, the first row's is {numbers}."]


def _table(entries: list[PromptResult], metrics: tuple[str, ...]) -> list[str]:
    rows = [["id", *metrics, "pulls", "prompt"]]
    for entry in entries:
        cells = [with_error(entry.estimate[m], entry.standard_error[m]) for m in metrics]
        rows.append([str(entry.id), *cells, str(entry.pulls), one_line(entry.prompt, 60)])
    return [line.rstrip() for line in aligned(rows)]
