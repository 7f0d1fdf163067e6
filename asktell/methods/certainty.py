"""Proofs about means and differences, from scores in one shared order of the examples.

What is proven. With `inputs="given"` a mean is that over the given examples, which are drawn without replacement: see
`asktell.intervals`. With `inputs="new"` it is the expected score on a new input that is evaluated once.

Theorem (new inputs). Let the examples in their seeded order be independent draws of inputs, and let the evaluations of
a prompt on an example be independent of those on other examples. For every r, let D_j be the mean of the first r
evaluations of one prompt on the j-th example, less the same of another prompt. Then D_1, D_2, ... are independent and
equal in distribution. Their expectation is the difference of the two prompts' means, however noisy an evaluation is. So
a confidence sequence of them with an error of e / R is wrong at some j with a probability of e / R at most. By the
union bound, those for r = 1, ..., R are all right at all j with a probability of 1 - e at least. So a statement from
any r and any j is right with that probability, even if they were chosen by looking at the scores. The same holds for
the evaluations of a single prompt.

Here R is `repeats`, and r is the largest number of evaluations that every one of the first examples has had from both
prompts: while another round is incomplete, it counts for nothing. The examples are the longest beginning of the order
that both prompts have completed. Why each was evaluated does not matter, therefore, nor when, nor by which method.
Repeats beyond R are ignored, and so is a score that came in before an earlier one of the same cell.

Where the error goes. The answer is wrong only if one of few things is wrongly taken for certain.

Best of K prompts, if the metric's range is known and scores are not noisy: that the true best is worse than another.
That is one claim with the whole error, however many others there are (`asktell.intervals.racing`). With a tolerance
there is a second one, at the end: nobody is ahead of the answer by more. It may be false of any of the K - 1 others, so
each has 1 / (K - 1) of one half of the error, and the true best has the other half. With few prompts that costs more
than it saves, and they are compared in pairs.

Best feasible prompt in pairs, under C constraints: for each of the K - 1 others that it beats the true best (or keeps a
constraint that it misses, if that is why it is no rival), and that the true best misses one of C. A race does not go
with constraints: only who is certainly feasible is a rival, so that all of its bets would come late.

A constraint relative to the best prompt in a metric is proven in pairs, too. If an answer is not within the margin,
that is false of its pair with this best prompt, whichever it is. So being within the margin takes no more of the error
than another constraint does, although it is proven of every pair. That the true best is not within the margin may be
wrongly proven by each of the K - 1 others. So may that the best prompt in the metric is not the best there, after which
no pair with it is looked at. Such a constraint has 2 (K - 1) claims instead of one, therefore.

Pareto set of m objectives: that one prompt is ahead of another in one of them, K (K - 1) m, and that a prompt keeps or
misses one of C constraints, K C: it does one of the two, so only the other can be wrong. A constraint relative to the
best prompt counts for K - 1.

Two prompts whose difference is asked for have intervals of their own (`compare`).
"""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias, final

import numpy as np
import numpy.typing as npt

from asktell.intervals.asymptotic import Asymptotic
from asktell.intervals.betting import Betting
from asktell.intervals.noisy import bounded
from asktell.intervals.racing import certainly_worse
from asktell.methods.belief import has_drifted
from asktell.numerics.arrays import Counts, Indices, Mask, Matrix, Means, Values, Vector, decimal, mostly_equal
from asktell.problem.goals import BASELINE, BEST, FAILURE_RATE, BestFeasible, Bound, Goal, ParetoSet, check_no_segments
from asktell.state import Added, Failures, Problem, Pull, State
from asktell.state.history import History, in_rounds, in_turns, turns, turns_out

_ROUNDING = 1e-12  # of a mean: sums of decimal fractions differ by some units in the last place
_MOST_NUMBERS = 1 << 21  # in one array, 16 MB
FEW = 6  # prompts, at most, for whom a race does not pay if there is a tolerance; by simulation


Limits: TypeAlias = tuple[float, float] | None
"""The lowest and the highest value there can be in a column of the goal's values; None if unknown."""


class Rows(NamedTuple):
    """Values of every arm, by arm and place in the order of the examples (or of all pulls)."""

    starts: Indices  # (K + 1,) where each arm's rows begin
    places: Indices  # (n,) by arm, ascending
    values: Values  # (n, q)

    @classmethod
    def of(cls, arms: Indices, places: Indices, values: Values, n_arms: int) -> "Rows":
        """Rows that are sorted by arm and place."""
        return cls(np.searchsorted(arms, np.arange(n_arms + 1)), places, values)

    def part(self, arm: int) -> slice:
        """Where the rows of an arm stand."""
        return slice(int(self.starts[arm]), int(self.starts[arm + 1]))

    def pair(self, a: int, b: int) -> tuple[Indices, Indices]:
        """The rows of two arms on their common places, in order."""
        of_a, of_b = self.part(a), self.part(b)
        n = min(of_a.stop - of_a.start, of_b.stop - of_b.start)
        if np.array_equal(self.places[of_a][:n], self.places[of_b][:n]):
            return of_a.start + np.arange(n), of_b.start + np.arange(n)
        _, in_a, in_b = np.intersect1d(self.places[of_a], self.places[of_b], assume_unique=True, return_indices=True)
        return of_a.start + in_a, of_b.start + in_b


