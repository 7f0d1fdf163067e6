"""Adaptive, the method that "auto" stands for: a posterior over all prompts, and pulls where the answer is in doubt.

1. The field: all A prompts. For a single best one, if the budget is below two pulls each, as many as it has two pulls
   for, drawn by chance.
2. First every prompt in it is pulled once, in one plan; about eight share an example. Of candidates with factors, only
   as many as a third of the budget pays for, which cover the factors' levels evenly.
3. Then each decision picks distinct prompts at random by weight (`belief.py`, from joint draws of the posterior):
   - best feasible: the share of draws in which the prompt is best or second (after top-two Thompson sampling, Russo
     2016). With a part f of the budget spent, only the A^(1 - f) prompts, at least two, of the highest expected quality
     can be picked. Quality in a draw: 1 for the best feasible prompt, 0 for the median and for infeasible ones.
   - Pareto set: p (1 - p), where p is the probability of being in it.
   Weights shrink with pulls that are out, with failures, and with cost, if the budget limits it. It picks as many as
   are in doubt (their effective number), at most `batch` of the field; a baseline that lags behind comes first.
4. Each takes an example that is new to it: of those in use, the one that prompts in doubt share most, or that tells
   most (`asktell.posterior.design`). More examples come into use as pulls do (`share`).
5. The plan is one pull of each, and again one each up to a sixteenth of the pulls so far. There are no rounds and no
   barrier: it is made while others are out. No prompt leaves before the end, except by failures or `retire`.
6. The selected prompt, or set, is the one of the highest expected quality among those evaluated, by the posterior that
   results state (`asktell.posterior.statement`). With `sure`, it has the highest mean among the prompts that satisfy
   the constraints with that probability.

With a confidence, the field is all prompts and examples come in one common order; once the posterior is sure, the
prompts for which the proof is missing take the place of step 3.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, final, get_args

import numpy as np
from msgspec import structs

from asktell.errors import InvalidArgumentError
from asktell.methods.base import AbstractMethod
from asktell.methods.belief import Belief, believe, by_chance, even_order, stated
from asktell.methods.certainty import unproven
from asktell.numerics import counters
from asktell.numerics.arrays import Counts, Indices, Mask
from asktell.posterior import answer, design, membership
from asktell.posterior.statement import Statement
from asktell.problem.checks import LARGEST, check_number, check_part, short, whole
from asktell.problem.goals import BestFeasible, check_no_segments
from asktell.state import Decided, Departure, Problem, State

# Chosen on synthetic problems and the development half of the recorded tables: docs/explanation/what-was-tried.md.
_FIRST_SHARE = 8.0  # prompts per example as long as nothing is known: no single example decides who goes on
_BOUNDED_SHARE = 6.0  # where means are held against thresholds
_FACTORS_SHARE, _MOSTLY = 4.0, 0.5  # where factors' levels explain most: of 2, 4 and 8 best on pairs of models
_PULLS_EACH = 2.0  # on average, that a best prompt is worth looking for with: a smaller budget is for fewer prompts
_FIRST_PART = 1 / 3  # of the budget, for arms that cover the factors' levels evenly
_FEWEST_FOR_FACTORS = 60  # evaluations: of fewer, scores tell too little of levels (`benchmarks.selection.factors`)
# What a decision may cost.
_PULLS_BEFORE_A_LOOK = 16  # one more in sixteen changes little, and stops come that late at most
_TRIES = 6  # of a prompt without a score, before others: six of six failures take it out at the rate of 1/2
_LEAST_WEIGHT = 1e-3  # of a contender that no draw has on top: less than one of 256 draws
_MOST_DRAWS = 10_000  # a probability is then known to .005


ConfidenceKind: TypeAlias = Literal["proof", "posterior"]


@final
@dataclass(frozen=True)
class Adaptive(AbstractMethod):
    """Sample where the answer is in doubt, judge by the posterior of a two-way model, answer by expected quality.

    `share`: a new example comes into use once in so many pulls, or for a prompt that has seen the others; None: in as
    many as there are prompts where only differences count, in six where a mean is held against a threshold. `batch`:
    prompts that one decision picks at most, as a part of the field; all of it where none was pulled yet. `draws`: joint
    draws from the posterior per decision, 64 to 10,000; fewer for large pools.

    `confidence`: end before the budget, once every prompt was evaluated and the answer is right with this probability;
    None: never. `confidence_kind`: "proof": by the posterior, and by confidence sequences, which hold without its model
    at every look (for metrics without a range, in the limit of many examples); "posterior": by the posterior alone,
    which needs fewer evaluations, but is right so often only on average over problems like those that the model
    expects. `tolerance`: how much worse than right counts as right, in the metric's own units (for limits, and for a
    Pareto set, in units of a metric's range where the goal names one). Without a tolerance, prompts that are equally
    good keep it going. Trials that are out when it ends may still be told, and change the answer no more.
    """

    share: float | None = None
    batch: float = 0.25
    draws: int = 256
    confidence: float | None = None
    tolerance: float = 0.0
    confidence_kind: ConfidenceKind = "proof"

    def __post_init__(self) -> None:
        """Validate the parameters."""
        for name, number in (("share", 1.0 if self.share is None else self.share), ("batch", self.batch)):
            check_number(f"{name} of Adaptive", number, 0.0, 2.0**31, above=True)
        whole("draws of Adaptive", self.draws, 1, _MOST_DRAWS)
        if self.confidence is not None:
            check_part("confidence of Adaptive", self.confidence)
        check_number("tolerance of Adaptive", self.tolerance, 0.0, LARGEST)
        if self.confidence_kind not in get_args(ConfidenceKind):
            kind = short(self.confidence_kind)
            raise InvalidArgumentError(f'confidence_kind of Adaptive must be "proof" or "posterior", got {kind}.')
        for name, is_given in (("tolerance", self.tolerance), ("confidence_kind", self.confidence_kind != "proof")):
            if is_given and self.confidence is None:
                raise InvalidArgumentError(f"{name} of Adaptive goes with confidence: Adaptive(confidence=0.95, ...).")

    def check(self, problem: Problem) -> None:
        """Check that a stop by confidence is not asked for in segments; else any goal, any budget."""
        if self.confidence is not None:
            check_no_segments(problem.goal, "Adaptive(confidence=...)")

    def due(self, state: State) -> bool:
        """Whenever the plan is empty and there is something to plan, or nothing more can come."""
        if not state.plan_is_empty:
            # What is planned costs too much by now, and nothing is out that may turn out cheaper.
            pull = state.next_pull()
            return not state.pending and pull is not None and not state.fits(pull.arm)
        return not state.pending or (state.room > 0 and bool(state.open_arms()[self._field(state)].any()))

    def decide(self, state: State) -> Decided:
        """Plan the next batch, or end."""
        number, room = len(state.decisions), state.room
        field = self._field(state)
        open_ = np.intersect1d(np.flatnonzero(state.open_arms()), field)
        belief = self.belief(state)
        if not room or not len(open_):
            return self.finish(state)
        unproven_arms = None if self.confidence is None else self._unproven(state, belief)
        if unproven_arms is not None and not len(unproven_arms):
            return structs.replace(self.finish(state), settled=True)
        size = len(field) if self._first(state) is None else min(len(field), state.problem.budget)
        arms = self._choose(state, open_, min(room, max(1, round(self.batch * size))), number, belief, unproven_arms)
        n_asked = state.spent + len(state.missing) + len(state.pending)
        n_pulls = min(room, max(len(arms), n_asked // _PULLS_BEFORE_A_LOOK))
        alone = len(open_) == 1 or room == 1
        return Decided(number, plan=self._cells(state, arms, n_pulls, belief, alone))

    def belief(self, state: State) -> Belief | None:
        """The belief that decisions rest on, None without scores."""
        return believe(state, self.draws, among=self._field(state))

    def answer(self, state: State) -> list[int]:
        """The prompts that are the answer if nothing more is learned; only such as were evaluated."""
        return _answer(state, stated(state))

    def _unproven(self, state: State, belief: Belief | None) -> Indices | None:
        """Who keeps the answer from being certain, empty if it is; None as long as the posterior doubts it itself."""
        if self.confidence is None or belief is None or state.doubts:
            return None
        active = state.active
        if not state.told[active].all():
            return None
        statement = stated(state)
        if statement is None or statement.is_guess:
            return None
        # Failed prompts are excluded.
        chosen = _answer(state, statement)
        best = isinstance(state.problem.goal, BestFeasible)
        places, n_objectives = np.searchsorted(active, chosen), len(state.problem.goal.objectives)
        right = membership.settled(statement.values[:, active], places, best, self.tolerance, n_objectives)
        if float(right.mean()) < self.confidence:
            return None
        if self.confidence_kind == "posterior":
            return active[:0]
        return unproven(state, chosen, statement.means, 1.0 - self.confidence, self.tolerance)

    def finish(self, state: State) -> Decided:
        """The last decision: the answer by what is known, whatever is left of the budget."""
        found = stated(state)
        chosen = _answer(state, found)
        seen = state.told
        silent = (seen == 0) & ~state.have_pulls()
        departures = []
        for arm in state.active.tolist():
            if arm == state.problem.baseline and arm not in chosen:
                continue
            if found is None or silent[arm]:
                departures.append(state.unscored(arm))
                continue
            reason = "selected" if arm in chosen else "not selected"
            departures.append(Departure.of(arm, arm in chosen, reason, (found.means[arm], found.errors[arm])))
        return Decided(len(state.decisions), tuple(departures), finished=True, answer=tuple(chosen))

    def _first(self, state: State) -> Indices | None:
        """The arms that are pulled before the posterior chooses, in this order; None: all.

        Where there are factors, arms that nobody pulled are known by their levels: a part of the budget goes to arms
        that cover the levels evenly, then to those that joined.
        """
        problem, origin = state.problem, state.origin
        if self.confidence is not None or origin.budget < _FEWEST_FOR_FACTORS:
            return None
        first = even_order(origin, math.ceil(_FIRST_PART * origin.budget))
        if first is None:
            return None
        joined = np.arange(origin.n_arms, problem.n_arms)
        baseline = [] if problem.baseline is None else [problem.baseline]
        return np.concatenate((first, joined, baseline)).astype(np.int64)

    def _field(self, state: State) -> Indices:
        """The arms in the race that take part, ascending: all, but where the budget is small for a single best one.

        Then as many as it has two pulls for, drawn by chance: the best of some is found rather than the best of all
        guessed. Those that were pulled, the baseline, and arms that joined later always take part.
        """
        problem, active = state.problem, state.active
        each = min(_PULLS_EACH, problem.most_pulls or _PULLS_EACH)
        size = max(2, math.ceil(problem.budget / each))
        is_best = isinstance(problem.goal, BestFeasible)
        if not is_best or self.confidence is not None or len(active) <= size or self._first(state) is not None:
            return active
        certain = state.told + _pulls_out(state) > 0
        certain[state.origin.n_arms :] = True
        if problem.baseline is not None:
            certain[problem.baseline] = True
        order = by_chance(problem, active)
        order = order[np.argsort(~certain[order], kind="stable")]
        chosen = np.sort(order[: max(size, int(certain[active].sum()))])
        return chosen if state.open_arms()[chosen].any() else active

    def _choose(
        self, state: State, open_: Indices, room: int, number: int, belief: Belief | None, unproven_arms: Indices | None
    ) -> Indices:
        """Distinct arms to pull: the first ones without any pull, then at random by how much is in doubt."""
        problem = state.problem
        bits = counters.bits(problem.seed, "choose", number, open_)
        uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
        seen = state.told
        out = _pulls_out(state)
        new = ((seen + out)[open_] == 0) & (state.missing.per_arm(state.problem.n_arms)[open_] < _TRIES)
        if (first := self._first(state)) is not None:
            place = np.full(problem.n_arms, np.inf)
            place[first[::-1]] = np.arange(len(first), 0.0, -1.0)
            new &= np.isfinite(place[open_])
        if new.any():
            turn = uniform if first is None else place[open_]
            order = open_[np.argsort(np.where(new, turn, np.inf), kind="stable")]
            return order[: min(int(new.sum()), state.room)]
        if unproven_arms is not None and (missing := np.intersect1d(unproven_arms, open_)).size:
            # They are compared on common examples, so whoever has fewer comes first.
            return missing[np.argsort((seen + out)[missing], kind="stable")][:room]
        if belief is None:
            return open_[np.argsort(uniform, kind="stable")][:room]
        weight = np.where(self._contend(state, belief, open_), belief.weight[open_] + _LEAST_WEIGHT, 0.0)
        # What is out will tell: an arm with a pull out is worth a fraction of one without.
        weight = weight / (1.0 + out[open_])
        failed = state.missing.per_arm(state.problem.n_arms)
        weight *= ((1.0 + seen) / (1.0 + seen + failed))[open_]  # a pull is worth as much as its chance of a score
        if problem.allowance.cost is not None:
            weight = weight / state.costs.expected_all(problem.n_arms)[open_]
        top = float(weight.max())
        weight = weight / top if top > 0 else np.ones(len(weight))
        # The effective number of prompts in doubt (Kish 1965), to rounding.
        effective = math.ceil(weight.sum() ** 2 / (weight**2).sum() - 1e-9)
        # Weighted sampling without replacement (Efraimidis & Spirakis 2006).
        order = open_[np.argsort(-np.log(uniform) / (weight + 1e-9), kind="stable")]
        chosen = order[: max(1, min(room, effective))]
        baseline = problem.baseline
        tried = seen + out + np.maximum(0, failed - seen)  # where most fail, more tries are no cure
        behind = baseline is not None and tried[baseline] < seen.max()
        if behind and baseline is not None and baseline in open_ and baseline not in chosen:
            # The answer is compared with it, on as many examples as the answer has.
            return np.concatenate((np.array([baseline]), chosen))[:room]
        return chosen

    def _contend(self, state: State, belief: Belief, open_: Indices) -> Mask:
        """Which of the arms are worth a pull at this point of the budget.

        For the best feasible prompt the field narrows as the budget goes, from A arms to two: with a part f spent, the
        A^(1 - f) arms of the highest expected quality. No arm is dropped permanently.
        For an arm that joined later, f is the part spent since, of what there was.
        """
        if belief.expected is None:
            return np.ones(len(open_), dtype=bool)
        n_arms = len(self._field(state))
        ages, which = np.unique(state.ages()[open_], return_inverse=True)
        n_contenders = np.array([max(2, int(np.ceil(n_arms ** (1.0 - age)))) for age in ages.tolist()])
        order = counters.chance_order(state.problem.seed, open_)
        rank = np.empty(len(open_), dtype=np.int64)
        rank[order[np.argsort(-belief.expected[open_][order], kind="stable")]] = np.arange(len(open_))
        return np.asarray(rank < n_contenders[which])

    def _cells(
        self, state: State, arms: Indices, n_pulls: int, belief: Belief | None, alone: bool
    ) -> tuple[tuple[int, int], ...]:
        """Pulls of the arms, one each, and again one each until there are enough or every cell is used up.

        `alone`: nobody else can be pulled any more.
        """
        problem = state.problem
        if problem.population is None:
            nth, which = np.divmod(np.arange(n_pulls), len(arms))
            examples = problem.draw(arms[which], state.draws[arms[which]] + nth)
            return tuple(zip(arms[which].tolist(), examples.tolist(), strict=True))
        seen = state.told
        if self.confidence is not None:
            return self._in_order(state, arms, n_pulls)
        of_first = self._first(state)
        first = belief is None or not seen[arms if of_first is None else np.intersect1d(arms, of_first)].all()
        used_arms, used = _used_places(state, problem.telling_place)
        if first and belief is not None and state.growth:
            # Arms that joined are pulled once each, on examples that tell them from those who were there.
            arms, each = arms[:n_pulls], _FIRST_SHARE if self.share is None else self.share
            places = design.joining_examples(arms, used_arms, used, len(problem.order), each, belief.weight)
            return tuple(zip(arms.tolist(), problem.telling_order[places].tolist(), strict=True))
        # Candidates of a level often score alike on an example, whatever else they differ in: they take several.
        spread = not first and belief is not None and of_first is not None and belief.explained > _MOSTLY
        by_doubt = None if first or spread else belief
        doubt, informative = (None, None) if by_doubt is None else (by_doubt.weight, by_doubt.informative)
        share = self.share
        if share is None:
            paired = _BOUNDED_SHARE if problem.goal.is_constrained else float(problem.n_arms)
            share = _FACTORS_SHARE if spread else _FIRST_SHARE if first else paired
        noise = belief.noise if belief is not None and alone and problem.is_noisy else None
        where = None
        if not first and belief is not None and belief.in_segments is not None and problem.segments is not None:
            where = design.InSegments(problem.segments.of_examples[problem.telling_order], belief.in_segments)
        cells: list[tuple[int, int]] = []
        while len(arms) and len(cells) < n_pulls:
            arms, places = design.next_examples(
                arms, used_arms, used, len(problem.order), share, doubt, informative, problem.repeats, noise,
                where,
            )  # fmt: skip
            cells += zip(arms.tolist(), problem.telling_order[places].tolist(), strict=True)
            used_arms, used = np.concatenate((used_arms, arms)), np.concatenate((used, places))
        return tuple(cells[:n_pulls])

    def _in_order(self, state: State, arms: Indices, n_pulls: int) -> tuple[tuple[int, int], ...]:
        """The first examples of the order that each arm has used least, in turn: whom it suits plays no part."""
        problem = state.problem
        used_arms, used = _used_places(state, problem.place)
        free = {arm: _unused(used[used_arms == arm], problem) for arm in arms.tolist()}
        cells: list[tuple[int, int]] = []
        while len(cells) < n_pulls and free:
            for arm in list(free):
                place = next(free[arm], None)
                if place is None:
                    del free[arm]
                else:
                    cells.append((arm, int(problem.order[place])))
        return tuple(cells[:n_pulls])


def _answer(state: State, found: Statement | None) -> list[int]:
    if found is None:
        return []
    problem, goal = state.problem, state.problem.goal
    allowed = by_chance(problem, np.intersect1d(state.active, np.unique(state.history.arms())))
    if isinstance(goal, BestFeasible) and goal.sure is not None and len(allowed):
        return [_surest(found, goal.sure, allowed)]
    return answer.selected(found.values, found.kept, goal, problem.seed, allowed, state.told)


def _surest(found: Statement, sure: float, arms: Indices) -> int:
    """The best of the arms that satisfy every constraint with such a probability, else the likeliest to do so."""
    p_feasible = membership.feasible(found.values[:, arms]).mean(axis=0)
    if not (p_feasible >= sure).any():
        return int(arms[p_feasible.argmax()])
    return int(arms[np.where(p_feasible >= sure, found.values[:, arms, 0].mean(axis=0), -np.inf).argmax()])


def _used_places(state: State, place: Indices) -> tuple[Indices, Indices]:
    """Arms, and examples by their place, of the cells that were scored, are out or have failed, each as often."""
    arms, examples, asks = state.used_cells()
    times = np.minimum(asks, state.problem.repeats)
    return np.repeat(arms, times), np.repeat(place[examples], times)


def _unused(places: Indices, problem: Problem) -> Iterator[int]:
    """The examples that are not among the places, in ascending order; then those that are there once, and so on."""
    times = np.bincount(places, minlength=len(problem.order))
    return (int(place) for nth in range(problem.repeats) for place in np.flatnonzero(times <= nth))


def _pulls_out(state: State) -> Counts:
    out = [pull.arm for pull in (*state.pending.values(), *state.returned)]
    return np.bincount(np.array(out, dtype=np.int64), minlength=state.problem.n_arms)
