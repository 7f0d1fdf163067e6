"""Claims about means and differences that hold at every look, from scores in one shared order of the examples.

A claim is, for example, "the mean of prompt a is at least that of prompt b". With
`inputs="given"`, a mean is the mean over the given examples, which are drawn without
replacement (`asktell.intervals`). With `inputs="new"`, it is the expected score on a
new input that is evaluated once.

Theorem
-------

P(a false claim is ever established) <= error, over all looks at the scores, if

(i)   the order of the examples does not depend on the scores, and the distribution of scores does not drift;
(ii)  every score lies in the known range of its metric;
(iii) a score counts, or does not count, whatever its value: no evaluation fails, and an
example with a pending score is
      ignored together with all later examples;
(iv)  the errors of all claims that may be false sum to `error` at most.

Without a known range, (ii) is replaced by a limit: the probability tends to `error` as
the number of examples grows (`asktell.intervals.asymptotic`). Scores with a doubtful
remark establish nothing.

Proof. By (i) to (iii), the scores of a prompt, and the differences of two prompts, are
draws in a fixed range. Given examples are drawn without replacement, and new inputs
independently. A confidence sequence of such draws with the error e excludes their mean
at some look with a probability of e at most (Waudby-Smith & Ramdas 2020, 2023). A claim
is established only if the sequence excludes its opposite. The union bound over the
claims of (iv) gives the theorem.

Repeated evaluations of new inputs. Let the examples in their seeded order be
independent draws of inputs, and let the evaluations of a prompt on an example be
independent of those on other examples. For every r, let D_j be the mean of the first r
evaluations of one prompt on the j-th example, less the same mean of another prompt.
Then D_1, D_2, ... are independent and equal in distribution. Their expectation is the
difference of the two prompts' means, however noisy an evaluation is. A confidence
sequence of them with an error of e / R is therefore wrong at some j with a probability
of e / R at most. By the union bound, the sequences for r = 1, ..., R are all right at
all j with a probability of at least 1 - e. So a claim from any r and any j is right
with that probability, even if r and j were chosen after a look at the scores. The same
holds for the evaluations of a single prompt.

Here R is `repeats`, and r is the largest number of evaluations that both prompts have
had of every one of the first examples. An incomplete round does not count. The first
examples are the longest beginning of the order that both prompts have completed. So
neither the time nor the reason of an evaluation matters, nor the method that asked for
it. Repeats beyond R are ignored, and so is a score that was recorded before an earlier
evaluation of the same cell.

How the error is divided
------------------------

The selection is wrong only if one of a few claims is false. Only these share the error
of (iv).

Best of K prompts, if the range of the metric is known and scores are not noisy: the
claim that the true best prompt is worse than another one. This is one claim with the
whole error, however many prompts there are (`asktell.intervals.racing`). A tolerance
adds a claim at the end: no prompt is better than the selected prompt by more than the
tolerance. This may be false of any of the K - 1 others, so each of them gets 1 / (K -
1) of one half of the error, and the true best gets the other half. With few prompts
this costs more than it saves, so they are compared in pairs.

Best feasible prompt in pairs, under C constraints: for each of the K - 1 others, the
claim that it beats the true best (or that it satisfies a constraint that it violates,
if it is infeasible), and that the true best violates one of the C constraints. There is
no race under constraints. Only a prompt that certainly is feasible can beat another, so
all bets would come late.

A constraint relative to the best prompt in a metric is compared in pairs, too. If a
selected prompt is not within the margin, then the claim is false of its pair with this
best prompt. So the claim of being within the margin takes no more of the error than any
other constraint, although it is established for every pair. The claim that the true
best is not within the margin may be false for each of the K - 1 others. So may the
claim that the best prompt in the metric is not the best there, after which its pairs
are ignored. Such a constraint therefore has 2 (K - 1) claims instead of one.

Pareto set of m objectives: K (K - 1) m claims that one prompt is ahead of another in an
objective, and K C claims that a prompt satisfies or violates a constraint. A prompt
does one of the two, so only the opposite claim can be false. A constraint relative to
the best prompt counts K - 1 times.

A comparison of two prompts has an interval of its own (`compare`).

What uses what
--------------

==============  =====================================================================================================
`Evidence`      The scores in the shared order, with claims for a fixed error. Used by `Race` to eliminate prompts and
                to stop, by `not_worse`, and by `unproven` for a race among many prompts.
`Proofs`        Lower and upper bounds of means and leads for any error. Used by `unproven`.
`unproven`      The prompts with open claims, for the early stop of `Adaptive(confidence=...)`.
`not_worse`     Claims of one candidate against one baseline, for the gate on the command line.
`compare`       The interval of one difference, for `Result.compare`.
==============  =====================================================================================================
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
from asktell.numerics.arrays import (
    Counts,
    Indices,
    Mask,
    Matrix,
    Means,
    Values,
    Vector,
    decimal,
    mostly_equal,
)
from asktell.problem.goals import (
    BASELINE,
    BEST,
    FAILURE_RATE,
    BestFeasible,
    Bound,
    Goal,
    ParetoSet,
    check_over_all_examples,
)
from asktell.state import Added, Failures, Problem, Pull, State
from asktell.state.history import History, in_rounds, in_turns, turns, turns_out

# Relative error of a mean: sums of decimal fractions differ by some units in the last
# place.
_ROUNDING = 1e-12
# Numbers in one array, 16 MB.
_MOST_NUMBERS = 1 << 21
# Most prompts for which a race with a tolerance needs more evaluations than pairs.
# Found by simulation.
FEW = 6


Limits: TypeAlias = tuple[float, float] | None
"""The lowest and the highest possible value in a column of the goal's values. None if unknown."""


class Rows(NamedTuple):
    """Values of every arm, sorted by arm and by place in the order of the examples (or of all evaluations).

    - `starts` (K + 1,): the first row of each arm, and the number of rows.
    - `places` (n,): the place of each row, ascending within an arm.
    - `values` (n, q): the goal's values, larger is better.
    """

    starts: Indices
    places: Indices
    values: Values

    @classmethod
    def of(cls, arms: Indices, places: Indices, values: Values, n_arms: int) -> "Rows":
        """Rows from arms (n,), places (n,) and values (n, q) that are sorted by arm and place."""
        return cls(np.searchsorted(arms, np.arange(n_arms + 1)), places, values)

    def part(self, arm: int) -> slice:
        """The slice of the rows of an arm."""
        return slice(int(self.starts[arm]), int(self.starts[arm + 1]))

    def pair(self, a: int, b: int) -> tuple[Indices, Indices]:
        """The positions of two arms' rows on their common places, in order."""
        of_a, of_b = self.part(a), self.part(b)
        n = min(of_a.stop - of_a.start, of_b.stop - of_b.start)
        # The usual case: one arm has seen the first examples of the other.
        if np.array_equal(self.places[of_a][:n], self.places[of_b][:n]):
            return of_a.start + np.arange(n), of_b.start + np.arange(n)
        _, in_a, in_b = np.intersect1d(
            self.places[of_a],
            self.places[of_b],
            assume_unique=True,
            return_indices=True,
        )
        return of_a.start + in_a, of_b.start + in_b


