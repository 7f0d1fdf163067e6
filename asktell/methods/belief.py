"""What is known about all prompts at once: posteriors of the metrics, joint draws, what these say of the answer."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from asktell.numerics import counters
from asktell.numerics.arrays import Draws, Indices, Mask, Masks, Matrix, Means, Vector, distinct
from asktell.posterior import design, membership
from asktell.posterior.basis import basis
from asktell.posterior.two_way import Cells, correlated, of_metrics, posterior
from asktell.posterior.unvarying import at_an_end, held, is_unvarying
from asktell.problem.goals import BestFeasible, Goal
from asktell.state import Problem, State

_FEWEST_DRAWS = 64  # a probability of a half is then known to .06
_SOME = 0.5  # probability from which a prompt is taken as feasible; and that anybody is, from which a set is the answer
_SLIGHTLY = 1e-9  # a violation, in units of the constraint's scale: above rounding, below what anybody could see
_MOST_NUMBERS = 1 << 20  # in one array of draws, 8 MB: large pools take fewer draws


class Belief(NamedTuple):
    """What is known about all K prompts, in metric units and as draws of the goal's values."""

    means: Means  # (K, m)
    errors: Means  # (K, m) posterior standard deviations, NaN where nothing supports one
    values: Draws  # (S, K, q)
    p_feasible: Vector | None  # (K,); None without constraints
    feasible: (
        Mask | None
    )  # (K,) whether that is likely, bounds at an end of the scale taken as kept by who has kept them
    kept: Masks | None  # (K, c) who that is
    members: Masks | None  # (S, K) who is in the Pareto set of each draw, feasible or not; None for best feasible
    p_optimal: Vector  # (K,) of being the best feasible prompt, or feasible and in the Pareto set
    interest: Vector  # (K,) how much a prompt's membership is in doubt
    expected: Vector | None  # (K,) expected quality as the best feasible prompt; None for Pareto sets
    informative: design.Informative | None  # how much a score on each example tells; None if all tell the same
    alive: Indices  # who is a rival, ascending
    noise: design.Noise | None  # of scores within a cell, of the metrics' average; None where cells have none
    is_guess: bool  # after a single evaluation, which supports no error and no probability

    def answer(self, goal: Goal, seed: int, arms: Indices) -> list[int]:
        """The one or those of the arms that are the answer if nothing more is learned; equals in the order given.

        Of a Pareto set, where most likely nobody is feasible, that is the one expected to violate least; unless some
        have always kept bounds at an end of the scale, which are then taken as kept.
        """
        if not len(arms):
            return []
        if isinstance(goal, BestFeasible):
            expected = membership.quality(self.values[:, arms]).mean(axis=0)
            return [int(arms[expected.argmax()])]
        values, n_objectives = self.values[:, arms], len(goal.objectives)
        slack, all_members = membership.least_slack(values, n_objectives), self.members
        if (slack >= 0).any(axis=1).mean() < _SOME and self.kept is not None and self.kept[arms].any():
            values, all_members = values.copy(), None
            slacks = values[:, :, n_objectives:]
            slacks[(slacks < 0) & self.kept[arms]] = 0.0
            slack = membership.least_slack(values, n_objectives)
        if (slack >= 0).any(axis=1).mean() < _SOME:
            expected = membership.quality(np.minimum(slack, 0.0)[:, :, None]).mean(axis=0)
            return [int(arms[expected.argmax()])]
        # What is Pareto-optimal among all that are alive need not be computed again.
        if all_members is not None and np.array_equal(np.sort(arms), self.alive):
            members = all_members[:, arms]
        else:
            members = membership.pareto_members(membership.standing(values, n_objectives))
        return [int(arm) for arm in arms[membership.best_set(values, members, seed, n_objectives)]]


def believe(state: State, most_draws: int, averaged: bool, among: Indices | None = None) -> Belief | None:
    """What is known now, None if nothing is; `averaged` over what the variances may be, or given the most likely ones.

    `among`: only these arms are rivals, None: all in the race. The last ones are kept: states that differ only in what
    is out share them.
    """
    return _belief(most_draws, state.problem, _Known(state, among), averaged) if len(state.history) else None


