"""The answer, at any time: what was selected, and what is known about every prompt."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from asktell._util.extras import needs_extra
from asktell._util.terminal import filled, in_blocks, one_line, safe, with_doubt, with_error
from asktell.errors import IncompatibleMethodError, InvalidArgumentError
from asktell.numerics.arrays import Indices, Values
from asktell.numerics.cached import cached_property
from asktell.problem.budget import describe_spending
from asktell.problem.candidates import AnyPrompt, ById, Prompts
from asktell.problem.goals import BestFeasible, Goal, ParetoSet
from asktell.results.checks import Check
from asktell.results.comparison import Comparer, Comparison, compare_two
from asktell.results.entries import FailureGroup, PromptResult, bounds_of, in_words, shown_estimates
from asktell.results.verdict import Verdict

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes


def dominators(values: Values) -> list[int | None]:
    """Per row (n, q) the row that dominates it, None if none does; of several the one that is ahead by most.

    That is where it is ahead by least, in units of the columns' spreads.
    """
    scale = np.ptp(values, axis=0) if len(values) else np.ones(values.shape[1])
    found: list[int | None] = []
    for row in values:
        ahead = (values - row) / np.where(scale > 0, scale, 1.0)
        dominates = (ahead >= 0).all(axis=1) & (ahead > 0).any(axis=1)
        by = np.where(dominates, ahead.min(axis=1), -1.0)
        found.append(int(by.argmax()) if dominates.any() else None)
    return found


def hypervolume(values: Values, reference: npt.NDArray[np.float64]) -> float:
    """Exact volume that the rows (n, q) dominate above `reference` (q,), for any q.

    A row that is not above it in every column adds nothing.
    """
    with needs_extra("analysis"):
        from pymoo.indicators.hv import HV

    return float(HV(ref_point=-reference)(-values)) if len(values) else 0.0  # pymoo minimizes


def layers(values: Values) -> list[Indices]:
    """Positions of the rows (n, q) by layer, ascending in each: the front, the front of the others, and so on.

    Rows that are equal are in the same layer.
    """
    with needs_extra("analysis"):
        from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting

    return [np.sort(layer) for layer in NonDominatedSorting().do(-values)] if len(values) else []


_PLAIN = (
    "spent", "budget", "spent_cost", "max_cost", "done", "stopped_early", "finished_early", "repeats", "inputs",
    "feasible",
)  # fmt: skip
CONFIDENCE = 0.95  # the confidence of what is said about the baseline
_LEVELS_SHOWN = 6
_ROWS_SHOWN = 10
_GONE = ("failed", "retired")
WIDTH = 110  # characters of a line, where nothing says how wide the terminal is

Levels: TypeAlias = Mapping[str, Mapping[str, tuple[float, float | None]]]  # level -> metric -> estimate and error

Moments: TypeAlias = Callable[[], list[dict[str, Any]]]  # how the answer settled


@dataclass(frozen=True, repr=False)
class Result:
    """The answer so far; final once `done`.

    `selected`: the best feasible prompt, or the Pareto set, best first. `verdict`: what to do with it and how sure that
    is. `stopped_early`: whether the run ended before its budget because the answer was as sure as was asked
    (`Adaptive(confidence=...)`, `Race`). `finished_early`: whether budget was left over because every prompt in the
    last round had no evaluation left. `feasible`: whether every selected
    prompt keeps every constraint (None without constraints; see `PromptResult`).
    `inputs`: what estimates, errors and probabilities are about: "new", the expected score on a new input that is
    evaluated once, or "given", the mean over exactly the given examples. `examples`: the number of examples that a
    prompt can see, None for any number. `repeats`: how often it may see each of them. `spent_cost`: sum of the costs
    told. `max_cost`: maximum cost; None if unlimited. `notes`: what else there is to know, in sentences. `checks`: the
    premises of all that is stated, and whether they hold. `baseline`: id of the prompt in use today, if the selector
    was given one. `example_ids`: the examples' ids by position, if the selector was given some. `failures`: the
    evaluations that failed, by their reasons, the most common one first.

    A Pareto set of `auto` is chosen for its expected quality, in which a prompt counts that may well be optimal. So it
    can hold a prompt whose estimate another selected one dominates, or whose estimate misses a constraint by little; a
    note says so.
    """

    goal: Goal
    selected: list[PromptResult]
    prompts: list[PromptResult]
    verdict: Verdict
    spent: int
    budget: int
    spent_cost: float
    done: bool
    feasible: bool | None
    examples: int | None = None
    repeats: int = 1
    inputs: str = "new"
    stopped_early: bool = False
    finished_early: bool = False
    max_cost: float | None = None
    notes: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    baseline: str | int | None = None
    example_ids: tuple[str, ...] | None = None
    failures: list[FailureGroup] = field(default_factory=list)
    _factors: Mapping[str, Levels] = field(default_factory=dict, repr=False)
    _comparer: Comparer | None = field(default=None, repr=False, compare=False)
    _comparison: Comparison | None = field(default=None, repr=False, compare=False)
    _moments: Moments | None = field(default=None, repr=False, compare=False)

    @property
    def best(self) -> PromptResult | None:
        """The first of `selected`, None while nothing is."""
        return self.selected[0] if self.selected else None

    @property
    def bounds(self) -> tuple[float, ...]:
        """The bound of each of `goal.constraints`, in metric units.

        One that is relative (`asktell.within`) moves with the estimate of the prompt that it refers to, and is NaN
        while there is none.
        """
        return tuple(bounds_of(self.goal, self.prompts, self.baseline).tolist())

    @property
    def unresolved(self) -> list[PromptResult]:
        """The contenders of the verdict without the answer: prompts that may well be better, or belong to the front."""
        entries, chosen = {entry.id: entry for entry in self.prompts}, {entry.id for entry in self.selected}
        return [entries[id_] for id_, _ in self.verdict.contenders if id_ not in chosen]

    def factors(self) -> dict[str, Levels]:
        """Factor -> level -> metric -> (estimate, error): which model, which prompt, which setting matters.

        That is the mean of all candidates of a level on the examples given, evaluated or not, and its posterior
        standard deviation, None as long as nothing supports one. Levels that occur with other levels of the other
        factors, as `where` may leave them, differ by those, too. Empty as long as nothing is known, and where no
        candidates share a level.
        """
        return {factor: {level: dict(means) for level, means in own.items()} for factor, own in self._factors.items()}

    def compare(
        self, a: AnyPrompt, b: AnyPrompt | None = None, confidence: float = 0.95, tolerance: float = 0.0
    ) -> Comparison:
        """Compare two prompts: the lead of a over b in every metric, and its certainty.

        Args:
            a: id or text of a prompt, or its entry of `prompts`.
            b: another one; by default the baseline, without one the selected prompt.
            confidence: how often all intervals of this comparison are right, at whatever moment one looks. Whoever
                makes several comparisons, or compares the best of many, divides the error among them.
            tolerance: differences up to it do not matter; in the metrics' own units.

        Raises:
            InvalidArgumentError: a prompt is unknown or ambiguous, both are the same, or a number makes no sense.
        """
        default = self.baseline if self.baseline is not None or not self.selected else self.selected[0].id
        prompts = self._named
        return compare_two(self._comparer, prompts, a, b, prompts.with_id(default), confidence, tolerance)

    @cached_property
    def _named(self) -> Prompts:
        ids = [entry.id for entry in self.prompts if isinstance(entry.id, str)]  # the others are positions
        return Prompts(ids or None, [entry.prompt for entry in self.prompts])

    @cached_property
    def comparison(self) -> Comparison | None:
        """The answer (of a Pareto set its first other prompt) against the baseline; None where there are not two.

        Without a baseline, one of two prompts that is the answer against the other. The answer was chosen among all
        prompts by the same scores. So the error of its intervals is divided among all that might have been chosen.
        """
        chosen = next((entry for entry in self.selected if entry.id != self.baseline), None)
        against = None if self.baseline is None else self.prompts[self._named.arm(ById(self.baseline))]
        if against is None and len(self.prompts) == 2 and len(self.selected) == 1:
            against = next(entry for entry in self.prompts if entry != self.selected[0])
        if self._comparison is not None or against is None or chosen is None or self._comparer is None:
            return self._comparison
        among = len(self.prompts) - 1
        found = self.compare(chosen, against, CONFIDENCE if among == 1 else 1 - (1 - CONFIDENCE) / among)

        return replace(found, confidence=CONFIDENCE)

    @property
    def sentence(self) -> str | None:
        """A plain-language summary of `comparison`, a line per metric for a Pareto set; None without a comparison."""
        if not self.selected:
            return None
        if self.comparison is None:
            only = [entry.id for entry in self.selected] == [self.baseline]
            return f"{safe(str(self.baseline))}, the baseline, is itself the answer." if only else None
        if isinstance(self.goal, BestFeasible):
            return self.comparison.sentence(self.goal.objective.metric)
        return str(self.comparison)

    @property
    def dominated(self) -> dict[str | int, str | int]:
        """Id of a selected prompt of a Pareto set -> id of the selected one that dominates it most, by the estimates.

        They are selected because that is in doubt; prompts that no selected one dominates are not in it.
        """
        if not isinstance(self.goal, ParetoSet):
            return {}
        known = _comparable(self.selected)
        found = dominators(self._values(known))
        return {known[i].id: known[by].id for i, by in enumerate(found) if by is not None}

    @property
    def early(self) -> str:
        """Why budget was left over, in words; empty if none was."""
        if self.stopped_early:
            return "stopped early: the method is as sure as was asked of it"
        if not self.finished_early:
            return ""
        often = " as often as it may be repeated" if self.repeats > 1 else ""
        return f"finished early: the prompts left have seen every example{often}"

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON-ready data, with the same names."""
        return {
            "goal": str(self.goal),
            "metrics": list(self.goal.metrics),
            "selected": [entry.to_dict() for entry in self.selected],
            "prompts": [entry.to_dict() for entry in self.prompts],
            "verdict": self.verdict.to_dict(),
            **{name: getattr(self, name) for name in _PLAIN},
            "failures": [asdict(group) for group in self.failures],
            "notes": list(self.notes),
            "checks": [asdict(check) for check in self.checks],
            "baseline": self.baseline,
            **({} if self.example_ids is None else {"example_ids": list(self.example_ids)}),
            **({"factors": _as_lists(self._factors)} if self._factors else {}),
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
        }

    def plot(self, x: str | None = None, y: str | None = None, ax: "Axes | None" = None) -> "Axes":
        """Draw every prompt with its uncertainty, the thresholds or the front, the answer and the baseline.

        Two metrics make a plane, one (or twice the same) the prompts from best to worst. Of three and more, every pair
        is drawn in a figure of its own (the first ten), unless `x` or `y` or `ax` is given; of its axes the first is
        returned, and `.figure.axes` are all. At most 15 prompts are named in a plane. Needs matplotlib.

        Raises:
            InvalidArgumentError: a metric is unknown.
            MissingExtraError: matplotlib is missing.
        """
        from asktell.results.plot import draw

        for name in (x, y):
            if name is not None:
                self._known_metric(name, "plot()")
        return draw(self, x, y, ax)

    def plot_history(self, metric: str | None = None, ax: "Axes | None" = None) -> "Axes":
        """Draw how the answer settled: its estimate in a metric, and how likely it was right, over the evaluations.

        Both are recomputed for some moments of the run from what was known by then, for ten seconds at most. `metric`
        is by default the goal's first. Needs matplotlib.

        Raises:
            InvalidArgumentError: the metric is unknown, or the result was not made by a selector or a study here.
            MissingExtraError: matplotlib is missing.
        """
        from asktell.results.plot import draw_history

        if self._moments is None:
            raise InvalidArgumentError("This result holds no history: it was not made by a selector or a study here.")
        name = self.goal.objectives[0].metric if metric is None else self._known_metric(metric, "plot_history()")
        return draw_history(self.goal, self._moments(), name, f"{self.goal}\n{describe_spending(self)}", ax)

    def _known_metric(self, name: str, who: str) -> str:
        if name not in self.goal.columns:
            raise InvalidArgumentError(f"{who} knows the metrics {list(self.goal.columns)}, got {name!r}.")
        return name

    def to_dataframe(self) -> "pandas.DataFrame":
        """The prompts as a table: a row each, in their order, with a column per metric and its standard error.

        A metric that has the name of another column becomes "metric NAME". Needs pandas.

        Raises:
            MissingExtraError: pandas is missing.
        """
        from asktell.results.notebook import as_frame

        return as_frame(self)

    def _repr_html_(self) -> str:
        from asktell.results.notebook import as_html

        return as_html(self, heading(self))

    def hypervolume(self, reference: Mapping[str, float] | None = None) -> float:
        """Exact volume, in the product of the objectives' units, that the selected prompts' estimates dominate.

        It reaches from `reference`, a number per objective, by default the worst estimate of each objective among all
        prompts. Under constraints only prompts whose estimates keep them count, in the answer and for the default; the
        volume is 0 where there is none. Compare volumes of the same reference only. Needs pymoo.

        Raises:
            IncompatibleMethodError: the goal is no `ParetoSet`.
            InvalidScoresError: the reference is not a number for each objective.
            MissingExtraError: pymoo is missing.
        """
        everyone = self._values(self.prompts)
        if reference is None:
            return hypervolume(self._values(self.selected), everyone.min(axis=0)) if len(everyone) else 0.0
        least = self._signs() * ParetoSet(*self.goal.objectives).vector(reference)
        return hypervolume(self._values(self.selected), least)

    def layers(self) -> list[list[PromptResult]]:
        """Prompts by their estimates: those that none dominates, those that only these dominate, and so on.

        A prompt without an estimate is in none, nor is one whose estimate misses a constraint. Needs pymoo.

        Raises:
            IncompatibleMethodError: the goal is no `ParetoSet`.
            MissingExtraError: pymoo is missing.
        """
        known = _comparable(self.prompts)
        return [[known[i] for i in layer] for layer in layers(self._values(known))]

    def _signs(self) -> npt.NDArray[np.float64]:
        if not isinstance(self.goal, ParetoSet):
            raise IncompatibleMethodError(
                f"Hypervolume and layers are those of a ParetoSet, but the goal is a {type(self.goal).__name__}."
            )
        return np.array([objective.sign for objective in self.goal.objectives])

    def _values(self, entries: list[PromptResult]) -> Values:
        """Estimates (n, q) of the objectives, larger is better, of those that have them and keep every constraint."""
        signs, metrics = self._signs(), [objective.metric for objective in self.goal.objectives]
        rows = [[entry.estimate[metric] for metric in metrics] for entry in _comparable(entries)]
        return np.array(rows, dtype=float).reshape(len(rows), len(metrics)) * signs

    def __repr__(self) -> str:
        ids = ", ".join(repr(entry.id) for entry in self.selected[:_ROWS_SHOWN])
        more = ", ..." if len(self.selected) > _ROWS_SHOWN else ""
        state = "final" if self.done else "so far"
        return f"<Result: {safe(str(self.goal))}; selected [{ids}{more}]; {describe_spending(self)}, {state}>"

    def __str__(self) -> str:
        lines = [part for line in heading(self) for part in filled(line, WIDTH)]
        if not self.selected:
            said = [self.verdict.sentence, *in_words(self.failures, most=1)]
            return "\n".join([*lines, *map(safe, said)])
        shown, dominated = self.selected[:_ROWS_SHOWN], self.dominated
        columns = _columns(shown, self.goal)
        if any(entry.id in dominated for entry in shown):
            columns.append(["dominated by", *(str(dominated.get(entry.id, "")) for entry in shown)])
        ids, texts = ["id", *(str(entry.id) for entry in shown)], ["prompt", *(entry.prompt for entry in shown)]
        lines += in_blocks([ids], columns, texts, WIDTH)
        if self.inputs == "given":
            lines.append(f"Estimates are means over the given {self.examples:,} examples.")
        if len(self.selected) > _ROWS_SHOWN:
            lines.append(f"... and {len(self.selected) - _ROWS_SHOWN} more.")
        cost = [f"Cost: {self.spent_cost:.4g}."] if self.spent_cost and self.max_cost is None else []
        every = (self.verdict.sentence, *_by_factor(self), *self.notes)
        said = [part for line in every for part in filled(line, WIDTH)]
        return "\n".join([*lines, *said, *cost, *([self.sentence] if self.sentence else [])])

    def table(self, width: int = WIDTH) -> str:
        """Every prompt with its estimates, the selected ones first, then by the goal; below, failures and notes."""
        ranked = [self.prompts[arm] for arm in ranking(self)]
        chosen, open_ = ({entry.id for entry in entries} for entries in (self.selected, self.unresolved))
        marks = ["*" if e.id in chosen else "?" if e.id in open_ else "" for e in ranked]
        dominated = self.dominated
        columns = _columns(ranked, self.goal)
        columns.append(["status", *(_status(e, dominated.get(e.id)) for e in ranked)])
        lines = [part for line in heading(self) for part in filled(line, width)]
        keys = [["", *marks], ["id", *(str(entry.id) for entry in ranked)]]
        lines += in_blocks(keys, columns, ["prompt", *(entry.prompt for entry in ranked)], width)
        lines.append("*: selected" + ("; ?: may be better, or belong to them" if open_ - chosen else ""))
        lines += (one_line(line, 2 * width) for line in in_words(self.failures, most=10))
        for e in self.prompts:
            if e.status == "retired":
                why = f": {one_line(e.reason, 2 * width)}" if e.reason else "."
                lines.append(f"{safe(str(e.id))} was retired{why}")
        cost = [f"Cost: {self.spent_cost:.4g}"] if self.spent_cost else []
        said = [*filled(self.verdict.sentence, width), *_by_factor(self), *self.notes, *cost]
        return "\n".join([*lines, *said, *([self.sentence] if self.sentence else [])])


