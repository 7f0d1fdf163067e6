"""Adaptive: a posterior over all prompts at once, and every pull where it can still change the answer.

There are no rounds and no barrier. A decision plans a small batch of cells (prompt, example) from what is known by
then; trials that are out are not planned again, and count as information that will come. The model is in
`asktell.posterior.two_way`, the choice of examples in `asktell.posterior.design`.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

from asktell.arguments import LARGEST
from asktell.errors import InvalidArgumentError
from asktell.goals import BestFeasible, Goal
from asktell.numerics import counters
from asktell.numerics.arrays import Counts, Indices, Means, distinct
from asktell.posterior import design, membership
from asktell.posterior.basis import basis
from asktell.posterior.two_way import Cells, posterior
from asktell.state import ACCEPTED, FAILED, REJECTED, Decided, Departure, Problem, State

Vector = npt.NDArray[np.float64]

_FIRST_SHARE = 8.0  # prompts per example as long as nothing is known: no single example decides who goes on
_LEVEL_SHARE = 6.0  # where levels are held against thresholds
_FEWEST_DRAWS = 64
_PULLS_BEFORE_A_LOOK = 50  # one more pull in fifty changes little: the work grows with the log of the budget
_LEAST_INTEREST = 1e-3  # of a contender that no draw has on top
_MOST_NUMBERS = 1 << 20  # in one array of draws: large pools take fewer draws


class Belief(NamedTuple):
    """What is known about all K prompts, in metric units and as draws of the goal's values."""

    means: Means  # (K, m)
    errors: Means  # (K, m) posterior standard deviations, NaN where nothing supports one
    values: npt.NDArray[np.float64]  # (S, K, q)
    p_feasible: Vector | None  # (K,); None without constraints
    members: npt.NDArray[np.bool_] | None  # (S, K) who is in the Pareto set of each draw; None for best feasible
    p_optimal: Vector  # (K,) of being the best feasible prompt, or in the Pareto set
    interest: Vector  # (K,) how much a prompt's membership is in doubt
    expected: Vector | None  # (K,) expected quality as the best feasible prompt; None for Pareto sets
    informative: design.Informative | None  # how much a score on each example tells; None if all tell the same
    is_guess: bool  # after a single evaluation, which supports no error and no probability


