"""The state of a selection: an immutable value with everything that follows from the events so far."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Bools, Ints, counted
from asktell.numerics.cells import Cells
from asktell.numerics.intmap import IntMap
from asktell.numerics.shapes import Bool, Int
from asktell.numerics.tally import Tally
from asktell.problem.problem import Problem
from asktell.record.costs import Costs
from asktell.record.events import (
    Added,
    Decided,
    Departure,
    Extended,
    Growth,
    Pull,
    Remarked,
)
from asktell.record.failures import Failures
from asktell.record.history import History
from asktell.record.plan import Plan
from asktell.record.proxies import ProxyScores
from asktell.record.repeated import Repeated

_NONE = Failures()

# Repeats that all agree, from which scores count as free of noise. With 95% confidence,
# fewer than 14% would differ.
_ENOUGH_AGREE = 20


class GrowthStep(NamedTuple):
    """An event of growth, with the numbers of decisions and evaluations and the cost before it."""

    decisions: int
    spent: int
    cost: float
    event: Growth


@dataclass(frozen=True)
class GrowthSoFar:
    """What was added to a selection after its start.

    - `origin`: the problem before the first evaluation.
    - `events`: the events that added or retired prompts, or extended budget or
      examples.
    - `reopened`: True if the selection had ended, one of the events continued it, and
      no decision has followed yet.
    """

    origin: Problem
    events: tuple[GrowthStep, ...] = ()
    reopened: bool = False

    @property
    def has_widened(self) -> bool:
        """True if prompts or examples were added.

        If scores were used to write or choose them, these prompts look better than they
        are. So the check "order" of a result is then undecided (`ok` is None).
        """
        return any(
            isinstance(grown.event, Added)
            or (isinstance(grown.event, Extended) and grown.event.examples > 0)
            for grown in self.events
        )


class Departures(IntMap[tuple[int, Departure]]):
    """Arm -> the number of the round in which it was accepted, eliminated or retired, and its `Departure`."""

    __slots__ = ()

    def has_eliminated(self, arm: int) -> bool:
        """True if an arm was eliminated: its status is "rejected", "failed" or "retired"."""
        return arm in self and self[arm][1].status != "accepted"

    def no_rivals(self) -> list[int]:
        """The arms that no longer compete, because they failed too often or were retired, ascending."""
        return [
            arm
            for arm, (_, departure) in self.items()
            if departure.status in ("failed", "retired")
        ]


class Remarks(dict[str, Remarked]):
    """Topic -> the latest remark about the scores. It must not be changed."""

    def in_order(self) -> list[Remarked]:
        """The remarks, sorted by their topics."""
        return [self[topic] for topic in sorted(self)]

    @property
    def doubts(self) -> list[str]:
        """The texts of the remarks that call the scores doubtful.

        If there are any, results have no probabilities, and nothing can be established.
        """
        return [remark.text for remark in self.values() if remark.doubtful]


class State(NamedTuple):
    """Everything that follows from the events of a selection so far.

    In a state, prompts and examples are numbered from 0:

    - An *arm* is the position of a prompt.
    - A *cell* is a pair of an arm and the position of an example.
    - A *row* is one recorded evaluation, with a score for each metric.
    - A *plan* is the evaluations that the last decision asked for.
    - A *tally* has the number and the sums of the scores of each arm, from which means
      and standard errors are computed.

    A method usually reads the problem, the history and the tallies. The other
    attributes keep track of the plan and the budget.

    Attributes:
        problem: the problem now, with all prompts, examples and budget that were added.
        growth: what was added after the start, and the problem before it
            (`growth.origin`).
        history: the rows so far, in the order of recording: trial, arm, example and
            scores. Observed scores have the trial -1.
        failures: the failed evaluations so far, with their reasons.
            `failures.unscored(arm)` is the departure of an arm without any score.
        proxies: the recorded scores of proxies.
        plan: the evaluations that are assigned next, and those in progress.
            `plan.next()` is the next one. `plan.draws` has the number of examples that
            each arm has drawn.
        tally: the tally of the rows before the last decision.
        decisions: the decisions so far, as pairs: the number of rows before the
            decision, and the decision.
        spent: the number of recorded evaluations, without observed scores.
        costs: the recorded costs, by arm and in total (`costs.total`).
        left: arm -> the number of the round in which it was accepted, eliminated or
            retired, and its `Departure`. Active arms are missing. `left.no_rivals()`
            are the arms that failed too often or were retired.
        remarks: topic -> the latest remark about the scores. `remarks.doubts` has the
            texts of those that call the scores doubtful.
    """

    problem: Problem
    growth: GrowthSoFar
    history: History
    failures: Failures
    proxies: ProxyScores
    plan: Plan
    tally: Tally
    decisions: tuple[tuple[int, Decided], ...] = ()
    spent: int = 0
    costs: Costs = Costs()
    left: Departures = Departures()
    remarks: Remarks = Remarks()

    @property
    def pending(self) -> IntMap[Pull]:
        """Trial -> its evaluation, for each pending trial."""
        return self.plan.pending

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
            and not self.growth.reopened
        )

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
        if (
            problem.examples.repeats > 1
            or problem.examples.differs
            or len(self.history) == self.spent
        ):
            return problem
        again = Repeated.of(problem, self.history)
        if not again.changed and again.times < _ENOUGH_AGREE:
            return problem
        return problem.by_noise[again.changed > 0]

    @property
    def plan_is_empty(self) -> bool:
        """True if every evaluation of the plan was assigned, and none was released."""
        return self.plan.is_empty

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
            self.plan.is_empty or (has_limit and not self.plan.pending)
        ) and not self.finished

    def fits(self, arm: int) -> bool:
        """True if the budget of cost allows one more evaluation of an arm, besides the pending trials.

        Always True without a budget of cost. `asktell.Budget` describes the rule.
        """
        problem, costs, out = self.problem, self.costs, self.plan.pending
        if problem.max_cost is None:
            return True
        if problem.max_cost_per_evaluation is not None:
            most = costs.total + problem.max_cost_per_evaluation * (1 + len(out))
            return most <= problem.max_cost
        if not costs.pool.n:
            return not out
        reserve, reserved = costs.reserve(arm), self.plan.reserve
        if reserved is None:
            reserved = costs.reserved(out.values())
        left = problem.max_cost - (costs.total + reserve + reserved)
        # Rounding depends on the order of summation. Where rounding may decide, the sum
        # is taken in one fixed order.
        if abs(left) > 1e-15 * (2 + len(out)) * problem.max_cost:
            return left > 0
        of_pending = (costs.reserve(pull.arm) for pull in out.values())
        return costs.total + sum([reserve, *of_pending]) <= problem.max_cost

    @property
    def room(self) -> int:
        """The number of evaluations that the budget still allows, besides the pending and the released trials."""
        n_in_progress = len(self.plan.pending) + len(self.plan.returned)
        return max(0, self.problem.budget - self.spent - n_in_progress)

    @property
    def told(self) -> Int[Ints, " arms"]:
        """The number of rows of each arm, including observed scores."""
        return np.bincount(self.history.arms(), minlength=self.problem.n_arms)

    @property
    def missing(self) -> Failures:
        """The failures that leave a score missing. These are all failures, unless failures count as scores.

        If failures count as scores (`on_failure` of the `Selector`), there are none.
        """
        return self.failures if self.problem.failure_scores is None else _NONE

    def have_pulls(self) -> Bool[Bools, " arms"]:
        """For each arm, active or not, True if it can still be evaluated.

        Evaluations of the plan that no trial was made for count as free. See `capacity`.

        This is the case if the arm is not exhausted, and at least one of its own cells
        was evaluated less than `repeats` times.
        """
        most = self.problem.examples.most_pulls
        mask = (
            np.ones(self.problem.n_arms, dtype=bool)
            if most is None
            else self.used_pulls() < most
        )
        mask[self.missing.exhausted(self.history)] = False
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
            arms, np.minimum(asks, self.problem.examples.repeats), self.problem.n_arms
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
        n, missing = self.problem.examples.n or 1, self.missing
        # A returned trial will be asked again, so its cell is in use.
        more = [
            (p.arm, p.example) for p in self.plan.in_progress if p.example is not None
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

    def current_tally(self, of_round: bool = False) -> Tally:
        """The tally of all rows so far. A cell with several scores counts once, with their mean.

        Args:
            of_round: True if only the rows since the last decision count.
        """
        if not of_round:
            return self._with_failures(self.next_tally())
        empty = Tally.empty(self.problem.n_arms, len(self.problem.goal.columns))
        return self._with_failures(self._tally(empty, self._n_before))

    def next_tally(self) -> Tally:
        """The tally of all rows so far, but without failure rates. It becomes `tally` at the next decision."""
        return self._tally(self.tally, 0)

    @property
    def _n_before(self) -> int:
        """The number of rows before the last decision."""
        return self.decisions[-1][0] if self.decisions else 0

    def _with_failures(self, tally: Tally) -> Tally:
        """The tally with the failure rate of each arm as the mean of the last column, if the goal bounds the rate."""
        if not self.problem.goal.counts_failures or not self.missing:
            return tally
        scored, failed = self.told, self.missing.per_arm(self.problem.n_arms)
        return tally.with_rate(failed / np.maximum(scored + failed, 1))

    def _tally(self, before: Tally, start: int) -> Tally:
        """The tally of the rows from `start` on. `before` is the tally of those before the last decision."""
        n_arms = self.problem.n_arms
        if (cells := self._cells(start)) is not None:
            tally = Tally.of(cells, n_arms, self.problem.examples.is_noisy)
        else:
            tally = before.plus(*self.history.in_asked_order(self._n_before))
        if self.problem.examples.population is None or len(self.history) == self.spent:
            return tally
        # Counted apart, since they are no part of a mean over the given examples
        outside = self.history.arms(start)[self.history.examples(start) < 0]
        return replace(tally, outside=np.bincount(outside, minlength=n_arms))

    def _cells(self, start: int) -> Cells | None:
        """The cells in the rows from `start` on. None if scores are not noisy and no cell was scored twice."""
        examples, history = self.problem.examples, self.history
        n, is_noisy = examples.population, examples.is_noisy
        if n is None or (not is_noisy and len(history) == self.spent):
            return None
        rows = history.arms(start), history.examples(start), history.scores(start)
        cells = Cells.of(*rows, n)
        return cells if is_noisy or len(cells.arms) < len(rows[0]) else None

    def capacity(self) -> Int[Ints, " arms"]:
        """For each arm the number of further evaluations that a plan with `pulls` can ask for.

        All examples that the arm has drawn are used up, including those of the current
        plan. An exhausted arm has 0. If the selection has no examples, or
        `sampling="iid"`, every other arm has 2,147,483,647, which stands for no limit.
        """
        # Unlimited is far below the largest integer, so that sums do not overflow.
        most = self.problem.examples.most_pulls
        free = np.full(self.problem.n_arms, np.iinfo(np.int32).max, dtype=np.int64)
        if most is not None:
            free = most - self.plan.drawn()
            if observed := list(observed_examples(self)):
                free[observed] = most - self.used_pulls()[observed]
        free[self.missing.exhausted(self.history)] = 0
        return np.maximum(free, 0)


def initial(problem: Problem) -> State:
    """The state before the first event."""
    n_arms, n_metrics = problem.n_arms, len(problem.goal.columns)
    return State(
        problem,
        GrowthSoFar(problem),
        History(n_metrics),
        Failures(),
        ProxyScores(),
        Plan(np.zeros(n_arms, dtype=np.int64)),
        Tally.empty(n_arms, n_metrics),
    )


def observed_examples(state: State, only: int | None = None) -> dict[int, Counter[int]]:
    """How often each arm with observed scores has used each example. Empty for most studies.

    `only`: the one arm to look at. None: all arms.
    """
    # Without observations, all rows belong to trials.
    if state.problem.examples.population is None or len(state.history) == state.spent:
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
    for nth in range(problem.examples.repeats):
        yield from (
            example
            for example in problem.examples.order.tolist()
            if had[example] <= nth
        )
