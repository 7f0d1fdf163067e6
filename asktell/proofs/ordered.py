"""Scores in the shared order of the examples, which no score has influenced.

Confidence sequences need observations in a random order. `auto` also evaluates examples
where they are more informative, and slow evaluations may have unusual scores. So bounds
use a part of the scores only:

- The examples have one seeded random order, the same for all arms. Of each arm, the
  first examples count, up to the first one without a score or a failure.
- A place is a position in this order. With noisy scores of given examples, all examples
  are evaluated again in further rounds, and places are counted on from round to round.
- For new inputs, an example gives one observation: the mean of its first r evaluations
  (`asktell.proofs.claims` has the proof). There is one set of rows for each r.
- Without examples, each evaluation draws its own input, so its place is its number among
  the evaluations of its arm.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.cells import Cells, nth_asks
from asktell.numerics.shapes import Bool, Float, Int
from asktell.problem.problem import Problem
from asktell.record import Added, Failures, History, Pull, State


class Rows(NamedTuple):
    """Values of every arm, sorted by arm and place. Larger is better.

    - `starts`: the first row of each arm, and the number of rows.
    - `places`: the place of each row, ascending within an arm.
    - `values`: the goal's values of each row.
    """

    starts: Int[Ints, " arms+1"]
    places: Int[Ints, " rows"]
    values: Float[Floats, "rows columns"]

    @classmethod
    def of(
        cls,
        arms: Int[Ints, " rows"],
        places: Int[Ints, " rows"],
        values: Float[Floats, "rows columns"],
        n_arms: int,
    ) -> "Rows":
        """Rows that are sorted by arm and place already."""
        return cls(np.searchsorted(arms, np.arange(n_arms + 1)), places, values)

    @property
    def counts(self) -> Int[Ints, " arms"]:
        """The number of rows of each arm."""
        return np.diff(self.starts)

    def part(self, arm: int) -> slice:
        """The slice of the rows of an arm."""
        return slice(int(self.starts[arm]), int(self.starts[arm + 1]))

    def n_rows(self, arm: int) -> int:
        """The number of rows of an arm."""
        return int(self.starts[arm + 1] - self.starts[arm])

    def pair(self, a: int, b: int) -> tuple[Int[Ints, " common"], Int[Ints, " common"]]:
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

    def means(self) -> Float[Floats, "arms columns"]:
        """The means of the values of each arm, NaN for an arm without rows."""
        counts = self.counts
        arms = np.repeat(np.arange(len(counts)), counts)
        totals = np.stack(
            [np.bincount(arms, x, minlength=len(counts)) for x in self.values.T], axis=1
        )
        averages = totals / np.maximum(counts, 1)[:, None]
        return np.where(counts[:, None] > 0, averages, np.nan)


@final
@dataclass(frozen=True, eq=False)
class OrderedScores:
    """The values of every arm on the first examples of the shared order. Larger is better.

    - `problem`: the problem.
    - `rounds`: the rows of the first evaluation of each example, then of the mean of
      its first two evaluations, and so on. There is one item unless inputs are new.
    - `known`: how many of the first examples of each arm have a score or a failure.
    - `means`: the means of the values, from as many evaluations per example as all
      examples of the arm have had. NaN without scores.
    - `failures`: evaluations and failures, if the goal bounds the failure rate.
    """

    problem: Problem
    rounds: tuple[Rows, ...]
    known: Int[Ints, " arms"]
    means: Float[Floats, "arms columns"]
    failures: "FailureSlacks | None" = None

    @classmethod
    def of(
        cls,
        problem: Problem,
        history: History,
        missing: Failures,
        reach: int | None,
        out: Sequence[Pull] | None = None,
    ) -> "OrderedScores":
        """The recorded scores that count.

        Args:
            problem: the problem.
            history: the recorded scores.
            missing: the failed evaluations, if failures count as missing scores.
            reach: the first place in the order of all evaluations that is in progress.
                Without such an order, the first trial in progress. None: no evaluation
                is in progress.
            out: the evaluations in progress. With them, the scores of each arm count up
                to the first example that the arm has not completed. For new inputs they
                always do.
        """
        values = problem.goal.values(history.scores(), problem.goal.offsets)
        ends_at_a_gap = False
        if problem.examples.population is None:
            rows = _own_draws(problem, history, values, reach)
            rounds, n_known = [rows], rows.counts
        else:
            by_round = _rounds_of(problem, history, missing, values, reach, out or ())
            n_known = completed(problem, history, missing, by_round[0][:2], reach)
            # No score decided which cells of a finished table are missing.
            ends_at_a_gap = not problem.looks_once and (
                problem.examples.target is None or out is not None
            )
            if ends_at_a_gap:
                by_round = [
                    _before(n_known, *rows_of_round) for rows_of_round in by_round
                ]
            rounds = [
                Rows.of(*rows_of_round, problem.n_arms) for rows_of_round in by_round
            ]
        means = rounds[0].means()
        for rows in rounds[1:]:
            is_whole = rows.counts == rounds[0].counts
            means[is_whole] = rows.means()[is_whole]
        failures = None
        if problem.goal.counts_failures and missing:
            failures = FailureSlacks.of(
                problem, history, missing, reach, n_known if ends_at_a_gap else None
            )
        return cls(problem, tuple(rounds), n_known, means, failures)

    @property
    def first(self) -> Rows:
        """The rows of the first evaluation of each example."""
        return self.rounds[0]

    @property
    def counts(self) -> Int[Ints, " arms"]:
        """The number of values of each arm."""
        return self.first.counts

    def own(self, arm: int, column: int) -> Float[Floats, " n"]:
        """The values of an arm, in order, from as many evaluations per example as all of them have had."""
        if self.failures is not None and column in self.failures.slacks:
            return self.failures.of_arm(arm, column)
        n = self.first.n_rows(arm)
        whole = next(rows for rows in self.rounds[::-1] if rows.n_rows(arm) == n)
        return whole.values[whole.part(arm), column]

    def leads(self, a: int, b: int, column: int) -> Float[Floats, " n"]:
        """The values of arm a less those of arm b on their common examples, in order."""
        of_a, of_b = longest(self.rounds, a, b)[1:]
        return of_a[:, column] - of_b[:, column]

    def is_exhausted(self, arms: Int[Ints, " some"]) -> bool:
        """True if the means are known exactly: each arm has seen every example, and scores are not noisy."""
        exhausted_at = self.problem.examples.exhausted_at
        return exhausted_at is not None and bool(
            (self.counts[arms] == exhausted_at).all()
        )


class FailureSlacks(NamedTuple):
    """The evaluations and failures of each arm, as slacks of the bounds on the failure rate.

    - `arms`: the arm of each evaluation, sorted by arm and turn.
    - `failed`: whether it failed.
    - `slacks`: by column of the goal's values, the slack of an evaluation without and
      with a failure.
    """

    arms: Int[Ints, " rows"]
    failed: Bool[Bools, " rows"]
    slacks: dict[int, tuple[float, float]]

    @classmethod
    def of(
        cls,
        problem: Problem,
        history: History,
        missing: Failures,
        reach: int | None,
        known: Int[Ints, " arms"] | None,
    ) -> "FailureSlacks":
        """The evaluations before the turn `reach`, and before the first place that an arm has not completed.

        The latter only if `known` is given. If a place was evaluated several times, the
        first evaluation counts.
        """
        trials, arms, examples, failed = _scored_and_failed(history, missing)
        if problem.examples.population is None:
            at, place = trials, np.arange(len(trials))
            order = np.lexsort((at, arms))
        else:
            real = examples >= 0
            trials, arms, examples = trials[real], arms[real], examples[real]
            failed = failed[real]
            at = place = turns(problem, Failures(), trials, arms, examples)
            if problem.examples.rounds is None:
                place = place % len(problem.examples.order)
            order = np.lexsort((trials, at, place, arms))
        counts = np.ones(len(at), dtype=bool) if reach is None else at < reach
        if known is not None:
            counts &= place < known[arms]
        order = order[counts[order]]
        # The first evaluation of each place.
        is_other_arm = np.diff(arms[order], prepend=-1) != 0
        is_other_place = np.diff(place[order], prepend=-1) != 0
        order = order[is_other_arm | is_other_place]
        # The failure rate is the last column of the goal. Its slacks are linear in the
        # rate, so those of the rates 0 and 1 are the slacks of a success and a failure.
        goal = problem.goal
        column = len(goal.columns) - 1
        ends = goal.values(np.eye(2, column + 1, column - 1), goal.offsets)
        slacks = {
            k: (float(ends[0, k]), float(ends[1, k]))
            for k, bound in enumerate(goal.bounds, len(goal.objectives))
            if bound.column == column
        }
        return cls(arms[order], failed[order], slacks)

    def of_arm(self, arm: int, column: int) -> Float[Floats, " n"]:
        """The slacks of an arm, in the order of its turns."""
        good, bad = self.slacks[column]
        return np.where(self.failed[self.arms == arm], bad, good)


_Round = tuple[Ints, Ints, Floats]
"""Arms, places and values of rows that are sorted by arm and place."""


def _own_draws(
    problem: Problem,
    history: History,
    values: Float[Floats, "rows columns"],
    reach: int | None,
) -> Rows:
    """The rows of arms that draw their own examples, in the order of their trials before `reach`."""
    trials, arms = history.trials(), history.arms()
    order = np.lexsort((trials, arms))
    if reach is not None:
        order = order[trials[order] < reach]
    starts = np.searchsorted(arms[order], np.arange(problem.n_arms + 1))
    places = np.arange(len(order)) - starts[arms[order]]
    return Rows(starts, places, values[order])


def _rounds_of(
    problem: Problem,
    history: History,
    missing: Failures,
    values: Float[Floats, "rows columns"],
    reach: int | None,
    out: Sequence[Pull],
) -> list[_Round]:
    """Arms, places and values: of given examples in one item, of new inputs in one item for each r."""
    trials, arms, examples = history.trials(), history.arms(), history.examples()
    if problem.looks_once:
        return [_means_of_cells(problem, arms, examples, values)]
    if problem.examples.target is not None:
        return [in_turns(problem, missing, trials, arms, examples, values, reach)]
    observations = _observations(problem, history, missing, values, reach, out)
    return observations or [(np.arange(0), np.arange(0), values[:0])]


def _means_of_cells(
    problem: Problem, arms: Ints, examples: Ints, values: Floats
) -> _Round:
    """Arms, places and the mean of all evaluations of each cell. NaN if one of them is."""
    n = len(problem.examples.order)
    # Sorted by value as well, so that a mean does not depend on the order of the rows
    cells = arms * n + problem.examples.place[examples]
    order = np.lexsort((*values.T[::-1], cells))
    cells, first, times = np.unique(cells[order], return_index=True, return_counts=True)
    if not len(cells):
        return cells, cells, values[:0]
    sums = np.add.reduceat(values[order], first, axis=0)
    return cells // n, cells % n, sums / times[:, None]


def _observations(
    problem: Problem,
    history: History,
    missing: Failures,
    values: Float[Floats, "rows columns"],
    reach: int | None,
    out: Sequence[Pull],
) -> list[_Round]:
    """Arms, places and mean values of the first evaluation of each cell, of the first two, and so on (`in_rounds`).

    Only rows before the turn `reach` count. Of each cell, no row counts after a pull
    that is `out`, that is, in progress.
    """
    trials, arms, examples = history.trials(), history.arms(), history.examples()
    if reach is not None:
        real = np.flatnonzero(examples >= 0)
        at = turns(problem, missing, trials[real], arms[real], examples[real])
        real = real[at < reach]
        trials, arms, examples = trials[real], arms[real], examples[real]
        values = values[real]
    asked = [
        (p.trial, p.arm, p.example)
        for p in out
        if p.trial is not None and p.example is not None
    ]
    in_progress = np.array(asked, dtype=np.int64).reshape(-1, 3)
    unknown = np.full((len(asked), values.shape[1]), np.nan)
    return in_rounds(
        problem,
        np.concatenate((trials, in_progress[:, 0])),
        np.concatenate((arms, in_progress[:, 1])),
        np.concatenate((examples, in_progress[:, 2])),
        np.concatenate((values, unknown)),
    )


def completed(
    problem: Problem,
    history: History,
    missing: Failures,
    scored: Sequence[Ints],
    reach: int | None = None,
) -> Int[Ints, " arms"]:
    """The number of first examples of the shared order that each arm has completed, with a score or a failure.

    For given examples with noisy scores, places are counted in the order of all
    evaluations, round after round. `scored` holds the arms and the places of the scores
    that count.
    """
    has_rounds = problem.examples.rounds is not None
    width = (
        (problem.examples.most_pulls or 0)
        if has_rounds
        else len(problem.examples.order)
    )
    # The last column collects all places from `width` on, and stays False, so that
    # `argmin` finds the first place that is not complete.
    is_complete = np.zeros((problem.n_arms, width + 1), dtype=bool)
    arms, places = scored
    is_complete[arms, np.minimum(places, width)] = True
    if missing:
        trials, arms, examples, failed = _scored_and_failed(history, missing)
        real = examples >= 0
        at = turns(problem, Failures(), trials[real], arms[real], examples[real])
        at = at if has_rounds else at % max(1, width)
        is_complete[arms[real & failed], np.minimum(at[failed[real]], width)] = True
    is_complete[:, width] = False
    first_gap = is_complete.argmin(axis=1)
    return np.asarray(np.minimum(first_gap, width if reach is None else reach))


def _scored_and_failed(
    history: History, missing: Failures
) -> tuple[Ints, Ints, Ints, Bools]:
    """Trials, arms and examples of all scores, then of all failures, and whether each is a failure."""
    pulls = missing.pulls
    trials = np.concatenate((history.trials(), pulls.trials()))
    arms = np.concatenate((history.arms(), pulls.arms()))
    examples = np.concatenate((history.examples(), pulls.examples()))
    return trials, arms, examples, np.arange(len(trials)) >= len(history)


def longest(rounds: Sequence[Rows], a: int, b: int) -> tuple[Ints, Floats, Floats]:
    """The common places of two arms, and the values of both from as many evaluations as all these examples have had.

    `rounds` are ordered as in `OrderedScores`.
    """
    first, *more = rounds
    of, (in_a, in_b) = first, first.pair(a, b)
    for rows in more[::-1]:
        pair = rows.pair(a, b)
        if len(pair[0]) == len(in_a):
            of, (in_a, in_b) = rows, pair
            break
    return of.places[in_a], of.values[in_a], of.values[in_b]


def _before(
    known: Int[Ints, " arms"], arms: Ints, places: Ints, values: Floats
) -> _Round:
    """The rows of each arm before its first place that is not completed."""
    is_before = places < known[arms]
    return arms[is_before], places[is_before], values[is_before]


def common_scores(
    problem: Problem,
    history: History,
    missing: Failures,
    out: Sequence[Pull],
    a: int,
    b: int,
) -> tuple[Float[Floats, "n metrics"], Float[Floats, "n metrics"], bool]:
    """The scores of two arms on the first examples that both have completed, and whether no score is missing."""
    by_round = _rounds_of(problem, history, missing, history.scores(), None, out)
    n_completed = completed(problem, history, missing, by_round[0][:2])
    if problem.looks_once:
        rows = Rows.of(*by_round[0], problem.n_arms)
        places, of_a, of_b = longest([rows], a, b)
        return of_a, of_b, len(places) == len(problem.examples.order)
    n_both = int(n_completed[[a, b]].min())
    both = np.full(problem.n_arms, n_both)
    rounds = [
        Rows.of(*_before(both, *rows_of_round), problem.n_arms)
        for rows_of_round in by_round
    ]
    places, of_a, of_b = longest(rounds, a, b)
    return of_a, of_b, len(places) == n_both


def first_out(state: State, but: Container[int] = ()) -> int | None:
    """The first place in the order of all evaluations that is in progress, ignoring the arms in `but`.

    Without such an order, the first trial in progress. None: nothing is in progress.
    """
    pulls = state.plan.in_progress
    out = [pull for pull in pulls if pull.arm not in but]
    if state.problem.examples.population is None:
        return min((pull.trial for pull in out if pull.trial is not None), default=None)
    places = turns_out(state.problem, state.history, state.missing, out)
    return min(places, default=None)


def joined_at(state: State) -> Int[Ints, " arms"]:
    """How many of the first examples other arms had seen when an arm was added. 0 for the arms of the start."""
    joined = np.zeros(state.problem.n_arms, dtype=np.int64)
    first = state.growth.origin.n_arms
    for _, n_rows, _, event in state.growth.events:
        if not isinstance(event, Added):
            continue
        examples = state.history.examples()[:n_rows]
        if state.problem.examples.population is not None:
            seen = 1 + state.problem.examples.place[examples[examples >= 0]]
        else:
            seen = np.bincount(state.history.arms()[:n_rows])
        joined[first : first + len(event.texts)] = seen.max(initial=0)
        first += len(event.texts)
    return joined


# A trial id after all others, for evaluations without an id.
_LATEST = 2**62


def turns(
    problem: Problem,
    missing: Failures,
    trials: Int[Ints, " rows"],
    arms: Int[Ints, " rows"],
    examples: Int[Ints, " rows"],
) -> Int[Ints, " rows"]:
    """The turn of each row of scores in the order of all evaluations of its arm. Each row must have an example.

    If a cell was asked for several times, its first score or failure counts in the
    first round, its second in the second round, and so on. Without rounds, all have the
    place of the example.
    """
    place = problem.examples.place[examples]
    if problem.examples.repeats == 1:
        return place
    n_examples = len(problem.examples.order)
    real = missing.pulls.examples() >= 0
    failed = missing.pulls.arms()[real] * n_examples + missing.pulls.examples()[real]
    cells = np.concatenate((arms * n_examples + examples, failed))
    nth = nth_asks(np.concatenate((trials, missing.pulls.trials()[real])), cells)[
        : len(place)
    ]
    return np.asarray(nth * n_examples + place)


def in_turns(
    problem: Problem,
    missing: Failures,
    trials: Int[Ints, " rows"],
    arms: Int[Ints, " rows"],
    examples: Int[Ints, " rows"],
    scores: Float[Floats, "rows columns"],
    before: int | None = None,
) -> tuple[Int[Ints, " chosen"], Int[Ints, " chosen"], Float[Floats, "chosen columns"]]:
    """Arms, turns and scores, sorted by arm and turn, of the rows with an example and a turn before `before`.

    Several scores of a cell count once, with their mean, unless there are rounds.
    """
    named = np.flatnonzero(examples >= 0)
    at = turns(problem, missing, trials[named], arms[named], examples[named])
    if before is not None:
        named, at = named[at < before], at[at < before]
    arms, scores = arms[named], scores[named]
    if problem.examples.repeats == 1:
        cells = Cells.of(arms, at, scores, len(problem.examples.order))
        return cells.arms, cells.examples, cells.scores
    order = np.lexsort((at, arms))
    return arms[order], at[order], scores[order]


def in_rounds(
    problem: Problem,
    trials: Int[Ints, " rows"],
    arms: Int[Ints, " rows"],
    examples: Int[Ints, " rows"],
    scores: Float[Floats, "rows columns"],
) -> list[
    tuple[Int[Ints, " cells"], Int[Ints, " cells"], Float[Floats, "cells columns"]]
]:
    """Arms, places and mean scores of the first evaluation of every cell, of the first two, and so on.

    Sorted by arm and place. The list has at most `repeats` items, since further repeats
    serve another purpose. The rows must be in the order of recording. A row of NaN is
    an evaluation in progress. Later evaluations of its cell do not count until its
    score is recorded, because a score may be late because of its value.
    """
    named = np.flatnonzero(examples >= 0)
    trials, arms, scores = trials[named], arms[named], scores[named]
    places = problem.examples.place[examples[named]]
    # An evaluation from elsewhere has no trial. It follows all trials that were
    # assigned before it.
    when = np.where(trials >= 0, 2 * trials, 2 * np.maximum.accumulate(trials) + 1)
    cells = arms * len(problem.examples.order) + places
    order = np.lexsort((when, cells))
    cells, scores = cells[order], scores[order]
    starts = np.flatnonzero(np.diff(cells, prepend=-1))
    n_scores, sums, rounds = (
        np.diff(starts, append=len(cells)),
        np.zeros((len(starts), scores.shape[1])),
        [],
    )
    for number in range(min(problem.examples.repeats, int(n_scores.max(initial=0)))):
        long_enough = n_scores > number
        starts, n_scores, sums = (
            starts[long_enough],
            n_scores[long_enough],
            sums[long_enough],
        )
        sums = sums + scores[starts + number]
        whole = ~np.isnan(sums).any(axis=1)
        own_arms, own_places = np.divmod(
            cells[starts[whole]], len(problem.examples.order)
        )
        rounds.append((own_arms, own_places, sums[whole] / (number + 1)))
    return rounds


def turns_out(
    problem: Problem, history: History, missing: Failures, out: Iterable[Pull]
) -> list[int]:
    """The turns of the evaluations in progress (`out`) that have an example, in the order of all evaluations."""
    numbers = [
        [_LATEST if p.trial is None else p.trial, p.arm, p.example]
        for p in out
        if p.example is not None
    ]
    rows = np.array(numbers, dtype=np.int64).reshape(-1, 3)
    if problem.examples.repeats > 1:
        recorded = np.column_stack(
            (history.trials(), history.arms(), history.examples())
        )
        rows = np.concatenate((recorded[recorded[:, 2] >= 0], rows))
    trials, arms, examples = rows.T
    return [
        int(turn)
        for turn in turns(problem, missing, trials, arms, examples)[
            len(rows) - len(numbers) :
        ]
    ]
