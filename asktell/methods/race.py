"""Race: all active prompts are evaluated on the same examples until the answer is certain.

Prompts that join first take the examples that the others have seen.

Fixed confidence by confidence sequences (Waudby-Smith & Ramdas 2020, 2023; racing as in Maron & Moore 1994). Prompts
are compared by paired differences on common examples, and leave once certainly worse. For a single best prompt each has
to show only once that it is worse than whoever is ahead, where ranges are known (`asktell.intervals.racing`); elsewhere
each is compared with the one that is ahead of it by most, since any certain comparison will do. With `repeats` all
examples are gone through again, as often as that says.

What is proven, and where the error goes, is said in `asktell.methods.certainty`. Scores that a remark calls doubtful
prove nothing: nobody leaves for them, and they end nothing.
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
from asktell.problem.checks import LARGEST, MOST_EXAMPLES, check_number, check_part, whole
from asktell.problem.goals import BestFeasible, Goal, check_no_segments, check_not_sure
from asktell.state import Decided, Departure, Problem, State

_DECIMALS = 12  # of means of decimal fractions; a double has 15, the last ones are rounding

OPEN = "still open when the budget ended"
"""Why a prompt that is not selected leaves in the end, if nothing is certain about it."""

_WORSE = "certainly worse than another prompt"
_RUNNER_UP = "the best of those rejected, for all others have failed or were retired"


@final
@dataclass(frozen=True)
class Race(AbstractMethod):
    """All prompts on the same examples; those that are certainly worse leave; ends when the answer is certain.

    `confidence`: how often the answer is right when it ends before the budget. `tolerance`: how much worse than right
    counts as right, in the metric's own units (for a Pareto set, in units of a metric's range where the goal names
    one). Without a tolerance, prompts that are equally good keep it going until they have seen every example.
    `block`: examples between two looks.

    The confidence is guaranteed where the goal names the range of every metric (`asktell.maximize("accuracy",
    range=(0, 1))`) and no evaluation fails, however noisy scores are. `Result.checks` names what is not so.
    """

    confidence: float = 0.95
    tolerance: float = 0.0
    block: int = 10

    def __post_init__(self) -> None:
        """Validate the parameters."""
        check_part("confidence of Race", self.confidence)
        check_number("tolerance of Race", self.tolerance, 0.0, LARGEST)
        whole("block of Race", self.block, 1, MOST_EXAMPLES)

    def check(self, problem: Problem) -> None:
        """Check that the goal asks for no probability, and for no segments; else any goal, any budget."""
        check_not_sure(problem.goal, "Race")
        check_no_segments(problem.goal, "Race")

    def due(self, state: State) -> bool:
        """Whenever the plan is empty and there is something to plan, or nothing more can come."""
        if not state.plan_is_empty:
            # What is planned costs too much by now, and nothing is out that may turn out cheaper.
            pull = state.next_pull()
            return not state.pending and pull is not None and not state.fits(pull.arm)
        return not state.pending or (state.room > 0 and bool(state.open_arms().any()))

    def decide(self, state: State) -> Decided:
        """End if the answer is certain; else let go of who is certainly worse, and plan the next examples."""
        number = len(state.decisions)
        if not len(state.active):  # those who have left for being worse are all there is
            best = self._best(state, state.active)
            departures = _departures(dict.fromkeys(best, _RUNNER_UP), state, best)
            return Decided(number, departures, finished=True, answer=tuple(best))
        evidence = self._evidence(state)
        verdicts = _worse(evidence, state)
        stays = np.array([arm for arm in state.active if arm not in verdicts], dtype=np.int64)
        answer = self._certain_answer(evidence, stays, state)
        needed = {state.problem.baseline, *evidence.references()}
        leaving = _departures({a: v for a, v in verdicts.items() if a not in needed}, state)
        if answer is not None:
            return structs.replace(self._finish(state, number, leaving, answer), settled=True)
        remaining = np.setdiff1d(state.active, [d.arm for d in leaving])
        cells = self._cells(state, remaining)
        if not cells:
            return self._finish(state, number, leaving, self._best(state, stays))
        return Decided(number, leaving, plan=cells)

    def answer(self, state: State) -> list[int]:
        """The prompts that are the answer if nothing more is learned; only such as were evaluated."""
        verdicts = _worse(self._evidence(state), state)
        return self._best(state, np.array([arm for arm in state.active if arm not in verdicts], dtype=np.int64))

    def _evidence(self, state: State) -> Evidence:
        reach = first_out(state, set(state.left))
        problem, history, missing, goal = state.seen, state.history, state.missing, state.problem.goal
        key = "evidence", problem, missing.key, reach
        evidence = history.memo.get(key, lambda: Evidence.of(problem, history, missing, reach))
        evidence = replace(evidence, gone=tuple(state.no_rivals()))
        if isinstance(goal, BestFeasible):
            return evidence.for_best(1 - self.confidence, self.tolerance)
        n_arms = state.problem.n_arms
        n_events = n_arms * ((n_arms - 1) * len(goal.objectives) + n_misses(goal, n_arms))
        return replace(evidence, error=(1 - self.confidence) / max(1, n_events))

    def _certain_answer(self, evidence: Evidence, stays: Indices, state: State) -> list[int] | None:
        """The answer if it is certain that it is right, up to the tolerance."""
        goal = state.problem.goal
        if state.doubts:
            return None
        if not len(stays):
            return self._best(state, stays)
        if (evidence.counts[stays] == 0).any() and (len(stays) > 1 or state.failures.count(int(stays[0]))):
            return None
        if isinstance(goal, BestFeasible):
            kept = evidence.all_at_least(stays, slacks_of(goal))
            means = evidence.means[stays, 0]
            if not kept.any():
                return None
            leader = stays[np.flatnonzero(kept)[means[kept].argmax()]]
            others = stays[stays != leader]
            near = evidence.ahead(np.full(len(others), leader), others, 0, -self.tolerance, or_equal=True)
            return [int(leader)] if near.all() else None
        return self._certain_front(evidence, stays, goal)

    def _certain_front(self, evidence: Evidence, stays: Indices, goal: Goal) -> list[int] | None:
        """Arms that nobody dominates by more than the tolerance, if all others are close to being dominated by one.

        They certainly keep every constraint; whether the others do does not matter.
        """
        n_objectives = len(goal.objectives)
        means, kept = evidence.means[stays, :n_objectives], evidence.all_at_least(stays, slacks_of(goal))
        if not kept.any():
            return None
        if evidence.is_exhausted(stays):
            largest = float(np.abs(means).max()) or 1.0
            rounded: Values = np.round(means[kept] / largest, _DECIMALS)
            return [int(arm) for arm in stays[kept][pareto_mask(rounded)]]
        if len(stays) == 1:
            return [int(stays[0])]
        lead = (means[:, None] - means[None]).max(axis=2)  # (j, i): by how much j is ahead of i somewhere
        np.fill_diagonal(lead, np.inf)
        lead[:, ~kept] = np.inf
        rival = stays[lead.argmin(axis=1)]  # each one's most dangerous: looked at first
        free, close = kept.copy(), np.isfinite(lead.min(axis=1))
        free[kept] = self._ahead_somewhere(evidence, stays[kept], rival[kept], n_objectives)
        for q in range(n_objectives):
            close[close] = evidence.ahead(rival[close], stays[close], q, -self.tolerance, or_equal=True)
        if not (free | close).all():
            return None
        for j in np.flatnonzero(free):
            others = np.delete(stays, j)
            if not self._ahead_somewhere(evidence, np.full(len(others), stays[j]), others, n_objectives).all():
                if not close[j]:
                    return None
                free[j] = False
        optimal: list[int] = stays[free].tolist()
        covered = dict(zip(stays[~free].tolist(), rival[~free].tolist(), strict=True))
        return optimal if set(covered.values()) <= set(optimal) else None

    def _ahead_somewhere(self, evidence: Evidence, arms: Indices, others: Indices, n_objectives: int) -> Mask:
        """(P,) whether the other of a pair certainly does not dominate the arm by more than the tolerance."""
        free = np.zeros(len(arms), dtype=bool)
        for q in range(n_objectives):
            left = np.flatnonzero(~free)
            free[left] = evidence.ahead(arms[left], others[left], q, -self.tolerance, or_equal=self.tolerance > 0)
        return free

    def _best(self, state: State, stays: Indices) -> list[int]:
        problem, tally = state.problem, state.current_tally()
        arms = stays[tally.counts[stays] > 0]
        if not len(arms):  # nobody is certain to be feasible any more, or was seen
            arms = np.setdiff1d(np.flatnonzero(tally.counts > 0), state.no_rivals())
        if not len(arms):
            return []
        arms = arms[counters.chance_order(problem.seed, arms)]
        bounds = bounds_of(state, arms, tally.means[arms])
        return [int(arm) for arm in arms[rule_of(problem.goal).answer(problem.goal.values(tally.means[arms], bounds))]]

    def _finish(self, state: State, number: int, leaving: tuple[Departure, ...], answer: list[int]) -> Decided:
        active, baseline = state.active.tolist(), state.problem.baseline
        seen = state.told
        gone = {departure.arm: departure for departure in leaving if departure.arm not in answer}
        reasons = dict.fromkeys(answer, "the answer")
        reasons |= {arm: OPEN for arm in active if arm not in gone and arm not in answer and arm != baseline}
        last = [
            state.unscored(d.arm) if not seen[d.arm] and state.failures.count(d.arm) else d
            for d in _departures(reasons, state, answer)
        ]
        return Decided(number, (*gone.values(), *last), finished=True, answer=tuple(answer))

    def _cells(self, state: State, arms: Indices) -> tuple[tuple[int, int], ...]:
        """The next block, example by example, as far as the budget goes; without what was scored before."""
        problem, room, arms = state.problem, state.room, np.setdiff1d(arms, state.exhausted())
        if not len(arms) or not room:
            return ()
        if not state.pending and not all(state.fits(arm) for arm in arms.tolist()):
            return ()  # all take the same examples
        if problem.most_pulls is None:
            drawn = state.draws[arms]
            arms = arms[drawn < drawn.max()] if (drawn < drawn.max()).any() else arms
            nth, which = np.divmod(np.arange(self._n_cells(room, len(arms))), len(arms))
            examples = problem.draw(arms[which], state.draws[arms[which]] + nth)
            return tuple(zip(arms[which].tolist(), examples.tolist(), strict=True))
        first = reach = _reached(state)
        turns_left, rows = _unused(state, arms, first)
        behind = len(np.unique(rows))  # those take what they have missed first
        n_cells = self._n_cells(room, behind or len(arms))
        while not behind and len(turns_left) < n_cells and reach < problem.most_pulls:
            reach = min(problem.most_pulls, 2 * reach - first + self.block)
            turns_left, rows = _unused(state, arms, reach)
        examples = problem.order[turns_left[:n_cells] % len(problem.order)]
        return tuple(zip(arms[rows[:n_cells]].tolist(), examples.tolist(), strict=True))

    def _n_cells(self, room: int, n_arms: int) -> int:
        return min(self.block * n_arms, room if room < n_arms else room // n_arms * n_arms)


def _reached(state: State) -> int:
    """The first turn in the order of all pulls that nobody was asked to take."""
    _, examples, asks = state.used_cells(observed=False)
    problem = state.problem
    return int(((asks - 1) * len(problem.order) + problem.place[examples]).max(initial=-1)) + 1


def _unused(state: State, arms: Indices, reach: int) -> tuple[Indices, Indices]:
    """Turns below `reach` in the order of all pulls, and positions of the arms that have not had them; by turn first.

    A cell that was asked several times has had its first turns.
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


