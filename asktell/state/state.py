"""The state of a selection: an immutable value, everything that follows from the events so far."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Counts, Indices, Mask, Vector, counted
from asktell.numerics.cells import Scored
from asktell.numerics.intmap import IntMap
from asktell.numerics.tally import Tally
from asktell.problem.budget import Costs
from asktell.state.events import ACCEPTED, FAILED, RETIRED, Added, Decided, Departure, Growth, Pull, Remarked
from asktell.state.history import Failures, History, repeated
from asktell.state.problem import Problem
from asktell.state.queue import Queue

_FAILURES_PER_SCORE = 100  # a judgement: a prompt that fails more often is not worth its price
_NONE = Failures()

SURE = 0.99
"""Posterior probability from which a failure rate is above the allowed one.

With a uniform prior and half of the evaluations allowed to fail that takes six failures out of the first six (the
probability is 1 - 2^-7; of five it is 1 - 2^-6): few enough for a prompt that always fails to cost little, many enough
for a prompt that fails once in ten not to leave (six failures in a row are then one case in a million).
"""

_CLOSE = 2.0  # standard deviations; .99 takes more than 2.3 of them
_ENOUGH_AGREE = 20  # repeats that agree: fewer than 14% of all would then differ, with 95% confidence
_MANY = 100  # evaluations, of which the normal distribution tells that much
_NOTHING = 1e-20  # of the largest term


class Grown(NamedTuple):
    """An event by which the selection grew, or shrank, and where that was."""

    decisions: int  # made before
    spent: int
    cost: float
    event: Growth


class State(NamedTuple):
    """Everything that follows from the events so far."""

    origin: Problem  # as known before the first pull
    problem: Problem  # as it has grown since
    history: History
    failures: Failures
    draws: Counts  # (K,) examples drawn by the end of the plan
    tally: Tally  # of the rows up to the last decision
    tallied: int = 0  # how many rows that is
    decisions: tuple[tuple[int, Decided], ...] = ()  # with the number of rows each was based on
    growth: tuple[Grown, ...] = ()  # between the origin and the problem
    reopened: bool = False  # by what came after the last decision, which was the last for that time
    pending: IntMap[Pull] = IntMap()  # by trial
    returned: Queue = Queue()  # to be handed out before the rest of the plan
    plan_arms: tuple[int, ...] = ()
    plan_examples: tuple[int, ...] = ()  # -1: none
    position: int = 0  # in the plan
    asked: int = 0  # the next trial's id
    spent: int = 0
    cost: float = 0.0
    costs: Costs = Costs()
    reserve: float | None = None  # of the pending trials, under a budget of cost; None: to be added up
    left: IntMap[tuple[int, Departure]] = IntMap()  # by arm: the round in which it left, and how
    redraws: Mapping[int, int] = {}  # arm to draws beyond the plan, that replace failed ones
    remarks: Mapping[str, Remarked] = {}  # by topic

    @property
    def active(self) -> Indices:
        """(A,) arms still in the race, ascending."""
        mask = np.ones(self.problem.n_arms, dtype=bool)
        mask[list(self.left)] = False
        return np.flatnonzero(mask)

    @property
    def finished(self) -> bool:
        """True if the last decision has been made, unless prompts, budget or examples are added."""
        return bool(self.decisions) and self.decisions[-1][1].finished and not self.reopened

    @property
    def doubts(self) -> list[str]:
        """The remarks after which nothing is certain."""
        return [remark.text for remark in self.remarks.values() if remark.doubtful]

    @property
    def was_widened(self) -> bool:
        """True if prompts or examples joined, which may have been chosen because of earlier scores."""
        now, then = self.problem, self.origin
        return (now.n_arms, now.n_examples) != (then.n_arms, then.n_examples)

    @property
    def seen(self) -> Problem:
        """The problem by what repeated evaluations have shown: scores of a cell differ, or they agree."""
        problem = self.problem
        if problem.repeats > 1 or problem.differs or len(self.history) == self.spent:  # no cell was scored twice
            return problem
        again = repeated(problem, self.history)
        if again.changed:
            return problem.with_noise
        return problem.without_noise if again.times >= _ENOUGH_AGREE else problem

    @property
    def is_explicit(self) -> bool:
        """True if the last decision planned its pulls one by one, so that nothing else takes their place."""
        return self.reopened or (bool(self.decisions) and self.decisions[-1][1].plan is not None)

    @property
    def plan_is_empty(self) -> bool:
        """True if nothing is left to hand out before the next decision."""
        return self.position == len(self.plan_arms) and self.returned.is_empty

    @property
    def may_decide(self) -> bool:
        """True if a decision can come next: nothing is left to hand out, or what is left may cost too much by now."""
        has_limit = self.problem.allowance.cost is not None
        return (self.plan_is_empty or (has_limit and not self.pending)) and not self.finished

    def is_eliminated(self, arm: int) -> bool:
        """True if an arm has left as no part of the answer: rejected, failed or retired."""
        return arm in self.left and self.left[arm][1].status != ACCEPTED

    def fits(self, arm: int) -> bool:
        """True if the cost budget allows one more pull of an arm besides all pending ones; see `asktell.Budget`."""
        allowance = self.problem.allowance
        return allowance.cost is None or allowance.allows(arm, self.cost, self.costs, self.pending, self.reserve)

    def part_spent(self) -> float:
        """Which part of the budget is spent or out: of the evaluations, or of the cost if that is more."""
        evaluations = (self.spent + len(self.pending)) / self.problem.budget
        return max(min(1.0, evaluations), self.problem.allowance.part(self.cost))

    def ages(self) -> Vector:
        """(K,) which part of the budget that there was when each arm joined is spent or out by now."""
        now, began = self.part_spent(), np.zeros(self.problem.n_arms)
        first = self.origin.n_arms
        for _, spent, cost, event in self.growth:
            if isinstance(event, Added):
                then = max(min(1.0, spent / self.problem.budget), self.problem.allowance.part(cost))
                began[first : first + len(event.texts)] = min(now, then)
                first += len(event.texts)
        return np.asarray((now - began) / np.maximum(1.0 - began, 1e-12))

    @property
    def room(self) -> int:
        """Pulls that the budget still allows."""
        return max(0, self.problem.budget - self.spent - len(self.pending) - len(self.returned))

    @property
    def told(self) -> Counts:
        """(K,) how many scores were told of each arm."""
        return np.bincount(self.history.arms(), minlength=self.problem.n_arms)

    def no_rivals(self) -> list[int]:
        """The arms that have failed or were retired, ascending."""
        return sorted(arm for arm, (_, departure) in self.left.items() if departure.status in (FAILED, RETIRED))

    @property
    def missing(self) -> Failures:
        """The failures that count as no scores: all of them, or none."""
        return self.failures if self.problem.failure_scores is None else _NONE

    def fails_too_often(self, arm: int) -> bool:
        """True if an arm's failure rate is above the one allowed, so that it leaves; the baseline never leaves."""
        if self.problem.failure_scores is not None or arm == self.problem.baseline:
            return False
        n_failed = self.failures.count(arm)
        return is_above(self.problem.max_failure_rate, n_failed, n_failed + self.history.n_asked(arm))

    def is_exhausted(self, arm: int) -> bool:
        """True if an arm has too many failures per score to be asked again.

        That ends a selection in which an arm that never leaves always fails.
        """
        return self.missing.count(arm) >= _FAILURES_PER_SCORE * (1 + self.history.n_asked(arm))

    def exhausted(self) -> Indices:
        """The arms of which that is so, ascending."""
        return np.array([arm for arm in self.missing.arms() if self.is_exhausted(arm)], dtype=np.int64)

    def given_up(self, arm: int) -> Departure:
        """How an arm leaves that fails too often."""
        n_failed = self.failures.count(arm)
        said = f"{n_failed} of {n_failed + self.history.n_asked(arm)} evaluations failed"
        return Departure(arm, FAILED, f"{said}, last: {self.failures.last(arm)}")

    def unscored(self, arm: int) -> Departure:
        """How an arm without any score leaves in the end."""
        reason = (
            f"every evaluation failed, last: {self.failures.last(arm)}" if self.failures.count(arm) else "no scores"
        )
        return Departure(arm, FAILED, reason)

    def open_arms(self) -> Mask:
        """(K,) arms in the race that have a pull left, and that the cost allows if nothing is out."""
        mask = np.zeros(self.problem.n_arms, dtype=bool)
        mask[self.active] = True
        mask &= self.have_pulls()
        if self.problem.allowance.cost is not None and not self.pending:
            mask[mask] = [self.fits(arm) for arm in np.flatnonzero(mask).tolist()]
        return mask

    def have_pulls(self) -> Mask:
        """(K,) arms that have a pull left."""
        most = self.problem.most_pulls
        mask = np.ones(self.problem.n_arms, dtype=bool) if most is None else self.used_pulls() < most
        mask[self.exhausted()] = False
        return mask

    def used_pulls(self) -> Counts:
        """(K,) pulls of each arm that its cells have used, by whatever way."""
        arms, _, asks = self.used_cells()
        pulls = np.bincount(arms, np.minimum(asks, self.problem.repeats), self.problem.n_arms)
        return np.asarray(pulls, dtype=np.int64)

    def used_cells(self, observed: bool = True) -> tuple[Indices, Indices, Counts]:
        """Arms and examples of the cells that were scored, are out or have failed, each once, and how often.

        `observed`: whether what was observed counts.
        """
        rows = slice(None) if observed else self.history.trials() >= 0
        n, missing = self.problem.n_examples or 1, self.missing
        more = [(p.arm, p.example) for p in (*self.pending.values(), *self.returned) if p.example is not None]
        extra = np.array(more, dtype=np.int64).reshape(-1, 2)
        arms = np.concatenate((self.history.arms()[rows], missing.pulls.arms(), extra[:, 0]))
        examples = np.concatenate((self.history.examples()[rows], missing.pulls.examples(), extra[:, 1]))
        real = examples >= 0
        cells, asks = counted(arms[real] * n + examples[real])
        return cells // n, cells % n, asks

    def asked_before(self, trial: int, arm: int, example: int) -> int:
        """How many trials of a cell were asked before this one, failed ones too."""
        others = [p.trial for p in (*self.pending.values(), *self.returned) if (p.arm, p.example) == (arm, example)]
        before = len([other for other in others if other is not None and other < trial])
        for rows in (self.history, self.missing.pulls):
            trials = rows.trials()
            asked = (trials >= 0) & (trials < trial) & (rows.arms() == arm) & (rows.examples() == example)
            before += int(asked.sum())
        return before

    def open(self, trial: int) -> Pull | None:
        """The pull of a trial that was asked and neither told nor failed."""
        return self.pending.get(trial) or self.returned.find(trial)

    def next_pull(self) -> Pull | None:
        """The next pull, or None if a decision or a score must come first."""
        if not self.returned.is_empty:
            return self.returned.front
        if self.position < len(self.plan_arms):
            example = self.plan_examples[self.position]
            return Pull(None, self.plan_arms[self.position], None if example < 0 else example)
        return None

    def current_tally(self) -> Tally:
        """The tally of all rows so far; several scores of the same cell count once, with their mean."""
        return self._with_failures(self.next_tally())

    def next_tally(self) -> Tally:
        """The same, for the tally of the next state to go on from."""
        return self._tally(self.tally, self.tallied, 0)

    def round_tally(self) -> Tally:
        """The tally of the rows since the last decision."""
        empty = Tally.empty(self.problem.n_arms, len(self.problem.goal.columns))
        return self._with_failures(self._tally(empty, self.tallied, self.tallied))

    def _with_failures(self, tally: Tally) -> Tally:
        """With each arm's rate of failures as the mean of the last column, if that is bounded."""
        if not self.problem.goal.counts_failures or not self.missing:
            return tally
        scored, failed = self.told, self.missing.per_arm(self.problem.n_arms)
        return tally.with_rate(failed / np.maximum(scored + failed, 1))

    def _tally(self, before: Tally, n_before: int, start: int) -> Tally:
        """The tally of the rows from `start` on, of which that of the first `n_before` rows is there already."""
        n_arms = self.problem.n_arms
        if (cells := self._cells(start)) is not None:
            tally = Tally.of(cells, n_arms, self.problem.is_noisy)
        else:
            tally = before.plus(*self.history.in_asked_order(n_before))
        if self.problem.population is None or len(self.history) == self.spent:
            return tally
        outside = self.history.arms(start)[self.history.examples(start) < 0]
        return replace(tally, outside=np.bincount(outside, minlength=n_arms))

    def _cells(self, start: int) -> Scored | None:
        """The cells in the rows from `start` on; None if no cell is noisy or was scored twice."""
        problem = self.problem
        if problem.population is None or (not problem.is_noisy and len(self.history) == self.spent):
            return None
        rows = self.history.arms(start), self.history.examples(start), self.history.scores(start)
        cells = Scored.of(*rows, problem.population)
        return cells if problem.is_noisy or len(cells.arms) < len(rows[0]) else None

    def capacity(self) -> Counts:
        """(K,) pulls that each arm has left; practically unlimited unless examples are shared."""
        most = self.problem.most_pulls
        free = np.full(self.problem.n_arms, np.iinfo(np.int32).max, dtype=np.int64)
        if most is not None:
            free = most - self.drawn()
            if observed := list(observed_examples(self)):
                free[observed] = most - self.used_pulls()[observed]
        free[self.exhausted()] = 0
        return np.maximum(free, 0)

    def drawn(self) -> Counts:
        """(K,) pulls that each arm has drawn, by plan or to replace a failed one."""
        drawn = self.draws.copy()
        for arm, extra in self.redraws.items():
            drawn[arm] += extra
        return drawn