def _as_lists(factors: Mapping[str, Levels]) -> dict[str, dict[str, dict[str, list[float | None]]]]:
    return {
        factor: {level: {name: list(known) for name, known in means.items()} for level, means in levels.items()}
        for factor, levels in factors.items()
    }


def _by_factor(result: Result) -> Iterator[str]:
    objective = result.goal.objectives[0]
    for factor, levels in result.factors().items():
        if 1 < len(levels) <= _LEVELS_SHOWN:
            known = [(level, *means[objective.metric]) for level, means in levels.items()]
            known.sort(key=lambda each: -objective.sign * each[1])
            shown = ", ".join(f"{safe(level)} {with_error(mean, error)}" for level, mean, error in known)
            yield f"{safe(objective.metric)} by {safe(factor)}: {shown}."


def ranking(result: Result) -> Indices:
    """All arms: the answer, then by the estimates, feasible ones first; those without an estimate last."""
    goal, n = result.goal, len(result.goal.objectives)
    means = [
        [np.nan if e.estimate[name] is None else e.estimate[name] for name in goal.columns] for e in result.prompts
    ]
    values = goal.values(np.array(means, dtype=np.float64), np.array(result.bounds))
    objectives, slacks = np.split(values, [n], axis=1)
    misses = np.array([entry.feasible is False for entry in result.prompts])
    violation = np.where(misses, -np.minimum(slacks, 0.0).sum(axis=1), 0.0)
    known = np.asarray(np.isfinite(objectives).all(axis=1))
    spread = objectives[known].std(axis=0) if n > 1 and known.any() else np.ones(n)
    merit = (objectives / np.where(spread > 0, spread, 1.0)).mean(axis=1)
    first = {entry.id: place for place, entry in enumerate(result.selected)}
    place = np.array([first.get(entry.id, len(first)) for entry in result.prompts])
    return np.lexsort((np.where(known, -merit, 0.0), np.where(known, violation, 0.0), misses, ~known, place))


