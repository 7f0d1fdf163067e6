"""Elimination in rounds, composed of four parts.

In each round, the scheduler sets the number of evaluations and of prompts to keep, the
allocator divides the evaluations among the prompts, the estimator turns scores into
means, and the rule decides which prompts to eliminate first. The usual compositions
have names in `asktell.methods.presets`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from asktell._util.extras import needs_extra
from asktell.errors import (
    BudgetTooSmallError,
    IncompatibleMethodError,
    InvalidArgumentError,
)
from asktell.methods.base import AbstractMethod, check_not_sure, unused_features
from asktell.methods.rounds.allocators import AbstractAllocator, PullsToShare
from asktell.methods.rounds.directions import rank
from asktell.methods.rounds.estimators import AbstractEstimator, Estimates, Sample
from asktell.methods.rounds.rules import (
    AbstractEliminationRule,
    ConstrainedParetoGap,
    ConstrainedRanking,
    Judgement,
    ParetoGap,
)
from asktell.methods.rounds.schedulers import AbstractScheduler, Round
from asktell.numerics import counters
from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.pareto import pareto_mask
from asktell.numerics.shapes import Float, Int
from asktell.numerics.tally import Tally
from asktell.posterior.draws import at_an_end
from asktell.problem.checks import MOST_EVALUATIONS
from asktell.problem.goals import BestFeasible, Goal
from asktell.problem.objectives import Subset
from asktell.problem.problem import Problem
from asktell.problem.words import short
from asktell.record import (
    Added,
    Decided,
    Departure,
    Growth,
    Retired,
    State,
)

DATA = ("pooled", "round")
PART_KINDS: dict[str, type] = {
    "scheduler": AbstractScheduler,
    "allocator": AbstractAllocator,
    "estimator": AbstractEstimator,
    "rule": AbstractEliminationRule,
}
"""The kind of each part of an `Elimination`."""
# Evaluations in one round. A plan of that size takes 160 MB.
_MOST_PLANNED = 10**7


def rule_of(goal: Goal) -> AbstractEliminationRule:
    """The rule for a goal: constrained ranking for a best prompt, Pareto gaps for a set, constrained if the goal is."""
    if isinstance(goal, BestFeasible):
        return ConstrainedRanking()
    return (
        ConstrainedParetoGap(len(goal.objectives))
        if goal.is_constrained
        else ParetoGap()
    )


@final
@dataclass(frozen=True)
class Elimination(AbstractMethod):
    """Evaluate in rounds, and eliminate the least promising prompts after each round.

    Args:
        scheduler: Plans the rounds: how many there are, how many evaluations each has,
            and how many prompts each keeps.
        allocator: Divides the evaluations of a round among the remaining prompts.
        estimator: Estimates the means of the prompts from their scores.
        rule: Decides the order in which prompts are eliminated.
        data: "pooled" estimates the means from the scores of all rounds. "round" uses
            the scores of the current round only. The theorem in the paper on which
            asktell is based assumes this (Li, Shi, Ou, Shen & Yang: Efficient
            Multi-objective Prompt Optimization via Pure-exploration Bandits).
    """

    scheduler: AbstractScheduler
    allocator: AbstractAllocator
    estimator: AbstractEstimator
    rule: AbstractEliminationRule
    data: str = "pooled"

    def __post_init__(self) -> None:
        """Check the kinds of the parts. The packages of a part are not checked, since a saved part may be read without.

        Raises:
            IncompatibleMethodError: a part is of the wrong kind.
            InvalidArgumentError: `data` is unknown.
        """
        for name, kind in PART_KINDS.items():
            if not isinstance(getattr(self, name), kind):
                raise IncompatibleMethodError(
                    f"The {name} of an Elimination must be an object of a subclass of {kind.__name__}, got "
                    f"{getattr(self, name)!r}."
                )
        if self.data not in DATA:
            raise InvalidArgumentError(
                f"`data` must be {' or '.join(map(repr, DATA))}, got {short(self.data)}."
            )

    def check(self, problem: Problem) -> None:
        """Check that the method supports the problem.

        Args:
            problem: the settings of the selection, such as prompts, goal and budget.

        Raises:
            IncompatibleMethodError: the rule does not fit the goal, the goal has
                `sure`, a part needs features and the problem has none, or the budget is
                a cost.
            BudgetTooSmallError: the estimator needs a score of every prompt, and the
                budget is too small for that.
            InvalidArgumentError: a round has more than 10,000,000 evaluations. This is
                the most that can be planned at once. Or the scheduler plans more
                evaluations than the budget.
        """
        check_not_sure(problem.goal, "Elimination")
        if problem.max_cost is not None:
            raise IncompatibleMethodError(
                "Only the methods 'auto' and 'race' support a budget of cost. This method has rounds, and plans the "
                "number of its evaluations beforehand. Use a budget of evaluations, or the method 'auto'."
            )
        if isinstance(self.rule, (ConstrainedRanking, ParetoGap, ConstrainedParetoGap)):
            self._check_rule(problem.goal)
        for part in (self.scheduler, self.allocator, self.estimator):
            if part.needs_features and problem.features is None:
                raise IncompatibleMethodError(
                    f"{type(part).__name__} needs features of the prompts, one row of numbers per prompt. Use "
                    'Selector(..., features=embeddings), or features="text" to compute them from the prompts.'
                )
        rounds = self.rounds(problem)
        # No round can plan more evaluations than exist.
        most = problem.n_arms * (problem.examples.most_pulls or MOST_EVALUATIONS)
        planned = max((min(r.pulls, most) for r in rounds), default=0)
        if planned > _MOST_PLANNED:
            raise InvalidArgumentError(
                f"{type(self.scheduler).__name__} plans {planned:,} evaluations in one round, but one plan may have at "
                f"most {_MOST_PLANNED:,}. Lower the budget, or use the method 'auto', which plans a few evaluations at "
                "a time."
            )
        seen = not rounds or any(r.pulls for r in rounds)
        if self.estimator.needs_every_arm and (
            problem.budget < problem.n_arms or not seen
        ):
            raise BudgetTooSmallError(
                f"A budget of {problem.budget:,} evaluations is too small: this method needs to evaluate each of the "
                f"{problem.n_arms} prompts at least once. Raise the budget, or remove prompts."
            )

    def _check_rule(self, goal: Goal) -> None:
        """Check that a built-in rule fits the goal."""
        needed = rule_of(goal)
        if isinstance(self.rule, ConstrainedParetoGap) and not isinstance(
            goal, BestFeasible
        ):
            # This rule supports goals without constraints, too.
            needed = ConstrainedParetoGap(len(goal.objectives))
        whole = isinstance(needed, ConstrainedParetoGap)
        if not (self.rule == needed if whole else isinstance(self.rule, type(needed))):
            raise IncompatibleMethodError(
                f"The rule {self.rule} does not fit the goal, a {type(goal).__name__}"
                f"{' with constraints' if whole and goal.is_constrained else ''}. "
                f"This goal needs the rule {needed if whole else type(needed).__name__}."
            )

    def check_growth(self, event: Growth) -> None:
        """Check that the change retires a prompt. Nothing can be added, because all rounds are planned at the start.

        Args:
            event: prompts, budget or examples that are added, or a prompt that is
                retired.

        Raises:
            IncompatibleMethodError: prompts, budget or examples are added.
        """
        if isinstance(event, Retired):
            return
        what = "add()" if isinstance(event, Added) else "extend()"
        raise IncompatibleMethodError(
            f"{what} requires the method 'auto' or 'race' (asktell.Adaptive, asktell.Race). This selection uses "
            f"{type(self.scheduler).__name__}, which planned its rounds for the initial prompts and budget. Make a new "
            "selector, and record the scores so far with observe()."
        )

    def rounds(self, problem: Problem) -> tuple[Round, ...]:
        """Return the rounds that the scheduler plans for a selection.

        Args:
            problem: the settings of the selection, such as prompts, goal and budget.
        """
        n_arms, budget, features = problem.n_arms, problem.budget, problem.features
        return problem.memo.get(
            self.scheduler,
            lambda: self.scheduler.checked_rounds(
                n_arms, budget, None if features is None else rank(features)
            ),
        )

    def most_decisions(self, problem: Problem) -> int:
        """Return the number of rounds: each decision but the last one plans a round.

        Args:
            problem: the settings of the selection, such as prompts, goal and budget.
        """
        return len(self.rounds(problem))

    def notes(self, state: State, name: Callable[[int], str]) -> tuple[str, ...]:
        """Return sentences on features that were not used, and on the estimator's use of them.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
            name: returns how sentences name the prompt at a position.
        """
        features = state.problem.features
        if features is None:
            return ()
        parts, notes = (self.allocator, self.estimator), []
        if not any(part.needs_features for part in parts):
            who = " and ".join(type(part).__name__ for part in parts)
            notes.append(unused_features(who, "do"))
        return (*notes, *self.estimator.remarks(features, state.told > 0))

    @needs_extra("structured")
    def estimates(
        self, state: State, active: Int[Ints, " active"], pooled: Tally | None = None
    ) -> Estimates:
        """Estimate the means of the active prompts from the scores so far.

        If there is no score at all, every mean is 0, and every standard error is NaN.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
            active: the positions of the prompts to estimate.
            pooled: the result of `state.current_tally()`, if the caller has computed it
                already.
        """
        of_round = self.data == "round"
        tally = (not of_round and pooled) or state.current_tally(of_round)
        if not tally.counts.any():
            shape = (len(active), tally.sums.shape[1])
            return Estimates(np.zeros(shape), np.full(shape, np.nan))
        problem = state.problem
        number = len(state.decisions)
        seed = counters.integers(problem.seed, "estimator", 2**31 - 1, number)
        estimates = self.estimator.checked_estimates(
            Sample(
                tally,
                active,
                problem.features,
                problem.examples.population,
                int(seed[0]),
            )
        )
        more = [
            self._in_subset(state, active, estimates.means[:, subset.column], subset)
            for subset in problem.goal.subsets
        ]
        estimates = estimates._replace(means=np.column_stack((estimates.means, *more)))
        if problem.goal.is_constrained and not self.estimator.needs_every_arm:
            return estimates._replace(
                means=_at_ends(state, active, tally, estimates.means)
            )
        return estimates

    def _in_subset(
        self,
        state: State,
        active: Int[Ints, " active"],
        overall: Float[Floats, " active"],
        subset: Subset,
    ) -> Float[Floats, " active"]:
        """The means of a column over a subset of the examples.

        A prompt without a score there has its mean over all examples.
        """
        problem, history = state.problem, state.history
        start = 0
        if self.data == "round" and state.decisions:
            start = state.decisions[-1][0]
        scores = history.scores(start)
        is_inside = problem.examples.is_in(subset, history.examples(start))
        empty = Tally.empty(problem.n_arms, scores.shape[1])
        tally = empty.plus(history.arms(start)[is_inside], scores[is_inside])
        seen = np.flatnonzero(tally.counts[active] > 0)
        means = overall.copy()
        if len(seen) == len(active) or (len(seen) and self.estimator.needs_every_arm):
            size = problem.examples.size_of(subset)
            sample = Sample(tally, active[seen], problem.features, size, 0)
            means[seen] = self.estimator.checked_estimates(sample).means[
                :, subset.column
            ]
        return means

    def answer(self, state: State) -> list[int]:
        """Return the positions of the prompts to select if nothing more is evaluated.

        These are the prompts that were accepted in earlier rounds, followed by the
        rule's choice among the active prompts. A prompt without a score is selected
        only if `needs_every_arm` of the estimator is False: the estimator then predicts
        the mean of this prompt from its features. If this leaves no prompt, because
        prompts failed or were retired, the rule chooses among the rejected prompts.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
        """
        active, tally = state.active, state.current_tally()
        if self.estimator.needs_every_arm:
            active = active[tally.counts[active] > 0]
        answer = _accepted(state)
        if len(active) and len(state.history):
            chosen = self._join(
                state, active, self.estimates(state, active, tally).means
            )
            answer += active[chosen].tolist()
        return answer or [departure.arm for departure in self._runners_up(state, tally)]

    def decide(self, state: State) -> Decided:
        """Return the next decision. It ends the current round, and plans the next round.

        The first decision only plans a round. The last decision ends the selection.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
        """
        number, baseline = len(state.decisions), state.problem.baseline
        rounds, tally = self.rounds(state.problem), state.current_tally()
        active = state.active
        # An arm whose evaluations all failed cannot be estimated from other arms. It
        # departs, unless it is the baseline.
        silent = active[:0]
        if number and self.estimator.needs_every_arm:
            is_out = (tally.counts[active] == 0) & (state.capacity()[active] == 0)
            silent = active[is_out]
        active = np.setdiff1d(active, silent)
        departures = [
            state.failures.unscored(arm) for arm in silent.tolist() if arm != baseline
        ]
        silent = silent[silent == baseline]
        # End the current round. There are more decisions than rounds if a selected
        # prompt was retired after the end.
        answer: list[int] = []
        is_last = number >= len(rounds)
        keep = len(active)
        if number and rounds:
            keep = rounds[min(number, len(rounds)) - 1].keep
        if len(active) and (is_last or len(active) > keep):
            verdicts, staying, answer = self._eliminate(
                state, active, tally, keep, is_last
            )
            departures += verdicts
            active = active[staying]
        if is_last or not len(active):
            answer = [*_accepted(state), *answer]
            if not answer:
                revived = self._runners_up(state, tally)
                departures += revived
                answer = [departure.arm for departure in revived]
            return Decided(
                number, tuple(departures), finished=True, answer=tuple(answer)
            )
        # Plan the next round. Rounds set totals, so a round makes up for the evaluations
        # that an earlier round lacked.
        total = sum(r.pulls for r in rounds[: number + 1])
        n_pulls = max(0, min(total, state.problem.budget) - state.spent)
        counts = self._allocate(
            state, np.union1d(active, silent), tally, n_pulls, number
        )
        # One number if all arms have the same.
        is_even = bool((counts == counts[0]).all())
        plan = int(counts[0]) if is_even else tuple(counts.tolist())
        return Decided(number, tuple(departures), plan)

    def _eliminate(
        self,
        state: State,
        active: Int[Ints, " active"],
        tally: Tally,
        keep: int,
        last: bool,
    ) -> tuple[list[Departure], Int[Ints, " staying"], list[int]]:
        """The departures, the positions in `active` of the arms that stay, and the departing arms that are selected.

        `keep` is the number of arms to keep. In the `last` round, all arms depart, and
        the arms that could have stayed compete for the selection.
        """
        estimates = self.estimates(state, active, tally)
        judgement = self._judge(state, active, estimates.means)
        # The baseline stays in addition to the arms that are kept.
        baseline = np.flatnonzero(active == state.problem.baseline)
        n_leaving = max(0, len(active) - keep)
        leaving = np.setdiff1d(judgement.order[:n_leaving], baseline, True)
        staying = np.union1d(judgement.order[n_leaving:], baseline)
        # An arm without a score cannot be selected, whatever its estimate, unless no
        # arm has a score.
        has_score = tally.counts[active] > 0
        if not self.estimator.needs_every_arm or not has_score.any():
            has_score[:] = True
        accepted = judgement.accepted & has_score
        if last:
            scored_staying = staying[has_score[staying]]
            means = estimates.means[scored_staying]
            chosen = scored_staying[self._join(state, active[scored_staying], means)]
            better = estimates.means[leaving[accepted[leaving]]]
            if len(baseline) and self._is_dominated(
                state, estimates.means[baseline[0]], better
            ):
                chosen = np.setdiff1d(chosen, baseline, True)
            accepted[staying] = False
            accepted[chosen] = True
            rest = np.setdiff1d(staying, chosen)
            leaving, staying = np.concatenate((leaving, chosen, rest)), staying[:0]
        scored, n_columns = bool(tally.counts.any()), len(state.problem.goal.columns)
        departures = []
        for i in leaving.tolist():
            if accepted[i] or i not in baseline:
                estimate = (
                    (estimates.means[i, :n_columns], estimates.standard_errors[i])
                    if scored
                    else None
                )
                reason = self.rule.reason(judgement, i)
                departures.append(
                    Departure.of(int(active[i]), bool(accepted[i]), reason, estimate)
                )
        return (
            departures,
            staying,
            [d.arm for d in departures if d.status == "accepted"],
        )

    @staticmethod
    def _is_dominated(
        state: State,
        means: Float[Floats, " columns"],
        leaving: Float[Floats, "leaving columns"],
    ) -> bool:
        """True if an accepted arm dominates the baseline, whose means are `means`.

        The baseline is never eliminated, so better arms may have been accepted before.
        `leaving` has the means of the arms that are accepted now.
        """
        goal = state.problem.goal
        if isinstance(goal, BestFeasible):
            return False
        accepted = [d.means for _, d in state.left.values() if d.status == "accepted"]
        # Only the means over all examples were recorded for arms that were accepted
        # before.
        n = len(goal.columns)
        everyone = [means[:n], *accepted, *(of_leaving[:n] for of_leaving in leaving)]
        values = goal.values(np.array(everyone), goal.offsets)
        return not pareto_mask(values[:, : len(goal.objectives)])[0]

    def _runners_up(self, state: State, tally: Tally) -> list[Departure]:
        """The rule's choice among the rejected arms, by their estimates when they were rejected, now accepted."""
        rejected = [
            d for _, (_, d) in sorted(state.left.items()) if d.status == "rejected"
        ]
        if self.estimator.needs_every_arm:
            rejected = [d for d in rejected if tally.counts[d.arm] > 0]
        if not rejected:
            return []
        arms = np.array([d.arm for d in rejected])
        chosen = self._choose(state, arms, np.array([d.means for d in rejected]))
        retired = any(d.status == "retired" for _, d in state.left.values())
        reason = f"the best rejected prompt, because all others have failed{' or were retired' * retired}"
        return [rejected[i]._replace(status="accepted", reason=reason) for i in chosen]

    def _judge(
        self,
        state: State,
        arms: Int[Ints, " some"],
        means: Float[Floats, "some columns"],
    ) -> Judgement:
        """The judgement of the rule on the arms. Chance decides among equals."""
        problem, bounds = state.problem, bounds_of(state, arms, means)
        order = counters.chance_order(problem.seed, arms)
        judgement = self.rule.checked_judgement(
            problem.goal.values(means[order], bounds)
        )
        place = np.argsort(order)
        return Judgement(
            order[judgement.order], judgement.accepted[place], judgement.measure[place]
        )

    def _choose(
        self,
        state: State,
        arms: Int[Ints, " some"],
        means: Float[Floats, "some columns"],
    ) -> Int[Ints, " chosen"]:
        """Positions of the arms that the rule selects. Chance decides among equals."""
        problem, bounds = state.problem, bounds_of(state, arms, means)
        order = counters.chance_order(problem.seed, arms)
        values = problem.goal.values(means[order], bounds)
        return order[self.rule.checked_answer(values)]

    def _join(
        self,
        state: State,
        arms: Int[Ints, " some"],
        means: Float[Floats, "some columns"],
    ) -> Int[Ints, " chosen"]:
        """Positions of the arms that are accepted now. Infeasible arms only if no arm was accepted before."""
        goal, chosen = state.problem.goal, self._choose(state, arms, means)
        if not _accepted(state):
            return chosen
        values = goal.values(means[chosen], bounds_of(state, arms, means))
        slacks = values[:, len(goal.objectives) :]
        return chosen[(slacks >= 0).all(axis=1)]

    @needs_extra("structured")
    def _allocate(
        self,
        state: State,
        active: Int[Ints, " active"],
        tally: Tally,
        n_pulls: int,
        number: int,
    ) -> Int[Ints, " active"]:
        """The number of evaluations of each active arm in the next round."""
        problem = state.problem
        features = problem.features
        pulls = PullsToShare(
            n_pulls=n_pulls,
            pulled=tally.counts[active],
            capacity=state.capacity()[active],
            priority=counters.permutation(problem.seed, "ties", len(active), number),
            features=None if features is None else features[active],
        )
        return self.allocator.checked_counts(pulls)


