"""Adaptive, the method behind "auto": evaluate the prompts that may be best, and select by the posterior.

Steps of the algorithm. The functions below name the step that they implement.

1. **Field.** All A prompts take part. If the goal is a single best prompt and the
   budget allows fewer than two evaluations each, only as many prompts take part as the
   budget covers at two evaluations each. Chance picks them.
2. **First evaluations.** Every prompt of the field is evaluated once, in one plan.
   About eight prompts share an example. Candidates with factors are treated
   differently: a third of the budget goes to candidates that cover the levels of the
   factors evenly. Where proxies have scores of every prompt, a third of the budget goes
   to prompts that chance picks.
3. **Prompts.** Each later decision samples distinct prompts at random, in proportion to
   a weight (`belief.py`).
   - Best feasible prompt: the share of posterior draws in which the prompt is best or
     second best. This is top-two Thompson sampling (Russo 2016). The candidates narrow
     with the budget: after a part f of it, or of what its last extension gave, only the
     A^(1 - f^l) prompts of the highest expected quality, at least two, can be sampled.
     The quality in a draw is 1 for the best feasible prompt, and 0 for the median
     prompt and for infeasible prompts. Usually, l is 1. Without constraints, with more
     than three evaluations per prompt and until an extension, l is larger, so the
     prompts narrow later (`_lateness`). Prompts with few evaluations are then preferred,
     so that a bad start of a good prompt is found out.
   - Pareto set: p (1 - p), where p is the probability that the prompt belongs to the
     set.
   The weight of a prompt shrinks with its evaluations in progress, with its failures,
   and with its cost if the budget limits the cost. A decision samples as many prompts
   as are in doubt (their effective number), but at most the part `batch` of the field.
   A baseline with fewer scores than the leading prompts comes first.
4. **Examples.** Each sampled prompt gets an example that is new to it. Among the
   examples in use, this is the example that most prompts in doubt have seen, or the
   most informative example (`asktell.methods.auto.design`). A new example comes into use
   once in `share` evaluations.
5. **Plan.** The plan holds one evaluation of each sampled prompt, and is repeated until
   it holds an eighth of the evaluations so far for a single best prompt, and otherwise
   (also with factors, proxies or `confidence`) a sixteenth. There are no rounds and no
   barrier, since plans are made while evaluations are in progress. A prompt is
   eliminated before the end only because of failures or by `retire`.
6. **Selection.** The selected prompt or set has the highest expected quality among the
   evaluated prompts. Results state the same posterior (`asktell.posterior.statement`).
   With `sure`, it has the highest mean among the prompts that satisfy the constraints
   with that probability.
7. **Early stop**, only with `confidence`. All prompts take part, and take their
   examples in one common order. As soon as the posterior is sure enough, step 3 chooses
   the prompts with unproven claims instead. The selection ends when no claim is left to
   prove (`asktell.proofs.claims`).

An arm is the position of a prompt. `_Look` has the sets of arms that a decision uses.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, final, get_args

import numpy as np
from msgspec import structs

from asktell.errors import InvalidArgumentError
from asktell.methods.auto import answer, design
from asktell.methods.auto.belief import Belief, believe, by_chance, even_order
from asktell.methods.base import AbstractMethod, open_arms
from asktell.numerics import counters
from asktell.numerics.arrays import Bools, Floats, Ints
from asktell.numerics.shapes import Bool, Float, Int
from asktell.posterior import membership
from asktell.posterior.of_state import stated
from asktell.posterior.statement import Statement
from asktell.problem.checks import check_number, check_part, whole
from asktell.problem.goals import BestFeasible
from asktell.problem.problem import Problem
from asktell.problem.words import short
from asktell.proofs.standing import standing
from asktell.record import Added, Decided, Departure, Extended, State

# Chosen on synthetic problems and on the development half of the recorded tables:
# docs/explanation/what-was-tried.md.

# Prompts per example before anything is known: enough examples that no single example
# decides which prompts stay.
_FIRST_SHARE = 8.0
# The same where means are compared with constraints.
_BOUNDED_SHARE = 6.0
# The same where the levels of factors explain most of the variance. Of 2, 4 and 8, best
# on pairs of models.
_FACTORS_SHARE = 4.0
# Share of the variance between prompts from which the levels of factors explain most of
# it.
_MOSTLY = 0.5
# Average number of evaluations that the search for a best prompt needs. A smaller
# budget is spent on fewer prompts.
_PULLS_EACH = 2.0
# Part of the budget for the first arms, where factors or proxies predict the others.
_FIRST_PART = 1 / 3
# Evaluations below which the scores are too few to learn the effects of levels
# (`benchmarks.selection.factors`).
_FEWEST_FOR_FACTORS = 60

# Bounds on the cost of a decision.

# Evaluations so far, for each evaluation that the next plan may hold. One more in
# sixteen changes the posterior little, and delays a stop by no more than that.
_ASKED_PER_PLANNED = 16
# The same for a single best prompt, if no stop is waited for. Halves the cost of
# decisions.
_ASKED_PER_PLANNED_FOR_BEST = 8
# The largest exponent of f, the part of the budget that is used: A^(1 - f^1.5) prompts
# can be sampled. Better than 1 where one of 100 prompts is far ahead
# (`benchmarks.selection.best_arm --worlds`), since a prompt with an unlucky first score
# is sampled again. With three evaluations per prompt, a larger exponent than 1 loses on
# tables of models, and from five on, it loses nothing there. With constraints, nothing
# is gained. In the steps of a budget that is extended, it loses
# (`benchmarks.selection.extensions`).
_LATEST = 1.5
_EVALUATIONS_FOR_LATE = (3.0, 5.0)
# Tries of a prompt without a score before others come first. Six failures of six
# eliminate it at a rate of 1/2.
_TRIES = 6
# Weight of a contender that is in no draw on top, below the weight of one of 256 draws.
_LEAST_WEIGHT = 1e-3
# With so many draws, the standard error of a probability is 0.005 at most.
_MOST_DRAWS = 10_000


ConfidenceKind: TypeAlias = Literal["proof", "posterior"]
_Plan: TypeAlias = tuple[tuple[int, int], ...]
"""Pairs of an arm and an example, in the order in which they are asked for."""


class _Look(NamedTuple):
    """What one decision reads in the state, so that the state counts it once.

    - `state`: the state.
    - `field`: the arms that take part (step 1).
    - `first`: the arms that are evaluated once at first (step 2). None: all.
    - `open_`: the arms of the field with an evaluation left that the budget allows.
    - `room`: the number of evaluations that the budget still allows.
    - `n_scores`, `n_failed`, `n_out`: of each arm, the number of scores, of failed
      evaluations, and of evaluations in progress.
    """

    state: State
    field: Int[Ints, " field"]
    first: Int[Ints, " first"] | None
    open_: Int[Ints, " open"]
    room: int
    n_scores: Int[Ints, " arms"]
    n_failed: Int[Ints, " arms"]
    n_out: Int[Ints, " arms"]

    @classmethod
    def of(
        cls,
        state: State,
        field: Int[Ints, " field"],
        first: Int[Ints, " first"] | None,
        open_: Int[Ints, " open"],
        room: int,
    ) -> "_Look":
        """The state on which this decision is based."""
        n_failed = state.missing.per_arm(state.problem.n_arms)
        n_out = _pulls_out(state)
        return cls(state, field, first, open_, room, state.told, n_failed, n_out)


@final
@dataclass(frozen=True)
class Adaptive(AbstractMethod):
    """Evaluate the prompts that may be the best. The method "auto" is `Adaptive()`.

    One statistical model describes all scores. In this model, a score depends on how
    good the prompt is and on how hard the example is. From the scores so far, the model
    gives the probability that each prompt is the best, or belongs to the Pareto set.
    The method evaluates the prompts for which this is in doubt. At the end, it selects
    the prompt or the set of the highest expected quality. The quality of a prompt is 1
    if it is the best, and 0 if it violates a constraint or is no better than the median
    prompt. The quality of a set is high if it has the right prompts and reaches most of
    the hypervolume.

    Args:
        share: The average number of evaluations per example in use. A new example comes
            into use after every `share` evaluations, and also when a prompt was
            evaluated on every example in use. None: 8 for the first evaluation of each
            prompt. For later evaluations, 6 if the goal has constraints, and otherwise
            the number of prompts. There is one exception: 4 if the prompts are
            `Candidates`, their factors explain more than half of the variance between
            them, and the budget is at least 60 evaluations. With `confidence`, `share`
            has no effect: each prompt is then evaluated on the examples one after the
            other, in one order for all prompts.
        batch: One decision plans evaluations of at most this fraction of the prompts,
            but of at least one prompt. The first decision plans an evaluation of every
            prompt.
        draws: The number of random samples from the model's posterior in each decision,
            at most 10,000. Each sample is one possible set of true means of all
            prompts. With thousands of prompts, fewer samples are drawn. There are always
            at least 64.
        confidence: Stop before the budget is spent, as soon as every prompt has a score
            and the selection is right with this probability, such as 0.95. None: spend
            the whole budget.
        confidence_kind: When the selection counts as right. "proof": both the
            statistical model and confidence sequences show that it is right. Confidence
            sequences do not depend on the model, and stay valid however often they are
            checked. For a metric without a range, they are an approximation that
            becomes better with more examples. "posterior": the model alone shows it.
            This needs fewer evaluations. But the confidence is right only if scores
            behave as the model assumes. Even then, it is an average over many different
            selections: for one kind of prompts and data, the selection may be wrong
            more often. With "proof", it holds for each kind if every metric has a
            range.

    With `confidence`, a selection that is worse than the best by at most the tolerance
    counts as right, and so does a selected prompt that violates a constraint by at most
    the constraint's tolerance. The goal states the tolerances, such as
    `asktell.maximize("accuracy", range=(0, 1), tolerance=0.02)`. Without a tolerance,
    equally good prompts delay the stop, because no scores show which of them is better.

    Some trials may be in progress when the selection ends. Their scores are still
    recorded, but do not change the selection.
    """

    share: float | None = None
    batch: float = 0.25
    draws: int = 256
    confidence: float | None = None
    confidence_kind: ConfidenceKind = "proof"
    has_rounds = False

    def __post_init__(self) -> None:
        """Validate the parameters.

        Raises:
            InvalidArgumentError: a parameter is out of range, or needs `confidence`.
        """
        checked: dict[str, Any] = {
            "draws": whole("draws of Adaptive", self.draws, 1, _MOST_DRAWS),
        }
        for name, number in (("share", self.share), ("batch", self.batch)):
            if number is not None or name == "batch":
                what = f"{name} of Adaptive"
                checked[name] = check_number(what, number, 0.0, 2.0**31, above=True)
        if self.confidence is not None:
            confidence = check_part("confidence of Adaptive", self.confidence)
            checked["confidence"] = confidence
        vars(self).update(checked)
        if self.confidence_kind not in get_args(ConfidenceKind):
            kind = short(self.confidence_kind)
            raise InvalidArgumentError(
                f'confidence_kind of Adaptive must be "proof" or "posterior", got {kind}.'
            )
        if self.confidence_kind != "proof" and self.confidence is None:
            raise InvalidArgumentError(
                "confidence_kind of Adaptive requires confidence: Adaptive(confidence=0.95, ...)."
            )

    def check(self, problem: Problem) -> None:
        """Check that the method supports the problem.

        Without `confidence`, it supports every goal and budget.

        Args:
            problem: the settings of the selection, such as prompts, goal and budget.

        Raises:
            IncompatibleMethodError: `confidence` is given, and the goal uses segments
                (`in_every_segment` or `worst_segment`).
        """
        if self.confidence is not None:
            problem.goal.check_over_all_examples("Adaptive(confidence=...)")

    def due(self, state: State) -> bool:
        """Return True if the plan is used up and more can be planned, or if no more scores can come.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
        """
        # The end waits for all scores, and a plan does not.
        return super().due(state) or (
            state.plan_is_empty
            and state.room > 0
            and bool(open_arms(state)[self._field(state, self._first(state))].any())
        )

    def decide(self, state: State) -> Decided:
        """Return the next decision. It plans the next evaluations, or ends the selection.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
        """
        # Step 1: the field.
        first = self._first(state)
        field = self._field(state, first)
        open_ = field[open_arms(state)[field]]
        room = state.room
        if not room or not len(open_):
            returned = state.plan.returned
            if not state.pending and any(state.fits(pull.arm) for pull in returned):
                # The first of the returned evaluations has become too expensive, but
                # not all. An empty plan drops those that do not fit.
                return Decided(len(state.decisions), plan=())
            return self.finish(state)
        # Draws of the field only: prompts that take no part must not share its weight.
        belief = believe(state, self.draws, among=field)
        # Step 7: the early stop.
        unproven_arms = (
            None if self.confidence is None else self._unproven(state, belief)
        )
        if unproven_arms is not None and not len(unproven_arms):
            return structs.replace(self.finish(state), settled=True)
        # Steps 2 and 3: the prompts. Candidates with factors may be more than the budget
        # can evaluate. The field then counts as no larger than the budget.
        size = len(field) if first is None else min(len(field), state.problem.budget)
        n_prompts = min(room, max(1, round(self.batch * size)))
        look = _Look.of(state, field, first, open_, room)
        arms = self._choose(look, n_prompts, belief, unproven_arms)
        # Step 5: the size of the plan.
        n_asked = state.spent + len(state.missing) + len(state.pending)
        is_large = self.confidence is None and _is_simple(look, belief)
        per_planned = _ASKED_PER_PLANNED_FOR_BEST if is_large else _ASKED_PER_PLANNED
        n_pulls = min(room, max(len(arms), n_asked // per_planned))
        # Step 4: the examples.
        plan = self._plan(look, arms, n_pulls, belief)
        return Decided(len(state.decisions), plan=plan)

    def answer(self, state: State) -> list[int]:
        """Return the positions of the prompts to select if nothing more is evaluated. Each of them has a score.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
        """
        return _answer(state, stated(state))

    # Step 7: the early stop

    def _unproven(
        self, state: State, belief: Belief | None
    ) -> Int[Ints, " open"] | None:
        """The arms with unproven claims, empty if the selection is right with the required confidence.

        None as long as the posterior is not sure enough, or the scores are too few or
        doubtful.
        """
        if self.confidence is None or belief is None or state.remarks.doubts:
            return None
        active = state.active
        if not state.told[active].all():
            return None
        statement = stated(state)
        if statement is None or statement.is_guess:
            return None
        # Only active arms compete, since failed and retired arms cannot be selected.
        chosen = _answer(state, statement)
        goal = state.problem.goal
        right = membership.settled(
            statement.values[:, active],
            np.searchsorted(active, chosen),
            isinstance(goal, BestFeasible),
            goal.value_tolerances,
            len(goal.objectives),
        )
        if float(right.mean()) < self.confidence:
            return None
        # No claim to prove: the posterior is sure enough already.
        if self.confidence_kind == "posterior":
            return active[:0]
        return standing(state, self.confidence, chosen, statement.means).open

    # Step 6: the selection

    def finish(self, state: State) -> Decided:
        """Return the decision that ends the selection now, by the scores so far. Some of the budget may be left.

        Args:
            state: the state of the selection: its settings, and all that was recorded.
        """
        statement = stated(state)
        chosen = _answer(state, statement)
        # Arms that have no score and will never have one.
        silent = (state.told == 0) & ~state.have_pulls()
        departures = []
        for arm in state.active.tolist():
            # The baseline is never eliminated, and stays active.
            if arm == state.problem.baseline and arm not in chosen:
                continue
            if statement is None or silent[arm]:
                departures.append(state.failures.unscored(arm))
                continue
            reason = "selected" if arm in chosen else "not selected"
            departures.append(
                Departure.of(
                    arm,
                    arm in chosen,
                    reason,
                    (statement.means[arm], statement.errors[arm]),
                )
            )
        return Decided(
            len(state.decisions), tuple(departures), finished=True, answer=tuple(chosen)
        )

    # Step 2: the first evaluations

    def _first(self, state: State) -> Int[Ints, " first"] | None:
        """The arms that are evaluated once before the posterior chooses, in this order. None: all arms, by chance.

        With factors, the scores of other arms with the same levels predict an arm that
        was never evaluated. If proxies have scores of every arm, these predict it. So
        only a part of the budget goes to first evaluations: of arms that cover the levels evenly, or
        that chance picks. Prompts that were added later, and the baseline, follow.
        """
        problem, origin = state.problem, state.growth.origin
        if self.confidence is not None:
            return None
        first, n_first = None, math.ceil(_FIRST_PART * problem.budget)
        if problem.budget >= _FEWEST_FOR_FACTORS:
            first = even_order(origin, n_first)
        if first is None and state.proxies.cover(problem.n_arms):
            first = by_chance(origin, np.arange(origin.n_arms))[:n_first]
        if first is None:
            return None
        joined = np.arange(origin.n_arms, problem.n_arms)
        baseline = [] if problem.baseline is None else [problem.baseline]
        return np.concatenate((first, joined, baseline)).astype(np.int64)

    # Step 1: the field

    def _field(
        self, state: State, first: Int[Ints, " first"] | None
    ) -> Int[Ints, " field"]:
        """The active arms that take part, ascending: all of them, unless the budget is small for a single best prompt.

        A small budget finds the best of some prompts more reliably than the best of all
        prompts. So as many prompts take part as the budget covers at two evaluations
        each, drawn by chance. Prompts that were evaluated or added later, and the
        baseline, always take part.
        """
        problem, active = state.problem, state.active
        pulls_each = min(_PULLS_EACH, problem.examples.most_pulls or _PULLS_EACH)
        size = max(2, math.ceil(problem.budget / pulls_each))
        is_best = isinstance(problem.goal, BestFeasible)
        if (
            not is_best
            or self.confidence is not None
            or len(active) <= size
            or first is not None
        ):
            return active
        certain = state.told + _pulls_out(state) > 0
        certain[state.growth.origin.n_arms :] = True
        if problem.baseline is not None:
            certain[problem.baseline] = True
        order = by_chance(problem, active)
        order = order[np.argsort(~certain[order], kind="stable")]
        chosen = np.sort(order[: max(size, int(certain[active].sum()))])
        return chosen if open_arms(state)[chosen].any() else active

    # Step 3: the prompts

    def _choose(
        self,
        look: _Look,
        n_prompts: int,
        belief: Belief | None,
        unproven_arms: Int[Ints, " open"] | None,
    ) -> Int[Ints, " chosen"]:
        """Distinct arms to evaluate next.

        In this order: arms without an evaluation (step 2), arms with unproven claims
        (step 7), else a random sample by weight (step 3). `n_prompts` is the most that
        the last two return.
        """
        state, open_, n_out = look.state, look.open_, look.n_out
        # Random numbers are a function of seed, decision and arm, and not of a generator's
        # state. So every process of a study makes the same decision.
        bits = counters.bits(state.problem.seed, "choose", len(state.decisions), open_)
        # (open,) uniform numbers in (0, 1), from the upper 53 of 64 random bits.
        uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
        new = self._new_arms(look, uniform)
        if len(new):
            return new
        to_prove = (
            open_[:0] if unproven_arms is None else np.intersect1d(unproven_arms, open_)
        )
        if len(to_prove):
            # Claims compare arms on common examples, so arms with fewer scores come
            # first.
            n_asked = (look.n_scores + n_out)[to_prove]
            return to_prove[np.argsort(n_asked, kind="stable")][:n_prompts]
        # No score yet: all first evaluations are in progress or have failed.
        if belief is None:
            return open_[np.argsort(uniform, kind="stable")][:n_prompts]
        weight = self._weights(look, belief)
        # The effective number of prompts in doubt (Kish 1965), rounded up. Without the
        # 1e-9, an error of rounding could make it one more.
        effective = math.ceil(weight.sum() ** 2 / (weight**2).sum() - 1e-9)
        # Weighted sampling without replacement (Efraimidis & Spirakis 2006).
        order = open_[np.argsort(-np.log(uniform) / (weight + 1e-9), kind="stable")]
        chosen = order[: max(1, min(n_prompts, effective))]
        baseline = state.problem.baseline
        if baseline is None or baseline not in open_ or baseline in chosen:
            return chosen
        if not _is_behind(look, baseline):
            return chosen
        # In the place of the last sampled arm, if the decision has no room for more
        return np.concatenate((np.array([baseline]), chosen))[:n_prompts]

    def _new_arms(
        self, look: _Look, uniform: Float[Floats, " open"]
    ) -> Int[Ints, " new"]:
        """Step 2: the open arms to evaluate for the first time, as far as the budget goes. Empty if there are none."""
        open_, first = look.open_, look.first
        n_asked = look.n_scores + look.n_out
        is_new = (n_asked[open_] == 0) & (look.n_failed[open_] < _TRIES)
        turn = uniform
        if first is not None:
            place = np.full(look.state.problem.n_arms, np.inf)
            # An arm may be in `first` twice. Written backwards, its first place
            # remains.
            place[first[::-1]] = np.arange(len(first), 0.0, -1.0)
            turn = place[open_]
            is_new &= np.isfinite(turn)
        order = open_[np.argsort(np.where(is_new, turn, np.inf), kind="stable")]
        return order[: min(int(is_new.sum()), look.room)]

    def _weights(self, look: _Look, belief: Belief) -> Float[Floats, " open"]:
        """The sampling weight of each open arm in [0, 1], the largest 1."""
        state, open_ = look.state, look.open_
        contend = self._contend(look, belief)
        weight = np.where(contend, belief.weight[open_] + _LEAST_WEIGHT, 0.0)
        n_scores = look.n_scores
        # A score in progress is information to come, so a further one is worth a
        # fraction.
        if _lateness(look, belief) > 1.0:
            # One more of n scores lowers the variance of the mean by a share of
            # 1 / n - 1 / (n + 1).
            n_asked = np.maximum(1.0, (n_scores + look.n_out)[open_])
            weight = weight / (n_asked * (n_asked + 1.0))
        else:
            weight = weight / (1.0 + look.n_out[open_])
        # An evaluation is worth as much as its chance of a score.
        weight *= ((1.0 + n_scores) / (1.0 + n_scores + look.n_failed))[open_]
        # Information per unit of cost, where the cost is what runs out
        if state.problem.max_cost is not None:
            weight = weight / state.costs.expected_all(state.problem.n_arms)[open_]
        top = float(weight.max())
        return weight / top if top > 0 else np.ones(len(weight))

    def _contend(self, look: _Look, belief: Belief) -> Bool[Bools, " open"]:
        """Whether each open arm may be sampled at this point of the budget.

        For the best feasible prompt, the contenders narrow from A arms to two. After a
        part f of the budget, they are the A^(1 - f^l) arms of the highest expected
        quality, where l is the `_lateness`. No arm is dropped permanently. For an arm
        that was added later, and after an extension of the budget, f is the part that
        was spent since, of the budget that was left at that time.
        """
        state, open_ = look.state, look.open_
        if belief.expected is None:
            return np.ones(len(open_), dtype=bool)
        n_arms = len(look.field)
        ages, age_of = np.unique(_ages(state)[open_], return_inverse=True)
        lateness = _lateness(look, belief)
        n_contenders = np.array(
            [
                max(2, math.ceil(n_arms ** (1.0 - age**lateness)))
                for age in ages.tolist()
            ]
        )
        # The rank of each open arm by expected quality, 0 for the highest. Chance
        # decides among equals.
        order = counters.chance_order(state.problem.seed, open_)
        rank = np.empty(len(open_), dtype=np.int64)
        rank[order[np.argsort(-belief.expected[open_][order], kind="stable")]] = (
            np.arange(len(open_))
        )
        return np.asarray(rank < n_contenders[age_of])

    # Step 4: the examples, a function for each case

    def _plan(
        self,
        look: _Look,
        arms: Int[Ints, " chosen"],
        n_pulls: int,
        belief: Belief | None,
    ) -> _Plan:
        """Pairs of arm and example: one for each arm, repeated until there are `n_pulls` or no pair is left."""
        state, first = look.state, look.first
        # Examples cannot be chosen where each evaluation draws its own.
        if state.problem.examples.population is None:
            return _drawn_cells(state, arms, n_pulls)
        if self.confidence is not None:
            return _cells_in_order(state, arms, n_pulls)
        if belief is None:
            return self._first_cells(state, arms, n_pulls, None)
        # Chosen arms that need a first score. Where factors or proxies predict the other
        # arms, these need none.
        needing = arms if first is None else np.intersect1d(arms, first)
        is_first = not look.n_scores[needing].all()
        # The last open arm, and the last evaluation, need no comparison. So they may
        # repeat an example if its scores are noisy.
        is_only_one = len(look.open_) == 1 or look.room == 1
        noise = (
            belief.noise if is_only_one and state.problem.examples.is_noisy else None
        )
        if is_first and state.growth.events:
            return self._cells_of_added(state, arms, n_pulls, belief)
        if is_first:
            return self._first_cells(state, arms, n_pulls, noise)
        has_factors = first is not None and state.problem.candidates is not None
        if has_factors and belief.explained > _MOSTLY:
            return self._cells_of_factors(state, arms, n_pulls, noise)
        return self._cells_in_doubt(state, arms, n_pulls, belief, noise)

    def _first_cells(
        self,
        state: State,
        arms: Int[Ints, " chosen"],
        n_pulls: int,
        noise: design.CellNoise | None,
    ) -> _Plan:
        """The first evaluations (step 2): about eight arms share an example."""
        share = _FIRST_SHARE if self.share is None else self.share
        return _shared_cells(state, arms, n_pulls, share, noise=noise)

    def _cells_of_added(
        self, state: State, arms: Int[Ints, " chosen"], n_pulls: int, belief: Belief
    ) -> _Plan:
        """One evaluation of each arm that was added, on examples that compare it with the existing arms in doubt."""
        problem = state.problem
        used_arms, used = _used_places(state, problem.examples.informative_place)
        share = _FIRST_SHARE if self.share is None else self.share
        arms = arms[:n_pulls]
        places = design.joining_examples(
            arms, used_arms, used, len(problem.examples.order), share, belief.weight
        )
        return tuple(
            zip(
                arms.tolist(),
                problem.examples.informative_order[places].tolist(),
                strict=True,
            )
        )

    def _cells_of_factors(
        self,
        state: State,
        arms: Int[Ints, " chosen"],
        n_pulls: int,
        noise: design.CellNoise | None,
    ) -> _Plan:
        """Spread the arms over more examples, where the levels of factors explain most of the scores.

        Candidates with a level in common often score alike on an example, so a few
        examples would reveal little about the level.
        """
        share = _FACTORS_SHARE if self.share is None else self.share
        return _shared_cells(state, arms, n_pulls, share, noise=noise)

    def _cells_in_doubt(
        self,
        state: State,
        arms: Int[Ints, " chosen"],
        n_pulls: int,
        belief: Belief,
        noise: design.CellNoise | None,
    ) -> _Plan:
        """The examples that most prompts in doubt have seen, or that are most informative."""
        share = self.share
        if share is None:
            # Differences between prompts need common examples. A comparison with a
            # constraint needs many examples.
            share = (
                _BOUNDED_SHARE
                if state.problem.goal.is_constrained
                else float(state.problem.n_arms)
            )
        return _shared_cells(
            state, arms, n_pulls, share, belief.weight, belief.informative, noise
        )


def _drawn_cells(state: State, arms: Int[Ints, " chosen"], n_pulls: int) -> _Plan:
    """The arms in turn, where each evaluation draws its own example."""
    nth, row = np.divmod(np.arange(n_pulls), len(arms))
    examples = state.problem.examples.draw(arms[row], state.plan.draws[arms[row]] + nth)
    return tuple(zip(arms[row].tolist(), examples.tolist(), strict=True))


def _cells_in_order(state: State, arms: Int[Ints, " chosen"], n_pulls: int) -> _Plan:
    """The arms in turn, each on the first example of the common order that it has used least (step 7).

    The order does not depend on any score, as the confidence sequences require.
    """
    problem = state.problem
    used_arms, used = _used_places(state, problem.examples.place)
    free = {arm: _unused(used[used_arms == arm], problem) for arm in arms.tolist()}
    cells: list[tuple[int, int]] = []
    while len(cells) < n_pulls and free:
        for arm in list(free):
            place = next(free[arm], None)
            if place is None:
                del free[arm]
            else:
                cells.append((arm, int(problem.examples.order[place])))
    return tuple(cells[:n_pulls])


def _shared_cells(
    state: State,
    arms: Int[Ints, " chosen"],
    n_pulls: int,
    share: float,
    doubt: Float[Floats, " arms"] | None = None,
    informative: design.Informative | None = None,
    noise: design.CellNoise | None = None,
) -> _Plan:
    """Cells chosen by `design.next_examples`, one for each arm, repeated until there are enough or none is left.

    See `design.next_examples` for the arguments from `share` on.
    """
    problem = state.problem
    used_arms, used = _used_places(state, problem.examples.informative_place)
    arms, places = design.next_turns(
        n_pulls,
        arms,
        used_arms,
        used,
        len(problem.examples.order),
        share,
        doubt,
        informative,
        problem.examples.repeats,
        noise,
    )
    examples = problem.examples.informative_order[places].tolist()
    return tuple(list(zip(arms.tolist(), examples, strict=True))[:n_pulls])


# Step 3: the prompts


def _is_simple(look: _Look, belief: Belief | None) -> bool:
    """True if the goal is a single best prompt, and neither factors nor proxies predict the scores."""
    return belief is not None and belief.expected is not None and look.first is None


def _lateness(look: _Look, belief: Belief | None) -> float:
    """How late the prompts narrow: 1, or up to 1.5 with many evaluations per prompt, no constraint and no extension."""
    state = look.state
    is_extended = any(isinstance(event, Extended) for *_, event in state.growth.events)
    if not _is_simple(look, belief) or state.problem.goal.constraints or is_extended:
        return 1.0
    n_used = state.spent + len(state.pending)
    part = _part_spent(state.problem, n_used, state.costs.total)
    # Of the whole budget. A budget in money counts by the mean cost so far
    per_arm = n_used / part / state.problem.n_arms if part else 0.0
    return float(np.interp(per_arm, _EVALUATIONS_FOR_LATE, (1.0, _LATEST)))


def _ages(state: State) -> Float[Floats, " arms"]:
    """For each arm the share of the budget that was used since the arm was added, from 0 to 1.

    The share is of the budget that was left at that time. It also begins at 0 when the
    budget is extended. So what an extension gives is
    spent as a budget of its own, and a budget in steps is as good as one budget
    (`benchmarks.selection.extensions`).
    """
    # Pending trials count as used evaluations, but their cost does not count.
    n_used = state.spent + len(state.pending)
    now = _part_spent(state.problem, n_used, state.costs.total)
    began, first = np.zeros(state.problem.n_arms), state.growth.origin.n_arms
    for _, spent, cost, event in state.growth.events:
        then = min(now, _part_spent(state.problem, spent, cost))
        if isinstance(event, Added):
            began[first : first + len(event.texts)] = then
            first += len(event.texts)
        elif isinstance(event, Extended) and (event.evaluations or event.cost):
            began[:first] = then
    return np.asarray((now - began) / np.maximum(1.0 - began, 1e-12))


def _part_spent(problem: Problem, n_used: int, cost: float) -> float:
    """The share of the budget that is used, from 0 to 1. If evaluations and cost are limited, the larger share."""
    of_cost = 0.0 if problem.max_cost is None else cost / problem.max_cost
    return min(1.0, max(n_used / problem.budget, of_cost))


def _is_behind(look: _Look, baseline: int) -> bool:
    """True if the baseline has fewer scores than another prompt, so that a comparison with it lacks examples."""
    # If most evaluations of the baseline fail, further tries do not help, so failures
    # beyond its scores count.
    failures_beyond = np.maximum(0, look.n_failed - look.n_scores)
    tried = look.n_scores + look.n_out + failures_beyond
    return bool(tried[baseline] < look.n_scores.max())


# Step 6: the selection


def _answer(state: State, statement: Statement | None) -> list[int]:
    """The selected arms, according to a statement. Empty without one."""
    if statement is None:
        return []
    problem, goal = state.problem, state.problem.goal
    allowed = by_chance(problem, state.active[state.told[state.active] > 0])
    if isinstance(goal, BestFeasible) and goal.sure is not None and len(allowed):
        return [_surest(statement, goal.sure, allowed)]
    means = statement.means[:, : len(goal.columns)]
    estimates = goal.values(means, goal.offsets)[:, 0]
    return answer.selected(
        statement.values,
        statement.kept,
        goal,
        problem.seed,
        allowed,
        state.told,
        estimates,
        statement.alike,
    )


def _surest(statement: Statement, sure: float, arms: Int[Ints, " some"]) -> int:
    """The arm of the highest mean among the arms that are feasible with probability `sure`.

    If no arm is, the arm with the highest probability of being feasible.
    """
    p_feasible = membership.feasible(statement.values[:, arms]).mean(axis=0)
    is_sure = p_feasible >= sure
    if not is_sure.any():
        return int(arms[p_feasible.argmax()])
    means = statement.values[:, arms, 0].mean(axis=0)
    return int(arms[np.where(is_sure, means, -np.inf).argmax()])


# Bookkeeping


def _used_places(
    state: State, place: Int[Ints, " examples"]
) -> tuple[Int[Ints, " cells"], Int[Ints, " cells"]]:
    """Arms, and places of examples, of the cells that have a score, are in progress or have failed.

    A cell that was asked for several times is listed as often. `place` (N,) maps
    examples to places.
    """
    arms, examples, asks = state.used_cells()
    times = np.minimum(asks, state.problem.examples.repeats)
    return np.repeat(arms, times), np.repeat(place[examples], times)


def _unused(places: Int[Ints, " used"], problem: Problem) -> Iterator[int]:
    """The places that do not occur in `places`, ascending. Then the places that occur at most once, and so on."""
    times = np.bincount(places, minlength=len(problem.examples.order))
    for nth in range(problem.examples.repeats):
        for place in np.flatnonzero(times <= nth):
            yield int(place)


def _pulls_out(state: State) -> Int[Ints, " arms"]:
    """The number of evaluations of each arm that are in progress, or wait to be handed out again."""
    out = [pull.arm for pull in state.plan.in_progress]
    return np.bincount(np.array(out, dtype=np.int64), minlength=state.problem.n_arms)
