"""Race: evaluate all active prompts on the same examples until the selection is certain.

The confidence is fixed, by confidence sequences (Waudby-Smith & Ramdas 2020, 2023;
racing as in Maron & Moore 1994). Prompts are compared by paired differences on common
examples, and are eliminated once certainly worse (`asktell.proofs.standing`):

- For a single best prompt and known ranges, a prompt is compared with the prompt that
  leads at the moment (`asktell.proofs.intervals.racing`).
- Otherwise each prompt is compared with the prompt that leads it by most, since any
  certain comparison suffices.

Prompts that are added later first take the examples that the others have seen. With
`repeats`, all examples are evaluated again, up to that number of times. The claims and
their errors are in `asktell.proofs.claims`. Scores with a doubtful remark eliminate
no prompt and do not end the selection.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from msgspec import structs

from asktell.methods.base import AbstractMethod, check_not_sure, open_arms
from asktell.methods.rounds.elimination import bounds_of, rule_of
from asktell.numerics import counters
from asktell.numerics.arrays import Ints
from asktell.numerics.shapes import Int
from asktell.problem.checks import MOST_EXAMPLES, check_part, whole
from asktell.problem.problem import Problem
from asktell.proofs.standing import standing
from asktell.record import Decided, Departure, State

OPEN = "still open when the budget ended"
"""The reason for rejecting a prompt at the end of the budget, without certainty about it."""

_RUNNER_UP = "the best rejected prompt, because all others have failed or were retired"


@final
@dataclass(frozen=True)
class Race(AbstractMethod):
    """Evaluate all remaining prompts on the same examples, and eliminate a prompt once it is established to be worse.

    The selection ends as soon as the selected prompt or set is established, or when the
    budget is spent. The method "race" is `Race()`.

    Args:
        confidence: The probability that the selection is right, if it ends before the
            budget is spent.
        block: The number of examples on which each remaining prompt is evaluated
            between two looks at the scores.

    The confidence is guaranteed, however noisy the scores are, if the goal has a range
    for every metric (`asktell.maximize("accuracy", range=(0, 1))`), no evaluation fails
    and the evaluated model does not change during the run. `Result.checks` lists these
    conditions, and whether each of them holds.

    The goal states the tolerance of each metric, such as `asktell.maximize("accuracy",
    range=(0, 1), tolerance=0.02)`. A selection that is worse than the best by at most
    the tolerance counts as right, and so does a selected prompt that violates a
    constraint by at most the constraint's tolerance. Without a tolerance, equally good
    prompts are evaluated on every example, because no scores show which of them is
    better.
    """

    confidence: float = 0.95
    block: int = 10
    has_rounds = False

    def __post_init__(self) -> None:
        """Validate the parameters.

        Raises:
            InvalidArgumentError: a parameter is out of range.
        """
        vars(self).update(
            confidence=check_part("confidence of Race", self.confidence),
            block=whole("block of Race", self.block, 1, MOST_EXAMPLES),
        )

    def check(self, problem: Problem) -> None:
        """Check that the method supports the problem. It supports every budget, and most goals.

        Args:
            problem: the settings of the selection, such as prompts, goal and budget.

        Raises:
            IncompatibleMethodError: the goal is a `BestFeasible(..., sure=...)`, or it
                uses segments (`in_every_segment` or `worst_segment`).
        """
        check_not_sure(problem.goal, "Race")
        problem.goal.check_over_all_examples("Race")

    def due(self, state: State) -> bool:
        """Return True if the plan is used up and more can be planned, or if no more scores can come.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
        """
        # The end waits for all scores, and a plan does not.
        return super().due(state) or (
            state.plan_is_empty and state.room > 0 and bool(open_arms(state).any())
        )

    def decide(self, state: State) -> Decided:
        """Return the next decision.

        It ends the selection if the selected prompt or set is established, or if no
        evaluation is left. Otherwise it eliminates the prompts that are established to
        be worse, and plans the next evaluations.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
        """
        number = len(state.decisions)
        if not len(state.active):
            # All other prompts failed or were retired, so the best of the rejected
            # prompts is selected.
            best = self._best(state, state.active)
            departures = _departures(dict.fromkeys(best, _RUNNER_UP), state, best)
            return Decided(number, departures, finished=True, answer=tuple(best))
        now = standing(state, self.confidence)
        leaving = _departures(
            {arm: why for arm, why in now.out.items() if arm not in now.open}, state
        )
        if now.answer is not None:
            # Without an arm that stays, the best of those that are out is selected.
            answer = list(now.answer) or self._best(state, now.left)
            return structs.replace(
                self._finish(state, number, leaving, answer), settled=True
            )
        cells = self._cells(state, now.open)
        if not cells:
            return self._finish(state, number, leaving, self._best(state, now.left))
        return Decided(number, leaving, plan=cells)

    def answer(self, state: State) -> list[int]:
        """Return the positions of the prompts to select if nothing more is evaluated. Each of them has a score.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
        """
        return self._best(state, standing(state, self.confidence).left)

    def ended_by_scores(self, state: State) -> bool:
        """Return True: every look may eliminate prompts, also the last one, at the end of the budget.

        Args:
            state: the state of the finished selection.
        """
        return True

    def notes(self, state: State, name: Callable[[int], str]) -> tuple[str, ...]:
        """Return a sentence if the budget ended the race.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
            name: returns how sentences name the prompt at a position.
        """
        notes = super().notes(state, name)
        is_open = state.finished and not state.decisions[-1][1].settled
        if not is_open or state.remarks.doubts:
            return notes
        return (
            *notes,
            "The budget was spent before the requested confidence was reached.",
        )

    def _best(self, state: State, stays: Int[Ints, " stays"]) -> list[int]:
        """The arms selected by sample means, among `stays` if one of these has a score, else among all with a score."""
        problem, tally = state.problem, state.current_tally()
        arms = stays[tally.counts[stays] > 0]
        if not len(arms):
            arms = np.setdiff1d(
                np.flatnonzero(tally.counts > 0), state.left.no_rivals()
            )
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
            state.failures.unscored(d.arm)
            if not seen[d.arm] and state.failures.count(d.arm)
            else d
            for d in _departures(reasons, state, answer)
        ]
        return Decided(
            number, (*gone.values(), *last), finished=True, answer=tuple(answer)
        )

    def _cells(
        self, state: State, arms: Int[Ints, " arms"]
    ) -> tuple[tuple[int, int], ...]:
        """The next block of evaluations, example by example, as far as the budget goes. Scored cells are left out."""
        problem, room = state.problem, state.room
        arms = np.setdiff1d(arms, state.missing.exhausted(state.history))
        if not len(arms) or not room:
            return ()
        if not state.pending and not all(state.fits(arm) for arm in arms.tolist()):
            # All arms take the same examples, so one arm that is too expensive ends the
            # plan.
            return ()
        if problem.examples.most_pulls is None:
            drawn = state.plan.draws[arms]
            arms = arms[drawn < drawn.max()] if (drawn < drawn.max()).any() else arms
            nth, row = np.divmod(np.arange(self._n_cells(room, len(arms))), len(arms))
            examples = problem.examples.draw(
                arms[row], state.plan.draws[arms[row]] + nth
            )
            return tuple(zip(arms[row].tolist(), examples.tolist(), strict=True))
        first = reach = _reached(state)
        turns_left, rows = unused_turns(state, arms, first)
        # Arms that have missed examples take these first.
        behind = len(np.unique(rows))
        n_cells = self._n_cells(room, behind or len(arms))
        while (
            not behind
            and len(turns_left) < n_cells
            and reach < problem.examples.most_pulls
        ):
            reach = min(problem.examples.most_pulls, 2 * reach - first + self.block)
            turns_left, rows = unused_turns(state, arms, reach)
        examples = problem.examples.order[
            turns_left[:n_cells] % len(problem.examples.order)
        ]
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
        int(
            (
                (asks - 1) * len(problem.examples.order)
                + problem.examples.place[examples]
            ).max(initial=-1)
        )
        + 1
    )


def unused_turns(
    state: State, arms: Int[Ints, " arms"], reach: int
) -> tuple[Int[Ints, " free"], Int[Ints, " free"]]:
    """Turns below `reach` in the order of all evaluations, and positions of the arms that have not had them.

    Sorted by turn first. A cell that was asked for several times has had its first
    turns.
    """
    n = len(state.problem.examples.order)
    row_of = np.full(state.problem.n_arms, -1, dtype=np.int64)
    row_of[arms] = np.arange(len(arms))
    used_arms, used, asks = state.used_cells()
    rows = np.repeat(row_of[used_arms], asks)
    round_ = np.arange(len(rows)) - np.repeat(np.cumsum(asks) - asks, asks)
    turns_used = round_ * n + np.repeat(state.problem.examples.place[used], asks)
    here = (rows >= 0) & (turns_used < reach)
    free = np.ones((reach, len(arms)), dtype=bool)
    free[turns_used[here], rows[here]] = False
    turns, rows_left = np.nonzero(free)
    return turns, rows_left


def _departures(
    reasons: dict[int, str], state: State, accepted: list[int] | tuple[()] = ()
) -> tuple[Departure, ...]:
    """A departure for each arm of `reasons`, as accepted or rejected, with its sample means."""
    tally = state.current_tally()
    means, errors = tally.means, tally.standard_errors(state.problem.examples.target)
    return tuple(
        Departure.of(
            arm,
            arm in accepted,
            reason,
            (means[arm], errors[arm]) if tally.counts[arm] > 0 else None,
        )
        for arm, reason in reasons.items()
    )
