"""The result of `simulate`, with its runs, a summary and curves."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np

from asktell._util.extras import needs_extra
from asktell._util.terminal import aligned
from asktell.errors import InvalidArgumentError
from asktell.numerics.arrays import Floats
from asktell.problem.goals import Goal
from asktell.problem.words import nearest, short

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

COLUMNS = (
    "method", "budget", "seed", "quality", "regret", "feasible", "size", "hypervolume", "f1", "evaluations",
)  # fmt: skip
LEVEL = 0.05
_CURVES = {
    "quality": "quality",
    "regret": "regret",
    "hypervolume": "hypervolume",
    "f1": "F1",
    "size": "prompts",
}


def half_width(values: Floats) -> float:
    """Return half the width of the 95% interval of a mean, by Student's t. NaN for a single value."""
    from scipy.stats import t

    n = len(values)
    return (
        float(t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n))
        if n > 1
        else float("nan")
    )


def mean_below(differences: Floats) -> tuple[float, float, float]:
    """Return the mean of paired differences, its standard error, and the one-sided p-value for a mean below 0.

    The p-value is the probability of such a low mean, or a lower one, if the true
    difference is 0: by Student's t, for two differences or more.
    """
    from scipy.stats import t

    n, mean = len(differences), float(differences.mean())
    error = float(differences.std(ddof=1) / np.sqrt(n))
    without_noise = 0.5 if mean == 0 else float(mean > 0)
    return (
        mean,
        error,
        float(t.cdf(mean / error, n - 1)) if error > 0 else without_noise,
    )


def holm(p: Floats) -> Floats:
    """Return p-values adjusted by the method of Holm (1979), in the same order."""
    n, order = len(p), np.argsort(p, kind="stable")
    adjusted = np.empty(n)
    adjusted[order] = np.minimum(
        1.0, np.maximum.accumulate(p[order] * (n - np.arange(n)))
    )
    return adjusted


