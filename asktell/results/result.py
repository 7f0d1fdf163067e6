"""The result of a selection at any time: the selected prompts, and estimates of every prompt."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from asktell._util.extras import needs_extra
from asktell._util.terminal import in_markdown, one_line, safe, with_error
from asktell._util.threads import undisturbed
from asktell.errors import IncompatibleMethodError, InvalidArgumentError
from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.cached import cached_property
from asktell.numerics.pareto import dominators
from asktell.numerics.shapes import Float
from asktell.problem.budget import describe_spending
from asktell.problem.checks import check_part
from asktell.problem.goals import BestFeasible, Goal, ParetoSet
from asktell.problem.prompts import AnyPrompt, ById, Prompts
from asktell.results import notebook
from asktell.results.assignment import Assignment
from asktell.results.checks import Check
from asktell.results.comparison import Comparer, Comparison, compare_two
from asktell.results.entries import (
    FailureGroup,
    PromptResult,
    bounds_of,
    capitalized,
    in_words,
    quoted,
)
from asktell.results.examples import ExampleResult
from asktell.results.printing import filled, in_blocks, printable
from asktell.results.table import as_frame, shown_columns, values_of
from asktell.results.verdict import Verdict

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes


def hypervolume(
    values: Float[Floats, "arms columns"], reference: npt.NDArray[np.float64]
) -> float:
    """Exact volume that the rows (n, q) dominate above `reference` (q,), for any q.

    A row that does not exceed the reference in every column adds nothing.
    """
    with needs_extra("analysis"):
        from pymoo.indicators.hv import HV

    # Pymoo minimizes
    return float(HV(ref_point=-reference)(-values)) if len(values) else 0.0


def layers(values: Float[Floats, "arms columns"]) -> list[Ints]:
    """Positions of the rows (n, q) by layer, ascending in each.

    The first layer is the Pareto set, the second is the Pareto set of the other rows,
    and so on. Equal rows are in the same layer.
    """
    with needs_extra("analysis"):
        from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting

    return (
        [np.sort(layer) for layer in NonDominatedSorting().do(-values)]
        if len(values)
        else []
    )


_PLAIN = (
    "spent", "budget", "spent_cost", "max_cost", "done", "stopped_early", "finished_early", "repeats", "inputs",
    "feasible",
)  # fmt: skip
_LEVELS_SHOWN = 6
_ROWS_SHOWN = 10
_CONFIDENCE = 0.95  # of an assignment, unless another is wanted
WIDTH = 110  # characters of a line, if the width of the terminal is unknown

# Level -> metric -> estimate and error
Levels: TypeAlias = Mapping[str, Mapping[str, tuple[float, float | None]]]

# By a metric, at a false discovery rate
Analyzed: TypeAlias = Callable[[str | None, float], list[ExampleResult]]

# At a confidence
Assigned: TypeAlias = Callable[[float], Assignment]


@dataclass(frozen=True, repr=False)
class Result:
    """The selected prompts, the estimates of every prompt, and how sure they are.

    In Python, `print(result)` shows the selected prompts, the other contenders and the
    verdict. `result.table()` shows every prompt.

        >>> import asktell
        >>> scores = [[1, 1, 1, 0] * 10, [1, 0, 1, 0] * 10, [0, 0, 1, 0] * 10]
        >>> goal = asktell.BestFeasible(asktell.maximize("accuracy", range=(0, 1)))
        >>> result = asktell.analyze(scores, goal, prompts=["a", "b", "c"])
        >>> result.best.prompt
        'a'
        >>> result.verdict.action
        'take'
        >>> [round(entry.estimate["accuracy"], 1) for entry in result.prompts]
        [0.7, 0.5, 0.3]

    Attributes:
        goal: the goal of the selection.
        selected: the selected prompts, the best first: the best feasible prompt, or the
            Pareto set. If no prompt is likely to satisfy every constraint, the prompt
            that violates its constraints least. With `sure`, it is then the prompt with
            the highest probability of satisfying them. Empty before the first scores.
        prompts: every prompt, in the order in which they were given.
        verdict: the recommendation, and how sure it is.
        spent: the number of recorded evaluations, without those from `observe`.
        budget: the maximum number of evaluations. If only the cost is limited, this is
            the number of all possible evaluations, at most 100000000.
        spent_cost: the sum of the recorded costs, in the unit of these costs.
        max_cost: the maximum cost, in the same unit. None if it is unlimited.
        done: True if the selection has ended, so that the result is final.
        feasible: True if every selected prompt is `feasible`. None without constraints,
            or with too little data.
        n_examples: the number of examples on which a prompt can be evaluated. None if
            it is unlimited: the evaluator draws its own examples, or sampling="iid".
        repeats: how often a prompt can be evaluated on the same example.
        inputs: the subject of estimates, errors and probabilities. "new": the expected
            score of one evaluation on a new input. "given": the mean over exactly the
            given examples.
        stopped_early: True if the selection ended before the budget was spent, because
            it reached the `confidence` of its method, such as 95% for "race".
        finished_early: True if budget was left over, because every prompt that was not
            eliminated was evaluated on every example.
        notes: further remarks, in sentences.
        checks: the premises of the probabilities and intervals, and whether they hold.
        baseline: the id of the prompt in use. None without a baseline.
        example_ids: the ids of the examples, in the order of their positions. None if
            the examples have no ids.
        failures: the failed evaluations, grouped by reason. The most frequent reason
            comes first.

    For a Pareto set, the method "auto" selects the prompts that are expected to match
    the true Pareto set best. By the estimates, one of them may be dominated by another
    selected prompt, or slightly violate a constraint. It is selected because its true
    means may be better. Then `notes` explains this.
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
    n_examples: int | None = None
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
    _analyzed: Analyzed | None = field(default=None, repr=False, compare=False)
    _assigned: Assigned | None = field(default=None, repr=False, compare=False)

    @property
    def best(self) -> PromptResult | None:
        """The first selected prompt. None if no prompt is selected yet."""
        return self.selected[0] if self.selected else None

    @property
    def worth(self) -> tuple[float, float, float] | None:
        """What choosing among the prompts is worth: how much better the best prompt is than the median prompt.

        The estimate and the ends of its 95% interval, in the units of the first
        objective, also if less is better. With constraints, the best feasible prompt
        counts. If the interval ends near 0, the prompts hardly differ, and other
        prompts help more than further evaluations. None for a Pareto set, for a single
        prompt, and with too little data.
        """
        return self.verdict.worth

    @property
    def bounds(self) -> tuple[float, ...]:
        """The bound of each constraint in `goal.constraints`, in the units of its metric.

        The bound of `asktell.within` depends on the estimate of the best prompt or the
        baseline. It is NaN as long as this prompt has no estimate. The bound of a
        quantile is a share of the examples.
        """
        return tuple(bounds_of(self.goal, self.prompts, self.baseline).tolist())

    @property
    def unresolved(self) -> list[PromptResult]:
        """The contenders that are not selected.

        These are the prompts that may be better than the selected prompt, or that may
        belong to the Pareto set.
        """
        entries, chosen = (
            {entry.id: entry for entry in self.prompts},
            {entry.id for entry in self.selected},
        )
        return [entries[id_] for id_, _ in self.verdict.contenders if id_ not in chosen]

    def factors(self) -> dict[str, Levels]:
        """The mean of each level of each factor: factor -> level -> metric -> (estimate, standard error).

        The estimate is the mean of the estimates of all candidates with this level,
        whether they were evaluated or not. The standard error is None if there is not
        enough data.

        If the candidates do not have all combinations of levels (for example because
        `where` in `asktell.grid` left some out), two levels of a factor can be combined
        with different levels of the other factors. A difference between the two levels
        can then be due to these other factors.

        The mapping is empty before the first scores, and if no two candidates share a
        level.
        """
        return {
            factor: {level: dict(means) for level, means in levels.items()}
            for factor, levels in self._factors.items()
        }

    def examples(
        self, metric: str | None = None, fdr: float = 0.1
    ) -> list[ExampleResult]:
        """Item analysis: how hard each example is, how well it separates prompts, whether its label looks wrong.

        `pandas.DataFrame(result.examples())` makes a table.

            >>> import asktell
            >>> scores = [[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 0, 1]]
            >>> easy, *_, hard = asktell.analyze(scores, asktell.BestFeasible("accuracy")).examples()
            >>> hard.mean, hard.loss, round(hard.difficulty, 2)
            (0.2, 0.8, 0.4)
            >>> easy.separates_nobody
            True

        The mean of the last example is 0.2, so it is 0.8 below the best possible score
        of 1. On the average example, the mean is 0.6, so the difficulty of the last
        example is 0.6 - 0.2 = 0.4.

        Args:
            metric: the metric, by default the goal's first objective.
            fdr: the false discovery rate of `likely_mislabeled`, above 0 and below 1:
                the share of false alarms that you accept among the flagged examples. An
                example is flagged if better prompts score worse on it. The alarm is
                false if this is only by chance. After a true alarm, a person must find
                out whether the label or the metric is wrong, or the question is a
                trick. The rate holds for prompts that are independent of each other.
                With many variants of a few prompts, more alarms are false.

        Returns:
            One entry for each example, in the order of the examples.

        Raises:
            InvalidArgumentError: the metric is unknown, `fdr` is not above 0 and below
                1, the selection was made without examples, or the result was loaded
                from JSON or came over HTTP.
        """
        if self._analyzed is None:
            raise InvalidArgumentError(
                "This result has no scores by example, because it was loaded from JSON or came over HTTP. Use a "
                "Selector or a Study in this process: study.result().examples()."
            )
        return self._analyzed(metric, fdr)

    @undisturbed
    def assignment(self, confidence: float = _CONFIDENCE) -> Assignment:
        """Assign a prompt to each segment: the best prompt, unless another is shown to be better there.

            >>> import asktell
            >>> scores = [[1, 0, 1, 0, 1, 1] * 20, [0, 1, 0, 1, 1, 1] * 20]
            >>> result = asktell.analyze(scores, asktell.BestFeasible("accuracy"), segments=["law", "math"] * 60)
            >>> result.assignment().candidates
            {'law': 0, 'math': 1}

        Another prompt must be better in two ways. The interval of its lead in the
        segment is above 0, as in `compare`. And by the statistical model, all changes
        together make no segment worse with a probability of `confidence`. Among such
        prompts, a segment gets the one with the best estimate. It must be better by
        more than the tolerance of the objective, if the goal states one. With a baseline
        that the verdict keeps ("keep"), the baseline takes the place of the best prompt.

        The constraints of the goal hold for the assignment as a whole: over all
        segments, the estimates must satisfy every constraint. If those of the best
        prompt alone do not, they must not get worse. A constraint on every segment must
        hold in each of them.

        Failed and retired prompts are not assigned. If a remark says that the scores are
        doubtful, every segment gets the best prompt.

        Args:
            confidence: the least probability that no segment gets a prompt that is
                worse than the best prompt, and the confidence of each interval. Above 0
                and below 1.

        Raises:
            IncompatibleMethodError: the goal is a `ParetoSet`, or sampling="iid".
            InvalidArgumentError: the examples have no segments, no prompt is selected
                yet, `confidence` is out of range, or the result was loaded from JSON or
                came over HTTP.
        """
        if self._assigned is None:
            raise InvalidArgumentError(
                "This result has no scores to assign prompts by, because it was loaded from JSON or came over HTTP. "
                "Use a Selector or a Study in this process: study.result().assignment()."
            )
        confidence = check_part("The confidence", confidence)
        return (
            self._assignment
            if confidence == _CONFIDENCE
            else self._assigned(confidence)
        )

    @cached_property
    def _assignment(self) -> Assignment:
        assert self._assigned is not None
        return self._assigned(_CONFIDENCE)

    @property
    def assigned(self) -> dict[str | int, list[str]] | None:
        """The id of a prompt -> the segments that it is assigned to, with 95% confidence. See `assignment`.

        None if the examples have no segments, for a `ParetoSet`, with sampling="iid",
        and if the result was loaded from JSON or came over HTTP.
        """
        has_segments = bool(self.selected) and bool(self.selected[0].segments)
        is_comparable = isinstance(self.goal, BestFeasible) and bool(self.n_examples)
        if self._assigned is None or not has_segments or not is_comparable:
            return None
        by_prompt: dict[str | int, list[str]] = {}
        for segment, id_ in self._assignment.candidates.items():
            by_prompt.setdefault(id_, []).append(segment)
        return by_prompt

    @undisturbed
    def compare(
        self,
        a: AnyPrompt,
        b: AnyPrompt | None = None,
        confidence: float = 0.95,
        tolerance: float | None = None,
    ) -> Comparison:
        """Compare two prompts in every metric: the difference, its interval and the probability that a is better.

            >>> import asktell
            >>> scores = [[1, 1, 1, 0] * 10, [1, 0, 1, 0] * 10, [0, 0, 1, 0] * 10]
            >>> goal = asktell.BestFeasible(asktell.maximize("accuracy", range=(0, 1)))
            >>> result = asktell.analyze(scores, goal, prompts=["a", "b", "c"])
            >>> print(result.compare("a", "c").sentence("accuracy"))
            "a" is better than "c": difference +0.465, 95% interval +0.333 to +0.667 (all 40 examples).

        Args:
            a: the id or text of a prompt, or its entry of `prompts`.
            b: another prompt. The default is the baseline, or the selected prompt if
                there is no baseline.
            confidence: the probability that all intervals of this comparison contain
                the true differences, above 0 and below 1. While a selection runs, it
                holds no matter how often you look. At the end of a budget that was
                fixed beforehand, intervals are for one look, and narrower. If one of
                the two prompts is selected, the intervals allow for its choice among
                all evaluated prompts. If you make n comparisons, pass 1 - 0.05 / n, so
                that all of them hold together with 95% confidence.
            tolerance: differences up to this size count as equal in every metric, in
                the metric's units. It must be less than the width of each known range.
                None: each metric has the tolerance that the goal states for it, or
                none. 0: no metric has a tolerance.

        Raises:
            InvalidArgumentError: a prompt is unknown or ambiguous, both are the same, a
                number is out of range, or the result was loaded from JSON or came over
                HTTP.
        """
        default = (
            self.baseline
            if self.baseline is not None or not self.selected
            else self.selected[0].id
        )
        prompts = self._named
        return compare_two(
            self._comparer,
            prompts,
            a,
            b,
            prompts.with_id(default),
            confidence,
            tolerance,
        )

    @cached_property
    def _named(self) -> Prompts:
        # The others are positions
        ids = [entry.id for entry in self.prompts if isinstance(entry.id, str)]
        return Prompts(ids or None, [entry.prompt for entry in self.prompts])

    @cached_property
    def comparison(self) -> Comparison | None:
        """The comparison of the selected prompt with the baseline. None without such a pair.

        For a `ParetoSet`, the first selected prompt that is not the baseline is
        compared. Without a baseline, and with only two prompts in all, the selected
        prompt is compared with the other prompt.

        The prompt was selected because of its good scores, so chance may have helped
        it. The intervals allow for this, as those of `compare` do, and hold with 95%
        confidence whichever prompt is selected.
        """
        chosen = next(
            (entry for entry in self.selected if entry.id != self.baseline), None
        )
        against = (
            None
            if self.baseline is None
            else self.prompts[self._named.arm(ById(self.baseline))]
        )
        if against is None and len(self.prompts) == 2 and len(self.selected) == 1:
            against = next(entry for entry in self.prompts if entry != self.selected[0])
        if (
            self._comparison is not None
            or against is None
            or chosen is None
            or self._comparer is None
        ):
            return self._comparison
        return self.compare(chosen, against)

    @property
    def sentence(self) -> str | None:
        """The `comparison` in words, with one line for each metric for a `ParetoSet`.

        If the baseline itself is the selected prompt, the sentence says so. None if
        there is neither a comparison nor a baseline.

        With constraints, the sentence starts with the name of the objective, because it
        is about the objective alone. A prompt that is worse in the objective can still
        be the best feasible prompt.
        """
        if not self.selected:
            return None
        if self.comparison is None:
            ids = [entry.id for entry in self.selected]
            only = self.baseline if ids == [self.baseline] else None
            return (
                f"The baseline {quoted(only)} is the selected prompt."
                if only is not None
                else None
            )
        if isinstance(self.goal, BestFeasible):
            metric = self.goal.objective.metric
            sentence = self.comparison.sentence(metric)
            return (
                f"{safe(metric)}: {sentence}" if self.goal.is_constrained else sentence
            )
        return str(self.comparison)

    @property
    def dominated(self) -> dict[str | int, str | int]:
        """The selected prompts that another selected prompt dominates, by the estimates.

        The mapping goes from the id of a dominated prompt to the id of a prompt that
        dominates it. If several prompts dominate it, this is the prompt that is most
        clearly better: its lead in the objective where it leads least is the largest. A
        lead is measured relative to the range of the estimates in its objective.

        A dominated prompt can be selected because its true means may be better than the
        estimates. Empty unless the goal is a `ParetoSet`.
        """
        if not isinstance(self.goal, ParetoSet):
            return {}
        entries = _comparable(self.selected)
        by_place = dominators(self._values(entries))
        return {
            entries[i].id: entries[by].id
            for i, by in enumerate(by_place)
            if by is not None
        }

    @property
    def early(self) -> str:
        """The reason why budget was left over, in words. Empty if no budget was left over."""
        if self.stopped_early:
            return "stopped early: the requested confidence was reached"
        if not self.finished_early:
            return ""
        times = f" {self.repeats} times" if self.repeats > 1 else ""
        return f"finished early: every prompt still in the selection was evaluated on every example{times}"

    def to_dict(self) -> dict[str, Any]:
        """The result as a mapping that JSON can represent.

        Its keys are the names of the attributes, except `n_examples`, and also
        "metrics" (the names of the goal's metrics) and "comparison". The key
        "example_ids" is missing if the examples have no ids. The key "factors" exists
        only if the candidates have several factors and share levels.
        """
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
            **(
                {}
                if self.example_ids is None
                else {"example_ids": list(self.example_ids)}
            ),
            **({"factors": _as_lists(self._factors)} if self._factors else {}),
            "comparison": None
            if self.comparison is None
            else self.comparison.to_dict(),
        }

    def plot(
        self, x: str | None = None, y: str | None = None, ax: "Axes | None" = None
    ) -> "Axes":
        """Plot every prompt with its error bars, the constraints, the selected prompts and the baseline.

        Two metrics make a scatter plot. One metric ranks the prompts from best to
        worst. With three or more metrics, every pair of metrics is plotted, up to ten
        pairs, unless you pass `x`, `y` or `ax`. At most 8 prompts get a label. Needs
        matplotlib.

        Args:
            x: the metric of the X axis, by default the first metric.
            y: the metric of the Y axis, by default the next metric.
            ax: the axes to draw in, by default those of a new figure.

        Returns:
            The axes, or the first axes of several. `.figure.axes` has all of them.

        Raises:
            InvalidArgumentError: a metric is unknown.
            MissingExtraError: matplotlib is missing.
        """
        from asktell.results.plot import draw  # needs matplotlib

        for name in (x, y):
            if name is not None and name not in self.goal.columns:
                raise InvalidArgumentError(
                    f"plot() got the metric {name!r}, but the metrics of the goal are {list(self.goal.columns)}."
                )
        title = f"{self.goal}\n{describe_spending(self)}, {len(self.prompts)} prompts"
        return draw(self, title, x, y, ax)

    def to_markdown(self) -> str:
        """The verdict, the table of all prompts and the notes in Markdown, for a pull request or a page.

        The selected prompts come first, then the other prompts, best first. Markup in
        texts is escaped.
        """
        entries = [self.prompts[arm] for arm in ranking(self)]
        columns = [
            ["id", *(str(entry.id) for entry in entries)],
            *shown_columns(self, entries, status=True),
            ["prompt", *(one_line(entry.prompt, 60) for entry in entries)],
        ]
        head, *rows = (
            f"| {' | '.join(map(in_markdown, cells))} |"
            for cells in zip(*columns, strict=True)
        )
        below = [
            *([self._legend] if self.unresolved else ["* selected"]),
            *in_words(self.failures, most=10),
            *self._other_notes,
            *(self.sentence or "").splitlines(),
        ]
        lines = [
            f"**{in_markdown(self.verdict.sentence)}**",
            *map(in_markdown, heading(self)),
            "\n".join([head, "|" + "---|" * len(columns), *rows]),
            *map(in_markdown, below),
        ]
        return "\n\n".join(lines)

    def to_columns(self) -> dict[str, list[Any]]:
        """The table of `to_dataframe` as a mapping from column to values, one for each prompt. Needs no pandas."""
        return values_of(self, self.prompts)

    def to_dataframe(self) -> "pandas.DataFrame":
        """A table with one row for each prompt. Needs pandas.

        Each metric has two columns: NAME has the estimate, and "NAME error" its
        standard error. If a metric has the name of another column, its columns are
        "metric NAME" and "metric NAME error".

        Raises:
            MissingExtraError: pandas is missing.
        """
        return as_frame(self)

    def _repr_html_(self) -> str:
        entries = [*self.selected, *self.unresolved]
        shown = entries[:_ROWS_SHOWN]
        columns = [
            ["id", *(str(entry.id) for entry in shown)],
            *shown_columns(self, shown),
        ]
        columns.append(["prompt", *(one_line(entry.prompt, 60) for entry in shown)])
        head, *rows = ([*cells] for cells in zip(*columns, strict=True))
        below = (
            [f"... and {len(entries) - len(shown)} more."]
            if len(entries) > len(shown)
            else []
        )
        below += [self._legend] if self.unresolved else []
        below += [*self._other_notes, *(self.sentence or "").splitlines()]
        marks = {True: "✓", False: "✗", None: "?"}
        # Notes repeat the checks that do not hold.
        checks = [check for check in self.checks if check.sentence not in self.notes]
        return notebook.block(
            notebook.heading(self.verdict.sentence),
            notebook.paragraphs(heading(self)),
            notebook.table(head, rows),
            notebook.paragraphs(below),
            notebook.folded(
                "What could go wrong",
                [f"{marks[check.ok]} {check.sentence}" for check in checks],
            ),
        )

    @property
    def _legend(self) -> str:
        """The meaning of the marks in the table."""
        if isinstance(self.goal, BestFeasible):
            return "* selected, ? may be better"
        return "* selected, ? may belong to the Pareto set"

    def hypervolume(self, reference: Mapping[str, float] | None = None) -> float:
        """How good the set of selected prompts is: the hypervolume between their estimates and a reference point.

        The unit is the product of the units of the objectives. With constraints, only
        prompts whose estimates satisfy them count. Without such a prompt, the
        hypervolume is 0. Compare only hypervolumes with the same reference point. Needs
        pymoo.

        Args:
            reference: for each objective, the worst value that still counts, as a
                mapping from objective to number, or numbers in the order of the
                objectives. A prompt that is not better than this value in every
                objective adds nothing. By default, the worst estimate of each objective
                among all prompts whose estimates satisfy the constraints.

        Raises:
            IncompatibleMethodError: the goal is not a `ParetoSet`.
            InvalidScoresError: the reference is not a number for each objective.
            MissingExtraError: pymoo is missing.
        """
        everyone = self._values(self.prompts)
        if reference is None:
            return (
                hypervolume(self._values(self.selected), everyone.min(axis=0))
                if len(everyone)
                else 0.0
            )
        least = self._signs() * ParetoSet(*self.goal.objectives).vector(reference)
        return hypervolume(self._values(self.selected), least)

    def layers(self) -> list[list[PromptResult]]:
        """The prompts by Pareto rank, based on their estimates. Needs pymoo.

        The first layer has the prompts that no prompt dominates. The second layer has
        the prompts that only prompts of the first layer dominate, and so on. Prompts
        without estimates, or whose estimates violate a constraint, are left out.

        Raises:
            IncompatibleMethodError: the goal is not a `ParetoSet`.
            MissingExtraError: pymoo is missing.
        """
        entries = _comparable(self.prompts)
        return [[entries[i] for i in layer] for layer in layers(self._values(entries))]

    def _signs(self) -> npt.NDArray[np.float64]:
        if not isinstance(self.goal, ParetoSet):
            raise IncompatibleMethodError(
                f"Hypervolume and layers need the goal ParetoSet. This goal is a {type(self.goal).__name__}."
            )
        return np.array([objective.sign for objective in self.goal.objectives])

    def _values(self, entries: list[PromptResult]) -> Float[Floats, "arms columns"]:
        """(n, q) estimates of the objectives, larger is better, of prompts that satisfy every constraint."""
        signs, metrics = (
            self._signs(),
            [objective.metric for objective in self.goal.objectives],
        )
        rows = [
            [entry.estimate[metric] for metric in metrics]
            for entry in _comparable(entries)
        ]
        return np.array(rows, dtype=float).reshape(len(rows), len(metrics)) * signs

    def __repr__(self) -> str:
        ids = ", ".join(repr(entry.id) for entry in self.selected[:_ROWS_SHOWN])
        more = ", ..." if len(self.selected) > _ROWS_SHOWN else ""
        state = "final" if self.done else "so far"
        return f"<Result: {safe(str(self.goal))}; selected [{ids}{more}]; {describe_spending(self)}, {state}>"

    def __str__(self) -> str:
        """The selected prompts, the other contenders, and the verdict."""
        entries = [*self.selected, *self.unresolved]
        lines = list(self._heading(WIDTH))
        if not self.selected:
            sentences = [self.verdict.sentence, *in_words(self.failures, most=1)]
            return printable("\n".join([*lines, *map(safe, sentences)]))
        lines += self._rows(entries[:_ROWS_SHOWN], WIDTH, status=False)
        if len(entries) > _ROWS_SHOWN:
            lines.append(f"... and {len(entries) - _ROWS_SHOWN} more.")
        if self.inputs == "given":
            lines.append(
                f"Estimates are means over the given {self.n_examples:,} examples."
            )
        cost = "" if self.max_cost is not None else self._cost
        return printable("\n".join([*lines, *self._conclusion(WIDTH, cost)]))

    def table(self, width: int = WIDTH) -> str:
        """Every prompt with its estimates as text. Failures and notes follow.

        The selected prompts come first, then the other prompts, best first.

        Args:
            width: the number of characters in a line.
        """
        lines = list(self._heading(width))
        lines += self._rows(
            [self.prompts[arm] for arm in ranking(self)], width, status=True
        )
        lines += (
            one_line(line, 2 * width) for line in in_words(self.failures, most=10)
        )
        for entry in self.prompts:
            if entry.status == "retired":
                why = f": {one_line(entry.reason, 2 * width)}" if entry.reason else "."
                lines.append(capitalized(f"{quoted(entry.id)} was retired{why}"))
        return printable("\n".join([*lines, *self._conclusion(width, self._cost)]))

    def _heading(self, width: int) -> Iterator[str]:
        for line in heading(self):
            yield from filled(line, width)

    def _rows(
        self, entries: Sequence[PromptResult], width: int, status: bool
    ) -> list[str]:
        """The table of these prompts, with a legend of its marks."""
        marks, *columns = shown_columns(self, entries, status)
        keys = [["id", *(str(entry.id) for entry in entries)]]
        # If every prompt shown is selected, the column of marks is left out.
        legend = self._legend if "?" in marks else "* selected"
        if set(marks[1:]) != {"*"}:
            keys.insert(0, marks)
        lines = list(
            in_blocks(
                keys, columns, ["prompt", *(entry.prompt for entry in entries)], width
            )
        )
        return lines if set(marks[1:]) == {"*"} else [*lines, legend]

    def _conclusion(self, width: int, cost: str) -> list[str]:
        """The verdict, the levels of factors, notes, the cost and the comparison with the baseline."""
        lines: list[str] = []
        for text in (self.verdict.sentence, *_by_factor(self), *self._other_notes):
            lines += filled(text, width)
        lines += [cost] if cost else []
        return lines + ([self.sentence] if self.sentence else [])

    @property
    def _other_notes(self) -> list[str]:
        """The notes without those that the verdict repeats, such as why scores are doubtful."""
        return [note for note in self.notes if note not in self.verdict.sentence]

    @property
    def _cost(self) -> str:
        return f"Total cost: {self.spent_cost:.4g}." if self.spent_cost else ""


