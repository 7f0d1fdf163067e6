"""The state of a selection: an immutable value with everything that follows from the events so far."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Bools, Floats, Ints, counted
from asktell.numerics.cells import Cells
from asktell.numerics.intmap import IntMap
from asktell.numerics.shapes import Bool, Float, Int
from asktell.numerics.tally import Tally
from asktell.problem.budget import Costs
from asktell.record.events import (
    ACCEPTED,
    FAILED,
    RETIRED,
    Added,
    Decided,
    Departure,
    Growth,
    Pull,
    Remarked,
)
from asktell.record.history import Failures, History, repeated
from asktell.record.problem import Problem
from asktell.record.proxies import ProxyScores
from asktell.record.queue import Queue

# Failures per score above which a prompt is no longer worth its price. A judgement.
_FAILURES_PER_SCORE = 100
_NONE = Failures()
_ARM = attrgetter("arm")

SURE = 0.99
"""Posterior probability that a failure rate is above the allowed rate, from which the prompt is eliminated.

With a uniform prior and an allowed rate of one half, this takes six failures out of the first six. The probability is
then 1 - 2^-7, and 1 - 2^-6 after five failures. A prompt that always fails costs little with so few evaluations. A
prompt that fails once in ten is rarely eliminated, since six failures in a row have a probability of one in a million.
"""

# Standard deviations below which a rate cannot be above the allowed rate with a
# probability of 0.99, which takes 2.3.
_CLOSE = 2.0
# Evaluations from which the normal approximation behind `_CLOSE` is good enough.
_MANY = 100
# Repeats that all agree, from which scores count as free of noise. With 95% confidence,
# fewer than 14% would differ.
_ENOUGH_AGREE = 20
# Terms of a sum below this part of its largest term are ignored.
_NOTHING = 1e-20


class Grown(NamedTuple):
    """An event of growth, with the numbers of decisions and evaluations and the cost before it."""

    decisions: int
    spent: int
    cost: float
    event: Growth


class State(NamedTuple):
    """Everything that follows from the events of a selection so far.

    In a state, prompts and examples are numbered from 0:

    - An *arm* is the position of a prompt.
    - A *cell* is a pair of an arm and the position of an example.
    - A *row* is one recorded evaluation, with a score for each metric.
    - A *plan* is the evaluations that the last decision asked for.
    - An arm *draws* an example when an evaluation of the arm on this example becomes
      part of a plan, or replaces a failed evaluation.
    - A *tally* has the number and the sums of the scores of each arm, from which means
      and standard errors are computed.

    A method usually reads the problem, the history and the tallies. The other
    attributes keep track of the plan and the budget.

    Attributes:
        origin: the problem before the first evaluation.
        problem: the problem now, with all prompts, examples and budget that were added.
        history: the rows so far, in the order of recording: trial, arm, example and
            scores. Observed scores have the trial -1.
        failures: the failed evaluations so far, with their reasons.
        proxies: the recorded scores of proxies.
        plan_draws: for each arm the number of examples that it has drawn, including
            the whole plan, but without `redraws`.
        tally: the tally of the rows before the last decision.
        tallied: the number of these rows.
        decisions: the decisions so far, as pairs: the number of rows before the
            decision, and the decision.
        growth: the events that added or retired prompts, or extended budget or
            examples. Each has the numbers of decisions and evaluations and the cost
            before it.
        reopened: True if the selection had ended, an event of `growth` continued it,
            and no decision has followed yet.
        pending: trial -> its evaluation, for each pending trial.
        returned: the evaluations that were released, and those that replace failed
            evaluations. They are assigned before the rest of the plan.
        plan_arms: the arm of each evaluation of the plan.
        plan_examples: the example of each evaluation of the plan. -1 without examples.
        position: the index of the next evaluation in the plan.
        asked: the id of the next new trial.
        spent: the number of recorded evaluations, without observed scores.
        cost: the sum of all recorded costs.
        costs: the recorded costs by arm.
        reserve: the expected cost of the pending trials. None: not computed yet.
        left: arm -> the number of the round in which it was accepted, eliminated or
            retired, and its `Departure`. Active arms are missing.
        redraws: arm -> the number of examples that it drew to replace failed
            evaluations, and that are not in `plan_draws` yet.
        remarks: topic -> the latest remark about the scores.
    """

    origin: Problem
    problem: Problem
    history: History
    failures: Failures
    proxies: ProxyScores
    plan_draws: Int[Ints, " arms"]
    tally: Tally
    tallied: int = 0
    decisions: tuple[tuple[int, Decided], ...] = ()
    growth: tuple[Grown, ...] = ()
    reopened: bool = False
    pending: IntMap[Pull] = IntMap()
    returned: Queue = Queue()
    plan_arms: tuple[int, ...] = ()
    plan_examples: tuple[int, ...] = ()
    position: int = 0
    asked: int = 0
    spent: int = 0
    cost: float = 0.0
    costs: Costs = Costs()
    reserve: float | None = None
    left: IntMap[tuple[int, Departure]] = IntMap()
    redraws: Mapping[int, int] = {}
    remarks: Mapping[str, Remarked] = {}

    def pending_of(self, arm: int) -> Iterator[int]:
        """The ids of an arm's pending trials, oldest first."""
        return self.pending.of_group(arm, _ARM)

    @property
    def active(self) -> Int[Ints, " active"]:
        """The active arms, ascending. They were not accepted, eliminated or retired."""
        mask = np.ones(self.problem.n_arms, dtype=bool)
        mask[list(self.left)] = False
        return np.flatnonzero(mask)

    @property
    def finished(self) -> bool:
        """True if the selection has ended. It continues if prompts, budget or examples are added."""
        return (
            bool(self.decisions)
            and self.decisions[-1][1].finished
            and not self.reopened
        )

    @property
    def doubts(self) -> list[str]:
        """The texts of the remarks that call the scores doubtful.

        If there are any, results have no probabilities, and nothing can be established.
        """
        return [remark.text for remark in self.remarks.values() if remark.doubtful]

    @property
    def was_widened(self) -> bool:
        """True if prompts or examples were added after the start.

        If scores were used to write or choose them, these prompts look better than they
        are. So the check "order" of a result is then undecided (`ok` is None).
        """
        now, then = self.problem, self.origin
        return (now.n_arms, now.n_examples) != (then.n_arms, then.n_examples)

    @property
    def seen(self) -> Problem:
        """The problem, with what repeated evaluations have shown about noise.

        The first and the last scores of each cell that was evaluated more than once
        are compared:

        - If they differ in any cell, the scores of the returned problem are noisy.
        - If they are the same in every cell, and there are at least 20 such cells, the
          scores of the returned problem are free of noise.
        - With fewer such cells, the returned problem is `problem`.

        If `repeats` is above 1, `problem` is always returned.
        """
        problem = self.problem
        # Without observations, no cell was scored twice.
        if problem.repeats > 1 or problem.differs or len(self.history) == self.spent:
            return problem
        again = repeated(problem, self.history)
        if again.changed:
            return problem.with_noise
        return problem.without_noise if again.times >= _ENOUGH_AGREE else problem

    @property
    def is_explicit(self) -> bool:
        """True if the last decision listed each evaluation (`Decided.plan`), instead of a number for each arm.

        Failed evaluations of such a plan are not replaced.
        """
        return self.reopened or (
            bool(self.decisions) and self.decisions[-1][1].plan is not None
        )

    @property
    def plan_is_empty(self) -> bool:
        """True if every evaluation of the plan was assigned, and `returned` is empty."""
        return self.position == len(self.plan_arms) and self.returned.is_empty

    @property
    def may_decide(self) -> bool:
        """True if a decision can come next.

        This is the case if the plan is empty. It is also the case if there is a budget
        of cost and no trial is pending, because the rest of the plan may then be too
        expensive. After the end of the selection, it is False.
        """
        # While a trial is pending, it may turn out cheaper than expected, so that the
        # budget of cost allows the rest of the plan after all.
        has_limit = self.problem.max_cost is not None
        return (
            self.plan_is_empty or (has_limit and not self.pending)
        ) and not self.finished

    def is_eliminated(self, arm: int) -> bool:
        """True if an arm was eliminated: its status is "rejected", "failed" or "retired"."""
        return arm in self.left and self.left[arm][1].status != ACCEPTED

    def fits(self, arm: int) -> bool:
        """True if the budget of cost allows one more evaluation of an arm, besides the pending trials.

        Always True without a budget of cost. `asktell.Budget` describes the rule.
        """
        problem, costs, out = self.problem, self.costs, self.pending
        if problem.max_cost is None:
            return True
        if problem.max_cost_per_evaluation is not None:
            most = self.cost + problem.max_cost_per_evaluation * (1 + len(out))
            return most <= problem.max_cost
        if not costs.pool.n:
            return not out
        own, reserved = costs.reserve(arm), self.reserve
        if reserved is None:
            reserved = costs.reserved(out.values())
        left = problem.max_cost - (self.cost + own + reserved)
        # Rounding depends on the order of summation. Where rounding may decide, the sum
        # is taken in one fixed order.
        if abs(left) > 1e-15 * (2 + len(out)) * problem.max_cost:
            return left > 0
        of_pending = (costs.reserve(pull.arm) for pull in out.values())
        return self.cost + sum([own, *of_pending]) <= problem.max_cost

    def part_spent(self) -> float:
        """The share of the budget that is used, from 0 to 1.

        If evaluations and cost are both limited, this is the larger of the two shares.
        Pending trials count as used evaluations, but their cost does not count.
        """
        evaluations = (self.spent + len(self.pending)) / self.problem.budget
        return max(min(1.0, evaluations), self.problem.part_of_cost(self.cost))

    def ages(self) -> Float[Floats, " arms"]:
        """For each arm the share of the budget that was used since the arm was added, from 0 to 1.

        The share is of the budget that was left when the arm was added.
        """
        now, began = self.part_spent(), np.zeros(self.problem.n_arms)
        first = self.origin.n_arms
        for _, spent, cost, event in self.growth:
            if isinstance(event, Added):
                then = max(
                    min(1.0, spent / self.problem.budget),
                    self.problem.part_of_cost(cost),
                )
                began[first : first + len(event.texts)] = min(now, then)
                first += len(event.texts)
        return np.asarray((now - began) / np.maximum(1.0 - began, 1e-12))

    @property
    def room(self) -> int:
        """The number of evaluations that the budget still allows, besides the pending and the released trials."""
        return max(
            0, self.problem.budget - self.spent - len(self.pending) - len(self.returned)
        )

    @property
    def told(self) -> Int[Ints, " arms"]:
        """The number of rows of each arm, including observed scores."""
        return np.bincount(self.history.arms(), minlength=self.problem.n_arms)

    def no_rivals(self) -> list[int]:
        """The arms that no longer compete, because they failed too often or were retired, ascending."""
        return sorted(
            arm
            for arm, (_, departure) in self.left.items()
            if departure.status in (FAILED, RETIRED)
        )

    @property
    def missing(self) -> Failures:
        """The failures that leave a score missing. These are all failures, unless failures count as scores.

        If failures count as scores (`on_failure` of the `Selector`), there are none.
        """
        return self.failures if self.problem.failure_scores is None else _NONE

    def fails_too_often(self, arm: int) -> bool:
        """True if an arm's failure rate is above `max_failure_rate` with a probability of 99%.

        Never True for the baseline, or if failures count as scores.
        """
        if self.problem.failure_scores is not None or arm == self.problem.baseline:
            return False
        n_failed = self.failures.count(arm)
        return is_above(
            self.problem.max_failure_rate,
            n_failed,
            n_failed + self.history.n_asked(arm),
        )

    def is_exhausted(self, arm: int) -> bool:
        """True if an arm has too many failures to be evaluated again.

        This is the case after 100 failures, and 100 more for each score that the arm
        has. Usually, an arm is eliminated long before. But the baseline is never
        eliminated. This rule ends a selection whose baseline always fails.
        """
        return self.missing.count(arm) >= _FAILURES_PER_SCORE * (
            1 + self.history.n_asked(arm)
        )

    def exhausted(self) -> Int[Ints, " exhausted"]:
        """The arms for which `is_exhausted` is True, ascending."""
        return np.array(
            [arm for arm in self.missing.arms() if self.is_exhausted(arm)],
            dtype=np.int64,
        )

    def given_up(self, arm: int) -> Departure:
        """The departure of an arm that fails too often, with the reason. A method puts it into its decision."""
        n_failed = self.failures.count(arm)
        said = (
            f"{n_failed} of {n_failed + self.history.n_asked(arm)} evaluations failed"
        )
        return Departure(arm, FAILED, f"{said}, last: {self.failures.last(arm)}")

    def unscored(self, arm: int) -> Departure:
        """The departure of an arm that has no score when the selection ends. It belongs in the last decision."""
        reason = (
            f"every evaluation failed, last: {self.failures.last(arm)}"
            if self.failures.count(arm)
            else "no scores"
        )
        return Departure(arm, FAILED, reason)

    def open_arms(self) -> Bool[Bools, " arms"]:
        """For each arm, True if it is active and can be evaluated again.

        While a trial is pending, the budget of cost is ignored, because the trial may
        turn out cheaper than expected. If no trial is pending, the budget of cost must
        allow one more evaluation of the arm.
        """
        mask = np.zeros(self.problem.n_arms, dtype=bool)
        mask[self.active] = True
        mask &= self.have_pulls()
        if self.problem.max_cost is not None and not self.pending:
            mask[mask] = [self.fits(arm) for arm in np.flatnonzero(mask).tolist()]
        return mask

    def have_pulls(self) -> Bool[Bools, " arms"]:
        """For each arm, active or not, True if it can still be evaluated.

        This is the case if the arm is not exhausted, and at least one of its own cells
        was evaluated less than `repeats` times.
        """
        most = self.problem.most_pulls
        mask = (
            np.ones(self.problem.n_arms, dtype=bool)
            if most is None
            else self.used_pulls() < most
        )
        mask[self.exhausted()] = False
        return mask

    def used_pulls(self) -> Int[Ints, " arms"]:
        """For each arm the number of evaluations that are used up.

        An evaluation is used up if no new trial can be made for it: it is recorded,
        pending or released, it failed, or its scores were observed. Observed scores can
        give a cell more than `repeats` evaluations. Such a cell counts as `repeats`
        evaluations. Evaluations without an example do not count.
        """
        arms, _, asks = self.used_cells()
        pulls = np.bincount(
            arms, np.minimum(asks, self.problem.repeats), self.problem.n_arms
        )
        return np.asarray(pulls, dtype=np.int64)

    def used_cells(
        self, observed: bool = True
    ) -> tuple[Int[Ints, " cells"], Int[Ints, " cells"], Int[Ints, " cells"]]:
        """The cells that have a score, a failure, or a pending or released trial.

        Args:
            observed: True if observed scores count.

        Returns:
            Three arrays of the same length. For each cell, they have the arm, the
            example and the number of evaluations.
        """
        rows = slice(None) if observed else self.history.trials() >= 0
        n, missing = self.problem.n_examples or 1, self.missing
        # A returned trial will be asked again, so its cell is in use.
        more = [
            (p.arm, p.example)
            for p in (*self.pending.values(), *self.returned)
            if p.example is not None
        ]
        extra = np.array(more, dtype=np.int64).reshape(-1, 2)
        arms = np.concatenate(
            (self.history.arms()[rows], missing.pulls.arms(), extra[:, 0])
        )
        examples = np.concatenate(
            (self.history.examples()[rows], missing.pulls.examples(), extra[:, 1])
        )
        # A score without an example uses no cell.
        real = examples >= 0
        cells, asks = counted(arms[real] * n + examples[real])
        return cells // n, cells % n, asks

    def asked_before(self, trial: int, arm: int, example: int) -> int:
        """The number of trials of the cell (`arm`, `example`) that were assigned before this trial.

        Failed trials count, too.
        """
        others = [
            p.trial
            for p in (*self.pending.values(), *self.returned)
            if (p.arm, p.example) == (arm, example)
        ]
        before = len([other for other in others if other is not None and other < trial])
        for rows in (self.history, self.missing.pulls):
            trials = rows.trials()
            asked = (
                (trials >= 0)
                & (trials < trial)
                & (rows.arms() == arm)
                & (rows.examples() == example)
            )
            before += int(asked.sum())
        return before

    def open(self, trial: int) -> Pull | None:
        """The evaluation of a pending or released trial. None for any other trial."""
        return self.pending.get(trial) or self.returned.find(trial)

    def next_pull(self) -> Pull | None:
        """The next evaluation to assign. None if a decision or a score must come first."""
        if not self.returned.is_empty:
            return self.returned.front
        if self.position < len(self.plan_arms):
            example = self.plan_examples[self.position]
            return Pull(
                None, self.plan_arms[self.position], None if example < 0 else example
            )
        return None

    def current_tally(self) -> Tally:
        """The tally of all rows so far. A cell with several scores counts once, with their mean."""
        return self._with_failures(self.next_tally())

    def next_tally(self) -> Tally:
        """The tally of all rows so far, but without failure rates. It becomes `tally` at the next decision."""
        return self._tally(self.tally, self.tallied, 0)

    def round_tally(self) -> Tally:
        """The tally of the rows since the last decision."""
        empty = Tally.empty(self.problem.n_arms, len(self.problem.goal.columns))
        return self._with_failures(self._tally(empty, self.tallied, self.tallied))

    def _with_failures(self, tally: Tally) -> Tally:
        """The tally with the failure rate of each arm as the mean of the last column, if the goal bounds the rate."""
        if not self.problem.goal.counts_failures or not self.missing:
            return tally
        scored, failed = self.told, self.missing.per_arm(self.problem.n_arms)
        return tally.with_rate(failed / np.maximum(scored + failed, 1))

    def _tally(self, before: Tally, n_before: int, start: int) -> Tally:
        """The tally of the rows from `start` on. `before` is the tally of the rows before `n_before`."""
        n_arms = self.problem.n_arms
        if (cells := self._cells(start)) is not None:
            tally = Tally.of(cells, n_arms, self.problem.is_noisy)
        else:
            tally = before.plus(*self.history.in_asked_order(n_before))
        if self.problem.population is None or len(self.history) == self.spent:
            return tally
        # Counted apart, since they are no part of a mean over the given examples
        outside = self.history.arms(start)[self.history.examples(start) < 0]
        return replace(tally, outside=np.bincount(outside, minlength=n_arms))

    def _cells(self, start: int) -> Cells | None:
        """The cells in the rows from `start` on. None if scores are not noisy and no cell was scored twice."""
        problem = self.problem
        if problem.population is None or (
            not problem.is_noisy and len(self.history) == self.spent
        ):
            return None
        rows = (
            self.history.arms(start),
            self.history.examples(start),
            self.history.scores(start),
        )
        cells = Cells.of(*rows, problem.population)
        return cells if problem.is_noisy or len(cells.arms) < len(rows[0]) else None

    def capacity(self) -> Int[Ints, " arms"]:
        """For each arm the number of further evaluations that a plan can ask for.

        All examples that the arm has drawn are used up, including those of the current
        plan. An exhausted arm has 0. If the selection has no examples, or
        `sampling="iid"`, every other arm has 2,147,483,647, which stands for no limit.
        """
        # Unlimited is far below the largest integer, so that sums do not overflow.
        most = self.problem.most_pulls
        free = np.full(self.problem.n_arms, np.iinfo(np.int32).max, dtype=np.int64)
        if most is not None:
            free = most - self.drawn()
            if observed := list(observed_examples(self)):
                free[observed] = most - self.used_pulls()[observed]
        free[self.exhausted()] = 0
        return np.maximum(free, 0)

    def drawn(self) -> Int[Ints, " arms"]:
        """For each arm the number of examples that it has drawn, for plans and to replace failed evaluations."""
        drawn = self.plan_draws.copy()
        for arm, extra in self.redraws.items():
            drawn[arm] += extra
        return drawn


