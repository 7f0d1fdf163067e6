"""The belief about all prompts: posteriors of the metrics, joint draws, and the weight of each prompt.

The weight of a prompt is the probability with which `Adaptive` samples it next. For the
best feasible prompt this is top-two Thompson sampling (Russo 2016). In plain Thompson
sampling, a prompt is sampled as often as it is the best in a draw from the posterior.
That wastes evaluations once the leading prompt is almost certain to be the best,
because it takes nearly all of them. Top-two sampling counts the best and the
second-best prompt of each draw, so that its closest competitors keep half of the
evaluations. For a Pareto set, where a draw has many best prompts, the weight is p (1 -
p), the variance of membership, where p is the probability that the prompt belongs to
the set.
"""

from typing import NamedTuple

import numpy as np

from asktell.methods.auto import design
from asktell.numerics import counters
from asktell.numerics.arrays import Floats, Ints, distinct, without
from asktell.numerics.cells import Cells
from asktell.numerics.shapes import Float, Int
from asktell.posterior import draws, membership
from asktell.posterior.of_state import alive_arms, counted_failures, model_of
from asktell.posterior.regressors import levels_of
from asktell.posterior.two_way import Posterior
from asktell.problem.goals import BestFeasible
from asktell.problem.problem import Problem
from asktell.record import Failures, State


class Belief(NamedTuple):
    """A summary of the posterior of all K prompts, from which the next evaluations follow.

    - `weight`: the value of an evaluation. P(best or second best), or p (1 - p)
      for a Pareto set, where p is the probability of membership. Sums to 2 for a best
      prompt.
    - `expected`: the expected quality as the best feasible prompt. None for Pareto
      sets.
    - `informative`: how informative a score on each example is, also for each prompt
      if the goal counts the worst of several columns. None if all examples are equally informative.
    - `noise`: the noise of scores within a cell, averaged over the metrics. None if
      scores are not noisy.
    - `explained`: the share of the variance between prompts that factors explain,
      averaged over the metrics.
    """

    weight: Float[Floats, " arms"]
    expected: Float[Floats, " arms"] | None
    informative: design.Informative | None
    noise: design.CellNoise | None
    explained: float


def believe(
    state: State, most_draws: int, among: Int[Ints, " among"] | None = None
) -> Belief | None:
    """The belief that follows from the scores so far. None without scores.

    Plans are frequent, so they use the two-way model of every metric at its most likely
    variances. Results, the final selection and the early stop use the whole posterior
    (`stated`). The history caches the last beliefs, and states that differ only in
    their pending trials share them.

    Args:
        state: the state.
        most_draws: the number of joint draws. Large pools use fewer.
        among: the arms that compete with each other. None: all active arms.
    """
    if not len(state.history):
        return None
    counted, problem = counted_failures(state), state.problem
    outsiders = () if among is None else without(state.active, among).tolist()
    excluded = (*state.left.no_rivals(), *outsiders)
    # All that `_belief` reads besides the history, which owns the cache
    key = most_draws, problem, counted.key, state.proxies.key, excluded
    return state.history.memo.get(
        key, lambda: _belief(most_draws, state, counted, excluded)
    )


def by_chance(problem: Problem, arms: Int[Ints, " some"]) -> Int[Ints, " some"]:
    """The arms in a seeded random order, so that the first of several maxima is random."""
    return arms[counters.chance_order(problem.seed, arms)]


def _belief(
    most_draws: int, state: State, counted: Failures, excluded: tuple[int, ...]
) -> Belief:
    problem, history = state.problem, state.history
    goal = problem.goal
    model = model_of(state, counted, excluded)
    drawn = draws.joint(model, most_draws, averaged=False)
    alive = alive_arms(problem, excluded)
    rivals = drawn.values if len(alive) == problem.n_arms else drawn.values[:, alive]
    # Arms that do not compete keep a weight and a quality of 0.
    weight, expected = np.zeros(problem.n_arms), None
    if isinstance(goal, BestFeasible):
        weight = _top_two(problem, rivals, alive)
        expected = np.zeros(problem.n_arms)
        expected[alive] = membership.quality(rivals).mean(axis=0)
    else:
        # If no prompt of a draw is feasible, `standing` ranks the least violating
        # prompt first.
        p_member = membership.pareto_members(
            membership.standing(rivals, len(goal.objectives))
        ).mean(axis=0)
        weight[alive] = p_member * (1.0 - p_member)
    # Cells without a failure. All metrics have a score in each of them.
    scored = model.cells.of_column(0)
    informative = _informative(problem, scored, history.scores(), drawn.fits)
    return Belief(
        weight=weight,
        expected=expected,
        informative=_by_kind(problem, informative, drawn.columns),
        noise=_noise(scored, drawn.fits),
        explained=float(np.mean([fit.explained for fit in drawn.fits])),
    )


def _top_two(
    problem: Problem,
    rivals: Float[Floats, "draws alive columns"],
    alive: Int[Ints, " alive"],
) -> Float[Floats, " arms"]:
    """The share of draws in which an arm is the best or the second-best feasible arm.

    `rivals` are draws of the values of the arms that are `alive`.
    """
    merits = membership.merit(rivals)
    # In a random order, so that chance decides among equals.
    order = by_chance(problem, alive)
    places = membership.ranking(np.take(merits, np.searchsorted(alive, order), axis=1))
    return np.bincount(order[places].ravel(), minlength=problem.n_arms) / len(rivals)