def loaded_result(
    data: Mapping[str, Any], goal: Goal, comparer: Comparer, analyzed: Analyzed
) -> Result:
    """Make the result that `Result.to_dict` has converted.

    Args:
        data: what `to_dict` returned, with "n_examples".
        goal: the goal.
        comparer: compares two prompts.
        analyzed: analyzes the examples.
    """
    prompts = {entry["id"]: PromptResult.from_dict(entry) for entry in data["prompts"]}
    factors = {
        factor: {
            level: {metric: (mean, error) for metric, (mean, error) in means.items()}
            for level, means in levels.items()
        }
        for factor, levels in data.get("factors", {}).items()
    }
    ids, comparison = data.get("example_ids"), data["comparison"]
    return Result(
        goal=goal,
        selected=[prompts[entry["id"]] for entry in data["selected"]],
        prompts=list(prompts.values()),
        verdict=Verdict.from_dict(data["verdict"]),
        **{name: data[name] for name in (*_PLAIN, "n_examples", "baseline")},
        notes=tuple(data["notes"]),
        checks=tuple(Check(**check) for check in data["checks"]),
        example_ids=None if ids is None else tuple(ids),
        failures=[FailureGroup(**group) for group in data["failures"]],
        _factors=factors,
        _comparer=comparer,
        _comparison=None if comparison is None else Comparison.from_dict(comparison),
        _analyzed=analyzed,
    )