@final
@dataclass(frozen=True, eq=False)
class Evidence:
    """Values of every arm on the first examples of the shared order, larger is better.

    For given examples with noisy scores they stand round by round. For new inputs there is one value for each example,
    the mean of its first r evaluations: r = 1 in `_starts`, `_places` and `_values`, r = 2, 3, ... in `_again`.

    Each statement is ever wrong with probability `error`; at 0, it rests on what is known exactly. `race`: with what
    probability the best of all is ever lost in one; at 0, there is none. Of examples of which some scores are out
    nothing is used, nor of those behind them, so that it does not matter if scores come late because of what they are.
    """

    problem: Problem
    error: float
    columns: tuple[Limits, ...]
    counts: Counts  # (K,)
    known: Counts  # (K,) how many of the first examples have a score or have failed
    means: Means  # (K, q), NaN without scores
    _starts: Indices  # (K + 1,) where each arm's rows begin
    _places: Indices  # (n,) by arm, ascending
    _values: Values  # (n, q)
    _failed: "_Failed | None" = None
    race: float = 0.0
    _again: tuple[Rows, ...] = ()
    gone: tuple[int, ...] = ()  # arms that have failed or were retired: no bound is relative to them

    @classmethod
    def of(
        cls,
        problem: Problem,
        history: History,
        missing: Failures,
        reach: int | None,
        columns: tuple[Limits, ...] | None = None,
        out: Sequence[Pull] | None = None,
    ) -> "Evidence":
        """The evidence in the scores told, without an error yet.

        `reach`: the first place in the order of all pulls (without one, the first trial) that is out. `columns`: by
        default as the ranges of metrics and the scores of 0 and 1 say. `out`: the pulls that are out, with which each
        arm's scores count up to the first example that it has not completed; for new inputs they always do.
        """
        trials, arms, examples = history.trials(), history.arms(), history.examples()
        scores, n_arms, goal = history.scores(), problem.n_arms, problem.goal
        values = goal.values(scores, goal.offsets)
        columns = columns_of(problem.goal, scores) if columns is None else columns
        again: list[Rows] = []
        if problem.population is None:
            order = np.lexsort((trials, arms))
            usable = order if reach is None else order[trials[order] < reach]
            starts = np.searchsorted(arms[usable], np.arange(n_arms + 1))
            places = np.arange(len(usable)) - starts[arms[usable]]
            first, known, cut = Rows(starts, places, values[usable]), np.diff(starts), False
        else:
            if problem.target is None:
                rounds = observations(problem, history, missing, values, reach, out or ())
                rounds = rounds or [(np.arange(0), np.arange(0), values[:0])]
            else:
                rounds = [in_turns(problem, missing, trials, arms, examples, values, reach)]
            known = completed(problem, history, missing, rounds[0][:2], reach)
            cut = problem.target is None or out is not None
            if cut:
                rounds = [_before(known, *each) for each in rounds]
            first, *again = [Rows.of(*each, n_arms) for each in rounds]
        counts = np.diff(first.starts)
        means = _means(first, counts)
        for rows in again:
            whole = np.diff(rows.starts) == counts
            means[whole] = _means(rows, counts)[whole]
        rate = None
        if problem.goal.counts_failures and missing:
            rate = _Failed.of(problem, history, missing, reach, known if cut else None)
        return cls(problem, 0.0, columns, counts, known, means, *first, rate, 0.0, tuple(again))

    def for_best(self, error: float, tolerance: float) -> "Evidence":
        """The same with an error divided among what could make the best feasible prompt wrong."""
        n_others, goal = self.problem.n_arms - 1, self.problem.goal
        n_constraints = n_misses(goal, self.problem.n_arms) + n_skips(goal, self.problem.n_arms)
        # What others scored in an earlier round says who is there in a later one, so no bet would be fair.
        races = self.problem.repeats == 1 and self.problem.rounds is None
        races = races and not n_constraints and self.columns[0] is not None
        if not races or (tolerance and n_others < FEW):
            return replace(self, error=error / max(1, n_others + n_constraints))
        if tolerance:
            return replace(self, error=error / 2 / n_others, race=error / 2)
        return replace(self, error=0.0, race=error)

    def worse(self, state: State) -> Indices:
        """The arms that have lost the race: certainly worse than another that has not failed or been retired."""
        arms = np.setdiff1d(np.arange(self.problem.n_arms), state.no_rivals())
        known = self.known[arms]
        scores = np.full((len(arms), known.max(initial=0)), np.nan)
        for row, n, arm in zip(scores, known, arms, strict=True):
            part = slice(self._starts[arm], self._starts[arm + 1])
            n_told = int(np.searchsorted(self._places[part], n))
            row[self._places[part][:n_told]] = self._values[part][:n_told, 0]
        low, high = self.columns[0] or (0.0, 1.0)
        betting = Betting(low - high, high - low, self.problem.target)
        stays = np.isin(arms, np.setdiff1d(state.active, state.exhausted()))
        joined = joined_at(state)[arms]
        found = certainly_worse(betting, scores, known, joined, stays, self.race)
        return np.asarray(arms[found <= scores.shape[1]])

    def ahead(self, arms: Indices, others: Indices, column: int, claim: float, or_equal: bool = False) -> Mask:
        """(P,) whether each arm is certainly ahead of the other of its pair by more than the claim."""
        pairs = [self._pair(int(i), int(j), column) for i, j in zip(arms, others, strict=True)]
        return self._above(pairs, _of_leads(self.columns[column]), claim, column, or_equal)

    def all_at_least(self, arms: Indices, columns: Iterable[int]) -> Mask:
        """(A,) whether an arm's mean is certainly 0 or more in each of the columns."""
        kept = np.ones(len(arms), dtype=bool)
        for q in columns:
            if self.bound(q).of is not None:
                kept[kept] = [self._is_within(int(arm), q) for arm in arms[kept]]
                continue
            own = [self._own(int(arm), q) for arm in arms[kept]]
            kept[kept] = self._above(own, self.columns[q], 0.0, q, or_equal=True)
        return kept

    def below(self, arms: Indices, column: int) -> Mask:
        """(A,) whether an arm's mean is certainly below 0."""
        if self.bound(column).of is not None:
            return np.array([self._is_outside(int(arm), column) for arm in arms], dtype=bool)
        own = [-self._own(int(arm), column) for arm in arms]
        return self._above(own, _mirrored(self.columns[column]), 0.0, column, or_equal=False)

    def bound(self, column: int) -> Bound:
        """The bound that a column of slacks is of."""
        goal = self.problem.goal
        return goal.bounds[column - len(goal.objectives)]

    def references(self, column: int | None = None) -> list[int]:
        """The arms that relative bounds most likely refer to: the baseline, or those of the highest mean so far.

        `column`: of these slacks only. None: of all that are relative.
        """
        goal = self.problem.goal
        columns = [q for q in slacks_of(goal) if self.bound(q).of is not None] if column is None else [column]
        found = (self.rivals(q) for q in columns)
        return [arms[0] for arms in found if arms]

    def rivals(self, column: int) -> list[int]:
        """The arms that the bound of a column of slacks may be relative to, those of the highest mean first."""
        if self.bound(column).of == BASELINE:
            return [int(self.problem.goal.baseline)] if self.problem.goal.baseline is not None else []
        means = np.where(self.counts > 0, self.means[:, column], -np.inf)
        return [int(arm) for arm in np.argsort(-means, kind="stable") if arm not in self.gone]

    def _is_within(self, arm: int, column: int) -> bool:
        """True if an arm certainly is no further behind any other than the margin.

        Those that certainly are behind another by more are not the best.
        """
        own, others = np.array([arm]), [other for other in self.rivals(column) if other != arm]
        return all(
            self.ahead(own, np.array([other]), column, -self.bound(column).margin, or_equal=True)[0]
            or self._is_outside(other, column)
            for other in others
        )

    def _is_outside(self, arm: int, column: int) -> bool:
        """True if another arm certainly is ahead by more than the margin."""
        bound = self.bound(column)
        others = np.array([other for other in self.rivals(column)[:TRIED] if other != arm], dtype=np.int64)
        return bool(self.ahead(others, np.full(len(others), arm), column, bound.margin).any())

    def is_exhausted(self, arms: Indices) -> bool:
        """True if the arms are known exactly: they have seen every example, whose scores are not noisy."""
        return self.problem.exhausted_at is not None and bool((self.counts[arms] == self.problem.exhausted_at).all())

    @property
    def each_error(self) -> float:
        """The error of one confidence sequence: for new inputs, there is one for each number of evaluations."""
        return self.error / n_sequences(self.problem)

    @property
    def _rounds(self) -> list[Rows]:
        """The rows of one evaluation of each example; before them those of two, and so on."""
        return [*reversed(self._again), Rows(self._starts, self._places, self._values)]

    def _own(self, arm: int, column: int) -> Values:
        if self._failed is not None and column in self._failed.slacks:
            return self._failed.of_arm(arm, column)
        whole = next(rows for rows in self._rounds if rows.starts[arm + 1] - rows.starts[arm] == self.counts[arm])
        return whole.values[whole.part(arm), column]

    def _pair(self, a: int, b: int, column: int) -> Values:
        """Differences on common examples, in their order, round by round."""
        of_a, of_b = longest(self._rounds, a, b)[1:]
        return of_a[:, column] - of_b[:, column]

    def _above(self, rows: list[Values], limits: Limits, claim: float, column: int, or_equal: bool) -> Mask:
        """(P,) whether the mean of each row is certainly above the claim."""
        found = np.zeros(len(rows), dtype=bool)
        problem = self.problem
        by_length: dict[int, list[int]] = {}
        rounding = _ROUNDING * (1.0 + abs(claim))
        for i, row in enumerate(rows):
            # What does not even look so is not looked at.
            if len(row) and row.mean() >= claim - rounding:
                by_length.setdefault(len(row), []).append(i)
        for n, of_length in by_length.items():
            size = max(1, _MOST_NUMBERS // (8 * n))
            for start in range(0, len(of_length), size):
                chunk = of_length[start : start + size]
                x = np.array([rows[i] for i in chunk])
                if n == problem.exhausted_at:
                    mean = x.mean(axis=1)
                    found[chunk] = mean >= claim - rounding if or_equal else mean > claim + rounding
                elif self.error and limits is None:
                    values = self._values[:, column]
                    x = decimal(x, float(np.abs(values).max()))
                    scale = np.where(mostly_equal(x), np.ptp(values), 0.0)
                    found[chunk] = Asymptotic(problem.exhausted_at).lower(x, self.each_error, scale) > claim
                elif self.error and limits is not None:
                    sequence = bounded(*limits, problem.target, problem.rounds)
                    found[chunk] = sequence.refutes(x, claim, self.each_error)
        return found


def n_sequences(problem: Problem) -> int:
    """How many confidence sequences share an error: for new inputs one for each number of evaluations of a cell."""
    return problem.repeats if problem.population is not None and problem.target is None else 1


def observations(
    problem: Problem,
    history: History,
    missing: Failures,
    values: Matrix,
    reach: int | None,
    out: Sequence[Pull],
) -> list[tuple[Indices, Indices, Matrix]]:
    """Arms, places and mean values of the first evaluation of each cell, of the first two, ...; see `in_rounds`.

    Only rows before the turn `reach` count, and none behind one of the pulls that are `out`.
    """
    trials, arms, examples = history.trials(), history.arms(), history.examples()
    if reach is not None:
        known = np.flatnonzero(examples >= 0)
        known = known[turns(problem, missing, trials[known], arms[known], examples[known]) < reach]
        trials, arms, examples, values = trials[known], arms[known], examples[known], values[known]
    asked = [(p.trial, p.arm, p.example) for p in out if p.trial is not None and p.example is not None]
    trials_out, arms_out, examples_out = np.array(asked, dtype=np.int64).reshape(-1, 3).T
    trials, arms = np.concatenate((trials, trials_out)), np.concatenate((arms, arms_out))
    unknown = np.full((len(asked), values.shape[1]), np.nan)
    examples, values = np.concatenate((examples, examples_out)), np.concatenate((values, unknown))
    return in_rounds(problem, trials, arms, examples, values)


def completed(
    problem: Problem, history: History, missing: Failures, scored: Sequence[Indices], reach: int | None = None
) -> Counts:
    """(K,) how many of the first examples of the shared order each arm has completed: with a score, or by failing.

    For given examples with noisy scores these are places in the order of all pulls, one round after the other. `scored`
    are arms and places of the scores that count.
    """
    width = (problem.most_pulls or 0) if problem.rounds is not None else len(problem.order)
    told = np.zeros((problem.n_arms, width + 1), dtype=bool)
    arms, places = scored
    told[arms, np.minimum(places, width)] = True
    if missing:
        both = history, missing.pulls
        trials, arms, examples = (np.concatenate([getattr(rows, name)() for rows in both]) for name in _PLACES)
        real, failed = examples >= 0, np.arange(len(trials)) >= len(history)
        at = turns(problem, Failures(), trials[real], arms[real], examples[real])
        at = at if problem.rounds is not None else at % max(1, width)
        told[arms[real & failed], np.minimum(at[failed[real]], width)] = True
    told[:, width] = False
    return np.asarray(np.minimum(told.argmin(axis=1), width if reach is None else reach))


_PLACES = ("trials", "arms", "examples")


def longest(rounds: Sequence[Rows], a: int, b: int) -> tuple[Indices, Values, Values]:
    """Common places of two arms and the values of both: of as many evaluations as every one of these has had."""
    *more, first = rounds
    in_a, in_b = first.pair(a, b)
    of = first
    for rows in more:
        pair = rows.pair(a, b)
        if len(pair[0]) == len(in_a):
            of, (in_a, in_b) = rows, pair
            break
    return of.places[in_a], of.values[in_a], of.values[in_b]


def _before(known: Counts, arms: Indices, places: Indices, values: Values) -> tuple[Indices, Indices, Values]:
    """The rows of each arm's first places."""
    kept = places < known[arms]
    return arms[kept], places[kept], values[kept]


def _means(rows: Rows, counts: Counts) -> Means:
    """(K, q) means of every arm's rows, NaN without any."""
    arms = np.repeat(np.arange(len(counts)), np.diff(rows.starts))
    totals = np.stack([np.bincount(arms, column, minlength=len(counts)) for column in rows.values.T], axis=1)
    with np.errstate(invalid="ignore"):
        return np.where(counts[:, None] > 0, totals / np.maximum(counts, 1)[:, None], np.nan)


def first_out(state: State, but: Container[int] = ()) -> int | None:
    """The first place in the order of all pulls (without one, the first trial) that is out, but those of some arms."""
    out = [pull for pull in (*state.pending.values(), *state.returned) if pull.arm not in but]
    if state.problem.population is not None:
        return min(turns_out(state.problem, state.history, state.missing, out), default=None)
    return min((pull.trial for pull in out if pull.trial is not None), default=None)


class _Failed(NamedTuple):
    """Which evaluations failed, by arm and turn, and what they and others are as slacks of a bound on that rate."""

    arms: Indices
    failed: Mask
    slacks: dict[int, tuple[float, float]]  # by column of the values: without and with a failure

    @classmethod
    def of(
        cls, problem: Problem, history: History, missing: Failures, reach: int | None, known: Counts | None
    ) -> "_Failed":
        """Those before the first turn that is out, and before what each arm has not completed, if that is `known`.

        Of several evaluations at a place, only the first counts.
        """
        both = history, missing.pulls
        trials, arms, examples = (np.concatenate([getattr(rows, name)() for rows in both]) for name in _PLACES)
        failed = np.arange(len(trials)) >= len(history)
        if problem.population is None:
            at, place = trials, np.arange(len(trials))
        else:
            real = examples >= 0
            trials, arms, examples, failed = trials[real], arms[real], examples[real], failed[real]
            at = place = turns(problem, Failures(), trials, arms, examples)
            if problem.rounds is None:
                place = place % len(problem.order)
        kept = np.ones(len(at), dtype=bool) if reach is None else at < reach
        kept &= True if known is None else place < known[arms]
        order = np.lexsort((trials, at, place, arms) if problem.population is not None else (at, arms))
        order = order[kept[order]]
        another = (np.diff(arms[order], prepend=-1) != 0) | (np.diff(place[order], prepend=-1) != 0)
        order = order[another]
        goal = problem.goal
        column = len(goal.columns) - 1
        ends = goal.values(np.eye(2, column + 1, column - 1), goal.offsets)
        which = [k for k, bound in enumerate(goal.bounds, len(goal.objectives)) if bound.column == column]
        slacks = {k: (float(ends[0, k]), float(ends[1, k])) for k in which}
        return cls(arms[order], failed[order], slacks)

    def of_arm(self, arm: int, column: int) -> Values:
        """An arm's slacks in the order of its turns."""
        good, bad = self.slacks[column]
        return np.where(self.failed[self.arms == arm], bad, good)


def joined_at(state: State) -> Counts:
    """(K,) how many of the first examples others had seen when each arm joined; 0 for those of the beginning."""
    joined, first = np.zeros(state.problem.n_arms, dtype=np.int64), state.origin.n_arms
    for _, n_rows, _, event in state.growth:
        if isinstance(event, Added):
            arms, examples = state.history.arms()[:n_rows], state.history.examples()[:n_rows]
            shared = state.problem.population is not None
            seen = 1 + state.problem.place[examples[examples >= 0]] if shared else np.bincount(arms)
            joined[first : first + len(event.texts)] = seen.max(initial=0)
            first += len(event.texts)
    return joined


def slacks_of(goal: Goal) -> range:
    """The columns of the goal's values that are slacks."""
    return range(len(goal.objectives), len(goal.objectives) + len(goal.constraints))


def n_misses(goal: Goal, n_arms: int) -> int:
    """How many claims may wrongly prove of one prompt that it misses a constraint."""
    return sum(max(1, n_arms - 1) if bound.of == BEST else 1 for bound in goal.bounds)


def n_skips(goal: Goal, n_arms: int) -> int:
    """How many claims may wrongly prove that the best prompt, to which bounds are relative, is not the best."""
    return sum(n_arms - 1 for bound in goal.bounds if bound.of == BEST)


def _mirrored(limits: Limits) -> Limits:
    """Those of the values with the other sign."""
    return limits and (-limits[1], -limits[0])


def _of_leads(limits: Limits) -> Limits:
    """Those of one value minus another."""
    return limits and (limits[0] - limits[1], limits[1] - limits[0])


def columns_of(goal: Goal, scores: Values) -> tuple[Limits, ...]:
    """The limits of every column of the goal's values, where they are known."""
    limits: dict[str, tuple[float, float]] = dict(goal.ranges)
    for metric, x in zip(goal.columns, scores.T, strict=True):
        if metric not in limits and len(x) and np.isin(x, (0.0, 1.0)).all():
            limits[metric] = (0.0, 1.0)
    return columns_in(goal, limits)


def columns_in(goal: Goal, ranges: Mapping[str, tuple[float, float]]) -> tuple[Limits, ...]:
    """The limits of every column of the goal's values, from the ranges of metrics."""
    scores = np.array([[ranges.get(m, (np.nan, np.nan))[k] for m in goal.columns] for k in (0, 1)])
    ends = goal.values(scores, goal.offsets)
    return tuple(None if np.isnan(a + b) else (float(min(a, b)), float(max(a, b))) for a, b in ends.T)


_FEW_VALUES = 8  # of a metric, such as grades or 0 and 1: what it was so far is taken for its range
LARGEST_PART = 0.3
"""Of the squares about a mean: where a single score takes more, larger ones may be to come, and nothing is proven.

Chosen by simulation (`benchmarks.selection.every_look`), so that early stops are wrong no more often than stated.
"""

TRIED = 3  # prompts that may dominate another, or be ahead of it by more than a margin, those most ahead


class Proofs:
    """Bounds on what the goal's values are, larger is better, from all scores that were told."""

    def __init__(self, state: State) -> None:
        self.goal: Goal = state.problem.goal
        ranges = columns_in(self.goal, self.goal.ranges)
        self._rows = replace(_in_order(state, ranges), gone=tuple(state.no_rivals()))
        values = self._rows._values
        self.columns = tuple(r or _few_values(x) for r, x in zip(ranges, values.T, strict=True))
        self.n_arms = state.problem.n_arms
        self._largest = np.abs(values).max(axis=0, initial=0.0).tolist()
        self._spreads = (np.ptp(values, axis=0) if len(values) else np.zeros(len(ranges))).tolist()

    def lead_is_at_most(self, arm: int, over: int, column: int, most: float, error: float) -> bool:
        """True if a bound on the lead of one prompt over another is proven."""
        rows, limits = self._rows, self.columns[column]
        if rows.problem.population is None:
            upper = -self._lower(-rows._own(arm, column), column, _mirrored(limits), error / 2)
            return upper - self._lower(rows._own(over, column), column, limits, error / 2) <= most + _ROUNDING
        return self._lower(rows._pair(over, arm, column), column, _of_leads(limits), error) >= -most - _ROUNDING

    def keeps(self, arm: int, least: float, error: float) -> bool:
        """True if a lower bound on a prompt's slack is proven for each constraint."""
        return all(self._keeps(arm, k, least, error) for k in slacks_of(self.goal))

    def _keeps(self, arm: int, k: int, least: float, error: float) -> bool:
        if self._rows.bound(k).of is not None:
            return not self.in_the_way(arm, k, least, error)
        return self._lower(self._rows._own(arm, k), k, self.columns[k], error) >= least - _ROUNDING

    def in_the_way(self, arm: int, k: int, least: float, error: float) -> list[int]:
        """The prompts that may be so far ahead that a prompt's slack in a relative bound is below `least`.

        Those that are proven to be behind another by more than the margin are not the best.
        """
        most = self._rows.bound(k).margin - least
        return [
            other
            for other in self._rows.rivals(k)
            if other != arm
            and not self.lead_is_at_most(other, arm, k, most, error)
            and not self._is_outside(other, k, error)
        ]

    def misses(self, arm: int, error: float) -> bool:
        """True if a prompt's slack is proven to be below 0 for one of the constraints."""
        return any(self._misses(arm, k, error) for k in slacks_of(self.goal))

    def _misses(self, arm: int, k: int, error: float) -> bool:
        if self._rows.bound(k).of is not None:
            return self._is_outside(arm, k, error)
        return self._lower(-self._rows._own(arm, k), k, _mirrored(self.columns[k]), error) > _ROUNDING

    def _is_outside(self, arm: int, k: int, error: float) -> bool:
        """True if it is proven that another prompt is ahead by more than the margin."""
        margin = self._rows.bound(k).margin
        others = [other for other in self._rows.rivals(k)[:TRIED] if other != arm]
        return any(self._lead_is_above(other, arm, k, margin, error) for other in others)

    def undecided(self, arms: Indices, least: float, error: float) -> set[int]:
        """The prompts that relative bounds refer to, as far as more scores of them may help to judge these arms."""
        found = set(self._rows.references()) if len(arms) else set()
        for k in slacks_of(self.goal):
            if self._rows.bound(k).of is not None:
                found |= {other for arm in arms.tolist() for other in self.in_the_way(arm, k, least, error)}
        return found

    def _lead_is_above(self, arm: int, over: int, column: int, least: float, error: float) -> bool:
        """True if it is proven that one prompt leads another by more."""
        rows, limits = self._rows, self.columns[column]
        if rows.problem.population is None:
            lower = self._lower(rows._own(arm, column), column, limits, error / 2)
            return lower + self._lower(-rows._own(over, column), column, _mirrored(limits), error / 2) > (
                least + _ROUNDING
            )
        return self._lower(rows._pair(arm, over, column), column, _of_leads(limits), error) > least + _ROUNDING

    def _lower(self, observed: Vector, column: int, limits: Limits, error: float) -> float:
        problem, spread = self._rows.problem, self._spreads[column]
        error /= n_sequences(problem)
        if len(observed) < 2 or spread == 0.0:
            # That all scores agree so far tells nothing of how far another may be off.
            return float(observed.mean()) if len(observed) == problem.exhausted_at else -np.inf
        if limits is not None:
            sequence = bounded(*limits, problem.target, problem.rounds)
            return float(sequence.lower(np.clip(observed, *limits), error))
        squares = (observed - observed.mean()) ** 2
        if len(observed) != problem.exhausted_at and squares.max() > LARGEST_PART * squares.sum():
            return -np.inf
        observed = decimal(observed, self._largest[column])
        scale = spread if mostly_equal(observed) else 0.0
        return float(Asymptotic(problem.exhausted_at).lower(observed, error, scale))


def _few_values(values: Vector) -> Limits:
    """The limits of what was seen, where that was few values again and again."""
    seen, counts = np.unique(values, return_counts=True)
    # Few scores are of few values too: each has to have come again.
    return (float(seen[0]), float(seen[-1])) if 1 < len(seen) <= _FEW_VALUES and counts.min() > 1 else None


def unproven(state: State, answer: list[int], means: Means, error: float, tolerance: float) -> Indices:
    """The prompts whose scores are to prove more, on either side of every open claim; empty: the answer is right.

    It is then wrong in the sense of `asktell.posterior.membership.settled` with a probability of at most `error`, at
    whatever look. `means` (K, m) only decide what is tried.
    """
    evidence, rivals = Proofs(state), np.setdiff1d(state.active, answer)
    if isinstance(state.problem.goal, BestFeasible):
        ordered = _in_order(state, evidence.columns).for_best(error, tolerance)
        if ordered.race:
            left = np.setdiff1d(rivals, ordered.worse(state))
            near = ordered.ahead(np.full(len(left), answer[0]), left, 0, -tolerance, or_equal=True)
            return np.union1d(left[~near], answer) if not near.all() else left[:0]
        return _unproven_best(evidence, answer[0], rivals, error, tolerance)
    values = state.problem.goal.values(means, state.problem.goal.offsets)
    return _unproven_front(evidence, np.array(answer, dtype=np.int64), rivals, values, error, tolerance)


def _in_order(state: State, columns: tuple[Limits, ...]) -> Evidence:
    """The evidence in the first examples of each prompt, up to one that is out, or was not asked for."""
    problem, history = state.seen, state.history
    if problem.population is None:
        return Evidence.of(problem, history, state.missing, first_out(state), columns)
    return Evidence.of(problem, history, state.missing, None, columns, [*state.pending.values(), *state.returned])


def _unproven_best(evidence: Proofs, best: int, rivals: Indices, error: float, tolerance: float) -> Indices:
    """An answer is wrong if it misses a constraint, or one prompt is better: of its claims one must be wrong."""
    goal, n_arms = evidence.goal, evidence.n_arms
    n_constraints = len(goal.constraints)
    part = error / 2 if n_constraints else error
    of_rival = part / max(1, len(rivals) + n_misses(goal, n_arms))
    of_best = part / max(1, (len(rivals) + 1) * n_constraints + n_skips(goal, n_arms))
    open_ = [
        int(rival)
        for rival in rivals
        if not evidence.lead_is_at_most(rival, best, 0, tolerance, of_rival) and not evidence.misses(rival, of_rival)
    ]
    if open_ or not evidence.keeps(best, -tolerance, of_best):
        open_ += {best, *evidence.undecided(np.array([best]), -tolerance, of_best)}
    return np.unique(np.array(open_, dtype=np.int64))


def _unproven_front(
    evidence: Proofs, members: Indices, rivals: Indices, values: Matrix, error: float, tolerance: float
) -> Indices:
    """The prompts of unproven place.

    The claims share `error`: of any two prompts, either way and in all objectives, and of any prompt and constraint,
    which it either keeps within the tolerance or misses, so that only one of the two can be wrong.
    """
    goal, everyone = evidence.goal, np.union1d(members, rivals)
    columns = range(len(goal.objectives))
    values = values[:, : len(columns)]
    of_constraints = n_misses(goal, evidence.n_arms)
    each = error / max(1, len(everyone) * ((len(everyone) - 1) * len(columns) + of_constraints))

    def at_most(arm: int, over: int, column: int, most: float = tolerance) -> bool:
        return evidence.lead_is_at_most(arm, over, column, most, each)

    infeasible = {rival for rival in rivals.tolist() if evidence.misses(rival, each)}
    open_ = {m for m in members.tolist() if not evidence.keeps(m, -tolerance, each)}
    for rival in sorted(set(rivals.tolist()) - infeasible):
        behind = (values[rival] - values[members]).max(axis=1)
        likely = members[np.argsort(behind, kind="stable")[:TRIED]]
        if not any(all(at_most(rival, member, k) for k in columns) for member in likely):
            open_ |= {rival, int(likely[0])}
    for member in members.tolist():
        for other in sorted(set(everyone.tolist()) - infeasible - {member}):
            by_lead = np.argsort(values[other] - values[member], kind="stable")
            below = any(at_most(other, member, int(k), tolerance or -1e-9) for k in by_lead)
            if not below and not all(at_most(other, member, k) for k in columns):
                open_ |= {member, other}
    if open_:
        open_ |= evidence.undecided(members, -tolerance, each)
    return np.array(sorted(open_), dtype=np.int64)


def not_worse(state: State, candidate: int, baseline: int, margin: float, confidence: float) -> dict[str, bool | None]:
    """True if a candidate is certainly not worse than a baseline, False if certainly worse, None while undecided.

    There is an answer for each objective (not worse by more than `margin`, in units of the metric), for each constraint
    (kept) and, under "failure_rate", for failed evaluations (`fails_no_more`).

    A failed evaluation has no score, and its prompt may have failed because of the score that it would have had. So a
    True holds whatever these scores are within the metric's range: also if the candidate would have had the worst ones
    and the baseline the best. For a False it is the other way round. Where the range is unknown, the lowest and the
    highest score seen stand for it.

    Call it after any number of evaluations of a selection that gives both arms the same examples, such as the method
    "uniform": the probability that a True is ever wrong is at most 1 - `confidence`, and so is that of a False. For a
    wrong "all True" one false claim has to look certain; for a wrong "one False" any one may, so each of them gets its
    share of the error. Nothing is certain where scores are doubtful, or seem to have drifted.
    """
    problem, history, goal, error = state.problem, state.history, state.problem.goal, 1 - confidence
    check_no_segments(goal, "a gate")
    scaled = isinstance(goal, ParetoSet)  # whose values are in units of the metrics' ranges
    margins: dict[str, float | None] = {o.metric: margin / o.scale if scaled else margin for o in goal.objectives}
    margins |= {str(constraint): None for constraint in goal.constraints}
    unknown: dict[str, bool | None] = dict.fromkeys((*margins, FAILURE_RATE))
    if state.doubts:
        return unknown
    evidence = Evidence.of(problem, history, state.missing, first_out(state))
    against, in_favor = _with_failures(state, evidence, candidate, baseline)
    of_each = error / (len(margins) + 1)
    arm, other, found = np.array([candidate]), np.array([baseline]), dict[str, bool | None]()
    for column, (name, least) in enumerate(margins.items()):
        counts_failures = evidence._failed is not None and column in evidence._failed.slacks
        sure, surer = (evidence, evidence) if counts_failures else (against, in_favor)
        sure, surer = replace(sure, error=error), replace(surer, error=of_each)
        if least is None:
            good = sure.all_at_least(arm, [column]) & (sure.counts[candidate] > 0)
            bad = surer.below(arm, column)
        else:
            good = sure.ahead(arm, other, column, -least, or_equal=True)
            bad = surer.ahead(other, arm, column, least)
        found[name] = False if bad.all() else True if good.all() else None
    part = _part_of_range(evidence, goal, list(margins.values())[: len(goal.objectives)])
    found[FAILURE_RATE] = fails_no_more(state, candidate, baseline, part, error, of_each)
    # Last, since it takes longest, and matters only where something is certain.
    is_certain = any(each is not None for each in found.values())
    return unknown if is_certain and has_drifted(state) else found


def _with_failures(state: State, evidence: Evidence, candidate: int, baseline: int) -> tuple[Evidence, Evidence]:
    """The evidence with scores of the failed evaluations as well, in their turns.

    First with the worst for the candidate and the best for the baseline, then the other way round.
    """
    problem, history, failed = state.problem, state.history, state.missing.pulls
    if not len(failed) or not len(history):
        return evidence, evidence
    rows = np.arange(len(failed))
    if problem.population is not None and problem.repeats == 1:
        # Of a cell that was evaluated again the score counts, and of one that failed twice a single failure.
        is_scored = set(zip(history.arms().tolist(), history.examples().tolist(), strict=True))
        failed_cells = zip(failed.arms().tolist(), failed.examples().tolist(), strict=True)
        row_of = {cell: row for row, cell in enumerate(failed_cells)}
        rows = np.array([row for cell, row in row_of.items() if cell not in is_scored], dtype=np.int64)
    without_scores = np.full((len(rows), len(problem.goal.columns)), np.nan)
    everything = History.from_columns(
        np.concatenate((history.trials(), failed.trials()[rows])),
        np.concatenate((history.arms(), failed.arms()[rows])),
        np.concatenate((history.examples(), failed.examples()[rows])),
        np.concatenate((history.scores(), without_scores)),
    )
    filled = Evidence.of(problem, everything, Failures(), first_out(state), evidence.columns)
    seen = problem.goal.values(history.scores(), problem.goal.offsets).T
    ends = [limits or (x.min(), x.max()) for limits, x in zip(evidence.columns, seen, strict=True)]
    worst, best = np.array(ends, dtype=np.float64).T
    return (
        _with_values(filled, {candidate: worst, baseline: best}),
        _with_values(filled, {candidate: best, baseline: worst}),
    )


def _with_values(evidence: Evidence, of_failed: Mapping[int, Vector]) -> Evidence:
    """The same with values (q,) for those of an arm that are NaN."""
    values = evidence._values.copy()
    for arm, instead in of_failed.items():
        own = values[evidence._starts[arm] : evidence._starts[arm + 1]]
        own[:] = np.where(np.isnan(own), instead, own)
    return replace(evidence, _values=values)


def _part_of_range(evidence: Evidence, goal: Goal, margins: list[float | None]) -> float:
    """The margin as a part of the objective's range, the least one of several; 0 if no range is known."""
    known = [
        (margin or 0.0) / (limits[1] - limits[0]) if limits is not None and limits[1] > limits[0] else 0.0
        for margin, limits in zip(margins, evidence.columns[: len(goal.objectives)], strict=True)
    ]
    return min(1.0, *known)


UNSEEN_FAILURES = 0.05
"""By how much a candidate may fail more often than the baseline if it has not done so on the examples seen so far.

Without it, a pass with a margin of 0 would need all examples even of two prompts that never fail. A judgement.
"""


def fails_no_more(
    state: State, candidate: int, baseline: int, margin: float, error: float, error_of_no: float
) -> bool | None:
    """True if a candidate certainly fails no more often than a baseline, False if certainly more often, else None.

    More often: on more of the examples, by more than `margin`, a share of them. As long as the candidate has not failed
    on more of the examples that both have seen, `UNSEEN_FAILURES` is allowed if that is more. A True is about the
    examples given, each by its first evaluation, and ever wrong with probability `error`. A False, with `error_of_no`,
    is about evaluations to come: a single failure may be an accident even where every example was seen.
    """
    (places, failed), (places_before, failed_before) = (_first_failed(state, arm) for arm in (candidate, baseline))
    _, rows, rows_before = np.intersect1d(places, places_before, assume_unique=True, return_indices=True)
    more = failed[rows] - failed_before[rows_before]
    if not len(more):
        return None
    if Betting(-1.0, 1.0).refutes(more, margin, error_of_no):
        return False
    allowed = margin if more.sum() > 0 else max(margin, UNSEEN_FAILURES)
    return True if _at_most(more, allowed, state.problem.population, error) else None


def _first_failed(state: State, arm: int) -> tuple[Indices, Vector]:
    """The places of the examples that an arm has seen, ascending, and 1 where its first evaluation failed, else 0.

    Without examples, the places count its evaluations. Nothing is used from the first place on that is out.
    """
    problem, history, failures, reach = state.problem, state.history, state.failures.pulls, first_out(state)
    scored = (history.arms() == arm) & (history.trials() >= 0)  # and not a repeat beside the selection
    own = failures.arms() == arm
    trials = np.concatenate((failures.trials()[own], history.trials()[scored]))
    examples = np.concatenate((failures.examples()[own], history.examples()[scored]))
    # What failed comes first: where failures count as scores, their trials are among the scored ones, too.
    failed = np.concatenate((np.ones(int(own.sum())), np.zeros(int(scored.sum()))))
    trials, first = np.unique(trials, return_index=True)
    if problem.population is None:
        n = len(trials) if reach is None else int(np.searchsorted(trials, reach))
        return np.arange(n), failed[first[:n]]
    examples, failed = examples[first], failed[first]
    _, first = np.unique(examples, return_index=True)
    places, failed = problem.place[examples[first]], failed[first]
    order = np.argsort(places)
    order = order if reach is None else order[places[order] < reach]
    return places[order], failed[order]


def _at_most(more: Vector, allowed: float, population: int | None, error: float) -> bool:
    """Whether the mean of differences from -1 to 1 is certainly at most what is allowed, on the examples given."""
    if len(more) == population:
        return bool(more.mean() <= allowed + _ROUNDING)
    return bool(Betting(-1.0, 1.0, population).refutes(-more, -allowed, error))


BETTER, WORSE, EQUAL, UNDECIDED = "better", "worse", "equal", "undecided"


@dataclass(frozen=True)
class Difference:
    """The lead of prompt a over prompt b in one metric, in its own units; None if unknown.

    `estimate` is a minus b and `p_better` the probability that a is better in the metric's direction, both by the same
    model as the estimates of all prompts, from all scores. `low` and `high` are bounds that hold at every look (None
    where the pairs are too few for one). They rest on `pairs`, the first examples in the shared order that both prompts
    have completed. `verdict`: "equal" if the interval is within the tolerance, else "better" or "worse" if zero is
    outside it, else "undecided". `guaranteed`: the interval holds whatever the scores are like. That takes a known
    range, no failures, no drift and no doubtful remark, or all given examples and scores without noise.
    """

    estimate: float | None
    low: float | None
    high: float | None
    p_better: float
    pairs: int
    verdict: str
    guaranteed: bool


def compare(
    scores_a: npt.ArrayLike,
    scores_b: npt.ArrayLike,
    estimate: float | None = None,
    p_better: float = 0.5,
    *,
    population: int | None = None,
    limits: Limits = None,
    confidence: float = 0.95,
    tolerance: float = 0.0,
    minimize: bool = False,
    rounds: int | None = None,
    guaranteed: bool = True,
) -> Difference:
    """One metric of two prompts, from their (n,) scores of the same examples, in an order that depends on no score.

    `estimate` and `p_better` are those of the model, for whatever is not known exactly; without an estimate it is the
    mean. `population`: how many examples
    there are, each taken once; None: independent draws from any number. `limits`: the lowest and the highest score
    there can be, None if unknown. `rounds`: how often all examples may be taken, if scores are noisy, else None; scores
    are then given round by round, and no number of them makes a mean over the examples known exactly. `guaranteed`:
    nothing else speaks against a guarantee. Whoever reads several intervals divides the error among them.
    """
    a, b = np.asarray(scores_a, dtype=np.float64), np.asarray(scores_b, dtype=np.float64)
    scores = np.concatenate([a, b])
    n, largest = len(a), float(np.abs(scores).max(initial=0.0))
    differences = decimal(a - b, largest)
    is_exact = n > 0 and n == population and rounds is None
    guaranteed = guaranteed and (is_exact or limits is not None)
    pairs = min(n, population) if rounds is not None and population else n
    mean = math.fsum((a - b).tolist()) / n if n else None
    if mean is not None and abs(mean) <= _ROUNDING * largest:
        mean = 0.0
    estimate = mean if estimate is None else estimate
    if limits is None and np.isin(scores, (0.0, 1.0)).all() and n:
        limits = (0.0, 1.0)
    if n == 0 and limits is None:
        return Difference(estimate, None, None, p_better, 0, UNDECIDED, False)
    if is_exact and mean is not None:
        low = high = estimate = mean
        p_better = 0.5 if mean == 0.0 else float((mean > 0) != minimize)
    else:
        low, high = _interval(differences, scores, population, limits, confidence, rounds)
    verdict = _verdict(low, high, tolerance, minimize)
    return Difference(estimate, *_shown(low, high, scores, limits), p_better, pairs, verdict, guaranteed)


def _interval(
    differences: Vector,
    scores: Vector,
    population: int | None,
    limits: Limits,
    confidence: float,
    rounds: int | None,
) -> tuple[float, float]:
    """(n,) differences of `scores` -> bounds of their mean over the population; infinite where nothing bounds it."""
    if limits is not None:
        width = limits[1] - limits[0]
        low, high = bounded(-width, width, population, rounds).interval(differences, 1 - confidence)
    else:
        scale = np.ptp(scores) if mostly_equal(differences) else 0.0
        draws = Asymptotic(None if rounds is not None else population)
        low, high = draws.interval(differences, 1 - confidence, scale)
    return float(low), float(high)


def _shown(low: float, high: float, scores: Vector, limits: Limits) -> tuple[float | None, float | None]:
    """The bounds that say something, else None."""
    if limits is None and high - low > 2 * np.ptp(scores):
        # Of few scores an asymptotic interval is wider than any difference of two that were seen, which says nothing.
        return None, None
    return low if math.isfinite(low) else None, high if math.isfinite(high) else None


def _verdict(low: float, high: float, tolerance: float, minimize: bool) -> str:
    if -tolerance <= low and high <= tolerance:
        return EQUAL
    if low > 0 or high < 0:
        return BETTER if (low > 0) != minimize else WORSE
    return UNDECIDED