@final
@dataclass(frozen=True, eq=False)
class Evidence:
    """The values of every arm on the first examples of the shared order, and claims about them. Larger is better.

    Given examples with noisy scores are listed round by round. For new inputs there is
    one value per example, the mean of its first r evaluations: r = 1 in `_starts`,
    `_places` and `_values`, and r = 2, 3, ... in `_again`. Examples with pending
    scores, and all later examples, are ignored, so that slow evaluations with unusual
    scores cause no bias.

    - `error`: the probability that a claim is ever wrong, for each claim. At 0, a claim
      is established only by exact knowledge.
    - `race`: the probability that the best prompt ever loses the race of `worse`. At 0,
      there is no race.
    - `columns`: the limits of each column of the goal's values.
    - `counts` (K,): the number of values of each arm.
    - `known` (K,): how many of the first examples have a score or a failure.
    - `means` (K, q): the means of the values, NaN without scores.
    - `gone`: the arms that failed or were retired. No relative bound refers to them.
    """

    problem: Problem
    error: float
    columns: tuple[Limits, ...]
    counts: Counts
    known: Counts
    means: Means
    _starts: Indices
    _places: Indices
    _values: Values
    _failed: "_Failed | None" = None
    race: float = 0.0
    _again: tuple[Rows, ...] = ()
    gone: tuple[int, ...] = ()

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
        """The evidence in the recorded scores, with an error of 0.

        Args:
            problem: the problem.
            history: the recorded scores.
            missing: the failed evaluations, if failures count as missing scores.
            reach: the first place in the order of all evaluations that is in progress.
                Without such an order, the first trial in progress. None: no evaluation
                is in progress.
            columns: the limits of each column. None: from the ranges of metrics, and 0
                to 1 for binary metrics.
            out: the evaluations in progress. With them, the scores of each arm count up
                to the first example that the arm has not completed. For new inputs they
                always do.
        """
        trials, arms, examples = history.trials(), history.arms(), history.examples()
        scores, n_arms, goal = history.scores(), problem.n_arms, problem.goal
        values = goal.values(scores, goal.offsets)
        columns = columns_of(problem.goal, scores) if columns is None else columns
        again: list[Rows] = []
        if problem.population is None:
            # Each evaluation draws its own example, so its place is its number among
            # those of its arm.
            order = np.lexsort((trials, arms))
            usable = order if reach is None else order[trials[order] < reach]
            starts = np.searchsorted(arms[usable], np.arange(n_arms + 1))
            places = np.arange(len(usable)) - starts[arms[usable]]
            first, known, cut = (
                Rows(starts, places, values[usable]),
                np.diff(starts),
                False,
            )
        else:
            if problem.target is None:
                rounds = observations(
                    problem, history, missing, values, reach, out or ()
                )
                rounds = rounds or [(np.arange(0), np.arange(0), values[:0])]
            else:
                rounds = [
                    in_turns(problem, missing, trials, arms, examples, values, reach)
                ]
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
        return cls(
            problem=problem,
            error=0.0,
            columns=columns,
            counts=counts,
            known=known,
            means=means,
            _starts=first.starts,
            _places=first.places,
            _values=first.values,
            _failed=rate,
            race=0.0,
            _again=tuple(again),
        )

    def for_best(self, error: float, tolerance: float) -> "Evidence":
        """The evidence with the error divided among the claims that could make the best feasible prompt wrong.

        See "How the error is divided" in the head of this module.
        """
        n_others, goal = self.problem.n_arms - 1, self.problem.goal
        n_constraints = n_misses(goal, self.problem.n_arms) + n_skips(
            goal, self.problem.n_arms
        )
        # The scores of one round decide which prompts are in the next round, so bets
        # with repeats would not be fair.
        is_one_round = self.problem.repeats == 1 and self.problem.rounds is None
        races = is_one_round and not n_constraints and self.columns[0] is not None
        if not races or (tolerance and n_others < FEW):
            return replace(self, error=error / max(1, n_others + n_constraints))
        if tolerance:
            return replace(self, error=error / 2 / n_others, race=error / 2)
        return replace(self, error=0.0, race=error)

    def worse(self, state: State) -> Indices:
        """The arms that lost the race: certainly worse than another arm that neither failed nor was retired."""
        arms = np.setdiff1d(np.arange(self.problem.n_arms), state.no_rivals())
        known = self.known[arms]
        # (A, n) scores by place, NaN for failures and for places that an arm has not
        # reached.
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

    def ahead(
        self,
        arms: Indices,
        others: Indices,
        column: int,
        claim: float,
        or_equal: bool = False,
    ) -> Mask:
        """(P,) True where an arm is certainly ahead of the other arm of its pair by more than `claim`."""
        pairs = [
            self._pair(int(i), int(j), column)
            for i, j in zip(arms, others, strict=True)
        ]
        return self._above(
            pairs, _of_leads(self.columns[column]), claim, column, or_equal
        )

    def all_at_least(self, arms: Indices, columns: Iterable[int]) -> Mask:
        """(A,) True where the mean of an arm is certainly 0 or more in each of the columns."""
        kept = np.ones(len(arms), dtype=bool)
        for q in columns:
            if self.bound(q).of is not None:
                kept[kept] = [self._is_within(int(arm), q) for arm in arms[kept]]
                continue
            own = [self._own(int(arm), q) for arm in arms[kept]]
            kept[kept] = self._above(own, self.columns[q], 0.0, q, or_equal=True)
        return kept

    def below(self, arms: Indices, column: int) -> Mask:
        """(A,) True where the mean of an arm is certainly below 0."""
        if self.bound(column).of is not None:
            return np.array(
                [self._is_outside(int(arm), column) for arm in arms], dtype=bool
            )
        own = [-self._own(int(arm), column) for arm in arms]
        return self._above(
            own, _mirrored(self.columns[column]), 0.0, column, or_equal=False
        )

    def bound(self, column: int) -> Bound:
        """The bound whose slacks are in a column of the goal's values."""
        goal = self.problem.goal
        return goal.bounds[column - len(goal.objectives)]

    def references(self, column: int | None = None) -> list[int]:
        """The arms that relative bounds most likely refer to: the baseline, or the arm of the highest mean so far.

        `column`: the column of slacks of one relative bound. None: all relative bounds.
        """
        goal = self.problem.goal
        columns = (
            [q for q in slacks_of(goal) if self.bound(q).of is not None]
            if column is None
            else [column]
        )
        found = (self.rivals(q) for q in columns)
        return [arms[0] for arms in found if arms]

    def rivals(self, column: int) -> list[int]:
        """The arms to which the bound of a column of slacks may be relative, the highest mean first."""
        if self.bound(column).of == BASELINE:
            return (
                [int(self.problem.goal.baseline)]
                if self.problem.goal.baseline is not None
                else []
            )
        means = np.where(self.counts > 0, self.means[:, column], -np.inf)
        return [
            int(arm)
            for arm in np.argsort(-means, kind="stable")
            if arm not in self.gone
        ]

    def _is_within(self, arm: int, column: int) -> bool:
        """True if an arm certainly is not behind the best arm by more than the margin.

        An arm that certainly is behind another by more than the margin cannot be the
        best arm.
        """
        own, margin = np.array([arm]), self.bound(column).margin
        for other in self.rivals(column):
            if other == arm:
                continue
            is_near = self.ahead(
                own, np.array([other]), column, -margin, or_equal=True
            )[0]
            if not is_near and not self._is_outside(other, column):
                return False
        return True

    def _is_outside(self, arm: int, column: int) -> bool:
        """True if another arm certainly is ahead of `arm` by more than the margin."""
        bound = self.bound(column)
        others = np.array(
            [other for other in self.rivals(column)[:TRIED] if other != arm],
            dtype=np.int64,
        )
        return bool(
            self.ahead(others, np.full(len(others), arm), column, bound.margin).any()
        )

    def is_exhausted(self, arms: Indices) -> bool:
        """True if the means are known exactly: each arm has seen every example, and scores are not noisy."""
        return self.problem.exhausted_at is not None and bool(
            (self.counts[arms] == self.problem.exhausted_at).all()
        )

    @property
    def each_error(self) -> float:
        """The error of one confidence sequence. For new inputs, there is a sequence for each number of evaluations."""
        return self.error / n_sequences(self.problem)

    @property
    def _rounds(self) -> list[Rows]:
        """The rows of the most evaluations per example, then of one evaluation less, down to the rows of one."""
        return [*reversed(self._again), Rows(self._starts, self._places, self._values)]

    def _own(self, arm: int, column: int) -> Values:
        """The values of an arm in a column, in order, from as many evaluations per example as all of them have."""
        if self._failed is not None and column in self._failed.slacks:
            return self._failed.of_arm(arm, column)
        whole = next(
            rows
            for rows in self._rounds
            if rows.starts[arm + 1] - rows.starts[arm] == self.counts[arm]
        )
        return whole.values[whole.part(arm), column]

    def _pair(self, a: int, b: int, column: int) -> Values:
        """The differences of two arms on their common examples, in order, round by round."""
        of_a, of_b = longest(self._rounds, a, b)[1:]
        return of_a[:, column] - of_b[:, column]

    def _above(
        self,
        rows: list[Values],
        limits: Limits,
        claim: float,
        column: int,
        or_equal: bool,
    ) -> Mask:
        """(P,) True where the mean of a row is certainly above the claim."""
        found = np.zeros(len(rows), dtype=bool)
        problem = self.problem
        by_length: dict[int, list[int]] = {}
        rounding = _ROUNDING * (1.0 + abs(claim))
        for i, row in enumerate(rows):
            # A mean below the claim cannot be certainly above it.
            if len(row) and row.mean() >= claim - rounding:
                by_length.setdefault(len(row), []).append(i)
        # Rows of the same length are computed together, as many as memory allows.
        for n, of_length in by_length.items():
            size = max(1, _MOST_NUMBERS // (8 * n))
            for start in range(0, len(of_length), size):
                chunk = of_length[start : start + size]
                x = np.array([rows[i] for i in chunk])
                if n == problem.exhausted_at:
                    # Every example was seen, so the mean is known exactly.
                    mean = x.mean(axis=1)
                    found[chunk] = (
                        mean >= claim - rounding
                        if or_equal
                        else mean > claim + rounding
                    )
                elif self.error and limits is None:
                    values = self._values[:, column]
                    x = decimal(x, float(np.abs(values).max()))
                    scale = np.where(mostly_equal(x), np.ptp(values), 0.0)
                    found[chunk] = (
                        Asymptotic(problem.exhausted_at).lower(
                            x, self.each_error, scale
                        )
                        > claim
                    )
                elif self.error and limits is not None:
                    sequence = bounded(*limits, problem.target, problem.rounds)
                    found[chunk] = sequence.refutes(x, claim, self.each_error)
        return found


def n_sequences(problem: Problem) -> int:
    """The number of confidence sequences that share an error. For new inputs, one for each number of evaluations."""
    return (
        problem.repeats
        if problem.population is not None and problem.target is None
        else 1
    )


def observations(
    problem: Problem,
    history: History,
    missing: Failures,
    values: Matrix,
    reach: int | None,
    out: Sequence[Pull],
) -> list[tuple[Indices, Indices, Matrix]]:
    """Arms, places and mean values of the first evaluation of each cell, of the first two, and so on (`in_rounds`).

    Only rows before the turn `reach` count. Of each cell, no row counts after a pull
    that is `out`, that is, in progress.
    """
    trials, arms, examples = history.trials(), history.arms(), history.examples()
    if reach is not None:
        known = np.flatnonzero(examples >= 0)
        known = known[
            turns(problem, missing, trials[known], arms[known], examples[known]) < reach
        ]
        trials, arms, examples, values = (
            trials[known],
            arms[known],
            examples[known],
            values[known],
        )
    asked = [
        (p.trial, p.arm, p.example)
        for p in out
        if p.trial is not None and p.example is not None
    ]
    trials_out, arms_out, examples_out = (
        np.array(asked, dtype=np.int64).reshape(-1, 3).T
    )
    trials, arms = (
        np.concatenate((trials, trials_out)),
        np.concatenate((arms, arms_out)),
    )
    unknown = np.full((len(asked), values.shape[1]), np.nan)
    examples, values = (
        np.concatenate((examples, examples_out)),
        np.concatenate((values, unknown)),
    )
    return in_rounds(problem, trials, arms, examples, values)


def completed(
    problem: Problem,
    history: History,
    missing: Failures,
    scored: Sequence[Indices],
    reach: int | None = None,
) -> Counts:
    """(K,) the number of first examples of the shared order that each arm has completed, with a score or a failure.

    For given examples with noisy scores, places are counted in the order of all
    evaluations, round after round. `scored` holds the arms (n,) and the places (n,) of
    the scores that count.
    """
    width = (
        (problem.most_pulls or 0) if problem.rounds is not None else len(problem.order)
    )
    told = np.zeros((problem.n_arms, width + 1), dtype=bool)
    arms, places = scored
    told[arms, np.minimum(places, width)] = True
    if missing:
        both = history, missing.pulls
        trials, arms, examples = (
            np.concatenate([getattr(rows, name)() for rows in both]) for name in _PLACES
        )
        real, failed = examples >= 0, np.arange(len(trials)) >= len(history)
        at = turns(problem, Failures(), trials[real], arms[real], examples[real])
        at = at if problem.rounds is not None else at % max(1, width)
        told[arms[real & failed], np.minimum(at[failed[real]], width)] = True
    told[:, width] = False
    return np.asarray(
        np.minimum(told.argmin(axis=1), width if reach is None else reach)
    )


_PLACES = ("trials", "arms", "examples")


def longest(rounds: Sequence[Rows], a: int, b: int) -> tuple[Indices, Values, Values]:
    """The common places of two arms, and the values of both from as many evaluations as all these examples have had."""
    *more, first = rounds
    in_a, in_b = first.pair(a, b)
    of = first
    for rows in more:
        pair = rows.pair(a, b)
        if len(pair[0]) == len(in_a):
            of, (in_a, in_b) = rows, pair
            break
    return of.places[in_a], of.values[in_a], of.values[in_b]


def _before(
    known: Counts, arms: Indices, places: Indices, values: Values
) -> tuple[Indices, Indices, Values]:
    """The rows of each arm before its first place that is not completed, `known` (K,)."""
    kept = places < known[arms]
    return arms[kept], places[kept], values[kept]


def _means(rows: Rows, counts: Counts) -> Means:
    """(K, q) means of every arm's rows, NaN without any."""
    arms = np.repeat(np.arange(len(counts)), np.diff(rows.starts))
    totals = np.stack(
        [np.bincount(arms, column, minlength=len(counts)) for column in rows.values.T],
        axis=1,
    )
    with np.errstate(invalid="ignore"):
        return np.where(
            counts[:, None] > 0, totals / np.maximum(counts, 1)[:, None], np.nan
        )


def first_out(state: State, but: Container[int] = ()) -> int | None:
    """The first place in the order of all evaluations that is in progress, ignoring the arms in `but`.

    Without such an order, the first trial in progress. None: nothing is in progress.
    """
    out = [
        pull
        for pull in (*state.pending.values(), *state.returned)
        if pull.arm not in but
    ]
    if state.problem.population is not None:
        return min(
            turns_out(state.problem, state.history, state.missing, out), default=None
        )
    return min((pull.trial for pull in out if pull.trial is not None), default=None)


class _Failed(NamedTuple):
    """The evaluations and failures of each arm, as slacks of a bound on the failure rate.

    - `arms` (n,) and `failed` (n,): by arm and turn.
    - `slacks`: by column of the goal's values, the slack of an evaluation without and
      with a failure.
    """

    arms: Indices
    failed: Mask
    slacks: dict[int, tuple[float, float]]

    @classmethod
    def of(
        cls,
        problem: Problem,
        history: History,
        missing: Failures,
        reach: int | None,
        known: Counts | None,
    ) -> "_Failed":
        """The evaluations before the turn `reach`, and before the first place that an arm has not completed.

        The latter only if `known` (K,) is given. If a place was evaluated several
        times, the first evaluation counts.
        """
        both = history, missing.pulls
        trials, arms, examples = (
            np.concatenate([getattr(rows, name)() for rows in both]) for name in _PLACES
        )
        failed = np.arange(len(trials)) >= len(history)
        if problem.population is None:
            at, place = trials, np.arange(len(trials))
        else:
            real = examples >= 0
            trials, arms, examples, failed = (
                trials[real],
                arms[real],
                examples[real],
                failed[real],
            )
            at = place = turns(problem, Failures(), trials, arms, examples)
            if problem.rounds is None:
                place = place % len(problem.order)
        kept = np.ones(len(at), dtype=bool) if reach is None else at < reach
        kept &= True if known is None else place < known[arms]
        order = np.lexsort(
            (trials, at, place, arms) if problem.population is not None else (at, arms)
        )
        order = order[kept[order]]
        another = (np.diff(arms[order], prepend=-1) != 0) | (
            np.diff(place[order], prepend=-1) != 0
        )
        order = order[another]
        goal = problem.goal
        # The failure rate is the last column of the goal. Its slacks are linear in the
        # rate, from 0 to 1.
        column = len(goal.columns) - 1
        ends = goal.values(np.eye(2, column + 1, column - 1), goal.offsets)
        which = [
            k
            for k, bound in enumerate(goal.bounds, len(goal.objectives))
            if bound.column == column
        ]
        slacks = {k: (float(ends[0, k]), float(ends[1, k])) for k in which}
        return cls(arms[order], failed[order], slacks)

    def of_arm(self, arm: int, column: int) -> Values:
        """The slacks of an arm, in the order of its turns."""
        good, bad = self.slacks[column]
        return np.where(self.failed[self.arms == arm], bad, good)


def joined_at(state: State) -> Counts:
    """(K,) how many of the first examples other arms had seen when an arm was added. 0 for the arms of the start."""
    joined, first = np.zeros(state.problem.n_arms, dtype=np.int64), state.origin.n_arms
    for _, n_rows, _, event in state.growth:
        if isinstance(event, Added):
            arms, examples = (
                state.history.arms()[:n_rows],
                state.history.examples()[:n_rows],
            )
            shared = state.problem.population is not None
            seen = (
                1 + state.problem.place[examples[examples >= 0]]
                if shared
                else np.bincount(arms)
            )
            joined[first : first + len(event.texts)] = seen.max(initial=0)
            first += len(event.texts)
    return joined


def slacks_of(goal: Goal) -> range:
    """The columns of the goal's values that hold slacks."""
    return range(len(goal.objectives), len(goal.objectives) + len(goal.constraints))


def n_misses(goal: Goal, n_arms: int) -> int:
    """The number of claims that may wrongly establish that a prompt violates a constraint."""
    return sum(max(1, n_arms - 1) if bound.of == BEST else 1 for bound in goal.bounds)


def n_skips(goal: Goal, n_arms: int) -> int:
    """The number of claims that may wrongly establish that the best prompt, to which bounds are relative, is not."""
    return sum(n_arms - 1 for bound in goal.bounds if bound.of == BEST)


def _mirrored(limits: Limits) -> Limits:
    """The limits of the values with the opposite sign."""
    return limits and (-limits[1], -limits[0])


def _of_leads(limits: Limits) -> Limits:
    """The limits of the difference of two values."""
    return limits and (limits[0] - limits[1], limits[1] - limits[0])


def columns_of(goal: Goal, scores: Values) -> tuple[Limits, ...]:
    """The limits of every column of the goal's values, from ranges and from binary scores. None where unknown."""
    limits: dict[str, tuple[float, float]] = dict(goal.ranges)
    for metric, x in zip(goal.columns, scores.T, strict=True):
        if metric not in limits and len(x) and np.isin(x, (0.0, 1.0)).all():
            limits[metric] = (0.0, 1.0)
    return columns_in(goal, limits)


def columns_in(
    goal: Goal, ranges: Mapping[str, tuple[float, float]]
) -> tuple[Limits, ...]:
    """The limits of every column of the goal's values, from the ranges of metrics."""
    scores = np.array(
        [[ranges.get(m, (np.nan, np.nan))[k] for m in goal.columns] for k in (0, 1)]
    )
    ends = goal.values(scores, goal.offsets)
    return tuple(
        None if np.isnan(a + b) else (float(min(a, b)), float(max(a, b)))
        for a, b in ends.T
    )


# Most different scores of a metric, such as ratings, whose lowest and highest value are
# taken for its range.
_FEW_VALUES = 8
LARGEST_PART = 0.3
"""The largest part of the sum of squares about a mean that a single score may have.

With a larger part, still larger scores may follow, so nothing is established. Chosen by simulation
(`benchmarks.selection.every_look`), so that early stops are wrong no more often than stated.
"""

# Number of prompts that are tried as dominating another one, or as ahead by more than a
# margin. The most likely first.
TRIED = 3


class Proofs:
    """Bounds on the goal's values at any error, from all recorded scores. Larger is better.

    `columns` are the limits of each column of the goal's values. A metric without a
    range gets the limits of its scores if these are few different values.
    """

    def __init__(self, state: State) -> None:
        self.goal: Goal = state.problem.goal
        ranges = columns_in(self.goal, self.goal.ranges)
        self._rows = replace(_in_order(state, ranges), gone=tuple(state.no_rivals()))
        values = self._rows._values
        self.columns = tuple(
            r or _few_values(x) for r, x in zip(ranges, values.T, strict=True)
        )
        self.n_arms = state.problem.n_arms
        self._largest = np.abs(values).max(axis=0, initial=0.0).tolist()
        self._spreads = (
            np.ptp(values, axis=0) if len(values) else np.zeros(len(ranges))
        ).tolist()

    def lead_is_at_most(
        self, arm: int, over: int, column: int, most: float, error: float
    ) -> bool:
        """True if the lead of `arm` over `over` in a column certainly is at most `most`."""
        rows, limits = self._rows, self.columns[column]
        if rows.problem.population is None:
            # Without common examples, the two means have half of the error each.
            upper = -self._lower(
                -rows._own(arm, column), column, _mirrored(limits), error / 2
            )
            return (
                upper - self._lower(rows._own(over, column), column, limits, error / 2)
                <= most + _ROUNDING
            )
        return (
            self._lower(rows._pair(over, arm, column), column, _of_leads(limits), error)
            >= -most - _ROUNDING
        )

    def keeps(self, arm: int, least: float, error: float) -> bool:
        """True if the slack of an arm certainly is at least `least`, for each constraint."""
        return all(self._keeps(arm, k, least, error) for k in slacks_of(self.goal))

    def _keeps(self, arm: int, k: int, least: float, error: float) -> bool:
        if self._rows.bound(k).of is not None:
            return not self.in_the_way(arm, k, least, error)
        return (
            self._lower(self._rows._own(arm, k), k, self.columns[k], error)
            >= least - _ROUNDING
        )

    def in_the_way(self, arm: int, k: int, least: float, error: float) -> list[int]:
        """The arms that may be so far ahead of `arm` that its slack in a relative bound is below `least`.

        An arm that certainly is behind another by more than the margin cannot be the
        best arm.
        """
        most = self._rows.bound(k).margin - least
        found = []
        for other in self._rows.rivals(k):
            if other == arm or self.lead_is_at_most(other, arm, k, most, error):
                continue
            if not self._is_outside(other, k, error):
                found.append(other)
        return found

    def misses(self, arm: int, error: float) -> bool:
        """True if the slack of an arm certainly is below 0, for one of the constraints."""
        return any(self._misses(arm, k, error) for k in slacks_of(self.goal))

    def _misses(self, arm: int, k: int, error: float) -> bool:
        if self._rows.bound(k).of is not None:
            return self._is_outside(arm, k, error)
        return (
            self._lower(-self._rows._own(arm, k), k, _mirrored(self.columns[k]), error)
            > _ROUNDING
        )

    def _is_outside(self, arm: int, k: int, error: float) -> bool:
        """True if another arm certainly is ahead of `arm` by more than the margin."""
        margin = self._rows.bound(k).margin
        others = [other for other in self._rows.rivals(k)[:TRIED] if other != arm]
        return any(
            self._lead_is_above(other, arm, k, margin, error) for other in others
        )

    def undecided(self, arms: Indices, least: float, error: float) -> set[int]:
        """The arms whose further scores may help to decide the relative constraints of `arms`."""
        found = set(self._rows.references()) if len(arms) else set()
        for k in slacks_of(self.goal):
            if self._rows.bound(k).of is not None:
                found |= {
                    other
                    for arm in arms.tolist()
                    for other in self.in_the_way(arm, k, least, error)
                }
        return found

    def _lead_is_above(
        self, arm: int, over: int, column: int, least: float, error: float
    ) -> bool:
        """True if the lead of `arm` over `over` in a column certainly is above `least`."""
        rows, limits = self._rows, self.columns[column]
        if rows.problem.population is None:
            # Without common examples, the two means have half of the error each.
            lower = self._lower(rows._own(arm, column), column, limits, error / 2)
            lower_of_minus_other = self._lower(
                -rows._own(over, column), column, _mirrored(limits), error / 2
            )
            return lower + lower_of_minus_other > least + _ROUNDING
        return (
            self._lower(rows._pair(arm, over, column), column, _of_leads(limits), error)
            > least + _ROUNDING
        )

    def _lower(
        self, observed: Vector, column: int, limits: Limits, error: float
    ) -> float:
        """A lower bound on the mean of the (n,) observed values, minus infinity if nothing is known."""
        problem, spread = self._rows.problem, self._spreads[column]
        error /= n_sequences(problem)
        if len(observed) < 2 or spread == 0.0:
            # Scores that all agree are no measure of how far another score may be off.
            return (
                float(observed.mean())
                if len(observed) == problem.exhausted_at
                else -np.inf
            )
        if limits is not None:
            sequence = bounded(*limits, problem.target, problem.rounds)
            return float(sequence.lower(np.clip(observed, *limits), error))
        squares = (observed - observed.mean()) ** 2
        if (
            len(observed) != problem.exhausted_at
            and squares.max() > LARGEST_PART * squares.sum()
        ):
            return -np.inf
        observed = decimal(observed, self._largest[column])
        scale = spread if mostly_equal(observed) else 0.0
        return float(Asymptotic(problem.exhausted_at).lower(observed, error, scale))


def _few_values(values: Vector) -> Limits:
    """The lowest and the highest of the (n,) values, if these are few different values that each came repeatedly."""
    seen, counts = np.unique(values, return_counts=True)
    # A small sample has few different values, too. So each value must have come more
    # than once.
    if 1 < len(seen) <= _FEW_VALUES and counts.min() > 1:
        return float(seen[0]), float(seen[-1])
    return None


def unproven(
    state: State, answer: list[int], means: Means, error: float, tolerance: float
) -> Indices:
    """The arms on either side of every open claim. Empty: the selected arms, `answer`, are established.

    An established selection is wrong, in the sense of
    `asktell.posterior.membership.settled`, with a probability of at most `error` over
    all looks. `means` (K, m) decide only which claims are tried first.
    """
    evidence, rivals = Proofs(state), np.setdiff1d(state.active, answer)
    if isinstance(state.problem.goal, BestFeasible):
        ordered = _in_order(state, evidence.columns).for_best(error, tolerance)
        if ordered.race:
            left = np.setdiff1d(rivals, ordered.worse(state))
            near = ordered.ahead(
                np.full(len(left), answer[0]), left, 0, -tolerance, or_equal=True
            )
            return np.union1d(left[~near], answer) if not near.all() else left[:0]
        return _unproven_best(evidence, answer[0], rivals, error, tolerance)
    values = state.problem.goal.values(means, state.problem.goal.offsets)
    return _unproven_front(
        evidence, np.array(answer, dtype=np.int64), rivals, values, error, tolerance
    )


def _in_order(state: State, columns: tuple[Limits, ...]) -> Evidence:
    """The evidence in the first examples of each arm, up to the first one without a score or failure."""
    problem, history = state.seen, state.history
    if problem.population is None:
        return Evidence.of(problem, history, state.missing, first_out(state), columns)
    return Evidence.of(
        problem,
        history,
        state.missing,
        None,
        columns,
        [*state.pending.values(), *state.returned],
    )


def _unproven_best(
    evidence: Proofs, best: int, rivals: Indices, error: float, tolerance: float
) -> Indices:
    """The arms with open claims about the best feasible arm.

    The selection is wrong only if the selected arm violates a constraint, or if another
    feasible arm is better by more than the tolerance. In either case one of the claims
    below is false.
    """
    goal, n_arms = evidence.goal, evidence.n_arms
    n_constraints = len(goal.constraints)
    part = error / 2 if n_constraints else error
    of_rival = part / max(1, len(rivals) + n_misses(goal, n_arms))
    of_best = part / max(1, (len(rivals) + 1) * n_constraints + n_skips(goal, n_arms))
    open_ = []
    for rival in rivals.tolist():
        is_behind = evidence.lead_is_at_most(rival, best, 0, tolerance, of_rival)
        if not is_behind and not evidence.misses(rival, of_rival):
            open_.append(rival)
    if open_ or not evidence.keeps(best, -tolerance, of_best):
        open_ += {best, *evidence.undecided(np.array([best]), -tolerance, of_best)}
    return np.unique(np.array(open_, dtype=np.int64))


def _unproven_front(
    evidence: Proofs,
    members: Indices,
    rivals: Indices,
    values: Matrix,
    error: float,
    tolerance: float,
) -> Indices:
    """The arms with open claims about the Pareto set.

    These claims share the `error`: any two arms, either way and in all objectives, and
    any arm with any constraint. An arm either satisfies a constraint within the
    tolerance or violates it, so only one of the two claims can be false.
    """
    goal, everyone = evidence.goal, np.union1d(members, rivals)
    columns = range(len(goal.objectives))
    values = values[:, : len(columns)]
    of_constraints = n_misses(goal, evidence.n_arms)
    each = error / max(
        1, len(everyone) * ((len(everyone) - 1) * len(columns) + of_constraints)
    )

    def at_most(arm: int, over: int, column: int, most: float = tolerance) -> bool:
        return evidence.lead_is_at_most(arm, over, column, most, each)

    infeasible = {rival for rival in rivals.tolist() if evidence.misses(rival, each)}
    open_ = {m for m in members.tolist() if not evidence.keeps(m, -tolerance, each)}
    # Each feasible rival must be covered: a member is at least as good in every
    # objective, up to the tolerance.
    for rival in sorted(set(rivals.tolist()) - infeasible):
        behind = (values[rival] - values[members]).max(axis=1)
        likely = members[np.argsort(behind, kind="stable")[:TRIED]]
        if not any(
            all(at_most(rival, member, k) for k in columns) for member in likely
        ):
            open_ |= {rival, int(likely[0])}
    # Each member must belong: no other arm dominates it, or the other arm is no better
    # by more than the tolerance.
    for member in members.tolist():
        for other in sorted(set(everyone.tolist()) - infeasible - {member}):
            by_lead = np.argsort(values[other] - values[member], kind="stable")
            below = any(
                at_most(other, member, int(k), tolerance or -1e-9) for k in by_lead
            )
            if not below and not all(at_most(other, member, k) for k in columns):
                open_ |= {member, other}
    if open_:
        open_ |= evidence.undecided(members, -tolerance, each)
    return np.array(sorted(open_), dtype=np.int64)


def not_worse(
    state: State, candidate: int, baseline: int, margin: float, confidence: float
) -> dict[str, bool | None]:
    """True if a candidate is certainly not worse than a baseline, False if certainly worse, None while undecided.

    The mapping has a key for each objective (not worse by more than `margin`, in units
    of the metric), for each constraint (satisfied), and "failure_rate" for failed
    evaluations (`fails_no_more`).

    Call `not_worse` after any number of evaluations of a selection that evaluates both
    arms on the same examples, such as the method "uniform". "All True" is ever wrong
    with a probability of at most 1 - `confidence`, and so is "any False". A wrong "all
    True" requires that one particular false claim looks certain, so each claim has the
    whole error. A wrong "any False" can come from any claim, so the claims share the
    error.

    A failed evaluation has no score, and may have failed because of the score that it
    would have had. So a True holds for all possible scores of the failed evaluations,
    even the worst scores for the candidate and the best for the baseline. For a False
    it is the other way round. Possible scores are those in the range of the metric. If
    the range is unknown, they lie between the lowest and the highest recorded score.

    Every value is None if scores are doubtful or seem to have drifted.
    """
    problem, history, goal, error = (
        state.problem,
        state.history,
        state.problem.goal,
        1 - confidence,
    )
    check_over_all_examples(goal, "a gate")
    # The values of a Pareto set are in units of the metrics' ranges.
    scaled = isinstance(goal, ParetoSet)
    margins: dict[str, float | None] = {
        o.metric: margin / o.scale if scaled else margin for o in goal.objectives
    }
    margins |= {str(constraint): None for constraint in goal.constraints}
    unknown: dict[str, bool | None] = dict.fromkeys((*margins, FAILURE_RATE))
    if state.doubts:
        return unknown
    evidence = Evidence.of(problem, history, state.missing, first_out(state))
    against, in_favor = _with_failures(state, evidence, candidate, baseline)
    of_each = error / (len(margins) + 1)
    arm, other, found = (
        np.array([candidate]),
        np.array([baseline]),
        dict[str, bool | None](),
    )
    for column, (name, least) in enumerate(margins.items()):
        counts_failures = (
            evidence._failed is not None and column in evidence._failed.slacks
        )
        sure, surer = (evidence, evidence) if counts_failures else (against, in_favor)
        sure, surer = replace(sure, error=error), replace(surer, error=of_each)
        if least is None:
            good = sure.all_at_least(arm, [column]) & (sure.counts[candidate] > 0)
            bad = surer.below(arm, column)
        else:
            good = sure.ahead(arm, other, column, -least, or_equal=True)
            bad = surer.ahead(other, arm, column, least)
        if bad.all():
            found[name] = False
        else:
            found[name] = True if good.all() else None
    part = _part_of_range(
        evidence, goal, list(margins.values())[: len(goal.objectives)]
    )
    found[FAILURE_RATE] = fails_no_more(
        state, candidate, baseline, part, error, of_each
    )
    # Look for a drift last, since this takes longest and matters only if something is
    # certain.
    is_certain = any(each is not None for each in found.values())
    return unknown if is_certain and has_drifted(state) else found


def _with_failures(
    state: State, evidence: Evidence, candidate: int, baseline: int
) -> tuple[Evidence, Evidence]:
    """The evidence with assumed scores for the failed evaluations, in their turns.

    First with the worst scores for the candidate and the best for the baseline, then
    the other way round.
    """
    problem, history, failed = state.problem, state.history, state.missing.pulls
    if not len(failed) or not len(history):
        return evidence, evidence
    rows = np.arange(len(failed))
    if problem.population is not None and problem.repeats == 1:
        # If a failed cell was evaluated again, its score counts. If a cell failed
        # twice, one failure counts.
        is_scored = set(
            zip(history.arms().tolist(), history.examples().tolist(), strict=True)
        )
        failed_cells = zip(
            failed.arms().tolist(), failed.examples().tolist(), strict=True
        )
        row_of = {cell: row for row, cell in enumerate(failed_cells)}
        rows = np.array(
            [row for cell, row in row_of.items() if cell not in is_scored],
            dtype=np.int64,
        )
    without_scores = np.full((len(rows), len(problem.goal.columns)), np.nan)
    everything = History.from_columns(
        np.concatenate((history.trials(), failed.trials()[rows])),
        np.concatenate((history.arms(), failed.arms()[rows])),
        np.concatenate((history.examples(), failed.examples()[rows])),
        np.concatenate((history.scores(), without_scores)),
    )
    filled = Evidence.of(
        problem, everything, Failures(), first_out(state), evidence.columns
    )
    seen = problem.goal.values(history.scores(), problem.goal.offsets).T
    ends = [
        limits or (x.min(), x.max())
        for limits, x in zip(evidence.columns, seen, strict=True)
    ]
    worst, best = np.array(ends, dtype=np.float64).T
    return (
        _with_values(filled, {candidate: worst, baseline: best}),
        _with_values(filled, {candidate: best, baseline: worst}),
    )


def _with_values(evidence: Evidence, of_failed: Mapping[int, Vector]) -> Evidence:
    """The evidence with values (q,) in place of the NaN values of some arms, `of_failed` by arm."""
    values = evidence._values.copy()
    for arm, instead in of_failed.items():
        own = values[evidence._starts[arm] : evidence._starts[arm + 1]]
        own[:] = np.where(np.isnan(own), instead, own)
    return replace(evidence, _values=values)


def _part_of_range(
    evidence: Evidence, goal: Goal, margins: list[float | None]
) -> float:
    """The margin as a part of the objective's range, the smallest for several objectives. 0 if a range is unknown."""
    parts = [1.0]
    for margin, limits in zip(
        margins, evidence.columns[: len(goal.objectives)], strict=True
    ):
        if limits is None or limits[1] <= limits[0]:
            parts.append(0.0)
        else:
            parts.append((margin or 0.0) / (limits[1] - limits[0]))
    return min(parts)


UNSEEN_FAILURES = 0.05
"""The allowed difference of failure rates while a candidate has failed no more often than the baseline.

Without it, a margin of 0 would require all examples, even for two prompts that never fail. A judgement.
"""


def fails_no_more(
    state: State,
    candidate: int,
    baseline: int,
    margin: float,
    error: float,
    error_of_no: float,
) -> bool | None:
    """True if a candidate certainly fails no more often than a baseline, False if certainly more often, else None.

    "More often" means that the share of examples with a failure is larger by more than
    `margin`, a share from 0 to 1. While the candidate has not failed on more of the
    common examples, `UNSEEN_FAILURES` is allowed if it is larger.

    A True is a claim about the given examples, by the first evaluation of each, and is
    ever wrong with probability `error`. A False is a claim about future evaluations,
    since a single failure may be an accident even if every example was seen. It is ever
    wrong with probability `error_of_no`.
    """
    (places, failed), (places_before, failed_before) = (
        _first_failed(state, arm) for arm in (candidate, baseline)
    )
    _, rows, rows_before = np.intersect1d(
        places, places_before, assume_unique=True, return_indices=True
    )
    more = failed[rows] - failed_before[rows_before]
    if not len(more):
        return None
    if Betting(-1.0, 1.0).refutes(more, margin, error_of_no):
        return False
    allowed = margin if more.sum() > 0 else max(margin, UNSEEN_FAILURES)
    return True if _at_most(more, allowed, state.problem.population, error) else None


def _first_failed(state: State, arm: int) -> tuple[Indices, Vector]:
    """The places of the examples that an arm has seen, ascending, and 1 if its first evaluation failed, else 0.

    Without examples, the places count the evaluations. Places from the first evaluation
    in progress on are ignored.
    """
    problem, history, failures, reach = (
        state.problem,
        state.history,
        state.failures.pulls,
        first_out(state),
    )
    # Scores without a trial were observed elsewhere, or repeat an evaluation.
    scored = (history.arms() == arm) & (history.trials() >= 0)
    own = failures.arms() == arm
    trials = np.concatenate((failures.trials()[own], history.trials()[scored]))
    examples = np.concatenate((failures.examples()[own], history.examples()[scored]))
    # Failures come first, since failures that count as scores have the same trials
    # among the scores.
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


def _at_most(
    more: Vector, allowed: float, population: int | None, error: float
) -> bool:
    """True if the mean of (n,) differences from -1 to 1 over the given examples is certainly at most `allowed`."""
    if len(more) == population:
        return bool(more.mean() <= allowed + _ROUNDING)
    return bool(Betting(-1.0, 1.0, population).refutes(-more, -allowed, error))


BETTER, WORSE, EQUAL, UNDECIDED = "better", "worse", "equal", "undecided"


@dataclass(frozen=True)
class Difference:
    """The lead of prompt a over prompt b in one metric, in units of the metric.

    - `estimate`: a minus b, according to the same model as all other estimates. None if
      unknown.
    - `low`, `high`: bounds of the difference that hold at every look. None if there are
      too few pairs for a bound.
    - `p_better`: the probability that a is better in the direction of the metric,
      according to the same model.
    - `pairs`: the number of first examples in the shared order that both prompts have
      completed. The bounds rest on these examples.
    - `verdict`: "equal" if the interval is within the tolerance. Otherwise "better" or
      "worse" if zero is outside the interval, else "undecided".
    - `guaranteed`: True if the interval holds for any distribution of scores. This
      requires a known range, no failures, no drift and no doubtful remark, or
      noise-free scores on all given examples.
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
    """Compare two prompts in one metric, from their (n,) scores on the same examples.

    The order of the examples must not depend on any score. If several intervals are
    read together, divide the error among them.

    Args:
        scores_a: scores of prompt a, in units of the metric.
        scores_b: scores of prompt b on the same examples.
        estimate: the difference a minus b according to the model. None: the mean of the
            differences.
        p_better: the probability that a is better according to the model.
        population: the number of examples, each evaluated once. None: independent draws
            of new inputs.
        limits: the lowest and the highest possible score. None if unknown.
        confidence: the probability that the interval contains the difference at every
            look.
        tolerance: the largest difference that counts as equal.
        minimize: True if less is better.
        rounds: how often all examples may be evaluated, if scores are noisy. The scores
            are then listed round by round, and the mean over the examples is never
            known exactly. None: scores are not noisy.
        guaranteed: False if something else prevents a guarantee.

    If all examples were evaluated without noise, the exact difference replaces the
    estimate and the interval.
    """
    a, b = (
        np.asarray(scores_a, dtype=np.float64),
        np.asarray(scores_b, dtype=np.float64),
    )
    scores = np.concatenate([a, b])
    n, largest = len(a), float(np.abs(scores).max(initial=0.0))
    is_exact = n > 0 and n == population and rounds is None
    guaranteed = guaranteed and (is_exact or limits is not None)
    mean = _mean_difference(a, b, largest)
    if estimate is None:
        estimate = mean
    if limits is None and n and np.isin(scores, (0.0, 1.0)).all():
        limits = (0.0, 1.0)
    if n == 0 and limits is None:
        return Difference(estimate, None, None, p_better, 0, UNDECIDED, False)
    if is_exact and mean is not None:
        low = high = estimate = mean
        p_better = 0.5 if mean == 0.0 else float((mean > 0) != minimize)
    else:
        low, high = _interval(
            decimal(a - b, largest), scores, population, limits, confidence, rounds
        )
    verdict = _verdict(low, high, tolerance, minimize)
    pairs = min(n, population) if rounds is not None and population else n
    return Difference(
        estimate,
        *_shown(low, high, scores, limits),
        p_better,
        pairs,
        verdict,
        guaranteed,
    )


def _mean_difference(a: Vector, b: Vector, largest: float) -> float | None:
    """The mean of a - b, None without scores. A mean within rounding errors of 0 is 0. `largest`: absolute score."""
    if not len(a):
        return None
    mean = math.fsum((a - b).tolist()) / len(a)
    return 0.0 if abs(mean) <= _ROUNDING * largest else mean


def _interval(
    differences: Vector,
    scores: Vector,
    population: int | None,
    limits: Limits,
    confidence: float,
    rounds: int | None,
) -> tuple[float, float]:
    """Bounds of the mean of (n,) differences of `scores` over the population. Infinite if nothing bounds the mean."""
    if limits is not None:
        width = limits[1] - limits[0]
        low, high = bounded(-width, width, population, rounds).interval(
            differences, 1 - confidence
        )
    else:
        scale = np.ptp(scores) if mostly_equal(differences) else 0.0
        draws = Asymptotic(None if rounds is not None else population)
        low, high = draws.interval(differences, 1 - confidence, scale)
    return float(low), float(high)


def _shown(
    low: float, high: float, scores: Vector, limits: Limits
) -> tuple[float | None, float | None]:
    """The bounds as far as they are informative, else None."""
    if limits is None and high - low > 2 * np.ptp(scores):
        # With few scores, an asymptotic interval is wider than any difference of two
        # recorded scores.
        return None, None
    return low if math.isfinite(low) else None, high if math.isfinite(high) else None


def _verdict(low: float, high: float, tolerance: float, minimize: bool) -> str:
    """The verdict about the interval from `low` to `high`, see `Difference`."""
    if -tolerance <= low and high <= tolerance:
        return EQUAL
    if low > 0 or high < 0:
        return BETTER if (low > 0) != minimize else WORSE
    return UNDECIDED