def _as_lists(
    factors: Mapping[str, Levels],
) -> dict[str, dict[str, dict[str, list[float | None]]]]:
    return {
        factor: {
            level: {name: list(estimate) for name, estimate in means.items()}
            for level, means in levels.items()
        }
        for factor, levels in factors.items()
    }


def _by_factor(result: Result) -> Iterator[str]:
    objective = result.goal.objectives[0]
    for factor, levels in result.factors().items():
        if 1 < len(levels) <= _LEVELS_SHOWN:
            estimates = [
                (level, *means[objective.metric]) for level, means in levels.items()
            ]
            estimates.sort(key=lambda each: -objective.sign * each[1])
            shown = ", ".join(
                f"{safe(level)} {with_error(mean, error)}"
                for level, mean, error in estimates
            )
            yield f"{safe(objective.metric)} by {safe(factor)}: {shown}."


def ranking(result: Result) -> Ints:
    """All arms: the selected prompts, then feasible prompts by their estimates, then others. Unknown estimates last."""
    goal, n = result.goal, len(result.goal.objectives)
    means = [
        [
            np.nan if e.estimate[name] is None else e.estimate[name]
            for name in goal.columns
        ]
        for e in result.prompts
    ]
    values = goal.values(np.array(means, dtype=np.float64), np.array(result.bounds))
    objectives, slacks = np.split(values, [n], axis=1)
    misses = np.array([entry.feasible is False for entry in result.prompts])
    violation = np.where(misses, -np.minimum(slacks, 0.0).sum(axis=1), 0.0)
    is_known = np.asarray(np.isfinite(objectives).all(axis=1))
    spread = (
        objectives[is_known].std(axis=0) if n > 1 and is_known.any() else np.ones(n)
    )
    merit = (objectives / np.where(spread > 0, spread, 1.0)).mean(axis=1)
    first = {entry.id: place for place, entry in enumerate(result.selected)}
    place = np.array([first.get(entry.id, len(first)) for entry in result.prompts])
    return np.lexsort(
        (
            np.where(is_known, -merit, 0.0),
            np.where(is_known, violation, 0.0),
            misses,
            ~is_known,
            place,
        )
    )


def _comparable(entries: list[PromptResult]) -> list[PromptResult]:
    return [
        entry
        for entry in entries
        if None not in entry.estimate.values() and entry.feasible is not False
    ]


def heading(result: Result) -> list[str]:
    """The goal and the progress."""
    state = "final" if result.done else "so far"
    early = f"; {result.early}" if result.early else ""
    if result.done and not result.spent:
        return [f"{safe(str(result.goal))} (ended without a score)"]
    return [
        f"{safe(str(result.goal))} ({state}, {describe_spending(result)} spent{early})"
    ]