def initial(problem: Problem) -> State:
    """The state before anything is asked or told."""
    n_arms, n_metrics = problem.n_arms, len(problem.goal.columns)
    draws = np.zeros(n_arms, dtype=np.int64)
    return State(problem, problem, History(n_metrics), Failures(), draws, Tally.empty(n_arms, n_metrics))


def observed_examples(state: State, only: int | None = None) -> dict[int, Counter[int]]:
    """For arms (or `only` one) with observed examples: how often they have had each. Empty for most studies."""
    if state.problem.population is None or len(state.history) == state.spent:  # nothing but told trials
        return {}
    trials, arms, examples = state.history.trials(), state.history.arms(), state.history.examples()
    seen_elsewhere = (trials < 0) & (examples >= 0) & ((arms == only) | (only is None))
    used_by, used, asks = state.used_cells()
    return {
        arm: Counter(dict(zip(used[used_by == arm].tolist(), asks[used_by == arm].tolist(), strict=True)))
        for arm in np.unique(arms[seen_elsewhere]).tolist()
    }


def examples_left(problem: Problem, had: "Counter[int]") -> Iterator[int]:
    """The examples of an arm's further pulls: those it has not had, in their order, then those it had once, ..."""
    for nth in range(problem.repeats):
        yield from (example for example in problem.order.tolist() if had[example] <= nth)


def is_above(rate: float, failures: int, n: int) -> bool:
    """True if a failure rate is above `rate` with the probability `SURE`, after so many failures out of n.

    With a uniform prior that probability is the one that of n + 1 evaluations, each failing with probability `rate`, at
    most `failures` fail. Its terms are taken from the largest one outwards, by products and quotients only: machines
    agree on every bit, and a log that is read elsewhere gives the same state.
    """
    if rate >= 1.0 or failures <= n * rate:
        return False
    if n > _MANY and failures - n * rate < _CLOSE * math.sqrt(n * rate * (1.0 - rate)):
        return False
    odds, largest = rate / (1.0 - rate), int((n + 2) * rate)
    at_most, more, term = 0.0, 0.0, 1.0
    for k in range(largest, n + 2):
        at_most, more = (at_most + term, more) if k <= failures else (at_most, more + term)
        term *= odds * (n + 1 - k) / (k + 1)
        if term < _NOTHING:
            break
    term = largest / (odds * (n + 2 - largest))
    for k in range(largest - 1, -1, -1):
        at_most += term
        term *= k / (odds * (n + 2 - k))
        if term < _NOTHING:
            break
    return at_most >= SURE * (at_most + more)