def _departures(reasons: dict[int, str], state: State, accepted: list[int] | tuple[()] = ()) -> tuple[Departure, ...]:
    tally = state.current_tally()
    means, errors = tally.means, tally.standard_errors(state.problem.target)
    return tuple(
        Departure.of(arm, arm in accepted, reason, (means[arm], errors[arm]) if tally.counts[arm] > 0 else None)
        for arm, reason in reasons.items()
    )


def _worse(evidence: Evidence, state: State) -> dict[int, str]:
    """Who is certainly not in the answer, and why; nobody, where scores are doubtful."""
    if state.doubts:
        return {}
    goal, active = state.problem.goal, state.active
    if evidence.race:
        return dict.fromkeys(np.intersect1d(active, evidence.worse(state)).tolist(), _WORSE)
    reasons: dict[int, str] = {}
    for q, constraint in zip(slacks_of(goal), goal.constraints, strict=True):
        missed = active[evidence.below(active, q)]
        reasons |= {arm: f"certainly misses {constraint}" for arm in missed.tolist() if arm not in reasons}
    seen = active[evidence.counts[active] > 0]
    rivals = seen[evidence.all_at_least(seen, slacks_of(goal))]
    if isinstance(goal, BestFeasible):
        open_ = np.array([arm for arm in active.tolist() if arm not in reasons], dtype=np.int64)
        if len(rivals):
            leader = rivals[evidence.means[rivals, 0].argmax()]
            others = open_[open_ != leader]
            behind = evidence.ahead(np.full(len(others), leader), others, 0, 0.0)
            reasons |= dict.fromkeys(others[behind].tolist(), _WORSE)
        return reasons
    others = np.array([arm for arm in seen.tolist() if arm not in reasons], dtype=np.int64)
    columns = range(len(goal.objectives))
    over = _most_dominating(evidence.means[others, : len(columns)], np.isin(others, rivals))
    rivals, others = others[over[over >= 0]], others[over >= 0]
    dominated, somewhere = np.ones(len(others), dtype=bool), np.zeros(len(others), dtype=bool)
    for q in columns:
        dominated[dominated] = evidence.ahead(rivals[dominated], others[dominated], q, 0.0, or_equal=True)
    for q in columns:
        at = np.flatnonzero(dominated & ~somewhere)
        somewhere[at] = evidence.ahead(rivals[at], others[at], q, 0.0)
    return reasons | dict.fromkeys(others[dominated & somewhere].tolist(), "certainly dominated by another prompt")


def _most_dominating(means: Values, may: Mask) -> Indices:
    """(A,) the position of the arm, of those that may, that is ahead by most in every metric at once, -1 if none is."""
    found = np.full(len(means), -1, dtype=np.int64)
    for j, row in enumerate(means):
        lead = (means - row).min(axis=1)
        lead[j], lead[~may] = -np.inf, -np.inf
        best = int(lead.argmax())
        if lead[best] >= -(10.0**-_DECIMALS) * (1.0 + np.abs(row).max()):
            found[j] = best
    return found