@final
@dataclass(frozen=True)
class SummaryRow:
    """The means of one method at one budget.

    Attributes:
        method: the name of the method.
        budget: the budget in evaluations per prompt.
        runs: the number of runs, one for each seed.
        quality: the mean quality of the selected prompts, from 0 to 1. 1 is the best
            possible selection. See `asktell.simulation.truth.Truth.judge`.
        quality_error: half the width of a 95% interval of `quality`. None with one
            seed.
        regret: the mean regret: how much worse the selected prompt is than the best
            feasible prompt, in the units of the objective. For a `ParetoSet`, 1 minus
            the hypervolume relative to that of the true Pareto set.
        regret_error: half the width of a 95% interval of `regret`. None with one seed.
        feasible: the share of runs in which all selected prompts satisfy the
            constraints.
        evaluations: the mean number of evaluations in a run.
        difference: the quality of this method minus the quality of the first method,
            with the same seeds. None for the first method, and with one seed.
        difference_error: half the width of a 95% interval of `difference`. None if that
            is None.
        p: the p-value of the difference: the probability of a difference of at least
            this size, in either direction, if the two methods were equally good and
            only the choice of the random seeds made them differ. It is adjusted for the
            number of comparisons in the summary (Holm's method). None if `difference`
            is None.
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
    """The means of each method at each budget, and the differences from the first method. `str()` is a table.

    Attributes:
        rows: a row for each method and budget.
        first: the name of the method with which the others are compared.
        refused: a mapping from the name of a method to a text, which has the budgets at
            which the method did not run, and the reason. Empty if all methods ran at
            all budgets.
    """

    rows: tuple[SummaryRow, ...]
    first: str
    refused: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as a mapping that JSON can represent."""
        return asdict(self)

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return a data frame with a row for each method and budget. The columns are those of `SummaryRow`.

        Raises:
            MissingExtraError: pandas is missing.
        """
        with needs_extra("analysis"):
            import pandas
        return pandas.DataFrame([asdict(row) for row in self.rows])

    def __str__(self) -> str:
        titles = [
            "budget",
            "method",
            "quality",
            "regret",
            "feasible",
            "evaluations",
            f"minus {self.first}",
            "p (Holm)",
        ]
        table = [titles]
        for row in self.rows:
            sure = row.p is not None and row.p < LEVEL
            table.append([
                f"{row.budget:g}", row.method, _pm(row.quality, row.quality_error), _pm(row.regret, row.regret_error),
                f"{row.feasible:.0%}", f"{row.evaluations:,.0f}", _pm(row.difference, row.difference_error, "+"),
                "" if row.p is None else f"{row.p:.2g}{' *' if sure else ''}",
            ])  # fmt: skip
        about = "budget: evaluations per prompt   ±: half of a 95% interval over seeds"
        about += (
            f"   *: significant (p < {LEVEL:g})"
            if any(row.p is not None for row in self.rows)
            else ""
        )
        refused = (f"{name} did not run {why}" for name, why in self.refused.items())
        return "\n".join([*(line.rstrip() for line in aligned(table)), about, *refused])


def _pm(value: float | None, error: float | None, sign: str = "") -> str:
    if value is None:
        return ""
    return f"{value:{sign}.3f}" + ("" if error is None else f" ± {error:.3f}")


@final
class Simulation:
    """All runs of `asktell.simulate`.

    Attributes:
        goal: the goal.
        runs: a mapping for each run, which JSON can represent. It has the columns of
            `to_dataframe`, and "answer", the row numbers of the selected prompts. If
            the method cannot run with this goal or budget, it has "refused", the
            reason.
        methods: the names of the methods, in the order of the argument.
    """

    def __init__(
        self, goal: Goal, runs: Sequence[Mapping[str, Any]], methods: Sequence[str]
    ) -> None:
        self.goal, self.methods = goal, tuple(methods)
        self.runs = [dict(run) for run in runs]

    @property
    def _done(self) -> list[dict[str, Any]]:
        return [run for run in self.runs if "refused" not in run]

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return a data frame with a row for each run.

        The columns are:

        - method, seed, and budget (in evaluations per prompt).
        - quality: from 0 to 1. 1 is the best possible selection.
        - regret: in the units of the objective. For a `ParetoSet`, 1 minus the
          column hypervolume.
        - feasible: True if all selected prompts satisfy the constraints.
        - size: the number of selected prompts.
        - hypervolume and f1: from 0 to 1, for a `ParetoSet`. The hypervolume is relative
          to that of the true Pareto set.
        - evaluations: the number of evaluations in the run.

        `asktell.simulation.truth.Truth.judge` has the definitions of quality, regret,
        hypervolume and f1.

        Raises:
            MissingExtraError: pandas is missing.
        """
        with needs_extra("analysis"):
            import pandas
        return pandas.DataFrame(
            [[run[name] for name in COLUMNS] for run in self._done],
            columns=list(COLUMNS),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the runs and their summary as a mapping that JSON can represent."""
        return {
            "goal": str(self.goal),
            "runs": self.runs,
            "summary": self.summary().to_dict(),
        }

    def summary(self) -> Summary:
        """Return means with 95% intervals over the seeds, and the differences of each method from the first method.

        The intervals show how much the means on these scores depend on the choice of
        the random seeds. They do not apply to other scores.
        """
        cells = self._cells()
        first = next(
            (
                name
                for name in self.methods
                if any(method == name for method, _ in cells)
            ),
            "",
        )
        rows = []
        for (method, budget), runs in sorted(
            cells.items(), key=lambda item: item[0][1]
        ):
            mine = {run["seed"]: run["quality"] for run in runs}
            theirs = {
                run["seed"]: run["quality"] for run in cells.get((first, budget), ())
            }
            paired = np.array(
                [mine[seed] - theirs[seed] for seed in mine if seed in theirs]
            )
            row = SummaryRow(
                method, budget, len(runs), *_mean(runs, "quality"), *_mean(runs, "regret"), _mean(runs, "feasible")[0],
                _mean(runs, "evaluations")[0],
            )  # fmt: skip
            if method != first and len(paired) > 1:
                gain = float(paired.mean())
                p = min(1.0, 2.0 * mean_below(-np.sign(gain) * paired)[2])
                row = replace(
                    row, difference=gain, difference_error=half_width(paired), p=p
                )
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
        budgets: dict[str, dict[str, set[float]]] = {}
        for run in self.runs:
            if "refused" in run:
                budgets.setdefault(run["method"], {}).setdefault(
                    run["refused"], set()
                ).add(run["budget"])
        return {
            method: "; ".join(
                f"at {', '.join(f'{b:g}' for b in sorted(at))}: {why}"
                for why, at in reasons.items()
            )
            for method, reasons in budgets.items()
        }

    def plot(self, what: str = "quality", ax: "Axes | None" = None) -> "Axes":
        """Draw the mean of a measure over the budget, with a curve for each method. Needs matplotlib.

        The bands around the curves are 95% intervals over the seeds.

        Args:
            what: the measure: "quality", "regret", "hypervolume", "f1" or "size".
            ax: the axes to draw in, by default those of a new figure.

        Raises:
            InvalidArgumentError: `what` is another text.
            MissingExtraError: matplotlib is missing.
        """
        if what not in _CURVES:
            raise InvalidArgumentError(
                f"`what` must be one of {list(_CURVES)}, got {short(what)}{nearest(what, _CURVES)}."
            )
        with needs_extra("plot"):
            import matplotlib.pyplot as plt
        from asktell.results.plot import write_title

        if ax is None:
            _, ax = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
        cells = self._cells()
        for name in self.methods:
            points = sorted(
                (b, runs) for (method, b), runs in cells.items() if method == name
            )
            by_budget = {
                b: np.array([run[what] for run in runs if run[what] is not None])
                for b, runs in points
            }
            draw_curve(
                ax, {b: values for b, values in by_budget.items() if len(values)}, name
            )
        ax.set(xscale="log", ylabel=_CURVES[what], xlabel="evaluations per prompt")
        ticks = sorted({budget for _, budget in cells})
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.minorticks_off()
        ax.grid(alpha=0.25)
        write_title(ax.title, str(self.goal))
        ax.legend(fontsize=8)
        return ax


def draw_curve(
    ax: "Axes", values: Mapping[float, Floats], label: str, style: str = "-"
) -> None:
    """Draw means over x with a 95% band. Draws nothing without values."""
    if not values:
        return
    middle = np.array([runs.mean() for runs in values.values()])
    error = np.nan_to_num([half_width(runs) for runs in values.values()])
    (curve,) = ax.plot(list(values), middle, style, marker=".", label=label)
    ax.fill_between(
        list(values),
        middle - error,
        middle + error,
        alpha=0.12,
        color=curve.get_color(),
        linewidth=0,
    )


def _mean(runs: Sequence[Mapping[str, Any]], column: str) -> tuple[float, float | None]:
    values = np.array([run[column] for run in runs])
    return float(values.mean()), half_width(values) if len(values) > 1 else None