def by_chance(problem: Problem, arms: Indices) -> Indices:
    """The arms in the order that decides among equals: the first of several maxima is then chosen by chance."""
    return arms[counters.chance_order(problem.seed, arms)]


class _Known:
    """What a belief follows from, as a key for the last ones: states that differ only in what is out share it."""

    def __init__(self, state: State, among: Indices | None) -> None:
        self.history = state.history
        others = () if among is None else np.setdiff1d(state.active, among).tolist()
        self.out = (*state.no_rivals(), *others)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and self.history is other.history and self.out == other.out

    def __hash__(self) -> int:
        return id(self.history)


def _alive(problem: Problem, known: _Known) -> Indices:
    """Prompts that have failed or were retired are no rivals, unless all are that."""
    alive = np.setdiff1d(np.arange(problem.n_arms), known.out)
    return alive if len(alive) else np.arange(problem.n_arms)


@lru_cache(maxsize=4)
def _belief(most_draws: int, problem: Problem, known: _Known, averaged: bool) -> Belief:
    history, goal, n_arms = known.history, problem.goal, problem.n_arms
    cells = Cells.of(history.arms(), history.examples(), history.scores(), problem.n_examples, problem.is_noisy)
    n_rows = len(history) if problem.is_noisy else len(cells.arms)  # repeats that agree change nothing
    n_draws = max(_FEWEST_DRAWS, min(most_draws, _MOST_NUMBERS // n_arms))
    n_metrics = len(goal.metrics)
    means, errors = np.empty((n_arms, n_metrics)), np.empty((n_arms, n_metrics))
    fits, told, noise = [], dict[int, Vector](), []
    seen = distinct(cells.examples[cells.examples >= 0])
    n_seen = len(cells.arms) if problem.n_examples is None else len(seen) + int((cells.examples < 0).sum())
    for j, metric in enumerate(goal.metrics):
        limits, shape = goal.limits(metric), problem.shapes[j]
        fit = posterior(cells, j, n_arms, problem.n_examples, None, limits, averaged, _basis(problem), shape)
        means[:, j], errors[:, j] = fit.mean, fit.sd
        if n_seen < 2:
            # Of one example nothing tells how far another is from it.
            errors[errors[:, j] > 0, j] = np.nan
        fits.append(fit)
        prompt, example, residual = fit.variances
        if cells.noisy is not None and residual > 0.0:
            noise.append((fit.noise, example / residual))
        if problem.n_examples is not None and _is_binary(history.scores()[:, j]):
            correlation = example / (prompt + example + residual)
            places = np.where(cells.examples < 0, -1, np.searchsorted(seen, cells.examples))
            told[j] = design.information(places, cells.scores[:, j], correlation, len(seen))
    normals = [
        membership.normals(problem.seed, "posterior", (n_draws, fit.n_normals), n_rows, j) for j, fit in enumerate(fits)
    ]
    joint = correlated(normals, of_metrics(cells, n_arms))
    # A metric's draws lie side by side, and so do those of a column of values: they are gone through one by one.
    draws = np.array([fit.draws(some) for fit, some in zip(fits, joint, strict=True)])
    values = _values(goal, draws)
    n_objectives = len(goal.objectives)
    _hold_unvarying(problem, cells, draws, values)
    kept = _hold_at_ends(problem, cells, values)
    keeps = membership.feasible(values, n_objectives)
    alive = _alive(problem, known)
    rivals = values if len(alive) == n_arms else values[:, alive]
    p_optimal, interest, expected, members = np.zeros(n_arms), np.zeros(n_arms), None, None
    if isinstance(goal, BestFeasible):
        merits = membership.merit(rivals)
        order = by_chance(problem, alive)
        two = order[membership.ranking(np.take(merits, np.searchsorted(alive, order), axis=1))]
        interest = np.bincount(two.ravel(), minlength=n_arms) / n_draws
        p_optimal[alive] = membership.best_members(merits).mean(axis=0)
        expected = np.zeros(n_arms)
        expected[alive] = membership.quality(rivals).mean(axis=0)
    else:
        members = np.zeros(values.shape[:2], dtype=bool)
        members[:, alive] = membership.pareto_members(membership.standing(rivals, n_objectives))
        p_optimal = (members & keeps).mean(axis=0)
        # Where nobody is feasible, the least violating prompt is wanted.
        p_member = members.mean(axis=0)
        interest = p_member * (1.0 - p_member)
    return Belief(
        means=means,
        errors=errors,
        values=values,
        p_feasible=keeps.mean(axis=0) if goal.is_constrained else None,
        feasible=_taken_as_feasible(values[:, :, n_objectives:], kept) if goal.is_constrained else None,
        kept=kept if goal.is_constrained else None,
        members=members,
        p_optimal=p_optimal,
        interest=interest,
        expected=expected,
        informative=_informative(problem, seen, told, [fit.trust for fit in fits]),
        alive=alive,
        noise=design.Noise(*np.mean(noise, axis=0).tolist()) if noise else None,
        is_guess=len(cells.arms) < 2,
    )


def _hold_unvarying(problem: Problem, cells: Cells, draws: Draws, values: Draws) -> None:
    """Held against its bound, a metric whose scores all agree so far is drawn as one that may differ, in `values`."""
    goal = problem.goal
    for k, constraint in enumerate(goal.constraints, len(goal.objectives)):
        j = goal.metrics.index(constraint.metric)
        if is_unvarying(cells, j):
            against, limits = draws.copy(), goal.ranges.get(constraint.metric)
            against[j] = held(draws[j], cells, j, problem.n_examples, limits, constraint.at_most)
            values[:, :, k] = _values(goal, against)[:, :, k]


def _hold_at_ends(problem: Problem, cells: Cells, values: Draws) -> Masks:
    """(K, c) who has always kept a bound at an end of the scale; in `values`, who has broken it misses it for good."""
    goal, n_objectives = problem.goal, len(problem.goal.objectives)
    own = cells.examples >= 0 if problem.n_examples is not None else np.ones(len(cells.arms), dtype=bool)
    kept, _ = at_an_end(goal, cells.arms, cells.scores, problem.n_arms)
    _, broken = at_an_end(goal, cells.arms[own], cells.scores[own], problem.n_arms)
    for k, missed in enumerate(broken.T, n_objectives):
        if missed.any():
            values[:, missed, k] = np.minimum(-np.abs(values[:, missed, k]), -_SLIGHTLY)
    return kept


def _taken_as_feasible(slacks: Draws, kept: Masks) -> Mask:
    """(K,) whether a prompt more likely than not keeps every bound that it is not taken to keep."""
    keeps = np.ones(slacks.shape[:2], dtype=bool)
    for k in range(slacks.shape[2]):
        keeps &= (slacks[:, :, k] >= 0) | kept[:, k]
    return np.asarray(keeps.mean(axis=0) >= _SOME)


def _values(goal: Goal, draws: Matrix) -> Draws:
    """(S, K, q) the goal's values of draws of the metrics' means (m, S, K)."""
    values = goal.values(draws.reshape(len(draws), -1).T)
    return np.moveaxis(values.T.reshape(-1, *draws.shape[1:]), 0, 2)


def _informative(
    problem: Problem, seen: Indices, told: dict[int, Vector], trust: list[float]
) -> design.Informative | None:
    """How much a score tells on each example, by earlier studies as far as they hold and by what was seen here.

    `told`: of the metrics that tell what their examples seen here divide, in units of one that nobody has seen.
    """
    if problem.tells is None:
        return design.Informative(problem.place[seen], np.mean(list(told.values()), axis=0)) if told else None
    units = np.zeros(len(problem.tells))
    for j, shape in enumerate(problem.shapes):
        own = np.ones(len(units))
        own[seen] = told.get(j, 1.0)
        units += own if shape is None else shape.tells ** trust[j] * own
    return design.Informative(problem.telling_place, units / len(problem.shapes))


def _is_binary(scores: Vector) -> bool:
    """Whether the scores are 0 and 1, and both."""
    return bool(((scores == 0.0) | (scores == 1.0)).all()) and 0.0 < scores.mean() < 1.0


@lru_cache(maxsize=4)
def _basis(problem: Problem) -> Matrix | None:
    return None if problem.features is None else basis(problem.features)
