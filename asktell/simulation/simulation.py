"""What was simulated: the runs, their means and differences, and curves."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np

from asktell._util.extras import needs_extra
from asktell._util.terminal import aligned
from asktell.errors import InvalidArgumentError
from asktell.numerics.arrays import Vector
from asktell.problem.checks import nearest, short
from asktell.problem.goals import Goal

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

COLUMNS = (
    "method", "budget", "seed", "quality", "regret", "feasible", "size", "hypervolume", "f1", "evaluations",
)  # fmt: skip
LEVEL = 0.05
_CURVES = {"quality": "quality", "regret": "regret", "hypervolume": "hypervolume", "f1": "F1", "size": "prompts"}


def half_width(values: Vector) -> float:
    """Half the width of the 95 % interval of a mean, by Student's t; NaN for a single value."""
    from scipy.stats import t

    n = len(values)
    return float(t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")


def mean_below(differences: Vector) -> tuple[float, float, float]:
    """Mean, its standard error, and the probability of a mean this low or lower if there is no difference.

    Student's t over two differences or more.
    """
    from scipy.stats import t

    n, mean = len(differences), float(differences.mean())
    error = float(differences.std(ddof=1) / np.sqrt(n))
    without_noise = 0.5 if mean == 0 else float(mean > 0)
    return mean, error, float(t.cdf(mean / error, n - 1)) if error > 0 else without_noise


def holm(p: Vector) -> Vector:
    """Holm's (1979) adjusted p-values, in the order of the given ones."""
    n, order = len(p), np.argsort(p, kind="stable")
    adjusted = np.empty(n)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * (n - np.arange(n))))
    return adjusted


@final
@dataclass(frozen=True)
class SummaryRow:
    """A method at a budget: means over `runs` seeds; what ends in `_error` is half the width of a 95 % interval.

    `difference`: its quality minus the first method's with the same seeds; `p`: of one so large by luck, adjusted by
    Holm for all comparisons of the summary. None for the first method, and where there is one seed.
    """

    method: str
    budget: float
    runs: int
    quality: float
    quality_error: float | None
    regret: float
    regret_error: float | None
    feasible: float
    evaluations: float
    difference: float | None = None
    difference_error: float | None = None
    p: float | None = None


