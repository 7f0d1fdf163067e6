"""One prompt for each segment of the examples, and what that gains over the single best prompt.

A segment gets another prompt only if this prompt is shown to be better there, in two
ways:

- The interval of its lead on the common examples in the segment is above 0. It depends
  on no model, and is that of `Result.compare`. With many prompts and segments, some
  intervals are above 0 by chance.
- By the model of segments (`asktell.posterior.segments`), all changes together make no
  segment worse with the same probability. So there is one error over all prompts and
  segments. The model shrinks the leads of prompts that hardly differ, and it uses all
  scores of a prompt, also those in other segments.

On simulated tables, dividing the error of the intervals among all prompts and segments
(Bonferroni) instead made less than half of the changes.
`benchmarks.selection.assignment` measures how often a change is wrong.

The size of a gain is another question: the largest of many observed gains is too large.
So gains are posterior means, which are shrunken.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from asktell._util.terminal import (
    aligned,
    in_digits,
    in_percent,
    one_line,
    safe,
    with_error,
)
from asktell.errors import IncompatibleMethodError, InvalidArgumentError
from asktell.numerics.arrays import Floats, Ints, decimal
from asktell.numerics.shapes import Float, Int
from asktell.posterior.segments import SegmentMeans
from asktell.problem.examples.segments import Segments
from asktell.problem.goals import BestFeasible
from asktell.problem.problem import Problem
from asktell.proofs.bounds import interval_of_mean, limits_if_binary, n_sequences
from asktell.proofs.ordered import OrderedScores, longest
from asktell.record import State
from asktell.results import notebook
from asktell.results.comparison import Pairs
from asktell.results.entries import quoted, unit_of
from asktell.results.frames import frame_of
from asktell.results.losses import alive_mask
from asktell.results.printing import filled, printable, with_doubt

if TYPE_CHECKING:
    import pandas

_NAMED = 4  # segments by name in a sentence
_WIDTH = 110  # characters of a line
_LONGEST = 40  # characters of a segment in a table


@dataclass(frozen=True)
class SegmentChoice:
    """The prompt for one segment, and what it gains there.

    Attributes:
        segment: the label of the segment.
        candidate: the id of the prompt to use in this segment.
        examples: the number of examples in the segment.
        gain: the expected gain in the segment over the single best prompt, in the units
            of the first objective. Larger is better, also if the objective is
            minimized. 0 if the single best prompt is used.
        standard_error: the standard error of the gain. On new inputs, it allows for one
            example with the largest observed lead, in either direction.
        p_worse: the probability that the prompt is worse than the single best prompt in
            this segment, according to the statistical model.
    """

    segment: str
    candidate: str | int
    examples: int
    gain: float = 0.0
    standard_error: float = 0.0
    p_worse: float = 0.0


@dataclass(frozen=True)
class Assignment:
    """A prompt for each segment: the single best one, unless another is shown to be better there.

    In Python, `Result.assignment` makes it, and `print(assignment)` shows it.

        >>> import asktell
        >>> topics = ["law", "math"] * 60
        >>> lawyer = [1, 0, 1, 0, 1, 1] * 20
        >>> solver = [0, 1, 0, 1, 1, 1] * 20
        >>> scores = {"lawyer": lawyer, "solver": solver}
        >>> result = asktell.analyze(
        ...     list(scores.values()), asktell.BestFeasible("accuracy"), prompts=list(scores), segments=topics
        ... )
        >>> assignment = result.assignment()
        >>> assignment.candidates
        {'law': 'lawyer', 'math': 'solver'}

    Attributes:
        single: the id of the single best prompt. It is the selected prompt, or the
            baseline if no prompt is shown to be better ("keep").
        metric: the first objective of the goal, in which gains are measured.
        segments: an entry for each segment, in the order of their labels.
        gain: the expected gain over the single best prompt on new inputs, in the units
            of the metric. Larger is better, also if the metric is minimized. The
            segments count as often as they occur among the examples. With
            inputs="given", it is the gain on the given examples.
        standard_error: the standard error of the gain.
        p_not_worse: the probability that no segment has a worse prompt than the single
            best one, according to the statistical model. At least `confidence`.
        estimates: metric -> the estimates with the single best prompt and with the
            assignment, as a pair. All columns of the goal have an entry.
        cost: the mean recorded cost of an evaluation with the single best prompt and
            with the assignment, as a pair. None if no costs were recorded. The cost of
            a prompt is taken to be the same in all segments. If the cost is a metric of
            the goal, `estimates` has its means by segment.
        confidence: the least `p_not_worse`. Also the confidence of the interval of each
            prompt's lead in its segment, which is above 0 and depends on no model.
        tolerance: the tolerance of the metric. A prompt whose expected gain is not
            above it is not assigned. 0 without a stated tolerance.
        left_out: pairs of a segment and a prompt that is shown to be better there, but
            would make the assignment violate a constraint. These segments
            keep the single best prompt.
    """

    single: str | int
    metric: str
    segments: tuple[SegmentChoice, ...]
    gain: float
    standard_error: float
    p_not_worse: float
    estimates: Mapping[str, tuple[float, float]]
    cost: tuple[float, float] | None
    confidence: float
    tolerance: float = 0.0
    left_out: tuple[tuple[str, str | int], ...] = ()

    @property
    def candidates(self) -> dict[str, str | int]:
        """Segment -> the id of the prompt to use in it."""
        return {choice.segment: choice.candidate for choice in self.segments}

    @property
    def changed(self) -> tuple[SegmentChoice, ...]:
        """The segments with another prompt than the single best one, the largest expected gain first."""
        changed = (row for row in self.segments if row.candidate != self.single)
        return tuple(sorted(changed, key=lambda row: -row.gain * row.examples))

    @property
    def sentence(self) -> str:
        """Which prompt to use where, and the expected gain."""
        single, changed = quoted(self.single), self.changed
        if not changed:
            where = "the only segment" if len(self.segments) == 1 else "every segment"
            return " ".join(
                [f"Use {single} in {where}.", self._nothing, *self._refused()]
            )
        parts = [
            f"{quoted(row.candidate)} in {quoted(row.segment)}"
            for row in changed[:_NAMED]
        ]
        more = len(changed) - _NAMED
        parts += [f"other prompts in {more} more segments"] if more > 1 else []
        parts += ["another prompt in 1 more segment"] if more == 1 else []
        instead = " and ".join(
            [", ".join(parts[:-1]), parts[-1]] if parts[1:] else parts
        )
        name, per = unit_of(self.metric, self.estimates[self.metric])
        before, after = (per * mean for mean in self.estimates[self.metric])
        word = "raise" if after >= before else "lower"
        gain = with_error(per * self.gain, per * self.standard_error)
        sentences = [
            f"Use {single}, but {instead}.",
            f"This is expected to {word} the mean {safe(name)} by {gain}, from {in_digits(before, 3)} to "
            f"{in_digits(after, 3)}.",
            f"With {in_percent(self.p_not_worse)} probability, no segment is worse than with {single} alone.",
        ]
        return " ".join([*sentences, *self._others(), *self._refused()])

    @property
    def _nothing(self) -> str:
        """The sentence that no other prompt is better."""
        more = f" by more than {in_digits(self.tolerance, 2)}" if self.tolerance else ""
        better = "is shown to be better in a segment"
        if self.left_out:
            better = f"that satisfies the constraints {better}"
        return (
            f"No other prompt {better}{more} ({100 * self.confidence:g}% confidence)."
        )

    def _refused(self) -> list[str]:
        """The prompts that would violate a constraint, as sentences."""
        return [
            f"{quoted(id_)} is better in {quoted(segment)}, but the constraints would be violated with it."
            for segment, id_ in self.left_out[:_NAMED]
        ]

    def _others(self) -> list[str]:
        """The other metrics and the cost with and without the assignment, as sentences."""
        rows = [
            (f"mean {unit_of(name, pair)[0]}", unit_of(name, pair)[1], pair)
            for name, pair in self.estimates.items()
            if name != self.metric
        ]
        if self.cost is not None and "cost" not in self.estimates:
            name, per = unit_of("cost", self.cost)
            rows.append(
                (
                    f"mean {name} of an evaluation"
                    if per == 1
                    else f"mean {name} evaluations",
                    per,
                    self.cost,
                )
            )
        sentences = []
        for what, per, (before, after) in rows:
            old, new = in_digits(per * before, 3), in_digits(per * after, 3)
            change = f"changes from {old} to {new}" if old != new else f"stays at {old}"
            sentences.append(f"The {safe(what)} {change}.")
        return sentences

    def to_dict(self) -> dict[str, Any]:
        """The assignment as a mapping that JSON can represent.

        Its keys are the names of the attributes, and "candidates" and "sentence".
        """
        return {
            **asdict(self),
            "segments": [asdict(row) for row in self.segments],
            "estimates": {name: list(pair) for name, pair in self.estimates.items()},
            "cost": None if self.cost is None else list(self.cost),
            "left_out": [list(pair) for pair in self.left_out],
            "candidates": self.candidates,
            "sentence": self.sentence,
        }

    def to_dataframe(self) -> "pandas.DataFrame":
        """A table with one row for each segment, and the attributes of `SegmentChoice` as columns. Needs pandas.

        Raises:
            MissingExtraError: pandas is missing.
        """
        rows = [asdict(row) for row in self.segments]
        return frame_of({name: [row[name] for row in rows] for name in rows[0]}, {})

    def __str__(self) -> str:
        """The sentence, after the table of segments if a segment has another prompt than the single best one."""
        rows = aligned(self._table()) if self.changed else []
        lines = [row.rstrip() for row in rows]
        return printable("\n".join([*lines, *filled(self.sentence, _WIDTH)]))

    def _repr_html_(self) -> str:
        head, *rows = self._table() if self.changed else [[]]
        return notebook.block(
            notebook.heading(self.sentence), notebook.table(head, rows)
        )

    def _table(self) -> list[list[str]]:
        """The cells of the table of segments, with its header first."""
        rows = [["segment", "examples", "prompt", "expected gain", "P(worse)"]]
        for row in self.segments:
            is_single = row.candidate == self.single
            gain = "-" if is_single else with_error(row.gain, row.standard_error)
            p_worse = "-" if is_single else with_doubt(row.p_worse)
            name = (
                str(row.candidate)
                if isinstance(row.candidate, str)
                else quoted(row.candidate)
            )
            segment = one_line(row.segment, _LONGEST)
            rows.append([segment, f"{row.examples:,}", name, gain, p_worse])
        return rows


def assign(
    state: State,
    pairs: Pairs,
    ids: Sequence[str | int],
    selected: Sequence[int],
    confidence: float,
) -> Assignment:
    """Assign a prompt to each segment, as `Result.assignment` does.

    Args:
        state: the selection.
        pairs: what comparisons of its prompts need.
        ids: the ids of all prompts.
        selected: the selected arms, the best first. With a baseline that the verdict
            keeps, only the baseline.
        confidence: the probability that no segment gets a worse prompt by chance.

    Raises:
        IncompatibleMethodError: the goal is a Pareto set, or the prompts were not
            evaluated on the same examples.
        InvalidArgumentError: the examples have no segments, or no prompt is selected.
    """
    problem = state.problem
    goal, segments = problem.goal, problem.examples.segments
    if not isinstance(goal, BestFeasible):
        raise IncompatibleMethodError(
            "assignment() compares prompts in one objective, but this goal is a ParetoSet. Use a BestFeasible goal, "
            "with bounds on the other metrics."
        )
    if segments is None:
        raise InvalidArgumentError(
            "assignment() needs the segment of each example, but the examples have none. Pass segments=[...] to "
            "Selector or analyze, or name their column: asktell analyze FILE --segment-column COLUMN."
        )
    if problem.examples.population is None:
        raise IncompatibleMethodError(
            "assignment() compares prompts on the same examples, but with sampling='iid' each prompt draws its own. "
            "Use the default sampling."
        )
    if not selected:
        raise InvalidArgumentError(
            "assignment() needs a selected prompt, but no prompt has been evaluated successfully yet. Record scores "
            "first."
        )
    single = selected[0]
    stated = pairs.stated
    means = None if stated is None or stated.is_guess else stated.in_segments
    chosen, left_out = np.full(len(segments.names), single), list[tuple[int, int]]()
    ahead: dict[tuple[int, int], float] = {}
    shares = segments.sizes / segments.sizes.sum()
    if stated is not None and means is not None and not pairs.doubtful:
        told = np.bincount(pairs.history.arms(), minlength=problem.n_arms) > 0
        bounds = goal.resolved(stated.means, np.flatnonzero(alive_mask(state) & told))
        whole = _Whole(goal, bounds, means, shares)
        ahead = _ahead(state, pairs, single, confidence)
        chosen, left_out = whole.assigned(single, list(ahead), confidence)
    assignment = _described(
        state, ids, single, chosen, means, shares, confidence, ahead
    )
    named = tuple((segments.names[kind], ids[arm]) for arm, kind in left_out)
    return replace(assignment, left_out=named)


class _Whole(NamedTuple):
    """The means of any assignment over all segments.

    `estimates` are those of the prompts in each segment, and `shares` the sizes of the
    segments, which add up to 1.
    """

    goal: BestFeasible
    bounds: Float[Floats, " constraints"]
    estimates: SegmentMeans
    shares: Float[Floats, " segments"]

    def assigned(
        self,
        single: int,
        ahead: list[tuple[int, int]],
        confidence: float,
    ) -> tuple[Int[Ints, " segments"], list[tuple[int, int]]]:
        """The arm of each segment, and the pairs that a constraint left out.

        `ahead` are pairs of an arm and a segment in which its interval is above 0.

        Segments are changed one by one, the most certain first, each to the arm with the
        largest expected gain. A change is left out if the probability that no segment is
        worse would fall below `confidence`, or if the mean over all segments would
        violate a constraint, or violate it more than before. If constraints must be
        satisfied with a stated probability (`sure`), a change must not come closer to a
        bound either.
        """
        chosen, left_out = np.full(len(self.shares), single), list[tuple[int, int]]()
        if not ahead:
            return chosen, left_out
        goal, (arms, kinds) = self.goal, np.array(ahead).T
        sign, metric = goal.objective.sign, goal.objective.metric
        column = goal.columns.index(metric)
        gains = sign * self.estimates.lead_means(column, arms, single, kinds)
        is_better = sign * self.estimates.leads(column, arms, single, kinds) >= 0.0
        p_better = is_better.mean(axis=0)
        can_change = (p_better >= confidence) & (
            gains > goal.tolerances.get(metric, 0.0)
        )
        best_first = [at for at in np.argsort(-gains, kind="stable") if can_change[at]]
        # By segment, how sure its best change is
        sure: dict[int, float] = {}
        for at in best_first:
            sure.setdefault(int(kinds[at]), float(p_better[at]))
        none_is_worse = np.ones(len(is_better), dtype=bool)
        for at in sorted(best_first, key=lambda at: -sure[int(kinds[at])]):
            together = none_is_worse & is_better[:, at]
            if chosen[kinds[at]] != single or together.mean() < confidence:
                continue
            changed = chosen.copy()
            changed[kinds[at]] = arms[at]
            before, after = self._slacks(chosen), self._slacks(changed)
            floor = before if goal.sure is not None else np.minimum(before, 0.0)
            if (after >= floor).all():
                chosen, none_is_worse = changed, together
            else:
                left_out.append(ahead[at])
        return chosen, [pair for pair in left_out if chosen[pair[1]] == single]

    def columns(self, chosen: Int[Ints, " segments"]) -> Float[Floats, " columns"]:
        """The mean of each column over all segments."""
        return np.asarray(self._by_segment(chosen).T @ self.shares)

    def _by_segment(
        self, chosen: Int[Ints, " segments"]
    ) -> Float[Floats, "segments columns"]:
        return np.asarray(self.estimates.means[chosen, :, np.arange(len(chosen))])

    def _slacks(self, chosen: Int[Ints, " segments"]) -> Float[Floats, " constraints"]:
        """The slack of each constraint, where a constraint on every segment counts the worst one."""
        by_segment = self._by_segment(chosen)
        of_subsets = [
            by_segment[subset.kind, subset.column] for subset in self.goal.subsets
        ]
        means = np.concatenate((self.columns(chosen), of_subsets))
        return self.goal.values(means[None], self.bounds)[0, 1:]


def _ahead(
    state: State, pairs: Pairs, single: int, confidence: float
) -> dict[tuple[int, int], float]:
    """The pairs of an arm and a segment in which the interval of its lead over the arm `single` is above 0.

    Each interval is for one pair, on the common examples in the segment. The values are
    the least standard errors of the leads on new inputs. If all leads agree, the model
    finds no spread. So one more lead counts, as large as the largest one.
    """
    problem, segments = pairs.seen, pairs.problem.examples.segments
    assert segments is not None
    scores = OrderedScores.of(problem, pairs.history, pairs.missing, None, pairs.out)
    kinds_in_order = segments.of_examples[problem.examples.order]
    error = (1.0 - confidence) / n_sequences(problem)
    limits = limits_if_binary(problem.goal, pairs.history.scores())[0]
    ahead = {}
    for arm in np.flatnonzero(alive_mask(state) & (scores.counts > 0)).tolist():
        if arm == single:
            continue
        places, of_arm, of_single = longest(scores.rounds, arm, single)
        kinds = kinds_in_order[places % len(kinds_in_order)]
        leads = of_arm[:, 0] - of_single[:, 0]
        for kind in _probable(kinds, leads, segments, error, problem):
            is_in = kinds == kind
            both = np.concatenate((of_arm[is_in, 0], of_single[is_in, 0]))
            low, _ = interval_of_mean(
                decimal(leads[is_in], float(np.abs(both).max())),
                both,
                None if problem.examples.target is None else int(segments.sizes[kind]),
                limits,
                error,
                problem.examples.rounds,
                pairs.looks_once,
            )
            if low > 0.0:
                n, widest = int(is_in.sum()), float(np.abs(leads[is_in]).max())
                is_new = problem.examples.target is None
                ahead[arm, kind] = is_new * widest / (n * (n + 1)) ** 0.5
    return ahead


def _probable(
    kinds: Int[Ints, " n"],
    leads: Float[Floats, " n"],
    segments: Segments,
    error: float,
    problem: Problem,
) -> list[int]:
    """The segments in which the interval of a lead may be above 0. The others need no interval, which takes longer.

    No interval is narrower than that of a normal distribution, except where examples
    are given, whose means may be known exactly.
    """
    n_kinds = len(segments.names)
    counts = np.maximum(1, np.bincount(kinds, minlength=n_kinds))
    means = np.bincount(kinds, leads, n_kinds) / counts
    squares = np.bincount(kinds, leads**2, n_kinds) / counts
    is_probable = means > 0.0
    if problem.examples.target is None:
        errors = np.sqrt(np.maximum(0.0, squares - means**2) / counts)
        # The interval of scores of 0 and 1 is not that of a normal distribution, but
        # also wider.
        is_probable &= means >= -NormalDist().inv_cdf(error / 2) * errors
    return [int(kind) for kind in np.flatnonzero(is_probable)]


def _described(
    state: State,
    ids: Sequence[str | int],
    single: int,
    chosen: Int[Ints, " segments"],
    means: SegmentMeans | None,
    shares: Float[Floats, " segments"],
    confidence: float,
    ahead: Mapping[tuple[int, int], float],
) -> Assignment:
    """The assignment of these arms to the segments."""
    goal, segments = state.problem.goal, state.problem.examples.segments
    assert isinstance(goal, BestFeasible)
    assert segments is not None
    objective = goal.objectives[0]
    column = goal.columns.index(objective.metric)
    changed = np.flatnonzero(chosen != single)
    gains, errors, p_worse = np.zeros((3, len(chosen)))
    error, p_not_worse = 0.0, 1.0
    estimates: dict[str, tuple[float, float]] = {}
    if means is not None:
        whole = _Whole(goal, goal.offsets, means, shares)
        before, after = (
            whole.columns(arms).tolist()
            for arms in (np.full(len(chosen), single), chosen)
        )
        estimates = dict(
            zip(goal.columns, zip(before, after, strict=True), strict=True)
        )
    if means is not None and len(changed):
        changes = column, chosen[changed], single, changed
        gains[changed] = objective.sign * means.lead_means(*changes)
        leads = objective.sign * means.leads(*changes)
        by_model = leads.std(axis=0)
        pairs = zip(chosen[changed].tolist(), changed.tolist(), strict=True)
        least = [ahead[pair] for pair in pairs]
        errors[changed] = np.maximum(by_model, least)
        p_worse[changed] = (leads < 0.0).mean(axis=0)
        # Other draws decided that it is not below the confidence
        p_not_worse = max(confidence, float((leads >= 0.0).all(axis=1).mean()))
        more = (errors[changed] ** 2 - by_model**2) @ shares[changed] ** 2
        error = float(np.sqrt((leads @ shares[changed]).var() + more))
    rows = tuple(
        SegmentChoice(name, ids[arm], int(size), *numbers)
        for name, arm, size, *numbers in zip(
            segments.names, chosen.tolist(), segments.sizes, gains.tolist(), errors.tolist(), p_worse.tolist(),
            strict=True,
        )
    )  # fmt: skip
    return Assignment(
        single=ids[single],
        metric=objective.metric,
        segments=rows,
        gain=float(gains @ shares),
        standard_error=error,
        p_not_worse=p_not_worse,
        estimates=estimates,
        cost=_costs(state, single, chosen, shares),
        confidence=confidence,
        tolerance=goal.tolerances.get(objective.metric, 0.0),
    )


def _costs(
    state: State,
    single: int,
    chosen: Int[Ints, " segments"],
    shares: Float[Floats, " segments"],
) -> tuple[float, float] | None:
    """The mean cost of an evaluation with the single arm, and with the chosen arms. None without costs."""
    if not state.costs.total:
        return None
    by_segment = [state.costs.expected(int(arm)) for arm in chosen]
    return state.costs.expected(single), float(np.array(by_segment) @ shares)
