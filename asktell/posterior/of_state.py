"""What a state says by the model: the statement of a result, and whether the scores have drifted."""

from typing import NamedTuple

import numpy as np

from asktell.numerics.arrays import Ints, without
from asktell.numerics.cells import Cells
from asktell.numerics.shapes import Int
from asktell.posterior import draws
from asktell.posterior.drift import NumberedRows, Step, is_beyond_chance, likeliest_step
from asktell.posterior.equations import ENDLESS
from asktell.posterior.proxies import CellScores, ProxyParts
from asktell.posterior.regressors import Regressors, of_factors
from asktell.posterior.statement import Statement, statement
from asktell.problem.problem import Problem
from asktell.record import Failures, State
from asktell.record.repeated import Repeated

# Evaluations below which the residuals are too uncertain to look for a drift. A
# judgement.
_FEWEST_FOR_DRIFT = 30
# Smallest variance of prompts and of examples, in units of the residual variance. Far
# below what any dataset can show.
_LEAST_EFFECT = 1e-6
# Largest share of runs without a drift in which a drift is found.
_DRIFT_ERROR = 0.04


def stated(state: State) -> Statement | None:
    """The statement of a result: means, errors and joint draws. None without scores. Cached in the history."""
    if not len(state.history):
        return None
    counted, problem, excluded = (
        counted_failures(state),
        state.problem,
        tuple(state.left.no_rivals()),
    )
    key = "stated", problem, counted.key, state.proxies.key, excluded
    return state.history.memo.get(
        key, lambda: statement(model_of(state, counted, excluded))
    )


class Drift(NamedTuple):
    """The likeliest step in the residuals of each metric that varies, over `n` evaluations.

    `steps` is empty if a drift could not be distinguished from another change during
    the selection.
    """

    n: int
    steps: dict[str, Step]

    @property
    def is_found(self) -> bool:
        """True if chance makes a step of this size in at most 4 of 100 runs."""
        return is_beyond_chance(list(self.steps.values()), _DRIFT_ERROR)


def drift(state: State) -> Drift:
    """Look for a change of the scores over time, in the residuals of the model in the order of asking.

    No step is looked for in four cases:

    - the scores are a finished table, since the times of its evaluations are unknown;
    - prompts or examples were added, since these may be better or harder than the
      existing ones;
    - the order of the examples follows from earlier studies;
    - there are fewer than 30 evaluations.

    Observed scores are ignored, because their time is unknown.
    """
    problem, history = state.problem, state.history
    first = state.decisions[0][0] if state.decisions else len(history)
    asked = first + np.flatnonzero(history.trials(first) >= 0)
    rows = asked[np.argsort(history.trials()[asked], kind="stable")]
    estimates = stated(state)
    if (
        len(rows) < _FEWEST_FOR_DRIFT
        or estimates is None
        or state.growth.has_widened
        or problem.examples.informativeness is not None
        or problem.looks_once
    ):
        return Drift(len(rows), {})
    examples = history.examples()[rows]
    scores, cells = (
        history.scores()[rows],
        NumberedRows.of(history.arms()[rows], examples),
    )
    # Examples are chosen by their segment only if the goal depends on segments.
    segments = problem.examples.segments if problem.goal.by_segment else None
    of_rows = None if segments is None else segments.of_examples[examples]
    steps = {}
    for j, metric in enumerate(
        problem.goal.columns[: len(problem.goal.columns) - problem.goal.counts_failures]
    ):
        fit = estimates.fits[j]
        prompt, example, residual = fit.variances
        if residual > 0.0 and float(scores[:, j].std()) > 0.0:
            least = _LEAST_EFFECT * residual
            steps[metric] = likeliest_step(
                cells,
                scores[:, j],
                max(prompt, least),
                max(example, least),
                residual,
                fit.noise,
                of_rows,
            )
    return Drift(len(rows), steps)


def has_drifted(state: State) -> bool:
    """True if the scores have drifted, according to late repeats if there are enough of them, else to the residuals."""
    if state.problem.looks_once:
        return False
    again = Repeated.of(state.problem, state.history)
    return again.has_drifted if again.tells_drift else drift(state).is_found


def counted_failures(state: State) -> Failures:
    """The failures that the goal counts."""
    return state.missing if state.problem.goal.counts_failures else Failures()


def alive_arms(problem: Problem, excluded: tuple[int, ...]) -> Int[Ints, " alive"]:
    """All arms without the arms in `excluded`. If no arm would be left, all arms."""
    alive = without(np.arange(problem.n_arms), np.array(excluded, dtype=np.int64))
    return alive if len(alive) else np.arange(problem.n_arms)


def model_of(state: State, counted: Failures, excluded: tuple[int, ...]) -> draws.Model:
    """The model of all scores so far. `excluded`: arms that do not compete."""
    problem, history = state.problem, state.history
    cells = Cells.of(
        history.arms(),
        history.examples(),
        history.scores(),
        problem.examples.n,
        problem.examples.is_noisy,
    )
    # The number of rows seeds the draws. Repeats that agree must not change any draw.
    n_rows = len(history) if problem.examples.is_noisy else len(cells.arms)
    if counted:
        cells = cells.with_failures(counted.pulls.arms(), counted.pulls.examples())
    n_examples = problem.examples.n
    if n_examples is not None and problem.examples.inputs == "new":
        n_examples = ENDLESS
    # The best prompt of a relative bound must have a score.
    has_score = np.bincount(history.arms(), minlength=problem.n_arms) > 0
    alive = alive_arms(problem, excluded)
    competing = alive[has_score[alive]]
    return draws.Model(
        cells,
        problem.goal,
        problem.examples.shapes,
        _regressors(problem),
        problem.n_arms,
        n_examples,
        n_rows,
        problem.seed,
        problem.examples.segments,
        _proxies(state),
        competing,
    )


def _proxies(state: State) -> ProxyParts | None:
    """The parts of the proxies' scores. None without scores of proxies."""
    problem, scores = state.problem, state.proxies
    n_examples = problem.examples.n
    if n_examples is None or not len(scores):
        return None
    n_proxies, n_arms = len(problem.proxies), problem.n_arms

    def divided() -> ProxyParts | None:
        cells = [scores.of_cells(proxy) for proxy in range(n_proxies)]
        return ProxyParts.of(
            [CellScores.of(*columns, n_arms, n_examples) for columns in cells]
        )

    return scores.memo.get((n_proxies, n_arms, n_examples), divided)


def _regressors(problem: Problem) -> Regressors | None:
    """The columns of the candidates' factors. None without candidates."""
    candidates = problem.candidates
    if candidates is None:
        return None
    return problem.memo.get("regressors", lambda: of_factors(candidates))