@final
@dataclass(frozen=True)
class Adaptive:
    """Sample where the answer is in doubt, judge by the posterior of a two-way model, answer by expected quality.

    `share`: about how many prompts use each example; None: all where only differences count, few where a level is
    to be held against a threshold. `batch`: pulls planned by one decision at most, as a part of the prompts.
    `draws`: joint draws from the posterior per decision, fewer for large pools.

    `confidence`: end before the budget, once every prompt was evaluated and the answer is right with this probability,
    by the posterior; None: never. `tolerance`: how much worse than right counts as right, in the metrics' own units
    (for a Pareto set, in units of a metric's range where the goal names one). Without a tolerance, prompts that are
    equally good keep it going. Trials that are out when it ends may still be told, and change the answer no more.
    """

    share: float | None = None
    batch: float = 0.25
    draws: int = 256
    confidence: float | None = None
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        numbers = {"share": 1.0 if self.share is None else self.share, "batch": self.batch, "draws": self.draws}
        for name, number in numbers.items():
            if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 < number < 2**31:
                raise InvalidArgumentError(f"{name} of Adaptive must be a positive number, got {number!r}.")
        if not isinstance(self.draws, int):
            raise InvalidArgumentError(f"draws of Adaptive must be a whole number, got {self.draws!r}.")
        if self.confidence is not None and not _is_number(self.confidence, 0.0, 1.0):
            raise InvalidArgumentError(
                f"confidence of Adaptive must be None or a number above 0 and below 1, such as 0.95; got "
                f"{self.confidence!r}."
            )
        if self.tolerance != 0 and not _is_number(self.tolerance, 0.0, LARGEST):
            raise InvalidArgumentError(f"tolerance of Adaptive must be a number of at least 0, got {self.tolerance!r}.")
        if self.tolerance and self.confidence is None:
            raise InvalidArgumentError("tolerance of Adaptive goes with confidence: Adaptive(confidence=0.95, ...).")

    def check(self, problem: Problem) -> None:
        """Every problem will do: any goal, any budget, with or without features."""

    def due(self, state: State) -> bool:
        """Whenever the plan is empty and there is something to plan, or nothing more can come."""
        if not state.plan_is_empty:
            # What is planned costs too much by now, and nothing is out that may turn out cheaper.
            pull = state.next_pull()
            return not state.pending and pull is not None and not state.fits(pull.arm)
        return not state.pending or (_room(state) > 0 and bool(_open(state).any()))

    def decide(self, state: State) -> Decided:
        """Plan the next batch, or end."""
        number, room = len(state.decisions), _room(state)
        open_ = np.flatnonzero(_open(state))
        if not room or not len(open_):
            return self._finish(state, number)
        if self.confidence is not None and self._is_settled(state):
            return self._finish(state, number)._replace(settled=True)
        arms = self._choose(state, open_, min(room, self._batch_size(state)), number)
        n_pulls = min(room, max(len(arms), (state.spent + len(state.pending)) // _PULLS_BEFORE_A_LOOK))
        return Decided(number, plan=self._cells(state, arms, n_pulls))

    def belief(self, state: State) -> Belief | None:
        """The posterior now that decisions rest on, given the most likely variances; None if nothing is known."""
        return _belief(self, state.problem, _Known(state), False) if len(state.history) else None

    def statement(self, state: State) -> Belief | None:
        """The posterior now that results state, averaged over what the variances may be; None if nothing is known."""
        return _belief(self, state.problem, _Known(state), True) if len(state.history) else None

    def answer(self, state: State) -> list[int]:
        """The prompts that are the answer if nothing more is learned; only such as were evaluated."""
        belief = self.belief(state)
        allowed = np.intersect1d(state.active, np.unique(state.history.arms()))
        if belief is None or not len(allowed):
            return []
        allowed = _by_chance(state.problem, allowed)
        if isinstance(state.problem.goal, BestFeasible):
            expected = membership.quality(belief.values[:, allowed]).mean(axis=0)
            return [int(allowed[expected.argmax()])]
        values = belief.values[:, allowed]
        # What is Pareto-optimal among all that are alive need not be computed again.
        known = belief.members
        if known is not None and np.array_equal(np.sort(allowed), _alive(state.problem, _Known(state))):
            members = known[:, allowed]
        else:
            members = membership.pareto_members(values)
        return [int(arm) for arm in allowed[membership.best_set(values, members, state.problem.seed)]]

    def _is_settled(self, state: State) -> bool:
        if not np.bincount(state.history.arms(), minlength=state.problem.n_arms)[state.active].all():
            return False
        statement = self.statement(state)
        if statement is None or statement.is_guess or self.confidence is None:
            return False
        # Those that have failed are no rivals.
        active = state.active
        answer = np.searchsorted(active, self.answer(state))
        best = isinstance(state.problem.goal, BestFeasible)
        right = membership.settled(statement.values[:, active], answer, best, self.tolerance)
        return float(right.mean()) >= self.confidence

    def _finish(self, state: State, number: int) -> Decided:
        answer, belief = self.answer(state), self.statement(state)
        departures = []
        for arm in state.active.tolist():
            if arm == state.problem.baseline and arm not in answer and belief is not None:
                continue
            if belief is None:
                departures.append(Departure(arm, FAILED, "every example failed"))
                continue
            departures.append(
                Departure(
                    arm=arm,
                    status=ACCEPTED if arm in answer else REJECTED,
                    reason=_reason(belief, arm),
                    means=tuple(belief.means[arm].tolist()),
                    standard_errors=tuple(None if np.isnan(x) else float(x) for x in belief.errors[arm]),
                )
            )
        return Decided(number, tuple(departures), finished=True, answer=tuple(answer))

    def _batch_size(self, state: State) -> int:
        return max(1, round(self.batch * len(state.active)))

    def _choose(self, state: State, open_: Indices, room: int, number: int) -> Indices:
        """Distinct arms to pull: those without any pull first, then at random by how much is in doubt."""
        problem = state.problem
        bits = counters.bits(problem.seed, "choose", number, open_)
        uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
        seen = np.bincount(state.history.arms(), minlength=problem.n_arms)
        out = _pulls_out(state)
        new = (seen + out)[open_] == 0
        if new.any():
            order = open_[np.argsort(np.where(new, uniform, 2.0), kind="stable")]
            return order[: min(int(new.sum()), _room(state))]
        belief = self.belief(state)
        if belief is None:
            return open_[np.argsort(uniform, kind="stable")][:room]
        interest = np.where(self._contend(state, belief, open_), belief.interest[open_] + _LEAST_INTEREST, 0.0)
        # What is out will tell: an arm with a pull out is worth a fraction of one without.
        interest = interest / (1.0 + out[open_])
        if problem.max_cost is not None:
            interest = interest / state.costs.expected_all(problem.n_arms)[open_]
        top = float(interest.max())
        interest = interest / top + 1e-9 if top > 0 else np.ones(len(interest))
        several = int(np.ceil(interest.sum() ** 2 / (interest**2).sum()))
        # Weighted sampling without replacement (Efraimidis & Spirakis 2006).
        order = open_[np.argsort(-np.log(uniform) / interest, kind="stable")]
        chosen = order[: max(1, min(room, several))]
        baseline = problem.baseline
        if (
            baseline is not None
            and baseline in open_
            and baseline not in chosen
            and seen[baseline] + out[baseline] < seen.max()
        ):
            # The answer is compared with it, on as many examples as the answer has.
            return np.concatenate((np.array([baseline]), chosen))[:room]
        return chosen

    def _contend(self, state: State, belief: Belief, open_: Indices) -> npt.NDArray[np.bool_]:
        """Which of the arms are worth a pull at this point of the budget.

        For the best feasible prompt the field narrows as the budget goes, from A arms to two: with a part f spent, the
        A^(1 - f) arms of the highest expected quality. Nobody is out for good; the posterior may bring an arm back.
        """
        if belief.expected is None:
            return np.ones(len(open_), dtype=bool)
        spent = (state.spent + len(state.pending)) / state.problem.budget
        if state.problem.max_cost is not None:
            spent = min(1.0, max(spent, state.cost / state.problem.max_cost))
        n_contenders = max(2, int(np.ceil(len(state.active) ** (1.0 - spent))))
        by_chance = _by_chance(state.problem, open_)
        contenders = by_chance[np.argsort(-belief.expected[by_chance], kind="stable")[:n_contenders]]
        return np.isin(open_, contenders)

    def _cells(self, state: State, arms: Indices, n_pulls: int) -> tuple[tuple[int, int], ...]:
        """Pulls of the arms, one each, and again one each until there are enough or every example is used."""
        problem = state.problem
        if problem.population is None:
            nth, which = np.divmod(np.arange(n_pulls), len(arms))
            examples = problem.draw(arms[which], state.draws[arms[which]] + nth)
            return tuple(zip(arms[which].tolist(), examples.tolist(), strict=True))
        belief = self.belief(state)
        seen = np.bincount(state.history.arms(), minlength=problem.n_arms)
        first = belief is None or not seen[arms].all()
        doubt, informative = (None, None) if first or belief is None else (belief.interest, belief.informative)
        share = _FIRST_SHARE if first and self.share is None else self._share(problem)
        used_arms, used_examples = _used(state)
        used = problem.place[used_examples]
        cells: list[tuple[int, int]] = []
        while len(arms) and len(cells) < n_pulls:
            arms, places = design.next_examples(arms, used_arms, used, len(problem.order), share, doubt, informative)
            cells += zip(arms.tolist(), problem.order[places].tolist(), strict=True)
            used_arms, used = np.concatenate((used_arms, arms)), np.concatenate((used, places))
        return tuple(cells[:n_pulls])

    def _share(self, problem: Problem) -> float:
        if self.share is not None:
            return self.share
        return _LEVEL_SHARE if _is_constrained(problem.goal) else float(problem.n_arms)


def _is_number(value: object, low: float, high: float) -> bool:
    """A number strictly between."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and low < value < high


def _reason(belief: Belief, arm: int) -> str:
    if belief.is_guess:
        return "a single evaluation tells no probability"
    words = [f"P(optimal) = {belief.p_optimal[arm]:.3g}"]
    if belief.p_feasible is not None:
        words.append(f"P(feasible) = {belief.p_feasible[arm]:.3g}")
    return ", ".join(words)


def _by_chance(problem: Problem, arms: Indices) -> Indices:
    """The arms in the order that decides among equals: the first of several maxima is then chosen by chance."""
    return arms[counters.chance_order(problem.seed, arms)]


def _room(state: State) -> int:
    """Pulls that the budget still allows."""
    returned = len(state.returned)
    return max(0, state.problem.budget - state.spent - len(state.pending) - returned)


def _open(state: State) -> npt.NDArray[np.bool_]:
    """(K,) arms in the race that have an example left, and that the cost allows if nothing is out."""
    mask = np.zeros(state.problem.n_arms, dtype=bool)
    mask[state.active] = True
    if state.problem.population is not None:
        arms, _ = _used(state)
        mask &= np.bincount(arms, minlength=len(mask)) < state.problem.population
    if state.problem.max_cost is not None and not state.pending:
        mask[mask] = [state.fits(arm) for arm in np.flatnonzero(mask).tolist()]
    return mask


def _pulls_out(state: State) -> Counts:
    out = [pull.arm for pull in (*state.pending.values(), *state.returned)]
    return np.bincount(np.array(out, dtype=np.int64), minlength=state.problem.n_arms)


def _used(state: State) -> tuple[Indices, Indices]:
    """Cells that were scored, are out or have failed, each once."""
    n = state.problem.n_examples or 1
    more = [(p.arm, p.example) for p in (*state.pending.values(), *state.returned) if p.example is not None]
    more += [(arm, f.example) for arm, fs in state.failures.items() for f in fs if f.example is not None]
    extra = np.array(more, dtype=np.int64).reshape(-1, 2)
    arms = np.concatenate((state.history.arms(), extra[:, 0]))
    examples = np.concatenate((state.history.examples(), extra[:, 1]))
    real = examples >= 0
    cells = distinct(arms[real] * n + examples[real])
    return cells // n, cells % n


class _Known:
    """What a belief follows from, as a key for the last ones: states that differ only in what is out share it."""

    def __init__(self, state: State) -> None:
        self.history = state.history
        self.failed = tuple(sorted(arm for arm, (_, d) in state.left.items() if d.status == FAILED))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and self.history is other.history and self.failed == other.failed

    def __hash__(self) -> int:
        return id(self.history)


def _alive(problem: Problem, known: _Known) -> Indices:
    """Failed prompts are no rivals, unless all have failed."""
    alive = np.setdiff1d(np.arange(problem.n_arms), known.failed)
    return alive if len(alive) else np.arange(problem.n_arms)


@lru_cache(maxsize=4)
def _belief(method: Adaptive, problem: Problem, known: _Known, averaged: bool) -> Belief:
    history, goal, n_arms = known.history, problem.goal, problem.n_arms
    cells = Cells.of(history.arms(), history.examples(), history.scores(), problem.n_examples)
    n_draws = max(_FEWEST_DRAWS, min(method.draws, _MOST_NUMBERS // n_arms))
    n_metrics = len(goal.metrics)
    means, errors = np.empty((n_arms, n_metrics)), np.empty((n_arms, n_metrics))
    draws, informative = np.empty((n_draws, n_arms, n_metrics)), []
    seen = distinct(cells.examples[cells.examples >= 0])
    for j, metric in enumerate(goal.metrics):
        fit = posterior(cells, j, n_arms, problem.n_examples, None, _range(goal, metric), averaged, _basis(problem))
        means[:, j], errors[:, j] = fit.mean, fit.sd
        normals = membership.normals(problem.seed, "posterior", (n_draws, fit.n_normals), len(history), j)
        draws[:, :, j] = fit.draws(normals)
        if problem.n_examples is not None and _is_binary(cells.scores[:, j]):
            prompt, example, residual = fit.variances
            correlation = example / (prompt + example + residual)
            places = np.where(cells.examples < 0, -1, np.searchsorted(seen, cells.examples))
            informative.append(design.information(places, cells.scores[:, j], correlation, len(seen)))
    values = goal.values(draws.reshape(-1, n_metrics)).reshape(n_draws, n_arms, -1)
    p_feasible = membership.feasible(values).mean(axis=0) if _is_constrained(goal) else None
    alive = _by_chance(problem, _alive(problem, known))
    p_optimal, interest, expected, members = np.zeros(n_arms), np.zeros(n_arms), None, None
    if isinstance(goal, BestFeasible):
        two = membership.ranking(values[:, alive])
        p_optimal[alive] = np.bincount(two[:, 0], minlength=len(alive)) / n_draws
        interest[alive] = p_optimal[alive] + np.bincount(two[:, 1], minlength=len(alive)) / n_draws
        expected = np.zeros(n_arms)
        expected[alive] = membership.quality(values[:, alive]).mean(axis=0)
    else:
        members = np.zeros(values.shape[:2], dtype=bool)
        members[:, alive] = membership.pareto_members(values[:, alive])
        p_optimal = members.mean(axis=0)
        interest = p_optimal * (1.0 - p_optimal)
    return Belief(
        means=means,
        errors=errors,
        values=values,
        p_feasible=p_feasible,
        members=members,
        p_optimal=p_optimal,
        interest=interest,
        expected=expected,
        informative=design.Informative(problem.place[seen], np.mean(informative, axis=0)) if informative else None,
        is_guess=len(cells.arms) < 2,
    )


def _is_binary(scores: Vector) -> bool:
    """Whether the scores are 0 and 1, and both."""
    return bool(((scores == 0.0) | (scores == 1.0)).all()) and 0.0 < scores.mean() < 1.0


@lru_cache(maxsize=4)
def _basis(problem: Problem) -> npt.NDArray[np.float64] | None:
    return None if problem.features is None else basis(problem.features)


def _range(goal: Goal, metric: str) -> float | None:
    """The width of a metric's range, where the goal says it."""
    objectives = (goal.objective,) if isinstance(goal, BestFeasible) else getattr(goal, "objectives", ())
    return next((o.scale for o in objectives if o.metric == metric and o.range is not None), None)


def _is_constrained(goal: Goal) -> bool:
    return isinstance(goal, BestFeasible) and bool(goal.constraints)