def _by_kind(
    problem: Problem,
    informative: design.Informative | None,
    columns: Float[Floats, "columns draws arms"],
) -> design.Informative | None:
    """Examples are more informative for a prompt if they belong to a column that is in doubt.

    This holds for columns over a kind of examples, of which the goal counts the worst.
    The doubt about such a column is the probability that it is the worst one, times the
    standard deviation of its mean.
    """
    goal, first = problem.goal, len(problem.goal.columns)
    if len(columns) == first:
        return informative
    n_kinds = 1 + max(subset.kind for subset in goal.subsets)
    doubt = np.zeros((problem.n_arms, n_kinds))
    for counted in dict.fromkeys(goal.worst_of):
        if counted[0] < first:
            continue  # a column over all examples
        by_subset = columns[list(counted)]
        subsets = [goal.subsets[column - first] for column in counted]
        less_is_better = goal.columns[subsets[0].column] in goal.minimized
        worst = by_subset.argmax(axis=0) if less_is_better else by_subset.argmin(axis=0)
        for place, subset in enumerate(subsets):
            is_worst = (worst == place).mean(axis=0)
            doubt[:, subset.kind] += is_worst * by_subset[place].std(axis=0)
    kinds = design.Kinds(
        problem.examples.kinds_in_order, doubt / max(float(doubt.max()), 1e-300)
    )
    if informative is None:
        informative = design.Informative(np.zeros(0, np.int64), np.zeros(0))
    return informative._replace(kinds=kinds)


def _noise(cells: Cells, fits: list[Posterior]) -> design.CellNoise | None:
    """The noise of scores within a cell, averaged over the metrics. None if scores are not noisy."""
    parts = []
    for fit in fits:
        _, example, residual = fit.variances
        # A metric that the model fits exactly has no noise to compare with.
        if residual > 0:
            parts.append((fit.noise, example / residual))
    if not cells.is_noisy or not parts:
        return None
    return design.CellNoise(*np.mean(parts, axis=0).tolist())


def _informative(
    problem: Problem,
    cells: Cells,
    scores: Float[Floats, "rows metrics"],
    fits: list[Posterior],
) -> design.Informative | None:
    """How informative a score is on each example, from earlier studies as far as they fit, and from the scores here.

    None if nothing is known: no examples, or no binary metric and no example profile.
    """
    if problem.examples.n is None:
        return None
    seen = distinct(cells.examples[cells.examples >= 0])
    places = np.where(cells.examples < 0, -1, np.searchsorted(seen, cells.examples))
    # By metric: how informative the examples with scores are, in units of an example
    # without scores.
    by_metric: dict[int, Floats] = {}
    for j, fit in enumerate(fits):
        if j < len(problem.goal.metrics) and _is_binary(scores[:, j]):
            correlation = fit.variances[1] / sum(fit.variances)
            by_metric[j] = design.information(
                places, cells.scores[:, j], correlation, len(seen)
            )
    if problem.examples.informativeness is None:
        return (
            design.Informative(
                problem.examples.place[seen], np.mean(list(by_metric.values()), axis=0)
            )
            if by_metric
            else None
        )
    # The average over the metrics. The profile counts as far as the scores here agree
    # with it (`trust`).
    units = np.zeros(len(problem.examples.informativeness))
    for j, (fit, shape) in enumerate(zip(fits, problem.examples.shapes, strict=True)):
        of_metric = np.ones(len(units))
        of_metric[seen] = by_metric.get(j, 1.0)
        units += (
            of_metric if shape is None else shape.informativeness**fit.trust * of_metric
        )
    return design.Informative(
        problem.examples.informative_place, units / len(problem.examples.shapes)
    )


def even_order(problem: Problem, n: int) -> Int[Ints, " first"] | None:
    """The first n arms of an order in which every beginning has the levels of each factor about equally often.

    Chance decides among equals. None if there are no factors.
    """
    return problem.memo.get(("even order", n), lambda: _new_even_order(problem, n))


def _new_even_order(problem: Problem, n: int) -> Int[Ints, " first"] | None:
    """The same, not cached."""
    levels = [] if problem.candidates is None else levels_of(problem.candidates)
    if not levels:
        return None
    order = by_chance(problem, np.arange(problem.n_arms))
    # In the order of chance, so that `argmin` takes a random one of several arms
    levels = [codes[order] for codes in levels]
    used = np.zeros(problem.n_arms)
    first = np.empty(min(n, problem.n_arms), dtype=np.int64)
    for place in range(len(first)):
        # Greedy: the arm whose levels were used least.
        at = int(used.argmin())
        first[place] = order[at]
        used[at] = np.inf
        for codes in levels:
            # By the number of levels, so that no level comes twice before each level of
            # the factor came once.
            used[codes == codes[at]] += codes.max() + 1.0
    return first


def _is_binary(scores: Float[Floats, " scores"]) -> bool:
    """True if the scores are only 0 and 1, and both occur."""
    return bool(((scores == 0.0) | (scores == 1.0)).all()) and 0.0 < scores.mean() < 1.0