def _status(entry: PromptResult, dominator: str | int | None) -> str:
    parts = [entry.status if entry.round is None else f"{entry.status}, round {entry.round}"]
    parts += ["infeasible"] if entry.feasible is False else []
    return ", ".join(parts if dominator is None else [*parts, f"dominated by {dominator}"])


def _comparable(entries: list[PromptResult]) -> list[PromptResult]:
    return [entry for entry in entries if None not in entry.estimate.values() and entry.feasible is not False]


def heading(result: Result) -> list[str]:
    """The goal and the progress."""
    state = "final" if result.done else "so far"
    early = f"; {result.early}" if result.early else ""
    return [f"{safe(str(result.goal))} ({state}, {describe_spending(result)} spent{early})"]


def _columns(entries: list[PromptResult], goal: Goal) -> list[list[str]]:
    """Of a table: estimates, worst segments, probabilities, pulls and failures, each column with its header."""
    shown = (shown_estimates(entries, metric) for metric in goal.columns)
    columns = [[name, *cells] for name, cells in shown]
    columns += [_worst_segments(entries, goal, goal.columns[j]) for j in goal.by_segment]
    best = "P(best)" if isinstance(goal, BestFeasible) else "P(in set)"
    for name, of_all in ((best, [e.p_best for e in entries]), ("P(feasible)", [e.p_feasible for e in entries])):
        if any(p is not None for p in of_all):
            columns.append([name, *map(with_doubt, of_all)])
    columns.append(["evaluations", *(str(e.evaluations) for e in entries)])
    if any(e.failures for e in entries):
        columns.append(["failed", *(str(e.failures) for e in entries)])
    return columns


def _worst_segments(entries: list[PromptResult], goal: Goal, name: str) -> list[str]:
    """The segment in which each prompt is worst in a metric."""
    worst, cells = max if name in goal.minimized else min, [f"{name}, worst"]
    for entry in entries:
        found = worst(((known[name], label) for label, known in entry.segments.items()), default=None)
        cells.append("" if found is None else f"{with_error(*found[0])} ({found[1]})")
    return cells