def _at_ends(
    state: State,
    active: Int[Ints, " active"],
    tally: Tally,
    means: Float[Floats, "active columns"],
) -> Float[Floats, "active columns"]:
    """The estimates of a model, but sample means where a bound at an end of the scale requires them.

    If every score of an arm satisfies such a bound, the arm satisfies it. An estimate
    of the model may lie on the other side of the bound.
    """
    goal, history, means = state.problem.goal, state.history, means.copy()
    satisfied, _ = at_an_end(
        goal, history.arms(), history.scores(), state.problem.n_arms
    )
    sample_means = tally.means[active]
    slacks, seen = (
        goal.values(estimates, goal.offsets)[:, len(goal.objectives) :]
        for estimates in (means, sample_means)
    )
    for k, (j, *_) in enumerate(goal.bounds):
        if satisfied[:, k].any():
            wrong = satisfied[active, k] | ((slacks[:, k] >= 0) & (seen[:, k] < 0))
            wrong &= tally.counts[active] > 0
            means[wrong, j] = sample_means[wrong, j]
    return means


def bounds_of(
    state: State, arms: Int[Ints, " some"], means: Float[Floats, "some columns"]
) -> Float[Floats, " bounds"]:
    """The bounds of the goal, given the means of the arms and the last estimates of eliminated arms.

    An eliminated prompt may still be the best prompt, to which a bound is relative. If
    the reference of a bound has no score yet, every prompt satisfies the bound.
    """
    goal = state.problem.goal
    if not goal.is_relative:
        return goal.offsets
    n_columns, tally = len(goal.columns), state.current_tally()
    last_means = np.where(tally.counts[:, None] > 0, tally.means, np.nan)
    for arm, (_, departure) in state.left.items():
        if departure.status in ("accepted", "rejected") and departure.means is not None:
            last_means[arm] = departure.means
    last_means[arms] = means[:, :n_columns]
    among = np.setdiff1d(np.arange(state.problem.n_arms), state.left.no_rivals())
    bounds = goal.resolved(last_means, among)
    violated_by_none = np.where(
        [bound.at_most for bound in goal.bounds], np.inf, -np.inf
    )
    return np.where(np.isnan(bounds), violated_by_none, bounds)


def _accepted(state: State) -> list[int]:
    """The arms that were accepted in earlier rounds."""
    return [
        arm
        for arm, (_, departure) in state.left.items()
        if departure.status == "accepted"
    ]
