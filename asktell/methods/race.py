"""Race: evaluate all active prompts on the same examples until the selection is certain.

The confidence is fixed, by confidence sequences (Waudby-Smith & Ramdas 2020, 2023;
racing as in Maron & Moore 1994). Prompts are compared by paired differences on common
examples, and are eliminated once certainly worse:

- For a single best prompt and known ranges, a prompt is compared with the prompt that
  leads at the moment (`asktell.intervals.racing`).
- Otherwise each prompt is compared with the prompt that leads it by most, since any
  certain comparison suffices.

Prompts that are added later first take the examples that the others have seen. With
`repeats`, all examples are evaluated again, up to that number of times. The claims and
their errors are in `asktell.methods.certainty`. Scores with a doubtful remark eliminate
no prompt and do not end the selection.
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from msgspec import structs

from asktell.methods.base import AbstractMethod
from asktell.methods.certainty import Evidence, first_out, n_misses, slacks_of
from asktell.methods.elimination import bounds_of, rule_of
from asktell.numerics import counters
from asktell.numerics.arrays import Indices, Mask, Values
from asktell.numerics.pareto import pareto_mask
from asktell.problem.checks import (
    LARGEST,
    MOST_EXAMPLES,
    check_number,
    check_part,
    whole,
)
from asktell.problem.goals import (
    BestFeasible,
    Goal,
    check_not_sure,
    check_over_all_examples,
)
from asktell.state import Decided, Departure, Problem, State

# Significant decimals in the mean of decimal fractions. A double has 15, but the last
# ones are rounding errors.
_DECIMALS = 12

OPEN = "still open when the budget ended"
"""The reason for rejecting a prompt at the end of the budget, without certainty about it."""

_WORSE = "certainly worse than another prompt"
_RUNNER_UP = "the best of those rejected, for all others have failed or were retired"


@final
@dataclass(frozen=True)
class Race(AbstractMethod):
    """Evaluate all prompts on the same examples, eliminate certainly worse prompts, stop when the selection is certain.

    Args:
        confidence: The probability that the selection is right if it ends before the
            budget is spent.
        tolerance: How much worse than the best still counts as right, in units of the
            metric. For a Pareto set, a metric with a range is measured in units of its
            range. Without a tolerance, equally good prompts are evaluated on every
            example.
        block: The number of examples between two looks at the scores.

    The confidence is guaranteed if the goal has a range for every metric
    (`asktell.maximize("accuracy", range=(0, 1))`) and no evaluation fails, however
    noisy the scores are. `Result.checks` lists the violated conditions.
    """

    confidence: float = 0.95
    tolerance: float = 0.0
    block: int = 10

    def __post_init__(self) -> None:
        """Validate the parameters.

        Raises:
            InvalidArgumentError: a parameter is out of range.
        """
        check_part("confidence of Race", self.confidence)
        check_number("tolerance of Race", self.tolerance, 0.0, LARGEST)
        whole("block of Race", self.block, 1, MOST_EXAMPLES)

    def check(self, problem: Problem) -> None:
        """Check the problem. Any goal and budget are supported, except `sure` and segments."""
        check_not_sure(problem.goal, "Race")
        check_over_all_examples(problem.goal, "Race")

    def due(self, state: State) -> bool:
        """True if the plan is empty and there is more to plan, or if no more scores can come."""
        if not state.plan_is_empty:
            # The rest of the plan has become too expensive, and no evaluation in
            # progress may turn out cheaper.
            pull = state.next_pull()
            return not state.pending and pull is not None and not state.fits(pull.arm)
        return not state.pending or (state.room > 0 and bool(state.open_arms().any()))

    def decide(self, state: State) -> Decided:
        """End if the selection is certain. Otherwise eliminate certainly worse prompts and plan the next examples."""
        number = len(state.decisions)
        if not len(state.active):
            # All other prompts failed or were retired, so the best of the rejected
            # prompts is selected.
            best = self._best(state, state.active)
            departures = _departures(dict.fromkeys(best, _RUNNER_UP), state, best)
            return Decided(number, departures, finished=True, answer=tuple(best))
        evidence = self._evidence(state)
        verdicts = _worse(evidence, state)
        stays = np.array(
            [arm for arm in state.active if arm not in verdicts], dtype=np.int64
        )
        answer = self._certain_answer(evidence, stays, state)
        # The baseline stays, and so do arms to which a constraint may be relative.
        needed = {state.problem.baseline, *evidence.references()}
        leaving = _departures(
            {a: v for a, v in verdicts.items() if a not in needed}, state
        )
        if answer is not None:
            return structs.replace(
                self._finish(state, number, leaving, answer), settled=True
            )
        remaining = np.setdiff1d(state.active, [d.arm for d in leaving])
        cells = self._cells(state, remaining)
        if not cells:
            return self._finish(state, number, leaving, self._best(state, stays))
        return Decided(number, leaving, plan=cells)

    def answer(self, state: State) -> list[int]:
        """The prompts that are selected if nothing more is evaluated. Prompts without a score cannot be selected."""
        verdicts = _worse(self._evidence(state), state)
        return self._best(
            state,
            np.array(
                [arm for arm in state.active if arm not in verdicts], dtype=np.int64
            ),
        )

    def _evidence(self, state: State) -> Evidence:
        """The evidence in the scores so far, with the error divided among the claims."""
        reach = first_out(state, set(state.left))
        problem, history, missing, goal = (
            state.seen,
            state.history,
            state.missing,
            state.problem.goal,
        )
        key = "evidence", problem, missing.key, reach
        evidence = history.memo.get(
            key, lambda: Evidence.of(problem, history, missing, reach)
        )
        evidence = replace(evidence, gone=tuple(state.no_rivals()))
        if isinstance(goal, BestFeasible):
            return evidence.for_best(1 - self.confidence, self.tolerance)
        n_arms = state.problem.n_arms
        n_events = n_arms * (
            (n_arms - 1) * len(goal.objectives) + n_misses(goal, n_arms)
        )
        return replace(evidence, error=(1 - self.confidence) / max(1, n_events))

    def _certain_answer(
        self, evidence: Evidence, stays: Indices, state: State
    ) -> list[int] | None:
        """The selected arms if they are certain up to the tolerance, else None."""
        goal = state.problem.goal
        if state.doubts:
            return None
        if not len(stays):
            return self._best(state, stays)
        # A single arm without failures needs no scores to be the best.
        if (evidence.counts[stays] == 0).any() and (
            len(stays) > 1 or state.failures.count(int(stays[0]))
        ):
            return None
        if isinstance(goal, BestFeasible):
            kept = evidence.all_at_least(stays, slacks_of(goal))
            means = evidence.means[stays, 0]
            if not kept.any():
                return None
            leader = stays[np.flatnonzero(kept)[means[kept].argmax()]]
            others = stays[stays != leader]
            near = evidence.ahead(
                np.full(len(others), leader), others, 0, -self.tolerance, or_equal=True
            )
            return [int(leader)] if near.all() else None
        return self._certain_front(evidence, stays, goal)

    def _certain_front(
        self, evidence: Evidence, stays: Indices, goal: Goal
    ) -> list[int] | None:
        """The certain Pareto set, else None.

        Each selected arm certainly satisfies every constraint, and no other arm
        dominates it by more than the tolerance. Each other arm is dominated by a
        selected arm, up to the tolerance. Whether the others satisfy the constraints
        does not matter.
        """
        n_objectives = len(goal.objectives)
        means, kept = (
            evidence.means[stays, :n_objectives],
            evidence.all_at_least(stays, slacks_of(goal)),
        )
        if not kept.any():
            return None
        if evidence.is_exhausted(stays):
            largest = float(np.abs(means).max()) or 1.0
            rounded: Values = np.round(means[kept] / largest, _DECIMALS)
            return [int(arm) for arm in stays[kept][pareto_mask(rounded)]]
        if len(stays) == 1:
            return [int(stays[0])]
        # (j, i): the largest lead of arm j over arm i in an objective.
        lead = (means[:, None] - means[None]).max(axis=2)
        np.fill_diagonal(lead, np.inf)
        lead[:, ~kept] = np.inf
        # The feasible arm most likely to dominate each arm, which is compared first.
        rival = stays[lead.argmin(axis=1)]
        # `free`: not dominated by its rival. `close`: dominated by its rival up to the
        # tolerance.
        free, close = kept.copy(), np.isfinite(lead.min(axis=1))
        free[kept] = self._ahead_somewhere(
            evidence, stays[kept], rival[kept], n_objectives
        )
        for q in range(n_objectives):
            close[close] = evidence.ahead(
                rival[close], stays[close], q, -self.tolerance, or_equal=True
            )
        if not (free | close).all():
            return None
        # A free arm must also be ahead of all others somewhere. Otherwise it counts as
        # covered by its rival.
        for j in np.flatnonzero(free):
            others = np.delete(stays, j)
            if not self._ahead_somewhere(
                evidence, np.full(len(others), stays[j]), others, n_objectives
            ).all():
                if not close[j]:
                    return None
                free[j] = False
        optimal: list[int] = stays[free].tolist()
        covered = dict(zip(stays[~free].tolist(), rival[~free].tolist(), strict=True))
        return optimal if set(covered.values()) <= set(optimal) else None

    def _ahead_somewhere(
        self, evidence: Evidence, arms: Indices, others: Indices, n_objectives: int
    ) -> Mask:
        """(P,) True where the other arm of a pair certainly does not dominate the arm by more than the tolerance."""
        free = np.zeros(len(arms), dtype=bool)
        for q in range(n_objectives):
            left = np.flatnonzero(~free)
            free[left] = evidence.ahead(
                arms[left],
                others[left],
                q,
                -self.tolerance,
                or_equal=self.tolerance > 0,
            )
        return free

    def _best(self, state: State, stays: Indices) -> list[int]:
        """The arms selected by sample means, among `stays` if one of these has a score, else among all with a score."""
        problem, tally = state.problem, state.current_tally()
        arms = stays[tally.counts[stays] > 0]
        if not len(arms):
            arms = np.setdiff1d(np.flatnonzero(tally.counts > 0), state.no_rivals())
        if not len(arms):
            return []
        arms = arms[counters.chance_order(problem.seed, arms)]
        bounds = bounds_of(state, arms, tally.means[arms])
        return [
            int(arm)
            for arm in arms[
                rule_of(problem.goal).answer(
                    problem.goal.values(tally.means[arms], bounds)
                )
            ]
        ]

    def _finish(
        self,
        state: State,
        number: int,
        leaving: tuple[Departure, ...],
        answer: list[int],
    ) -> Decided:
        """The last decision, which selects the arms of `answer` and rejects all others."""
        active, baseline = state.active.tolist(), state.problem.baseline
        seen = state.told
        gone = {
            departure.arm: departure
            for departure in leaving
            if departure.arm not in answer
        }
        reasons = dict.fromkeys(answer, "the answer")
        reasons |= {
            arm: OPEN
            for arm in active
            if arm not in gone and arm not in answer and arm != baseline
        }
        last = [
            state.unscored(d.arm)
            if not seen[d.arm] and state.failures.count(d.arm)
            else d
            for d in _departures(reasons, state, answer)
        ]
        return Decided(
            number, (*gone.values(), *last), finished=True, answer=tuple(answer)
        )

    def _cells(self, state: State, arms: Indices) -> tuple[tuple[int, int], ...]:
        """The next block of evaluations, example by example, as far as the budget goes. Scored cells are left out."""
        problem, room, arms = (
            state.problem,
            state.room,
            np.setdiff1d(arms, state.exhausted()),
        )
        if not len(arms) or not room:
            return ()
        if not state.pending and not all(state.fits(arm) for arm in arms.tolist()):
            # All arms take the same examples, so one arm that is too expensive ends the
            # plan.
            return ()
        if problem.most_pulls is None:
            drawn = state.draws[arms]
            arms = arms[drawn < drawn.max()] if (drawn < drawn.max()).any() else arms
            nth, which = np.divmod(np.arange(self._n_cells(room, len(arms))), len(arms))
            examples = problem.draw(arms[which], state.draws[arms[which]] + nth)
            return tuple(zip(arms[which].tolist(), examples.tolist(), strict=True))
        first = reach = _reached(state)
        turns_left, rows = _unused(state, arms, first)
        # Arms that have missed examples take these first.
        behind = len(np.unique(rows))
        n_cells = self._n_cells(room, behind or len(arms))
        while not behind and len(turns_left) < n_cells and reach < problem.most_pulls:
            reach = min(problem.most_pulls, 2 * reach - first + self.block)
            turns_left, rows = _unused(state, arms, reach)
        examples = problem.order[turns_left[:n_cells] % len(problem.order)]
        return tuple(zip(arms[rows[:n_cells]].tolist(), examples.tolist(), strict=True))

    def _n_cells(self, room: int, n_arms: int) -> int:
        """The number of evaluations in a block: the same number for each arm, if the budget allows one for each."""
        affordable = room if room < n_arms else room // n_arms * n_arms
        return min(self.block * n_arms, affordable)


def _reached(state: State) -> int:
    """The first turn in the order of all evaluations that was assigned to no arm."""
    _, examples, asks = state.used_cells(observed=False)
    problem = state.problem
    return (
        int(((asks - 1) * len(problem.order) + problem.place[examples]).max(initial=-1))
        + 1
    )


def _unused(state: State, arms: Indices, reach: int) -> tuple[Indices, Indices]:
    """Turns below `reach` in the order of all evaluations, and positions of the arms that have not had them.

    Sorted by turn first. A cell that was asked for several times has had its first
    turns.
    """
    n = len(state.problem.order)
    row_of = np.full(state.problem.n_arms, -1, dtype=np.int64)
    row_of[arms] = np.arange(len(arms))
    used_arms, used, asks = state.used_cells()
    rows = np.repeat(row_of[used_arms], asks)
    round_ = np.arange(len(rows)) - np.repeat(np.cumsum(asks) - asks, asks)
    had = round_ * n + np.repeat(state.problem.place[used], asks)
    here = (rows >= 0) & (had < reach)
    free = np.ones((reach, len(arms)), dtype=bool)
    free[had[here], rows[here]] = False
    found = np.nonzero(free)
    return found[0], found[1]


def _departures(
    reasons: dict[int, str], state: State, accepted: list[int] | tuple[()] = ()
) -> tuple[Departure, ...]:
    """A departure for each arm of `reasons`, as accepted or rejected, with its sample means."""
    tally = state.current_tally()
    means, errors = tally.means, tally.standard_errors(state.problem.target)
    return tuple(
        Departure.of(
            arm,
            arm in accepted,
            reason,
            (means[arm], errors[arm]) if tally.counts[arm] > 0 else None,
        )
        for arm, reason in reasons.items()
    )


def _worse(evidence: Evidence, state: State) -> dict[int, str]:
    """The reason for each active arm that is certainly not selected. Empty if scores are doubtful."""
    if state.doubts:
        return {}
    goal, active = state.problem.goal, state.active
    if evidence.race:
        return dict.fromkeys(
            np.intersect1d(active, evidence.worse(state)).tolist(), _WORSE
        )
    reasons: dict[int, str] = {}
    for q, constraint in zip(slacks_of(goal), goal.constraints, strict=True):
        missed = active[evidence.below(active, q)]
        reasons |= {
            arm: f"certainly misses {constraint}"
            for arm in missed.tolist()
            if arm not in reasons
        }
    seen = active[evidence.counts[active] > 0]
    rivals = seen[evidence.all_at_least(seen, slacks_of(goal))]
    if isinstance(goal, BestFeasible):
        open_ = np.array(
            [arm for arm in active.tolist() if arm not in reasons], dtype=np.int64
        )
        if len(rivals):
            leader = rivals[evidence.means[rivals, 0].argmax()]
            others = open_[open_ != leader]
            behind = evidence.ahead(np.full(len(others), leader), others, 0, 0.0)
            reasons |= dict.fromkeys(others[behind].tolist(), _WORSE)
        return reasons
    # Pareto set: compare each arm with the feasible arm that leads it by most in every
    # objective at once.
    others = np.array(
        [arm for arm in seen.tolist() if arm not in reasons], dtype=np.int64
    )
    columns = range(len(goal.objectives))
    over = _most_dominating(
        evidence.means[others, : len(columns)], np.isin(others, rivals)
    )
    rivals, others = others[over[over >= 0]], others[over >= 0]
    # Dominated: at least as bad in every objective, and worse in one.
    dominated, somewhere = (
        np.ones(len(others), dtype=bool),
        np.zeros(len(others), dtype=bool),
    )
    for q in columns:
        dominated[dominated] = evidence.ahead(
            rivals[dominated], others[dominated], q, 0.0, or_equal=True
        )
    for q in columns:
        at = np.flatnonzero(dominated & ~somewhere)
        somewhere[at] = evidence.ahead(rivals[at], others[at], q, 0.0)
    return reasons | dict.fromkeys(
        others[dominated & somewhere].tolist(), "certainly dominated by another prompt"
    )


def _most_dominating(means: Values, may: Mask) -> Indices:
    """(A,) the position of the arm that leads by most in every metric at once, -1 if none leads.

    Only arms where `may` (A,) is True are considered. The lead in the worst metric
    decides.
    """
    found = np.full(len(means), -1, dtype=np.int64)
    for j, row in enumerate(means):
        lead = (means - row).min(axis=1)
        lead[j], lead[~may] = -np.inf, -np.inf
        best = int(lead.argmax())
        if lead[best] >= -(10.0**-_DECIMALS) * (1.0 + np.abs(row).max()):
            found[j] = best
    return found
