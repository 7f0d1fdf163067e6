"""The belief about all prompts: posteriors of the metrics, joint draws, and their view of the answer."""

from typing import NamedTuple

import numpy as np

from asktell.numerics import counters
from asktell.numerics.arrays import Draws, Indices, Matrix, Means, Vector, distinct, is_binary
from asktell.posterior import design, draws, membership
from asktell.posterior.basis import Basis, levels_of, of_factors
from asktell.posterior.drift import Rows, Step, is_beyond_chance, likeliest_step
from asktell.posterior.statement import Statement, statement
from asktell.posterior.two_way import Cells, Posterior
from asktell.problem.goals import BestFeasible, Goal
from asktell.state import Failures, History, Problem, State
from asktell.state.history import repeated

_FEWEST_FOR_DRIFT = 30  # evaluations: of fewer, the residuals are hardly known; a judgement
_LEAST_EFFECT = 1e-6  # of a variance, in units of the residual's: far below what any data set can tell
_DRIFT_ERROR = 0.04  # of runs without a drift, in which one is found at most


class Belief(NamedTuple):
    """The view of all K prompts that decides what to evaluate next."""

    # (K,) worth of an evaluation: P(best or second); of a Pareto set p (1 - p), p the probability of being in it
    weight: Vector
    expected: Vector | None  # (K,) expected quality as the best feasible prompt; None for Pareto sets
    informative: design.Informative | None  # how much a score on each example tells; None if all tell the same
    noise: design.Noise | None  # of scores within a cell, of the metrics' average; None where cells have none
    explained: float  # share of the variance between prompts that factors explain, of the metrics' average
    in_segments: Matrix | None = None  # (K, G) how much each prompt is in doubt for its mean in each segment


def believe(state: State, most_draws: int, among: Indices | None = None) -> Belief | None:
    """The belief that the scores so far support, None without scores.

    Decisions are many, so they take the two-way model of every metric at its most likely variances. Only results take
    the whole posterior (`stated`). `among`: only these arms are rivals, None: all in the race. The history keeps the
    last beliefs: states that differ only in their pending trials share them.
    """
    if not len(state.history):
        return None
    missing, problem = _missing(state), state.problem
    others = () if among is None else np.setdiff1d(state.active, among).tolist()
    out = (*state.no_rivals(), *others)
    key = most_draws, problem, missing.key, out
    return state.history.memo.get(key, lambda: _belief(most_draws, problem, state.history, missing, out))


def stated(state: State) -> Statement | None:
    """What a result may state now, None if nothing is known. The history keeps the last ones."""
    if not len(state.history):
        return None
    missing, problem, out = _missing(state), state.problem, tuple(state.no_rivals())
    key = "stated", problem, missing.key, out
    return state.history.memo.get(key, lambda: statement(_model(problem, state.history, missing, out)))


class Drift(NamedTuple):
    """What the residuals say of a change: the likeliest step of every metric that varies, over `n` evaluations.

    There are no steps where a change could not be told from what else happened on the way.
    """

    n: int
    steps: dict[str, Step]

    @property
    def is_found(self) -> bool:
        """True if chance makes a step of this size in at most 4 of 100 runs."""
        return is_beyond_chance(list(self.steps.values()), _DRIFT_ERROR)


def drift(state: State) -> Drift:
    """Whether the scores moved, by the residuals of the model over the order in which evaluations were asked for.

    Nothing is told of prompts and examples that joined, which may be better or harder than those before, of examples
    in an order that follows from earlier studies, and of scores that were not asked for here: when they were made is
    not known.
    """
    problem, history = state.problem, state.history
    first = state.decisions[0][0] if state.decisions else len(history)
    asked = first + np.flatnonzero(history.trials(first) >= 0)
    rows = asked[np.argsort(history.trials()[asked], kind="stable")]
    found = stated(state)
    if len(rows) < _FEWEST_FOR_DRIFT or found is None or state.was_widened or problem.tells is not None:
        return Drift(len(rows), {})
    scores, cells = history.scores()[rows], Rows.of(history.arms()[rows], history.examples()[rows])
    steps = {}
    for j, metric in enumerate(problem.goal.columns[: len(problem.goal.columns) - problem.goal.counts_failures]):
        fit = found.fits[j]
        prompt, example, residual = fit.variances
        if residual > 0.0 and float(scores[:, j].std()) > 0.0:
            least = _LEAST_EFFECT * residual
            steps[metric] = likeliest_step(
                cells, scores[:, j], max(prompt, least), max(example, least), residual, fit.noise
            )
    return Drift(len(rows), steps)


def has_drifted(state: State) -> bool:
    """True if what is evaluated has changed, as far as can be told: by late repeats where there are enough of them."""
    again = repeated(state.problem, state.history)
    return again.has_drifted if again.tells_drift else drift(state).is_found


def by_chance(problem: Problem, arms: Indices) -> Indices:
    """The arms in the order that decides among equals: the first of several maxima is then chosen by chance."""
    return arms[counters.chance_order(problem.seed, arms)]


def _missing(state: State) -> Failures:
    """The failures that the goal counts."""
    return state.missing if state.problem.goal.counts_failures else Failures()


def _alive(problem: Problem, out: tuple[int, ...]) -> Indices:
    """The arms without those that are out, unless all are."""
    alive = np.setdiff1d(np.arange(problem.n_arms), out)
    return alive if len(alive) else np.arange(problem.n_arms)