@final
@dataclass(frozen=True)
class Summary:
    """Means and paired differences; `str()` is a table. `refused`: why a method did not run, at which budgets."""

    rows: tuple[SummaryRow, ...]
    first: str
    refused: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON."""
        return asdict(self)

    def to_dataframe(self) -> "pandas.DataFrame":
        """A row per method and budget.

        Raises:
            MissingExtraError: pandas is missing.
        """
        with needs_extra("analysis"):
            import pandas
        return pandas.DataFrame([asdict(row) for row in self.rows])

    def __str__(self) -> str:
        titles = ["budget", "method", "quality", "regret", "feasible", "evaluations", f"minus {self.first}", "p (Holm)"]
        table = [titles]
        for row in self.rows:
            sure = row.p is not None and row.p < LEVEL
            table.append([
                f"{row.budget:g}", row.method, _pm(row.quality, row.quality_error), _pm(row.regret, row.regret_error),
                f"{row.feasible:.0%}", f"{row.evaluations:,.0f}", _pm(row.difference, row.difference_error, "+"),
                "" if row.p is None else f"{row.p:.2g}{' *' if sure else ''}",
            ])  # fmt: skip
        about = "budget: evaluations per prompt; ±: half a 95 % interval over seeds"
        about += f"; *: differs beyond luck (p < {LEVEL:g})" if any(row.p is not None for row in self.rows) else ""
        refused = (f"{name} did not run {why}" for name, why in self.refused.items())
        return "\n".join([*(line.rstrip() for line in aligned(table)), about, *refused])


def _pm(value: float | None, error: float | None, sign: str = "") -> str:
    if value is None:
        return ""
    return f"{value:{sign}.3f}" + ("" if error is None else f" ± {error:.3f}")


@final
class Simulation:
    """Every run of `asktell.simulate`.

    Attributes:
        goal: what was looked for.
        runs: a mapping for each run, as JSON: the columns of `to_dataframe`, and `answer`, the rows of the prompts
            that were chosen; or `refused`, why a method cannot run with this goal or budget.
        methods: their names, in the order given.
    """

    def __init__(self, goal: Goal, runs: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> None:
        self.goal, self.methods = goal, tuple(methods)
        self.runs = [dict(run) for run in runs]

    @property
    def _done(self) -> list[dict[str, Any]]:
        return [run for run in self.runs if "refused" not in run]

    def to_dataframe(self) -> "pandas.DataFrame":
        """A row per run that was made.

        Columns: method, budget (evaluations per prompt), seed, quality (0 to 1), regret, feasible (every prompt of the
        answer keeps the constraints), size (prompts in the answer), hypervolume and f1 (of Pareto sets, shares of the
        true ones), evaluations (made). See `asktell.simulation.truth.Truth.judge` for their definitions.

        Raises:
            MissingExtraError: pandas is missing.
        """
        with needs_extra("analysis"):
            import pandas
        return pandas.DataFrame([[run[name] for name in COLUMNS] for run in self._done], columns=list(COLUMNS))

    def to_dict(self) -> dict[str, Any]:
        """The runs and their summary as JSON."""
        return {"goal": str(self.goal), "runs": self.runs, "summary": self.summary().to_dict()}

    def summary(self) -> Summary:
        """Means with 95 % intervals over seeds, and what each method gains over the first one with the same seeds.

        The intervals tell how much is luck of the seed on these scores, not how other data would come out.
        """
        cells = self._cells()
        first = next((name for name in self.methods if any(method == name for method, _ in cells)), "")
        rows = []
        for (method, budget), runs in sorted(cells.items(), key=lambda item: item[0][1]):
            mine = {run["seed"]: run["quality"] for run in runs}
            theirs = {run["seed"]: run["quality"] for run in cells.get((first, budget), ())}
            paired = np.array([mine[seed] - theirs[seed] for seed in mine if seed in theirs])
            row = SummaryRow(
                method, budget, len(runs), *_mean(runs, "quality"), *_mean(runs, "regret"), _mean(runs, "feasible")[0],
                _mean(runs, "evaluations")[0],
            )  # fmt: skip
            if method != first and len(paired) > 1:
                gain = float(paired.mean())
                p = min(1.0, 2.0 * mean_below(-np.sign(gain) * paired)[2])
                row = replace(row, difference=gain, difference_error=half_width(paired), p=p)
            rows.append(row)
        compared = [i for i, row in enumerate(rows) if row.p is not None]
        adjusted = holm(np.array([rows[i].p for i in compared], dtype=float)).tolist()
        for i, p in zip(compared, adjusted, strict=True):
            rows[i] = replace(rows[i], p=p)
        return Summary(tuple(rows), first, self._refused())

    def _cells(self) -> dict[tuple[str, float], list[dict[str, Any]]]:
        cells: dict[tuple[str, float], list[dict[str, Any]]] = {}
        for run in self._done:
            cells.setdefault((run["method"], run["budget"]), []).append(run)
        return cells

    def _refused(self) -> dict[str, str]:
        found: dict[str, dict[str, set[float]]] = {}
        for run in self.runs:
            if "refused" in run:
                found.setdefault(run["method"], {}).setdefault(run["refused"], set()).add(run["budget"])
        return {
            method: "; ".join(f"at {', '.join(f'{b:g}' for b in sorted(at))}: {why}" for why, at in reasons.items())
            for method, reasons in found.items()
        }

    def plot(self, what: str = "quality", ax: "Axes | None" = None) -> "Axes":
        """Draw a mean against the budget, a curve per method, with bands of 95 % over seeds; needs matplotlib.

        Args:
            what: "quality", "regret", "hypervolume", "f1" or "size".
            ax: where to draw; by default a new figure.

        Raises:
            InvalidArgumentError: there is no such curve.
            MissingExtraError: matplotlib is missing.
        """
        if what not in _CURVES:
            raise InvalidArgumentError(
                f"what must be one of {list(_CURVES)}, got {short(what)}{nearest(what, _CURVES)}."
            )
        with needs_extra("plot"):
            import matplotlib.pyplot as plt
        from asktell.results.plot import write_title

        if ax is None:
            _, ax = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
        cells = self._cells()
        for name in self.methods:
            points = sorted((b, runs) for (method, b), runs in cells.items() if method == name)
            known = {b: np.array([run[what] for run in runs if run[what] is not None]) for b, runs in points}
            draw_curve(ax, {b: values for b, values in known.items() if len(values)}, name)
        ax.set(xscale="log", ylabel=_CURVES[what], xlabel="evaluations per prompt")
        ticks = sorted({budget for _, budget in cells})
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.minorticks_off()
        ax.grid(alpha=0.25)
        write_title(ax.title, str(self.goal))
        ax.legend(fontsize=8)
        return ax


def draw_curve(ax: "Axes", values: Mapping[float, Vector], label: str, style: str = "-") -> None:
    """Draw means against x with a band of 95 %; nothing where there is no value."""
    if not values:
        return
    middle = np.array([each.mean() for each in values.values()])
    error = np.nan_to_num([half_width(each) for each in values.values()])
    (curve,) = ax.plot(list(values), middle, style, marker=".", label=label)
    ax.fill_between(list(values), middle - error, middle + error, alpha=0.12, color=curve.get_color(), linewidth=0)


def _mean(runs: Sequence[Mapping[str, Any]], column: str) -> tuple[float, float | None]:
    values = np.array([run[column] for run in runs])
    return float(values.mean()), half_width(values) if len(values) > 1 else None