def initial(problem: Problem) -> State:
    """The state before the first event."""
    n_arms, n_metrics = problem.n_arms, len(problem.goal.columns)
    draws = np.zeros(n_arms, dtype=np.int64)
    return State(
        problem,
        problem,
        History(n_metrics),
        Failures(),
        ProxyScores(),
        draws,
        Tally.empty(n_arms, n_metrics),
    )


def observed_examples(state: State, only: int | None = None) -> dict[int, Counter[int]]:
    """How often each arm with observed scores has used each example. Empty for most studies.

    `only`: the one arm to look at. None: all arms.
    """
    # Without observations, all rows belong to trials.
    if state.problem.population is None or len(state.history) == state.spent:
        return {}
    trials, arms, examples = (
        state.history.trials(),
        state.history.arms(),
        state.history.examples(),
    )
    seen_elsewhere = (trials < 0) & (examples >= 0) & ((arms == only) | (only is None))
    used_by, used, asks = state.used_cells()
    return {
        arm: Counter(
            dict(
                zip(
                    used[used_by == arm].tolist(),
                    asks[used_by == arm].tolist(),
                    strict=True,
                )
            )
        )
        for arm in np.unique(arms[seen_elsewhere]).tolist()
    }


def examples_left(problem: Problem, had: "Counter[int]") -> Iterator[int]:
    """The examples for further evaluations of an arm: first the unused examples in their order, then used ones.

    With repeats, examples that were used once follow, then examples that were used
    twice, and so on. `had` counts the uses of each example.
    """
    for nth in range(problem.repeats):
        yield from (
            example for example in problem.order.tolist() if had[example] <= nth
        )


def is_above(rate: float, failures: int, n: int) -> bool:
    """True if a failure rate is above `rate` with the probability `SURE`, after `failures` out of n evaluations.

    With a uniform prior, the posterior of the rate is a beta distribution. The
    probability that the rate is above `rate` equals the binomial probability that at
    most `failures` of n + 1 evaluations fail at the rate `rate`.

    The terms are computed from the largest term outwards, with products and quotients
    only. So all machines agree on every bit, and a log that is read on another machine
    gives the same state.
    """
    if rate >= 1.0 or failures <= n * rate:
        return False
    # Too close to the allowed rate for certainty. Saves the sum below.
    if n > _MANY and failures - n * rate < _CLOSE * math.sqrt(n * rate * (1.0 - rate)):
        return False
    odds, largest = rate / (1.0 - rate), int((n + 2) * rate)
    # Sums of the terms up to `failures` and above. The terms from the largest one up
    # come first, then those below it.
    at_most, more, term = 0.0, 0.0, 1.0
    for k in range(largest, n + 2):
        at_most, more = (
            (at_most + term, more) if k <= failures else (at_most, more + term)
        )
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