def _model(problem: Problem, history: History, missing: Failures, out: tuple[int, ...]) -> draws.Model:
    cells = Cells.of(history.arms(), history.examples(), history.scores(), problem.n_examples, problem.is_noisy)
    n_rows = len(history) if problem.is_noisy else len(cells.arms)  # repeats that agree change no draw
    if missing:
        cells = cells.with_failures(missing.pulls.arms(), missing.pulls.examples())
    n_examples = problem.n_examples
    if n_examples is not None and problem.inputs == "new":
        n_examples = draws.ENDLESS
    return draws.Model(
        cells, problem.goal, problem.shapes, _basis(problem), problem.n_arms, n_examples, n_rows, problem.seed,
        problem.segments, np.intersect1d(_alive(problem, out), history.arms()),
    )  # fmt: skip


def _belief(most_draws: int, problem: Problem, history: History, missing: Failures, out: tuple[int, ...]) -> Belief:
    goal, n_arms = problem.goal, problem.n_arms
    model = _model(problem, history, missing, out)
    told, drawn = model.cells.of_column(0), draws.joint(model, most_draws, averaged=False)
    values, n_objectives = drawn.values, len(goal.objectives)
    n_draws = len(values)
    alive = _alive(problem, out)
    rivals = values if len(alive) == n_arms else values[:, alive]
    weight, expected = np.zeros(n_arms), None
    if isinstance(goal, BestFeasible):
        merits = membership.merit(rivals)
        order = by_chance(problem, alive)
        two = order[membership.ranking(np.take(merits, np.searchsorted(alive, order), axis=1))]
        weight = np.bincount(two.ravel(), minlength=n_arms) / n_draws
        expected = np.zeros(n_arms)
        expected[alive] = membership.quality(rivals).mean(axis=0)
    else:
        # Where no prompt is feasible, the least violating one is wanted.
        p_member = membership.pareto_members(membership.standing(rivals, n_objectives)).mean(axis=0)
        weight[alive] = p_member * (1.0 - p_member)
    return Belief(
        weight=weight,
        expected=expected,
        informative=_informative(problem, told, history.scores(), drawn.fits),
        noise=_noise(told, drawn.fits),
        explained=float(np.mean([fit.explained for fit in drawn.fits])),
        in_segments=None if drawn.in_segments is None else _doubt(goal, drawn.in_segments),
    )


def _doubt(goal: Goal, draws: Draws) -> Matrix:
    """(K, G) of what the goal says in segments: how likely each is the worst one, times how little is known of it."""
    n = goal.n_segments
    total = np.zeros((draws.shape[2], n))
    for number, j in enumerate(goal.by_segment):
        own = draws[number * n : (number + 1) * n]  # (G, S, K)
        less_is_better = goal.columns[j] in goal.minimized
        worst = own.argmax(axis=0) if less_is_better else own.argmin(axis=0)
        likely = np.stack([(worst == g).mean(axis=0) for g in range(n)], axis=1)
        total += likely * own.std(axis=1).T
    return np.asarray(total / max(float(total.max()), 1e-300))


def _noise(cells: Cells, fits: list[Posterior]) -> design.Noise | None:
    """The noise of scores within a cell, of the metrics' average; None where cells have none."""
    parts = [
        (fit.noise, example / residual) for fit in fits for _, example, residual in [fit.variances] if residual > 0
    ]
    return None if cells.noisy is None or not parts else design.Noise(*np.mean(parts, axis=0).tolist())


def _informative(problem: Problem, cells: Cells, scores: Means, fits: list[Posterior]) -> design.Informative | None:
    """How much a score tells on each example, by earlier studies as far as they hold and by what was seen here."""
    if problem.n_examples is None:
        return None
    seen = distinct(cells.examples[cells.examples >= 0])
    places = np.where(cells.examples < 0, -1, np.searchsorted(seen, cells.examples))
    told: dict[int, Vector] = {}  # by metric, what its examples seen here divide; 1 for one that nobody has seen
    for j, fit in enumerate(fits):
        if j < len(problem.goal.metrics) and is_binary(scores[:, j]):
            correlation = fit.variances[1] / sum(fit.variances)
            told[j] = design.information(places, cells.scores[:, j], correlation, len(seen))
    if problem.tells is None:
        return design.Informative(problem.place[seen], np.mean(list(told.values()), axis=0)) if told else None
    units = np.zeros(len(problem.tells))
    for j, (fit, shape) in enumerate(zip(fits, problem.shapes, strict=True)):
        own = np.ones(len(units))
        own[seen] = told.get(j, 1.0)
        units += own if shape is None else shape.tells**fit.trust * own
    return design.Informative(problem.telling_place, units / len(problem.shapes))


def _basis(problem: Problem) -> Basis | None:
    candidates = problem.candidates
    return None if candidates is None else problem.memo.get("basis", lambda: of_factors(candidates))


def even_order(problem: Problem, n: int) -> Indices | None:
    """The first n arms of an order of which every beginning has each factor's levels about equally often.

    Equals by chance; None where there are no factors.
    """
    return problem.memo.get(("even order", n), lambda: _new_even_order(problem, n))


def _new_even_order(problem: Problem, n: int) -> Indices | None:
    levels = [] if problem.candidates is None else levels_of(problem.candidates)
    if not levels:
        return None
    order = by_chance(problem, np.arange(problem.n_arms))
    levels, used = [codes[order] for codes in levels], np.zeros(problem.n_arms)
    found = np.empty(min(n, problem.n_arms), dtype=np.int64)
    for place in range(len(found)):
        at = int(used.argmin())
        found[place], used[at] = order[at], np.inf
        for codes in levels:
            used[codes == codes[at]] += codes.max() + 1.0  # so that no level comes twice before each came once
    return found
